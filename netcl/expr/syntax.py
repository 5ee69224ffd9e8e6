"""Scalar expressions from text, by Python's own parser."""

from __future__ import annotations

import ast
from functools import lru_cache

from netcl.errors import ExprError
from netcl.expr.tree import ARITHMETIC, COMPARISONS, CONSTANTS, Call, Expr, Num, Var

_FROM_SYNTAX = {row.syntax: name for name, row in (ARITHMETIC | COMPARISONS).items()}


@lru_cache(maxsize=4096)
def parse(text: str) -> Expr:
    """Read an expression written in the common subset of Python and C.

    A sign in front of a number belongs to the number. Any function name is accepted: the readings know which exist.

    Raises:  ExprError naming the text and the piece that is not in the subset

    >>> from netcl import expr
    >>> expr.parse("1 - a * 2")
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
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
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
