"""Lesson 04 asks for paths through graphs, what is multiplied along and added over them, and Jacobians in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Formula, Number, Paths
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_04_build import BRIDGED, BUILD, Edge


def _walks(edges: Iterable[Edge], start: str, end: str) -> set[tuple[str, ...]]:
    """Every path from `start` to `end` along the arrows that visits no node twice."""
    edges, found, open_ends = list(edges), set(), [(start,)]
    while open_ends:
        path = open_ends.pop()
        if path[-1] == end:
            found.add(path)
            continue
        open_ends += [(*path, b) for a, b in edges if a == path[-1] and b not in path]
    return found


def _without(edge: Edge) -> set[tuple[str, ...]]:
    return _walks([each for each in BRIDGED if each != edge], "x", "f")


def _bridge(d: Any) -> tuple[float, float, float]:
    """What the paths x → p → f, x → q → f and x → p → q → f contribute to df/dx of f = pq, p = x², q = x + p."""
    p, q = d.x**2, d.x + d.x**2
    return 2 * d.x * q, p, 2 * d.x * p


def _at_output(d: Any) -> float:
    """df/dx of the diamond with 2p put where 2x belongs."""
    p, q = d.x**2, d.x + d.x**2
    return 2 * p * q + p + 2 * p * p


EXERCISES = (
    Exercise(
        name="04.square",
        kind="predict",
        asks="what each of the two arrows of y = x·x brings, and dy/dx: three numbers",
        data=lambda rng: {"x": rng.choice([3, 4, 5, 6, 7, -3, -4, -5])},
        answer=Number(lambda d: [d.x, d.x, 2 * d.x], rtol=1e-6, why="whole numbers: exact in float32"),
        right=(
            lambda d: (d.x, d.x, d.x + d.x),
            lambda d: np.array([d.x, d.x, 2 * d.x], np.float32),
            lambda d: [float(d.x)] * 2 + [2.0 * d.x],
        ),
        because="Each arrow multiplies by the other factor, and the two arrows are two paths: their products add up.",
        wrong=(
            Wrong("the last arrow wins", lambda d: [d.x, d.x, d.x], (
                "What the arrows bring is right. What becomes of the two numbers at the end is not.",
                "Where several paths lead from one node to another, all of them count.",
                "In y = ab with a = b = t, moving t by dt moves a and b: dy = b dt + a dt, and neither term may go.",
            )),
            Wrong("multiplied over paths", lambda d: [d.x, d.x, d.x**2], (
                "What the arrows bring is right, but they were put together by the wrong operation.",
                "Products belong along one path. These are two paths side by side.",
                "In y = 5t + 7t the arrows bring 5 and 7. dy/dt is not 35: the slope of 12t is 12.",
            )),
            Wrong("the power rule on each arrow", lambda d: [2 * d.x, 2 * d.x, 4 * d.x], (
                "Each arrow brings too much.",
                "The rule for squares is what both arrows give together. One arrow holds the other factor still.",
                "In y = ab with a = b = 11, the arrow from a brings b = 11, although y is the square of 11.",
            )),
            Wrong("the operand's own slope", lambda d: [1, 1, 2], (
                "The arrows bring what a sum would send.",
                "An arrow carries the derivative of the operation. That of a product depends on the other factor.",
                "In y = ab at a = 9, b = 13, moving a by da moves y by 13 da, not by da.",
            )),
            Wrong("the value for the slope", lambda d: [d.x**2, d.x**2, 2 * d.x**2], (
                "The arrows bring the value of y.",
                "An arrow carries a derivative: by how much y moves for each unit that the operand moves.",
                "In y = ab at a = 9, b = 13 the value is 117; the arrow from a brings 13.",
            )),
            Wrong("the second operand held still", lambda d: [d.x, 0, d.x], (
                "One of the arrows is empty in your answer.",
                "Both operands are the same node, so both move when it moves: neither is a constant.",
                "In y = ab with a = b = 11, the arrow from b is as alive as that from a, and brings 11 as well.",
            )),
        ),
    ),
    Exercise(
        name="04.fork",
        kind="explain",
        asks="why the contributions of all paths are added at a fork",
        answer=Choice("d", options={
            "a": "They are not: the contribution that arrives last is the newest, so it is the one to keep.",
            "b": "Each path is a product, and products of several paths are multiplied again.",
            "c": "The contributions are samples of one slope, and adding up is the first half of averaging them.",
            "d": "A move of a node moves all its consumers at once, and to first order the effects on f add up.",
            "e": "A larger contribution hides a smaller one, so that the sum is nearly the larger one.",
            "f": "Every use makes a copy of the node, and the copies have gradients of their own, summed for display.",
            "g": "It is a convention: any other way of joining them would train a network as well.",
        }),
        right=(
            lambda d: "d",
            lambda d: "A move of a node moves all its consumers at once, and to first order the effects on f add up.",
            lambda d: {"D"},
        ),
        because="df = ∂f/∂p dp + ∂f/∂q dq: put dp and dq in, and each consumer of the node leaves one term.",
        wrong=(
            Wrong("the last gradient wins", lambda d: "a", (
                "Ask whether the order in which contributions come could change the slope of a function.",
                "The total differential has a term for every operand that moves; none of them is newer.",
                "t + 4t has slope 5, and 4t + t has it too, whichever of the two came in last.",
            )),
            Wrong("multiplied over paths", lambda d: "b", (
                "Two different joints are confused: one after the other, and side by side.",
                "Along a path a move is scaled again and again. Between paths nothing scales anything.",
                "3t + 10t has the slope 13. Multiplied, the two would give 30.",
            )),
            Wrong("averaged", lambda d: "c", (
                "Nothing is sampled here: every path is exact.",
                "In the total differential the terms have no weights.",
                "t + t has slope 2. An average of the two contributions would say that doubling t changes nothing.",
            )),
            Wrong("the largest wins", lambda d: "e", (
                "A small term does not vanish because there is a large one.",
                "A sum keeps all its terms, whatever their sizes; they may even cancel.",
                "In 100t − 100t the two are as large as each other, and the slope is zero.",
            )),
            Wrong("one gradient per use", lambda d: "f", (
                "Look at how many numbers dx there are when x is used in two places.",
                "There is one node and one move. Its uses see the same move.",
                "In t·sin(t) nobody can turn the one t without turning the other.",
            )),
            Wrong("only a convention", lambda d: "g", (
                "A finite difference would tell the ways of joining apart.",
                "The rule follows from the definition of the derivative as a linear map: it can be derived, and was.",
                "For t + t a difference quotient gives 2 at every step size; a convention that says 1 is just wrong.",
            )),
        ),
    ),
    Exercise(
        name="04.paths",
        kind="predict",
        asks="all paths from x to f of p = x², q = x + p, f = pq",
        answer=Paths(_walks(BRIDGED, "x", "f")),
        right=(
            lambda d: [["x", "p", "f"], ["x", "q", "f"], ["x", "p", "q", "f"]],
            lambda d: {("x", "p", "q", "f"), ("x", "q", "f"), ("x", "p", "f")},
        ),
        because="x goes into p and q, and p goes into q and f: the bridge from p to q makes the third path.",
        wrong=(
            Wrong("the bridge is overlooked", lambda d: _without(("p", "q")), (
                "A path is missing: one of the operations takes an operand that you did not follow.",
                "Read the right-hand sides: every name on one of them is an arrow, also a name made a line before.",
                "In u = 2t, v = t + u the node v has two arrows coming in: from t, and from u.",
            )),
            Wrong("the operand x of q is overlooked", lambda d: _without(("x", "q")), (
                "A path is missing: the input itself is used more often than you followed it.",
                "Look for every line in which the letter of the input stands. Each is an arrow out of it.",
                "In u = 2t, v = t + u there are arrows from t to u and from t to v, though u has used t already.",
            )),
            Wrong("the operand p of f is overlooked", lambda d: _without(("p", "f")), (
                "A path is missing: an intermediate value goes straight to the end as well.",
                "A value with two consumers is a fork, although it is no input.",
                "In u = 2t, v = t + u, w = uv, the value u has two arrows out of it: to v, and to w.",
            )),
            Wrong("one path through all nodes",
                lambda d: {max(_walks(BRIDGED, "x", "f"), key=len)}, (
                "You gave the program's lines in order. That is one path, and there are more.",
                "Order of execution and dependence are two things: a path follows operands only.",
                "In u = 2t, v = 3t, w = u + v, nothing leads from u to v, although v is made after it.",
            )),
            Wrong("arrows followed backwards", lambda d: _walks(
                [*BRIDGED, *((b, a) for a, b in BRIDGED)], "x", "f"), (
                "One of your paths goes against an arrow.",
                "Arrows lead from an operand to a result. A path never turns round.",
                "In u = 2t, v = t + u, the road t → v → u is none: u does not depend on v.",
            )),
            Wrong("edges for paths", lambda d: set(BRIDGED), (
                "You listed the arrows one by one.",
                "A path begins at the input and ends at the output; it strings several arrows together.",
                "For u = 2t, w = u² there are two arrows, t → u and u → w, and one path, t → u → w.",
            )),
        ),
    ),
    Exercise(
        name="04.diamond",
        kind="predict",
        asks="df/dx of p = x², q = x + p, f = pq, by paths",
        data=lambda rng: {"x": rng.choice([2, 3, 4, 5, 6, -2, -3, -4])},
        answer=Number(lambda d: 3 * d.x**2 + 4 * d.x**3, rtol=1e-6, why="whole numbers: exact in float32"),
        right=(
            lambda d: sum(_bridge(d)),
            lambda d: np.float32(d.x) ** 2 * (3 + 4 * d.x),
        ),
        because="Three paths, three products, one sum. Multiplied out, f = x³ + x⁴, and its slope is the same number.",
        wrong=(
            Wrong("the bridge is overlooked", lambda d: _bridge(d)[0] + _bridge(d)[1], (
                "What one of the paths brings is missing.",
                "An intermediate value that is used again later is a fork, too; follow its arrow into the later line.",
                "In u = 2t, v = t + u, w = uv at t = 1 the longest path t → u → v → w brings 2 · 1 · 2 = 4.",
            )),
            Wrong("= for += at x", lambda d: _bridge(d)[0] + _bridge(d)[2], (
                "All that passes through one of the consumers of x is there, and nothing from the other.",
                "At the input, what comes back through every consumer is added.",
                "In u = 2t, v = t + u, w = uv at t = 1 the path t → v → w alone brings 1 · 2 = 2.",
            )),
            Wrong("= for += at p", lambda d: _bridge(d)[1] + _bridge(d)[2], (
                "A contribution to an intermediate value was written over by another.",
                "The slope with respect to an intermediate value is a sum as well, over its own consumers.",
                "In u = 2t, v = t + u, w = uv at t = 1: ∂w/∂u is v + u = 3 + 2 = 5, not u = 2 alone.",
            )),
            Wrong("added along, too",
                lambda d: (2 * d.x + d.x + d.x**2) + (1 + d.x**2) + (2 * d.x + 1 + d.x**2), (
                "The local derivatives along a path were added.",
                "One operation after another scales, and scales again: along a path you multiply.",
                "u = 5t, w = 7u: t moves by dt, u by 5 dt, w by 7 · 5 dt. That is 35, not 12.",
            )),
            Wrong("multiplied over paths", lambda d: float(np.prod(np.array(_bridge(d), float))), (
                "The products of the paths were multiplied with each other.",
                "Paths lie side by side. What they bring arrives together.",
                "w = 5t + 7t: two paths with 5 and with 7; the slope is 12.",
            )),
            Wrong("the local derivative at the output", lambda d: _at_output(d), (
                "The paths are right, but one local derivative was taken at a wrong value.",
                "The slope of a square is taken at what goes into the square.",
                "u = t² at t = 10: the arrow carries 2 · 10 = 20, not twice the value 100 that comes out.",
            )),
        ),
    ),
    Exercise(
        name="04.bug",
        kind="debug",
        asks="the one path that slope() forgets, as names from x to f",
        answer=Paths({("x", "u", "v", "w", "f")}),
        right=(
            lambda d: [("x", "u", "v", "w", "f")],
            lambda d: {("x", "u", "v", "w", "f")},
        ),
        because="v goes into f by itself and through w; the code has the first of these ways and forgets the second.",
        wrong=(
            Wrong("the path that through_v has", lambda d: [("x", "u", "v", "f")], (
                "That one is in the code: its product has a line of its own.",
                "Write beside each product the arrows that its factors stand for; compare with the list of all paths.",
                "In r = c_b * b_a the factors stand for the arrows b → c and a → b: together the path a → b → c.",
            )),
            Wrong("the path that through_w has", lambda d: [("x", "u", "w", "f")], (
                "Look again: the last product of the code takes just this way.",
                "Each factor of a product names an arrow. The variables of one product chain up to a whole path.",
                "Had g = 2t two consumers, there would be two products that end in the factor of t → g.",
            )),
            Wrong("an arrow that is not there", lambda d: [("x", "v", "w", "f")], (
                "One of the arrows of this path does not exist.",
                "Check the first step: which lines have the input on their right-hand side?",
                "In g = 2t, h = 3g the input t goes into g alone; there is no arrow t → h.",
            )),
            Wrong("begins too late", lambda d: [("u", "v", "w", "f")], (
                "A part of the way is missing.",
                "The slope asked for is with respect to the input, so every path begins there.",
                "For h = 3g with g = 2t, the path of dh/dt is t → g → h, and not g → h.",
            )),
            Wrong("from the output to the input", lambda d: [("f", "w", "v", "u", "x")], (
                "The nodes are the right way to look, but the direction is not.",
                "Arrows lead from operands to results. Write the path as the values flow.",
                "For h = 3g with g = 2t the path is t → g → h.",
            )),
            Wrong("both that are there", lambda d: [("x", "u", "v", "f"), ("x", "u", "w", "f")], (
                "You listed what the code does. The question is what it leaves out.",
                "Count the paths from the program's lines, then strike out those with a product.",
                "If t → g → h and t → h exist and the code has the product of the first, the answer is the second.",
            )),
        ),
    ),
    *BUILD,
    Exercise(
        name="04.own",
        kind="predict",
        asks="∂f/∂b of s = a + b, p = k·a·b, f = s·p, as a formula in a and b",
        data=lambda rng: {"k": rng.choice([2, 3, 4, 5, 6])},
        answer=Formula(lambda d: f"{d.k}*a**2 + 2*{d.k}*a*b", variables=("a", "b")),
        right=(
            lambda d: f"{d.k}*a*b + (a + b)*{d.k}*a",
            lambda d: f"{d.k}*a*(a + 2*b)",
        ),
        because="b → s → f brings 1 · p, b → p → f brings ka · s: two paths, one sum.",
        wrong=(
            Wrong("only the path through s", lambda d: f"{d.k}*a*b", (
                "This is what one of the two consumers of b brings.",
                "b stands on the right of two lines. Each is an arrow that starts a path.",
                "In s = t + 1, p = 5t, f = sp the consumer p brings 5 · s as well.",
            )),
            Wrong("only the path through p", lambda d: f"{d.k}*a*(a + b)", (
                "The way through the product is there, the way through the sum is not.",
                "A sum hands a move on unchanged, but that is not nothing: its local derivative is one.",
                "In s = t + 1, p = 5t, f = sp the consumer s brings 1 · p = 5t.",
            )),
            Wrong("the other input", lambda d: f"2*{d.k}*a*b + {d.k}*b**2", (
                "It is the slope with respect to another input.",
                "Begin each path at the letter that is asked for, and hold the other still.",
                "For f = 5s²t: ∂f/∂t is 5s², and ∂f/∂s would be 10st.",
            )),
            Wrong("multiplied over paths", lambda d: f"{d.k}*a*b*{d.k}*a*(a + b)", (
                "What the two paths bring was multiplied.",
                "Along, multiply. Over, add.",
                "For f = (t + 1) + 5t the paths bring 1 and 5, together 6.",
            )),
            Wrong("derivatives multiplied", lambda d: f"{d.k}*a", (
                "The slopes of the two factors were multiplied with each other.",
                "In a product each factor's slope meets the value of the other factor.",
                "For f = t²·t³ the slope is 2t·t³ + t²·3t², and not 2t·3t².",
            )),
            Wrong("each factor beside its own slope", lambda d: f"(a + b) + {d.k}*a*{d.k}*a*b", (
                "Each factor was put beside its own slope.",
                "The arrow from a factor into a product carries the other factor.",
                "For f = uv with u = 3t: the path through u brings v · 3, and not u · 3.",
            )),
            Wrong("k is forgotten", lambda d: "a**2 + 2*a*b", (
                "Two paths, one sum; and a factor that the cell printed is missing.",
                "A constant factor of an operation is a factor of its local derivatives.",
                "For p = 7t² the arrow from t carries 7 · 2t, not 2t.",
            )),
        ),
    ),
)  # fmt: skip
