"""Convolutions on CPUs, forward and both gradients, as contractions (contract.py) over images with a border of zeros.

Nothing is copied once per window: for the result and for the image's gradient a tile is a stretch of a row of pixels,
and every window element reads the row moved by one; for the filters' gradient a tile is filters by channels, and its
operand the image with the channels of a pixel side by side.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.contract import Axis, Contraction, contract, loose_vector
from netcl.kernels.panels import pack
from netcl.kernels.products import Factor, Product
from netcl.kernels.source import Operand, ctype, preamble
from netcl.kernels.unfold import Windows
from netcl.launch import Launch
from netcl.layout import Layout, contiguous
from netcl.memory import Block

_PIXELS, _CHANNELS = 10, 8  # of a row, and of an image, that fill a tile well enough; below, windows are faster


class Convolution(NamedTuple):
    """Images (n, groups · channels, height, width), filters (groups · filters, channels, rows, columns), and where the
    windows lie."""

    n: int
    groups: int
    filters: int
    channels: int
    windows: Windows
    dtype: np.dtype

    @property
    def pixels(self) -> int:
        """Windows of an image."""
        return math.prod(self.windows.count)

    @property
    def reach(self) -> tuple[int, int]:
        """From the first to the last row and column of a window."""
        (kh, kw), (dh, dw) = self.windows.kernel, self.windows.dilation
        return dh * (kh - 1), dw * (kw - 1)

    @property
    def filled(self) -> int:
        """Elements of a filter bank."""
        return self.groups * self.filters * self.channels * math.prod(self.windows.kernel)


def serves(device: Device, c: Convolution, of: str) -> bool:
    """Say whether convolving directly pays: `of` is what is computed, "out", "a" or "w"."""
    w = c.windows
    if device.kind != "CPU" or c.dtype.kind != "f" or not c.n * c.filled:
        return False
    if of == "w":
        return c.channels >= _CHANNELS
    if of == "out":
        return w.stride[1] == 1 and w.count[1] >= _PIXELS
    within = all(reach >= padding for reach, padding in zip(c.reach, w.padding, strict=True))
    return w.stride == (1, 1) and within and w.size[1] >= _PIXELS


def convolve(device: Device, c: Convolution, a: Operand, w: Operand, out: Layout) -> Block:
    """Slide filters over images; return the buffer of the result. All are contiguous."""
    image = _bordered(device, c.dtype, a.buffer, a.layout.element_offset, _border_of_image(c))
    buffer = device.pool.allocate(out.nbytes)
    device.run(_forward(device, c, w.layout.element_offset), (buffer, w.buffer, image))
    return buffer


def image_gradient(device: Device, c: Convolution, g: Operand, w: Operand, out: Layout) -> Block:
    """Slide the reversed filters over the result's cotangent; return the buffer of the images'. All are contiguous."""
    wide = _bordered(device, c.dtype, g.buffer, g.layout.element_offset, _border_of_result(c))
    buffer = device.pool.allocate(out.nbytes)
    device.run(_to_image(device, c, w.layout.element_offset), (buffer, w.buffer, wide))
    return buffer


def filter_gradient(device: Device, c: Convolution, g: Operand, a: Operand) -> tuple[Block, Layout]:
    """Correlate the result's cotangent with the images; return the buffer of parts of the filters' and their layout.

    Shapes:  (parts, groups, kernel rows, kernel columns, filters of a group, channels of a group), to be summed
    """
    image = _bordered(device, c.dtype, a.buffer, a.layout.element_offset, _border_of_image(c))
    launch, nbytes = _by_pixel(c)
    pixels = device.pool.allocate(nbytes)
    device.run(launch, (pixels, image))
    launch, out = _to_filters(device, c, g.layout.element_offset)
    buffer = device.pool.allocate(out.nbytes)
    device.run(launch, (buffer, g.buffer, pixels))
    return buffer, out


class _Border(NamedTuple):
    """Planes with zeros around them: where the first element goes, and the size they get."""

    planes: int
    size: tuple[int, int]
    first: tuple[int, int]
    whole: tuple[int, int]


def _border_of_image(c: Convolution) -> _Border:
    (h, w), (ph, pw) = c.windows.size, c.windows.padding
    return _Border(c.n * c.groups * c.channels, (h, w), (ph, pw), (h + 2 * ph, w + 2 * pw))


def _border_of_result(c: Convolution) -> _Border:
    (h, w), (ph, pw), (rh, rw) = c.windows.size, c.windows.padding, c.reach
    return _Border(c.n * c.groups * c.filters, c.windows.count, (rh - ph, rw - pw), (h + rh, w + rw))


@lru_cache(maxsize=1024)
def _forward(device: Device, c: Convolution, offset: int) -> Launch:
    (kh, kw), (sh, _), (dh, dw), (rows, columns) = (
        c.windows.kernel, c.windows.stride, c.windows.dilation, c.windows.count,
    )  # fmt: skip
    height, width = _border_of_image(c).whole
    plane, window, pixels = height * width, c.channels * kh * kw, c.pixels
    if width == columns and sh == 1:  # then rows of pixels follow each other without a gap
        rows, columns = 1, pixels
    batch = (
        Axis(c.n, 0, c.groups * c.channels * plane, c.groups * c.filters * pixels),
        Axis(c.groups, c.filters * window, c.channels * plane, c.filters * pixels),
        Axis(rows, 0, sh * width, columns),
    )
    inner = (Axis(c.channels, kh * kw, plane), Axis(kh, kw, dh * width), Axis(kw, 1, dw))
    rows_of_a = Axis(c.filters, window, 0, pixels)
    return contract(device, Contraction(c.dtype, batch, rows_of_a, columns, inner, (offset, 0)), c.filters)


@lru_cache(maxsize=1024)
def _to_image(device: Device, c: Convolution, offset: int) -> Launch:
    (kh, kw), (dh, dw), (rows, columns), (rh, rw) = c.windows.kernel, c.windows.dilation, c.windows.size, c.reach
    height, width = _border_of_result(c).whole
    plane, window, pixels = height * width, c.channels * kh * kw, rows * columns
    if width == columns:
        rows, columns = 1, pixels
    batch = (
        Axis(c.n, 0, c.groups * c.filters * plane, c.groups * c.channels * pixels),
        Axis(c.groups, c.filters * window, c.filters * plane, c.channels * pixels),
        Axis(rows, 0, width, columns),
    )
    inner = (Axis(c.filters, window, plane), Axis(kh, kw, -dh * width), Axis(kw, 1, -dw))
    rows_of_a = Axis(c.channels, kh * kw, 0, pixels)
    offsets = offset, rh * width + rw
    return contract(device, Contraction(c.dtype, batch, rows_of_a, columns, inner, offsets), c.channels)


@lru_cache(maxsize=1024)
def _to_filters(device: Device, c: Convolution, offset: int) -> tuple[Launch, Layout]:
    (kh, kw), (sh, sw), (dh, dw), (rows, columns) = (
        c.windows.kernel, c.windows.stride, c.windows.dilation, c.windows.count,
    )  # fmt: skip
    height, width = _border_of_image(c).whole
    pixel = c.groups * c.channels
    result, of_images = c.groups * c.filters * c.pixels, pixel * height * width
    # Few images at a time stay in the cache; but the parts shall take no more memory than the images do.
    most = max(min(c.n, c.n * of_images // c.filled), 1)
    parts = next(parts for parts in range(most, 0, -1) if c.n % parts == 0)
    share = c.n // parts
    bank = c.filters * c.channels
    batch = (
        Axis(parts, share * result, share * of_images, c.filled),
        Axis(c.groups, c.filters * c.pixels, c.channels, kh * kw * bank),
        Axis(kh, 0, dh * width * pixel, kw * bank),
        Axis(kw, 0, dw * pixel, bank),
    )
    inner = (
        Axis(share, result, of_images), Axis(rows, columns, sh * width * pixel), Axis(columns, 1, sw * pixel),
    )  # fmt: skip
    rows_of_a = Axis(c.filters, c.pixels, 0, c.channels)
    out = contiguous((parts, c.groups, kh, kw, c.filters, c.channels), c.dtype)
    return contract(device, Contraction(c.dtype, batch, rows_of_a, c.channels, inner, (offset, 0)), c.filters), out


@lru_cache(maxsize=1024)
def _by_pixel(c: Convolution) -> tuple[Launch, int]:
    """Prepare the copy that puts the channels of a pixel side by side; return its size in bytes too."""
    border = _border_of_image(c)
    channels, plane = c.groups * c.channels, math.prod(border.whole)
    factor = Factor(c.dtype, 0, plane, 1, (channels * plane,))
    product = Product(factor, factor, c.dtype, channels, channels, plane, (c.n,))
    return pack(factor, product, channels, channels), c.n * channels * plane * c.dtype.itemsize


def _bordered(device: Device, dtype: np.dtype, x: Block, offset: int, border: _Border) -> Block:
    """Return planes with their border of zeros."""
    if border.whole == border.size and not offset:
        return x
    launch = _border(dtype, offset, border)
    buffer = device.pool.allocate(border.planes * math.prod(border.whole) * dtype.itemsize)
    device.run(launch, (buffer, x))
    return buffer


@lru_cache(maxsize=1024)
def _border(dtype: np.dtype, offset: int, border: _Border) -> Launch:
    statics = (offset, *border.size, *border.first, *border.whole)
    grid = (border.whole[0], border.planes)
    work = border.planes * math.prod(border.whole)
    return Launch(_border_source(dtype), "border", (None, None), statics, math.prod(grid), work, grid=grid)


@lru_cache(maxsize=4)
def _border_source(dtype: np.dtype) -> str:
    t, width = ctype(dtype), 32 // dtype.itemsize
    return f"""{preamble([dtype])}
{loose_vector(t, width)}
__kernel void border(__global {t}* out, __global const {t}* x, const long offset, const long height, const long width,
                     const long top, const long left, const long whole_height, const long whole_width)
{{
    const long row = get_global_id(0) - top, plane = get_global_id(1);
    __global {t}* to = out + (plane * whole_height + row + top) * whole_width;
    const bool inside = row >= 0 && row < height;
    for (long i = 0; i < (inside ? left : whole_width); i++) to[i] = 0;
    if (!inside) return;
    __global const {t}* from = x + offset + (plane * height + row) * width;
    long i = 0;
    for (; i + {width} <= width; i += {width}) *(__global loose*)(to + left + i) = *(__global const loose*)(from + i);
    for (; i < width; i++) to[left + i] = from[i];
    for (i = left + width; i < whole_width; i++) to[i] = 0;
}}
"""
