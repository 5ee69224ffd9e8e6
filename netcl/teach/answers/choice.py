"""One of several reasons, or several of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from netcl.teach.answers.base import Answer, Data, UnfitError, kind_of, value


@dataclass(frozen=True)
class Choice(Answer):
    """A letter, or several, of stated options: `"b"`, `"ac"`, `["a", "c"]`, or an option's own text.

    With `by_letter=True` an answer that follows no rule as a whole meets that of its wrong or missing letters.

    >>> from types import SimpleNamespace
    >>> which = Choice("ac", options={"a": "It adds.", "b": "It sets.", "c": "It waits."})
    >>> which.same(which.read("C, a", SimpleNamespace()), which.target(SimpleNamespace()))
    True
    """

    expected: Any
    options: Mapping[str, str] = field(default_factory=dict)
    by_letter: bool = False

    def read(self, given: Any, d: Data) -> Any:
        parts = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
        chosen: set[str] = set()
        for part in parts:
            chosen |= self._letters(part)
        if not chosen:
            raise UnfitError(f"No option is named; the letters are {self._all}.")
        return frozenset(chosen)

    def _letters(self, part: Any) -> set[str]:
        if not isinstance(part, str):
            raise UnfitError(f"A letter in quotes is asked for, such as {self._first!r}; {kind_of(part)} was given.")
        text = _plain(part)
        for letter, option in self.options.items():
            if text in (_plain(option), letter.casefold()):
                return {letter}
        by_letter = {letter.casefold(): letter for letter in self.options}
        named = re.sub(r"\band\b|[\s,;.()&+\[\]{}'\"]", "", text)
        if len(named) > 2 * len(self.options) or any(letter not in by_letter for letter in named):
            raise UnfitError(f"The letters to choose from are {self._all}.")
        return {by_letter[letter] for letter in named}

    @property
    def _all(self) -> str:
        return ", ".join(self.options)

    @property
    def _first(self) -> str:
        return next(iter(self.options), "a")

    def target(self, d: Data) -> Any:
        return self.read(value(self.expected, d), d)

    def same(self, one: Any, other: Any) -> bool:
        return one == other

    def nearest(self, read: Any, others: Sequence[Any]) -> int | None:
        found = super().nearest(read, others)
        if found is not None or not self.by_letter:
            return found
        right = self.target(SimpleNamespace())
        fits = [(len(other ^ right), -i) for i, other in enumerate(others) if other ^ right <= read ^ right]
        return -max(fits)[1] if fits else None

    def wanted(self, d: Data) -> list[str]:
        return [f"{letter}: {option}" for letter, option in self.options.items()]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".")
