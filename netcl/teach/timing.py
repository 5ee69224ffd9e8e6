"""How long a lesson takes: minutes of a student's time, computed from the notebook, so that they can be tested.

    python -m netcl.teach.timing curriculum                        # a table of all lessons
    python -m netcl.teach.timing curriculum/04_chain_rule.ipynb    # one lesson, section by section

Cells tagged `may-wait` are not of the core, and stand under a heading with "(may wait)" in it. Of a code cell whose
first line is a comment with "need not be read" only the output counts.

The model adds what a student does who reads once, runs every cell and answers every exercise:

- prose at 200 words a minute. Adults read non-fiction silently at 238 (Brysbaert, "How many words do we read per
  minute?", Journal of Memory and Language 109, 2019), at about 200 if they read to learn (Carver, "Reading rate:
  theory, research, and practical implications", Journal of Reading 36(2), 1992). A formula in a line is 3 s, one of its
  own 10 s;
- 30 s for each question to be answered from memory or on paper; sources are not read;
- 4 s for each line of code that is there to be read, imports and tests of answers not; 2 s to run a cell;
- 1 s for each line of output, 20 s for a picture, 60 s for a widget;
- an exercise: predict and explain 2.5 minutes, debug 3, build 2 and half a minute for each line of our solution.

The times of code and exercises were fitted, as round numbers, to what readers said of the first versions of lessons 00
to 17, all of it, where nobody need read what draws a plot: the root of the mean square of the differences is 6 minutes,
the correlation 0.8. Students differ by more than that.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from netcl.teach import copies

__all__ = ["TAG", "CellTime", "Minutes", "cell_times", "main", "minutes", "mismarked", "sentence"]

TAG = "may-wait"
_MARK = "(may wait)"
_WORDS_A_MINUTE = 200
_SECONDS = {"formula": 3, "display": 10, "question": 30, "code": 4, "run": 2, "line": 1, "picture": 20, "widget": 60}
_EXERCISE = {"predict": 2.5, "explain": 2.5, "debug": 3.0, "build": 2.0}
_MINUTES_A_LINE = 0.5  # of the solution of an exercise to build

_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.M)
_EXERCISE_HEADING = re.compile(r"^Exercise \d+\.\d+ · (\w+)")
_SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.S)
_NOT_READ = re.compile(r"#.*need not be read", re.I)
# A stored lesson keeps no view of a widget, which has nothing behind it without a kernel, but the words beside it.
_WIDGET = re.compile(r"<(?:Explorer|Interaction|Stepper)\b")


class Minutes(NamedTuple):
    """What a student does in a cell, or in many: minutes of reading prose, reading code, looking, and answering."""

    prose: float = 0.0
    code: float = 0.0
    looking: float = 0.0
    answering: float = 0.0

    @property
    def all(self) -> float:
        return self.prose + self.code + self.looking + self.answering


class CellTime(NamedTuple):
    """A cell: the heading it stands under, whether it is tagged as one that may wait, and its time."""

    section: str
    level: int
    waits: bool
    minutes: Minutes


def cell_times(lesson: dict[str, Any]) -> list[CellTime]:
    """The time of each cell of a lesson, in order.

    >>> text = {"cell_type": "markdown", "source": "# One\\n" + "word " * 99, "metadata": {}}
    >>> [(t.section, t.minutes.all) for t in cell_times({"cells": [text]})]
    [('One', 0.5)]
    """
    found, section, level, kind = [], "", 1, ""
    for cell in lesson["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            for marks, title in _HEADING.findall(source):
                section, level = title, len(marks)
                exercise = _EXERCISE_HEADING.match(title)
                kind = exercise[1] if exercise else kind
            time = _of_text(source)
        else:
            time = _of_code(cell, source, kind)
        found.append(CellTime(section, level, TAG in cell["metadata"].get("tags", []), time))
    return found


def minutes(lesson: dict[str, Any]) -> tuple[float, float]:
    """The minutes of the core of a lesson, without what may wait, and of all of it."""
    times = cell_times(lesson)
    return sum(t.minutes.all for t in times if not t.waits), sum(t.minutes.all for t in times)


def rounded(time: float) -> int:
    """Minutes to the next five: more would be pretended.

    >>> rounded(38.2), rounded(37.4)
    (40, 35)
    """
    return 5 * int(time / 5 + 0.5)


def sentence(lesson: dict[str, Any]) -> str:
    """What the first cell of a lesson says of its time."""
    core, whole = map(rounded, minutes(lesson))
    if not any(t.waits for t in cell_times(lesson)):
        return f"about {whole} minutes."
    if core == whole:
        return f"about {core} minutes, with what is marked *may wait* or without."
    return f"about {core} minutes for a first reading, without what is marked *may wait*; about {whole} for all of it."


def mismarked(lesson: dict[str, Any]) -> list[str]:
    """Where the headings and the tags of a lesson disagree on what may wait.

    A heading with the mark holds for all cells up to the next heading of its level or a higher one.

    >>> heading = {"cell_type": "markdown", "id": "a", "source": "## 3 · More (may wait)", "metadata": {}}
    >>> mismarked({"cells": [heading]})
    ['a: it stands under "3 · More (may wait)" and lacks the tag']
    """
    wrong, waiting, level = [], "", 0
    for cell in lesson["cells"]:
        source = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        for i, heading in enumerate(_HEADING.finditer(source)):
            ends = waiting and len(heading[1]) <= level
            begins = _MARK in heading[2] and (ends or not waiting)
            if (ends or begins) and (i or source[: heading.start()].strip()):
                wrong.append(f'{cell["id"]}: "{heading[2]}" has to open a cell of its own')
            if begins:
                waiting, level = heading[2], len(heading[1])
            elif ends:
                waiting = ""
        tagged = TAG in cell["metadata"].get("tags", [])
        if waiting and not tagged:
            wrong.append(f'{cell["id"]}: it stands under "{waiting}" and lacks the tag')
        if tagged and not waiting:
            wrong.append(f"{cell['id']}: it is tagged, and no heading above it has the mark")
    return wrong


def _of_text(source: str) -> Minutes:
    source = re.split(r"^## Sources", source, flags=re.M)[0]
    questions = source.count("<details")
    if "## Two questions" in source:
        questions += len(re.findall(r"^\d\. ", source.split("## Two questions")[1], re.M))
    exercises = [_EXERCISE_HEADING.match(title) for _, title in _HEADING.findall(source)]
    answering = sum(_EXERCISE[exercise[1]] for exercise in exercises if exercise)
    source, displays = re.subn(r"\$\$.+?\$\$", " ", re.sub(r"<[^>]*>", " ", source), flags=re.S)
    source, formulas = re.subn(r"\$[^$]+\$", " ", source)
    words = sum(bool(re.search(r"\w", word)) for word in source.split())
    prose = words / _WORDS_A_MINUTE + _minutes(formula=formulas, display=displays)
    return Minutes(prose, answering=answering + _minutes(question=questions))


def _of_code(cell: dict[str, Any], source: str, kind: str) -> Minutes:
    nbgrader = cell["metadata"].get("nbgrader", {})
    if nbgrader.get("grade"):
        return Minutes()  # reading the verdict is part of the exercise
    built = sum(len(_lines(solution)) for solution in _SOLUTION.findall(source)) if kind == "build" else 0
    read = [] if _NOT_READ.match(source) else _lines(_SOLUTION.sub("...", source))
    return Minutes(0.0, _minutes(code=len(read)), _of_outputs(cell.get("outputs", [])), built * _MINUTES_A_LINE)


def _of_outputs(outputs: Sequence[dict[str, Any]]) -> float:
    looking = _minutes(run=1)
    for output in outputs:
        data = output.get("data", {})
        words = "".join(data.get("text/plain", ""))
        if _WIDGET.match(words):
            looking += _minutes(widget=1)
        elif any(kind.startswith("image/") for kind in data):
            looking += _minutes(picture=1)
        else:
            looking += _minutes(line=len(("".join(output.get("text", "")) or words).splitlines()))
    return looking


def _lines(source: str) -> list[str]:
    """The lines that say something: neither brackets alone nor imports."""
    return [line for line in source.splitlines() if re.search(r"\w", line) and not re.match(r"\s*(from|import) ", line)]


def _minutes(**counts: int) -> float:
    return sum(count * _SECONDS[name] for name, count in counts.items()) / 60


def _sum(times: Sequence[Minutes]) -> Minutes:
    return Minutes(*(sum(column) for column in zip(*times, strict=True)))


def _row(time: Minutes) -> str:
    return "".join(f"{part:9.1f}" for part in (time.all, *time))


def _table(folder: Path) -> Iterator[str]:
    yield f"{'lesson':36}{'core':>6}{'all':>7}    first cell"
    for path in copies.copies(folder):
        lesson = json.loads(path.read_text(encoding="utf-8"))
        core, whole = minutes(lesson)
        yield f"{path.stem:36}{core:6.1f}{whole:7.1f}    {sentence(lesson)}"
        yield from (f"    {fault}" for fault in mismarked(lesson))


def _sections(path: Path) -> Iterator[str]:
    lesson = json.loads(path.read_text(encoding="utf-8"))
    times = cell_times(lesson)
    yield f"{'section':60}{'all':>9}{'prose':>9}{'code':>9}{'looking':>9}{'answers':>9}"
    for title, level in dict.fromkeys((t.section, t.level) for t in times):
        here = [t for t in times if t.section == title]
        waits = "*" if any(t.waits for t in here) else " "
        yield f"{waits}{'  ' * (level - 1) + title[:54]:59}{_row(_sum([t.minutes for t in here]))}"
    yield f"{'core':60}{_row(_sum([t.minutes for t in times if not t.waits]))}"
    yield f"{'all (* may wait)':60}{_row(_sum([t.minutes for t in times]))}"
    yield "first cell: **Time**: " + sentence(lesson)
    yield from mismarked(lesson)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the times of the lessons of a folder, or of the sections of one lesson."""
    given = [Path(argument) for argument in (sys.argv[1:] if arguments is None else arguments)]
    for path in given or [Path("curriculum")]:
        print("\n".join(_table(path) if path.is_dir() else _sections(path)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
