"""Commands are recorded as they are given, by the thread that asked, and nothing stays behind."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import Tensor
from netcl import autograd as ag
from netcl.commands import recorded
from netcl.device import Device


def test_kernels_and_copies_are_recorded_in_order(on_device: Device) -> None:
    with recorded(on_device) as commands:
        commands.label = "first"
        x = Tensor.from_host(np.arange(3.0, dtype="f4"))
        commands.label = "second"
        y = x + 1.0
        z = y.sum() + nc.ones((), dtype=np.float32)
        z.to_host()
    assert [command.kind for command in commands] == ["write", "kernel", "kernel", "fill", "kernel", "read"]
    assert [command.label for command in commands] == ["first"] + ["second"] * 5
    assert commands[1].name == "elementwise" and "__kernel void elementwise" in commands[1].program
    assert commands[1].work == 3 and commands[0].work == 3 and commands[3].work == 1
    assert all(command.called <= command.returned for command in commands)


def test_nothing_stays_behind(on_device: Device) -> None:
    queue = on_device.queue
    before = dict(on_device.__dict__)
    with pytest.raises(ZeroDivisionError), recorded(on_device, profile=True):
        assert on_device.queue is not queue
        raise ZeroDivisionError
    assert on_device.queue.device == queue.device
    assert {
        name: value for name, value in on_device.__dict__.items() if name not in ("_ahead", "_mark", "_active")
    } == {name: value for name, value in before.items() if name not in ("_ahead", "_mark", "_active")}


def test_recordings_nest(on_device: Device) -> None:
    x = nc.ones((4,))
    with recorded(on_device) as outer:
        _ = x + 1.0
        with recorded(on_device) as inner:
            _ = x + 2.0
        _ = x + 3.0
    assert (len(outer), len(inner)) == (3, 1)


def test_another_threads_commands_are_its_own(on_device: Device) -> None:
    x = nc.ones((4,))
    done: list[Any] = []
    with recorded(on_device) as commands:
        thread = threading.Thread(target=lambda: done.append((x * 3.0).to_host()))
        thread.start()
        thread.join()
    assert commands == [] and done[0].tolist() == [3.0] * 4


def test_the_device_keeps_times_only_when_asked(on_device: Device) -> None:
    x = nc.ones((1 << 16,))
    with recorded(on_device, profile=True) as commands:
        y = x
        for _ in range(3):
            y = ag.tanh(y)
        small = nc.ones((3,)) + 1.0
        assert np.allclose(y.to_host(), np.tanh(np.tanh(np.tanh(1))))
        assert small.to_host().tolist() == [2.0] * 3
    spans = [command.span for command in commands]
    assert all(queued <= start <= end for queued, start, end in spans)
    kernels = [span for command, span in zip(commands, spans, strict=True) if command.kind == "kernel"]
    assert all(one[2] <= other[1] for one, other in pairwise(kernels)), "one queue works at a time"
    assert (x * 2.0).to_host()[0] == 2.0


def test_values_stay_right_across_the_swap(on_device: Device) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(300, 300)).astype("f4")
    x = Tensor.from_host(array)
    for _ in range(10):
        y = x * 2.0
        with recorded(on_device, profile=True):
            z = y + x
        assert np.allclose((z - x).to_host(), 2 * array, atol=1e-5)
