"""Functions laid over an object's methods for a while and for one thread: how what a device does is looked at.

Nothing here costs anything while nothing is covered: a method is then the object's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Cover = Callable[..., Any]
"""Called with the method that lies below, and with the arguments of the call."""

_lock = threading.Lock()
_covered: dict[int, _Covered] = {}


class _Covered:
    """One object, the layers over its methods from the bottom to the top, and what it had in their place by itself."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.layers: list[tuple[int, Mapping[str, Cover]]] = []
        self.own: dict[str, Any] = {}

    def rebuild(self) -> None:
        """Give the object its methods under the layers that there are now: threads end theirs in any order."""
        for name, method in self.own.items():
            if method is None:
                self.target.__dict__.pop(name, None)
            else:
                setattr(self.target, name, method)
        for _, covers in self.layers:
            for name in covers:
                self.own.setdefault(name, self.target.__dict__.get(name))
        for owner, covers in self.layers:
            for name, cover in covers.items():
                setattr(self.target, name, _for_one_thread(owner, cover, getattr(self.target, name)))


@contextmanager
def covered(target: Any, covers: Mapping[str, Cover]) -> Iterator[None]:
    """Lay functions over methods of an object, for calls of this thread in the block.

    >>> class Greeter:
    ...     def greet(self, name):
    ...         return f"hello {name}"
    >>> greeter = Greeter()
    >>> with covered(greeter, {"greet": lambda below, name: below(name.upper())}):
    ...     greeter.greet("you")
    'hello YOU'
    >>> greeter.greet("you")
    'hello you'
    """
    layer = (threading.get_ident(), covers)
    try:  # from here, since an interrupt may come between any two of these lines
        with _lock:
            found = _covered.setdefault(id(target), _Covered(target))  # which keeps the object, and so its id
            found.layers.append(layer)
            found.rebuild()
        yield
    finally:
        try:
            _uncover(target, layer)
        except BaseException:  # an interrupt on the way: methods that stay covered would be of no use to anyone
            _uncover(target, layer)
            raise


def _uncover(target: Any, layer: tuple[int, Mapping[str, Cover]]) -> None:
    with _lock:
        found = _covered.setdefault(id(target), _Covered(target))
        found.layers = [each for each in found.layers if each is not layer]
        found.rebuild()
        if not found.layers:
            _covered.pop(id(target), None)


def _for_one_thread(owner: int, cover: Cover, below: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        return cover(below, *args, **kwargs) if threading.get_ident() == owner else below(*args, **kwargs)

    return method
