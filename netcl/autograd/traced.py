"""Values inside a fused function that are not computed yet, though their shape and dtype are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl.device import Device
from netcl.layout import Layout, Shape
from netcl.methods import ArrayMethods
from netcl.ops.program import Total


class Traced(ArrayMethods):
    """The result of an op in a fused function; it is computed, as a node or a tensor, when its value is asked for.

    `record` is how ops on it go on, `settle` how it is computed: the two come from fuse.py. `size_bound` is at least
    the number of ops that are to be computed with it.
    """

    __slots__ = (
        "_settled", "args", "device", "layout", "number", "record", "row", "scope", "settle", "site", "size_bound",
        "total",
    )  # fmt: skip

    def __init__(
        self, record: Callable[..., Any], settle: Callable[[Traced], Any], layout: Layout, device: Any
    ) -> None:
        self.record = record
        self.settle = settle
        self.layout = layout
        self.device: Device = device
        self._settled: Any = None
        self.row: Any = None
        self.total: Total | None = None
        self.args: Sequence[Any] = ()
        self.number = 0
        self.size_bound = 0
        self.site: Any = None
        self.scope: Any = None

    @property
    def waits(self) -> bool:
        """Whether it is yet to be computed."""
        return self._settled is None

    @property
    def settled(self) -> Any:
        """The node or tensor that it stands for, computed now if it was not yet."""
        if self._settled is None:
            self.become(self.settle(self))
        return self._settled

    def become(self, value: Any) -> None:
        """Let it stand for a value from now on."""
        self._settled = value
        self.args = ()

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.layout.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes that the elements will take."""
        return self.layout.nbytes

    def to_host(self) -> np.ndarray:
        """Copy the value to a fresh NumPy array."""
        return self.settled.to_host()

    def detach(self) -> Any:
        """Return the value alone."""
        return self.settled.detach()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.settled, name)

    def __repr__(self) -> str:
        return repr(self.settled)


def settled(x: Any) -> Any:
    """Return what a value inside a fused function stands for; anything else as it is."""
    return x.settled if isinstance(x, Traced) else x
