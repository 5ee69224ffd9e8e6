"""What is computed of a row at once: softmax and its kin, said once for the kernels that go over rows in their ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from netcl.kernels.source import ctype, packed

PER_ROW = ("labels", "each", "log_total")
"""Operands with one number for each row, or (`each`) one for all."""


class Function(NamedTuple):
    """What a function does with a row of n elements, in macros that the kernels define as suits them.

    TOP finds the largest element of `a`; SUM(x, e) adds up e for all elements as x; EACH(e) makes e each element of the
    result; ROW(e) gives e for the row. In e `a` is the element at hand, or a vector of elements, and IS_LABEL is 1 for
    the one at the label, 0 for others; AT_LABEL(a) is that element. R is the type of a row's numbers, for a kernel may
    go over several rows at a time. EXP is of elements, LOG of a row's numbers.
    """

    operands: tuple[str, ...]  # rows, or some of PER_ROW
    body: str
    per_row: bool = False  # one result for each row, not for each element


_TOTAL = "TOP SUM(total, EXP(a - top))"
_LOG_TOTAL = f"{_TOTAL} const R log_total = LOG(total);"
_MOMENTS = (
    "SUM(sum, a) const R mean = sum / n; SUM(square, (a - mean) * (a - mean))"
    "const R scale_ = 1 / sqrt(square / n + scale);"
)

FUNCTIONS = {
    "softmax": Function(("a",), f"{_TOTAL} EACH(EXP(a - top) / total)"),
    "softmax_vjp": Function(("g", "y"), "SUM(dot, y * g) EACH(y * (g - dot))"),
    "log_softmax": Function(("a",), f"{_LOG_TOTAL} EACH((a - top) - log_total)"),
    "log_softmax_vjp": Function(("g", "y"), "SUM(sum, g) EACH(g - EXP(y) * sum)"),
    "cross_entropy": Function(("a", "labels"), f"{_LOG_TOTAL} ROW(log_total - (AT_LABEL(a) - top))", True),
    "cross_entropy_vjp": Function(
        ("a", "labels", "each"),
        f"{_TOTAL} const R weight = scale * each; EACH((EXP(a - top) / total - IS_LABEL) * weight)",
    ),
    "logsumexp": Function(
        ("a",), "TOP const R base = isfinite(top) ? top : (R)0; SUM(total, EXP(a - base)) ROW(LOG(total) + base)", True
    ),
    "logsumexp_vjp": Function(
        ("a", "log_total", "each"),
        "const R base = log_total == -INFINITY ? (R)0 : log_total; EACH(EXP(a - base) * each)",
    ),
    "standardize": Function(("a",), f"{_MOMENTS} EACH((a - mean) * scale_)"),
    "standardize_vjp": Function(
        ("g", "y", "a"), f"{_MOMENTS} SUM(all, g) SUM(dot, y * g) EACH((g - all / n - y * (dot / n)) * scale_)"
    ),
}
"""By name."""


def own_functions(body: str, dtype: np.dtype, names: Sequence[str]) -> str:
    """Put functions for these names: those of functions.py for float32, otherwise the built-in ones."""
    own = "netcl_" if dtype == np.float32 else ""
    for name in names:
        body = body.replace(f"{name}(", f"{own}{name[:3].lower()}(")
    return body


def larger(a: str, b: str) -> str:
    """Return the C expression of the larger of two numbers or vectors: NaN wins, as in NumPy."""
    return f"(({b} > {a}) | ({b} != {b}) ? {b} : {a})"


def parameters(
    function: Function, dtype: np.dtype, labels: np.dtype | None, more: Sequence[str] = ()
) -> tuple[str, str, str]:
    """Return the type of the integers that never change, the kernel's parameters, and the integers' variables.

    The parameters are the result, the operands, a number, and the integers, with `more` after those of all kernels.
    """
    t = ctype(dtype)
    types = {"labels": ctype(labels)} if labels is not None else {}
    operands = [f"__global const {types.get(name, t)}* all_{name}" for name in function.operands]
    struct, numbers, variables = packed(["rows", "n", "step", *more])
    return struct, ", ".join([f"__global {t}* all_out", *operands, "const T scale", numbers]), variables


def moves(function: Function) -> str:
    """Return the statements that find row `k` of the operands and of the result."""
    lines = [] if function.per_row else ["__global T* out = all_out + k * n;"]
    for name in function.operands:
        if name == "labels":
            lines.append("const long label = all_labels[k];")
        elif name in PER_ROW:
            lines.append(f"const T {name} = all_{name}[{'k * step' if name == 'each' else 'k'}];")
        else:
            lines.append(f"__global const T* {name}_ = all_{name} + k * n;")
    return " ".join(lines)


def elements(function: Function) -> Sequence[str]:
    """Return the operands that have an element for each of the result's."""
    return [name for name in function.operands if name not in PER_ROW]
