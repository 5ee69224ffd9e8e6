"""From a GraphView to blocks in their places: which way the picture runs, and how much it says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from netcl.errors import ArgumentError
from netcl.viz.cards import LEAST, ROOMY, SMALL, TIGHT, CardParts, Form, Limits, compose, measure
from netcl.viz.labels import level, upright
from netcl.viz.layout import PASSING, SEPARATION, TIME_LIMIT, Laid, NoLayoutError, layer, place
from netcl.viz.progress import progress
from netcl.viz.shapes import Arrow, Block, Line, Placed, Rect, Shape, Text, ink
from netcl.viz.stubs import LONGEST, stubbed
from netcl.viz.text import shorten, width
from netcl.viz.views import Edge, GraphView

Direction = Literal["auto", "lr", "td"]

PAGE = 720.0  # px: the width of a notebook's output
LEAST_TEXT = 11.0  # px
_LEAST_PAGE = 400  # px: a card between two labels takes as much


def checked(page: float) -> float:
    """The width of a page that a user asked for.

    Raises:  ArgumentError if nothing can be read on so narrow a one
    """
    if not page >= _LEAST_PAGE:
        raise ArgumentError(f"a page is {_LEAST_PAGE} px wide or more, not {page!r}")
    return page


def units(page: float) -> float:
    """Units that can be drawn on a page with text of at least LEAST_TEXT."""
    return page * SMALL / LEAST_TEXT - 2


ROOM = units(PAGE)
MARGIN = 14.0
_SEED_HEIGHT = 50.0
_LEGEND_HEIGHT = 34.0
_LEAST_WIDTH = 500.0
_MANY, _CROWD = 24, 60  # cards
_CUTS = 3  # times that long edges are looked for
_MOST_COLUMNS = 5  # a longer way from the leaves to the loss never fits across a page


@dataclass(frozen=True, slots=True)
class Route:
    """The two lanes of an edge, as points: `backward` is empty where no gradient flows, either if it is not shown."""

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
    page: float = PAGE

    @property
    def fits(self) -> bool:
        """Whether it can be read on its page as wide as it is."""
        return self.width <= units(self.page)

    def scale(self, wide: float) -> float:
        """CSS pixels for a unit of a picture so wide: no wider than the page wherever its text can then be read."""
        return min(1.0, self.page / wide) if wide <= units(self.page) + 1 else LEAST_TEXT / SMALL


@dataclass(frozen=True, slots=True)
class _Plan:
    upright: bool
    form: Form
    limits: Limits
    balanced: bool = True
    lean: bool = False
    pressed: bool = False  # lines may bend so that rows fit the page
    room: float = float("inf")  # a row that is wider sends cards one row up


_LEANING = _Plan(True, "side", TIGHT, balanced=False, lean=True)
_NARROWEST = _Plan(True, "stack", TIGHT, balanced=False, lean=True)


def arrange(
    view: GraphView, direction: Direction = "auto", time_limit: float = TIME_LIMIT, stubs: bool = False,
    page: float = PAGE,
) -> Scene:  # fmt: skip
    """Arrange a picture that can be read on a page: the first plan that fits, else the narrowest.

    With `stubs` a large graph's scene has more cards than the view: long edges are cut, and their ends named.

    Raises:  NoLayoutError
    """
    if not view.edges:
        return _on(page, _whole(view, _Plan(True, "side", ROOMY), time_limit))
    room = units(page) - 2 * MARGIN
    ends = time.monotonic() + time_limit
    stubs = stubs and len(view.cards) > _CROWD
    best: Scene | None = None
    for plan in progress((*_plans(view, direction), *_pressed(len(view.cards), room)), "layouts tried"):
        if best is not None and (time.monotonic() > ends or (direction == "lr" and plan.upright)):
            return best
        try:
            scene = _build(view, plan, room, _left(ends), stubs)
            scene = scene and _on(page, scene)
        except NoLayoutError:
            if best is None:
                raise
            return best
        if scene is not None and scene.fits:
            return scene
        if scene is not None and (best is None or scene.width < best.width):
            best = scene
    return best or _on(page, _whole(view, replace(_NARROWEST, room=room), _left(ends), stubs))


def _left(ends: float) -> float:
    """The time that is left of a limit; a moment at least, for a first picture."""
    return max(ends - time.monotonic(), 0.05)


def _pressed(cards: int, room: float) -> Iterator[_Plan]:
    """Plans that bend lines to fit, then those that also send cards one row up where a row is full."""
    if cards > _CROWD:
        yield from (replace(_NARROWEST, limits=LEAST, room=room * share, pressed=True) for share in (1.0, 0.6))
        return
    yield replace(_LEANING, pressed=True)
    for limits in (TIGHT, LEAST):
        for share in (float("inf"), 1.0, 0.8, 0.6, 0.4):
            yield replace(_NARROWEST, limits=limits, room=room * share, pressed=True)


def _whole(view: GraphView, plan: _Plan, time_limit: float, stubs: bool = False) -> Scene:
    scene = _build(view, plan, float("inf"), time_limit, stubs)
    assert scene is not None
    return scene


def _plans(view: GraphView, direction: Direction) -> list[_Plan]:
    parents = [edge.parent for edge in view.edges]
    children = [edge.child for edge in view.edges]
    chain = len(set(parents)) == len(parents) and len(set(children)) == len(children) and len(view.edges) > 0
    across = [_Plan(False, "stack", ROOMY), _Plan(False, "stack", TIGHT)]
    if direction == "lr":
        return across
    if chain and view.show == "both":
        down = [_Plan(True, "wide", ROOMY)]
    elif len(view.cards) > _CROWD:
        down = []
    elif len(view.cards) > _MANY:  # each try takes its time, and no other plan has fitted so many
        down = [_LEANING, _NARROWEST]
    else:
        down = [
            _Plan(True, "side", ROOMY),
            _Plan(True, "side", ROOMY, balanced=False),
            _Plan(True, "side", TIGHT),
            _Plan(True, "side", TIGHT, balanced=False),
            _LEANING,
            _NARROWEST,
            replace(_NARROWEST, limits=LEAST),
        ]
    return down if direction == "td" or _rows(view) > _MOST_COLUMNS else across + down


def _rows(view: GraphView) -> int:
    return max(layer(view, dict.fromkeys((card.key for card in view.cards), 0.0), {}, float("inf")).values()) + 1


def _build(view: GraphView, plan: _Plan, room: float, time_limit: float, stubs: bool) -> Scene | None:
    """One try; None where it is plain beforehand that the picture would be too wide."""
    parts = {card.key: measure(card, plan.limits) for card in view.cards}
    cards = _cards(view, plan, parts)
    labels = _labels(view, plan, cards)
    whole, rows = view, _rowed(view, plan, cards, labels, (), stubs)
    for _ in range(_CUTS if stubs else 0):  # the cards added send others further up
        cut = stubbed(view, rows)
        if cut is view:
            break
        _add(cut, view, plan, parts, cards)
        view = cut
        rows = _rowed(view, plan, cards, labels, whole.edges, stubs)
    if not plan.upright:
        cards = _even(cards, parts, rows, plan)
    if (_breadth if plan.upright else _length)(view, cards, labels, rows) > room:
        return None
    within, plain = room if plan.pressed else None, view is not whole
    laid = place(view, rows, cards, labels, plan.upright, plan.lean, time_limit, within, plain)
    return _scene(view, plan, cards, labels, laid)


def _labels(view: GraphView, plan: _Plan, cards: Mapping[int, Block]) -> dict[int, Block]:
    labels = {}
    for edge in view.edges:
        if plan.upright:
            lanes = cards[edge.child].lanes
            spread = (lanes[1] - lanes[0]) / 2 if plan.form == "wide" else None
            labels[edge.key] = upright(edge, plan.limits, view.ran, plan.balanced, spread)
        else:
            labels[edge.key] = level(edge, plan.limits, view.ran)
    return labels


def _rowed(
    view: GraphView, plan: _Plan, cards: Mapping[int, Block], labels: Mapping[int, Block], order: Sequence[Edge],
    stubs: bool,
) -> dict[int, int]:  # fmt: skip
    sizes = {key: block.width if plan.upright else block.height for key, block in cards.items()}
    beside = {key: block.width if plan.upright else block.height for key, block in labels.items()}
    return layer(view, sizes, beside, plan.room, order, LONGEST if stubs else None)


def _add(view: GraphView, old: GraphView, plan: _Plan, parts: dict[int, CardParts], cards: dict[int, Block]) -> None:
    """Measure the cards that are new in a view, or say more in it."""
    known = {card.key: card for card in old.cards}
    for card in view.cards:
        if card is not known.get(card.key):
            parts[card.key] = measure(card, plan.limits, parts.get(card.key))
            block = compose(parts[card.key], plan.form, None)
            wide = cards[card.key].width if card.key in cards else 0.0
            cards[card.key] = block if block.width >= wide else compose(parts[card.key], plan.form, (wide, 0.0))


def _cards(view: GraphView, plan: _Plan, parts: Mapping[int, CardParts]) -> dict[int, Block]:
    columns = None
    if plan.form == "wide":
        columns = (max(part.columns[0] for part in parts.values()), max(part.columns[1] for part in parts.values()))
    cards = {key: compose(part, plan.form, columns) for key, part in parts.items()}
    if plan.form != "wide":
        ops = [card.key for card in view.cards if card.kind in ("op", "root")]
        widest = max((cards[key].width for key in ops), default=0.0)
        for key in ops:  # nearly equal cards are made equal: calmer to look at
            if 0.75 * widest <= cards[key].width < widest:
                cards[key] = compose(parts[key], plan.form, (widest, 0.0))
    if view.seed and view.root in cards:
        cards[view.root] = _with_seed(cards[view.root], view.seed, plan)
    return cards


def _even(
    cards: dict[int, Block], parts: Mapping[int, CardParts], rows: Mapping[int, int], plan: _Plan
) -> dict[int, Block]:
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


def _breadth(
    view: GraphView, cards: Mapping[int, Block], labels: Mapping[int, Block], rows: Mapping[int, int]
) -> float:
    """How wide a picture that runs down will be at least."""
    used: dict[int, float] = {}
    for key, block in cards.items():
        used[2 * rows[key]] = used.get(2 * rows[key], 0.0) + block.width + SEPARATION
    for edge in view.edges:
        band = 2 * rows[edge.child] - 1
        used[band] = used.get(band, 0.0) + labels[edge.key].width + SEPARATION
        for passed in range(2 * rows[edge.parent] + 1, band):
            used[passed] = used.get(passed, 0.0) + PASSING + SEPARATION
    return max(used.values()) - SEPARATION


def _scene(view: GraphView, plan: _Plan, cards: Mapping[int, Block], labels: Mapping[int, Block], laid: Laid) -> Scene:
    def at(point: tuple[float, float]) -> tuple[float, float]:
        along, across = point
        x, y = (across, along) if plan.upright else (along, across)
        return x + MARGIN, y + MARGIN + _LEGEND_HEIGHT

    placed = tuple(Placed(*at(laid.cards[card.key]), cards[card.key], card.key) for card in view.cards)
    beside, routes = [], []
    for edge in view.edges:
        label, child = labels[edge.key], cards[edge.child]
        half = (label.lanes[1] - label.lanes[0]) / 2
        aside = sum(child.lanes) / 2 - child.width / 2 if plan.form == "wide" else 0.0  # lanes run through the slots
        ahead = tuple(at((along, across - half + aside)) for along, across in laid.routes[edge.key])
        back = tuple(at((along, across + half + aside)) for along, across in reversed(laid.routes[edge.key]))
        routes.append(Route(edge.key, ahead if edge.forward else (), back if edge.needs_grad else ()))
        along, across = laid.labels[edge.key]
        beside.append(Placed(*at((along, across + aside)), label, edge.key))
    high = laid.along if plan.upright else laid.across
    scene = Scene(0.0, high + 2 * MARGIN + _LEGEND_HEIGHT, plan.upright, placed, tuple(beside), tuple(routes))
    return scene


def _on(page: float, scene: Scene) -> Scene:
    """The scene as wide as what is drawn, and no narrower than its legend or a small page."""
    lefts, rights = [card.x for card in scene.cards], [card.right for card in scene.cards]
    for label in scene.labels:
        for left, right in map(ink, label.block.shapes):
            lefts.append(label.x + left)
            rights.append(label.x + right)
    for route in scene.routes:
        xs = [x for x, _ in (*route.forward, *route.backward)]
        lefts.append(min(xs))
        rights.append(max(xs))
    left, right = min(lefts), max(rights)
    wide = max(right - left + 2 * MARGIN, min(_LEAST_WIDTH, units(page)))
    by = (wide - right - left) / 2
    return replace(
        scene,
        width=wide,
        page=page,
        cards=tuple(Placed(each.x + by, each.y, each.block, each.key) for each in scene.cards),
        labels=tuple(Placed(each.x + by, each.y, each.block, each.key) for each in scene.labels),
        routes=tuple(
            Route(r.key, tuple((x + by, y) for x, y in r.forward), tuple((x + by, y) for x, y in r.backward))
            for r in scene.routes
        ),
    )
