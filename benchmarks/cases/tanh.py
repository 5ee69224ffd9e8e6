"""sum(tanh(x·w + b)²), forward and backward for x: elementwise work on arrays that fit into no cache.

All of x, w and b are arrays of `n`; eager libraries write every intermediate, and what fuses reads and writes once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, NotThere, load

TOLERANCE = 1e-3  # the sum's: float32 partial sums of 10⁷ terms; gradients are near 1e-6
CHECKED = 4096  # gradients that are compared


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    x, w, b = (rng.uniform(-1, 1, n).astype(np.float32) for _ in range(3))
    return {"x": x, "w": w, "b": b, "some": rng.integers(0, n, CHECKED)}


def expected(x: Any, w: Any, b: Any, some: Any) -> list[np.ndarray]:
    x, w, b = (each.astype(np.float64) for each in (x, w, b))
    y = np.tanh(x * w + b)
    return [np.sum(y * y), (2 * y * (1 - y * y) * w)[some]]


def netcl(x: Any, w: Any, b: Any, some: Any) -> Case:
    from netcl import autograd as ag

    x, w, b = ag.tensor(x, requires_grad=True), ag.tensor(w), ag.tensor(b)

    def run() -> Any:
        x.zero_grad()
        with ag.Tape() as tape:
            loss = (ag.tanh(x * w + b) ** 2).sum()
        tape.backward(loss)
        x.value.device.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host()[some]]


def netcl_fused(x: Any, w: Any, b: Any, some: Any) -> Case:
    from netcl import autograd as ag

    fuse = getattr(ag, "fuse", None)
    if fuse is None:
        raise NotThere("netcl has no ag.fuse")
    x, w, b = ag.tensor(x, requires_grad=True), ag.tensor(w), ag.tensor(b)
    fused = fuse(lambda x, w, b: (ag.tanh(x * w + b) ** 2).sum())

    def run() -> Any:
        x.zero_grad()
        with ag.Tape() as tape:
            loss = fused(x, w, b)
        tape.backward(loss)
        x.value.device.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host()[some]]


def torch(x: Any, w: Any, b: Any, some: Any) -> Case:
    torch = load("torch")
    x, w, b = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w), torch.from_numpy(b)

    def run() -> Any:
        x.grad = None
        loss = (torch.tanh(x * w + b) ** 2).sum()
        loss.backward()
        return loss

    return run, lambda loss: [loss.item(), x.grad.numpy()[some]]


def autograd(x: Any, w: Any, b: Any, some: Any) -> Case:
    anp, autograd = load("autograd.numpy"), load("autograd")
    both = autograd.value_and_grad(lambda x: anp.sum(anp.tanh(x * w + b) ** 2))
    return lambda: both(x), lambda result: [result[0], result[1][some]]


def jax_jit(x: Any, w: Any, b: Any, some: Any) -> Case:
    jax = load("jax")
    x, w, b = (jax.numpy.asarray(each) for each in (x, w, b))
    both = jax.jit(jax.value_and_grad(lambda x, w, b: (jax.numpy.tanh(x * w + b) ** 2).sum()))
    return lambda: jax.block_until_ready(both(x, w, b)), lambda result: [result[0], np.asarray(result[1])[some]]


def ancestor(x: Any, w: Any, b: Any, some: Any) -> Case:
    old = Ancestor()
    x, w, b = old.tensor(x, requires_grad=True), old.tensor(w), old.tensor(b)

    def run() -> Any:
        x.grad = None
        with old.ag.Tape() as tape:
            loss = old.ag.sum(old.ag.square(old.ag.tanh(x * w + b)))
        tape.backward(loss)
        old.queue.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host()[some]]
