"""What lesson 18 has students write for its digits: columns on one scale, and batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong


def normal(rng: random.Random, shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return np.array([rng.gauss(0, 1) for _ in range(count)], dtype).reshape(shape)


# 18.standardise

Pair = tuple[np.ndarray, np.ndarray]


def _scaled(train: np.ndarray, test: np.ndarray) -> Pair:
    mean, std = train.mean(axis=0), train.std(axis=0)
    std = np.where(std > 0, std, 1)
    return (train - mean) / std, (test - mean) / std


def _scaled_by_loop(train: np.ndarray, test: np.ndarray) -> Pair:
    a, b = np.array(train, float), np.array(test, float)
    for j in range(a.shape[1]):
        mean = a[:, j].sum() / len(a)
        std = (((a[:, j] - mean) ** 2).sum() / len(a)) ** 0.5 or 1.0
        b[:, j] = (b[:, j] - mean) / std
        a[:, j] = (a[:, j] - mean) / std
    return a, b


def _safe(std: np.ndarray) -> np.ndarray:
    return np.where(std > 0, std, 1)


def _leaking(train: np.ndarray, test: np.ndarray) -> Pair:
    both = np.concatenate((train, test))
    mean, std = both.mean(axis=0), _safe(both.std(axis=0))
    return (train - mean) / std, (test - mean) / std


def _each_its_own(train: np.ndarray, test: np.ndarray) -> Pair:
    return _scaled(train, train)[0], _scaled(test, test)[0]


def _one_for_all(train: np.ndarray, test: np.ndarray) -> Pair:
    mean, std = train.mean(), train.std()
    return (train - mean) / std, (test - mean) / std


def _by_variance(train: np.ndarray, test: np.ndarray) -> Pair:
    mean, var = train.mean(axis=0), _safe(train.var(axis=0))
    return (train - mean) / var, (test - mean) / var


def _unguarded(train: np.ndarray, test: np.ndarray) -> Pair:
    mean, std = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / std, (test - mean) / std


def _centred(train: np.ndarray, test: np.ndarray) -> Pair:
    mean = train.mean(axis=0)
    return train - mean, test - mean


def _by_rows(train: np.ndarray, test: np.ndarray) -> Pair:
    def rows(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=1, keepdims=True)) / _safe(x.std(axis=1, keepdims=True))

    return rows(train), rows(test)


def _in_place(train: np.ndarray, test: np.ndarray) -> Pair:
    scaled = _scaled(train, test)
    train[:], test[:] = scaled
    return train, test


def _kept(f: Callable[..., Pair], train: np.ndarray, test: np.ndarray) -> list[Any]:
    """The two results, and whether the arrays that were handed in are as they were."""
    before = train.copy(), test.copy()
    first, second = f(train, test)
    return [np.array(first), np.array(second), np.array_equal(train, before[0]) and np.array_equal(test, before[1])]


def _standardise_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for n, m, k in ((6, 3, 2), (5, 5, 3), (8, 2, 4), (4, 4, 4), (9, 3, 5)):
        train, test = normal(rng, (n, k)) * 3 + 2, normal(rng, (m, k)) * 5 - 1
        train[:, -1] = 7  # a pixel that never changes
        test[:, -1] = 7 + normal(rng, (m,))
        cases.append((train, test))
    return cases


STANDARDISE = Exercise(
    name="18.standardise", kind="build",
    asks="standardise(train, test): both arrays with every column on the scale of the training data",
    answer=Function(
        lambda d: _scaled, cases=_standardise_cases, rtol=1e-6, atol=1e-9, call=_kept, why="float64 on the host",
    ),
    right=(lambda d: _scaled, lambda d: _scaled_by_loop, lambda d: lambda a, b: list(_scaled(a, b))),
    because="Mean and spread are learned from the training data alone, and then used on both.",
    wrong=(
        Wrong("statistics of all data", lambda d: _leaking, (
            "Your training data change when the test data do.",
            "Mean and spread are learned, too: from training data alone.",
            "If one test example were 1000 larger, no training example might move.",
        )),
        Wrong("the arrays themselves changed", lambda d: _in_place, (
            "What you return is right, but the arrays that were handed in are changed.",
            "`-=` and `/=` write into the caller's array; `a - b` makes a new one.",
            "A photo is copied before it is cropped; the album keeps the original.",
        )),
        Wrong("each by its own statistics", lambda d: _each_its_own, (
            "The training data are right. The test data have been put on another scale.",
            "The network expects test data in the units in which it has learned.",
            "A single test example, scaled by its own mean, is 0 whatever it was.",
        )),
        Wrong("one scale for all columns", lambda d: _one_for_all, (
            "Your columns still differ in mean and spread.",
            "Each column has a mean and a spread of its own: go down the rows, axis 0.",
            "Height in metres and income in euros have no common mean.",
        )),
        Wrong("divided by the variance", lambda d: _by_variance, (
            "The spread of your columns is not one.",
            "The standard deviation is the root of the variance, and has the units of the data.",
            "A column of −10 and 10 has the deviation 10 and the variance 100.",
        )),
        Wrong("division by zero", lambda d: _unguarded, (
            "There is a column that never changes in the training data.",
            "Where the spread is zero, divide by one: the column becomes zero, and no NaN.",
            "The corner pixel of every training image may be blank: spread zero.",
        )),
        Wrong("only centred", lambda d: _centred, (
            "The means are zero now. And the spread?",
            "Centred and divided: a step in any column then means as much.",
            "A column from −1000 to 1000 drowns one from −0.001 to 0.001.",
        )),
        Wrong("rows for columns", lambda d: _by_rows, (
            "You made every example its own scale.",
            "A column is one feature over all examples: axis 0 disappears in its mean.",
            "In a table of 50 people and 3 features there are 3 means.",
        )),
    ),
)  # fmt: skip


# 18.batches


def _batches(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    order = rng.permutation(n)
    return [order[i : i + size] for i in range(0, n, size)]


def _generated(n: int, size: int, rng: np.random.Generator) -> Iterable[list[int]]:
    order = np.arange(n)
    rng.shuffle(order)
    while len(order):
        yield order[:size].tolist()
        order = order[size:]


def _in_order(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return [np.arange(i, min(i + size, n)) for i in range(0, n, size)]


def _rest_dropped(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return [batch for batch in _batches(n, size, rng) if len(batch) == size]


def _with_replacement(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    drawn = rng.integers(0, n, n)
    return [drawn[i : i + size] for i in range(0, n, size)]


def _always_the_same(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return _batches(n, size, np.random.default_rng(1))


def _by_another(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return _batches(n, size, np.random.default_rng())


def _overlapping(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    order = rng.permutation(n)
    return [order[i : i + size + 1] for i in range(0, n, size)]


def _so_many(n: int, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(rng.permutation(n), size)


def _dealt(f: Callable[..., Any], n: int, size: int) -> list[Any]:
    """What two epochs of batches have in common with all right ones, and no number of theirs."""
    rng = np.random.default_rng(18)
    first, second = ([np.asarray(batch) for batch in f(n, size, rng)] for _ in range(2))
    numbers, later = np.concatenate(first), np.concatenate(second)
    return [
        [len(batch) for batch in first],
        np.array_equal(np.sort(numbers), np.arange(n)),
        np.array_equal(np.sort(later), np.arange(n)),
        np.array_equal(numbers, np.arange(n)),
        np.array_equal(numbers, later),
        np.array_equal(numbers, np.concatenate([np.asarray(batch) for batch in f(n, size, np.random.default_rng(18))])),
    ]


def _batches_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    return [(23, 5), (100, 20), (64, 10), (40, 7), (51, 50)]


BATCHES = Exercise(
    name="18.batches", kind="build",
    asks="batches(n, size, rng): the numbers 0 to n − 1 in random order, cut into arrays of `size`",
    answer=Function(lambda d: _batches, cases=_batches_cases, call=_dealt, why="counts and yes or no: exact"),
    right=(lambda d: _batches, lambda d: _generated, lambda d: lambda n, size, rng: iter(_batches(n, size, rng))),
    because="Every example comes once an epoch, in an order that no two epochs share.",
    wrong=(
        Wrong("in order", lambda d: _in_order, (
            "Your examples come in the order in which they lie.",
            "Shuffle first, by the generator that is passed, and cut then.",
            "If a file is sorted by class, each batch would see a single class.",
        )),
        Wrong("the rest dropped", lambda d: _rest_dropped, (
            "Count your examples: some are missing.",
            "The last batch may be shorter than the others; it belongs to the epoch, too.",
            "103 examples in tens make ten full batches, and three examples more.",
        )),
        Wrong("drawn with replacement", lambda d: _with_replacement, (
            "Some examples come twice in an epoch, and others not at all.",
            "A permutation has each number once; independent draws do not.",
            "Of many examples drawn independently as often, about a third never come.",
        )),
        Wrong("the same order every time", lambda d: _always_the_same, (
            "Two epochs in a row come in the same order.",
            "Use the generator that is passed: it goes on from where it was.",
            "A generator made anew from the same seed begins again.",
        )),
        Wrong("drawn by another generator", lambda d: _by_another, (
            "Asked twice with equal generators, your function deals two different orders.",
            "Only what `rng` draws can be repeated by whoever passed it; np.random knows nothing of it.",
            "Two dice throw differently; one throw, filmed, is the same each time it is shown.",
        )),
        Wrong("one too many", lambda d: _overlapping, (
            "Neighbouring batches share an example.",
            "In Python the end of a slice is left out: order[i : i + size] has `size` entries.",
            "order[0:10] ends with entry 9, and order[10:20] begins with entry 10.",
        )),
        Wrong("size taken for the number of batches", lambda d: _so_many, (
            "How many batches do you make, and how long are they?",
            "`size` is the length of a batch. How many there are follows from n.",
            "1000 examples in batches of 10 make 100 batches.",
        )),
    ),
)  # fmt: skip
