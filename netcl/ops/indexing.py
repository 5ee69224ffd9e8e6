"""Indexing: views for integers and slices, copies for arrays of integers or truth values; and its transpose.

NumPy's rules hold. Arrays in an index are read on the host, from the device if they are there: an index out of range is
an error at the call, and the shape that a mask gives depends on its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from netcl import layout as lay
from netcl.errors import IndexingError, ShapeError
from netcl.kernels import lookup
from netcl.layout import Shape
from netcl.methods import ArrayMethods
from netcl.ops.composite import as_array, composite
from netcl.ops.shape import as_shape, contiguous, copy_into, flatten, one_axis, transpose
from netcl.ops.table import structural
from netcl.tensor import Tensor


class Plan(NamedTuple):
    """An index with arrays, taken apart: a basic index, then arrays along some axes of the view that it gives."""

    basic: tuple[Any, ...]
    order: Shape  # the axes of the view, those with arrays first
    indexed: Shape  # lengths of the axes with arrays
    rest: Shape  # lengths of the others
    numbers: np.ndarray  # the indices as one row number each, axes of `indexed` in row-major order
    first: int  # the axis of the result where the axes of `numbers` stand

    def back(self, leading: int) -> Shape:
        """Return the permutation that brings the first `leading` axes of an array to the place `first`."""
        others = range(leading, leading + len(self.rest))
        return (*others[: self.first], *range(leading), *others[self.first :])


@structural("a", linear=True)
def getitem(a: Tensor, key: Any) -> Tensor:
    """Index as NumPy does: integers, slices, `...` and None give a view; arrays of integers or truth values a copy.

    Math:    out[i] = a[key(i)]; where several i read one element, its cotangent is the sum of theirs, in their order,
             so that the bits are the same at every run
    Raises:  IndexingError naming the index and the shape
    """
    key = frozen(key)
    if not _has_arrays(key):
        return a.view(lay.index(a.layout, key))
    plan = _plan(a.shape, key)
    rows = contiguous(transpose.function(getitem.function(a, plan.basic), plan.order))
    shape = (*plan.numbers.shape, *plan.rest)
    layout = lay.contiguous(shape, a.dtype)
    numbers = Tensor.from_host(plan.numbers.reshape(-1), device=a.device)
    buffer = lookup.lookup(a.device, rows, numbers, int(np.prod(plan.rest, dtype=np.int64)), layout)
    return transpose.function(Tensor(layout, buffer, a.device), plan.back(plan.numbers.ndim))


@getitem.vjp("a", "add into zeros {a.shape}", reads="")
def _(g: Any, out: Any, a: Any, key: Any) -> Any:
    return place(g, a.shape, key)


@structural("a", linear=True)
def place(a: Tensor, shape: Sequence[int], key: Any) -> Tensor:
    """Return zeros of `shape` with `a` at the index `key`, summed where an element is named twice: getitem transposed.

    Math:    out[j] = Σ of a[i] over all i with key(i) = j
    Raises:  ShapeError if `a` has not the shape of the indexed part
    """
    key, shape = frozen(key), as_shape("place", shape)
    if not _has_arrays(key):
        result = Tensor.full(shape, 0, a.dtype, a.device)
        target = lay.index(result.layout, key)
        _check_fit(a.shape, target.shape, shape, key)
        copy_into(result, target, a)
        return result
    plan = _plan(shape, key)
    leading = plan.numbers.ndim
    back = plan.back(leading)
    wide = (*plan.numbers.shape, *plan.rest)
    _check_fit(a.shape, tuple(wide[axis] for axis in back), shape, key)
    rows = contiguous(transpose.function(a, _inverse(back)))
    total = _add_up(rows, plan)
    placed = transpose.function(total, _inverse(plan.order))
    whole = all(one == slice(None) for one in plan.basic)
    return placed if whole else place.function(placed, shape, plan.basic)


def _add_up(rows: Tensor, plan: Plan) -> Tensor:
    """Sum the rows that have one number; (*numbers, *rest) -> (*indexed, *rest)."""
    flat = plan.numbers.reshape(-1)
    order = np.argsort(flat, kind="stable")
    count = int(np.prod(plan.indexed, dtype=np.int64))
    ends = np.searchsorted(flat[order], np.arange(count), side="right")
    layout = lay.contiguous((*plan.indexed, *plan.rest), rows.dtype)
    order, ends = (Tensor.from_host(each.astype(np.int64), device=rows.device) for each in (order, ends))
    width = int(np.prod(plan.rest, dtype=np.int64))
    return Tensor(layout, lookup.add_rows(rows.device, rows, order, ends, width, layout), rows.device)


@place.vjp("a", "take from {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, shape: Any, key: Any) -> Any:
    return getitem(g, key)


def _inverse(axes: Sequence[int]) -> Shape:
    return tuple(int(axis) for axis in np.argsort(axes))


def _check_fit(given: Shape, wanted: Shape, shape: Shape, key: Any) -> None:
    if given != wanted:
        raise ShapeError(f"place: {given} does not fit index {key!r} of {shape}, which has shape {wanted}")


def frozen(key: Any) -> Any:
    """Return an index whose arrays are on the host and nobody else's: a change of the original later changes nothing.

    Raises:  IndexingError for what is no index
    """
    if type(key) is not tuple:
        return _frozen_entry(key)
    return tuple([_frozen_entry(one) for one in key])


def _frozen_entry(one: Any) -> Any:
    if one is None or one is Ellipsis or isinstance(one, slice):
        return one
    if isinstance(one, (int, np.integer)) and not isinstance(one, bool):
        return int(one)
    if isinstance(one, np.ndarray) and not one.flags.writeable and one.base is None and one.dtype.kind in "ib":
        return one  # frozen before
    if isinstance(one, ArrayMethods):
        array = one.to_host()
    elif isinstance(one, (list, np.ndarray)):
        array = np.array(one, np.int64) if isinstance(one, list) and not one else np.array(one)
    else:
        raise _no_index(one)
    if array.dtype.kind not in "iub" or (array.dtype.kind == "b" and not array.ndim):
        raise _no_index(one)
    array = array if array.dtype.kind == "b" else _int64(array)
    array.flags.writeable = False
    return array


def _int64(array: np.ndarray) -> np.ndarray:
    """Return a copy as int64; a uint64 above its range must not come out negative, and count from the end."""
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexingError(f"index {array.max()} is out of range for any axis")
    return array.astype(np.int64)


def _no_index(one: Any) -> IndexingError:
    if isinstance(one, (bool, np.bool_)) or getattr(one, "dtype", None) == np.bool_:
        # NumPy would add an axis, of length 0 for False; but most of these were meant to be masks.
        return IndexingError(
            f"the index is one truth value ({one!r}), and no mask: `x == 0` asks whether x is that object, and "
            "ag.equal(x, 0) compares elements; x[None] adds an axis"
        )
    dtype = f" of {one.dtype}" if isinstance(one, (ArrayMethods, np.ndarray)) else ""
    return IndexingError(
        "an index is made of integers, slices, ..., None, and arrays of integers or truth values, not "
        f"{type(one).__name__}{dtype} ({one!r})"
    )


def _has_arrays(key: Any) -> bool:
    return any(isinstance(one, np.ndarray) for one in (key if isinstance(key, tuple) else (key,)))


def _plan(shape: Shape, key: Any) -> Plan:
    """Take an index with arrays apart, after NumPy's rules for where the axes of the result go."""
    entries = _expand(shape, key if isinstance(key, tuple) else (key,))
    # An integer beside arrays counts as one of them.
    where = [i for i, one in enumerate(entries) if isinstance(one, (int, np.ndarray))]
    basic = tuple([slice(None) if i in where else one for i, one in enumerate(entries)])
    view = lay.index(lay.contiguous(shape, np.dtype(np.bool_)), basic).shape
    indexed = tuple(view[i] for i in where)
    others = [i for i in range(len(view)) if i not in where]
    arrays = [_in_range(entries[i], view[i], key, shape) for i in where]
    try:
        together = np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise IndexingError(f"index arrays of shapes {shapes} do not broadcast, for shape {shape}") from None
    numbers = np.zeros(together[0].shape, np.int64)
    for array, length in zip(together, indexed, strict=True):
        numbers = numbers * length + array
    adjacent = where == [*range(where[0], where[-1] + 1)]
    return Plan(
        basic, (*where, *others), indexed, tuple(view[i] for i in others), numbers, where[0] if adjacent else 0
    )  # fmt: skip


