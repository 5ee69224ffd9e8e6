"""Where a node came from: the line that made it, as it was then, and what it was made from."""

from __future__ import annotations

import linecache
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from netcl import notebook
from netcl.autograd import Node, build_topo
from netcl.autograd.site import Site
from netcl.errors import ArgumentError
from netcl.viz.backward import gradient
from netcl.viz.names import caller_frame, scopes
from netcl.viz.naming import Naming
from netcl.viz.paths import Paths, find_paths
from netcl.viz.report import Report
from netcl.viz.summary import summarise
from netcl.viz.text import clean, clip, isolate
from netcl.viz.values import shape_text

_AROUND = 2  # lines shown before and after
_MOST_ANCESTORS = 12


@dataclass(frozen=True, slots=True)
class Origin:
    """The line that made a node. `lines` are those around it, with their numbers, as they were then."""

    place: str  # cell 3, line 2
    line: int
    lines: tuple[tuple[int, str], ...]
    function: str = ""
    changed: str = ""  # what has become of the source since


@dataclass(frozen=True, repr=False)
class Trace(Report):
    """Where one node came from; `text` says it, and `stack` is the whole Python stack if anomaly mode had it kept."""

    title: str
    value: str
    gradient: str
    origin: Origin | None
    stack: tuple[str, ...]
    ancestors: tuple[tuple[str, str, str], ...]  # title, op, place; the nearest first
    more: int  # further ancestors

    @property
    def text(self) -> str:
        """All of it, as a terminal shows it."""
        lines = [self.title, f"  value {self.value}", f"  gradient {self.gradient}", *self._origin()]
        if self.stack:
            lines += ["the stack, outermost call first", *(f"  {line}" for line in self.stack)]
        if self.ancestors:
            lines.append("made from")
            widths = [max(map(len, column)) for column in zip(*self.ancestors, strict=True)]
            for row in self.ancestors:
                cells = (isolate(cell) + " " * (wide - len(cell)) for cell, wide in zip(row, widths, strict=True))
                lines.append(f"  {'  '.join(cells)}".rstrip())
        if self.more:
            lines.append(f"  … {self.more} further back")
        return "\n".join(lines)

    def _origin(self) -> Iterator[str]:
        origin = self.origin
        if origin is None:
            yield "where it was made is not known"
            return
        yield f"made in {origin.place}{f', in {origin.function}()' if origin.function else ''}"
        wide = len(str(max((number for number, _ in origin.lines), default=0)))
        for number, text in origin.lines:
            yield f"  {'→' if number == origin.line else ' '} {number:>{wide}}  {text}".rstrip()
        if not origin.lines:
            yield "  the source is not to be had"
        if origin.changed:
            yield f"  {origin.changed}"

    def __repr__(self) -> str:
        return f"<Trace of {self.title.split(' = ')[0]}>"


def trace(
    node: Node, to: Node | None = None, *, names: Mapping[Any, str] | None = None, most: int = 16
) -> Trace | Paths:
    """Say where a node was made, and from what; or, with `to`, along which paths it reaches that later node.

    In a notebook a place is a cell and a line, and the source is shown as it was when the node was made, with a note if
    the cell has since run with another text (front ends that do not name cells cannot say so). In anomaly mode the
    whole stack is there. `names` overrides names, `most` is the number of paths that are listed.

    Math:    along a path the local derivatives are multiplied; over the paths the products are added:
             ∂to/∂node = Σ over paths of Π over the edges of the path of ∂child/∂parent
    Raises:  ArgumentError if `node` is no Node, or does not lead to `to`

    >>> from netcl import autograd as ag, viz
    >>> a, b = ag.tensor(2.0, requires_grad=True), ag.tensor(3.0, requires_grad=True)
    >>> f = a * b + a**2
    >>> print(viz.trace(a, to=f))
    2 paths from a to f
      1  a → ab → f  3 × 1 = 3
      2  a → a² → f  4 × 1 = 4
    ∂f/∂a = 3 + 4 = 7
    """
    if not isinstance(node, Node):
        raise ArgumentError(f"trace takes a Node, not {type(node).__name__}: only nodes know where they were made")
    frame = caller_frame()
    spaces = scopes(frame)
    if to is not None:
        return find_paths(node, to, names, spaces, most)
    above = [each for each in build_topo(node) if each is not node]
    nearest = sorted(above, key=lambda each: -each.index)[:_MOST_ANCESTORS]
    naming = Naming([*sorted(nearest, key=lambda each: each.index), node], None, names, spaces)
    rows = [
        (clip(naming.titles[each], 48), clean(each.op_name or "leaf"), each.site.describe() if each.site else "")
        for each in nearest
    ]
    op = clean(node.op_name or "leaf")
    return Trace(
        title=f"{naming.titles[node]}: {op} {shape_text(node.shape)} {node.dtype}",
        value=summarise(node.value).line(60),
        gradient=summarise(gradient(node)).line(60) if node.grad is not None else "none",
        origin=_origin(node.site),
        stack=tuple(line for entry in node.creation_trace or () for line in entry.rstrip().splitlines()),
        ancestors=tuple(rows),
        more=len(above) - len(nearest),
    )


def _origin(site: Site | None) -> Origin | None:
    if site is None:
        return None
    at, name = site.line, site.code.co_name
    source = linecache.getlines(site.filename)
    first, last = max(at - _AROUND, 1), min(at + _AROUND, len(source))
    texts = [clean(line.rstrip().expandtabs(4)) for line in source[first - 1 : last]]
    shown = textwrap.dedent("\n".join(texts)).split("\n") if texts else []
    return Origin(
        place=site.describe(),
        line=at,
        lines=tuple(enumerate((clip(line, 100) for line in shown), first)),
        function="" if name.startswith("<") else name,
        changed=_change(site),
    )


def _change(site: Site) -> str:
    """What is known to have happened to the source since."""
    if notebook.has_changed(site.filename):
        return "the cell has run with another text since"
    if site.cell is None and _file_changed(site):
        return "the file has changed since: these lines may not be those that ran"
    code = site.code
    now = vars(sys.modules["__main__"]).get(code.co_name)
    if code.co_name != "<module>" and getattr(getattr(now, "__code__", None), "co_filename", site.filename) != (
        site.filename
    ):
        return f"{code.co_name} has been defined anew since"
    return ""


def _file_changed(site: Site) -> bool:
    """Whether a file was written after netcl was loaded and no longer holds the code that ran."""
    try:
        if os.stat(site.filename).st_mtime < notebook.STARTED:
            return False
        linecache.checkcache(site.filename)
        stack = [compile("".join(linecache.getlines(site.filename)), site.filename, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):  # not a file, or no longer Python
        return os.path.exists(site.filename)
    while stack:
        code = stack.pop()
        if code == site.code:
            return False
        stack += [each for each in code.co_consts if isinstance(each, CodeType)]
    return True
