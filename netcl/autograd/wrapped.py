"""What nodes and duals share: they wrap a value, and answer questions about it as a tensor does."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.device import Device
from netcl.layout import Shape
from netcl.methods import ArrayMethods
from netcl.tensor import Tensor


class Wrapped(ArrayMethods):
    """The base of Node and Dual. `lower` is the wrapped value: what this is to the transforms outside its own."""

    __slots__ = ()

    @property
    def lower(self) -> Any:
        """The wrapped value."""
        raise NotImplementedError

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.lower.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.lower.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.lower.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.lower.size

    @property
    def nbytes(self) -> int:
        """Bytes that the elements of the value take, without gaps."""
        return self.lower.nbytes

    @property
    def device(self) -> Device:
        """The device that the value is on."""
        return self.lower.device

    def to_host(self) -> np.ndarray:
        """Copy the value to a fresh NumPy array; waits until it has been computed."""
        return self.lower.to_host()

    def detach(self) -> Tensor:
        """Return the value alone: a constant, through which no derivative passes."""
        return self.lower.detach()
