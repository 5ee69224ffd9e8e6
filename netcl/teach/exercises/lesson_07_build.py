"""What lesson 07 has built: the crossover of the modes, and the multiplications that an order of brackets takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong


def _crossover(n: int, run: int, jvp: int, pull: int) -> int:
    """The smallest m with n passes forward cheaper than one run and m passes back."""
    m = 1
    while n * jvp >= run + m * pull:
        m += 1
    return m


def _rounded(n: int, run: int, jvp: int, pull: int, up: Callable[[float], float]) -> int:
    return max(1, int(up((n * jvp - run) / pull)))


def _costs(rng: Random) -> list[tuple[int, int, int, int]]:
    """Ties, no tie, a run that costs more than all of forward mode, equal costs."""
    cases = [(rng.randint(3, 9), rng.randint(2, 5), rng.randint(7, 12), rng.randint(2, 6)) for _ in range(4)]
    return [*cases, (6, 2, 4, 2), (5, 3, 9, 4), (1, 50, 4, 3), (7, 10, 10, 10)]


CROSSOVER = Exercise(
    name="07.crossover",
    kind="build",
    asks="crossover(n, run, jvp, pull): the smallest m for which forward mode takes fewer launches",
    answer=Function(lambda d: _crossover, cases=_costs, rtol=0, why="whole numbers"),
    right=(
        lambda d: lambda n, run, jvp, pull: max(1, (n * jvp - run) // pull + 1),
        lambda d: lambda n, run, jvp, pull: next(m for m in range(1, 10**6) if n * jvp < run + m * pull),
    ),
    because="Forward costs n · jvp, reverse run + m · pull; the crossover is where the second first exceeds the first.",
    wrong=(
        Wrong("passes only", lambda d: lambda n, run, jvp, pull: n + 1, (
            "You compare numbers of passes, as if all passes cost the same.",
            "A pass forward computes values and tangents. A pass back finds the values there. Use all four arguments.",
            "With jvp = 100 and pull = 1, two inputs are dearer than a hundred outputs.",
        )),
        Wrong("as many outputs as inputs", lambda d: lambda n, run, jvp, pull: n, (
            "That would be the place if runs and passes cost the same, and even there the modes would tie.",
            "Write down both costs in launches, and ask from which m on the second is the larger.",
            "With n = 2, run = 1000, jvp = 3, pull = 1: forward mode costs 6, and has won at m = 1.",
        )),
        Wrong("not a whole number", lambda d: lambda n, run, jvp, pull: (n * jvp - run) / pull, (
            "That is where the two lines cross. m counts outputs.",
            "Take the first whole number beyond the crossing; on the crossing itself the modes tie.",
            "Lines that cross at 60.25 make 61 the first m; lines that cross at 60 do so, too.",
        )),
        Wrong("the forward run forgotten", lambda d: lambda n, run, jvp, pull: n * jvp // pull + 1, (
            "Reverse mode is made cheaper than it is.",
            "Before anything can be pulled back, the function has to run, once, whatever m is.",
            "With run = 1000 and pull = 1 reverse mode costs more than a thousand even for a single output.",
        )),
        Wrong("a run for every row", lambda d: lambda n, run, jvp, pull: n * jvp // (run + pull) + 1, (
            "Reverse mode is made dearer than it is.",
            "The values of one run serve all pullbacks.",
            "With run = 1000 and pull = 1, ten rows cost about a thousand, not ten thousand.",
        )),
        Wrong("a tie counts as won", lambda d: lambda n, run, jvp, pull: _rounded(n, run, jvp, pull, np.ceil), (
            "It is right in most cases, but not where both modes cost the same.",
            "Fewer launches means fewer: where they are equal, forward mode has not won yet.",
            "n · jvp = 600 and run + m · pull = 600 is a tie; the next m decides.",
        )),
        Wrong("costs exchanged",
              lambda d: lambda n, run, jvp, pull: max(1, (n * pull - run) // jvp + 1), (
            "The price of a pass forward stands where that of a pass back belongs.",
            "Columns are paid with `jvp`, and there is one for each input.",
            "With jvp = 100 and pull = 1 the crossover lies far above n; with 1 and 100 far below.",
        )),
        Wrong("less than one output", lambda d: lambda n, run, jvp, pull: (n * jvp - run) // pull + 1, (
            "It can come out as zero or less.",
            "m is a number of outputs. A function has at least one.",
            "If forward mode wins already for a single output, the answer is that single output.",
        )),
        Wrong("the run added to forward mode",
              lambda d: lambda n, run, jvp, pull: max(1, (n * jvp + run) // pull + 1), (
            "The run of the function was charged to the wrong side.",
            "`jvp` already contains the values; it is reverse mode that needs a run of its own.",
            "With run = 1000, jvp = 2 and two inputs forward mode costs 4.",
        )),
    ),
)  # fmt: skip


def _products(widths: Sequence[int]) -> list[int]:
    """Multiplications for a chain of dense Jacobians, from the input's side and from the output's side."""
    pairs = list(pairwise(widths))
    return [sum(a * b for a, b in pairs[1:]) * widths[0], sum(a * b for a, b in pairs[:-1]) * widths[-1]]


def _as_pair(function: Callable[[Sequence[int]], Any], widths: Sequence[int]) -> Any:
    """A student's result, a list or an array; and the widths, if they were changed."""
    handed = list(widths)
    found = function(handed)
    if handed != list(widths):
        return [found, "and the list that was handed in is now", handed]
    return list(found) if isinstance(found, np.ndarray) else found


