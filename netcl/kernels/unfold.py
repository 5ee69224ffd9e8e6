"""Sliding windows over the last two axes: unfold copies them out, fold adds them back; each is the other's transpose.

Both gather: a work-item makes one element of the result, so no two add to the same place and no atomics are needed;
the sums come in one order, and so are the same at every run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.device import Device
from netcl.kernels.source import Operand, ctype, preamble
from netcl.layout import Layout

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


def unfold(device: Device, x: Operand, windows: Windows, fill: float, out: Layout) -> PooledBuffer:
    """Copy every window; return the buffer of the result.

    Math:    out[…, p, q, i, j] = x[…, i stride − padding + p dilation, …], `fill` outside the plane
    Shapes:  x (*B, height, width), contiguous -> (*B, kernel_h, kernel_w, out_h, out_w)
    """
    return _run(device, "unfold", x, windows, fill, out)


def fold(device: Device, x: Operand, windows: Windows, out: Layout) -> PooledBuffer:
    """Add every window back to where it came from; return the buffer of the result.

    Math:    out[…, h, w] = Σ of x[…, p, q, i, j] over all p, q, i, j whose element of the plane is (h, w)
    Shapes:  x (*B, kernel_h, kernel_w, out_h, out_w), contiguous -> (*B, height, width)
    """
    return _run(device, "fold", x, windows, 0, out)


def _run(device: Device, name: str, x: Operand, windows: Windows, fill: float, out: Layout) -> PooledBuffer:
    buffer = device.pool.allocate(out.nbytes)
    if not out.size:
        return buffer
    numbers = (out.size, *windows.numbers)
    arg_types = (None, None, out.dtype.type if out.dtype.kind != "b" else np.uint8, *[np.int64] * len(numbers))
    work = max(out.size, x.layout.size)
    args = [buffer, x.buffer, out.dtype.type(fill).item(), *numbers]
    device.launch(_source(out.dtype), name, arg_types, out.size, args, work)
    return buffer


@lru_cache(maxsize=16)
def _source(dtype: np.dtype) -> str:
    t = ctype(dtype)
    parameters = f"""(__global {t}* out, __global const {t}* x, const {t} fill, const long n,
    {", ".join(f"const long {name}" for name in _NAMES)})"""
    return f"""{preamble([dtype])}
__kernel void unfold{parameters}
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const long column = i % out_w, row = i / out_w % out_h;
    const long windows = i / out_w / out_h;
    const long q = windows % kernel_w, p = windows / kernel_w % kernel_h;
    const long plane = windows / kernel_w / kernel_h;
    const long h = row * stride_h - pad_h + p * step_h, w = column * stride_w - pad_w + q * step_w;
    const bool inside = h >= 0 && h < height && w >= 0 && w < width;
    out[i] = inside ? x[(plane * height + h) * width + w] : fill;
}}

__kernel void fold{parameters}
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
            sum += x[(((plane * kernel_h + p) * kernel_w + q) * out_h + row) * out_w + column];
        }}
    }}
    out[i] = sum;
}}
"""
