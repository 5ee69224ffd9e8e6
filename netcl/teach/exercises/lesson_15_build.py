"""Lesson 15's functions for one thread: an evaluation under no_grad, and a descent with fresh tapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from netcl import autograd as ag
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong

# 15.leak: an evaluation, tried in four situations


def _under(evaluate: Callable[..., Any], situation: str, start: float) -> list[Any]:
    """What evaluate returned or raised, whether the model saw recording on, and whether it is on afterwards."""
    seen: list[bool] = []

    def model(v: Any) -> Any:
        seen.append(ag.is_grad_enabled())
        if "raises" in situation:
            raise RuntimeError("the model failed")
        return v * v + 1.0

    before = ag.is_grad_enabled()
    ag.set_grad_enabled("off" not in situation)
    try:
        try:
            out = evaluate(model, ag.tensor(start, requires_grad=True))
            told = [type(out).__name__, out.item() if hasattr(out, "item") else None]
        except RuntimeError as error:
            told = ["raised", str(error)]
        return [*told, seen, ag.is_grad_enabled()]
    finally:
        ag.set_grad_enabled(before)


def _situations(rng: random.Random) -> list[tuple[str, float]]:
    return [(each, float(rng.randint(2, 9))) for each in ("on", "on, raises", "off", "off, raises", "on again")]


def _evaluate(model: Any, x: Any) -> Any:
    with ag.no_grad():
        return model(x)


def _by_decorator(model: Any, x: Any) -> Any:
    return ag.no_grad()(model)(x)


def _by_hand(model: Any, x: Any) -> Any:
    before = ag.is_grad_enabled()
    ag.set_grad_enabled(False)
    try:
        return model(x)
    finally:
        ag.set_grad_enabled(before)


def _leaking(model: Any, x: Any) -> Any:
    ag.set_grad_enabled(False)
    out = model(x)
    ag.set_grad_enabled(True)
    return out


def _never_back(model: Any, x: Any) -> Any:
    ag.set_grad_enabled(False)
    return model(x)


def _restored_if_well(model: Any, x: Any) -> Any:
    before = ag.is_grad_enabled()
    ag.set_grad_enabled(False)
    out = model(x)
    ag.set_grad_enabled(before)
    return out


def _always_on(model: Any, x: Any) -> Any:
    ag.set_grad_enabled(False)
    try:
        return model(x)
    finally:
        ag.set_grad_enabled(True)


def _swallowing(model: Any, x: Any) -> Any:
    with ag.no_grad():
        try:
            return model(x)
        except RuntimeError:
            return None


LEAK = Exercise(
    name="15.leak", kind="debug",
    asks="evaluate(model, x) mended: model(x) unrecorded, and the mode as it was before, whatever happens",
    answer=Function(lambda d: _evaluate, cases=_situations, why="a number of a few ops", call=_under),
    right=(lambda d: _evaluate, lambda d: _by_decorator, lambda d: _by_hand),
    because="The block restores what it found, on every way out of it.",
    wrong=(
        Wrong("as it stands", lambda d: _leaking, (
            "This is the function as it was found. Which of its lines is not reached if the model raises?",
            "Let a block do the switching: `with` restores on every way out, and it restores what it found.",
            "A gate that is closed by hand stays open if the keeper is called away.",
        )),
        Wrong("never switched back", lambda d: _never_back, (
            "After your function nothing is recorded any more, not even if all went well.",
            "Who switches a mode for a moment restores it.",
            "A lamp that is put out to watch a film should burn afterwards.",
        )),
        Wrong("always switched on", lambda d: _always_on, (
            "It survives exceptions. Now call it where recording was off already.",
            "Restore what you found; do not assume what it was.",
            "Who finds the door locked and leaves it open has not left it as it was.",
        )),
        Wrong("restored if all goes well", lambda d: _restored_if_well, (
            "You restore what you found. Is that line reached when the model raises?",
            "What must happen on every way out stands in a `finally`, or is the business of a `with` block.",
            "Who puts the key back after work must also do it when the alarm goes off in between.",
        )),
        Wrong("no mode at all", lambda d: lambda model, x: model(x), (
            "Nothing leaks, but the model is recorded.",
            "What is only evaluated needs no graph: the result should be a Tensor.",
            "Asking type(out) tells the two apart.",
        )),
        Wrong("detached afterwards", lambda d: lambda model, x: model(x).detach(), (
            "The result is a Tensor. The graph was built all the same, and then thrown away.",
            "The mode must be off while the model runs, not only for what it returns.",
            "For a model of 100 operations this makes 100 Nodes for nothing.",
        )),
        Wrong("the exception is swallowed", lambda d: _swallowing, (
            "The mode is safe now, and the error of the model has disappeared.",
            "Restoring a mode is no reason to hide what went wrong: let the exception pass.",
            "Who hears a bang and closes the door behind it has not put out the fire.",
        )),
    ),
)  # fmt: skip


# 15.stale: (w − 3)² is descended


def _descend(w0: float, steps: int, rate: float) -> float:
    w = ag.tensor(w0, requires_grad=True)
    for _ in range(steps):
        with ag.Tape() as tape:
            loss = (w - 3.0) ** 2
        w.zero_grad()
        tape.backward(loss)
        w.value = w.value - rate * w.grad
    return w.item()


def _on_paper(w0: float, steps: int, rate: float, way: str = "") -> float:
    w, total = w0, 0.0
    for _ in range({"one": min(steps, 1), "more": steps + 1}.get(way, steps)):
        slope = 2 * ((w0 if way == "stale" else w) - 3)
        total = total + slope if way == "sum" else slope
        w += rate * total if way == "up" else -rate * total
    return (w - 3) ** 2 if way == "loss" else w


def _stepped_on_record(w0: float, steps: int, rate: float) -> Any:
    w: Any = ag.tensor(w0, requires_grad=True)
    for _ in range(steps):
        with ag.Tape() as tape:
            loss = (w - 3.0) ** 2
        tape.backward(loss)
        w = w - rate * w.grad
    return w.item()


def _one_tape(w0: float, steps: int, rate: float) -> float:
    w = ag.tensor(w0, requires_grad=True)
    with ag.Tape() as tape:
        for _ in range(steps):
            loss = (w - 3.0) ** 2
            w.zero_grad()
            tape.backward(loss)
            w.value = w.value - rate * w.grad
    return w.item()


def _watched(descend: Callable[..., Any], *args: Any) -> list[Any]:
    """What descend returns, and whether a later backward pass had a larger graph, or a longer tape, than the first."""
    backward, graphs, tapes = ag.Tape.backward, [], []

    def watched(tape: ag.Tape, loss: Any, *rest: Any, **how: Any) -> Any:
        graphs.append(len(ag.build_topo(loss)))
        tapes.append(len(tape.nodes))
        return backward(tape, loss, *rest, **how)

    setattr(ag.Tape, "backward", watched)  # noqa: B010  by name, since its type is that of the method
    try:
        found = descend(*args)
    finally:
        setattr(ag.Tape, "backward", backward)  # noqa: B010
    return [found, *(len(sizes) > 0 and max(sizes) > sizes[0] for sizes in (graphs, tapes))]


def _descents(rng: random.Random) -> list[tuple[float, int, float]]:
    return [(float(rng.randint(5, 9)), steps, 0.125 * rng.randint(1, 3)) for steps in (1, 2, 3, 5, 8)]


STALE = Exercise(
    name="15.stale", kind="debug",
    asks="descend(w0, steps, rate) mended: gradient descent on (w − 3)², each step with the gradient at the present w",
    answer=Function(
        lambda d: _descend, cases=_descents, rtol=1e-4, atol=1e-5, why="float32, a few steps", call=_watched,
    ),
    right=(lambda d: _descend, lambda d: lambda w0, steps, rate: 3 + (1 - 2 * rate) ** steps * (w0 - 3)),
    because="Every step records the loss anew, so the gradient is that of where w is now.",
    wrong=(
        Wrong("as it stands", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "stale"), (
            "This is the function as it was found. Every step is the same step.",
            "A graph holds the values of its making. Record the loss again after w has moved: inside the loop.",
            "Who asks the way once, and then follows the first arrow for ever, walks straight past the town.",
        )),
        Wrong("the step is recorded", lambda d: _stepped_on_record, (
            "The number is right. The graph gets longer with every step.",
            "A step is not a part of the function: give `w.value` a new value, or step under no_grad to a new leaf.",
            "After 1000 such steps backward walks through all 1000, for one slope.",
        )),
        Wrong("one tape around all", lambda d: _one_tape, (
            "The number is right. The tape gets longer with every step, and keeps all losses.",
            "Open the tape inside the loop: each step needs its own loss and nothing of the ones before.",
            "Who writes 1000 bills on one roll must carry the roll.",
        )),
        Wrong("gradients pile up", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "sum"), (
            "The tape is fresh. The second step is too long.",
            "Gradients of leaves add up over backward calls.",
            "After slopes of 10 and 8 the slot holds 18 unless somebody zeroes it.",
        )),
        Wrong("one step only", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "one"), (
            "After the first step you are done.",
            "The number of steps is an argument: does the return stand inside the loop?",
            "With five steps there are five moves.",
        )),
        Wrong("one step too many", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "more"), (
            "A step more than was asked for.",
            "Count how often w gets a new value.",
            "range(5) runs five times, from 0 to 4.",
        )),
        Wrong("upwards", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "up"), (
            "You are moving away from the minimum.",
            "The gradient points uphill.",
            "Right of a minimum the slope is positive, and the way down leads left.",
        )),
        Wrong("the loss", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "loss"), (
            "That is the value of the loss at the end.",
            "What is asked for is the parameter.",
            "A hiker who is asked for the place should not tell the height.",
        )),
    ),
)  # fmt: skip
