"""Scalar expressions: parsed from text; read as OpenCL C, as NumPy, as mathematical text; substituted and simplified.

A row of the op table, such as `elementwise("tanh", "tanh(a)", a="1 - out * out")`, is written in the common subset of
Python and C: names, numbers, `+ - * /`, signs, single comparisons, and calls. `where(c, x, y)` is the only branch. The
names `inf`, `nan` and `pi` are numbers. Python's own `ast` reads the text, once; every other reading walks the tree.

The functions recurse, a few frames a level: a caller that builds trees from a user's program caps their depth (a few
hundred levels are safe). A subtree that is used twice is read twice.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
        except (TypeError, ValueError, OverflowError):
            raise ExprError(f"{self.value!r} is not a number that a double can hold") from None
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
_SIGN = "({0} > 0 ? 1 : ({0} < 0 ? -1 : {0}))"  # NaN stays NaN; OpenCL's own sign() makes it 0
_WHERE = "({0} ? {1} : {2})"
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
    "log": Function("log", np.log),
    "log1p": Function("log1p", np.log1p),
    "log2": Function("log2", np.log2),
    "pow": Function("pow", _power, arity=2),
    "round": Function("rint", np.rint, c_integer="{0}"),  # half to even, as NumPy
    "rsqrt": Function("rsqrt", lambda x: 1 / np.sqrt(x)),
    "sign": Function(_SIGN, np.sign, c_integer=_SIGN),
    "sin": Function("sin", np.sin),
    "sinh": Function("sinh", np.sinh),
    "sqrt": Function("sqrt", np.sqrt),
    "tan": Function("tan", np.tan),
    "tanh": Function("tanh", np.tanh),
    "where": Function(_WHERE, np.where, arity=3, c_integer=_WHERE),
}
CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi}
_FROM_SYNTAX = {row.syntax: name for name, row in (ARITHMETIC | COMPARISONS).items()}


# ── text → tree ──────────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def parse(text: str) -> Expr:
    """Read an expression written in the common subset of Python and C.

    A sign in front of a number belongs to the number. Any function name is accepted: the readings know which exist.

    Raises:  ExprError naming the text and the piece that is not in the subset

    >>> parse("1 - a * 2")
    Call(fn='sub', args=(Num(value=1), Call(fn='mul', args=(Var(name='a'), Num(value=2)))))
    """
    source = text.strip()
    try:
        return _convert(ast.parse(source, mode="eval").body, source)
    except ExprError:
        raise
    except (SyntaxError, ValueError) as error:
        raise ExprError(f"cannot read {text!r} as an expression: {error}") from None
    except (RecursionError, MemoryError):
        raise ExprError(f"{text[:60]!r}… is nested too deeply") from None


def _convert(node: ast.AST, source: str) -> Expr:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return Num(value)
        case ast.Name(id=name):
            return Num(CONSTANTS[name]) if name in CONSTANTS else Var(name)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _convert(operand, source)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            e = _convert(operand, source)
            return Num(-e.value) if isinstance(e, Num) else Call("neg", (e,))
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            if type(op) in _FROM_SYNTAX:
                return Call(_FROM_SYNTAX[type(op)], (_convert(left, source), _convert(right, source)))
        case ast.Call(func=ast.Name(id=fn), args=args, keywords=[]):
            return Call(fn, tuple(_convert(arg, source) for arg in args))
    piece = ast.get_source_segment(source, node) or ast.unparse(node)
    hint = "; write pow(x, y)" if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else ""
    raise ExprError(f"{piece!r} in {source!r} is not a name, number, + - * /, single comparison or plain call{hint}")


# ── tree → tree ──────────────────────────────────────────────────────────────────────────────────────────────────────


def variables(e: Expr) -> tuple[str, ...]:
    """The names in an expression, in the order in which they first appear.

    >>> variables(parse("b * (a + b)"))
    ('b', 'a')
    """
    found: dict[str, None] = {}
    stack = [e]
    while stack:
        top = stack.pop()
        if isinstance(top, Var):
            found[top.name] = None
        elif isinstance(top, Call):
            stack.extend(reversed(top.args))
    return tuple(found)


def substitute(e: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """Put expressions in the place of names, all at once; other names stay.

    >>> to_text(substitute(parse("a * b"), {"a": parse("b + 1"), "b": Num(2)}))
    '(b + 1)·2'
    """
    if isinstance(e, Var):
        return replacements.get(e.name, e)
    if isinstance(e, Call):
        return Call(e.fn, tuple(substitute(arg, replacements) for arg in e.args))
    return e


def simplify(e: Expr) -> Expr:
    """Fold constants and drop operations that change nothing.

    Every rule holds for all floats, NaN and infinities too, save that the sign of a zero may change (−0 + 0 is +0, and
    x + 0 becomes x). So `0 * x` and `x - x` stay: they are NaN where x is. Constants are folded in double precision;
    ints stay ints, except under `/`.

    >>> to_text(simplify(parse("2 * pow(x + 0, 2 - 1) * 1")))
    '2x'
    """
    if not isinstance(e, Call):
        return e
    args = tuple(simplify(arg) for arg in e.args)
    numbers = [arg.value for arg in args if isinstance(arg, Num)]
    if len(numbers) == len(args):
        folded = _fold(e.fn, numbers)
        if folded is not None:
            return folded
    if len(args) == 2:
        return _simplify_binary(e.fn, *args)
    match e.fn, args:
        case "neg", (Call("neg", (x,)),):
            return x
        case "where", (Num(c), x, y):
            return x if c else y
        case "where", (_, x, y) if x == y:
            return x
    return Call(e.fn, args)


def _fold(fn: str, values: list[int | float]) -> Num | None:
    """The constant, or None where Python and C could disagree about it (1 / 0, complex powers, ints beyond 2⁵³)."""
    try:
        if fn in COMPARISONS:
            return Num(int(COMPARISONS[fn].numpy(*values)))
        if fn == "pow" and abs(values[1]) > 64:  # Python would work out 10 ** 10 ** 10
            return None
        value = _PYTHON[fn](*values)
    except (LookupError, TypeError, ArithmeticError):
        return None
    if isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53):
        return Num(value)
    return None


def _simplify_binary(fn: str, a: Expr, b: Expr) -> Expr:
    match fn, a, b:
        case ("add" | "sub", x, Num(0)) | ("mul" | "div" | "pow", x, Num(1)) | ("add", Num(0), x) | ("mul", Num(1), x):
            return x
        case ("mul" | "div", x, Num(-1)) | ("mul", Num(-1), x):
            return _negate(x)
        case ("pow", _, Num(0)) | ("pow", Num(1), _):
            return Num(1)
        case "add" | "sub", x, Call("neg", _) | Num():
            if isinstance(b, Call) or b.value < 0:
                return Call("sub" if fn == "add" else "add", (x, _negate(b)))
    return Call(fn, (a, b))


def _negate(e: Expr) -> Expr:
    match e:
        case Num(value):
            return Num(-value)
        case Call("neg", (x,)):
            return x
    return Call("neg", (e,))


# ── tree → OpenCL C ──────────────────────────────────────────────────────────────────────────────────────────────────

FLOATS = ("float", "double")
INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")


def to_c(e: Expr, ctype: str = "float", names: Mapping[str, str] | None = None) -> str:
    """The expression in OpenCL C, computed in `ctype`, with parentheses around every operation.

    `names` gives the C text of a variable; without an entry it is its own name. A comparison is a C int; where a number
    is wanted it is cast to `ctype`, since 1 / 2 on ints is 0 and `exp` of an int is ambiguous. Integer types have
    `+ - *`, comparisons, abs, sign, where, floor, ceil and round.

    Raises:  ExprError for an unknown function, type or argument count, and for what `ctype` cannot compute

    >>> to_c(parse("1 - a / 2"), "float", {"a": "a[i]"})
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
        if isinstance(arg, Call) and arg.fn in COMPARISONS and (e.fn, i) != ("where", 0):
            args[i] = f"({ctype}){args[i]}"
    return _c_template(e, ctype).format(*args)


