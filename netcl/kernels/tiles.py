"""Matrix products on GPUs: a work-group computes a tile of the result, out of slabs of both operands in local memory.

Every work-item keeps a small block of the tile in registers, so that an element read from local memory is multiplied
many times, and fetches its share of the next slab while the present one is multiplied (Volkov & Demmel 2008,
Benchmarking GPUs to tune dense linear algebra). Operands of any strides are read as they lie: only which axis
neighbouring work-items walk along, and whether several elements can be fetched at once, depends on the layout. Where
the result has too few tiles to fill the device, parts of k go to groups of their own, and their results are added.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.products import Factor, Plan, Product, batch_axes, batch_names, batch_values
from netcl.kernels.source import coordinates, ctype, dot, preamble
from netcl.kernels.tile_sizes import GroupTile, group_tile, parts_of_k
from netcl.launch import Launch

_VECTOR_BYTES = 16  # what one work-item fetches or keeps at a time: float4, double2
_WARP = 32  # work-items that run in step; 4 by 8 of them, interleaved in pairs, read the least local memory
_BAND = 8  # tiles below each other, before the next column: groups at work together share slabs in the cache


class Reading(NamedTuple):
    """How an operand's slab is fetched: along k or across it, and how many elements at a time."""

    along: bool
    vector: int


def reading(factor: Factor, inner: int, length: int, out: np.dtype) -> Reading:
    """Choose how a matrix is fetched, with `length` elements across k and `inner` along it.

    Neighbouring work-items take neighbouring elements. Several are fetched at once where they are neighbours and every
    such group of them starts at a multiple of its size.
    """
    width = _VECTOR_BYTES // out.itemsize
    fast = factor.along == 1 or factor.across != 1
    extent, other, step = (inner, factor.across, factor.along) if fast else (length, factor.along, factor.across)
    aligned = step == 1 and not any(number % width for number in (extent, other, factor.offset, *factor.steps))
    return Reading(fast, width if aligned and factor.dtype == out else 1)


def tiled(product: Product, device: Device) -> Plan | None:
    """Prepare a product with the tile that the device's table gives, if there is one."""
    tile = group_tile(device, product)
    return None if tile is None else with_tile(product, tile, parts_of_k(device, product, tile))


