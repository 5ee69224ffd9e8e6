"""Matrix products of operands with any strides, so that a transpose costs nothing.

CPUs and GPUs have kernels of their own for floats (panels.py, tiles.py). Products that are too small to gain by them,
and those of integers, run a work-item per element.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl import expr as ex
from netcl.device import Device
from netcl.kernels.elementwise import Formula, evaluate
from netcl.kernels.panels import panelled
from netcl.kernels.products import Plan, Product, arrange, batch_axes, batch_names, batch_values
from netcl.kernels.source import Operand, Part, coordinates, ctype, dot, packed, preamble
from netcl.kernels.tiles import tiled
from netcl.launch import Launch
from netcl.layout import Layout, contiguous
from netcl.memory import Block

_SUM = Formula(ex.Call("add", (ex.Var("a"), ex.Var("b"))))
_TILED_FROM = 1 << 10  # multiplications; below, a tile's kernel gains less than its compilation costs


def matmul(device: Device, a: Operand, b: Operand, out: Layout, bias: Operand | None = None) -> Block:
    """Multiply matrices, batch by batch; return the buffer of the result.

    Math:    out[…, i, j] = sum over k of a[…, i, k] b[…, k, j], plus bias[j]
    Shapes:  a (*A, n, k), b (*B, k, m), out (*S, n, m), where A and B broadcast to S; bias (m,)
    """
    buffer = device.pool.allocate(out.nbytes)
    if not out.size:
        return buffer
    plan, swapped = _plan(device, a.layout, b.layout, out, None if bias is None else bias.layout)
    left, right = (b.buffer, a.buffer) if swapped else (a.buffer, b.buffer)
    if plan.pack_a is not None:
        panels = device.pool.allocate(plan.bytes_a)
        device.run(plan.pack_a, (panels, left))
        left = panels
    if plan.pack_b is not None:
        panels = device.pool.allocate(plan.bytes_b)
        device.run(plan.pack_b, (panels, right))
        right = panels
    if plan.biased and bias is not None:
        device.run(plan.multiply, (buffer, left, right, bias.buffer))
        return buffer
    if plan.add is None:
        device.run(plan.multiply, (buffer, left, right))
    else:
        parts = device.pool.allocate(plan.part_bytes)
        device.run(plan.multiply, (parts, left, right))
        device.run(plan.add, (buffer, parts))
    if bias is not None:
        evaluate(device, _SUM, [Part(out, buffer), bias], out, out.dtype, buffer)
    return buffer


@lru_cache(maxsize=4096)
def _plan(device: Device, a: Layout, b: Layout, out: Layout, bias: Layout | None = None) -> tuple[Plan, bool]:
    """Choose the kernel, one that adds the bias too if there is one; say whether the operands change sides."""
    product, swapped = arrange(a, b, out)
    biased = bias is not None and bias == contiguous(out.shape[-1:], out.dtype)
    plan = None
    if product.multiplications >= _TILED_FROM and out.dtype.kind == "f":
        if device.kind == "GPU":
            if product.columns == 1 < product.rows:  # a tile is wider than high
                product, swapped = product.turned(), not swapped
            plan = tiled(product, device)
        elif device.kind == "CPU":
            plan = panelled(product, device, biased and not swapped and not product.batch)
    return plan or Plan(_plain(product)), swapped


def _plain(product: Product) -> Launch:
    a, b, rows, columns, inner = product.a, product.b, product.rows, product.columns, product.inner
    size = product.count * rows * columns
    places = (a.offset, a.across, a.along, b.offset, b.across, b.along)
    statics = (size, rows, columns, inner, *places, *batch_values(product))
    source = _plain_source(a.dtype, b.dtype, product.dtype, len(product.batch))
    return Launch(source, "matmul", (None, None, None), statics, size, size * max(inner, 1), packed=True)


@lru_cache(maxsize=64)
def _plain_source(a: np.dtype, b: np.dtype, out: np.dtype, rank: int) -> str:
    t = ctype(out)
    lengths, a_steps, b_steps = batch_axes(rank)
    struct, parameter, variables = packed([*"n rows columns inner ao ai ak bo bj bk".split(), *batch_names(rank)])
    return f"""{preamble([a, b, out], contract=True)}
{struct}
__kernel void matmul(__global {t}* out, __global const {ctype(a)}* a, __global const {ctype(b)}* b, {parameter})
{{
    {variables}
    const long i = get_global_id(0);
    if (i >= n) return;
    const long column = i % columns;
    const long row = i / columns % rows;
    const long matrix = i / columns / rows;
    {coordinates("matrix", lengths)}
    __global const {ctype(a)}* left = a + ao + {dot("matrix", a_steps)} + row * ai;
    __global const {ctype(b)}* right = b + bo + {dot("matrix", b_steps)} + column * bj;
    {t} sum = 0;
    for (long k = 0; k < inner; k++)
        sum += ({t})left[k * ak] * ({t})right[k * bk];
    out[i] = sum;
}}
"""
