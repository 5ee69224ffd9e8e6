"""Lesson 15's last function: a gradient whose parts are made by threads, tried where carelessness shows every time."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong


class _Stage:
    """Where threads wait for what a careless caller would not wait for; nothing here depends on who is faster.

    All threads begin when somebody waits for one of them, and none is done before somebody waits for it itself. Who
    never does that (a pool waits in its own way) is met by a time limit.
    """

    def __init__(self) -> None:
        self.caller, self.others = threading.current_thread(), set(threading.enumerate())
        self.seen: set[threading.Thread] = set()
        self.done: set[threading.Thread] = set()
        self.joined: set[threading.Thread] = set()
        self.returned = False
        self.changed = threading.Condition()

    def say(self, joined: threading.Thread | None = None, returned: bool = False) -> None:
        """Note that somebody waits for a thread, or that the student's function has returned."""
        with self.changed:
            self.joined |= {joined} if joined is not None else set()
            self.returned |= returned
            self.changed.notify_all()

    def hold(self, until: Callable[[], Any]) -> None:
        """Wait, unless in the thread of the caller, which must go on."""
        if threading.current_thread() is not self.caller:
            with self.changed:
                self.changed.wait_for(lambda: until() or self.returned, timeout=0.3)

    def loss_of(self, w: Any, batch: Any) -> Any:
        """The loss of one batch."""
        me = threading.current_thread()
        self.seen.add(me)
        self.hold(lambda: me in self.joined)
        self.done.add(me)
        return ((w * batch) ** 2).sum()

    def left(self) -> list[threading.Thread]:
        """Threads that were started and are not done with their batch."""
        return [t for t in set(threading.enumerate()) - self.others if t not in self.done]

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Threads of this block begin late, and tell whom they are waited for by."""
        join, run = threading.Thread.join, threading.Thread.run
        stage = self

        def joining(thread: threading.Thread, timeout: float | None = None) -> None:
            stage.say(joined=thread)
            join(thread, timeout)

        def running(thread: threading.Thread) -> None:
            stage.hold(lambda: stage.joined)
            run(thread)

        for name, other in (("join", joining), ("run", running)):
            setattr(threading.Thread, name, other)
        try:
            yield
        finally:
            for name, own in (("join", join), ("run", run)):
                setattr(threading.Thread, name, own)


def _try(f: Callable[..., Any], start: np.ndarray, batches: list[np.ndarray], silent: bool) -> list[Any]:
    """The gradient, whether the threads were others than the caller's and more than one, and what was too early."""
    w = ag.tensor(start, requires_grad=True)
    (w * 1000.0).sum().backward()  # of an earlier step
    stage, left = _Stage(), []
    with ag.set_grad_enabled(not silent), stage.threads():
        try:
            found = f(stage.loss_of, w, batches)
            found = found.to_host() if hasattr(found, "to_host") else found
            left = stage.left()
        except AttributeError:  # None has no to_host: it may be that the gradient was read before there was one
            left, found = stage.left(), None
            if w.grad is not None or not left:
                raise
        finally:
            stage.say(returned=True)
    for thread in left:
        thread.join(5)
    if left:
        return ["read too early"]
    return [found, stage.caller not in stage.seen, len(stage.seen) > 1 or len(batches) == 1]


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
    for thread in _started(loss_of, w, batches):
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


def _started(loss_of: Any, w: Any, batches: list[Any]) -> list[threading.Thread]:
    w.zero_grad()
    threads = [threading.Thread(target=_one, args=(loss_of, w, batch)) for batch in batches]
    for thread in threads:
        thread.start()
    return threads


def _too_early(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    _started(loss_of, w, batches)
    return w.grad.to_host()


def _last_joined(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    _started(loss_of, w, batches)[-1].join()
    return w.grad.to_host()


def _one_thread(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    thread = threading.Thread(target=lambda: [_one(loss_of, w, batch) for batch in batches])
    thread.start()
    thread.join()
    return w.grad.to_host()


def _late_bound(loss_of: Any, w: Any, batches: list[Any]) -> Any:
    w.zero_grad()
    threads = []
    for batch in batches:
        thread = threading.Thread(target=lambda: _one(loss_of, w, batch))  # noqa: B023  the mistake that is meant
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()
    return w.grad.to_host()


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
        Wrong("only the last one is waited for", lambda d: _last_joined, (
            "One thread has ended when you read. Have the others?",
            "Threads need not end in the order in which they began: a second loop, and join() inside it.",
            "The runner who starts last may be the first to arrive.",
        )),
        Wrong("one thread for all", lambda d: _one_thread, (
            "The sum is right, and one thread has made it, batch after batch.",
            "As many threads as batches: make the thread inside the loop.",
            "One helper who carries four boxes walks four times; four helpers walk once.",
        )),
        Wrong("the loop's variable is read late", lambda d: _late_bound, (
            "All threads have worked on the same batch.",
            "A function that is made in a loop reads the loop's variable when it runs: pass the batch by `args=`.",
            "After `for k in (5, 6, 7)`, each `lambda: k` that was made there returns 7.",
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
