"""Reports: what is shown as text in a terminal, as text or a picture in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.errors import ArgumentError
from netcl.viz.text import ELLIPSIS, isolate, width


class Report:
    """Something that can be read as `text`, and for some kinds looked at as `svg` (else that is empty)."""

    @property
    def text(self) -> str:
        """The report as a terminal shows it."""
        raise NotImplementedError

    @property
    def svg(self) -> str:
        """The report as one SVG element, or nothing."""
        return ""

    @property
    def html(self) -> str:
        """The report as an HTML table, or nothing."""
        return ""

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report to a file, in the format that its ending names, and return the path.

        Raises:  ArgumentError if there is no such format of this report
        """
        path = Path(path)
        formats = {ending: kind for ending, kind in ((".txt", self.text), (".svg", self.svg)) if kind}
        if path.suffix.lower() not in formats:
            raise ArgumentError(
                f"this is saved as {', '.join(formats)}, not as {path.suffix or 'a file without ending'!r}"
            )
        path.write_text(formats[path.suffix.lower()] + "\n", encoding="utf-8", newline="\n")
        return path

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        found = {"image/svg+xml": self.svg, "text/html": self.html, "text/plain": self.text}
        return {kind: text for kind, text in found.items() if text}


def columns(text: str) -> int:
    """Columns of a terminal.

    >>> columns("ab"), columns("∂y")
    (2, 2)
    """
    return round(width(text, 1.0, mono=True) / 0.62)


def grid(
    titles: Sequence[str], rows: Sequence[Sequence[str]], most: Sequence[int] = (), right: Sequence[int] = ()
) -> list[str]:
    """Rows under titles, as lines. Columns are as wide as their texts, at most `most`; those in `right` end flush.

    >>> print("\\n".join(grid(["node", "bytes"], [["x", "24"], ["loss", "4"]], right=[1])))
    node  bytes
    ────  ─────
    x        24
    loss      4
    """
    every = [titles, *rows]
    widths = [max(columns(row[i]) for row in every) for i in range(len(titles))]
    widths = [min(pair) for pair in zip(widths, most, strict=True)] if most else widths
    lines = [_line(row, widths, right) for row in every]
    return [lines[0], "  ".join("─" * wide for wide in widths), *lines[1:]]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = []
    for i, (text, wide) in enumerate(zip(row, widths, strict=True)):
        while columns(text) > wide:
            text = text[:-2].rstrip() + ELLIPSIS
        room = " " * (wide - columns(text))
        cells.append(room + isolate(text) if i in right else isolate(text) + room)
    return "  ".join(cells).rstrip()


def thousands(n: int) -> str:
    """A count, with thin gaps for a reader's sake.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{n:,}".replace(",", " ")


def amount(nbytes: float) -> str:
    """Bytes in few characters.

    >>> amount(24), amount(67_108_864)
    ('24 B', '64 MiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.3g} {unit}" if nbytes < 1000 else f"{nbytes:.0f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.3g} GiB"
