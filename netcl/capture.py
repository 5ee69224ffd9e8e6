"""What a thread had a device do, kept so that it can be done again on other memory.

A capture notes each launch with the blocks of memory that it was given. Playing it starts the same kernels in the same
order: blocks that came from outside are replaced by those of the day, results get fresh ones, and what lies between
stays in blocks of the playback's own, which nobody else can see.
"""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from netcl.covers import covered
from netcl.device import Device
from netcl.kernels.random import draws
from netcl.launch import Launch
from netcl.memory import Block, unseen

Refuse = Callable[[str], Exception]
"""Makes the error for what a capture leaves out: a "read" or "write" by the host, a "draw" of random numbers."""


class _Current(threading.local):
    capture: Capture | None = None


_current = _Current()


def look(x: Any, check: Callable[[Any], None]) -> None:
    """Check a tensor's values on the host; a capture notes that, so that a replay checks the tensor in its place."""
    if _current.capture is None:
        check(x)
    else:
        _current.capture.look(x, check)


def refuse_replay() -> None:
    """Raise an error if this thread is in a capture: gradients of a replay within would be left out of the next."""
    if _current.capture is not None:
        raise _current.capture.refuse("replay")


class _Step(NamedTuple):
    """One launch, or the filling of one block (then `launch` is None, and the slot is followed by value and bytes).

    In `args` the slot of a block stands where the launch takes a block, and a number where it takes that.
    """

    launch: Launch | None
    args: tuple[Any, ...]

    @property
    def slots(self) -> list[tuple[int, int]]:
        """The places of blocks among the arguments, each with its slot."""
        if self.launch is None:
            return [(0, self.args[0])]
        return [(i, x) for i, (t, x) in enumerate(zip(self.launch.arg_types, self.args, strict=True)) if t is None]


