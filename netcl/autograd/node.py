"""Node: the record of one value in a graph."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netcl.autograd.pullback import NO_ATTRS, RowPullback, released
from netcl.autograd.scope import Scope
from netcl.autograd.site import Site
from netcl.autograd.wrapped import Wrapped
from netcl.errors import DTypeError, GraphError
from netcl.layout import Layout
from netcl.memory import Block
from netcl.ops.row_vjp import RowVJP
from netcl.tensor import Tensor

GradFn = Callable[[Tensor], list[Tensor | None]]

created = itertools.count(1)
"""Where the `index` of each node comes from."""

storing = threading.RLock()
"""Held while gradients are stored: two threads may add to one parameter's, or one reads what the other stores."""


def next_index() -> int:
    """Return a number above those of all nodes so far, and below those of all to come."""
    return next(created)


@dataclass(slots=True, eq=False, repr=False)
class More:
    """Fields that most nodes do without: those of an elementwise op share them with others, a plain leaf has none."""

    parents: list[Node] = field(default_factory=list)
    operands: tuple[Any, ...] = ()
    op_name: str | None = None
    attrs: dict[str, Any] | None = None
    creation_trace: list[str] | None = None
    name: str | None = None


def _get_value(node: Node) -> Any:
    value = node.made
    if value is None:
        value = node.made = Tensor(node.layout, node.buffer, node.home)
        if value.buffer is not node.buffer or value.layout is not node.layout:  # given another value by another thread
            node.made = None
            return _get_value(node)
    return value


def _set_value(node: Node, value: Any) -> None:
    if not isinstance(value, Tensor) and not node.level:
        graph = isinstance(value, Node)
        how = ".detach() it, or compute it under ag.no_grad()" if graph else "ag.tensor makes one of it"
        raise DTypeError(f"the value of a node is a Tensor, not {type(value).__name__}: {how}")
    if type(node.rule) is RowVJP:
        own(node)  # a row's kernels would read the result that the op computed, as it lay
    _lay(node, value)


def _lay(node: Node, value: Any) -> None:
    _get_grad(node)  # which may lie as the value did
    if type(value) is Tensor:
        node.layout, node.buffer, node.home = value.layout, value.buffer, value.device
    else:  # of another transform
        node.layout = node.buffer = node.home = None
    node.made = value  # at last: see _get_value


def _bare(node: Node, g: Any) -> bool:
    return type(g) is type(node.buffer) and g is not None


def whole(node: Node, g: Any) -> Any:
    """Return a cotangent as a tensor: one that is a block alone, of the kind that the value's is, lies as the value."""
    return Tensor(node.layout, g, node.home) if _bare(node, g) else g


def _get_grad(node: Node) -> Any:
    g = node.cotangent
    if _bare(node, g):
        with storing:
            g = node.cotangent = whole(node, node.cotangent)
    return g


def _set_grad(node: Node, grad: Any) -> None:
    if _bare(node, grad):
        raise DTypeError(f"the gradient of a node is a Tensor, not {type(grad).__name__}")
    with storing:
        node.cotangent = grad


def _more(node: Node) -> More:
    more = node.more
    if more is None:
        more = node.more = More()
    return more


def own(node: Node) -> More:
    """Let a node have by itself what it shares with others, so that it can be changed."""
    more = _more(node)
    if type(node.rule) is RowVJP:
        more.parents, more.operands, more.op_name, more.attrs = node.parents, node.operands, node.op_name, node.attrs
        node.rule = node.grad_fn
    return more


def _get_grad_fn(node: Node) -> GradFn | None:
    rule = node.rule
    return RowPullback(rule, (node.x, node.y, node.buffer), node.home) if type(rule) is RowVJP else rule


def _set_grad_fn(node: Node, grad_fn: GradFn | None) -> None:
    own(node)
    node.rule = grad_fn


def parents_of(node: Node) -> Sequence[Node]:
    """Return a node's parents, not to be changed."""
    rule = node.rule
    if type(rule) is RowVJP:
        choose = rule.parents
        return choose((node.a, node.b))
    more = node.more
    return () if more is None else more.parents


def _get_parents(node: Node) -> list[Node]:
    found = parents_of(node)
    return found if type(found) is list else list(found)


def _set_parents(node: Node, parents: list[Node]) -> None:
    for parent in parents:
        if parent.index >= node.index:  # a pass goes from the newest to the oldest, and would come to it too early
            raise GraphError(f"a node is made after its parents, and {parent!r} is newer than {node!r}")
    own(node).parents = parents


