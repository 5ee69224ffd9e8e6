"""Ops that fold axes away."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import layout as lay
from netcl.errors import ShapeError
from netcl.kernels import reduce
from netcl.layout import Shape
from netcl.ops.composite import as_array, composite
from netcl.ops.dtypes import BOOL, FLOAT32, INT64
from netcl.ops.elementwise import equal, isnan, logical_or, not_equal, sub, where
from netcl.ops.shape import astype, broadcast_to, one_axis, reshape
from netcl.ops.table import structural
from netcl.tensor import Tensor

Axis = int | Sequence[int] | None


def kept_shape(shape: Shape, axes: Shape) -> Shape:
    """Return the shape with length 1 in place of the reduced axes, so that it broadcasts against the operand.

    >>> kept_shape((2, 3, 4), (1,))
    (2, 1, 4)
    """
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


def fold(kind: str, a: Tensor, axis: Axis, keepdims: bool, dtype: np.dtype, divisor: int | None = None) -> Tensor:
    """Run one of the reduction kernels over some axes; with a `divisor`, divide the result by it."""
    axes = lay.normalize_axes(kind, axis, a.ndim)
    shape = kept_shape(a.shape, axes) if keepdims else tuple([n for i, n in enumerate(a.shape) if i not in axes])
    layout = lay.contiguous(shape, dtype)
    return Tensor(layout, reduce(a.device, kind, a, axes, layout, divisor), a.device)


def spread(g: Any, a: Any, axis: Axis) -> Any:
    """Repeat a reduced array along the axes that were reduced: the transpose of sum."""
    return broadcast_to(reshape(g, kept_shape(a.shape, lay.normalize_axes("sum", axis, len(a.shape)))), a.shape)


@structural("a", linear=True)
def sum(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over axes (all of them for None), as a tree, so that float32 stays accurate.

    Math:    out[kept] = Σ over the reduced indices of a[kept, reduced]; of no elements it is 0
    Shapes:  (*S) -> S without the axes, or with 1 in their place (keepdims)
    Raises:  ShapeError if an axis is out of range or stands twice
    """
    dtype = a.dtype if a.dtype.kind == "f" else INT64
    return fold("sum", a, axis, keepdims, dtype)


@sum.vjp("a", "spread {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return spread(g, a, axis)


@structural("a", linear=True)
def mean(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Average over axes (all of them for None); integers give float32. The mean of no elements is NaN, with a warning.

    Math:    out[kept] = Σ a[kept, reduced] / n, where n is the number of reduced indices
    Shapes:  as sum
    """
    count = _count(a, axis)
    if not count:
        warnings.warn(f"mean: shape {a.shape} has no elements along axis {axis}: NaN", RuntimeWarning, stacklevel=2)
    values = a if a.dtype.kind == "f" else astype(a, FLOAT32)
    return fold("sum", values, axis, keepdims, values.dtype, count)


def _count(a: Any, axis: Axis) -> int:
    axes = lay.normalize_axes("mean", axis, len(a.shape))
    return math.prod([a.shape[i] for i in axes])


@mean.vjp("a", "spread {out.shape} → {a.shape}, ÷ {count}")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return spread(g, a, axis) / float(_count(a, axis))


def _extreme(kind: str, a: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = lay.normalize_axes(kind, axis, a.ndim)
    if 0 in (a.shape[i] for i in axes):
        raise ShapeError(f"{kind}: shape {a.shape} has no elements along axis {axis}, so there is no {kind}")
    return fold(kind, a, axis, keepdims, a.dtype)


def _route(g: Any, out: Any, a: Any, axis: Axis) -> Any:
    """Share a cotangent among the entries that equal the extreme value."""
    winners = astype(equal(a, spread(out, a, axis)), g.dtype)
    return winners * spread(g, a, axis) / sum(winners, axis, True)


def _pick(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    winners = astype(equal(a, spread(out, a, axis)), tangents[0].dtype)
    return sum(winners * tangents[0], axis, keepdims) / sum(winners, axis, keepdims)


@structural("a")
def max(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Largest element over axes (all of them for None). NaN wins, as in NumPy.

    Math:    out[kept] = max over the reduced indices of a[kept, reduced]
             Where k elements tie, each has the local derivative 1/k: a subgradient whose parts sum to 1.
    Shapes:  as sum
    Raises:  ShapeError if there are no elements to choose from
    """
    return _extreme("max", a, axis, keepdims)


@structural("a")
def min(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Smallest element over axes (all of them for None); otherwise as max."""
    return _extreme("min", a, axis, keepdims)


max.jvp(_pick)
min.jvp(_pick)


@max.vjp("a", "route to the winner")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return _route(g, out, a, axis)


@min.vjp("a", "route to the winner")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return _route(g, out, a, axis)


def _first(name: str, extreme: Any, a: Any, axis: int | None, keepdims: bool) -> Any:
    """Return the smallest index at which the extreme value stands, or the first NaN, as NumPy does."""
    a = as_array(a).detach()
    if axis is None:
        found = _first(name, extreme, reshape(a, (a.size,)), 0, False)
        return reshape(found, (1,) * len(a.shape)) if keepdims else found
    at = one_axis(name, axis, len(a.shape))
    length = a.shape[at]
    if not length:
        raise ShapeError(f"{name}: shape {a.shape} has no elements along axis {axis}")
    column = np.arange(length, dtype=np.int64).reshape(-1, *[1] * (len(a.shape) - at - 1))
    numbers = Tensor.from_host(column, device=a.device)
    wins = logical_or(equal(a, extreme(a, at, True)), isnan(a))
    return min(where(wins, numbers, length), at, keepdims)


@composite
def argmax(a: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Index of the largest element, the first of several, along an axis or in the flattened array; int64, no gradient.

    >>> argmax(Tensor.from_host([1.0, 3.0, 3.0])).item()
    1
    """
    return _first("argmax", max, a, axis, keepdims)


@composite
def argmin(a: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Index of the smallest element, the first of several, along an axis or in the flattened array; int64, no gradient.

    >>> argmin(Tensor.from_host([3.0, 1.0, 1.0])).item()
    1
    """
    return _first("argmin", min, a, axis, keepdims)


@composite
def any(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether some element over axes (all of them for None) is not 0; NaN is not 0. False if there are none.

    >>> any(Tensor.from_host([False, True])).item()
    True
    """
    return sum(not_equal(a, 0), axis, keepdims) > 0


@composite
def all(a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether no element over axes (all of them for None) is 0. True if there are none.

    >>> all(Tensor.from_host([False, True])).item()
    False
    """
    return equal(sum(equal(a, 0), axis, keepdims), 0)


def is_finite(a: Tensor) -> bool:
    """Say whether no element is NaN or infinite; reads one number back.

    >>> is_finite(Tensor.from_host([1.0, float("nan")]))
    False
    """
    if a.dtype == BOOL or a.dtype.kind in "iu" or not a.size:
        return True
    # x − x is 0 for finite x and NaN otherwise, and NaN survives the sum. The plain functions, not the ops: those ask
    # this very question under detect_anomaly.
    return bool(np.isfinite(sum.function(sub.function(a, a)).to_host()))
