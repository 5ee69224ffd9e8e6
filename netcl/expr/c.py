"""Scalar expressions in OpenCL C."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from netcl.errors import ExprError
from netcl.expr.tree import ARITHMETIC, COMPARISONS, FUNCTIONS, Call, Expr, Num, Var

FLOATS = ("float", "double")
INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")


def to_c(e: Expr, ctype: str = "float", names: Mapping[str, str] | None = None) -> str:
    """The expression in OpenCL C, computed in `ctype`, with parentheses around every operation.

    `names` gives the C text of a variable; without an entry it is its own name. A comparison is a C int; where a number
    is wanted it is cast to `ctype`, since 1 / 2 on ints is 0 and `exp` of an int is ambiguous. Integer types have
    `+ - *`, comparisons, abs, sign, where, floor, ceil and round.

    Raises:  ExprError for an unknown function, type or argument count, and for what `ctype` cannot compute

    >>> from netcl import expr
    >>> expr.to_c(expr.parse("1 - a / 2"), "float", {"a": "a[i]"})
    '(1.0f - (a[i] / 2.0f))'
    """
    if ctype not in FLOATS + INTEGERS:
        raise ExprError(f"{ctype!r} is not a C type that expressions are computed in: {', '.join(FLOATS + INTEGERS)}")
    match e:
        case Num(value):
            return _c_number(value, ctype)
        case Var(name):
            return _c_name(name, names or {})
    args = [to_c(arg, ctype, names) for arg in e.args]
    for i, arg in enumerate(e.args):
        truth_value = isinstance(arg, Call) and arg.fn in COMPARISONS
        condition = (e.fn, i) == ("where", 0)
        if truth_value and not condition:
            args[i] = f"({ctype}){args[i]}"
        if condition and not truth_value:  # OpenCL C, unlike C, refuses a float as a condition
            args[i] = f"({args[i]} != 0)"
    return _c_template(e, ctype).format(*args)


# Float32 functions that netcl.kernels has in C of its own, since what is built in is not vectorised on CPUs.
INLINE = frozenset({"exp", "log", "tanh", "sigmoid", "erf", "sin", "cos"})

# Powers whose exponent is known, without the call to pow: it takes a hundred times as long, and is not vectorised.
# The root is exact where pow is, at −0 and −∞ too; 1 / a² is two divisions, so that a² does not overflow before them.
_SQRT = "({0} == -INFINITY ? INFINITY : sqrt({0} + 0))"
_POWERS: dict[float, str] = {
    2: "({0} * {0})",
    3: "({0} * {0} * {0})",
    4: "(({0} * {0}) * ({0} * {0}))",
    -1: "(1 / {0})",
    -2: "((1 / {0}) * (1 / {0}))",
    0.5: _SQRT,
    -0.5: f"(1 / {_SQRT})",
}


def _c_template(e: Call, ctype: str) -> str:
    if ctype == "float" and e.fn in INLINE and len(e.args) == 1:
        return f"netcl_{e.fn}({{0}})"
    if ctype in FLOATS and e.fn == "pow" and len(e.args) == 2 and isinstance(e.args[1], Num):
        power = _POWERS.get(e.args[1].value)
        if power is not None:
            return power
    if e.fn == "neg":
        arity, template, integer = 1, "(-{0})", True
    elif e.fn in ARITHMETIC or e.fn in COMPARISONS:
        symbol = (ARITHMETIC.get(e.fn) or COMPARISONS[e.fn]).symbol
        arity, template, integer = 2, f"({{0}} {symbol} {{1}})", e.fn != "div"
    elif e.fn in FUNCTIONS:
        row = FUNCTIONS[e.fn]
        call = row.c if "{" in row.c else f"{row.c}({', '.join(f'{{{i}}}' for i in range(row.arity))})"
        integer = row.c_integer is not None
        arity, template = row.arity, row.c_integer if row.c_integer and ctype in INTEGERS else call
    else:
        raise ExprError(f"no function {e.fn!r} in OpenCL C; there are {', '.join(FUNCTIONS)}")
    if len(e.args) != arity:
        raise ExprError(f"{e.fn} takes {arity} argument{'s' * (arity > 1)}, got {len(e.args)}")
    if ctype in INTEGERS and not integer:
        raise ExprError(f"{e.fn} has no reading in integers ({ctype}): convert the operands to a float dtype")
    return template


def _c_number(value: int | float, ctype: str) -> str:
    if ctype in INTEGERS:
        if not math.isfinite(value) or value != int(value):
            raise ExprError(f"{value!r} is not an integer, as {ctype} needs")
        text = str(int(value))
    elif ctype == "float":
        with np.errstate(over="ignore"):  # beyond float32 is infinite, in C too
            text = str(np.float32(float(value)))
    else:
        text = repr(float(value))
    cast = "(double)" if ctype == "double" else ""  # INFINITY and NAN are floats: pow(double, float) is ambiguous
    if text == "nan":
        return f"({cast}NAN)"
    if text.endswith("inf"):
        return f"({text[:-3]}{cast}INFINITY)"
    text += "f" if ctype == "float" else ""
    return f"({text})" if text.startswith("-") else text


def _c_name(name: str, names: Mapping[str, str]) -> str:
    text = names.get(name, name)
    if re.fullmatch(r"[A-Za-z_]\w*(\[\w+\])?", text, re.ASCII):
        return text
    if name not in names:
        raise ExprError(f"{name!r} is not a C identifier: give its C text in names")
    return f"({text})"
