"""PoCL's two CPU queues, shown as one device: what crosses from one to the other is finished first.

PoCL does not order memory between them. Each graph here crosses back and forth, in the forward pass and in backward,
and takes buffers from the pool that the other queue may still be reading. With the finish taken out the same graphs
give wrong values, which shows that they would tell.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.calibrate import measure
from netcl.device import Device
from netcl.memory import address
from netcl.platforms import use_device

pytestmark = pytest.mark.usefixtures("on_device", "two_queues")

RUNS = 30
SMALLEST = 1 << 15  # large work here; what the device was told or has measured may be more
ROWS = 8


@pytest.fixture
def two_queues(on_device: Device) -> None:
    """Skip where there is one queue, and nothing to cross."""
    if len(on_device.cl_devices) < 2:
        pytest.skip(f"{on_device.name} has one queue")


def large() -> int:
    """How many elements are large work for every op of a graph."""
    return 8 * max(nc.get_device().crossover, SMALLEST)


def there_and_back(rng: np.random.Generator) -> bool:
    """Run a graph of large, small and large work, and its backward pass; say whether every value is right."""
    big, little = (rng.integers(-2, 3, n).astype(np.float32) for n in (large(), ROWS))
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
    crossover = nc.get_device().crossover
    values = rng.integers(-8, 9, crossover).astype(np.float32)
    x = ag.tensor(values)
    read = [x * float(i) + 1.0 for i in range(1, 9)]  # large
    place = address(x.buffer)
    del x
    small = nc.full(crossover - 1, -1.0)  # one element less: the other queue
    right = all(np.array_equal(y.to_host(), values * i + 1) for i, y in enumerate(read, 1))
    assert address(small.buffer) == place, "the pool gave another buffer, so this shows nothing"
    return right and np.array_equal(small.to_host(), np.full(crossover - 1, -1, np.float32))


def reuse_in_backward(rng: np.random.Generator) -> bool:
    """Take a step after the other, each on buffers that the step before has just let go."""
    big = rng.integers(-2, 3, large()).astype(np.float32)
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
        wrong = any(not graph(rng) for _ in range(20 * RUNS))
    finally:
        monkeypatch.undo()
        for queue in on_device._queues:
            queue.finish()
    if not wrong:
        pytest.skip(f"a race, which this machine did not lose in {20 * RUNS} runs: it shows nothing of the finish here")


def test_small_graphs_never_cross(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = ag.tensor(np.ones(100, np.float32), requires_grad=True)
    crossed: list[Any] = []
    monkeypatch.setattr(Device, "_cross", lambda self, leaving: crossed.append(leaving))
    for _ in range(5):
        ((x * 2.0 + 1.0) @ x).backward()
    assert crossed == []
    assert x.grad.to_host().tolist() == [25.0] * 100


def test_work_at_the_crossover_goes_to_the_other_queue(on_device: Device) -> None:
    small, threads = on_device._queues
    assert small != threads
    crossover = on_device.crossover
    for size, queue in ((crossover - 1, small), (crossover, threads), (1, small)):
        y = nc.ones(size) * 2.0
        assert on_device.queue == queue == y.queue
        assert np.array_equal(y.to_host(), np.full(size, 2, np.float32))


# Wherever the crossover lies, and whenever it moves, only time depends on it.


@pytest.fixture
def twin(on_device: Device) -> Iterator[Device]:
    """The same hardware in a context of its own, whose crossover is the test's to set."""
    twin = Device(on_device.cl_devices, on_device.index)
    with use_device(twin):
        yield twin
    twin.finish()


