"""Small blocks of device memory, used again and again as the same Python objects.

Making an object for a block and letting it go takes 0.25 µs, five times as long as finding one that is there, and each
that is made is one more for Python's collector. So the objects stay on a shelf while others use them, and whoever asks
gets one that nobody holds any more, which its count of references says.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import compress
from typing import Any

from netcl.layout import GRANULE

Block = Any
"""A piece of device memory, pyopencl's PooledBuffer or PooledSVM: what a kernel is handed for a tensor."""

LARGEST_SHELVED = 1024
"""Bytes of the largest block on a shelf. They come in turn, not the last one first, so large ones would leave
a cache."""

_LEAST = 64  # blocks of a size between one search and the next
_IDLE_KEPT = 1 << 15  # blocks of a size that nobody holds


def references(objects: list[Any]) -> list[int]:
    """Return for each object in a list how many references there are to it; `ALONE` if the list has the only one."""
    # `map` takes each object out of the list and counts in C, where Python's own references to what it is working on,
    # which differ by version, do not come in.
    return [*map(sys.getrefcount, objects)]


ALONE = references([object()])[0]


class Shelf:
    """The small blocks of one device, those in use included; `make` gives a fresh one of so many bytes."""

    def __init__(self, make: Callable[[int], Block]) -> None:
        sizes = range(GRANULE, LARGEST_SHELVED + 1, GRANULE)
        self.free: dict[int, list[Block]] = {nbytes: [] for nbytes in sizes}
        self._all: dict[int, list[Block]] = {nbytes: [] for nbytes in sizes}
        self._to_make = dict.fromkeys(sizes, 0)  # before the next search
        self._make = make
        self.lock = threading.RLock()
        self._searching = False

    def find(self, nbytes: int) -> Block:
        """Return a block where `free` has none: one that nobody holds any more, or a fresh one."""
        with self.lock:
            if not self._to_make[nbytes] and not self._searching:
                self._search(nbytes)
            try:
                return self.free[nbytes].pop()
            except IndexError:
                pass
            block = self._make(nbytes)
            self._all[nbytes].append(block)
            self._to_make[nbytes] = max(self._to_make[nbytes] - 1, 0)
            return block

    def _search(self, nbytes: int) -> None:
        """Put what nobody holds where the next calls find it, and say how many may be made when that is used up.

        As many as are held, so that a search costs each of them the same and what is kept stays within twice the most
        that was held at once.
        """
        # A finaliser that runs meanwhile may come here again, and would find the same blocks.
        self._searching = True
        try:
            idle = self._idle(nbytes)
            held = len(self._all[nbytes]) - len(idle)
            if len(idle) > _IDLE_KEPT:
                self._drop(nbytes, idle[_IDLE_KEPT:])
                del idle[_IDLE_KEPT:]
            self._to_make[nbytes] = max(max(_LEAST, held) - len(idle), 0)
            self.free[nbytes] += idle
        finally:
            self._searching = False

    def _idle(self, nbytes: int) -> list[Block]:
        blocks = self._all[nbytes]
        return [*compress(blocks, map(ALONE.__eq__, references(blocks)))]

    def _drop(self, nbytes: int, blocks: list[Block]) -> None:
        gone = {*map(id, blocks)}
        self._all[nbytes] = [block for block in self._all[nbytes] if id(block) not in gone]

    def idle(self) -> tuple[int, int]:
        """Return how many bytes and blocks are here that nobody holds."""
        with self.lock:
            counts = {nbytes: len(self.free[nbytes]) + len(self._idle(nbytes)) for nbytes in self._all}
        return sum(nbytes * count for nbytes, count in counts.items()), sum(counts.values())

    def clear(self) -> None:
        """Let all go that nobody holds."""
        with self.lock:
            for nbytes in self._all:
                self.free[nbytes].clear()
                self._to_make[nbytes] = 0
                self._drop(nbytes, self._idle(nbytes))
