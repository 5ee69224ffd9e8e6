"""Matrix products of operands with any strides, so that a transpose costs nothing.

Small products run a work-item per element. On CPUs larger ones copy both operands into panels first, rows of A by the
few that a tile takes, columns of B by the width of its vectors, so that the loop over k reads memory in order and keeps
a whole tile of C in registers (Goto & van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.device import Device, Launch
from netcl.kernels.source import Operand, coordinates, ctype, dot, preamble
from netcl.layout import Layout, Shape, broadcast_to, collapse

_PACKED_FROM = 1 << 15  # multiplications, from which copying into panels pays
_MULTIPLICATIONS_PER_ELEMENT = 64  # how many take as long as an element of an elementwise op (see device.CROSSOVER)


class Tile(NamedTuple):
    """How much of C one work-item computes: `rows` by `vectors` vectors of `width` elements, all in registers."""

    rows: int
    vectors: int
    width: int

    @property
    def columns(self) -> int:
        """Columns of C in a tile."""
        return self.vectors * self.width


def _tile(device: Device, dtype: np.dtype) -> Tile | None:
    """Return the tile for a device, or None where packing was not measured to help.

    Of the registers (32 vectors with AVX-512, else 16) three quarters hold the tile, the rest A's and B's elements.
    """
    if device.kind != "CPU" or dtype.kind != "f":
        return None
    first = device.cl_devices[0]
    width = first.native_vector_width_float if dtype == np.float32 else first.native_vector_width_double
    wide = width * dtype.itemsize >= 64
    return Tile(12 if wide else 6, 2, max(width, 2))


def matmul(device: Device, a: Operand, b: Operand, out: Layout) -> PooledBuffer:
    """Multiply matrices, batch by batch; return the buffer of the result.

    Math:    out[…, i, j] = sum over k of a[…, i, k] b[…, k, j]
    Shapes:  a (*A, n, k), b (*B, k, m), out (*S, n, m), where A and B broadcast to S
    """
    buffer = device.pool.allocate(out.nbytes)
    if not out.size:
        return buffer
    tile = _tile(device, out.dtype)
    if tile is None or out.size * a.layout.shape[-1] < _PACKED_FROM:
        device.run(_plain(a.layout, b.layout, out), [buffer, a.buffer, b.buffer])
        return buffer
    plan = _packed(a.layout, b.layout, out, tile)
    panels_a = device.pool.allocate(plan.bytes_a)
    panels_b = device.pool.allocate(plan.bytes_b)
    device.run(plan.pack_a, [panels_a, a.buffer])
    device.run(plan.pack_b, [panels_b, b.buffer])
    device.run(plan.multiply, [buffer, panels_a, panels_b])
    return buffer


def _stretched(a: Layout, b: Layout, out: Layout) -> tuple[Layout, Layout, Shape, tuple[Shape, ...]]:
    """Return both operands with the batch axes of the result, and the batch's lengths and strides, collapsed."""
    *batch, rows, columns = out.shape
    inner = a.shape[-1]
    left = broadcast_to(a, (*batch, rows, inner))
    right = broadcast_to(b, (*batch, inner, columns))
    lengths, strides = collapse(tuple(batch), [left.element_strides[:-2], right.element_strides[:-2]])
    return left, right, lengths, strides


@lru_cache(maxsize=4096)
def _plain(a: Layout, b: Layout, out: Layout) -> Launch:
    left, right, lengths, strides = _stretched(a, b, out)
    statics = (
        out.size, out.shape[-2], out.shape[-1], a.shape[-1],
        left.element_offset, *left.element_strides[-2:], right.element_offset, *right.element_strides[-2:],
        *lengths[1:], *strides[0], *strides[1],
    )  # fmt: skip
    source = _plain_source(a.dtype, b.dtype, out.dtype, len(lengths))
    return Launch(source, "matmul", (None, None, None), statics, out.size, out.size * max(a.shape[-1], 1))


@lru_cache(maxsize=64)
def _plain_source(a: np.dtype, b: np.dtype, out: np.dtype, rank: int) -> str:
    t = ctype(out)
    lengths = [f"d{axis}" for axis in range(rank)]
    a_steps = [f"as{axis}" for axis in range(rank)]
    b_steps = [f"bs{axis}" for axis in range(rank)]
    names = ["n", "rows", "columns", "inner", "ao", "ai", "ak", "bo", "bk", "bj", *lengths[1:], *a_steps, *b_steps]
    return f"""{preamble([a, b, out], contract=True)}
__kernel void matmul(__global {t}* out, __global const {ctype(a)}* a, __global const {ctype(b)}* b,
                     {", ".join(f"const long {name}" for name in names)})
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const long column = i % columns;
    const long row = i / columns % rows;
    const long batch = i / columns / rows;
    {coordinates("batch", lengths)}
    __global const {ctype(a)}* left = a + ao + {dot("batch", a_steps)} + row * ai;
    __global const {ctype(b)}* right = b + bo + {dot("batch", b_steps)} + column * bj;
    {t} sum = 0;
    for (long k = 0; k < inner; k++)
        sum += ({t})left[k * ak] * ({t})right[k * bk];
    out[i] = sum;
}}
"""


