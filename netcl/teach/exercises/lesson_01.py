"""Lesson 01 asks for df by hand, a remainder, the differential of a root, a mended tangent, and who has corners."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Formula, Function, Number
from netcl.teach.exercise import Exercise, Wrong

# 01.best

_SPECIAL = {
    "a": "It meets the curve at that point and nowhere else.",
    "b": "Its error, divided by dx, goes to 0 as dx goes to 0.",
    "c": "Its error goes to 0 as dx goes to 0.",
    "d": "Its error is exactly 0 as soon as dx is small enough.",
    "e": "Whatever dx is, its error is smaller than that of any other such line.",
    "f": "The curve stays on one side of it.",
}

# 01.df


def _df_data(rng: Random) -> dict[str, Any]:
    # Not x = 3, where two of the wrong rules meet.
    return {"x": rng.choice([2, 4, 5]), "k": rng.choice([5, 7, 8]), "dx": rng.choice([0.01, 0.02, 0.04])}


def _cubic(d: SimpleNamespace, x: float) -> float:
    return x**3 - d.k * x


# 01.root


def _root_cases(rng: Random) -> list[tuple[Any, ...]]:
    places = np.array([0.25, 1.0, 4.0, rng.uniform(5, 90)])
    return [
        (4.0, 0.5),
        (9.0, -0.3),
        (0.01, 0.001),
        (rng.uniform(2, 50), rng.uniform(-1, 1)),
        (places, 0.1),
        (places, places / 8),
        (2.0, np.array([-0.5, 0.0, 0.5])),
    ]


def _spread(predicted: Any, x: Any, dx: Any) -> Any:
    """The student's result in the shape of x and dx together, so that one that has forgotten dx is compared, too."""
    found = predicted(x, dx)
    return (
        found + 0 * (np.asarray(x) + np.asarray(dx))
        if isinstance(found, int | float | np.number | np.ndarray)
        else found
    )


def _root_by_power(x: Any, dx: Any) -> Any:
    return 0.5 * np.asarray(x, float) ** -0.5 * dx


# 01.tangent


def _f(x: Any) -> Any:
    return x**3 - 2 * x


def _f_prime(x: Any) -> Any:
    return 3 * x**2 - 2


def _tangent_cases(rng: Random) -> list[tuple[Any, ...]]:
    xs = np.linspace(-2, 3, 6)
    return [(1.0, 1.0), (1.0, 3.0), (0.0, 2.0), (-1.5, 0.5), (rng.uniform(1, 2), xs), (rng.uniform(-2, -1), xs)]


# 01.smooth

_CANDIDATES = {
    "a": "|x|",
    "b": "x |x|",
    "c": "the square root of |x|",
    "d": "x² sin(1/x), and 0 at 0",
    "e": "max(x, 0)",
    "f": "max(x, 0)²",
}
# Whose quotients at 0 have one limit; a limit on either side; and what can be said of how each is written.
_TWO_SIDED, _ONE_SIDED = "bdf", "abdef"
_WITHOUT_BARS, _WITHOUT_WAVES, _LIBRARIES, _BARS_ARE_CORNERS = "d", "bf", "bdef", "df"


