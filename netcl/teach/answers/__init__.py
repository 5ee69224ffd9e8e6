"""The kinds of answers that an exercise may ask for."""

from __future__ import annotations

from netcl.teach.answers.base import Answer, UnfitError
from netcl.teach.answers.choice import Choice
from netcl.teach.answers.formula import Formula
from netcl.teach.answers.function import Function
from netcl.teach.answers.graph import Order, Paths, Word
from netcl.teach.answers.number import Number

__all__ = ["Answer", "Choice", "Formula", "Function", "Number", "Order", "Paths", "UnfitError", "Word"]
