"""What becomes of an answer: right, a known wrong rule, unknown, not yet given, or a fault of the checker's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from netcl.teach.answers import UnfitError
from netcl.teach.answers.base import shown
from netcl.teach.exercise import Exercise, Wrong

State = Literal["right", "wrong", "unfit", "unanswered", "fault"]


@dataclass(frozen=True)
class Verdict:
    """The state of an answer; `rule` is the wrong rule that it follows, `remark` what else can be said."""

    state: State
    rule: Wrong | None = None
    remark: str = ""


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
        return Verdict("unanswered")
    d = exercise.given(seed)
    try:
        read = kind.read(answer, d)
    except UnfitError as unfit:
        return Verdict("unfit", remark=str(unfit))
    if kind.same(read, kind.target(d)):
        return Verdict("right")
    made = [kind.read(exercise.made(wrong.answer, d), d) for wrong in exercise.wrong]
    which = kind.nearest(read, made)
    if which is not None:
        return Verdict("wrong", exercise.wrong[which])
    return Verdict("wrong", remark=kind.remark(read, d))


def shown_text(error: BaseException) -> str:
    """The text of an exception, whatever it does when it is asked for it."""
    try:
        return str(error)
    except Exception:  # the text of an exception can fail too
        return shown(error)
