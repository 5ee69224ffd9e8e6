"""Device memory: a pool that keeps freed buffers for the next allocation, and what it holds.

Fresh memory costs a page fault per page on first use, so buffers are reused through pyopencl's own memory pool.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pyopencl as cl
from pyopencl.tools import DeferredAllocator, ImmediateAllocator, MemoryPool, PooledBuffer

from netcl.errors import DeviceError
from netcl.layout import room

NO_ROOM = (cl.Error, TypeError)
"""What `Pool.take` raises where there is no memory; TypeError is for 2⁶⁴ bytes and more."""


@dataclass(frozen=True)
class MemoryStats:
    """What a device's pool holds: bytes and blocks in use, and bytes and blocks kept for reuse."""

    active_bytes: int
    active_blocks: int
    held_bytes: int
    held_blocks: int


class Pool:
    """The buffers of one device. Reuse is safe because a device runs one queue at a time (see device.py)."""

    def __init__(self, queue: cl.CommandQueue, name: str, lock: threading.RLock) -> None:
        # A GPU that is full says so only when memory is touched, and the pool must hear of it to give up what it keeps.
        # A CPU has the system's memory, and touching every fresh buffer costs 50 µs (0.7 without, measured on PoCL).
        gpu = queue.device.type & cl.device_type.GPU
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Memory pools expect non-deferred")
            self._pool = MemoryPool(ImmediateAllocator(queue) if gpu else DeferredAllocator(queue.context))
        self._name = name
        # Touching fresh memory enqueues a command. Beside another thread's blocking copy on the same queue that ended
        # in a segmentation fault in 7 of 32 runs of a test on an H200 (NVIDIA's OpenCL), under the lock in 0 of 32.
        self._lock = lock
        self.take: Callable[[int], PooledBuffer] = self._take_locked if gpu else self._pool.allocate
        """Return a buffer of so many bytes, which `layout.room` has rounded, or raise what pyopencl raises."""

    def _take_locked(self, nbytes: int) -> PooledBuffer:
        with self._lock:
            return self._pool.allocate(nbytes)

    def allocate(self, nbytes: int) -> PooledBuffer:
        """Return a buffer of at least `nbytes` bytes, rounded up; its content is whatever was there.

        Raises: DeviceError if the device has not that much memory.
        """
        rounded = room(nbytes)
        try:
            return self.take(rounded)
        except (cl.MemoryError, cl.LogicError) as error:  # LogicError: larger than one allocation may be
            raise DeviceError(f"{self._name} has no {rounded:,} bytes free for a tensor ({error})") from None
        except TypeError:  # what pyopencl says of 2⁶⁴ and more
            raise DeviceError(f"{self._name} cannot count to {rounded:,} bytes for a tensor") from None

    def stats(self) -> MemoryStats:
        """Return how much is in use and how much is kept, in bytes and in blocks."""
        pool = self._pool
        held = pool.held_blocks
        return MemoryStats(pool.active_bytes, pool.active_blocks, pool.managed_bytes - pool.active_bytes, held)

    def free_held(self) -> None:
        """Give the memory that is kept for reuse back to the system."""
        self._pool.free_held()
