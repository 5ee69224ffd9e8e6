"""Second derivatives of every row, by create_graph on the device, against central differences of the first derivative's
NumPy reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import expr as ex
from netcl.ops import OPS, Row
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("float64")

ROWS = [op for op in OPS.values() if isinstance(op, Row) and op.partials]
Draw = Callable[..., list[np.ndarray]]
STEP = 6e-6


def first_derivative(row: Row, env: dict[str, Any], g: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Σ over the operands x of w_x · g · ∂out/∂x: one number an element, whose derivatives are the second ones."""
    with np.errstate(all="ignore"):
        values = env | {"out": ex.evaluate(row.expr, env)}
        return np.sum([w * g * ex.evaluate(row.partials[arg], values) for arg, w in weights.items()], axis=0)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_derivative_of_the_derivative(row: Row, draw: Draw) -> None:
    rng = np.random.default_rng(21)
    env = dict(zip(row.args, draw(row, rng, (32,)), strict=True))
    g, *drawn = rng.uniform(0.5, 1.5, (1 + len(row.partials), 32))
    weights = dict(zip(row.partials, drawn, strict=True))

    leaves = {arg: ag.tensor(x, requires_grad=arg in row.partials) for arg, x in env.items()}
    seed = ag.tensor(g, requires_grad=True)
    ag.Tape().backward(row(*leaves.values()), seed, create_graph=True)
    gradients = {arg: leaves[arg].grad for arg in row.partials}
    total: Any = sum(Tensor.from_host(w) * gradients[arg] for arg, w in weights.items())
    for leaf in (seed, *(leaves[arg] for arg in row.partials)):
        leaf.zero_grad()
    total.backward()

    for arg in row.partials:
        above, below = (first_derivative(row, env | {arg: env[arg] + h}, g, weights) for h in (STEP, -STEP))
        numeric = (above - below) / (2 * STEP)
        found = np.zeros(32) if leaves[arg].grad is None else leaves[arg].grad.to_host()
        np.testing.assert_allclose(found, numeric, rtol=2e-6, atol=1e-8, err_msg=f"with respect to {arg}")
    # The gradient is linear in the seed, so its derivative with respect to the seed is the gradient of a seed of ones.
    np.testing.assert_allclose(seed.grad.to_host(), first_derivative(row, env, np.ones(32), weights), rtol=1e-12)
