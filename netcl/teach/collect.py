"""`netcl collect`: the progress files of a class as one table of comma-separated values."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

from netcl.errors import ArgumentError
from netcl.teach import exercises
from netcl.teach.record import PROGRESS, Entry, read
from netcl.viz.text import clean, clip

__all__ = ["Collected", "collect"]

_STEM = PROGRESS.removesuffix(".json")
_LARGEST = 5_000_000  # bytes; a full one has some ten thousand
# A spreadsheet takes a cell that begins with one of these for a formula, and computes it.
_FORMULA = tuple("=+-@\t\r＝＋－＠")


@dataclass
class Collected:
    """What was found: a row per progress file, and what is wrong with files that could not be read."""

    rows: list[tuple[str, str, dict[str, Entry]]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def csv(self) -> str:
        """The table: a student's folder, the seed, how much is done, and two columns for each exercise.

        In the column of an exercise stands 1 if it is done, 0 if it was only tried, or nothing; in the one beside it
        the number of tries.
        """
        names = sorted({*_known(), *(name for _, _, entries in self.rows for name in entries)})
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        titles = [title for name in names for title in (name, f"{name} tries")]
        writer.writerow([_safe(title) for title in ("student", "seed", "done", "tries", *titles)])
        for student, seed, entries in self.rows:
            done, tries = sum(each.done for each in entries.values()), sum(each.tries for each in entries.values())
            cells: list[object] = [_safe(student), _safe(seed), done, tries]
            for name in names:
                entry = entries.get(name)
                cells += ["", ""] if entry is None else [int(entry.done), entry.tries]
            writer.writerow(cells)
        return out.getvalue()


def _known() -> list[str]:
    return [exercise.name for number in exercises.lessons() for exercise in exercises.lesson(number)]


def _safe(text: str) -> str:
    """A text that no spreadsheet computes.

    >>> _safe("=1+1"), _safe("Ada")
    ("'=1+1", 'Ada')
    """
    text = clip(clean(text), 200)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def collect(folder: Path) -> Collected:
    """Read every progress file below a folder: `ada/netcl-progress.json`, or `ada_netcl-progress.json` as some course
    systems rename it. The student is called by the folder, or by the file where that has a name of its own.

    Raises:  ArgumentError if there is no such folder
    """
    if not folder.is_dir():
        raise ArgumentError(f"there is no folder {folder}")
    found = Collected()
    for path in sorted(folder.rglob(f"*{_STEM}*.json")):
        place = path.relative_to(folder)
        if path.name.startswith((".", f"{_STEM}.broken")) or not path.is_file():
            continue
        try:
            if path.stat().st_size > _LARGEST:
                raise OSError(f"it has more than {_LARGEST} bytes")
            entries, sound = read(path)
        except OSError as error:
            found.complaints.append(f"{place.as_posix()} was left out: {error.strerror or error}")
            continue
        if not sound:
            what = "only a part of it can be read" if entries else "it cannot be read, and was left out"
            found.complaints.append(f"{place.as_posix()}: {what}")
        if sound or entries:
            own = path.name == PROGRESS
            student = (place.parent if own else place.with_suffix("")).as_posix()
            found.rows.append((student, _seed(path), entries))
    return found


def _seed(path: Path) -> str:
    found = json.loads(path.read_text(encoding="utf-8")).get("seed", "")
    return found if isinstance(found, str) else ""
