"""The exercises, a module per lesson, each imported when it is first asked about."""

from __future__ import annotations

import importlib
import re
from difflib import get_close_matches
from pathlib import Path

from netcl.errors import ArgumentError
from netcl.teach.exercise import Exercise

__all__ = ["find", "lesson", "lessons"]


def lessons() -> list[str]:
    """The numbers of the lessons that have exercises."""
    names = (re.fullmatch(r"lesson_(\d\d)\.py", path.name) for path in Path(__file__).parent.iterdir())
    return sorted(match[1] for match in names if match)


def lesson(number: str) -> tuple[Exercise, ...]:
    """The exercises of a lesson.

    Raises:  ArgumentError if there is no such lesson
    """
    known = lessons()
    if number not in known:
        raise ArgumentError(f"no lesson {number!r} has exercises; those that have: {', '.join(known) or 'none'}")
    return importlib.import_module(f"netcl.teach.exercises.lesson_{number}").EXERCISES


def find(name: str) -> Exercise:
    """The exercise of this name, such as "06.fork".

    Raises:  ArgumentError naming the exercises that there are
    """
    if not isinstance(name, str):
        raise ArgumentError(f"the name of an exercise is a text such as '06.fork', not {type(name).__name__}")
    known = {exercise.name: exercise for exercise in lesson(name.partition(".")[0])}
    if name not in known:
        near = get_close_matches(name, known, 1)
        meant = f"; is {near[0]!r} meant?" if near else ""
        raise ArgumentError(f"no exercise is called {name!r}{meant} This lesson has {', '.join(known)}")
    return known[name]
