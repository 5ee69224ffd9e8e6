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

_LEAST = 64  # blocks of a size that may be made between one search and the next
_FIRST = 256  # blocks, so few that they stay in a cache
_APART = 16  # blocks made between one look and the next


def references(objects: list[Any]) -> list[int]:
    """Return for each object in a list how many references there are to it; `ALONE` if the list has the only one."""
    # `map` takes each object out of the list and counts in C, where Python's own references to what it is working on,
    # which differ by version, do not come in.
    return [*map(sys.getrefcount, objects)]


ALONE = references([object()])[0]


class _Size:
    """The blocks of one size: those that nobody holds as far as known, all, and how many were made since a search."""

    __slots__ = ("every", "free", "made", "most")

    def __init__(self) -> None:
        self.free: list[Block] = []
        self.every: list[Block] = []
        self.made = 0
        self.most = 0  # that may be made before the next search

    def idle(self) -> list[Block]:
        """Return those that are not in `free` and that nobody holds."""
        return [*compress(self.every, map(ALONE.__eq__, references(self.every)))]

    def search(self) -> None:
        """Put what nobody holds where the next calls find it, and say how many may be made when that is used up.

        Blocks are looked at from the first on, until half of them were idle: so those that were used a moment ago come
        again, out of a cache, and a large graph that has ended leaves the others alone. Where all are looked at, as
        many may be made as are held. So searches cost each block that is taken the same, however many there are, and
        what is kept stays within twice the most that was held at once.
        """
        every, idle, seen = self.every, [], 0
        self.made = self.most = 0
        while seen < len(every) and 2 * len(idle) <= seen:
            part = every[seen : seen + max(seen, _FIRST)]
            idle += compress(part, map((ALONE + 1).__eq__, references(part)))
            seen += len(part)
        if seen == len(every):
            self.most = max(max(_LEAST, seen - len(idle)) - len(idle), 0)
        self.free += idle

    def worth_a_search(self) -> bool:
        """Say whether as many were made as may be, or some that are looked at now and then show that a graph ended."""
        if self.made >= self.most:
            return True
        if self.made % _APART:
            return False
        step = max(len(self.every) >> 3, 1)
        some = self.every[self.made % step :: step]
        return 2 * references(some).count(ALONE + 1) >= len(some)


class Shelf:
    """The small blocks of one device, those in use included; `make` gives a fresh one of so many bytes."""

    def __init__(self, make: Callable[[int], Block]) -> None:
        self._sizes = {nbytes: _Size() for nbytes in range(GRANULE, LARGEST_SHELVED + 1, GRANULE)}
        self.free = {nbytes: size.free for nbytes, size in self._sizes.items()}
        self.lock = threading.RLock()
        self._make = make
        self._searching = False

    def find(self, nbytes: int) -> Block:
        """Return a block where `free` has none: one that nobody holds any more, or a fresh one."""
        with self.lock:
            size = self._sizes[nbytes]
            # Another thread may have found some while this one waited for the lock. To search again now, when all are
            # known, would tell nothing of how many are held.
            if not size.free and not self._searching and size.worth_a_search():
                # A finaliser that runs meanwhile may come here again, and would find the same blocks.
                self._searching = True
                try:
                    size.search()
                finally:
                    self._searching = False
            try:
                return size.free.pop()
            except IndexError:  # there is none, or another thread was first
                pass
            block = self._make(nbytes)
            size.every.append(block)
            size.made += 1
            return block

    def idle(self) -> tuple[int, int]:
        """Return how many bytes and blocks are here that nobody holds."""
        with self.lock:
            counts = {nbytes: len(size.free) + len(size.idle()) for nbytes, size in self._sizes.items()}
        return sum(nbytes * count for nbytes, count in counts.items()), sum(counts.values())

    def clear(self) -> None:
        """Let all go that nobody holds."""
        with self.lock:
            for size in self._sizes.values():
                size.free.clear()
                idle = {*map(id, size.idle())}
                size.every = [block for block in size.every if id(block) not in idle]
                size.made = size.most = 0
