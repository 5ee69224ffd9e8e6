"""The second half of lesson 11: a rule to be mended, and the rule of max to be written."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong

_SMALL = "a few divisions in float64: the last digits may differ"


def whole(rng: random.Random, *shape: int) -> np.ndarray:
    """Make an array of small whole numbers."""
    count = int(np.prod(shape, dtype=int))
    return np.array([rng.randint(-9, 9) for _ in range(count)], dtype=np.float64).reshape(shape)


# 11.keepdims: a bug that square arrays hide


def _square_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    # Square only: on other shapes the rule as it stands raises, and that is the better outcome.
    return [(whole(rng, n, n),) for n in (2, 3, 4, 5, 7)]


KEEPDIMS = Exercise(
    name="11.keepdims", kind="debug",
    asks="centre_vjp mended: the VJP of c = x − mean of each row",
    answer=Function(
        lambda d: lambda g: g - g.mean(axis=1, keepdims=True), cases=_square_cases, rtol=1e-6, atol=1e-9, why=_SMALL,
    ),
    right=(
        lambda d: lambda g: g - g.mean(axis=1, keepdims=True),
        lambda d: lambda g: g - g.mean(axis=1)[:, None],
        lambda d: lambda g: (g.T - g.mean(axis=1)).T,
        lambda d: lambda g: g @ (np.eye(len(g)) - 1 / len(g)),
    ),
    because="A column of row means is subtracted, each from its own row.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g: g - g.mean(axis=1), (
            "This is what the code did before. Print the shape of the mean: along which axis will it be stretched?",
            "A shape that is too short gets axes in front: the row means are laid along a row.",
            "Row means 100 and 200 in shape (2,) are taken from columns 0 and 1; in shape (2, 1) from rows 0 and 1.",
        )),
        Wrong("the other axis", lambda d: lambda g: g - g.mean(axis=0, keepdims=True), (
            "Now a row of column means is subtracted.",
            "What forward averaged along axis 1 goes back along axis 1.",
            "For rows [100, 300] and [500, 900], rows have the means 200 and 700; columns would have 300 and 600.",
        )),
        Wrong("the other axis, and laid along the rows",
              lambda d: lambda g: g - g.mean(axis=0)[:, None], (
            "Column means are subtracted from rows: two turns that do not cancel.",
            "Fix the axis to average over first, then the shape in which it is subtracted.",
            "For a (2, 3) array, means over axis 0 are three numbers: they cannot belong to two rows.",
        )),
        Wrong("one mean for all", lambda d: lambda g: g - g.mean(), (
            "Every entry has the same number subtracted.",
            "In forward each row has a mean of its own, so in backward, too.",
            "Rows [100, 300] and [500, 900] have the means 200 and 700; nobody asked for 450.",
        )),
        Wrong("path through the mean dropped", lambda d: lambda g: g, (
            "The fault is gone, and the second path with it.",
            "x reaches c through the mean as well; its contribution is to be mended, not left out.",
            "For one entry in a row of a hundred, the direct path gives 1 and the mean takes 0.01 from it.",
        )),
        Wrong("sum for mean", lambda d: lambda g: g - g.sum(axis=1, keepdims=True), (
            "The shapes fit now, and too much is subtracted.",
            "It was a mean in forward, and its rule divides by the number of entries in a row.",
            "For a row of a hundred entries that all send 1, each gets 1 − 1 back, and not 1 − 100.",
        )),
        Wrong("sign turned", lambda d: lambda g: g + g.mean(axis=1, keepdims=True), (
            "The shapes fit now. Look at the sign.",
            "The mean enters c with a minus, and the rule keeps it.",
            "A row that sends equal cotangents must get zeros back: shifting a whole row changes nothing.",
        )),
    ),
)  # fmt: skip


# 11.max: route to the winners, share among ties


def _winners(x: np.ndarray) -> np.ndarray:
    return (x == x.max(axis=-1, keepdims=True)).astype(np.float64)


def _max_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    won = _winners(x)
    return np.asarray(g)[..., None] * won / won.sum(axis=-1, keepdims=True)


def _max_by_loop(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for at in np.ndindex(x.shape[:-1]):
        places = np.flatnonzero(x[at] == max(x[at]))
        for place in places:
            out[(*at, place)] = np.asarray(g)[at] / len(places)
    return out


def _first_winner(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(g)[..., None] * np.eye(x.shape[-1])[x.argmax(axis=-1)]


def _whole_array(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    won = (x == x.max()).astype(np.float64)
    return np.asarray(g)[..., None] * won / won.sum()


def _max_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    tied = np.array([[2.0, 7.0, 7.0, 1.0], [-3.0, -5.0, -3.0, -3.0], [4.0, 4.0, 4.0, 4.0], [0.0, 1.0, 2.0, 3.0]])
    arrays = [tied, np.array([3.0, 8.0, 8.0]), whole(rng, 2, 5), whole(rng, 2, 3, 4), whole(rng, 4, 1), -abs(tied)]
    return [(whole(rng, *x.shape[:-1]) + 10, x) for x in arrays]


def _unlifted(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    won = _winners(x)
    return np.asarray(g) * won / won.sum(axis=-1, keepdims=True)


MAX = Exercise(
    name="11.max", kind="build",
    asks="a function max_vjp(g, x): the VJP of x.max(axis=-1), ties sharing equally",
    answer=Function(lambda d: _max_vjp, cases=_max_cases, rtol=1e-6, atol=1e-9, why=_SMALL),
    right=(lambda d: _max_vjp, lambda d: _max_by_loop),
    because="Each cotangent went to the winners of its own row, and their shares add up to it.",
    wrong=(
        Wrong("every winner paid in full", lambda d: lambda g, x: np.asarray(g)[..., None] * _winners(x), (
            "Rows without a tie are right. Where there is one, too much is sent back.",
            "The shares of tied winners must add up to what arrived: divide by how many there are.",
            "[90, 90] with a cotangent of 60: thirty each, not sixty each.",
        )),
        Wrong("cotangent without its last axis", lambda d: _unlifted, (
            "The axis that max took away is missing from g when it meets x.",
            "Bring it back with length 1, `[..., None]`: then each cotangent meets its own row.",
            "Cotangents of shape (7,) are laid along the rows of a (7, 9) array; as (7, 1) they stand beside them.",
        )),
        Wrong("first winner takes all", lambda d: _first_winner, (
            "That is a subgradient, too, but not the one that was asked for: look at ties.",
            "argmax knows one winner; compare with the maximum to find all of them.",
            "[90, 90] with a cotangent of 60: [30, 30] here, where argmax would give [60, 0].",
        )),
        Wrong("spread over all", lambda d: lambda g, x: np.asarray(g)[..., None] + 0 * x, (
            "Entries that are not the largest get something. Do they move the maximum?",
            "A loser that moves a little changes nothing: its local derivative is 0.",
            "For max(90, 20), moving the 20 to 20.1 leaves the maximum as it is.",
        )),
        Wrong("shared by all, as in a mean", lambda d: lambda g, x: np.asarray(g)[..., None] / x.shape[-1] + 0 * x, (
            "You share out among all entries of a row.",
            "Only those that attain the maximum have a part in it.",
            "For the row [90, 20, 90], two entries share, and the middle one gets nothing.",
        )),
        Wrong("winner of the whole array", lambda d: _whole_array, (
            "Some rows get nothing back, though each has a maximum of its own.",
            "Compare with the maximum of the row (keepdims=True), and count ties by row.",
            "Rows [10, 20] and [80, 90] have two winners, 20 and 90.",
        )),
        Wrong("times the value", lambda d: lambda g, x: _max_vjp(g, x) * x, (
            "The right places, but the size of x has crept in.",
            "A winner's local derivative is 1: when it moves by dx, the maximum moves by dx.",
            "If max(90, 20) goes to max(90.1, 20), it changes by 0.1, not by 9.",
        )),
    ),
)  # fmt: skip
