"""Answers about a graph: a name in it, an order of its nodes, paths through it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from netcl.teach.answers.base import Answer, Data, UnfitError, kind_of, names_of, shown, value

_BETWEEN = re.compile(r"\s*(?:→|⟶|->|,|;|\s)\s*")


@dataclass(frozen=True)
class Word(Answer):
    """A name: of a node, of an op, or the number of a line. Case does not count, and a node counts as its name.

    >>> from types import SimpleNamespace
    >>> bug = Word("sum", also=("sum()",))
    >>> bug.same(bug.read(" Sum ", SimpleNamespace()), bug.target(SimpleNamespace()))
    True
    """

    expected: Any
    also: Sequence[str] = ()

    def read(self, given: Any, d: Data) -> Any:
        (name,) = names_of([given])
        plain = _plain(name)
        if not plain:
            raise UnfitError("This text is empty; a name is asked for.")
        right = value(self.expected, d)
        return _plain(str(right)) if plain in {_plain(other) for other in self.also} else plain

    def target(self, d: Data) -> Any:
        return _plain(str(value(self.expected, d)))

    def same(self, one: Any, other: Any) -> bool:
        return one == other

    def wanted(self, d: Data) -> list[str]:
        return ["One name, in quotes."]


def _plain(text: str) -> str:
    plain = " ".join(text.split()).casefold().strip("`'\" .")
    return re.sub(r"^line (\d+)$", r"\1", plain)


class _Ordered(NamedTuple):
    names: tuple[str, ...]
    mistakes: frozenset[tuple[str, ...]]  # edges taken the wrong way round, names left out, names that stand twice


def _too_early(order: _Ordered) -> frozenset[str]:
    """The names that stand before one that they need; none if names are left out or stand twice."""
    whole = not any(what in ("left out", "twice") for what, *_ in order.mistakes)
    return frozenset(after for _, after in order.mistakes) if whole else frozenset()


@dataclass(frozen=True)
class Order(Answer):
    """An order of all names in which each stands after those it needs: `edges` are pairs (before, after).

    Every order that respects the edges is right. A wrong one is matched with the planted order that breaks the same
    edges, first with one that is the same throughout, at last with one that takes the same names too early.

    >>> from types import SimpleNamespace
    >>> order, d = Order([("a", "p"), ("b", "p")]), SimpleNamespace()
    >>> [order.same(order.read(text, d), order.target(d)) for text in ("a b p", ["b", "a", "p"], "a p b")]
    [True, True, False]
    """

    edges: Any

    def _edges(self, d: Data) -> list[tuple[str, str]]:
        return [(str(before), str(after)) for before, after in value(self.edges, d)]

    def read(self, given: Any, d: Data) -> Any:
        names = _sequence(given)
        edges = self._edges(d)
        known = {name for edge in edges for name in edge}
        strange = [name for name in names if name not in known]
        if strange:
            raise UnfitError(f"{shown(strange[0], 60)} is none of the names: {', '.join(sorted(known))}.")
        place = {name: i for i, name in enumerate(names)}
        counts = Counter(names)
        mistakes = {edge for edge in edges if place.get(edge[0], -1) > place.get(edge[1], len(names))}
        mistakes |= {("left out", name) for name in known - set(names)}
        mistakes |= {("twice", name) for name, count in counts.items() if count > 1}
        return _Ordered(tuple(names), frozenset(mistakes))

    def target(self, d: Data) -> Any:
        needs: dict[str, set[str]] = {}
        for before, after in self._edges(d):
            needs.setdefault(before, set())
            needs.setdefault(after, set()).add(before)
        return _Ordered(tuple(TopologicalSorter(needs).static_order()), frozenset())

    def same(self, one: Any, other: Any) -> bool:
        return one.mistakes == other.mistakes

    def nearest(self, read: Any, others: Sequence[Any]) -> int | None:
        exact = (i for i, other in enumerate(others) if other.names == read.names)
        found = next(exact, super().nearest(read, others))
        if found is not None:
            return found
        early = _too_early(read)
        return next((i for i, other in enumerate(others) if early and _too_early(other) == early), None)

    def remark(self, read: Any, d: Data) -> str:
        twice = [name for what, name in sorted(read.mistakes) if what == "twice"]
        left = [name for what, name in sorted(read.mistakes) if what == "left out"]
        said = [f"{', '.join(left)} left out."] if left else []
        said += [f"{', '.join(twice)} more than once."] if twice else []
        turned = len(read.mistakes) - len(twice) - len(left)
        said += [f"{turned} of the edges {'is' if turned == 1 else 'are'} taken the wrong way round."] if turned else []
        return " ".join(said)

    def wanted(self, d: Data) -> list[str]:
        return ['All names, in order: ["x", "y", …], or the nodes themselves.']


@dataclass(frozen=True)
class Paths(Answer):
    """A set of paths, each a sequence of names; the order of the paths does not count, that of the names does.

    >>> from types import SimpleNamespace
    >>> paths, d = Paths({("a", "p", "f"), ("a", "q", "f")}), SimpleNamespace()
    >>> paths.same(paths.read(["a → q → f", ("a", "p", "f")], d), paths.target(d))
    True
    """

    expected: Any

    def read(self, given: Any, d: Data) -> Any:
        if isinstance(given, str):
            given = [line for line in re.split(r"[\n;]", given) if line.strip()]
        if not isinstance(given, list | tuple | set | frozenset):
            raise UnfitError(f"Paths are asked for, such as [('a', 'p', 'f')]; {kind_of(given)} was given.")
        known = {name for path in value(self.expected, d) for name in _sequence(path)}
        items = [_letters(item, known) for item in given]
        if items and all(isinstance(item, str) and len(_split(item)) == 1 for item in items):
            items = [items]  # a single path, without the list around it
        return frozenset(tuple(_sequence(item)) for item in items)

    def target(self, d: Data) -> Any:
        return self.read(value(self.expected, d), d)

    def same(self, one: Any, other: Any) -> bool:
        return one == other

    def remark(self, read: Any, d: Data) -> str:
        target = self.target(d)
        strange = read - target
        if any(path[::-1] in target for path in strange):
            return "A path is turned round: it begins at the input, and follows the arrows."
        if len(read) == len(strange) == 1:
            return "This is not a path that is asked for."
        said = [f"{len(strange)} of these {len(read)} is not a path that is asked for."] if len(strange) == 1 else []
        said += [f"{len(strange)} of these {len(read)} are not paths that are asked for."] if len(strange) > 1 else []
        return " ".join(said) or "All of these are paths; some are missing."

    def wanted(self, d: Data) -> list[str]:
        return ['The paths, each from its start to its end: [("x", "y"), …].']


def _split(text: str) -> list[str]:
    return [name for name in _BETWEEN.split(text.strip()) if name]


def _letters(item: Any, known: set[str]) -> Any:
    """Names of one letter each, written together: "xpf"."""
    together = isinstance(item, str) and item not in known and len(item) > 1 and set(item) <= known
    return tuple(item) if together else item


def _sequence(given: Any) -> list[str]:
    if isinstance(given, str):
        return _split(given)
    if not isinstance(given, list | tuple):
        raise UnfitError(f"A list of names is asked for; {kind_of(given)} was given.")
    return names_of(list(given))
