"""no_grad, set_grad_enabled, detect_anomaly: what they switch, how they nest, and that no thread sees another's."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import AnomalyError, ArgumentError

pytestmark = pytest.mark.usefixtures("on_device")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    assert ag.is_grad_enabled() and not ag.is_anomaly_enabled() and ag.get_current_tape() is None
    yield
    ag.set_grad_enabled(True)
    ag.set_detect_anomaly(False)


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def records() -> bool:
    """Say whether an op on a node gives a node, which is what recording means."""
    return type(leaf([1.0]) * 2.0) is ag.Node


def detects() -> bool:
    try:
        leaf([0.0]).log()
    except AnomalyError:
        return True
    return False


def in_a_thread(run: Callable[[], Any]) -> Any:
    """Return what `run` returns in a thread of its own."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    thread.join(60)
    assert len(results) == 1, "the thread failed"
    return results[0]


# no_grad and set_grad_enabled


def test_no_grad_records_nothing_and_computes_the_same() -> None:
    x = leaf([1.0, 2.0])
    with ag.Tape() as tape, ag.no_grad():
        y = x * x + 1.0
    assert type(y) is nc.Tensor and y.to_host().tolist() == [2, 5]
    assert tape.nodes == []
    assert records()


def test_no_grad_is_left_after_an_exception() -> None:
    with pytest.raises(KeyError), ag.no_grad():
        raise KeyError
    assert records()


def test_leaves_can_be_made_under_no_grad() -> None:
    with ag.no_grad():
        x = leaf([3.0])
    (x * x).backward()
    assert x.grad.to_host().tolist() == [6]


def test_modes_nest_and_the_innermost_is_in_force() -> None:
    with ag.no_grad():
        with ag.set_grad_enabled(True):
            assert records() and ag.is_grad_enabled()
            with ag.no_grad():
                assert not records()
            assert records()
        assert not records() and not ag.is_grad_enabled()
    assert records()


def test_one_context_object_can_be_entered_again_while_it_is_in_force() -> None:
    off = ag.no_grad()
    with off:
        with off:
            assert not records()
        assert not records()
    assert records()
    with off:
        assert not records()
    assert records()


def test_set_grad_enabled_acts_at_once_or_for_a_block() -> None:
    ag.set_grad_enabled(False)
    assert not records()
    ag.set_grad_enabled(True)
    assert records()
    with ag.set_grad_enabled(False):
        assert not records()
    assert records()
    ag.set_grad_enabled(False)
    with ag.set_grad_enabled(True):
        assert records()
    assert not records()
    for mode in (True, False):
        with ag.set_grad_enabled(mode):
            assert records() is mode


def test_decorators_switch_for_the_call_alone() -> None:
    @ag.no_grad()
    def silent(x: Any, *, times: float) -> Any:
        """Double."""
        return x * times

    @ag.set_grad_enabled(True)
    def loud(x: Any) -> Any:
        return silent(x, times=2.0), x * 3.0

    assert records()  # declaring switched nothing
    assert (silent.__name__, silent.__doc__) == ("silent", "Double.")
    x = leaf([1.0])
    with ag.no_grad():
        inner, outer = loud(x)
    assert type(inner) is nc.Tensor and inner.to_host().tolist() == [2]
    assert type(outer) is ag.Node and outer.to_host().tolist() == [3]
    assert records()


def test_a_decorated_function_may_call_itself_and_raise() -> None:
    @ag.no_grad()
    def down(n: int) -> Any:
        assert not records()
        if n == 0:
            raise KeyError("bottom")
        down(n - 1)

    with pytest.raises(KeyError, match="bottom"):
        down(5)
    assert records()


def test_a_decorator_refuses_what_it_cannot_decorate() -> None:
    def generator() -> Iterator[int]:
        yield 1

    with pytest.raises(ArgumentError, match="generator"):
        ag.no_grad()(generator)
    with pytest.raises(ArgumentError, match="parentheses"):
        ag.no_grad(generator)
    with pytest.raises(ArgumentError, match="3"):
        ag.no_grad()(3)  # type: ignore[type-var]


def test_contexts_left_in_another_order_take_out_themselves() -> None:
    def silent() -> Iterator[bool]:
        with ag.no_grad():
            yield records()
            yield records()

    with ag.set_grad_enabled(True):
        running = silent()
        assert next(running) is False
        assert not records()  # a suspended generator is still inside its block
    assert not records()
    assert next(running) is False
    running.close()  # type: ignore[attr-defined]
    assert records()
    with ExitStack() as outer:
        outer.enter_context(ag.no_grad())
        inner = ag.detect_anomaly()
        inner.__enter__()
        outer.close()
        assert records() and ag.is_anomaly_enabled()
        inner.__exit__(None, None, None)
    assert not ag.is_anomaly_enabled()


