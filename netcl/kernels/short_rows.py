"""Functions of short rows in one launch: softmax and its kin, where several launches would cost more than the work.

A work-item goes over one row, element by element. That is slower than what other kernels do, which are vectorised, but
a small problem is all launches. CPUs leave to this only what is not enough rows to fill the vectors of narrow_rows.py.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.kernels.row_functions import FUNCTIONS, elements, larger, moves, own_functions, parameters
from netcl.kernels.source import ctype, preamble
from netcl.launch import Launch

_MOST = 1 << 15  # elements in all
_ONE_GROUP = 1 << 11  # elements up to which one work-group adds the rows up, too
_GROUP = 16
_TURNS = 16  # elements that are summed in turn, as in reductions


def are_few(size: int) -> bool:
    """Say whether short rows are few."""
    return size < _MOST


def fits_one_group(size: int) -> bool:
    """Say whether one work-group may add up what short rows give."""
    return size <= _ONE_GROUP


def launch(name: str, dtype: np.dtype, labels: np.dtype | None, numbers: tuple[int, int, int], total: bool) -> Launch:
    """Return the launch of a function on rows; `numbers` are how many, their length, and the step of `each`.

    With `total` a function that gives one number for each row gives one for all, their sum over `scale`.
    """
    rows, n, _ = numbers
    groups = _GROUP if total else (rows + _GROUP - 1) // _GROUP * _GROUP
    arg_types = (*[None] * (1 + len(FUNCTIONS[name].operands)), dtype.type)
    source = _source(name, dtype, labels, total)
    return Launch(source, "short_rows", arg_types, numbers, 0, rows * n, grid=(groups,), local=(_GROUP,), packed=True)


@lru_cache(maxsize=64)
def _source(name: str, dtype: np.dtype, labels: np.dtype | None, total: bool) -> str:
    function = FUNCTIONS[name]
    t = ctype(dtype)
    body = own_functions(function.body, dtype, ["EXP", "LOG"])
    struct, taken, variables = parameters(function, dtype, labels)
    loads = " ".join(f"const T {each} = {each}_[j];" for each in elements(function))
    return f"""/* {name} */
{preamble([dtype], body)}
#define T {t}
#define R T
#define LOAD {loads}
#define TOP T top = a_[0]; for (long j = 1; j < n; j++) {{ LOAD top = {larger("top", "a")}; }}
#define EACH(e) for (long j = 0; j < n; j++) {{ LOAD out[j] = e; }}
#define IS_LABEL (j == label)
#define AT_LABEL(x) x##_[label]
#define ROW(e) {"part += e;" if total else "all_out[k] = e;"}
#define SUM(name, e) T name = 0; for (long j = 0; j < n;) {{ T part = 0; \\
        for (int turn = 0; turn < {_TURNS} && j < n; turn++, j++) {{ LOAD part += e; }} name += part; }}
{struct}
__kernel void short_rows({taken})
{{
    {variables}
    {_TOTAL if total else _EACH}
}}
""".replace("FUNCTION", f"{moves(function)} {body}")


_EACH = """const long k = get_global_id(0);
    if (k >= rows) return;
    FUNCTION"""
# Each work-item takes every so many rows, in turns as everywhere; then one adds up what they have.
_TOTAL = f"""const int me = get_local_id(0);
    __local T parts[{_GROUP}];
    T whole = 0;
    for (long k = me; k < rows;) {{
        T part = 0;
        for (int turn = 0; turn < {_TURNS} && k < rows; turn++, k += {_GROUP}) {{ FUNCTION }}
        whole += part;
    }}
    parts[me] = whole;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me) return;
    for (int i = 1; i < {_GROUP}; i++) whole += parts[i];
    *all_out = whole / scale;"""
