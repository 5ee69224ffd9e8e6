"""nc.kernel: a user's own OpenCL C, with its parameters checked before it is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import ArgumentError, DeviceError, DTypeError, NetclError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")

CUBE = """
__kernel void cube(__global const float* x, const float scale, __global float* out) {
    const size_t i = get_global_id(0);
    out[i] = scale * x[i] * x[i] * x[i];
}
"""
TWO = """
__kernel void shift(__global const int* x, const int by, __global int* out) {
    out[get_global_id(0)] = x[get_global_id(0)] + by;
}
__kernel void split(__global const float* x, const long n, __global float* low, __global int* high) {
    const long i = get_global_id(0);
    if (i < n) { high[i] = (int)x[i]; low[i] = x[i] - high[i]; }
}
"""
cube = nc.kernel(CUBE)


def gradient(g: Any, x: Any) -> Any:
    return nc.kernel(
        "__kernel void cube_grad(__global const float* g, __global const float* x, __global float* out)"
        "{ const size_t i = get_global_id(0); out[i] = 3 * g[i] * x[i] * x[i]; }"
    )(g, x, out=x.shape)


@pytest.mark.parametrize("size", [1, 7, 64, 100, 70000])
def test_it_runs_exactly_one_work_item_per_element(size: int) -> None:
    host = np.linspace(-1, 1, size, dtype=np.float32)
    out = cube(nc.Tensor.from_host(host), 2.0, out=(size,))
    np.testing.assert_allclose(out.to_host(), 2 * host**3, rtol=1e-6)


def test_views_are_copied_first_and_numpy_scalars_are_numbers() -> None:
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    view = nc.Tensor.from_host(host).T[::-1, 1:]
    np.testing.assert_allclose(cube(view, np.float64(1.0), out=view.shape).to_host(), host.T[::-1, 1:] ** 3, rtol=1e-6)


def test_several_kernels_and_several_results() -> None:
    x = nc.Tensor.from_host(np.array([1.5, 2.25], np.float32))
    low, high = nc.kernel(TWO, "split")(x, 2, out=[(2,), (2,)])
    assert (low.to_host().tolist(), high.to_host().tolist()) == ([0.5, 0.25], [1, 2])
    shifted = nc.kernel(TWO, "shift")(nc.Tensor.from_host(np.array([1, 2], np.int32)), -3, out=2)
    assert shifted.to_host().tolist() == [-2, -1]


def test_it_makes_an_op_with_a_gradient() -> None:
    x = ag.tensor([1.0, 2.0, -3.0], requires_grad=True)
    y = ag.apply_op(lambda v: cube(v, 1.0, out=v.shape), lambda g: [gradient(g, x.value)], x, op_name="cube")
    y.sum().backward()
    assert y.to_host().tolist() == [1.0, 8.0, -27.0]
    assert x.grad.to_host().tolist() == [3.0, 12.0, 27.0]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: cube(x, out=2), ArgumentError, "takes .*float scale; 1 arguments"),
        (lambda x: cube(1.0, 1.0, out=2), ArgumentError, r"float\* x is a tensor's buffer, but float"),
        (lambda x: cube(x, x, out=2), ArgumentError, "float scale is a number, but Tensor"),
        (lambda x: cube(x.astype(np.int32), 1.0, out=2), DTypeError, "float32, but the tensor is int32"),
        (lambda x: cube(x, 1.0, out=(-2,)), ShapeError, "negative"),
        (lambda x: cube(x, 1.0, out=[(2,), (2,)]), ArgumentError, "1 shapes.*2 came"),
        (lambda x: cube(x, 1.0, out=2, size=-1), ArgumentError, "work-items, not -1"),
        (lambda x: nc.kernel(TWO)(x, out=2), ArgumentError, "shift, split"),
        (lambda x: nc.kernel(TWO, "other")(x, out=2), ArgumentError, "shift, split"),
        (lambda x: nc.kernel(TWO, "shift")(x.astype(np.int32), 2.5, out=2), DTypeError, "integer.*2.5"),
        (lambda x: nc.kernel(TWO, "shift")(x.astype(np.int32), 1 << 40, out=2), DTypeError, str(1 << 40)),
        (lambda x: nc.kernel("__kernel void f(__global float* o) { nonsense; }")(out=2), DeviceError, "nonsense"),
        (lambda x: nc.kernel("__kernel void f(__global const float* x) {}")(x, out=2), ArgumentError, "writes nothing"),
        (lambda x: nc.kernel("__kernel void f(__global float2* o) {}")(out=2), ArgumentError, r"o is float2\*"),
    ],
)
def test_misuse_is_refused_before_the_launch(call: Callable[[Any], Any], error: type[NetclError], words: str) -> None:
    with pytest.raises(error, match=words):
        call(nc.Tensor.from_host(np.array([1.0, 2.0], np.float32)))


def test_nothing_is_launched_over_no_elements(on_device: Device) -> None:
    assert cube(nc.zeros(0), 1.0, out=0).to_host().tolist() == []


TWICE = """
import sys
import netcl as nc

nc.use_device(int(sys.argv[1]))
twice = nc.kernel("kernel void twice(global float* out, global const float* a, const float b) {"
                  "const int i = get_global_id(0); out[i] = 2 * a[i] + b; }")
print(twice(nc.Tensor.from_host([1.0, 2.0]), 3, out=(2,)).to_host().tolist())
"""


def test_a_kernel_that_an_earlier_process_left_in_a_cache_runs_too(on_device: Device, python: Any) -> None:
    for _ in range(2):  # Intel's binaries, which pyopencl keeps, do not say what a kernel takes
        done = python(TWICE, str(on_device.index))
        assert done.stdout == "[5.0, 7.0]\n", done.stderr
