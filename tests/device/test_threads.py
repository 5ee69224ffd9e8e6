"""Threads that share a device, and processes that are forked from one that used it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.autograd import node
from netcl.device import Device
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on_device")

Python = Callable[..., "subprocess.CompletedProcess[str]"]
THREADS = 8


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(device: Device, run: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Run in several threads that start at once; return what each gave, or raise what one raised."""
    gate = threading.Barrier(threads)
    results: dict[int, Any] = {}
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            with nc.use_device(device):
                gate.wait(60)
                results[number] = run(number)
        except BaseException as error:  # whatever it is, the test must see it
            failures.append(error)

    workers = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    if failures:
        raise failures[0]
    return [results[number] for number in range(threads)]


@pytest.mark.usefixtures("switching")
def test_eight_threads_times_100_runs_of_a_dot_product_and_its_gradient(on_device: Device) -> None:
    def run(number: int) -> int:
        wrong = 0
        for i in range(100):
            host = np.arange(1, 9, dtype=np.float32) + number + i % 7
            x = ag.tensor(host, requires_grad=True)
            loss = (x * x).sum()
            loss.backward()
            wrong += loss.item() != (host * host).sum() or not np.array_equal(x.grad.to_host(), 2 * host)
        return wrong

    assert together(on_device, run) == [0] * THREADS


@pytest.mark.usefixtures("switching")
def test_threads_whose_work_crosses_between_queues_at_any_moment(on_device: Device) -> None:
    def run(number: int) -> int:
        wrong = 0
        for i in range(6):
            size = 2 * on_device.crossover if (number + i) % 2 else 8
            host = np.full(size, number + 1, np.float32)
            x = ag.tensor(host, requires_grad=True)
            (x * x + x).sum().backward()
            part = x.grad[:: size // 8] * 2.0
            wrong += not np.array_equal(part.to_host(), np.full(8, 2 * (2 * number + 3), np.float32))
        return wrong

    assert together(on_device, run) == [0] * THREADS


@pytest.mark.usefixtures("switching")
def test_one_graph_read_by_many_threads_and_one_parameter_that_all_add_to(on_device: Device) -> None:
    w = ag.tensor([1.0, 2.0], requires_grad=True)

    def run(number: int) -> None:
        for _ in range(25):
            (w * float(number)).backward()

    together(on_device, run)
    assert w.grad.to_host().tolist() == [25 * sum(range(THREADS))] * 2


def test_a_tape_records_its_own_threads_nodes_alone(on_device: Device) -> None:
    x = ag.tensor([1.0], requires_grad=True)

    def run(number: int) -> list[float]:
        with ag.Tape() as tape:
            for _ in range(20):
                ag.mul(x, float(number))
        return [node.operands[1] for node in tape.nodes]

    assert together(on_device, run) == [[float(number)] * 20 for number in range(THREADS)]


@pytest.mark.usefixtures("switching")
def test_a_device_may_be_used_for_the_first_time_by_many_threads_at_once(on_device: Device) -> None:
    for _ in range(3):
        fresh = Device(on_device.cl_devices, on_device.index)

        def run(number: int, fresh: Device = fresh) -> tuple[list[float], Any]:
            return (ag.tensor([1.0, 2.0], device=fresh) * float(number)).to_host().tolist(), fresh.context

        results = together(fresh, run)
        assert [values for values, _ in results] == [[number, 2.0 * number] for number in range(THREADS)]
        assert len({context.int_ptr for _, context in results}) == 1


FORKED = """
import os, sys, threading
import numpy as np
import netcl as nc
from netcl import autograd as ag

nc.use_device(int(sys.argv[1]))
x = ag.tensor(np.ones(int(sys.argv[2]), np.float32), requires_grad=True)
(x * 2.0).sum().backward()
assert x.grad.to_host().tolist() == [2.0] * x.size
held, forked = threading.Event(), threading.Event()

def hold():  # as a launch does, in a thread that the child will not have
    with x.device.lock:
        held.set()
        forked.wait()

holder = threading.Thread(target=hold)
holder.start()
held.wait()
child = os.fork()
if child:
    forked.set()
    holder.join()
else:
    attempts = {
        "new": lambda: ag.tensor([1.0]), "op": lambda: x * 2.0, "other op": lambda: x.exp(), "read": x.to_host,
        "fill": lambda: nc.zeros(3), "backward": lambda: (x * 2.0).sum().backward(), "devices": nc.devices,
        "product": lambda: x @ x, "view": lambda: x[0].to_host(), "choice": lambda: nc.use_device(0),
    }
    code = 0
    for name, attempt in attempts.items():
        try:
            attempt()
            code = 1
            print(name, "went through")
        except nc.errors.DeviceError as error:
            print(name, "spawn" in str(error))
    sys.stdout.flush()
    os._exit(code)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
print("parent", (x * 3.0).sum().item() == 3 * x.size)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("size", [4, 1 << 16], ids=["small", "large"])
def test_a_child_forked_after_a_kernel_has_run_is_told_to_use_spawn(
    on_device: Device, python: Python, size: int
) -> None:
    done = python(FORKED, str(on_device.index), str(size), PYTHONWARNINGS="ignore")
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["child 0", "parent True"], done.stdout + done.stderr
    assert len(lines) == 12 and all(line.endswith("True") for line in lines[:10]), done.stdout


DAEMONS = """
import atexit, sys, threading, time

wish, threads = sys.argv[2], []
if wish == "join":
    @atexit.register
    def join():  # registered before netcl's own, so it runs after that
        for thread in threads:
            thread.join()
        print(x.sum().item(), flush=True)

import netcl as nc

nc.use_device(int(sys.argv[1]))
x, small = nc.ones((600, 600)), nc.ones(10)
works = [lambda: x @ x, lambda: (small * small).to_host(), lambda: nc.zeros(1 << 20), lambda: (x + 1.0).sum().item()]
if wish == "one":
    del works[1:]
done = [0] * len(works)

def work(number):
    while True:
        works[number]()
        done[number] += 1

threads += [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(works))]
for thread in threads:
    thread.start()
