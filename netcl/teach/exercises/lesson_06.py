"""Lesson 06, reverse mode."""

from __future__ import annotations

import numpy as np

from netcl.teach.answers import Number
from netcl.teach.exercise import Exercise, Wrong

EXERCISES = (
    Exercise(
        name="06.fork", kind="predict",
        asks="∂f/∂a of f = ab + a²",
        data=lambda rng: {"a": rng.randint(2, 5), "b": rng.choice([-3, 4, 7])},
        answer=Number(lambda d: d.b + 2 * d.a, rtol=1e-6, why="whole numbers: exact in float32"),
        right=(lambda d: d.b + 2 * d.a, lambda d: np.float32(d.b) + d.a + d.a),
        because="a reaches f on two paths, and the contributions add.",
        wrong=(
            Wrong("= for +=", lambda d: d.b, (
                "One of the ways in which a reaches f is missing.",
                "At a fork the contributions of all consumers are added.",
                "In h = pq + 3p at p = 5, q = 2: q gives 2, 3p gives 3; together 5.",
            )),
        ),
    ),
)  # fmt: skip
