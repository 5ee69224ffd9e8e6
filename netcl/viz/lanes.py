"""One pass of a picture alone: the forward lane without the backward one, or the other way round."""

from __future__ import annotations

from dataclasses import replace

from netcl.viz.views import GraphView, Show


def only(view: GraphView, show: Show) -> GraphView:
    """The view with one lane: `"forward"` has values alone, `"backward"` gradients alone and no constants."""
    if show == "forward":
        cards = tuple(replace(card, slot=None) for card in view.cards)
        edges = tuple(
            replace(edge, rule="", numbers="", after="", contribution=None, needs_grad=False) for edge in view.edges
        )
        return replace(view, cards=cards, edges=edges, seed="", show=show)
    if show == "backward":
        edges = tuple(replace(edge, forward="") for edge in view.edges if edge.needs_grad)
        used = {view.root, *(edge.parent for edge in edges), *(edge.child for edge in edges)}
        cards = tuple(replace(card, value=None) for card in view.cards if card.key in used)
        return replace(view, cards=cards, edges=edges, show=show)
    return view
