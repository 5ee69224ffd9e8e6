"""NumPy's functions of tensors and nodes: np.sum(x), np.dot(x, y), and those that would lose a graph.

Source: NumPy Enhancement Proposal 18, for the protocol `__array_function__` and a function's `_implementation`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from netcl.autograd.dual import Dual
from netcl.autograd.modes import modes
from netcl.autograd.node import Node
from netcl.autograd.traced import settled
from netcl.errors import ArgumentError, GraphError
from netcl.methods import ArrayMethods
from netcl.ops import COMPOSITES, OPS

# Most of NumPy's functions call methods: np.sum(x) is x.sum(axis=None, out=None). What they pass there, and what says
# nothing.
_PASSED = {"out": None, "dtype": None, "order": "C", "mode": "raise"}
_INSTEAD = {"out": "a tensor never changes: take the result", "dtype": "use .astype before or after"}
# These would make arrays of what they are given, and there are ops that do the same.
_OPS: dict[Any, str] = {
    getattr(np, name): name
    for name in (
        "broadcast_to", "concatenate", "diag", "diagonal", "dot", "einsum", "expand_dims", "outer", "pad", "ravel",
        "roll", "split", "stack", "take_along_axis", "tensordot", "tile", "trace", "tril", "triu", "where",
    )
} | {np.linalg.norm: "norm"}  # fmt: skip
# Numbers come out of these that no gradient belongs to: copies, and what looks at the shape alone, or counts.
_LOOK = (np.copy, np.empty_like, np.full_like, np.histogram, np.ones_like, np.zeros_like)


def said(name: str, attrs: dict[str, Any], own: Collection[str] = ()) -> dict[str, Any]:
    """Leave out what NumPy's functions pass along and what says nothing.

    Raises: ArgumentError for an `out` to write into, and the like
    """
    for key in _PASSED.keys() & attrs.keys() - set(own):
        given = attrs[key]
        if given is not None and not (isinstance(given, str) and given == _PASSED[key]):
            came = "…" if key == "out" else f"{given!r}"
            raise ArgumentError(f"{name} takes no {key}={came}; {_INSTEAD.get(key, 'leave it out')}")
    return {key: x for key, x in attrs.items() if key in own or key not in _PASSED}


def array_function(
    self: Any, func: Callable[..., Any], types: Collection[type], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """Answer for a function of NumPy: by the op of that name, or as NumPy does it, unless that loses a gradient.

    NumPy calls methods where there are any, and else makes arrays of tensors and nodes.

    Raises: GraphError if numbers of a floating-point type come out of a node that requires grad, while ops are recorded
    """
    if not all(issubclass(kind, (ArrayMethods, np.ndarray)) for kind in types):
        return NotImplemented  # another library's array may know
    name = _OPS.get(func)
    if name is not None and (func is not np.where or len(args) == 3):  # np.where(mask) gives indices
        op = OPS[name] if name in OPS else COMPOSITES[name]
        return op(*args, **(said(name, kwargs, ("mode",) if name == "pad" else ()) if kwargs else kwargs))
    result = func._implementation(*args, **kwargs)  # type: ignore[attr-defined]
    if func not in _LOOK and modes.recording and _is_of_numbers(result) and any(map(_carries, _flat(args, kwargs))):
        called = f"{func.__module__}.{func.__name__}".replace("numpy", "np", 1)
        raise GraphError(
            f"{called} makes an array of NumPy's from a node, and no gradient would come back through that: "
            "use netcl's ops (ag. and Tab lists them), or hand over x.to_host() if only the numbers are wanted"
        )
    return result


def _is_of_numbers(result: Any) -> bool:
    if isinstance(result, (list, tuple)):
        return any(map(_is_of_numbers, result))
    return isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind == "f"


def _carries(x: Any) -> bool:
    x = settled(x)
    return isinstance(x, Dual) or (isinstance(x, Node) and x.requires_grad)


def _flat(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    for x in (*args, *kwargs.values()):
        yield from _flat(x, {}) if isinstance(x, (list, tuple)) else (x,)
