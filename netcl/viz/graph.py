"""From nodes to a frozen GraphView: the only place where pictures read the graph, and they never change it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from netcl.autograd import Node, Tape, build_topo
from netcl.autograd.pullback import same
from netcl.errors import ArgumentError
from netcl.expr import Num, Var, to_text
from netcl.tensor import Tensor
from netcl.viz.backward import Backward, Hidden, addition, operands_of
from netcl.viz.edges import EdgeWriter
from netcl.viz.fold import Group
from netcl.viz.fused import rule_of
from netcl.viz.names import scopes
from netcl.viz.naming import Naming
from netcl.viz.report import thousands
from netcl.viz.select import MOST_CARDS, Selection, folded, nearby, select
from netcl.viz.summary import summarise
from netcl.viz.tangents import Tangents
from netcl.viz.text import clean, clip
from netcl.viz.values import ArrayView, view
from netcl.viz.views import Card, Edge, GraphView, Slot

_FAR = 3  # rows from its first consumer at which a leaf is drawn once more


def read(
    source: Any, names: Mapping[Any, str] | None = None, frame: FrameType | None = None, most: int = MOST_CARDS, *,
    fold: Any = None, around: Any = None, distance: int = 2, tangents: Mapping[Any, Any] | None = None,
) -> GraphView:  # fmt: skip
    """Read the graph below a node, or that of a tape.

    A graph of more than `most` nodes is cut to its ends. With `fold` "auto" parts of the model and what repeats are
    folded before that; True folds them in a small graph too, names of scopes fold those, False nothing. `around`, a
    node or its name, reads what is within `distance` edges of it. `tangents` of leaves give forward mode's picture.

    Raises:  ArgumentError if `source` is neither, or the tape has recorded nothing, or no node is called so
    """
    roots = roots_of(source)
    nodes = sorted({node for root in roots for node in build_topo(root)}, key=lambda node: node.index)
    main = max(roots, key=lambda node: (node.pass_id, node.index))
    if main is not nodes[-1]:  # of several results the one that ran backward comes last
        nodes = [node for node in nodes if node is not main] + [main]
    naming = Naming(nodes, main, names, scopes(frame)) if around is not None else None
    centre = main if around is None else find(around, nodes, naming)
    chosen = nearby(nodes, centre, distance) if around is not None else choose(nodes, main, most, fold)
    naming = naming or Naming(chosen.shown, main, names, scopes(frame))
    moving = Tangents(nodes, tangents) if tangents is not None else None
    return _Reader(main, centre, chosen, naming, source if isinstance(source, Tape) else None, moving).read()


def choose(nodes: Sequence[Node], main: Node, most: int, fold: Any) -> Selection:
    """What of the nodes, in order of creation and with the loss last, is shown by itself, and what folded."""
    if fold is False:
        return select(nodes, len(nodes))
    if fold is None or (fold == "auto" and len(nodes) <= most):
        return select(nodes, most)
    wanted = True if fold == "auto" else [fold] if isinstance(fold, str) else fold
    return folded(nodes, most, wanted, main) or select(nodes, most)


def find(wanted: Any, nodes: Sequence[Node], naming: Naming | None) -> Node:
    """The node that is meant: itself, or what has this name, or the only one whose title holds it.

    Raises:  ArgumentError if there is none, or several
    """
    if isinstance(wanted, Node):
        if wanted not in nodes:
            raise ArgumentError(f"{wanted!r} is not in this graph")
        return wanted
    assert naming is not None
    found = [node for node in nodes if naming.names[node] == wanted]
    found = found or [node for node in nodes if str(wanted) in naming.names[node]]
    found = found or [node for node in nodes if str(wanted) in naming.titles[node]]
    if len(found) != 1:
        titles = ", ".join(clip(naming.titles[node], 30) for node in found[:6])
        raise ArgumentError(f"{len(found)} nodes are called {wanted!r}{f': {titles}' if found else ''}")
    return found[0]


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
        self, root: Node, centre: Node, chosen: Selection, naming: Naming, tape: Tape | None, moving: Tangents | None
    ) -> None:
        self.root, self.centre, self.chosen, self.tape, self.moving = root, centre, chosen, tape, moving
        self.shown = set(chosen.shown)
        self.placed = self.shown.union(*(group.nodes for group in chosen.groups))
        self.names, self.displays, self.titles = naming.names, naming.displays, naming.titles
        self.operand_exprs = naming.operands
        self.views: dict[int, tuple[Any, ArrayView]] = {}
        self.cards: list[Card] = []
        self.edges: list[Edge] = []
        self.keys: dict[Node, int] = {}

    def read(self) -> GraphView:
        hidden = Hidden(self.chosen)
        self.backward = Backward(self.root, self.chosen.shown, self.operand_exprs, self.displays, hidden)
        self.writer = EdgeWriter(self.backward, self.operand_exprs, self.displays)
        late: list[tuple[int, Group]] = []
        for unit in self._units():
            if isinstance(unit, Node):
                self._add_node(unit)
            elif unit.first:  # its edges come from leaves that have no card yet
                late.append((self._add_group(unit), unit))
            else:
                self._add_group_edges(self._add_group(unit), unit)
        for key, unit in late:
            self._add_group_edges(key, unit)
        whole = self.root in self.shown
        return GraphView(
            root=self.keys[self.root if whole else self.centre],
            name=self.names[self.root],
            cards=tuple(_with_badges(self.cards)),
            edges=tuple(self.edges),
            seed=self.backward.seed if whole and self.moving is None else "",
            ran=self.backward.ran,
            notes=tuple(self._notes()),
            show="both" if self.moving is None else "tangents",
        )

    def _units(self) -> list[Node | Group]:
        """Nodes and groups in the order of their cards: each after all that it is made from."""
        groups = [(-1 if group.first else group.nodes[-1].index, group) for group in self.chosen.groups]
        last = self.chosen.shown[-1] if self.root in self.shown else None  # the loss stays last
        at = max(node.index for node in (*self.chosen.shown, *self.chosen.hidden))
        placed: list[tuple[int, Node | Group]] = [
            (at + 1 if node is last else node.index, node) for node in self.chosen.shown
        ]
        return [unit for _, unit in sorted([*placed, *groups], key=lambda pair: pair[0])]

    # Cards

    def _new(self, card: Card) -> int:
        self.cards.append(card)
        return card.key

    def _view(self, tensor: Tensor) -> ArrayView:
        found = self.views.get(id(tensor))
        if found is None:
            found = self.views[id(tensor)] = (tensor, summarise(tensor))
        return found[1]

    def _add_group(self, group: Group) -> int:
        key = self._new(Card(len(self.cards), "fold", group.title, group.title, lines=group.lines))
        self.keys.update(dict.fromkeys(group.nodes, key))
        return key

    def _add_group_edges(self, key: int, group: Group) -> None:
        """One edge for each card that feeds a group, with what comes back along all of them."""
        fed: dict[int, list[tuple[Node, int]]] = {}
        for node in group.nodes:
            for nth, parent in enumerate(node.parents):
                above = self.keys.get(parent, key)
                if above != key:
                    fed.setdefault(above, []).append((node, nth))
        for above, uses in fed.items():
            child, nth = uses[0]
            said = clip(clean(child.op_name or "op"), 24) if len(uses) == 1 else f"{len(uses)} uses"
            parent = child.parents[nth]
            total = self.backward.hidden.sum_of(uses) if parent in self.shown and self.moving is None else None
            back = view(total) if total is not None else None
            needs = parent.requires_grad and self.moving is None
            self.edges.append(Edge(len(self.edges), above, key, said, contribution=back, needs_grad=needs))

    def _add_node(self, node: Node) -> None:
        if node.grad_fn is None:
            self.keys[node] = self._new(self._card(node, True))
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
                card = uses.get(nth, self.keys.get(node.parents[nth]))
                if card is not None:  # else it is further away than what is shown
                    edge = self.writer.write(at, card, key, node, position, nth)
                    self.edges.append(edge if self.moving is None else self._moved(edge, node, position, nth))

    def _moved(self, edge: Edge, child: Node, position: int, nth: int) -> Edge:
        """The edge as forward mode sees it: the tangent that goes along it, and no gradient."""
        assert self.moving is not None
        part = self.moving.parts.get(child, [None] * len(child.parents))[nth]
        if part is None:
            return replace(edge, rule="", numbers="", after="", contribution=None, needs_grad=False)
        array = part.to_host()
        tangent = self.moving.of[child.parents[nth]]
        rule, numbers = self.writer.tangent(child, position, tangent, array)
        return Edge(edge.key, edge.parent, edge.child, edge.forward, rule, numbers, "", view(array), False)

    def _card(self, node: Node, leaf: bool) -> Card:
        value = self._view(node.value)
        kind = "root" if node is self.root else "leaf" if leaf else "op"
        slot = self.backward.slot(node, self.tape) if self.moving is None else self._tangent(node)
        by = clip(self.names[node], 20)
        named = isinstance(self.displays[node], Var) or by.endswith(")")
        caption = f"∂{clip(self.names[self.root], 16)}/∂{by if named else f'({by})'}"
        if self.moving is not None:
            caption = _dotted(by)
        uses = self.chosen.uses.get(node, [])
        many = f"{len(uses)} uses" if len(uses) > 2 else ""
        op = clip(clean(node.op_name or ""), 24) if not leaf else ""
        lines = ("has a new value since this graph was made",) if self._replaced(node) else ()
        rule = rule_of(node)
        if rule is not None:
            lines = (f"{len(rule.program)} ops in one kernel", *lines)
        key, name, title = len(self.cards), self.names[node], self.titles[node]
        return Card(
            key, kind, name, title, op, value.shape, value.dtype, value, slot, caption, many, lines
        )  # fmt: skip

    def _tangent(self, node: Node) -> Slot:
        assert self.moving is not None
        found = self.moving.of.get(node)
        if found is None:
            return Slot("elsewhere", note="stands still" if node.grad_fn is None else "does not move")
        parts = [part for part in self.moving.parts.get(node, ()) if part is not None]
        return Slot("tangent", summarise(found), total=addition([part.to_host() for part in parts]))

    def _replaced(self, node: Node) -> bool:
        """Whether a leaf holds another value than the ops that used it, as after a step of an optimiser."""
        for child, nth in self.chosen.uses.get(node, []):
            saved = getattr(child.grad_fn, "saved", ()) if child in self.shown else ()
            position = self.backward.positions(child)[nth] if saved else 0
            if position < len(saved) and not same(saved[position], node.value):
                return True
        return False

    def _add_uses(self, child: Node) -> dict[int, int]:
        """One more card for each leaf whose own card would stand far away."""
        depth, added = self.chosen.depth, {}
        for nth, leaf in enumerate(child.parents):
            uses = self.chosen.uses.get(leaf, [])
            first = max((depth[each] for each, _ in uses if each in self.placed), default=0)
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
        if self.chosen.away:
            yield f"{thousands(self.chosen.away)} nodes further away are not shown"
        yield from self.moving.notes if self.moving is not None else self.backward.notes


def _dotted(name: str) -> str:
    """How the tangent of a node is written: ẋ, or in words where a dot would be lost."""
    return unicodedata.normalize("NFC", f"{name}\u0307") if len(name) == 1 and name.isalpha() else f"tangent of {name}"


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
