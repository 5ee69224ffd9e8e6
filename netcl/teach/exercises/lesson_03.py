"""Lesson 03 asks for a tangent plane, a slope in a direction, what units change, and Jacobians: shape, code, hand."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Function, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_03_build import NUMERIC, columns

# 03.plane and 03.along: f(x, y) = x² y + y


def _f(x: Any, y: Any) -> Any:
    return x**2 * y + y


def _slopes(x: Any, y: Any) -> tuple[Any, Any]:
    return 2 * x * y, x**2 + 1


def _plane(a: Any, b: Any, x: Any, y: Any) -> Any:
    to_x, to_y = _slopes(a, b)
    return _f(a, b) + to_x * (x - a) + to_y * (y - b)


def _plane_multiplied_out(a: Any, b: Any, x: Any, y: Any) -> Any:
    return 2 * a * b * x + (1 + a * a) * y - 2 * a**2 * b


def _plane_cases(rng: Random) -> list[tuple[Any, ...]]:
    grid = np.linspace(-1, 2, 4)
    at = (rng.uniform(0.5, 2), rng.uniform(-2, -0.5))
    return [
        (1.0, 2.0, 1.0, 2.0),
        (1.0, 2.0, 3.0, 2.0),
        (1.0, 2.0, 1.0, 5.0),
        (0.0, 1.0, 2.0, 3.0),
        (*at, 0.25, 0.75),
        (*at, grid[:, None], grid[None, :]),
    ]


def _along_data(rng: Random) -> dict[str, Any]:
    # Places whose gradient has the direction of none of the arrows, nor nearly.
    place = rng.choice([(1, 3), (1, 4), (3, 3), (4, 2)])
    return {"place": place, "arrow": rng.choice([(3, 4), (4, 3), (6, 8), (5, 12), (12, 5)])}


def _climb(d: SimpleNamespace) -> float:
    """The slope times the length of the arrow."""
    return float(np.dot(_slopes(*d.place), d.arrow))


def _swapped(d: SimpleNamespace) -> float:
    return float(np.dot(_slopes(*d.place)[::-1], d.arrow) / np.hypot(*d.arrow))


# 03.units

_UNITS = {
    "a": "The partial derivative with respect to x becomes a hundredth of what it was.",
    "b": "df for one and the same small movement stays what it was.",
    "c": "The gradient, drawn as an arrow in the terrain, still points the same way.",
    "d": "The partial derivative with respect to x becomes a hundred times what it was.",
    "e": "df for one and the same small movement becomes a hundredth of what it was.",
    "f": "The places where the gradient is zero stay the same places.",
}

# 03.matrix: F(x, y, z) = (x y², z + x y)


def _matrix(x: float, y: float, z: float) -> Any:
    return np.array([[y**2, 2 * x * y, 0.0], [y, x, 1.0]])


def _number_cases(rng: Random) -> list[tuple[Any, ...]]:
    return [(2.0, 3.0, 5.0), (1.0, -2.0, 0.0), (0.0, 1.0, 1.0), *(
        tuple(round(rng.uniform(-3, 3), 2) for _ in range(3)) for _ in range(3)
    )]  # fmt: skip


# A wrong rule with its three hints reads as one block.
# fmt: off
EXERCISES = (
    Exercise(
        name="03.plane", kind="build",
        asks="plane(a, b, x, y): the height of the tangent plane of x² y + y",
        answer=Function(lambda d: _plane, cases=_plane_cases, rtol=1e-5, atol=1e-6, why="float32 is accepted, too"),
        right=(lambda d: _plane, lambda d: _plane_multiplied_out),
        because="Where it starts, plus df, with the partial derivatives at (a, b) and the changes x − a and y − b.",
        wrong=(
            Wrong("no height at the start", lambda d: lambda a, b, x, y: _plane(a, b, x, y) - _f(a, b), (
                "Your plane is parallel to the right one, and goes through height 0 at (a, b).",
                "df is the change of height. Add it to the height from which one starts.",
                "From 700 m, a predicted rise of 30 m leads to 730 m.",
            )),
            Wrong("slopes at (x, y)", lambda d: lambda a, b, x, y:
                  _f(a, b) + _slopes(x, y)[0] * (x - a) + _slopes(x, y)[1] * (y - b), (
                "What you have is curved: a plane has the same slopes everywhere.",
                "The partial derivatives are taken where the plane touches.",
                "The tangent of x² at 10 has the slope 20, at every x.",
            )),
            Wrong("slopes swapped", lambda d: lambda a, b, x, y:
                  _f(a, b) + _slopes(a, b)[1] * (x - a) + _slopes(a, b)[0] * (y - b), (
                "Right at (a, b), wrong as soon as one leaves it. Check each direction by itself.",
                "The change of x goes with the partial derivative with respect to x.",
                "If x costs 7 per unit and y costs 2, then 10 more of x cost 70.",
            )),
            Wrong("one direction only", lambda d: lambda a, b, x, y: _f(a, b) + _slopes(a, b)[0] * (x - a) + 0 * y, (
                "Along the x-axis your plane is right.",
                "df has a term for each input.",
                "10 more of x at 7 each and 3 more of y at 2 each: 76, not 70.",
            )),
            Wrong("the last term forgotten", lambda d: lambda a, b, x, y:
                  _plane(a, b, x, y) - (y - b), (
                "One of your two slopes is off by the same amount everywhere.",
                "f is a sum: each of its terms that contains y has a part in the slope along y.",
                "The derivative of 7t + t with respect to t is 8, not 7.",
            )),
            Wrong("x for x − a", lambda d: lambda a, b, x, y:
                  _f(a, b) + _slopes(a, b)[0] * x + _slopes(a, b)[1] * y, (
                "At (a, b) itself the plane must have the height of the surface. Does yours?",
                "dx is how far one has moved, from a to x.",
                "Who is at kilometre 12 and started at kilometre 10 has walked 2.",
            )),
            Wrong("the surface", lambda d: lambda a, b, x, y: _f(x, y) + 0 * a * b, (
                "That is the surface itself, with all its bends.",
                "The plane knows f at one place only: a height and two slopes.",
                "At (10, 1), x²y gives 121 for (11, 1); the plane says 120.",
            )),
        ),
    ),
    Exercise(
        name="03.along", kind="predict",
        asks="the slope in the direction of an arrow",
        data=_along_data,
        answer=Number(lambda d: _climb(d) / np.hypot(*d.arrow), rtol=1e-3, why="three digits, by hand"),
        right=(
            lambda d: _climb(d) / np.hypot(*d.arrow),
            lambda d: np.float32(np.dot(_slopes(*d.place), np.array(d.arrow) / np.linalg.norm(d.arrow))),
            lambda d: round(_climb(d) / np.hypot(*d.arrow), 3),
        ),
        because="Each partial derivative times its part of a vector of length 1, added up.",
        wrong=(
            Wrong("arrow not shortened", lambda d: _climb(d), (
                "How long is the arrow?",
                "A slope is per unit of distance: shorten the arrow to the length 1 first.",
                "Along (8, 15), of length 17, with the partial derivatives 1 and 0: 8/17, not 8.",
            )),
            Wrong("length by adding", lambda d: _climb(d) / sum(d.arrow), (
                "The length of the arrow is off.",
                "The entries of an arrow are the sides of a right-angled triangle, and its length is the long side.",
                "(20, 21) is 29 long, since 400 + 441 = 841; it is not 41.",
            )),
            Wrong("no direction", lambda d: float(sum(_slopes(*d.place))), (
                "The arrow plays no part in your number.",
                "Each partial derivative counts as far as one walks in its direction.",
                "Straight along the x-axis, the other partial derivative does not matter at all.",
            )),
            Wrong("steepest", lambda d: float(np.hypot(*_slopes(*d.place))), (
                "That is the slope in the best of all directions.",
                "The length of the gradient is reached only by who walks along it; others climb less, by a cosine.",
                "On a slope of 30 in 100 to the north, going east is level.",
            )),
            Wrong("swapped", lambda d: _swapped(d), (
                "Which of the two slopes goes with which entry of the arrow?",
                "The first entry of the arrow is a movement in x.",
                "With partial derivatives 70 and 20, the direction (1, 0) has the slope 70.",
            )),
            Wrong("the last term forgotten", lambda d: float(
                np.dot((_slopes(*d.place)[0], d.place[0] ** 2), d.arrow) / np.hypot(*d.arrow)), (
                "One of the two partial derivatives is a little too small.",
                "f is a sum of two terms, and both contain y.",
                "The derivative of 70t + t is 71, not 70.",
            )),
            Wrong("the way to the tip", lambda d: float(
                _f(d.place[0] + d.arrow[0], d.place[1] + d.arrow[1]) - _f(*d.place)) / float(np.hypot(*d.arrow)), (
                "That is the mean slope as far as the tip of the arrow.",
                "Asked is the slope at the start: the limit for short distances.",
                "For x² from 10 to 20 the mean slope is 30; at 10 it is 20.",
            )),
        ),
    ),
    Exercise(
        name="03.units", kind="explain",
        asks="what changes if x is measured in centimetres instead of metres",
        answer=Choice("abf", options=_UNITS),
        right=(lambda d: "abf", lambda d: ["f", "a", "b"], lambda d: "a, b and f"),
        because="The map stays, its numbers change; the arrow is drawn from the numbers.",
        wrong=(
            Wrong("the arrow belongs to the terrain", lambda d: "abcf", (
                "Look at the last two lines of the measurement: two directions.",
                "The gradient represents df by means of lengths and angles, and these were changed.",
                "On a map that is stretched to twice its width, a right angle is in general no right angle.",
            )),
            Wrong("df scales as well", lambda d: "aef", (
                "One thing of yours is against the measurement: the df of one and the same walk.",
                "The partial derivative falls, but the number of units walked rises by as much.",
                "3 euros a metre, for 2 metres, or 3 cents a centimetre, for 200 of them: 6 euros.",
            )),
            Wrong("the wrong way", lambda d: "bdf", (
                "A step of one centimetre is smaller than one of a metre. Does f change more or less?",
                "Per smaller unit there is less change: divide, do not multiply.",
                "36 kilometres an hour are 10 metres a second: a shorter time, a smaller number.",
            )),
            Wrong("zeros move", lambda d: "ab", (
                "You left something out. What is a hundredth of 0?",
                "A place is level in whatever unit it is measured.",
                "The top of a hill is the top, in feet as in metres.",
            )),
            Wrong("only names change", lambda d: "bcf", (
                "Compare the two gradients that were printed, entry by entry.",
                "Numbers with units change with the units, derivatives too.",
                "2 m per s is 200 cm per s: the same speed, another number.",
            )),
        ),
    ),
    Exercise(
        name="03.shape", kind="predict",
        asks="the shape of the Jacobian of `products`",
        data=lambda rng: {"n": rng.randint(5, 9)},
        answer=Number(lambda d: [d.n - 1, d.n], rtol=0, atol=0, why="lengths are whole numbers"),
        right=(lambda d: (d.n - 1, d.n), lambda d: np.array([d.n - 1, d.n]), lambda d: [float(d.n - 1), float(d.n)]),
        because="A row for each output, of which there is one fewer, and a column for each input.",
        wrong=(
            Wrong("transposed", lambda d: [d.n, d.n - 1], (
                "Both numbers are right.",
                "Rows are for outputs, columns for inputs: J times a column dx must have an entry for each output.",
                "Two inputs and 30 outputs: 30 rows and 2 columns.",
            )),
            Wrong("as many as x", lambda d: [d.n, d.n], (
                "How many entries does `products` return?",
                "x[1:] has lost its first entry: so the outputs are not as many as the inputs.",
                "From 30 fence posts come 29 gaps.",
            )),
            Wrong("only outputs", lambda d: [d.n - 1, d.n - 1], (
                "How many inputs are there to be moved?",
                "Each entry of x has a column, those at the ends too.",
                "30 posts and 29 gaps: move any of the 30, and ask each of the 29.",
            )),
            Wrong("a gradient", lambda d: [1, d.n], (
                "That would be right for a function with a single output.",
                "Each of the outputs has a row of its own.",
                "Two functions of 30 numbers have two gradients, one below the other: 2 by 30.",
            )),
            Wrong("neighbours on both sides", lambda d: [d.n - 2, d.n], (
                "Count the outputs once more, say for three entries.",
                "One product for each pair of neighbours.",
                "Of 30, 31 and 32 there are the products 30 · 31 and 31 · 32.",
            )),
        ),
    ),
    NUMERIC,
    Exercise(
        name="03.matrix", kind="build",
        asks="own_jacobian(x, y, z) for F = (x y², z + x y)",
        answer=Function(lambda d: _matrix, cases=_number_cases, rtol=1e-5, atol=1e-6, why="float32 is accepted, too"),
        right=(
            lambda d: _matrix,
            lambda d: lambda x, y, z: [[y * y, 2 * x * y, 0], [y, x, 1]],
            lambda d: lambda x, y, z: np.stack(columns(lambda v: np.array([v[0] * v[1] ** 2, v[2] + v[0] * v[1]]),
                                                        np.array([x, y, z])), axis=1),
        ),
        because="Two outputs, three inputs: the gradients of x y² and of z + x y, one below the other.",
        wrong=(
            Wrong("transposed", lambda d: lambda x, y, z: _matrix(x, y, z).T, (
                "How many rows are there for how many outputs?",
                "Row i is the gradient of output i, lying down.",
                "A function from 5 numbers to 4 has a Jacobian with 4 rows and 5 columns.",
            )),
            Wrong("x forgotten", lambda d: lambda x, y, z: np.array([[y**2, 2 * y, 0.0], [y, x, 1.0]]), (
                "One entry in the first row lacks a factor.",
                "What is held fixed stays as a factor: a constant times y² becomes that constant times 2y.",
                "The derivative of 7t³ is 21t², not 3t².",
            )),
            Wrong("two forgotten", lambda d: lambda x, y, z: np.array([[y**2, x * y, 0.0], [y, x, 1.0]]), (
                "One entry in the first row is too small by a factor.",
                "The exponent comes down as a factor.",
                "The derivative of 5t⁴ is 20t³, not 5t³.",
            )),
            Wrong("exponent not lowered", lambda d: lambda x, y, z:
                  np.array([[y**2, 2 * x * y**2, 0.0], [y, x, 1.0]]), (
                "One entry in the first row has too high a power.",
                "y² becomes 2y: one of its two factors is used up.",
                "t⁵ becomes 5t⁴.",
            )),
            Wrong("z held fixed for ever", lambda d: lambda x, y, z: np.array([[y**2, 2 * x * y, 0.0], [y, x, 0.0]]), (
                "Look at the last column: who depends on z?",
                "In the third column z moves, and x and y are held fixed.",
                "t + 5 changes by exactly as much as t does.",
            )),
            Wrong("z kept as a value", lambda d: lambda x, y, z: np.array([[y**2, 2 * x * y, z], [y, x, z]]), (
                "Look at the last column again.",
                "It is about the change of each output per unit of z, not about the size of z.",
                "t + 5 has the derivative 1, wherever t is.",
            )),
            Wrong("outputs swapped", lambda d: lambda x, y, z: _matrix(x, y, z)[::-1], (
                "The rows are right, their order is not.",
                "Row i belongs to output i, in the order in which F lists them.",
                "For (t², 5t) the first row is that of t².",
            )),
        ),
    ),
)
# fmt: on