def _expand(shape: Shape, key: tuple[Any, ...]) -> list[Any]:
    """Write out `...`, and each mask as the arrays of the places where it is true: one entry per axis, None aside."""
    taken = sum([one.ndim if _is_mask(one) else int(one is not None and one is not Ellipsis) for one in key])
    if taken > len(shape) or sum(one is Ellipsis for one in key) > 1:
        raise IndexingError(f"index {key!r} does not fit shape {shape}: it names {taken} axes, or has ... twice")
    if not any(one is Ellipsis for one in key):
        key = (*key, Ellipsis)
    entries: list[Any] = []
    axis = 0
    for one in key:
        if one is Ellipsis:
            entries += [slice(None)] * (len(shape) - taken)
            axis += len(shape) - taken
        elif _is_mask(one):
            if one.shape != shape[axis : axis + one.ndim]:
                raise IndexingError(
                    f"a mask of shape {one.shape} does not fit axes {shape[axis : axis + one.ndim]} of shape {shape}"
                )
            entries += one.nonzero()
            axis += one.ndim
        else:
            entries.append(one)
            axis += one is not None
    return entries


def _is_mask(one: Any) -> bool:
    return isinstance(one, np.ndarray) and one.dtype.kind == "b"


def _in_range(entry: Any, length: int, key: Any, shape: Shape) -> np.ndarray:
    """Count negative indices from the end, and refuse those that are out of range."""
    array = np.asarray(entry)
    wrong = array[(array < -length) | (array >= length)]
    if wrong.size:
        raise IndexingError(f"index {int(wrong.flat[0])} is out of range for an axis of {length}, in shape {shape}")
    return np.where(array < 0, array + length, array)


