"""Scalar expressions as a mathematician would write them: minimal parentheses, `2(x + 1)`, `x²`, `√x`."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from netcl.expr.tree import COMPARISONS, FUNCTIONS, Call, Expr, Num, Var

_MINUS = "\u2212"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_COMPARISON, _SUM, _QUOTIENT, _MATMUL, _PRODUCT, _POWER, _ATOM = range(7)  # how tightly a text holds together
_PLAIN_NAME = re.compile(r"[^\W\d][\w.]*(\[[\w\s,:]*\])*")
_LETTER = "[A-Za-zα-ωΑ-Ω]"
_RAISED_LETTER = re.compile(f"{_LETTER}[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*")
_COEFFICIENT = re.compile(rf"{_MINUS}?(?!0$)\d+(\.\d+)?")
_AFTER_COEFFICIENT = re.compile(rf"{_LETTER}([⁻⁰¹²³⁴⁵⁶⁷⁸⁹^].*)?|[√|⌊⌈].*|\((?!{_MINUS}\d).*")
_GROUP = re.compile(r"\([^^·]*[)⁰¹²³⁴⁵⁶⁷⁸⁹]")


@lru_cache(maxsize=4096)  # a picture says the same expression on a card, on its edges and in their hints
def to_text(e: Expr) -> str:
    """The expression as a mathematician would write it, with the fewest parentheses.

    A number stands directly before a one-letter name or a parenthesis, and one-letter names before each other; any
    other product has a `·`, so that a name of several letters is never mistaken for a product. Sums and products are
    not parenthesised for their order of evaluation alone. `a @ b` does not mix with `·` without parentheses, save
    `2x @ W`. Names are printed as they are, in parentheses where they are not plain and the place needs it.

    >>> from netcl import expr
    >>> shifted = expr.Call("add", (expr.Var("x"), expr.Num(1)))
    >>> expr.to_text(expr.Call("mul", (expr.Num(2), shifted))), expr.to_text(expr.Call("pow", (shifted, expr.Num(2))))
    ('2(x + 1)', '(x + 1)²')
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
            text, level = _text(a)
            bare = level >= _QUOTIENT and not text.startswith(_MINUS)
            return (_MINUS + text, min(level, _PRODUCT)) if bare else (f"{_MINUS}({text})", _PRODUCT)
        case Call("pow", (a, b)):
            return _text_power(a, b), _POWER
        case Call("floor_divide", (_, _)):
            return f"⌊{_text(Call('div', e.args))[0]}⌋", _ATOM
        case Call("remainder", (a, b)):
            return f"{_wrap(a, _POWER)} mod {_wrap(b, _POWER)}", _COMPARISON
        case Call("sqrt", (a,)):
            return f"√{_wrap(a, _ATOM)}", _POWER
        case Call(fn, (a, b)) if fn in COMPARISONS:
            return f"{_wrap(a, _SUM, first=True)} {COMPARISONS[fn].text} {_wrap(b, _SUM, first=True)}", _COMPARISON
    args = ", ".join(_text(arg)[0] for arg in e.args)
    notation = FUNCTIONS[e.fn].text if e.fn in FUNCTIONS and len(e.args) == 1 else None
    return notation.format(args) if notation and "|" not in args else f"{e.fn}({args})", _ATOM


def _wrap(e: Expr, level: int, first: bool = False) -> str:
    """The text, in parentheses if it is looser than `level`, or begins with a sign and does not come first."""
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
        text += texts[i] if _juxtaposed(texts[i - 1], texts[i]) else "·" + texts[i]
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
