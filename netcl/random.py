"""Random tensors with explicit seeds: nothing is random unless a seed was said, and no state is global.

A seed gives the same numbers on every device, bit by bit, and in every process (Philox 4x32-10; Salmon, Moraes, Dror &
Shaw 2011, Parallel random numbers: as easy as 1, 2, 3).

>>> import netcl as nc
>>> nc.random.integers(0, 10, 5, seed=1).to_host().tolist() == nc.random.integers(0, 10, 5, seed=1).to_host().tolist()
True
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl import kernels
from netcl import layout as lay
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError
from netcl.kernels.random import INTEGERS, NORMAL, UNIFORM
from netcl.ops.shape import as_shape
from netcl.platforms import get_device
from netcl.tensor import Tensor, check_dtype

__all__ = ["Generator", "check_seed", "integers", "normal", "permutation", "uniform"]

_INT64 = np.dtype(np.int64)


def check_seed(seed: Any) -> int:
    """Return a seed as a Python int.

    Raises: ArgumentError unless it is an integer from 0 to 2⁶⁴ − 1
    """
    if isinstance(seed, (bool, np.bool_)) or not hasattr(seed, "__index__") or not 0 <= int(seed.__index__()) < 2**64:
        raise ArgumentError(f"a seed is an integer from 0 to 2**64 - 1, not {seed!r}")
    return int(seed.__index__())


class Generator:
    """A stream of random numbers: each draw goes on where the last one ended.

    `seed` is the key; `position` counts the 128-bit blocks used so far, so that (seed, position) is the whole state.

    >>> rng = Generator(0)
    >>> first, second = rng.uniform(3).to_host(), rng.uniform(3).to_host()
    >>> bool((first == second).any())
    False
    """

    def __init__(self, seed: int, position: int = 0, device: Device | None = None) -> None:
        self.seed = check_seed(seed)
        if not isinstance(position, (int, np.integer)) or not 0 <= position < 2**63:
            raise ArgumentError(f"a position is an integer from 0 to 2**63 - 1, not {position!r}")
        self.position = int(position)
        self.device = device

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, position={self.position})"

    def _draw(self, kind: str, shape: Any, dtype: Any, span: int = 0) -> Tensor:
        device = self.device if self.device is not None else get_device()
        wanted = np.dtype(dtype)
        check_dtype(wanted, device)
        if kind != INTEGERS and wanted.kind != "f":
            raise DTypeError(f"{kind} numbers are float32 or float64, not {wanted}")
        layout = lay.contiguous(as_shape(kind, shape), wanted)
        buffer = kernels.random(device, kind, layout, self.seed, first=self.position, span=span)
        self.position += (layout.size + 1) // 2  # a block makes two elements
        return Tensor(layout, buffer, device)

    def uniform(self, shape: Any = (), low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Tensor:
        """Draw evenly from low to high, low included.

        Math:    out = low + (high − low) u, where u is a multiple of 2⁻²⁴ in [0, 1), of 2⁻⁵³ in float64; the u of
                 float32 is that of float64, rounded down
        Raises:  ArgumentError unless low and high are finite and low ≤ high
        """
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(f"uniform draws from low to high, and {low!r} to {high!r} is no such interval")
        u = self._draw(UNIFORM, shape, dtype)
        return u if (low, high) == (0, 1) else u * (float(high) - float(low)) + float(low)

    def normal(self, shape: Any = (), mean: float = 0.0, std: float = 1.0, dtype: Any = np.float32) -> Tensor:
        """Draw from the normal distribution.

        Math:    out = mean + std · z, with z from Box & Muller's transform, |z| ≤ 6.8
        Raises:  ArgumentError if std is negative

        z is worked out in float32 and widened for float64, so that one seed gives the same z in both.
        """
        if not std >= 0:
            raise ArgumentError(f"normal needs a standard deviation of at least 0, not {std!r}")
        z = self._draw(NORMAL, shape, dtype)
        return z if (mean, std) == (0, 1) else z * float(std) + float(mean)

    def integers(self, low: int, high: int, shape: Any = (), dtype: Any = np.int64) -> Tensor:
        """Draw integers evenly from low to high, low included and high not.

        Raises:  ArgumentError if there is no integer between them, or the dtype cannot hold them
        """
        wanted = np.dtype(dtype)
        if wanted.kind not in "iu":
            raise DTypeError(f"integers have an integer dtype, not {wanted}")
        limits = np.iinfo(_INT64 if wanted == np.uint64 else wanted)
        if not low < high or low < limits.min or high - 1 > limits.max or high - low >= 2**63:
            raise ArgumentError(f"integers: {wanted} cannot hold a draw from {low!r} to below {high!r}")
        drawn = self._draw(INTEGERS, shape, _INT64, span=int(high) - int(low))
        return (drawn + int(low)).astype(wanted)

    def permutation(self, n: int) -> Tensor:
        """Return 0 … n − 1 in random order (int64); every order is as likely, but for ties in 64 random bits.

        The sort runs on the host.
        """
        if n < 0:
            raise ArgumentError(f"permutation needs a length of at least 0, not {n!r}")
        keys = self._draw(INTEGERS, (n,), _INT64, span=2**63).to_host()
        return Tensor.from_host(np.argsort(keys, kind="stable").astype(_INT64), device=self.device)


def uniform(
    shape: Any = (), low: float = 0.0, high: float = 1.0, *, seed: int, dtype: Any = np.float32,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Draw evenly from low to high, low included; see Generator.uniform.

    >>> uniform((2, 3), seed=0).shape
    (2, 3)
    """
    return Generator(seed, device=device).uniform(shape, low, high, dtype)


def normal(
    shape: Any = (), mean: float = 0.0, std: float = 1.0, *, seed: int, dtype: Any = np.float32,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Draw from the normal distribution; see Generator.normal."""
    return Generator(seed, device=device).normal(shape, mean, std, dtype)


def integers(
    low: int, high: int, shape: Any = (), *, seed: int, dtype: Any = np.int64, device: Device | None = None
) -> Tensor:
    """Draw integers evenly from low to below high; see Generator.integers."""
    return Generator(seed, device=device).integers(low, high, shape, dtype)


def permutation(n: int, *, seed: int, device: Device | None = None) -> Tensor:
    """Return 0 … n − 1 in random order; see Generator.permutation.

    >>> sorted(permutation(4, seed=3).to_host().tolist())
    [0, 1, 2, 3]
    """
    return Generator(seed, device=device).permutation(n)
