"""Ops that move elements without changing them: views where strides allow, copies where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl import layout as lay
from netcl.device import Device
from netcl.errors import ShapeError
from netcl.kernels import Formula, evaluate
from netcl.layout import Shape
from netcl.ops.broadcasting import unbroadcast
from netcl.ops.composite import as_array, composite
from netcl.ops.table import structural
from netcl.tensor import Tensor, check_dtype

_COPY = Formula(ex.Var("a"))


def contiguous(a: Tensor) -> Tensor:
    """Return `a` itself if its elements lie in row-major order from the start of its buffer, else a copy that does."""
    if a.layout.contiguous and a.layout.offset == 0:
        return a
    layout = lay.contiguous(a.shape, a.dtype)
    return Tensor(layout, evaluate(a.device, _COPY, [a], layout, a.dtype), a.device)


def copy_into(result: Tensor, target: lay.Layout, a: Tensor) -> None:
    """Write `a` into a part of a tensor that was just made, and that nothing else can see yet."""
    evaluate(a.device, _COPY, [a], target, target.dtype, result.buffer)


def as_shape(op: str, shape: Any) -> Shape:
    """Return a shape as a tuple of ints; an int stands for a tuple of one."""
    given = (shape,) if isinstance(shape, (int, np.integer)) else shape
    try:
        return tuple(int(length.__index__()) for length in given)
    except (AttributeError, TypeError):
        raise ShapeError(f"{op}: a shape is a tuple of integers, not {shape!r}") from None


@structural("a", linear=True)
def reshape(a: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Give the same elements, in row-major order, another shape; one length may be -1.

    Shapes:  (*S) -> shape, with as many elements; a view unless the strides force a copy
    Raises:  ShapeError naming both shapes
    """
    view = lay.reshape(a.layout, as_shape("reshape", shape))
    if view is None:
        a = contiguous(a)
        view = lay.reshape(a.layout, as_shape("reshape", shape))
        assert view is not None
    return a.view(view)


