"""Scalar expressions: parsed from text; read as OpenCL C, as NumPy, as mathematical text; substituted and simplified.

A row of the op table, such as `elementwise("tanh", "tanh(a)", a="1 - out * out")`, is written in the common subset of
Python and C: names, numbers, `+ - * /`, signs, single comparisons, and calls. `where(c, x, y)` is the only branch. The
names `inf`, `nan` and `pi` are numbers. A text is parsed once; every reading walks the tree.

The functions recurse, a few frames a level: a caller that builds trees from a user's program caps their depth (two
hundred levels are safe). A subtree that is used twice is read twice.
"""

from __future__ import annotations

from netcl.expr.c import to_c
from netcl.expr.rewrite import simplify, substitute, variables
from netcl.expr.syntax import parse
from netcl.expr.text import to_text
from netcl.expr.tree import FUNCTIONS, Call, Expr, Num, Var
from netcl.expr.values import NUMPY, evaluate

__all__ = [
    "FUNCTIONS",
    "NUMPY",
    "Call",
    "Expr",
    "Num",
    "Var",
    "evaluate",
    "parse",
    "simplify",
    "substitute",
    "to_c",
    "to_text",
    "variables",
]