while not all(done):
    time.sleep(0.01)
print("end", flush=True)
"""


@pytest.mark.parametrize("wish", ["one", "several", "join"])
def test_daemon_threads_at_work_neither_hold_up_the_end_of_a_process_nor_crash_it(
    on_device: Device, python: Python, wish: str
) -> None:
    done = python(DAEMONS, str(on_device.index), wish)
    said = "end\n360000.0\n" if wish == "join" else "end\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


SPAWNED = """
import multiprocessing, sys
import numpy as np
from netcl import autograd as ag
import netcl as nc

def square(index):
    nc.use_device(index)
    return (ag.tensor([3.0]) ** 2.0).item()

if __name__ == "__main__":
    index = int(sys.argv[1])
    assert square(index) == 9
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [index]))
"""


def test_a_spawned_child_works(on_device: Device, python: Python, tmp_path: Any) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED, encoding="utf-8")
    done = python(
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
        str(script), str(on_device.index),
    )  # fmt: skip
    assert done.stdout.strip() == "[9.0]", done.stdout + done.stderr


@pytest.mark.usefixtures("switching")
def test_eight_threads_times_500_tapes_over_shared_parameters(on_device: Device) -> None:
    w = ag.tensor(np.array([1.0, 2.0, 4.0], np.float32), requires_grad=True)
    b = ag.tensor(np.float32(3.0), requires_grad=True)

    def run(number: int) -> int:
        wrong = 0
        for i in range(500):
            host = np.array([number, i % 5, 1.0], np.float32)
            x = ag.tensor(host, requires_grad=True)
            with ag.Tape() as tape:
                loss = (w * x).sum() + b
            tape.backward(loss)
            wrong += loss.item() != host @ np.array([1.0, 2.0, 4.0]) + 3.0
            wrong += x.grad.to_host().tolist() != [1.0, 2.0, 4.0] or len(tape.nodes) != 3
        return wrong

    assert together(on_device, run) == [0] * THREADS
    # Every addition was of whole numbers, so exact in any order.
    assert w.grad.to_host().tolist() == [500.0 * sum(range(8)), 8 * 1000.0, 4000.0]
    assert b.grad.item() == 4000.0


@pytest.mark.usefixtures("switching")
def test_a_gradient_that_is_read_while_others_add_to_it_loses_nothing(on_device: Device) -> None:
    x: Any = ag.tensor(np.ones(3, np.float32), requires_grad=True)
    (-x).backward(ag.tensor([1.0, 1.0, 1.0]))
    working = [True] * 2

    def run(number: int) -> None:
        if number < len(working):
            for _ in range(300):
                (-x).backward(nc.ones(3))
            working.pop()
        while working:
            assert x.grad.shape == (3,)

    together(on_device, run, 4)
    assert x.grad.to_host().tolist() == [-601.0] * 3


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch, on_device: Device) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Let another thread do something while this one makes the next tensor that a node is asked for."""
    threads: list[threading.Thread] = []

    def arrange(something: Callable[[], Any]) -> None:
        def run() -> None:
            with nc.use_device(on_device):
                something()

        def make(*args: Any) -> Any:
            monkeypatch.undo()
            threads.append(threading.Thread(target=run))
            threads[0].start()
            threads[0].join(0.5)
            return Tensor(*args)

        monkeypatch.setattr(node, "Tensor", make)

    arrange.end = lambda: threads.pop().join(60)  # type: ignore[attr-defined]
    yield arrange


