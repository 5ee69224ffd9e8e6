"""From a GraphView to blocks in their places: which way the picture runs, and how much it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from netcl.viz.cards import PAD, ROOMY, SMALL, TIGHT, CardParts, Form, Limits, compose, measure
from netcl.viz.labels import LANE, level, upright
from netcl.viz.layout import TIME_LIMIT, Laid, layer, place
from netcl.viz.shapes import Arrow, Block, Line, Placed, Rect, Shape, Text
from netcl.viz.text import shorten, width
from netcl.viz.views import GraphView

Direction = Literal["auto", "lr", "td"]

PAGE = 720.0  # px: the width of a notebook's output
LEAST_TEXT = 11.0  # px
ROOM = PAGE * SMALL / LEAST_TEXT - 2  # units that can be drawn on a page with text of at least LEAST_TEXT
MARGIN = 14.0
_SEED_HEIGHT = 50.0
_LEGEND_HEIGHT = 34.0


@dataclass(frozen=True, slots=True)
class Route:
    """The two lanes of an edge, as points; `backward` is empty where no gradient flows."""

    key: int
    forward: tuple[tuple[float, float], ...]
    backward: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture in its own units, before it is written as SVG."""

    width: float
    height: float
    upright: bool
    cards: tuple[Placed, ...]
    labels: tuple[Placed, ...]
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    upright: bool
    form: Form
    limits: Limits
    balanced: bool = True


def arrange(view: GraphView, direction: Direction = "auto", time_limit: float = TIME_LIMIT) -> Scene:
    """Arrange a picture that can be read on a page: the first plan that fits, else the narrowest.

    Raises:  NoLayout
    """
    best: Scene | None = None
    for plan in _plans(view, direction):
        room = ROOM - 2 * MARGIN
        for _ in range(3):
            scene = _build(view, plan, room, time_limit)
            if scene is not None and (best is None or scene.width < best.width):
                best = scene
            if scene is None or scene.width <= ROOM or not plan.upright:
                break
            room *= 0.8
        if best is not None and best.width <= ROOM:
            return best
    assert best is not None
    return best


def _plans(view: GraphView, direction: Direction) -> list[_Plan]:
    parents = [edge.parent for edge in view.edges]
    children = [edge.child for edge in view.edges]
    chain = len(set(parents)) == len(parents) and len(set(children)) == len(children) and len(view.edges) > 0
    across = [_Plan(False, "stack", ROOMY), _Plan(False, "stack", TIGHT)]
    down = [_Plan(True, "wide", ROOMY)] if chain else []
    down += [
        _Plan(True, "side", ROOMY),
        _Plan(True, "side", ROOMY, balanced=False),
        _Plan(True, "side", TIGHT),
        _Plan(True, "side", TIGHT, balanced=False),
        _Plan(True, "stack", TIGHT, balanced=False),
    ]
    return {"lr": across + down[-1:], "td": down, "auto": across + down}[direction]


def _build(view: GraphView, plan: _Plan, room: float, time_limit: float) -> Scene | None:
    """One try; None where it is plain beforehand that the picture would be too wide."""
    parts = {card.key: measure(card, plan.limits) for card in view.cards}
    cards = _cards(view, plan, parts)
    labels = {}
    for edge in view.edges:
        if plan.upright:
            lanes = cards[edge.child].lanes
            spread = (lanes[1] - lanes[0]) / 2 if plan.form == "wide" else None
            labels[edge.key] = upright(edge, plan.limits, view.ran, plan.balanced, spread)
        else:
            labels[edge.key] = level(edge, plan.limits, view.ran)
    sizes = {key: block.width if plan.upright else block.height for key, block in cards.items()}
    beside = {key: block.width if plan.upright else block.height for key, block in labels.items()}
    rows = layer(view, sizes, beside, room if plan.upright else float("inf"))
    if not plan.upright:
        cards = _even(cards, parts, rows, plan)
        if _length(view, cards, labels, rows) > room:
            return None
    elif plan.form == "side" and plan.balanced and _crowded(view, rows, cards, labels, room):
        return None
    laid = place(view, rows, cards, labels, plan.upright, time_limit)
    return _scene(view, plan, cards, labels, laid)


def _cards(view: GraphView, plan: _Plan, parts: Mapping[int, CardParts]) -> dict[int, Block]:
    columns = None
    if plan.form == "wide":
        columns = (max(part.columns[0] for part in parts.values()), max(part.columns[1] for part in parts.values()))
    cards = {key: compose(part, plan.form, columns) for key, part in parts.items()}
    if view.seed and view.root in cards:
        cards[view.root] = _with_seed(cards[view.root], view.seed, plan)
    return cards


def _even(cards: dict[int, Block], parts: Mapping[int, CardParts], rows: Mapping[int, int], plan: _Plan) -> dict[int, Block]:
    """Cards of one column get one width."""
    widest: dict[int, float] = {}
    for key, block in cards.items():
        widest[rows[key]] = max(widest.get(rows[key], 0.0), block.width)
    even = {}
    for key, block in cards.items():
        whole = compose(parts[key], plan.form, (widest[rows[key]], 0.0))
        even[key] = _resized_seed(whole, block)
    return even


