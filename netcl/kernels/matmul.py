"""Matrix products of operands with any strides, so that a transpose costs nothing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.device import Device
from netcl.kernels.source import Operand, coordinates, ctype, dot, preamble
from netcl.layout import Layout, broadcast_to, collapse


def matmul(device: Device, a: Operand, b: Operand, out: Layout) -> PooledBuffer:
    """Multiply matrices, batch by batch; return the buffer of the result.

    Math:    out[…, i, j] = sum over k of a[…, i, k] b[…, k, j]
    Shapes:  a (*A, n, k), b (*B, k, m), out (*S, n, m), where A and B broadcast to S
    """
    buffer = device.pool.allocate(out.nbytes)
    if not out.size:
        return buffer
    *batch, rows, columns = out.shape
    inner = a.layout.shape[-1]
    left = broadcast_to(a.layout, (*batch, rows, inner))
    right = broadcast_to(b.layout, (*batch, inner, columns))
    lengths, strides = collapse(tuple(batch), [left.element_strides[:-2], right.element_strides[:-2]])
    numbers = (
        out.size, rows, columns, inner,
        left.element_offset, *left.element_strides[-2:], right.element_offset, *right.element_strides[-2:],
        *lengths[1:], *strides[0], *strides[1],
    )  # fmt: skip
    source = _source(a.layout.dtype, b.layout.dtype, out.dtype, len(lengths))
    arg_types = (None, None, None, *[np.int64] * len(numbers))
    work = out.size * max(inner, 1)
    device.launch(source, "matmul", arg_types, out.size, [buffer, a.buffer, b.buffer, *numbers], work)
    return buffer


@lru_cache(maxsize=64)
def _source(a: np.dtype, b: np.dtype, out: np.dtype, rank: int) -> str:
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
