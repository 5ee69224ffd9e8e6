"""Cards and labels of known size, so that the layout decides where they stand and nothing overflows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from netcl.viz.shapes import Block, Line, Rect, Shape, Text
from netcl.viz.text import shorten, width
from netcl.viz.values import ArrayView, shape_text
from netcl.viz.views import SLOT_TEXT, Card, Slot

Form = Literal["side", "stack", "wide"]

# Sizes in the picture's own units; at 720 px none is drawn smaller than 11 px.
SMALL, NORMAL, TITLE = 12.0, 13.0, 15.0
LINE_HEIGHT = 16.0
PAD = 10.0
SLOT_PAD = 8.0
SLOT_GAP = 8.0
_ROW = 19.0
_BARS_HEIGHT = 18.0
_BAR = 6.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a picture may show before it says less: the widest slot, title and label."""

    slot: float
    title: float
    label: float
    rows: int = 8


ROOMY = Limits(slot=310.0, title=330.0, label=200.0)
TIGHT = Limits(slot=168.0, title=220.0, label=136.0, rows=4)
LEAST = Limits(slot=134.0, title=160.0, label=100.0, rows=4)


@dataclass(frozen=True, slots=True)
class _Part:
    """A slot before its width is settled."""

    width: float
    height: float
    lines: tuple[tuple[str, float, str, bool, bool], ...]  # text, size, colour, bold, mono
    array: ArrayView | None
    lane: str
    heads: int  # lines above the numbers


def wrap(text: str, room: float, size: float, *, bold: bool = False, most: int = 3) -> list[str]:
    """The text in at most `most` lines, broken between words, the last one shortened if it must be.

    >>> wrap("backward not run", 60.0, 12.0)
    ['backward', 'not run']
    """
    lines: list[str] = []
    words = text.split(" ")
    while words and len(lines) < most - 1:
        count = len(words)
        while count > 1 and width(" ".join(words[:count]), size, bold=bold) > room:
            count -= 1
        lines.append(shorten(" ".join(words[:count]), room, size, bold=bold))
        words = words[count:]
    if words:
        lines.append(shorten(" ".join(words), room, size, bold=bold))
    return [line for line in lines if line]


def _grid_width(array: ArrayView) -> float:
    widest = max(len(text) for row in array.cells for text in row)
    return len(array.cells[0]) * (widest * NORMAL * 0.62 + 8)


def _shown(array: ArrayView | None, limits: Limits) -> ArrayView | None:
    """The array, without its cells where they would not fit."""
    if array is None or not array.cells:
        return array
    if len(array.cells) > limits.rows or _grid_width(array) > limits.slot - 2 * SLOT_PAD:
        return replace(array, cells=(), tints=())
    return array


def _value_part(card: Card, limits: Limits) -> _Part:
    return _part("value", "", card.value, [(card.note, "muted")] if card.note else [], "forward", limits)


def _slot_part(card: Card, slot: Slot, limits: Limits) -> _Part:
    said = SLOT_TEXT[slot.state]
    extra = [(text, colour) for text, colour in ((slot.total, "backward"), (slot.note, "muted")) if text]
    lane = "tangent" if slot.state == "tangent" else "backward" if slot.state in ("value", "zero") else "off"
    lines = [(said, "muted")] if said else []
    return _part(card.caption, slot.formula, slot.array, lines + extra, lane, limits)


def _part(
    caption: str, formula: str, array: ArrayView | None, below: Sequence[tuple[str, str]], lane: str, limits: Limits
) -> _Part:
    room = limits.slot - 2 * SLOT_PAD
    colour = lane if lane in ("forward", "tangent") else "backward"
    whole = f"{caption} = {formula}" if formula else caption
    if formula and width(whole, SMALL, bold=True) > max(room * 0.6, 150.0):
        heads = [shorten(caption, room, SMALL, bold=True), shorten(f"= {formula}", room, SMALL, bold=True)]
    else:
        heads = [shorten(whole, room, SMALL, bold=True)]
    lines = [(head, SMALL, colour, True, False) for head in heads]
    shown = _shown(array, limits)
    body = 0.0
    if shown is not None and shown.cells:
        body = len(shown.cells) * _ROW + 2
        wide = _grid_width(shown)
    else:
        wide = 0.0
        for text in _summary(shown, room):
            lines.append((shorten(text, room, SMALL), SMALL, "ink", False, False))
        if shown is not None and shown.bars:
            body, wide = _BARS_HEIGHT, len(shown.bars) * _BAR
    pieces = [(piece, c) for text, c in below for piece in text.replace(", ", ",\n").split("\n")]
    above = len(lines)
    feet = [
        (line, SMALL, c, c == "backward", False) for text, c in pieces for line in wrap(text, min(room, 150.0), SMALL)
    ]
    every = [*lines, *feet]
    wide = max([wide, *(width(t, s, bold=b, mono=m) for t, s, _, b, m in every)])
    height = len(every) * LINE_HEIGHT + body + 10
    return _Part(min(wide, room) + 2 * SLOT_PAD, height, tuple(every), shown, lane, above)


