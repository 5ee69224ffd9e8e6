"""A batch of matrix products as its kernels see it: what is multiplied, and how it lies in memory.

Both operands are told alike: by the strides *across* k, over rows of A or columns of B, and *along* k.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netcl.launch import Launch
from netcl.layout import Layout, Shape, broadcast_to, collapse, reshape

_MULTIPLICATIONS_PER_ELEMENT = 64


class Factor(NamedTuple):
    """One operand: its dtype, the place of its first element, and its strides, all counted in elements."""

    dtype: np.dtype
    offset: int
    across: int
    along: int
    steps: Shape
    """From matrix to matrix, for each axis of the batch."""


class Product(NamedTuple):
    """out[…, i, j] = sum over k of a[…, i, k] b[…, k, j]; `out` has no gaps."""

    a: Factor
    b: Factor
    dtype: np.dtype
    rows: int
    columns: int
    inner: int
    batch: Shape

    @property
    def count(self) -> int:
        """How many matrices the result has."""
        return math.prod(self.batch)

    @property
    def multiplications(self) -> int:
        """Multiplications in all."""
        return self.count * self.rows * self.columns * self.inner

    @property
    def work(self) -> int:
        """About how many elements of an elementwise op take as long (see Device.crossover)."""
        return self.multiplications // _MULTIPLICATIONS_PER_ELEMENT

    def turned(self) -> Product:
        """Return the transpose of this product; with one row or one column of results it is the same memory."""
        return Product(self.b, self.a, self.dtype, self.columns, self.rows, self.inner, self.batch)


class Plan(NamedTuple):
    """A prepared product: `multiply` takes the buffers of the result, of A and of B.

    With `pack_a` or `pack_b` an operand is copied first, into so many bytes, and read from there; with `add` the result
    goes into `part_bytes` first, and is added up from there.
    """

    multiply: Launch
    pack_a: Launch | None = None
    bytes_a: int = 0
    pack_b: Launch | None = None
    bytes_b: int = 0
    add: Launch | None = None
    part_bytes: int = 0
    biased: bool = False
    """Whether `multiply` takes one more buffer, of a number for each column, that is added to the result."""


@lru_cache(maxsize=4096)
def arrange(a: Layout, b: Layout, out: Layout) -> tuple[Product, bool]:
    """Find the fewest matrices to multiply, and for a matrix with a vector the order that reads memory in sequence.

    Returns the product, and whether `b` is its left operand.

    Shapes:  a (*A, n, k), b (*B, k, m), out (*S, n, m), where A and B broadcast to S
    """
    *batch, rows, columns = out.shape
    inner = a.shape[-1]
    left, right = broadcast_to(a, (*batch, rows, inner)), broadcast_to(b, (*batch, inner, columns))
    lengths, (a_steps, b_steps) = collapse(tuple(batch), [left.element_strides[:-2], right.element_strides[:-2]])
    if lengths and not any(b_steps):
        # One right operand for all: those on the left are a single matrix, if they lie one below the other.
        tall = reshape(left, (math.prod(batch) * rows, inner))
        if tall is not None:
            left, rows, lengths, a_steps, b_steps = tall, tall.shape[0], (), (), ()
    across, along = left.element_strides[-2:]
    first = Factor(a.dtype, a.element_offset, across, along, a_steps)
    along, across = right.element_strides[-2:]
    second = Factor(b.dtype, b.element_offset, across, along, b_steps)
    product = Product(first, second, out.dtype, rows, columns, inner, lengths)
    if (columns == 1 and first.across == 1 != first.along) or (rows == 1 and second.along == 1 != second.across):
        return product.turned(), True
    return product, False


def batch_axes(rank: int) -> tuple[list[str], list[str], list[str]]:
    """Name a batch's lengths, and A's and B's steps, as they stand in kernels: d0, d1 …, as0 …, bs0 …"""
    lengths, a_steps, b_steps = ([f"{name}{axis}" for axis in range(rank)] for name in ("d", "as", "bs"))
    return lengths, a_steps, b_steps


def batch_names(rank: int) -> list[str]:
    """Return the names of the arguments that tell a kernel of the batch; the first length is never needed."""
    lengths, a_steps, b_steps = batch_axes(rank)
    return [*lengths[1:], *a_steps, *b_steps]


def batch_values(product: Product) -> tuple[int, ...]:
    """Return the values of these arguments."""
    return (*product.batch[1:], *product.a.steps, *product.b.steps)
