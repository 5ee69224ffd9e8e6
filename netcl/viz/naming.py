"""What the nodes of a picture are called, how they stand in formulas, and what their cards are titled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.expr import Expr, Num, Var, to_text
from netcl.tensor import Tensor
from netcl.viz.backward import operands_of
from netcl.viz.fused import formula
from netcl.viz.names import find_names
from netcl.viz.symbolic import size
from netcl.viz.text import clean, clip
from netcl.viz.wording import expression, literal

_LONGEST_NAME = 60
_LONGEST_INLINE = 16
_INLINE_PARTS = 7

Spaces = Iterable[Mapping[str, Any]]


class Naming:
    """Names of nodes and constants: given ones, their own, those of the caller's variables, formulas, numbers.

    `displays` are nodes as they stand inside other expressions, `titles` what their cards say. A `root` without a name
    is called `loss`.
    """

    def __init__(
        self, nodes: Sequence[Node], root: Node | None, given: Mapping[Any, str] | None = None, spaces: Spaces = ()
    ) -> None:
        self.root = root
        self.displays: dict[Any, Expr] = {}
        self.titles: dict[Node, str] = {}
        self._numbered: Counter[str] = Counter()
        self.names = _found(nodes, given or {}, iter(spaces))
        self.given = frozenset(self.names)  # those that need none made up
        self._taken = set(self.names.values())
        for node in nodes:
            self._name(node)

    def _fresh(self, stem: str) -> str:
        while True:
            self._numbered[stem] += 1
            name = f"{stem}{self._numbered[stem]}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    def _name(self, node: Node) -> None:
        if node.grad_fn is None or node.released:
            name = self.names.get(node) or self._fresh("leaf" if node.grad_fn is None else "t")
            self.names[node] = name
            self.displays[node], self.titles[node] = Var(name), name
            return
        operands = self.operands(node)
        e = formula(node, operands) or expression(node.op_name or "op", operands, node.attrs)
        text = to_text(e)
        if node is self.root and node not in self.names:
            self.names[node] = "loss" if "loss" not in self._taken else self._fresh("loss")
            self._taken.add(self.names[node])
        if node not in self.names and len(text) <= _LONGEST_INLINE and size(e) <= _INLINE_PARTS:
            self.names[node] = text
            self.displays[node], self.titles[node] = e, text
            return
        name = self.names.get(node) or self._fresh("t")
        self.names[node] = name
        self.displays[node] = Var(name)
        self.titles[node] = f"{name} = {clip(text, 80)}"

    def operands(self, node: Node) -> list[Expr]:
        """The operands of a node as they stand in a formula."""
        return [self._operand(x) for x in operands_of(node)]

    def _operand(self, x: Any) -> Expr:
        if isinstance(x, Node) and x in self.displays:
            return self.displays[x]
        if isinstance(x, (Node, Tensor)):
            if x in self.names:
                return Var(self.names[x])
            if isinstance(x, Node) and x.requires_grad:
                return Var("…")  # folded away
            value = x.value if isinstance(x, Node) else x
            if value.size == 1:
                return Num(value.to_host().item())
            self.names[x] = self._fresh("const")
            return Var(self.names[x])
        if isinstance(x, (bool, int, float, np.generic)):
            return Num(x.item() if isinstance(x, np.generic) else x)
        return Var(literal(x))


def _found(nodes: Sequence[Node], given: Mapping[Any, str], spaces: Iterator[Mapping[str, Any]]) -> dict[Any, str]:
    """The names that nodes and the constants among their operands have already."""
    constants = [x for node in nodes for x in node.operands if isinstance(x, (Node, Tensor))]
    wanted = {id(x): x for x in [*nodes, *constants]}
    variables = find_names(wanted, spaces)
    wanted_nodes = set(nodes)
    result: dict[Any, str] = {}
    for x in wanted.values():
        name = given.get(x) or (x.name if isinstance(x, Node) else None) or variables.get(id(x))
        if name:
            result[x] = clip(clean(str(name)), _LONGEST_NAME) or "?"
    for node in nodes:  # after create_graph a gradient is a node, and its graph goes on from that of the values
        if isinstance(node.grad, Node) and node in result and node.grad in wanted_nodes:
            result.setdefault(node.grad, f"{result[node]}.grad")
    return result
