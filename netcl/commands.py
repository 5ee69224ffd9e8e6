"""What a device is told to do, one command after another: for tables of kernels and for timelines.

Nothing here costs anything until it is asked for: the methods of the one device are covered while a recording runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyopencl as cl

from netcl.covers import Cover, covered
from netcl.device import Device
from netcl.launch import Launch

_KINDS = ("launch", "start", "write", "fill", "read")


@dataclass(slots=True)
class Command:
    """One command: a kernel's launch, or a copy.

    `work` is about how many elements it touches. Times are in ns: `called` and `returned` by the host's clock, those of
    `span` by the device's, where it was told to keep them.
    """

    kind: Literal["kernel", "write", "fill", "read"]
    name: str
    program: str  # OpenCL C; empty for a copy
    work: int
    queue: str  # what the queue's device calls itself
    label: Any
    called: int
    returned: int
    event: cl.Event

    @property
    def span(self) -> tuple[int, int, int]:
        """When the command was enqueued, began and ended, by the device's clock; needs `profile=True`."""
        profile = self.event.profile
        return profile.queued, profile.start, profile.end


class Recording(list[Command]):
    """The commands of one thread in order; `label` is put on each that comes."""

    label: Any = None


@contextmanager
def recorded(device: Device, *, profile: bool = False) -> Iterator[Recording]:
    """Record what the calling thread has a device do in the block. With `profile` the device keeps times.

    Profiling goes through queues of its own, for which work is finished before and after the block.

    >>> import numpy as np
    >>> from netcl.platforms import get_device
    >>> from netcl.tensor import Tensor
    >>> with recorded(get_device()) as commands:
    ...     host = Tensor.from_host([1.0, 2.0]).to_host()
    >>> [command.kind for command in commands]
    ['write', 'read']
    """
    recording = Recording()
    with _profiling(device) if profile else _as_it_is():
        covers = {name: _recorder(name, device, recording) for name in _KINDS}
        with covered(device, covers | {"start_all": partial(_one_by_one, device)}):
            yield recording


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _profiling(device: Device) -> Iterator[None]:
    """Swap in queues that keep times; their events stay readable after they are swapped out."""
    keep = cl.command_queue_properties.PROFILING_ENABLE
    queues = [cl.CommandQueue(device.context, each, properties=keep) for each in device.cl_devices]
    before = device.swap_queues((queues[0], queues[-1]))
    try:
        yield
    finally:
        device.swap_queues(before)


def _one_by_one(device: Device, below: Callable[..., Any], launches: Iterable[tuple[Launch, tuple[Any, ...]]]) -> None:
    for launch, placed in launches:
        device.start(launch, placed)


def _recorder(name: str, device: Device, recording: Recording) -> Cover:
    def record(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        called = time.perf_counter_ns()
        event = original(*args, **kwargs)
        returned = time.perf_counter_ns()
        kind, said, program, work = _describe(name, args)
        queue = event.command_queue.device.name.strip().removesuffix(f"-{device.name}")  # PoCL's: basic, pthread
        recording.append(Command(kind, said, program, work, queue, recording.label, called, returned, event))
        return event

    return record


def _describe(name: str, args: tuple[Any, ...]) -> tuple[Any, str, str, int]:
    if name == "start":
        launch: Launch = args[0]
        return "kernel", launch.name, launch.program, launch.work
    if name == "launch":
        program, kernel, _, _, _, work = args
        return "kernel", kernel, program, work
    array = args[0] if name == "read" else args[1]
    return name, name, "", args[2] // array.itemsize if name == "fill" else array.size
