"""The few numbers that a measurement is said by."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles.

    >>> Spread.of([1.0, 2.0, 3.0, 4.0, 100.0])
    Spread(median=3.0, low=2.0, high=4.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Summarise samples; a single one has no spread.

        Raises: ValueError if there are none
        """
        if not samples:
            raise ValueError("no samples, so no median")
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0])
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high)

    @property
    def iqr(self) -> float:
        """Distance between the quartiles."""
        return self.high - self.low


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Summarise the ratios of samples that were taken in the same rounds, so that what slows both cancels.

    Where one side was given fewer rounds, only those that both have count.

    >>> ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0]).median
    2.0
    """
    return Spread.of([mine / other for mine, other in zip(ours, theirs, strict=False)])


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost = c · size^k by least squares on logarithms, and return k.

    Raises: ValueError for fewer than two sizes

    >>> round(exponent([10, 100, 1000], [3.0, 300.0, 30000.0]), 6)
    2.0
    """
    if len(sizes) < 2:
        raise ValueError("an exponent needs at least two sizes")
    xs, ys = [math.log(size) for size in sizes], [math.log(max(cost, 1e-300)) for cost in costs]
    return statistics.linear_regression(xs, ys).slope
