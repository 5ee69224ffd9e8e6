"""`filmstrip`: the steps of a backward pass beside one another, in one picture that needs no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from netcl.errors import ArgumentError
from netcl.viz.arrange import LEAST_TEXT, MARGIN, PAGE, checked, units
from netcl.viz.cards import LINE_HEIGHT, NORMAL, SMALL, TITLE, wrap
from netcl.viz.drawing import Drawing
from netcl.viz.fallback import write_table
from netcl.viz.frames import Frames
from netcl.viz.layout import TIME_LIMIT, Laid, NoLayoutError, layer, place
from netcl.viz.names import caller_frame
from netcl.viz.page import page as page_of
from netcl.viz.palette import theme as find_theme
from netcl.viz.replay import replay
from netcl.viz.shapes import Arrow, Block, Line, Rect, Shape, Text
from netcl.viz.steps import Passage, Step
from netcl.viz.svg import Writer
from netcl.viz.text import counted, shorten, width
from netcl.viz.values import ArrayView
from netcl.viz.views import SLOT_TEXT, Card

MOST_FRAMES = 12
_MOST_NODES = 24
_GAP = 22.0
_LEAST_FRAME, _LEAST_UPRIGHT = 300.0, 226.0
_PILL = 17.0
_TEXT = 15  # characters of an array on one line
_ROWS = 3
_LINES = 9
_MOST_CARD = 190.0
_ONE_LINE = 560.0  # a narrower heading has its legend below


@dataclass(frozen=True, slots=True)
class _Mini:
    """The common layout of all frames: a small card for each node, a number for each edge."""

    width: float
    height: float
    upright: bool
    cards: Mapping[int, tuple[float, float, float, float]]
    routes: Mapping[int, tuple[tuple[float, float], ...]]


class Filmstrip(Drawing):
    """The steps of a pass as one picture; `view` is the graph that it goes through."""

    def __init__(
        self, passage: Passage, theme: str = "light", most: int = MOST_FRAMES, notes: tuple[str, ...] = (),
        page: float = PAGE,
    ) -> None:  # fmt: skip
        super().__init__(passage.view, "", theme)
        self.page = page
        self.passage, self._most, self._notes, self._scheme = passage, most, notes, theme

    @cached_property
    def svg(self) -> str:
        """The picture as one SVG element."""
        colours = find_theme(self._scheme)
        try:
            return _Strip(self.passage, self._most, self._notes, self.page).write(colours)
        except NoLayoutError as error:
            return write_table(self.view, self.text, f"shown as a table: {error}", colours)

    @cached_property
    def text(self) -> str:
        """The steps in words, one a line."""
        wide = len(str(self.passage.last))
        lines = [f"step {step.number:>{wide}}: {step.sentence}" for step in self.passage.steps]
        return "\n".join([f"backward pass of {self.view.name}, step by step", "", *lines, *self._notes])

    @property
    def _page(self) -> str:
        return page_of(Frames(self.passage, page=self.page), self._notes)

    def __repr__(self) -> str:
        return f"<Filmstrip of {self.view.name}: {counted(self.passage.last, 'step')}>"


def filmstrip(
    root: Any,
    *,
    names: Mapping[Any, str] | None = None,
    theme: str = "light",
    most: int = MOST_FRAMES,
    page: float = PAGE,
) -> Filmstrip:
    """Lay the steps of the backward pass of a node (or of a tape's last one) out as one picture.

    The pass is run again on a copy of the graph's records, from the seed of the last backward or from ones: nothing in
    the graph changes. A pass of more than `most` steps has the middle ones left out, and says so. `page` is how wide
    the output area is.

    Units:   `page` in CSS pixels, from 400
    Raises:  ArgumentError if `root` has no graph or an argument is not one of the above; GraphError if it was released

    >>> from netcl import autograd as ag, viz
    >>> a = ag.tensor(2.0, requires_grad=True)
    >>> b = ag.tensor(3.0, requires_grad=True)
    >>> f = a * b + a ** 2
    >>> viz.filmstrip(f)
    <Filmstrip of f: 5 steps>
    """
    find_theme(theme)
    checked(page)
    if most < 2:
        raise ArgumentError(f"a filmstrip has 2 frames or more, not {most}")
    run = replay(root, names, caller_frame(), _MOST_NODES)
    return Filmstrip(run.passage, theme, most, run.notes, page)


def _texts(array: ArrayView | None, most: int, mark: str = "") -> list[str]:
    """An array in a few short lines: row by row where it is small."""
    if array is None:
        return []
    rows = [" ".join(row) for row in array.cells]
    if len(array.shape) < 1 or array.uniform is not None or len(rows) > most or not rows:
        rows = [array.brief(_TEXT)]
    elif max(map(len, rows)) > _TEXT:
        rows = [" ".join(array.stats[-1])]
    return [f"{mark}{rows[0]}", *rows[1:]]


class _Strip:
    def __init__(self, passage: Passage, most: int, notes: tuple[str, ...], page: float) -> None:
        self.passage, self.room = passage, units(page)
        self.notes = [*passage.view.notes, *notes]
        self.steps = list(passage.steps)
        if len(self.steps) > most:
            left_out = self.steps[most - 1 : -1]
            self.steps = [*self.steps[: most - 1], self.steps[-1]]
            first, last = left_out[0].number, left_out[-1].number
            which = f"steps {first} to {last} are" if last > first else f"step {first} is"
            self.notes.append(f"{which} left out here; viz.step and the saved HTML page show every one")
        self.rows = _ROWS
        self.shown = [card for card in passage.view.cards if card.kind != "constant"]
        self.mini = self._lay()
        least = _LEAST_UPRIGHT if self.mini.upright else _LEAST_FRAME
        fits = self.mini.width + 2 * MARGIN <= self.room
        self.room = max(self.room, self.mini.width + 16 + 2 * MARGIN) if not fits else self.room
        self.scale = page / self.room if fits else LEAST_TEXT / SMALL
        self.top = MARGIN + (44.0 if self.room >= _ONE_LINE else 44.0 + LINE_HEIGHT)
        self.columns = max(1, int((self.room - 2 * MARGIN + _GAP) / (max(self.mini.width + 16, least) + _GAP)))
        self.frame = (self.room - 2 * MARGIN - (self.columns - 1) * _GAP) / self.columns

    def _lines(self, card: Card, at: int) -> list[tuple[str, float, str, bool]]:
        """What a small card says: its name, its value, its gradient; as text, size, colour and weight."""
        name = [(card.title if card.kind == "fold" else card.name, NORMAL, "ink", True)]
        if card.kind == "fold":
            return name
        if card.kind == "use":
            return [*name, (card.use, SMALL, "muted", False)]
        values = [(text, SMALL, "forward", False) for text in _texts(card.value, self.rows)]
        slot = self.passage.slot(card, at)
        if slot is None or slot.array is None:
            return [*name, *values, ("not yet" if slot is None else SLOT_TEXT[slot.state], SMALL, "off", False)]
        aim = self.passage.steps[at].target == card.key
        return [*name, *values, *((text, SMALL, "backward", aim) for text in _texts(slot.array, self.rows, "∂ "))]

    def _size(self, card: Card) -> tuple[float, float]:
        """Room for the longest that any of the frames shows."""
        every = [self._lines(card, step.number) for step in self.steps]
        wide = max(width(text, size, bold=True) for lines in every for text, size, _, _ in lines)
        return min(wide, _MOST_CARD) + 14, max(map(len, every)) * LINE_HEIGHT + 10

    def _lay(self) -> _Mini:
        view = self.passage.view
        keys = {card.key for card in self.shown}
        from_shown = tuple(edge for edge in view.edges if edge.parent in keys)
        graph = type(view)(view.root, view.name, tuple(self.shown), from_shown, view.seed, view.ran)
        for upright in (False, True):
            self.rows = 1 if upright else _ROWS  # a picture that runs down is high enough without
            sizes = {card.key: self._size(card) for card in self.shown}
            cards = {key: Block(*size, ()) for key, size in sizes.items()}
            across = {key: size[0] if upright else size[1] for key, size in sizes.items()}
            spots = Block(24.0, 24.0, (), lanes=(12.0, 12.0))
            labels = dict.fromkeys((edge.key for edge in from_shown), spots)
            rows = layer(
                graph, across, dict.fromkeys(labels, 24.0), self.room - 2 * MARGIN if upright else float("inf")
            )
            laid = place(graph, rows, cards, labels, upright, time_limit=TIME_LIMIT)
            wide = laid.across if upright else laid.along
            if wide <= self.room - 2 * MARGIN or upright:
                return _mini(laid, sizes, upright)
        raise AssertionError  # the loop returns

    # Drawing

    def write(self, colours: Mapping[str, str]) -> str:
        out = Writer(colours)
        placed: list[tuple[float, float, Step, list[str]]] = []
        y = self.top
        for start in range(0, len(self.steps), self.columns):
            row = self.steps[start : start + self.columns]
            captions = [wrap(step.sentence, self.frame - 20, SMALL, most=_LINES) for step in row]
            for i, (step, lines) in enumerate(zip(row, captions, strict=True)):
                placed.append((MARGIN + i * (self.frame + _GAP), y, step, lines))
            y += self.mini.height + 44 + LINE_HEIGHT * max(map(len, captions)) + _GAP
        notes = [line for note in self.notes for line in wrap(note, self.room - 2 * MARGIN, SMALL)]
        high = y + LINE_HEIGHT * len(notes)
        title = f"Backward pass of {self.passage.view.name}, step by step"
        said = " ".join(f"{step.number}. {step.sentence}" for step in self.steps)
        out.open((title, said), (self.room * self.scale, high * self.scale), (self.room, high))
        out.shapes(self._heading())
        for x, top, step, lines in placed:
            out.block(x, top, self._frame(step, lines))
        out.shapes(Text(MARGIN, y + 12 + i * LINE_HEIGHT, line, SMALL, "muted") for i, line in enumerate(notes))
        out.parts.append("</svg>")
        return "".join(out.parts)

    def _heading(self) -> list[Shape]:
        root = self.passage.view.card(self.passage.view.root)
        one_line = self.room >= _ONE_LINE
        room = self.room - 2 * MARGIN - (330 if one_line else 0)
        title = shorten(f"Backward pass of {root.title}", room, TITLE, bold=True)
        y = MARGIN + 14
        shapes: list[Shape] = [Text(MARGIN, y, title, TITLE, bold=True)]
        x, y = self.room - MARGIN, y if one_line else y + LINE_HEIGHT + 2
        for text, line, dash in (("done", 1.6, "5 4"), ("now", 3.4, "9 4"), ("waiting", 1.6, "1.5 4.5")):
            x -= width(text, SMALL)
            shapes.append(Text(x, y, text, SMALL, "muted"))
            colour = "off" if text == "waiting" else "backward"
            shapes.append(Line(((x - 32, y - 4), (x - 6, y - 4)), colour, line, dash))
            x -= 50
        said = f"∂ is ∂{root.name}/∂…"
        x -= width(said, SMALL)
        if x > MARGIN + (width(title, TITLE, bold=True) + 20 if one_line else 0):
            shapes.append(Text(x + 8, y, said, SMALL, "backward"))
        return shapes

    def _frame(self, step: Step, lines: list[str]) -> Block:
        high = self.mini.height + 44 + LINE_HEIGHT * len(lines)
        shapes: list[Shape] = [Rect(0, 0, self.frame, high, "page", "faint", 1.0, 8)]
        text = f"step {step.number}" if step.edge is not None else "step 0: the seed"
        shapes.append(Text(10, 19, text, NORMAL, "ink", bold=True))
        left = (self.frame - self.mini.width) / 2
        shapes += [shape for key in self.mini.routes for shape in self._route(key, step, left, 30.0)]
        for card in self.shown:
            shapes += self._card(card, step, left, 30.0)
        y = self.mini.height + 50
        shapes += [Text(10, y + i * LINE_HEIGHT, line, SMALL, "ink") for i, line in enumerate(lines)]
        return Block(self.frame, high, tuple(shapes), hint=text)

    def _card(self, card: Card, step: Step, left: float, top: float) -> list[Shape]:
        x, y, wide, high = self.mini.cards[card.key]
        x, y = x + left, y + top
        edge = next((each for each in self.passage.view.edges if each.key == step.edge), None)
        aim = card.key == step.target or (edge is not None and edge.parent == card.key)
        stroke, line = ("backward", 3.0) if aim else ("ink", 1.8) if card.kind in ("leaf", "root") else ("frame", 1.0)
        dash = "4 3" if card.kind in ("use", "fold") else ""
        radius = 2 if card.kind in ("leaf", "use") else 7
        shapes: list[Shape] = [Rect(x, y, wide, high, "card", stroke, line, radius, dash)]
        at = y + 17
        for text, size, role, bold in self._lines(card, step.number):
            shown = shorten(text, wide - 8, size, bold=bold)
            shapes.append(Text(x + wide / 2, at, shown, size, role, "middle", bold))
            at += LINE_HEIGHT
        return shapes

    def _route(self, key: int, step: Step, left: float, top: float) -> list[Shape]:
        taken = self.passage.by_edge.get(key)
        if taken is None:
            return []
        state = self.passage.state(key, step.number)
        points = [(x + left, y + top) for x, y in reversed(self.mini.routes[key])]
        (x, y) = points[-1]
        upright, now = self.mini.upright, state == "current"
        end = (x, y + 8) if upright else (x + 8, y)
        colour = "off" if state == "waiting" else "backward"
        dash = {"current": "9 4", "done": "5 4"}.get(state, "1.5 4.5")
        curve = "upright" if upright else "flat"
        shapes: list[Shape] = [Line((*points[:-1], end), colour, 3.4 if now else 1.6, dash, curve)]
        tip = (x, y + 1) if upright else (x + 1, y)
        shapes.append(Arrow(tip, "up" if upright else "left", colour, 12.0 if now else 9.0))
        (ax, ay), (bx, by) = points[2:4]  # where the number's place is passed
        cx, cy, text = (ax + bx) / 2, (ay + by) / 2, str(taken.number)
        wide = max(_PILL, width(text, SMALL, bold=True) + 8)
        fill, said = (colour, "page") if now else ("chip", colour)
        pill_dash = "2 2" if state == "waiting" else ""
        shapes.append(Rect(cx - wide / 2, cy - _PILL / 2, wide, _PILL, fill, colour, 1.3, _PILL / 2, pill_dash))
        return [*shapes, Text(cx, cy + 4.2, text, SMALL, said, "middle", True)]


def _mini(laid: Laid, sizes: Mapping[int, tuple[float, float]], upright: bool) -> _Mini:
    def at(point: tuple[float, float]) -> tuple[float, float]:
        return (point[1], point[0]) if upright else point

    cards = {key: (*at(laid.cards[key]), *sizes[key]) for key in sizes}
    routes = {key: tuple(at(point) for point in points) for key, points in laid.routes.items()}
    wide, high = at((laid.along, laid.across))
    low = min([y for _, y, _, _ in cards.values()], default=0.0)
    left = min([x for x, _, _, _ in cards.values()], default=0.0)
    cards = {key: (x - left, y - low, w, h) for key, (x, y, w, h) in cards.items()}
    routes = {key: tuple((x - left, y - low) for x, y in points) for key, points in routes.items()}
    right = max([x + w for x, _, w, _ in cards.values()], default=wide)
    bottom = max([y + h for _, y, _, h in cards.values()], default=high)
    reach = [point for points in routes.values() for point in points]
    right = max([right, *(x for x, _ in reach)])
    bottom = max([bottom, *(y for _, y in reach)])
    return _Mini(right, bottom, upright, cards, routes)
