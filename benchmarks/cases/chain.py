"""An eager chain of `n` elementwise ops on (8,) float32, forward and backward: what one op costs besides its work.

y ← y·a, y + b, y − b, y / a in turn, so that neither values nor gradients grow or vanish; loss = Σ y·w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, load, torch_on

TOLERANCE = 3e-3  # 10⁶ roundings of 6e-8 that walk at random


def inputs(rng: np.random.Generator, n: int, gpu: bool = False) -> dict[str, Any]:
    def draw(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, 8).astype(np.float32)

    return {"x": draw(-1, 1), "a": draw(0.5, 2), "b": draw(-1, 1), "w": draw(-1, 1), "n": n, "gpu": gpu}


def expected(x: Any, a: Any, b: Any, w: Any, n: int, gpu: bool) -> list[np.ndarray]:
    x, a, b, w = (each.astype(np.float64) for each in (x, a, b, w))
    y = [x, x * a, x * a + b, x * a][n % 4]  # four steps in a row do nothing
    return [np.sum(y * w), w * [1, a, a, a][n % 4]]


def forward(y: Any, a: Any, b: Any, n: int) -> Any:
    """Run the chain; the same Python for every eager peer."""
    whole, rest = divmod(n, 4)
    for _ in range(whole):
        y = y * a
        y = y + b
        y = y - b
        y = y / a
    if rest > 0:
        y = y * a
    if rest > 1:
        y = y + b
    if rest > 2:
        y = y - b
    return y


def netcl(x: Any, a: Any, b: Any, w: Any, n: int, gpu: bool) -> Case:
    from netcl import autograd as ag

    start, a, b, w = ag.tensor(x, requires_grad=True), ag.tensor(a), ag.tensor(b), ag.tensor(w)

    def run() -> Any:
        start.zero_grad()
        with ag.Tape() as tape:
            loss = (forward(start, a, b, n) * w).sum()
        tape.backward(loss)
        start.value.device.finish()
        return loss

    return run, lambda loss: [loss.to_host(), start.grad.to_host()]


def torch(x: Any, a: Any, b: Any, w: Any, n: int, gpu: bool) -> Case:
    torch, device, wait = torch_on(gpu)
    start, a, b, w = (torch.from_numpy(each).to(device) for each in (x, a, b, w))
    start.requires_grad_()

    def run() -> Any:
        start.grad = None
        loss = (forward(start, a, b, n) * w).sum()
        loss.backward()
        wait()
        return loss

    return run, lambda loss: [loss.detach().cpu().numpy(), start.grad.cpu().numpy()]


def autograd(x: Any, a: Any, b: Any, w: Any, n: int, gpu: bool) -> Case:
    anp, autograd = load("autograd.numpy"), load("autograd")
    both = autograd.value_and_grad(lambda start: anp.sum(forward(start, a, b, n) * w))
    return lambda: both(x), list


def ancestor(x: Any, a: Any, b: Any, w: Any, n: int, gpu: bool) -> Case:
    old = Ancestor()
    start = old.tensor(x, requires_grad=True)
    a, b, w = old.tensor(a), old.tensor(b), old.tensor(w)

    def run() -> Any:
        start.grad = None
        with old.ag.Tape() as tape:
            loss = old.ag.sum(forward(start, a, b, n) * w)
        tape.backward(loss)
        old.queue.finish()
        return loss

    return run, lambda loss: [loss.to_host(), start.grad.to_host()]
