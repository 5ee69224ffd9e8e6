"""Ops on sliding windows over images (…, height, width): convolution and pooling.

All of them are made of one pair: `unfold` copies the windows out, `fold` adds them back, and each is the other's
transpose. A convolution is then a matrix product (Chellapilla, Puri & Simard 2006, High performance convolutional
neural networks for document processing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import layout as lay
from netcl.errors import ArgumentError, ShapeError
from netcl.kernels import convolve
from netcl.kernels import unfold as kernels
from netcl.kernels.convolve import Convolution
from netcl.kernels.unfold import Windows
from netcl.ops.linalg import matmul, swap
from netcl.ops.reduce import max as amax
from netcl.ops.reduce import mean, sum
from netcl.ops.shape import astype, broadcast_to, contiguous, reshape, transpose
from netcl.ops.table import structural
from netcl.tensor import Tensor

Pair = int | Sequence[int]

_KERNEL_AXES = (-4, -3)
"""Where unfold puts the axes of the window: before those of its place."""


def pair(op: str, name: str, value: Any, least: int) -> tuple[int, int]:
    """Return a setting that holds for rows and columns as (rows, columns); an int stands for both.

    Raises: ArgumentError unless it is made of integers that are at least `least`

    >>> pair("conv2d", "stride", 2, 1)
    (2, 2)
    """
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(numbers) != 2 or not all(isinstance(n, (int, np.integer)) and n >= least for n in numbers):
        raise ArgumentError(f"{op}: {name} is an integer of at least {least}, or two of them, not {value!r}")
    return int(numbers[0]), int(numbers[1])


def _windows(op: str, size: tuple[int, ...], kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> Windows:
    """Work out how many windows fit into a plane of this size."""
    ks, ss = pair(op, "kernel", kernel, 1), pair(op, "stride", stride, 1)
    ps, ds = pair(op, "padding", padding, 0), pair(op, "dilation", dilation, 1)
    h, w = size
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, ks, ss, ps, ds, strict=True)]
    if min(counts) < 1:
        raise ShapeError(
            f"{op}: a window of {ks[0]} × {ks[1]} (dilation {ds[0]} × {ds[1]}) does not fit into an image of {h} × {w} "
            f"with a padding of {ps[0]} × {ps[1]}"
        )
    return Windows((h, w), ks, (counts[0], counts[1]), ss, ps, ds)


@structural("a")
def unfold(
    a: Tensor, kernel: Pair, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1, fill: float = 0.0
) -> Tensor:
    """Copy out every window of the last two axes (im2col).

    Math:    out[…, p, q, i, j] = a[…, i · stride − padding + p · dilation, j · stride − padding + q · dilation], and
             `fill` outside the image
    Shapes:  (*B, H, W) -> (*B, kernel rows, kernel columns, windows down, windows across)
    Raises:  ShapeError if no window fits; ArgumentError for a setting that is no positive integer
    """
    if a.ndim < 2:
        raise ShapeError(f"unfold: windows need an image (…, height, width), and the shape is {a.shape}")
    windows = _windows("unfold", a.shape[-2:], kernel, stride, padding, dilation)
    layout = lay.contiguous((*a.shape[:-2], *windows.kernel, *windows.count), a.dtype)
    return Tensor(layout, kernels.unfold(a.device, contiguous(a), windows, fill, layout), a.device)


@unfold.vjp("a", "fold {out.shape} → {a.shape}")
def _(
    g: Any, out: Any, a: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: Any = 0
) -> Any:
    return fold(g, a.shape[-2:], stride, padding, dilation)


@unfold.jvp
def _(
    tangents: Any, out: Any, a: Any, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: Any = 0
) -> Any:
    return unfold(tangents[0], kernel, stride, padding, dilation)


@structural("a", linear=True)
def fold(a: Tensor, size: Sequence[int], stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1) -> Tensor:
    """Add windows back to where unfold took them from (col2im): its transpose.

    Math:    out[…, h, w] = Σ of a[…, p, q, i, j] over all windows (i, j) that have (h, w) at their place (p, q)
    Shapes:  (*B, kernel rows, kernel columns, windows down, windows across) -> (*B, *size)
    Raises:  ShapeError if an image of this size has another number of windows
    """
    height, width = pair("fold", "size", size, 0)
    if a.ndim < 4:
        raise ShapeError(f"fold: windows have four axes (…, p, q, i, j), and the shape is {a.shape}")
    windows = _windows("fold", (height, width), a.shape[-4:-2], stride, padding, dilation)
    if windows.count != a.shape[-2:]:
        raise ShapeError(
            f"fold: an image of {height} × {width} has {windows.count[0]} × {windows.count[1]} such windows, and the "
            f"shape {a.shape} has {a.shape[-2]} × {a.shape[-1]}"
        )
    layout = lay.contiguous((*a.shape[:-4], height, width), a.dtype)
    return Tensor(layout, kernels.fold(a.device, contiguous(a), windows, layout), a.device)


@fold.vjp("a", "unfold {out.shape} → {a.shape}")
def _(g: Any, out: Any, a: Any, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> Any:
    return unfold(g, a.shape[-4:-2], stride, padding, dilation)


@structural("a", "w")
def conv2d(a: Tensor, w: Tensor, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1, groups: int = 1) -> Tensor:
    """Slide filters over images: a cross-correlation, as every network library means by convolution.

    Math:    out[n, o, i, j] = Σ over c, p, q of w[o, c, p, q] a[n, c, i · stride − padding + p · dilation, …], with 0
             outside the image; with `groups`, filter o sees the channels of its own group alone
    Shapes:  (N, C, H, W), (O, C / groups, kernel rows, kernel columns) -> (N, O, windows down, windows across); a bias
             of shape (O,) is added by `+ b.reshape(-1, 1, 1)`
    Raises:  ShapeError naming both shapes; ArgumentError for a setting that is no positive integer
    """
    _check_filters(a.shape, w.shape, groups)
    direct = _directly("out", a, w, None, stride, padding, dilation, groups)
    if direct is not None:
        layout = lay.contiguous((a.shape[0], w.shape[0], *direct.windows.count), a.dtype)
        return Tensor(layout, convolve.convolve(a.device, direct, contiguous(a), contiguous(w), layout), a.device)
    patches = _patches(a, w, stride, padding, dilation, groups)
    product = matmul(_filters(w, groups), patches)
    windows = _windows("conv2d", a.shape[-2:], w.shape[-2:], stride, padding, dilation)
    return reshape(product, (a.shape[0], w.shape[0], *windows.count))


def _check_filters(a: lay.Shape, w: lay.Shape, groups: Any) -> None:
    if not isinstance(groups, (int, np.integer)) or groups < 1:
        raise ArgumentError(f"conv2d: groups is an integer of at least 1, not {groups!r}")
    if len(a) != 4 or len(w) != 4:
        raise ShapeError(f"conv2d: images are (N, C, H, W) and filters (O, C, rows, columns), not {a} and {w}")
    if a[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(
            f"conv2d: images {a} have {a[1]} channels, and filters {w} in {groups} group(s) want {w[1] * groups}; the "
            f"number of filters, {w[0]}, must be a multiple of the groups"
        )


def _directly(
    of: str, a: Any, w: Any, g: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Convolution | None:
    """Return the convolution if a kernel computes `of` without copying windows out: on tensors, not on nodes."""
    if any(type(x) is not Tensor or x.dtype != a.dtype or x.device is not a.device for x in (a, w, g) if x is not None):
        return None
    windows = _windows("conv2d", a.shape[-2:], w.shape[-2:], stride, padding, dilation)
    c = Convolution(a.shape[0], groups, w.shape[0] // groups, w.shape[1], windows, a.dtype)
    return c if convolve.serves(a.device, c, of) else None


def _filters(w: Any, groups: int) -> Any:
    """Return the filters as matrices: (groups, filters of a group, elements of a window)."""
    return reshape(w, (groups, w.shape[0] // groups, w.shape[1] * w.shape[2] * w.shape[3]))


def _patches(a: Any, w: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
    """Return the windows as matrices: (N, groups, elements of a window, windows)."""
    windows = unfold(a, w.shape[-2:], stride, padding, dilation)
    n, rows, columns = a.shape[0], windows.shape[-2], windows.shape[-1]
    return reshape(windows, (n, groups, w.shape[1] * w.shape[2] * w.shape[3], rows * columns))


def _by_group(g: Any, groups: int) -> Any:
    """Return a cotangent as matrices: (N, groups, filters of a group, windows)."""
    n, o, rows, columns = g.shape
    return reshape(g, (n, groups, o // groups, rows * columns))


@conv2d.vjp("a", "fold({w}ᵀ @ G)", reads="w")
def _(g: Any, out: Any, a: Any, w: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    direct = _directly("a", a, w, g, stride, padding, dilation, groups)
    if direct is not None:
        buffer = convolve.image_gradient(
            a.device, direct, contiguous(g), contiguous(w), lay.contiguous(a.shape, a.dtype)
        )
        return Tensor(lay.contiguous(a.shape, a.dtype), buffer, a.device)
    windows = matmul(swap(_filters(w, groups)), _by_group(g, groups))
    split = reshape(windows, (*a.shape[:2], *w.shape[-2:], *g.shape[-2:]))
    return astype(fold(split, a.shape[-2:], stride, padding, dilation), a.dtype)


@conv2d.vjp("w", "G @ unfold({a})ᵀ", reads="a")
def _(g: Any, out: Any, a: Any, w: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    direct = _directly("w", a, w, g, stride, padding, dilation, groups)
    if direct is not None:
        buffer, layout = convolve.filter_gradient(a.device, direct, contiguous(g), contiguous(a))
        whole = sum(Tensor(layout, buffer, a.device), 0)
        return contiguous(reshape(transpose(whole, (0, 3, 4, 1, 2)), w.shape))
    patches = _patches(a, w, stride, padding, dilation, groups)
    product = matmul(_by_group(g, groups), swap(patches))
    return astype(reshape(sum(product, 0), w.shape), w.dtype)


@conv2d.jvp
def _(
    tangents: Sequence[Any],
    out: Any,
    a: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    da, dw = tangents
    settings = (stride, padding, dilation, groups)
    if da is None or dw is None:
        return conv2d(da, w, *settings) if dw is None else conv2d(a, dw, *settings)
    return conv2d(da, w, *settings) + conv2d(a, dw, *settings)


def _check_pool(op: str, a: Tensor, kernel: Pair, padding: Pair) -> None:
    ks, ps = pair(op, "kernel", kernel, 1), pair(op, "padding", padding, 0)
    if any(2 * p > k for k, p in zip(ks, ps, strict=True)):
        raise ArgumentError(f"{op}: a padding of {padding!r} is more than half of the window {kernel!r}")
    if a.ndim < 2:
        raise ShapeError(f"{op}: windows need an image (…, height, width), and the shape is {a.shape}")


def _outside(kernel: Any, stride: Any, padding: Any) -> tuple[Any, Any, Any, int, float]:
    """Return unfold's settings for a maximum: what lies outside the image never wins."""
    return kernel, kernel if stride is None else stride, padding, 1, -np.inf


