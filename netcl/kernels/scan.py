"""Running sums: blocks are summed, the sums are scanned in the same way, and each block runs on from the one before.

The work is linear in the length. The error grows with the block and the number of levels, not with the length.
Source: Blelloch (1990), Prefix Sums and Their Applications
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.device import Device
from netcl.kernels.source import Operand, Part, coordinates, ctype, dot, preamble
from netcl.layout import Layout, collapse, contiguous
from netcl.memory import Block

_BLOCK = 64  # elements that one work-item adds up in turn


def scan(device: Device, x: Operand, out: Layout) -> Block:
    """Add up `x` along its last axis; return the buffer of the running sums.

    Math:    out[…, j] = Σ of x[…, k] over k ≤ j
    Shapes:  x (*S, n), out the same, contiguous
    """
    buffer = device.pool.allocate(out.nbytes)
    if not out.size:
        return buffer
    *kept, length = out.shape
    blocks = (length + _BLOCK - 1) // _BLOCK
    rows = out.size // length
    steps = x.layout.element_strides
    lengths, (strides,) = collapse(tuple(kept), [steps[:-1]])
    numbers = (rows * blocks, blocks, length, x.layout.element_offset, steps[-1], *lengths[1:], *strides)
    arg_types = (None, None, None, *[np.int64] * len(numbers))
    source = _source(x.layout.dtype, out.dtype, len(lengths))
    before = buffer  # with one block it is not read
    if blocks > 1:
        layout = contiguous((rows, blocks), out.dtype)
        sums = device.pool.allocate(layout.nbytes)
        device.launch(source, "block_sums", arg_types, rows * blocks, [sums, x.buffer, sums, *numbers], out.size)
        before = scan(device, Part(layout, sums), layout)
    device.launch(source, "running", arg_types, rows * blocks, [buffer, x.buffer, before, *numbers], out.size)
    return buffer


@lru_cache(maxsize=64)
def _source(dtype: np.dtype, out: np.dtype, rank: int) -> str:
    t = ctype(out)
    lengths = [f"d{axis}" for axis in range(rank)]
    steps = [f"s{axis}" for axis in range(rank)]
    names = ["total", "blocks", "length", "offset", "step", *lengths[1:], *steps]
    parameters = f"""(__global {t}* out, __global const {ctype(dtype)}* x, __global const {t}* before,
    {", ".join(f"const long {name}" for name in names)})"""
    find = f"""const long i = get_global_id(0);
    if (i >= total) return;
    const long row = i / blocks;
    {coordinates("row", lengths)}
    const long first = offset + {dot("row", steps)};
    const long start = i % blocks * {_BLOCK};
    const long stop = min(start + {_BLOCK}, length);
    {t} sum = 0;"""
    return f"""{preamble([dtype, out])}
__kernel void block_sums{parameters}
{{
    {find}
    for (long j = start; j < stop; j++)
        sum += ({t})x[first + j * step];
    out[i] = sum;
}}

__kernel void running{parameters}
{{
    {find}
    const {t} base = start ? before[i - 1] : 0;
    for (long j = start; j < stop; j++) {{
        sum += ({t})x[first + j * step];
        out[row * length + j] = base + sum;
    }}
}}
"""
