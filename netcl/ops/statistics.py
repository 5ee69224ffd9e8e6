"""Reductions with more to them than a fold: variance, product, norm, log of a sum of exponentials, running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import kernels
from netcl import layout as lay
from netcl.kernels.along_rows import fits, run_rows
from netcl.ops.dtypes import FLOAT32, INT64
from netcl.ops.elementwise import equal, exp, isfinite, log, sqrt, square, where
from netcl.ops.join import flip, pad
from netcl.ops.reduce import Axis, fold, kept_shape, mean, spread, sum
from netcl.ops.shape import astype, moveaxis, one_axis, reshape, transpose
from netcl.ops.table import structural
from netcl.tensor import Tensor


def _floats(a: Tensor) -> Tensor:
    return a if a.dtype.kind == "f" else astype(a, FLOAT32)


def _freedom(a: Any, axis: Axis, ddof: float) -> float:
    """Return what a variance is divided by: 0 (so that it is NaN or infinite, as in NumPy) for too few elements."""
    axes = lay.normalize_axes("var", axis, len(a.shape))
    return float(np.maximum(math.prod(a.shape[i] for i in axes) - ddof, 0))


def _centred(a: Any, axis: Axis) -> Any:
    return a - mean(a, axis, True)


@structural("a")
def var(a: Tensor, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Tensor:
    """Variance over axes (all of them for None); integers give float32.

    Math:    out = Σ (a − mean(a))² / (n − ddof);  ∂out/∂a = 2 (a − mean(a)) / (n − ddof)
             The mean is taken off first, so that a large one costs no digits. For n ≤ ddof, NaN or infinite.
    Shapes:  as sum
    """
    return sum(square(_centred(_floats(a), axis)), axis, keepdims) / _freedom(a, axis, ddof)


@var.vjp("a", "⊙ 2({a} − mean) / (n − ddof)")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Any:
    return 2.0 * _centred(a, axis) * spread(g, a, axis) / _freedom(a, axis, ddof)


@var.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Any:
    return 2.0 * sum(_centred(a, axis) * tangents[0], axis, keepdims) / _freedom(a, axis, ddof)


@structural("a")
def std(a: Tensor, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Tensor:
    """Standard deviation over axes (all of them for None); integers give float32.

    Math:    out = √var(a);  ∂out/∂a = (a − mean(a)) / ((n − ddof) out)
             Where all elements are equal, out is 0 and has a kink: the subgradient is 0.
    Shapes:  as sum
    """
    return sqrt(var.function(a, axis, keepdims, ddof))


@std.vjp("a", "⊙ ({a} − mean) / ((n − ddof) {out})")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Any:
    return _centred(a, axis) * spread(g / _never_zero(out), a, axis) / _freedom(a, axis, ddof)


@std.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False, ddof: float = 0) -> Any:
    slope = sum(_centred(a, axis) * tangents[0], axis, keepdims)
    return slope / _never_zero(out) / _freedom(a, axis, ddof)


def _never_zero(x: Any) -> Any:
    """Put 1 for 0, where the numerator is 0 too, so that the quotient is 0 and not NaN."""
    return where(equal(x, 0.0), 1.0, x)


@structural("a")
def norm(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Euclidean length over axes (all of them for None, as of one long vector); integers give float32.

    Math:    out = √Σ a²;  ∂out/∂a = a / out
             At 0 there is a kink: the subgradient is 0.
    Shapes:  as sum
    """
    return sqrt(sum(square(_floats(a)), axis, keepdims))


@norm.vjp("a", "⊙ {a} / {out}")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return a * spread(g / _never_zero(out), a, axis)


@norm.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return sum(a * tangents[0], axis, keepdims) / _never_zero(out)


