"""An exercise: what it asks, which answers are right, and the wrong rules that are known with a hint for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from netcl.errors import ArgumentError
from netcl.teach.answers import Answer
from netcl.teach.answers.base import value

__all__ = ["KINDS", "Exercise", "Wrong"]

KINDS = ("predict", "explain", "debug", "build")


@dataclass(frozen=True)
class Wrong:
    """A wrong rule: its name, the answer that it makes from the data, and three hints, each saying more.

    The first says what is off, the second which rule was forgotten, the third works a parallel with other numbers.
    """

    rule: str
    answer: Any
    hints: tuple[str, str, str]

    def __post_init__(self) -> None:
        if len(self.hints) != 3 or not all(isinstance(hint, str) and hint.strip() for hint in self.hints):
            raise ArgumentError(f"{self.rule}: three hints are needed, not {len(self.hints)}")


@dataclass(frozen=True, eq=False)
class Exercise:
    """One exercise of a lesson.

    `data(rng)` makes its numbers from a `random.Random`; `right` holds answers in different forms, as values or as
    functions of the data, with which the tests prove that they are accepted.

    >>> from netcl.teach.answers import Number
    >>> double = Exercise("00.double", "predict", "twice a", Number(lambda d: 2 * d.a), (), "Both count.", (),
    ...                   data=lambda rng: {"a": rng.randint(2, 9)})
    >>> double.given(0) == double.given(0)
    True
    """

    name: str
    kind: str
    asks: str
    answer: Answer
    right: tuple[Any, ...]
    because: str
    wrong: tuple[Wrong, ...]
    data: Callable[[random.Random], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ArgumentError(f"{self.name}: the kind is one of {', '.join(KINDS)}, not {self.kind!r}")

    @property
    def lesson(self) -> str:
        """The number of its lesson: the part of the name before the point."""
        return self.name.partition(".")[0]

    def given(self, seed: int | str = 0) -> SimpleNamespace:
        """The data for a seed: the same on every machine."""
        made = self.data(random.Random(f"{self.name}/{seed}")) if self.data is not None else {}
        return SimpleNamespace(**made)

    def made(self, source: Any, d: SimpleNamespace) -> Any:
        """A right answer, or that of a wrong rule, for these data."""
        return value(source, d)
