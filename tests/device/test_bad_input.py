"""What nobody should pass, and what is only unusual: it is computed rightly or refused in a sentence."""

from __future__ import annotations

import copy
import enum
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn, optim
from netcl.errors import ArgumentError, DeviceError, DTypeError, IndexingError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


class Share(float):
    """A number with a meaning."""


class Gate(enum.IntEnum):
    OPEN = 2


@pytest.mark.parametrize(("number", "plain"), [(Share(0.5), 0.5), (Gate.OPEN, 2)])
@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_a_number_of_a_type_of_its_own_is_the_number(number: Any, plain: Any, dtype: Any) -> None:
    x = nc.Tensor.from_host(np.array([0, 1], dtype))
    assert (x * number).dtype == (x * plain).dtype
    assert (x * number).to_host().tolist() == [0, plain]
    assert (number + x).to_host().tolist() == [plain, plain + 1]


def test_an_integer_too_large_for_a_float_is_refused_or_infinite() -> None:
    x = nc.Tensor.from_host([1.0, -1.0])
    np.testing.assert_array_equal((x * 10**400).to_host(), [np.inf, -np.inf])
    if x.device.has_fp64:
        with pytest.raises(DTypeError, match="1329 bits"):
            ag.mul(x.astype(np.float64), 10**400)


@pytest.mark.parametrize("nested", [lambda x: [x, x], lambda x: [[1.0, x]], lambda x: (x[0], 2.0)])
def test_a_list_of_nodes_is_refused_where_its_graph_would_be_lost(nested: Callable[[Any], Any]) -> None:
    x = ag.tensor([1.0], requires_grad=True)
    for use in (ag.tensor, lambda values: x * values, ag.sum):
        with pytest.raises(DTypeError, match=r"ag\.stack"):
            use(nested(x))
    with pytest.raises(DTypeError, match=r"ag\.stack"):
        ag.grad(lambda x: ag.sum([x, x]))(1.0)
    assert ag.tensor([x.detach(), x.detach()]).shape == (2, 1)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match="inhomogeneous"):
        ag.tensor([[1.0], [1.0, 2.0]])


@pytest.mark.parametrize("axis", [True, 1.0, "0", (None,), [[0]], (0, False)])
@pytest.mark.parametrize("op", ["sum", "max", "var", "softmax", "logsumexp"])
def test_an_axis_that_is_no_integer_is_refused(op: str, axis: Any) -> None:
    with pytest.raises(ShapeError, match="an axis is an integer"):
        getattr(ag, op)(nc.zeros((2, 2)), axis)


@pytest.mark.parametrize("axis", [np.int64(1), np.array(1), np.array([1]), [1]])
def test_an_axis_may_be_an_integer_of_numpys(axis: Any) -> None:
    x = nc.Tensor.from_host([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis).to_host().tolist() == [3.0, 7.0]
    assert nc.zeros(3).transpose(np.int64(0)).shape == (3,)


def test_a_shape_with_a_negative_length_is_refused() -> None:
    for make in (
        lambda: nc.zeros((2, -1)),
        lambda: nc.random.uniform((-1, 3), seed=0),
        lambda: nn.Linear(-1, 3, rng=0),
        lambda: ag.place(nc.zeros(0), (-1,), slice(0, 0)),
    ):
        with pytest.raises(ShapeError, match="negative"):
            make()


@pytest.mark.parametrize("shape", [(10**20,), (2**62, 8), (2**50,)])
def test_more_bytes_than_there_are_is_a_device_error(shape: Any) -> None:
    with pytest.raises(DeviceError, match="bytes"):
        nc.zeros(shape)


def test_a_slice_with_step_0_is_refused() -> None:
    with pytest.raises(ArgumentError, match="step"):
        nc.zeros(3)[::0]


def test_an_unsigned_index_does_not_wrap_around() -> None:
    x = nc.zeros((2, 2))
    huge = np.array([2**64 - 1], np.uint64)
    for use in (lambda: x[huge], lambda: ag.take(x, huge), lambda: ag.one_hot(huge, 3)):
        with pytest.raises(IndexingError, match="18446744073709551615"):
            use()


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_lives_on_a_device_says_how_it_is_stored(how: Callable[[Any], Any]) -> None:
    for x in (nc.zeros(2), ag.tensor([1.0], requires_grad=True)):
        with pytest.raises(TypeError, match="to_host"):
            how(x)


@pytest.mark.parametrize("position", [-1, 1.5, 2**63])
def test_a_generator_refuses_a_position_that_is_none(position: Any) -> None:
    with pytest.raises(ArgumentError, match="position"):
        nc.random.Generator(0, position)


def test_every_byte_of_a_saved_model_may_be_wrong(tmp_path: Path) -> None:
    model, path = nn.Linear(1, 1, rng=0, bias=False), tmp_path / "model.npz"
    model.save(path)
    right = path.read_bytes()
    for i in range(len(right)):
        for wrong in (right[i] ^ 1, right[i] ^ 255):
            path.write_bytes(right[:i] + bytes([wrong]) + right[i + 1 :])
            try:
                model.load(path)
            except (ArgumentError, ShapeError, DTypeError):
                continue  # said so; a byte that holds nothing, as in a time of day, may be any
    assert model.weight.shape == (1, 1)
    with pytest.raises(FileNotFoundError):
        model.load(tmp_path / "none.npz")


def test_an_optimiser_takes_over_a_state_or_none_of_it() -> None:
    optimizer = optim.Adam([ag.tensor([1.0, 2.0], requires_grad=True)])
    state = optimizer.state_dict()
    with pytest.raises(DTypeError, match="complex"):
        optimizer.load_state_dict(state | {"steps": np.array(7), "square.0": np.array([1j, 2])})
    assert (optimizer.steps, optimizer.counts) == (0, [0])


def test_a_kernel_refuses_a_size_that_is_none_and_a_source_without_kernels() -> None:
    ones = nc.kernel("__kernel void ones(__global float* out) { out[get_global_id(0)] = 1; }")
    wrong: list[Any] = [-1, 2.5]
    for size in wrong:
        with pytest.raises(ArgumentError, match="work-items"):
            ones(out=2, size=size)
    for source in ("", "// a kernel\n/* no kernel */", "void helper(__global float* out) { out[0] = 1; }"):
        with pytest.raises(ArgumentError, match="no kernel"):
            nc.kernel(source)(out=1)
    with pytest.raises(ShapeError, match="divide"):
        nn.Conv2d(2, 4, 3, rng=0, groups=0)
