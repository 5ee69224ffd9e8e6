"""Device memory: pools that keep freed blocks for the next allocation, and what they hold.

Fresh memory costs a page fault per page on first use, so blocks are reused through pyopencl's own memory pools. On a
CPU with shared virtual memory a block is a place there: an OpenCL buffer costs PoCL 800 bytes beside what it holds,
which every launch touches. In one run a chain of 10⁴ ops took 6.1 µs an op with buffers, and 5.1 without. All blocks of
a device are of one kind: where a kernel's arguments are of two, pyopencl takes a microsecond to change between them.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyopencl as cl
from pyopencl.tools import DeferredAllocator, ImmediateAllocator, MemoryPool, SVMAllocator, SVMPool

from netcl.errors import DeviceError
from netcl.layout import room
from netcl.shelf import ALONE, LARGEST_SHELVED, Block, Shelf, references

_ALIGNMENT = 128  # bytes: the widest vector
_SMALL = 4096  # bytes
_FEW = 4096  # small blocks


def address(block: Block) -> int:
    """Return a number that says which memory a block is: two that live at once have different ones."""
    return block.svm_ptr if isinstance(block, cl.SVMPointer) else block.int_ptr


def unseen(blocks: list[Block], holders: Sequence[int]) -> list[bool]:
    """Say for each block whether nothing can see it but this list and so many known holders.

    Whoever else holds one, be it a tensor, a node, a variable of a thread or a debugger, makes it seen. The pool may be
    one of the known (`Pool.holds`).
    """
    return [count == ALONE + known for count, known in zip(references(blocks), holders, strict=True)]


@dataclass(frozen=True)
class MemoryStats:
    """What a device's pool holds: bytes and blocks in use, and bytes and blocks kept for reuse."""

    active_bytes: int
    active_blocks: int
    held_bytes: int
    held_blocks: int


class Pool:
    """The memory of one device. Reuse is safe because a device runs one queue at a time (see device.py)."""

    def __init__(self, queue: cl.CommandQueue, name: str, lock: threading.RLock, finish: Callable[[], None]) -> None:
        # A GPU that is full says so only when memory is touched, and the pool must hear of it to give up what it keeps.
        # A CPU has the system's memory, and touching every fresh buffer costs 50 µs (0.7 without, measured on PoCL).
        gpu = queue.device.type & cl.device_type.GPU
        self._small = None if gpu else _shared(queue)
        self._large: Any = None if gpu else _shared(queue)
        if self._large is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Memory pools expect non-deferred")
                self._large = MemoryPool(ImmediateAllocator(queue) if gpu else DeferredAllocator(queue.context))
        self._name = name
        # Touching fresh memory enqueues a command. Beside another thread's blocking copy on the same queue that ended
        # in a segmentation fault in 7 of 32 runs of a test on an H200 (NVIDIA's OpenCL), under the lock in 0 of 32.
        self._finish = finish
        self._shelf = Shelf(self._make)
        self._free = self._shelf.free
        self.lock_with(lock)

    def lock_with(self, lock: threading.RLock) -> None:
        """Hold a lock where no other thread may come between: a forked child has another."""
        self._lock = self._shelf.lock = lock

    def take(self, nbytes: int) -> Block:
        """Return a block of so many bytes, which `layout.room` has rounded; its content is whatever was there.

        Raises: DeviceError if the device has not that much memory
        """
        if nbytes <= LARGEST_SHELVED:
            try:
                return self._free[nbytes].pop()
            except IndexError:
                pass
            return self._shelf.find(nbytes)
        return self._make(nbytes)

    def _make(self, nbytes: int) -> Block:
        try:
            if self._small is not None and nbytes <= _SMALL:
                return self._small(nbytes)
            block = self._take_large(nbytes)
            if block is None:
                gc.collect()  # gradients that have graphs are in cycles with them
                self.free_held()
                block = self._take_large(nbytes)
            if block is not None:
                return block
            self._give_back(self._large)  # what stands for no memory would be counted as some
        except cl.Error as error:  # larger than one allocation may be, for example
            raise DeviceError(f"{self._name} has no {nbytes:,} bytes free for a tensor ({error})") from None
        except TypeError:  # what pyopencl says of 2⁶⁴ and more
            raise DeviceError(f"{self._name} cannot count to {nbytes:,} bytes for a tensor") from None
        raise DeviceError(f"{self._name} has no {nbytes:,} bytes free for a tensor")

    def _take_large(self, nbytes: int) -> Block | None:
        if self._small is not None:
            block = self._large(nbytes)
            return block if block.svm_ptr else None  # one at 0, which the pool keeps, stands for no memory
        try:
            with self._lock:
                return self._large.allocate(nbytes)
        except cl.MemoryError:
            return None

    def allocate(self, nbytes: int) -> Block:
        """Return a block of at least `nbytes` bytes, as `take` does."""
        return self.take(room(nbytes))

    def holds(self, nbytes: int) -> bool:
        """Say whether the pool itself holds the blocks of so many bytes that are in use."""
        return nbytes <= LARGEST_SHELVED

    def stats(self) -> MemoryStats:
        """Return how much is in use and how much is kept, in bytes and in blocks."""
        pools = [pool for pool in (self._large, self._small) if pool is not None]
        active = sum(pool.active_bytes for pool in pools)
        held = sum(pool.managed_bytes for pool in pools) - active
        blocks = sum(pool.active_blocks for pool in pools)
        idle, idle_blocks = self._shelf.idle()
        held_blocks = sum(pool.held_blocks for pool in pools)
        return MemoryStats(active - idle, blocks - idle_blocks, held + idle, held_blocks + idle_blocks)

    def free_held(self) -> None:
        """Give the memory that is kept for reuse back to the system; thousands of small blocks stay.

        PoCL looks for each block of shared memory that is freed in a list of all: 10⁵ take minutes.
        """
        self._shelf.clear()
        self._give_back(self._large)
        if self._small is not None and self._small.held_blocks <= _FEW:
            self._give_back(self._small)

    def _give_back(self, pool: Any) -> None:
        # A block is kept as soon as no tensor has it, and commands on their way may still use it. Unlike a buffer,
        # shared memory is gone at once when it is freed.
        with self._lock:
            self._finish()
            pool.free_held()


def _shared(queue: cl.CommandQueue) -> SVMPool | None:
    try:
        found = queue.device.svm_capabilities
    except cl.Error:  # what OpenCL 1.2 says
        return None
    if not found & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        return None
    pool = SVMPool(SVMAllocator(queue.context, alignment=_ALIGNMENT, flags=cl.svm_mem_flags.READ_WRITE))
    # Never let go of: freed one by one, 10⁵ blocks held up the end of a process for ten minutes (see free_held). The
    # system takes them back at once.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
    return pool
