"""An interrupt (Ctrl-C, a notebook's stop button) anywhere: no lock stays held, no value is wrong, no gradient half."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import covers
from netcl.autograd import engine
from netcl.commands import recorded
from netcl.device import Device
from netcl.errors import GraphError

pytestmark = pytest.mark.usefixtures("on_device")

PACKAGE = os.path.dirname(nc.__file__)
X = np.array([0.5, 1.0, 2.0], np.float32)


def interrupted(run: Callable[[], Any], place: int) -> bool:
    """Interrupt at the `place`th time that Python would look for one in netcl: where a function begins, or C returns.

    Returns whether it came so far.
    """
    passed = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal passed
        code = frame.f_code
        if code.co_flags & inspect.CO_GENERATOR:
            return  # as one is closed, Python drops what is raised
        if event in ("call", "c_return") and code.co_filename.startswith(PACKAGE):
            passed += 1
            if passed == place:
                sys.setprofile(None)
                raise KeyboardInterrupt

    try:
        sys.setprofile(profile)
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def is_free(lock: Any) -> bool:
    """Whether another thread could have a lock."""
    taken = []

    def take() -> None:
        taken.append(lock.acquire(timeout=1))
        if taken[0]:
            lock.release()

    other = threading.Thread(target=take)
    other.start()
    other.join()
    return taken[0]


def everywhere(run: Callable[[], Any], check: Callable[[int], None]) -> int:
    """Interrupt `run` at each place in turn, then check; return how many there were."""
    run()
    place = 1
    while interrupted(run, place):
        check(place)
        place += 1
    return place


def test_no_lock_stays_held_and_no_number_is_mistaken(on_device: Device) -> None:
    x = ag.tensor(X)

    def run() -> None:
        (x * 2.0).clip(0.0, 3.0)
        (x * 3.0 + x).clip(1.0, 2.0)
        nc.zeros(3)

    def check(place: int) -> None:
        assert is_free(on_device.lock), place
        assert (x * 3.0).to_host().tolist() == [1.5, 3.0, 6.0], place
        assert (x * 2.0).to_host().tolist() == [1.0, 2.0, 4.0], place
        assert x.clip(0.0, 3.0).to_host().tolist() == [0.5, 1.0, 2.0], place
        assert x.clip(1.0, 2.0).to_host().tolist() == [1.0, 1.0, 2.0], place

    assert everywhere(run, check) > 100


def test_the_lock_is_let_go_if_the_interrupt_comes_as_it_is_acquired(on_device: Device) -> None:
    x, (acquire, release) = ag.tensor(X), on_device._gate

    def at_once() -> None:
        acquire()
        raise KeyboardInterrupt

    gate: Any = at_once, release
    on_device._gate = gate
    try:
        with pytest.raises(KeyboardInterrupt):
            _ = x * x
    finally:
        on_device._gate = acquire, release
    assert is_free(on_device.lock)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no signal to a thread")
def test_an_interrupt_while_another_thread_has_the_lock_is_a_keyboard_interrupt(on_device: Device) -> None:
    x, held, over = ag.tensor(X), threading.Event(), threading.Event()

    def hold() -> None:
        with on_device.lock:
            held.set()
            over.wait(60)

    def press() -> None:
        signal.pthread_kill(main, signal.SIGINT)

    main, holder = threading.get_ident(), threading.Thread(target=hold)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Python's own, whoever runs the tests
    holder.start()
    held.wait(60)
    pressing = threading.Timer(0.2, press)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            _ = x * x
    finally:
        over.set()
        holder.join()
        pressing.join()
        signal.signal(signal.SIGINT, before)
    assert (x * x).to_host().tolist() == [0.25, 1.0, 4.0]


def test_gradients_are_of_a_whole_pass_or_of_none(on_device: Device) -> None:
    x, w = ag.tensor(X, requires_grad=True), ag.tensor(X + 1, requires_grad=True)

    def run() -> None:
        (x * w + ag.exp(x) * w).sum().backward()

    def parts() -> list[float]:
        if x.grad is None or w.grad is None:
            assert x.grad is w.grad is None
            return [0, 0]
        return [float(x.grad.to_host()[0] / first), float(w.grad.to_host()[0] / second)]

    run()
    assert x.grad is not None and w.grad is not None
    first, second = x.grad.to_host()[0], w.grad.to_host()[0]

    def check(place: int) -> None:
        passes = parts()
        assert abs(passes[0] - passes[1]) < 1e-3, place
        x.zero_grad()
        w.zero_grad()
        run()
        assert np.allclose(parts(), 1, rtol=1e-6), place

    assert everywhere(run, check) > 100


@contextmanager
def interrupted_in(function: Any, line: int) -> Iterator[None]:
    """Interrupt the block as a function comes to its `line`th line, counted as they run; that must come through."""
    passed = 0

    def lines(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal passed
        if frame.f_code is not function.__code__:
            return None
        passed += event == "line"
        if passed == line:
            sys.settrace(None)
            raise KeyboardInterrupt
        return lines

    before = sys.gettrace()
    try:
        with pytest.raises(KeyboardInterrupt):
            sys.settrace(lines)
            yield
    finally:
        sys.settrace(before)


def test_gradients_are_all_stored_if_the_interrupt_comes_while_they_are(on_device: Device) -> None:
    """Python looks for one at each turn of a loop too, of which a profile does not tell."""
    leaves = [ag.tensor(X, requires_grad=True) for _ in range(4)]
    total: Any = sum(leaf * leaf for leaf in leaves)
    total.sum().backward()
    with interrupted_in(engine._store, line=9):
        total.sum().backward()
    assert [leaf.grad.to_host().tolist() for leaf in leaves] == [(4 * X).tolist()] * 4
    assert len({leaf.pass_id for leaf in leaves}) == 1


@pytest.mark.parametrize("place", range(1, 8))
def test_a_graph_that_is_half_released_gives_no_half_a_gradient(place: int) -> None:
    x = ag.tensor(X, requires_grad=True)
    with ag.Tape() as tape:
        loss = x.sum()
    with interrupted_in(ag.Tape.release, line=place):
        tape.release()
    try:
        loss.backward()
    except GraphError:
        assert x.grad is None
    else:
        assert np.allclose(x.grad.to_host(), 1)  # type: ignore[union-attr]
    tape.release()
    with pytest.raises(GraphError, match="released"):
        loss.backward()


def test_no_method_stays_covered_if_the_interrupt_comes_as_it_is(
    on_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild, before = covers._Covered.rebuild, dict(on_device.__dict__)
    calls = []

    def interrupted_once(self: Any) -> None:
        rebuild(self)
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(covers._Covered, "rebuild", interrupted_once)
    with pytest.raises(KeyboardInterrupt), recorded(on_device):
        pass
    assert len(calls) == 2 and on_device.__dict__.keys() == before.keys() and not covers._covered
