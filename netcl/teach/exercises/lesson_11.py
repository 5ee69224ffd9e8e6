"""Lesson 11 asks for the cotangents of stretched and of reduced arrays: their shapes, their numbers, their code."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Function, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_11_build import KEEPDIMS, MAX, whole

_WHOLE = "whole numbers: exact in float32"


# 11.count: how often an entry is read


def _count_data(rng: random.Random) -> dict[str, Any]:
    p, q, r = rng.sample((2, 3, 4, 5, 6), 3)
    return {"a_shape": (q, 1), "b_shape": (p, 1, r), "p": p, "q": q, "r": r}


def _reads(d: SimpleNamespace) -> float:
    """Count by broadcasting the numbers of a's entries themselves."""
    shape = np.broadcast_shapes(d.a_shape, d.b_shape)
    numbers = np.broadcast_to(np.arange(d.q).reshape(d.a_shape), shape)
    return float((numbers == 0).sum())


COUNT = Exercise(
    name="11.count", kind="predict",
    asks="each entry of ∂loss/∂a, where loss = sum(a + b) and the shapes are given",
    data=_count_data,
    answer=Number(lambda d: d.p * d.r, rtol=1e-6, why=_WHOLE),
    right=(lambda d: d.p * d.r, _reads, lambda d: np.float32(d.p) * d.r),
    because="An entry of a is read once for every index of the axes along which a was stretched.",
    wrong=(
        Wrong("no sum at all", lambda d: 1, (
            "You counted one reader. Look how many entries of the result use the same entry of a.",
            "Stretching is a fork: each copy sends its cotangent, and they are added.",
            "A number stretched to shape (7, 9) is read 63 times, so its cotangent for a plain sum is 63.",
        )),
        Wrong("new axes only", lambda d: d.p, (
            "You took the axis that a did not have. It was stretched along another one, too.",
            "An axis of length 1 against a longer one is stretched just as a missing axis is.",
            "Shape (11, 1) in (7, 11, 9): 7 from the missing axis, 9 from the last; in all 63.",
        )),
        Wrong("axes of length 1 only", lambda d: d.r, (
            "You took the axis of length 1. Write both shapes right-aligned: is there another stretched axis?",
            "A shape that is too short gets axes of length 1 in front, and these are stretched as well.",
            "Shape (1,) in (7, 9) is first read as (1, 1): it is stretched along both.",
        )),
        Wrong("added lengths", lambda d: d.p + d.r, (
            "Both axes are in your number, but they do not combine like that.",
            "Every index of one stretched axis meets every index of the other: count pairs.",
            "Stretched by 7 along one axis and by 9 along another: 7 rows of 9 copies, that is 63, not 16.",
        )),
        Wrong("every entry of the result", lambda d: d.p * d.q * d.r, (
            "That is how many entries the result has. Not all of them read the same entry of a.",
            "Only stretched axes count; along an axis that a really has, each index has its own entry.",
            "Shape (11, 1) in (11, 9): the 11 rows have entries of their own, so each is read 9 times.",
        )),
        Wrong("average of the copies", lambda d: 1 / (d.p * d.r), (
            "You divided by the number of copies. Does a change of a reach each copy whole, or a share of it?",
            "Stretching copies, it does not share out; the transpose of a copy is a sum, not a mean.",
            "A number stretched to (7,) and summed is 7 times itself: its derivative is 7, not a seventh.",
        )),
    ),
)  # fmt: skip


# 11.unbroadcast: the rule as code


