"""The loss against one number of one leaf, and the tangent that the gradient promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from netcl.viz.cards import SMALL, TITLE
from netcl.viz.shapes import Block, Line, Point, Rect, Shape, Text
from netcl.viz.text import clip, shorten, width
from netcl.viz.values import number

WIDE, HIGH = 720.0, 262.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 86.0, 22.0, 46.0, 46.0
_REACH = 0.22  # of the width, to either side: how far the tangent is drawn
_DOT = 9.0
_FAR = 2.0  # how many times the spread of its middle a curve may leave it before it is cut


@dataclass(frozen=True)
class Curve:
    """A curve as numbers: NaN where the loss has no value. `before` is a point of the run before, with its curve."""

    leaf: str
    loss: str
    slope_name: str  # ∂f/∂a
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    at: Point
    slope: float
    before: Point | None = None
    before_ys: tuple[float, ...] | None = None

    @cached_property
    def across(self) -> Point:
        """From where to where the leaf goes."""
        return min(*self.xs, self.at[0]), max(*self.xs, self.at[0])

    @cached_property
    def up(self) -> Point:
        """From where to where the loss is drawn."""
        every = [*self.ys, *(self.before_ys or ())]
        must = [y for y in (self.at[1], self.before[1] if self.before else math.nan) if math.isfinite(y)]
        return bounds(every, must)

    @property
    def sentence(self) -> str:
        """The point and its slope in words."""
        x, y = map(_short, self.at)
        slope = f"the tangent's slope is {self.slope_name} = {_short(self.slope)}"
        return f"{self.loss} = {y} at {self.leaf} = {x}; {slope}"

    def tangent(self) -> tuple[Point, Point] | None:
        """The two ends of the tangent, inside the frame."""
        (x, y), (left, right) = self.at, self.across
        if not (math.isfinite(y) and math.isfinite(self.slope)):
            return None
        reach = _REACH * (right - left)
        ends = [(x + d, y + self.slope * d) for d in (-reach, reach)]
        return clipped(ends[0], ends[1], self.across, self.up)


def _short(value: float) -> str:
    return number(value, 4)


def bounds(ys: Sequence[float], must: Sequence[float] = ()) -> Point:
    """From where to where an axis runs: all of a calm curve, of one with a pole the middle; `must` is always inside.

    >>> bounds([0.0, 1.0, 4.0])
    (-0.4, 4.4)
    """
    finite = sorted(y for y in ys if math.isfinite(y))
    finite = finite or sorted(must) or [0.0]
    quarter = len(finite) // 8
    first, last = finite[quarter], finite[-1 - quarter]
    spread = last - first
    low, high = (max(finite[0], first - _FAR * spread), min(finite[-1], last + _FAR * spread)) if spread else (
        finite[0], finite[-1]
    )  # fmt: skip
    low, high = min([low, *must]), max([high, *must])
    if high - low <= 1e-6 * max(abs(low), abs(high)):  # flat but for rounding
        room = 0.5 * max(abs(low), abs(high)) or 1.0
        return low - room, high + room
    room = (high - low) * 0.1
    return low - room, high + room


def ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round numbers between two others, at most `most`.

    >>> ticks(-2.0, 6.0)
    (-2.0, 0.0, 2.0, 4.0, 6.0)
    """
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(float(f"{i * step:.10g}") + 0.0 for i in range(first, last + 1))


def clipped(one: Point, other: Point, across: Point, up: Point) -> tuple[Point, Point] | None:
    """The part of a line from one point to another that is inside a frame, or None.

    Source:  Liang and Barsky (1984)

    >>> clipped((0.0, 0.0), (2.0, 2.0), (0.0, 1.0), (0.0, 5.0))
    ((0.0, 0.0), (1.0, 1.0))
    """
    (x, y), dx, dy = one, other[0] - one[0], other[1] - one[1]
    first, last = 0.0, 1.0
    for d, near, far in ((dx, across[0] - x, across[1] - x), (dy, up[0] - y, up[1] - y)):
        if d == 0:
            if near > 0 or far < 0:
                return None
            continue
        enter, leave = sorted((near / d, far / d))
        first, last = max(first, enter), min(last, leave)
    if first > last:
        return None
    return (x + first * dx, y + first * dy), (x + last * dx, y + last * dy)


def pieces(xs: Sequence[float], ys: Sequence[float], across: Point, up: Point) -> list[list[Point]]:
    """The curve as lines inside the frame: apart where the loss has no value or leaves the frame."""
    found: list[list[Point]] = []
    points = list(zip(xs, ys, strict=True))
    for one, other in pairwise(points):
        inside = None
        if math.isfinite(one[1]) and math.isfinite(other[1]):
            inside = clipped(one, other, across, up)
        if inside is None:
            continue
        if found and found[-1][-1] == inside[0]:
            found[-1].append(inside[1])
        else:
            found.append(list(inside))
    return found


