"""What becomes of an answer: right, a known wrong rule, unknown, not yet given, or a fault of the checker's own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal

from netcl.teach.answers import UnfitError
from netcl.teach.answers.base import shown
from netcl.teach.exercise import Exercise, Wrong

State = Literal["right", "wrong", "unfit", "unanswered", "fault"]


@dataclass(frozen=True)
class Verdict:
    """The state of an answer; `rule` is the wrong rule that it follows, `remark` what else can be said, `wanted`
    what to write where nothing is answered."""

    state: State
    rule: Wrong | None = None
    remark: str = ""
    wanted: tuple[str, ...] = ()


def judge(exercise: Exercise, answer: Any, seed: int | str = 0) -> Verdict:
    """Compare an answer with the right one, and then with what each wrong rule makes: by the same comparison.

    Nothing that is wrong with the answer is raised; neither is a fault of the exercise, which is told as one.
    """
    try:
        return _judge(exercise, answer, seed)
    except Exception as error:  # the student must not pay for a fault of ours
        return Verdict("fault", remark=f"{type(error).__name__}: {shown_text(error)}")


def _judge(exercise: Exercise, answer: Any, seed: int | str) -> Verdict:
    kind = exercise.answer
    if kind.empty(answer):
        return Verdict("unanswered", wanted=tuple(kind.wanted(exercise.given(seed))))
    d, target = _target(exercise, seed)
    try:
        read = kind.read(answer, d)
    except UnfitError as unfit:
        return Verdict("unfit", remark=str(unfit))
    if kind.same(read, target):
        return Verdict("right")
    which = kind.nearest(read, _planted(exercise, seed))
    if which is not None:
        return Verdict("wrong", exercise.wrong[which])
    if kind.unfinished(answer):
        return Verdict("unanswered", wanted=("There is still a `...` in it.", *kind.wanted(d)))
    return Verdict("wrong", remark=kind.remark(read, d))


# What is compared with is made once: some of it runs on the device. An exercise is known by itself, not by its name.


@lru_cache(maxsize=32)
def _target(exercise: Exercise, seed: int | str) -> tuple[SimpleNamespace, Any]:
    d = exercise.given(seed)
    return d, exercise.answer.target(d)


@lru_cache(maxsize=32)
def _planted(exercise: Exercise, seed: int | str) -> tuple[Any, ...]:
    d = exercise.given(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a wrong rule makes may well overflow
        return tuple(exercise.answer.read(exercise.made(wrong.answer, d), d) for wrong in exercise.wrong)


def shown_text(error: BaseException) -> str:
    """The text of an exception, whatever it does when it is asked for it."""
    try:
        return str(error)
    except Exception:  # the text of an exception can fail too
        return shown(error)
