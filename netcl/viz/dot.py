"""The graph as DOT, for readers who want to restyle it; netcl's own picture is not drawn from it."""

from __future__ import annotations

import graphviz

from netcl.viz.text import clip
from netcl.viz.values import shape_text
from netcl.viz.views import SLOT_TEXT, Card, GraphView


def to_dot(view: GraphView) -> str:
    """DOT source: solid edges forward, dashed ones backward that do not bend the layout."""
    graph = graphviz.Digraph(
        graph_attr={"rankdir": "LR"},
        node_attr={"shape": "box", "style": "rounded", "fontname": "Helvetica"},
        edge_attr={"fontname": "Helvetica"},
    )
    for card in view.cards:
        style = {"style": ""} if card.kind in ("leaf", "constant", "use") else {}
        graph.node(f"n{card.key}", label=graphviz.escape("\n".join(_lines(card))).replace("\n", "\\n"), **style)
    for edge in view.edges:
        if edge.forward:
            moved = "" if edge.needs_grad or edge.contribution is None else f"\n→ {edge.contribution.line(24)}"
            label = graphviz.escape(edge.forward + moved).replace("\n", "\\n")
            graph.edge(f"n{edge.parent}", f"n{edge.child}", label=label)
        if edge.needs_grad:
            said = edge.numbers or " ".join(part for part in (edge.rule, edge.after) if part)
            if edge.contribution is not None and not edge.numbers:
                said += f"\n→ {edge.contribution.line(24)}"
            label = graphviz.escape(said).replace("\n", "\\n")
            graph.edge(f"n{edge.child}", f"n{edge.parent}", label=label, style="dashed", constraint="false")
    return graph.source


def _lines(card: Card) -> list[str]:
    lines = [clip(card.title, 40)]
    if card.kind in ("fold", "use"):
        return [*lines, *card.lines, *([card.use] if card.use else [])]
    lines.append(" ".join(part for part in (card.op or card.kind, shape_text(card.shape), card.dtype) if part))
    if card.value is not None:
        lines.append(f"value {card.value.line(30)}")
    if card.slot is not None:
        numbers = card.slot.array.line(30) if card.slot.array is not None else ""
        lines.append(" ".join(part for part in (card.caption, numbers, SLOT_TEXT[card.slot.state]) if part))
    return lines
