"""The kernel below matrix products and convolutions on CPUs: sums of products, a tile of results in vector registers.

Two operands are multiplied and summed over an index k, as in a matrix product. k may have several axes, and each
operand its own steps along them. A convolution is that too: along k = (channel, row, column of a window) its image has
the steps of the image's own axes, and no window has to be copied out.

The last tile of a row or column is moved back to end at the edge, so that the loop over k never has to ask where an
operand ends. It computes some elements once more, and writes those that are its own.

Where little is computed, a work-item goes through all tiles below each other. What it needs of B it then copies once,
if B lies so that its columns' elements would be read one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.source import coordinates, ctype, dot, packed, preamble
from netcl.kernels.tile_sizes import COPIED, WHOLE, item_tile
from netcl.launch import Launch

_MULTIPLICATIONS_PER_ELEMENT = 64
_INDENT = "\n        "
_ALIGNED = 128  # bytes of the largest vector
_UNROLLED = 8  # the longest last axis of k, over windows, that is written out


class Axis(NamedTuple):
    """An axis of the contraction: its length, and the elements from one index to the next in A, B and the result."""

    length: int
    a: int
    b: int
    out: int = 0


class Contraction(NamedTuple):
    """out[batch, row, column] = sum over k of a[batch, row, k] b[batch, k, column].

    The result has no gaps along its columns; `rows` has no step in B. `offsets` are the places of the first
    elements of A and B. A packed operand lies in panels, as panels.py writes them: there the step of `rows` is from
    panel to panel of A, and `panel_b` that of B.
    """

    dtype: np.dtype
    batch: tuple[Axis, ...]
    rows: Axis
    columns: int
    inner: tuple[Axis, ...]
    offsets: tuple[int, int] = (0, 0)
    packed_a: bool = False
    panel_b: int | None = None
    biased: bool = False
    """Whether a number for each column, in a buffer of their own, is added to the sums."""
    across_b: int = 1
    """Elements from column to column of B; where it is not 1, they are read one by one."""

    @property
    def work(self) -> int:
        """About how many elements of an elementwise op take as long (see Device.crossover)."""
        lengths = (axis.length for axis in (*self.batch, self.rows, *self.inner))
        return math.prod(lengths) * self.columns // _MULTIPLICATIONS_PER_ELEMENT

    @property
    def whole(self) -> bool:
        """Whether one work-item computes all tiles below each other."""
        return self.work <= WHOLE

    def copies(self, side: int) -> bool:
        """Say whether a work-item whose tiles are `side` wide copies what it needs of B first, in order."""
        return self.across_b != 1 and len(self.inner) == 1 and copied(self.work, self.inner[0].length, side)


def copied(work: int, inner: int, side: int) -> bool:
    """Say whether B is copied first where a work-item would else read it one by one, for each tile anew."""
    return work <= WHOLE and inner * side <= COPIED


def tile_of(device: Device, dtype: np.dtype, rows: int, columns: int) -> tuple[int, int, int]:
    """Return the tile for a result of this size: its height, how many vectors it is wide, and the vectors' width."""
    tile = item_tile(device, dtype, columns)
    fitting = [height for height in tile.heights if height <= rows]
    # The tile that computes least twice; of two that are about even, the higher one, which reads least.
    height = min(fitting, key=lambda height: (-(-rows // height) * height * (1 + 0.5 / height), -height))
    return height, tile.vectors, tile.width


class Part(NamedTuple):
    """A prepared contraction: the C of a work-item at (gx, gy, gz) of a grid that is `deep` wide, what it takes, and
    the values of what of that are no buffers."""

    buffers: tuple[str, ...]
    numbers: tuple[str, ...]
    body: str
    statics: tuple[int, ...]
    grid: tuple[int, int, int]
    work: int


def contract(device: Device, contraction: Contraction, band: int) -> Launch:
    """Prepare a contraction; its buffers are those of the result, of A, of B, and of the biases if it has them.

    Tiles are computed column by column, within bands of up to `band` tiles below each other.
    """
    part = prepare(device, contraction, band)
    source = _source(contraction.dtype, part.buffers, part.numbers, part.body)
    arg_types = (None,) * len(part.buffers)
    size = math.prod(part.grid)
    return Launch(source, "contract", arg_types, part.statics, size, part.work, grid=part.grid, packed=True)


def together(dtype: np.dtype, parts: Sequence[Part], buffers: Sequence[tuple[str, ...]]) -> Launch:
    """Prepare a launch that runs several parts which do not need each other.

    `buffers` names those of each part; the launch takes each once, in the order in which they first stand there.
    """
    ends = tuple(accumulate(math.prod(part.grid) for part in parts))
    grids = tuple(length for part in parts for length in part.grid[:2])
    statics = (*ends, *grids, *(number for part in parts for number in part.statics))
    source = _source_together(dtype, tuple((part.buffers, part.numbers, part.body) for part in parts), tuple(buffers))
    arg_types = (None,) * len(dict.fromkeys(chain(*buffers)))
    work = sum(part.work for part in parts)
    return Launch(source, "together", arg_types, statics, ends[-1], work, grid=ends[-1:], packed=True)


def prepare(device: Device, contraction: Contraction, band: int) -> Part:
    """Choose the tile, and write what computes one, or all below each other."""
    c = contraction
    height, vectors, width = tile_of(device, c.dtype, c.rows.length, c.columns)
    tall, broad = -(-c.rows.length // height), -(-c.columns // (vectors * width))
    bands = -(-tall // band)
    count = math.prod(axis.length for axis in c.batch)
    steps = [(axis.a, axis.b) for axis in c.inner]
    # What is added after a loop over an axis undoes it, and goes one step along the axis around it.
    turns = [
        tuple(outer[i] - axis.length * own[i] for i in (0, 1))
        for outer, own, axis in zip(steps, steps[1:], c.inner[1:], strict=False)
    ]
    unrolled = c.inner[-1].length if len(c.inner) > 1 and c.inner[-1].length <= _UNROLLED else 0
    statics = (
        c.rows.length, c.columns, tall, bands, *c.offsets, c.rows.a, c.rows.out, c.panel_b or 0, c.across_b,
        *(axis.length for axis in c.inner), *steps[-1], *(number for turn in turns for number in turn),
        *(axis.length for axis in c.batch[1:]), *(axis[i] for i in (1, 2, 3) for axis in c.batch),
    )  # fmt: skip
    numbers, body = _body(
        c.dtype, height, vectors, width, c.packed_a, c.panel_b is not None, len(c.batch), len(c.inner), unrolled,
        c.biased, c.across_b != 1, c.whole, c.copies(vectors * width),
    )  # fmt: skip
    buffers = ("out", "a", "b", "bias") if c.biased else ("out", "a", "b")
    grid = (1, broad, count) if c.whole else (-(-tall // bands), broad, bands * count)
    return Part(buffers, numbers, body, statics, grid, c.work)


@lru_cache(maxsize=64)
def _source(dtype: np.dtype, buffers: tuple[str, ...], numbers: tuple[str, ...], body: str) -> str:
    struct, parameter, variables = packed(numbers)
    return f"""{preamble([dtype], contract=True)}
{struct}
__kernel void contract({", ".join([*_buffers(dtype, buffers), parameter])})
{{
    {variables}
    const long gx = get_global_id(0), gy = get_global_id(1), gz = get_global_id(2), deep = get_global_size(0);
    {body}
}}
"""


@lru_cache(maxsize=64)
def _source_together(
    dtype: np.dtype, parts: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...],
    buffers: tuple[tuple[str, ...], ...],
) -> str:  # fmt: skip
    own = [tuple(f"{name}_{i}" for name in numbers) for i, (_, numbers, _) in enumerate(parts)]
    # Within the kernel: in a function of its own LLVM 14 splits vectors of 64 bytes (min-legal-vector-width).
    functions = "".join(
        f"""
__attribute__((always_inline)) void part{i}(const long gx, const long gy, const long gz, const long deep,
           {", ".join([*_buffers(dtype, names), *(f"const long {name}" for name in numbers)])})
{{
    {body}
}}
"""
        for i, (names, numbers, body) in enumerate(parts)
    )
    calls = " else ".join(
        f"if (i < end{i}) {{ const long at = i - {f'end{i - 1}' if i else '0'}; part{i}(at % deep{i}, "
        f"at / deep{i} % broad{i}, at / deep{i} / broad{i}, deep{i}, {', '.join(buffers[i] + numbers)}); }}"
        for i, numbers in enumerate(own)
    )
    count = range(len(parts))
    grids = [*(f"end{i}" for i in count), *(f"{name}{i}" for i in count for name in ("deep", "broad"))]
    struct, parameter, variables = packed([*grids, *chain(*own)])
    return f"""{preamble([dtype], contract=True)}{functions}
{struct}
__kernel void together({", ".join([*_buffers(dtype, tuple(dict.fromkeys(chain(*buffers)))), parameter])})
{{
    {variables}
    const long i = get_global_id(0);
    {calls}
}}
"""


def _buffers(dtype: np.dtype, names: tuple[str, ...]) -> list[str]:
    """Declare buffers: those whose names begin with out are written."""
    return [f"__global {'' if name.startswith('out') else 'const '}{ctype(dtype)}* {name}" for name in names]


def loose_vector(t: str, width: int) -> str:
    """Declare a vector `loose` that may lie anywhere; vload16 of PoCL reads one element after the other."""
    return f"typedef {vector_type(t, width)} loose __attribute__((aligned(sizeof({t}))));"


def vector_type(t: str, width: int) -> str:
    """Return the C type of a vector; one of one element is a scalar."""
    return f"{t}{width}" if width > 1 else t


@lru_cache(maxsize=64)
def _body(
    dtype: np.dtype, height: int, vectors: int, width: int, packed_a: bool, packed_b: bool, rank: int, depth: int,
    unrolled: int, biased: bool, apart: bool, whole: bool, turned: bool,
) -> tuple[tuple[str, ...], str]:  # fmt: skip
    """Write what computes a tile; return the names of the numbers that it takes, too."""
    t, side, vector = ctype(dtype), vectors * width, vector_type(ctype(dtype), width)
    rows, across = range(height), range(vectors)
    lengths, a_steps, b_steps, out_steps = (
        [f"{name}{axis}" for axis in range(rank)] for name in ("d", "as", "bs", "os")
    )
    names = [
        *"rows columns tall bands ao bo ai oi panel bj".split(), *(f"n{level}" for level in range(depth)), "ak", "bk",
        *(f"{name}{level}" for level in range(depth - 1) for name in ("at", "bt")),
        *lengths[1:], *a_steps, *b_steps, *out_steps,
    ]  # fmt: skip
    zeros = " ".join(f"{vector} c{r}_{v} = 0;" for r in rows for v in across)
    loaded = f"const {vector}" if turned else f"__global const {vector if packed_b else 'loose'}"
    loads = " ".join(
        f"const {vector} b{v} = ({vector})({', '.join(f'right[{v * width + i} * bj]' for i in range(width))});"
        if apart and not turned
        else f"const {vector} b{v} = *({loaded}*)(right + {v * width});"
        for v in across
    )
    # `c + a * b` contracts into one fused instruction; OpenCL's fma() would be a call. Every accumulator is a variable,
    # so that all stay in registers.
    sums = _INDENT.join(
        f"{{ const {t} x = left[{r}{'' if packed_a else ' * ai'}]; "
        + " ".join(f"c{r}_{v} += x * b{v};" for v in across) + " }"
        for r in rows
    )  # fmt: skip
    step = f"left += {height if packed_a else 'ak'}; right += {side if packed_b or turned else 'bk'};"
    inmost = f"{loads}\n        {sums}\n        {step}"
    place = "const long batch = gz / bands, down = gz % bands * deep + gx, over = gy;\n    if (down >= tall) return;"
    copy = f"""{t} copied[{COPIED}] __attribute__((aligned({_ALIGNED})));
    for (long k = 0; k < n0; k++)
        for (int i = 0; i < {side}; i++) copied[k * {side} + i] = first[k * bk + i * bj];"""
    return (
        tuple(names),
        f"""{loose_vector(t, width)}
    {"const long batch = gz, over = gy;" if whole else place}
    const long column = min(over * {side}, columns - {side});
    {coordinates("batch", lengths)}
    __global const {t}* first = b + bo + {dot("batch", b_steps)} + {"over * panel" if packed_b else "column * bj"};
    {copy if turned else ""}
    {"for (long down = 0; down < tall; down++) {" if whole else ""}
    const long row = min(down * {height}, rows - {height});
    __global const {t}* left = a + ao + {dot("batch", a_steps)} + {"down" if packed_a else "row"} * ai;
    {f"const {t}* right = copied" if turned else f"__global const {t}* right = first"};
    {zeros}
    {_loops(inmost, depth, unrolled)}
    {_bias(vector, rows, across, width) if biased else ""}
    __global {t}* to = out + {dot("batch", out_steps)} + row * oi + column;
    const long own_row = down * {height} - row, own_column = over * {side} - column;
    {_stores(t, height, vectors, width)}
    {"}" if whole else ""}""",
    )


def _bias(vector: str, rows: range, across: range, width: int) -> str:
    """Write the lines that add the columns' own numbers, last, as an addition after the product would."""
    return _INDENT.join(
        f"{{ const {vector} d = *(__global const loose*)(bias + column + {v * width}); "
        + " ".join(f"c{r}_{v} += d;" for r in rows) + " }"
        for v in across
    )  # fmt: skip


def _stores(t: str, height: int, vectors: int, width: int) -> str:
    """Write the lines that write a tile's own elements: all its columns, but where it was moved back."""
    whole, parts = [], []
    for r in range(height):
        row = " ".join(f"*(__global loose*)(to + {r} * oi + {v * width}) = c{r}_{v};" for v in range(vectors))
        whole.append(f"if (own_row <= {r}) {{ {row} }}")
        line = " ".join(f"*(loose*)(line + {v * width}) = c{r}_{v};" for v in range(vectors))
        rest = f"for (long i = own_column; i < {vectors * width}; i++) to[{r} * oi + i] = line[i];"
        parts.append(f"if (own_row <= {r}) {{ {line} {rest} }}")
    return f"""if (!own_column) {{
        {_INDENT.join(whole)}
    }} else {{
        {t} line[{vectors * width}];
        {_INDENT.join(parts)}
    }}"""


def _loops(inmost: str, depth: int, unrolled: int) -> str:
    """Write the loops over k's axes around the lines that take one k."""
    last = unrolled or f"n{depth - 1}"
    lines = f"for (long k{depth - 1} = 0; k{depth - 1} < {last}; k{depth - 1}++) {{\n        {inmost}\n    }}"
    if unrolled:
        lines = "#pragma unroll\n    " + lines
    for level in reversed(range(depth - 1)):
        lines = (
            f"for (long k{level} = 0; k{level} < n{level}; k{level}++) {{\n    {lines}\n    "
            f"left += at{level}; right += bt{level};\n    }}"
        )
    return lines
