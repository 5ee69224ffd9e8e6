"""Lesson 07 asks which mode to use: passes, launches, the crossover between the modes, and the order of brackets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Function, Number, Word
from netcl.teach.exercise import Exercise, Wrong

_PASSES = Exercise(
    name="07.passes",
    kind="predict",
    asks="the fewest passes for a gradient, for one directional derivative, and for a whole Jacobian",
    data=lambda rng: {"n": rng.choice([12, 20, 30]), "k": rng.choice([5, 7, 9]), "m": rng.choice([40, 60, 80])},
    answer=Number(lambda d: [1, 1, d.k], rtol=0, why="whole numbers"),
    right=(lambda d: (1, 1, min(d.k, d.m)), lambda d: np.array([1, 1, d.k])),
    because="One row is one pass back, one direction is one pass forward, and a Jacobian has the fewer columns here.",
    wrong=(
        Wrong("forward for all", lambda d: [d.n, 1, d.k], (
            "One of the three tasks has a cheaper mode.",
            "Ask how many outputs it has. A pass in reverse gives all slopes of one output.",
            "A loss of a thousand weights: a single pass back gives a thousand slopes.",
        )),
        Wrong("reverse for all", lambda d: [1, d.m, d.m], (
            "You go back from each output, also where there are many of them.",
            "Rows are the unit of reverse mode. If columns are fewer, or only a mixture of them is wanted, go forward.",
            "How do 3000 pixels move when a single camera turns? One pass forward says it for all of them.",
        )),
        Wrong("reverse for the Jacobian", lambda d: [1, 1, d.m], (
            "The last task can be had with fewer passes.",
            "A whole Jacobian is as many columns as there are inputs, or as many rows as there are outputs.",
            "From 3 angles to 1000 points: 3 columns, or 1000 rows.",
        )),
        Wrong("a pass for each entry", lambda d: [d.n, d.m, d.k * d.m], (
            "You count entries. A pass gives more than one.",
            "A pass forward fills a column, a pass back a row.",
            "A table of 100 by 100 slopes takes a hundred passes, not ten thousand.",
        )),
        Wrong("a direction needs all columns", lambda d: [1, d.n, d.k], (
            "One of the tasks asks for less than you compute.",
            "Along one direction only the mixture of the columns is wanted, and that is just what a tangent gives.",
            "f = 100a + 10b along (2, 3): push the tangents 2 and 3 together, and 230 comes out.",
        )),
        Wrong("inputs and outputs together", lambda d: [d.n + 1, d.n + d.m, d.k + d.m], (
            "You added passes of both modes.",
            "For one task take one mode, whichever needs fewer.",
            "From 3 angles to 1000 points, go forward three times, and nothing else.",
        )),
    ),
)  # fmt: skip

_GROWTH = Exercise(
    name="07.growth",
    kind="predict",
    asks="by which factors three counts grow when inputs, or layers, become more",
    data=lambda rng: {"k": rng.choice([3, 4, 5, 6, 8])},
    answer=Number(lambda d: [1, d.k, d.k], rtol=0, why="whole numbers"),
    right=(lambda d: (1, d.k, d.k), lambda d: np.array([1, d.k, d.k], np.float32)),
    because="In reverse mode launches follow the operations, not the inputs: that is the cheap gradient.",
    wrong=(
        Wrong("every input is paid for", lambda d: [d.k, d.k, d.k], (
            "One of the three does not grow at all.",
            "A pass back goes through the operations. How long the arrays are does not change how many there are.",
            "x of length 10 or 10 million: sin(x) is a single kernel either way.",
        )),
        Wrong("layers are free", lambda d: [1, 1, d.k], (
            "More layers mean more work, in every mode.",
            "Each operation is launched when the function runs, and its rule again on the way back.",
            "A chain of 500 sines has 500 kernels forward, and a rule for each of them.",
        )),
        Wrong("forward mode is free, too", lambda d: [1, d.k, 1], (
            "You have given forward mode what only reverse mode can do.",
            "A pass forward gives one column, so a gradient takes as many passes as there are inputs.",
            "For 7 weights a gradient by forward mode takes 7 passes, for 700 weights 700.",
        )),
        Wrong("the modes exchanged", lambda d: [d.k, d.k, 1], (
            "The two modes have changed places.",
            "Columns belong to inputs and forward mode, rows to outputs and reverse mode.",
            "A loss is one output: one row, one pass back.",
        )),
        Wrong("nothing grows", lambda d: [1, 1, 1], (
            "If this were so, nobody would wait for a network to train.",
            "More operations are more launches; more columns are more passes.",
            "Twice as many layers take about twice as many launches.",
        )),
        Wrong("squares", lambda d: [1, d.k**2, d.k], (
            "Layers do not meet each other in pairs.",
            "A rule of an operation is run once per pass, when its cotangent is complete.",
            "A chain of 500 sines goes back in 500 rules, not in 500 times 500.",
        )),
    ),
)  # fmt: skip


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


_CROSSOVER = Exercise(
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

_ROWS = (
    "def jacobian_by_rows(f, x, m):",
    "    rows = []",
    "    for i in range(m):",
    "        _, pullback = ag.vjp(f, x)",
    "        seed = np.zeros(m, np.float32)",
    "        seed[i] = 1",
    "        rows.append(pullback(seed)[0].to_host())",
    "    return np.stack(rows)",
)


def _line(fragment: str) -> str:
    """The number of the line that holds a fragment."""
    return str(1 + next(i for i, line in enumerate(_ROWS) if fragment in line))


_BUG = Exercise(
    name="07.rows",
    kind="debug",
    asks="the number of the line of jacobian_by_rows that must leave the loop",
    data=lambda rng: {"code": _ROWS},
    answer=Word(lambda d: _line("ag.vjp"), also=("line " + _line("ag.vjp"),)),
    right=(lambda d: _line("ag.vjp"), lambda d: int(_line("ag.vjp")), lambda d: f" {_line('ag.vjp')} "),
    because="`ag.vjp` runs f. One run serves all rows: the pullback may be called as often as you like.",
    wrong=(
        Wrong("the loop itself", lambda d: _line("for i"), (
            "Without a loop you would have one row.",
            "A pass back has one seed and gives one row; the number of rows is not the fault.",
            "For 9 outputs there are 9 pullbacks at least. What else happens 9 times, and need not?",
        )),
        Wrong("the pullback", lambda d: _line("pullback(seed)"), (
            "This line is the work that has to be done for each row.",
            "Pulling back is what reverse mode pays per output. Look for something that does not depend on i.",
            "A line inside a loop that does not read the loop's variable is suspicious; this one reads the seed.",
        )),
        Wrong("the seed's memory", lambda d: _line("np.zeros"), (
            "That is wasteful, but only by a few numbers on the host.",
            "Count launches on the device. NumPy launches none.",
            "A row of 9 zeros costs less than a microsecond; a run of a network costs all its kernels.",
        )),
        Wrong("the seed's entry", lambda d: _line("seed[i]"), (
            "This line reads i: it has to stand in the loop.",
            "What can leave a loop is what comes out the same in each round.",
            "If it stood before the loop, all rows would be the same row.",
        )),
        Wrong("the list", lambda d: _line("rows = []"), (
            "This line stands outside the loop already.",
            "Search among the lines that are indented twice.",
            "A list that is made once is made once. Which line makes the same thing again and again?",
        )),
        Wrong("putting together", lambda d: _line("np.stack"), (
            "This happens once, at the end, and on the host.",
            "The fault multiplies launches by the number of outputs, so it is inside the loop.",
            "Stacking 9 rows of 9 numbers launches nothing.",
        )),
    ),
)  # fmt: skip


def _products(widths: Sequence[int]) -> list[int]:
    """Multiplications for a chain of dense Jacobians, from the input's side and from the output's side."""
    pairs = list(pairwise(widths))
    return [sum(a * b for a, b in pairs[1:]) * widths[0], sum(a * b for a, b in pairs[:-1]) * widths[-1]]


def _as_pair(function: Callable[[Sequence[int]], Any], widths: Sequence[int]) -> Any:
    """A student's result, a list or an array."""
    found = function(list(widths))
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


