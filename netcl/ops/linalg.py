"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import kernels
from netcl import layout as lay
from netcl.errors import DeviceError, DTypeError, ShapeError
from netcl.layout import Layout, Shape
from netcl.ops.broadcasting import unbroadcast
from netcl.ops.dtypes import common
from netcl.ops.elementwise import add
from netcl.ops.reduce import fold
from netcl.ops.rows import one_device
from netcl.ops.shape import broadcast_to, reshape, transpose
from netcl.ops.table import structural
from netcl.tensor import Tensor, check_dtype


@structural("a", "b")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product, batch by batch, as NumPy's `@`: a 1-d operand is a row on the left, a column on the right.

    Math:    out[…, i, j] = Σ over k of a[…, i, k] b[…, k, j]
             d(AB) = dA B + A dB, so  Ā = Ȳ Bᵀ  and  B̄ = Aᵀ Ȳ  (Giles 2008, An extended collection of matrix
             derivative results)
    Shapes:  (*A, n, k) @ (*B, k, m) -> (*S, n, m), where A and B broadcast to S
    Raises:  ShapeError naming both shapes
    """
    if a.device is not b.device:
        raise DeviceError(f"matmul: the operands are on two devices, {a.device.name} and {b.device.name}")
    shape, matrices, dtype = _result(a.layout, b.layout)
    check_dtype(dtype, a.device)
    left, right = (a, b) if shape is matrices else _matrices(a, b)
    layout = lay.contiguous(matrices, dtype)
    product = Tensor(layout, kernels.matmul(a.device, left, right, layout), a.device)
    return product if shape is matrices else product.view(lay.contiguous(shape, dtype))


@lru_cache(maxsize=4096)
def _result(a: Layout, b: Layout) -> tuple[Shape, Shape, np.dtype]:
    """Return the shape of a product, the same with the axes that 1-d operands lack, and its dtype."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        second = "second to last" if b.ndim > 1 else "only"
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not match: the last axis of the first must equal the {second} "
            "axis of the second"
        )
    dtype = common([a.dtype, b.dtype], [], integers=True)
    if dtype.kind == "b":
        raise DTypeError("matmul of two boolean arrays is not defined here; convert one with astype")
    left, right = a.shape if a.ndim > 1 else (1, *a.shape), b.shape if b.ndim > 1 else (*b.shape, 1)
    try:
        batch = lay.broadcast_shapes("matmul", [left[:-2], right[:-2]])
    except ShapeError:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: the leading axes do not broadcast") from None
    matrices = (*batch, left[-2], right[-1])
    if a.ndim > 1 and b.ndim > 1:
        return matrices, matrices, dtype
    return (*batch, *left[-2:-1][: a.ndim > 1], *right[-1:][: b.ndim > 1]), matrices, dtype


def _matrices(a: Any, b: Any) -> tuple[Any, Any]:
    """Give 1-d operands their missing axis."""
    return (a if len(a.shape) > 1 else reshape(a, (1, -1)), b if len(b.shape) > 1 else reshape(b, (-1, 1)))


def swap(x: Any) -> Any:
    """Transpose the last two axes."""
    axes = [*range(len(x.shape))]
    axes[-2:] = reversed(axes[-2:])
    return transpose(x, tuple(axes))


def _as_product(g: Any, a: Any, b: Any) -> Any:
    """Give a cotangent of the result the axes that 1-d operands took away."""
    left, right = _matrices(a, b)
    batch = lay.broadcast_shapes("matmul", [left.shape[:-2], right.shape[:-2]])
    return reshape(g, (*batch, left.shape[-2], right.shape[-1]))


def are_matrices(*operands: Any) -> bool:
    """Say whether all are tensors with two axes: what nearly all products are of, with nothing to bring into shape."""
    return all([type(x) is Tensor and x.layout.ndim == 2 for x in operands])


def turned(x: Tensor) -> Tensor:
    """Return the transpose of a matrix, a view."""
    return x.view(lay.transpose(x.layout, (1, 0)))


