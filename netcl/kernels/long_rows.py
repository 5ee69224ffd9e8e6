"""Functions of long rows in one launch: a row is read again and again, but from the cache, and nothing but the result
is written.

On a CPU a work-item goes over a row in vectors, for a loop inside a work-item is not vectorised unless it is written
so. On a GPU a work-group goes over a row and folds in local memory what its work-items have.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from netcl.device import Device
from netcl.kernels.row_functions import FUNCTIONS, elements, larger, moves, own_functions, parameters
from netcl.kernels.source import ctype, preamble
from netcl.launch import Launch

_WIDEST = 64  # bytes of a vector
_SHORTEST = 16  # elements of a row, below which there is no whole vector
_SHORTEST_OF_A_GROUP = 32  # below which most of a group would be idle
_GROUP = 256
# On an H200 a group takes 2¹⁵ elements in 20 to 120 µs, as long as four to six launches take the host.
_LONGEST_OF_A_GROUP = 1 << 15
_GROUPS_OF_A_UNIT = 4  # that hide the time which memory takes
_SHARE = 1 << 10  # elements, and
_MANY = 64  # rows, that are enough for one work-item on a CPU
_ONE_ITEM = 1 << 11  # elements up to which one work-item or group adds the rows up, too
_FEW = 1 << 10  # sums of rows that may be left to add


def is_long(device: Device, length: int) -> bool:
    """Say whether a row is long."""
    return length >= (_SHORTEST if in_vectors(device) else _SHORTEST_OF_A_GROUP)


def in_vectors(device: Device) -> bool:
    """Say which of the two ways a device goes."""
    return device.kind == "CPU"


def are_many(device: Device, size: int, length: int) -> bool:
    """Say whether long rows have all cores at work, or take less time than the launches of a way that has."""
    units = device.cl_devices[-1].max_compute_units
    if in_vectors(device):
        return size < device.crossover or size // length >= units
    return length <= _LONGEST_OF_A_GROUP or size // length >= _GROUPS_OF_A_UNIT * units


def launch(
    device: Device, name: str, dtype: np.dtype, labels: np.dtype | None, numbers: tuple[int, int, int], total: bool
) -> tuple[Launch, int]:
    """Return the launch of a function on rows; `numbers` are how many, their length, and the step of `each`.

    With `total` a function that gives one number for each row gives sums of several of them, over `scale`; it is said
    how many sums.
    """
    rows, n, _ = numbers
    vectors = in_vectors(device)
    width = _WIDEST // dtype.itemsize if vectors else 1
    local = 1 if vectors else min(_GROUP, device.local_size, 1 << n.bit_length() - 1)
    share = max(1, min(_SHARE // n, _MANY)) if vectors else 1
    if total:
        share = rows if rows * n <= _ONE_ITEM else max(share, min(-(-rows // _FEW), _MANY))
    items = -(-rows // share)
    statics = *numbers, math.isqrt(n // (width * local)) + 1, share
    arg_types = (*[None] * (1 + len(FUNCTIONS[name].operands)), dtype.type)
    source = _source(name, dtype, labels, total, width, local)
    grid = (items * local,)
    return Launch(source, "long_rows", arg_types, statics, 0, rows * n, grid=grid, local=(local,), packed=True), items


@lru_cache(maxsize=64)
def _source(name: str, dtype: np.dtype, labels: np.dtype | None, total: bool, width: int, group: int) -> str:
    function = FUNCTIONS[name]
    # Vectors have a built-in exp; numbers alone have a quicker one of their own.
    body = own_functions(function.body, dtype, ["LOG", *["EXP"] * (width == 1)]).replace("EXP(", "exp(")
    struct, taken, variables = parameters(function, dtype, labels, ["turns", "share"])
    loads = " ".join(f"const V {each} = READ({each}_);" for each in elements(function))
    return f"""/* {name} */
{preamble([dtype], body)}
#define T {ctype(dtype)}
#define R T
#define AT_LABEL(x) x##_[label]
{_in_vectors(ctype(dtype), width) if width > 1 else _in_groups(group)}
#define LOAD {loads}
#define ROW(e) {"whole += e;" if total else "IF_FIRST all_out[k] = e;"}
{struct}
__kernel void long_rows({taken})
{{
    {variables}
    BEGIN T whole = 0;
    const long first = get_group_id(0) * share;
    for (long k = first; k < min(first + share, rows); k++) {{ {moves(function)} {body} }}
    {"IF_FIRST all_out[get_group_id(0)] = whole / scale;" if total else ""}
}}
"""


def _in_vectors(t: str, width: int) -> str:
    """The last vector of a row is moved back over the one before it: its first lanes do not count again."""
    v, mask = f"{t}{width}", f"{'int' if t == 'float' else 'long'}{width}"
    lanes = ", ".join(map(str, range(width)))
    folds = []
    for each, combined in (("sum", "{a} + {b}"), ("top", larger("{a}", "{b}"))):
        lines, x, wide = [], "x", width
        while wide > 2:
            wide //= 2
            lines.append(f"const {t}{wide} x{wide} = {combined.format(a=f'{x}.lo', b=f'{x}.hi')};")
            x = f"x{wide}"
        last = combined.format(a=f"{x}.x", b=f"{x}.y")
        folds.append(f"{t} fold_{each}(const {v} x) {{ {' '.join(lines)} return {last}; }}")
    return f"""#define V {v}
#define BEGIN
#define IF_FIRST
#define READ(x) vload{width}(0, x + j)
#define NEXT const long j = min(at, n - {width}); LOAD
#define TOP V most = (V)(-INFINITY); \\
    for (long at = 0; at < n; at += {width}) {{ NEXT most = {larger("most", "a")}; }} \\
    const T top = fold_top(most);
#define EACH(e) for (long at = 0; at < n; at += {width}) {{ NEXT vstore{width}(e, 0, out + j); }}
#define IS_LABEL (({mask})({lanes}) == ({mask})(label - j) ? (V)1 : (V)0)
#define SUM(name, e) V all_##name = 0; for (long at = 0; at < n;) {{ V part = 0; \\
    for (int turn = 0; turn < turns && at < n; turn++, at += {width}) {{ \\
        NEXT const V value = e; part += ({mask})({lanes}) < ({mask})(at - j) ? (V)(0) : value; }} \\
    all_##name += part; }} const T name = fold_sum(all_##name);
{chr(10).join(folds)}"""


def _in_groups(group: int) -> str:
    return f"""#define V T
#define BEGIN __local T parts[{group}]; const int me = get_local_id(0);
#define IF_FIRST if (me == 0)
#define READ(x) x[j]
#define FOLD(x, y) parts[me] = x; barrier(CLK_LOCAL_MEM_FENCE); \\
    for (int m = {group // 2}; m > 0; m /= 2) {{ \\
        if (me < m) {{ const T b = parts[me + m]; x = y; parts[me] = x; }} barrier(CLK_LOCAL_MEM_FENCE); }} \\
    x = parts[0]; barrier(CLK_LOCAL_MEM_FENCE);
#define TOP T top = -INFINITY; for (long j = me; j < n; j += {group}) {{ LOAD top = {larger("top", "a")}; }} \\
    FOLD(top, {larger("top", "b")})
#define EACH(e) for (long j = me; j < n; j += {group}) {{ LOAD out[j] = e; }}
#define IS_LABEL (j == label)
#define SUM(name, e) T name = 0; for (long j = me; j < n;) {{ T part = 0; \\
    for (int turn = 0; turn < turns && j < n; turn++, j += {group}) {{ LOAD part += e; }} name += part; }} \\
    FOLD(name, name + b)"""