class Capture:
    """The launches of one thread on one device in order, and the blocks that they touch, each with a slot's number."""

    def __init__(self, device: Device, refuse: Refuse) -> None:
        self.device = device
        self.steps: list[_Step] = []
        self.blocks: list[Block] = []  # held, so that no block comes twice
        self.sizes: list[int | None] = []  # bytes; None for blocks that were there before
        self._slots: dict[int, int] = {}
        self.looks: list[tuple[int, Any, Callable[[Any], None]]] = []  # slot, layout, and what is to be checked
        self.refuse = refuse
        self.seed: int | None = None  # the slot of a constant that the one who captures put there
        self._looking = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Note what this thread has the device do in the block.

        Raises: what `refuse` makes
        """
        covers = {
            "start": self.start, "start_all": self.start_all, "launch": self.launch, "fill": self.fill,
            "read": self._refusing("read"), "write": self._refusing("write"),
        }  # fmt: skip
        with covered(self.device.pool, {"take": self.take}), covered(self.device, covers):
            before, _current.capture = _current.capture, self
            try:
                yield
            finally:
                _current.capture = before

    def look(self, x: Any, check: Callable[[Any], None]) -> None:
        """Let the host check a tensor that was there before: one that was made here would be another in a replay."""
        slot = self.slot(x.buffer)
        if self.sizes[slot] is None:
            self.looks.append((slot, x.layout, check))
            self._looking = True
        try:
            check(x)
        finally:
            self._looking = False

    def slot(self, block: Block) -> int:
        """Return the number of a block; one that is new was there before."""
        found = self._slots.get(id(block))
        return self._add(block, None) if found is None else found

    def _add(self, block: Block, size: int | None) -> int:
        self._slots[id(block)] = len(self.blocks)
        self.blocks.append(block)
        self.sizes.append(size)
        return len(self.blocks) - 1

    def take(self, below: Callable[..., Any], nbytes: int) -> Block:
        """Note a block that is made."""
        block = below(nbytes)
        self._add(block, nbytes)
        return block

    def start(self, below: Callable[..., Any], launch: Launch, placed: tuple[Any, ...]) -> Any:
        """Note a prepared launch."""
        with self.device.lock:
            event = below(launch, placed)
            numbers = self.device.numbers(launch)
        self._note(copy.copy(launch), [*placed[1::2], *numbers, *launch.statics])
        return event

    def start_all(self, below: Callable[..., Any], launches: Iterable[tuple[Launch, tuple[Any, ...]]]) -> None:
        """Refuse a replay within: its gradients are those of the function that it replays, and not of this one."""
        raise self.refuse("replay")

    def launch(
        self, below: Callable[..., Any], program: str, name: str, arg_types: tuple[Any, ...], size: int,
        args: Sequence[Any], work: int, *, exact: bool = False,
    ) -> Any:  # fmt: skip
        """Note a launch of another kind."""
        if draws(program, name):
            raise self.refuse("draw")
        items, local = self.device.groups(size, exact)
        self._note(Launch(program, name, arg_types, (), size, work, grid=items, local=local), args)
        return below(program, name, arg_types, size, args, work, exact=exact)

    def fill(self, below: Callable[..., Any], block: Block, value: np.ndarray, nbytes: int) -> Any:
        """Note that a block is filled."""
        self.steps.append(_Step(None, (self.slot(block), value, nbytes)))
        return below(block, value, nbytes)

    def _note(self, launch: Launch, args: Sequence[Any]) -> None:
        noted = [self.slot(x) if t is None else x for t, x in zip(launch.arg_types, args, strict=True)]
        self.steps.append(_Step(launch, tuple(noted)))

    def _refusing(self, what: str) -> Callable[..., Any]:
        def refuse(below: Callable[..., Any], *args: Any) -> Any:
            if self._looking:
                return below(*args)
            raise self.refuse(what)

        return refuse

    def used(self) -> set[int]:
        """Return the slots that launches take."""
        return {slot for step in self.steps for _, slot in step.slots}

    def seen_elsewhere(self, but: Sequence[int]) -> list[int]:
        """Return the slots whose block was made here and is held by somebody else, apart from those in `but`."""
        made = [(i, size) for i, size in enumerate(self.sizes) if size is not None and i not in but]
        alone = unseen([self.blocks[i] for i, _ in made], [1 + self.device.pool.holds(size) for _, size in made])
        return [i for (i, _), ok in zip(made, alone, strict=True) if not ok]


class Playback:
    """A capture that can be played: on the blocks of the slots in `bound`, with fresh ones for those in `results`."""

    def __init__(self, capture: Capture, bound: Sequence[int], results: Sequence[int]) -> None:
        self.device = capture.device
        self._bound = tuple(bound)
        self._results = tuple(results)
        self._fresh = [(i, size) for i in dict.fromkeys(results) if (size := capture.sizes[i]) is not None]
        changing = {*bound, *[i for i, _ in self._fresh]}
        own = _own_blocks(capture, changing)
        # After the blocks come the numbers of places, so that what a launch is given is taken from one list.
        self._slots = len(own)
        self._blocks = [*own, *range(_most_places(capture.steps))]
        # The launches in order, and what is filled before some of them.
        self._parts: list[tuple[Any, list[tuple[Launch, Any]]]] = [(None, [])]
        for step in capture.steps:
            if step.launch is None:
                self._parts.append((step.args, []))
            else:
                self._parts[-1][1].append(self._prepared(step.launch, step, changing))
        # The device keeps kernel objects for launches, and those of these launches keep the blocks that lie between.
        launches = [launch for _, part in self._parts for launch, _ in part]
        weakref.finalize(self, self.device.forget, launches).atexit = False

    def _prepared(self, launch: Launch, step: _Step, changing: set[int]) -> tuple[Launch, Any]:
        """Return a launch on which all is set that stays, and what takes the rest from the list of blocks."""
        preset = list(step.args)
        chosen: list[int] = []
        for place, slot in step.slots:
            preset[place] = self._blocks[slot]
            if slot in changing:
                chosen += self._slots + place, slot
        launch.preset = preset
        return launch, itemgetter(*chosen) if chosen else _nothing

    def play(self, blocks: Sequence[Block]) -> list[Block]:
        """Do all of it again; return the blocks of the results, in their order."""
        device, take = self.device, self.device.pool.take
        now = self._blocks.copy()
        for slot, block in zip(self._bound, blocks, strict=True):
            now[slot] = block
        for slot, size in self._fresh:
            now[slot] = take(size)
        with device.lock:  # two threads that play at once would share what lies between
            for fill, launches in self._parts:
                if fill is not None:
                    slot, value, nbytes = fill
                    device.fill(now[slot], value, nbytes)
                device.start_all([(launch, chosen(now)) for launch, chosen in launches])
        return [now[slot] for slot in self._results]


def _nothing(_: Any) -> tuple[()]:
    return ()


def _most_places(steps: Sequence[_Step]) -> int:
    return max((len(step.args) for step in steps), default=0)


def _own_blocks(capture: Capture, changing: set[int]) -> list[Block]:
    """Return a block for each slot that stays, None for the others; those made on the way share blocks in turn."""
    sizes = capture.sizes
    blocks: list[Block] = [
        block if sizes[slot] is None and slot not in changing else None for slot, block in enumerate(capture.blocks)
    ]
    last = {slot: i for i, step in enumerate(capture.steps) for _, slot in step.slots}
    free: dict[int | None, list[Block]] = {}
    for i, step in enumerate(capture.steps):
        mine = {slot: sizes[slot] for _, slot in step.slots if slot not in changing and sizes[slot] is not None}
        for slot, size in mine.items():
            if blocks[slot] is None:
                blocks[slot] = free[size].pop() if free.get(size) else capture.blocks[slot]
        for slot, size in mine.items():
            if last[slot] == i:
                free.setdefault(size, []).append(blocks[slot])
    return blocks
