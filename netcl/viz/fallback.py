"""A picture without a layout: the table as SVG, so that a notebook is never empty."""

from __future__ import annotations

from collections.abc import Mapping

from netcl.viz.arrange import MARGIN, PAGE, ROOM
from netcl.viz.cards import SMALL
from netcl.viz.shapes import Text
from netcl.viz.svg import Writer, describe
from netcl.viz.text import shorten
from netcl.viz.views import GraphView

_LINE = 17.0


def write_table(view: GraphView, text: str, reason: str, colours: Mapping[str, str]) -> str:
    """The lines of a table, each shortened to the page."""
    lines = [*text.splitlines(), "", reason]
    height = 2 * MARGIN + _LINE * len(lines)
    writer = Writer(colours)
    writer.open(describe(view), (PAGE, height * PAGE / ROOM), (ROOM, height))
    for i, line in enumerate(lines):
        room = ROOM - 2 * MARGIN
        leading = len(line) - len(line.lstrip(" "))
        shown = "\u00a0" * leading + line.lstrip(" ").replace("  ", "\u00a0\u00a0")
        writer.text(Text(MARGIN, MARGIN + 12 + i * _LINE, shorten(shown, room, SMALL, mono=True), SMALL, mono=True))
    writer.parts.append("</svg>")
    return "".join(writer.parts)