@reshape.vjp("a", "reshape {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, shape: Any) -> Any:
    return reshape(g, a.shape)


@structural("a", linear=True)
def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permute the axes; None reverses them. A view.

    Math:    out[i_axes[0], i_axes[1], …] = a[i_0, i_1, …]
    Raises:  ShapeError if `axes` is no permutation of the axes
    """
    return a.view(lay.transpose(a.layout, _permutation(a.ndim, axes)))


transpose.aliases = ("permute",)


def _permutation(ndim: int, axes: Sequence[int] | None) -> Shape:
    if axes is None:
        return tuple(reversed(range(ndim)))
    lay.normalize_axes("transpose", axes, ndim)
    if len(axes) != ndim:
        raise ShapeError(f"transpose: {tuple(axes)} does not name all {ndim} axes")
    return tuple(axis % ndim for axis in axes)


@transpose.vjp("a", "transpose {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, axes: Any = None) -> Any:
    return transpose(g, tuple(int(i) for i in np.argsort(_permutation(a.ndim, axes))))


@structural("a", linear=True)
def broadcast_to(a: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Repeat along new axes and axes of length 1, without copying.

    Shapes:  (*S) -> shape, to which S must broadcast
    Raises:  ShapeError naming both shapes
    """
    return a.view(lay.broadcast_to(a.layout, as_shape("broadcast_to", shape)))


@broadcast_to.vjp("a", "sum {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, shape: Any) -> Any:
    return unbroadcast(g, a.shape)


@structural("a", linear=True)
def astype(a: Tensor, dtype: Any) -> Tensor:
    """Convert to another dtype.

    Math:    out[i] = a[i], rounded to the nearest value of a floating-point type, towards zero for integers
    Raises:  DTypeError if the device has no such dtype
    """
    wanted = np.dtype(dtype)
    check_dtype(wanted, a.device)
    if wanted == a.dtype:
        return a
    layout = lay.contiguous(a.shape, wanted)
    return Tensor(layout, evaluate(a.device, _COPY, [a], layout, a.dtype), a.device)


@astype.vjp("a", "as {a.dtype}")
def _(g: Any, out: Any, a: Any, dtype: Any) -> Any:
    return astype(g, a.dtype)


def one_axis(op: str, axis: int, ndim: int) -> int:
    """Return an axis as a non-negative number.

    Raises:  ShapeError if it is out of range

    >>> one_axis("split", -1, 3)
    2
    """
    if not isinstance(axis, (int, np.integer)):
        raise ShapeError(f"{op}: an axis is one integer, not {axis!r}")
    return lay.normalize_axes(op, axis, ndim)[0]


@composite
def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Drop axes of length 1 (all of them for None).

    Raises:  ShapeError if an axis to be dropped has another length

    >>> squeeze(Tensor.from_host([[1.0, 2.0]])).shape
    (2,)
    """
    a = as_array(a)
    ones = [i for i, n in enumerate(a.shape) if n == 1]
    axes = ones if axis is None else lay.normalize_axes("squeeze", axis, len(a.shape))
    if not set(axes) <= set(ones):
        raise ShapeError(f"squeeze: of the axes {axis} of shape {a.shape} not all have length 1")
    return reshape(a, tuple(n for i, n in enumerate(a.shape) if i not in axes))


@composite
def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """Insert axes of length 1, numbered as in the result.

    >>> expand_dims(Tensor.from_host([1.0, 2.0]), (0, -1)).shape
    (1, 2, 1)
    """
    a = as_array(a)
    count = 1 if isinstance(axis, (int, np.integer)) else len(axis)
    axes = lay.normalize_axes("expand_dims", axis, len(a.shape) + count)
    lengths = iter(a.shape)
    return reshape(a, tuple(1 if i in axes else next(lengths) for i in range(len(a.shape) + count)))


@composite
def unsqueeze(a: Any, axis: int) -> Any:
    """Insert an axis of length 1: PyTorch's name of expand_dims."""
    return expand_dims(a, axis)


@composite
def flatten(a: Any) -> Any:
    """Give the elements one axis, in row-major order.

    >>> flatten(Tensor.from_host([[1.0], [2.0]])).shape
    (2,)
    """
    a = as_array(a)
    return reshape(a, (a.size,))


@composite
def ravel(a: Any) -> Any:
    """Give the elements one axis, in row-major order: NumPy's name of flatten."""
    return flatten(a)


@composite
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Exchange two axes.

    >>> swapaxes(Tensor.from_host([[1.0, 2.0]]), 0, 1).shape
    (2, 1)
    """
    a = as_array(a)
    axes = [*range(len(a.shape))]
    i, j = (one_axis("swapaxes", axis, len(axes)) for axis in (axis1, axis2))
    axes[i], axes[j] = j, i
    return transpose(a, tuple(axes))


@composite
def moveaxis(a: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Move axes to other places; the others keep their order.

    Raises:  ShapeError if the numbers of axes differ

    >>> moveaxis(Tensor.from_host([[[1.0, 2.0]]]), -1, 0).shape
    (2, 1, 1)
    """
    a = as_array(a)
    lists = [[one] if isinstance(one, (int, np.integer)) else list(one) for one in (source, destination)]
    froms, tos = ([one_axis("moveaxis", axis, len(a.shape)) for axis in axes] for axes in lists)
    if len(froms) != len(tos) or len({*froms}) != len(froms) or len({*tos}) != len(tos):
        raise ShapeError(f"moveaxis: {source!r} and {destination!r} do not name as many different axes")
    order = [axis for axis in range(len(a.shape)) if axis not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return transpose(a, tuple(order))


def ones_like(a: Tensor, device: Device | None = None) -> Tensor:
    """Return ones of the shape and dtype of `a`."""
    return Tensor.full(a.shape, 1, a.dtype, device or a.device)
