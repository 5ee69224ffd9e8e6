"""A device: its context, its one or two queues, its kernels and its memory.

PoCL offers a CPU twice: `basic` runs a kernel at once in the calling thread (a microsecond), `pthread` spreads it over
the cores (tens of microseconds before it starts). Both share one context, and netcl shows them as one device: small
work goes to the first, large work to the second. PoCL does not order memory between them, so a device keeps to one
rule: *only one of its queues ever has work outstanding*. Before the other queue is used, the first one is finished.
That covers reads, writes, and buffers that the pool hands out again.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import re
import threading
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyopencl as cl

from netcl import crossover, pocl
from netcl.errors import DeviceError
from netcl.launch import Launch
from netcl.memory import Pool

LARGEST_GROUP = 1024
"""No kernel that works element by element takes more elements in a work-group."""

FORKED = (
    "this process was forked from one that used OpenCL, which does not survive a fork; "
    'use multiprocessing.get_context("spawn")'
)
"""What a forked child is told, whether it asks for a device or uses one."""

T = TypeVar("T")
_POCL_DRIVER = re.compile("^(basic|pthread|cpu-minimal|cpu)-")  # before the CPU's name
_enqueue = cl.enqueue_nd_range_kernel
_copy_shared = cl._cl._enqueue_svm_memcpy  # type: ignore[attr-defined]  # enqueue_copy hands on no count of bytes

_LARGE = 1 << 15  # elements, from which a CPU with one queue has large groups too
_AHEAD = {"GPU": 1 << 32}  # elements on their way before the host waits; some 10 ms of work
_AHEAD_OF_A_CORE = 1 << 23
_READY_KEPT = 1 << 14  # shapes that change at every step would otherwise pile up
_KINDS = {cl.device_type.CPU: "CPU", cl.device_type.GPU: "GPU", cl.device_type.ACCELERATOR: "ACCELERATOR"}


class _once(cached_property[T]):  # noqa: N801 - stands where cached_property would
    """A cached_property that one thread makes while the others wait (Python's own does not, from 3.12)."""

    if not TYPE_CHECKING:

        def __get__(self, device, owner=None):
            if device is None:
                return self
            with device.lock:
                return super().__get__(device, owner)


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
        self.name = _POCL_DRIVER.sub("", first.name.strip())
        self.has_fp64 = "cl_khr_fp64" in first.extensions
        # Work (elements touched) from which the second queue is used. A launch that is prepared keeps its queue.
        key = crossover.key_of(self.name, first.driver_version)
        self.crossover = crossover.find(key) if len(self.cl_devices) > 1 else _LARGE
        # Of 64, 128, 256 and 512, 128 is fastest for tanh on an H200 (2²⁸ numbers), and within 1% for an addition.
        self.local_size = min(64 if self.kind == "CPU" else 128, first.max_work_group_size)
        # A CPU takes its groups one by one, at some 30 ns each; the queue for large work has kernels of its own anyway.
        self.large_local_size = min(LARGEST_GROUP, first.max_work_group_size) if self.kind == "CPU" else self.local_size
        # On an H200, four elements for each work-item add 2²⁸ numbers at 4,330 GB/s, where one adds them at 3,470.
        self.per_item = 4 if self.kind == "GPU" else 1
        # Without it a GPU may divide to 2.5 units in the last place, and NumPy's results are not its own.
        rounds = first.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        self._rounding = " -cl-fp32-correctly-rounded-divide-sqrt" if self.kind == "GPU" and rounds else ""
        self._make_lock()
        self._kernels: dict[tuple[str, str, bool], cl.Kernel] = {}
        self._ready: dict[Launch, list[Any]] = {}
        self._programs: dict[tuple[str, cl.Device], cl.Program] = {}
        self._ahead = 0
        self._mark: cl.Event | None = None
        self._pid = os.getpid()
        self._ending = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def __repr__(self) -> str:
        return f"<Device {self.index}: {self.name} ({self.kind}, {self.platform})>"

    def _make_lock(self) -> None:
        self.lock = threading.RLock()  # re-entrant: a finaliser may launch work while this thread holds it
        self._gate = self.lock.acquire, self.lock.release

    @_once
    def context(self) -> cl.Context:
        """The OpenCL context that holds every buffer of this device."""
        return cl.Context(list(self.cl_devices))

    @_once
    def _queues(self) -> tuple[cl.CommandQueue, cl.CommandQueue]:
        queues = [cl.CommandQueue(self.context, device) for device in self.cl_devices]
        self._active = queues[0]
        atexit.register(self._finish_at_exit)
        return queues[0], queues[-1]

    def swap_queues(self, queues: tuple[cl.CommandQueue, cl.CommandQueue]) -> tuple[cl.CommandQueue, cl.CommandQueue]:
        """Go on with other queues, once all work is done; return those before (see commands.py)."""
        with self.lock:
            self.finish()
            before, self._queues, self._active = self._queues, queues, queues[0]
            for ready in list(self._ready.values()):  # a replay that goes takes its own out at any time
                ready[4] = queues[ready[5]]
        return before

    @_once
    def pool(self) -> Pool:
        """The device's memory."""
        return Pool(self._queues[0], self.name, self.lock, self.finish)

    @property
    def queue(self) -> cl.CommandQueue:
        """The queue in use: the only one that may have work outstanding."""
        self._queues  # noqa: B018 - makes the queues at first use
        return self._active

    def _use(self, large: bool) -> cl.CommandQueue:
        """Return the queue for large work or for small, finishing the other one first if it may still be busy.

        Hold `lock` from here until the command is enqueued.
        """
        wanted = self._queues[large]
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
            self._refuse()
            self.queue.finish()

    def launch(
        self,
        program: str,
        name: str,
        arg_types: tuple[Any, ...],
        size: int,
        args: Sequence[Any],
        work: int,
        *,
        exact: bool = False,
    ) -> cl.Event:
        """Enqueue a kernel over at least `size` work-items, for about `work` elements; returns before it has run.

        `program` is OpenCL C; `arg_types` has None for a buffer and a NumPy scalar type for a number. The work-group
        size is always the same, since PoCL compiles a kernel anew for every other one, so the kernel guards its tail.
        `exact` is for kernels that do not: the work-group is then the largest power of two that divides `size`.
        """
        large = work >= self.crossover
        key = (program, name, large)
        items, local = self.groups(size, exact)
        with self.lock:  # a kernel object holds its arguments: none is set between here and the launch
            kernel = self._kernels.get(key)
            if kernel is None:
                kernel = self._kernels[key] = self._make_kernel(program, name, arg_types, large)
            kernel.set_args(*args)
            event = cl.enqueue_nd_range_kernel(self._use(large), kernel, items, local)
            if large:
                self._hold_back(event, work)
        return event

    def groups(self, size: int, exact: bool) -> tuple[tuple[int], tuple[int]]:
        """Return how many work-items `launch` runs, and how many of them are a work-group."""
        local = math.gcd(size, self.local_size) if exact else self.local_size
        return ((size + local - 1) // local * local,), (local,)

    def run(self, launch: Launch, buffers: Sequence[Any], numbers: Sequence[Any] = ()) -> cl.Event:
        """Enqueue a prepared launch on buffers and numbers; returns before it has run."""
        return self.run_placed(launch, tuple(chain.from_iterable(enumerate(buffers))), numbers)

    def run_placed(self, launch: Launch, placed: tuple[Any, ...], numbers: Sequence[Any] = ()) -> cl.Event:
        """Enqueue a prepared launch on its arguments' places and buffers, in turn, and on numbers."""
        if not numbers:
            return self.start(launch, placed)
        with self.lock:
            ready = self._ready.get(launch) or self._prepare(launch)
            if numbers != ready[6] or 0 in numbers:  # 0 equals −0
                ready[6] = None  # an interrupt between here and the end leaves some of these and some of those
                ready[0].set_args(*placed[1::2], *numbers, *launch.statics)
                ready[6] = numbers
            return self.start(launch, placed)

    def start_all(self, launches: Iterable[tuple[Launch, tuple[Any, ...]]]) -> None:
        """Enqueue one prepared launch after another, as `start` does, with no other thread's between.

        Written out, for a call would be a tenth of each.
        """
        with self.lock:
            for launch, placed in launches:
                kernel, set_args, size, local, queue, large, _ = self._ready.get(launch) or self._prepare(launch)
                if placed:
                    set_args(placed)
                if queue is not self._active:
                    self._cross(self._active)
                    self._active = queue
                event = _enqueue(queue, kernel, size, local)
                if large:
                    self._hold_back(event, launch.work)

    def numbers(self, launch: Launch) -> Sequence[Any]:
        """Return the numbers that are set on a prepared launch. Hold `lock`."""
        ready = self._ready.get(launch)
        return () if ready is None else ready[6] or ()

    def forget(self, launches: Iterable[Launch]) -> None:
        """Let the kernel objects of prepared launches go."""
        for launch in launches:
            self._ready.pop(launch, None)

    def start(self, launch: Launch, placed: tuple[Any, ...]) -> cl.Event:
        """Enqueue a prepared launch on its arguments' places and buffers, in turn: the way of every elementwise op."""
        acquire, release = self._gate  # half the price of `with self.lock`
        try:
            acquire()  # a kernel object holds its arguments: none is set between here and the launch
            try:
                kernel, set_args, size, local, queue, large, _ = self._ready[launch]
            except KeyError:
                kernel, set_args, size, local, queue, large, _ = self._prepare(launch)
            set_args(placed)
            if queue is not self._active:
                self._cross(self._active)
                self._active = queue
            event = _enqueue(queue, kernel, size, local)
            if large:
                self._hold_back(event, launch.work)
            return event
        finally:
            # Acquired inside `try`: Python looks for an interrupt as `acquire` returns, and outside the lock would stay
            # held for ever. One that comes while it waits ends it with nothing to release.
            try:
                release()
            except RuntimeError:
                pass

    def _hold_back(self, event: cl.Event, work: int) -> None:
        """Keep the host from running far ahead of the device: what is enqueued can be neither interrupted nor left."""
        self._ahead += work
        if self._ahead >= _AHEAD.get(self.kind, _AHEAD_OF_A_CORE):
            before, self._mark, self._ahead = self._mark, event, 0
            if before is not None:
                before.wait()  # not for `event`: the device always has work

    def _prepare(self, launch: Launch) -> list[Any]:
        """Return a kernel object for one launch alone, on which the statics are set already. Hold `lock`.

        With it come what sets its buffers, the sizes, the queue, whether that is the one for large work, and the
        numbers that are set on it.
        """
        self._refuse()
        large = launch.work >= self.crossover
        kernel: Any = self._make_kernel(launch.program, launch.name, launch.arg_types, large)
        first = len(launch.arg_types) - len(launch.statics)
        for place, number in enumerate(launch.statics, first):
            kernel.set_arg(place, number if isinstance(number, np.ndarray) else np.int64(number))
        if launch.preset is not None:
            kernel.set_args(*launch.preset)
        if launch.grid is not None:
            size, local = launch.grid, launch.local
        else:
            items = self.large_local_size if large else self.local_size
            each = items * self.per_item if launch.several else items
            size, local = ((launch.size + each - 1) // each * items,), (items,)
        if len(self._ready) >= _READY_KEPT:
            self._ready.clear()
        # What pyopencl's own generated code calls; in one call it costs half of what `set_arg` does for each.
        ready = [kernel, kernel._set_arg_multi, size, local, self._queues[large], large, None]
        self._ready[launch] = ready
        return ready

    def _make_kernel(self, program: str, name: str, arg_types: tuple[Any, ...], large: bool) -> cl.Kernel:
        # pyopencl generates Python code here, under a name that two threads may both think free; before 2025 it warns
        # of each further kernel of one name.
        with self.lock, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Overwriting existing generated code")
            kernel = cl.Kernel(self.build(program, self.cl_devices[-1 if large else 0]), name)
            kernel.set_scalar_arg_dtypes(arg_types)
        return kernel

    def write(self, buffer: Any, array: np.ndarray) -> cl.Event:
        """Copy a contiguous host array to the start of a buffer. Blocks: the caller may change the array at once."""
        with self.lock:
            self._refuse()
            queue = self._use(array.size >= self.crossover)
            if isinstance(buffer, cl.SVMPointer):
                given = cl.SVM(array if array.flags.writeable else array.copy())  # SVM takes no others
                return _copy_shared(queue, True, buffer, given, byte_count=array.nbytes)
            return cl.enqueue_copy(queue, buffer, array, is_blocking=True)

    def fill(self, buffer: Any, value: np.ndarray, nbytes: int) -> cl.Event:
        """Repeat one 0-d value over the first `nbytes` bytes of a buffer."""
        with self.lock:
            self._refuse()
            queue = self._use(nbytes // value.itemsize >= self.crossover)
            if isinstance(buffer, cl.SVMPointer):
                return cl.enqueue_svm_memfill(queue, buffer, value, byte_count=nbytes)
            return cl.enqueue_fill_buffer(queue, buffer, value, 0, nbytes)

    def read(self, array: np.ndarray, buffer: Any, offset: int) -> cl.Event:
        """Copy from a buffer, `offset` bytes in, into a contiguous host array. Waits for all work before it."""
        with self.lock:
            self._refuse()
            if not isinstance(buffer, cl.SVMPointer):
                return cl.enqueue_copy(self.queue, array, buffer, src_offset=offset, is_blocking=True)
            if offset:
                there: Any = (ctypes.c_ubyte * array.nbytes).from_address(buffer.svm_ptr + offset)
                return _copy_shared(self.queue, True, cl.SVM(array), cl.SVM(np.frombuffer(there, np.uint8)))
            return _copy_shared(self.queue, True, cl.SVM(array), buffer, byte_count=array.nbytes)

    def build(self, source: str, cl_device: cl.Device | None = None, *, cached: bool = True) -> cl.Program:
        """Compile OpenCL C, for one of the two CPU devices alone: most programs never run on the other.

        `cached=False` passes over pyopencl's cache: the binaries there say nothing of a kernel's arguments on Intel's.

        Raises: DeviceError with the compiler's words and the source
        """
        self._refuse()
        cl_device = cl_device or self.cl_devices[0]
        with self.lock:
            program = self._programs.get((source, cl_device))
            if program is None or not cached:
                program = cl.Program(self.context, source)
                if not cached:
                    program._prg = cl._cl._Program(self.context, source)  # type: ignore[attr-defined]
                try:
                    # Not `-cl-fast-relaxed-math` nor `-cl-finite-math-only`: NaN and infinity must survive. No
                    # warnings: an op's C is right for floats and idle for integers (`a != a`): no news to users.
                    options = f"-w -cl-kernel-arg-info -DNETCL_PER_ITEM={self.per_item}{self._rounding}"
                    with pocl.build_lock(), warnings.catch_warnings():
                        # NVIDIA's compiler reports what it did, and Intel's that it was done, as pyopencl's warnings.
                        warnings.simplefilter("ignore", cl.CompilerWarning)
                        program = program.build(options, devices=[cl_device])
                except cl.Error as error:
                    raise DeviceError(f"{self.name} could not build a kernel:\n{error}\n{source}") from error
                self._programs[source, cl_device] = program
            return program

    def _finish_at_exit(self) -> None:
        # A process that ends while PoCL's threads run a kernel dies of a segmentation fault, and one that ends while a
        # daemon thread waits for one is aborted. A forked child has nothing to wait for.
        if os.getpid() == self._pid:
            self._ending, self._kernels, self._ready = True, {}, {}
            with self.lock:
                for queue in self._queues:
                    queue.finish()

    def _after_fork(self) -> None:
        # So that the next launch in a forked child comes past _refuse, at no cost to launches elsewhere, and not
        # before a lock that a thread of the parent held.
        self._make_lock()
        if "pool" in self.__dict__:
            self.pool.lock_with(self.lock)
        self._kernels, self._ready = {}, {}

    def _refuse(self) -> None:
        if os.getpid() != self._pid:
            raise DeviceError(FORKED)
        if self._ending and threading.current_thread().daemon:
            raise SystemExit  # as Python itself ends such threads, a little later
