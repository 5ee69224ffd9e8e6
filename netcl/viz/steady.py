"""A picture in which only numbers change: room for the longest is kept, and what was there before stays as a ghost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from netcl.viz.arrange import MARGIN, Scene, arrange
from netcl.viz.cards import LINE_HEIGHT, SMALL
from netcl.viz.fallback import write_table
from netcl.viz.frames import fitted, is_slot, label_rows, labelled
from netcl.viz.layout import NoLayoutError
from netcl.viz.shapes import Block, Placed, Rect, Shape, Text
from netcl.viz.svg import Writer, describe, legend, route_shapes
from netcl.viz.tables import table
from netcl.viz.text import shorten, width
from netcl.viz.values import ArrayView, number, shape_text
from netcl.viz.views import Card, Edge, GraphView, Slot

_MINUS = "\u2212"
_ROOM = f"{_MINUS}0.0000"  # what any number takes in four digits, its exponent apart
_NUMBER = re.compile(rf"(?<![\w.]){_MINUS}?(?:\d+(?:\.\d+)?(?:e{_MINUS}?\d+)?|NaN|∞)(?![\w.])")
_DIGITS = 4
_BEFORE = 12  # characters of an array that was there before
_SEED_SHAPES = 4

Signature = tuple[tuple[object, ...], ...]


def signature(view: GraphView) -> Signature:
    """What two runs must share to be shown in one layout: cards and how they hang together, whatever their numbers."""
    cards = tuple((card.kind, card.name if card.kind == "leaf" else card.op, card.shape) for card in view.cards)
    edges = tuple((edge.parent, edge.child, edge.needs_grad) for edge in view.edges)
    return (*cards, *edges)


def changed(before: GraphView, now: GraphView) -> str:
    """In a sentence how one graph differs from another, or nothing."""
    if signature(before) == signature(now):
        return ""
    was, has = (Counter(card.op or card.name for card in view.cards if card.kind != "use") for view in (before, now))
    new, gone = has - was, was - has
    said = [f"{word} {_listed(found)}" for word, found in (("new:", new), ("gone:", gone)) if found]
    if not said:
        pairs = zip(before.cards, now.cards, strict=False)
        other = next(((a, b) for a, b in pairs if a.shape != b.shape), None)
        if other is None:
            said = ["the same ops, connected in another way"]
        else:
            said = [f"{other[1].name} is {shape_text(other[1].shape)}, and was {shape_text(other[0].shape)}"]
    return f"Another graph than before ({'; '.join(said)})."


def _listed(found: Counter[str]) -> str:
    return ", ".join(f"{n} × {name}" if n > 1 else name for name, n in found.items())


# Numbers


def _brief(array: ArrayView | None, digits: int = _DIGITS) -> ArrayView | None:
    """The number of a scalar in few digits."""
    if array is None or array.scalar is None or not array.cells or array.dtype[0] in "biu":
        return array
    return replace(array, cells=((number(array.scalar, digits),),))


def _wide(array: ArrayView | None) -> ArrayView | None:
    """The array with the longest numbers that it may come to hold."""
    if array is None or not array.size:
        return array
    cells = tuple(tuple(max(text, _ROOM, key=len) for text in row) for row in array.cells)
    stats = tuple((name, _ROOM) for name, _ in array.stats)
    bars = () if array.cells else (1,) * 16
    return replace(array, cells=cells, stats=stats, bars=bars, uniform=None if array.size > 1 else array.uniform)


def _widest(text: str) -> str:
    return _NUMBER.sub(_ROOM, text)


def words(view: GraphView) -> tuple[str, ...]:
    """Titles and what stands beside forward arrows: only numbers computed outside the graph change them."""
    return (*(card.title for card in view.cards), *(edge.forward for edge in view.edges))


def reserved(view: GraphView, roomy: bool = False) -> GraphView:
    """The graph with room for every number, and for a ghost under each; if `roomy`, also for those in words."""
    if roomy:
        view = replace(
            view,
            cards=tuple(replace(card, title=_widest(card.title)) for card in view.cards),
            edges=tuple(replace(edge, forward=_widest(edge.forward)) for edge in view.edges),
        )
    cards = []
    for card in view.cards:
        ghost = f"before {_ROOM if card.value is None or card.value.size == 1 else '0.0000 0.0000'}"
        slot, note = card.slot, ghost if card.value is not None and card.kind != "constant" else ""
        if slot is not None and slot.state in ("value", "zero"):
            slot = replace(slot, state="value", array=_wide(_brief(slot.array)), total=_widest(slot.total), note=ghost)
        value = card.value if card.kind == "constant" else _wide(_brief(card.value))
        cards.append(replace(card, value=value, slot=slot, note=note, badges=()))
    edges = (
        replace(edge, numbers=_widest(edge.numbers.removeprefix("upstream ")), contribution=_wide(edge.contribution))
        for edge in view.edges
    )
    return replace(view, cards=tuple(cards), edges=tuple(edges))


def _same(one: ArrayView | None, other: ArrayView | None) -> bool:
    texts = [array and (array.cells, array.stats, array.uniform) for array in (_brief(one), _brief(other))]
    return texts[0] == texts[1]


def _ghost(now: ArrayView | None, before: ArrayView | None) -> str:
    if now is None or before is None or _same(now, before):
        return ""
    brief = _brief(before)
    assert brief is not None
    return f"before {brief.brief(_BEFORE)}"


def ghosted(view: GraphView, before: GraphView | None) -> GraphView:
    """The graph with short numbers, and under each that moved what it was before."""
    old: Mapping[object, Card] = {}
    if before is not None:
        alike = signature(before) == signature(view)
        old = {(card.key if alike else card.name): card for card in before.cards if alike or card.kind != "op"}
    cards = []
    for card in view.cards:
        was = old.get(card.key, old.get(card.name))
        note = _ghost(card.value, was.value if was else None)
        slot = card.slot
        if slot is not None and slot.state in ("value", "zero"):
            slot = _slot(card, slot, was)
        first = next((badge for badge in card.badges if badge.startswith("first forward")), "")
        note = first.replace("first forward: ", "first ") or note
        cards.append(replace(card, value=_brief(card.value), slot=slot, note=note))
    return replace(view, cards=tuple(cards))


def _slot(card: Card, slot: Slot, was: Card | None) -> Slot:
    note = _ghost(slot.array, was.slot.array if was and was.slot else None)
    note = note or ("exactly zero" if slot.state == "zero" else "")
    first = next((badge for badge in card.badges if badge.startswith("first backward")), "")
    note = first.replace("first backward: ", "first ") or note
    return replace(slot, state="value", array=_brief(slot.array), note=note)


# The picture


class Steady:
    """The layout of one graph, whatever its numbers."""

    def __init__(self, view: GraphView, roomy: bool = False) -> None:
        self.signature, self.words, self.roomy = signature(view), words(view), roomy
        self.scene: Scene | str
        try:
            self.scene = arrange(reserved(view, roomy))
        except NoLayoutError as error:
            self.scene = f"shown as a table: {error}"

    def fits(self, view: GraphView) -> bool:
        """Whether there is room for this graph's words."""
        return self.roomy or self.words == words(view)

    @property
    def too_wide(self) -> bool:
        """Whether the picture is wider than a page."""
        return isinstance(self.scene, Scene) and not self.scene.fits

    def svg(
        self, view: GraphView, before: GraphView | None, colours: Mapping[str, str], writer: type[Writer] = Writer,
        below: Block | None = None,
    ) -> str:  # fmt: skip
        """The picture of one run beside that of the one before, as an SVG element; another picture may stand below."""
        scene = self.scene
        if isinstance(scene, str):
            return write_table(view, table(view), scene, colours)
        view, out = ghosted(view, before), writer(colours)
        wide = max(scene.width, below.width if below is not None else 0.0)
        high = scene.height + LINE_HEIGHT * len(view.notes)
        whole = high + (below.height if below is not None else 0.0)
        scale = scene.scale(wide)
        out.open(describe(view), (wide * scale, whole * scale), (wide, whole))
        left = (wide - scene.width) / 2
        out.parts.append(f'<g transform="translate({left:.1f} 0)">')
        out.shapes(legend(view, scene.width))
        for route in scene.routes:
            out.shapes(route_shapes(route, scene.upright, True))
        cards, edges = {card.key: card for card in view.cards}, {edge.key: edge for edge in view.edges}
        for placed in scene.cards:
            out.block(placed.x, placed.y, _card(placed, cards[placed.key], bool(view.seed)))
        for placed in scene.labels:
            out.block(placed.x, placed.y, _label(placed.block, edges[placed.key], scene.upright))
        for i, note in enumerate(view.notes):
            y = scene.height + i * LINE_HEIGHT
            out.text(Text(MARGIN, y, shorten(note, scene.width - 2 * MARGIN, SMALL), SMALL, "muted"))
        out.parts.append("</g>")
        if below is not None:
            out.block((wide - below.width) / 2, high, below)
        out.parts.append("</svg>")
        return "".join(out.parts)


