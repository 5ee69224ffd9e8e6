"""Where a node was made: the innermost line of the user's own code, kept for about a microsecond's worth of work."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType

from netcl import notebook

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_inside: dict[str, bool] = {}  # file name -> whether it is part of netcl
sites: dict[int, dict[int, Site]] = {}
"""One Site for each place, however often a loop comes by: objects of one node less for the collector. By the code's id,
since hashing code is slow (its sites keep it alive, so that no other gets that id), and by instruction."""
_CODES_KEPT = 4096


class Site:
    """A place in the user's code. The line is worked out when it is asked for."""

    __slots__ = ("code", "instruction")

    def __init__(self, code: CodeType, instruction: int) -> None:
        self.code = code
        self.instruction = instruction

    def __repr__(self) -> str:
        return f"<Site {self.describe()}>"

    @property
    def filename(self) -> str:
        """The file's name, or the one that the notebook's kernel gave to a cell."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line number, counted from 1 within the file or cell."""
        found = self.code.co_firstlineno
        for start, end, line in self.code.co_lines():
            if line is not None and start <= self.instruction < end:
                found = line
        return found

    @property
    def cell(self) -> int | None:
        """The number of the notebook cell, as in `In [3]`, or None in a file."""
        return notebook.cell_number(self.filename)

    def describe(self) -> str:
        """Return `cell 3, line 2` or `model.py, line 7`."""
        cell = self.cell
        return f"{os.path.basename(self.filename) if cell is None else f'cell {cell}'}, line {self.line}"

    def source_line(self) -> str:
        """Return the text of the line, or an empty string where the source is not to be had."""
        return linecache.getline(self.filename, self.line).strip()


def here(depth: int = 1) -> Site | None:
    """Return the innermost place outside netcl on this thread's stack, of which `depth` calls are inside for sure.

    >>> here().line >= 1
    True
    """
    frame = sys._getframe(depth)
    known = sites.get(id(frame.f_code))
    if known is not None and (site := known.get(frame.f_lasti)) is not None:
        return site
    while frame is not None:
        name = frame.f_code.co_filename
        inside = _inside.get(name)
        if inside is None:
            inside = _inside[name] = is_inside(name)
        if not inside:
            kept = sites.get(id(frame.f_code))
            site = kept.get(frame.f_lasti) if kept is not None else None
            return site if site is not None else _keep(Site(frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return None


def _keep(site: Site) -> Site:
    if len(sites) >= _CODES_KEPT:
        sites.clear()
    return sites.setdefault(id(site.code), {}).setdefault(site.instruction, site)


def is_inside(filename: str) -> bool:
    """Say whether a file is part of netcl.

    >>> is_inside(__file__)
    True
    """
    return filename.startswith(_PACKAGE)
