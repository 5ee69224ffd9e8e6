"""How many bytes are alive after each step of a pass: values that the graph keeps, gradients that come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netcl.autograd import Node, Tape, build_topo
from netcl.memory import MemoryStats
from netcl.tensor import Tensor
from netcl.viz.graph import roots_of
from netcl.viz.names import caller_frame, scopes
from netcl.viz.naming import Naming
from netcl.viz.palette import LIGHT
from netcl.viz.report import Report, amount, grid, thousands
from netcl.viz.rerun import Quiet, seed_of
from netcl.viz.shapes import Line, Rect, Shape, Text
from netcl.viz.svg import Writer
from netcl.viz.text import clip

_MOST_ROWS = 60
_WIDE, _HIGH, _LEFT, _TOP, _PLOT = 720.0, 268.0, 74.0, 44.0, 170.0


@dataclass(frozen=True, slots=True)
class Moment:
    """After one step: what it added, and the bytes alive then, of values and of gradients."""

    title: str
    lane: str  # start, forward or backward
    added: int
    values: int
    gradients: int
    note: str = ""

    @property
    def live(self) -> int:
        return self.values + self.gradients


@dataclass(frozen=True, repr=False)
class Memory(Report):
    """Live bytes over a forward and a backward pass; `pool` is what the device's pool holds at this time."""

    name: str
    moments: tuple[Moment, ...]
    pool: MemoryStats

    @property
    def peak(self) -> Moment:
        """The first moment at which most bytes are alive."""
        return max(self.moments, key=lambda moment: moment.live)

    @property
    def text(self) -> str:
        """A row a step."""
        peak = self.peak
        lines = [f"memory of {self.name}: at most {amount(peak.live)}, {peak.lane} {peak.title}", ""]
        rows = [
            [m.lane, clip(m.title, 40), f"+{amount(m.added)}" if m.added else m.note or "0 B",
             amount(m.values), amount(m.gradients), amount(m.live)]
            for m in self._shown()
        ]  # fmt: skip
        titles = ["pass", "node", "added", "values", "gradients", "live"]
        lines += grid(titles, rows, right=[2, 3, 4, 5])
        left_out = len(self.moments) - len(rows)
        if left_out:
            lines.append(f"… {thousands(left_out)} steps between are left out")
        return "\n".join(lines)

    def _shown(self) -> Sequence[Moment]:
        if len(self.moments) <= _MOST_ROWS:
            return self.moments
        half = _MOST_ROWS // 2
        return (*self.moments[:half], *self.moments[-half:])

    @property
    def svg(self) -> str:
        """Live bytes over the steps: values below, gradients upon them."""
        peak = self.peak
        writer = Writer(LIGHT)
        said = f"{len(self.moments)} steps, at most {amount(peak.live)}"
        writer.open((f"Memory of {self.name}", said), (_WIDE, _HIGH), (_WIDE, _HIGH))
        writer.text(Text(14, 22, f"{self.name}: {said}, {peak.lane} {clip(peak.title, 40)}", 13, bold=True))
        step = (_WIDE - _LEFT - 14) / len(self.moments)
        scale, base = _PLOT / (peak.live or 1), _TOP + _PLOT
        for i, moment in enumerate(self.moments):
            writer.shapes(_bars(moment, _LEFT + i * step, step, base, scale))
        ahead = sum(moment.lane != "backward" for moment in self.moments)
        middle = _LEFT + ahead * step
        writer.line(Line(((middle, _TOP), (middle, base)), "muted", 1.0, "4 3"))
        writer.line(Line(((_LEFT, base), (_WIDE - 14, base)), "muted", 1.0))
        for share in (0.0, 0.5, 1.0):
            writer.text(Text(_LEFT - 8, base - share * _PLOT + 4, amount(share * peak.live), 12, "muted", "end"))
        writer.text(Text((_LEFT + middle) / 2, base + 18, "forward", 12, "forward", "middle"))
        if ahead < len(self.moments):
            writer.text(Text((middle + _WIDE - 14) / 2, base + 18, "backward", 12, "backward", "middle"))
        writer.shapes(_key(base + 40))
        writer.parts.append("</svg>")
        return "".join(writer.parts)

    def __repr__(self) -> str:
        return f"<Memory of {self.name}: {len(self.moments)} steps, at most {amount(self.peak.live)}>"


def _bars(moment: Moment, x: float, step: float, base: float, scale: float) -> list[Shape]:
    values, gradients = moment.values * scale, moment.gradients * scale
    wide = max(step - (1.0 if step > 4 else 0.0), 0.4)
    shapes: list[Shape] = [Rect(x, base - values, wide, values, "forward-tint", "forward", 0.6)]
    if gradients:
        shapes.append(Rect(x, base - values - gradients, wide, gradients, "backward-tint", "backward", 0.6, dash="3 2"))
    return shapes