@structural("a")
def max_pool2d(a: Tensor, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Largest element of every window of the last two axes; the windows lie side by side unless `stride` says.

    Math:    out[…, i, j] = max over p, q of a[…, i · stride − padding + p, j · stride − padding + q]
             Where k elements of a window tie, each has the local derivative 1/k, as in max.
    Shapes:  (*B, H, W) -> (*B, windows down, windows across)
    Raises:  ArgumentError if the padding is more than half of the window; ShapeError if no window fits
    """
    _check_pool("max_pool2d", a, kernel, padding)
    if a.dtype.kind != "f":
        a = astype(a, np.float32)
    return amax(unfold(a, *_outside(kernel, stride, padding)), _KERNEL_AXES)


@max_pool2d.vjp("a", "route to the winner of each window")
def _(g: Any, out: Any, a: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Any:
    windows = unfold(a, *_outside(kernel, stride, padding))
    routed = amax.vjps["a"](g, out, windows, _KERNEL_AXES)
    return fold(routed, a.shape[-2:], kernel if stride is None else stride, padding)


@max_pool2d.jvp
def _(tangents: Any, out: Any, a: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Any:
    windows = unfold(a, *_outside(kernel, stride, padding))
    moving = unfold(tangents[0], kernel, kernel if stride is None else stride, padding)
    assert amax.jvp_rule is not None
    return amax.jvp_rule([moving], out, windows, _KERNEL_AXES)


@structural("a", linear=True)
def avg_pool2d(a: Tensor, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Average of every window of the last two axes; the windows lie side by side unless `stride` says.

    Math:    out[…, i, j] = Σ over p, q of a[…, i · stride − padding + p, …] / (elements of a window), with 0 outside
    Shapes:  (*B, H, W) -> (*B, windows down, windows across)
    Raises:  as max_pool2d
    """
    _check_pool("avg_pool2d", a, kernel, padding)
    if a.dtype.kind != "f":
        a = astype(a, np.float32)
    return mean(unfold(a, kernel, kernel if stride is None else stride, padding), _KERNEL_AXES)


@avg_pool2d.vjp("a", "spread over each window, ÷ its size")
def _(g: Any, out: Any, a: Any, kernel: Any, stride: Any = None, padding: Any = 0) -> Any:
    rows, columns = pair("avg_pool2d", "kernel", kernel, 1)
    shape = (*g.shape[:-2], rows, columns, *g.shape[-2:])
    spread_out = broadcast_to(reshape(g, (*g.shape[:-2], 1, 1, *g.shape[-2:])), shape)
    return fold(spread_out, a.shape[-2:], kernel if stride is None else stride, padding) / float(rows * columns)
