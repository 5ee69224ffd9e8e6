"""Questions asked before a step is shown, and what an answer says about the rule behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from netcl.errors import ArgumentError
from netcl.viz.backward import gradient
from netcl.viz.mistakes import Case, Mistake, case_of, mistakes
from netcl.viz.nudge import difference, entry_text
from netcl.viz.replay import Replay
from netcl.viz.steps import Step
from netcl.viz.text import clip
from netcl.viz.values import number, shape_text

Kind = Literal["edge", "shape", "sign", "entry"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CONFIDENCE = ("guess", "think so", "certain")
_MOST_OPTIONS = 4
_NEAR = 0.01


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a step; without options it asks for a number."""

    kind: Kind
    step: int
    text: str
    options: tuple[str, ...] = ()
    entry: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered before the step was shown, how sure the student was, and what came of it.

    `cause` names the wrong rule that leads to this answer, if one is known.
    """

    step: int
    kind: Kind
    question: str
    given: str
    confidence: str
    right: bool
    cause: str
    feedback: str


class Quiz:
    """The questions of a pass, and the answers so far.

    Raises:  ArgumentError if `kinds` has something that is no kind of question
    """

    def __init__(self, run: Replay, kinds: Sequence[str] = KINDS) -> None:
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise ArgumentError(f"questions are of the kinds {', '.join(KINDS)}, not {unknown[0]!r}")
        self.run, self.kinds = run, tuple(kinds)
        self.answers: list[Answer] = []

    def questions(self, number_of_step: int) -> list[Question]:
        """What is asked before a step is shown; what has but one answer is not asked."""
        step = self.run.passage.steps[number_of_step]
        case = case_of(self.run, step)
        made: dict[str, Callable[[], Question | None]] = {
            "edge": lambda: self._edge(step),
            "shape": lambda: self._shape(step),
            "sign": lambda: self._sign(step, case),
            "entry": lambda: self._entry(step, case),
        }
        found = [made[kind]() for kind in KINDS if kind in self.kinds]
        return [question for question in found if question is not None]

    def judge(self, question: Question, given: str, confidence: str) -> Answer:
        """Say whether an answer is right, or what led to it, and keep it.

        Raises:  ArgumentError if the answer is none of the options, or no number
        """
        if confidence not in CONFIDENCE:
            raise ArgumentError(f"say how sure you are: {', '.join(CONFIDENCE)}")
        if question.options and given not in question.options:
            raise ArgumentError("choose one of the answers")
        judged = {
            "edge": self._judge_edge, "shape": self._judge_shape, "sign": self._judge_sign, "entry": self._judge_entry,
        }[question.kind](question, given)  # fmt: skip
        right, cause, feedback = judged
        answer = Answer(question.step, question.kind, question.text, given, confidence, right, cause, feedback)
        self.answers.append(answer)
        return answer

    @property
    def summary(self) -> str:
        """How often the student was right, by how sure they were."""
        parts = []
        for level in reversed(CONFIDENCE):
            mine = [answer for answer in self.answers if answer.confidence == level]
            if mine:
                parts.append(f"{level}: {sum(answer.right for answer in mine)} of {len(mine)} right")
        return "; ".join(parts)

    # Which edge

    def _label(self, step: Step) -> str:
        view = self.run.view
        return f"{clip(view.card(step.child).name, 20)} → {clip(view.card(step.target).name, 20)}"

    def _edge(self, step: Step) -> Question | None:
        before = step.number - 1
        waiting = list(self.run.passage.waiting(before))
        ready = self.run.passage.ready(before)
        early = [each for each in waiting if each.edge not in ready]
        also = [each for each in waiting if each.edge in ready and each is not step]
        chosen = [step, *early[: _MOST_OPTIONS - 2], *also][:_MOST_OPTIONS]
        labels = {self._label(each) for each in chosen}
        if len(labels) < 2 or not early:
            return None  # every answer would be right
        options = tuple(self._label(each) for each in sorted(chosen, key=lambda each: each.edge or 0))
        text = "Which edge can be taken next?"
        return Question("edge", step.number, text, tuple(dict.fromkeys(options)))

    def _judge_edge(self, question: Question, given: str) -> tuple[bool, str, str]:
        passage = self.run.passage
        step = passage.steps[question.step]
        if given == self._label(step):
            name = self.run.view.card(step.child).name
            return True, "", f"Right: {name} has received all that it gets, so it can pass it on."
        before = question.step - 1
        ready = passage.ready(before)
        named = [each for each in passage.waiting(before) if self._label(each) == given]
        if any(each.edge in ready for each in named):
            return (
                True,
                "",
                f"Right: that one may come next too. netcl takes the newest node first: {self._label(step)}.",
            )
        card = self.run.view.card(named[0].child)
        left = len(passage.coming(card.key, before))
        paths = "another path has" if left == 1 else f"{left} paths have"
        cause = f"{card.name} is not complete: {paths} still to reach it, and a node passes its gradient on once."
        return False, "too early", f"Not yet: {cause}"

    # Which shape

    def _shape(self, step: Step) -> Question | None:
        child, target = self.run.view.card(step.child), self.run.view.card(step.target)
        options = self._shapes(step)
        if target.kind == "fold" or child.kind == "fold" or (not child.shape and not target.shape) or len(options) < 2:
            return None
        text = f"Which shape has the contribution that goes from {clip(child.name, 20)} to {clip(target.name, 20)}?"
        return Question("shape", step.number, text, tuple(sorted(options, key=lambda each: (len(each), each))))

    def _shapes(self, step: Step) -> dict[str, tuple[str, str]]:
        """The shapes that right and wrong rules give, each with its rule and cause."""
        child, target = self.run.view.card(step.child), self.run.view.card(step.target)
        ways = (
            (target.shape, "", ""),
            (child.shape, "shape of the consumer", f"that is the shape of {child.name}, where it comes from; a "
             "contribution has the shape of the node that it goes to."),
            (target.shape[::-1], "transposed", "the axes are the wrong way round: a gradient lies as its node lies."),
            ((), "one number", "a gradient has a number for every entry of its node, not one for all."),
            ((*child.shape, *target.shape), "Jacobian", "that is the whole Jacobian, which reverse mode never builds: "
             "it only multiplies by it."),
        )  # fmt: skip
        found: dict[str, tuple[str, str]] = {}
        for shape, rule, cause in ways:
            found.setdefault(shape_text(shape), (rule, cause))
        return dict(list(found.items())[:_MOST_OPTIONS])

    def _judge_shape(self, question: Question, given: str) -> tuple[bool, str, str]:
        step = self.run.passage.steps[question.step]
        rule, cause = self._shapes(step)[given]
        if not rule:
            return True, "", f"Right: a gradient has the shape of its node, {given}."
        return False, rule, f"No: {cause}"

    # Which sign

    def _sign(self, step: Step, case: Case | None) -> Question | None:
        if case is None or not np.isfinite(case.right).all() or not case.right.size:
            return None
        child, target = self.run.view.card(step.child), self.run.view.card(step.target)
        options = ("positive", "negative", "zero") if case.right.size == 1 else _PATTERNS
        text = f"What goes from {clip(child.name, 20)} to {clip(target.name, 20)}: positive, negative or zero?"
        return Question("sign", step.number, text, options)

    def _judge_sign(self, question: Question, given: str) -> tuple[bool, str, str]:
        step = self.run.passage.steps[question.step]
        case = case_of(self.run, step)
        assert case is not None
        truth = pattern(case.right)
        if given == truth:
            return True, "", f"Right: {truth}."
        local = [each for each in mistakes(case) if each.rule not in _OF_THE_SUM]
        found = next((each for each in local if pattern(each.came) == given), None)
        if found is not None:
            return False, found.rule, f"No: {found.cause}"
        if given.startswith("zero"):
            return False, "no influence", f"No: that would mean that moving {case.target} does not move {case.child}."
        return False, "", f"No. {self._reminder(step)}"

    # Which number

    def _entry(self, step: Step, case: Case | None) -> Question | None:
        if case is None or not case.right.size or (step.was is not None and case.was is None):
            return None
        entry = telling_entry(case)
        now = case.right.reshape(-1)[entry] + (0.0 if case.was is None else case.was.reshape(-1)[entry])
        if not np.isfinite(now):
            return None
        caption = self.run.view.card(step.target).caption
        where = entry_text(case.right.shape, entry)
        through = clip(self.run.view.card(step.child).name, 20)
        text = f"What is {caption}{where} once the path through {through} is in?"
        return Question("entry", step.number, text, (), entry)

    def _judge_entry(self, question: Question, given: str) -> tuple[bool, str, str]:
        step = self.run.passage.steps[question.step]
        case = case_of(self.run, step)
        assert case is not None
        value, i = parse_number(given), question.entry
        before = 0.0 if case.was is None else float(case.was.reshape(-1)[i])
        came = float(case.right.reshape(-1)[i])
        check = self._check(step, i, came)
        if near(value, before + came):
            total = f"{number(before)} + {number(came)} = {number(before + came)}"
            return True, "", f"Right: {total}. {check}"
        found = diagnose(mistakes(case), i, value)
        told = f"No: {found.cause}" if found is not None else f"No. {self._reminder(step)}"
        return False, found.rule if found is not None else "", f"{told} {self._doubt(step, i, came)}".strip()

    def _check(self, step: Step, entry: int, came: float) -> str:
        """The contribution by the VJP and by a finite difference."""
        measured = self._difference(step, entry)
        told = f"The VJP contributes {number(came)}"
        return f"{told}." if measured is None else f"{told}; a finite difference of the op gives {number(measured)}."

    def _doubt(self, step: Step, entry: int, came: float) -> str:
        """That the right answer is not a matter of opinion, without saying it."""
        measured = self._difference(step, entry)
        if measured is None or not near(measured, came):
            return ""
        return "The VJP and a finite difference of the op agree on another number."

    def _difference(self, step: Step, entry: int) -> float | None:
        assert step.edge is not None
        link = self.run.links[step.edge]
        measured = difference(link, gradient(link.child).to_host(), entry)
        return None if measured is None else float(f"{measured:.4g}")

    def _reminder(self, step: Step) -> str:
        child = self.run.view.card(step.child)
        edge = next(each for each in self.run.view.edges if each.key == step.edge)
        rule = " ".join(part for part in (edge.rule, edge.after) if part)
        return f"What arrives is {child.caption}, the rule is {rule}, and the result is added to what is there."


_PATTERNS = ("positive everywhere", "negative everywhere", "zero everywhere", "of mixed sign")
_OF_THE_SUM = ("= for +=", "forgotten path", "value for derivative")


def pattern(array: np.ndarray) -> str:
    """The sign of a number, or of all entries of an array.

    >>> pattern(np.array(-2.0)), pattern(np.array([1.0, 0.0]))
    ('negative', 'of mixed sign')
    """
    everywhere = "" if array.size == 1 else " everywhere"
    for name, holds in (("positive", array > 0), ("negative", array < 0), ("zero", array == 0)):
        if holds.all():
            return f"{name}{everywhere}"
    return "of mixed sign"


def telling_entry(case: Case) -> int:
    """The entry at which the most wrong rules can be told from each other and from the right one."""
    results = [each.now.reshape(-1) for each in mistakes(case)]
    right = (case.right + (0.0 if case.was is None else case.was)).reshape(-1)
    best, most = 0, -1
    for i in range(min(right.size, 64)):
        told = len({float(f"{array[i]:.3g}") for array in (right, *results) if np.isfinite(array[i])})
        if told > most:
            best, most = i, told
    return best


def diagnose(found: Sequence[Mistake], entry: int, value: float) -> Mistake | None:
    """The wrong rule that gives this number, the likeliest first."""
    return next((each for each in found if near(value, float(each.now.reshape(-1)[entry]))), None)


def near(value: float, truth: float) -> bool:
    """Whether a typed number is the right one, but for rounding.

    >>> near(0.333, 1 / 3), near(0.0, 1e-4)
    (True, False)
    """
    return abs(value - truth) <= _NEAR * abs(truth) + 1e-12


def parse_number(text: str) -> float:
    """A number as people type it: `3`, `-0,5`, `1/3`.

    Raises:  ArgumentError if it is none

    >>> parse_number("−1/4"), parse_number("2,5")
    (-0.25, 2.5)
    """
    plain = text.strip().replace("−", "-").replace(",", ".").replace(" ", "")
    try:
        value = float(Fraction(plain)) if "/" in plain else float(plain)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ArgumentError(f"{clip(text, 20)!r} is no number; type one such as 3, -0.5 or 1/3") from None
    return value
