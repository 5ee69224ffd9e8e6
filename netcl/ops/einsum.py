"""Products of arrays told by subscripts, made of matrix products, sums and diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.errors import ArgumentError, ShapeError
from netcl.layout import Shape
from netcl.ops.composite import as_array, composite
from netcl.ops.diagonals import diagonal
from netcl.ops.linalg import matmul
from netcl.ops.reduce import sum
from netcl.ops.shape import one_axis, reshape, transpose

Labels = tuple[str, ...]  # one per axis: a letter, or ....0, ....1 … for those of the ellipsis


@composite
def einsum(subscripts: str, *operands: Any) -> Any:
    """Multiply arrays and sum, as subscripts say: "ij,jk->ik" is a matrix product.

    Math:    out[the subscripts after ->] = Σ over all others of the product of the operands
             Without -> the result has the subscripts that occur once, in alphabetical order, after those of `...`.
             Operands are taken in pairs from the left: one matrix product each, batched over shared subscripts.
    Shapes:  a subscript is one axis everywhere; a length of 1 stretches, as in NumPy
    Raises:  ArgumentError for subscripts that are none, ShapeError naming a subscript whose lengths differ

    >>> from netcl import autograd as ag
    >>> einsum("ij,j->i", ag.tensor([[1.0, 2.0], [3.0, 4.0]]), ag.tensor([1.0, 10.0])).to_host()
    array([21., 43.], dtype=float32)
    """
    arrays = [as_array(a) for a in operands]
    terms, out = _parse(subscripts, [a.shape for a in arrays])
    sizes = _sizes(subscripts, terms, [a.shape for a in arrays])
    if unknown := [label for label in out if label not in sizes or out.count(label) > 1]:
        raise ArgumentError(f"einsum: {unknown[0]!r} after -> in {subscripts!r} stands in no operand, or twice")
    parts = [_distinct(subscripts, a, labels, sizes) for a, labels in zip(arrays, terms, strict=True)]
    result, labels = parts[0]
    for i, (other, its) in enumerate(parts[1:], 2):
        wanted = {*out, *(label for _, rest in parts[i:] for label in rest)}
        left = _sum_out(result, labels, {*its, *wanted})
        result, labels = _multiply(*left, *_sum_out(other, its, {*labels, *wanted}), wanted)
    result, labels = _sum_out(result, labels, {*out})
    return _arrange(result, labels, out)


def _parse(subscripts: str, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """Return the labels of every operand and of the result."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    texts = left.split(",")
    for text in [*texts, right]:
        if wrong := [c for c in text.replace("...", "", 1) if not (c.isascii() and c.isalpha())]:
            raise ArgumentError(f"einsum: {wrong[0]!r} in {subscripts!r} is no subscript; they are letters and one ...")
    if len(texts) != len(shapes):
        raise ArgumentError(f"einsum: {subscripts!r} is for {len(texts)} operands, but {len(shapes)} came")
    terms = [_labels(subscripts, text, shape) for text, shape in zip(texts, shapes, strict=True)]
    dots = sorted({label for term in terms for label in term if len(label) > 1}, key=lambda label: -int(label[3:]))
    if arrow:
        if dots and "..." not in right:  # no letter names these axes, so nothing says that they are summed
            raise ArgumentError(f"einsum: the axes of ... in {subscripts!r} are missing after ->, where ... must stand")
        return terms, (*_spelled(right, dots),)
    every = [label for term in terms for label in term if len(label) == 1]
    return terms, (*dots, *sorted(label for label in {*every} if every.count(label) == 1))


def _labels(subscripts: str, text: str, shape: Shape) -> Labels:
    missing = len(shape) - len(text.replace("...", "", 1))
    if missing < 0 or (missing and "..." not in text):
        raise ShapeError(f"einsum: {text!r} in {subscripts!r} does not name the axes of an operand of shape {shape}")
    return _spelled(text, [f"...{i}" for i in reversed(range(missing))])


def _spelled(text: str, dots: Sequence[str]) -> Labels:
    before, ellipsis, after = text.partition("...")
    return (*before, *(dots if ellipsis else ()), *after)