@pytest.mark.parametrize("crossover", [0, 1, 64, 1000, 1024, 1025, 1 << 40])
def test_work_on_each_side_of_any_crossover_is_right_and_on_its_queue(twin: Device, crossover: int) -> None:
    twin.crossover = crossover
    rng = np.random.default_rng(crossover)
    for size in (1, 5, 63, 64, 65, 999, 1000, 1023, 1024, 1025, 4099):
        a, b = rng.integers(-9, 10, size).astype(np.float32), rng.integers(1, 10, size).astype(np.float32)
        x, y = ag.tensor(a, requires_grad=True), ag.tensor(b, requires_grad=True)
        z = x * y + 2.0
        assert twin.queue == twin._queues[size >= crossover], size
        z.sum().backward()
        assert np.array_equal(z.to_host(), a * b + 2), size
        assert np.array_equal(x.grad.to_host(), b) and np.array_equal(y.grad.to_host(), a), size
        fused = ag.fuse(lambda x, y: (x * y - 1.0) * x)(x, y)
        assert np.array_equal(fused.to_host(), (a * b - 1) * a), size
        assert (x.value[::-1] + y.value).to_host().tolist() == (a[::-1] + b).tolist(), size
    w = rng.integers(-3, 4, (37, 41)).astype(np.float32)
    assert np.array_equal((ag.tensor(w) @ ag.tensor(w.T)).to_host(), w @ w.T)


@pytest.mark.parametrize("crossover", [0, 1 << 20, 1 << 40], ids=["pthread", "between", "basic"])
@pytest.mark.parametrize("n", [300, 520], ids=["read where it lies", "copied first"])
def test_a_product_is_right_on_either_queue_and_across_them(twin: Device, n: int, crossover: int) -> None:
    twin.crossover = crossover
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-9, 10, (n, n)).astype(np.float32) for _ in range(2))  # whose sums float32 holds exactly
    x, y = ag.tensor(a), ag.tensor(b)
    for left, right, product in ((a, b, x @ y), (a.T, b, x.T @ y), (a, b.T, x @ y.T)):
        # The copy of 520² numbers is small work by the middle crossover, the product after it is large.
        assert twin.queue == twin._queues[n**3 // 64 >= crossover]
        assert np.array_equal(product.to_host(), left.astype(np.float64) @ right)


def test_a_crossover_that_moves_while_work_is_on_its_way_gives_no_wrong_value(twin: Device) -> None:
    rng = np.random.default_rng(8)
    wrong = []
    for run in range(RUNS):
        host = rng.integers(-2, 3, SMALLEST + run // 3).astype(np.float32)  # with a size launches are prepared anew
        y = x = ag.tensor(host, requires_grad=True)
        for step in range(6):
            twin.crossover = int(rng.choice([1, SMALLEST, 1 << 40]))
            y = (y + y, y * 2.0, y / 0.5)[step % 3] + float(step)
        y.sum().backward()
        want = host.copy()
        for step in range(6):
            want = want * 2 + step
        if not np.array_equal(y.to_host(), want) or set(x.grad.to_host().tolist()) != {64.0}:
            wrong.append(run)
    assert wrong == []


def test_a_device_takes_the_crossover_that_is_pinned(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CROSSOVER", "100")
    twin = Device(on_device.cl_devices, on_device.index)
    assert twin.crossover == 100
    with use_device(twin):
        for size, queue in ((99, twin._queues[0]), (100, twin._queues[1])):
            y = nc.ones(size) * 2.0
            assert twin.queue == queue and y.to_host().tolist() == [2.0] * size


def test_a_device_with_one_queue_has_no_crossover_to_find(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CROSSOVER", "100")
    alone = Device(on_device.cl_devices[:1], on_device.index)
    assert alone.crossover != 100
    with use_device(alone):
        assert (nc.ones(2 * alone.crossover) * 2.0).sum().item() == 4 * alone.crossover
        assert alone.queue == alone._queues[0] == alone._queues[1]
    assert measure(Device(on_device.cl_devices[:1], on_device.index)) is None


def test_a_measured_crossover_touches_nothing_of_the_device(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netcl.calibrate._ROUNDS", 1)
    monkeypatch.setattr("netcl.crossover.SIZES", (64, 2048))
    seen: list[list[float]] = []
    monkeypatch.setattr("netcl.crossover.choose", lambda sizes, ratios: seen.append(ratios) or sizes[1])
    x = nc.ones(4)
    gc.collect()  # what other tests left is not freed meanwhile
    held, queue = on_device.pool.stats(), on_device.queue
    assert measure(on_device) == 2048
    assert len(seen[0]) == 2 and all(ratio > 0 for ratio in seen[0])
    assert (on_device.pool.stats(), on_device.queue) == (held, queue)
    assert (x + 1.0).to_host().tolist() == [2.0] * 4
