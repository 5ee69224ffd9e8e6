"""Every row of the op table on the device against its NumPy reading: results, and cotangents pulled back.

A new row is tested by being in the table. Layouts of one test are chosen so that they share a kernel, since compiling
takes the time; Hypothesis mixes the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from netcl import autograd as ag
from netcl import expr as ex
from netcl.device import Device
from netcl.errors import DTypeError
from netcl.layout import CTYPES
from netcl.ops import OPS, Row
from netcl.tensor import Tensor

ROWS = [op for op in OPS.values() if isinstance(op, Row)]
Draw = Callable[..., list[np.ndarray]]
RNG = np.random.default_rng
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}
PLAIN = ("plain",) * 3


# The same numbers laid out in other ways


def window(x: np.ndarray) -> tuple[np.ndarray, Any]:
    """An offset, and gaps between the elements of every axis."""
    wide = np.zeros([2 * n + 3 for n in x.shape], x.dtype)
    key = tuple(slice(2, 2 + 2 * n, 2) for n in x.shape)
    wide[key] = x
    return wide, key or ...


def turned(x: np.ndarray) -> tuple[np.ndarray, Any]:
    key = (slice(None, None, -1),) if x.ndim else ...
    return x[key].copy(), key


def on_device(x: Any, layout: str, device: Device) -> Any:
    """Copy an array so that it lies as `layout` says; numbers stay."""
    if not isinstance(x, np.ndarray):
        return x
    if layout == "transposed":
        return Tensor.from_host(x.T.copy(), device=device).T
    if layout == "plain":
        return Tensor.from_host(x, device=device)
    base, key = {"window": window, "turned": turned}[layout](x)
    return Tensor.from_host(base, device=device)[key]


# The NumPy reading


def result_dtype(row: Row, operands: Sequence[Any]) -> np.dtype:
    """The dtype that a row computes in: NumPy's, but float32 is as wide as integers, and a number is as its array."""
    chosen = [x for arg, x in zip(row.args, operands, strict=True) if arg != row.mask]
    dtypes = {x.dtype for x in chosen if isinstance(x, np.ndarray)}
    numbers = {type(x) for x in chosen if not isinstance(x, np.ndarray)}
    if np.dtype(np.float64) in dtypes:
        return np.dtype(np.float64)
    if np.dtype(np.float32) in dtypes or float in numbers or not row.keeps_integers:
        return np.dtype(np.float32)
    together = np.result_type(*dtypes) if dtypes else np.dtype(bool)
    return np.dtype(np.int64) if together.kind == "b" and int in numbers else together


def reading(e: ex.Expr, row: Row, operands: Sequence[Any], more: dict[str, Any]) -> np.ndarray:
    """Evaluate in the row's own integers, or in float64."""
    work = result_dtype(row, operands)
    wide = np.float64 if work.kind == "f" else work
    env = {
        arg: np.asarray(x) != 0 if arg == row.mask else np.asarray(x).astype(wide)
        for arg, x in zip(row.args, operands, strict=True)
    }
    with np.errstate(all="ignore"):
        return np.asarray(ex.evaluate(e, env | more))


def unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


