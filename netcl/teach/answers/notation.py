"""A formula in Python's notation, as an expression of SymPy. Nothing is evaluated that is not listed here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from netcl.teach.answers.base import UnfitError, kind_of, shown

_MOST_CHARACTERS = 400
_MOST_DIGITS = 40
_MOST_BITS = 4096  # of a power of two numbers
_SAME = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "⋅": "*", "∗": "*", "÷": "/"})
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_ASKED = "Write it in Python's notation, such as 2*x*(y + 1)."
FUNCTIONS = tuple(
    "abs arccos arcsin arctan cos cosh exp ln log log1p pow sigmoid sign sin sinh sqrt tan tanh where".split()
)


def sympy() -> Any:
    """SymPy, which not every installation has.

    Raises:  UnfitError if it is not installed
    """
    try:
        import sympy as found
    except ModuleNotFoundError:
        raise UnfitError('Formulas are compared with SymPy, which is not installed: pip install "netcl[lab]"') from None
    return found


def formula(given: Any, variables: Sequence[str]) -> Any:
    """An expression in real variables, read from a text, a number or an expression of SymPy.

    Raises:  UnfitError with a sentence on what cannot be read

    >>> formula("2*x*(y + 1)", ["x", "y"])
    2*x*(y + 1)
    """
    sp = sympy()
    symbols = {name: sp.Symbol(name, real=True) for name in variables}
    if isinstance(given, sp.Basic):
        return _renamed(given, symbols)
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = repr(given) if abs(given) < 10**_MOST_DIGITS else "?" * _MOST_CHARACTERS * 2
    if not isinstance(given, str):
        raise UnfitError(f'A formula in quotes is asked for, such as "2*x"; {kind_of(given)} was given.')
    return _Reader(sp, symbols).read(given)


def _renamed(given: Any, symbols: dict[str, Any]) -> Any:
    """The same expression in our variables: a student's own may be complex ones of the same name."""
    strange = sorted(str(symbol) for symbol in given.free_symbols if str(symbol) not in symbols)
    if strange:
        raise UnfitError(_unknown(strange[0], symbols))
    return given.xreplace({symbol: symbols[str(symbol)] for symbol in given.free_symbols})


def _unknown(name: str, symbols: dict[str, Any]) -> str:
    return f"{shown(name, 60)} is none of the variables: {', '.join(symbols) or 'there are none'}."


class _Reader:
    def __init__(self, sp: Any, symbols: dict[str, Any]) -> None:
        self.sp, self.symbols = sp, symbols

    def read(self, given: str) -> Any:
        text = given.strip().translate(_SAME)
        if not text:
            raise UnfitError(f"This text is empty. {_ASKED}")
        if len(text) > _MOST_CHARACTERS:
            raise UnfitError(f"This formula is longer than {_MOST_CHARACTERS} characters; a short one is asked for.")
        if any(char in text for char in _SUPERSCRIPTS):
            raise UnfitError("Write a power as x**2, not with a small raised digit.")
        if "√" in text:
            raise UnfitError("Write a root as sqrt(x).")
        if text.count("=") == 1 and not any(sign in text for sign in ("==", "<=", ">=", "!=")):
            raise UnfitError("Write only what stands on the right of the equals sign.")
        try:
            tree = ast.parse(text, mode="eval")
            return self._of(tree.body)
        except SyntaxError:
            raise UnfitError(f"This is no complete formula; is a * missing, or a bracket? {_ASKED}") from None
        except (RecursionError, MemoryError):
            raise UnfitError("This formula is nested too deeply.") from None
        except ValueError:
            raise UnfitError(f"This text cannot be read. {_ASKED}") from None

    def _of(self, node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return self._number(number)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._of(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._of(operand)
            case ast.BinOp(op=ast.BitXor()):
                raise UnfitError("^ is no power in Python; write x**2.")
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self._of(left), self._of(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._comparison(op, self._of(left), self._of(right))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(name, args)
            case ast.Call(func=ast.Constant() | ast.BinOp()):
                raise UnfitError("A * is missing in front of a bracket: 2*(x + 1), not 2(x + 1).")
        raise UnfitError(f"A formula is made of numbers, variables, + - * / ** and functions such as exp(x). {_ASKED}")

    def _number(self, number: int | float) -> Any:
        text = repr(number) if isinstance(number, float) or number < 10**_MOST_DIGITS else None
        if text is None or text in ("inf", "nan"):
            raise UnfitError("A number in this formula is too large.")
        return self.sp.Rational(text)

    def _name(self, name: str) -> Any:
        if name in self.symbols:
            return self.symbols[name]
        if name in ("pi", "π"):
            return self.sp.pi
        if name == "e":
            return self.sp.E
        if name in FUNCTIONS:
            raise UnfitError(f"{name} is a function: write {name}(x).")
        raise UnfitError(_unknown(name, self.symbols))

    def _operation(self, op: ast.operator, left: Any, right: Any) -> Any:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                if right == 0:
                    raise UnfitError("This formula divides by zero.")
                return left / right
            case ast.Pow():
                return self._power(left, right)
        raise UnfitError(f"Only + - * / and ** are read. {_ASKED}")

    def _power(self, base: Any, exponent: Any) -> Any:
        if base.is_number and exponent.is_number:  # these would be multiplied out at once
            size = max((abs(int(n)).bit_length() for n in (base.as_numer_denom()) if n.is_Integer), default=64)
            if not abs(exponent) <= _MOST_BITS / max(size, 1):
                raise UnfitError("A power of numbers in this formula is too large.")
            if base == 0 and exponent.is_negative:
                raise UnfitError("This formula divides by zero.")
        elif exponent.is_number and not abs(exponent) <= 1000:
            raise UnfitError("An exponent in this formula is too large.")
        return base**exponent

    def _comparison(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        kinds: dict[type[ast.cmpop], Callable[..., Any]] = {
            ast.Lt: self.sp.Lt, ast.LtE: self.sp.Le, ast.Gt: self.sp.Gt, ast.GtE: self.sp.Ge,
        }  # fmt: skip
        if type(op) not in kinds:
            raise UnfitError("Of comparisons only < <= > >= are read, inside where(…).")
        return kinds[type(op)](left, right)

    def _call(self, name: str, args: list[ast.expr]) -> Any:
        sp = self.sp
        one: dict[str, Callable[..., Any]] = {
            "abs": sp.Abs, "arccos": sp.acos, "arcsin": sp.asin, "arctan": sp.atan, "cos": sp.cos, "cosh": sp.cosh,
            "exp": sp.exp, "ln": sp.log, "log": sp.log, "log1p": lambda x: sp.log(1 + x), "sign": sp.sign,
            "sigmoid": lambda x: 1 / (1 + sp.exp(-x)), "sin": sp.sin, "sinh": sp.sinh, "sqrt": sp.sqrt, "tan": sp.tan,
            "tanh": sp.tanh,
        }  # fmt: skip
        if name in self.symbols:
            raise UnfitError(f"A * is missing behind {name}: {name}*(…), not {name}(…).")
        if name == "where" and len(args) == 3:
            condition, then, otherwise = (self._of(arg) for arg in args)
            return sp.Piecewise((then, condition), (otherwise, True))
        if name == "pow" and len(args) == 2:
            return self._power(*(self._of(arg) for arg in args))
        if name in one and len(args) == 1:
            return one[name](self._of(args[0]))
        if name in FUNCTIONS:
            raise UnfitError(f"{name} takes another number of arguments.")
        raise UnfitError(f"{shown(name, 60)} is none of the functions: {', '.join(FUNCTIONS)}.")
