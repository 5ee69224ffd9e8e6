"""Operators and methods of tensors and nodes, attached to their common base, here and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from netcl.autograd.binary import operator
from netcl.autograd.engine import Tape
from netcl.autograd.node import Node
from netcl.autograd.of_numpy import array_function, said
from netcl.autograd.pullback import NO_ATTRS
from netcl.autograd.record import record
from netcl.errors import DTypeError
from netcl.methods import ArrayMethods
from netcl.ops import COMPOSITES, OPS, Row
from netcl.ops.indexing import frozen
from netcl.tensor import Tensor

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul",
}  # fmt: skip
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
_UNARY = {"neg": "neg", "abs": "abs"}
_TRUTH = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor", "invert": "logical_not"}
_METHODS = (
    "sum", "mean", "max", "min", "reshape", "broadcast_to", "astype", "var", "std", "prod", "cumsum", "norm",
    "logsumexp", "softmax", "log_softmax", "diagonal", "exp", "log", "sqrt", "square", "sin", "cos", "tanh", "sigmoid",
    "relu", "abs", "floor", "ceil",
)  # fmt: skip
_COMPOSITE_METHODS = (
    "argmax", "argmin", "any", "all", "flatten", "ravel", "squeeze", "unsqueeze", "swapaxes", "take", "repeat", "dot",
    "trace", "round",
)  # fmt: skip


def _forward(name: str) -> Callable[[Any, Any], Any]:
    op = OPS[name]
    if isinstance(op, Row):
        return operator(op)
    return lambda self, other: record(op, (self, other), NO_ATTRS)


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    op = OPS[name]
    return lambda self, other: record(op, (other, self), NO_ATTRS)


def _unary(name: str) -> Callable[[Any], Any]:
    op = OPS[name]
    return lambda self: op(self)


def _method(name: str) -> Callable[..., Any]:
    op = OPS[name]
    own = frozenset(op.attr_names)

    def method(self: Any, *args: Any, **attrs: Any) -> Any:
        if attrs:
            attrs = said(name, attrs, own)
        return op(self, *args, **attrs)

    def reshape(self: Any, *shape: Any, **attrs: Any) -> Any:
        given = attrs.pop("shape", shape) if not shape else shape[0] if len(shape) == 1 else shape
        return method(self, given, **attrs)

    return reshape if name == "reshape" else method


def _of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a function: with its signature, and callable by NumPy's function of that name."""

    @functools.wraps(function)
    def method(self: Any, *args: Any, **attrs: Any) -> Any:
        return function(self, *args, **said(function.__name__, attrs) if attrs else attrs)

    return method


def _truth(name: str) -> Callable[..., Any]:
    """Return an operator of truth values: on integers it would be bit by bit in NumPy, which there is no op for."""
    op = OPS[name]

    def operate(self: Any, *other: Any) -> Any:
        for x in (self, *other):
            dtype = getattr(x, "dtype", type(x))
            if dtype not in (bool, np.bool_):
                came = getattr(dtype, "__name__", dtype)
                raise DTypeError(f"& | ^ ~ are for truth values, not {came}; ag.{name} takes numbers")
        return op(self, *other)

    return operate


def _permuted() -> Callable[..., Any]:
    op = OPS["transpose"]

    def permuted(self: Any, *axes: Any) -> Any:
        if not axes or axes == (None,):
            return op(self)
        return op(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)) else axes)

    return permuted


def _divmod(self: Any, other: Any) -> tuple[Any, Any]:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> tuple[Any, Any]:
    return other // self, other % self


def _clip(self: Any, low: Any = None, high: Any = None) -> Any:
    """Clip to a range, open on the side of None: `ag.clip` with the dtype's own end there."""
    ends = (-np.inf, np.inf) if self.dtype.kind == "f" else (_end(self.dtype, "min"), _end(self.dtype, "max"))
    return OPS["clip"](self, ends[0] if low is None else low, ends[1] if high is None else high)


def _end(dtype: np.dtype, which: str) -> int:
    return int(which == "max") if dtype.kind == "b" else int(getattr(np.iinfo(dtype), which))


def _backward(self: Any, grad: Any = None) -> None:
    """Run the backward pass from here: `ag.Tape().backward(self)`. A Tensor was not recorded, so it is refused."""
    Tape().backward(self, grad)


def _getitem(self: Any, key: Any) -> Any:
    return OPS["getitem"](self, frozen(key))


def _iterate(self: Any) -> Iterator[Any]:
    return (self[i] for i in range(len(self)))


def _attach(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = name
    function.__qualname__ = f"{ArrayMethods.__name__}.{name}"
    function.__doc__ = doc
    setattr(ArrayMethods, name, function)


def _attach_all() -> None:
    for symbol, op in _BINARY.items():
        _attach(f"__{symbol}__", _forward(op), f"{op} of this and another.")
        _attach(f"__r{symbol}__", _reflected(op), f"{op} of another and this.")
    for symbol, op in _COMPARISONS.items():
        _attach(f"__{symbol}__", _forward(op), f"{op}, element by element.")
    for symbol, op in _UNARY.items():
        _attach(f"__{symbol}__", _unary(op), f"{op}, element by element.")
    for symbol, op in _TRUTH.items():
        _attach(f"__{symbol}__", _truth(op), f"{op}, element by element.")
        if symbol != "invert":
            _attach(f"__r{symbol}__", _truth(op), f"{op}, element by element.")
    for name in _METHODS:
        _attach(name, _method(name), OPS[name].__doc__ or "")
    _attach("__divmod__", _divmod, "The floored quotient and the remainder.")
    _attach("__rdivmod__", _rdivmod, "The floored quotient and the remainder of another and this.")
    setattr(ArrayMethods, "__round__", COMPOSITES["round"])  # noqa: B010
    _attach("clip", _of_numpy(_clip), _clip.__doc__ or "")
    for name in _COMPOSITE_METHODS:
        setattr(ArrayMethods, name, _of_numpy(COMPOSITES[name]))
    for name in ("transpose", "permute"):
        _attach(name, _permuted(), OPS["transpose"].__doc__ or "")
    for kind in (Tensor, Node):  # not Dual, which has no graph
        setattr(kind, "backward", _backward)  # noqa: B010
    setattr(ArrayMethods, "__array_function__", array_function)  # noqa: B010
    _attach("__getitem__", _getitem, OPS["getitem"].__doc__ or "")
    _attach("__iter__", _iterate, "Go through the slices along the first axis.")
    setattr(ArrayMethods, "T", property(_unary("transpose"), doc="The view with its axes reversed."))  # noqa: B010


_attach_all()
