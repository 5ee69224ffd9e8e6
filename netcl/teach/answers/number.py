"""A number, or an array of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.teach.answers.base import Answer, Data, UnfitError, kind_of, on_host, value

_DEEPEST = 12
_NEAR = 0.01  # relative


@dataclass(frozen=True)
class Number(Answer):
    """A number or an array, right within |given − expected| ≤ atol + rtol |expected|; `why` gives the reason for both.

    Python numbers, lists, NumPy arrays, tensors and nodes are all read. An array must have the shape of the expected
    one; where a single number is expected, an array of one entry will do.

    >>> from types import SimpleNamespace
    >>> seven = Number(lambda d: d.a + 5)
    >>> d = SimpleNamespace(a=2)
    >>> seven.same(seven.read(7.0, d), seven.target(d)), seven.same(seven.read([7.0, 7.0], d), seven.target(d))
    (True, False)
    """

    expected: Any
    rtol: float = 1e-6
    atol: float = 1e-9
    why: str = ""

    def read(self, given: Any, d: Data) -> Any:
        found = numbers(given, truth=_is_truth(value(self.expected, d)))
        return found.reshape(()) if found.size == 1 and self._single(d) else found

    def target(self, d: Data) -> Any:
        expected = value(self.expected, d)
        return numbers(expected, truth=_is_truth(expected))

    def _single(self, d: Data) -> bool:
        return isinstance(value(self.expected, d), int | float | np.generic)

    def same(self, one: Any, other: Any) -> bool:
        return one.shape == other.shape and close(one, other, self.rtol, self.atol)

    def remark(self, read: Any, d: Data) -> str:
        target = self.target(d)
        if read.shape != target.shape:
            asked = f"an array of shape {target.shape}" if target.shape else "a single number"
            return f"This has shape {read.shape}; {asked} is asked for."
        if np.isnan(read).any() and not np.isnan(target).any():
            what = "This is NaN" if not read.shape else f"{int(np.isnan(read).sum())} of these numbers are NaN"
            return f"{what}: look for 0/0, ∞ − ∞, or the logarithm or root of a negative number."
        if np.isinf(read).any() and not np.isinf(target).any():
            return "This is infinite: something was divided by zero, or grew too large."
        if not read.shape:
            near = close(read, target, _NEAR, 0)
            return "It is close: was something rounded on the way, or a small term left out?" if near else ""
        wrong = int((~np.isclose(read, target, rtol=self.rtol, atol=self.atol)).sum())
        return f"{wrong} of these {read.size} numbers {'is' if wrong == 1 else 'are'} wrong."

    def wanted(self, d: Data) -> list[str]:
        shape = self.target(d).shape
        return [f"A list or an array of shape {shape}." if shape else "A number."]


def _is_truth(expected: Any) -> bool:
    return np.asarray(expected).dtype.kind == "b" if isinstance(expected, bool | np.ndarray | np.bool_) else False


def close(one: np.ndarray, other: np.ndarray, rtol: float, atol: float) -> bool:
    """Whether all entries agree; NaN agrees with NaN, and an infinity with itself."""
    with np.errstate(all="ignore"):
        return bool(np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True).all())


def numbers(given: Any, truth: bool = False) -> np.ndarray:
    """What was given as an array of float64.

    Raises:  UnfitError with a sentence on what is wrong with it
    """
    try:
        found = np.asarray(_plain(given, truth))
        if found.dtype.kind in "OUSV":
            found = _converted(found)
        if found.dtype.kind == "b" and not truth:
            raise UnfitError("True and False are truth values; a number is asked for.")
        if found.dtype.kind == "c":
            raise UnfitError("A real number is asked for, and this is a complex one.")
        if found.dtype.kind not in "biuf":
            raise UnfitError(f"A number is asked for, and {kind_of(given)} was given.")
        return found.astype(np.float64)
    except UnfitError:
        raise
    except OverflowError:
        raise UnfitError("This number is too large to be compared: beyond 1.8e308.") from None
    except ValueError:
        raise UnfitError("The rows of this list differ in length; an array is asked for.") from None
    except Exception as error:  # whatever the student's object does when it is read is said of it
        raise UnfitError(f"This could not be read as a number: {kind_of(given)} ({type(error).__name__}).") from None


def _plain(given: Any, truth: bool, depth: int = 0) -> Any:
    given = on_host(given)
    if isinstance(given, str | bytes):
        raise UnfitError("This is a text; write the number without quotes.")
    if isinstance(given, bool) and not truth:
        raise UnfitError("True and False are truth values; a number is asked for.")
    if isinstance(given, list | tuple | range):
        if depth > _DEEPEST:
            raise UnfitError("This list is nested too deeply to be an array.")
        return [_plain(item, truth, depth + 1) for item in given]
    if isinstance(given, np.ndarray | np.generic | int | float | complex):
        return given
    if isinstance(given, dict | set | frozenset) or callable(given) or given is None:
        raise UnfitError(f"A number is asked for, and {kind_of(given)} was given.")
    return np.asarray(given) if hasattr(type(given), "__array__") else _single(given)


def _single(given: Any) -> float:
    """A fraction, a decimal, a number of SymPy."""
    if not hasattr(type(given), "__float__"):
        raise UnfitError(f"A number is asked for, and {kind_of(given)} was given.")
    return float(given)


def _converted(found: np.ndarray) -> np.ndarray:
    if found.dtype.kind != "O":
        raise UnfitError("This holds text; write numbers without quotes.")
    flat: Sequence[Any] = found.ravel().tolist()
    return np.array([_single(item) for item in flat], np.float64).reshape(found.shape)
