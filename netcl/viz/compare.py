"""Two values or two graphs side by side: where they agree, and where they part first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from netcl.autograd import Node, build_topo
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.cards import ROOMY, compose, measure
from netcl.viz.names import caller_frame, scopes
from netcl.viz.naming import Naming
from netcl.viz.palette import LIGHT
from netcl.viz.report import Report, grid, thousands
from netcl.viz.svg import Writer
from netcl.viz.text import clip
from netcl.viz.values import number, shape_text, view
from netcl.viz.views import Card

_MOST_ROWS = 60
_MOST_NODES = 2000
_MARGIN = 10.0


@dataclass(frozen=True, slots=True)
class Difference:
    """How far two arrays are apart: `largest` is max |a − b|, `at` the place of it, `relative` that of max |b|."""

    state: str  # equal, close, differs, or why they cannot be compared
    largest: float = 0.0
    relative: float = 0.0
    at: tuple[int, ...] = ()
    unequal: int = 0

    @property
    def brief(self) -> str:
        """`differs by 0.25 at [0, 1]`."""
        if self.state not in ("close", "differs"):
            return self.state
        where = f" at [{', '.join(map(str, self.at))}]" if self.at else ""
        return f"{self.state}: {number(self.largest, 3)}{where}"


def difference(a: np.ndarray, b: np.ndarray, rtol: float) -> Difference:
    """Compare two arrays. NaN equals NaN here: both passes lost their way at the same place.

    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]), 1e-5).brief
    'differs: 0.5 at [1]'
    """
    if a.shape != b.shape:
        return Difference(f"shapes {shape_text(a.shape)} and {shape_text(b.shape)}")
    if not a.size:
        return Difference("equal")
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same = (wide_a == wide_b) | (np.isnan(wide_a) & np.isnan(wide_b))
    if same.all():
        return Difference("equal")
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(same, 0.0, np.abs(wide_a - wide_b))
    apart = np.where(np.isnan(apart), np.inf, apart)
    at = tuple(int(i) for i in np.unravel_index(int(apart.argmax()), apart.shape))
    largest = float(apart.max())
    scale = float(np.max(np.abs(wide_b), where=np.isfinite(wide_b), initial=0.0))
    relative = largest / scale if scale else np.inf
    state = "close" if relative <= rtol else "differs"
    return Difference(state, largest, relative, at, int((~same).sum()))


@dataclass(frozen=True, repr=False)
class ArrayComparison(Report):
    """Two arrays and their difference, `a − b`."""

    a: Card
    b: Card
    apart: Card | None
    found: Difference

    @property
    def text(self) -> str:
        """What was found, and the three arrays."""
        size = self.a.value.size if self.a.value is not None else 0
        lines = [f"{self.a.name} and {self.b.name}: {self._said(size)}"]
        for card in (self.a, self.b, self.apart):
            if card is not None and card.value is not None:
                lines.append(f"  {card.title} {shape_text(card.shape)} {card.dtype}: {card.value.line(100)}")
        return "\n".join(lines)

    def _said(self, size: int) -> str:
        found = self.found
        if found.state not in ("close", "differs"):
            return found.state
        return f"{found.brief}, relative {number(found.relative, 3)}; {found.unequal} of {size} entries differ"

    @property
    def svg(self) -> str:
        """Heatmaps side by side, or one below the other where they are wide."""
        blocks = [compose(measure(card, ROOMY), "stack") for card in (self.a, self.b, self.apart) if card is not None]
        across = sum(block.width + _MARGIN for block in blocks) + _MARGIN <= 720
        writer = Writer(LIGHT)
        wide = (sum if across else max)([block.width + _MARGIN for block in blocks]) + _MARGIN  # type: ignore[operator]
        high = (max if across else sum)([block.height + _MARGIN for block in blocks]) + _MARGIN  # type: ignore[operator]
        writer.open((f"{self.a.name} and {self.b.name} compared", self.found.brief), (wide, high), (wide, high))
        x = y = _MARGIN
        for block in blocks:
            writer.block(x, y, block)
            x, y = (x + block.width + _MARGIN, y) if across else (x, y + block.height + _MARGIN)
        writer.parts.append("</svg>")
        return "".join(writer.parts)

    def __repr__(self) -> str:
        return f"<Comparison of {self.a.name} and {self.b.name}: {self.found.brief}>"


@dataclass(frozen=True, slots=True)
class Pair:
    """A node of one graph beside that of the other; one of them may be missing."""

    title: str
    other: str
    op: str
    value: Difference | None
    gradient: Difference | None

    @property
    def says(self) -> tuple[str, str]:
        if self.value is None:
            return ("only in the first" if self.title else "only in the second"), ""
        return self.value.brief, self.gradient.brief if self.gradient is not None else ""

    @property
    def parts(self) -> bool:
        """Whether the graphs part here."""
        whole = (self.value, self.gradient)
        return self.value is None or any(each is not None and each.state not in ("equal", "close") for each in whole)


@dataclass(frozen=True, repr=False)
class GraphComparison(Report):
    """Two graphs, node beside node in order of creation."""

    a: str
    b: str
    pairs: tuple[Pair, ...]

    @property
    def first(self) -> Pair | None:
        """Where they part first in the forward pass: another op, or another value."""
        return next((pair for pair in self.pairs if pair.value is None or pair.value.state not in _ALIKE), None)

    @property
    def text(self) -> str:
        """A row a pair; those that agree are left out where there are many."""
        rows = [pair for pair in self.pairs if pair.parts] if len(self.pairs) > _MOST_ROWS else list(self.pairs)
        first = self.first
        parted = sum(pair.parts for pair in self.pairs)
        lines = [f"{self.a} and {self.b}: {thousands(len(self.pairs))} pairs of nodes, {thousands(parted)} differ"]
        if first is not None:
            lines.append(f"first: {first.title or first.other} ({first.op}), {first.says[0]}")
        if rows:
            table = [[clip(pair.title, 40), clip(pair.other, 40), pair.op, *pair.says] for pair in rows[:_MOST_ROWS]]
            lines += ["", *grid(["node", "node", "op", "value", "gradient"], table)]
        if len(rows) > _MOST_ROWS:
            lines.append(f"… and {thousands(len(rows) - _MOST_ROWS)} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Comparison of {self.a} and {self.b}: {sum(pair.parts for pair in self.pairs)} differ>"


_ALIKE = ("equal", "close")


def compare(
    a: Any, b: Any, *, rtol: float = 1e-5, names: Mapping[Any, str] | None = None
) -> ArrayComparison | GraphComparison:
    """Compare two values (tensors, leaves, arrays, numbers) entry by entry, or two graphs node by node.

    Nodes are matched by op and shape, in order of creation. Two arrays are close where max |a − b| ≤ rtol · max |b|.

    Raises:  ArgumentError if a graph is compared with a value

    >>> import numpy as np
    >>> from netcl import viz
    >>> print(viz.compare(np.array([1.0, 2.0]), np.array([1.0, 2.5])))
    a and b: differs: 0.5 at [1], relative 0.2; 1 of 2 entries differ
      a (2,) float64: [1 2]
      b (2,) float64: [1 2.5]
      a − b (2,) float64: [0 −0.5]
    """
    graphs = [isinstance(x, Node) and x.grad_fn is not None for x in (a, b)]
    if all(graphs):
        return _graphs(a, b, rtol, names)
    if any(graphs):
        raise ArgumentError(f"a graph and a value cannot be compared: {a!r} and {b!r}; use .value of the one")
    one, other = _array(a), _array(b)
    found = difference(one, other, rtol)
    apart = None
    if one.shape == other.shape:
        with np.errstate(invalid="ignore", over="ignore"):
            apart = _card("a − b", one.astype(np.float64) - other.astype(np.float64))
    return ArrayComparison(_card("a", one), _card("b", other), apart, found)


def _array(x: Any) -> np.ndarray:
    return x.to_host() if isinstance(x, (Node, Tensor)) else np.asarray(x)


def _card(name: str, array: np.ndarray) -> Card:
    return Card(0, "op", name, name, "array", array.shape, str(array.dtype), view(array))


def _graphs(a: Node, b: Node, rtol: float, names: Mapping[Any, str] | None) -> GraphComparison:
    orders = [build_topo(root)[-_MOST_NODES:] for root in (a, b)]
    frame = caller_frame()
    namings = [Naming(order, root, names, scopes(frame)) for order, root in zip(orders, (a, b), strict=True)]
    pairs = []
    for one, other in _matched(*orders):
        known = one if one is not None else other
        assert known is not None
        value = slope = None
        if one is not None and other is not None:
            value = difference(one.value.to_host(), other.value.to_host(), rtol)
            slope = _slopes(one, other, rtol)
        title = namings[0].titles[one] if one is not None else ""
        beside = namings[1].titles[other] if other is not None else ""
        pairs.append(Pair(title, beside, clip(known.op_name or "leaf", 24), value, slope))
    return GraphComparison(namings[0].names[a], namings[1].names[b], tuple(pairs))


def _slopes(one: Node, other: Node, rtol: float) -> Difference | None:
    if one.grad is None and other.grad is None:
        return None
    if one.grad is None or other.grad is None:
        return Difference("none in the first" if one.grad is None else "none in the second")
    return difference(gradient(one).to_host(), gradient(other).to_host(), rtol)


def _matched(one: list[Node], other: list[Node]) -> Iterator[tuple[Node | None, Node | None]]:
    """Nodes of the two graphs side by side, in order."""
    kinds = [[(node.op_name, node.shape) for node in order] for order in (one, other)]
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(one[a0:a1], other[b0:b1], strict=True)
            continue
        yield from ((node, None) for node in one[a0:a1])
        yield from ((None, node) for node in other[b0:b1])
