"""What a function can reach by its names: the nodes among it, and what must stay as it is for a replay to be right.

A replay repeats launches and runs no Python. So all that Python would read again (a global number, a closure's cell, an
attribute of a model) is looked up beforehand, and compared with what stood there at the time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from operator import is_not, itemgetter
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from netcl.autograd.node import Node
from netcl.device import Device
from netcl.layout import Layout
from netcl.tensor import Tensor

_NUMBERS = (bool, int, float, complex, str)
_NOT_ENTERED = (type, ModuleType, Device, Layout, Tensor, np.ndarray, np.generic, np.dtype, *_NUMBERS, bytes)
_LIBRARIES = sys.stdlib_module_names | {"netcl", "numpy", "pyopencl"}  # which keep nothing that a loss depends on
_MOST = 1000  # entries of a list; of a longer one only the length is compared
_MISSING = object()


class Reached:
    """The nodes that functions and objects reach, and the tensors; `changed` names what is no longer as it was."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.nodes: dict[Node, None] = {}
        self.tensors: list[Tensor] = []
        # What is looked up again: how, under which names, and what was found.
        self._watched: list[tuple[Callable[[], Sequence[Any]], Sequence[str], Sequence[Any]]] = []
        self._seen: dict[int, Any] = {}  # which holds them, and so their ids
        waiting = list(roots)
        for x in waiting:  # which grows meanwhile
            if id(x) not in self._seen:
                self._seen[id(x)] = x
                waiting.extend(self._enter(x))

    def changed(self) -> str | None:
        """Return the name of something that was given another value since, or None."""
        for found, names, before in self._watched:
            try:
                now = found()
            except (KeyError, ValueError):  # a name or a cell that is empty now
                return " or ".join(map(repr, names))
            if len(now) != len(before) or any(map(is_not, now, before)):
                for name, x, y in zip_longest(names, now, before, fillvalue=_MISSING):
                    if x is not y and not _equal(x, y):
                        return name if isinstance(name, str) else "an entry of a list"
        return None

    def _enter(self, x: Any) -> Iterator[Any]:
        """Note what one value holds, and go on to that."""
        if isinstance(x, Node):
            self.nodes[x] = None
        elif isinstance(x, Tensor):
            self.tensors.append(x)
        elif isinstance(x, FunctionType):
            yield from self._function(x)
        elif isinstance(x, MethodType):
            yield from (x.__func__, x.__self__)
        elif isinstance(x, partial):
            yield from (x.func, x.args, x.keywords)
        elif isinstance(x, (list, tuple, dict, set, frozenset)):
            items = _items(x)
            if not isinstance(x, (tuple, frozenset)):
                self._watched.append((partial(_items, x), (), items))
            yield from items
        elif x is not None and not isinstance(x, _NOT_ENTERED):
            yield from self._object(x)

    def _function(self, f: FunctionType) -> Iterator[Any]:
        if _of_a_library(f.__module__):
            return
        filled = {
            name: cell for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True) if _full(cell)
        }
        yield from self._watch(tuple(filled), lambda: [cell.cell_contents for cell in filled.values()])
        yield from self._of_dict(f.__globals__, [name for name in _global_names(f.__code__) if name in f.__globals__])
        yield from (f.__defaults__ or (), f.__kwdefaults__ or {})
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            yield wrapped

    def _of_dict(self, holder: Mapping[str, Any], names: Sequence[str]) -> Sequence[Any]:
        if len(names) == 1:
            return self._watch(names, lambda: (holder[names[0]],))
        return self._watch(names, partial(itemgetter(*names), holder)) if names else ()

    def _watch(self, names: Sequence[str], found: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        before = found()
        if names:
            self._watched.append((found, names, before))
        return before

    def _object(self, x: Any) -> Iterator[Any]:
        """An object: its attributes, and the methods of its classes, whose globals it reads."""
        attributes = getattr(x, "__dict__", None)
        if isinstance(attributes, dict):
            yield from self._of_dict(attributes, list(attributes))
        for kind in type(x).__mro__:
            if not _of_a_library(kind.__module__):
                yield from (member for member in vars(kind).values() if isinstance(member, FunctionType))


def _of_a_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


def _global_names(code: CodeType) -> set[str]:
    """Return the names that code and the functions within it may look up among the globals."""
    inner = [_global_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)


def _full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _items(x: Any) -> list[Any]:
    if len(x) > _MOST:
        return [len(x)]
    return [*x.keys(), *x.values()] if isinstance(x, dict) else list(x)


def _equal(x: Any, y: Any) -> bool:
    """Say whether two objects are equal numbers or texts of one type; −0 is not 0."""
    return type(x) is type(y) and isinstance(x, _NUMBERS) and repr(x) == repr(y)
