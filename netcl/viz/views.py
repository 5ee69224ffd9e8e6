"""What a picture is drawn from: frozen records of texts and numbers, which hold no tensor and change no graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from netcl.viz.values import ArrayView

Show = Literal["both", "forward", "backward", "tangents"]
CardKind = Literal["leaf", "constant", "op", "root", "use", "fold"]
SlotState = Literal[
    "value",
    "zero",
    "not run",
    "not needed",
    "stale",
    "dropped",
    "cleared",
    "released",
    "unreached",
    "elsewhere",
    "not yet",
    "tangent",
]

# What a slot says in place of numbers, or above them.
SLOT_TEXT: dict[str, str] = {
    "value": "",
    "zero": "exactly zero",
    "not run": "backward not run",
    "not needed": "no gradient needed",
    "stale": "stale: another backward since",
    "dropped": "not kept (retain_grads=False)",
    "cleared": "none: cleared since",
    "released": "graph released",
    "unreached": "none reached it",
    "elsewhere": "",
    "not yet": "not yet",  # while a pass is gone through step by step
    "tangent": "",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """The gradient slot of a card: its state, its numbers, a formula (`6(x + 1)`), a sum (`12 + 2 = 14`), a note."""

    state: SlotState
    array: ArrayView | None = None
    formula: str = ""
    total: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A node, a constant operand, one more use of a leaf, or many nodes folded into one."""

    key: int
    kind: CardKind
    name: str
    title: str
    op: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    value: ArrayView | None = None
    slot: Slot | None = None
    caption: str = ""  # ∂loss/∂y
    use: str = ""  # use 2 of 5
    lines: tuple[str, ...] = ()  # what a folded card holds
    badges: tuple[str, ...] = ()  # first NaN forward …
    note: str = ""  # under the value


@dataclass(frozen=True, slots=True)
class Edge:
    """One operand of one op: forward the value, backward the contribution, and the map that made it."""

    key: int
    parent: int
    child: int
    forward: str = ""  # × 3
    rule: str = ""  # ⊙ 2(x + 1); empty where no gradient flows
    numbers: str = ""  # upstream 4 × (b = 3) → 12
    after: str = ""  # sum over axis 0
    contribution: ArrayView | None = None
    needs_grad: bool = True


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph as a picture sees it; cards and edges are in the order in which the nodes were made."""

    root: int
    name: str
    cards: tuple[Card, ...]
    edges: tuple[Edge, ...]
    seed: str = ""
    ran: bool = False
    notes: tuple[str, ...] = ()
    show: Show = "both"  # which lanes; tangents are those of forward mode

    def card(self, key: int) -> Card:
        return next(card for card in self.cards if card.key == key)

    def edges_into(self, key: int) -> tuple[Edge, ...]:
        """The edges that bring gradient to a card, from its consumers."""
        return tuple(edge for edge in self.edges if edge.parent == key)
