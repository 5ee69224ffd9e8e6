"""Which kernels the nodes of a graph run, forward and backward: their source, launches, bytes and, on request, time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netcl.autograd import Node, build_topo
from netcl.commands import Recording, recorded
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.backward import operands_of
from netcl.viz.names import caller_frame, scopes
from netcl.viz.naming import Naming
from netcl.viz.progress import progress
from netcl.viz.report import Report, amount, grid, thousands
from netcl.viz.rerun import Quiet, pull, rerun
from netcl.viz.text import clip

_MOST_SOURCES = 4  # that the text prints
_MOST_NODES = 200


@dataclass(frozen=True, slots=True)
class KernelRow:
    """What one node has the device do in one pass.

    `kernels` are the keys of `sources`, in order of launch. `nbytes` are those of the operands read and the results
    written: what the op must move at least. `time` is in ns, if it was measured.
    """

    title: str
    op: str
    lane: str  # forward or backward
    kernels: tuple[str, ...]
    copies: int
    nbytes: int
    time: float | None = None
    note: str = ""


@dataclass(frozen=True, repr=False)
class Kernels(Report):
    """The kernels of a graph, node by node; `sources` is their OpenCL C."""

    name: str
    rows: tuple[KernelRow, ...]
    sources: Mapping[str, str] = field(compare=False)
    left_out: int = 0

    @property
    def text(self) -> str:
        """A row a node, and the sources where they are few."""
        timed = any(row.time is not None for row in self.rows)
        titles = ["pass", "node", "op", "kernels", "launches", "bytes", *(["time"] if timed else [])]
        body = [
            [
                row.lane, clip(row.title, 40), row.op, row.note or _counted(row.kernels, row.copies),
                str(len(row.kernels) + row.copies), amount(row.nbytes), *([_duration(row.time)] if timed else []),
            ]
            for row in self.rows
        ]  # fmt: skip
        launches = sum(len(row.kernels) + row.copies for row in self.rows)
        moved = amount(sum(row.nbytes for row in self.rows))
        lines = [f"kernels of {self.name}: {thousands(launches)} launch{'es' * (launches != 1)}, {moved}", ""]
        lines += grid(titles, body, right=[4, 5, 6] if timed else [4, 5])
        if self.left_out:
            lines.append(f"… and {thousands(self.left_out)} more nodes")
        if len(self.sources) > _MOST_SOURCES:
            return "\n".join([*lines, f"sources of {len(self.sources)} kernels: .sources[name]"])
        for key, source in self.sources.items():
            lines += ["", f"{key}:", *(f"    {line}".rstrip() for line in source.strip().splitlines())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Kernels of {self.name}: {len(self.rows)} rows, {len(self.sources)} kernels>"


def _counted(keys: tuple[str, ...], copies: int) -> str:
    parts = [f"{key}{f' × {keys.count(key)}' if keys.count(key) > 1 else ''}" for key in dict.fromkeys(keys)]
    if copies:
        parts.append(f"{copies} cop{'ies' if copies > 1 else 'y'}")
    return ", ".join(parts) or "none: a view"


def _duration(ns: float | None) -> str:
    if ns is None:
        return ""
    return f"{ns / 1e3:.3g} µs" if ns < 1e6 else f"{ns / 1e6:.3g} ms"


def kernels(
    root: Node, *, backward: bool = True, alone: bool = False, time: bool = False, repeat: int = 5,
    names: Mapping[Any, str] | None = None,
) -> Kernels:  # fmt: skip
    """List the kernels that a graph's ops run, by running each op again; `alone` is for the one node only.

    Where the graph ran no backward pass, rules are run on ones. With `time` each op runs `repeat` times after a first,
    and the median of the device's own times is given. Sums of several contributions are not among the rows.

    Units:   bytes of operands and results; ns in the rows, µs in the text
    Raises:  ArgumentError if `root` is no Node

    >>> from netcl import autograd as ag, viz
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> [(row.lane, row.op, len(row.kernels)) for row in viz.kernels(x * x, backward=False).rows]
    [('forward', 'mul', 1)]
    """
    if not isinstance(root, Node):
        raise ArgumentError(f"kernels takes a Node, not {type(root).__name__}")
    order = build_topo(root)
    naming = Naming(order[-_MOST_NODES:], root, names, scopes(caller_frame()))
    nodes = [node for node in ([root] if alone else order[-_MOST_NODES:]) if node.grad_fn is not None]
    keeper = _Sources()
    runs: list[tuple[Node, str, Callable[[Node], Any]]] = [(node, "forward", rerun) for node in nodes]
    if backward:
        runs += [(node, "backward", pull) for node in reversed(nodes) if not node.released]
    with Quiet():
        rows = [
            _row(node, lane, naming, keeper, action, repeat if time else 0)
            for node, lane, action in progress(runs, "kernels", len(runs))
        ]
    left_out = 0 if alone else len(order) - len(order[-_MOST_NODES:])
    return Kernels(naming.names[root], tuple(rows), dict(keeper.sources), left_out)


class _Sources:
    """Programs by a short key each: the kernel's name, numbered where programs share it."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._keys: dict[tuple[str, str], str] = {}

    def key(self, name: str, program: str) -> str:
        found = self._keys.get((name, program))
        if found is None:
            same = sum(each == name for each, _ in self._keys)
            found = self._keys[name, program] = f"{name} {same + 1}"
            self.sources[found] = program
        return found


def _row(
    node: Node, lane: str, naming: Naming, keeper: _Sources, action: Callable[[Node], Any], repeat: int
) -> KernelRow:
    op = clip(node.op_name or "op", 24)
    title = naming.titles[node]
    device = node.value.device
    done = action(node)  # whatever must be built is built
    if lane == "forward" and done is None:
        return KernelRow(title, op, lane, (), 0, 0, note="not kept: it cannot run again")
    with recorded(device) as commands:
        action(node)
    ran = [command for command in commands if command.kind == "kernel"]
    keys = tuple(keeper.key(command.name, command.program) for command in ran)
    copies = len(commands) - len(ran)
    nbytes = _nbytes(node, lane) if commands else 0
    return KernelRow(title, op, lane, keys, copies, nbytes, _time(node, action, repeat) if repeat else None)


def _nbytes(node: Node, lane: str) -> int:
    operands = sum(_of(x) for x in operands_of(node))
    if lane == "forward":
        return operands + node.value.nbytes
    results = sum(parent.value.nbytes for parent in node.parents)
    return node.value.nbytes + operands + results


def _of(x: Any) -> int:
    return x.value.nbytes if isinstance(x, Node) else x.nbytes if isinstance(x, Tensor) else 0


def _time(node: Node, action: Callable[[Node], Any], repeat: int) -> float:
    """The median over repetitions of what the device spent on all commands of an op, in ns."""
    totals = []
    for _ in range(repeat):
        with recorded(node.value.device, profile=True) as commands:
            action(node)
        totals.append(_spent(commands))
    return statistics.median(totals)


def _spent(commands: Recording) -> int:
    total = 0
    for command in commands:
        _, start, end = command.span
        total += end - start
    return total
