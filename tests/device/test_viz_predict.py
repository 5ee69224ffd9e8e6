"""Predicting a pass: what is asked, what a wrong answer is told, and that nothing is shown before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import viz
from netcl.errors import ArgumentError
from netcl.viz.mistakes import case_of, mistakes
from netcl.viz.nudge import difference
from netcl.viz.quiz import Quiz, near
from netcl.viz.replay import replay
from netcl.viz.stepper import Stepper
from netcl.viz.tools import NUDGE

pytestmark = pytest.mark.usefixtures("on_device")

X = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def leaf(value: Any, **more: Any) -> Any:
    return ag.tensor(value, requires_grad=True, **more)


def fork() -> Any:
    a, b = leaf(2.0, name="a"), leaf(3.0, name="b")
    return a * b + a**2


def seeds_example() -> Any:
    x = leaf(X, name="x")
    y = (x + 1.0) ** 2
    z = 3.0 * y
    return z.sum()


def network() -> Any:
    x = ag.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]])
    w = leaf([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]], name="W")
    c = leaf([0.1, -0.3], name="c")
    h = ag.tanh(x @ w + c)
    h.name = "h"
    return (h * h).mean()


GRAPHS = {"fork": fork, "seed": seeds_example, "network": network}


def test_every_wrong_rule_is_told_by_its_own_cause() -> None:
    causes: dict[str, set[str]] = {}
    for make in GRAPHS.values():
        run = replay(make())
        for step in run.passage.steps[1:]:
            case = case_of(run, step)
            assert case is not None
            for mistake in mistakes(case):
                shown = mistake.cause.replace(case.child, "…").replace(case.target, "…")
                causes.setdefault(mistake.rule, set()).add(shown)
    rules = {"= for +=", "forgotten path", "missing transpose", "upstream left out", "local left out", "not summed"}
    assert rules - {"missing transpose"} <= set(causes)
    everything = [cause for found in causes.values() for cause in found]
    assert len(everything) == len(set(everything))  # two rules never share a hint


def test_a_missing_transpose_is_found() -> None:
    a = leaf([[1.0, 2.0], [3.0, 4.0]], name="A")
    b = leaf([[5.0, 6.0], [7.0, 8.0]], name="B")
    run = replay(((a @ b) * ag.tensor([[1.0, 2.0], [3.0, 4.0]])).sum())
    step = next(step for step in run.passage.steps if step.rule == "G @ Bᵀ")
    case = case_of(run, step)
    assert case is not None
    found = {mistake.rule: mistake.now for mistake in mistakes(case)}
    g = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(found["missing transpose"], g @ np.array([[5.0, 6.0], [7.0, 8.0]]))
    assert np.array_equal(found["transposed"], case.right.T)


@pytest.mark.parametrize("name", GRAPHS)
def test_right_answers_are_right_and_agree_with_a_finite_difference(name: str, float64: None) -> None:
    run = replay(GRAPHS[name]())
    quiz = Quiz(run)
    asked = 0
    for step in run.passage.steps[1:]:
        for question in quiz.questions(step.number):
            case = case_of(run, step)
            assert case is not None and step.edge is not None
            rights = [o for o in question.options if quiz.judge(question, o, "guess").right]
            if question.options:
                assert rights and len(rights) < len(question.options)
            else:
                before = 0.0 if case.was is None else case.was.reshape(-1)[question.entry]
                answer = quiz.judge(question, repr(float(case.right.reshape(-1)[question.entry] + before)), "certain")
                assert answer.right and "finite difference" in answer.feedback
                upstream = run.links[step.edge].child.grad.to_host()  # type: ignore[union-attr]
                measured_here = difference(run.links[step.edge], upstream, question.entry)
                assert measured_here is not None and near(measured_here, case.right.reshape(-1)[question.entry])
            asked += 1
    assert asked >= 10


def answer(stepper: Stepper, given: str, sure: str = "think so") -> None:
    asking = stepper.asking
    assert asking is not None and asking.question is not None
    if asking.question.options:
        asking.choices.value = given
    else:
        asking.number.value = given
    asking.sure.value = sure
    asking.check.click()


def test_a_step_is_shown_once_it_is_predicted() -> None:
    stepper = viz.step(fork(), predict=True, ask=["entry"])
    asking = stepper.asking
    assert asking is not None and repr(stepper) == "<Stepper of loss: 5 steps, to be predicted>"
    for given in ("1", "1", "4"):
        assert stepper.next.disabled
        answer(stepper, given)
    assert stepper.at == 3
    answer(stepper, "3", "certain")
    assert stepper.at == 3 and stepper.answers[-1].cause == "= for +=" and "+=" in asking.verdict.value
    assert stepper.answers[-1].confidence == "certain" and not stepper.answers[-1].right
    answer(stepper, "4")
    assert stepper.answers[-1].cause == "forgotten path"
    answer(stepper, "7", "certain")
    assert stepper.at == 4 and "4 + 3 = 7" in asking.verdict.value and "finite difference" in asking.verdict.value
    answer(stepper, "2")
    assert asking.question is None and stepper.at == 5 and "complete" in asking.prompt.value
    assert "certain: 1 of 2 right" in asking.prompt.value.lower()
    stepper.first.click()
    assert stepper.at == 0


def test_nothing_is_shown_before_it_is_asked() -> None:
    stepper = viz.step(fork(), predict=True)
    static = stepper.static
    for text in (stepper.picture.value, static["image/svg+xml"]):
        assert ">7<" not in text and ">5<" not in text
    assert "4 + 3" not in static["text/plain"]
    stepper.tools.bar.value = NUDGE
    stepper.tools.push.click()
    assert "predict it first" in stepper.tools.moved.value
    stepper.slider.value = 1
    assert stepper.at == 0
    with pytest.raises(ArgumentError, match="steps 0 to 0"):
        stepper.at = 1


def test_an_answer_needs_a_choice_a_number_and_how_sure_one_is() -> None:
    stepper = viz.step(fork(), predict=True)
    asking = stepper.asking
    assert asking is not None
    asking.check.click()
    assert "how sure" in asking.verdict.value
    asking.sure.value = "guess"
    asking.check.click()
    assert "hoose one" in asking.verdict.value
    assert stepper.answers == () and stepper.error.value == ""
    asking.show.click()
    assert stepper.at == 1