@structural("a")
def logsumexp(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Log of the sum of the exponentials over axes (all of them for None); integers give float32.

    Math:    out = log Σ exp(a) = m + log Σ exp(a − m) with m = max(a);  ∂out/∂a = exp(a − out), the softmax
             Finite wherever the result is. All −∞, or no elements, give −∞, with a gradient of 0.
    Shapes:  as sum
    """
    a = _floats(a)
    axes = lay.normalize_axes("logsumexp", axis, a.ndim)
    if math.prod(a.shape[i] for i in axes) == 0:
        return log(sum(exp(a), axis, keepdims))
    layout = lay.contiguous(kept_shape(a.shape, axes), a.dtype)
    if fits(a.device, (a.layout,), axes):
        total = Tensor(layout, run_rows(a.device, "logsumexp", (a,), layout), a.device)
        return total if keepdims else reshape(total, layout.shape[:-1])
    m = fold("max", a, axes, True, a.dtype)
    m = where(isfinite(m), m, 0.0)
    total = log(sum(exp(a - m), axes, True)) + m
    return total if keepdims else reshape(total, tuple(n for i, n in enumerate(a.shape) if i not in axes))


def _shares(a: Any, out: Any, axis: Axis) -> Any:
    return exp(a - spread(where(equal(out, -math.inf), 0.0, out), a, axis))


@logsumexp.vjp("a", "⊙ softmax of {a}")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    if type(g) is type(out) is type(a) is Tensor and g.dtype == a.dtype and _whole(g) and _whole(out):
        if fits(a.device, (a.layout,), lay.normalize_axes("logsumexp", axis, a.ndim)):
            layout = lay.contiguous(a.shape, a.dtype)
            return Tensor(layout, run_rows(a.device, "logsumexp_vjp", (a, out, g), layout), a.device)
    return _shares(a, out, axis) * spread(g, a, axis)


def _whole(x: Tensor) -> bool:
    return x.layout.contiguous and x.layout.offset == 0


@logsumexp.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return sum(_shares(a, out, axis) * tangents[0], axis, keepdims)


@structural("a")
def prod(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product over axes (all of them for None), as a tree; of no elements it is 1. Integers give int64.

    Math:    ∂out/∂a_i = Π over j ≠ i of a_j, without a division, so right where elements are 0
    Shapes:  as sum
    """
    return fold("prod", a, axis, keepdims, a.dtype if a.dtype.kind == "f" else INT64)


@prod.vjp("a", "⊙ product of the others")
def _(g: Any, out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return _product_of_others(a, axis) * spread(g, a, axis)


@prod.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    return sum(_product_of_others(a, axis) * tangents[0], axis, keepdims)


def _product_of_others(a: Any, axis: Axis) -> Any:
    """Multiply, for every element, all the others over the axes.

    Math:    products of pairs, pairs of pairs … on the way up; on the way down each node hands its child what lies
             outside it times the child's sibling
    """
    axes = lay.normalize_axes("prod", axis, len(a.shape))
    order = (*[i for i in range(len(a.shape)) if i not in axes], *axes)
    moved = transpose(a, order)
    kept = moved.shape[: len(order) - len(axes)]
    length = math.prod(moved.shape[len(kept) :])
    level = reshape(moved, (*kept, length))
    size = 1 << max(length - 1, 0).bit_length()
    level = pad(level, [*[(0, 0)] * len(kept), (0, size - length)], constant_values=1.0)
    pairs = []
    while size > 1:
        size //= 2
        pairs.append(reshape(level, (*kept, size, 2)))
        level = pairs[-1][..., 0] * pairs[-1][..., 1]
    outside = Tensor.full((*kept, 1), 1, a.dtype, a.device)
    for each in reversed(pairs):
        outside = reshape(reshape(outside, (*outside.shape, 1)) * flip(each, -1), (*kept, 2 * each.shape[-2]))
    others = reshape(outside[..., :length], moved.shape)
    return transpose(others, tuple(int(i) for i in np.argsort(order)))


@structural("a", linear=True)
def cumsum(a: Tensor, axis: int | None = None) -> Tensor:
    """Running sum along an axis; None flattens first. Integers give int64.

    Math:    out[j] = Σ of a[k] over k ≤ j;  the transpose sums from the other end
             In blocks, so that the error in float32 does not grow with the length.
    Shapes:  (*S) -> (*S)
    """
    if axis is None:
        return cumsum.function(reshape.function(a, -1), 0)
    at = one_axis("cumsum", axis, a.ndim)
    moved = moveaxis(a, at, -1)
    layout = lay.contiguous(moved.shape, a.dtype if a.dtype.kind == "f" else INT64)
    return moveaxis(Tensor(layout, kernels.scan(a.device, moved, layout), a.device), -1, at)


@cumsum.vjp("a", "sum from the end")
def _(g: Any, out: Any, a: Any, axis: int | None = None) -> Any:
    at = axis or 0
    return reshape(flip(cumsum(flip(g, at), at), at), a.shape)