def _sizes(subscripts: str, terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif n not in (known, 1):
                name = "..." if len(label) > 1 else label
                raise ShapeError(f"einsum: subscript {name!r} in {subscripts!r} has lengths {known} and {n}")
    return sizes


def _distinct(subscripts: str, a: Any, labels: Labels, sizes: dict[str, int]) -> tuple[Any, Labels]:
    """Take the diagonal where a label stands twice, and drop axes that are only stretched."""
    while repeated := next((label for label in labels if labels.count(label) > 1), None):
        first = labels.index(repeated)
        second = labels.index(repeated, first + 1)
        if a.shape[first] != a.shape[second]:
            raise ShapeError(
                f"einsum: subscript {repeated!r} in {subscripts!r} has lengths {a.shape[first]} and {a.shape[second]}"
            )
        a = diagonal(a, 0, first, second)
        labels = (*(label for i, label in enumerate(labels) if i not in (first, second)), repeated)
    kept = [i for i, label in enumerate(labels) if a.shape[i] == sizes[label]]
    return _reshaped(a, tuple(a.shape[i] for i in kept)), tuple(labels[i] for i in kept)


def _sum_out(a: Any, labels: Labels, wanted: set[str]) -> tuple[Any, Labels]:
    """Sum over the labels that nothing else has."""
    axes = tuple(i for i, label in enumerate(labels) if label not in wanted)
    return (sum(a, axes) if axes else a), tuple(label for label in labels if label in wanted)


def _multiply(a: Any, of_a: Labels, b: Any, of_b: Labels, wanted: set[str]) -> tuple[Any, Labels]:
    """Multiply two arrays, and sum over the shared labels that nobody wants any more."""
    both = tuple(label for label in of_a if label in of_b)
    batch = tuple(label for label in both if label in wanted)
    inner = tuple(label for label in both if label not in wanted)
    rows = tuple(label for label in of_a if label not in of_b)
    columns = tuple(label for label in of_b if label not in of_a)
    length = dict(zip(of_a, a.shape, strict=True)) | dict(zip(of_b, b.shape, strict=True))
    lengths = [tuple(length[label] for label in labels) for labels in (batch, rows, columns, inner)]
    a, b = _arrange(a, of_a, (*batch, *rows, *inner)), _arrange(b, of_b, (*batch, *inner, *columns))
    shared, n, m, k = lengths[0], *(math.prod(each) for each in lengths[1:])
    if inner:
        product = matmul(_reshaped(a, (*shared, n, k)), _reshaped(b, (*shared, k, m)))
    else:
        product = _reshaped(a, (*shared, n, 1)) * _reshaped(b, (*shared, 1, m))
    return _reshaped(product, (*shared, *lengths[1], *lengths[2])), (*batch, *rows, *columns)


def _arrange(a: Any, labels: Labels, wanted: Labels) -> Any:
    return a if labels == wanted else transpose(a, tuple(labels.index(label) for label in wanted))


def _reshaped(a: Any, shape: Shape) -> Any:
    return a if a.shape == shape else reshape(a, shape)


@composite
def tensordot(a: Any, b: Any, axes: int | Sequence[Any] = 2) -> Any:
    """Sum products over some axes of both: the last and first `axes`, or those named for each.

    Shapes:  the other axes of `a`, then those of `b`
    Raises:  ShapeError naming both shapes

    >>> tensordot(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32), 1).shape
    (2, 4)
    """
    a, b = as_array(a), as_array(b)
    if isinstance(axes, (int, np.integer)):
        axes = range(len(a.shape) - axes, len(a.shape)), range(axes)
    lists: list[Any] = [[one] if isinstance(one, (int, np.integer)) else [*one] for one in axes]
    left, right = ([one_axis("tensordot", i, len(x.shape)) for i in one] for x, one in zip((a, b), lists, strict=True))
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ShapeError(f"tensordot: axes {left} of {a.shape} and {right} of {b.shape} differ in length")
    rows = [i for i in range(len(a.shape)) if i not in left]
    columns = [i for i in range(len(b.shape)) if i not in right]
    inner = math.prod(a.shape[i] for i in left)
    shape = (*(a.shape[i] for i in rows), *(b.shape[i] for i in columns))
    n, m = (math.prod(x.shape[i] for i in kept) for x, kept in ((a, rows), (b, columns)))
    matrices = reshape(transpose(a, (*rows, *left)), (n, inner)), reshape(transpose(b, (*right, *columns)), (inner, m))
    return reshape(matmul(*matrices), shape)


@composite
def dot(a: Any, b: Any) -> Any:
    """Inner product of vectors, matrix product of matrices, and in general the sum over the last axis of `a` and the
    second to last of `b`, as NumPy's dot.

    >>> dot(np.float32([1, 2]), np.float32([3, 4])).item()
    11.0
    """
    a, b = as_array(a), as_array(b)
    if not a.shape or not b.shape:
        return a * b
    if len(a.shape) <= 2 and len(b.shape) <= 2:
        return matmul(a, b)
    return tensordot(a, b, (-1, max(len(b.shape) - 2, 0)))


@composite
def outer(a: Any, b: Any) -> Any:
    """Every product of an element of `a` and one of `b`.

    Math:    out[i, j] = a[i] b[j], of the flattened arrays

    >>> outer(np.float32([1, 2]), np.float32([3, 4])).to_host()
    array([[3., 4.],
           [6., 8.]], dtype=float32)
    """
    a, b = as_array(a), as_array(b)
    return reshape(a, (a.size, 1)) * reshape(b, (1, b.size))