def _summary(array: ArrayView | None, room: float) -> list[str]:
    if array is None:
        return []
    if array.size == 0:
        return ["no entries"]
    if array.uniform is not None:
        return [f"{array.uniform}", "at every entry"]
    lines = [""]
    for name, text in array.stats:
        longer = f"{lines[-1]} {name} {text}".strip()
        if width(longer, SMALL) <= room and lines[-1].count(" ") < 3:
            lines[-1] = longer
        else:
            lines.append(f"{name} {text}")
    if array.sampled and array.bars:
        lines.append(f"bars: {array.sampled:,} sampled".replace(",", " "))
    return [line for line in lines if line]


def _draw_part(part: _Part, x: float, y: float, wide: float, high: float) -> list[Shape]:
    shapes: list[Shape] = [Rect(x, y, wide, high, f"{part.lane}-slot", radius=4)]
    at = y + 15
    cells_drawn = False
    for index, (text, size, colour, bold, mono) in enumerate(part.lines):
        if not cells_drawn and (index == part.heads):
            at += _draw_body(part, x, at - 11, wide, shapes)
            cells_drawn = True
        shapes.append(Text(x + wide / 2, at, text, size, colour, "middle", bold, mono))
        at += LINE_HEIGHT
    if not cells_drawn:
        _draw_body(part, x, at - 11, wide, shapes)
    return shapes


def _draw_body(part: _Part, x: float, y: float, wide: float, shapes: list[Shape]) -> float:
    array = part.array
    if array is None:
        return 0.0
    if not array.cells:
        if array.bars:
            left = x + (wide - len(array.bars) * _BAR) / 2
            base = y + 3 + _BARS_HEIGHT - 4
            for i, n in enumerate(array.bars):
                shapes.append(Rect(left + i * _BAR, base - max(n, 0.5), _BAR - 1, max(n, 0.5), f"{part.lane}-tint"))
            return _BARS_HEIGHT
        return 0.0
    columns = len(array.cells[0])
    cell = min(_grid_width(array) / columns * 1.35, (wide - 2 * SLOT_PAD) / columns)
    left = x + (wide - columns * cell) / 2
    for i, (row, tints) in enumerate(zip(array.cells, array.tints, strict=True)):
        for j, (text, tint) in enumerate(zip(row, tints, strict=True)):
            shapes += _cell(left + j * cell, y + i * _ROW, cell, text, tint, part.lane)
    return len(array.cells) * _ROW + 2


