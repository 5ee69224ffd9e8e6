"""Lesson 02 asks for a gap between numbers, why central is better, the best step, another best step, a mended slope."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Function, Number
from netcl.teach.exercise import Exercise, Wrong

_EPS32, _EPS64 = 2.0**-23, 2.0**-52

# 02.even

_WHY_TWO = {
    "a": "Two values are used, and their rounding errors average out.",
    "b": "The term with f″ is the same on both sides of x, so that it drops out of the difference.",
    "c": "It divides by 2h, and so every error is halved.",
    "d": "The points are nearer to x than those of the forward difference.",
    "e": "The cube is an odd function; for others both differences have the same order.",
    "f": "The central difference is exact, and what is left is rounding.",
}

# 02.best_step


def _best(value: Any, third: Any, epsilon: Any) -> Any:
    return (3 * epsilon * abs(value) / abs(third)) ** (1 / 3)


def _best_by_cbrt(value: Any, third: Any, epsilon: Any) -> Any:
    return np.cbrt(np.abs(3 * epsilon * value / third))


def _best_by_search(value: Any, third: Any, epsilon: Any) -> Any:
    h = np.geomspace(1e-8, 10, 40_001)
    return h[np.argmin(h**2 * abs(third) / 6 + epsilon * abs(value) / h)]


def _step_cases(rng: Random) -> list[tuple[Any, ...]]:
    return [
        (1.0, 1.0, _EPS64),
        (1.0, 1.0, _EPS32),
        (-2.0, 6.0, _EPS32),
        (5.0, -0.5, _EPS64),
        (-0.1, -40.0, _EPS32),
        (rng.uniform(1, 9), rng.uniform(1, 9), 1e-3),
        (rng.uniform(-9, -1), rng.uniform(1, 9), _EPS64),
    ]


# 02.step


def cube32(x: Any) -> Any:
    """The cube as the notebook has it; the calls of it are counted."""
    return np.float32(x) * np.float32(x) * np.float32(x)


def _counted(slope: Callable[[float], Any], x: float) -> Any:
    """A slope; with it how often the `cube32` of its own module was called, unless that is twice, or not to be seen."""
    names, calls = getattr(slope, "__globals__", {}), [0]
    own = names.get("cube32")
    if not callable(own):
        return slope(x)

    def counting(at: Any) -> Any:
        calls[0] += np.size(at)
        return own(at)

    names["cube32"] = counting
    try:
        found = slope(x)
        return found if calls[0] == 2 else {"slope": found, "calls of cube32": calls[0]}
    finally:
        names["cube32"] = own


def _true_slope(x: float) -> float:
    """The reference: the formula, after as many calls as are asked for."""
    return 3 * x**2 + 0 * float(cube32(0.0) - cube32(0.0))


def _slope_with(step: Callable[[Any], Any], divisor: float = 2.0) -> Callable[[float], float]:
    """Return a central difference of the cube in float32 whose step is a rule of x."""

    def slope(x: float) -> float:
        at = np.float32(x)
        h = np.float32(step(at))
        up, down = at + h, at - h
        difference = float(cube32(up)) - float(cube32(down))
        # A step of nothing gives NaN, as it does in float32.
        return difference / (divisor * float(h)) if h else float("nan")

    return slope


def _slope_in_double(x: float) -> float:
    h = 1e-3 * (1 + abs(x))
    return float((cube32(x + h) - cube32(x - h)) / (np.float32(x + h) - np.float32(x - h)))


def _places(rng: Random) -> list[tuple[Any, ...]]:
    # A step such as (x + 1)/200 is nothing at −1: whole places and small negative ones find such steps.
    fixed = [0.0, 1.0, -1.0, 2.0, -2.0, -2.5, 0.05, -0.05, -0.5, -10.0, 1000.0, -1000.0, 1e5, -3e5]
    return [(x,) for x in (*fixed, rng.uniform(5, 50), rng.uniform(5e5, 1e6))]


# A wrong rule with its three hints reads as one block.
# fmt: off
EXERCISES = (
    Exercise(
        name="02.spacing", kind="predict",
        asks="the gap from a float32 number to the next larger one",
        data=lambda rng: {"number": 2.0 ** rng.randint(3, 11)},
        answer=Number(lambda d: d.number * _EPS32, rtol=1e-3, atol=0, why="three digits tell a power of two"),
        right=(
            lambda d: d.number * 2.0**-23,
            lambda d: np.spacing(np.float32(d.number)),
            lambda d: np.nextafter(np.float32(d.number), np.float32(np.inf)) - np.float32(d.number),
        ),
        because="The gap is ε at 1, and doubles as often as the number does.",
        wrong=(
            Wrong("the same everywhere", lambda d: _EPS32, (
                "That is the gap at 1.",
                "A float keeps a number of digits, not a number of decimals: gaps grow with the numbers.",
                "With three decimal digits, 1.00 is followed by 1.01, but 100 by 101.",
            )),
            Wrong("half a gap", lambda d: d.number * _EPS32 / 2, (
                "That is how far a number may be off after rounding, at most.",
                "Rounding goes to the nearest number, so it is off by half a gap at most. Asked is the whole one.",
                "On a ruler with marks each centimetre you are off by 5 mm at most.",
            )),
            Wrong("float64", lambda d: d.number * _EPS64, (
                "The gap of another dtype.",
                "The number is a float32: look at which ε belongs to it.",
                "With three digits the gap at 1 is 0.01, with six it is 0.00001.",
            )),
            Wrong("divided", lambda d: _EPS32 / d.number, (
                "Is the gap larger or smaller than at 1?",
                "The gap doubles wherever the number doubles; it does not halve.",
                "With three decimal digits the gap at 1000 is 10, not 0.00001.",
            )),
            Wrong("doublings counted", lambda d: np.log2(d.number) * _EPS32, (
                "You counted the doublings. What happens at each of them?",
                "Each doubling multiplies the gap by two; it does not add one more.",
                "After 20 doublings something is about a million times as large, not 20 times.",
            )),
        ),
    ),
    Exercise(
        name="02.even", kind="explain",
        asks="why the error of the central difference falls like h²",
        answer=Choice("b", options=_WHY_TWO),
        right=(lambda d: "b", lambda d: _WHY_TWO["b"], lambda d: ("b",)),
        because="h² is the same for h and for −h, so what it multiplies cannot be told from the two ends.",
        wrong=(
            Wrong("rounding averages out", lambda d: "a", (
                "Look at the right arms of the U: is rounding to be seen there?",
                "The order speaks of the truncation error, which is there without any rounding.",
                "With exact fractions, section 2 found h² for one and 3xh + h² for the other.",
            )),
            Wrong("a factor of two", lambda d: "c", (
                "Half of an error that falls like h still falls like h.",
                "A factor shifts a line on logarithmic axes; only another power of h changes its slope.",
                "5h and 2.5h both halve when h halves. 5h² falls to a quarter.",
            )),
            Wrong("nearer points", lambda d: "d", (
                "How far are x + h and x − h from x?",
                "The points are at the same distance h; and together they span twice as much.",
                "From 10 with h = 1: one looks at 10 and 11, the other at 9 and 11.",
            )),
            Wrong("only for the cube", lambda d: "e", (
                "The series in section 5 is that of any smooth function.",
                "It is not the symmetry of f that counts, but that of the two places about x.",
                "The exponential function has no symmetry. At 0, with h = 0.1: 1.0517 and 1.0017; the slope is 1.",
            )),
            Wrong("exact", lambda d: "f", (
                "For the cube there is a term left: which?",
                "It is exact up to the second power only; the third power is felt.",
                "For x³ at 0 and h = 10 it gives 100, and the slope is 0.",
            )),
        ),
    ),
    Exercise(
        name="02.best_step", kind="build",
        asks="best_step(value, third, epsilon): the best h for a central difference",
        answer=Function(lambda d: _best, cases=_step_cases, rtol=5e-3, atol=0,
                        why="the bottom is flat: three digits do"),
        right=(lambda d: _best, lambda d: _best_by_cbrt, lambda d: _best_by_search),
        because="E′ = h|f‴|/3 − ε|f|/h² is zero where h³ = 3ε|f|/|f‴|.",
        wrong=(
            Wrong("the rule for forward", lambda d: lambda value, third, epsilon:
                  2 * np.sqrt(epsilon * abs(value) / abs(third)), (
                "That has the form of section 4, where the first part falls like h.",
                "Here the first part falls like h². Differentiate it anew.",
                "The least of 4h + 1/h is at h² = 1/4; that of 4h² + 1/h is at h³ = 1/8.",
            )),
            Wrong("both parts equal", lambda d: lambda value, third, epsilon:
                  (6 * epsilon * abs(value) / abs(third)) ** (1 / 3), (
                "The power is right, the factor is not.",
                "You set the two parts equal. That finds the least sum only if both change equally fast; take E′ = 0.",
                "For h² + 16/h the parts are equal at h³ = 16; the least sum is at h = 2.",
            )),
            Wrong("square root", lambda d: lambda value, third, epsilon:
                  np.sqrt(3 * epsilon * abs(value) / abs(third)), (
                "Up to the last step all is well.",
                "Which power of h stands alone at the end?",
                "h³ = 1000 gives h = 10, not 31.6.",
            )),
            Wrong("turned over", lambda d: lambda value, third, epsilon:
                  (3 * epsilon * abs(third) / abs(value)) ** (1 / 3), (
                "If f bends more, should h be larger or smaller?",
                "Solve for h³ once more: what multiplies h goes below the fraction line.",
                "From 7h = 3/h² comes h³ = 3/7.",
            )),
            Wrong("three forgotten", lambda d: lambda value, third, epsilon:
                  (epsilon * abs(value) / abs(third)) ** (1 / 3), (
                "The power is right; a whole number was lost on the way.",
                "Differentiate h² and keep the 2; then see what it makes of the 1/6.",
                "The least of h²/20 + 1/h: h/10 = 1/h², so h³ = 10.",
            )),
            Wrong("rule of thumb", lambda d: lambda value, third, epsilon: epsilon ** (1 / 3), (
                "That is the size of h for an ordinary function; two of the arguments are not used.",
                "A large f makes rounding worse, a large third derivative makes truncation worse: both belong in.",
                "For h² + 16/h the best h is 2, for h² + 128/h it is 4.",
            )),
            Wrong("no sizes", lambda d: lambda value, third, epsilon: (3 * epsilon * value / third) ** (1 / 3), (
                "For some cases your h is a complex number.",
                "Python takes a root of a negative number to the complex plane: use sizes, by `abs`.",
                "(-8) ** (1 / 3) is not −2 in Python, but 1 + 1.73i.",
            )),
            Wrong("signs kept", lambda d: lambda value, third, epsilon:
                  float(np.cbrt(3 * epsilon * value / third)), (
                "For some values your h is negative.",
                "The two errors may have any sign; the most that they can be is about sizes.",
                "An error of −0.3 is as bad as one of 0.3.",
            )),
            Wrong("2h in the wrong place", lambda d: lambda value, third, epsilon:
                  (3 * 2 * 2 * epsilon * abs(value) / abs(third)) ** (1 / 3), (
                "The power is right, the factor is not: look at the rounding part that you began with.",
                "Two values, each off by ε|f|, divided by 2h: the twos cancel.",
                "Two errors of 5, divided by 2 · 10, are 0.5 at most.",
            )),
        ),
    ),
    Exercise(
        name="02.second", kind="predict",
        asks="the best h for the second difference",
        data=lambda rng: {"value": rng.choice([2.0, 3.0, 5.0]), "fourth": rng.choice([6.0, 10.0, 500.0])},
        answer=Number(lambda d: (48 * _EPS64 * d.value / d.fourth) ** 0.25, rtol=0.01, atol=0,
                      why="three digits are asked for"),
        right=(
            lambda d: (48 * _EPS64 * d.value / d.fourth) ** 0.25,
            lambda d: np.sqrt(np.sqrt(np.float64(12 * 4 * d.value * _EPS64 / d.fourth))),
            lambda d: float(f"{(48 * _EPS64 * d.value / d.fourth) ** 0.25:.2e}"),
        ),
        because="1 + 2 + 1 = 4 errors over h², against h²/12: E′ = 0 at h⁴ = 4 · 12 · ε|f|/|f⁗|.",
        wrong=(
            Wrong("three errors", lambda d: (36 * _EPS64 * d.value / d.fourth) ** 0.25, (
                "Very close. Count the errors again.",
                "The value in the middle enters twice, and its error with it.",
                "In p − 2q + r, with each off by 0.5 at most, the whole is off by 2 at most, not by 1.5.",
            )),
            Wrong("rule of thumb", lambda d: _EPS64**0.25, (
                "That is about how large h is for an ordinary function. Here |f| and its derivative are given.",
                "Keep |f| and |f⁗| in E(h), and the whole numbers, too.",
                "The least of h² + 1/h² is at 1, that of h² + 81/h² at 3.",
            )),
            Wrong("errors cancel", lambda d: (0.5 * 48 * _EPS64 * d.value / d.fourth) ** 0.25, (
                "You let some of the errors take others away.",
                "A minus sign subtracts values, but the errors may point either way: add their sizes.",
                "p − q with each off by 0.5 may be off by 1.",
            )),
            Wrong("divided by h alone", lambda d: (24 * _EPS64 * d.value / d.fourth) ** (1 / 3), (
                "Your rounding part grows too slowly as h falls.",
                "What is divided by h² has its errors divided by h², too.",
                "An error of 4 over h = 0.1 is 40; over h² it is 400.",
            )),
            Wrong("the first derivative's", lambda d: (3 * _EPS64 * d.value / d.fourth) ** (1 / 3), (
                "That is the rule of section 5.",
                "Another difference has other parts: set up E(h) for this one.",
                "For a second derivative h must be larger: about the fourth root of ε, not the third.",
            )),
            Wrong("twelfth forgotten", lambda d: (4 * _EPS64 * d.value / d.fourth) ** 0.25, (
                "The rounding part is right.",
                "What stands below h² in the truncation part must appear in your result.",
                "The least of h²/100 + 1/h² is at h⁴ = 100.",
            )),
            Wrong("square root", lambda d: (48 * _EPS64 * d.value / d.fourth) ** 0.5, (
                "Your h is far too small.",
                "h² on one side and h² below the line on the other: which power of h stands alone?",
                "From h² = 81/h² comes h = 3.",
            )),
        ),
    ),
    Exercise(
        name="02.step", kind="debug",
        asks="slope(x): a central difference in float32 that works at every size of x, mended",
        answer=Function(lambda d: _true_slope, cases=_places, rtol=0.02, atol=2e-3, call=_counted,
                        why="two digits, which is what was asked for"),
        right=(
            lambda d: _slope_with(lambda x: 2.0**-8 * max(1.0, abs(x))),
            lambda d: _slope_with(lambda x: 1e-3 + 4e-3 * abs(x)),
            lambda d: _slope_in_double,
        ),
        because="h goes with the size of x, and has a floor where x is small.",
        wrong=(
            Wrong("as it was", lambda d: _slope_with(lambda x: 2.0**-8), (
                "At large x your step is less than the gap between numbers.",
                "The gaps grow with x, so the step must grow with it.",
                "With three digits, 5000 + 1 is 5000 again.",
            )),
            Wrong("a smaller step", lambda d: _slope_with(lambda x: 2.0**-20), (
                "Now it fails at small places as well.",
                "A smaller step makes rounding worse: that is the left arm of the U.",
                "At 1 and h = 2⁻²⁰ a gap of 2⁻²³ is an eighth of the step.",
            )),
            Wrong("a larger step", lambda d: _slope_with(lambda x: 256.0), (
                "Large places are better now; what about x near 0?",
                "No single step serves all sizes: near 0 this one has a huge truncation error.",
                "With h = 10 at x = 1, the central difference of the cube is 3 + 100.",
            )),
            Wrong("no floor", lambda d: _slope_with(lambda x: 2.0**-8 * abs(x)), (
                "At one place your step is nothing at all.",
                "A part of |x| is no step where x is 0: there must be a least one.",
                "A hundredth of your distance from home is a fine stride, until you are at home.",
            )),
            Wrong("the formula", lambda d: lambda x: 3 * x * x, (
                "The numbers are right, but `cube32` was not asked.",
                "A difference knows nothing of the rule for cubes: two values, and the distance between them.",
                "For a black box with values 7 at 1 and 9 at 2 the slope between them is 2, whatever is inside.",
            )),
            Wrong("divided by h", lambda d: _slope_with(lambda x: 2.0**-8 * max(1.0, abs(x)), 1.0), (
                "All results are off by one and the same factor.",
                "How far apart are the two places at which the cube was taken?",
                "From 9 to 11 it is a distance of 2, though each is 1 away from 10.",
            )),
        ),
    ),
)
# fmt: on