@composite
def take(a: Any, indices: Any, axis: int | None = None) -> Any:
    """Pick slices along an axis by number; None picks elements of the flattened array.

    Shapes:  (*A, n, *B), integers (*S) -> (*A, *S, *B)
    Raises:  IndexingError for an index out of range, or indices that are no integers

    >>> take(Tensor.from_host([10.0, 20.0, 30.0]), [2, 0, 2]).to_host()
    array([30., 10., 30.], dtype=float32)
    """
    a = flatten(a) if axis is None else as_array(a)
    at = one_axis("take", axis or 0, len(a.shape))
    return getitem(a, (*[slice(None)] * at, integers("take", indices)))


@composite
def take_along_axis(a: Any, indices: Any, axis: int = -1) -> Any:
    """Pick one element per index along an axis, the other coordinates being those of the index itself.

    Math:    out[i, j, k] = a[i, indices[i, j, k], k] for axis 1
    Shapes:  as many axes as `a` has; all but `axis` broadcast against it
    Raises:  IndexingError as take, ShapeError if the axes do not fit

    >>> take_along_axis(Tensor.from_host([[1.0, 2.0], [3.0, 4.0]]), [[1], [0]], 1).to_host()
    array([[2.],
           [3.]], dtype=float32)
    """
    a = as_array(a)
    at = one_axis("take_along_axis", axis, len(a.shape))
    numbers = integers("take_along_axis", indices)
    if numbers.ndim != len(a.shape):
        raise ShapeError(f"take_along_axis: indices {numbers.shape} and array {a.shape} have not as many axes")
    grid = np.ix_(*[np.arange(n) for n in a.shape])
    shape = lay.broadcast_shapes("take_along_axis", [_but(numbers.shape, at), _but(a.shape, at)])
    wide = np.broadcast_to(numbers, (*shape[:at], numbers.shape[at], *shape[at + 1 :]))
    return getitem(a, frozen(tuple(wide if i == at else each for i, each in enumerate(grid))))


@composite
def gather(a: Any, axis: int, indices: Any) -> Any:
    """Pick one element per index along an axis: take_along_axis with PyTorch's name and order of arguments."""
    return take_along_axis(a, indices, axis)


def _but(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def integers(op: str, indices: Any) -> np.ndarray:
    """Return indices as an array on the host.

    Raises:  IndexingError if they are no integers
    """
    array = indices.to_host() if isinstance(indices, ArrayMethods) else np.asarray(indices)
    if array.dtype.kind not in "iu" and array.size:
        raise IndexingError(f"{op}: indices are integers, not {array.dtype}")
    return _frozen_entry(_int64(array))


@composite
def one_hot(indices: Any, classes: int, dtype: Any = np.float32) -> Tensor:
    """Write each index as a vector with a 1 in its place.

    Shapes:  integers (*S) -> (*S, classes)
    Raises:  IndexingError for an index that is no class; negative ones do not count from the end here

    >>> one_hot([1, 0], 3).to_host()
    array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    numbers = integers("one_hot", indices)
    wrong = numbers[(numbers < 0) | (numbers >= classes)]
    if wrong.size:
        raise IndexingError(f"one_hot: {int(wrong.flat[0])} is no class: there are {classes}, from 0")
    device = indices.device if isinstance(indices, Tensor) else None
    return Tensor.from_host((numbers[..., None] == np.arange(classes)).astype(dtype), device=device)
