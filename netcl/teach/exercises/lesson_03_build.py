"""What lesson 03 has mended: a Jacobian by differences, on functions of several shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong


@dataclass(frozen=True)
class _Map:
    """A function with a name that can be shown."""

    text: str
    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return np.asarray(self.function(np.asarray(x, float)))

    def __repr__(self) -> str:
        return self.text


_MAPS = (
    _Map("polar", lambda v: [v[0] * np.cos(v[1]), v[0] * np.sin(v[1])]),
    _Map("F of 3 to 2", lambda v: [v[0] * v[1] + v[2], v[2] ** 2 * v[0]]),
    _Map("F of 2 to 3", lambda v: [v[0] + 2 * v[1], v[0] * v[1], np.sin(v[1])]),
    _Map("F of 1 to 2", lambda v: [v[0] ** 2, 3 * v[0]]),
    _Map("F of 4 to 1", lambda v: [v[0] * v[1] - v[2] * v[3]]),
)
_SIZES = (2, 3, 2, 1, 4)


def _map_cases(rng: Random) -> list[tuple[Any, ...]]:
    places = [np.array([rng.uniform(0.5, 2) for _ in range(n)]) for n in _SIZES]
    return [*zip(_MAPS, places, strict=True), (_MAPS[0], np.array([2.0, 0.5])), (_MAPS[1], np.array([0.0, -1.5, 0.0]))]


def _measured(numeric: Callable[..., Any], function: Any, x: Any) -> Any:
    """A Jacobian; with it x, if that is no longer what the caller handed in."""
    before = x.copy()
    found = numeric(function, x)
    # What is moved and moved back may be off by a rounding.
    return found if np.allclose(x, before, rtol=0, atol=1e-12) else {"Jacobian": found, "the caller's x is now": x}


def columns(function: Any, x: Any) -> list[Any]:
    h = 1e-5
    return [(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)]


def _numeric(function: Any, x: Any) -> Any:
    return np.stack(columns(function, x), axis=1)


def _numeric_restored(function: Any, x: Any) -> Any:
    start, moved, columns = function(x), x.copy(), []
    for j in range(x.size):
        moved[j] += 1e-6
        columns.append((function(moved) - start) / 1e-6)
        moved[j] = x[j]
    return np.stack(columns, axis=1)


def _numeric_in_place(function: Any, x: Any) -> Any:
    found = _numeric(function, x)
    x += 1e-6
    return found


def _numeric_relative(function: Any, x: Any) -> Any:
    """With a step in proportion to each entry: NaN where that is zero."""
    steps = 1e-6 * np.abs(x)
    moves = [(function(x + h * e) - function(x)) / h for h, e in zip(steps, np.eye(x.size), strict=True)]
    return np.stack(moves, axis=1)


# A wrong rule with its three hints reads as one block.
# fmt: off
NUMERIC = Exercise(
    name="03.numeric", kind="debug",
    asks="numeric_jacobian(function, x): a Jacobian by differences, mended",
    answer=Function(lambda d: _numeric, cases=_map_cases, rtol=1e-3, atol=1e-4, call=_measured,
                    why="what a forward difference in float64 gives with ease"),
    right=(lambda d: _numeric, lambda d: _numeric_restored),
    because="Each column moves one input alone, from the place x.",
    wrong=(
        Wrong("steps pile up", lambda d: lambda function, x: np.cumsum(_numeric(function, x), axis=1), (
            "That is what `jacobian_once` does: each column holds the ones before it, too.",
            "When input j is moved, the others must be back where they were.",
            "To learn what a spice does, cook the dish with that one alone, not with all the earlier ones, too.",
        )),
        Wrong("transposed", lambda d: lambda function, x: _numeric(function, x).T, (
            "The numbers are right, their places are not.",
            "The answers of all outputs to one input form a column.",
            "Two outputs that answer with 5 and 7 to input 0: J[0, 0] = 5 and J[1, 0] = 7.",
        )),
        Wrong("divided by half the distance", lambda d: lambda function, x: 2 * _numeric(function, x), (
            "Everything is off by the same factor.",
            "Divide by the distance between the two places at which F was taken.",
            "From x − 3 to x + 3 it is a distance of 6.",
        )),
        Wrong("all inputs at once", lambda d: lambda function, x:
              np.repeat(_numeric(function, x).sum(axis=1, keepdims=True), x.size, axis=1), (
            "Your columns are all alike.",
            "Moving every input by h gives the sum of the columns: move one.",
            "x + h adds h to *each* entry: (5, 7) + 1 is (6, 8).",
        )),
        Wrong("the caller's x is moved", lambda d: _numeric_in_place, (
            "The Jacobian is right, but the caller's x has changed.",
            "An array is handed over itself, not a copy. Move a copy, or put each entry back.",
            "After `b = a` and `b[0] = 9` the first entry of a is 9 as well; after `b = a.copy()` it is not.",
        )),
        Wrong("a step that may be nothing", lambda d: _numeric_relative, (
            "At one place your step is nothing, and 0/0 is no slope.",
            "A part of |x| is no step where x is 0: there must be a least one.",
            "A thousandth of 5 is 0.005; a thousandth of 0 leads nowhere.",
        )),
        Wrong("one output only", lambda d: lambda function, x: _numeric(function, x)[:1], (
            "There is one row. Does F have one output?",
            "Keep the whole difference of F, not one entry of it.",
            "(12, 30) − (10, 20) is (2, 10): two answers to one movement.",
        )),
        Wrong("not divided", lambda d: lambda function, x: 1e-5 * _numeric(function, x), (
            "All your numbers are tiny.",
            "These are changes. A derivative is a change per unit of x.",
            "A change of 0.006 for h = 0.001 is a slope of 6.",
        )),
    ),
)
# fmt: on
