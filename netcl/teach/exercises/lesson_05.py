"""Lesson 05 asks for tangents by hand, four JVP rules, dual numbers, and what sets them apart from differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_05_build import BUG, DUAL, RULES


def _slopes(d: Any) -> tuple[float, float]:
    """The partials of f(x, y) = x² + k x y."""
    return 2 * d.x + d.k * d.y, d.k * d.x


_TANGENT = Exercise(
    name="05.tangent",
    kind="predict",
    asks="the tangents of p = x² and h = p·y, two numbers",
    data=lambda rng: {
        "x": rng.choice([3, 4, 5, -3]), "y": rng.choice([6, 8, 10, 11]),
        "x_dot": rng.choice([2, 3, -2]), "y_dot": rng.choice([5, 7, -5]),
    },
    answer=Number(
        lambda d: [2 * d.x * d.x_dot, 2 * d.x * d.x_dot * d.y + d.x**2 * d.y_dot], rtol=1e-6,
        why="whole numbers: exact in float32",
    ),
    right=(
        lambda d: (2 * d.x * d.x_dot, d.x * (2 * d.x_dot * d.y + d.x * d.y_dot)),
        lambda d: np.array([2 * d.x * d.x_dot, 2 * d.x * d.x_dot * d.y + d.x * d.x * d.y_dot], np.float32),
    ),
    because="p moves because x does; h moves because p does, and because y does: one term each.",
    wrong=(
        Wrong("only one factor moves", lambda d: [2 * d.x * d.x_dot, 2 * d.x * d.x_dot * d.y], (
            "The last tangent has too few terms.",
            "Every operand that moves brings a term of its own.",
            "u = ab at a = 20, b = 30 with tangents 1 and 1: the tangent is 30 + 20.",
        )),
        Wrong("tangents multiplied", lambda d: [2 * d.x * d.x_dot, 2 * d.x * d.x_dot * d.y_dot], (
            "Two tangents were multiplied with each other.",
            "Each term has exactly one tangent in it. A product of two is of second order, and falls away.",
            "u = ab at a = 20, b = 30 with tangents 0.1 and 0.1: 30 · 0.1 + 20 · 0.1, and nowhere 0.1 · 0.1.",
        )),
        Wrong("the slope alone", lambda d: [2 * d.x, 2 * d.x * d.y + d.x**2], (
            "These are slopes. The speeds of the inputs do not show in them.",
            "A tangent is a local derivative times the tangent that comes in.",
            "u = 40a with the tangent 0.5 at a: the slope is 40, the tangent of u is 20.",
        )),
        Wrong("the local derivative at the output",
              lambda d: [2 * d.x**2 * d.x_dot, 2 * d.x**2 * d.x_dot * d.y + d.x**2 * d.y_dot], (
            "The first tangent already is off: look at the value that you put into the slope.",
            "The slope of a square is taken at the number that is squared.",
            "u = a² at a = 10 with the tangent 1: 2 · 10, not 2 · 100.",
        )),
        Wrong("each factor beside its own tangent",
              lambda d: [2 * d.x * d.x_dot, d.x**2 * (2 * d.x * d.x_dot) + d.y * d.y_dot], (
            "In the last operation the values and the tangents are paired the wrong way round.",
            "When one factor moves, the other one is what multiplies its move.",
            "u = ab at a = 20, b = 30 with tangents 1 and 0: the tangent is 30.",
        )),
        Wrong("the first tangent forgotten", lambda d: [2 * d.x, 2 * d.x * d.y + d.x**2 * d.y_dot], (
            "The speed of x shows nowhere; that of y does.",
            "The first operation has an operand that moves: its slope has to be multiplied by how fast.",
            "u = 40a with the tangent 0.5 at a, and then v = u + b: v takes 20 from u, not 40.",
        )),
        Wrong("values pushed", lambda d: [d.x**2, d.x**2 * d.y], (
            "These are the values of the two nodes.",
            "Asked for is how fast they move when the inputs move with the given speeds.",
            "u = 40a at a = 7 with the tangent 0.5: the value is 280, the tangent 20.",
        )),
    ),
)  # fmt: skip

_DIRECTION = Exercise(
    name="05.direction",
    kind="predict",
    asks="the derivative of f = x² + k x y along (u, v), which need not have length one",
    data=lambda rng: {
        "x": rng.choice([1, 2, 3]), "y": rng.choice([4, 5, 7]), "k": rng.choice([2, 3, 5]),
        "u": rng.choice([3, 4, -3]), "v": rng.choice([2, 6, -5]),
    },
    answer=Number(
        lambda d: _slopes(d)[0] * d.u + _slopes(d)[1] * d.v, rtol=1e-6, why="whole numbers: exact in float32"
    ),
    right=(
        lambda d: float(np.dot(_slopes(d), (d.u, d.v))),
        lambda d: 2 * d.x * d.u + d.k * (d.u * d.y + d.x * d.v),
    ),
    because="one forward pass with the tangents u and v gives ∂f/∂x u + ∂f/∂y v, whatever the length of (u, v).",
    wrong=(
        Wrong("divided by the length",
              lambda d: (_slopes(d)[0] * d.u + _slopes(d)[1] * d.v) / float(np.hypot(d.u, d.v)), (
            "The number is too small by the length of the direction.",
            "A JVP is linear in its tangent: double the tangent, double the result. Nothing is brought to length one.",
            "f = 7a along the tangent 10 gives 70: that is how fast f moves if a moves ten units a second.",
        )),
        Wrong("partials added", lambda d: _slopes(d)[0] + _slopes(d)[1], (
            "The direction does not stand in your answer.",
            "Each partial is weighted by how far its variable moves.",
            "f = 7a + 9b along (10, 100): 70 + 900.",
        )),
        Wrong("only x moves", lambda d: _slopes(d)[0] * d.u, (
            "One of the variables was held still.",
            "Both tangents are given, so both variables move, and each brings a term.",
            "f = 7a + 9b along (10, 100): the second term, 900, is the larger.",
        )),
        Wrong("only y moves", lambda d: _slopes(d)[1] * d.v, (
            "You have the way of one variable, and it is the second in the list.",
            "The first one moves as well, and it stands in both terms of f.",
            "f = 7a + 9b along (10, 100): without 70 the sum is not complete.",
        )),
        Wrong("f at the direction", lambda d: d.u**2 + d.k * d.u * d.v, (
            "The function was evaluated, with the direction put in.",
            "The slopes are taken at the point; the direction only weights them.",
            "f = a² at a = 50 along 3: 2 · 50 · 3, not 3².",
        )),
        Wrong("the steepest slope", lambda d: float(np.hypot(*_slopes(d))), (
            "That is the length of the gradient, whatever the direction is.",
            "The gradient's length is the slope in its own direction, for a step of length one. Others are flatter.",
            "f = 3a + 4b along (4, −3) does not move at all, though its gradient has the length 5.",
        )),
    ),
)  # fmt: skip

_SHAPES = Exercise(
    name="05.passes",
    kind="predict",
    asks="numbers in the tangent that goes in, in the one that comes out, and passes for the Jacobian",
    data=lambda rng: {"n": rng.choice([4, 5, 6, 7]), "m": rng.choice([2, 3, 9, 11])},
    answer=Number(lambda d: [d.n, d.m, d.n], rtol=0, why="whole numbers"),
    right=(lambda d: (d.n, d.m, d.n), lambda d: np.array([d.n, d.m, d.n])),
    because="A pass with a unit vector gives one column of the Jacobian, and it has as many columns as f has inputs.",
    wrong=(
        Wrong("one pass gives a row", lambda d: [d.n, d.m, d.m], (
            "The two tangents are right. The passes are not.",
            "What comes out is J times a vector. With a unit vector that picks a column.",
            "For a map from one input to a hundred outputs, a single pass gives the whole Jacobian.",
        )),
        Wrong("inputs and outputs exchanged", lambda d: [d.m, d.n, d.m], (
            "What goes in and what comes out have changed places.",
            "In forward mode a tangent travels with the values: it goes in at the inputs.",
            "For a map from one input to a hundred outputs, one number goes in and a hundred come out.",
        )),
        Wrong("tangents exchanged", lambda d: [d.m, d.n, d.n], (
            "The passes are right. The two tangents have changed places.",
            "The tangent that goes in belongs to the inputs, and has their shape.",
            "A map from one input to a hundred outputs takes in one velocity, and returns a hundred.",
        )),
        Wrong("a pass for each entry", lambda d: [d.n, d.m, d.n * d.m], (
            "Too many passes: each would give you one entry only, but it gives more.",
            "Look at how many numbers come out of a single pass.",
            "For a map from one input to a hundred outputs a pass fills a hundred entries at once.",
        )),
        Wrong("one pass for all", lambda d: [d.n, d.m, 1], (
            "A single pass is not enough.",
            "All inputs may move at once, but then what comes out is a mixture of the columns, and cannot be parted.",
            "f = 7a + 9b along (1, 1) gives 16: the two slopes cannot be read off it.",
        )),
        Wrong("a Jacobian travels", lambda d: [d.n, d.n * d.m, 1], (
            "You have the whole Jacobian come out of one pass.",
            "A tangent of a value has the shape of the value, never more.",
            "For a map from ten inputs to one output, one number comes out of a pass.",
        )),
        Wrong("differences", lambda d: [d.n, d.m, d.n + 1], (
            "You count one pass too many.",
            "One more is what forward differences need, for f at the point itself. Here the value comes along anyway.",
            "A dual number holds both: 5 + 7ε is the value 5 and the tangent 7.",
        )),
    ),
)  # fmt: skip

_OPTIONS = {
    "a": "It is a difference quotient with a step so small that its error cannot be seen.",
    "b": "The formula of the whole derivative is worked out first, and then evaluated.",
    "c": "It averages the slopes to the left and to the right, so that the errors cancel.",
    "d": "ε is a tiny number, and its square is rounded away to zero.",
    "e": "It works in a longer float format inside, and rounds once at the end.",
    "f": "Every operation applies its own exact rule to the tangent; nothing is left out, only roundings remain.",
    "g": "It has no error at all: what comes out is the derivative to every digit.",
}

_WHY = Exercise(
    name="05.why",
    kind="explain",
    asks="why the tangent of a JVP has no error that depends on a step size",
    answer=Choice("f", options=_OPTIONS),
    right=(lambda d: "f", lambda d: _OPTIONS["f"], lambda d: ["F"]),
    because="There is no step. The rule of each operation is known, and the chain rule only multiplies and adds.",
    wrong=(
        Wrong(
            "autodiff is finite differences",
            lambda d: "a",
            (
                "Search the code of a dual number for a step: where is it?",
                "A smaller step would make rounding worse. A rule for each operation needs none.",
                "For a · b with tangents the code computes a_dot * b + a * b_dot. Nothing is moved, nothing divided.",
            ),
        ),
        Wrong(
            "autodiff is symbolic",
            lambda d: "b",
            (
                "Look at what a dual number holds while the program runs: are there letters in it?",
                "Two numbers travel. No expression of the whole is ever there, however long a loop runs.",
                "At a = 3, a · a becomes the pair (9, 6 a_dot as a number): the letter a is gone.",
            ),
        ),
        Wrong(
            "central differences",
            lambda d: "c",
            (
                "Count how often the function runs in a pass.",
                "It runs once, at the point itself. To look left and right would take two runs.",
                "At the kink of |a| an average of the sides would give zero; the rule gives what the rule says there.",
            ),
        ),
        Wrong(
            "ε is a small number",
            lambda d: "d",
            (
                "What value has ε in the code? Look for it.",
                "ε² = 0 is a rule of an algebra, as i² = −1 is. No float stands for ε, so nothing is rounded away.",
                "(3 + 1000ε)² = 9 + 6000ε: the tangent may be as large as it likes.",
            ),
        ),
        Wrong(
            "more digits inside",
            lambda d: "e",
            (
                "Ask for the dtype of a tangent.",
                "A tangent has the dtype of its value. The last digits are those of any float program.",
                "A float32 value comes with a float32 tangent, as its nodes show.",
            ),
        ),
        Wrong(
            "exact in every digit",
            lambda d: "g",
            (
                "Almost. But the products and sums are done in floats.",
                "What is absent is the error of truncation. Rounding stays, about as large as in the value itself.",
                "sin(1.0) has about seven right digits in float32, and its tangent cos(1.0) no more than that.",
            ),
        ),
    ),
)

EXERCISES = (_TANGENT, _DIRECTION, RULES, DUAL, BUG, _WHY, _SHAPES)
