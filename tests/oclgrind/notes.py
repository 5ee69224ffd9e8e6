"""The notes that plugin.py leaves.

They are lines of fields with tabs between them, the first of which says what a line is:

    test    <bytes of the log when it began>    <its name>
    kernel  <the module that its source is in>  <its name>
    access  <how an elementwise kernel reads or writes an operand>
    row     <an op's name>                      ran | never
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

USER_KERNELS = "netcl.user_kernel"
# As `_access` in netcl/kernels/elementwise.py names them, and results that are written into a view.
ACCESSES = ("number", "same", "one", "strided", "scattered")
_DEFINITION = re.compile(r"__kernel void (\w+|\{)")


class Notes(NamedTuple):
    """What was noted; a start is where in the log, in bytes, a test began, and its name."""

    starts: list[tuple[int, str]]
    kernels: set[tuple[str, str]]
    accesses: set[str]
    rows: dict[str, bool]


def read(text: str) -> Notes:
    """Read notes; an unfinished last line, which a crash may leave, is passed over."""
    notes = Notes([], set(), set(), {})
    for line in text.splitlines(keepends=True):
        match line.removesuffix("\n").split("\t") if line.endswith("\n") else ():
            case ("test", offset, name):
                notes.starts.append((int(offset), name))
            case ("kernel", module, name):
                notes.kernels.add((module, name))
            case ("access", how):
                notes.accesses.add(how)
            case ("row", name, how):
                notes.rows[name] = how == "ran"
    return notes


def declared(package: Path) -> set[tuple[str, str]]:
    """Return the module and the name of every kernel whose source is under netcl/kernels."""
    return {
        (f"netcl.kernels.{path.stem}", name)
        for path in (package / "kernels").glob("*.py")
        for name in _DEFINITION.findall(path.read_text(encoding="utf-8"))
    }


def never_run(notes: Notes, kernels: set[tuple[str, str]]) -> list[str]:
    """Say what should have run and did not: kernels, ways to reach operands, rows of the op table, a user's kernel."""
    missing = [f"the kernel {name} of {module}" for module, name in sorted(kernels - notes.kernels)]
    missing += [f"an elementwise kernel with an operand {how!r}" for how in ACCESSES if how not in notes.accesses]
    missing += [f"the row {name}" for name, ran in notes.rows.items() if not ran]
    if not any(module == USER_KERNELS for module, _ in notes.kernels):
        missing.append("a user's own kernel")
    return missing if notes.rows else [*missing, "the end of the run: it broke off"]