def _card(placed: Placed, card: Card, seeded: bool) -> Block:
    """A card in its place with other numbers."""
    block = placed.block
    shapes, tail = list(block.shapes), []
    if block.tail and seeded:
        shapes, tail = shapes[:-_SEED_SHAPES], shapes[-_SEED_SHAPES:]
    starts = [i for i, shape in enumerate(shapes) if is_slot(shape)]
    head = [_retitled(shape, card) for shape in shapes[: starts[0] if starts else len(shapes)]]
    slots: list[Shape] = []
    for start in starts:
        place = shapes[start]
        assert isinstance(place, Rect)
        which = "value" if place.fill == "forward-slot" else "gradient"
        slots += _fitted(card, which, place)
    return replace(block, shapes=(*head, *slots, *tail), hint=card.title)


def _fitted(card: Card, which: str, place: Rect) -> list[Shape]:
    """What a slot holds now, in fewer digits where an exponent takes their room."""
    for digits in (_DIGITS, 2, 1):
        value, slot = _brief(card.value, digits), card.slot
        slot = slot and replace(slot, array=_brief(slot.array, digits))
        for note in (card.note, "") if card.note and which == "value" else (card.note,):
            drawn = fitted(replace(card, value=value, slot=slot, note=note), which, place)
            if drawn is not None:
                return drawn
    return [place]


def _retitled(shape: Shape, card: Card) -> Shape:
    """The title as it is now: a number that was computed outside the graph stands in it as such."""
    if isinstance(shape, Text) and shape.bold and shape.anchor == "start":
        room = max(width(shape.text, shape.size, bold=True), 1.0)
        return replace(shape, text=shorten(card.title, room, shape.size, bold=True))
    return shape


def _label(block: Block, edge: Edge, upright: bool) -> Block:
    ahead = [
        replace(shape, text=shorten(edge.forward, width(shape.text, shape.size, bold=True), shape.size, bold=True))
        for shape in block.shapes
        if isinstance(shape, Text) and shape.colour == "forward"
    ]
    if not edge.needs_grad:
        return replace(block, shapes=tuple(ahead))
    room = block.width - block.lanes[1] - 7.0 if upright else block.width
    rows = [(text, bold and not edge.numbers) for text, bold in label_rows(edge, "done", room)]
    return labelled(block, ahead, rows, "backward", upright)
