"""Functions of short rows in one launch: softmax and its kin, where several launches would cost more than the work.

A work-item goes over one row, element by element. That is slower than the kernels of reductions and elementwise ops,
which are vectorised, but a small problem is all launches: `fits` says where this way is the shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.device import Device, Launch
from netcl.kernels.source import ctype, preamble
from netcl.layout import Layout, Shape

_LONGEST = 256  # elements of a row
_MOST = 1 << 15  # elements in all
_ONE_GROUP = 1 << 11  # elements up to which one work-group adds the rows up, too
_GROUP = 16
_TURNS = 16  # elements that are summed in turn, as in reductions

# What each function does with a row of n elements. SUM(e) adds up e for all j.
_TOP = "T top = a[0]; for (long j = 1; j < n; j++) top = (a[j] > top || a[j] != a[j]) ? a[j] : top;"
_LOG_TOTAL = "SUM(total, EXP(a[j] - top)) const T log_total = LOG(total);"
_MOMENTS = "SUM(sum, a[j]) const T mean = sum / n; SUM(square, (a[j] - mean) * (a[j] - mean))"


class _Function(NamedTuple):
    operands: tuple[str, ...]  # rows; `labels` has one integer for each, `each` one number (or one for all)
    body: str
    per_row: bool = False  # one result for each row, not for each element


_FUNCTIONS = {
    "softmax": _Function(("a",), f"{_TOP} SUM(total, EXP(a[j] - top)) EACH(EXP(a[j] - top) / total)"),
    "softmax_vjp": _Function(("g", "y"), "SUM(dot, y[j] * g[j]) EACH(y[j] * (g[j] - dot))"),
    "log_softmax": _Function(("a",), f"{_TOP} {_LOG_TOTAL} EACH((a[j] - top) - log_total)"),
    "log_softmax_vjp": _Function(("g", "y"), "SUM(sum, g[j]) EACH(g[j] - EXP(y[j]) * sum)"),
    "cross_entropy": _Function(("a", "labels"), f"{_TOP} {_LOG_TOTAL} ROW(log_total - (a[label] - top))", True),
    "cross_entropy_vjp": _Function(
        ("a", "labels", "each"),
        f"{_TOP} SUM(total, EXP(a[j] - top)) EACH((EXP(a[j] - top) / total - (j == label)) * (scale * *each))",
    ),
    "standardize": _Function(
        ("a",), f"{_MOMENTS} const T scale_ = 1 / sqrt(square / n + scale); EACH((a[j] - mean) * scale_)"
    ),
    "standardize_vjp": _Function(
        ("g", "y", "a"),
        f"{_MOMENTS} const T scale_ = 1 / sqrt(square / n + scale);"
        "SUM(all, g[j]) SUM(dot, y[j] * g[j]) EACH((g[j] - all / n - y[j] * (dot / n)) * scale_)",
    ),
}


@lru_cache(maxsize=1024)
def fits(layouts: tuple[Layout, ...], axes: Shape) -> bool:
    """Say whether operands of one shape are short rows along their last axis, without gaps, of one float dtype."""
    first = layouts[0]
    return (
        first.dtype.kind == "f"
        and axes == (first.ndim - 1,)
        and 0 < first.size < _MOST
        and first.shape[-1] <= _LONGEST
        and all(x.contiguous and x.offset == 0 and x.shape == first.shape and x.dtype == first.dtype for x in layouts)
    )


def fits_one_group(rows: Layout) -> bool:
    """Say whether `run_rows` may add up what its rows give."""
    return rows.size <= _ONE_GROUP


def run_rows(
    device: Device, name: str, operands: Sequence[Any], out: Layout, scale: float = 1.0, *, total: bool = False
) -> PooledBuffer:
    """Run a function on its operands' rows; return the buffer of the result, which has the layout `out`.

    `scale` is the factor of cross_entropy_vjp, and what standardize adds to the variance. With `total` a function that
    gives one number for each row gives one for all, their sum over `scale`; the rows must fit one group.
    """
    launch = _launch(name, tuple([x.layout for x in operands]), total)
    buffer = device.pool.allocate(out.nbytes)
    device.run(launch, [buffer, *[x.buffer for x in operands]], [scale])
    return buffer


@lru_cache(maxsize=1024)
def _launch(name: str, layouts: tuple[Layout, ...], total: bool) -> Launch:
    named = dict(zip(_FUNCTIONS[name].operands, layouts, strict=True))
    labels = named["labels"].dtype if "labels" in named else None
    each = int("each" in named and named["each"].size > 1)
    dtype, n = layouts[0].dtype, layouts[0].shape[-1]
    rows = layouts[0].size // n
    groups = _GROUP if total else (rows + _GROUP - 1) // _GROUP * _GROUP
    arg_types = (None,) * (1 + len(layouts)) + (dtype.type,)
    source = _source(name, dtype, labels, total)
    return Launch(source, "short_rows", arg_types, (rows, n, each), 0, rows * n, grid=(groups,), local=(_GROUP,))


@lru_cache(maxsize=64)
def _source(name: str, dtype: np.dtype, labels: np.dtype | None, total: bool) -> str:
    function = _FUNCTIONS[name]
    t = ctype(dtype)
    own = "netcl_" if t == "float" else ""
    parameters, moves = [f"__global {t}* out"], [] if function.per_row else ["out += k * n;"]
    for operand in function.operands:
        if operand == "labels" and labels is not None:
            parameters.append(f"__global const {ctype(labels)}* labels")
            moves.append("const long label = labels[k];")
        else:
            parameters.append(f"__global const {t}* {operand}_")
            moves.append(f"__global const {t}* {operand} = {operand}_ + k * {'step' if operand == 'each' else 'n'};")
    body = function.body.replace("EXP(", f"{own}exp(").replace("LOG(", f"{own}log(")
    return f"""/* {name} */
{preamble([dtype], body)}
#define T {t}
#define EACH(e) for (long j = 0; j < n; j++) out[j] = e;
#define ROW(e) {"part += e;" if total else "out[k] = e;"}
#define SUM(name, e) T name = 0; for (long j = 0; j < n;) {{ T part = 0; \\
        for (int turn = 0; turn < {_TURNS} && j < n; turn++, j++) part += e; name += part; }}
__kernel void short_rows({", ".join(parameters)}, const T scale, const long rows, const long n, const long step)
{{
    {_TOTAL if total else _EACH}
}}
""".replace("FUNCTION", f"{' '.join(moves)} {body}")


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
    *out = whole / scale;"""
