"""When the host enqueued each command of a pass, and when the device ran it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from netcl.autograd import Node, build_topo
from netcl.commands import Recording, recorded
from netcl.device import Device
from netcl.errors import ArgumentError
from netcl.platforms import get_device
from netcl.viz.names import caller_frame, scopes
from netcl.viz.naming import Naming
from netcl.viz.palette import LIGHT
from netcl.viz.report import Report, grid, thousands
from netcl.viz.rerun import Quiet, pull_back, rerun, seed_of
from netcl.viz.shapes import Rect, Shape, Text
from netcl.viz.svg import Writer
from netcl.viz.text import clip, shorten

_MOST_ROWS = 40
_WIDE, _LEFT, _BAND, _TOP = 720.0, 104.0, 40.0, 34.0


@dataclass(frozen=True, slots=True)
class Event:
    """One command: times in µs since the first call; the host waited from `called` to `returned`."""

    label: str  # forward y
    name: str
    lane: str  # which queue
    called: float
    returned: float
    start: float
    end: float


@dataclass(frozen=True, repr=False)
class Timeline(Report):
    """The commands of a pass in the order in which the host gave them. Times differ from run to run."""

    name: str
    events: tuple[Event, ...]

    @property
    def busy(self) -> float:
        """How long the device worked, in µs."""
        return sum(event.end - event.start for event in self.events)

    @property
    def text(self) -> str:
        """A row a command, times in µs."""
        whole = max((event.end for event in self.events), default=0.0)
        lines = [
            f"timeline of {self.name}: {thousands(len(self.events))} commands in {whole:.0f} µs, "
            f"the device busy for {self.busy:.0f} µs", ""
        ]  # fmt: skip
        titles = ["for", "command", "queue", "called", "returned", "start", "end"]
        rows = [
            [clip(e.label, 40), e.name, e.lane, *(f"{t:.1f}" for t in (e.called, e.returned, e.start, e.end))]
            for e in self.events[:_MOST_ROWS]
        ]
        lines += grid(titles, rows, right=[3, 4, 5, 6])
        if len(self.events) > _MOST_ROWS:
            lines.append(f"… and {thousands(len(self.events) - _MOST_ROWS)} more")
        return "\n".join(lines)

    @property
    def svg(self) -> str:
        """Bars over time: the host's calls above, a band for each queue below."""
        lanes = ["host", *dict.fromkeys(event.lane for event in self.events)]
        whole = max((max(event.end, event.returned) for event in self.events), default=1.0) or 1.0
        scale = (_WIDE - _LEFT - 14) / whole
        high = _TOP + _BAND * len(lanes) + 30
        writer = Writer(LIGHT)
        said = f"{len(self.events)} commands, {len(lanes) - 1} queues, {whole:.0f} µs"
        writer.open((f"Timeline of {self.name}", said), (_WIDE, high), (_WIDE, high))
        writer.text(Text(14, 22, f"{self.name}: {said}", 13, bold=True))
        for i, lane in enumerate(lanes):
            y = _TOP + i * _BAND
            writer.rect(Rect(_LEFT, y, _WIDE - _LEFT - 14, _BAND - 8, "card"))
            writer.text(Text(14, y + 20, shorten(lane, _LEFT - 22, 12), 12, "muted"))
            writer.shapes(self._bars(lane, y, scale))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            x = _LEFT + share * (_WIDE - _LEFT - 14)
            anchor = "start" if share == 0 else "end" if share == 1 else "middle"
            writer.text(Text(x, high - 10, f"{share * whole:.0f} µs", 12, "muted", anchor))
        writer.parts.append("</svg>")
        return "".join(writer.parts)

    def _bars(self, lane: str, y: float, scale: float) -> list[Shape]:
        shapes: list[Shape] = []
        for event in self.events:
            if lane not in ("host", event.lane):
                continue
            begin, end = (event.called, event.returned) if lane == "host" else (event.start, event.end)
            x, wide = _LEFT + begin * scale, max((end - begin) * scale, 0.8)
            forward = event.label.startswith("forward")
            role = "off" if not event.label else "forward" if forward else "backward"
            shapes.append(Rect(x, y + 3, wide, _BAND - 14, role, radius=1))
            if lane != "host" and wide > 40:
                text = shorten(event.label.partition(" ")[2] or event.name, wide - 6, 12)
                shapes.append(Text(x + wide / 2, y + 20, text, 12, "chip", "middle"))
        return shapes

    def __repr__(self) -> str:
        return f"<Timeline of {self.name}: {len(self.events)} commands>"


def timeline(
    what: Node | Callable[[], Any], *, backward: bool = True, names: Mapping[Any, str] | None = None,
    device: Device | None = None,
) -> Timeline:  # fmt: skip
    """Run a pass again with the device keeping times: the ops below a node, then its backward pass; or any function.

    A function is called as it is, on `device` or the one in use. All is run once before, so that nothing is built while
    the clock runs. Nothing in the graph changes.

    Units:   µs since the host's first call; the two clocks are matched there
    Raises:  ArgumentError if `what` is neither a Node nor a function
    """
    if isinstance(what, Node):
        order = build_topo(what)
        naming = Naming(order, what, names, scopes(caller_frame()))
        name, target = naming.names[what], what.value.device
        titles = {node: naming.names[node] for node in order}

        def go(commands: Recording) -> None:
            with Quiet():
                _replay(what, order, titles, backward, commands)
    elif callable(what):
        name, target = getattr(what, "__name__", "function"), device or get_device()

        def go(commands: Recording) -> None:
            what()
    else:
        raise ArgumentError(f"timeline takes a Node or a function, not {type(what).__name__}")
    go(Recording())
    target.finish()
    with recorded(target, profile=True) as commands:
        go(commands)
    return Timeline(clip(name, 60), _events(commands))


def _replay(root: Node, order: list[Node], titles: Mapping[Node, str], backward: bool, commands: Recording) -> None:
    kept: list[Any] = []  # as in a real pass, no value's memory is used again
    for node in order:
        commands.label = f"forward {titles[node]}"
        kept.append(rerun(node))
    if not backward:
        return
    commands.label = "backward seed"

    def visit(node: Node) -> None:
        commands.label = f"backward {titles[node]}"

    kept.append(pull_back(root, seed_of(root), retain=True, visit=visit))


def _events(commands: Recording) -> tuple[Event, ...]:
    """Times since the first call; the device's clock is set by the command that ran soonest after it was called."""
    if not commands:
        return ()
    spans = [command.span for command in commands]
    shift = min(queued - command.called for command, (queued, _, _) in zip(commands, spans, strict=True))
    first = commands[0].called

    def since(t: int) -> float:
        return (t - first) / 1000

    return tuple(
        Event(c.label or "", c.name, c.queue, since(c.called), since(c.returned), since(s - shift), since(e - shift))
        for c, (_, s, e) in zip(commands, spans, strict=True)
    )
