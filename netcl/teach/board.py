"""`progress`: which exercises are done, lesson by lesson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netcl.teach import exercises, record
from netcl.viz.report import grid
from netcl.viz.text import xml

__all__ = ["Progress", "progress"]

_WIDEST = (20, 8, 66, 20)
_LINE = "border-top:1px solid #8a929b66;padding:2px 14px 2px 0;text-align:start;vertical-align:top"


@dataclass(frozen=True)
class Row:
    """One exercise: what it asks, whether it is done, and how often it was tried."""

    lesson: str
    name: str
    kind: str
    asks: str
    done: bool
    tries: int

    @property
    def state(self) -> str:
        """Done, tried, or nothing yet; with the number of tries."""
        if not self.tries:
            return "·"
        tries = f"{self.tries} {'try' if self.tries == 1 else 'tries'}"
        return f"✓ done, {tries}" if self.done else f"✗ not yet, {tries}"


def _cells(row: Row) -> str:
    state = f'<td style="{_LINE};white-space:nowrap">{xml(row.state)}</td>'
    return "".join(f'<td style="{_LINE}">{xml(cell)}</td>' for cell in (row.name, row.kind, row.asks)) + state


class Progress:
    """The exercises of the course, and what became of each."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows

    @property
    def summary(self) -> str:
        """How many are done."""
        return f"{sum(row.done for row in self.rows)} of {len(self.rows)} exercises done"

    @property
    def text(self) -> str:
        """The whole as a table of text."""
        body = [[row.name, row.kind, row.asks, row.state] for row in self.rows]
        return "\n".join([self.summary, *grid(["exercise", "kind", "asks", "done"], body, _WIDEST)])

    @property
    def html(self) -> str:
        """The whole as an HTML table, in the colours of the page it stands on."""
        titles = ("exercise", "kind", "asks", "done")
        head = "".join(f'<th scope="col" style="{_LINE}">{title}</th>' for title in titles)
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        look = "font:13px/1.5 system-ui,sans-serif;color:inherit;border-collapse:collapse"
        caption = f'<caption style="text-align:start;font-weight:700">{xml(self.summary)}</caption>'
        return f'<table style="{look}">{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Progress: {self.summary}>"


def progress(lesson: str | None = None) -> Progress:
    """What is done: all exercises, or those of one lesson, such as "06".

    Raises:  ArgumentError if the lesson has no exercises

    >>> progress()._repr_mimebundle_().keys()
    dict_keys(['text/plain', 'text/html'])
    """
    kept = record.entries()
    rows = []
    for number in exercises.lessons() if lesson is None else [lesson]:
        for each in exercises.lesson(number):
            entry = kept.get(each.name, record.Entry())
            rows.append(Row(number, each.name, each.kind, each.asks, entry.done, entry.tries))
    return Progress(tuple(rows))