@matmul.vjp("a", "G @ {b}ᵀ", reads="b")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    if are_matrices(g, a, b):
        return matmul.function(g, turned(b))
    left, right = _matrices(a, b)
    return reshape(unbroadcast(_as_product(g, a, b) @ swap(right), left.shape), a.shape)


@matmul.vjp("b", "{a}ᵀ @ G", reads="a")
def _(g: Any, out: Any, a: Any, b: Any) -> Any:
    if are_matrices(g, a, b):
        return matmul.function(turned(a), g)
    left, right = _matrices(a, b)
    product = _as_product(g, a, b)
    if len(right.shape) == 2 < len(left.shape) and left.size and product.size:
        # One operand shared by a whole batch: its gradient is one long product, with nothing left to sum.
        left, product = (reshape(x, (-1, x.shape[-1])) for x in (left, product))
    return reshape(unbroadcast(swap(left) @ product, right.shape), b.shape)


@matmul.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, b: Any) -> Any:
    da, db = tangents
    if da is None or db is None:
        return da @ b if db is None else a @ db
    return da @ b + a @ db


@structural("a", "b", "c")
def affine(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Matrix product plus a row: a layer of a network, in one kernel.

    Math:    out[…, i, j] = Σ over k of a[…, i, k] b[k, j] + c[j];  C̄ is the sum of Ȳ over all axes but the last
    Shapes:  (*A, k), (k, m), (m,) -> (*A, m)
    Raises:  ShapeError naming the shapes; DeviceError
    """
    layout = _of_affine(a.layout, b.layout, c.layout)
    device = a.device
    if b.device is not device or c.device is not device:
        one_device("affine", (a, b, c))
    if layout is None:
        return add(matmul(a, b), c)
    return Tensor(layout, kernels.matmul(device, a, b, layout, c), device)


@lru_cache(maxsize=4096)
def _of_affine(a: Layout, b: Layout, c: Layout) -> Layout | None:
    """Return how the result lies; None for what has no kernel of its own: vectors and mixed dtypes."""
    if b.ndim != 2 or c.shape != b.shape[1:] or not a.ndim:
        raise ShapeError(f"affine: shapes {a.shape}, {b.shape} and {c.shape} are not (*A, k), (k, m) and (m,)")
    shape, _, dtype = _result(a, b)
    return None if a.ndim < 2 or not a.dtype == b.dtype == c.dtype else lay.contiguous(shape, dtype)


affine.vjp("a", "G @ {b}ᵀ", reads="b")(lambda g, out, a, b, c: matmul.vjps["a"](g, out, a, b))
affine.vjp("b", "{a}ᵀ @ G", reads="a")(lambda g, out, a, b, c: matmul.vjps["b"](g, out, a, b))


def _joint(wanted: Sequence[int], g: Tensor, a: Tensor, b: Tensor, c: Tensor | None = None) -> list[Tensor] | None:
    """Give the cotangents of all operands in one launch, where little is to be computed."""
    device = g.device
    plan = kernels.affine_vjp(device, g.layout, a.layout, b.layout, tuple(wanted))
    if plan is None or (c is not None and c.layout.dtype != g.layout.dtype):
        return None
    launch, outs, pick = plan
    take = device.pool.take
    results = [take(out.room) for out in outs]
    device.run(launch, pick((g.buffer, a.buffer, b.buffer, *results)))
    return [Tensor(out, buffer, device) for out, buffer in zip(outs, results, strict=True)]


matmul.joint = affine.joint = _joint


@affine.vjp("c", "Σ G over rows", reads="")
def _(g: Any, out: Any, a: Any, b: Any, c: Any) -> Any:
    axes = tuple(range(len(g.shape) - 1))
    if type(g) is Tensor and axes:
        return fold("sum", g, axes, False, g.dtype)
    return unbroadcast(g, c.shape)


@affine.jvp
def _(tangents: Sequence[Any], out: Any, a: Any, b: Any, c: Any) -> Any:
    da, db, dc = tangents
    parts = [x for x in (None if da is None else da @ b, None if db is None else a @ db) if x is not None]
    if dc is not None:
        parts.append(broadcast_to(dc, out.shape))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