# A wrong rule with its three hints reads as one block.
# fmt: off
EXERCISES = (
    Exercise(
        name="01.best", kind="explain",
        asks="what is special about the line with the slope f′(x)",
        answer=Choice("b", options=_SPECIAL),
        right=(lambda d: "b", lambda d: _SPECIAL["b"], lambda d: ["b"]),
        because="Every line through the point has an error that vanishes; only the tangent's vanishes faster than dx.",
        wrong=(
            Wrong("touches once", lambda d: "a", (
                "A tangent may meet its curve a second time, far away.",
                "The definition speaks of small changes only; what happens elsewhere plays no part in it.",
                "The tangent of x³ at 2 meets the curve again at x = −4: (−4)³ = −64 = 8 + 12 · (−6).",
            )),
            Wrong("error goes to zero", lambda d: "c", (
                "Look at the left half of the table: for which of the three maps is that so?",
                "It holds for every line through the point, since a curve without gaps is near its own point.",
                "The line with the slope 100 through (3, 9) misses 3.001² by 0.094 only.",
            )),
            Wrong("error becomes zero", lambda d: "d", (
                "Is there any row in the table with an error of nothing at the slope f′?",
                "A curve that bends leaves its tangent at once; it is the ratio of error to dx that matters.",
                "For x⁴ at 1 and dx = 0.1 the error is 0.0641; for 0.01 it is 0.000604. It never ends.",
            )),
            Wrong("best at every distance", lambda d: "e", (
                "Look at the row of dx = 0.5 in the table.",
                "At any one distance a secant is perfect. Best near the point is not best at a distance.",
                "For x² at 10 and dx = 2, the slope 22 has no error, the slope 20 has one of 4.",
            )),
            Wrong("on one side", lambda d: "f", (
                "Some tangents cross their curve at the very point where they touch.",
                "Which side the curve is on depends on how it bends, not on what a derivative is.",
                "The tangent of x³ at 0 is the axis; the curve is below it on the left and above it on the right.",
            )),
        ),
    ),
    Exercise(
        name="01.df", kind="predict",
        asks="the predicted change df, by hand",
        data=_df_data,
        answer=Number(lambda d: (3 * d.x**2 - d.k) * d.dx, rtol=1e-4, why="by hand, four digits are enough"),
        right=(
            lambda d: (3 * d.x**2 - d.k) * d.dx,
            lambda d: np.float32(3 * d.x * d.x * d.dx) - np.float32(d.k * d.dx),
            lambda d: round((3 * d.x**2 - d.k) * d.dx, 4),
        ),
        because="Sorted by powers of dx, the terms with one factor dx are 3x² dx and −k dx.",
        wrong=(
            Wrong("the true change", lambda d: _cubic(d, d.x + d.dx) - _cubic(d, d.x), (
                "That is what happens; the question is what is predicted.",
                "df keeps the terms with one factor dx. Those with more belong to the remainder.",
                "For x² at 7 and dx = 0.1 the change is 1.41, and df is 1.4.",
            )),
            Wrong("dx left out", lambda d: 3 * d.x**2 - d.k, (
                "That is the derivative, a change *per unit* of x.",
                "The differential is a change: the derivative times dx.",
                "At 50 kilometres an hour, how far do you come in a tenth of an hour? Not 50 kilometres.",
            )),
            Wrong("slope at the far end", lambda d: (3 * (d.x + d.dx) ** 2 - d.k) * d.dx, (
                "Close. At which place did you take the derivative?",
                "The derivative is taken where one starts, at x, and not at x + dx.",
                "For x² at 7 and dx = 0.1: 14 · 0.1, not 14.2 · 0.1.",
            )),
            Wrong("kx keeps its x", lambda d: (3 * d.x**2 - d.k * d.x) * d.dx, (
                "One of the two terms is right.",
                "k(x + dx) − kx = k dx: no x is left in it.",
                "For 60x and dx = 0.1 the change is 6, wherever x is.",
            )),
            Wrong("exponent not lowered", lambda d: (3 * d.x**3 - d.k) * d.dx, (
                "Multiply x³ out again: with how many factors x does the term come that has one dx?",
                "From three brackets, one gives dx and the other two give x.",
                "x⁴ gives 4x³ dx: at 10 and dx = 0.1 that is 400, not 4000.",
            )),
        ),
    ),
    Exercise(
        name="01.rest", kind="build",
        asks="the remainder of 1/x, as a formula in x and dx",
        answer=Formula("dx**2/(x**2*(x + dx))", variables=("x", "dx"), single=True),
        right=(
            lambda d: "dx**2/(x**2*(x + dx))",
            lambda d: "dx**2/(x**3 + x**2*dx)",
            lambda d: "(dx/x)**2 / (dx + x)",
        ),
        because="Divided by dx it is dx/(x²(x + dx)), which goes to 0 with dx: so −1/x² was right.",
        wrong=(
            Wrong("the wrong sign of df", lambda d: "1/(x + dx) - 1/x - dx/x**2", (
                "A sign is wrong somewhere: does your r/dx go to 0?",
                "df itself is negative here, so taking it away adds something.",
                "−5 − (−4.9) is −0.1, not −9.9.",
            )),
            Wrong("the whole change", lambda d: "-dx/(x*(x + dx))", (
                "That is the change itself.",
                "The remainder is what is left of the change when df is taken away.",
                "For x² the change is 2x dx + dx², df is the first term, and r the second.",
            )),
            Wrong("the prediction", lambda d: "-dx/x**2", (
                "That is df, the part that was predicted.",
                "Start from the change and take df away, not the other way about.",
                "If 7 were predicted and 7.2 came, the remainder is 0.2 and not 7.",
            )),
            Wrong("turned round", lambda d: "dx/(x*(x + dx)) - dx/x**2", (
                "Its size is right. Look at the sign: try x = 10 and dx = 1.",
                "The remainder is the change minus df, in this order.",
                "If 7 were predicted and 7.2 came, the remainder is +0.2.",
            )),
            Wrong("divided by dx", lambda d: "dx/(x**2*(x + dx))", (
                "That is r/dx.",
                "The question is for r: how many factors dx has its numerator?",
                "For x² the remainder is dx², and r/dx is dx.",
            )),
            Wrong("limit taken too early", lambda d: "dx**2/x**3", (
                "Nearly, and the better the smaller dx is. But the remainder is an exact difference.",
                "In x + dx the second term was dropped: keep it as long as no limit is taken.",
                "1/(5 + 1) is a sixth, not a fifth.",
            )),
            Wrong("the question itself", lambda d: "1/(x + dx) - 1/x - (-dx/x**2)", (
                "That is equal to the remainder, and it is still a sum. One fraction is asked for.",
                "Bring the terms over one denominator, and see what cancels above.",
                "1/6 − 1/5 + 1/25 is (25 − 30 + 6)/150, which is 1/150.",
            )),
            Wrong("the prediction, and its sign", lambda d: "dx/x**2", (
                "That is one of the terms, with the minus before it worked out.",
                "Add the change, 1/(x + dx) − 1/x, to it.",
                "If −0.25 were predicted and −0.2 came, the remainder is −0.2 + 0.25.",
            )),
        ),
    ),
    Exercise(
        name="01.root", kind="build",
        asks="predicted_change(x, dx): the differential of the square root",
        answer=Function(lambda d: lambda x, dx: dx / (2 * np.sqrt(x)), cases=_root_cases, rtol=1e-5, atol=1e-9,
                        why="float32 is accepted, too", call=_spread),
        right=(lambda d: lambda x, dx: dx / (2 * np.sqrt(x)), lambda d: _root_by_power),
        because="As dx goes to 0, the bracket √(x + dx) + √x becomes 2√x.",
        wrong=(
            Wrong("the true change", lambda d: lambda x, dx: np.sqrt(x + dx) - np.sqrt(x), (
                "Your function gives the change that happens.",
                "Predict: a number that depends on x, times dx. Twice the dx, twice the result.",
                "For the square, the prediction is 2x dx, and (x + dx)² − x² is what happens.",
            )),
            Wrong("only one root in the bracket", lambda d: lambda x, dx: dx / np.sqrt(x), (
                "All your results are off by the same factor.",
                "The bracket is a sum of two roots, and both survive when dx goes to 0.",
                "At x = 100 the bracket is nearly 10 + 10, not 10.",
            )),
            Wrong("times the bracket", lambda d: lambda x, dx: 2 * np.sqrt(x) * dx, (
                "Where x is large, the root is flat. Is your result small there?",
                "The bracket belongs on the other side: divide by it.",
                "If a · 20 = 3, then a is 3/20 and not 60.",
            )),
            Wrong("exponent not lowered", lambda d: lambda x, dx: 0.5 * np.sqrt(x) * dx, (
                "The factor is right, the power of x is not.",
                "The power of x goes down by one: from 1/2 to −1/2.",
                "For x³ it goes from 3 to 2; for 1/x, from −1 to −2.",
            )),
            Wrong("dx left out", lambda d: lambda x, dx: 1 / (2 * np.sqrt(x)), (
                "That is the derivative; what change does it predict?",
                "A differential is the derivative times the change of x.",
                "A slope of 0.3 and a step of 0.2 predict 0.06.",
            )),
            Wrong("root forgotten", lambda d: lambda x, dx: dx / (2 * np.asarray(x, float)), (
                "At x = 1 your result is right. Try x = 100.",
                "The bracket has the roots of x, not x itself.",
                "√121 + √121 is 22, while 121 + 121 is 242.",
            )),
        ),
    ),
    Exercise(
        name="01.tangent", kind="debug",
        asks="tangent(a, x): the height at x of the tangent that touches at a, mended",
        answer=Function(lambda d: lambda a, x: _f(a) + _f_prime(a) * (x - a), cases=_tangent_cases,
                        rtol=1e-5, atol=1e-6, why="float32 is accepted, too"),
        right=(
            lambda d: lambda a, x: _f(a) + _f_prime(a) * (x - a),
            lambda d: lambda a, x: (3 * a**2 - 2) * x - 2 * a**3,
        ),
        because="A line has one slope, and the tangent at a has the slope of the curve at a.",
        wrong=(
            Wrong("slope at x", lambda d: lambda a, x: _f(a) + _f_prime(x) * (x - a), (
                "That is the function as it was: its heights do not lie on a line.",
                "A line has one slope for all x. At which place is it taken?",
                "The tangent of x² at 10 has the slope 20 everywhere, at x = 50 too.",
            )),
            Wrong("through the origin", lambda d: lambda a, x: _f_prime(a) * (x - a), (
                "A line, and a parallel one. Does it go through the point of the curve?",
                "The prediction is for the *change*; the height is where it starts plus that change.",
                "From a height of 100 m a rise of 5 m leads to 105 m.",
            )),
            Wrong("x in place of dx", lambda d: lambda a, x: _f(a) + _f_prime(a) * x, (
                "At x = a the height must be f(a). Is it?",
                "The slope multiplies the change, which is the distance from a to x.",
                "A road that starts at kilometre 40 and rises 2 m per km has risen 6 m at kilometre 43.",
            )),
            Wrong("slope one", lambda d: lambda a, x: _f(a) + (x - a), (
                "All your lines are parallel to each other.",
                "The change of x must be multiplied by the derivative.",
                "Where the slope is 4, three steps to the right go up by 12.",
            )),
            Wrong("starts at x", lambda d: lambda a, x: _f(x) + _f_prime(a) * (x - a), (
                "Your heights curve with the curve.",
                "The height from which one starts is that at a, for every x.",
                "The tangent of x² at 10, at x = 11: 100 + 20 · 1, not 121 + 20 · 1.",
            )),
            Wrong("the curve itself", lambda d: lambda a, x: _f(np.asarray(x)) + 0 * a, (
                "That is the curve, which bends.",
                "A tangent predicts from what is known at a: one height and one slope.",
                "At 10, x² predicts 120 for x = 11; the curve is at 121.",
            )),
        ),
    ),
    Exercise(
        name="01.smooth", kind="explain",
        asks="which of six functions have a derivative at 0",
        answer=Choice(_TWO_SIDED, options=_CANDIDATES),
        right=(lambda d: _TWO_SIDED, lambda d: {"f", "d", "b"}, lambda d: "f, b, d"),
        because="Their quotients go to one number from both sides, here 0; bars, max and waves do not decide.",
        wrong=(
            Wrong("continuous is enough", lambda d: "".join(_CANDIDATES), (
                "All six have no gap. That is not enough.",
                "A curve without a gap may still have a corner, or stand upright.",
                "|x − 7| has no gap at 7, but quotients of −1 on one side and +1 on the other.",
            )),
            Wrong("one side is enough", lambda d: _ONE_SIDED, (
                "Some of yours give two different numbers, from the left and from the right.",
                "dx may be negative: both sides must go to the same number.",
                "3x for positive x and 5x for negative x: two slopes at one place, and no derivative.",
            )),
            Wrong("a choice of libraries", lambda d: _LIBRARIES, (
                "One of yours has a corner. Libraries put a number there; is it a derivative?",
                "What a program returns at a corner is a convention. The definition has no m there.",
                "For max(x, 4) at 4 a program may say 0, 1 or a half: the quotients go to 0 and to 1.",
            )),
            Wrong("no bars, no max", lambda d: _WITHOUT_BARS, (
                "You left out what has a bar or a max in its formula. Try their quotients.",
                "The definition asks what the function does, not how it is written.",
                "|x|⁴ has bars, and is nothing but x⁴.",
            )),
            Wrong("bars are corners", lambda d: _BARS_ARE_CORNERS, (
                "You left out one that has bars. What is its quotient at 0?",
                "Bars alone make no corner: a factor beside them may take it away.",
                "At 7 the quotient of (x − 7) · |x − 7| is |x − 7|, and that goes to nothing from both sides.",
            )),
            Wrong("no waves", lambda d: _WITHOUT_WAVES, (
                "One of those that you left out has waves, ever faster ones. How high are they?",
                "Between two curves that are flat at 0, nothing can be steep against dx.",
                "x⁴ cos(5/x) lies between −x⁴ and x⁴, so its quotient is at most |x|³.",
            )),
        ),
    ),
)
# fmt: on
