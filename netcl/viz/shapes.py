"""The few shapes that a picture is made of, placed relative to the block that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from netcl.viz.text import width

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; `room` is the most that it may take, and `colour` a role of the palette."""

    x: float
    y: float  # the baseline
    text: str
    size: float
    colour: str = "ink"
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    mono: bool = False


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; `fill` is a role, or (role, role, share) for a colour between two."""

    x: float
    y: float
    width: float
    height: float
    fill: str | tuple[str, str, float]
    stroke: str = ""
    line: float = 1.0
    radius: float = 0.0
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points: straight, or bent between level (`flat`) or upright tangents."""

    points: tuple[Point, ...]
    colour: str
    line: float = 1.5
    dash: str = ""
    curve: Literal["", "upright", "flat"] = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrowhead: its tip, and where it points."""

    tip: Point
    towards: Literal["up", "down", "left", "right"]
    colour: str
    size: float = 9.0


Shape = Text | Rect | Line | Arrow


def ink(shape: Shape) -> tuple[float, float]:
    """The left and right end of a shape; those of a text at most."""
    if isinstance(shape, Text):
        wide = width(shape.text, shape.size, bold=shape.bold, mono=shape.mono)
        left = shape.x - {"start": 0.0, "middle": wide / 2, "end": wide}[shape.anchor]
        return left, left + wide
    if isinstance(shape, Rect):
        return shape.x, shape.x + shape.width
    points = (
        shape.points
        if isinstance(shape, Line)
        else ((shape.tip[0] - shape.size, 0.0), (shape.tip[0] + shape.size, 0.0))
    )
    return min(x for x, _ in points), max(x for x, _ in points)


@dataclass(frozen=True, slots=True)
class Block:
    """Shapes that move together, with the size that they take and a hint in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    hint: str = ""
    lanes: Point = (0.0, 0.0)  # where the forward and the backward lane run across the block
    tail: float = 0.0  # height below the frame


@dataclass(frozen=True, slots=True)
class Placed:
    """A block and where its upper left corner stands."""

    x: float
    y: float
    block: Block
    key: int = -1

    @property
    def right(self) -> float:
        return self.x + self.block.width

    @property
    def bottom(self) -> float:
        return self.y + self.block.height
