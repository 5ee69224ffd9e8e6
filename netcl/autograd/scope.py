"""Named parts of a model: which of them a node was made in, so that pictures can fold them."""

from __future__ import annotations

from typing import Any

from netcl.autograd.modes import modes


class Scope:
    """One entry into a named part, inside another one or outside all.

    `owner` is what gave the name, a module say, if it was not given by itself.
    """

    __slots__ = ("_name", "left", "outer", "owner")

    def __init__(self, name: str | None, owner: Any, outer: Scope | None) -> None:
        self._name = name
        self.owner = owner
        self.outer = outer
        self.left = False

    @property
    def name(self) -> str:
        """The name given, or that of the owner's type."""
        return self._name if self._name is not None else type(self.owner).__name__

    def __repr__(self) -> str:
        return f"<Scope {self.name}>"


def enter(name: str | None, owner: Any = None) -> Scope:
    """Begin a part; what `leave` is given later."""
    entered = modes.scope = Scope(name, owner, modes.scope)
    return entered


def leave(entered: Scope) -> None:
    """End a part. A suspended generator may end its own in another order; that takes out its own alone."""
    entered.left = True
    while modes.scope is not None and modes.scope.left:
        modes.scope = modes.scope.outer


class scope:  # noqa: N801 - used as a keyword is
    """Context manager: nodes made in the block belong to a named part of the model, which pictures may fold.

    Each entry is a part of its own: a loop that enters "layer" 80 times makes 80 layers.

    >>> import netcl.autograd as ag
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> with scope("squares"):
    ...     y = x * x
    >>> y.scope
    <Scope squares>
    """

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self._entered: list[Scope] = []

    def __enter__(self) -> Scope:
        self._entered.append(enter(self.name))
        return self._entered[-1]

    def __exit__(self, *_: object) -> None:
        leave(self._entered.pop())
