"""One node used `n` times: loss = Σ of x·a added up n times. Its gradient is a sum of n contributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, load

TOLERANCE = 1e-3


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.uniform(0.5, 1, 8).astype(np.float32), "a": rng.uniform(0.5, 1, 8).astype(np.float32), "n": n}


def expected(x: Any, a: Any, n: int) -> list[np.ndarray]:
    x, a = x.astype(np.float64), a.astype(np.float64)
    return [np.sum(n * x * a), n * a]


def spread(x: Any, a: Any, n: int) -> Any:
    """Use x in n products, and add them up."""
    total = x * a
    for _ in range(n - 1):
        total = total + x * a
    return total


def netcl(x: Any, a: Any, n: int) -> Case:
    from netcl import autograd as ag

    x, a = ag.tensor(x, requires_grad=True), ag.tensor(a)

    def run() -> Any:
        x.zero_grad()
        with ag.Tape() as tape:
            loss = spread(x, a, n).sum()
        tape.backward(loss)
        x.value.device.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host()]


def torch(x: Any, a: Any, n: int) -> Case:
    torch = load("torch")
    x, a = torch.from_numpy(x).requires_grad_(), torch.from_numpy(a)

    def run() -> Any:
        x.grad = None
        loss = spread(x, a, n).sum()
        loss.backward()
        return loss

    return run, lambda loss: [loss.item(), x.grad.numpy()]


def ancestor(x: Any, a: Any, n: int) -> Case:
    old = Ancestor()
    x, a = old.tensor(x, requires_grad=True), old.tensor(a)

    def run() -> Any:
        x.grad = None
        with old.ag.Tape() as tape:
            loss = old.ag.sum(spread(x, a, n))
        tape.backward(loss)
        old.queue.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host()]