def check(row: Row, device: Device, operands: Sequence[Any], layouts: Sequence[str]) -> None:
    """Compare the result and, for every float operand, the cotangent that backward pulls back to it."""
    given_ = [on_device(x, layout, device) for x, layout in zip(operands, layouts, strict=False)]
    leaves = [
        ag.tensor(x, requires_grad=True) if isinstance(x, Tensor) and x.dtype.kind == "f" and arg in row.partials else x
        for arg, x in zip(row.args, given_, strict=True)
    ]
    out = row(*leaves)
    work = result_dtype(row, operands)
    assert out.dtype == (np.dtype(bool) if row.returns_bool else work)
    expected = reading(row.expr, row, operands, {})
    assert out.shape == np.broadcast_shapes(*(np.shape(x) for x in operands))
    if out.dtype.kind != "f":
        np.testing.assert_array_equal(out.to_host(), expected.astype(out.dtype))
        return
    tolerance = TOLERANCE[work]
    np.testing.assert_allclose(out.to_host(), expected, tolerance, tolerance)
    nodes = {arg: leaf for arg, leaf in zip(row.args, leaves, strict=True) if isinstance(leaf, ag.Node)}
    if not nodes:
        return
    g = RNG(7).uniform(0.5, 1.5, out.shape).astype(work)
    ag.Tape().backward(out, Tensor.from_host(g, device=device))
    for arg, leaf in nodes.items():
        with np.errstate(all="ignore"):
            product = g.astype(np.float64) * reading(row.partials[arg], row, operands, {"out": expected})
        assert leaf.grad is not None and leaf.grad.dtype == leaf.dtype
        loose = max(tolerance, TOLERANCE[leaf.dtype]) * max(1, out.size // max(leaf.size, 1))
        np.testing.assert_allclose(leaf.grad.to_host(), unbroadcast(product, leaf.shape), loose, loose, err_msg=arg)


def double(device: Device) -> Any:
    return np.float64 if device.has_fp64 else np.float32


# Comparisons take numbers and mixed dtypes by the same code; Hypothesis tries them below.
DIFFERENTIABLE_PAIRS = [row for row in ROWS if len(row.partials) > 1]


def as_dtype(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Convert numbers drawn from a domain; a negative one has no meaning in an unsigned dtype."""
    kind = np.dtype(dtype).kind
    whole = x if kind == "f" else np.rint(abs(x) if kind == "u" else x)
    return np.asarray(x > 0 if kind == "b" else whole, dtype)


def of_rows(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


# Each row


@of_rows(ROWS)
def test_strides_offsets_and_broadcasting(device: Device, row: Row, draw: Draw) -> None:
    shapes = [(3, 4), (4,), (3, 1)][: len(row.args)]
    for turn, layouts in enumerate([("transposed", "turned", "window"), ("window", "window", "turned")]):
        first = turn % len(shapes)
        operands = draw(row, RNG(turn), shapes[first:] + shapes[:first], np.float32)
        check(row, device, operands, layouts)


@of_rows(ROWS)
def test_doubles_of_any_rank_and_none(device: Device, row: Row, draw: Draw) -> None:
    for shape in [(2, 3), (), (0, 3), (2, 0)]:
        check(row, device, draw(row, RNG(3), shape, double(device)), PLAIN)


@of_rows(ROWS)
def test_poles_kinks_and_what_is_not_finite(device: Device, row: Row) -> None:
    """What OpenCL's functions and the simplified partials give at the edges is what the written row gives in NumPy."""
    points = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.inf, -math.inf, math.nan]
    grid = np.array(list(itertools.product(points, repeat=len(row.args))), double(device))
    check(row, device, list(grid.T.copy()), PLAIN)


@of_rows(DIFFERENTIABLE_PAIRS)
def test_a_number_in_the_place_of_each_operand(device: Device, row: Row, draw: Draw) -> None:
    for arg in row.partials:
        i = row.args.index(arg)
        operands: list[Any] = draw(row, RNG(4), (2, 3), np.float32)
        for number in (float(operands[i].flat[0]), 1):
            operands[i] = number
            check(row, device, operands, PLAIN)


@of_rows(DIFFERENTIABLE_PAIRS)
def test_float32_beside_float64(device: Device, row: Row, draw: Draw) -> None:
    if not device.has_fp64:
        pytest.skip(f"{device.name} has no float64")
    dtypes = itertools.cycle([np.float64, np.float32])
    operands = draw(row, RNG(5), (2, 3))
    mixed = [x if arg == row.mask else as_dtype(x, next(dtypes)) for arg, x in zip(row.args, operands, strict=True)]
    check(row, device, mixed, PLAIN)


@of_rows([row for row in ROWS if row.keeps_integers])
def test_integers_stay_integers(device: Device, row: Row, draw: Draw) -> None:
    check(row, device, [as_dtype(3 * x, np.int32) for x in draw(row, RNG(6), (2, 3))], PLAIN)


@of_rows([row for row in ROWS if row.mask])
def test_a_mask_of_any_dtype_chooses_where_it_is_not_0(device: Device, row: Row) -> None:
    """Converted to the dtype of the other operands, 0.25 and 256 would be 0."""
    masks: list[Any] = [np.array([0.25, 0, np.nan, -0.25], np.float32), np.array([256, 0, 1, -512], np.int32), 0.5]
    for mask in masks:
        values = iter(np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8))
        check(row, device, [mask if arg == row.mask else next(values) for arg in row.args], PLAIN)


# All rows, mixed


@settings(max_examples=100)
@given(data=st.data())
def test_any_shapes_dtypes_and_layouts(device: Device, draw: Draw, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(ROWS))
    count = len(row.args)
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, min_side=0, max_side=4))
    known = [dtype for dtype in CTYPES if dtype != np.float64 or device.has_fp64]
    dtypes = data.draw(st.lists(st.sampled_from(known), min_size=count, max_size=count))
    layouts = data.draw(st.lists(st.sampled_from(["plain", "transposed", "window", "turned"]), min_size=3, max_size=3))
    drawn = draw(row, RNG(data.draw(st.integers(0, 9))), list(shapes.input_shapes))
    operands: list[Any] = [as_dtype(x, dtype) for x, dtype in zip(drawn, dtypes, strict=True)]
    number = data.draw(st.integers(0, 2 * count))
    if count > 1 and number < count and operands[number].size and row.args[number] != row.mask:
        operands[number] = data.draw(st.sampled_from([float, int]))(operands[number].flat[0])
    try:
        check(row, device, operands, layouts)
    except DTypeError:
        with pytest.raises(TypeError):
            getattr(np, row.aliases[0])(*operands)
