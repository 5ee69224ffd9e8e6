"""Rows of a table by number, and rows added up by number: each is the other's transpose.

Many numbers may name one row. Its sum is made by the work-items of that row alone, in the order of the numbers: no
atomics, and the same bits at every run.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.device import Device
from netcl.kernels.source import Operand, ctype, preamble
from netcl.layout import Layout
from netcl.memory import Block


def lookup(device: Device, table: Operand, numbers: Operand, width: int, out: Layout) -> Block:
    """Copy rows; return the buffer of the result.

    Math:    out[i, j] = table[numbers[i], j]
    Shapes:  all contiguous: table (V, width), numbers (N,) int64, out (N, width)
    """
    buffer = device.pool.allocate(out.nbytes)
    if out.size:
        arg_types = (None, None, None, np.int64, np.int64)
        args = [buffer, table.buffer, numbers.buffer, out.size, width]
        device.launch(_source(out.dtype), "lookup", arg_types, out.size, args, out.size)
    return buffer


def add_rows(
    device: Device, rows: Operand, order: Operand, ends: Operand, width: int, out: Layout
) -> Block:  # fmt: skip
    """Add rows up by number; return the buffer of the result.

    Math:    out[v, j] = Σ of rows[order[k], j] over ends[v − 1] ≤ k < ends[v], from 0 for v = 0
    Shapes:  all contiguous: rows (N, width), order (N,) and ends (V,) int64, out (V, width)
    """
    buffer = device.pool.allocate(out.nbytes)
    if out.size:
        arg_types = (None, None, None, None, np.int64, np.int64)
        args = [buffer, rows.buffer, order.buffer, ends.buffer, out.size, width]
        device.launch(_source(out.dtype), "add_rows", arg_types, out.size, args, out.size + rows.layout.size)
    return buffer


@lru_cache(maxsize=16)
def _source(dtype: np.dtype) -> str:
    t = ctype(dtype)
    return f"""{preamble([dtype])}
__kernel void lookup(__global {t}* out, __global const {t}* table, __global const long* numbers, const long n,
                     const long width)
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    out[i] = table[numbers[i / width] * width + i % width];
}}

__kernel void add_rows(__global {t}* out, __global const {t}* rows, __global const long* order,
                       __global const long* ends, const long n, const long width)
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const long v = i / width;
    {t} sum = 0;
    /* Runs of their own, so that the error of a long sum grows by the run. */
    for (long k = v ? ends[v - 1] : 0; k < ends[v];) {{
        {t} run = 0;
        for (const long last = min(k + 256, ends[v]); k < last; k++)
            run += rows[order[k] * width + i % width];
        sum += run;
    }}
    out[i] = sum;
}}
"""