def _entries(widths: Sequence[int]) -> list[int]:
    forward = sum(width * widths[0] for width in widths[2:])
    return [forward, sum(width * widths[-1] for width in widths[:-2])]


_BRACKETS = Exercise(
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
        Wrong("reverse for both", lambda d: lambda widths: [_products(widths)[1]] * 2, (
            "Both numbers are the same. That is so only by chance.",
            "One of the modes carries rows, the other carries columns.",
            "From 1000 over 10 to 1 the modes differ by a factor of hundreds.",
        )),
    ),
)  # fmt: skip

_OPTIONS = {
    "a": "Reverse mode: it is the cheaper of the two for every function, which is why networks use it.",
    "b": "Forward mode: one column is all there is, one pass gives it, and nothing has to be kept for a way back.",
    "c": "Reverse mode: it gives every slope in one pass, however many outputs there are.",
    "d": "Either: the two modes do the same multiplications in another order, and order changes no cost.",
    "e": "Forward mode: it is more exact, since a pass back adds its roundings to those of the run.",
    "f": "Finite differences: two runs of f are fewer than one run and a pass.",
    "g": "Reverse mode: f has already been run, so that a pass forward would run it a second time.",
}

_WHY = Exercise(
    name="07.why",
    kind="explain",
    asks="which mode to use for a curve: one input, thousands of outputs",
    answer=Choice("b", options=_OPTIONS),
    right=(lambda d: "b", lambda d: _OPTIONS["b"], lambda d: {"B"}),
    because="The Jacobian is a single column. Reverse mode would pull back once for each of its entries.",
    wrong=(
        Wrong(
            "reverse is always cheaper",
            lambda d: "a",
            (
                "Count the passes for this function, not for a loss.",
                "Reverse mode pays for outputs. Networks have one: their loss.",
                "From 2 angles to 500 joints: two passes forward, or five hundred back.",
            ),
        ),
        Wrong(
            "one pass gives all rows",
            lambda d: "c",
            (
                "Every slope, yes: of one output.",
                "A pass back begins with one seed and returns one row of the Jacobian.",
                "With 500 outputs and the seed of ones you get the slope of their sum, not 500 slopes.",
            ),
        ),
        Wrong(
            "order does not matter",
            lambda d: "d",
            (
                "The result is the same in any order of brackets. Is the number of multiplications?",
                "What is carried through the chain is as wide as the end at which you begin.",
                "(1 × 10) · (10 × 10) · (10 × 1): a row carried, or a matrix built, is a factor of ten.",
            ),
        ),
        Wrong(
            "exactness",
            lambda d: "e",
            (
                "Both modes are exact up to rounding. The question is about cost.",
                "Both multiply the same local derivatives, and add the same products.",
                "In lesson 06 both gave the same numbers to the last digit.",
            ),
        ),
        Wrong(
            "finite differences",
            lambda d: "f",
            (
                "Count again: the value comes along in one of the modes. And what about the error?",
                "A pass that carries tangents costs a small multiple of a run, and has no step to choose.",
                "In float32 a difference quotient loses about half of the digits.",
            ),
        ),
        Wrong(
            "the run is paid already",
            lambda d: "g",
            (
                "That saves one run. What does it cost?",
                "Compare one run saved with a pullback for every output.",
                "With 500 outputs you save one run and pay 500 pullbacks.",
            ),
        ),
    ),
)

EXERCISES = (_PASSES, _CROSSOVER, _GROWTH, _BUG, _WHY, _BRACKETS)
