"""Functions of very short rows in one launch, on CPUs: the lanes of a vector are rows, side by side.

A loop inside a work-item is not vectorised unless it is written so, and a row of a few elements fills no vector. So a
work-item turns a block of rows into columns, which are vectors, and goes over these. One program serves rows of every
length: as a constant the length saves at most a fifth of the time, and each length costs a build of its own.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.kernels.contract import loose_vector
from netcl.kernels.row_functions import FUNCTIONS, PER_ROW, Function, elements, larger, parameters
from netcl.kernels.source import ctype, preamble
from netcl.launch import Launch

_WIDEST = 64  # bytes of a vector
_LONGEST = 16  # elements of a row: there is room for so many columns
_SHARE = 1 << 13  # elements of a work-item: fewer are done before another core has begun
_TURNS = 16  # blocks that are summed in turn, as in reductions


def fits(dtype: np.dtype, rows: int, length: int) -> bool:
    """Say whether rows are short enough, and enough of them to fill a vector."""
    return length <= _LONGEST and rows >= _WIDEST // dtype.itemsize


def launch(
    name: str, dtype: np.dtype, labels: np.dtype | None, numbers: tuple[int, int, int], total: bool
) -> tuple[Launch, int]:
    """Return the launch of a function on rows; `numbers` are how many, their length, and the step of `each`.

    With `total` a function that gives one number for each row gives sums of several of them, over `scale`; it is said
    how many sums.
    """
    rows, n, _ = numbers
    items = max(1, rows * n // _SHARE)
    arg_types = (*[None] * (1 + len(FUNCTIONS[name].operands)), dtype.type)
    source = _source(name, dtype, labels, total)
    return Launch(source, "narrow_rows", arg_types, (*numbers, items), 0, rows * n, grid=(items,), packed=True), items


@lru_cache(maxsize=64)
def _source(name: str, dtype: np.dtype, labels: np.dtype | None, total: bool) -> str:
    """The last block of a work-item is moved back over the one before it: its first lanes do not count again."""
    function, t, width = FUNCTIONS[name], ctype(dtype), _WIDEST // dtype.itemsize
    body = function.body.replace("EXP(", "exp(").replace("LOG(", "log(")  # those of vectors, which are quick
    loads = " ".join(f"const V {each} = {each}_columns[j];" for each in elements(function))
    stores = " ".join(f"out[{i} * n + j] = result.s{i:x};" for i in range(width))
    struct, taken, variables = parameters(function, dtype, labels, ["items"])
    fresh = f"(M)({', '.join(map(str, range(width)))}) >= (M)(at - k)"
    return f"""/* {name} */
{preamble([dtype], body)}
{loose_vector(t, width)}
#define T {t}
#define V {t}{width}
#define M {"int" if t == "float" else "long"}{width}
#define R V
#define LOAD {loads}
#define TOP V top = a_columns[0]; for (int j = 1; j < n; j++) {{ LOAD top = {larger("top", "a")}; }}
#define SUM(name, e) V name = 0; for (int j = 0; j < n; j++) {{ LOAD name += e; }}
#define EACH(e) for (int j = 0; j < n; j++) {{ LOAD const V result = e; {stores} }}
#define IS_LABEL (label == (M)j ? (V)1 : (V)0)
#define AT_LABEL(x) {_vector("V", width, "x##_[{i} * n + all_labels[k + {i}]]")}
#define ROW(e) {f"part += {fresh} ? e : (V)0;" if total else "*(__global loose*)(all_out + k) = e;"}
{struct}
__kernel void narrow_rows({taken})
{{
    {variables}
    const long item = get_global_id(0), end = (item + 1) * rows / items;
    V whole = 0;
    for (long at = item * rows / items; at < end;) {{
        V part = 0;
        for (int turn = 0; turn < {_TURNS} && at < end; turn++, at += {width}) {{
            const long k = min(at, end - {width});
            {_reads(function, width)}
            {body}
        }}
        whole += part;
    }}
    {f"all_out[item] = ({' + '.join(f'whole.s{i:x}' for i in range(width))}) / scale;" if total else ""}
}}
"""


def _vector(kind: str, width: int, lane: str) -> str:
    """Return the vector of the given lanes."""
    return f"({kind})({', '.join(lane.format(i=i) for i in range(width))})"


def _reads(function: Function, width: int) -> str:
    """Return the statements that find and read the rows from `k` on: what `moves` of row_functions.py does for one."""
    lines = [] if function.per_row else ["__global T* out = all_out + k * n;"]
    for name in function.operands:
        rows = f"*(__global const loose*)(all_{name} + k)"
        if name == "labels":
            lines.append(f"const M label = {_vector('M', width, 'all_labels[k + {i}]')};")
        elif name in PER_ROW:
            lines.append(f"const V {name} = {f'step ? {rows} : (V)*all_each' if name == 'each' else rows};")
        else:
            lines.append(f"__global const T* {name}_ = all_{name} + k * n;")
            column = _vector("V", width, f"{name}_[{{i}} * n + j]")
            lines.append(f"V {name}_columns[{_LONGEST}]; for (int j = 0; j < n; j++) {name}_columns[j] = {column};")
    return "\n            ".join(lines)
