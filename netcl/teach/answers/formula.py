"""A formula, in any equivalent form."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from netcl.teach.answers.base import Answer, Data, value
from netcl.teach.answers.notation import formula, sympy
from netcl.teach.limit import LateError, limited

_POINTS = 24
_ENOUGH = 6
_DIGITS = 30
_SECONDS = 4.0


@dataclass(frozen=True)
class Formula(Answer):
    """A formula in the given real variables; every form that is equal to the expected one passes.

    Two formulas are compared at random points to thirty digits, and one that differs anywhere is another. Where too few
    points lie in the domain of the expected one, SymPy simplifies the difference. With `single=True` the right one must
    be a product or one fraction: a sum that is equal to it is matched with wrong rules alone.

    >>> from types import SimpleNamespace
    >>> f, d = Formula("2*x*(y + 1)", variables=("x", "y")), SimpleNamespace()
    >>> [f.same(f.read(text, d), f.target(d)) for text in ("2*x + 2*x*y", "2*x*y + 1")]
    [True, False]
    """

    expected: Any
    variables: Sequence[str] = ("x",)
    single: bool = False

    def read(self, given: Any, d: Data) -> Any:
        return formula(given, self.variables)

    def target(self, d: Data) -> Any:
        return formula(value(self.expected, d), self.variables)

    def same(self, one: Any, other: Any) -> bool:
        return self._equal(one, other) and not (self.single and one.is_Add != other.is_Add)

    def nearest(self, read: Any, others: Sequence[Any]) -> int | None:
        return next((i for i, other in enumerate(others) if self._equal(read, other)), None)

    def _equal(self, one: Any, other: Any) -> bool:
        if one == other:
            return True
        try:
            return limited(lambda: _equal(one, other, self.variables), _SECONDS)
        except LateError:
            return False

    def wanted(self, d: Data) -> list[str]:
        return [f'A formula in quotes, in {", ".join(self.variables)}: Python\'s notation, such as "2*x**2".']


def _equal(one: Any, other: Any, variables: Sequence[str]) -> bool:
    sp = sympy()
    symbols = [sp.Symbol(name, real=True) for name in variables]
    rng = random.Random(6)
    agreed = 0
    for i in range(_POINTS):
        # Small ones first, then all sizes; a third are positive throughout, for roots and logarithms.
        span = (2, 1, 6)[i % 3]
        at = {s: sp.Rational(rng.randint(1 if i % 3 == 1 else -97, 97), 97) * span for s in symbols}
        there = [_real(each, at) for each in (other, one)]
        if there[0] is None:
            continue
        if there[1] is None or abs(there[0] - there[1]) > sp.Float("1e-20") * (1 + abs(there[0])):
            return False
        agreed += 1
    return agreed >= _ENOUGH or bool(sp.simplify(one - other) == 0)


def _real(expression: Any, at: dict[Any, Any]) -> Any:
    """The value at a point, or nothing where it is not a finite real number."""
    found = expression.xreplace(at)
    found = found.evalf(_DIGITS) if hasattr(found, "evalf") else found
    return found if found.is_real and found.is_finite and found.is_comparable else None