# detect_anomaly


def test_detect_anomaly_is_a_context_a_decorator_and_a_switch() -> None:
    assert not detects()
    with ag.detect_anomaly():
        assert detects() and ag.is_anomaly_enabled()
        with ag.detect_anomaly(False):
            assert not detects()
        assert detects()
    assert not detects()

    @ag.detect_anomaly()
    def watched() -> bool:
        return detects()

    assert watched() and not detects()
    ag.set_detect_anomaly(True)
    assert detects()
    with ag.detect_anomaly(False):
        assert not detects()
    ag.set_detect_anomaly(False)
    assert not detects()


def test_detect_anomaly_is_left_after_the_error_that_it_raises() -> None:
    with pytest.raises(AnomalyError), ag.detect_anomaly():
        leaf([0.0]).log()
    assert not ag.is_anomaly_enabled()


def test_anomalies_are_sought_under_no_grad_too() -> None:
    with ag.detect_anomaly(), ag.no_grad():
        assert detects()


# Threads


def test_no_thread_sees_anothers_modes_or_tape(on_device: Device) -> None:
    def state() -> tuple[bool, bool, bool]:
        with nc.use_device(on_device):
            return records(), detects(), ag.get_current_tape() is None

    with ag.no_grad(), ag.detect_anomaly(), ag.Tape():
        assert in_a_thread(state) == (True, False, True)
    ag.set_grad_enabled(False)
    ag.set_detect_anomaly(True)
    assert in_a_thread(state) == (True, False, True)
    assert not records() and detects()


def test_what_a_thread_switches_stays_in_it_while_both_run(on_device: Device) -> None:
    inside, checked = threading.Event(), threading.Event()
    seen: list[bool] = []

    def other() -> None:
        with nc.use_device(on_device), ag.no_grad(), ag.detect_anomaly(), ag.Tape() as tape:
            inside.set()
            checked.wait(60)
            seen.extend([records(), detects(), ag.get_current_tape() is tape, tape.nodes == []])
        ag.set_grad_enabled(False)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    assert records() and not detects() and ag.get_current_tape() is None
    with ag.Tape() as mine:
        y = leaf([1.0]) * 2.0
    checked.set()
    thread.join(60)
    assert seen == [False, True, True, True]
    assert mine.nodes == [y]
    assert records()


def test_one_context_object_shared_by_two_threads_switches_each_by_itself(on_device: Device) -> None:
    off = ag.no_grad()
    entered, left = threading.Event(), threading.Event()
    seen: list[bool] = []

    def other() -> None:
        with nc.use_device(on_device):
            with off:
                entered.set()
                left.wait(60)
                seen.append(records())
            seen.append(records())

    with off:
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(60)
    assert records()
    left.set()
    thread.join(60)
    assert seen == [False, True]


# Memory


def test_no_grad_over_a_deep_network_keeps_no_activations(on_device: Device) -> None:
    w = leaf(np.full((64, 64), 1 / 64, np.float32))
    x = ag.tensor(np.ones((64, 64), np.float32))

    def deep() -> Any:
        h = x
        for _ in range(100):
            h = (h @ w).relu()
        return h

    before = on_device.pool.stats().active_bytes
    with ag.no_grad():
        h = deep()
    kept = on_device.pool.stats().active_bytes - before
    np.testing.assert_allclose(h.to_host(), np.ones((64, 64)), rtol=1e-5)
    assert kept <= 2 * h.nbytes  # the result, not the 200 values on the way
    y = deep()
    assert y.to_host().tolist() == h.to_host().tolist()
    assert on_device.pool.stats().active_bytes - before >= 200 * h.nbytes  # with a graph they are needed


def test_no_grad_keeps_no_operand_alive() -> None:
    w, x = leaf([2.0]), ag.tensor([3.0])
    with ag.no_grad():
        middle = x * w
        gone = weakref.ref(middle)
        y = middle + w
        del middle
    assert gone() is None and y.to_host().tolist() == [8]


def test_set_grad_enabled_called_inside_a_context_acts_at_once_and_until_its_end() -> None:
    with ag.no_grad():
        ag.set_grad_enabled(True)
        assert ag.is_grad_enabled()
        with ag.no_grad():
            assert not ag.is_grad_enabled()
        assert ag.is_grad_enabled()
    assert ag.is_grad_enabled()
    with ag.no_grad():
        ag.set_grad_enabled(True)
        ag.set_grad_enabled(False)
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