class _Packed(NamedTuple):
    pack_a: Launch
    pack_b: Launch
    multiply: Launch
    bytes_a: int
    bytes_b: int


@lru_cache(maxsize=4096)
def _packed(a: Layout, b: Layout, out: Layout, tile: Tile) -> _Packed:
    left, right, lengths, strides = _stretched(a, b, out)
    *batch, rows, columns = out.shape
    inner, count = a.shape[-1], math.prod(batch)
    work = out.size * inner // _MULTIPLICATIONS_PER_ELEMENT
    panels = []
    for layout, steps, length, side, swap in (
        (left, strides[0], rows, tile.rows, False),
        (right, strides[1], columns, tile.columns, True),
    ):
        along, across = layout.element_strides[-2:][::-1] if not swap else layout.element_strides[-2:]
        across_count = -(-length // side)
        statics = (length, inner, across_count, layout.element_offset, across, along, *lengths[1:], *steps)
        source = _pack_source(layout.dtype, out.dtype, side, len(lengths))
        grid = (inner, across_count, count)
        panels.append((Launch(source, "pack", (None, None), statics, math.prod(grid), work, grid=grid), across_count))
    (pack_a, tall), (pack_b, broad) = panels
    multiply = Launch(
        _multiply_source(out.dtype, tile), "multiply", (None, None, None), (rows, columns, inner), tall * broad * count,
        work, grid=(tall, broad, count),
    )  # fmt: skip
    size = out.dtype.itemsize * inner * count
    return _Packed(pack_a, pack_b, multiply, tall * tile.rows * size, broad * tile.columns * size)


@lru_cache(maxsize=64)
def _pack_source(dtype: np.dtype, out: np.dtype, side: int, rank: int) -> str:
    """Write the kernel that copies `side` rows (or columns) at a time into panels, zeros beyond the edge."""
    t = ctype(out)
    lengths = [f"d{axis}" for axis in range(rank)]
    steps = [f"s{axis}" for axis in range(rank)]
    names = ["length", "inner", "panels", "offset", "across", "along", *lengths[1:], *steps]
    return f"""{preamble([dtype, out])}
__kernel void pack(__global {t}* panel, __global const {ctype(dtype)}* x,
                   {", ".join(f"const long {name}" for name in names)})
{{
    const long k = get_global_id(0);
    const long p = get_global_id(1);
    const long batch = get_global_id(2);
    {coordinates("batch", lengths)}
    __global const {ctype(dtype)}* from = x + offset + {dot("batch", steps)} + k * along;
    __global {t}* to = panel + ((batch * panels + p) * inner + k) * {side};
    for (int i = 0; i < {side}; i++)
        to[i] = p * {side} + i < length ? ({t})from[(p * {side} + i) * across] : 0;
}}
"""


@lru_cache(maxsize=16)
def _multiply_source(dtype: np.dtype, tile: Tile) -> str:
    """Write the kernel of one tile, every accumulator a variable, so that all stay in registers."""
    t, width = ctype(dtype), tile.width
    vector = f"{t}{width}"
    rows, vectors = range(tile.rows), range(tile.vectors)
    zeros = "\n    ".join(f"{vector} c{r}_{v} = 0;" for r in rows for v in vectors)
    loads = "\n        ".join(f"const {vector} b{v} = b[{v}];" for v in vectors)
    # `c + a * b` contracts into one fused instruction; OpenCL's fma() would be a call.
    sums = "\n        ".join(f"c{r}_{v} += a[{r}] * b{v};" for r in rows for v in vectors)
    stores = "\n    ".join(f"STORE({r}, {v}, c{r}_{v})" for r in rows for v in vectors)
    return f"""{preamble([dtype], contract=True)}
#define STORE(r, v, c) \\
    if (row + r < rows) {{ \\
        __global {t}* to = out + (batch * rows + row + r) * columns + column + v * {width}; \\
        if (column + (v + 1) * {width} <= columns) vstore{width}(c, 0, to); \\
        else {{ \\
            {t} edge[{width}]; \\
            vstore{width}(c, 0, edge); \\
            for (long j = 0; column + v * {width} + j < columns; j++) to[j] = edge[j]; \\
        }} \\
    }}
__kernel void multiply(__global {t}* out, __global const {t}* panels_a, __global const {vector}* panels_b,
                       const long rows, const long columns, const long inner)
{{
    const long batch = get_global_id(2);
    const long row = get_global_id(0) * {tile.rows};
    const long column = get_global_id(1) * {tile.columns};
    __global const {t}* a = panels_a + (batch * get_global_size(0) + get_global_id(0)) * inner * {tile.rows};
    __global const {vector}* b = panels_b + (batch * get_global_size(1) + get_global_id(1)) * inner * {tile.vectors};
    {zeros}
    for (long k = 0; k < inner; k++) {{
        {loads}
        {sums}
        a += {tile.rows};
        b += {tile.vectors};
    }}
    {stores}
}}
"""
