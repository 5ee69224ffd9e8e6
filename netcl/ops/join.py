"""Ops that put arrays together, take them apart, and move their elements about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import layout as lay
from netcl.errors import ArgumentError, DeviceError, ShapeError
from netcl.layout import Shape
from netcl.ops.composite import as_array, composite
from netcl.ops.dtypes import common
from netcl.ops.indexing import getitem, place, take
from netcl.ops.reduce import sum
from netcl.ops.shape import astype, broadcast_to, copy_into, expand_dims, flatten, one_axis, reshape
from netcl.ops.table import structural
from netcl.tensor import Tensor, check_dtype


@structural("arrays")
def concatenate(*arrays: Tensor, axis: int = 0) -> Tensor:
    """Join arrays along an axis that they have: concatenate((a, b), axis).

    Shapes:  (*S, n, *T), (*S, m, *T) … -> (*S, n + m + …, *T)
    Raises:  ShapeError naming the shapes if another axis differs, or there is nothing to join
    """
    if not arrays or not arrays[0].ndim:
        raise ShapeError(f"concatenate: {'0-d arrays have no axis to join along' if arrays else 'nothing to join'}")
    axis = one_axis("concatenate", axis, arrays[0].ndim)
    first = arrays[0].shape
    if any(a.ndim != len(first) or _without(a.shape, axis) != _without(first, axis) for a in arrays):
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ShapeError(f"concatenate: shapes {shapes} differ on another axis than {axis}")
    if any(a.device is not arrays[0].device for a in arrays):
        raise DeviceError(f"concatenate: the arrays are on {' and '.join(a.device.name for a in arrays)}")
    dtype = common([a.dtype for a in arrays], [], integers=True)
    check_dtype(dtype, arrays[0].device)
    slices = _slices(arrays, axis)
    shape = (*first[:axis], slices[-1][axis].stop, *first[axis + 1 :])
    result = Tensor.empty(shape, dtype, arrays[0].device)
    for a, key in zip(arrays, slices, strict=True):
        copy_into(result, lay.index(result.layout, key), a)
    return result


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _slices(arrays: Sequence[Any], axis: int) -> list[tuple[slice, ...]]:
    """Return where each array stands in the joined one."""
    ends = np.cumsum([a.shape[axis] for a in arrays]).tolist()
    return [
        (*[slice(None)] * axis, slice(end - a.shape[axis], end)) for a, end in zip(arrays, ends, strict=True)
    ]  # fmt: skip


@concatenate.vjp("arrays", "take its slice")
def _(i: int, g: Any, out: Any, *arrays: Any, axis: int = 0) -> Any:
    axis = one_axis("concatenate", axis, len(out.shape))
    return _typed(getitem(g, _slices(arrays, axis)[i]), arrays[i])


@concatenate.jvp
def _(tangents: Sequence[Any], out: Any, *arrays: Any, axis: int = 0) -> Any:
    return concatenate([_moving(t, a) for t, a in zip(tangents, arrays, strict=True)], axis)


def _typed(g: Any, a: Any) -> Any:
    return g if g.dtype == a.dtype else astype(g, a.dtype)


def _moving(tangent: Any, a: Any) -> Any:
    """Return a tangent, and zeros in the place of none."""
    return Tensor.full(a.shape, 0, a.dtype, a.device) if tangent is None else tangent


@structural("arrays")
def stack(*arrays: Tensor, axis: int = 0) -> Tensor:
    """Join arrays of one shape along a new axis: stack((a, b), axis).

    Shapes:  k times (*S) -> S with k inserted as number `axis`
    Raises:  ShapeError naming the shapes if they differ
    """
    if len({a.shape for a in arrays}) != 1:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ShapeError(f"stack: {f'shapes {shapes} differ' if arrays else 'nothing to join'}")
    at = one_axis("stack", axis, arrays[0].ndim + 1)
    return concatenate.function(*[expand_dims(a, at) for a in arrays], axis=at)


@stack.vjp("arrays", "take its slice")
def _(i: int, g: Any, out: Any, *arrays: Any, axis: int = 0) -> Any:
    return _typed(getitem(g, (*[slice(None)] * one_axis("stack", axis, len(out.shape)), i)), arrays[i])


@stack.jvp
def _(tangents: Sequence[Any], out: Any, *arrays: Any, axis: int = 0) -> Any:
    return stack([_moving(t, a) for t, a in zip(tangents, arrays, strict=True)], axis)


@composite
def split(a: Any, sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Take an array apart along an axis: into equal parts, or at the given places. Views.

    Raises:  ShapeError if the axis does not divide into so many parts

    >>> [part.to_host() for part in split(Tensor.from_host([1.0, 2.0, 3.0]), [1])]
    [array([1.], dtype=float32), array([2., 3.], dtype=float32)]
    """
    a = as_array(a)
    axis = one_axis("split", axis, len(a.shape))
    length = a.shape[axis]
    if isinstance(sections, (int, np.integer)):
        if sections < 1 or length % sections:
            raise ShapeError(f"split: an axis of {length} does not divide into {sections} equal parts")
        ends = [*range(length // sections, length, length // sections)] if length else [0] * (int(sections) - 1)
    else:
        ends = [int(end) for end in sections]
    bounds = zip([0, *ends], [*ends, length], strict=True)
    return [a[(*[slice(None)] * axis, slice(start, end))] for start, end in bounds]


@composite
def flip(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Turn the order of the elements along axes around (all of them for None). A view.

    >>> flip(Tensor.from_host([1.0, 2.0])).to_host()
    array([2., 1.], dtype=float32)
    """
    a = as_array(a)
    axes = lay.normalize_axes("flip", axis, len(a.shape))
    return a[tuple([slice(None, None, -1 if i in axes else 1) for i in range(len(a.shape))])]


Widths = int | Sequence[int] | Sequence[Sequence[int]]


@structural("a")
def pad(a: Tensor, pad_width: Widths, mode: str = "constant", constant_values: float = 0) -> Tensor:
    """Put a margin around an array: a constant, or its own elements ("edge", "reflect", "symmetric", "wrap").

    Shapes:  pad_width is one number, (before, after), or such a pair for every axis, as in NumPy;
             (…, n, …) -> (…, before + n + after, …)
    Raises:  ShapeError if the widths are negative or not for these axes, ArgumentError for another mode
    """
    inner, shape, widths = _padding(a.shape, pad_width)
    if mode != "constant":
        return getitem.function(a, _margins(a.shape, widths, mode))
    result = Tensor.full(shape, constant_values, a.dtype, a.device)
    copy_into(result, lay.index(result.layout, inner), a)
    return result


def _padding(shape: Shape, pad_width: Widths) -> tuple[tuple[slice, ...], Shape, list[list[int]]]:
    """Return where the array stands in the padded one, the shape of that, and the widths of each axis."""
    try:
        widths = np.broadcast_to(np.asarray(pad_width, np.int64), (len(shape), 2)).tolist()
    except (ValueError, TypeError):
        raise ShapeError(f"pad: widths {pad_width!r} do not give a pair for each axis of {shape}") from None
    if any(width < 0 for pair in widths for width in pair):
        raise ShapeError(f"pad: widths are not negative, but {pad_width!r} came")
    inner = tuple([slice(before, before + n) for (before, _), n in zip(widths, shape, strict=True)])
    return inner, tuple([before + n + after for (before, after), n in zip(widths, shape, strict=True)]), widths


def _margins(shape: Shape, widths: list[list[int]], mode: str) -> tuple[np.ndarray, ...]:
    """Return the index that reads an array with margins of its own elements: NumPy pads the numbers of each axis."""
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise ArgumentError(f'pad: mode is "constant", "edge", "reflect", "symmetric" or "wrap", not {mode!r}')
    if any(n == 0 and pair != [0, 0] for n, pair in zip(shape, widths, strict=True)):
        raise ShapeError(f"pad: an axis without elements has none to fill a margin with, in shape {shape}")
    return np.ix_(*[np.pad(np.arange(n), pair, mode) for n, pair in zip(shape, widths, strict=True)])  # type: ignore


@pad.vjp("a", "sum the copies {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, pad_width: Widths, mode: str = "constant", constant_values: float = 0) -> Any:
    inner, _, widths = _padding(a.shape, pad_width)
    return getitem(g, inner) if mode == "constant" else place(g, a.shape, _margins(a.shape, widths, mode))


@pad.jvp
def _(
    tangents: Sequence[Any], out: Any, a: Any, pad_width: Widths, mode: str = "constant", constant_values: float = 0
) -> Any:
    return pad(tangents[0], pad_width, mode)


@structural("a", linear=True)
def roll(a: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Move elements along axes; those that leave at one end enter at the other. None rolls the flattened array.

    Math:    out[(i + shift) mod n] = a[i]
    Raises:  ArgumentError if there is not one shift for each axis
    """
    if axis is None:
        return reshape.function(roll.function(reshape.function(a, -1), shift, 0), a.shape)
    axes = [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, (int, np.integer)) else list(shift)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts came for {len(axes)} axes")
    for one, number in zip(axes, shifts, strict=True):
        at = one_axis("roll", one, a.ndim)
        cut = -number % a.shape[at] if a.shape[at] else 0
        if cut:
            before = [slice(None)] * at
            a = concatenate.function(
                *[getitem.function(a, (*before, part)) for part in (slice(cut, None), slice(None, cut))], axis=at
            )
    return a


@roll.vjp("a", "roll back")
def _(g: Any, out: Any, a: Any, shift: Any, axis: Any = None) -> Any:
    return roll(g, -shift if isinstance(shift, (int, np.integer)) else [-one for one in shift], axis)


@structural("a", linear=True)
def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Repeat a whole array along its axes.

    Shapes:  (n, m) with reps (r, s) -> (r n, s m); the shorter of shape and reps is filled up with 1s on the left
    """
    lengths, counts = _tiling(a.shape, reps)
    wide = [n for pair in zip(counts, lengths, strict=True) for n in pair]
    seen = reshape.function(a, [n for length in lengths for n in (1, length)])
    tiles = broadcast_to.function(seen, wide)
    return reshape.function(tiles, [count * n for count, n in zip(counts, lengths, strict=True)])


def _tiling(shape: Shape, reps: int | Sequence[int]) -> tuple[Shape, Shape]:
    counts = tuple([int(one) for one in ([reps] if isinstance(reps, (int, np.integer)) else reps)])
    if any(count < 0 for count in counts):
        raise ShapeError(f"tile: repetitions are not negative, but {reps!r} came")
    missing = len(counts) - len(shape)
    return (1,) * missing + shape, (1,) * -missing + counts


@tile.vjp("a", "sum the copies {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, reps: Any) -> Any:
    lengths, counts = _tiling(a.shape, reps)
    apart = reshape(g, [n for pair in zip(counts, lengths, strict=True) for n in pair])
    return reshape(sum(apart, tuple(range(0, 2 * len(counts), 2))), a.shape)


@composite
def repeat(a: Any, repeats: int | Sequence[int] | np.ndarray, axis: int | None = None) -> Any:
    """Repeat each element along an axis, each as often or by its own number; None flattens first.

    >>> repeat(Tensor.from_host([1.0, 2.0]), [1, 2]).to_host()
    array([1., 2., 2.], dtype=float32)
    """
    a = flatten(a) if axis is None else as_array(a)
    axis = one_axis("repeat", axis or 0, len(a.shape))
    try:
        numbers = np.repeat(np.arange(a.shape[axis]), repeats)
    except ValueError:
        raise ShapeError(f"repeat: {repeats!r} does not give a number for each of {a.shape[axis]} elements") from None
    return take(a, numbers, axis)
