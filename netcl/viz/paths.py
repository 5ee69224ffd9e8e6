"""The paths from a node to a later one, with what the chain rule multiplies along each and adds over all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from netcl.autograd import Node, build_topo, detect_anomaly, no_grad
from netcl.autograd.engine import pull_back
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.arrange import arrange
from netcl.viz.backward import Backward
from netcl.viz.drawing import Drawing
from netcl.viz.edges import EdgeWriter
from netcl.viz.graph import read
from netcl.viz.layout import NoLayoutError
from netcl.viz.naming import Naming
from netcl.viz.report import Report, thousands
from netcl.viz.text import clip, isolate
from netcl.viz.values import number, view
from netcl.viz.views import GraphView

Step = tuple[Node, int]  # a consumer, and which of its parents the path comes from

_ROOM = 100  # characters
_MOST_STEPS = 8
_MOST_DRAWN = 40
_MOST_NODES = 5000  # that are named


@dataclass(frozen=True, slots=True)
class Path:
    """One path, from the first node to the last: names, what each edge does to a cotangent, and what arrives.

    `factors` are the local derivatives where every value on the path is one number, else empty; `edges` are those of
    the picture that it takes.
    """

    names: tuple[str, ...]
    rules: tuple[str, ...]
    factors: tuple[str, ...]
    contribution: np.ndarray | None
    edges: tuple[int, ...] = ()

    @property
    def says(self) -> str:
        """`3 × 1 = 3`, or the maps from the last node back and what arrives."""
        arrives = "0, no gradient passes" if self.contribution is None else view(self.contribution).line(40)
        if self.factors:
            return f"{' × '.join(_few(_signed(self.factors)))} = {arrives}"
        return f"{' ∘ '.join(_few(self.rules))} → {arrives}"


def _few(texts: Sequence[str]) -> list[str]:
    """The texts, without the middle ones where they are many."""
    if len(texts) <= _MOST_STEPS:
        return list(texts)
    half = _MOST_STEPS // 2
    return [*texts[:half], f"({len(texts) - 2 * half} more)", *texts[-half:]]


def _signed(texts: Iterable[str]) -> list[str]:
    return [f"({text})" if text.startswith("−") else text for text in texts]


@dataclass(frozen=True, repr=False)
class Paths(Report):
    """The paths from `start` to `end`: how many there are, the first of them, and the sum over all.

    `view` is the graph that they run through, if it is small; `svg` shows it with all edges of the paths lit, `draw(i)`
    with path number i alone, counted from 1.
    """

    start: str
    end: str
    count: int
    paths: tuple[Path, ...]
    total: np.ndarray
    view: GraphView | None = None

    @cached_property
    def svg(self) -> str:
        """The graph with the paths lit, if it is small and all of them are listed."""
        if self.view is None or self.count > len(self.paths):
            return ""
        return self._drawn({edge for path in self.paths for edge in path.edges}).svg

    def draw(self, i: int) -> Drawing:
        """The graph with one of the listed paths lit.

        Raises:  ArgumentError if there is no such path, or the graph is too large for a picture
        """
        if not 1 <= i <= len(self.paths):
            raise ArgumentError(f"{len(self.paths)} paths are listed, and {i} is none of them")
        if self.view is None:
            raise ArgumentError(f"a graph of more than {_MOST_DRAWN} nodes is too large to light paths in")
        path = self.paths[i - 1]
        said = f"path {i} of {thousands(self.count)}: {isolate(' → '.join(path.names))}  {isolate(path.says)}"
        return self._drawn(set(path.edges), said)

    def _drawn(self, lit: set[int], said: str = "") -> Drawing:
        assert self.view is not None
        try:
            return Drawing(self.view, arrange(self.view), lit=lit, said=said)
        except NoLayoutError as error:
            return Drawing(self.view, f"shown as a table: {error}")

    @property
    def text(self) -> str:
        """All of it, as a terminal shows it."""
        lines = [
            f"{thousands(self.count)} path{'s' * (self.count != 1)} from {isolate(self.start)} to {isolate(self.end)}"
        ]
        ways = [" → ".join(_few(path.names)) for path in self.paths]
        says = [path.says for path in self.paths]
        wide, digits = max(map(len, ways), default=0), len(str(len(ways)))
        one_line = wide + max(map(len, says), default=0) <= _ROOM
        for i, (way, said) in enumerate(zip(ways, says, strict=True), 1):
            head = f"  {i:>{digits}}  {isolate(way)}"
            between = " " * (wide - len(way) + 2) if one_line else f"\n{' ' * (digits + 6)}"
            lines.append(f"{head}{between}{isolate(said)}")
        if self.count > len(self.paths):
            lines.append(f"  … and {thousands(self.count - len(self.paths))} more")
        return "\n".join([*lines, self._sum()])

    def _sum(self) -> str:
        parts = [path.contribution for path in self.paths if path.contribution is not None]
        total = view(self.total).line(60)
        left = f"∂{self.end}/∂{self.start if ' ' not in self.start else f'({self.start})'}"
        if self.count > len(self.paths) or not parts:
            return f"{left} = {total}, the sum over all paths"
        if len(parts) == 1:
            return f"{left} = {total}"
        if self.total.size == 1 and len(parts) <= 8:
            return f"{left} = {' + '.join(_signed(number(part.item()) for part in parts))} = {total}"
        return f"{left} = {total}, the sum of the {len(parts)} above"

    def __repr__(self) -> str:
        return f"<Paths from {self.start} to {self.end}: {self.count}>"


def find_paths(
    start: Node, end: Node, names: Mapping[Any, str] | None, spaces: Iterable[Mapping[str, Any]], most: int
) -> Paths:
    """Find the paths from `start` to `end`; see `trace`."""
    if not isinstance(end, Node):
        raise ArgumentError(f"trace(node, to=...) takes a Node, not {type(end).__name__}")
    order = build_topo(end)
    between, counts = _between(order, start)
    if end not in counts or start is end:
        raise ArgumentError(f"no path leads from {start!r} to {end!r}")
    naming = Naming(order if len(order) <= _MOST_NODES else between, end, names, spaces)
    with no_grad(), detect_anomaly(False):
        seed = Tensor.full(end.shape, 1, end.dtype, end.device)
        found = _walk(start, end, counts, seed)
        taken = [(steps, array) for (steps, array), _ in zip(found, range(most), strict=False)]
        backward = Backward(end, [], naming.operands, naming.displays)
        writer = EdgeWriter(backward, naming.operands, naming.displays)
        picture = None
        if len(order) <= _MOST_DRAWN:
            picture = read(end, {node: naming.names[node] for node in order if node in naming.given}, None, len(order))
        keys = _edge_keys(picture, order) if picture is not None else {}
        paths = tuple(_path(start, steps, array, naming, writer, keys) for steps, array in taken)
        total = pull_back(end, seed, targets=[start]).get(start)
    zero = np.zeros(start.shape, start.dtype)
    found = zero if total is None else total.to_host()
    return Paths(naming.names[start], naming.names[end], counts[end], paths, found, picture)


def _edge_keys(view: GraphView, order: list[Node]) -> dict[Step, int]:
    """The key of each edge of a picture that shows every node in order, by consumer and parent."""
    cards = [card.key for card in view.cards if card.kind in ("leaf", "op", "root")]
    found: dict[Step, int] = {}
    for key, node in zip(cards, order, strict=True):
        flowing = [edge.key for edge in view.edges if edge.child == key and edge.needs_grad]
        found.update({(node, nth): edge for nth, edge in enumerate(flowing)})
    return found


def _between(order: list[Node], start: Node) -> tuple[list[Node], dict[Node, int]]:
    """The nodes on some path from `start`, and how many paths lead to each."""
    counts = {start: 1}
    for node in order:
        ways = sum(counts.get(parent, 0) for parent in node.parents)
        if ways and node is not start:
            counts[node] = ways
    return [node for node in order if node in counts], counts


def _walk(
    start: Node, end: Node, counts: Mapping[Node, int], seed: Tensor
) -> Iterator[tuple[tuple[Step, ...], Tensor | None]]:
    """Go from the end back along every path, pulling the seed along; each path is yielded from its start on."""
    stack: list[tuple[Node, Tensor | None, tuple[Step, ...]]] = [(end, seed, ())]
    while stack:
        node, g, steps = stack.pop()
        if node is start:
            yield steps, g
            continue
        pulled = _pulled(node, g)
        for nth in reversed(range(len(node.parents))):
            if node.parents[nth] in counts:
                stack.append((node.parents[nth], pulled[nth], ((node, nth), *steps)))


def _pulled(node: Node, g: Tensor | None) -> list[Any]:
    if g is None or node.grad_fn is None:
        return [None] * len(node.parents)
    return [getattr(c, "value", c) for c in node.grad_fn(g)]


def _path(
    start: Node, steps: tuple[Step, ...], g: Tensor | None, naming: Naming, writer: EdgeWriter, keys: Mapping[Step, int]
) -> Path:
    nodes = [start, *(child for child, _ in steps)]
    rules = []
    for child, nth in steps:
        edge = writer.write(0, 0, 0, child, writer.backward.positions(child)[nth], nth)
        rules.append(" then ".join(part for part in (edge.rule, edge.after) if part))
    factors = []
    if all(node.value.size == 1 for node in nodes):
        for child, nth in steps:
            one = _pulled(child, Tensor.full(child.shape, 1, child.dtype, child.device))[nth]
            factors.append("0" if one is None else number(one.item()))
    shown = [clip(naming.names[node], 24) for node in nodes]
    edges = tuple(keys[step] for step in steps if step in keys)
    return Path(tuple(shown), tuple(rules), tuple(factors), None if g is None else g.to_host(), edges)
