"""What is known of the notebook that netcl runs in: which cell a piece of code is, and whether it has changed since."""

from __future__ import annotations

import re
import sys
import time
from typing import Any

STARTED = time.time()
"""When netcl was imported: source files older than this are those that ran."""

_latest: dict[str, str] = {}  # a cell's id -> the name of the code that it ran last
_cells: dict[str, str] = {}  # the name of a piece of code -> the id of the cell that ran it last
_watched: list[Any] = []


def watch() -> None:
    """Take note, from now on, of what each cell runs; does nothing outside a notebook or a second time."""
    shell = _shell()
    events = getattr(shell, "events", None)
    if events is not None and shell not in _watched:
        _watched[:] = [shell]
        events.register("post_run_cell", _ran)


def cell_number(filename: str) -> int | None:
    """The number of the cell that a piece of code stood in, as in `In [3]`; None for a file."""
    name_of = getattr(getattr(_shell(), "compile", None), "format_code_name", None)
    named = name_of(filename) if name_of is not None else None
    match = re.fullmatch(r"In\[(\d+)\]", named[1]) if named else None
    return int(match.group(1)) if match else None


def has_changed(filename: str) -> bool:
    """Whether the cell of this code has since run with another text. Front ends that do not name cells tell nothing."""
    cell = _cells.get(filename)
    return cell is not None and _latest[cell] != filename


def _shell() -> Any:
    """The running IPython, if there is one; netcl itself does not need it."""
    module: Any = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def _ran(result: Any) -> None:
    info = result.info
    cell = getattr(info, "cell_id", None)
    code_name = getattr(getattr(_shell(), "compile", None), "get_code_name", None)
    if cell is None or code_name is None or not info.store_history:
        return
    filename = code_name(
        info.raw_cell, getattr(info, "transformed_cell", None) or info.raw_cell, result.execution_count
    )
    _cells[filename] = cell
    _latest[cell] = filename
