"""A device: its context, its one or two queues, its kernels and its memory.

PoCL offers a CPU twice: `basic` runs a kernel at once in the calling thread (a microsecond), `pthread` spreads it over
the cores (tens of microseconds before it starts). Both share one context, and netcl shows them as one device: small
work goes to the first, large work to the second. PoCL does not order memory between them, so a device keeps to one
rule: *only one of its queues ever has work outstanding*. Before the other queue is used, the first one is finished.
That covers reads, writes, and buffers that the pool hands out again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyopencl as cl

from netcl.errors import DeviceError
from netcl.memory import Pool

CROSSOVER = 1 << 15
"""Work (elements touched) from which PoCL's `pthread` is used: a first guess, to be measured per device."""

_KINDS = {cl.device_type.CPU: "CPU", cl.device_type.GPU: "GPU", cl.device_type.ACCELERATOR: "ACCELERATOR"}


class Device:
    """One OpenCL device as netcl uses it.

    `cl_devices` is one pyopencl device, or PoCL's `basic` and `pthread` in this order; `index` is its place in
    `nc.devices()`.
    """

    def __init__(self, cl_devices: Sequence[cl.Device], index: int) -> None:
        first = cl_devices[0]
        self.index = index
        self.cl_devices = tuple(cl_devices)
        self.kind = next((name for bit, name in _KINDS.items() if first.type & bit), "OTHER")
        self.platform = first.platform.name.strip()
        self.name = first.name.strip() if len(cl_devices) == 1 else first.name.partition("-")[2].strip()
        self.has_fp64 = "cl_khr_fp64" in first.extensions
        self.local_size = min(64 if self.kind == "CPU" else 256, first.max_work_group_size)
        self.lock = threading.RLock()  # re-entrant: a finaliser may launch work while this thread holds it
        self._threads = threading.local()
        self._pid = os.getpid()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_kernels)

    def __repr__(self) -> str:
        return f"<Device {self.index}: {self.name} ({self.kind}, {self.platform})>"

    @cached_property
    def context(self) -> cl.Context:
        """The OpenCL context that holds every buffer of this device."""
        return cl.Context(list(self.cl_devices))

    @cached_property
    def _queues(self) -> tuple[cl.CommandQueue, cl.CommandQueue]:
        with self.lock:
            queues = [cl.CommandQueue(self.context, device) for device in self.cl_devices]
            self._active = queues[0]
            return queues[0], queues[-1]

    @cached_property
    def pool(self) -> Pool:
        """The device's memory."""
        return Pool(self._queues[0], self.name)

    @property
    def queue(self) -> cl.CommandQueue:
        """The queue in use: the only one that may have work outstanding."""
        self._queues  # noqa: B018 - makes the queues at first use
        return self._active

    def queue_for(self, work: int) -> cl.CommandQueue:
        """Return the queue for `work` elements, finishing the other one first if it may still be busy.

        Hold `lock` from here until the command is enqueued.
        """
        small, large = self._queues
        wanted = large if work >= CROSSOVER else small
        if wanted is not self._active:
            self._cross(self._active)
            self._active = wanted
        return wanted

    def _cross(self, leaving: cl.CommandQueue) -> None:
        # Not the other queue waiting for an event of this one: PoCL's `basic` hangs on an event of `pthread`.
        leaving.finish()

    def finish(self) -> None:
        """Wait until everything enqueued so far has run."""
        with self.lock:
            self.queue.finish()

    def kernel(self, program: str, name: str, arg_types: tuple[Any, ...]) -> cl.Kernel:
        """Return this thread's own kernel object: arguments are set on it, so two threads must not share one.

        `arg_types` has None for a buffer and a NumPy scalar type for a number.
        """
        kernels = self._threads.__dict__.setdefault("kernels", {})
        key = (program, name)
        found = kernels.get(key)
        if found is None:
            self._refuse_fork()
            found = cl.Kernel(self._build(program), name)
            found.set_scalar_arg_dtypes(arg_types)
            kernels[key] = found
        return found

    def launch(
        self, kernel: cl.Kernel, size: tuple[int, ...], local: tuple[int, ...], args: Sequence[Any], work: int
    ) -> None:
        """Enqueue `kernel` over `size` work-items for about `work` elements; returns before it has run."""
        kernel.set_args(*args)
        with self.lock:
            cl.enqueue_nd_range_kernel(self.queue_for(work), kernel, size, local)

    def write(self, buffer: Any, array: np.ndarray) -> None:
        """Copy a contiguous host array to the start of a buffer. Blocks: the caller may change the array at once."""
        self._refuse_fork()
        with self.lock:
            cl.enqueue_copy(self.queue_for(array.size), buffer, array, is_blocking=True)

    def fill(self, buffer: Any, value: np.ndarray, nbytes: int) -> None:
        """Repeat one 0-d value over the first `nbytes` bytes of a buffer."""
        self._refuse_fork()
        with self.lock:
            cl.enqueue_fill_buffer(self.queue_for(nbytes // value.itemsize), buffer, value, 0, nbytes)

    def read(self, array: np.ndarray, buffer: Any, offset: int) -> None:
        """Copy from a buffer, `offset` bytes in, into a contiguous host array. Waits for all work before it."""
        self._refuse_fork()
        with self.lock:
            cl.enqueue_copy(self.queue, array, buffer, src_offset=offset, is_blocking=True)

    def _build(self, source: str) -> cl.Program:
        with self.lock:
            programs = self.__dict__.setdefault("_programs", {})
            if source not in programs:
                try:
                    # Not `-cl-fast-relaxed-math` nor `-cl-finite-math-only`: NaN and infinity must survive.
                    programs[source] = cl.Program(self.context, source).build()
                except cl.Error as error:
                    raise DeviceError(f"{self.name} could not build a kernel:\n{error}\n{source}") from error
            return programs[source]

    def _forget_kernels(self) -> None:
        # So that the next launch in a forked child comes past _refuse_fork, at no cost to launches elsewhere.
        self._threads = threading.local()

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise DeviceError(
                "this process was forked from one that used OpenCL, which does not survive a fork; "
                'use multiprocessing.get_context("spawn")'
            )
