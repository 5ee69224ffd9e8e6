"""The backward pass as steps, one edge each: what arrives, by which rule it goes back, and what it is added to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from netcl.viz import saying
from netcl.viz.values import ArrayView, view
from netcl.viz.views import Card, Edge, GraphView, Slot

EdgeState = Literal["done", "current", "waiting", "none"]
_MOST_TO_ADD = 1 << 20  # entries of an array that is worth adding up for a picture


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of the pass: from the card `child`, whose gradient is complete, to the card `target`.

    `was + contribution = now` is what happens to the target's gradient; where an array is unknown it is None. Step 0 is
    the seed: it has no edge, and both its cards are the root.
    """

    number: int
    edge: int | None
    child: int
    target: int
    rule: str
    upstream: ArrayView | None
    was: ArrayView | None
    contribution: ArrayView | None
    now: ArrayView | None
    more: int  # contributions that the target still waits for
    sentence: str
    place: str = ""  # cell 3, line 2
    source: str = ""  # the line that made the child
    reads: tuple[int, ...] = ()  # cards whose forward value the rule reads


@dataclass(frozen=True)
class Passage:
    """A whole pass: its graph, and its steps in the order in which the engine takes them."""

    view: GraphView
    steps: tuple[Step, ...]
    owners: Mapping[int, int]

    @property
    def last(self) -> int:
        """The number of the last step."""
        return self.steps[-1].number

    @cached_property
    def by_edge(self) -> dict[int, Step]:
        """Each edge's step."""
        return {step.edge: step for step in self.steps if step.edge is not None}

    def state(self, edge: int, at: int) -> EdgeState:
        """Whether an edge is done, current or waiting once step `at` has been taken; `none` if nothing flows there."""
        step = self.by_edge.get(edge)
        if step is None:
            return "none"
        return "current" if step.number == at else "done" if step.number < at else "waiting"

    def ledger(self, card: int, at: int) -> tuple[Step, ...]:
        """The steps that have reached a card by then."""
        return tuple(step for step in self.steps[: at + 1] if step.target == self.owners.get(card, card))

    def coming(self, card: int, at: int) -> tuple[Step, ...]:
        """The steps that will reach a card after that."""
        return tuple(step for step in self.steps[at + 1 :] if step.target == self.owners.get(card, card))

    def slot(self, card: Card, at: int) -> Slot | None:
        """What the gradient slot of a card says once step `at` has been taken."""
        if card.slot is None or card.slot.state == "not needed":
            return card.slot
        reached = self.ledger(card.key, at)
        if not reached:
            return Slot("not yet") if at < self.last or self.coming(card.key, at) else card.slot
        left = reached[-1].more
        if not left:
            return card.slot
        array = reached[-1].now
        state = "zero" if array is not None and array.zero else "value"
        return Slot(state, array, total="so far", note=f"{left} more to come")

    def waiting(self, at: int) -> Iterator[Step]:
        """The steps still to be taken."""
        yield from self.steps[at + 1 :]

    def ready(self, at: int) -> set[int]:
        """The edges that may come next in some right order: those of cards which have received everything."""
        return {
            step.edge for step in self.waiting(at) if step.edge is not None and not self.coming(step.child, at)
        }  # fmt: skip


def passage(
    graph: GraphView,
    arrays: Mapping[int, np.ndarray] | None = None,
    owners: Mapping[int, int] | None = None,
    places: Mapping[int, tuple[str, str]] | None = None,
    reads: Mapping[int, tuple[int, ...]] | None = None,
) -> Passage:
    """The steps of the pass that a graph has run.

    `arrays` are the contributions by edge; without them small ones are taken from the graph, and sums of large ones are
    left out. `owners` tells which card owns the slot that another card's gradient goes to, `places` where a card's node
    was made, `reads` which cards the rule of an edge reads.
    """
    if owners is None:
        leaves = {card.name: card.key for card in reversed(graph.cards) if card.kind == "leaf"}
        owners = {card.key: leaves[card.name] for card in graph.cards if card.kind == "use" and card.name in leaves}
    return Passage(graph, tuple(_Builder(graph, arrays, owners, places or {}, reads or {}).steps()), owners)


