"""Convolutions without windows copied out, against their formula and against the way over windows."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.device import Device
from netcl.kernels import convolve
from netcl.kernels.unfold import Windows, prepare
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on_device")

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 8, 9, 16), (12, 8, 3, 3), {"padding": 1}),
    ((3, 9, 5, 11), (7, 9, 3, 2), {"padding": (0, 1)}),
    ((1, 16, 12, 33), (5, 16, 5, 5), {"padding": 2}),
    ((2, 16, 8, 17), (8, 8, 3, 3), {"padding": 1, "groups": 2}),
    ((2, 24, 6, 10), (3, 8, 1, 1), {"groups": 3}),
    ((4, 10, 4, 12), (6, 10, 1, 1), {}),
    ((1, 8, 14, 20), (9, 8, 3, 3), {"dilation": 2, "padding": 2}),
    ((2, 8, 14, 20), (9, 8, 3, 3), {"dilation": (1, 3), "padding": (1, 2)}),
    ((2, 8, 15, 16), (6, 8, 3, 3), {"stride": (2, 1), "padding": 1}),
    ((2, 8, 15, 18), (6, 8, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 8, 9, 16), (6, 8, 2, 2), {"padding": 2}),
    ((2, 3, 9, 16), (40, 3, 3, 3), {"padding": 1}),
    ((5, 8, 9, 8), (64, 8, 2, 1), {}),
]
"""Images, filters and settings. Each is large enough for at least one of the three kernels; the others take windows."""

Made = tuple[np.ndarray, np.ndarray, np.ndarray]


def gradients(images: np.ndarray, filters: np.ndarray, settings: dict[str, Any], cut: int = 0) -> Made:
    """The result and both gradients; `cut` makes the images a view of something larger."""
    n, c, h, w = images.shape
    around = np.full((n, c, h + cut, w + 2 * cut), np.nan, images.dtype)
    around[:, :, cut:, cut : cut + w] = images
    whole = ag.tensor(around, requires_grad=True)
    f = ag.tensor(filters, requires_grad=True)
    out = ag.conv2d(whole[:, :, cut:, cut : cut + w], f, **settings)
    seed = np.random.default_rng(7).normal(size=out.shape).astype(images.dtype)
    ag.Tape().backward(out, Tensor.from_host(seed))
    return out.to_host(), whole.grad.to_host()[:, :, cut:, cut : cut + w], f.grad.to_host()


@pytest.mark.parametrize(
    ("case", "dtype"), [*((case, np.float32) for case in CASES), *((case, np.float64) for case in CASES[::4])], ids=str
)
def test_the_same_as_by_windows(
    device: Device, case: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch, load_test: Callable[[str], ModuleType]
) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    of_images, of_filters, settings = case
    rng = np.random.default_rng(0)
    images, filters = (rng.normal(size=shape).astype(dtype) for shape in (of_images, of_filters))
    served: list[bool] = []
    serves = convolve.serves
    monkeypatch.setattr(convolve, "serves", lambda *args: served.append(serves(*args)) or served[-1])
    direct = gradients(images, filters, settings)
    viewed = gradients(images, filters, settings, cut=3)
    assert any(served) == (device.kind == "CPU")
    monkeypatch.setattr(convolve, "serves", lambda *args: False)
    windows = gradients(images, filters, settings)
    groups = settings.get("groups", 1)
    rest = {name: value for name, value in settings.items() if name != "groups"}
    reading = load_test("test_structural.py").conv2d
    exact = reading(images.astype(np.float64), filters.astype(np.float64), groups, **rest)
    size = 3e2 * np.finfo(dtype).eps
    assert np.allclose(direct[0], exact, rtol=size, atol=size * np.abs(exact).max())
    for one, other, view in zip(direct, windows, viewed, strict=True):
        assert np.allclose(one, other, rtol=size, atol=size * np.abs(other).max())
        assert np.array_equal(one, view)


def test_infinity_stays_where_its_windows_are() -> None:
    """What lies beside a row in memory, and the border of zeros, are not multiplied with what is not finite."""
    images = np.ones((1, 8, 9, 16), np.float32)
    images[0, 3, 4, 0] = np.inf
    filters = np.ones((4, 8, 3, 3), np.float32)
    out, _, of_filters = gradients(images, filters, {"padding": 1})
    touched = np.zeros((9, 16), bool)
    touched[3:6, 0:2] = True
    assert np.array_equal(np.isinf(out[0, 0]), touched)
    assert not np.isnan(out).any()
    assert np.array_equal(~np.isfinite(of_filters[0]).all((1, 2)), np.arange(8) == 3)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(
    "settings",
    [((3, 3), (1, 1), (1, 1), (1, 1)), ((2, 5), (2, 3), (0, 4), (1, 1)), ((2, 3), (3, 1), (1, 2), (2, 3))],
    ids=str,
)
def test_windows_by_row_and_by_element(
    device: Device, settings: Any, by_row: bool, load_test: Callable[[str], ModuleType]
) -> None:
    """CPUs take a row at a time and GPUs an element: both here, whatever the device is."""
    kernel, stride, padding, dilation = settings
    array = np.random.default_rng(0).normal(size=(2, 9, 21)).astype(np.float32)
    expect = load_test("test_structural.py").unfold(array, kernel, stride, padding, dilation, 0.5)
    windows = Windows((9, 21), kernel, expect.shape[-2:], stride, padding, dilation)
    x, out = Tensor.from_host(array), Tensor.empty(expect.shape, array.dtype, device)
    device.run(prepare("unfold", x.layout, windows, out.layout, by_row), (out.buffer, x.buffer), (0.5,))
    assert np.array_equal(out.to_host(), expect)
    g, back = Tensor.from_host(expect), Tensor.empty(array.shape, array.dtype, device)
    device.run(prepare("fold", g.layout, windows, back.layout, by_row), (back.buffer, g.buffer), (0.0,))
    exact = load_test("test_structural.py").fold(expect, (9, 21), stride, padding, dilation)
    assert np.allclose(back.to_host(), exact, atol=1e-5)
