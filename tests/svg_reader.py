"""Reads a picture back from its SVG, as data that tests can ask: what stands where, and what leads to what."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from netcl.viz.text import width

NS = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]


@dataclass
class Box:
    left: float
    top: float
    right: float
    bottom: float
    text: str = ""

    def overlaps(self, other: Box, slack: float = 0.5) -> bool:
        return (
            self.left + slack < other.right
            and other.left + slack < self.right
            and self.top + slack < other.bottom
            and other.top + slack < self.bottom
        )

    def touches(self, point: Point, within: float) -> bool:
        x, y = point
        near_x = self.left - within <= x <= self.right + within
        near_y = self.top - within <= y <= self.bottom + within
        inside = self.left + within < x < self.right - within and self.top + within < y < self.bottom - within
        return near_x and near_y and not inside

    def holds(self, point: Point) -> bool:
        return self.left + 2 < point[0] < self.right - 2 and self.top + 2 < point[1] < self.bottom - 2


@dataclass
class Lane:
    start: Point
    tip: Point
    dashed: bool
    points: list[Point]


@dataclass
class Picture:
    width: float
    units: Point
    cards: list[Box] = field(default_factory=list)
    card_texts: list[list[Box]] = field(default_factory=list)
    labels: list[Box] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    least_text: float = 1e9

    def faults(self, view: Any, cut: bool = False) -> list[str]:
        """Everything that is wrong with a picture of `view`; with `cut` more cards may name the ends of edges."""
        found = [f"cards overlap: {a.text!r}, {b.text!r}" for a, b in combinations(self.cards, 2) if a.overlaps(b)]
        found += [f"{a.text!r} lies on {b.text!r}" for a in self.labels for b in self.cards if a.overlaps(b)]
        found += [f"{a.text!r} lies on {b.text!r}" for a, b in combinations(self.labels, 2) if a.overlaps(b)]
        for card, texts in zip(self.cards, self.card_texts, strict=True):
            for text in texts:
                if text.left < card.left or text.right > card.right or text.top < card.top:
                    found.append(f"{text.text!r} sticks out of its card")
        for box in (*self.cards, *self.labels):
            if box.left < 0 or box.right > self.units[0] or box.top < 0 or box.bottom > self.units[1]:
                found.append(f"{box.text!r} is cut off")
        if len(self.cards) < len(view.cards) or (len(self.cards) > len(view.cards) and not cut):
            return [*found, f"{len(self.cards)} cards for {len(view.cards)}"]
        return found + self._lane_faults(view)

    def _lane_faults(self, view: Any) -> list[str]:
        found: list[str] = []
        place = {card.key: [self.cards[i]] for i, card in enumerate(view.cards)}
        for card in view.cards:
            place[card.key] += [box for box in self.cards[len(view.cards) :] if box.text == card.name]
        lanes = iter(self.lanes)
        for edge in view.edges:
            ways = [(False, edge.parent, edge.child)] if edge.forward else []
            ways += [(True, edge.child, edge.parent)] if edge.needs_grad else []
            for dashed, source, target in ways:
                lane = next(lanes, None)
                if lane is None or lane.dashed != dashed:
                    return [*found, f"a lane is missing for edge {edge.key}"]
                if not any(box.touches(lane.start, 1.5) for box in place[source]):
                    found.append(f"edge {edge.key} does not start at {place[source][0].text!r}")
                if not any(box.touches(lane.tip, 2.5) for box in place[target]):
                    found.append(f"edge {edge.key} does not end at {place[target][0].text!r}")
                crossed = {card.text for card in self.cards for point in lane.points if card.holds(point)}
                found += [f"edge {edge.key} runs through {text!r}" for text in sorted(crossed)]
        return [*found, "lanes that belong to no edge"] if next(lanes, None) is not None else found


def read(svg: str) -> Picture:
    root = ET.fromstring(svg)
    units = tuple(float(number) for number in root.attrib["viewBox"].split()[2:])
    picture = Picture(float(root.attrib["width"]), (units[0], units[1]))
    scale = picture.width / units[0]
    paths = [each for each in root if each.tag == f"{NS}path"]
    legend = sum(bool(re.fullmatch(r"M[\d.]+ 22L[\d.]+ 22", each.attrib["d"])) for each in paths[:2])
    paths = paths[legend:]
    heads = [each for each in root if each.tag == f"{NS}polygon"][legend:]
    for path, head in zip(paths, heads, strict=True):
        points = _sampled(path.attrib["d"])
        x, y = head.attrib["points"].split()[0].split(",")
        picture.lanes.append(Lane(points[0], (float(x), float(y)), "stroke-dasharray" in path.attrib, points))
    for group in (each for each in root if each.tag == f"{NS}g"):
        _read_group(picture, group)
    for text in root.iter(f"{NS}text"):
        picture.texts.append(text.text or "")
        picture.least_text = min(picture.least_text, float(text.attrib["font-size"]) * scale)
    return picture


def _read_group(picture: Picture, group: ET.Element) -> None:
    x, y = (float(number) for number in re.findall(r"[-\d.]+", group.attrib["transform"]))
    texts = [_text_box(each, x, y) for each in group if each.tag == f"{NS}text"]
    rects = [each for each in group if each.tag == f"{NS}rect"]
    if rects:
        frame = rects[0].attrib
        box = Box(x, y, x + float(frame["width"]), y + float(frame["height"]), texts[0].text)
        picture.cards.append(box)
        picture.card_texts.append([text for text in texts if text.top < box.bottom])  # the seed stands below
    else:
        picture.labels += texts


def _text_box(text: ET.Element, x: float, y: float) -> Box:
    size = float(text.attrib["font-size"])
    bold, mono = "font-weight" in text.attrib, "monospace" in text.attrib.get("font-family", "")
    wide = width(text.text or "", size, bold=bold, mono=mono)
    at = x + float(text.attrib["x"])
    left = at - {"start": 0.0, "middle": wide / 2, "end": wide}[text.attrib.get("text-anchor", "start")]
    base = y + float(text.attrib["y"])
    return Box(left, base - 0.8 * size, left + wide, base + 0.2 * size, text.text or "")


def _sampled(d: str) -> list[Point]:
    points: list[Point] = []
    for command, numbers in re.findall(r"([MLC])([^MLC]*)", d):
        values = [float(number) for number in numbers.split()]
        pairs = list(zip(values[::2], values[1::2], strict=True))
        if command == "C":
            (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points[-1], *pairs
            for i in range(1, 13):
                t, s = i / 12, 1 - i / 12
                points.append(
                    (
                        s**3 * x0 + 3 * s * s * t * x1 + 3 * s * t * t * x2 + t**3 * x3,
                        s**3 * y0 + 3 * s * s * t * y1 + 3 * s * t * t * y2 + t**3 * y3,
                    )
                )
        elif points:
            (x0, y0), (x1, y1) = points[-1], pairs[0]
            points += [(x0 + (x1 - x0) * i / 12, y0 + (y1 - y0) * i / 12) for i in range(1, 13)]
        else:
            points += pairs
    return points