def _cell(x: float, y: float, wide: float, text: str, tint: float, lane: str) -> list[Shape]:
    slot = f"{lane}-slot"
    odd = math.isnan(tint)
    tinted = "negative-tint" if tint < 0 or lane == "off" else f"{lane}-tint"
    fill = "warn-slot" if odd else (slot, tinted, round(abs(tint), 2))
    shapes: list[Shape] = [Rect(x + 0.5, y + 0.5, wide - 1, _ROW - 1, fill, radius=2)]
    if odd:  # a pattern, since colour alone must not carry a meaning
        step = 6.0
        top, bottom = y + _ROW - 3.5, y + _ROW - 1.5
        marks = int((wide - 4) // step)
        shapes += [Line(((x + 2 + step * k, bottom), (x + 4 + step * k, top)), "warn", 1.0) for k in range(marks)]
    return [*shapes, Text(x + wide / 2, y + 14, text, NORMAL, "ink", "middle", mono=True)]


def meta(card: Card) -> str:
    """What stands beside the title: op, shape and dtype, or which use of a leaf it is."""
    if card.kind == "fold":
        return ""
    if card.kind == "use":
        return card.use
    kind = card.op if card.op else card.kind
    return " · ".join(part for part in (kind, shape_text(card.shape), card.dtype, card.use) if part)


def _under_title(card: Card) -> tuple[str, ...]:
    unneeded = card.slot is not None and card.slot.state == "not needed"
    return (*card.lines, *card.badges, *((SLOT_TEXT["not needed"],) if unneeded else ()))


def redraw(card: Card, lane: Literal["value", "gradient"], limits: Limits, place: Rect) -> list[Shape] | None:
    """One slot of a card drawn anew in its place, or None where it does not fit under these limits."""
    if lane == "gradient" and card.slot is None:
        return None
    part = _value_part(card, limits) if card.slot is None or lane == "value" else _slot_part(card, card.slot, limits)
    if part.width > place.width + 0.5 or part.height > place.height + 0.5:
        return None
    return _draw_part(part, place.x, place.y, place.width, place.height)


@dataclass(frozen=True, slots=True)
class CardParts:
    """A card measured but not yet composed; `columns` are the widths that its parts ask for."""

    card: Card
    limits: Limits
    slots: tuple[_Part, ...]
    title: float
    meta: float

    @property
    def columns(self) -> tuple[float, float]:
        slots = max((part.width for part in self.slots), default=0.0)
        return max(self.title, self.meta), slots


def measure(card: Card, limits: Limits, known: CardParts | None = None) -> CardParts:
    """Decide what a card shows, and how wide its parts are; `known` is the same card with other words about its use."""
    if known is not None:
        slots = known.slots
    else:
        slots = () if card.value is None else (_value_part(card, limits),)
        if card.slot is not None and card.slot.state != "not needed":
            slots = (*slots, _slot_part(card, card.slot, limits))
    title = min(width(card.title, TITLE, bold=True), limits.title)
    said = min(width(meta(card), SMALL), limits.title)
    extra = [width(line, SMALL) for line in _under_title(card)]
    return CardParts(card, limits, slots, title, min(max([said, *extra]), limits.title))


def compose(parts: CardParts, form: Form, columns: tuple[float, float] | None = None) -> Block:
    """Compose a card: slots side by side, one above the other, or both to the right of the name (`wide`).

    `columns` are widths shared by several cards: that of the name (or of the whole card), and that of a slot.
    """
    if form == "wide":
        return _compose_wide(parts, columns or parts.columns)
    card = parts.card
    names, slot = parts.columns
    count = len(parts.slots)
    across = count if form == "side" else 1
    slots_wide = across * slot + max(across - 1, 0) * SLOT_GAP
    inner = max(names, slots_wide, columns[0] - 2 * PAD if columns else 0.0)
    one_line = parts.title + parts.meta + 16 <= inner and not _under_title(card)
    shapes: list[Shape] = _heading(parts, PAD, inner, one_line)
    y = PAD + 20 + (0 if one_line or not meta(card) else LINE_HEIGHT) + LINE_HEIGHT * len(_under_title(card))
    if count:
        y += 2
    each = (inner - (across - 1) * SLOT_GAP) / max(across, 1)
    tall = max((part.height for part in parts.slots), default=0.0)
    for i, part in enumerate(parts.slots):
        high = tall if form == "side" else part.height
        x = PAD + (i * (each + SLOT_GAP) if form == "side" else 0.0)
        shapes += _draw_part(part, x, y, each, high)
        if form == "stack" or i == count - 1:
            y += high + (6 if i < count - 1 else 0)
    return _framed(card, inner + 2 * PAD, y + PAD - (4 if not count else 0), shapes, (0.0, 0.0))


def _compose_wide(parts: CardParts, columns: tuple[float, float]) -> Block:
    names, slot = columns
    high = max((part.height for part in parts.slots), default=40.0)
    high = max(high, 44.0 + LINE_HEIGHT * len(_under_title(parts.card)))
    top = 7.0
    lines = 2 + len(_under_title(parts.card))
    shapes = [
        _lowered(shape, top + (high - lines * LINE_HEIGHT) / 2 - 12) for shape in _heading(parts, PAD + 4, names, False)
    ]
    left = PAD + 4 + names + 18
    lanes = (left + slot / 2, left + slot + SLOT_GAP + slot / 2)
    for i, part in enumerate(parts.slots):
        shapes += _draw_part(part, left + i * (slot + SLOT_GAP), top, slot, high)
    return _framed(parts.card, left + 2 * slot + SLOT_GAP + top, high + 2 * top, shapes, lanes)


def _lowered(shape: Shape, by: float) -> Shape:
    return replace(shape, y=shape.y + by) if isinstance(shape, Text | Rect) else shape


def _heading(parts: CardParts, x: float, wide: float, one_line: bool) -> list[Shape]:
    card = parts.card
    said = meta(card)
    room = wide - parts.meta - 16 if one_line else wide
    shapes: list[Shape] = [Text(x, PAD + 13, shorten(card.title, room, TITLE, bold=True), TITLE, bold=True)]
    y = PAD + 13
    if said:
        y += 0 if one_line else LINE_HEIGHT + 1
        at = x + wide if one_line else x
        anchor = "end" if one_line else "start"
        shapes.append(Text(at, y, shorten(said, wide, SMALL), SMALL, "muted", anchor))
    for line in _under_title(card):
        colour = "warn" if line in card.badges else "muted"
        y += LINE_HEIGHT
        shapes.append(
            Text(x, y, shorten(line, wide, SMALL, bold=colour == "warn"), SMALL, colour, bold=colour == "warn")
        )
    return shapes


def _framed(card: Card, wide: float, high: float, shapes: Sequence[Shape], lanes: tuple[float, float]) -> Block:
    leaf = card.kind in ("leaf", "constant", "use")
    frame = Rect(
        0, 0, wide, high, "card",
        stroke="ink" if card.kind in ("leaf", "root") else "frame",
        line=2.0 if card.kind in ("leaf", "root") else 1.0,
        radius=2 if leaf else 9,
        dash="4 3" if card.kind in ("fold", "constant", "use") else "",
    )  # fmt: skip
    return Block(wide, high, (frame, *shapes), hint=_hint(card), lanes=lanes)


def _hint(card: Card) -> str:
    parts = [card.title, meta(card)]
    if card.value is not None:
        parts.append(f"value {card.value.line(120)}")
    if card.slot is not None:
        said = SLOT_TEXT[card.slot.state]
        numbers = card.slot.array.line(120) if card.slot.array is not None else ""
        parts.append(" ".join(part for part in (card.caption, said, numbers, card.slot.total, card.slot.note) if part))
    return "; ".join(part for part in parts if part)
