"""A graph as a table in reverse order: what a terminal shows and a screen reader reads."""

from __future__ import annotations

from netcl.viz.report import grid
from netcl.viz.text import clip
from netcl.viz.values import shape_text
from netcl.viz.views import SLOT_TEXT, Card, Edge, GraphView

_COLUMNS = (28, 14, 12, 34, 34, 60)


def table(view: GraphView) -> str:
    """The table: one row a node, from the loss back to the leaves, and one more for each further contribution."""
    head, titles, rows, notes = parts(view)
    return "\n".join([*head, "", *grid(titles, rows, _COLUMNS), *notes])


def parts(view: GraphView) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """The table's head, titles, rows and notes."""
    root = view.card(view.root)
    shown = f" = {root.value.line(32)}" if root.value is not None else ""
    head = [
        f"{'backward pass' if view.ran else 'forward pass'} of {view.name}{shown}, from the loss back to the leaves"
    ]
    head += [] if view.ran else ["backward not run"]
    titles = ["node", "op", "shape", "value", f"∂{clip(view.name, 16)}/∂node", "arrives from"]
    rows: list[list[str]] = []
    for card in sorted(view.cards, key=lambda card: (card.key != view.root, -card.key)):
        rows += _rows(view, card)
    return head, titles, rows, [f"note: {note}" for note in view.notes]


def _rows(view: GraphView, card: Card) -> list[list[str]]:
    if card.kind == "fold":
        return [[card.title, "", "", "; ".join(card.lines), "", ""]]
    if card.kind == "use":
        arrives = [_arrival(view, edge) for edge in view.edges_into(card.key)]
        return [[f"{card.name} ({card.use})", "", "", "", "", "; ".join(arrives)]]
    value = card.value.line(30) if card.value is not None else ""
    arrives = ["seed " + view.seed] if card.key == view.root and view.ran else []
    arrives += [_arrival(view, edge) for edge in view.edges_into(card.key)]
    first, *more = arrives or [""]
    kind = card.op or card.kind
    rows = [[card.title, kind, shape_text(card.shape), value, _gradient(card), first]]
    rows += [["", "", "", "", "", each] for each in more]
    slot = card.slot
    if slot is not None:
        rows += [["", "", "", "", "", text] for text in (slot.total, slot.note) if text]
    rows += [["", "", "", "", "", badge] for badge in card.badges]
    return rows


def _gradient(card: Card) -> str:
    slot = card.slot
    if slot is None:
        return ""
    numbers = slot.array.line(30) if slot.array is not None else ""
    return " ".join(
        part for part in (numbers, f"({SLOT_TEXT[slot.state]})" if numbers else SLOT_TEXT[slot.state]) if part != "()"
    )


def _arrival(view: GraphView, edge: Edge) -> str:
    if not edge.needs_grad:
        return ""
    child = view.card(edge.child)
    if child.kind == "fold":
        return f"{edge.forward} in {child.title}"
    said = edge.numbers or " ".join(part for part in (edge.rule, f"then {edge.after}" if edge.after else "") if part)
    if edge.contribution is not None and not edge.numbers:
        said = f"{said} → {edge.contribution.line(30)}"
    return f"{clip(child.name, 20)}: {said}"
