"""SVG, written from shapes in their places: no ids, no script, no style sheet, no address."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from netcl.viz.arrange import MARGIN, Route, Scene
from netcl.viz.cards import SMALL
from netcl.viz.palette import mix
from netcl.viz.shapes import Arrow, Block, Line, Placed, Point, Rect, Shape, Text
from netcl.viz.text import counted, shorten, width, xml
from netcl.viz.views import GraphView

SANS = "Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif"
MONO = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_NOTE_HEIGHT = 18.0


@lru_cache(maxsize=8192)
def figure(value: float) -> str:
    """A coordinate in as few characters as show: tenths.

    >>> figure(3.0), figure(2.25)
    ('3', '2.2')
    """
    text = f"{value:.1f}"
    return "0" if text in ("0.0", "-0.0") else text.removesuffix(".0")


class Writer:
    """Collects the elements of one picture in one theme."""

    def __init__(self, colours: Mapping[str, str]) -> None:
        self.colours = colours
        self.parts: list[str] = []

    def open(self, words: tuple[str, str], size: Point, units: Point) -> None:
        """The outermost element, with the picture in words (title, description) and an opaque ground."""
        title, description = words
        self.parts.append(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{figure(size[0])}" height="{figure(size[1])}" '
            f'viewBox="0 0 {figure(units[0])} {figure(units[1])}" role="img" aria-label="{xml(title)}" '
            f'direction="ltr" font-family="{SANS}"><title>{xml(title)}</title><desc>{xml(description)}</desc>'
        )
        self.rect(Rect(0, 0, *units, "page"))

    def _colour(self, role: str | tuple[str, str, float]) -> str:
        if isinstance(role, str):
            return self.colours[role]
        low, high, share = role
        return mix(self.colours[low], self.colours[high], share)

    def block(self, x: float, y: float, block: Block) -> None:
        """A block as a group, with its hint as a tooltip."""
        if not block.shapes:
            return
        hint = f"<title>{xml(block.hint)}</title>" if block.hint else ""
        self.parts.append(f'<g transform="translate({figure(x)} {figure(y)})">{hint}')
        self.shapes(block.shapes)
        self.parts.append("</g>")

    def shapes(self, shapes: Iterable[Shape]) -> None:
        """Shapes where they are."""
        for shape in shapes:
            if isinstance(shape, Text):
                self.text(shape)
            elif isinstance(shape, Rect):
                self.rect(shape)
            elif isinstance(shape, Line):
                self.line(shape)
            else:
                self.arrow(shape)

    def text(self, text: Text) -> None:
        """A line of text, escaped."""
        style = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
        style += ' font-weight="700"' if text.bold else ""
        style += f' font-family="{MONO}"' if text.mono else ""
        self.parts.append(
            f'<text x="{figure(text.x)}" y="{figure(text.y)}" font-size="{figure(text.size)}" '
            f'fill="{self.colours[text.colour]}"{style}>{xml(text.text)}</text>'
        )

    def rect(self, rect: Rect) -> None:
        """A rectangle."""
        style = f' rx="{figure(rect.radius)}"' if rect.radius else ""
        if rect.stroke:
            style += f' stroke="{self.colours[rect.stroke]}" stroke-width="{figure(rect.line)}"'
        style += f' stroke-dasharray="{rect.dash}"' if rect.dash else ""
        self.parts.append(
            f'<rect x="{figure(rect.x)}" y="{figure(rect.y)}" width="{figure(rect.width)}" '
            f'height="{figure(rect.height)}" fill="{self._colour(rect.fill)}"{style}/>'
        )

    def line(self, line: Line) -> None:
        """A line; `curve` bends it where it moves aside."""
        style = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        self.parts.append(
            f'<path d="{_path(line)}" fill="none" stroke="{self.colours[line.colour]}" '
            f'stroke-width="{figure(line.line)}"{style}/>'
        )

    def arrow(self, arrow: Arrow) -> None:
        """An arrowhead, as a polygon."""
        (x, y), s = arrow.tip, arrow.size
        dx, dy = {"up": (0, 1), "down": (0, -1), "left": (1, 0), "right": (-1, 0)}[arrow.towards]
        corners = (
            (x, y),
            (x + dx * s + dy * s / 2, y + dy * s + dx * s / 2),
            (x + dx * s - dy * s / 2, y + dy * s - dx * s / 2),
        )
        points = " ".join(f"{figure(a)},{figure(b)}" for a, b in corners)
        self.parts.append(f'<polygon points="{points}" fill="{self.colours[arrow.colour]}"/>')


def _path(line: Line) -> str:
    x, y = line.points[0]
    d = [f"M{figure(x)} {figure(y)}"]
    for to_x, to_y in line.points[1:]:
        straight = not line.curve or (abs(to_x - x) < 0.05 if line.curve == "upright" else abs(to_y - y) < 0.05)
        if straight:
            d.append(f"L{figure(to_x)} {figure(to_y)}")
        elif line.curve == "upright":
            middle = figure((y + to_y) / 2)
            d.append(f"C{figure(x)} {middle} {figure(to_x)} {middle} {figure(to_x)} {figure(to_y)}")
        else:
            middle = figure((x + to_x) / 2)
            d.append(f"C{middle} {figure(y)} {middle} {figure(to_y)} {figure(to_x)} {figure(to_y)}")
        x, y = to_x, to_y
    return "".join(d)


def _simplified(points: tuple[Point, ...], upright: bool) -> tuple[Point, ...]:
    """Points without those in the middle of a straight run."""
    kept = [points[0]]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        i = 0 if upright else 1
        if abs(before[i] - here[i]) > 0.05 or abs(here[i] - after[i]) > 0.05:
            kept.append(here)
    return (*kept, points[-1])


def _lane(points: tuple[Point, ...], upright: bool, colour: str, dash: str, ahead: bool) -> tuple[Shape, ...]:
    """A lane and its arrowhead; the line ends where the head begins."""
    head = 8.0
    (x, y) = points[-1]
    sign = 1 if ahead else -1
    tip = (x, y - sign) if upright else (x - sign, y)
    end = (x, y - sign * head) if upright else (x - sign * head, y)
    line = Line((*_simplified(points, upright)[:-1], end), colour, 1.6, dash, "upright" if upright else "flat")
    towards = ("down" if ahead else "up") if upright else ("right" if ahead else "left")
    return line, Arrow(tip, towards, colour)


def route_shapes(route: Route, upright: bool, ran: bool, lit: bool = True) -> list[Shape]:
    """The lanes of an edge: solid forward, dashed backward; faint where it is not `lit`."""
    shapes = list(_lane(route.forward, upright, "forward" if lit else "faint", "", True)) if route.forward else []
    if route.backward:
        colour = "faint" if not lit else "backward" if ran else "off"
        shapes += _lane(route.backward, upright, colour, "5 4", False)
    return shapes


def _dimmed(placed: Placed) -> Placed:
    shapes = tuple(
        replace(shape, colour="muted") if isinstance(shape, Text) else shape for shape in placed.block.shapes
    )
    return replace(placed, block=replace(placed.block, shapes=shapes))


def legend(view: GraphView, wide: float) -> list[Shape]:
    """What the two kinds of arrow mean."""
    y = MARGIN + 12
    ahead = "forward: values, and beside them tangents" if view.show == "tangents" else "forward: values"
    forward: list[Shape] = [
        Line(((MARGIN, y - 4), (MARGIN + 20, y - 4)), "forward", 1.6),
        Arrow((MARGIN + 28, y - 4), "right", "forward"),
        Text(MARGIN + 34, y, ahead, SMALL, "forward"),
    ]
    if view.show in ("forward", "tangents"):
        return forward
    back = "backward" if view.ran else "off"
    upstream = "upstream gradient G" if any("G" in edge.rule.split() for edge in view.edges) else "upstream gradient"
    carries = ["backward: not run"]
    if view.ran:
        carries = [f"backward: {upstream} through each local rule", "backward: gradients", "backward"]
    x2 = MARGIN if view.show == "backward" else MARGIN + 34 + width(ahead, SMALL) + 24
    return [
        *(forward if view.show == "both" else []),
        Line(((x2 + 8, y - 4), (x2 + 28, y - 4)), back, 1.6, "5 4"),
        Arrow((x2, y - 4), "left", back),
        Text(x2 + 34, y, _longest(carries, wide - x2 - 34 - MARGIN), SMALL, back),
    ]


def _longest(texts: list[str], room: float) -> str:
    """The first of these texts that fits; the last one cut if none does."""
    return next((text for text in texts if width(text, SMALL) <= room), shorten(texts[-1], max(room, 60), SMALL))


def describe(view: GraphView) -> tuple[str, str]:
    """The picture's title and a description in one sentence."""
    passes = {"forward": "Forward pass", "backward": "Backward pass", "tangents": "Forward mode: tangents"}
    title = f"{passes.get(view.show, 'Forward and backward pass' if view.ran else 'Forward pass')} of {view.name}"
    root = view.card(view.root)
    value = f" = {root.value.line(40)}" if root.value is not None else ""
    said = f"{root.title}{value}; {counted(len(view.cards), 'card')}, {counted(len(view.edges), 'edge')}"
    if view.show in ("forward", "tangents"):
        return title, f"{said}."
    state = f", seeded with {view.seed}" if view.seed else "" if view.ran else ", backward not run"
    return title, f"{said}{state}."


def write(view: GraphView, scene: Scene, colours: Mapping[str, str], lit: Collection[int] | None = None) -> str:
    """The whole picture, at most as wide as a page wherever its text can then still be read.

    With `lit` the other edges are faint.
    """
    writer = Writer(colours)
    height = scene.height + _NOTE_HEIGHT * len(view.notes)
    scale = scene.scale(scene.width)
    writer.open(describe(view), (scene.width * scale, height * scale), (scene.width, height))
    writer.shapes(legend(view, scene.width))
    for route in scene.routes:
        writer.shapes(route_shapes(route, scene.upright, view.ran, lit is None or route.key in lit))
    labels = [each if lit is None or each.key in lit else _dimmed(each) for each in scene.labels]
    for placed in (*scene.cards, *labels):
        writer.block(placed.x, placed.y, placed.block)
    for i, note in enumerate(view.notes):
        y = scene.height + i * _NOTE_HEIGHT
        writer.text(Text(MARGIN, y, shorten(note, scene.width - 2 * MARGIN, SMALL), SMALL, "muted"))
    writer.parts.append("</svg>")
    return "".join(writer.parts)