def _key(y: float) -> list[Shape]:
    return [
        Rect(_LEFT, y - 10, 12, 12, "forward-tint", "forward", 0.6),
        Text(_LEFT + 18, y, "values that the graph keeps", 12, "forward"),
        Rect(_LEFT + 220, y - 10, 12, 12, "backward-tint", "backward", 0.6, dash="3 2"),
        Text(_LEFT + 238, y, "gradients", 12, "backward"),
    ]


def memory(
    source: Node | Tape, *, backward: bool = True, retain_grads: bool | None = None,
    names: Mapping[Any, str] | None = None,
) -> Memory:  # fmt: skip
    """Say how many bytes are alive after each step of a pass over a graph, and which node they belong to.

    The forward pass is read off the graph; the rules of the backward pass are run again, since some return views that
    take no memory. Views and several names of one buffer count once, what an op needs only while it runs not at all.
    `retain_grads` is that of the tape, True without one.

    Units:   bytes
    Raises:  ArgumentError if `source` is neither a Node nor a Tape with nodes

    >>> from netcl import autograd as ag, viz
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> [(m.title, m.live) for m in viz.memory((x * x).sum(), backward=False).moments]
    [('leaves and constants', 8), ('x²', 16), ('loss = sum(x²)', 20)]
    """
    roots = roots_of(source)
    nodes = sorted({node for root in roots for node in build_topo(root)}, key=lambda node: node.index)
    root = max(roots, key=lambda node: (node.pass_id, node.index))
    if retain_grads is None:
        retain_grads = source.retain_grads if isinstance(source, Tape) else True
    naming = Naming(nodes, root, names, scopes(caller_frame()))
    ledger = _Ledger()
    moments = _forward(nodes, naming, ledger)
    if backward and not root.released:
        with Quiet():
            moments += _backward(root, naming, ledger, retain_grads)
    return Memory(naming.names[root], tuple(moments), root.value.device.pool.stats())


class _Ledger:
    """Buffers that are alive, each with its bytes and how many tensors hold it."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._buffers: dict[int, Any] = {}  # kept, so that no number is given out twice
        self.live = 0

    def add(self, tensor: Tensor) -> int:
        """Hold a tensor; return the bytes that this takes."""
        key = id(tensor.buffer)
        self._buffers[key] = tensor.buffer
        self._held[key] = self._held.get(key, 0) + 1
        if self._held[key] > 1:
            return 0
        self._bytes[key] = own_bytes(tensor)
        self.live += self._bytes[key]
        return self._bytes[key]

    def drop(self, tensor: Tensor) -> None:
        """Let a tensor go."""
        key = id(tensor.buffer)
        self._held[key] -= 1
        if not self._held[key]:
            self.live -= self._bytes.pop(key)
            del self._held[key], self._buffers[key]


def own_bytes(tensor: Tensor) -> int:
    """The bytes that a tensor's elements take in memory: one that broadcasting repeats counts once."""
    count = 1
    for length, stride in zip(tensor.shape, tensor.strides, strict=True):
        count *= length if stride or not length else 1
    return count * tensor.dtype.itemsize


def _forward(nodes: Iterable[Node], naming: Naming, ledger: _Ledger) -> list[Moment]:
    nodes = list(nodes)
    given = [node.value for node in nodes if node.grad_fn is None]
    given += [x for node in nodes for x in _constants(node)]
    start = sum(ledger.add(tensor) for tensor in given)
    moments = [Moment("leaves and constants", "start", start, ledger.live, 0)]
    for node in nodes:
        if node.grad_fn is not None:
            added = ledger.add(node.value)
            note = "" if added else "view"
            moments.append(Moment(naming.titles[node], "forward", added, ledger.live, 0, note))
    return moments


def _constants(node: Node) -> list[Tensor]:
    found = [x.value if isinstance(x, Node) and not x.requires_grad else x for x in node.operands]
    saved = [x for x in getattr(node.grad_fn, "saved", ()) if isinstance(x, Tensor)]
    of_parents = {id(parent.value.buffer) for parent in node.parents}
    return [x for x in (*found, *saved) if isinstance(x, Tensor) and id(x.buffer) not in of_parents]


def _backward(root: Node, naming: Naming, ledger: _Ledger, retain: bool) -> list[Moment]:
    values = ledger.live
    seed = seed_of(root)
    cotangents: dict[Node, Tensor] = {root: seed}
    moments = [Moment("seed", "backward", ledger.add(seed), values, ledger.live - values)]
    for node in reversed(build_topo(root)):
        g = cotangents.get(node)
        if g is None or node.grad_fn is None:
            continue
        before = ledger.live
        for parent, found in zip(node.parents, node.grad_fn(g), strict=True):
            if found is None:
                continue
            contribution = getattr(found, "value", found)
            earlier = cotangents.get(parent)
            total = contribution if earlier is None else earlier + contribution
            ledger.add(total)
            if earlier is not None:
                ledger.drop(earlier)
            cotangents[parent] = total
        added = max(ledger.live - before, 0)
        if not retain:
            ledger.drop(cotangents.pop(node))
        note = "" if added else "view" if ledger.live == before else "0 B"
        moments.append(Moment(naming.titles[node], "backward", added, values, ledger.live - values, note))
    return moments
