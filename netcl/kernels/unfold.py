"""Sliding windows over the last two axes: unfold copies them out, fold adds them back; each is the other's transpose.

Both gather: a work-item makes an element of the result, or a row of it, so no two add to the same place and no atomics
are needed; the sums come in one order, and so are the same at every run.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.source import Operand, ctype, preamble
from netcl.launch import Launch
from netcl.layout import Layout
from netcl.memory import Block

_NAMES = "height width kernel_h kernel_w out_h out_w stride_h stride_w pad_h pad_w step_h step_w".split()


class Windows(NamedTuple):
    """Where the windows over a plane lie; every entry is (rows, columns)."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    count: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them in the order in which the kernels take them."""
        return tuple(number for pair in self for number in pair)


def unfold(device: Device, x: Operand, windows: Windows, fill: float, out: Layout) -> Block:
    """Copy every window; return the buffer of the result.

    Math:    out[…, p, q, i, j] = x[…, i stride − padding + p dilation, …], `fill` outside the plane
    Shapes:  x (*B, height, width), contiguous -> (*B, kernel_h, kernel_w, out_h, out_w)
    """
    return _run(device, "unfold", x, windows, fill, out)


def fold(device: Device, x: Operand, windows: Windows, out: Layout) -> Block:
    """Add every window back to where it came from; return the buffer of the result.

    Math:    out[…, h, w] = Σ of x[…, p, q, i, j] over all p, q, i, j whose element of the plane is (h, w)
    Shapes:  x (*B, kernel_h, kernel_w, out_h, out_w), contiguous -> (*B, height, width)
    """
    return _run(device, "fold", x, windows, 0, out)


def _run(device: Device, name: str, x: Operand, windows: Windows, fill: float, out: Layout) -> Block:
    buffer = device.pool.allocate(out.nbytes)
    if out.size:
        number = out.dtype.type(fill).item()
        device.run(prepare(name, x.layout, windows, out, device.kind == "CPU"), (buffer, x.buffer), (number,))
    return buffer


@lru_cache(maxsize=1024)
def prepare(name: str, x: Layout, windows: Windows, out: Layout, by_row: bool) -> Launch:
    """Prepare a launch. `by_row`, for CPUs, a work-item makes a whole row of the result, and divides once for it."""
    arg_types = (None, None, out.dtype.type if out.dtype.kind != "b" else np.uint8)
    work = max(out.size, x.size)
    if not by_row:
        return Launch(
            _source(out.dtype), name, arg_types, (x.element_offset, out.size, *windows.numbers), out.size, work
        )
    grid = (out.shape[-2], out.size // math.prod(out.shape[-2:]))
    statics = (x.element_offset, out.size, *windows.numbers)
    return Launch(_row_source(out.dtype), f"{name}_row", arg_types, statics, math.prod(grid), work, grid=grid)


def _parameters(t: str) -> str:
    return f"""(__global {t}* out, __global const {t}* x, const {t} fill, const long offset, const long n,
    {", ".join(f"const long {name}" for name in _NAMES)})"""


@lru_cache(maxsize=16)
def _source(dtype: np.dtype) -> str:
    t = ctype(dtype)
    return f"""{preamble([dtype])}
__kernel void unfold{_parameters(t)}
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const long column = i % out_w, row = i / out_w % out_h;
    const long windows = i / out_w / out_h;
    const long q = windows % kernel_w, p = windows / kernel_w % kernel_h;
    const long plane = windows / kernel_w / kernel_h;
    const long h = row * stride_h - pad_h + p * step_h, w = column * stride_w - pad_w + q * step_w;
    const bool inside = h >= 0 && h < height && w >= 0 && w < width;
    out[i] = inside ? x[offset + (plane * height + h) * width + w] : fill;
}}

__kernel void fold{_parameters(t)}
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const long w = i % width, h = i / width % height;
    const long plane = i / width / height;
    {t} sum = fill;
    for (long p = 0; p < kernel_h; p++) {{
        /* Which window has (h, w) at its place (p, q), if any? */
        const long down = h + pad_h - p * step_h, row = down / stride_h;
        if (down < 0 || down % stride_h || row >= out_h) continue;
        for (long q = 0; q < kernel_w; q++) {{
            const long across = w + pad_w - q * step_w, column = across / stride_w;
            if (across < 0 || across % stride_w || column >= out_w) continue;
            sum += x[offset + (((plane * kernel_h + p) * kernel_w + q) * out_h + row) * out_w + column];
        }}
    }}
    out[i] = sum;
}}
"""


@lru_cache(maxsize=16)
def _row_source(dtype: np.dtype) -> str:
    t, width = ctype(dtype), min(32 // dtype.itemsize, 16)
    vector = f"{t}{width}"
    # The windows of a row that have column q of the window inside the plane: from `first` up to `last`.
    inside = """const long shift = q * step_w - pad_w;
    const long first = shift < 0 ? min((stride_w - 1 - shift) / stride_w, out_w) : 0;
    const long last = max(width > shift ? min((width - 1 - shift) / stride_w + 1, out_w) : 0, first);"""
    return f"""{preamble([dtype])}
typedef {vector} loose __attribute__((aligned(sizeof({t}))));
__kernel void unfold_row{_parameters(t)}
{{
    const long row = get_global_id(0), windows = get_global_id(1);
    const long q = windows % kernel_w, p = windows / kernel_w % kernel_h;
    const long plane = windows / kernel_w / kernel_h;
    const long h = row * stride_h - pad_h + p * step_h;
    {inside}
    __global {t}* to = out + (windows * out_h + row) * out_w;
    const bool within = h >= 0 && h < height;
    long i = 0;
    for (; i < (within ? first : out_w); i++) to[i] = fill;
    if (!within) return;
    __global const {t}* from = x + offset + (plane * height + h) * width + shift;
    if (stride_w == 1)
        for (; i + {width} <= last; i += {width}) *(__global loose*)(to + i) = *(__global const loose*)(from + i);
    for (; i < last; i++) to[i] = from[i * stride_w];
    for (; i < out_w; i++) to[i] = fill;
}}

__kernel void fold_row{_parameters(t)}
{{
    const long h = get_global_id(0), plane = get_global_id(1);
    __global {t}* to = out + (plane * height + h) * width;
    for (long w = 0; w < width; w++) to[w] = fill;
    for (long p = 0; p < kernel_h; p++) {{
        /* Which row of windows has h at its place p, if any? */
        const long down = h + pad_h - p * step_h, row = down / stride_h;
        if (down < 0 || down % stride_h || row >= out_h) continue;
        for (long q = 0; q < kernel_w; q++) {{
            {inside}
            __global const {t}* from = x + offset + (((plane * kernel_h + p) * kernel_w + q) * out_h + row) * out_w;
            long i = first;
            if (stride_w == 1)
                for (; i + {width} <= last; i += {width})
                    *(__global loose*)(to + i + shift) += *(__global const loose*)(from + i);
            for (; i < last; i++) to[i * stride_w + shift] += from[i];
        }}
    }}
}}
"""