def with_tile(product: Product, tile: GroupTile, parts: int) -> Plan:
    """Prepare a product with this tile, and k in so many parts."""
    a, b, rows, columns, inner = product.a, product.b, product.rows, product.columns, product.inner
    share = -(-inner // (parts * tile.slab)) * tile.slab
    parts = max(-(-inner // share), 1) if share else 1
    tall, broad = -(-rows // tile.rows), -(-columns // tile.columns)
    groups = tall * broad * product.count
    statics = (
        rows, columns, inner, share, groups, tall, broad, a.offset, a.across, a.along, b.offset, b.across, b.along,
        *batch_values(product),
    )  # fmt: skip
    items = groups * parts * tile.items
    source = _source(
        a.dtype, b.dtype, product.dtype, tile,
        reading(a, inner, rows, product.dtype), reading(b, inner, columns, product.dtype), len(product.batch),
    )  # fmt: skip
    multiply = Launch(
        source, "tile", (None, None, None), statics, items, product.work, grid=(items,), local=(tile.items,)
    )
    if parts == 1:
        return Plan(multiply)
    size = product.count * rows * columns
    add = Launch(_add_source(product.dtype), "add", (None, None), (size, parts), size, size * parts)
    return Plan(multiply, add=add, part_bytes=size * parts * product.dtype.itemsize)


@lru_cache(maxsize=4)
def _add_source(dtype: np.dtype) -> str:
    t = ctype(dtype)
    return f"""{preamble([dtype])}
__kernel void add(__global {t}* out, __global const {t}* parts, const long n, const long many)
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    {t} sum = 0;
    for (long part = 0; part < many; part++) sum += parts[part * n + i];
    out[i] = sum;
}}
"""


@lru_cache(maxsize=256)
def _source(
    a: np.dtype, b: np.dtype, out: np.dtype, tile: GroupTile, of_a: Reading, of_b: Reading, rank: int
) -> str:  # fmt: skip
    t, width = ctype(out), _VECTOR_BYTES // out.itemsize
    vector = f"{t}{width}"
    left = _Slab("a", "left", a, out, tile.rows, tile, of_a)
    right = _Slab("b", "right", b, out, tile.columns, tile, of_b)
    names = [*"rows columns inner share groups tall broad ao ai ak bo bj bk".split(), *batch_names(rank)]
    lengths, a_steps, b_steps = batch_axes(rank)
    rows, columns = range(tile.item_rows), range(tile.item_columns // width)
    deep, wide = tile.rows // tile.item_rows, tile.columns // tile.item_columns  # work-items down and across a tile
    zeros = "\n    ".join(f"{vector} c{r}_{v} = 0;" for r in rows for v in columns)
    stores = "\n    ".join(
        f"STORE({r // width * deep * width + r % width}, {v * wide * width}, c{r}_{v})" for r in rows for v in columns
    )
    return f"""{preamble([a, b, out], contract=True)}
#define MULTIPLY {_multiply(left, right, tile, width)}
{_store(t, width)}
__attribute__((reqd_work_group_size({tile.items}, 1, 1)))
__kernel void tile(__global {t}* out, __global const {ctype(a)}* a, __global const {ctype(b)}* b,
                   {", ".join(f"const long {name}" for name in names)})
{{
    __local {vector} left[{left.size}], right[{right.size}];
    {_where(tile, wide)}
    {coordinates("matrix", lengths)}
    /* The first slab is filled up with zeros, in both operands, in front of its first k: then no other needs care. */
    const long begin = part * share, end = min(begin + share, inner);
    const long start = end - max((end - begin + {tile.slab - 1}) / {tile.slab}, 1L) * {tile.slab};
    {left.places("ao + " + dot("matrix", a_steps), "top", "rows", "ai", "ak")}
    {right.places("bo + " + dot("matrix", b_steps), "edge", "columns", "bj", "bk")}
    int now = 0; /* which of the two slabs is multiplied; the other is being filled */
    {zeros}
    {left.fetch(first=True)}
    {right.fetch(first=True)}
    {left.put()}
    {right.put()}
    barrier(CLK_LOCAL_MEM_FENCE);
    for (long slab = start + {tile.slab}; slab < end; slab += {tile.slab}) {{
        {left.advance("ak")}
        {right.advance("bk")}
        {left.fetch()}
        {right.fetch()}
        MULTIPLY
        now ^= {tile.slab};
        {left.put()}
        {right.put()}
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    MULTIPLY
    const long row = top + down * {width}, column = edge + over * {width};
    out += part * (groups / (tall * broad)) * rows * columns;
    {stores}
}}
"""


def _store(t: str, width: int) -> str:
    """Write the macro that stores a vector of results, or what of it is inside the matrix."""
    single = " ".join(f"if (column + v + {i} < columns) to[{i}] = c.s{i};" for i in range(width))
    return f"""#define STORE(r, v, c) \\
    if (row + r < rows && column + v < columns) {{ \\
        __global {t}* to = out + (matrix * rows + row + r) * columns + column + v; \\
        if (columns % {width} == 0) *(__global {t}{width}*)to = c; \\
        else {{ {single} }} \\
    }}"""


def _where(tile: GroupTile, wide: int) -> str:
    """Write the lines that say which tile a group computes, and which part of it an item, one of `wide` in a row."""
    span = min(wide, 8)  # of a warp
    return f"""const int item = get_local_id(0);
    const long part = get_group_id(0) / groups, group = get_group_id(0) % groups;
    const long matrix = group / (tall * broad), place = group % (tall * broad);
    const long band = place / ({_BAND} * broad) * {_BAND}, high = min(tall - band, {_BAND}L);
    const long top = (band + place % ({_BAND} * broad) % high) * {tile.rows};
    const long edge = place % ({_BAND} * broad) / high * {tile.columns};
    const int warp = item / {_WARP}, lane = item % {_WARP};
    const int down = warp / {wide // span} * {_WARP // span} + lane / {2 * span} * 2 + lane % 2;
    const int over = warp % {wide // span} * {span} + lane % {2 * span} / 2;"""


def _multiply(left: _Slab, right: _Slab, tile: GroupTile, width: int) -> str:
    """Write the loop over a slab's k: what a work-item multiplies lies spread over the tile, in vectors."""
    lines = [f'_Pragma("unroll") for (int k = 0; k < {tile.slab}; k++) {{']
    for name, slab, own, of_item in (("x", left, "down", tile.item_rows), ("y", right, "over", tile.item_columns)):
        items = slab.side // of_item
        lines += [
            f"const {slab.whole} {name}{u} = {slab.local}[(now + k) * {slab.stride // width} + {u * items} + {own}];"
            for u in range(of_item // width)
        ]
    # `c + x * y` contracts into one fused instruction.
    lines += [
        f"c{r}_{v} += x{r // width}.s{r % width} * y{v};"
        for r in range(tile.item_rows)
        for v in range(tile.item_columns // width)
    ]
    return " \\\n        ".join([*lines, "}"])


class _Slab:
    """The lines that bring one operand's slab to local memory, where elements with the same k are neighbours."""

    def __init__(
        self, name: str, local: str, dtype: np.dtype, out: np.dtype, side: int, tile: GroupTile, reading: Reading
    ) -> None:
        self.name, self.local, self.type, self.reading = name, local, ctype(out), reading
        self.side, self.slab, self.items = side, tile.slab, tile.items
        self.convert = f"({self.type})" if dtype != out else ""
        width = _VECTOR_BYTES // out.itemsize
        self.whole = f"{self.type}{width}"
        self.fetched = f"{self.type}{reading.vector}" if reading.vector > 1 else self.type
        # Elements with neighbouring k, put down one below the other, would all go to the same bank of local memory.
        self.stride = side + (width if reading.along else 0)
        self.size = 2 * tile.slab * self.stride // width
        self.loads = range(side * tile.slab // (reading.vector * tile.items))

    def places(self, base: str, block: str, length: str, across: str, along: str) -> str:
        """Declare what an item fetches, and from where: beyond the edge the last elements, for sums nobody stores."""
        vector = self.reading.vector
        row = (self.slab if self.reading.along else self.side) // vector
        lines = []
        for load in self.loads:
            fast, slow = (f"(item + {load * self.items}) {split}" for split in (f"% {row} * {vector}", f"/ {row}"))
            k, x = (fast, slow) if self.reading.along else (slow, fast)
            own = f"{self.name}_k{load}", f"{self.name}_x{load}"
            last = 1 if self.reading.along else vector
            lines += [
                f"const int {own[0]} = {k}, {own[1]} = {x};",
                f"{self.fetched} {self.name}_{load};",
                f"long {self.name}_at{load} = {base} + min({block} + {own[1]}, {length} - {last}) * {across}"
                f" + (start + {own[0]}) * {along};",
            ]
        return "\n    ".join(lines)

    def fetch(self, *, first: bool = False) -> str:
        """Read the next slab's elements into registers."""
        lines = []
        for load in self.loads:
            at = f"{self.name}[{self.name}_at{load}]"
            value = f"*(__global const {self.fetched}*)&{at}" if self.reading.vector > 1 else self.convert + at
            if first:
                value = f"start + {self.name}_k{load} >= begin ? {value} : ({self.fetched})0"
            lines.append(f"{self.name}_{load} = {value};")
        return "\n        ".join(lines)

    def put(self) -> str:
        """Write them to local memory."""
        lines = []
        for load in self.loads:
            value, x = f"{self.name}_{load}", f"{self.name}_x{load}"
            places = [
                f"((__local {self.type}*){self.local})[(now + {self.name}_k{load} + {i}) * {self.stride} + {x}]"
                for i in range(self.reading.vector)
            ]
            if self.reading.vector == 1:
                lines.append(f"{places[0]} = {value};")
            elif self.reading.along:
                lines += [f"{place} = {value}.s{i};" for i, place in enumerate(places)]
            else:
                lines.append(f"*(__local {self.fetched}*)&{places[0]} = {value};")
        return "\n        ".join(lines)

    def advance(self, along: str) -> str:
        """Move on by one slab."""
        return " ".join(f"{self.name}_at{load} += {self.slab} * {along};" for load in self.loads)
