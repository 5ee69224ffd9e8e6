"""What a function can reach by its names: the nodes among it, and what must stay as it is for a replay to be right.

A replay repeats launches and runs no Python. So all that Python would read again (a global number, a closure's cell, an
attribute of a model) is looked up beforehand, and compared with what stood there at the time. The comparing is done
in loops of C over many things at once, since it is done at every call.
"""

from __future__ import annotations

import builtins
import ctypes
import pickle
import random
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from operator import getitem, is_not, length_hint
from types import BuiltinMethodType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from types import GetSetDescriptorType as GetSetDescriptor
from types import MemberDescriptorType as MemberDescriptor
from typing import Any, NamedTuple

import numpy as np

from netcl.autograd.names import names_of, of_a_library, top_of
from netcl.autograd.node import Node
from netcl.device import Device
from netcl.layout import Layout
from netcl.tensor import Tensor

_NUMBERS = (bool, int, float, complex, str)
_ATOMS = frozenset({*_NUMBERS, bytes, type(None), type(...), CodeType, Device, Layout})
_ENTRIES = (list, tuple, dict, set, frozenset, deque, MappingProxyType)
# What changes in objects of these is a cache at most.
_FIXED = (
    "netcl.ops", "netcl.kernels", "netcl.user_kernel", "netcl.expr", "netcl.launch", "netcl.autograd.fuse",
    "netcl.autograd.replay",
)  # fmt: skip
_BUFFERS = (bytearray, array, memoryview, ctypes.Array, ctypes._SimpleCData, ctypes.Structure, ctypes.Union)
_QUIET = {"logging", "threading", "_thread", "concurrent", "asyncio", "multiprocessing"}  # which change on their own
_WRAPPERS = (classmethod, staticmethod, cached_property, property)
_MISSING = object()


class _Pass(NamedTuple):
    """Many things that are asked by one getter under a key each, in a loop of C, and what it gave."""

    get: Callable[[Any, Any], Any]
    names: list[str]
    things: list[Any]
    keys: list[Any]
    before: list[Any]

    def add(self, name: str, thing: Any, key: Any) -> Any:
        found = self.get(thing, key)
        self.names.append(name)
        self.things.append(thing)
        self.keys.append(key)
        self.before.append(found)
        return found

    def changed(self) -> str | None:
        get, names, things, keys, before = self
        if any(map(is_not, map(get, things, keys), before)):
            return _differs(names, map(get, things, keys), before)
        return None


