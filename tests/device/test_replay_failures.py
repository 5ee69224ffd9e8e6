"""ag.replay when something fails, is interrupted, forks or goes round in circles; and what it leaves behind."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn
from netcl.autograd.reached import Reached
from netcl.covers import covered
from netcl.device import Device
from netcl.errors import ArgumentError, DeviceError

F = np.float32


@pytest.fixture(autouse=True)
def on_this_device(on_device: Device) -> Device:
    return on_device


def leaf(data: Any) -> ag.Node:
    return ag.tensor(np.asarray(data, F), requires_grad=True)


def test_replays_within_replays_change_nothing() -> None:
    w, x = leaf([1, 2]), np.ones(2, F)
    inner = ag.replay(lambda x: (w * x).sum())
    outer = ag.replay(lambda x: inner(x) * 2.0)

    def again(x: Any) -> Any:
        return itself(x)

    itself = ag.replay(again)
    for _ in range(2):  # the inner one is noted by then, or not yet: both are refused, and before it adds a gradient
        for step in (outer, itself):
            with pytest.raises(ArgumentError, match="calls a function that is replayed"):
                step(x)
        assert w.grad is None
        inner(x)
        w.zero_grad()
    assert inner(x).item() == 3
    through = ag.replay(lambda x: (inner.__wrapped__(x) * 2.0).sum())
    assert [through(x).item(), through(x).item()] == [6, 6]

    def blind(x: Any) -> Any:
        with ag.no_grad():
            value = inner(x)
        return (w * value).sum()

    step = ag.replay(blind)
    assert [step(x).item(), step(x).item()] == [9, 9] and step.counts["replayed"] == 1


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_a_device_that_fails_on_the_way(on_device: Device, at: int) -> None:
    w, v = leaf(np.ones(50)), leaf(np.ones(50))
    step = ag.replay(lambda x: (ag.tanh(w * x) * v + ag.exp(v)).sum())
    x = np.linspace(0, 1, 50, dtype=F)
    expected = step(x).item()
    grads = [each.grad.to_host().tolist() for each in (w, v)]  # type: ignore[union-attr]
    gc.collect()
    before = on_device.pool.stats().active_blocks
    calls = 0

    def failing(below: Any, nbytes: int) -> Any:
        nonlocal calls
        calls += 1
        if calls > at:
            raise DeviceError("no memory")
        return below(nbytes)

    with covered(on_device.pool, {"take": failing}), pytest.raises(DeviceError, match="no memory"):
        step(x)
    assert [each.grad.to_host().tolist() for each in (w, v)] == grads  # type: ignore[union-attr]
    assert on_device.pool.stats().active_blocks == before
    w.zero_grad()
    v.zero_grad()
    assert step(x).item() == expected
    assert [each.grad.to_host().tolist() for each in (w, v)] == grads  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["start_all", "start", "fill"])
def test_a_launch_that_is_interrupted(on_device: Device, method: str) -> None:
    w = leaf(np.ones((3, 3)))
    step = ag.replay(lambda x: (ag.tanh(x @ w) * w).sum() + w[1:].sum())
    x = np.eye(3, dtype=F)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    for noted in (False, True):
        if noted == (method != "start_all"):
            continue  # only these are called when it is noted, and only the first later
        if noted:
            step(x)
            w.zero_grad()
        with covered(on_device, {method: interrupted}), pytest.raises(KeyboardInterrupt):
            step(x)
        assert w.grad is None
        assert not {"start", "start_all", "launch", "fill", "read", "write"} & set(vars(on_device))
        loss = step(x)
        grad = w.grad.to_host()  # type: ignore[attr-defined]
        w.zero_grad()
        expected = step.__wrapped__(ag.tensor(x))
        expected.backward()
        assert loss.item() == expected.item() and (grad == w.grad.to_host()).all()  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_another_thread_replays() -> None:
    w, x = leaf([1, 2]), ag.tensor([1.0, 1.0])
    started, go_on = threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        started.set()
        go_on.wait(10)
        return (w * x).sum()

    step = ag.replay(f)
    thread = threading.Thread(target=step, args=(x,))
    thread.start()
    started.wait(10)
    child = os.fork()
    if child == 0:  # whose copy of the lock nobody will release
        go_on.set()
        try:
            step(x)
        except DeviceError:
            os._exit(7)
        os._exit(8)
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert step(x).item() == 3


def test_callables_of_all_kinds() -> None:
    net = nn.Sequential(nn.Linear(2, 1, rng=nc.random.Generator(0)))
    x = np.ones((1, 2), F)
    expected = net(ag.tensor(x)).to_host().tolist()

    class Loss:
        def __call__(self, x: Any, *, scale: float = 1.0) -> Any:
            return net(x) * scale

        def method(self, x: Any) -> Any:
            return net(x)

        async def later(self, x: Any) -> Any:
            return net(x)

        def steps(self, x: Any) -> Any:
            yield net(x)

    class Later:
        async def __call__(self, x: Any) -> Any:
            return net(x)

    loss = Loss()
    for f in (net, net.forward, loss, loss.method, functools.partial(loss, scale=1.0), net.layers[0]):
        step = ag.replay(f)
        assert [step(x).to_host().tolist() for _ in range(3)] == [expected] * 3
        assert step.counts == {"captured": 1, "replayed": 2}
        assert "layers" not in vars(step)
    for f in (loss.later, loss.steps, Later(), functools.partial(loss.steps)):
        with pytest.raises(ArgumentError, match="takes a function that returns a loss"):
            ag.replay(f)

    step = ag.replay(loss)
    both = [step(x, scale=2.0).item(), step(scale=2.0, x=x).item(), step(x, scale=2.0).item()]
    assert both == [2 * expected[0][0]] * 3 and step.counts == {"captured": 2, "replayed": 1}

    async def training() -> list[float]:
        async def one() -> float:
            await asyncio.sleep(0)
            return step(x, scale=2.0).item()

        return list(await asyncio.gather(one(), one()))

    assert asyncio.run(training()) == both[:2]

    def generator() -> Any:
        while True:
            yield step(x, scale=2.0).item()

    numbers = generator()
    assert [next(numbers), next(numbers)] == both[:2]


@pytest.mark.filterwarnings("ignore:.*since its arguments have other shapes")
def test_what_many_shapes_leave_behind(on_device: Device) -> None:
    w = leaf(np.ones(3))
    step = ag.replay(lambda x: ag.tanh(x * w).sum())
    used: list[int] = []
    for n in range(1, 301):
        step(np.full((n, 3), 0.5, F))
        w.zero_grad()
        if n % 100 == 0:
            gc.collect()
            used.append(on_device.pool.stats().active_blocks)
    assert max(used) - min(used) <= 64  # 16 captures are kept, of a few blocks each
    del step
    gc.collect()
    assert on_device.pool.stats().active_blocks < min(used)


def test_what_is_compared_does_not_grow_with_a_notebook() -> None:
    def compared(count: int) -> list[int]:
        namespace: dict[str, Any] = {f"name_{i}": i for i in range(count)} | {"w": leaf([1, 2]), "k": 2.0}
        exec("def f(): return (w * k).sum()", namespace)
        reached = Reached([namespace["f"]])
        sizes = [len(each.things) for each in reached._passes]
        return [*sizes, len(reached._watched), *[len(names) for _, names in reached._absent]]

    assert compared(10) == compared(10_000)


@pytest.mark.filterwarnings("ignore:.*since its arguments have other shapes")
def test_threads_that_note_play_and_move_parameters(on_device: Device) -> None:
    ws = [leaf(np.ones(4)) for _ in range(3)]
    step = ag.replay(lambda x, w: (w * x * x).sum())
    wrong: list[Any] = []

    def work(k: int) -> None:
        for n in range(20):
            x = np.full((1 + (n + k) % 3, 4), k + 1, F)
            w = ws[k]
            w.zero_grad()
            value = float(w.to_host()[0])
            loss = step(x, w).item()
            assert w.grad is not None
            if loss != value * x.size * (k + 1) ** 2 or w.grad.to_host()[0] != len(x) * (k + 1) ** 2:
                wrong.append((k, n, loss))
            w.value = w.value + 1.0

    threads: list[threading.Thread] = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_parameter_that_another_thread_moves_meanwhile() -> None:
    w, entered, moved = leaf([1, 2]), threading.Event(), threading.Event()

    def f(x: Any) -> Any:
        y = w * x
        entered.set()
        assert moved.wait(10)
        return y.sum()

    def move() -> None:
        entered.wait(10)
        w.value = w.value * 10.0
        moved.set()

    step = ag.replay(f)
    thread = threading.Thread(target=move)
    thread.start()
    x = ag.tensor([1.0, 1.0])
    assert step(x).item() == 3  # that of the values that it began with
    thread.join()
    assert [step(x).item() for _ in range(3)] == [30, 30, 30]
    assert step.counts == {"captured": 2, "replayed": 2}