def test_a_gradient_that_is_read_while_another_pass_stores_one_is_the_later(meanwhile: Any) -> None:
    x: Any = ag.tensor([0.0, 1.0], requires_grad=True)
    y = -x
    z = -y
    for factor in (1.0, 2.0):
        z.backward(ag.tensor([factor, factor]))
    meanwhile(lambda: z.backward(ag.tensor([3.0, 3.0])))
    assert y.grad.shape == (2,)
    meanwhile.end()
    assert y.grad.to_host().tolist() == [-3.0, -3.0]


@pytest.mark.parametrize(
    "step", [lambda x, new: x.move(new.layout, new.buffer), lambda x, new: setattr(x, "value", new)]
)
def test_a_value_that_is_read_while_another_is_given_is_the_later(meanwhile: Any, step: Any) -> None:
    x: Any = ag.tensor([0.0, 1.0], requires_grad=True)
    first, second = nc.ones(2), nc.full(2, 2.0)
    x.move(first.layout, first.buffer)
    meanwhile(lambda: step(x, second))
    assert x.value.shape == (2,)
    meanwhile.end()
    assert x.value.to_host().tolist() == [2.0, 2.0]
    assert (x * 1.0).value.to_host().tolist() == [2.0, 2.0]


def test_who_adds_to_a_gradient_waits_for_nobody_who_has_the_device(on_device: Device) -> None:
    """As a finaliser does that goes back: it may run in the middle of a launch."""
    x: Any = ag.tensor([1.0, 2.0], requires_grad=True)
    g = ag.tensor([1.0, 1.0])
    held, began = threading.Event(), threading.Event()

    def node_of_x() -> Any:
        return ag.Node(g, lambda g: [g], [x])  # which launches nothing before the sum

    def launching() -> None:
        with on_device.lock:
            held.set()
            began.wait(60)
            other.join(0.3)
            node_of_x().backward(g)

    x.grad = g
    first = threading.Thread(target=launching, daemon=True)
    other = threading.Thread(target=lambda: node_of_x().backward(g), daemon=True)
    first.start()
    held.wait(60)
    other.start()
    began.set()
    for each in (first, other):
        each.join(10)
        assert not each.is_alive()
    assert x.grad.to_host().tolist() == [3.0, 3.0]
