"""PoCL's two CPU queues, shown as one device: what crosses from one to the other is finished first.

PoCL does not order memory between them. Each graph here crosses back and forth, in the forward pass and in backward,
and takes buffers from the pool that the other queue may still be reading. With the finish taken out the same graphs
give wrong values, which shows that they would tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import CROSSOVER, Device

pytestmark = pytest.mark.usefixtures("on_device", "two_queues")

RUNS = 30
LARGE = 8 * CROSSOVER
ROWS = 8


@pytest.fixture
def two_queues(on_device: Device) -> None:
    """Skip where there is one queue, and nothing to cross."""
    if len(on_device.cl_devices) < 2:
        pytest.skip(f"{on_device.name} has one queue")


def there_and_back(rng: np.random.Generator) -> bool:
    """Run a graph of large, small and large work, and its backward pass; say whether every value is right."""
    big, little = (rng.integers(-2, 3, n).astype(np.float32) for n in (LARGE, ROWS))
    x, w = ag.tensor(big, requires_grad=True), ag.tensor(little, requires_grad=True)
    h = (x * x + x).reshape(ROWS, -1)  # large
    s = h[:, -1] * w  # small, reads what large work has just written
    y = (h * s.reshape(ROWS, 1)).sum()  # large, reads what small work has just written
    y.backward()
    rows, b = (big * big + big).reshape(ROWS, -1).astype(np.float64), big.reshape(ROWS, -1)
    t = rows[:, -1] * little
    s_bar = rows.sum(axis=1)
    h_bar = np.repeat(t[:, None], rows.shape[1], axis=1)
    h_bar[:, -1] += s_bar * little
    return (
        y.item() == (rows * t[:, None]).sum()
        and np.array_equal(x.grad.to_host().reshape(ROWS, -1), h_bar * (2 * b + 1))
        and np.array_equal(w.grad.to_host(), s_bar * rows[:, -1])
    )


def reuse(rng: np.random.Generator) -> bool:
    """Let small work write into a buffer that large work, still under way, reads: the pool hands it on at once."""
    values = rng.integers(-8, 9, CROSSOVER).astype(np.float32)
    x = ag.tensor(values)
    read = [x * float(i) + 1.0 for i in range(1, 9)]  # large
    place = x.buffer.int_ptr
    del x
    small = nc.full(CROSSOVER - 1, -1.0)  # one element less: the other queue
    right = all(np.array_equal(y.to_host(), values * i + 1) for i, y in enumerate(read, 1))
    assert small.buffer.int_ptr == place, "the pool gave another buffer, so this shows nothing"
    return right and np.array_equal(small.to_host(), np.full(CROSSOVER - 1, -1, np.float32))


def reuse_in_backward(rng: np.random.Generator) -> bool:
    """Take a step after the other, each on buffers that the step before has just let go."""
    big = rng.integers(-2, 3, LARGE).astype(np.float32)
    x, right = ag.tensor(big), True
    for value in rng.integers(-3, 4, 3):
        w = ag.tensor([float(value)], requires_grad=True)
        error = x * w - 1.0
        (error * error).sum().backward()
        right &= w.grad.item() == 2 * ((big.astype(np.float64) * value - 1) * big).sum()
    return right


GRAPHS: list[Callable[[np.random.Generator], bool]] = [there_and_back, reuse, reuse_in_backward]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_no_value_is_wrong_in_30_runs(graph: Callable[[np.random.Generator], bool]) -> None:
    rng = np.random.default_rng(5)
    assert [run for run in range(RUNS) if not graph(rng)] == []


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_the_same_runs_give_wrong_values_without_the_finish(
    graph: Callable[[np.random.Generator], bool], on_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    graph(rng)  # kernels are compiled with the finish in place
    monkeypatch.setattr(Device, "_cross", lambda self, leaving: None)
    try:
        wrong = sum(not graph(rng) for _ in range(RUNS))
    finally:
        monkeypatch.undo()
        for queue in on_device._queues:
            queue.finish()
    assert wrong > 0


def test_small_graphs_never_cross(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ag.tensor(np.ones(100, np.float32), requires_grad=True)
    crossed: list[Any] = []
    monkeypatch.setattr(Device, "_cross", lambda self, leaving: crossed.append(leaving))
    for _ in range(5):
        ((x * 2.0 + 1.0) @ x).backward()
    assert crossed == []
    assert x.grad.to_host().tolist() == [25.0] * 100


def test_work_at_the_crossover_goes_to_the_other_queue(on_device: Device) -> None:
    small, large = on_device._queues
    assert small != large
    for size, queue in ((CROSSOVER - 1, small), (CROSSOVER, large), (1, small)):
        y = nc.ones(size) * 2.0
        assert on_device.queue == queue == y.queue
        assert np.array_equal(y.to_host(), np.full(size, 2, np.float32))
