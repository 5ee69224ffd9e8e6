"""Diagonals and triangles of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import layout as lay
from netcl.errors import ShapeError
from netcl.ops.composite import as_array, composite
from netcl.ops.elementwise import where
from netcl.ops.reduce import sum
from netcl.ops.shape import as_shape, copy_into, one_axis
from netcl.ops.table import structural
from netcl.tensor import Tensor


@structural("a", linear=True)
def diagonal(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Take the diagonal of two axes, which becomes the last axis. A view.

    Math:    out[…, i] = a[i, i + offset, …]; for a negative offset a[i − offset, i, …]
    Raises:  ShapeError if there are not two different axes
    """
    return a.view(_diagonal(a.layout, offset, axis1, axis2))


def _diagonal(layout: lay.Layout, offset: int, axis1: int, axis2: int) -> lay.Layout:
    first, second = (one_axis("diagonal", axis, layout.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diagonal: axes {axis1} and {axis2} of shape {layout.shape} are the same")
    return lay.diagonal(layout, offset, first, second)


@diagonal.vjp("a", "place on the diagonal of zeros {a.shape}")
def _(g: Any, out: Any, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return place_diagonal(g, a.shape, offset, axis1, axis2)


@structural("a", linear=True)
def place_diagonal(a: Tensor, shape: Sequence[int], offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return zeros of `shape` with `a` on the diagonal of two axes: the transpose of diagonal.

    Raises:  ShapeError if `a` has not the shape of that diagonal
    """
    result = Tensor.full(as_shape("place_diagonal", shape), 0, a.dtype, a.device)
    target = _diagonal(result.layout, offset, axis1, axis2)
    if target.shape != a.shape:
        raise ShapeError(f"place_diagonal: {a.shape} does not fit a diagonal of shape {target.shape} in {result.shape}")
    copy_into(result, target, a)
    return result


@place_diagonal.vjp("a", "take the diagonal")
def _(g: Any, out: Any, a: Any, shape: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return diagonal(g, offset, axis1, axis2)


@composite
def diag(a: Any, k: int = 0) -> Any:
    """Make a matrix with a vector on its diagonal number k, or take that diagonal from a matrix.

    >>> diag(Tensor.from_host([1.0, 2.0])).to_host()
    array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    a = as_array(a)
    if len(a.shape) == 2:
        return diagonal(a, k)
    if len(a.shape) != 1:
        raise ShapeError(f"diag: a vector or a matrix is wanted, not shape {a.shape}")
    side = a.shape[0] + abs(k)
    return place_diagonal(a, (side, side), k)


@composite
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Sum of a diagonal.

    >>> trace(Tensor.from_host([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    return sum(diagonal(a, offset, axis1, axis2), -1)


def _triangle(op: str, a: Tensor, k: int, lower: bool) -> Tensor:
    """Keep the elements on one side of diagonal number k."""
    if a.ndim < 2:
        raise ShapeError(f"{op}: a matrix or a stack of them is wanted, not shape {a.shape}")
    below = np.tri(a.shape[-2], a.shape[-1], k if lower else k - 1).astype(np.bool_)
    return where(Tensor.from_host(below if lower else ~below, device=a.device), a, 0)


@structural("a", linear=True)
def tril(a: Tensor, k: int = 0) -> Tensor:
    """Lower triangle of the last two axes: 0 above diagonal number k.

    Math:    out[…, i, j] = a[…, i, j] where j ≤ i + k, else 0
    Raises:  ShapeError if there are not two axes
    """
    return _triangle("tril", a, k, True)


@structural("a", linear=True)
def triu(a: Tensor, k: int = 0) -> Tensor:
    """Upper triangle of the last two axes: 0 below diagonal number k.

    Math:    out[…, i, j] = a[…, i, j] where j ≥ i + k, else 0
    Raises:  ShapeError if there are not two axes
    """
    return _triangle("triu", a, k, False)


@tril.vjp("a", "keep the lower triangle")
def _(g: Any, out: Any, a: Any, k: int = 0) -> Any:
    return tril(g, k)


@triu.vjp("a", "keep the upper triangle")
def _(g: Any, out: Any, a: Any, k: int = 0) -> Any:
    return triu(g, k)
