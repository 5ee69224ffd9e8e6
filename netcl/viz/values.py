"""Arrays as a reader sees them: every number of a small one, statistics and a histogram of a large one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

MOST_ROWS = MOST_COLUMNS = 8
_BARS = 16
_BAR_LEVELS = 12
_EASY = 1e140  # magnitudes whose squares can be added up
_MINUS = "\u2212"


@dataclass(frozen=True, slots=True)
class ArrayView:
    """What a picture knows of an array: texts and shares, and no tensor.

    `cells` are the numbers of a small array, row by row (leading axes are stacked); `tints` the signed share of each
    in the largest magnitude, NaN where it is not finite; `numbers` the array itself, on the host. A large array has
    `stats` and `bars` instead, and one whose entries are all the same has `uniform`.
    """

    shape: tuple[int, ...]
    dtype: str
    cells: tuple[tuple[str, ...], ...] = ()
    tints: tuple[tuple[float, ...], ...] = ()
    stats: tuple[tuple[str, str], ...] = ()
    bars: tuple[int, ...] = ()
    uniform: str | None = None
    zero: bool = False
    nans: int = 0
    infs: int = 0
    sampled: int = 0  # how many entries the bars were counted from, if not from all
    scalar: float | None = field(default=None, compare=False)  # compare: NaN is not itself
    numbers: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def badge(self) -> str:
        """`NaN`, `3 of 10 Inf` or nothing."""
        found = [(self.nans, "NaN"), (self.infs, "Inf")]
        return " · ".join(name if n == self.size else f"{n} of {self.size} {name}" for n, name in found if n)

    def line(self, room: int = 48) -> str:
        """The array in one line of at most about `room` characters.

        >>> view(np.array([[0.0, 1.0], [2.0, 3.0]])).line()
        '[0 1; 2 3]'
        """
        if self.size == 0:
            return f"empty {shape_text(self.shape)}"
        if not self.shape:
            return self.cells[0][0]
        if self.uniform is not None and self.size > 1:
            return f"{self.uniform} at every entry"
        inside = "; ".join(" ".join(row) for row in self.cells)
        if self.cells and len(inside) <= room:
            return f"[{inside}]"
        return " ".join(f"{name} {text}" for name, text in self.stats)

    def brief(self, room: int) -> str:
        """The array in a few words: its numbers where they fit, else its norm.

        >>> view(np.arange(100.0)).brief(20)
        'norm 573'
        """
        line = self.line(room)
        if self.uniform is not None and len(line) > room:
            return f"{self.uniform} each"
        return line if len(line) <= room + 2 or not self.stats else " ".join(self.stats[-1])


@lru_cache(maxsize=1024)
def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as Python writes it.

    >>> shape_text((3,)), shape_text(())
    ('(3,)', '()')
    """
    return repr(tuple(int(n) for n in shape))


def number(value: float | int | bool, digits: int = 4) -> str:
    """A number in few characters; one that is not whole never looks whole.

    >>> number(12.0), number(1e-38), number(-0.0), number(0.99999), number(1e20), number(float("-inf"))
    ('12', '1e−38', '−0', '1.000', '1e20', '−∞')
    """
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_)):
            return str(bool(value))
        if isinstance(value, (int, np.integer)) and abs(int(value)) < 10**6:
            return str(int(value)).replace("-", _MINUS)
        value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{_MINUS}∞"
    whole = value.is_integer()
    if whole and abs(value) < 1e5:
        text = f"{value:.0f}"
    else:
        text = f"{value:.{digits}g}"
        if not whole and "." not in text and "e" not in text:  # it looks whole
            text = f"{value:#.{digits}g}".rstrip(".")
        if "e" not in text and len(text.strip("-").split(".")[0]) > 5:
            text = f"{value:.{digits - 1}e}"
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", _MINUS)


def view(array: np.ndarray) -> ArrayView:
    """Summarise an array.

    >>> view(np.ones((1000, 1000), dtype="float32")).line()
    '1 at every entry'
    """
    array = np.asarray(array)
    if array.size == 0:
        return ArrayView(array.shape, _name_of(array.dtype))
    few = array.size <= MOST_ROWS * MOST_COLUMNS and array.dtype.kind == "f" and array.itemsize <= 8
    return _view_of_few(array) if few else _view_of_any(array)


