"""What stands beside an edge: the map forward, and backward the map with the numbers that it carried."""

from __future__ import annotations

from typing import Literal

from netcl.viz.cards import LINE_HEIGHT, NORMAL, SMALL, Limits, wrap
from netcl.viz.shapes import Block, Text
from netcl.viz.text import shorten, width
from netcl.viz.views import Edge

LANE = 8.0  # half the distance between the two lanes of an edge
_SPACE = 7.0

Row = tuple[str, float, str, bool]  # text, size, colour, bold
Sides = tuple[tuple[list[Row], float, Literal["start", "end"]], ...]


def _backward_rows(edge: Edge, limits: Limits, ran: bool) -> list[Row]:
    if not edge.needs_grad and edge.contribution is None:
        return []
    colour = "tangent" if not edge.needs_grad else "backward" if ran else "off"
    rows: list[Row] = []
    if edge.numbers:
        product, _, result = edge.numbers.rpartition(" → ")
        whole = width(edge.numbers, SMALL) <= limits.label
        texts = [edge.numbers] if whole else [*wrap(product, limits.label, SMALL), f"→ {result}"]
        return [(text, SMALL, colour, False) for text in texts]
    if edge.rule:
        rows += [(text, NORMAL, colour, True) for text in wrap(edge.rule, limits.label, NORMAL, bold=True, most=2)]
    if edge.after:
        rows += [(text, SMALL, colour, True) for text in wrap(edge.after, limits.label, SMALL, bold=True, most=2)]
    if edge.contribution is not None:
        line = "→ " + edge.contribution.brief(int(limits.label / 8))
        rows.append((shorten(line, limits.label, SMALL), SMALL, colour, False))
    return rows


def _forward_rows(edge: Edge, limits: Limits) -> list[Row]:
    if not edge.forward:
        return []
    room = min(limits.label, 110.0)
    return [(shorten(edge.forward, room, NORMAL, bold=True), NORMAL, "forward", True)]


def _wide(rows: list[Row]) -> float:
    return max((width(text, size, bold=bold) for text, size, _, bold in rows), default=0.0)


def upright(edge: Edge, limits: Limits, ran: bool, balanced: bool, spread: float | None = None) -> Block:
    """A label for lanes that run down and up: forward text on the left, backward text on the right.

    `balanced` keeps the lanes in the middle of the block; `spread` is half the distance between them, where it is not
    the usual one.
    """
    ahead, back = _forward_rows(edge, limits), _backward_rows(edge, limits, ran)
    lane = LANE if spread is None else spread
    left = _wide(ahead) + _SPACE if ahead else 0.0
    right = _wide(back) + _SPACE if back else 0.0
    if balanced:
        left = right = max(left, right)
    high = max(len(back), len(ahead), 1) * LINE_HEIGHT + 2
    down, up = left + lane, left + lane + 2 * lane
    if not edge.needs_grad or not edge.forward:
        down = up = left + lane
    sides: Sides = ((ahead, down - _SPACE, "end"), (back, up + _SPACE, "start"))
    shapes = [
        Text(x, (high - len(rows) * LINE_HEIGHT) / 2 + 12.5 + i * LINE_HEIGHT, text, size, colour, anchor, bold)
        for rows, x, anchor in sides
        for i, (text, size, colour, bold) in enumerate(rows)
    ]
    return Block(left + right + 4 * lane, high, tuple(shapes), lanes=(down, up))


def level(edge: Edge, limits: Limits, ran: bool) -> Block:
    """A label for lanes that run right and left: forward text above them, backward text below."""
    ahead, back = _forward_rows(edge, limits), _backward_rows(edge, limits, ran)
    wide = max(_wide(ahead), _wide(back), 30.0) + 8
    above = len(ahead) * LINE_HEIGHT + 2
    going, coming = above + 3, above + 3 + 2 * LANE
    if not edge.needs_grad or not edge.forward:
        coming = going
    shapes = [
        Text(wide / 2, y + i * LINE_HEIGHT, text, size, colour, "middle", bold)
        for rows, y in ((ahead, 12.0), (back, coming + 16))
        for i, (text, size, colour, bold) in enumerate(rows)
    ]
    high = coming + (len(back) * LINE_HEIGHT + 8 if back else 6)
    return Block(wide, high, tuple(shapes), lanes=(going, coming))
