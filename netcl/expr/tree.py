"""What a scalar expression is made of: numbers, names and calls, and the tables of the calls that have a meaning.

A function is one row of FUNCTIONS: its C, its NumPy and, where mathematics has one, its notation.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from netcl.errors import ExprError


@dataclass(frozen=True, slots=True, eq=False)
class Num:
    """A constant, kept as a Python int or float.

    Equality is that of the written number: `Num(1) != Num(1.0)` and `Num(0.0) != Num(-0.0)`, since their C texts
    differ, while `Num(nan) == Num(nan)`. So an expression can be the key of a cache of kernels.

    Raises:  ExprError if the value is not a real number, or an int too large for a double
    """

    value: int | float

    def __post_init__(self) -> None:
        try:
            number = int(self.value) if isinstance(self.value, int | np.integer | np.bool_) else float(self.value)
            float(number)
        except OverflowError:
            raise ExprError("an integer beyond 1.8e308 is not a number that a double can hold") from None
        except (TypeError, ValueError):
            raise ExprError(f"{self.value!r} is not a real number") from None
        object.__setattr__(self, "value", number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Num) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class Var:
    """A name: an operand `a`, `b` …, the result `out`, or, in text, whatever a user called a tensor."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator (`add`, `sub`, `mul`, `div`, `neg`, `pow`, `less` …) applied to its arguments."""

    fn: str
    args: tuple[Expr, ...]


Expr = Num | Var | Call


class Operator(NamedTuple):
    syntax: type[ast.AST]
    symbol: str  # the same in Python and in C
    numpy: Callable[..., Any]
    text: str


class Function(NamedTuple):
    c: str  # a C function, or a template with {0} {1} …
    numpy: Callable[..., Any]
    text: str | None = None  # a template, where mathematics has a notation of its own
    arity: int = 1
    c_integer: str | None = None  # a template for integer types, where the function makes sense


def _by_element(f: Callable[[float], float]) -> Callable[..., Any]:
    """NumPy has no erf: call `math`'s on each element, and keep the dtype of floating-point arrays."""
    each = np.vectorize(f, otypes=[np.float64])

    def call(x: Any) -> Any:
        dtype = np.asarray(x).dtype
        return each(x).astype(dtype if dtype.kind == "f" else np.float64)

    return call


def _power(a: Any, b: Any) -> Any:
    # C's pow is always floating-point; NumPy refuses integers to negative powers and lets constants overflow.
    return np.power(a, float(b) if type(b) is int and (b < 0 or type(a) is int) else b)


def _sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):  # exp(-x) overflows to infinity, and 1 / inf is 0
        return 1 / (1 + np.exp(-x))


ARITHMETIC: dict[str, Operator] = {
    "add": Operator(ast.Add, "+", operator.add, "+"),
    "sub": Operator(ast.Sub, "-", operator.sub, "\u2212"),
    "mul": Operator(ast.Mult, "*", operator.mul, "·"),
    "div": Operator(ast.Div, "/", np.true_divide, "/"),
}
COMPARISONS: dict[str, Operator] = {
    "less": Operator(ast.Lt, "<", np.less, "<"),
    "less_equal": Operator(ast.LtE, "<=", np.less_equal, "≤"),
    "greater": Operator(ast.Gt, ">", np.greater, ">"),
    "greater_equal": Operator(ast.GtE, ">=", np.greater_equal, "≥"),
    "equal": Operator(ast.Eq, "==", np.equal, "="),
    "not_equal": Operator(ast.NotEq, "!=", np.not_equal, "≠"),
}
_SIGN = "({0} > 0 ? 1 : ({0} < 0 ? -1 : {0} + 0))"  # NaN stays NaN (OpenCL's own sign() makes it 0), −0 becomes 0
_WHERE = "({0} ? {1} : {2})"


def _floored(template: str, rest: str) -> str:
    """Fill in REST, the remainder that C has, and OTHER: whether its sign is not that of the divisor."""
    return template.replace("OTHER", "(REST != 0 && (REST < 0) != ({1} < 0))").replace("REST", rest)


# As NumPy divides: the remainder is exact, and the quotient is made from it, so that 1 // 0.1 is 9 (0.1 is a little
# more than a tenth). In integers, C leaves x / 0 and the smallest number / −1 undefined: PoCL dies of them.
_REMAINDER = _floored("(REST == 0 ? copysign({0} * 0, {1}) : REST + (OTHER ? {1} : 0))", "fmod({0}, {1})")
_FLOOR_DIVIDE = _floored(
    "({1} == 0 ? {0} / {1} : WHOLE == 0 ? copysign({0} * 0, {0} / {1}) : "
    "floor(WHOLE) + ((WHOLE - floor(WHOLE)) * 2 > 1))".replace("WHOLE", "(({0} - REST) / {1} - OTHER)"),
    "fmod({0}, {1})",
)
_BY_MINUS_1 = "({1} < 0 && {1} == -1)"
_INT_REMAINDER = _floored(f"({{1}} == 0 || {_BY_MINUS_1} ? 0 : REST + (OTHER ? {{1}} : 0))", "({0} % {1})")
_INT_DIVIDE = _floored(f"({{1}} == 0 ? 0 : {_BY_MINUS_1} ? 0 - {{0}} : {{0}} / {{1}} - OTHER)", "({0} % {1})")
FUNCTIONS: dict[str, Function] = {
    "abs": Function("fabs", np.abs, "|{0}|", c_integer="({0} < 0 ? -{0} : {0})"),
    "arccos": Function("acos", np.arccos),
    "arcsin": Function("asin", np.arcsin),
    "arctan": Function("atan", np.arctan),
    "arctan2": Function("atan2", np.arctan2, arity=2),
    "ceil": Function("ceil", np.ceil, "⌈{0}⌉", c_integer="{0}"),
    "cos": Function("cos", np.cos),
    "cosh": Function("cosh", np.cosh),
    "erf": Function("erf", _by_element(math.erf)),
    "erfc": Function("erfc", _by_element(math.erfc)),
    "exp": Function("exp", np.exp),
    "exp2": Function("exp2", np.exp2),
    "expm1": Function("expm1", np.expm1),
    "floor": Function("floor", np.floor, "⌊{0}⌋", c_integer="{0}"),
    "floor_divide": Function(_FLOOR_DIVIDE, np.floor_divide, arity=2, c_integer=_INT_DIVIDE),
    "log": Function("log", np.log),
    "log1p": Function("log1p", np.log1p),
    "log2": Function("log2", np.log2),
    "pow": Function("pow", _power, arity=2),
    "remainder": Function(_REMAINDER, np.remainder, arity=2, c_integer=_INT_REMAINDER),
    "round": Function("rint", np.rint, c_integer="{0}"),  # half to even, as NumPy
    "rsqrt": Function("rsqrt", lambda x: 1 / np.sqrt(x)),
    # Of use in partials: the op has the same name, so that a second derivative is as stable as the first.
    "sigmoid": Function("(1 / (1 + exp(-{0})))", _sigmoid),
    "sign": Function(_SIGN, np.sign, c_integer=_SIGN),
    "sin": Function("sin", np.sin),
    "sinh": Function("sinh", np.sinh),
    "sqrt": Function("sqrt", np.sqrt),
    "tan": Function("tan", np.tan),
    "tanh": Function("tanh", np.tanh),
    "where": Function(_WHERE, np.where, arity=3, c_integer=_WHERE),
}
CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
# What these mean on anything that has Python's operators; comparisons are not here, since == is identity on tensors.
OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": operator.pow,
}
