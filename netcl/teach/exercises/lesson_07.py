"""Lesson 07 asks which mode to use: passes, launches, the crossover between the modes, and the order of brackets."""

from __future__ import annotations

import numpy as np

from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_07_build import BRACKETS, CROSSOVER

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
        Wrong("a direction needs all rows", lambda d: [1, d.m, d.k], (
            "One task wants a number for each output, and you go back from each.",
            "A tangent goes through the graph once, and arrives at all outputs at the same time.",
            "How do 3000 points move if the camera turns a little? Push that turn once: 3000 velocities come out.",
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


def _line(fragment: str) -> int:
    """The number of the line that holds a fragment."""
    return 1 + next(i for i, line in enumerate(_ROWS) if fragment in line)


_BUG = Exercise(
    name="07.rows",
    kind="debug",
    asks="the number of the line of jacobian_by_rows that must leave the loop",
    data=lambda rng: {"code": _ROWS},
    answer=Number(lambda d: _line("ag.vjp"), rtol=0, why="the number of a line"),
    right=(lambda d: _line("ag.vjp"), lambda d: float(_line("ag.vjp")), lambda d: np.array([_line("ag.vjp")])),
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

EXERCISES = (_PASSES, CROSSOVER, _GROWTH, _BUG, _WHY, BRACKETS)
