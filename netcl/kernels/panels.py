"""Matrix products on CPUs: which operands are copied first, and how.

Operands are read where they lie as long as that goes quickly. Others are copied first, into panels of the few rows or
columns that a tile takes, so that the loop over k reads memory in order (Goto & van de Geijn 2008, Anatomy of
High-Performance Matrix Multiplication). The last panel is moved back to end at the edge, as the last tile is
(contract.py).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from netcl.device import Device
from netcl.kernels.contract import Axis, Contraction, contract, copied, loose_vector, tile_of, vector_type
from netcl.kernels.products import Factor, Plan, Product, batch_axes, batch_names, batch_values
from netcl.kernels.source import coordinates, ctype, dot, packed, preamble
from netcl.kernels.tile_sizes import item_tile
from netcl.launch import Launch
from netcl.layout import Shape

_BAND = 32  # tiles below each other that share what they read of B, before the next column
_STRETCH = 64  # of k, that one work-item copies
# Bytes between the first and the last k, up to which copying does not pay: what a second cache of 1 MiB holds. At 512³
# copying cost 2 % of the time on one core and 16 % on two, for another launch wakes the threads once more. Beyond, what
# is read in place cost up to 23 %.
_NEAR = 1 << 20
_WIDEST = 64  # bytes of the vectors that are copied, where a panel's side is a whole number of them
_FEW_COLUMNS, _FEW_BANDS = 256, 4  # so seldom read that copying does not pay either
_FEW_READINGS = 1 << 13  # of elements of B one by one, up to which another launch would take longer


def panelled(product: Product, device: Device, biased: bool = False) -> Plan:
    """Prepare a product with the tile that the device's table gives; `biased`, a number is added to each column."""
    a, b, rows, columns, inner = product.a, product.b, product.rows, product.columns, product.inner
    dtype, itemsize, count = product.dtype, product.dtype.itemsize, product.count
    height, vectors, width = tile_of(device, dtype, rows, columns)
    if columns == 1 and a.along == b.along == 1 and a.dtype == b.dtype == dtype and inner >= width:
        return Plan(_dots(product, device))
    side = vectors * width
    tall, broad = -(-rows // height), -(-columns // side)
    near_a = a.along == 1 or inner * abs(a.along) * itemsize <= _NEAR or columns <= _FEW_COLUMNS
    near_b = inner * abs(b.along) * itemsize <= _NEAR or tall <= _FEW_BANDS
    panel_a = None if a.dtype == dtype and near_a else height * inner
    readings = inner * columns * (1 if copied(product.work, inner, side) else tall)
    ordered = b.across == 1 or columns == 1 or readings <= _FEW_READINGS
    panel_b = None if b.dtype == dtype and near_b and ordered else side * inner
    steps, sizes = [], []
    for factor, panel, panels in ((a, panel_a, tall), (b, panel_b, broad)):
        several = any(factor.steps)
        sizes.append(0 if panel is None else panel * panels * (count if several else 1) * itemsize)
        steps.append(factor.steps if panel is None else _linear(product.batch, panel * panels if several else 0))
    results = _linear(product.batch, rows * columns)
    multiply = contract(
        device,
        Contraction(
            dtype,
            tuple(map(Axis, product.batch, *steps, results)),
            Axis(rows, a.across if panel_a is None else panel_a, 0, columns),
            columns,
            (Axis(inner, a.along, b.along),),
            (a.offset if panel_a is None else 0, b.offset if panel_b is None else 0),
            panel_a is not None,
            panel_b,
            biased,
            b.across if panel_b is None and columns > 1 else 1,
        ),
        _BAND,
    )  # fmt: skip
    pack_a = None if panel_a is None else pack(a, product, rows, height)
    pack_b = None if panel_b is None else pack(b, product, columns, side)
    return Plan(multiply, pack_a, sizes[0], pack_b, sizes[1], biased=biased)


def _linear(batch: Shape, size: int) -> Shape:
    """Return the steps along a batch whose matrices, of this size, lie one after the other."""
    return tuple(size * math.prod(batch[axis + 1 :]) for axis in range(len(batch)))


def pack(factor: Factor, product: Product, length: int, side: int) -> Launch:
    """Prepare the copy of an operand, `length` long across k, into panels of `side`.

    Shapes:  (*batch, length, k) -> (batch, panels, k, side), all in one buffer
    """
    inner, count = product.inner, product.count if any(factor.steps) else 1
    panels, stretches = -(-length // side), -(-inner // _STRETCH)
    lengths = product.batch[1:] if count > 1 else ()
    steps = factor.steps if count > 1 else ()
    width = min(side & -side, _WIDEST // product.dtype.itemsize)
    if factor.dtype != product.dtype or width == 1 or 1 not in (factor.across, factor.along):
        copy = _convert(product.dtype, side)
    elif factor.across == 1:
        copy = _copy_rows(product.dtype, side, width)
    else:
        copy = _turn_blocks(product.dtype, side, width)
    source = _pack_source(factor.dtype, product.dtype, side, copy, len(steps))
    statics = (length, inner, panels, factor.offset, factor.across, factor.along, *lengths, *steps)
    grid = (panels, stretches, count)
    work = count * length * inner
    return Launch(source, "pack", (None, None), statics, panels * stretches * count, work, grid=grid, packed=True)


@lru_cache(maxsize=64)
def _pack_source(dtype: np.dtype, out: np.dtype, side: int, copy: str, rank: int) -> str:
    """Write the kernel that copies `side` rows or columns, over a stretch of k, `from` an operand `to` a panel."""
    t = ctype(out)
    lengths, _, _ = batch_axes(rank)
    steps = [f"s{axis}" for axis in range(rank)]
    names = ["length", "inner", "panels", "offset", "across", "along", *lengths[1:], *steps]
    struct, parameter, variables = packed(names)
    return f"""{preamble([dtype, out])}
{struct}
__kernel void pack(__global {t}* panel, __global const {ctype(dtype)}* x, {parameter})
{{
    {variables}
    const long p = get_global_id(0);
    const long start = get_global_id(1) * {_STRETCH};
    const long matrix = get_global_id(2);
    const long many = min(inner - start, {_STRETCH}L);
    {coordinates("matrix", lengths)}
    __global const {ctype(dtype)}* from =
        x + offset + {dot("matrix", steps)} + min(p * {side}, length - {side}) * across + start * along;
    __global {t}* to = panel + ((matrix * panels + p) * inner + start) * {side};
    {copy}
}}
"""


def _convert(dtype: np.dtype, side: int) -> str:
    """Copy from any strides and any type, one element after the other."""
    return f"""for (long k = 0; k < many; k++)
        for (int i = 0; i < {side}; i++) to[k * {side} + i] = ({ctype(dtype)})from[i * across + k * along];"""


@lru_cache(maxsize=64)
def _copy_rows(dtype: np.dtype, side: int, width: int) -> str:
    """Copy what has no gaps across k."""
    t = vector_type(ctype(dtype), width)
    copies = " ".join(
        f"*(__global {t}*)(to + {v}) = *(__global const loose*)(from + {v});" for v in range(0, side, width)
    )
    return f"""{loose_vector(ctype(dtype), width)}
    for (long k = 0; k < many; k++) {{
        {copies}
        to += {side};
        from += along;
    }}"""


@lru_cache(maxsize=16)
def _turn_blocks(dtype: np.dtype, side: int, width: int) -> str:
    """Copy what has no gaps along k: transpose squares of `width` in registers, by exchanging ever smaller blocks."""
    t = f"{ctype(dtype)}{width}"
    exchanges, names = [], [f"x{i}" for i in range(width)]
    step = width // 2
    while step:
        fresh = [f"{name}_{step}" for name in names]
        for i in (i for i in range(width) if not i & step):
            for target, first in ((i, 0), (i + step, step)):
                lanes = [range(at, at + step) for at in range(first, width, 2 * step)]
                # Lane by lane: Oclgrind 19.10 dies of vectors put together from parts of vectors.
                parts = ", ".join(f"{names[each]}.s{lane:x}" for run in lanes for each in (i, i + step) for lane in run)
                exchanges.append(f"const {t} {fresh[target]} = ({t})({parts});")
        names, step = fresh, step // 2
    loads = " ".join(f"const {t} x{i} = *(__global const loose*)(from + (j + {i}) * across + k);" for i in range(width))
    stores = " ".join(f"*(__global {t}*)(to + (k + {i}) * {side} + j) = {names[i]};" for i in range(width))
    return f"""{loose_vector(ctype(dtype), width)}
    for (int j = 0; j < {side}; j += {width}) {{
        long k = 0;
        for (; k + {width} <= many; k += {width}) {{
            {loads}
            {" ".join(exchanges)}
            {stores}
        }}
        for (; k < many; k++)
            for (int i = 0; i < {width}; i++) to[k * {side} + j + i] = from[(j + i) * across + k];
    }}"""


def _dots(product: Product, device: Device) -> Launch:
    """Prepare a matrix times a vector, both without gaps along k: every result is the sum of a vector of sums."""
    a, b, rows = product.a, product.b, product.rows
    height = 4 if rows >= 4 else 1
    width = item_tile(device, product.dtype, 1 << 10).width
    tall = -(-rows // height)
    statics = (rows, product.inner, a.offset, a.across, b.offset, *batch_values(product))
    source = _dots_source(product.dtype, height, width, len(product.batch))
    grid = (tall, product.count)
    return Launch(source, "dots", (None,) * 3, statics, tall * product.count, product.work, grid=grid, packed=True)


@lru_cache(maxsize=16)
def _dots_source(dtype: np.dtype, height: int, width: int, rank: int) -> str:
    t, vector = ctype(dtype), f"{ctype(dtype)}{width}"
    lengths, a_steps, b_steps = batch_axes(rank)
    struct, parameter, variables = packed(["rows", "inner", "ao", "ai", "bo", *batch_names(rank)])
    rows = range(height)
    zeros = " ".join(f"{vector} c{r} = 0;" for r in rows)
    sums = " ".join(f"c{r} += *(__global const loose*)(left + {r} * ai + k) * x;" for r in rows)
    halves = [width >> i for i in range(1, width.bit_length())]
    folds = " ".join(
        [f"const {vector_type(t, half)} c{r}_{half} = c{r}{f'_{2 * half}' if 2 * half < width else ''}.lo + "
         f"c{r}{f'_{2 * half}' if 2 * half < width else ''}.hi;" for r in rows for half in halves]
        + [f"{t} sum{r} = c{r}_1;" for r in rows]
    )  # fmt: skip
    tail = " ".join(f"sum{r} += left[{r} * ai + k] * right[k];" for r in rows)
    stores = " ".join(f"if (own <= {r}) to[{r}] = sum{r};" for r in rows)
    return f"""{preamble([dtype], contract=True)}
{loose_vector(t, width)}
{struct}
__kernel void dots(__global {t}* out, __global const {t}* a, __global const {t}* b, {parameter})
{{
    {variables}
    const long row = min((long)get_global_id(0) * {height}, rows - {height}), own = get_global_id(0) * {height} - row;
    const long matrix = get_global_id(1);
    {coordinates("matrix", lengths)}
    __global const {t}* left = a + ao + {dot("matrix", a_steps)} + row * ai;
    __global const {t}* right = b + bo + {dot("matrix", b_steps)};
    {zeros}
    long k = 0;
    for (; k + {width} <= inner; k += {width}) {{
        const {vector} x = *(__global const loose*)(right + k);
        {sums}
    }}
    {folds}
    for (; k < inner; k++) {{ {tail} }}
    __global {t}* to = out + matrix * rows + row;
    {stores}
}}
"""
