"""Lesson 06, the rules: write the VJPs of six ops, and find a broken one by ⟨v, Ju⟩ = ⟨Jᵀv, u⟩."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.teach.answers import Function, Word
from netcl.teach.exercise import Exercise, Wrong

Data = SimpleNamespace
OPS = ("negative", "stretch", "times", "square", "total", "product")
Pull = Callable[..., list[np.ndarray]]


def pull(op: str, y_bar: np.ndarray, *at: np.ndarray) -> list[np.ndarray]:
    """The VJPs of six ops, one cotangent for each operand."""
    if op == "negative":
        return [-y_bar]
    if op == "stretch":
        return [y_bar, y_bar.sum(0, keepdims=True)]
    if op == "times":
        return [at[1] * y_bar, at[0] * y_bar]
    if op == "square":
        return [2 * at[0] * y_bar]
    if op == "total":
        return [np.full(at[0].shape, y_bar)]
    return [y_bar @ at[1].T, at[0].T @ y_bar]


_BY_TABLE: dict[str, Pull] = {
    "negative": lambda g, a: [-1.0 * g],
    "stretch": lambda g, a, r: [g.copy(), np.ones((1, len(g))) @ g],
    "times": lambda g, a, b: [g * b, g * a],
    "square": lambda g, a: [g * a + g * a],
    "total": lambda g, a: [g * np.ones_like(a)],
    "product": lambda g, a, m: [np.einsum("ij,kj->ik", g, m), np.einsum("ij,ik->jk", a, g)],
}


def _pull_by_table(op: str, y_bar: np.ndarray, *at: np.ndarray) -> list[np.ndarray]:
    return _BY_TABLE[op](y_bar, *at)


def _but(broken: str, rule: Pull) -> Callable[[Data], Pull]:
    """The rules with one of them replaced."""

    def changed(op: str, y_bar: np.ndarray, *at: np.ndarray) -> list[np.ndarray]:
        return rule(y_bar, *at) if op == broken else pull(op, y_bar, *at)

    return lambda d: changed


def operands(op: str, numbers: np.random.Generator, rows: int, columns: int) -> list[np.ndarray]:
    """Whole numbers in the shapes that an op takes, so that sums are exact."""
    second = {"stretch": (1, columns), "times": (rows, columns), "product": (columns, rows + 1)}
    shapes = [(rows, columns)] + ([second[op]] if op in second else [])
    return [numbers.integers(-4, 5, shape).astype(np.float64) for shape in shapes]


def forward(op: str, *at: np.ndarray) -> np.ndarray:
    """The six ops themselves."""
    made = {
        "negative": lambda a: -a, "stretch": lambda a, r: a + r, "times": lambda a, b: a * b,
        "square": lambda a: a**2, "total": lambda a: a.sum(), "product": lambda a, m: a @ m,
    }  # fmt: skip
    return np.asarray(made[op](*at))


def _cases(rng: random.Random) -> list[tuple[Any, ...]]:
    numbers = np.random.default_rng(rng.randrange(10**6))
    cases: list[tuple[Any, ...]] = []
    for rows, columns in ((2, 3), (3, 2), (1, 4), (4, 1), (3, 3)):
        for op in OPS:
            at = operands(op, numbers, rows, columns)
            cases.append((op, numbers.integers(-4, 5, forward(op, *at).shape).astype(np.float64), *at))
    return cases


RULES = Exercise(
    name="06.rules", kind="build",
    asks="pull(op, y_bar, *at): the VJPs of six ops, as a list with a cotangent for each operand",
    answer=Function(lambda d: pull, cases=_cases, why="whole numbers: sums are exact",
                    returns="a list with one cotangent for each operand"),
    right=(lambda d: pull, lambda d: _pull_by_table),
    because="Each rule is the transpose of its differential, and each cotangent has the shape of its operand.",
    wrong=(
        Wrong("a stretched row is not summed", _but("stretch", lambda g, a, r: [g, g]), (
            "One cotangent has another shape than its operand.",
            "An operand that was used in every row receives from every row, and what arrives is added.",
            "If t of shape (1, 2) is added to five rows, each of its two entries receives five numbers.",
        )),
        Wrong("the summed axis is lost", _but("stretch", lambda g, a, r: [g, g.sum(0)]), (
            "One cotangent has the right entries, but an axis fewer than its operand.",
            "A cotangent keeps every axis of its value, those of length one too.",
            "A t of shape (1, 2) has a cotangent of shape (1, 2); `keepdims` is for that.",
        )),
        Wrong("a factor gets its own value", _but("times", lambda g, a, b: [a * g, b * g]), (
            "The two cotangents of an entrywise product are those of each other.",
            "In the differential of a product each change is multiplied by what stayed still: the other factor.",
            "For pq at p = 5, q = 2 and ȳ = 1, p receives 2 and q receives 5.",
        )),
        Wrong("derivative at the output", _but("square", lambda g, a: [2 * a**2 * g]), (
            "The rule of the square is given its result.",
            "What goes into an operation decides its local derivative.",
            "For t² at t = 10 and ȳ = 1, t receives 20 and not 200.",
        )),
        Wrong("a sum returns a number", _but("total", lambda g, a: [g]), (
            "The cotangent of the summed array is a single number.",
            "Every entry has a say in the sum, so that every entry receives the cotangent.",
            "If t has shape (5, 1) and ȳ = 3, t receives five threes, in shape (5, 1).",
        )),
        Wrong("the seed is always 1", _but("total", lambda g, a: [np.ones_like(a)]), (
            "One rule sends the same, whatever arrives.",
            "The result may have gone on into other operations, so that what comes back is any number.",
            "If t has shape (1, 2) and ȳ = 7, both entries of t receive the 7.",
        )),
        Wrong("backward undoes the sign", _but("negative", lambda g, a: [g]), (
            "One of the simplest rules lets the cotangent pass unchanged.",
            "Backward does not restore the input: it multiplies by the local derivative, sign and all.",
            "For −5t the cotangent is multiplied by −5.",
        )),
        Wrong("no transpose", _but("product", lambda g, a, m: [g @ m, a @ g]), (
            "For the matrix product this fails, or fits by luck where the matrices are square.",
            "The rule carries transposes: ⟨Ȳ, dA M⟩ has to become ⟨something, dA⟩.",
            "In w = tᵀs with column vectors, s receives t w̄: the shape decides which side stands up.",
        )),
    ),
)  # fmt: skip


def _broken_rules(rng: random.Random) -> dict[str, Any]:
    numbers = np.random.default_rng(rng.randrange(10**6))
    rows, columns = rng.choice([(2, 3), (3, 2), (4, 2)])
    return {
        "at": {op: operands(op, numbers, rows, columns) for op in OPS},
        "forward": forward,
        "push": push,
        "pull": _but("stretch", lambda g, a, r: [g, g.mean(0, keepdims=True)])(Data()),
    }


def push(op: str, at: list[np.ndarray], tangents: list[np.ndarray]) -> np.ndarray:
    """The JVPs of the six ops."""
    u = tangents
    made = {
        "negative": lambda: -u[0], "stretch": lambda: u[0] + u[1], "times": lambda: u[0] * at[1] + at[0] * u[1],
        "square": lambda: 2 * at[0] * u[0], "total": lambda: u[0].sum(),
        "product": lambda: u[0] @ at[1] + at[0] @ u[1],
    }  # fmt: skip
    return np.asarray(made[op]())


TEST = Exercise(
    name="06.pairing", kind="debug",
    asks="the op whose VJP breaks ⟨v, Ju⟩ = ⟨Jᵀv, u⟩",
    data=_broken_rules,
    answer=Word("stretch", also=("a + r", "broadcast")),
    right=("stretch", " STRETCH ", "a + r"),
    because="Its cotangent has the right shape, so no shape gives it away; the two numbers do.",
    wrong=(
        Wrong("backward should undo the sign", "negative", (
            "This op changes a sign both ways, and its two numbers agree.",
            "Do not judge a rule by whether it undoes its op: compute both sides and compare.",
            "For w = −5t, v = 2, u = 3: ⟨v, Ju⟩ = −30, and ⟨Jᵀv, u⟩ = −30 as well.",
        )),
        Wrong("the other factor looks wrong", "times", (
            "Here each operand receives the other one times v, and that is as it should be.",
            "Remember to add up over both operands: ⟨Jᵀv, u⟩ has a term for each.",
            "For w = pq at p = 5, q = 2 with v = 1, u = (3, 4): 2·3 + 5·4 = 26 on both sides.",
        )),
        Wrong("derivative wanted at the output", "square", (
            "This rule uses the number that was squared, and it is right to do so.",
            "A rule is tested by the pairing, with any u and any v; do so before you accuse it.",
            "For w = t² at t = 10, v = 1, u = 3: both sides are 60.",
        )),
        Wrong("a number should come back from a sum", "total", (
            "That one number becomes a whole array here is no fault.",
            "A cotangent has the shape of its value; check its size by the test, and not by eye.",
            "For the total of (5, 6) with v = 4, u = (1, 2): 4·3 = 12, and 4·1 + 4·2 = 12.",
        )),
        Wrong("transposes look wrong", "product", (
            "The transposes of this rule are in order.",
            "Take operands that are not square, add up over both, and compare the two numbers.",
            "For w = tᵀs with t = (1, 2), s = (3, 4), only t moving by u = (5, 6), v = 1: both sides are 39.",
        )),
    ),
)  # fmt: skip
