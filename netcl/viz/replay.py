"""The backward pass run once more on a copy of the graph's records, so that it can be shown and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from types import FrameType
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl.autograd import Node, Tape, build_topo, no_grad
from netcl.errors import ArgumentError
from netcl.ops import OPS
from netcl.tensor import Tensor
from netcl.viz.backward import gradient, operands_of
from netcl.viz.graph import choose, read
from netcl.viz.names import find_names, scopes
from netcl.viz.select import MOST_CARDS, Selection
from netcl.viz.steps import Passage, passage
from netcl.viz.views import Edge, GraphView

_FEWEST = 3  # ops that must be left to step through for parts of the model to be folded


@dataclass(frozen=True, slots=True)
class Link:
    """What stands behind an edge: the `nth` parent of `child`, its operand at `position`."""

    child: Node
    nth: int
    position: int


@dataclass(frozen=True)
class Replay:
    """A pass that was run to be looked at. Its nodes are copies that share their values with the user's.

    `nodes` are the copies by card, `links` by edge; `arrays` the contributions by edge, on the host.
    """

    view: GraphView
    passage: Passage
    root: Node
    nodes: Mapping[int, Node]
    links: Mapping[int, Link]
    arrays: Mapping[int, np.ndarray]
    notes: tuple[str, ...] = ()


def replay(
    source: Any, names: Mapping[Any, str] | None = None, frame: FrameType | None = None, most: int = MOST_CARDS
) -> Replay:
    """Run the backward pass below a node again, from the seed of its last pass or from ones.

    Raises:  ArgumentError if `source` is no node and no tape with one; GraphError if its graph was released
    """
    original = _root(source)
    copies = copied(original)
    root = copies[original]
    seed = gradient(original) if original.pass_id and original.grad is not None else None
    Tape().backward(root, seed)
    known = dict(names or {})
    found = find_names({id(node): node for node in copies}, scopes(frame))
    for node, copy in copies.items():
        name = known.get(node) or node.name or found.get(id(node))
        if name:
            known[copy] = name
    nodes = sorted(copies.values(), key=lambda node: (node is root, node.index))
    fold = "auto"
    if sum(node.grad_fn is not None for node in choose(nodes, root, most, fold).shown) < _FEWEST:
        fold = None
    view = read(root, known, frame, most, fold=fold)
    return _put_together(view, root, choose(nodes, root, most, fold), _notes(copies))


def _root(source: Any) -> Node:
    if isinstance(source, Tape):
        ran = [node for node in source.nodes if node.pass_id]
        if not source.nodes:
            raise ArgumentError("this tape holds no nodes: nothing that requires grad was computed in it")
        return max(ran or source.nodes, key=lambda node: (node.pass_id, node.index))
    if isinstance(source, Node):
        return source
    why = ": no input of it was made with requires_grad=True" if isinstance(source, Tensor) else ""
    raise ArgumentError(f"stepping through a backward pass takes a Node or a Tape, not a {type(source).__name__}{why}")


def copied(root: Node) -> dict[Node, Node]:
    """A copy of every node's record: the same values and rules, gradients of its own."""
    copies: dict[Node, Node] = {}
    for node in build_topo(root):
        copies[node] = Node(
            node.value,
            node.grad_fn,
            [copies[parent] for parent in node.parents],
            requires_grad=node.requires_grad,
            op_name=node.op_name,
            name=node.name,
            operands=tuple(copies.get(x, x) if isinstance(x, Node) else x for x in node.operands),
            attrs=node.attrs,
            site=node.site,
            scope=node.scope,
            index=node.index,
        )
    return copies


