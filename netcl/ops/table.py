"""The op table: what an op computes, its derivatives, and what its picture says, in one place.

An elementwise op is one row: its forward expression and its local partial derivatives, side by side. A structural op is
a function on tensors with its VJP and JVP rules right under it. Everything else (kernels, second derivatives, fusion,
labels, docs, tests) is read from here, so adding an op touches one file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from netcl import expr as ex
from netcl.errors import ArgumentError

OPS: dict[str, Op] = {}
"""Every op by name, in the order in which they were declared."""

_run: list[Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]] = []


class Op:
    """An op: callable on tensors (and, once autograd is there, on nodes).

    `args` are the names of its operands, `attr_names` of its static parameters. An elementwise op has `expr` and
    `partials`; a structural one has `edges` (what its picture writes on the way back to an operand).
    """

    expr: ex.Expr | None = None
    partials: Mapping[str, ex.Expr] = {}
    kind = "structural"
    linear = False  # its JVP is the op itself, applied to the tangents
    defaults: Mapping[str, float] = {}  # the numbers that the last operands are if they are left out

    def __init__(self, name: str, function: Callable[..., Any], args: Sequence[str], doc: str) -> None:
        self.name = self.__name__ = name
        self.function = function
        self.args = tuple(args)
        parameters = inspect.signature(function).parameters.values()
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self.attr_names = tuple(p.name for p in parameters if p.name not in self.args)
        self.__doc__ = doc
        self.__signature__ = inspect.signature(function)
        self.vjps: dict[str, Callable[..., Any]] = {}
        self.edges: dict[str, str] = {}
        self.reads: dict[str, frozenset[int]] = {}  # which operands a rule reads the elements of, where that was said
        self.jvp_rule: Callable[..., Any] | None = None
        # joint(wanted, g, *operands) may give the cotangents of all wanted operands at once, or None: tensors alone
        self.joint: Callable[..., list[Any] | None] | None = None
        self.aliases: tuple[str, ...] = ()
        if name in OPS:
            raise ArgumentError(f"there is an op named {name!r} already")
        OPS[name] = self

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        count = len(self.args)
        if self.variadic:
            if args and isinstance(args[0], (list, tuple)):  # as NumPy's concatenate((a, b), axis)
                args, attrs = tuple(args[0]), dict(zip(self.attr_names, args[1:], strict=False)) | attrs
        elif len(args) != count:
            args += tuple([self.defaults[arg] for arg in self.args[len(args) :] if arg in self.defaults])
            if len(args) < count or len(args) - count > len(self.attr_names):
                raise ArgumentError(f"{self.name} takes {', '.join(self.args)}, but {len(args)} arguments came")
            attrs = dict(zip(self.attr_names, args[count:], strict=False)) | attrs
            args = args[:count]
        if attrs and (unknown := sorted(attrs.keys() - set(self.attr_names))):
            raise ArgumentError(f"{self.name} has no parameter {', '.join(unknown)}")
        return _run[-1](self, args, attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}{self.__signature__}>"

    def vjp(
        self, arg: str, edge: str, reads: Sequence[str] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare how a cotangent is pulled back to operand `arg`: rule(g, out, *args, **attrs), and its label.

        The one rule of a variadic op gets the number of the operand before all else: rule(i, g, out, *args, **attrs).
        `reads` names the operands whose elements the rule needs, if not all; the memory of the others may be gone.
        """

        def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
            self.vjps[arg] = rule
            self.edges[arg] = edge
            if reads is not None:
                self.reads[arg] = frozenset(map(self.args.index, reads))
            return rule

        return declare

    def arg(self, i: int) -> str | None:
        """Return the name of operand number `i`, under which its rules stand; None if there is no such operand."""
        return self.args[0] if self.variadic else self.args[i] if i < len(self.args) else None

    def rule(self, i: int) -> Callable[..., Any]:
        """Return how a cotangent is pulled back to operand number `i`."""
        return partial(self.vjps[self.args[0]], i) if self.variadic else self.vjps[self.args[i]]

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare how tangents are pushed forward: rule(tangents, out, *args, **attrs); None is a zero tangent."""
        self.jvp_rule = rule
        return rule


def structural(*args: str, name: str | None = None, linear: bool = False) -> Callable[[Callable[..., Any]], Op]:
    """Make a function on tensors an op; `args` names the operands among its parameters."""

    def declare(function: Callable[..., Any]) -> Op:
        op = Op(name or function.__name__, function, args, inspect.getdoc(function) or "")
        op.linear = linear
        return op

    return declare


def interpret(run: Callable[[Op, tuple[Any, ...], dict[str, Any]], Any]) -> None:
    """Set what calling an op does. ops sets the plain reading; autograd sets one that records."""
    _run.append(run)
