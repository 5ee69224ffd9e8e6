"""Matrix products on CPUs: a work-item computes a tile of the result, all of it in vector registers.

Operands are read where they lie as long as that goes quickly. Others are copied first, into panels of the few rows or
columns that a tile takes, so that the loop over k reads memory in order (Goto & van de Geijn 2008, Anatomy of
High-Performance Matrix Multiplication). The last tile of a row or column is moved back to end at the edge: it computes
some elements once more, to the same bits, and no kernel has to ask where the matrix ends.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.device import Device, Launch
from netcl.kernels.products import Factor, Plan, Product, batch_axes, batch_names, batch_values
from netcl.kernels.source import coordinates, ctype, dot, preamble
from netcl.kernels.tile_sizes import ItemTile, item_tile

_BAND = 32  # tiles below each other that share what they read of B, before the next column
_STRETCH = 64  # of k, that one work-item copies
_NEAR = 1 << 19  # bytes between the first and the last k, up to which copying does not pay: half the second cache
_FEW_COLUMNS, _FEW_BANDS = 256, 4  # so seldom read that copying does not pay either


def panelled(product: Product, device: Device) -> Plan:
    """Prepare a product with the tile that the device's table gives."""
    a, b, rows, columns, inner = product.a, product.b, product.rows, product.columns, product.inner
    tile = item_tile(device, product.dtype, columns)
    if columns == 1 and a.along == b.along == 1 and a.dtype == b.dtype == product.dtype and inner >= tile.width:
        return Plan(_dots(product, device))
    height = next(height for height in tile.heights if height <= rows)
    side = tile.vectors * tile.width
    tall, broad = -(-rows // height), -(-columns // side)
    itemsize = product.dtype.itemsize
    near_a = a.along == 1 or inner * abs(a.along) * itemsize <= _NEAR or columns <= _FEW_COLUMNS
    near_b = inner * abs(b.along) * itemsize <= _NEAR or tall <= _FEW_BANDS
    direct_a = a.dtype == product.dtype and near_a
    direct_b = b.dtype == product.dtype and near_b and (b.across == 1 or columns == 1)
    pack_a = None if direct_a else _pack(a, product, rows, height, tile.width)
    pack_b = None if direct_b else _pack(b, product, columns, side, tile.width)
    bands = -(-tall // _BAND)
    band = -(-tall // bands)
    statics = (
        rows, columns, inner, tall, bands, a.offset, a.across, a.along, b.offset, b.along,
        tall * inner * height if any(a.steps) else 0, broad * inner * side if any(b.steps) else 0,
        *batch_values(product),
    )  # fmt: skip
    grid = (band, broad, bands * product.count)
    source = _source(product.dtype, height, tile, direct_a, direct_b, len(product.batch))
    multiply = Launch(source, "multiply", (None,) * 3, statics, band * broad * grid[2], product.work, grid=grid)
    size_a, size_b = (product.count if any(factor.steps) else 1 for factor in (a, b))
    return Plan(
        multiply,
        pack_a, itemsize * size_a * tall * inner * height,
        pack_b, itemsize * size_b * broad * inner * side,
    )  # fmt: skip


def _pack(factor: Factor, product: Product, length: int, side: int, width: int) -> Launch:
    """Prepare the copy of an operand, `length` long across k, into panels of `side`."""
    inner, count = product.inner, product.count if any(factor.steps) else 1
    panels, stretches = -(-length // side), -(-inner // _STRETCH)
    lengths = product.batch[1:] if count > 1 else ()
    steps = factor.steps if count > 1 else ()
    copy = _convert(product.dtype, side)
    if factor.dtype == product.dtype and factor.across == 1:
        copy = _copy_rows(product.dtype, side)
    elif factor.dtype == product.dtype and factor.along == 1 and side % width == 0 and width > 1:
        copy = _turn_blocks(product.dtype, side, width)
    source = _pack_source(factor.dtype, product.dtype, side, copy, len(steps))
    statics = (length, inner, panels, factor.offset, factor.across, factor.along, *lengths, *steps)
    grid = (panels, stretches, count)
    work = count * length * inner
    return Launch(source, "pack", (None, None), statics, panels * stretches * count, work, grid=grid)


@lru_cache(maxsize=64)
def _pack_source(dtype: np.dtype, out: np.dtype, side: int, copy: str, rank: int) -> str:
    """Write the kernel that copies `side` rows or columns, over a stretch of k, `from` an operand `to` a panel."""
    t = ctype(out)
    lengths, _, _ = batch_axes(rank)
    steps = [f"s{axis}" for axis in range(rank)]
    names = ["length", "inner", "panels", "offset", "across", "along", *lengths[1:], *steps]
    return f"""{preamble([dtype, out])}
__kernel void pack(__global {t}* panel, __global const {ctype(dtype)}* x,
                   {", ".join(f"const long {name}" for name in names)})
{{
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
def _copy_rows(dtype: np.dtype, side: int) -> str:
    """Copy what has no gaps across k, in the widest vectors that divide a panel's side."""
    width = min(side & -side, 16)
    t = _vector(ctype(dtype), width)
    copies = " ".join(
        f"*(__global {t}*)(to + {v}) = *(__global const loose*)(from + {v});" for v in range(0, side, width)
    )
    return f"""{_loose(ctype(dtype), width)}
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
                lanes = ["".join(f"{lane:x}" for lane in range(at, at + step)) for at in range(first, width, 2 * step)]
                parts = ", ".join(f"{names[i]}.s{each}, {names[i + step]}.s{each}" for each in lanes)
                exchanges.append(f"const {t} {fresh[target]} = ({t})({parts});")
        names, step = fresh, step // 2
    loads = " ".join(f"const {t} x{i} = *(__global const loose*)(from + (j + {i}) * across + k);" for i in range(width))
    stores = " ".join(f"*(__global {t}*)(to + (k + {i}) * {side} + j) = {names[i]};" for i in range(width))
    return f"""{_loose(ctype(dtype), width)}
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


def _vector(t: str, width: int) -> str:
    return f"{t}{width}" if width > 1 else t


def _loose(t: str, width: int) -> str:
    """Declare a vector that may lie anywhere; vload16 of PoCL reads one element after the other."""
    return f"typedef {_vector(t, width)} loose __attribute__((aligned(sizeof({t}))));"


@lru_cache(maxsize=64)
def _source(dtype: np.dtype, height: int, tile: ItemTile, direct_a: bool, direct_b: bool, rank: int) -> str:
    """Write the kernel of one tile, every accumulator a variable, so that all stay in registers."""
    t, width, side = ctype(dtype), tile.width, tile.vectors * tile.width
    rows, vectors = range(height), range(tile.vectors)
    lengths, a_steps, b_steps = batch_axes(rank)
    names = [*"rows columns inner tall bands ao ai ak bo bk ap bp".split(), *batch_names(rank)]
    vector = "loose" if direct_b else _vector(t, width)
    if direct_a:
        places = [f"__global const {t}* a{r} = a + ao + {dot('matrix', a_steps)} + (row + {r}) * ai;" for r in rows]
    else:
        places = [f"__global const {t}* a{r} = a + matrix * ap + down * inner * {height} + {r};" for r in rows]
    b_place = f"bo + {dot('matrix', b_steps)} + column" if direct_b else f"matrix * bp + over * inner * {side}"
    zeros = "\n    ".join(f"{_vector(t, width)} c{r}_{v} = 0;" for r in rows for v in vectors)
    loads = " ".join(
        f"const {_vector(t, width)} b{v} = *(__global const {vector}*)(from + {v * width});" for v in vectors
    )
    # `c + a * b` contracts into one fused instruction; OpenCL's fma() would be a call.
    sums = "\n        ".join(f"c{r}_{v} += *a{r} * b{v};" for r in rows for v in vectors)
    steps = " ".join(f"a{r} += {'ak' if direct_a else height};" for r in rows)
    stores = "\n    ".join(
        f"*(__global loose*)(to + {r} * columns + {v * width}) = c{r}_{v};" for r in rows for v in vectors
    )
    return f"""{preamble([dtype], contract=True)}
{_loose(t, width)}
__kernel void multiply(__global {t}* out, __global const {t}* a, __global const {t}* b,
                       {", ".join(f"const long {name}" for name in names)})
{{
    const long matrix = get_global_id(2) / bands;
    const long down = get_global_id(2) % bands * get_global_size(0) + get_global_id(0);
    const long over = get_global_id(1);
    if (down >= tall) return;
    const long row = min(down * {height}, rows - {height}), column = min(over * {side}, columns - {side});
    {coordinates("matrix", lengths)}
    {"    ".join(places)}
    __global const {t}* from = b + {b_place};
    {zeros}
    for (long k = 0; k < inner; k++) {{
        {loads}
        {sums}
        {steps}
        from += {"bk" if direct_b else side};
    }}
    __global {t}* to = out + (matrix * rows + row) * columns + column;
    {stores}
}}
"""


def _dots(product: Product, device: Device) -> Launch:
    """Prepare a matrix times a vector, both without gaps along k: every result is the sum of a vector of sums."""
    a, b, rows = product.a, product.b, product.rows
    height = 4 if rows >= 4 else 1
    width = item_tile(device, product.dtype, 1 << 10).width
    tall = -(-rows // height)
    statics = (rows, product.inner, a.offset, a.across, b.offset, *batch_values(product))
    source = _dots_source(product.dtype, height, width, len(product.batch))
    grid = (tall, product.count)
    return Launch(source, "dots", (None,) * 3, statics, tall * product.count, product.work, grid=grid)


@lru_cache(maxsize=16)
def _dots_source(dtype: np.dtype, height: int, width: int, rank: int) -> str:
    t, vector = ctype(dtype), f"{ctype(dtype)}{width}"
    lengths, a_steps, b_steps = batch_axes(rank)
    names = ["rows", "inner", "ao", "ai", "bo", *batch_names(rank)]
    rows = range(height)
    zeros = " ".join(f"{vector} c{r} = 0;" for r in rows)
    sums = " ".join(f"c{r} += *(__global const loose*)(left + {r} * ai + k) * x;" for r in rows)
    halves = [width >> i for i in range(1, width.bit_length())]
    folds = " ".join(
        [f"const {_vector(t, half)} c{r}_{half} = c{r}{f'_{2 * half}' if 2 * half < width else ''}.lo + "
         f"c{r}{f'_{2 * half}' if 2 * half < width else ''}.hi;" for r in rows for half in halves]
        + [f"{t} sum{r} = c{r}_1;" for r in rows]
    )  # fmt: skip
    tail = " ".join(f"sum{r} += left[{r} * ai + k] * right[k];" for r in rows)
    stores = " ".join(f"to[{r}] = sum{r};" for r in rows)
    return f"""{preamble([dtype], contract=True)}
{_loose(t, width)}
__kernel void dots(__global {t}* out, __global const {t}* a, __global const {t}* b,
                   {", ".join(f"const long {name}" for name in names)})
{{
    const long row = min((long)get_global_id(0) * {height}, rows - {height});
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