def _view_of_any(array: np.ndarray) -> ArrayView:
    first = array.flat[0]
    inexact = array.dtype.kind == "f"
    nans = int(np.count_nonzero(np.isnan(array))) if inexact else 0
    infs = int(np.count_nonzero(np.isinf(array))) if inexact else 0
    same = bool((array == first).all()) and not (
        inexact and first == 0 and np.signbit(array).any() != np.signbit(array).all()
    )
    cells, tints = _cells(array)
    return ArrayView(
        array.shape,
        _name_of(array.dtype),
        cells=cells,
        tints=tints,
        stats=_stats(array, nans + infs) if array.size > 1 else (),
        bars=() if cells or same else bars(array),
        uniform=number(first, 5) if same else None,
        zero=bool(not array.any()),
        nans=nans,
        infs=infs,
        scalar=float(first) if array.size == 1 else None,
        numbers=_frozen(array) if cells else None,
    )


def _view_of_few(array: np.ndarray) -> ArrayView:
    """The same for a few floats, as Python's own: a call of NumPy's takes longer than all of them."""
    flat: list[float] = array.ravel().tolist()
    first, sizes = flat[0], [abs(x) for x in flat]
    nans = sum(map(math.isnan, flat))
    infs = sum(map(math.isinf, flat))
    same = flat.count(first) == len(flat) and not nans
    if same and first == 0:  # zeros of both signs are not all the same
        same = len({math.copysign(1, x) for x in flat}) == 1
    columns = array.shape[-1] if array.ndim else 1
    cells: tuple[tuple[str, ...], ...] = ()
    tints: tuple[tuple[float, ...], ...] = ()
    if len(flat) <= MOST_ROWS * columns and columns <= MOST_COLUMNS:
        largest = max(filter(math.isfinite, sizes), default=0.0) if nans or infs else max(sizes)
        digits = 6 if len(flat) == 1 else 4 if columns <= 4 else 3
        starts = range(0, len(flat), columns)
        texts, shares = [number(x, digits) for x in flat], [_tint(x, largest) for x in flat]
        cells = tuple(tuple(texts[at : at + columns]) for at in starts)
        tints = tuple(tuple(shares[at : at + columns]) for at in starts)
    return ArrayView(
        array.shape,
        _name_of(array.dtype),
        cells,
        tints,
        _stats(array, nans + infs) if len(flat) > 1 else (),
        () if cells or same else bars(array),
        number(first, 5) if same else None,
        not any(flat),
        nans,
        infs,
        scalar=first if len(flat) == 1 else None,
        numbers=_frozen(array) if cells else None,
    )


@lru_cache(maxsize=32)
def _name_of(dtype: np.dtype) -> str:
    return str(dtype)


def _frozen(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _cells(array: np.ndarray) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[float, ...], ...]]:
    columns = array.shape[-1] if array.ndim else 1
    rows = array.size // columns
    if rows > MOST_ROWS or columns > MOST_COLUMNS:
        return (), ()
    grid = array.reshape(rows, columns)
    magnitude = np.abs(grid.astype(np.float64))
    finite = magnitude[np.isfinite(magnitude)]
    largest = float(finite.max()) if finite.size else 0.0
    digits = 6 if array.size == 1 else 4 if columns <= 4 else 3
    cells = tuple(tuple(number(x, digits) for x in row) for row in grid)
    return cells, tuple(tuple(_tint(float(x), largest) for x in row) for row in grid)


def _tint(x: float, largest: float) -> float:
    if not math.isfinite(x):
        return math.nan
    return x / largest if largest else 0.0


def _finite(array: np.ndarray) -> np.ndarray:
    flat = array.reshape(-1)
    return flat[np.isfinite(flat)].astype(np.float64) if array.dtype.kind == "f" else flat.astype(np.float64)


def _stats(array: np.ndarray, odd: int) -> tuple[tuple[str, str], ...]:
    values = _finite(array) if odd else array.reshape(-1).astype(np.float64)
    if not values.size:
        return (("finite", "none"),)
    low, high = float(values.min()), float(values.max())
    if max(abs(low), abs(high)) < _EASY:
        return named_stats(low, high, float(np.add.reduce(values)) / values.size, math.sqrt(values.dot(values)))
    with np.errstate(over="ignore", invalid="ignore"):  # the mean or the norm of what is finite need not be finite
        mean, norm = values.mean(), np.linalg.norm(values)
    return named_stats(low, high, float(mean), float(norm))


def named_stats(low: float, high: float, mean: float, norm: float) -> tuple[tuple[str, str], ...]:
    """Statistics as texts."""
    named = (("min", low), ("max", high), ("mean", mean), ("norm", norm))
    return tuple((name, number(x, 2 if name == "mean" else 3)) for name, x in named)


def bars(array: np.ndarray) -> tuple[int, ...]:
    """A histogram of the finite entries, as heights."""
    values = _finite(array)
    if not values.size or not math.isfinite(float(values.max()) - float(values.min())):
        return ()
    counts, _ = np.histogram(values, bins=_BARS)
    most = counts.max()
    return tuple(math.ceil(int(n) * _BAR_LEVELS / int(most)) for n in counts)
