"""What pytest does otherwise under Oclgrind; loaded by `-p plugin` with this folder on Python's path.

Oclgrind's device is the only one. Memory is exactly as large as was asked for and nobody's before: netcl's pool rounds
up and hands buffers out again, which hides writes past an end and reads of what was never written. Notes are kept
(see notes.py): where in Oclgrind's log each test began, and which kernels ran.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lanes
import notes
import numpy as np
import pyopencl as cl
import pytest
from hypothesis import settings

import netcl.device
from netcl import layout, platforms
from netcl.device import Device
from netcl.kernels import elementwise
from netcl.launch import Launch
from netcl.memory import MemoryStats, Pool
from netcl.ops import OPS, Row

KERNELS = notes.declared(Path(netcl.__file__).parent)
EXAMPLES = 3  # of each property, where a test does not say how many it wants
BUDGET = 100_000  # elements that one test may have interpreted, some 15 s worth; what needs more is skipped
LAUNCH, ALLOCATION = 100, 30  # what they cost, as elements

# Why tests can say nothing here: by a fixture that they use, and by file.
FIXTURES = {"python": "runs in processes of its own, which do not see Oclgrind"}
FILES = {"test_memory.py": "is about the pool, which is replaced"}


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("oclgrind", derandomize=True, deadline=None, max_examples=EXAMPLES)
    settings.load_profile("oclgrind")
    # Warnings are errors in all other runs, and those have other compilers: -w does not silence this one.
    config.addinivalue_line("filterwarnings", "ignore::pyopencl.CompilerWarning")
    config.pluginmanager.register(Watch(os.environ["OCLGRIND_NOTES"], os.environ["OCLGRIND_LOG"]))


class Watch:
    """One run of pytest: what a test may still spend, and the notes."""

    def __init__(self, notes: str, log: str) -> None:
        self._notes = open(notes, "w", encoding="utf-8", buffering=1)
        self._noted: set[tuple[str, ...]] = set()
        self._log = log
        self._left = 0
        self.patch = pytest.MonkeyPatch()
        self._show_only_oclgrind()
        self._use_exact_memory()
        self._write_lanes()
        self._note_kernels()

    def note(self, *fields: str) -> None:
        """Write a line of notes that is not there yet, at once: a crash loses none."""
        if fields not in self._noted:
            self._noted.add(fields)
            self._notes.write("\t".join(fields) + "\n")

    def spend(self, elements: int) -> None:
        """Skip the test that this is called in if it has spent more than its budget."""
        self._left -= elements
        if self._left < 0:
            pytest.skip("takes too long for an interpreter")

    # Hooks

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            reason = _why_not(item)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.note("test", str(os.path.getsize(self._log)), item.nodeid)
        self._left = BUDGET
        done = yield
        for device in platforms.devices():
            device.finish()  # so that what this test enqueued is not reported as another's
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if type(thread).__module__.startswith("IPython"):
                return start(thread)
            pytest.skip("Oclgrind's shadow memory works in the thread alone that made the context")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            return (yield)

    def pytest_sessionfinish(self) -> None:
        for op in OPS.values():
            if isinstance(op, Row):
                self.note("row", op.name, "ran" if op.formula.plans else "never")
        self._notes.close()
        self.patch.undo()

    # What is replaced in netcl

    def _show_only_oclgrind(self) -> None:
        every = platforms._platforms
        self.patch.setattr(
            platforms, "_platforms", lambda: [each for each in every() if each.name.strip() == "Oclgrind"]
        )
        if not platforms.devices():
            raise pytest.UsageError("Oclgrind's device is not found: `make oclgrind` sets the environment for it")
        # A second context would begin the log anew.
        context = platforms.devices()[0].context
        self.patch.setattr(Device, "context", property(lambda device: context))

    def _use_exact_memory(self) -> None:
        watch = self

        class ExactPool(Pool):
            """Allocates every buffer anew, with as many bytes as it needs, all of them uninitialised."""

            def __init__(self, queue: cl.CommandQueue, *more: Any) -> None:
                super().__init__(queue, *more)
                self._queue = queue
                self._live = 0, 0
                self._poison = cl.Kernel(cl.Program(queue.context, _POISON).build(), "poison")
                self._poison.set_scalar_arg_dtypes([None, np.uint64])

            def allocate(self, nbytes: int) -> Any:
                return self.take(nbytes)

            def take(self, nbytes: int) -> Any:
                nbytes = max(nbytes, 1)
                watch.spend(ALLOCATION + nbytes // 64)
                buffer = Counted(self._queue.context, nbytes, self._count)
                # Oclgrind keeps the shadow of a freed buffer, and takes it, whatever its size, for that of the next
                # one in its place. A write from the host makes it anew; it is marked initialised then.
                cl.enqueue_copy(self._queue, buffer, np.zeros(nbytes, np.uint8))
                self._poison(self._queue, (1,), (1,), buffer, nbytes)
                self._queue.finish()  # the buffer's first kernel may come by another queue
                return buffer

            def holds(self, nbytes: int) -> bool:
                return False

            def stats(self) -> MemoryStats:
                return MemoryStats(*self._live, 0, 0)

            def _count(self, nbytes: int, blocks: int) -> None:
                self._live = self._live[0] + nbytes, self._live[1] + blocks

        plain_fill = Device.fill

        def fill(device: Device, buffer: Any, value: np.ndarray, nbytes: int) -> Any:
            event = plain_fill(device, buffer, value, nbytes)
            # Oclgrind does not see clEnqueueFillBuffer as a write.
            cl.enqueue_copy(device.queue, buffer, np.full(nbytes // value.itemsize, value))
            return event

        self.patch.setattr(netcl.device, "Pool", ExactPool)
        self.patch.setattr(Device, "fill", fill)
        # Who asks the pool by the shortest way asks for a layout's `room`. Layouts are kept, so those made before go.
        self.patch.setattr(layout, "room", lambda nbytes: nbytes)
        layout._intern.cache_clear()
        layout.contiguous.cache_clear()

    def _write_lanes(self) -> None:
        build = Device.build

        def build_lane_by_lane(device: Device, source: str, *more: Any) -> cl.Program:
            return build(device, lanes.by_lane(source), *more)

        self.patch.setattr(Device, "build", build_lane_by_lane)

    def _note_kernel(self, name: str) -> None:
        """Note a kernel by the module that its source is in: of several, the one that launches it or made it ready."""
        homes = {module for module, each in KERNELS if each == name}
        found = [*homes] if len(homes) == 1 else [home for scope in _callers() for home in _homes(scope, homes)]
        self.note("kernel", found[0] if found else next(_callers())["__name__"], name)

    def _note_kernels(self) -> None:
        launch, start, source = Device.launch, Device.start, elementwise._source

        def noted_launch(
            device: Device, program: str, name: str, types: Any, size: int, args: Any, work: int, **more: Any
        ) -> Any:
            self._note_kernel(name)
            self.spend(LAUNCH + work)
            return launch(device, program, name, types, size, args, work, **more)

        def noted_start(device: Device, prepared: Launch, *args: Any) -> Any:
            self._note_kernel(prepared.name)
            self.spend(LAUNCH + prepared.work)
            return start(device, prepared, *args)

        def noted_source(formula: Any, layouts: Any, accesses: Any, *more: Any) -> str:
            scattered = bool(more[-1])
            for access in (*accesses, *(["scattered"] if scattered else [])):
                self.note("access", access)
            return source(formula, layouts, accesses, *more)

        self.patch.setattr(Device, "launch", noted_launch)
        self.patch.setattr(Device, "start", noted_start)
        self.patch.setattr(elementwise, "_source", noted_source)


def _callers() -> Iterator[dict[str, Any]]:
    """Yield the globals of the modules that are running, the innermost first, this one and the device's aside."""
    frame = sys._getframe()
    while frame is not None:
        # What was made by exec has no name.
        if frame.f_globals.get("__name__") not in (None, __name__, Device.__module__):
            yield frame.f_globals
        frame = frame.f_back


def _homes(scope: dict[str, Any], homes: set[str]) -> set[str]:
    """Return the module itself if it is one of `homes`, else those of them that it has functions of."""
    if scope["__name__"] in homes:
        return {scope["__name__"]}
    return homes & {str(getattr(each, "__module__", "")) for each in scope.values()}


class Counted(cl.Buffer):
    """A buffer that tells when it is made and when it goes."""

    def __init__(self, context: cl.Context, nbytes: int, count: Callable[[int, int], None]) -> None:
        super().__init__(context, cl.mem_flags.READ_WRITE, nbytes)
        self._size, self._count = nbytes, count
        count(nbytes, 1)

    def __del__(self) -> None:
        self._count(-self._size, -1)


# Oclgrind reports a store of what is uninitialised, but not a memset with it.
_POISON = """
__kernel void poison(__global uchar* p, const ulong n)
{
    uchar nothing;
    __builtin_memset(p, nothing, n);
}
"""


def _why_not(item: pytest.Item) -> str:
    """Say why a test can say nothing here, if so."""
    if item.get_closest_marker("large"):
        return "large"
    reasons = [FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES]
    return next(iter(reasons), FILES.get(item.path.name, ""))
