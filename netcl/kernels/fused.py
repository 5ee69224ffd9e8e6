"""Kernels of fused functions: many expressions one after another for each element, and sums over them at the end.

A work-item computes one element. Sums are taken within work-groups, in local memory, so that the elements themselves
are computed by plain code, which PoCL vectorises (a loop inside a work-item it does not), and never stored. Nor does it
vectorise well what stands under `if (i < n)`: where a row is not a whole number of groups, the last group is moved back
over the one before, and computes some elements a second time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from netcl import expr as ex
from netcl.kernels.elementwise import _number, _only_chooses
from netcl.kernels.source import coordinates, ctype, dot, packed, preamble, quotients
from netcl.launch import Launch
from netcl.layout import Layout, Shape, broadcast_to, collapse

_GROUP = 256  # work-items that sum together
SHORTEST = 64  # rows below this length would leave most of a group idle
_WIDTHS = (1024, 256)


class Term(NamedTuple):
    """An expression and the dtype to compute it in; `names` says which variable of the kernel each of its names is."""

    expr: ex.Expr
    work: np.dtype
    names: Mapping[str, str]


class Line(NamedTuple):
    """A variable of the kernel: the sum of its terms, kept in `dtype`."""

    name: str
    terms: Sequence[Term]
    dtype: np.dtype


class Input(NamedTuple):
    """A variable that the kernel is given: an element of a tensor, or (without a layout) a number of this dtype."""

    name: str
    layout: Layout | None
    dtype: np.dtype


class Result(NamedTuple):
    """A variable that the kernel gives back: element by element or, if `summed`, the sum of each work-group.

    The sums are divided by the number of elements in a row (in all, without rows) if it is a `mean`; lines can read
    that number as the variable `count`.
    """

    name: str
    summed: bool = False
    mean: bool = False


class Groups(NamedTuple):
    """What a device makes of work-groups: whether vectors are worth while within one work-item, and the largest group.

    The first is so on CPUs, which take the work-items of a group one after another; GPUs take them all at once.
    """

    vectors: bool
    largest: int


class Grid(NamedTuple):
    """How elements fall into rows of equal length, and rows into groups of `width`: sums are of one group."""

    rows: int
    length: int
    width: int = SHORTEST

    @property
    def parts(self) -> int:
        """Groups per row."""
        return -(-self.length // self.width)


def fuse(
    name: str, shape: Shape, inputs: Sequence[Input], lines: Sequence[Line], results: Sequence[Result],
    *, groups: Groups, rows: int | None = None,
) -> tuple[Launch, Grid]:  # fmt: skip
    """Return the kernel that computes `lines` for every element of `shape`, and how it walks them.

    Math:    result[i] = its variable at element i; a summed one has shape (rows, parts): sums over parts of a row
    Shapes:  the layouts of inputs broadcast to `shape`; results are contiguous. `rows` (a product of leading lengths)
             sets the rows; without it they are chosen so that the inputs can be read without dividing indices.

    The kernel takes the buffers of the results, then those of the tensors, then the numbers.
    """
    size = math.prod(shape)
    grid = Grid(rows, size // rows) if rows is not None else _choose(shape, [x.layout for x in inputs])
    wide = not groups.vectors or any(result.summed for result in results)
    grid = grid._replace(width=min(_width(grid) if wide else SHORTEST, groups.largest))
    reads = [_read(x.layout, shape, grid) for x in inputs]
    statics, declared, loads = _statics(shape, inputs, reads, grid, size if rows is None else grid.length)
    source = _source(name, inputs, lines, results, (declared, loads), grid, groups.vectors)
    tensors = [x for x in inputs if x.layout is not None]
    numbers = [x.dtype.type if x.dtype.kind != "b" else np.uint8 for x in inputs if x.layout is None]
    arg_types = (*[None] * (len(results) + len(tensors)), *numbers)
    items = grid.rows * grid.parts * grid.width
    return Launch(source, name, arg_types, statics, items, size, grid=(items,), local=(grid.width,), packed=True), grid


def _width(grid: Grid) -> int:
    """Return the width of groups that wastes at most a quarter of their work, and leaves few sums to add."""
    if grid.rows == 1 and grid.length <= 256:
        return 256  # one launch for all: at this size that counts more than how well it is vectorised
    return next((width for width in _WIDTHS if grid.length >= 4 * width), SHORTEST)


def number(value: float, dtype: np.dtype) -> int | float:
    """Return a number as a kernel takes it.

    Raises:  DTypeError if it does not fit an integer dtype
    """
    return _number(value, dtype)


def _choose(shape: Shape, layouts: Sequence[Layout | None]) -> Grid:
    """Split the axes into rows and their elements where that spares most inputs the arithmetic of coordinates."""
    size = math.prod(shape)
    grids = [Grid(1, size)]
    for axis in range(1, len(shape)):
        if math.prod(shape[axis:]) >= SHORTEST and math.prod(shape[:axis]) > 1:
            grids.append(Grid(math.prod(shape[:axis]), math.prod(shape[axis:])))
    return min(grids, key=lambda grid: sum(_read(layout, shape, grid) == "strided" for layout in layouts))


def _read(layout: Layout | None, shape: Shape, grid: Grid) -> str:
    """Return how an input is found: as a number, at the element's own place, the only one, by row, by column …"""
    if layout is None:
        return "number"
    if layout.single:
        return "one"
    own = (1,) * (len(shape) - layout.ndim) + layout.shape
    if not layout.contiguous:
        return "strided"
    if own == shape:
        return "same"
    if grid.rows > 1:
        axis = next(axis for axis in range(len(shape)) if math.prod(shape[axis:]) == grid.length)
        if own[:axis] == shape[:axis] and math.prod(own[axis:]) == 1:
            return "row"
        if own[axis:] == shape[axis:] and math.prod(own[:axis]) == 1:
            return "column"
    return "strided"


