"""A kernel with all that stays the same from launch to launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Launch:
    """A kernel with all that stays the same from launch to launch: what changes is its buffers and numbers.

    `arg_types` has None for a buffer and a NumPy scalar type for a number. The kernel takes its buffers first, then its
    numbers, then the integers `statics`. `size` is the least count of work-items, `work` about how many elements.
    With `several`, `size` counts elements, of which a work-item takes NETCL_PER_ITEM (defined when programs are built).
    With `grid`, up to three lengths, exactly so many work-items run, each a work-group of its own unless `local` says
    how many are one. With `packed` the statics are one argument, a struct that source.packed declares: PoCL takes some
    30 ns for each argument of a launch, however large. With `preset`, one entry per argument, those are set from the
    start (None: at every launch).
    """

    __slots__ = ("arg_types", "grid", "local", "name", "preset", "program", "several", "size", "statics", "work")

    def __init__(
        self,
        program: str,
        name: str,
        arg_types: tuple[Any, ...],
        statics: tuple[int, ...],
        size: int,
        work: int,
        *,
        several: bool = False,
        grid: tuple[int, ...] | None = None,
        local: tuple[int, ...] | None = None,
        packed: bool = False,
    ) -> None:
        self.several = several
        self.grid = grid
        self.local = local or (1,) * len(grid or ())
        self.program = program
        self.name = name
        packed = packed and len(statics) > 1
        self.statics: tuple[Any, ...] = (np.array(statics, np.int64),) if packed else statics
        static = np.dtype((np.void, 8 * len(statics))) if packed else np.int64
        self.arg_types = (*arg_types, *[static] * len(self.statics))
        self.size = size
        self.work = work
        self.preset: Sequence[Any] | None = None