def block(curve: Curve) -> Block:
    """The curve as a picture of known size."""
    return Block(WIDE, HIGH, tuple(_Plot(curve).shapes()), hint=curve.sentence)


class _Plot:
    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        (self.left, self.right), (self.low, self.high) = curve.across, curve.up

    def place(self, point: Point) -> Point:
        x = _LEFT + (point[0] - self.left) / ((self.right - self.left) or 1.0) * (WIDE - _LEFT - _RIGHT)
        y = HIGH - _BOTTOM - (point[1] - self.low) / (self.high - self.low) * (HIGH - _TOP - _BOTTOM)
        return x, y

    def shapes(self) -> list[Shape]:
        curve = self.curve
        shapes = [*self._frame(), *self._heading()]
        if curve.before_ys is not None:
            shapes += self._lines(curve.before_ys, "off", 1.4, "1.5 4")
        xs, ys = with_point(curve)
        shapes += self._lines(ys, "forward", 2.2, "", xs)
        tangent = curve.tangent()
        if tangent is not None:
            shapes.append(Line((self.place(tangent[0]), self.place(tangent[1])), "backward", 2.2, "7 4"))
        if curve.before is not None and math.isfinite(curve.before[1]):
            shapes.append(self._dot(curve.before, "page", "off"))
        if math.isfinite(curve.at[1]):
            shapes.append(self._dot(curve.at, "forward", "page"))
        return shapes

    def _dot(self, at: Point, fill: str, stroke: str) -> Rect:
        x, y = self.place(at)
        return Rect(x - _DOT / 2, y - _DOT / 2, _DOT, _DOT, fill, stroke, 1.6, _DOT / 2)

    def _lines(
        self, ys: Sequence[float], colour: str, line: float, dash: str, xs: Sequence[float] | None = None
    ) -> list[Shape]:
        found = pieces(self.curve.xs if xs is None else xs, ys, self.curve.across, self.curve.up)
        return [Line(tuple(map(self.place, piece)), colour, line, dash) for piece in found]

    def _frame(self) -> list[Shape]:
        """Axes, with ticks at round numbers."""
        bottom, right = HIGH - _BOTTOM, WIDE - _RIGHT
        shapes: list[Shape] = []
        for x in ticks(self.left, self.right, 9):
            at, _ = self.place((x, self.low))
            shapes.append(Line(((at, bottom), (at, bottom + 5)), "frame", 1.0))
            shapes.append(Text(at, bottom + 18, number(x, 4), SMALL, "muted", "middle"))
        for y in ticks(self.low, self.high, 6):
            _, at = self.place((self.left, y))
            shapes.append(Line(((_LEFT, at), (right, at)), "faint", 1.0))
            text = shorten(number(y, 4), _LEFT - 24, SMALL)
            shapes.append(Text(_LEFT - 8, at + 4, text, SMALL, "muted", "end"))
        shapes.append(Line(((_LEFT, _TOP), (_LEFT, bottom), (right, bottom)), "frame", 1.0))
        name = clip(self.curve.leaf, 40)
        return [*shapes, Text(_LEFT + (right - _LEFT) / 2, bottom + 36, name, SMALL, "forward", "middle", True)]

    def _heading(self) -> list[Shape]:
        curve = self.curve
        shapes: list[Shape] = [Text(14, 22, shorten(curve.loss, 130, TITLE, bold=True), TITLE, "forward", bold=True)]
        kinds = [(f"slope {curve.slope_name} = {_short(curve.slope)}", "backward", 2.2, "7 4")]
        if curve.before is not None:
            kinds.insert(0, ("before", "off", 1.4, "1.5 4"))
        x = WIDE - _RIGHT
        for text, colour, line, dash in reversed(kinds):
            text = shorten(text, 400, SMALL, bold=True)
            x -= width(text, SMALL, bold=True)
            shapes.append(Text(x, 22, text, SMALL, colour, bold=True))
            shapes.append(Line(((x - 34, 18), (x - 6, 18)), colour, line, dash))
            x -= 34 + 22
        return shapes


def with_point(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The curve with its point among the others, so that it runs through it."""
    pairs = [pair for pair in zip(curve.xs, curve.ys, strict=True) if pair[0] != curve.at[0]]
    xs, ys = zip(*sorted([*pairs, curve.at]), strict=True)
    return xs, ys
