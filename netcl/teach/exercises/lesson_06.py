"""Lesson 06, reverse mode: pull cotangents back by hand, write the VJPs of six ops, and test a rule with one line."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np

from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_06_rules import RULES, TEST

Data = SimpleNamespace
_EXACT = "whole numbers: exact in float32"


# 6.1, an entry of the worked example, and 6.4, another seed: x = 0 … 5 in two rows, u = x + 1, y = u², z = 3y


def _place(rng: random.Random) -> dict[str, int]:
    row, column = rng.choice([(1, 2), (1, 1), (1, 0), (0, 2)])
    return {"row": row, "column": column}


def _u(d: Data) -> int:
    return 3 * d.row + d.column + 1


def _at_place(number: float, d: Data) -> np.ndarray:
    whole = np.zeros((2, 3))
    whole[d.row, d.column] = number
    return whole


ENTRY = Exercise(
    name="06.entry", kind="predict",
    asks="∂loss/∂x[row, column] of loss = sum(3(x + 1)²)",
    data=_place,
    answer=Number(lambda d: 6 * _u(d), why=_EXACT),
    right=(lambda d: 6 * _u(d), lambda d: np.float32(3 * 2) * np.float32(_u(d)), lambda d: [6.0 * _u(d)]),
    because="The seed 1 is spread by the sum, tripled by 3y, and meets 2u at the square; x + 1 lets it pass.",
    wrong=(
        Wrong("derivative at the output", lambda d: 6 * _u(d) ** 2, (
            "The number for the square is too large.",
            "A local derivative is taken at what goes into an operation, not at what comes out of it.",
            "For t² at t = 10 the factor is 20, not twice the 100 that comes out.",
        )),
        Wrong("derivative at x instead of u", lambda d: 6 * (_u(d) - 1), (
            "The square was given another number than the one that goes into it.",
            "Each operation sees only its own input; at the square that is u, and not what stands before it.",
            "In (t + 100)² at t = 1 the factor of the square is 202, though t itself would give 2.",
        )),
        Wrong("the factor 3 is forgotten", lambda d: 2 * _u(d), (
            "One of the four operations let the cotangent pass unchanged, and should not have.",
            "To multiply by a constant is an operation as well, and its rule multiplies the cotangent by it.",
            "For 100 t² at t = 1 the gradient is 200: 2 from the square, times the constant.",
        )),
        Wrong("the value instead of its change", lambda d: 3 * _u(d) ** 2, (
            "This is a term of the loss itself, and not how fast it changes.",
            "Ask what a small change does: the forward value enters only through the derivative of the square.",
            "For t² at t = 10 the value is 100, and the derivative is 20.",
        )),
        Wrong("the mean in place of the sum", lambda d: _u(d), (
            "The cotangent that leaves the last operation is too small.",
            "A sum sends the seed whole to every entry; only a mean shares it out.",
            "For t₁ + t₂ with the seed 1 both entries receive 1; for their mean both receive 0.5.",
        )),
        Wrong("the exponent is not brought down", lambda d: 3 * _u(d), (
            "A factor is missing at the square.",
            "The differential of a product of two equal factors has two equal terms.",
            "For t² at t = 10 it is 10 dt + 10 dt, which is 20 dt.",
        )),
    ),
)  # fmt: skip

SEED = Exercise(
    name="06.seed", kind="predict",
    asks="the whole of x.grad when z = 3(x + 1)² is pulled back with one entry of the seed not zero",
    data=lambda rng: {**_place(rng), "seed": rng.choice([10, -2, 7])},
    answer=Number(lambda d: _at_place(6 * _u(d) * d.seed, d), why=_EXACT),
    right=(
        lambda d: _at_place(6 * _u(d) * d.seed, d),
        lambda d: _at_place(6 * _u(d) * d.seed, d).tolist(),
        lambda d: _at_place(6 * _u(d) * d.seed, d).astype(np.float32),
    ),
    because="z depends on x entry by entry, so one entry asked about is one entry answered; and the seed is a factor.",
    wrong=(
        Wrong("every entry answers", lambda d: 6.0 * d.seed * np.arange(1, 7).reshape(2, 3), (
            "Too many entries are not zero.",
            "The seed says which entries are asked about; an entry of x that none of them depends on gets zero.",
            "For w = 5t with three entries and the seed (0, 4, 0), t receives (0, 20, 0).",
        )),
        Wrong("the seed is always 1", lambda d: _at_place(6 * _u(d), d), (
            "The place is right, the size is that of another seed.",
            "The seed is the first cotangent: every rule after it multiplies what it started with.",
            "For w = 5t the seed 4 comes back as 20, and the seed 1 as 5.",
        )),
        Wrong("the seed is not looked at", lambda d: 6.0 * np.arange(1, 7).reshape(2, 3), (
            "That is the gradient of the loss. Which seed was at z there?",
            "The sum sent a one to each entry of z. Here you send something else, and the loss plays no part.",
            "For w = 5t and the loss w₁ + w₂, t receives (5, 5); with the seed (0, 4) at w it receives (0, 20).",
        )),
        Wrong("the number alone", lambda d: 6 * _u(d) * d.seed, (
            "The number is right, the shape is not.",
            "A cotangent has the shape of its value, also where most of it is zero.",
            "For t of three entries the cotangent of t has three, for instance (0, 20, 0).",
        )),
        Wrong("the seed passes through", lambda d: _at_place(d.seed, d), (
            "On the way back nothing has happened to the seed.",
            "Between z and x lie three operations, and each applies its rule.",
            "For w = 5t the seed 4 does not arrive as 4 but as 20.",
        )),
        Wrong("transposed", lambda d: _at_place(6 * _u(d) * d.seed, d).T, (
            "Rows and columns have changed places.",
            "The transpose in the rule is that of the Jacobian; the array of entries keeps its shape.",
            "A t of shape (5, 1) has a cotangent of shape (5, 1), never (1, 5).",
        )),
        Wrong("derivative at the output", lambda d: _at_place(6 * _u(d) ** 2 * d.seed, d), (
            "The place is right, but the square was given its own result.",
            "The factor of a square is twice what was squared, for whatever seed arrives.",
            "For t² at t = 11 a seed of 1 leaves as 22, not as 242.",
        )),
    ),
)  # fmt: skip


# 6.2, the fork f = ab + a²


FORK = Exercise(
    name="06.fork", kind="predict",
    asks="[∂f/∂a, ∂f/∂b] of f = ab + a²",
    data=lambda rng: {"a": rng.randint(3, 5), "b": rng.choice([7, 9, 11])},
    answer=Number(lambda d: np.array([d.b + 2 * d.a, d.a]), why=_EXACT),
    right=(
        lambda d: [d.b + 2 * d.a, d.a],
        lambda d: np.array([d.b + d.a + d.a, d.a], np.float32),
        lambda d: (float(d.b + 2 * d.a), float(d.a)),
    ),
    because="a goes into the product and into the square, and what comes back from both is added.",
    wrong=(
        Wrong("= for +=, the product last", lambda d: [d.b, d.a], (
            "One of the two contributions to a has been lost.",
            "At a fork the contributions of all users are added; the later one does not replace the earlier.",
            "In pq + 30p at p = 50, q = 20 the product gives 20 and the other term 30: together 50.",
        )),
        Wrong("= for +=, the square last", lambda d: [2 * d.a, d.a], (
            "Only one arrow back to a has been counted, and it is not the one from the product.",
            "Follow every arrow that leaves a on the way forward; each comes back with a number, and they add.",
            "In pq + p³ at p = 10, q = 40 the cube alone would give 300; with the product it is 340.",
        )),
        Wrong("the exponent is not brought down", lambda d: [d.b + d.a, d.a], (
            "Both arrows are there, and one of them carries half of what it should.",
            "d(a²) = a da + a da: a square is a product in which both factors change.",
            "In pq + p² at p = 100, q = 1 the square gives 200, so that p receives 201.",
        )),
        Wrong("contributions multiplied", lambda d: [2 * d.a * d.b, d.a], (
            "The two contributions are right, and they were put together in the wrong way.",
            "Along a path factors are multiplied; paths that meet are added.",
            "Where 20 and 30 arrive at the same value, its cotangent is 50 and not 600.",
        )),
        Wrong("a factor gets its own value", lambda d: [d.b + 2 * d.a, d.b], (
            "The first number is right. The second is b itself.",
            "In d(ab) = b da + a db each change is multiplied by the other factor.",
            "In pq at p = 50, q = 20 the cotangent of q is 50.",
        )),
        Wrong("turned round", lambda d: [d.a, d.b + 2 * d.a], (
            "Both numbers are right, and each belongs to the other variable.",
            "The answer lists the derivative with respect to a first: it is the one with two contributions.",
            "For pq at p = 50, q = 20 the list for p, q is 20, 50.",
        )),
    ),
)  # fmt: skip


# 6.6, why the forward values are kept


UNDO = Exercise(
    name="06.values", kind="explain",
    asks="what backward needs the forward values for",
    answer=Choice("d", options={
        "a": "To compute x back from the loss, one operation after the other.",
        "b": "To take each local derivative at the output of its operation, which is such a value.",
        "c": "They are the Jacobians, written down during the forward pass.",
        "d": "To take local derivatives where they belong: many depend on what went into the operation.",
        "e": "To make the seed, which is the last of these values.",
        "f": "To find the way: each path from x to the loss is walked back from value to value.",
        "g": "To divide small differences of them by a step.",
    }),
    right=("d", "(D)", "To take local derivatives where they belong: many depend on what went into the operation."),
    because="The square's rule is 2u ⊙ ȳ: without u there is no number to multiply by. Rules of sums keep nothing.",
    wrong=(
        Wrong("backward undoes the function", "a", (
            "Nothing is computed back: the gradient is no earlier value of the program.",
            "Backward carries sensitivities; two inputs with the same loss can have different ones.",
            "cos t is 1 at t = 0 and at t = 2π. No rule could find out which, and none has to.",
        )),
        Wrong("the local derivative is taken at the output", "b", (
            "It matters at which end of an operation its derivative is taken.",
            "A small change is made at the entry of an operation, so its derivative is taken there.",
            "For t³ at t = 2 the factor is 12; taken at the 8 that comes out it would be 192.",
        )),
        Wrong("reverse mode builds Jacobians", "c", (
            "The values are far smaller than that.",
            "A rule needs the effect of Jᵀ on one cotangent, never the matrix.",
            "For t² with a thousand entries a thousand numbers are kept, not a million.",
        )),
        Wrong("the seed is a forward value", "e", (
            "The first cotangent does not come from the forward pass.",
            "You choose it: it says how much you mind a change of each entry of the last value.",
            "For a loss of 17 the seed is 1, unless you ask for something else.",
        )),
        Wrong("backprop walks every path", "f", (
            "The order in which backward goes needs no values, and no path is walked twice.",
            "Each value collects all that arrives at it before it sends anything on.",
            "In a chain of thirty doublings t + t there are a billion paths, and sixty edges are used once.",
        )),
        Wrong("autodiff is finite differences", "g", (
            "There is no step in reverse mode, and no division by one.",
            "Its rules are exact derivatives; differences only serve to check them.",
            "For t² the rule says 2t at once, where a difference with h = 0.1 says 2t + 0.1.",
        )),
    ),
)  # fmt: skip


# 6.7, p = xy, v = p + x, h = pv


def _own(d: Data, p_bar: float) -> list[float]:
    """[p̄, x̄, ȳ] when x receives p from v, and y p̄ from the product."""
    return [p_bar, d.y * p_bar + d.x * d.y, d.x * p_bar]


OWN = Exercise(
    name="06.own", kind="predict",
    asks="[∂h/∂p, ∂h/∂x, ∂h/∂y] of p = xy, v = p + x, h = pv",
    data=lambda rng: {"x": rng.choice([3, 5, 7]), "y": rng.choice([2, 4, 6])},
    answer=Number(lambda d: np.array(_own(d, 2 * d.x * d.y + d.x)), why=_EXACT),
    right=(
        lambda d: _own(d, 2 * d.x * d.y + d.x),
        lambda d: np.array([2 * d.x * d.y + d.x, 2 * d.x * d.y**2 + 2 * d.x * d.y, 2 * d.x**2 * d.y + d.x**2]),
    ),
    because="p waits for both its users, sends once, and x adds what came from v.",
    wrong=(
        Wrong("= for += at p", lambda d: _own(d, d.x * d.y + d.x), (
            "Too little arrives at p.",
            "p has two users. What the second one sends is added to what the first one sent.",
            "In t(t + s) at t = 10, s = 1: from the product comes 11, through the sum another 10.",
        )),
        Wrong("p sends too early", lambda d: [2 * d.x * d.y + d.x, *_own(d, d.x * d.y + d.x)[1:]], (
            "p itself is right, but it sent its cotangent on before it was complete.",
            "A value may send only when all of its users have sent: the newest operation goes first.",
            "If 11 has arrived at a value and 10 is still to come, its parents must be sent 21, and only once.",
        )),
        Wrong("x's second use is forgotten", lambda d: [2 * d.x * d.y + d.x, d.y * (2 * d.x * d.y + d.x),
                                                        d.x * (2 * d.x * d.y + d.x)], (
            "One of three numbers is too small.",
            "x goes into the product and into the sum; both are its users.",
            "In s = 10t, w = s + t the cotangent of t has a part from s and a part from w: 11 in all.",
        )),
        Wrong("a factor gets its own value", lambda d: [2 * d.x * d.y + d.x,
                                                        d.x * (2 * d.x * d.y + d.x) + d.x * d.y,
                                                        d.y * (2 * d.x * d.y + d.x)], (
            "p is right; on the way on, two factors were taken for each other.",
            "In dp = y dx + x dy the change of x is multiplied by y.",
            "In tw at t = 50, w = 20 with the cotangent 1: t receives 20.",
        )),
        Wrong("v̄ is v itself", lambda d: [2 * (d.x * d.y + d.x), 2 * d.y * (d.x * d.y + d.x) + d.x * d.y + d.x,
                                          2 * d.x * (d.x * d.y + d.x)], (
            "The cotangent that arrives at v is not its own value.",
            "In dh = v dp + p dv, what multiplies dv is the other factor.",
            "In tw at t = 50, w = 20 the cotangent of w is 50.",
        )),
        Wrong("contributions multiplied", lambda d: _own(d, (d.x * d.y + d.x) * d.x * d.y), (
            "What arrives at p from its two users was put together in the wrong way.",
            "Multiply along a path, add where paths meet.",
            "If 11 and 10 arrive at a value, its cotangent is 21 and not 110.",
        )),
    ),
)  # fmt: skip


EXERCISES = (ENTRY, FORK, RULES, TEST, SEED, UNDO, OWN)
