"""A training step on two half-moons, 2-16-16-2 with tanh: the steps of mlp.py, with next to no work in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases.mlp import (
    TOLERANCE,
    ancestor,
    autograd,
    expected,
    jax,
    netcl,
    netcl_replayed,
    numpy,
    parameters,
    tinygrad,
    torch,
)

__all__ = [
    "TOLERANCE", "ancestor", "autograd", "expected", "inputs", "jax", "netcl", "netcl_replayed", "numpy", "tinygrad",
    "torch",
]  # fmt: skip


def inputs(rng: np.random.Generator, batch: int) -> dict[str, Any]:
    angle, labels = rng.uniform(0, np.pi, batch), rng.integers(0, 2, batch)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    x = np.where(labels[:, None] == 0, upper, lower) + 0.1 * rng.standard_normal((batch, 2))
    layers = parameters(rng, (2, 16, 16, 2))
    return {"x": x.astype(np.float32), "labels": labels, "parameters": layers, "activation": "tanh"}