_PLACES = {"same": "i", "one": "0", "row": "row", "column": "j"}


def _statics(
    shape: Shape, inputs: Sequence[Input], reads: Sequence[str], grid: Grid, count: int
) -> tuple[tuple[int, ...], list[str], list[str]]:
    """Return the integers that never change, their names, and the statements that load the inputs."""
    statics, names = [grid.length, count], ["length", "count"]
    if grid.rows > 1:
        statics.append(grid.parts)
        names.append("parts")
    strided = [(k, x.layout) for k, x in enumerate(inputs) if reads[k] == "strided" and x.layout is not None]
    views = [broadcast_to(layout, shape) for _, layout in strided]
    lengths, strides = collapse(shape, [view.element_strides for view in views])
    steps = dict(zip((k for k, _ in strided), strides, strict=True))
    loads = []
    if strided:
        names += [f"d{axis}" for axis in range(1, len(lengths))]
        statics += lengths[1:]
        divisors = quotients(math.prod(shape), lengths[1:])
        if divisors is not None:
            names += [f"{name}_d{axis}" for axis in range(1, len(lengths)) for name in "ms"]
            statics += divisors
        split = coordinates("i", [f"d{axis}" for axis in range(len(lengths))], multiplied=divisors is not None)
        loads.append(split)
    for k, x in enumerate(inputs):
        if x.layout is None:
            continue
        statics.append(x.layout.element_offset)
        names.append(f"o{k}")
        place = _PLACES.get(reads[k])
        if place is None:
            own = [f"s{k}_{axis}" for axis in range(len(lengths))]
            names += own
            statics += steps[k]
            place = dot("i", own)
        loads.append(f"const {ctype(x.layout.dtype)} {x.name} = p{k}[o{k} + {place}];")
    return tuple(statics), names, loads


def _source(
    name: str, inputs: Sequence[Input], lines: Sequence[Line], results: Sequence[Result],
    walk: tuple[list[str], list[str]], grid: Grid, vectors: bool,
) -> str:  # fmt: skip
    declared, body = walk
    dtypes = {x.name: x.layout.dtype if x.layout is not None else x.dtype for x in inputs}
    dtypes["count"] = np.dtype(np.int64)
    for line in lines:
        body.append(_statement(line, dtypes))
        dtypes[line.name] = line.dtype
    outs = [f"__global {ctype(dtypes[result.name])}* out{k}" for k, result in enumerate(results)]
    buffers = [f"__global const {ctype(x.layout.dtype)}* p{k}" for k, x in enumerate(inputs) if x.layout is not None]
    numbers = [f"const {ctype(x.dtype)} {x.name}" for x in inputs if x.layout is None]
    struct, parameter, variables = packed(declared)
    arguments = ", ".join([*outs, *buffers, *numbers, parameter])
    body += [f"out{k}[i] = {result.name};" for k, result in enumerate(results) if not result.summed]
    summed = [(k, result, ctype(dtypes[result.name])) for k, result in enumerate(results) if result.summed]
    lines_of_c = [f"__local {t} sums{k}[{grid.width}] __attribute__((aligned(64)));" for k, _, t in summed]
    lines_of_c += [*_position(grid), *(_whole if grid.length >= grid.width else _tail)(body, summed, grid)]
    if summed:
        lines_of_c += (_fold_vectors if vectors and grid.width >= 16 else _fold_halves)(summed, grid)
    statements = "\n    ".join(lines_of_c)
    return f"""{preamble([*dtypes.values(), *[term.work for line in lines for term in line.terms]], statements)}
{struct}
__kernel __attribute__((reqd_work_group_size({grid.width}, 1, 1)))
void {name}({arguments})
{{
    {variables}
    {statements}
}}
"""


Summed = Sequence[tuple[int, Result, str]]


