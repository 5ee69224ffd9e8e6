"""Where cards and labels stand: rows by distance from the loss, places within a row by Graphviz."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import graphviz

from netcl.viz.shapes import Block, Point
from netcl.viz.squeeze import line_up, squeeze
from netcl.viz.views import Edge, GraphView

TIME_LIMIT = 10.0  # seconds
_MOST_CARDS = 300  # for Graphviz, which takes a second for 1000
_INCH = 72.0
SEPARATION = 18.0
_LEAST_GAP, _MOST_GAP = 16.0, 52.0
PASSING = 40.0  # how wide an edge is that passes beside a card
_PORT_MARGIN = 16.0
_STUB = 9.0  # a lane meets a card head on
_PORT_STEP = 36.0


class NoLayoutError(Exception):
    """Graphviz is missing, failed or ran out of time; the caller falls back to a table."""


@dataclass(frozen=True, slots=True)
class Laid:
    """Places, in units along the flow (`along`) and across it; the flow runs from the leaves to the loss."""

    cards: Mapping[int, Point]  # upper left corner, as (along, across)
    labels: Mapping[int, Point]
    routes: Mapping[int, tuple[Point, ...]]  # the middle of an edge's lanes
    along: float
    across: float


def layer(
    view: GraphView, sizes: Mapping[int, float], labels: Mapping[int, float], room: float,
    order: Sequence[Edge] = (), longest: int | None = None,
) -> dict[int, int]:  # fmt: skip
    """The row of each card, counted from the root: below all its consumers, and no row wider than `room`.

    A row that is full sends the next card one row further up. Sizes are across the flow. `order` has edges that are
    not drawn, whose cards keep their order. Edges of more than `longest` rows take no room: they will be cut.
    """
    consumers: dict[int, list[int]] = {card.key: [] for card in view.cards}
    incoming: dict[int, float] = {card.key: 0.0 for card in view.cards}
    for edge in view.edges:
        consumers[edge.parent].append(edge.child)
        incoming[edge.child] += labels.get(edge.key, 0.0) + SEPARATION
    drawn = {key: len(children) for key, children in consumers.items()}
    for edge in order:
        consumers[edge.parent].append(edge.child)
    rows: dict[int, int] = {}
    used: dict[int, list[float]] = {}  # of each row: its cards, and the labels just above them
    for key in _by_depth(consumers):
        row = max((rows[child] + 1 for child in consumers[key]), default=0)
        wide = sizes[key] + SEPARATION
        slack = room + SEPARATION
        while row in used and (used[row][0] + wide > slack or used[row][1] + incoming[key] > slack):
            row += 1
        rows[key] = row
        for child in consumers[key][: drawn[key]]:
            if longest is not None and row - rows[child] > longest:
                continue
            for passed in range(rows[child] + 1, row):
                used.setdefault(passed, [0.0, 0.0])[0] += PASSING + SEPARATION
        taken = used.setdefault(row, [0.0, 0.0])
        taken[0] += wide
        taken[1] += incoming[key]
    rows = _gathered(rows)
    last = max(rows.values(), default=0)
    return {key: last - row for key, row in rows.items()}


def _gathered(rows: dict[int, int]) -> dict[int, int]:
    """Rows numbered without holes."""
    order = {row: i for i, row in enumerate(sorted(set(rows.values())))}
    return {key: order[row] for key, row in rows.items()}


def _by_depth(consumers: Mapping[int, Sequence[int]]) -> list[int]:
    """Keys from the root upwards: the longest way to a card without consumers, then the order of creation."""
    parents: dict[int, list[int]] = {key: [] for key in consumers}
    for key, children in consumers.items():
        for child in children:
            parents[child].append(key)
    waiting = {key: len(children) for key, children in consumers.items()}
    depth = dict.fromkeys(consumers, 0)
    ready = [key for key, count in waiting.items() if count == 0]
    while ready:
        key = ready.pop()
        for parent in parents[key]:
            depth[parent] = max(depth[parent], depth[key] + 1)
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(parent)
    return sorted(consumers, key=lambda key: (depth[key], key))


def place(
    view: GraphView,
    rows: Mapping[int, int],
    cards: Mapping[int, Block],
    labels: Mapping[int, Block],
    upright: bool,
    lean: bool = False,
    time_limit: float = TIME_LIMIT,
    room: float | None = None,
    plain: bool = False,
) -> Laid:
    """Lay out cards of known size: one run of Graphviz for the order within rows, the rest by arithmetic.

    `room` presses rows that would be wider into it, if each of them fits. Very large graphs, and `plain` ones, whose
    long edges are cut and which may thus be in pieces, are ordered without Graphviz.

    Raises:  NoLayoutError
    """
    across = {f"c{key}": (block.width if upright else block.height) for key, block in cards.items()}
    stations: dict[int, list[str]] = {}  # of each edge: what it passes, a label row and a card row in turn
    for edge in view.edges:
        count = 2 * (rows[edge.child] - rows[edge.parent]) - 1
        stations[edge.key] = [f"e{edge.key}_{i}" for i in range(count)]
        for name in stations[edge.key][:-1]:
            across[name] = PASSING
        label = labels[edge.key]
        across[stations[edge.key][-1]] = label.width if upright else label.height
    spine = _spine(view, rows, lean)
    if plain or len(view.cards) > _MOST_CARDS:
        middles = line_up(*_bands(view, rows, stations, spine), across, SEPARATION)
    else:
        middles = _middles(view, across, stations, spine, lean, time_limit)
    if room is not None and _spread_of(middles, across) > room:
        middles = squeeze({name: middles[name] for name in across}, *_bands(view, rows, stations, spine), across,
                          SEPARATION, room)  # fmt: skip
    return _Plan(view, rows, cards, labels, upright, stations, middles, across, spine).finish()


def _spread_of(middles: Mapping[str, float], across: Mapping[str, float]) -> float:
    ends = [(middles[name] - size / 2, middles[name] + size / 2) for name, size in across.items()]
    return max(end[1] for end in ends) - min(end[0] for end in ends)


def _bands(
    view: GraphView, rows: Mapping[int, int], stations: Mapping[int, Sequence[str]], spine: set[int]
) -> tuple[list[list[str]], list[tuple[str, str, float]]]:
    """What stands in each row, and what is linked to what, how strongly."""
    bands: list[list[str]] = [[] for _ in range(2 * max(rows.values()) + 1)]
    for key, row in rows.items():
        bands[2 * row].append(f"c{key}")
    links: list[tuple[str, str, float]] = []
    for edge in view.edges:
        path = [f"c{edge.parent}", *stations[edge.key], f"c{edge.child}"]
        for i, name in enumerate(path[1:-1], 2 * rows[edge.parent] + 1):
            bands[i].append(name)
        links += [(one, other, 4.0 if edge.key in spine else 1.0) for one, other in pairwise(path)]
    return bands, links


def _middles(
    view: GraphView,
    across: Mapping[str, float],
    stations: Mapping[int, Sequence[str]],
    spine: set[int],
    lean: bool,
    time_limit: float,
) -> dict[str, float]:
    graph = graphviz.Digraph(
        graph_attr={"nodesep": f"{SEPARATION / _INCH:.4f}", "ranksep": "0.1", "splines": "false"},
        node_attr={"shape": "box", "fixedsize": "true", "label": "", "height": "0.1"},
        edge_attr={"arrowhead": "none"},
    )
    for card in view.cards:
        graph.node(f"c{card.key}", width=f"{across[f'c{card.key}'] / _INCH:.4f}")
    if lean:  # side branches all on one side
        graph.graph_attr["ordering"] = "in"
    for edge in sorted(view.edges, key=lambda edge: (edge.child, edge.key not in spine)) if lean else view.edges:
        names = stations[edge.key]
        for name in names:
            graph.node(name, width=f"{across[name] / _INCH:.4f}")
        path = [f"c{edge.parent}", *names, f"c{edge.child}"]
        heavy = "20" if edge.key in spine else "1" if len(names) == 1 else "2"
        for tail, head in pairwise(path):
            graph.edge(tail, head, weight=heavy)
    for card in view.cards:  # further results have an edge to one common end, so that all is one graph
        if card.key != view.root and not any(edge.parent == card.key for edge in view.edges):
            graph.edge(f"c{card.key}", "end", style="invis")
            graph.edge(f"c{view.root}", "end", style="invis")
    try:
        found = json.loads(_run_dot(graph.source, time_limit))
        return {each["name"]: float(each["pos"].split(",")[0]) for each in found["objects"]}
    except (ValueError, LookupError, TypeError):
        raise NoLayoutError("Graphviz wrote nothing readable") from None


def _spine(view: GraphView, rows: Mapping[int, int], lean: bool) -> set[int]:
    """Of the edges into each card, the one with the longest history: these are drawn straight, leaves at their side.

    Equals share the place above their child; to `lean` is to put the first there, which takes less room.
    """
    parents: dict[int, list[int]] = {card.key: [] for card in view.cards}
    for edge in view.edges:
        parents[edge.child].append(edge.parent)
    height: dict[int, int] = {}
    for key in sorted(parents, key=lambda key: (rows[key], key)):
        height[key] = max((height[parent] + 1 for parent in parents[key]), default=0)
    best: dict[int, list[tuple[int, int]]] = {}
    for edge in view.edges:
        best.setdefault(edge.child, []).append((height[edge.parent], edge.key))
    spine = set()
    for ranked in best.values():
        ranked.sort(key=lambda pair: (-pair[0], pair[1]))
        if lean or len(ranked) == 1 or ranked[0][0] > ranked[1][0]:
            spine.add(ranked[0][1])
    return spine


class _Plan:
    """Arithmetic from places across to the whole layout."""

    def __init__(
        self,
        view: GraphView,
        rows: Mapping[int, int],
        cards: Mapping[int, Block],
        labels: Mapping[int, Block],
        upright: bool,
        stations: Mapping[int, Sequence[str]],
        middles: Mapping[str, float],
        across: Mapping[str, float],
        spine: set[int],
    ) -> None:
        self.view, self.rows, self.cards, self.labels, self.upright = view, rows, cards, labels, upright
        self.stations = stations
        self.left = min(middle - across[name] / 2 for name, middle in middles.items() if name in across)
        self.right = max(middle + across[name] / 2 for name, middle in middles.items() if name in across)
        self.middles = {name: middle - self.left for name, middle in middles.items()}
        self._straighten(across, spine)
        self.lanes = {edge.key: self._lanes(edge.key) for edge in view.edges}

    def _straighten(self, across: Mapping[str, float], spine: set[int]) -> None:
        """Move labels, where their neighbours leave room, so that lanes run straight from card to card."""
        bands: dict[int, list[str]] = {}
        for edge in self.view.edges:
            first = 2 * self.rows[edge.parent] + 1
            for i, name in enumerate(self.stations[edge.key]):
                bands.setdefault(first + i, []).append(name)
        for names in bands.values():
            names.sort(key=lambda name: self.middles[name])
        for edge in self.view.edges:
            name = self.stations[edge.key][-1]
            names = bands[2 * self.rows[edge.child] - 1]
            i, half = names.index(name), across[name] / 2
            before, after = (names[i - 1] if i else None), (names[i + 1] if i + 1 < len(names) else None)
            low = self.middles[before] + across[before] / 2 + SEPARATION / 2 + half if before else -1e9
            high = self.middles[after] - across[after] / 2 - SEPARATION / 2 - half if after else 1e9
            lane = self._lanes(edge.key)[-1]
            wish = self.middles[name] + self._straight(edge, lane, spine) - lane
            if low <= high:
                self.middles[name] = min(max(wish, low), high)

    def _straight(self, edge: Edge, lane: float, spine: set[int]) -> float:
        """Where a lane would run without bends, or with the fewest."""
        ends = []
        for key in (edge.parent, edge.child) if len(self.stations[edge.key]) == 1 else (edge.child,):
            block = self.cards[key]
            reach = self._extent(block)[1] / 2 - _PORT_MARGIN
            tail = 0.0 if self.upright else block.tail
            ends.append((self.middles[f"c{key}"] - reach, self.middles[f"c{key}"] + reach - tail))
        if edge.key in spine and len(ends) == 2 and abs(sum(ends[0]) - sum(ends[1])) < 1:
            return sum(ends[0]) / 2
        low, high = sorted((max(end[0] for end in ends), min(end[1] for end in ends)))
        return min(max(lane, low), high)

    def _lanes(self, key: int) -> list[float]:
        """Where the lanes of an edge run across, station by station."""
        label = self.labels[key]
        size = label.width if self.upright else label.height
        *passing, last = self.stations[key]
        shift = sum(label.lanes) / 2 - size / 2
        return [*(self.middles[name] for name in passing), self.middles[last] + shift]

    def _extent(self, block: Block) -> tuple[float, float]:
        return (block.height, block.width) if self.upright else (block.width, block.height)

    def finish(self) -> Laid:
        ports = self._ports()
        thick, gaps = self._bands(ports)
        starts, at = [], 0.0
        for i, size in enumerate(thick):
            starts.append(at)
            at += size + (gaps[i] if i < len(gaps) else 0.0)
        cards: dict[int, Point] = {}
        for key, block in self.cards.items():
            along, across = self._extent(block)
            band = 2 * self.rows[key]
            cards[key] = (starts[band] + (thick[band] - along) / 2, self.middles[f"c{key}"] - across / 2)
        labels: dict[int, Point] = {}
        routes: dict[int, tuple[Point, ...]] = {}
        for edge in self.view.edges:
            first = 2 * self.rows[edge.parent]
            along, across = self._extent(self.labels[edge.key])
            band = 2 * self.rows[edge.child] - 1
            middle = self.middles[self.stations[edge.key][-1]]
            labels[edge.key] = (starts[band] + (thick[band] - along) / 2, middle - across / 2)
            leave, arrive = ports[edge.key]
            points = [(cards[edge.parent][0] + self._extent(self.cards[edge.parent])[0], leave)]
            points.append((starts[first] + thick[first] + _STUB, leave))
            for i, lane in enumerate(self.lanes[edge.key]):
                points += [(starts[first + 1 + i], lane), (starts[first + 1 + i] + thick[first + 1 + i], lane)]
            points += [(starts[band + 1] - _STUB, arrive), (cards[edge.child][0], arrive)]
            routes[edge.key] = tuple(points)
        return Laid(cards, labels, routes, at, self.right - self.left)

    def _ports(self) -> dict[int, tuple[float, float]]:
        """Where each edge leaves its parent and enters its child: as straight ahead as the cards allow."""
        leaving: dict[int, list[tuple[float, int]]] = {}
        entering: dict[int, list[tuple[float, int]]] = {}
        for edge in self.view.edges:
            leaving.setdefault(edge.parent, []).append((self.lanes[edge.key][0], edge.key))
            entering.setdefault(edge.child, []).append((self.lanes[edge.key][-1], edge.key))
        out = {edge: at for key, wishes in leaving.items() for edge, at in self._spread(key, wishes)}
        into = {edge: at for key, wishes in entering.items() for edge, at in self._spread(key, wishes)}
        return {edge.key: (out[edge.key], into[edge.key]) for edge in self.view.edges}

    def _spread(self, key: int, wishes: list[tuple[float, int]]) -> list[tuple[int, float]]:
        block = self.cards[key]
        size = self._extent(block)[1]
        low = self.middles[f"c{key}"] - size / 2 + _PORT_MARGIN
        high = low + size - 2 * _PORT_MARGIN - (0.0 if self.upright else block.tail)
        wishes.sort()
        step = min(_PORT_STEP, (high - low) / max(len(wishes) - 1, 1))
        at = [min(max(wish, low), high) for wish, _ in wishes]
        for i in range(1, len(at)):
            at[i] = max(at[i], at[i - 1] + step)
        at[-1] = min(at[-1], high)
        for i in reversed(range(len(at) - 1)):
            at[i] = min(at[i], at[i + 1] - step)
        return [(edge, place) for (_, edge), place in zip(wishes, at, strict=True)]

    def _bands(self, ports: Mapping[int, tuple[float, float]]) -> tuple[list[float], list[float]]:
        """How thick each row is, card rows and label rows in turn, and the gaps between them."""
        count = 2 * max(self.rows.values(), default=0) + 1
        thick, gaps = [0.0] * count, [_LEAST_GAP] * (count - 1)
        for key, block in self.cards.items():
            band = 2 * self.rows[key]
            thick[band] = max(thick[band], self._extent(block)[0])
        for edge in self.view.edges:
            band = 2 * self.rows[edge.child] - 1
            thick[band] = max(thick[band], self._extent(self.labels[edge.key])[0])
            steps = [ports[edge.key][0], *self.lanes[edge.key], ports[edge.key][1]]
            for i, (one, next_) in enumerate(pairwise(steps)):
                gap = 2 * self.rows[edge.parent] + i
                aside = abs(next_ - one)
                gaps[gap] = max(gaps[gap], min(_LEAST_GAP + 0.35 * aside + min(aside, _STUB), _MOST_GAP))
        return thick, gaps


@lru_cache(maxsize=1)
def _bundled() -> str | None:
    """graphviz-pure's program, by its path: it has no Python code and need not be on PATH."""
    try:
        files = metadata.files("graphviz-pure") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name in ("graphviz-pure", "graphviz-pure.exe"):
            path = Path(str(file.locate()))
            if path.is_file() and os.access(path, os.X_OK):
                return str(path.resolve())
    return None


def _run_dot(source: str, time_limit: float) -> str:
    program = _bundled() or shutil.which("dot")
    if program is None:
        raise NoLayoutError("neither graphviz-pure nor a system dot is there")
    try:
        done = subprocess.run(
            [program, "-Tjson0"], input=source, capture_output=True, text=True, encoding="utf-8", timeout=time_limit
        )
    except subprocess.TimeoutExpired:
        raise NoLayoutError("the layout took longer than its time limit") from None
    except OSError as error:
        raise NoLayoutError(f"Graphviz could not be started: {error.strerror}") from None
    if done.returncode != 0:
        raise NoLayoutError("Graphviz failed")
    return done.stdout
