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
    most = _COLUMNS[:4] if view.show == "forward" else (*_COLUMNS[:3], *_COLUMNS[4:])
    return "\n".join([*head, "", *grid(titles, rows, _COLUMNS if len(titles) == len(_COLUMNS) else most), *notes])


def parts(view: GraphView) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """The table's head, titles, rows and notes."""
    root = view.card(view.root)
    shown = f" = {root.value.line(32)}" if root.value is not None else ""
    what = {"both": "backward pass" if view.ran else "forward pass", "tangents": "forward mode: tangents"}
    head = [f"{what.get(view.show, f'{view.show} pass')} of {view.name}{shown}, from the loss back to the leaves"]
    head += [] if view.ran or view.show in ("forward", "tangents") else ["backward not run"]
    slope = "tangent" if view.show == "tangents" else f"∂{clip(view.name, 16)}/∂node"
    titles = ["node", "op", "shape", "value", slope, "brings" if view.show == "tangents" else "arrives from"]
    rows: list[list[str]] = []
    for card in sorted(view.cards, key=lambda card: (card.key != view.root, -card.key)):
        rows += _rows(view, card)
    if view.show == "forward":
        titles, rows = titles[:4], [row[:4] for row in rows if row[0]]
    elif view.show == "backward":
        titles, rows = [*titles[:3], *titles[4:]], [[*row[:3], *row[4:]] for row in rows]
    return head, titles, rows, [f"note: {note}" for note in view.notes]


def _rows(view: GraphView, card: Card) -> list[list[str]]:
    if card.kind == "fold":
        return [[card.title, "", "", "; ".join(card.lines), "", ""]]
    if card.kind == "use":
        arrives = [_arrival(view, edge) for edge in view.edges_into(card.key)]
        return [[f"{card.name} ({card.use})", "", "", "", "", "; ".join(arrives)]]
    value = card.value.line(30) if card.value is not None else ""
    arrives = ["seed " + view.seed] if card.key == view.root and view.seed else []
    if view.show == "tangents":
        arrives = [_brought(view, edge) for edge in view.edges if edge.child == card.key]
    else:
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


def _brought(view: GraphView, edge: Edge) -> str:
    """What forward mode brings along an edge."""
    if edge.contribution is None:
        return ""
    said = edge.numbers or f"{edge.rule or edge.forward} → {edge.contribution.line(30)}"
    return f"{clip(view.card(edge.parent).name, 20)}: {said}"


def _arrival(view: GraphView, edge: Edge) -> str:
    if not edge.needs_grad:
        return ""
    child = view.card(edge.child)
    if child.kind == "fold":
        total = f" → {edge.contribution.line(30)}" if edge.contribution is not None else ""
        return f"{edge.forward} in {child.title}{total}"
    said = edge.numbers or " ".join(part for part in (edge.rule, f"then {edge.after}" if edge.after else "") if part)
    if edge.contribution is not None and not edge.numbers:
        said = f"{said} → {edge.contribution.line(30)}"
    return f"{clip(child.name, 20)}: {said}"
