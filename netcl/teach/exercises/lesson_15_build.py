"""Lesson 15's functions: an evaluation under no_grad, a descent with fresh tapes, and a gradient made by threads."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

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


def _descents(rng: random.Random) -> list[tuple[float, int, float]]:
    return [(float(rng.randint(5, 9)), steps, 0.125 * rng.randint(1, 3)) for steps in (1, 2, 3, 5, 8)]


STALE = Exercise(
    name="15.stale", kind="debug",
    asks="descend(w0, steps, rate) mended: gradient descent on (w − 3)², each step with the gradient at the present w",
    answer=Function(lambda d: _descend, cases=_descents, rtol=1e-4, atol=1e-5, why="float32, a few steps"),
    right=(lambda d: _descend, lambda d: lambda w0, steps, rate: 3 + (1 - 2 * rate) ** steps * (w0 - 3)),
    because="Every step records the loss anew, so the gradient is that of where w is now.",
    wrong=(
        Wrong("as it stands", lambda d: lambda w0, steps, rate: _on_paper(w0, steps, rate, "stale"), (
            "This is the function as it was found. Every step is the same step.",
            "A graph holds the values of its making. Record the loss again after w has moved: inside the loop.",
            "Who asks the way once, and then follows the first arrow for ever, walks straight past the town.",
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


# 15.threads: a gradient whose parts are made by threads


def _loss_of(seen: list[threading.Thread]) -> Callable[[Any, Any], Any]:
    def loss_of(w: Any, batch: Any) -> Any:
        seen.append(threading.current_thread())
        return ((w * batch) ** 2).sum()

    return loss_of


def _try(f: Callable[..., Any], start: np.ndarray, batches: list[np.ndarray], silent: bool) -> list[Any]:
    w = ag.tensor(start, requires_grad=True)
    (w * 1000.0).sum().backward()  # of an earlier step
    seen: list[threading.Thread] = []
    with ag.set_grad_enabled(not silent):
        found = f(_loss_of(seen), w, batches)
    return [found, threading.current_thread() not in seen]


def _batches(rng: random.Random) -> list[tuple[Any, ...]]:
    def whole(n: int) -> np.ndarray:
        return np.array([rng.randint(1, 5) for _ in range(n)], np.float32)

    shapes = ((3, 2, False), (2, 3, False), (4, 1, False), (3, 2, True), (1, 5, False))
    return [(whole(n), [whole(n) for _ in range(count)], silent) for n, count, silent in shapes]


def _one(loss_of: Any, w: Any, batch: Any) -> None:
    with ag.Tape() as tape:
        loss = loss_of(w, batch)
    tape.backward(loss)


def _threads(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    threads = [threading.Thread(target=_one, args=(loss_of, w, batch)) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return w.grad.to_host()


def _pooled(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    with ThreadPoolExecutor(len(batches)) as pool:
        list(pool.map(lambda batch: loss_of(w, batch).backward(), batches))
    return w.grad


def _in_turn(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    for batch in batches:
        _one(loss_of, w, batch)
    return w.grad.to_host()


def _last(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    for batch in batches:
        _threads(loss_of, w, [batch])
    return w.grad.to_host()


def _unzeroed(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    before = w.grad.to_host()
    return before + _threads(loss_of, w, batches)


def _too_early(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    return w.grad.to_host()  # what a caller finds that does not wait; the threads would add to it later


THREADS = Exercise(
    name="15.threads", kind="build",
    asks="gradient(loss_of, w, batches): w.grad of the sum of the losses, each batch in a thread of its own",
    answer=Function(
        lambda d: _threads, cases=_batches, rtol=1e-5, why="whole numbers: exact in any order", call=_try,
    ),
    right=(lambda d: _threads, lambda d: _pooled),
    because="Each thread records for itself, the leaf adds up what they send, and nobody reads before all are done.",
    wrong=(
        Wrong("no threads", lambda d: _in_turn, (
            "The sum may be right. Who made it? Try it while the calling thread is under no_grad.",
            "A new thread has a mode of its own; that of the calling thread holds for what it does itself.",
            "threading.Thread(target=work, args=(batch,)) makes one; start() sets it going.",
        )),
        Wrong("the last batch", lambda d: _last, (
            "Only one batch is in the result.",
            "Zero the gradient once, before the first thread starts, and not in each of them.",
            "A till that every collector empties first holds what the last one brought.",
        )),
        Wrong("the earlier gradient stays", lambda d: _unzeroed, (
            "There is more in it than these batches sent.",
            "w had a gradient already, and backward adds to it.",
            "If 500 was in the slot and 30 and 40 come, it holds 570.",
        )),
        Wrong("mean", lambda d: lambda *args: _threads(*args) / len(args[2]), (
            "That is the gradient of the mean of the losses.",
            "The loss is their sum, and so is the gradient.",
            "Two threads that send 30 and 40 make 70.",
        )),
        Wrong("nobody waited", lambda d: _too_early, (
            "You read the gradient before the threads had sent theirs.",
            "join() waits until a thread has ended; do that for all of them, after all have been started.",
            "Who counts the votes while people still queue at the door counts too few.",
        )),
        Wrong("everybody does everything", lambda d: lambda f, w, batches: _threads(f, w, batches) * len(batches), (
            "Each batch has been counted as often as there are threads.",
            "A thread gets one batch, as its argument; it does not go through all of them.",
            "If each of four collectors visits all four streets, every house pays four times.",
        )),
        Wrong("the first batch", lambda d: lambda f, w, batches: _threads(f, w, batches[:1]), (
            "One thread was started, and that was all.",
            "Start as many threads as there are batches.",
            "A relay of four in which one runs is over after a quarter of the way.",
        )),
    ),
)  # fmt: skip
