"""From nodes to a frozen GraphView: the only place where pictures read the graph, and they never change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

from netcl.autograd import Node, Tape, build_topo
from netcl.errors import ArgumentError
from netcl.expr import Num, Var, to_text
from netcl.tensor import Tensor
from netcl.viz.backward import Backward, operands_of
from netcl.viz.edges import EdgeWriter
from netcl.viz.names import scopes
from netcl.viz.naming import Naming
from netcl.viz.select import MOST_CARDS, Selection, select
from netcl.viz.summary import summarise
from netcl.viz.text import clean, clip
from netcl.viz.values import ArrayView
from netcl.viz.views import Card, Edge, GraphView, Slot

_FAR = 3  # rows from its first consumer at which a leaf is drawn once more


def read(
    source: Any, names: Mapping[Any, str] | None = None, frame: FrameType | None = None, most: int = MOST_CARDS
) -> GraphView:
    """Read the graph below a node, or that of a tape.

    Raises:  ArgumentError if `source` is neither, or the tape has recorded nothing
    """
    roots = roots_of(source)
    nodes = sorted({node for root in roots for node in build_topo(root)}, key=lambda node: node.index)
    main = max(roots, key=lambda node: (node.pass_id, node.index))
    if main is not nodes[-1]:  # of several results the one that ran backward comes last
        nodes = [node for node in nodes if node is not main] + [main]
    chosen = select(nodes, most)
    return _Reader(main, chosen, names or {}, frame, source if isinstance(source, Tape) else None).read()


def roots_of(source: Any) -> list[Node]:
    """The nodes at which a graph ends: the one given, or those of a tape that nothing on it consumes.

    Raises:  ArgumentError if `source` has no graph
    """
    if isinstance(source, Node):
        return [source]
    if isinstance(source, Tape):
        consumed = {parent for node in source.nodes for parent in node.parents}
        roots = [node for node in source.nodes if node not in consumed]
        if not roots:
            raise ArgumentError(
                "this tape holds no nodes: nothing that requires grad was computed in it, or it was released"
            )
        return roots
    if isinstance(source, Tensor):
        raise ArgumentError(
            f"a Tensor of shape {source.shape} has no graph to draw: no input of it was made with requires_grad=True, "
            "or it was computed under no_grad or detached"
        )
    raise ArgumentError(f"what is drawn or measured is a Node or a Tape, not {type(source).__name__}")


class _Reader:
    """One reading: names, then the backward pass as far as it can be recomputed, then cards and edges."""

    def __init__(
        self, root: Node, chosen: Selection, names: Mapping[Any, str], frame: FrameType | None, tape: Tape | None
    ) -> None:
        self.root, self.chosen, self.tape = root, chosen, tape
        self.shown = set(chosen.shown)
        naming = Naming(chosen.shown, root, names, scopes(frame))
        self.names, self.displays, self.titles = naming.names, naming.displays, naming.titles
        self.operand_exprs = naming.operands
        self.views: dict[int, tuple[Any, ArrayView]] = {}
        self.cards: list[Card] = []
        self.edges: list[Edge] = []
        self.keys: dict[Node, int] = {}

    def read(self) -> GraphView:
        self.backward = Backward(self.root, self.chosen.shown, self.operand_exprs, self.displays)
        self.writer = EdgeWriter(self.backward, self.operand_exprs, self.displays)
        fold = self._fold() if self.chosen.hidden else None
        for node in self.chosen.shown:
            self._add_node(node, fold)
        cards = tuple(_with_badges(self.cards))
        root_name = self.names[self.root]
        return GraphView(
            root=self.keys[self.root],
            name=root_name,
            cards=cards,
            edges=tuple(self.edges),
            seed=self.backward.seed,
            ran=self.backward.ran,
            notes=tuple(self._notes()),
        )

    # Cards

    def _new(self, card: Card) -> int:
        self.cards.append(card)
        return card.key

    def _view(self, tensor: Tensor) -> ArrayView:
        found = self.views.get(id(tensor))
        if found is None:
            found = self.views[id(tensor)] = (tensor, summarise(tensor))
        return found[1]

    def _fold(self) -> int:
        count = len(self.chosen.hidden)
        return self._new(Card(0, "fold", "…", f"… {count:,} more nodes".replace(",", " "), lines=self.chosen.summary))

    def _add_node(self, node: Node, fold: int | None) -> None:
        if node.grad_fn is None:
            key = self.keys[node] = self._new(self._card(node, True))
            hidden = self._hidden_uses(node)
            if fold is not None and hidden:
                said = f"{hidden} use{'s' * (hidden > 1)}"
                self.edges.append(Edge(len(self.edges), key, fold, forward=said, needs_grad=node.requires_grad))
            return
        constants = self._add_constants(node)
        uses = self._add_uses(node)
        key = self.keys[node] = self._new(self._card(node, False))
        parents = {position: nth for nth, position in enumerate(self.backward.positions(node))}
        for position in range(max(len(operands_of(node)), len(parents))):
            at = len(self.edges)
            if position in constants:
                self.edges.append(self.writer.constant(at, constants[position], key, node, position))
            elif position in parents:
                nth = parents[position]
                card = uses.get(nth, self.keys.get(node.parents[nth], fold))
                assert card is not None
                self.edges.append(self.writer.write(at, card, key, node, position, nth))

    def _card(self, node: Node, leaf: bool) -> Card:
        value = self._view(node.value)
        kind = "root" if node is self.root else "leaf" if leaf else "op"
        slot = self.backward.slot(node, self._hidden_uses(node), self.tape)
        by = clip(self.names[node], 20)
        named = isinstance(self.displays[node], Var) or by.endswith(")")
        caption = f"∂{clip(self.names[self.root], 16)}/∂{by if named else f'({by})'}"
        uses = self.chosen.uses.get(node, [])
        many = f"{len(uses)} uses" if len(uses) > 2 else ""
        op = clip(clean(node.op_name or ""), 24) if not leaf else ""
        lines = ("has a new value since this graph was made",) if self._replaced(node) else ()
        key, name, title = len(self.cards), self.names[node], self.titles[node]
        return Card(
            key, kind, name, title, op, value.shape, value.dtype, value, slot, caption, many, lines
        )  # fmt: skip

    def _replaced(self, node: Node) -> bool:
        """Whether a leaf holds another value than the ops that used it, as after a step of an optimiser."""
        for child, nth in self.chosen.uses.get(node, []):
            saved = getattr(child.grad_fn, "saved", ()) if child in self.shown else ()
            position = self.backward.positions(child)[nth] if saved else 0
            if position < len(saved) and saved[position] is not node.value:
                return True
        return False

    def _hidden_uses(self, node: Node) -> int:
        return sum(child not in self.shown for child, _ in self.chosen.uses.get(node, []))

    def _add_uses(self, child: Node) -> dict[int, int]:
        """One more card for each leaf whose own card would stand far away."""
        depth, added = self.chosen.depth, {}
        for nth, leaf in enumerate(child.parents):
            uses = self.chosen.uses.get(leaf, [])
            first = max((depth[each] for each, _ in uses), default=0)
            if leaf not in self.shown or first - depth[child] <= _FAR:
                continue
            number_of_use = uses.index((child, nth)) + 1
            name = self.names[leaf]
            card = Card(len(self.cards), "use", name, name, use=f"use {number_of_use} of {len(uses)}")
            added[nth] = self._new(card)
        return added

    def _add_constants(self, node: Node) -> dict[int, int]:
        """Small cards for the tensors that take part without needing a gradient."""
        exprs = self.operand_exprs(node)
        added: dict[int, int] = {}
        for position, x in enumerate(node.operands):
            tensor = x.value if isinstance(x, Node) and not x.requires_grad else x
            if not isinstance(tensor, Tensor) or isinstance(exprs[position], Num):
                continue
            value = self._view(tensor)
            name = to_text(exprs[position])
            slot = Slot("not needed")
            card = Card(len(self.cards), "constant", name, name, "", value.shape, value.dtype, value, slot, "gradient")
            added[position] = self._new(card)
        return added

    def _notes(self) -> Iterable[str]:
        if self.root.released:
            yield "the graph was released (tape.release()): what led here is gone"
        yield from self.backward.notes


def _with_badges(cards: Iterable[Card]) -> list[Card]:
    """Mark NaN and Inf: the first in the forward pass and the first in the backward pass apart from the others."""
    cards = list(cards)
    badges: dict[int, list[str]] = {card.key: [] for card in cards}
    first = "first "
    for card in cards:
        if card.value is not None and card.value.badge:
            badges[card.key].append(f"{first}forward: {card.value.badge}" if first else f"value: {card.value.badge}")
            first = ""
    first = "first "
    for card in reversed(cards):
        array = card.slot.array if card.slot is not None else None
        if array is not None and array.badge:
            badges[card.key].append(f"{first}backward: {array.badge}" if first else f"gradient: {array.badge}")
            first = ""
    return [replace(card, badges=tuple(badges[card.key])) if badges[card.key] else card for card in cards]