def _notes(copies: Mapping[Node, Node]) -> tuple[str, ...]:
    """Where the program's own gradients are not those of one pass alone."""
    notes = []
    for node, copy in copies.items():
        if node.grad_fn is not None or node.grad is None or copy.grad is None:
            continue
        held, here = gradient(node).to_host(), gradient(copy).to_host()
        if not np.allclose(held, here, rtol=1e-3, atol=1e-6, equal_nan=True):
            notes.append(node.name or "a leaf")
    if not notes:
        return ()
    return ("gradients add up over calls of backward: the program's own hold more than this one pass",)


def _put_together(view: GraphView, root: Node, chosen: Selection, notes: tuple[str, ...]) -> Replay:
    keys = [card.key for card in view.cards if card.kind in ("leaf", "op", "root")]
    shown = dict(zip(keys, chosen.shown, strict=True))
    key_of = {node: key for key, node in shown.items()}
    links: dict[int, Link] = {}
    owners: dict[int, int] = {}
    reads: dict[int, tuple[int, ...]] = {}
    arrays: dict[int, np.ndarray] = {}
    for key, node in shown.items():
        edges = [edge for edge in view.edges if edge.child == key]
        flowing = [edge for edge in edges if edge.needs_grad]
        for nth, (edge, position) in enumerate(zip(flowing, _positions(node), strict=False)):
            links[edge.key] = Link(node, nth, position)
            parent = node.parents[nth]
            if parent in key_of and key_of[parent] != edge.parent:
                owners[edge.parent] = key_of[parent]
            reads[edge.key] = tuple(_reads(node, position, _operand_cards(node, edges, flowing), key))
        arrays.update({edge.key: array for edge, array in _contributions(node, flowing)})
    places = {key: place for key, node in shown.items() if (place := _place(node))}
    return Replay(view, passage(view, arrays, owners, places, reads), root, shown, links, arrays, notes)


def _positions(node: Node) -> list[int]:
    found = [i for i, x in enumerate(operands_of(node)) if isinstance(x, Node) and x.requires_grad]
    return found if len(found) == len(node.parents) else list(range(len(node.parents)))


def contributions(node: Node, upstream: Tensor) -> list[Any]:
    """What a node sends back to each parent, as Tensors or None."""
    assert node.grad_fn is not None
    with no_grad():
        return [getattr(c, "value", c) for c in node.grad_fn(upstream)]


def _contributions(node: Node, edges: list[Edge]) -> Iterator[tuple[Edge, np.ndarray]]:
    if node.grad_fn is None or node.grad is None or not edges:
        return
    for edge, tensor in zip(edges, contributions(node, gradient(node)), strict=False):
        if tensor is not None:
            yield edge, tensor.to_host()


def _operand_cards(node: Node, edges: list[Edge], flowing: list[Edge]) -> dict[int, int]:
    """The card of each operand that has one; Python numbers have none."""
    found = {position: edge.parent for position, edge in zip(_positions(node), flowing, strict=False)}
    still = [edge for edge in edges if not edge.needs_grad]
    tensors = [i for i, x in enumerate(operands_of(node)) if i not in found and isinstance(x, (Node, Tensor))]
    if len(still) == len(tensors):
        found.update({position: edge.parent for position, edge in zip(tensors, still, strict=True)})
    return found


def _reads(node: Node, position: int, cards: Mapping[int, int], own: int) -> Iterator[int]:
    """The cards whose forward values the rule of an edge needs."""
    op = OPS.get(node.op_name or "")
    if op is None or position >= len(op.args):
        return
    arg = op.args[position]
    partial = op.partials.get(arg)
    if partial is not None:
        needed = set(ex.variables(ex.simplify(partial)))
    else:
        template = op.edges.get(arg, "")
        needed = {name for _, name, _, _ in Formatter().parse(template) if name}  # {a.shape} is no value
    for place, name in enumerate(op.args):
        if name in needed and place in cards:
            yield cards[place]
    if "out" in needed:
        yield own


def _place(node: Node) -> tuple[str, str] | None:
    if node.site is None or node.grad_fn is None:
        return None
    return node.site.describe(), node.site.source_line()
