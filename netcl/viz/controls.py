"""What `explore` is given for a leaf, as ranges to move it in: a number, an array entry by entry, an array by seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.text import clean

MOST_SLIDERS = 16  # of one array
MOST_SEED = 50
_STEPS = 100
_NICE = (1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Range:
    """A slider: from `low` to `high` by `step`, and where it begins. `at` is the entry of the leaf that it moves."""

    low: float
    high: float
    step: float
    start: float
    at: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """A leaf: `base` is its value at the start. Without `ranges` it is drawn anew from a seed.

    `name` is that of the function's argument, `title` what a reader sees.
    """

    name: str
    base: np.ndarray
    ranges: tuple[Range, ...]
    title: str = ""

    @property
    def shown(self) -> str:
        """What the leaf is called."""
        return self.title or self.name

    def label(self, which: Range) -> str:
        """`a`, or `W[0, 1]` for an entry."""
        return self.name + _entry(which)

    def shown_label(self, which: Range) -> str:
        """The same as a reader sees it."""
        return self.shown + _entry(which)

    def drawn(self, seed: int) -> np.ndarray:
        """The array as it was given for seed 0; for others normal numbers with its mean and spread."""
        if not seed:
            return self.base
        wide = self.base.astype(np.float64)
        numbers = np.random.default_rng(seed).standard_normal(self.base.shape)
        return (wide.mean() + (wide.std() or 1.0) * numbers).astype(self.base.dtype)


def _entry(which: Range) -> str:
    return f"[{', '.join(map(str, which.at))}]" if which.at else ""


def controls(given: Mapping[str, Any], titles: Mapping[Any, str] | None = None) -> tuple[Control, ...]:
    """The controls of all leaves; `titles` are what they are called, where that is not the argument's name.

    Raises:  ArgumentError if there are none, or one is neither a number, a range nor an array
    """
    if not given:
        raise ArgumentError("explore needs a leaf to move: viz.explore(f, a=2.0)")
    found = (control(name, value) for name, value in given.items())
    return tuple(replace(each, title=clean(str((titles or {}).get(each.name, "")))) for each in found)


def control(name: str, given: Any) -> Control:
    """The control of one leaf: a number (a range around it), `(low, high)`, `(low, high, step)`, or an array.

    Raises:  ArgumentError if it is none of these

    >>> control("a", 2.0).ranges
    (Range(low=-2.0, high=6.0, step=0.05, start=2.0, at=()),)
    >>> control("b", (-1, 1)).ranges
    (Range(low=-1.0, high=1.0, step=0.02, start=0.0, at=()),)
    """
    if isinstance(given, (Node, Tensor)):
        given = given.to_host()
    if isinstance(given, tuple):
        found = _between(name, given)
        return Control(name, np.array(found.start, np.float32), (found,))
    array = _array(name, given)
    if not array.shape:
        found = around(float(given))
        return Control(name, array, (found,))
    if array.size > MOST_SLIDERS:
        return Control(name, array, ())
    widest = around(float(np.abs(array).max()))
    half, step = (widest.high - widest.low) / 2, widest.step
    ranges = (Range(-half, half, step, float(array[at]), at) for at in np.ndindex(array.shape))
    return Control(name, array, tuple(ranges))


def _array(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError as error:  # rows of unlike length
        raise ArgumentError(f"{name} is no array: {error}") from error
    if array.dtype.kind not in "iuf" or not array.size:
        said = f"an array of {array.dtype}" if isinstance(given, np.ndarray) and array.size else f"{given!r}"
        raise ArgumentError(f"{name} is a number, (low, high), (low, high, step) or an array of numbers, not {said}")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{name} begins at {given!r}: a slider needs numbers that are finite")
    own = isinstance(given, (np.ndarray, np.floating)) and array.dtype.kind == "f"
    return array.copy() if own else array.astype(np.float32)


def _between(name: str, given: tuple[Any, ...]) -> Range:
    numbers = [float(x) for x in given if isinstance(x, (int, float, np.number)) and math.isfinite(x)]
    if len(numbers) != len(given) or len(given) not in (2, 3):
        raise ArgumentError(f"the range of {name} is (low, high) or (low, high, step), three numbers, not {given!r}")
    low, high = numbers[:2]
    step = numbers[2] if len(numbers) == 3 else _below((high - low) / _STEPS)
    if not low < high or not 0 < step <= high - low:
        raise ArgumentError(f"the range of {name} runs from low to high in steps above 0, not {given!r}")
    middle = (low + high) / 2
    return Range(low, high, step, _tidy(low + round((middle - low) / step) * step if len(numbers) == 3 else middle))


def around(value: float) -> Range:
    """A range with `value` in its middle that reaches to the other side of 0.

    >>> around(0.0)
    Range(low=-1.0, high=1.0, step=0.02, start=0.0, at=())
    """
    half = 2 * _above(abs(value)) if value else 1.0
    step = _below(2 * half / _STEPS)
    middle = round(value / step) * step
    return Range(_tidy(middle - half), _tidy(middle + half), step, value)


def _above(x: float) -> float:
    """The next number from 1, 2, 3, 4, 5, 6, 8 and these times a power of ten."""
    power = 10.0 ** math.floor(math.log10(x))
    return next((_tidy(n * power) for n in _NICE if n * power >= x * (1 - 1e-9)), 10 * power)


def _below(x: float) -> float:
    """The last of 1, 2, 5 and these times a power of ten."""
    if x <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(x) + 1e-9)
    return _tidy(max(n * power for n in (1, 2, 5) if n * power <= x * (1 + 1e-9)))


def _tidy(x: float) -> float:
    """Without the dust of binary fractions."""
    return float(f"{x:.10g}")
