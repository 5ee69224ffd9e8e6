"""Dual numbers: the values of forward mode, a primal and the tangent that it moves along.

Source: Griewank & Walther (2008), Evaluating Derivatives, chapter 3; Siskind & Pearlmutter (2005), Perturbation
Confusion and Referential Transparency, for the levels that keep nested derivatives apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.device import Device
from netcl.layout import Shape
from netcl.methods import ArrayMethods
from netcl.tensor import Tensor


class Dual(ArrayMethods):
    """A value x + ẋ ε of the forward-mode derivative number `level`: ε² = 0, and ε of different levels are strangers."""

    __slots__ = ("level", "primal", "tangent")

    def __init__(self, primal: Any, tangent: Any, level: int) -> None:
        self.primal = primal
        self.tangent = tangent
        self.level = level

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.primal.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the primal."""
        return self.primal.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.primal.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.primal.size

    @property
    def device(self) -> Device:
        """Where the values are."""
        return self.primal.device

    def to_host(self) -> np.ndarray:
        """Copy the primal to a fresh NumPy array."""
        return self.primal.to_host()

    def detach(self) -> Tensor:
        """Return the primal alone: a constant, along which nothing moves."""
        return self.primal.detach()

    def constant(self, x: Tensor) -> Dual:
        """Return `x` on this level, at rest: its tangent is zero."""
        return Dual(x, Tensor.full(x.shape, 0, x.dtype, x.device), self.level)

    def __repr__(self) -> str:
        return f"<Dual {self.shape} {self.dtype}>"