class Reached:
    """The nodes that functions and objects reach, and the tensors; `changed` names what is no longer as it was.

    `fleeting` names something whose changes nobody can see (an iterator), or is None; `drew` says whether Python's or
    NumPy's random numbers were drawn since.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.nodes: dict[Node, None] = {}
        self.tensors: list[Tensor] = []
        self.fleeting: str | None = None
        self._got = _Pass(getattr, [], [], [], [])
        self._entries = _Pass(getitem, [], [], [], [])  # of dicts
        self._lengths = _Pass(length_hint, [], [], [], [])  # whose keys are numbers that do not matter
        # What else is looked up again: how, under which names, and what was found.
        self._watched: list[tuple[Callable[[], Any], Sequence[str], Sequence[Any]]] = []
        self._absent: list[tuple[Any, set[str]]] = []  # keys, and which are not among them
        self._bytes: list[tuple[Any, Any, Any, bytearray]] = []
        self._random: list[tuple[Any, Any]] = []
        self._seen: dict[int, Any] = {}  # which holds them, and so their ids
        # Names that code looks up, by the dict of its globals; and those of attributes, which may be modules' too.
        self._globals: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._known: set[type] = set()
        self._builtins: set[str] = set()
        self._modules: dict[ModuleType, set[str]] = {}
        self._attributes: set[str] = {"__getattr__"}  # which a module may have
        for each in (random.random, np.random.random):
            self._note_random(each.__self__)
        self._walk(list(roots))

    def _walk(self, waiting: list[Any]) -> None:
        while waiting:
            for x in waiting:  # which grows meanwhile
                if id(x) not in self._seen:
                    self._seen[id(x)] = x
                    waiting.extend(self._enter(x))
            waiting = [*self._of_globals(), *self._of_modules()]
        for holder, names in self._globals.values():
            if absent := names - holder.keys():
                self._absent.append((holder.keys(), absent))
        self._passes = [each for each in (self._got, self._entries, self._lengths) if each.things]

    def changed(self) -> str | None:
        """Return the name of something that was given another value since, or None."""
        try:
            return self._changed()
        except (KeyError, ValueError, AttributeError, TypeError, RuntimeError) as gone:
            return str(gone)  # a name, a cell or an attribute that is empty now, or what another thread is changing

    def _changed(self) -> str | None:
        for each in self._passes:
            if (name := each.changed()) is not None:
                return name
        for keys, absent in self._absent:
            if not keys.isdisjoint(absent):
                return next(name for name in absent if name in keys)
        for found, names, before in self._watched:
            now = found()
            if (len(now) != len(before) or any(map(is_not, now, before))) and (name := _differs(names, now, before)):
                return name
        for x, shape, dtype, content in self._bytes:
            if content != _content(x) or (shape is not None and (x.shape != shape or x.dtype is not dtype)):
                return f"the content of a {type(x).__name__}"
        return None

    def drew(self) -> bool:
        """Say whether random numbers of Python's or of NumPy's were drawn since."""
        return any(_state(x) != before for x, before in self._random)

    def _enter(self, x: Any) -> Iterator[Any]:
        """Note what one value holds, and go on to that."""
        if type(x) in _ATOMS:
            return
        if isinstance(x, Node):
            self.nodes[x] = None
        elif isinstance(x, Tensor):
            self.tensors.append(x)
        elif isinstance(x, FunctionType):
            yield from self._function(x)
        elif isinstance(x, MethodType):
            yield from (x.__func__, x.__self__)
        elif isinstance(x, BuiltinMethodType):
            yield x.__self__
        elif isinstance(x, ModuleType):
            self._modules.setdefault(x, set())
        elif isinstance(x, type):
            yield from self._class(x)
        elif isinstance(x, np.ndarray):
            yield from self._array(x)
        elif isinstance(x, _generators()):
            self._note_random(x)
        elif not isinstance(x, (np.generic, np.dtype)):
            yield from self._object(x)

    def _function(self, f: FunctionType) -> Iterator[Any]:
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                yield self._got.add(name, cell, "cell_contents")
            except ValueError:  # it is empty
                self._watched.append((partial(_is_empty, cell), (name,), (True,)))
        yield from (f.__defaults__, f.__kwdefaults__)
        if of_a_library(f):
            yield getattr(f, "__wrapped__", None)
        else:
            for each in ("__code__", "__defaults__", "__kwdefaults__"):
                self._got.add(f.__name__, f, each)
            names = names_of(f.__code__)
            self._attributes |= names.attributes
            self._globals.setdefault(id(f.__globals__), (f.__globals__, set()))[1].update(names.globals)
            yield from self._imports(f.__globals__.get("__package__") or "", names.imports)
            yield from self._of_vars(f)

    def _imports(self, package: str, names: Iterable[str]) -> Iterator[Any]:
        """Modules that code imports, by whole names or from its package; one that is yet to come is a change then."""
        parts = package.split(".")
        above = [".".join(parts[:n]) for n in range(1, len(parts) + 1)] if package else []
        asked = {f"{each}.{name}".strip(".") for name in names for each in ("", *above)}
        self._absent.append((sys.modules.keys(), asked - sys.modules.keys()))
        yield from (sys.modules[name] for name in asked & sys.modules.keys())

    def _of_globals(self) -> Iterator[Any]:
        """Go on to what code looks up among its globals, and among Python's own names."""
        own = vars(builtins)
        for holder, names in self._globals.values():
            here = names & holder.keys()
            names -= here
            yield from self._of_dict(holder, here)
            new = (names & own.keys()) - self._builtins
            self._builtins |= new
            yield from self._of_dict(own, new)

    def _of_modules(self) -> Iterator[Any]:
        """Go on to attributes of modules that code names."""
        for module, done in list(self._modules.items()):
            new = (self._attributes & vars(module).keys()) - done
            done |= new
            found = self._of_dict(vars(module), new)
            if of_a_library(module):
                yield from (x for x in found if not isinstance(x, (FunctionType, type)) and top_of(type(x)) != "netcl")
            else:
                yield from found

    def _of_dict(self, holder: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
        """Note entries of a dict, and return them."""
        return [self._entries.add(name, holder, name) for name in names]

    def _watch(self, names: Sequence[str], found: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        before = found()
        self._watched.append((found, names, before))
        return before

    def _class(self, kind: type) -> Iterator[Any]:
        """A class: what is in it and in those that it inherits from, methods included, whose globals they read."""
        yield type(kind)
        for each in kind.__mro__:
            library = of_a_library(each)
            if (library and top_of(each) != "netcl") or each in self._known:
                continue
            self._known.add(each)
            held = {name: x for name, x in vars(each).items() if not name.startswith("__") or callable(x)}
            self._lengths.add(each.__name__, vars(each), 0)
            found = self._of_dict(vars(each), held)
            if not library:
                for x in found:
                    if isinstance(x, _WRAPPERS):
                        yield from (getattr(x, name, None) for name in ("__func__", "func", "fget"))
                    elif not isinstance(x, (MemberDescriptor, GetSetDescriptor)):
                        yield x

    def _object(self, x: Any) -> Iterator[Any]:
        """An object: its entries, its attributes, and its class."""
        kind = type(x)
        if str(kind.__module__).startswith(_FIXED):
            return
        if isinstance(x, _ENTRIES):
            items = list(_entries(x))
            if not isinstance(x, (tuple, frozenset)):
                self._watched.append((partial(_entries, x), (), items))
            yield from items
        elif isinstance(x, partial):
            yield from (x.func, x.args, x.keywords)
        elif isinstance(x, _BUFFERS):
            self._bytes.append((x, None, None, bytearray(_content(x))))
        elif isinstance(x, weakref.ref):
            yield from self._watch(("a weak reference",), lambda: (x(),))
        elif isinstance(x, ContextVar):
            yield from self._watch((x.name,), lambda: (x.get(_MISSING),))
        elif top_of(kind) in ("builtins", "itertools") and hasattr(kind, "__next__"):
            self.fleeting = f"an iterator, {kind.__name__}"
        if top_of(kind) in _QUIET and kind.__name__ != "_local":
            return
        slots = [
            name for each in kind.__mro__ for name, member in vars(each).items()
            if isinstance(member, MemberDescriptor) and top_of(each) not in ("builtins", "functools")
        ]  # fmt: skip
        if slots:
            yield from self._watch(slots, lambda: [getattr(x, name, _MISSING) for name in slots])
        yield from self._of_vars(x)
        yield kind if of_a_library(kind) else self._got.add(f"the class of a {kind.__name__}", x, "__class__")

    def _of_vars(self, x: Any) -> Iterator[Any]:
        try:
            attributes = vars(x)
        except Exception:  # it has none, or a __dict__ of its own that raises what it likes
            return
        if isinstance(attributes, dict):
            self._got.add(f"an attribute of {type(x).__name__}", x, "__dict__")
            self._lengths.add(f"an attribute of {type(x).__name__}", attributes, 0)
            yield from self._of_dict(attributes, attributes)

    def _array(self, x: np.ndarray) -> Iterator[Any]:
        if x.dtype.hasobject:
            yield from self._watch(("an array of objects",), lambda: x.ravel().tolist())
        else:
            self._bytes.append((x, x.shape, x.dtype, bytearray(_content(x))))
        if type(x) is not np.ndarray:
            yield from self._of_vars(x)
            yield type(x)

    def _note_random(self, x: Any) -> None:
        try:
            self._random.append((x, _state(x)))
        except NotImplementedError:  # the system's, which has no state
            self.fleeting = f"random numbers of {type(x).__name__}"


def _state(x: Any) -> Any:
    """Return the state of a generator of random numbers, as something to compare."""
    return x.getstate() if isinstance(x, random.Random) else pickle.dumps(x)


def _content(x: Any) -> Any:
    """Return the bytes of an array or another buffer, without a copy where they lie in order."""
    if not isinstance(x, np.ndarray):
        view = memoryview(x)
        return view.tobytes() if view.readonly or not view.contiguous else view
    x = np.asarray(x)
    return x.reshape(-1).view(np.uint8).data if x.flags.c_contiguous else x.tobytes()


@lru_cache(maxsize=1)
def _generators() -> tuple[type, ...]:
    """Return the types of generators of random numbers; NumPy loads its own when they are first asked for."""
    return random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator


def _differs(names: Sequence[str], now: Iterable[Any], before: Iterable[Any]) -> str | None:
    for name, x, y in zip_longest(names, now, before, fillvalue=_MISSING):
        if x is not y and not _equal(x, y):
            return name if isinstance(name, str) else "an entry of a list"
    return None


def _is_empty(cell: Any) -> tuple[bool]:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return (True,)
    return (False,)


def _entries(x: Any) -> Any:
    if isinstance(x, (dict, MappingProxyType)):
        return [*x.keys(), *x.values()]
    return x if isinstance(x, (list, tuple)) else list(x)


def _equal(x: Any, y: Any) -> bool:
    """Say whether two objects are equal numbers or texts of one type; −0 is not 0."""
    return type(x) is type(y) and isinstance(x, _NUMBERS) and repr(x) == repr(y)
