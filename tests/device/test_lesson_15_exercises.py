"""Functions as students write them for lesson 15: the careless ones are met every time, and by the hint that fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from netcl import autograd as ag
from netcl.teach import exercises
from netcl.teach.verdict import judge

THREADS, STALE = exercises.find("15.threads"), exercises.find("15.stale")


def pull(loss_of: Any, w: Any, batch: Any) -> None:
    with ag.Tape() as tape:
        loss = loss_of(w, batch)
    tape.backward(loss)


def started(loss_of: Any, w: Any, batches: Any, late: bool = False) -> list[threading.Thread]:
    w.zero_grad()
    threads = []
    for batch in batches:
        if late:
            thread = threading.Thread(target=lambda: pull(loss_of, w, batch))  # noqa: B023  it is what is tested
        else:
            thread = threading.Thread(target=lambda batch=batch: pull(loss_of, w, batch))
        thread.start()
        threads.append(thread)
    return threads


def bound_by_default(loss_of: Any, w: Any, batches: Any) -> Any:
    for thread in started(loss_of, w, batches):
        thread.join()
    return w.grad


def bound_late(loss_of: Any, w: Any, batches: Any) -> Any:
    for thread in started(loss_of, w, batches, late=True):
        thread.join()
    return w.grad


def last_joined(loss_of: Any, w: Any, batches: Any) -> Any:
    started(loss_of, w, batches)[-1].join()
    return w.grad.to_host()


def none_joined(loss_of: Any, w: Any, batches: Any) -> Any:
    started(loss_of, w, batches)
    return w.grad.to_host()


def pool_left_open(loss_of: Any, w: Any, batches: Any) -> Any:
    w.zero_grad()
    pool = ThreadPoolExecutor(len(batches))
    for future in [pool.submit(pull, loss_of, w, batch) for batch in batches]:
        future.result()
    return w.grad.to_host()


def misspelt(loss_of: Any, w: Any, batches: Any) -> Any:
    return w.gradient


@pytest.mark.parametrize(
    ("function", "state", "rule"),
    [
        (bound_by_default, "right", None),
        (pool_left_open, "right", None),
        (bound_late, "wrong", "the loop's variable is read late"),
        (last_joined, "wrong", "only the last one is waited for"),
        (none_joined, "wrong", "nobody waited"),
        (misspelt, "wrong", None),
    ],
)
def test_threads_are_met_every_time(function: Callable[..., Any], state: str, rule: str | None) -> None:
    for _ in range(3):
        verdict = judge(THREADS, function)
        assert (verdict.state, verdict.rule and verdict.rule.rule) == (state, rule)
    assert "AttributeError" in verdict.remark or function is not misspelt


def test_a_step_may_make_a_new_leaf_and_must_not_be_recorded() -> None:
    def descend(w0: float, steps: int, rate: float, silent: bool) -> float:
        w: Any = ag.tensor(w0, requires_grad=True)
        for _ in range(steps):
            ((w - 3.0) ** 2).backward()
            w = ag.tensor((w - rate * w.grad).detach(), requires_grad=True) if silent else w - rate * w.grad
        return w.item()

    assert judge(STALE, lambda *args: descend(*args, silent=True)).state == "right"
    found = judge(STALE, lambda *args: descend(*args, silent=False)).rule
    assert found is not None and found.rule == "the step is recorded"
