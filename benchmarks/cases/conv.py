"""conv2d 3 × 3, 64 to 64 channels, 32 × 32, forward and backward for images and filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, load

TOLERANCE = 1e-4


def inputs(rng: np.random.Generator, batch: int, channels: int, size: int) -> dict[str, Any]:
    def draw(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    shape = (batch, channels, size, size)
    return {"x": draw(*shape), "w": draw(channels, channels, 3, 3), "g": draw(*shape)}


def expected(x: Any, w: Any, g: Any) -> list[np.ndarray]:
    """Return loss = Σ conv(x, w) · g and its gradients, one place of the window at a time."""
    x, w, g = (each.astype(np.float64) for each in (x, w, g))
    rows, columns = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out, gx, gw = np.zeros_like(g), np.zeros_like(padded), np.zeros_like(w)
    for i in range(3):
        for j in range(3):
            window = np.s_[:, :, i : i + rows, j : j + columns]
            out += np.einsum("nchw,oc->nohw", padded[window], w[:, :, i, j], optimize=True)
            gx[window] += np.einsum("nohw,oc->nchw", g, w[:, :, i, j], optimize=True)
            gw[:, :, i, j] = np.einsum("nohw,nchw->oc", g, padded[window], optimize=True)
    return [np.sum(out * g), gx[:, :, 1:-1, 1:-1], gw]


def netcl(x: Any, w: Any, g: Any) -> Case:
    from netcl import autograd as ag

    x, w, g = ag.tensor(x, requires_grad=True), ag.tensor(w, requires_grad=True), ag.tensor(g)

    def run() -> Any:
        x.zero_grad()
        w.zero_grad()
        with ag.Tape() as tape:
            loss = (ag.conv2d(x, w, padding=1) * g).sum()
        tape.backward(loss)
        x.value.device.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host(), w.grad.to_host()]


def torch(x: Any, w: Any, g: Any) -> Case:
    torch = load("torch")
    x, w, g = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w).requires_grad_(), torch.from_numpy(g)

    def run() -> Any:
        x.grad = w.grad = None
        loss = (torch.nn.functional.conv2d(x, w, padding=1) * g).sum()
        loss.backward()
        return loss

    return run, lambda loss: [loss.item(), x.grad.numpy(), w.grad.numpy()]


def jax_jit(x: Any, w: Any, g: Any) -> Case:
    jax = load("jax")
    x, w, g = (jax.numpy.asarray(each) for each in (x, w, g))

    def cost(x: Any, w: Any, g: Any) -> Any:
        return (jax.lax.conv(x, w, (1, 1), "SAME") * g).sum()

    both = jax.jit(jax.value_and_grad(cost, argnums=(0, 1)))
    return lambda: jax.block_until_ready(both(x, w, g)), lambda result: [result[0], *result[1]]


def ancestor(x: Any, w: Any, g: Any) -> Case:
    old = Ancestor()
    x, w, g = old.tensor(x, requires_grad=True), old.tensor(w, requires_grad=True), old.tensor(g)

    def run() -> Any:
        x.grad = w.grad = None
        with old.ag.Tape() as tape:
            loss = old.ag.sum(old.ag.conv2d(x, w, stride=1, pad=1) * g)
        tape.backward(loss)
        old.queue.finish()
        return loss

    return run, lambda loss: [loss.to_host(), x.grad.to_host(), w.grad.to_host()]