def _position(grid: Grid) -> list[str]:
    """Say which element of which row a work-item computes: `i` of all, `j` of its row; `first` begins its group."""
    lines = ["const int lid = get_local_id(0);"]
    group = "get_group_id(0)"
    if grid.rows > 1:
        lines.append(f"const long row = {group} / parts;")
        group = f"{group} % parts"
    lines.append(f"const long first = {group} * {grid.width};")
    if grid.length >= grid.width:
        lines.append(f"const long last = length - {grid.width};")
        lines.append("const long j = (first < last ? first : last) + lid;")
    else:
        lines.append("const long j = first + lid;")
    return [*lines, f"const long i = {'row * length + ' if grid.rows > 1 else ''}j;"]


def _whole(body: Sequence[str], summed: Summed, grid: Grid) -> list[str]:
    """All work-items of a group compute. Which of them count is asked later: here it would cost as a guard does."""
    return [*body, *[f"sums{k}[lid] = {result.name};" for k, result, _ in summed]]


def _tail(body: Sequence[str], summed: Summed, grid: Grid) -> list[str]:
    """The row is shorter than a group."""
    kept = [f"sum{k} = {result.name};" for k, result, _ in summed]
    inner = "\n        ".join(line.strip() for lines in (*body, *kept) for line in lines.splitlines())
    return [
        *[f"{t} sum{k} = 0;" for k, _, t in summed],
        f"if (j < length) {{\n        {inner}\n    }}",
        *[f"sums{k}[lid] = sum{k};" for k, _, _ in summed],
    ]


def _statement(line: Line, dtypes: Mapping[str, np.dtype]) -> str:
    """Write a line in C. Its terms are computed in their own dtypes, each from variables of any."""
    terms = []
    for e, work, names in line.terms:
        texts = {}
        for each, variable in names.items():
            as_it_is = dtypes[variable] == work or _only_chooses(each, e)
            texts[each] = variable if as_it_is else f"({ctype(work)}){variable}"
        body = ex.to_c(e, ctype(work), texts)
        terms.append(f"(({body}) != 0)" if line.dtype.kind == "b" else f"({ctype(line.dtype)})({body})")
    return f"const {ctype(line.dtype)} {line.name} = {' + '.join(terms)};"


def _scaled(k: int, result: Result, total: str, t: str) -> str:
    return f"out{k}[get_group_id(0)] = {total}{f' / ({t})count' if result.mean else ''};"


def _again(grid: Grid) -> str:
    """How many sums of a group the group before has taken already (negative: none); empty if that cannot be.

    Worked out anew after the barrier: PoCL keeps what is known across one in memory, once for each work-item.
    """
    group = "get_group_id(0) % parts" if grid.rows > 1 else "get_group_id(0)"
    return f"((long)({group}) * {grid.width} - (length - {grid.width}))" if grid.length >= grid.width else ""


def _fold_vectors(summed: Summed, grid: Grid) -> list[str]:
    """One work-item adds up what its group left in local memory, in vectors: on a CPU that costs next to nothing."""
    width, again = grid.width, _again(grid)
    blocks = []
    for k, result, t in summed:
        wide = 16 if t == "float" else 8
        if again:
            blocks.append(f"for (long m = 0; m < {again}; m++) sums{k}[m] = 0;")
        blocks += [
            f"__local const {t}{wide}* wide{k} = (__local const {t}{wide}*)sums{k};",
            f"{t}{wide} total{k} = wide{k}[0];",
            f"for (int m = 1; m < {width // wide}; m++) total{k} += wide{k}[m];",
        ]
        total = f"total{k}"
        while wide > 2:
            wide //= 2
            blocks.append(f"const {t}{wide} total{k}_{wide} = {total}.lo + {total}.hi;")
            total = f"total{k}_{wide}"
        blocks.append(_scaled(k, result, f"({total}.x + {total}.y)", t))
    inner = "\n        ".join(blocks)
    return ["barrier(CLK_LOCAL_MEM_FENCE);", f"if (get_local_id(0) == 0) {{\n        {inner}\n    }}"]


def _fold_halves(summed: Summed, grid: Grid) -> list[str]:
    """The group halves what is left of the sums again and again, all work-items at once."""
    width, again = grid.width, _again(grid)
    inner = "\n            ".join(f"sums{k}[lid] += sums{k}[lid + m];" for k, _, _ in summed)
    last = "\n        ".join(_scaled(k, result, f"sums{k}[0]", t) for k, result, t in summed)
    skipped = [f"if (lid < {again}) sums{k}[lid] = 0;" for k, _, _ in summed] if again else []
    return [
        *skipped,
        f"""for (int m = {width // 2}; m > 0; m /= 2) {{
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < m) {{
            {inner}
        }}
    }}""",
        f"if (lid == 0) {{\n        {last}\n    }}",
    ]
