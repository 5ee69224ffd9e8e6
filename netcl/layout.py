"""How the elements of an array lie in its buffer: shape, strides, dtype and offset, and the views that share a buffer.

NumPy itself works out every view, on an array that is never read: its rules for slices, reshapes and broadcasting, and
its refusals, are the ones that users know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.errors import ArgumentError, IndexingError, ShapeError

Shape = tuple[int, ...]
_COPIES_IF_ASKED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # since then `reshape` has the argument `copy`
GRANULE = 64
"""Bytes of a cache line, and of a vector of 16 floats."""

CTYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.bool_): "uchar",
    np.dtype(np.int8): "char",
    np.dtype(np.uint8): "uchar",
    np.dtype(np.int16): "short",
    np.dtype(np.uint16): "ushort",
    np.dtype(np.int32): "int",
    np.dtype(np.uint32): "uint",
    np.dtype(np.int64): "long",
    np.dtype(np.uint64): "ulong",
}
"""The dtypes that a tensor may have, with their names in OpenCL C."""


class Layout:
    """Shape, strides (bytes), dtype and offset (bytes) of an array in a buffer. Interned: equal ones are one object."""

    __slots__ = ("contiguous", "dtype", "nbytes", "ndim", "offset", "room", "shape", "size", "strides")

    def __init__(self, shape: Shape, strides: Shape, dtype: np.dtype, offset: int) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.offset = offset
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.room = room(self.nbytes)
        self.contiguous = self.size == 0 or _in_row_order(shape, strides, dtype.itemsize)

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {self.strides}, {self.dtype}, offset={self.offset})"

    @property
    def single(self) -> bool:
        """Whether all elements are one: kernels read it without strides, by which PoCL vectorises steps of 1 alone.

        >>> Layout((3, 4), (0, 0), np.dtype(np.float32), 8).single
        True
        """
        return not any(step for length, step in zip(self.shape, self.strides, strict=True) if length != 1)

    @property
    def element_strides(self) -> Shape:
        """Strides counted in elements, as kernels index."""
        return tuple(stride // self.dtype.itemsize for stride in self.strides)

    @property
    def element_offset(self) -> int:
        """Offset counted in elements."""
        return self.offset // self.dtype.itemsize


def room(nbytes: int) -> int:
    """Return how many bytes are allocated for `nbytes`: whole cache lines. No kernel relies on what is above `nbytes`.

    >>> room(4), room(257)
    (64, 320)
    """
    return (nbytes + GRANULE - 1) // GRANULE * GRANULE or GRANULE


def _in_row_order(shape: Shape, strides: Shape, itemsize: int) -> bool:
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


_intern = lru_cache(maxsize=1 << 16)(Layout)


@lru_cache(maxsize=1 << 14)
def contiguous(shape: Shape, dtype: np.dtype) -> Layout:
    """Return the row-major layout without gaps.

    Raises: ShapeError for a negative length

    >>> contiguous((2, 3), np.dtype(np.float32)).strides
    (12, 4)
    """
    if any(length < 0 for length in shape):
        raise ShapeError(f"no axis has a negative length, as in {shape}")
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return _intern(shape, tuple(strides), dtype, 0)


def _ghost(layout: Layout) -> np.ndarray:
    """Return an array with this layout whose elements must never be read: it stands for the view arithmetic alone."""
    return np.lib.stride_tricks.as_strided(np.empty(1, layout.dtype), layout.shape, layout.strides)


def _seen(layout: Layout, ghost: np.ndarray, view: np.ndarray) -> Layout:
    moved = view.ctypes.data - ghost.ctypes.data if view.size else 0
    return _intern(view.shape, view.strides, layout.dtype, layout.offset + moved)


@lru_cache(maxsize=1 << 14)
def reshape(layout: Layout, shape: Shape) -> Layout | None:
    """Return the view with another shape, or None where the strides allow none (then the data must be copied first).

    Raises: ShapeError if the number of elements differs, or more than one length is -1.
    """
    wanted = resolve_shape(layout.shape, shape)
    ghost = _ghost(layout)
    view = ghost.view()
    try:
        if _COPIES_IF_ASKED:
            view = ghost.reshape(wanted, copy=False)
        else:
            view.shape = wanted  # which NumPy 2.5 deprecates
    except (ValueError, AttributeError):  # the second is how `shape` says that it would have to copy
        return None
    return _seen(layout, ghost, view)


def resolve_shape(old: Shape, new: Shape) -> Shape:
    """Put the length that -1 stands for into a new shape.

    >>> resolve_shape((2, 6), (-1, 3))
    (4, 3)
    """
    size = math.prod(old)
    unknown = [axis for axis, length in enumerate(new) if length == -1]
    known = math.prod(length for length in new if length != -1)
    fits = len(unknown) <= 1 and all(length >= -1 for length in new)
    if fits and unknown:
        fits = known != 0 and size % known == 0
    if not fits or (not unknown and known != size):
        raise ShapeError(f"reshape: cannot reshape {old} ({size} elements) into {new}")
    return tuple(size // known if length == -1 else length for length in new)


@lru_cache(maxsize=1 << 14)
def transpose(layout: Layout, axes: Shape) -> Layout:
    """Return the view with its axes permuted."""
    return _intern(
        tuple(layout.shape[axis] for axis in axes),
        tuple(layout.strides[axis] for axis in axes),
        layout.dtype,
        layout.offset,
    )


@lru_cache(maxsize=1 << 14)
def broadcast_to(layout: Layout, shape: Shape) -> Layout:
    """Return the view stretched to `shape` by strides of zero.

    Raises: ShapeError naming both shapes where NumPy's rules do not allow it.
    """
    ghost = _ghost(layout)
    try:
        view = np.broadcast_to(ghost, shape)
    except ValueError:
        raise ShapeError(f"broadcast_to: cannot broadcast {layout.shape} to {shape}") from None
    return _intern(view.shape, view.strides, layout.dtype, layout.offset)


@lru_cache(maxsize=1 << 14)
def diagonal(layout: Layout, offset: int, axis1: int, axis2: int) -> Layout:
    """Return the view of a diagonal of two axes, which becomes the last axis.

    >>> diagonal(contiguous((2, 3), np.dtype(np.float32)), 1, 0, 1).strides
    (16,)
    """
    ghost = _ghost(layout)
    return _seen(layout, ghost, np.diagonal(ghost, offset, axis1, axis2))


def index(layout: Layout, key: Any) -> Layout:
    """Return the view that basic indexing gives: integers, slices, `...` and None.

    Raises: IndexingError naming the index and the shape; ArgumentError for a slice with step 0.
    """
    ghost = _ghost(layout)
    keys = key if isinstance(key, tuple) else (key,)
    if not any(one is Ellipsis for one in keys):
        keys = (*keys, Ellipsis)  # with it, integers for every axis give a 0-d view; without, NumPy reads the element
    try:
        view = ghost[keys]
    except IndexError as error:
        raise IndexingError(f"index {key!r} does not fit shape {layout.shape}: {error}") from None
    except ValueError as error:
        raise ArgumentError(f"index {key!r}: {error}") from None
    return _seen(layout, ghost, view)


def broadcast_shapes(op: str, shapes: Sequence[Shape]) -> Shape:
    """Return the shape that NumPy's broadcasting gives, or raise a ShapeError that names the op and every shape."""
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def normalize_axes(op: str, axis: int | Iterable[int] | None, ndim: int) -> Shape:
    """Return axes as sorted, non-negative numbers; None means all of them.

    Raises: ShapeError if an axis is no integer, out of range, or stands twice.

    >>> normalize_axes("sum", -1, 3)
    (2,)
    """
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    several = isinstance(axis, Iterable) and getattr(axis, "ndim", 1)  # NumPy's 0-d arrays only look iterable
    given: tuple[Any, ...] = tuple(axis) if several else (axis,)  # type: ignore[arg-type]
    if not all(hasattr(one, "__index__") and not isinstance(one, bool) for one in given):
        raise ShapeError(f"{op}: an axis is an integer, or a tuple of them, not {axis!r}")
    axes = []
    for one in given:
        if not -ndim <= one < ndim:
            raise ShapeError(f"{op}: axis {one} is out of range for {ndim} dimensions")
        axes.append(int(one) % ndim)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: an axis stands twice in {given}")
    return tuple(sorted(axes))


def collapse(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """Merge neighbouring axes that every operand walks as one, and drop axes of length 1.

    Shapes: each of `strides` has one entry per axis of `shape`; the result has the fewest axes with the same walk.

    >>> collapse((2, 3), [(3, 1), (3, 1)])
    ((6,), ((1,), (1,)))
    """
    axes: list[tuple[int, tuple[int, ...]]] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        steps = tuple(one[axis] for one in strides)
        if axes and all(outer == inner * length for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * length, steps)
        else:
            axes.append((length, steps))
    lengths = tuple(length for length, _ in axes)
    return lengths, tuple(tuple(steps[i] for _, steps in axes) for i in range(len(strides)))