def _c_template(e: Call, ctype: str) -> str:
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


# ── tree → values ────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_in_c(f: Callable[..., Any]) -> Callable[..., Any]:
    """Truth values count as the ints 0 and 1, as in C: NumPy has no `-` for booleans, and its `+` is an or."""

    def call(*args: Any) -> Any:
        if all(np.asarray(arg).dtype == np.bool_ for arg in args):
            args = tuple(np.asarray(arg).astype(np.int64) for arg in args)
        return f(*args)

    return call


def _weak(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of constants stays a Python number, so that 1 / 2 does not turn a float32 array into float64."""

    def call(*args: Any) -> Any:
        result = f(*args)
        return np.asarray(result).item() if all(type(arg) in (bool, int, float) for arg in args) else result

    return call


_PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
    "pow": operator.pow,
}
NUMPY: dict[str, Callable[..., Any]] = {
    "neg": _weak(_as_in_c(operator.neg)),
    **{name: _weak(_as_in_c(row.numpy)) for name, row in (ARITHMETIC | FUNCTIONS).items()},
    **{name: _weak(row.numpy) for name, row in COMPARISONS.items()},
    "where": _weak(np.where),
}


def evaluate(e: Expr, env: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = NUMPY) -> Any:
    """The value of an expression, with `env` for its names and `functions` for its functions and operators.

    `functions` need not hold `add sub mul div neg pow`: Python's operators stand in. It must hold the comparisons that
    occur, since `==` is identity on tensors. Both branches of a `where` are computed.

    Raises:  ExprError naming a function or a variable that is missing

    >>> evaluate(parse("where(a < 0, 0, a)"), {"a": np.array([-1.0, 2.0])})
    array([0., 2.])
    """
    match e:
        case Num(value):
            return value
        case Var(name):
            if name not in env:
                raise ExprError(f"no value for {name!r}; there are {', '.join(env) or 'none'}")
            return env[name]
    function = functions.get(e.fn) or _PYTHON.get(e.fn)
    if function is None:
        raise ExprError(f"no function {e.fn!r}; there are {', '.join(functions)}")
    return function(*(evaluate(arg, env, functions) for arg in e.args))


# ── tree → text ──────────────────────────────────────────────────────────────────────────────────────────────────────

_MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_COMPARISON, _SUM, _QUOTIENT, _MATMUL, _PRODUCT, _POWER, _ATOM = range(7)  # how tightly a text holds together
_PLAIN_NAME = re.compile(r"[^\W\d][\w.]*(\[[\w\s,:]*\])*")
_LETTER = "[A-Za-zα-ωΑ-Ω]"
_RAISED_LETTER = re.compile(f"{_LETTER}[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*")
_COEFFICIENT = re.compile(rf"{_MINUS}?(?!0$)\d+(\.\d+)?")
_AFTER_COEFFICIENT = re.compile(rf"{_LETTER}([⁻⁰¹²³⁴⁵⁶⁷⁸⁹^].*)?|[(√|⌊⌈].*")
_GROUP = re.compile(r"\([^^]*[)⁰¹²³⁴⁵⁶⁷⁸⁹]")


def to_text(e: Expr) -> str:
    """The expression as a mathematician would write it, with the fewest parentheses.

    A number stands directly before a one-letter name or a parenthesis, and one-letter names before each other; any
    other product has a `·`, so that a name of several letters is never mistaken for a product. Sums and products are
    not parenthesised for their order of evaluation alone. `a @ b` does not mix with `·` without parentheses, save
    `2x @ W`. Names are printed as they are, in parentheses where they are not plain and the place needs it.

    >>> to_text(parse("2 * (x + 1)")), to_text(parse("pow(x + 1, 2)")), to_text(parse("-out / (a * loss)"))
    ('2(x + 1)', '(x + 1)²', '−out / (a·loss)')
    """
    return _text(e)[0]


def _text(e: Expr) -> tuple[str, int]:
    match e:
        case Num(value):
            return _text_number(value)
        case Var(name):
            return name, _ATOM if _PLAIN_NAME.fullmatch(name) else _COMPARISON
        case Call("add", (a, b)):
            return f"{_wrap(a, _SUM, first=True)} + {_wrap(b, _SUM)}", _SUM
        case Call("sub", (a, b)):
            return f"{_wrap(a, _SUM, first=True)} {_MINUS} {_wrap(b, _QUOTIENT)}", _SUM
        case Call("div", (a, b)):
            return f"{_wrap(a, _QUOTIENT, first=True)} / {_wrap(b, _POWER)}", _QUOTIENT
        case Call("matmul", (a, b)):
            return f"{_wrap(a, _MATMUL, first=True)} @ {_wrap(b, _POWER)}", _MATMUL
        case Call("mul", (_, _)):
            return _text_product(e), _PRODUCT
        case Call("neg", (a,)):
            text = _wrap(a, _QUOTIENT)
            return _MINUS + text, _PRODUCT if text.startswith("(") else min(_text(a)[1], _PRODUCT)
        case Call("pow", (a, b)):
            return _text_power(a, b), _POWER
        case Call("sqrt", (a,)):
            return f"√{_wrap(a, _ATOM)}", _POWER
        case Call(fn, (a, b)) if fn in COMPARISONS:
            return f"{_wrap(a, _SUM, first=True)} {COMPARISONS[fn].text} {_wrap(b, _SUM, first=True)}", _COMPARISON
    args = ", ".join(_text(arg)[0] for arg in e.args)
    notation = FUNCTIONS[e.fn].text if e.fn in FUNCTIONS and len(e.args) == 1 else None
    return notation.format(args) if notation and "|" not in args else f"{e.fn}({args})", _ATOM


def _wrap(e: Expr, level: int, first: bool = False) -> str:
    """The text, in parentheses if it holds together less tightly than `level`, or has a sign and does not come first."""
    text, own = _text(e)
    return text if own >= level and (first or not text.startswith(_MINUS)) else f"({text})"


def _text_number(value: int | float) -> tuple[str, int]:
    if abs(value) == math.pi:
        text = "π"
    elif math.isinf(value):
        text = "∞"
    else:
        text = str(abs(value)) if isinstance(value, int) else f"{abs(value):g}"
    level = _POWER if "e" in text else _ATOM
    text = text.replace("-", _MINUS)
    return (_MINUS + text, _PRODUCT) if math.copysign(1, value) < 0 and not math.isnan(value) else (text, level)


def _text_product(e: Expr) -> str:
    factors: list[Expr] = []
    stack = [e]
    while stack:
        top = stack.pop()
        if isinstance(top, Call) and top.fn == "mul" and len(top.args) == 2:
            stack.extend(reversed(top.args))
        else:
            factors.append(top)
    texts = [_wrap(factor, _PRODUCT, first=i == 0) for i, factor in enumerate(factors)]
    text = texts[0]
    for i in range(1, len(texts)):
        numbers = isinstance(factors[i - 1], Num) and isinstance(factors[i], Num)
        text += texts[i] if not numbers and _juxtaposed(texts[i - 1], texts[i]) else "·" + texts[i]
    return text


def _juxtaposed(left: str, right: str) -> bool:
    if _COEFFICIENT.fullmatch(left):
        return bool(_AFTER_COEFFICIENT.fullmatch(right))
    left = left.removeprefix(_MINUS)
    if _RAISED_LETTER.fullmatch(left):
        return bool(_RAISED_LETTER.fullmatch(right))
    return bool(_GROUP.fullmatch(left)) and right.startswith("(")


def _text_power(base: Expr, exponent: Expr) -> str:
    if isinstance(exponent, Num):
        if exponent.value == 0.5:
            return f"√{_wrap(base, _ATOM)}"
        if abs(exponent.value) < 1000 and exponent.value == int(exponent.value):
            return _wrap(base, _ATOM) + str(int(exponent.value)).translate(_SUPERSCRIPTS)
    return f"{_wrap(base, _ATOM)}^{_wrap(exponent, _ATOM)}"
