"""Long edges of a large graph cut short: what was made far away is named beside the card that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from netcl.viz.views import Card, Edge, GraphView

LONGEST = 4  # rows that an edge may pass in a large graph


def stubbed(view: GraphView, rows: Mapping[int, int]) -> GraphView:
    """The view with one more card, `use 2 of 3`, in place of each edge that would pass more than `LONGEST` rows.

    It is what leaves have that are used far apart. The edges keep their keys; the cards added have the highest keys.
    """
    consumers: dict[int, list[int]] = {}
    for edge in view.edges:
        consumers.setdefault(edge.parent, []).append(edge.key)
    cards = {card.key: card for card in view.cards}
    added: list[Card] = []
    edges: list[Edge] = []
    for edge in view.edges:
        parent, uses = cards[edge.parent], consumers[edge.parent]
        if rows[edge.child] - rows[edge.parent] > LONGEST and parent.kind != "use":
            said = f"use {uses.index(edge.key) + 1} of {len(uses)}" if len(uses) > 1 else "its one use"
            added.append(Card(len(cards) + len(added), "use", parent.name, parent.name, use=said))
            edges.append(replace(edge, parent=added[-1].key))
        else:
            edges.append(edge)
    if not added:
        return view
    cut = {edge.parent for edge, now in zip(view.edges, edges, strict=True) if edge is not now}
    told = (_told(card, len(consumers[card.key])) if card.key in cut else card for card in view.cards)
    return replace(view, cards=(*told, *added), edges=tuple(edges))


def _told(card: Card, uses: int) -> Card:
    """A card that says how often it is used, for those of its edges that are not drawn to it."""
    return card if card.use else replace(card, use=f"{uses} uses" if uses > 1 else "1 use, far below")