def _resized_seed(whole: Block, old: Block) -> Block:
    if not old.tail:
        return whole
    return _with_tail(whole, old.shapes[-_SEED_SHAPES:], (whole.width - old.width) / 2)


_SEED_SHAPES = 4


def _with_seed(block: Block, seed: str, plan: _Plan) -> Block:
    """The card of the loss with the seed that enters it from below."""
    x = block.lanes[1] if plan.form == "wide" else block.width / 2
    text = shorten(f"seed {seed}", 150.0, SMALL, bold=True)
    wide = width(text, SMALL, bold=True) + 18
    top = block.height + 26
    shapes: tuple[Shape, ...] = (
        Line(((x, top), (x, block.height + 8)), "backward", 1.6, "5 4"),
        Arrow((x, block.height + 1), "up", "backward"),
        Rect(x - wide / 2, top, wide, 22, "chip", "backward", 1.2, 11, "5 4"),
        Text(x, top + 15, text, SMALL, "backward", "middle", True),
    )
    return _with_tail(block, shapes, 0.0)


def _with_tail(block: Block, seed: tuple[Shape, ...], shift: float) -> Block:
    moved: list[Shape] = []
    for shape in seed:
        if isinstance(shape, Line):
            moved.append(replace(shape, points=tuple((x + shift, y) for x, y in shape.points)))
        elif isinstance(shape, Arrow):
            moved.append(replace(shape, tip=(shape.tip[0] + shift, shape.tip[1])))
        else:
            moved.append(replace(shape, x=shape.x + shift))
    return replace(block, height=block.height + _SEED_HEIGHT, shapes=(*block.shapes, *moved), tail=_SEED_HEIGHT)


def _length(view: GraphView, cards: Mapping[int, Block], labels: Mapping[int, Block], rows: Mapping[int, int]) -> float:
    """How long a picture that runs to the right will be at least."""
    columns: dict[int, float] = {}
    for key, block in cards.items():
        columns[2 * rows[key]] = max(columns.get(2 * rows[key], 0.0), block.width)
    for edge in view.edges:
        band = 2 * rows[edge.child] - 1
        columns[band] = max(columns.get(band, 0.0), labels[edge.key].width)
    return sum(columns.values()) + 16.0 * (len(columns) - 1)


def _crowded(
    view: GraphView, rows: Mapping[int, int], cards: Mapping[int, Block], labels: Mapping[int, Block], room: float
) -> bool:
    """Whether labels with their lanes in the middle are wider than a row allows."""
    used: dict[int, float] = {}
    for edge in view.edges:
        used[rows[edge.child]] = used.get(rows[edge.child], 0.0) + labels[edge.key].width + 18.0
    return max(used.values(), default=0.0) - 18.0 > room


def _scene(view: GraphView, plan: _Plan, cards: Mapping[int, Block], labels: Mapping[int, Block], laid: Laid) -> Scene:
    def at(point: tuple[float, float]) -> tuple[float, float]:
        along, across = point
        x, y = (across, along) if plan.upright else (along, across)
        return x + MARGIN, y + MARGIN + _LEGEND_HEIGHT

    placed = tuple(Placed(*at(laid.cards[card.key]), cards[card.key], card.key) for card in view.cards)
    beside = tuple(Placed(*at(laid.labels[edge.key]), labels[edge.key], edge.key) for edge in view.edges)
    routes = []
    tails = {key: block.tail for key, block in cards.items()}
    for edge in view.edges:
        label = labels[edge.key]
        half = (label.lanes[1] - label.lanes[0]) / 2
        ahead = tuple(at((along, across - half)) for along, across in laid.routes[edge.key])
        back = tuple(at((along, across + half)) for along, across in reversed(laid.routes[edge.key]))
        routes.append(Route(edge.key, ahead, back if edge.needs_grad else ()))
    wide, high = (laid.across, laid.along) if plan.upright else (laid.along, laid.across)
    wide = max(wide, 400.0 - 2 * MARGIN)
    shift = max((wide - (laid.across if plan.upright else laid.along)) / 2, 0.0)
    scene = Scene(wide + 2 * MARGIN, high + 2 * MARGIN + _LEGEND_HEIGHT, plan.upright, placed, beside, tuple(routes))
    del tails
    return _shifted(scene, shift)


def _shifted(scene: Scene, by: float) -> Scene:
    if by <= 0:
        return scene
    return replace(
        scene,
        cards=tuple(replace(each, x=each.x + by) for each in scene.cards),
        labels=tuple(replace(each, x=each.x + by) for each in scene.labels),
        routes=tuple(
            Route(r.key, tuple((x + by, y) for x, y in r.forward), tuple((x + by, y) for x, y in r.backward))
            for r in scene.routes
        ),
    )


__all__ = ["LANE", "PAD", "Direction", "Route", "Scene", "arrange"]