def _get_operands(node: Node) -> tuple[Any, ...]:
    if type(node.rule) is RowVJP:
        return (node.a, node.b)[: len(node.rule.row.args)]
    return () if node.more is None else node.more.operands


def _get_op_name(node: Node) -> str | None:
    if type(node.rule) is RowVJP:
        return node.rule.row.name
    return None if node.more is None else node.more.op_name


def _get_attrs(node: Node) -> dict[str, Any] | None:
    if type(node.rule) is RowVJP:
        return NO_ATTRS
    return None if node.more is None else node.more.attrs


def _own(name: str, get: Callable[[Node], Any]) -> Any:
    return property(get, lambda node, x: setattr(own(node), name, x))


def _rare(name: str) -> Any:
    def get(node: Node) -> Any:
        return None if node.more is None else getattr(node.more, name)

    return property(get, lambda node, x: setattr(_more(node), name, x))


_value: Any = property(_get_value, _set_value)
_grad: Any = property(_get_grad, _set_grad)
_grad_fn: Any = property(_get_grad_fn, _set_grad_fn)
_parents: Any = property(_get_parents, _set_parents)
_operands = _own("operands", _get_operands)
_op_name = _own("op_name", _get_op_name)
_attrs = _own("attrs", _get_attrs)
_creation_trace = _rare("creation_trace")
_name = _rare("name")


@dataclass(init=False, eq=False, repr=False)
class Node(Wrapped):
    """The record of one value in a graph.

    `value` is the primal, `grad` its cotangent after a backward pass, `parents` the nodes that it was made from, and
    `grad_fn(g)` returns one contribution per parent. `operands` has all the arguments, constants included; `attrs` the
    static ones. `site` is the line of the user's code, `index` the order of creation, `pass_id` the number of the
    backward call that last wrote `grad`. Nodes compare and hash by identity. A node gets other parents by assignment,
    older than itself: the list may be one made for whoever asks, so that what is done to it is nothing to the node.
    """

    # Each object of a node's own is one more for the collector to visit, in every pass that it makes over a graph. So
    # the node of an elementwise op has only a buffer, with its `layout` and device (`home`), and mostly its gradient is
    # only a buffer as well, in `cotangent`. Its operands are `a` and `b` (None if it has one alone), their buffers or
    # numbers `x` and `y`, and its `rule` is the RowVJP that all nodes of the same op and layouts share. The fields that
    # are properties are then worked out when they are asked for; `made` is the value, once it was. For every other node
    # `rule` is the grad_fn, and `more` has the parents, the operands, and what else such a node shares with others. A
    # slot less is also less to visit.
    __slots__ = (
        "a", "b", "buffer", "cotangent", "home", "index", "layout", "level", "made", "more", "pass_id",
        "requires_grad", "rule", "scope", "site", "x", "y",
    )  # fmt: skip

    value: Tensor = _value
    grad_fn: GradFn | None = _grad_fn
    parents: list[Node] = _parents
    grad: Tensor | None = _grad
    requires_grad: bool
    op_name: str | None = _op_name
    creation_trace: list[str] | None = _creation_trace
    name: str | None = _name
    operands: tuple[Any, ...] = _operands
    attrs: dict[str, Any] | None = _attrs
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
        self.buffer: Any = None
        self.cotangent: Any = None
        _lay(self, value)
        if grad is not None:
            _set_grad(self, grad)
        self.rule: Any = grad_fn
        self.more: More | None = None
        if parents or operands or op_name or attrs is not None or creation_trace or name:
            self.more = More(parents or [], operands, op_name, attrs, creation_trace, name)
        self.requires_grad = requires_grad
        self.site = site
        self.scope = scope
        self.index = next(created) if index is None else index
        if parents and index is not None:
            _set_parents(self, parents)
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

    def move(self, layout: Layout, buffer: Block) -> None:
        """Give a leaf another value, which lies so in a block of its own device: what optimisers do to many."""
        node: Any = self
        if layout is not node.layout:
            _get_grad(node)  # which may lie as the value did
        node.layout, node.buffer, node.made = layout, buffer, None  # in this order: see _get_value

    def zero_grad(self) -> None:
        """Forget the gradient: the next backward starts from nothing."""
        self.cotangent = None
        self.pass_id = 0

    if TYPE_CHECKING:  # attached with the operators, since a tape is made of nodes

        def backward(self, grad: Any = None) -> None: ...

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<Node{name} {self.op_name or 'leaf'} {self.shape} {self.dtype}>"
