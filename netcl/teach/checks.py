"""`check`: an answer in, and back comes whether it is right, or a hint at why it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from netcl.teach import exercises, record
from netcl.teach.answers.base import shown
from netcl.teach.exercise import Exercise
from netcl.teach.verdict import State, Verdict, judge
from netcl.viz.text import clean, xml

__all__ = ["Result", "check", "given", "right"]

_MARKS = {"right": "✓", "wrong": "✗", "unfit": "✗", "unanswered": "…", "fault": "!"}
_TITLES = {
    "right": "right", "wrong": "not yet", "unfit": "not yet", "unanswered": "not answered yet",
    "fault": "the checker failed; your answer may be right",
}  # fmt: skip
# Strong enough on white and on a dark page alike; the mark and the words say the same without the colour.
_COLOURS = {"right": "#2a9d6f", "wrong": "#d9722e", "unfit": "#d9722e", "unanswered": "#8a929b", "fault": "#d24b4b"}
_UNKNOWN = (
    "This is not right, and none of the hints of this exercise fits it. Read the section before it once more, and go "
    "through your steps one by one."
)
_ASKED = re.compile(r"(; .* is|the one that is) asked for\.$")  # how a remark on the kind or the shape ends
_REPORT = "Please report this, with the name of the exercise."

_met: dict[tuple[str, str], int] = {}  # (exercise, rule) -> how often it was met in this session


@dataclass(frozen=True)
class Result:
    """What `check` says; true if the answer is right.

    >>> Result("06.fork", "right", ("Both paths count.",))
    <06.fork: right>
    """

    name: str
    state: State
    lines: tuple[str, ...] = ()
    level: int = 0

    def __bool__(self) -> bool:
        return self.state == "right"

    @property
    def title(self) -> str:
        """The state in words."""
        return _TITLES[self.state] + (f" · hint {self.level} of 3" if self.level else "")

    @property
    def text(self) -> str:
        """The whole as text."""
        lines = [f"  {line.replace('`', '')}" for line in self.lines]
        return "\n".join([f"{_MARKS[self.state]} {self.name}: {self.title}", *lines])

    @property
    def html(self) -> str:
        """The whole as HTML, in the colours of the page it stands on."""
        edge = f"border-inline-start:4px solid {_COLOURS[self.state]};padding:4px 0 4px 12px;max-width:720px"
        told = "".join(f'<div style="margin-top:2px">{_marked(line)}</div>' for line in self.lines)
        head = f"<b>{_MARKS[self.state]} {xml(self.name)}: {xml(self.title)}</b>"
        return f'<div style="{edge};font:14px/1.5 system-ui,sans-serif;color:inherit" role="status">{head}{told}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.name}: {self.title}>"


def _marked(line: str) -> str:
    """Escaped, with `code` set as such."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", xml(line))


def check(name: str | Exercise, answer: Any = ...) -> Result:
    """Say whether an answer is right; if not, give a hint, and a further one when the same mistake comes back.

    Whatever the answer is, nothing is raised because of it. The student's folder keeps what is done. In place of a name
    stands an exercise of your own, if you have one (`notebooks/teaching_with_netcl.ipynb`).

    Raises:  ArgumentError if there is no exercise of this name
    """
    exercise = _found(name)
    verdict = judge(exercise, answer, record.seed())
    unkept = record.note(exercise.name, verdict.state, verdict.rule.rule if verdict.rule else None)
    return _told(exercise, verdict, unkept)


def right(name: str | Exercise, answer: Any = ...) -> bool:
    """Whether an answer is right, without a word and without counting as a try.

    Raises:  ArgumentError if there is no exercise of this name
    """
    return judge(_found(name), answer, record.seed()).state == "right"


def given(name: str | Exercise) -> SimpleNamespace:
    """The numbers of an exercise, as attributes; they differ by the seed that the course was laid with.

    Raises:  ArgumentError if there is no exercise of this name
    """
    return _found(name).given(record.seed())


def _found(name: str | Exercise) -> Exercise:
    return name if isinstance(name, Exercise) else exercises.find(name)


def forget() -> None:
    """Start all hints at the first level again."""
    _met.clear()


def _told(exercise: Exercise, verdict: Verdict, unkept: str) -> Result:
    level, lines = 0, [verdict.remark]
    if verdict.state == "right":
        lines = [exercise.because]
    elif verdict.state == "unanswered":
        lines = [f"{exercise.kind[:1].upper()}{exercise.kind[1:]}: {exercise.asks}", *verdict.wanted]
    elif verdict.state == "fault":
        lines = [verdict.remark, _REPORT]
    elif verdict.rule is not None:
        met = _met[exercise.name, verdict.rule.rule] = _met.get((exercise.name, verdict.rule.rule), 0) + 1
        level = min(met, 3)
        lines = list(verdict.rule.hints[:level])
    elif verdict.state == "wrong":
        telling = _ASKED.search(verdict.remark)  # such a remark is a hint of its own
        lines = [verdict.remark] if telling else [_UNKNOWN, verdict.remark]
    return Result(exercise.name, verdict.state, _clean([*lines, unkept]), level)


def _clean(lines: Sequence[str]) -> tuple[str, ...]:
    cleaned = (clean(line if isinstance(line, str) else shown(line)).strip() for line in lines)
    return tuple(line for line in cleaned if line)
