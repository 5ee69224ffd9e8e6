"""Dual numbers: the values of forward mode, a primal and the tangent that it moves along.

Source: Griewank & Walther (2008), Evaluating Derivatives, chapter 3; Siskind & Pearlmutter (2005), Perturbation
Confusion and Referential Transparency, for the levels that keep nested derivatives apart.
"""

from __future__ import annotations

from typing import Any

from netcl.autograd.wrapped import Wrapped
from netcl.tensor import Tensor


class Dual(Wrapped):
    """A value x + ẋ ε of forward mode on level `level`: ε² = 0, and the ε of different levels are strangers."""

    __slots__ = ("level", "primal", "tangent")

    def __init__(self, primal: Any, tangent: Any, level: int) -> None:
        self.primal = primal
        self.tangent = tangent
        self.level = level

    @property
    def lower(self) -> Any:
        """The primal: what this is to the transforms outside the one that it belongs to."""
        return self.primal

    def constant(self, x: Tensor) -> Dual:
        """Return `x` on this level, at rest: its tangent is zero."""
        return Dual(x, Tensor.full(x.shape, 0, x.dtype, x.device), self.level)

    def __repr__(self) -> str:
        return f"<Dual {self.shape} {self.dtype}>"
