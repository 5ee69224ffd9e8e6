"""The students' copies of the lessons, made by nbgrader: `python -m netcl.teach.copies`, in a checkout.

A copy has `...` for each solution, no hidden tests, no outputs, and keeps the ids of its cells; so it runs from top to
bottom. In its metadata stands a digest of the lesson that it was made from, by which a stale one is found without
nbgrader. nbval is told to run its cells and to compare nothing: what they print depends on the answers.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from netcl.errors import ArgumentError

__all__ = ["FOLDER", "copies", "digest", "main", "stale", "student_copy"]

FOLDER = "student"
_CURRICULUM = Path(__file__).resolve().parents[2] / "curriculum"
_VERSION = 1  # of the rules by which copies are made
_IGNORED = "nbval-ignore-output"
_LINK = re.compile(r"\]\((?!\w+:|#|/)")


def digest(lesson: dict[str, Any]) -> str:
    """A digest of what a copy is made from: all of a lesson but its outputs.

    >>> digest({"cells": [], "metadata": {}}) == digest({"metadata": {}, "cells": []})
    True
    """
    content = copy.deepcopy(lesson)
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    text = json.dumps([_VERSION, content], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def student_copy(path: Path) -> str:
    """The text of the copy of a lesson.

    Raises:  ArgumentError if nbgrader is not installed; RuntimeError if a region of the lesson is not closed
    """
    try:
        import nbformat

        # Linters' environments do without it: it is large.
        from nbgrader.preprocessors import (  # pyright: ignore[reportMissingImports]
            ClearHiddenTests,
            ClearOutput,
            ClearSolutions,
            LockCells,
        )
        from traitlets.config import Config
    except ModuleNotFoundError as error:
        raise ArgumentError(f'{error.name} is not installed: pip install "netcl[dev]"') from None
    notebook = nbformat.read(path, as_version=4)
    config = Config()
    config.ClearSolutions.code_stub = {"python": "..."}
    resources: Any = {}
    for step in (ClearSolutions, ClearHiddenTests, LockCells, ClearOutput):
        notebook, resources = step(config=config).preprocess(notebook, resources)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), _IGNORED})
        else:
            cell.source = _LINK.sub("](../", cell.source)  # it lies one folder deeper
    notebook.metadata["netcl"] = {"made_from": digest(json.loads(path.read_text(encoding="utf-8")))}
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1).rstrip("\n") + "\n"


def as_laid(text: str) -> str:
    """A copy as it lies in a student's folder, in the place of the lesson: its links lead where the lesson's do.

    >>> as_laid("[docs](../../docs/ops.md), [05](../05_forward_mode.ipynb)")
    '[docs](../docs/ops.md), [05](05_forward_mode.ipynb)'
    """
    return text.replace("](../", "](")


def copies(curriculum: Path = _CURRICULUM) -> dict[Path, Path]:
    """Each lesson, and where its copy lies."""
    lessons = sorted(curriculum.glob("[0-9][0-9]_*.ipynb"))
    return {path: curriculum / FOLDER / path.name for path in lessons if not path.name.endswith(".new.ipynb")}


def stale(curriculum: Path = _CURRICULUM) -> list[str]:
    """The lessons whose copies are not there or were made from another version, and copies without a lesson."""
    wanted = copies(curriculum)
    wrong = [lesson.name for lesson, made in wanted.items() if _made_from(made) != _digest_of(lesson)]
    strays = set((curriculum / FOLDER).glob("*.ipynb")) - set(wanted.values())
    return [*wrong, *sorted(f"{FOLDER}/{path.name}" for path in strays)]


def _digest_of(lesson: Path) -> str:
    return digest(json.loads(lesson.read_text(encoding="utf-8")))


def _made_from(path: Path) -> str | None:
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["metadata"].get("netcl", {}).get("made_from")


def main() -> int:
    """Make the copies that are stale, and take away those whose lesson is gone."""
    if not _CURRICULUM.is_dir():
        print("netcl: copies are made in a checkout; this netcl is installed without one", file=sys.stderr)
        return 1
    try:
        wanted = copies()
        for lesson, made in wanted.items():
            if _made_from(made) != _digest_of(lesson):
                made.parent.mkdir(exist_ok=True)
                made.write_text(student_copy(lesson), encoding="utf-8", newline="\n")
                print(f"made {FOLDER}/{made.name}")
        for stray in set((_CURRICULUM / FOLDER).glob("*.ipynb")) - set(wanted.values()):
            stray.unlink()
            print(f"removed {FOLDER}/{stray.name}")
    except ArgumentError as error:
        print(f"netcl: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