class _Builder:
    def __init__(
        self,
        graph: GraphView,
        arrays: Mapping[int, np.ndarray] | None,
        owners: Mapping[int, int],
        places: Mapping[int, tuple[str, str]],
        reads: Mapping[int, tuple[int, ...]],
    ) -> None:
        self.graph, self.arrays, self.owners = graph, arrays, owners
        self.places, self.reads = places, reads
        self.cards = {card.key: card for card in graph.cards}
        self.held: dict[int, np.ndarray | None] = {}
        self.shown: dict[int, ArrayView | None] = {}

    def steps(self) -> Iterator[Step]:
        root = self.cards[self.graph.root]
        seed = root.slot.array if root.slot is not None and self.graph.ran else None
        self.shown[root.key] = seed
        place, source = self.places.get(root.key, ("", ""))
        said = saying.seed(root, self.graph, seed)
        yield Step(0, None, root.key, root.key, "seed", None, None, seed, seed, 0, said, place, source)
        edges = [edge for edge in self._in_order() if self._flows(edge)]
        left: dict[int, int] = {}
        for edge in edges:
            left[self._target(edge)] = left.get(self._target(edge), 0) + 1
        for number, edge in enumerate(edges, 1):
            left[self._target(edge)] -= 1
            yield self._step(number, edge, left[self._target(edge)])

    def _in_order(self) -> list[Edge]:
        """Edges as the engine takes them: the newest consumer first, its operands in their order."""
        return sorted(self.graph.edges, key=lambda edge: (edge.child != self.graph.root, -edge.child, edge.key))

    def _flows(self, edge: Edge) -> bool:
        known = edge.contribution is not None or (self.arrays is not None and edge.key in self.arrays)
        return edge.needs_grad and self.graph.ran and known

    def _target(self, edge: Edge) -> int:
        return self.owners.get(edge.parent, edge.parent)

    def _array(self, edge: Edge) -> np.ndarray | None:
        if self.arrays is not None and edge.key in self.arrays:
            return self.arrays[edge.key]
        return edge.contribution.numbers if edge.contribution is not None else None

    def _step(self, number: int, edge: Edge, more: int) -> Step:
        target, child = self._target(edge), self.cards[edge.child]
        array = self._array(edge)
        contribution = edge.contribution or (view(array) if array is not None else None)
        first = target not in self.held
        was = None if first else self.shown[target]
        now = self._add(target, array, contribution, more, first)
        place, source = self.places.get(edge.child, ("", ""))
        step = Step(
            number, edge.key, edge.child, target, _rule(edge), self.shown.get(edge.child), was, contribution, now,
            more, "", place, source, self.reads.get(edge.key, ()),
        )  # fmt: skip
        times = sum(other.child == edge.child and self._target(other) == target for other in self.graph.edges)
        said = saying.edge(
            edge, step.upstream, was, contribution, now, first, child, self.cards[target], times
        )  # fmt: skip
        return replace(step, sentence=said)

    def _add(
        self, target: int, array: np.ndarray | None, came: ArrayView | None, more: int, first: bool
    ) -> ArrayView | None:
        """Add to what a card holds; the numbers themselves are kept only while they are needed."""
        before = self.held.get(target)
        if self.cards[target].kind == "fold":
            total, shown = None, None
        elif first:
            total, shown = array, came
        else:
            known = array is not None and before is not None and array.size <= _MOST_TO_ADD
            total = before + array if known else None  # type: ignore[operator]
            shown = view(total) if total is not None else None
        if shown is None and not more:
            slot = self.cards[target].slot
            shown = slot.array if slot is not None else None
        self.held[target], self.shown[target] = total, shown
        return shown


def _rule(edge: Edge) -> str:
    if edge.numbers:
        return edge.numbers.rpartition(" → ")[0]
    parts = (edge.rule or edge.forward, f"then {edge.after}" if edge.after else "")
    return " ".join(part for part in parts if part)
