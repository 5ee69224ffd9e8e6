"""Node: the record of one value in a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netcl.autograd.pullback import NO_ATTRS, RowPullback, released
from netcl.autograd.scope import Scope
from netcl.autograd.site import Site
from netcl.autograd.wrapped import Wrapped
from netcl.ops.rows import RowVJP
from netcl.tensor import Tensor

GradFn = Callable[[Tensor], list[Tensor | None]]

_created = itertools.count(1)
_new = object.__new__


def next_index() -> int:
    """Return a number above those of all nodes so far, and below those of all to come."""
    return next(_created)


def _get_grad_fn(node: Node) -> GradFn | None:
    rule, kept = node.rule, node.kept
    return RowPullback(rule, kept[len(rule.case.layouts) :]) if type(rule) is RowVJP else rule


def _set_grad_fn(node: Node, grad_fn: GradFn | None) -> None:
    node.rule, node.kept = grad_fn, (node.parents, node.operands)


def _get_parents(node: Node) -> list[Node]:
    return list(node.rule.parents(node.kept)) if type(node.rule) is RowVJP else node.kept[0]


def _set_parents(node: Node, parents: list[Node]) -> None:
    node.rule, node.kept = node.grad_fn, (parents, node.operands)


def _get_operands(node: Node) -> tuple[Any, ...]:
    return node.kept[: len(node.rule.case.layouts)] if type(node.rule) is RowVJP else node.kept[1]


def _set_operands(node: Node, operands: tuple[Any, ...]) -> None:
    node.rule, node.kept = node.grad_fn, (node.parents, operands)


_grad_fn: Any = property(_get_grad_fn, _set_grad_fn)
_parents: Any = property(_get_parents, _set_parents)
_operands: Any = property(_get_operands, _set_operands)


@dataclass(init=False, eq=False, repr=False)
class Node(Wrapped):
    """The record of one value in a graph.

    `value` is the primal, `grad` its cotangent after a backward pass, `parents` the nodes that it was made from, and
    `grad_fn(g)` returns one contribution per parent. `operands` has all the arguments, constants included; `attrs` the
    static ones. `site` is the line of the user's code, `index` the order of creation, `pass_id` the number of the
    backward call that last wrote `grad`. Nodes compare and hash by identity.
    """

    # Each object of a node's own is one more for the collector to visit, in every pass that it makes over a graph. So
    # the node of an elementwise op has one tuple, `kept`: its operands, their values, and the result. `rule` is then
    # the RowVJP that all nodes of the same op and layouts share, and the three fields that are properties are worked
    # out when they are asked for. For every other node `rule` is the grad_fn, and `kept` the parents and the operands.
    __slots__ = (
        "attrs", "creation_trace", "grad", "index", "kept", "level", "name", "op_name", "pass_id", "requires_grad",
        "rule", "scope", "site", "value",
    )  # fmt: skip

    value: Tensor
    grad_fn: GradFn | None = _grad_fn
    parents: list[Node] = _parents
    grad: Tensor | None
    requires_grad: bool
    op_name: str | None
    creation_trace: list[str] | None
    name: str | None
    operands: tuple[Any, ...] = _operands
    attrs: dict[str, Any] | None
    site: Site | None
    scope: Scope | None  # the named part of a model that it was made in
    index: int
    pass_id: int
    level: int  # which of the nested transforms it belongs to (see transforms.py)

    def __init__(
        self, value: Tensor, grad_fn: GradFn | None = None, parents: list[Node] | None = None,
        grad: Tensor | None = None, requires_grad: bool = True, op_name: str | None = None,
        creation_trace: list[str] | None = None, name: str | None = None, operands: tuple[Any, ...] = (),
        attrs: dict[str, Any] | None = None, site: Site | None = None, scope: Scope | None = None,
        index: int | None = None, pass_id: int = 0, level: int = 0,
    ) -> None:  # fmt: skip
        self.value = value
        self.rule: Any = grad_fn
        self.kept: Any = ([] if parents is None else parents, operands)
        self.grad = grad
        self.requires_grad = requires_grad
        self.op_name = op_name
        self.creation_trace = creation_trace
        self.name = name
        self.attrs = attrs
        self.site = site
        self.scope = scope
        self.index = next(_created) if index is None else index
        self.pass_id = pass_id
        self.level = level

    @property
    def lower(self) -> Any:
        """The value: what this is to the transforms outside the one that it belongs to."""
        return self.value

    @property
    def released(self) -> bool:
        """Whether the graph behind this node was let go, so that backward can no longer pass through it."""
        return self.rule is released

    def constant(self, x: Tensor) -> Node:
        """Return `x` as a leaf on this node's level."""
        return Node(x, level=self.level)

    def zero_grad(self) -> None:
        """Forget the gradient: the next backward starts from nothing."""
        self.grad = None
        self.pass_id = 0

    if TYPE_CHECKING:  # attached with the operators, since a tape is made of nodes

        def backward(self, grad: Any = None) -> None: ...

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<Node{name} {self.op_name or 'leaf'} {self.shape} {self.dtype}>"


def row_node(value: Tensor, rule: RowVJP, kept: tuple[Any, ...], name: str, site: Site | None, scope: Any) -> Node:
    """Return the node of an elementwise op; `kept` has its operands, their values, and the result."""
    node = _new(Node)  # half the price of the fourteen arguments above
    node.value = value
    node.rule = rule
    node.kept = kept
    node.grad = None
    node.requires_grad = True
    node.op_name = name
    node.creation_trace = None
    node.name = None
    node.attrs = NO_ATTRS
    node.site = site
    node.scope = scope
    node.index = next(_created)
    node.pass_id = 0
    node.level = 0
    return node
