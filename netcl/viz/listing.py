"""`viz.table`: the whole graph as a table, for a terminal, a screen reader, and a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netcl.viz.graph import read
from netcl.viz.names import caller_frame
from netcl.viz.report import Report
from netcl.viz.tables import parts
from netcl.viz.tables import table as as_text
from netcl.viz.text import xml
from netcl.viz.views import GraphView

_MOST_NODES = 200


@dataclass(frozen=True, repr=False)
class Table(Report):
    """A graph as a table, from the loss back to the leaves; `view` is what it was written from."""

    view: GraphView

    @property
    def text(self) -> str:
        """The table as text."""
        return as_text(self.view)

    @property
    def html(self) -> str:
        """The table as HTML, without styles: a page's own suit it best."""
        head, titles, rows, notes = parts(self.view)
        caption = f"<caption>{'<br>'.join(map(xml, head))}</caption>"
        body = "".join(_row(row, "td") for row in rows)
        foot = "".join(f"<p>{xml(note)}</p>" for note in notes)
        return f"<table>{caption}<thead>{_row(titles, 'th')}</thead><tbody>{body}</tbody></table>{foot}"

    def __repr__(self) -> str:
        return f"<Table of {self.view.name}: {len(self.view.cards)} rows>"


def _row(cells: Sequence[str], tag: str) -> str:
    scope = ' scope="col"' if tag == "th" else ""
    return f"<tr>{''.join(f'<{tag}{scope}>{xml(cell)}</{tag}>' for cell in cells)}</tr>"


def table(root: Any, *, names: Mapping[Any, str] | None = None, most: int = _MOST_NODES) -> Table:
    """List a graph (below a node, or that of a tape): values, gradients, and what arrived from which consumer.

    A graph of more than `most` nodes is folded. `names` overrides what nodes are called. Nothing in the graph changes.

    Raises:  ArgumentError if `root` has no graph

    >>> from netcl import autograd as ag, viz
    >>> a = ag.tensor(2.0, requires_grad=True)
    >>> f = a * a
    >>> f.backward()
    >>> print(viz.table(f))
    backward pass of f = 4, from the loss back to the leaves
    <BLANKLINE>
    node    op    shape  value  ∂f/∂node  arrives from
    ──────  ────  ─────  ─────  ────────  ───────────────────────────
    f = a²  mul   ()     4      1         seed 1
    a       leaf  ()     2      4         f: upstream 1 × (a = 2) → 2
                                          f: upstream 1 × (a = 2) → 2
                                          2 + 2 = 4
                                          added into a.grad
    """
    return Table(read(root, names, caller_frame(), most))
