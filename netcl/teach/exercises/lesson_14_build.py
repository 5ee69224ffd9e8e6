"""Lesson 14's functions: a kernel with edges, and a measurement that is tried on a queue whose times are known."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong
from netcl.tensor import Tensor
from netcl.user_kernel import kernel

# 14.smooth: a kernel that looks at its neighbours

_CLAMPED = """
__kernel void smooth(__global const float* x, const int n, __global float* out)
{
    const int i = get_global_id(0);
    out[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, n - 1)]) / 3.0f;
}
"""
_BRANCHED = """
__kernel void smooth(__global const float* x, __global float* out, const int last)
{
    const int i = get_global_id(0);
    float total = x[i];
    total += i > 0 ? x[i - 1] : x[i];
    total += i < last ? x[i + 1] : x[i];
    out[i] = total * 0.333333343f;
}
"""


def _clamped(x: Any) -> Any:
    return kernel(_CLAMPED)(x, x.size, out=x.shape)


def _branched(x: Any) -> Any:
    return kernel(_BRANCHED)(x, x.size - 1, out=x.shape)


def _on_host(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """What a wrong kernel would compute, in NumPy: one that really left its array would not be the same every time."""
    return lambda x: Tensor.from_host(rule(x.to_host()).astype(np.float32))


def _padded(x: np.ndarray, **how: Any) -> np.ndarray:
    wide = np.pad(x, 1, **how)
    return wide[:-2] + wide[1:-1] + wide[2:]


def _fewer(x: np.ndarray) -> np.ndarray:
    return _padded(x, mode="constant") / _padded(np.ones_like(x), mode="constant")


def _edges_kept(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    return out


def _in_place(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    for i in range(len(x)):
        out[i] = (out[max(i - 1, 0)] + out[i] + out[min(i + 1, len(x) - 1)]) / 3
    return out


_OUTSIDE = 700_000.0  # what lies around the array that is handed in: whoever reads it shows it, every time alike


def _surrounded(f: Callable[[Any], Any], x: Tensor) -> Any:
    """Call f on x in the middle of a larger buffer, so that what a kernel reads outside is known, and nobody else's."""
    device, flags = x.device, cl.mem_flags
    before = max(each.mem_base_addr_align for each in device.cl_devices) // 8  # bits; a region begins at a multiple
    wide = np.full(2 * before // 4 + x.size, _OUTSIDE, np.float32)
    wide[before // 4 :][: x.size] = x.to_host()
    whole = cl.Buffer(device.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=wide)
    inner: Any = whole.get_sub_region(before, x.nbytes)
    return f(Tensor(x.layout, inner, device))


def _ends(x: np.ndarray, left: bool, right: bool) -> np.ndarray:
    """The mean of three, of places outside where an end is not looked after."""
    wide = np.pad(x, 1, mode="edge")
    wide[0], wide[-1] = _OUTSIDE if left else wide[0], _OUTSIDE if right else wide[-1]
    return (wide[:-2] + wide[1:-1] + wide[2:]) / 3


def _smooth_cases(rng: random.Random) -> list[tuple[np.ndarray]]:
    return [(np.array([rng.uniform(-9, 9) for _ in range(n)], np.float32),) for n in (1, 2, 3, 7, 64, 100)]


SMOOTH = Exercise(
    name="14.smooth", kind="build",
    asks="smooth(x): by a kernel of yours, each entry's mean with its two neighbours; an edge is its own",
    answer=Function(
        lambda d: _clamped, cases=_smooth_cases, rtol=1e-4, atol=1e-4, why="a few roundings in float32", tensors=True,
        call=_surrounded,
    ),
    right=(lambda d: _clamped, lambda d: _branched),
    because="No index leaves 0 to n − 1, whatever the length, so nothing outside is ever read.",
    wrong=(
        Wrong("wraps round", lambda d: _on_host(lambda x: _padded(x, mode="wrap") / 3), (
            "The first entry has heard of the last one.",
            "At an edge the missing neighbour is the edge itself, so the index stops there.",
            "With [6, 0, 0] the last result is the mean of 0, 0 and 0.",
        )),
        Wrong("reads outside at both ends", lambda d: _on_host(lambda x: _ends(x, True, True)), (
            "Both ends have heard of something that is no entry of x.",
            "A kernel reads whatever place its index names. x[-1] and x[n] lie outside, and hold what is not yours.",
            "Of 5 entries the places are 0 to 4: the work-items 0 and 4 must not look for a place −1 or 5.",
        )),
        Wrong("reads in front of the array", lambda d: _on_host(lambda x: _ends(x, True, False)), (
            "The last entry is right. Before the first one your kernel reads what is not in x.",
            "In C x[-1] is not the last entry, as it is in Python: it is whatever lies in front of the array.",
            "The smaller of 2 and 3 is min(2, 3); the same for the larger is max. One of them stops an index at 0.",
        )),
        Wrong("reads behind the array", lambda d: _on_host(lambda x: _ends(x, False, True)), (
            "The first entry is right. After the last one your kernel reads what is not in x.",
            "Nobody tells a kernel how long x is: the number n has to be handed to it, and compared with.",
            "Of 5 entries the last has the number 4. Who looks for number 5 reads somebody else's memory.",
        )),
        Wrong("zero outside", lambda d: _on_host(lambda x: _padded(x, mode="constant") / 3), (
            "The edges are pulled towards 0.",
            "Nothing is 0 outside: the edge stands in for its missing neighbour.",
            "A constant array must stay constant, at its edges as well.",
        )),
        Wrong("fewer at the edge", lambda d: _on_host(_fewer), (
            "At an edge you average over those that are there. Three values are asked for.",
            "The edge counts twice: once for itself and once for its missing neighbour.",
            "With [6, 0, 0] the first result is the mean of 6, 6 and 0.",
        )),
        Wrong("edges left alone", lambda d: _on_host(_edges_kept), (
            "The inner entries are right. The edges came through unchanged.",
            "An edge has one neighbour, and is its own second.",
            "With [9, 0, 0] the first result is less than 9.",
        )),
        Wrong("not divided", lambda d: _on_host(lambda x: _padded(x, mode="edge")), (
            "That is a sum.",
            "A mean of three is their sum over 3; mind that 1 / 3 is 0 in C, and 1.0f / 3.0f is not.",
            "An array of fives must stay an array of fives.",
        )),
        Wrong("1 / 3 is 0", lambda d: _on_host(lambda x: 0 * x), (
            "Everything is 0, whatever comes in.",
            "In C a whole number divided by a whole number is one too: the rest is dropped.",
            "7 / 2 is 3 in C, and 7 / 2.0f is 3.5f.",
        )),
        Wrong("one neighbour", lambda d: _on_host(lambda x: (x + np.append(x[1:], x[-1:])) / 2), (
            "The left neighbour has no say.",
            "Each result is made of three entries: left, own, right.",
            "With [0, 6, 0] all three results are alike.",
        )),
        Wrong("reads what it writes", lambda d: _on_host(_in_place), (
            "A spike leaks further to the right than one place.",
            "Read from x and write to out: who writes into what others read gets a result that depends on the order.",
            "With [9, 0, 0, 0] the third result is 0: it is two places away.",
        )),
    ),
)  # fmt: skip


# 14.benchmark: a measurement, tried on a queue whose times are known


class PaperQueue:
    """A queue on paper: `op` builds at its first call, costs the host a little, and then runs for a known time."""

    def __init__(self, build: float, spans: Sequence[float], call: float, blocks: bool) -> None:
        self.build, self.spans, self.call, self.blocks = build, spans, call, blocks
        self.now = self.free = 100.0
        self.calls = 0

    def op(self) -> None:
        """Enqueue once more."""
        self.now += self.call + (0 if self.calls else self.build)
        self.free = max(self.free, self.now) + self.spans[self.calls % len(self.spans)]
        self.calls += 1
        if self.blocks:
            self.finish()

    def finish(self) -> None:
        """Wait."""
        self.now = max(self.now, self.free)

    def clock(self) -> float:
        """The time now."""
        return self.now


def _try(measure: Callable[..., Any], build: float, spans: list[float], call: float, blocks: bool, repeat: int) -> Any:
    queue = PaperQueue(build, spans, call, blocks)
    return measure(queue.op, queue.finish, queue.clock, repeat)


def _benchmark_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for blocks, repeat in ((False, 5), (False, 3), (True, 5), (False, 7), (True, 3), (False, 5)):
        spans = [rng.randint(10, 99) + 0.5 * (1 + i) / 8 for i in range(8)]
        spans[2] *= 20  # somebody else had the machine
        cases.append((5000.0, spans, 0.25, blocks, repeat))
    return cases


def _measure(op: Any, finish: Any, clock: Any, repeat: int) -> float:
    op()
    finish()
    times = []
    for _ in range(repeat):
        start = clock()
        op()
        finish()
        times.append(clock() - start)
    return statistics.median(times)


def _by_numpy(op: Any, finish: Any, clock: Any, repeat: int) -> Any:
    times = np.zeros(repeat + 1)
    for i in range(repeat + 1):
        finish()
        start = clock()
        op()
        finish()
        times[i] = clock() - start
    return np.median(times[1:])


def _lying(op: Any, finish: Any, clock: Any, repeat: int) -> float:
    start = clock()
    for _ in range(repeat):
        op()
    return (clock() - start) / repeat


def _each(warm: bool, wait: bool, of: Callable[[list[float]], float], first_waits: bool = True) -> Callable[..., float]:
    """A measurement with one thing done otherwise."""

    def measure(op: Any, finish: Any, clock: Any, repeat: int) -> float:
        if warm:
            op()
            if first_waits:
                finish()
        times = []
        for _ in range(repeat):
            start = clock()
            op()
            if wait:
                finish()
            times.append(clock() - start)
        return of(times)

    return measure


def _at_the_end(op: Any, finish: Any, clock: Any, repeat: int) -> float:
    op()
    finish()
    start = clock()
    for _ in range(repeat):
        op()
    finish()
    return (clock() - start) / repeat


BENCHMARK = Exercise(
    name="14.benchmark", kind="debug",
    asks="measure(op, finish, clock, repeat) mended: the median over `repeat` calls, each from its call to its end",
    answer=Function(lambda d: _measure, cases=_benchmark_cases, rtol=1e-9, why="times on paper are exact", call=_try),
    right=(lambda d: _measure, lambda d: _by_numpy),
    because="The first call builds and does not count, the clock stops after finish, and the median ignores a delay.",
    wrong=(
        Wrong("as it stands", lambda d: _lying, (
            "This is the benchmark as it was found. It counts the building as work, and waits for nothing.",
            "Call once before the clock starts; stop the clock after `finish()`; take the median of single times.",
            "If the kitchen takes 9 minutes, a stopwatch that stops when the order is given shows seconds.",
        )),
        Wrong("never waits", lambda d: _each(True, False, statistics.median), (
            "On a queue that returns at once you measure the call alone.",
            "The work is over when `finish()` is over.",
            "Posting 7 letters takes a minute, however far they go.",
        )),
        Wrong("no first call", lambda d: _each(False, True, statistics.median), (
            "The first call does more than the others.",
            "A kernel is built when it is first needed: call once, and wait, before anything is measured.",
            "Who times five cups of coffee, grinder's assembly included, shifts the middle one.",
        )),
        Wrong("the first call still runs", lambda d: _each(True, True, statistics.median, False), (
            "There is a first call, and its work is still going on when the clock starts.",
            "Wait for it too: the queue must be empty at the start.",
            "A stopwatch that starts while the last customer is being served counts a part of that service.",
        )),
        Wrong("mean", lambda d: _each(True, True, statistics.fmean), (
            "All is measured rightly, and one delay spoils it.",
            "A mean follows whatever the rest of the machine did. The median does not.",
            "Of 3, 3, 4, 90 the mean is 25, and nobody ever waited 25.",
        )),
        Wrong("minimum", lambda d: _each(True, True, min), (
            "All is measured rightly. The best case is a fair figure as well, but the one in the middle is asked for.",
            "Sort the times, and take the one in the middle.",
            "Of 3, 4, 90 that is 4.",
        )),
        Wrong("one wait at the end", lambda d: _at_the_end, (
            "That says how much work comes through per time. It does not say how long one call takes.",
            "Wait after every call, and keep every time.",
            "Of three jobs that took 3, 4 and 90, the whole divided by three is 32: no job's time.",
        )),
    ),
)  # fmt: skip
