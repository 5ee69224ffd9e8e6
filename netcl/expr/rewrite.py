"""Scalar expressions into others: names replaced, constants folded."""

from __future__ import annotations

from collections.abc import Mapping

from netcl.expr.tree import COMPARISONS, OPERATORS, Call, Expr, Num, Var


def variables(e: Expr) -> tuple[str, ...]:
    """The names in an expression, in the order in which they first appear.

    >>> from netcl import expr
    >>> expr.variables(expr.parse("b * (a + b)"))
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

    >>> from netcl import expr
    >>> expr.to_text(expr.substitute(expr.parse("a * b"), {"a": expr.parse("b + 1"), "b": expr.Num(2)}))
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

    >>> from netcl import expr
    >>> expr.to_text(expr.simplify(expr.parse("2 * pow(x + 0, 2 - 1) * 1")))
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
        value = OPERATORS[fn](*values)
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
