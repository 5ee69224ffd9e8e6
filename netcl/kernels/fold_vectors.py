"""Reductions in explicit vectors, for CPUs: a loop inside a work-item is not vectorised unless it is written so.

Two shapes cover most programs: rows whose elements lie side by side (a sum over everything, or over the last axis), and
columns (a sum over a batch). They fold as reduce.py does: no more than 16 elements in turn, the rest as a tree.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.kernels.source import ctype, packed, preamble
from netcl.launch import Launch
from netcl.layout import Layout

_WIDTH = 16  # elements of a vector; of the columns that a work-item folds
_TURNS = 16  # elements that are folded in turn
_ROW_RUN = 4 * _WIDTH * _TURNS  # elements of a row that a work-item folds, in four vectors at a time
_COLUMN_RUN = _TURNS * _TURNS  # rows that a work-item folds


def fold_rows(
    combine: str, empty: str, x: Layout, rows: int, step: int, length: int, divisor: int | None
) -> tuple[Launch, int]:
    """Fold each of `rows` rows, `step` elements apart, of `length` neighbouring elements, into (rows, runs) parts.

    With a `divisor` the results are divided by it, if these are no parts.
    """
    runs = -(-length // _ROW_RUN)
    divided = runs == 1 and divisor is not None
    numbers = (length, runs, 1 if divisor is None else divisor, x.element_offset, step)
    source = _rows(combine, empty, x.dtype, divided)
    return Launch(source, "fold_rows", (None, None), numbers, 0, rows * length, grid=(runs, rows), packed=True), runs


def fold_columns(
    combine: str, empty: str, x: Layout, columns: int, step: int, length: int, divisor: int | None
) -> tuple[Launch, int]:
    """Fold `length` rows, `step` elements apart, of `columns` neighbouring elements, into (columns, runs) parts.

    The divisor is as for fold_rows.
    """
    runs = -(-length // _COLUMN_RUN)
    divided = runs == 1 and divisor is not None
    numbers = (length, runs, 1 if divisor is None else divisor, x.element_offset, step, columns)
    grid = (-(-columns // _WIDTH), runs)
    source = _columns(combine, empty, x.dtype, divided)
    return Launch(source, "fold_columns", (None, None), numbers, 0, columns * length, grid=grid, packed=True), runs


def _over(divided: bool, t: str) -> str:
    return f" / ({t})divisor" if divided else ""


@lru_cache(maxsize=64)
def _rows(combine: str, empty: str, dtype: np.dtype, divided: bool) -> str:
    t = ctype(dtype)
    v = f"{t}{_WIDTH}"
    four = [f"a{i} = {combine.format(a=f'a{i}', b=f'b{i}')};" for i in range(4)]
    loads = [f"const {v} b{i} = vload16({i}, p + j);" for i in range(4)]
    struct, parameter, variables = packed(["length", "runs", "divisor", "offset", "step"])
    return f"""{preamble([dtype])}
{struct}
__kernel void fold_rows(__global {t}* out, __global const {t}* x, {parameter})
{{
    {variables}
    const long run = get_global_id(0), row = get_global_id(1);
    __global const {t}* p = x + offset + row * step + run * {_ROW_RUN};
    const long count = min((long){_ROW_RUN}, length - run * {_ROW_RUN});
    {v} a0 = ({v})({empty}), a1 = a0, a2 = a0, a3 = a0;
    long j = 0;
    for (; j + {4 * _WIDTH} <= count; j += {4 * _WIDTH}) {{
        {" ".join(loads)}
        {" ".join(four)}
    }}
    for (; j + {_WIDTH} <= count; j += {_WIDTH}) {{
        const {v} b0 = vload16(0, p + j);
        {four[0]}
    }}
    {t} rest = ({t})({empty});
    for (; j < count; j++) rest = {combine.format(a="rest", b="p[j]")};
    a0 = {combine.format(a="a0", b="a1")};
    a2 = {combine.format(a="a2", b="a3")};
    a0 = {combine.format(a="a0", b="a2")};
    const {t}8 h8 = {combine.format(a="a0.lo", b="a0.hi")};
    const {t}4 h4 = {combine.format(a="h8.lo", b="h8.hi")};
    const {t}2 h2 = {combine.format(a="h4.lo", b="h4.hi")};
    const {t} h1 = {combine.format(a="h2.x", b="h2.y")};
    const {t} whole = {combine.format(a="h1", b="rest")};
    out[row * runs + run] = whole{_over(divided, t)};
}}
"""


@lru_cache(maxsize=64)
def _columns(combine: str, empty: str, dtype: np.dtype, divided: bool) -> str:
    t = ctype(dtype)
    v = f"{t}{_WIDTH}"
    struct, parameter, variables = packed(["length", "runs", "divisor", "offset", "step", "columns"])
    return f"""{preamble([dtype])}
{struct}
__kernel void fold_columns(__global {t}* out, __global const {t}* x, {parameter})
{{
    {variables}
    const long run = get_global_id(1);
    /* The last vector is moved back over the one before it: its columns are folded twice, to the same. */
    const long column = min((long)get_global_id(0) * {_WIDTH}, columns - {_WIDTH});
    const long end = min((run + 1) * {_COLUMN_RUN}, length);
    {v} total = ({v})({empty});
    for (long j = run * {_COLUMN_RUN}; j < end;) {{
        {v} part = ({v})({empty});
        const long stop = min(j + {_TURNS}, end);
        for (; j < stop; j++) {{
            const {v} value = vload16(0, x + offset + j * step + column);
            part = {combine.format(a="part", b="value")};
        }}
        total = {combine.format(a="total", b="part")};
    }}
    const {t}* each = (const {t}*)&total;
    for (int i = 0; i < {_WIDTH}; i++) out[(column + i) * runs + run] = each[i]{_over(divided, t)};
}}
"""
