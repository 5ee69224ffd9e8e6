"""The picture of a pass at one of its steps: one layout for all of them, so that nothing moves but what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Literal

from netcl.viz.arrange import MARGIN, PAGE, Direction, Route, Scene, arrange
from netcl.viz.cards import LEAST, LINE_HEIGHT, ROOMY, SMALL, TIGHT, TITLE, redraw, wrap
from netcl.viz.fallback import write_table
from netcl.viz.layout import TIME_LIMIT, NoLayoutError
from netcl.viz.shapes import Arrow, Block, Line, Placed, Rect, Shape, Text
from netcl.viz.steps import Passage, Step
from netcl.viz.svg import Writer, route_shapes
from netcl.viz.text import shorten, width
from netcl.viz.values import ArrayView
from netcl.viz.views import Card, Edge, GraphView, Slot

_SEED_SHAPES = 4
_PILL = 17.0
_LINE = 94  # characters
Masks = Mapping[int, tuple[ArrayView | None, ArrayView | None]]  # by card: a value and a gradient to show instead


@dataclass(frozen=True, slots=True)
class Look:
    """What a frame shows: the step taken last; the one that is `asked` about; arrays and results to show instead."""

    at: int
    asked: int | None = None
    masks: Masks | None = None
    notes: Mapping[int, str] | None = None  # by edge
    unnumbered: bool = False  # waiting edges keep their order to themselves


class Frames:
    """The frames of a pass. `scene` is their common layout, or the reason why there is none."""

    def __init__(
        self, passage: Passage, direction: Direction = "auto", time_limit: float = TIME_LIMIT, page: float = PAGE
    ) -> None:
        self.passage, self.page = passage, page
        self.scene: Scene | str
        try:
            self.scene = arrange(_envelope(passage), direction, time_limit, page=page)
        except NoLayoutError as error:
            self.scene = f"shown as a table: {error}"

    @property
    def too_wide(self) -> bool:
        """Whether the picture is wider than a page."""
        return isinstance(self.scene, Scene) and not self.scene.fits

    def svg(self, look: Look, colours: Mapping[str, str], writer: type[Writer] = Writer) -> str:
        """One frame as an SVG element."""
        if isinstance(self.scene, str):
            told = [f"{step.number}. {step.sentence}" for step in self.passage.steps[: look.at + 1]]
            lines = [fill(text, _LINE, subsequent_indent="   ") for text in told]
            return write_table(self.passage.view, "\n".join(lines), self.scene, colours)
        return _Frame(self.passage, self.scene, look, writer(colours)).write()

    def chunks(self, look: Look, colours: Mapping[str, str], writer: type[Writer] = Writer) -> tuple[str, list[str]]:
        """One frame in parts: how its SVG element begins, and groups of which most stay the same from step to step."""
        if isinstance(self.scene, str):
            return self.svg(look, colours, writer).removesuffix("</svg>"), []
        frame = _Frame(self.passage, self.scene, look, writer(colours))
        return frame.opening(), frame.chunks()


def _envelope(passage: Passage) -> GraphView:
    """The graph with the longest numbers that any step shows, so that every step fits its layout."""
    cards = []
    for card in passage.view.cards:
        slot = card.slot
        arrays = [step.now for step in passage.steps if step.target == card.key and step.now is not None]
        if slot is not None and slot.array is not None and slot.array.cells:
            arrays = [array for array in arrays if array.shape == slot.array.shape]
            slot = replace(slot, array=_longest([slot.array, *arrays]))
        cards.append(replace(card, slot=slot))
    return replace(passage.view, cards=tuple(cards))


def _longest(arrays: list[ArrayView]) -> ArrayView:
    grids = [array.cells for array in arrays]
    rows = zip(*grids, strict=True)
    cells = tuple(tuple(max(texts, key=len) for texts in zip(*row, strict=True)) for row in rows)
    return replace(arrays[0], cells=cells)


class _Frame:
    def __init__(self, passage: Passage, scene: Scene, look: Look, writer: Writer) -> None:
        self.passage, self.scene, self.look, self.out = passage, scene, look, writer
        self.step: Step | None = passage.steps[look.at]
        if look.asked is not None:
            self.step = passage.steps[look.asked]
        self.edges = {edge.key: edge for edge in passage.view.edges}

    def write(self) -> str:
        return "".join([self.opening(), *self.chunks(), "</svg>"])

    def chunks(self) -> list[str]:
        """The elements in groups, the same number of them in every frame of a pass."""
        found = [self._drawn(self._heading())]
        found += [self._drawn(self._route(route)) for route in self.scene.routes]
        found += [self._block(placed, self._card(placed)) for placed in self.scene.cards]
        found += [self._block(placed, self._label(placed)) for placed in self.scene.labels]
        found += [self._drawn(self._pill(placed)) for placed in self.scene.labels]
        return found

    def _drawn(self, shapes: list[Shape]) -> str:
        self.out.parts.clear()
        self.out.shapes(shapes)
        return "".join(self.out.parts)

    def _block(self, placed: Placed, block: Block) -> str:
        self.out.parts.clear()
        self.out.block(placed.x, placed.y, block)
        return "".join(self.out.parts)

    def opening(self) -> str:
        """The start of the SVG element."""
        wide, high = self.scene.width, self.scene.height
        scale = self.scene.scale(wide)
        title = f"Backward pass of {self.passage.view.name}, step {self.look.at} of {self.passage.last}"
        said = self.passage.steps[self.look.at].sentence
        self.out.parts.clear()
        self.out.open((title, said), (wide * scale, high * scale), (wide, high))
        return "".join(self.out.parts)

    def _heading(self) -> list[Shape]:
        """Which step this is, and what the three kinds of line mean."""
        y, wide = MARGIN + 12, self.scene.width
        at = f"step {self.look.at} of {self.passage.last}"
        if self.look.asked is not None:
            at += ", and now?"
        shapes: list[Shape] = [Text(MARGIN, y, at, TITLE, "ink", bold=True)]
        x = wide - MARGIN
        room = x - MARGIN - width(at, TITLE, bold=True) - 24
        kinds: tuple[tuple[str, tuple[str, float, str] | None], ...] = (
            ("value read", None),
            ("done", ("backward", 1.6, "5 4")),
            ("now", ("backward", 3.6, "9 4")),
            ("waiting", ("off", 1.6, "1.5 4.5")),
        )
        for text, style in kinds:
            each = width(text, SMALL) + 32 + 18
            if style is None and room < 360:
                continue
            if x - each < wide - MARGIN - room:  # a narrow page
                break
            x -= width(text, SMALL)
            shapes.append(Text(x, y, text, SMALL, "muted"))
            if style is None:
                shapes.append(Rect(x - 24, y - 9, 18, 11, "page", "forward", 1.8, 2, "2 2.5"))
            else:
                shapes.append(Line(((x - 32, y - 4), (x - 6, y - 4)), *style))
            x -= each - width(text, SMALL)
        return shapes

    def _state(self, edge: int) -> str:
        asked = self.look.asked
        if asked is not None and self.passage.by_edge.get(edge) is self.passage.steps[asked]:
            return "asked"
        return self.passage.state(edge, self.look.at) if self._taken(edge) else "done"

    def _taken(self, edge: int) -> bool:
        """Nothing is current beside a question."""
        return self.look.asked is None or self.passage.state(edge, self.look.at) != "current"

    # Edges

    def _route(self, route: Route) -> list[Shape]:
        shapes = route_shapes(route, self.scene.upright, True)
        state = self._state(route.key)
        return shapes[:2] + [self._styled(shape, state) for shape in shapes[2:]]

    def _styled(self, shape: Shape, state: str) -> Shape:
        if state == "done":
            return shape
        bold = state in ("current", "asked")
        if isinstance(shape, Line):
            return replace(shape, line=3.6, dash="9 4") if bold else replace(shape, colour="off", dash="1.5 4.5")
        if isinstance(shape, Arrow):
            return replace(shape, size=13.0) if bold else replace(shape, colour="off")
        return shape

    def _label(self, placed: Placed) -> Block:
        """The label of an edge, with as much of the backward side as has happened."""
        edge, block = self.edges[placed.key], placed.block
        ahead = [shape for shape in block.shapes if isinstance(shape, Text) and shape.colour == "forward"]
        if not edge.needs_grad:
            return replace(block, shapes=tuple(ahead))
        state = self._state(edge.key)
        upright = self.scene.upright
        room = block.width - block.lanes[1] - 7.0 if upright else block.width
        rows = label_rows(edge, state, room)
        note = (self.look.notes or {}).get(edge.key)
        if note is not None and state in ("current", "done"):
            rows = [(text, False) for text in wrap(note, room, SMALL, most=3)]
        return labelled(block, ahead, rows, "off" if state in ("waiting", "none") else "backward", upright)

    def _pill(self, placed: Placed) -> list[Shape]:
        """The number of the step, on its lane."""
        step = self.passage.by_edge.get(placed.key)
        if step is None:
            return []
        block, state = placed.block, self._state(placed.key)
        if self.look.unnumbered and state == "waiting":
            return []
        middle = placed.x + block.lanes[1] if self.scene.upright else placed.x + block.width / 2
        y = placed.y + (block.height / 2 if self.scene.upright else block.lanes[1])
        text = "?" if state == "asked" else str(step.number)
        wide = max(_PILL, width(text, SMALL, bold=True) + 9)
        filled = state in ("current", "asked")
        colour = "off" if state == "waiting" else "backward"
        fill = colour if filled else "chip"
        dash = "2 2" if state == "waiting" else ""
        return [
            Rect(middle - wide / 2, y - _PILL / 2, wide, _PILL, fill, colour, 1.3, _PILL / 2, dash),
            Text(middle, y + 4.2, text, SMALL, "page" if filled else colour, "middle", True),
        ]

    # Cards

    def _card(self, placed: Placed) -> Block:
        card = self.passage.view.card(placed.key)
        block = placed.block
        shapes, tail = list(block.shapes), []
        if block.tail:
            shapes, tail = shapes[:-_SEED_SHAPES], shapes[-_SEED_SHAPES:]
        starts = [i for i, shape in enumerate(shapes) if is_slot(shape)]
        if starts:
            head, slots = shapes[: starts[0]], []
            for start, end in zip(starts, [*starts[1:], len(shapes)], strict=True):
                slots += self._slot(card, shapes[start:end])
            shapes = self._framed(card, head) + slots
        else:
            shapes = self._framed(card, shapes)
        return replace(block, shapes=(*shapes, *tail), hint=card.title)

    def _framed(self, card: Card, shapes: list[Shape]) -> list[Shape]:
        frame = shapes[0]
        if isinstance(frame, Rect) and self.step is not None and self._aim(card.key):
            frame = replace(frame, stroke="backward", line=3.0)
        return [frame, *shapes[1:]]

    def _aim(self, key: int) -> bool:
        step = self.step
        assert step is not None
        used = self.edges[step.edge].parent if step.edge is not None else step.target
        return key in (step.target, used)

    def _slot(self, card: Card, shapes: list[Shape]) -> list[Shape]:
        place = shapes[0]
        assert isinstance(place, Rect)
        lane_of = "value" if place.fill == "forward-slot" else "gradient"
        value, gradient = (self.look.masks or {}).get(card.key, (None, None))
        if lane_of == "value":
            drawn = shapes if value is None else fitted(replace(card, value=value), "value", place) or shapes
            if self.step is not None and card.key in self.step.reads:
                drawn = [_outlined(drawn[0], "forward", 1.8, "2 2.5"), *drawn[1:]]
            return drawn
        slot = self._slot_now(card)
        if slot is not None and gradient is not None and slot.array is not None:
            slot = replace(slot, array=gradient, formula="", total="", note="")
        drawn = fitted(replace(card, slot=slot), "gradient", place) or [place]
        if self.step is not None and self.step.edge is not None and card.key == self.step.child:
            drawn = [_outlined(drawn[0], "backward", 1.4, ""), *drawn[1:]]
        return drawn

    def _slot_now(self, card: Card) -> Slot | None:
        asked = self.look.asked
        slot = self.passage.slot(card, self.look.at)
        if asked is None or self.passage.steps[asked].target != card.key:
            return slot
        held = slot.array if slot is not None else None
        return Slot("value", held, total="+ ?" if held is not None else "?")


def labelled(block: Block, ahead: list[Text], rows: list[tuple[str, bool]], colour: str, upright: bool) -> Block:
    """A label with other rows on its backward side; it keeps its size."""
    top = (block.height - len(rows) * LINE_HEIGHT) / 2 + 12.5 if upright else block.lanes[1] + 21.0
    x = block.lanes[1] + 13.0 if upright else block.width / 2
    anchor: Literal["start", "middle"] = "start" if upright else "middle"
    back = [Text(x, top + i * LINE_HEIGHT, text, SMALL, colour, anchor, bold) for i, (text, bold) in enumerate(rows)]
    return replace(block, shapes=(*ahead, *back))


def is_slot(shape: Shape) -> bool:
    return (
        isinstance(shape, Rect) and isinstance(shape.fill, str) and shape.fill.endswith("-slot") and shape.radius == 4
    )


def _outlined(shape: Shape, stroke: str, line: float, dash: str) -> Shape:
    return replace(shape, stroke=stroke, line=line, dash=dash) if isinstance(shape, Rect) else shape


def fitted(card: Card, which: str, place: Rect) -> list[Shape] | None:
    """A slot with as much in it as there is room for."""
    variants = [card]
    if which == "gradient" and card.slot is not None:
        slot = card.slot
        variants += [replace(card, slot=replace(slot, note="")), replace(card, slot=replace(slot, note="", total=""))]
        variants.append(replace(card, slot=replace(slot, note="", total="", formula="")))
    for variant in variants:
        for limits in (ROOMY, TIGHT, LEAST, replace(ROOMY, slot=place.width), replace(TIGHT, slot=place.width)):
            drawn = redraw(variant, "value" if which == "value" else "gradient", limits, place)
            if drawn is not None:
                return drawn
    return None


def label_rows(edge: Edge, state: str, room: float) -> list[tuple[str, bool]]:
    """The backward side of a label: the rule, and what came of it once it has."""
    happened = state in ("current", "done")
    if edge.numbers and happened:
        product, _, result = edge.numbers.removeprefix("upstream ").rpartition(" → ")
        whole = f"{product} → {result}"
        if width(whole, SMALL, bold=state == "current") <= room:
            return [(whole, state == "current")]
        return [(product, False), (f"→ {result}", state == "current")]
    rows = [(text, True) for text in wrap(edge.rule, room, SMALL, bold=True, most=2)] if edge.rule else []
    rows += [(text, True) for text in wrap(edge.after, room, SMALL, bold=True, most=2)] if edge.after else []
    if state == "asked":
        rows.append(("→ ?", True))
    if happened and edge.contribution is not None:
        rows.append((shorten(f"→ {edge.contribution.brief(int(room / 8))}", room, SMALL), False))
    return rows