def _stretched_axes(g: np.ndarray, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    lead = g.ndim - len(shape)
    return lead, tuple(i for i, n in enumerate(shape) if n == 1)


def _unbroadcast(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead, _ = _stretched_axes(g, shape)
    g = g.sum(axis=tuple(range(lead)))
    return g.sum(axis=_stretched_axes(g, shape)[1], keepdims=True)


def _by_counting(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Add each entry of g to the entry of the result that it read."""
    size = int(np.prod(shape, dtype=int))
    numbers = np.broadcast_to(np.arange(size).reshape(shape), g.shape)
    return np.bincount(numbers.ravel(), weights=g.ravel(), minlength=size).reshape(shape)


def _by_axis(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    padded = (1,) * (g.ndim - len(shape)) + tuple(shape)
    for axis, n in enumerate(padded):
        if n != g.shape[axis]:
            g = g.sum(axis=axis, keepdims=True)
    return g.reshape(shape)


def _new_only(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return g.sum(axis=tuple(range(g.ndim - len(shape))))


def _ones_only(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead, ones = _stretched_axes(g, shape)
    return g.sum(axis=tuple(lead + i for i in ones), keepdims=True)


def _ones_dropped(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead, ones = _stretched_axes(g, shape)
    return g.sum(axis=(*range(lead), *(lead + i for i in ones)))


def _one_by_one(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead, ones = _stretched_axes(g, shape)
    g = g.sum(axis=tuple(range(lead)))
    for axis in ones:
        g = g.sum(axis=axis)
    return g


def _mean(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape, dtype=int))
    return _unbroadcast(g, shape) * (size / g.size if g.size else 0.0)


def _first_copy(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    lead, ones = _stretched_axes(g, shape)
    if not g.size:
        return np.zeros(shape)
    g = g[(0,) * lead]
    return g[tuple(slice(0, 1) if i in ones else slice(None) for i in range(g.ndim))] if ones else g


def _everything(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, g.sum())


def _unbroadcast_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    shapes = [
        ((4, 3), (3,)), ((2, 3), (2, 1)), ((2, 3, 4), (3, 1)), ((5,), ()), ((2, 3), (2, 3)), ((3, 3), (1,)),
        ((2, 3, 2, 4), (1, 2, 1)), ((2, 1, 3, 2, 2), (1, 3, 1, 2)), ((0, 3), (3,)), ((3, 1), (3, 1)),
    ]  # fmt: skip
    return [(whole(rng, *big), small) for big, small in shapes]


UNBROADCAST = Exercise(
    name="11.unbroadcast", kind="build",
    asks="a function unbroadcast(g, shape): the cotangent of an array that was stretched from `shape` to g.shape",
    answer=Function(lambda d: _unbroadcast, cases=_unbroadcast_cases, rtol=1e-6, atol=1e-9, why=_WHOLE),
    right=(lambda d: _unbroadcast, lambda d: _by_counting, lambda d: _by_axis),
    because="Every entry of g went to the entry that it had read, and these were added.",
    wrong=(
        Wrong("new axes only", lambda d: _new_only, (
            "Axes that the small array did not have are summed. Others still have the large length.",
            "An axis of length 1 was stretched, too: sum over it, and keep it with length 1.",
            "From (1, 3) to (5, 3): axis 0 is not new, yet its five rows must become one.",
        )),
        Wrong("axes of length 1 only", lambda d: _ones_only, (
            "Your result has more axes than `shape` wants.",
            "Axes that broadcasting put in front are summed away; how many there are is g.ndim − len(shape).",
            "From (3,) to (5, 3): there is no 1 in (3,), and still the five rows must be added.",
        )),
        Wrong("keepdims forgotten", lambda d: _ones_dropped, (
            "The right numbers, in an array of fewer axes.",
            "An axis that is summed because its length was 1 stays, with length 1: keepdims=True, or reshape.",
            "The cotangent of a column of shape (5, 1) has shape (5, 1) and not (5,).",
        )),
        Wrong("axes that move while they are summed", lambda d: _one_by_one, (
            "Your axes are summed one after the other. What is axis 2 called once axis 0 is gone?",
            "Each sum takes an axis away and renumbers those behind it; keepdims=True leaves them where they were.",
            "In shape (5, 2, 7), sum over axis 0: the 7 stands at axis 1 then, and there is no axis 2.",
        )),
        Wrong("the first axis, always", lambda d: lambda g, shape: g.sum(axis=0), (
            "Axis 0 is summed whatever `shape` says.",
            "Which axes were stretched is to be found out from the two shapes: it may be none, or several.",
            "From (2, 1) to (2, 9) axis 0 is the array's own, and axis 1 is summed.",
        )),
        Wrong("mean for sum", lambda d: _mean, (
            "Right shape, but your numbers get smaller the more copies there are.",
            "Each copy moves as far as the original: the copies' cotangents are added, not averaged.",
            "One number stretched to four places that send 1, 2, 3, 4 gets 10, not 2.5.",
        )),
        Wrong("one of the copies", lambda d: _first_copy, (
            "Right shape, but only one of the copies has been heard.",
            "At a fork nothing is thrown away: slicing keeps one reader, summing hears all.",
            "Two rows [1, 5] and [2, 7] that read one row send back [3, 12], not [1, 5].",
        )),
        Wrong("everything summed", lambda d: _everything, (
            "All entries of your result agree: too much was added.",
            "Sum only over stretched axes; the others keep their own entries.",
            "Two rows [1, 5] and [2, 7]: the columns stay apart, 3 and 12; 15 everywhere would be wrong.",
        )),
        Wrong("handed on unchanged", lambda d: lambda g, shape: g, (
            "What you return has the shape of g, not the shape that was asked for.",
            "A cotangent has the shape of its primal: it is paired with its change, entry by entry.",
            "For a primal of shape (3,), a cotangent of shape (5, 3) has no partner for most entries.",
        )),
    ),
)  # fmt: skip


# 11.why_sum: an explanation

_WHY = {
    "a": "Broadcasting averages, and the rows are counted so that the average is undone.",
    "b": "Each entry of b is read once in every row, and what comes back along several edges is added.",
    "c": "The rows of Ȳ are all equal, so any of them would do; the sum is a convention.",
    "d": "The optimizer needs b's shape; the true gradient has the shape of Y and is shortened for it.",
    "e": "Backward undoes the addition, and summing is what undoes adding.",
    "f": "The last row overwrites those before it, and the sum keeps it from getting lost.",
}

WHY_SUM = Exercise(
    name="11.why_sum", kind="explain",
    asks="why b̄ is Ȳ summed over the rows, for Y = X + b",
    answer=Choice("b", options=_WHY),
    right=(lambda d: "b", lambda d: _WHY["b"]),
    because="d loss = Σ Ȳ[i, j] db[j], and collecting what multiplies db[j] is a sum over i.",
    wrong=(
        Wrong("broadcasting averages", lambda d: "a", (
            "Is any number divided when b is stretched?",
            "Stretching copies. Every copy is b[j] itself, whole.",
            "[5] stretched to three places is [5, 5, 5]; an average would have left something smaller.",
        )),
        Wrong("equal rows", lambda d: "c", (
            "The copies of b are equal. Are the cotangents that come back to them?",
            "What a copy gets back depends on what happens to it later, and on the seed.",
            "If row 0 of Y is multiplied by 2 and row 1 by 7, the two copies get back 2 and 7.",
        )),
        Wrong("another shape, shortened", lambda d: "d", (
            "You say that there is a truer gradient of another shape. What would it be paired with?",
            "d loss = ⟨b̄, db⟩ runs over the entries of b: nothing is lost in a sum, and no other shape fits.",
            "With loss = p + p a change dp moves the loss by 2 dp: one number for one p, though it is read twice.",
        )),
        Wrong("backward undoes", lambda d: "e", (
            "Backward answers how the loss changes. Does it compute X or b back?",
            "The transpose of a map is not its inverse; a stretched array's transpose is a sum, its inverse a slice.",
            "p → (p, p) is undone by taking either; its transpose adds: (3, 4) → 7.",
        )),
        Wrong("last row wins", lambda d: "f", (
            "Nothing is overwritten: which line of the derivation would drop a row?",
            "At a fork all contributions count; = instead of += is a bug of engines, and no rule of calculus.",
            "Readers that send 3, 4 and 5 make 12; the last alone would be 5.",
        )),
    ),
)  # fmt: skip


# 11.centre: two paths through a mean


def _centre_data(rng: random.Random) -> dict[str, Any]:
    means = rng.sample((-7, -6, 2, 3, 4, 5), 2)  # no two of them cancel
    rows = []
    for mean in means:
        first, second = rng.sample([k for k in range(-9, 10) if k != mean], 2)
        rows.append([first, second, 3 * mean - first - second])
    return {"c_bar": np.array(rows, np.float32)}


CENTRE = Exercise(
    name="11.centre", kind="predict",
    asks="x̄ for c = x − mean of each row, where c̄ is given",
    data=_centre_data,
    answer=Number(lambda d: d.c_bar - d.c_bar.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-5, why=_WHOLE),
    right=(
        lambda d: d.c_bar - d.c_bar.mean(axis=1, keepdims=True),
        lambda d: (d.c_bar @ (np.eye(3) - 1 / 3)).tolist(),
        lambda d: [[float(v - sum(row) / 3) for v in row] for row in d.c_bar],
    ),
    because="x reaches c directly, and through the mean of its row with a minus and a share.",
    wrong=(
        Wrong("path through the mean forgotten", lambda d: d.c_bar, (
            "One of the two ways in which x reaches c is missing.",
            "x stands in the mean as well: c̄ goes back through − mean(x), too.",
            "For c = x − x/4 the direct path gives 1, the other −1/4; together 3/4.",
        )),
        Wrong("direct path forgotten", lambda d: np.repeat(-d.c_bar.mean(axis=1, keepdims=True), 3, axis=1), (
            "All entries of a row agree in your answer. x also stands in c by itself.",
            "The direct path hands c̄ on unchanged, and is added to the rest.",
            "For c = x − x/4, −1/4 alone would say that c falls when x grows.",
        )),
        Wrong("sign lost", lambda d: d.c_bar + d.c_bar.mean(axis=1, keepdims=True), (
            "Look at the sign with which the mean enters c.",
            "The differential is dc = dx − d mean: the minus belongs to the rule.",
            "For c = x − x/4 the paths give 1 and −1/4; a sum of 5/4 has lost the minus.",
        )),
        Wrong("not divided", lambda d: d.c_bar - d.c_bar.sum(axis=1, keepdims=True), (
            "Your second path is too strong.",
            "Each entry has only a share in the mean: the rule of mean divides by how many there are.",
            "The mean of 10 numbers moves by a tenth when one of them moves by 1.",
        )),
        Wrong("one mean for all", lambda d: d.c_bar - d.c_bar.mean(), (
            "Your rows influence each other. Does the mean of one row read the other?",
            "What is averaged in forward along axis 1 goes back along axis 1 alone.",
            "With the rows [10, 20] and [30, 50] the two means are 15 and 40, and nobody needs 27.5.",
        )),
        Wrong("columns for rows", lambda d: d.c_bar - d.c_bar.mean(axis=0, keepdims=True), (
            "You averaged down the columns.",
            "axis=1 runs along a row: the axis that is named is the one that disappears.",
            "With the rows [10, 20] and [30, 50], axis=1 averages 10 with 20 and axis=0 averages 10 with 30.",
        )),
    ),
)  # fmt: skip


# 11.own: left to the student


def _own_data(rng: random.Random) -> dict[str, Any]:
    means = rng.sample((2, 3, 4, 5, 6, 7), 2)
    rows = [[mean - 1 - i, mean + rng.randint(1, 3), 0] for i, mean in enumerate(means)]
    for row, mean in zip(rows, means, strict=True):
        row[2] = 3 * mean - row[0] - row[1]
    return {
        "x": np.array(rows, np.float32),
        "s": np.array([[rng.choice((11, 13))], [rng.choice((17, 19))]], np.float32),
    }


OWN = Exercise(
    name="11.own", kind="predict",
    asks="s̄ for loss = sum(mean(x ⊙ s, axis=1)), in the shape that it must have",
    data=_own_data,
    answer=Number(lambda d: d.x.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-5, why=_WHOLE),
    right=(
        lambda d: d.x.mean(axis=1, keepdims=True),
        lambda d: [[float(sum(row)) / 3] for row in d.x],
        lambda d: d.x @ np.full((3, 1), 1 / 3),
    ),
    because="The mean spreads 1/n, the product multiplies by x, and the stretched axis of s is summed.",
    wrong=(
        Wrong("mean not divided", lambda d: d.x.sum(axis=1, keepdims=True), (
            "Your numbers are too large by the same factor everywhere.",
            "The mean's rule spreads its cotangent and divides it by the number of entries averaged.",
            "For the mean of 10 entries, each gets a tenth of what arrives.",
        )),
        Wrong("not summed over the stretched axis", lambda d: d.x / 3, (
            "Your answer has the shape of x. Which shape has s?",
            "s was stretched along axis 1, so its cotangent is summed over axis 1.",
            "A column of shape (9, 1) gets a cotangent of shape (9, 1), however wide the array it multiplies.",
        )),
        Wrong("axis dropped", lambda d: d.x.mean(axis=1), (
            "The right numbers, in an array with one axis too few.",
            "The axis of length 1 belongs to s: a cotangent keeps it (keepdims=True).",
            "For s of shape (9, 1), an answer of shape (9,) would broadcast to (9, 9) in the next update.",
        )),
        Wrong("columns for rows", lambda d: d.x.mean(axis=0, keepdims=True), (
            "You collected down the columns.",
            "s has one entry for each row: collect what that row sends.",
            "An s of shape (9, 1) says: nine rows, one entry each.",
        )),
        Wrong("derivative by the other factor", lambda d: d.s, (
            "Which factor of x ⊙ s remains when s is moved?",
            "d(x ⊙ s) = x ⊙ ds + s ⊙ dx: what multiplies ds is x.",
            "For p·q at p = 10, q = 23, the derivative by q is 10, not 23.",
        )),
        Wrong("one sum for both rows", lambda d: np.full((2, 1), d.x.mean()), (
            "Both entries of your answer agree. The rows of x do not.",
            "Only the stretched axis is summed; axis 0 is s's own.",
            "For the rows [10, 20] and [30, 50] the two row means are 15 and 40.",
        )),
    ),
)  # fmt: skip


EXERCISES = (COUNT, UNBROADCAST, WHY_SUM, CENTRE, KEEPDIMS, MAX, OWN)