def _by_matrices(widths: Sequence[int]) -> list[int]:
    """The same, by going through the products one by one."""
    forward = backward = 0
    for i in range(2, len(widths)):
        forward += widths[i] * widths[i - 1] * widths[0]
    for i in range(len(widths) - 3, -1, -1):
        backward += widths[-1] * widths[i + 1] * widths[i]
    return [forward, backward]


def _all_factors(widths: Sequence[int]) -> list[int]:
    total = sum(a * b for a, b in pairwise(widths))
    return [total * widths[0], total * widths[-1]]


def _vectors(widths: Sequence[int]) -> list[int]:
    forward, backward = _products(widths)
    return [forward // widths[0], backward // widths[-1]]


def _neighbours(widths: Sequence[int]) -> list[int]:
    total = sum(a * b * c for a, b, c in zip(widths, widths[1:], widths[2:], strict=False))
    return [total, total]


def _turning_round(widths: list[int]) -> list[int]:
    right = _products(widths)
    widths.reverse()
    return right


def _entries(widths: Sequence[int]) -> list[int]:
    forward = sum(width * widths[0] for width in widths[2:])
    return [forward, sum(width * widths[-1] for width in widths[:-2])]


BRACKETS = Exercise(
    name="07.brackets",
    kind="build",
    asks="multiplications(widths): [forward, reverse] for a chain of dense Jacobians",
    answer=Function(
        lambda d: _products, rtol=0, why="whole numbers", call=_as_pair,
        cases=lambda rng: [
            ([rng.randint(2, 4), rng.randint(5, 9), rng.randint(10, 15)],), ([100, 10, 1],), ([1, 10, 100],),
            ([rng.randint(2, 9) for _ in range(5)],), ([2, 3, 5, 7],), ([6, 4],),
        ],
    ),
    right=(lambda d: _by_matrices, lambda d: lambda widths: np.array(_products(widths))),
    because="Forward carries widths[0] columns through all but the first factor, reverse widths[-1] rows.",
    wrong=(
        Wrong("modes exchanged", lambda d: lambda widths: _products(widths)[::-1], (
            "Right numbers, in the wrong order.",
            "Forward mode begins at the input: the factor that acts first is multiplied first.",
            "From 1000 inputs over 10 to 1: forward drags 1000 columns along.",
        )),
        Wrong("the first factor counted, too", lambda d: _all_factors, (
            "A product too many.",
            "The first Jacobian is there already. Nothing is multiplied until a second one comes.",
            "With one factor alone there is no multiplication at all.",
        )),
        Wrong("one vector only", lambda d: _vectors, (
            "That is the price of a single pass.",
            "A whole Jacobian takes a pass for each input, or for each output.",
            "A pass through 10 × 20 and 30 × 10 is 200 + 300; for 20 columns it is twenty times that.",
        )),
        Wrong("neighbours only", lambda d: _neighbours, (
            "Each factor was multiplied with its neighbour, instead of with what has been put together so far.",
            "What is carried keeps its width: the inputs' on the way forward, the outputs' on the way back.",
            "A · (B · C): the second product has the columns of C, not those of B.",
        )),
        Wrong("entries for multiplications", lambda d: _entries, (
            "You counted the entries of the results.",
            "Each entry of a product is a sum of as many multiplications as the inner width.",
            "10 × 20 times 20 × 30: 300 entries, each with 20 multiplications.",
        )),
        Wrong("the widths turned round", lambda d: _turning_round, (
            "The numbers are right, but the caller's list is no longer what it was.",
            "`list.reverse()` changes the list itself. Make another: `widths[::-1]`.",
            "After `b = a[::-1]` with a = [30, 20] a is [30, 20]; after `a.reverse()` it is [20, 30].",
        )),
        Wrong("reverse for both", lambda d: lambda widths: [_products(widths)[1]] * 2, (
            "Both numbers are the same. That is so only by chance.",
            "One of the modes carries rows, the other carries columns.",
            "From 1000 over 10 to 1 the modes differ by a factor of hundreds.",
        )),
    ),
)  # fmt: skip
