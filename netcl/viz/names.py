"""What the caller's variables are called: looked up in frames, and in the containers that their variables hold."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType
from typing import Any

# Frames of these are not the user's: looking further out would find the names of a notebook's or a test's machinery.
_MACHINERY = frozenset(
    "IPython ipykernel _pytest pytest pluggy runpy asyncio tornado traitlets nbclient threading concurrent code bdb "
    "importlib doctest unittest".split()
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NOTEBOOK = frozenset(("In", "Out", "exit", "quit", "get_ipython"))
_MOST_OBJECTS = 2000
_MOST_ITEMS = 200
_DEEPEST = 3
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, type(sys))


def caller_frame() -> FrameType | None:
    """The innermost frame outside netcl, told by its file as creation sites are."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def scopes(frame: FrameType | None, *further: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The variables in sight of a frame, the innermost first: its own, its callers', and each module's."""
    yield from _in_sight(frame)
    yield from further


def _in_sight(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    while frame is not None and _module(frame).split(".")[0] not in _MACHINERY:
        at_module = frame.f_code.co_name == "<module>"
        if not at_module:
            yield dict(frame.f_locals)
        if at_module or frame.f_back is None or _module(frame.f_back) != _module(frame):
            yield frame.f_globals
        if at_module:
            return
        frame = frame.f_back


def find_names(wanted: Mapping[int, Any], spaces: Iterator[Mapping[str, Any]]) -> dict[int, str]:
    """The first name of each wanted object, by identity: variables before members, inner scopes before outer ones.

    Among the names of one scope the one goes first that the line assigns which made the object: a variable left over
    from a loop is not that. A name that an inner scope has given to another object is not used again. `wanted` maps
    `id(object)` to the object.

    >>> thing = object()
    >>> find_names({id(thing): thing}, iter([{"a": 1, "layer": {"W": thing}}]))[id(thing)]
    "layer['W']"
    """
    found: dict[int, str] = {}
    taken: set[str] = set()
    containers: deque[tuple[str, Any, int]] = deque()
    for space in spaces:
        here: dict[int, list[str]] = {}
        for name, value in list(space.items()):
            if name.startswith("_") or name in _NOTEBOOK or name in taken or not name.isidentifier():
                continue
            taken.add(name)
            if id(value) in wanted and wanted[id(value)] is value:
                here.setdefault(id(value), []).append(name)
            elif _may_hold(value):
                containers.append((name, value, 1))
        for key, names in here.items():
            found.setdefault(key, names[0] if len(names) == 1 else _made_as(wanted[key], names))
    _search(containers, wanted, found)
    return found


def _made_as(value: Any, names: list[str]) -> str:
    """The first of these names that the line assigns which made a node, or the first of all."""
    site = getattr(value, "site", None)
    targets = (site.source_line() if site is not None else "").partition("=")[0]
    return next((name for name in names if re.search(rf"\b{name}\b", targets) and "(" not in targets), names[0])


def _may_hold(value: Any) -> bool:
    """Whether to look inside: the user's containers, and not functions, modules, or what netcl itself keeps."""
    if isinstance(value, (list, tuple, dict)):
        return True
    if isinstance(value, _PLAIN) or isinstance(value, FunctionType):
        return False
    module = type(value).__module__  # no text for Cython's functions before Python 3.11, such as np.random.default_rng
    return isinstance(module, str) and module.split(".")[0] not in ("netcl", "numpy", "builtins")


def _search(containers: deque[tuple[str, Any, int]], wanted: Mapping[int, Any], found: dict[int, str]) -> None:
    seen: set[int] = set()
    while containers and len(seen) < _MOST_OBJECTS and len(found) < len(wanted):
        path, holder, depth = containers.popleft()
        if id(holder) in seen or id(holder) in wanted:
            continue
        seen.add(id(holder))
        for step, value in _members(holder):
            if id(value) in wanted and wanted[id(value)] is value:
                found.setdefault(id(value), path + step)
            elif depth < _DEEPEST and _may_hold(value):
                containers.append((path + step, value, depth + 1))


def _members(holder: Any) -> list[tuple[str, Any]]:
    """What a container holds, without running any code of its own."""
    kind = type(holder)
    if kind in (list, tuple):
        return [(f"[{i}]", value) for i, value in enumerate(holder[:_MOST_ITEMS])]
    if kind is dict:
        items = list(holder.items())[:_MOST_ITEMS]
        return [(f"[{key!r}]", value) for key, value in items if isinstance(key, (str, int))]
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return []
    items = list(attributes.items())[:_MOST_ITEMS] if isinstance(attributes, Mapping) else []
    return [(f".{name}", value) for name, value in items if isinstance(name, str) and not name.startswith("_")]
