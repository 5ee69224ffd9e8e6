"""What the kinds of answers share: reading what a student gave, comparing it, and showing it without trusting it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.tensor import Tensor
from netcl.viz.names import caller_frame, find_names, scopes
from netcl.viz.text import clean, clip

Data = SimpleNamespace
_DEEPEST = 6
_MOST_ITEMS = 200


class UnfitError(Exception):
    """What was given cannot be read as an answer of this kind; the message is a sentence for the student."""


class Answer(ABC):
    """A kind of answer: what is given, what is right and what a wrong rule makes are read into one form."""

    @abstractmethod
    def read(self, given: Any, d: Data) -> Any:
        """The answer in the form that is compared.

        Raises:  UnfitError if it is not of this kind
        """

    @abstractmethod
    def target(self, d: Data) -> Any:
        """The right answer, in the same form."""

    @abstractmethod
    def same(self, one: Any, other: Any) -> bool:
        """Whether two answers count as one and the same."""

    def nearest(self, read: Any, others: Sequence[Any]) -> int | None:
        """Which of several answers this one is, if any."""
        return next((i for i, other in enumerate(others) if self.same(read, other)), None)

    def remark(self, read: Any, d: Data) -> str:
        """What can be said of a wrong answer that no known rule makes, without giving the right one away."""
        return ""

    def wanted(self, d: Data) -> list[str]:
        """What to write, one line each: shown while nothing is answered."""
        return []

    def empty(self, given: Any) -> bool:
        """Whether this is the stub of the exercise, or holds one."""
        return holds_stub(given)

    def unfinished(self, given: Any) -> bool:
        """Whether an answer that is wrong in no known way still has a stub in it: it is to be written yet."""
        return False


def value(source: Any, d: Data) -> Any:
    """A value, or what a function of the data makes."""
    return source(d) if callable(source) else source


def holds_stub(given: Any, depth: int = 0) -> bool:
    """Whether this is `...` or None, or a list that holds `...`.

    >>> holds_stub([1, ...]), holds_stub(0)
    (True, False)
    """
    if given is None:
        return depth == 0
    if given is ...:
        return True
    if depth < _DEEPEST and type(given) in (list, tuple, set):
        return any(holds_stub(item, depth + 1) for item in list(given)[:_MOST_ITEMS])
    if depth < _DEEPEST and type(given) is dict:
        return any(holds_stub(item, depth + 1) for item in list(given.values())[:_MOST_ITEMS])
    return False


def kind_of(given: Any) -> str:
    """A type's name, with its article.

    >>> kind_of(3), kind_of([])
    ('an int', 'a list')
    """
    name = clip(clean(type(given).__name__), 40)
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def shown(given: Any, room: int = 120) -> str:
    """A value as a short text; one that cannot be shown is named by its type.

    >>> shown([1.0, 2.0]), shown(10**9000)
    ('[1.0, 2.0]', 'an int')
    """
    try:
        given = on_host(given)
        if isinstance(given, np.ndarray):
            few = given.size <= 24
            text = repr(given) if few else f"array of shape {given.shape}, {given.dtype}"
        elif isinstance(given, np.generic):
            text = str(given)
        else:
            text = repr(given)
        return clip(" ".join(clean(text).split()), room)
    except Exception:  # whatever the repr of a student's object does, it is shown as something
        return kind_of(given)


def on_host(given: Any) -> Any:
    """A tensor or a node as an array of NumPy; anything else as it is."""
    if isinstance(given, Node):
        given = given.value
    return given.to_host() if isinstance(given, Tensor) else given


def names_of(items: Sequence[Any]) -> list[str]:
    """Names, given as texts or as the nodes themselves: a node is called what it was named, or what its variable is.

    Raises:  UnfitError if one is neither, or has no name
    """
    nodes = {id(item): item for item in items if isinstance(item, Node) and item.name is None}
    found = find_names(nodes, scopes(caller_frame())) if nodes else {}
    return [_name_of(item, found) for item in items]


def _name_of(item: Any, found: dict[int, str]) -> str:
    if isinstance(item, Node):
        name = item.name or found.get(id(item))
        if name is None:
            raise UnfitError("One of these nodes has no name: bind it to a variable, or write the name in quotes.")
        return name
    if isinstance(item, str):
        return " ".join(item.split())
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        return shown(item, 40)
    raise UnfitError(f"A name in quotes is asked for, and {kind_of(item)} was given.")
