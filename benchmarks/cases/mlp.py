"""A training step of a multilayer perceptron: forward, cross-entropy, backward, plain SGD on every parameter.

784-128-10 with relu. moons.py takes the same steps with its own layers and inputs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, load

LR = 0.1
TOLERANCE = 2e-3  # of an update, read off as a difference of parameters


def inputs(rng: np.random.Generator, batch: int) -> dict[str, Any]:
    x = rng.uniform(0, 1, (batch, 784)).astype(np.float32)
    labels = rng.integers(0, 10, batch)
    return {"x": x, "labels": labels, "parameters": parameters(rng, (784, 128, 10)), "activation": "relu"}


def parameters(rng: np.random.Generator, layers: tuple[int, ...]) -> list[np.ndarray]:
    """Draw weight, bias, weight, bias … as He initialisation does."""
    drawn = []
    for fan_in, fan_out in pairwise(layers):
        drawn.append((rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)).astype(np.float32))
        drawn.append(rng.uniform(-0.1, 0.1, fan_out).astype(np.float32))
    return drawn


def expected(x: Any, labels: Any, parameters: Any, activation: str) -> list[np.ndarray]:
    before = [each.astype(np.float64) for each in parameters]
    loss, after = by_hand(x.astype(np.float64), labels, before, activation)
    return [loss, *(new - old for new, old in zip(after, before, strict=True))]


def by_hand(x: Any, labels: Any, parameters: list[Any], activation: str) -> tuple[Any, list[Any]]:
    """Take a step in NumPy, with the derivatives written out; return the loss and the new parameters."""
    values = [x]
    for place in range(0, len(parameters), 2):
        z = values[-1] @ parameters[place] + parameters[place + 1]
        if place + 2 < len(parameters):
            z = np.maximum(z, 0) if activation == "relu" else np.tanh(z)
        values.append(z)
    p = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1
    g, after = p / len(labels), [*parameters]
    for place in range(len(parameters) - 2, -1, -2):
        a = values[place // 2]
        after[place] = parameters[place] - LR * (a.T @ g)
        after[place + 1] = parameters[place + 1] - LR * g.sum(axis=0)
        if place:
            g = g @ parameters[place].T
            g = g * (a > 0) if activation == "relu" else g * (1 - a * a)
    return loss, after


def logits(lib: Any, x: Any, parameters: Any, activation: str, linear: Any = None) -> Any:
    """Run the layers; `lib` has relu and tanh, `linear` is what the library's layer runs, if not x @ w + b."""
    act = getattr(lib, activation)
    linear = linear or (lambda x, w, b: x @ w + b)
    for place in range(0, len(parameters), 2):
        x = linear(x, parameters[place], parameters[place + 1])
        if place + 2 < len(parameters):
            x = act(x)
    return x


def updates(loss: Any, after: Any, before: Any) -> list[np.ndarray]:
    """Return the loss, and by how much each parameter moved in the first step."""
    moved = [np.asarray(new, np.float64) - old for new, old in zip(after, before, strict=True)]
    return [np.asarray(loss), *moved]


def netcl(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    from netcl import autograd as ag
    from netcl import optim

    leaves = [ag.tensor(each, requires_grad=True) for each in parameters]
    images, classes, optimizer = ag.tensor(x), ag.tensor(labels), optim.SGD(leaves, LR)

    def run() -> Any:
        optimizer.zero_grad()
        with ag.Tape() as tape:
            loss = ag.cross_entropy(logits(ag, images, leaves, activation, ag.linear), classes)
        tape.backward(loss)
        optimizer.step()
        images.device.finish()
        return loss

    return run, lambda loss: updates(loss.to_host(), [leaf.to_host() for leaf in leaves], parameters)


def netcl_replayed(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    from netcl import autograd as ag
    from netcl import optim

    leaves = [ag.tensor(each, requires_grad=True) for each in parameters]
    images, classes, optimizer = ag.tensor(x), ag.tensor(labels), optim.SGD(leaves, LR)

    @ag.replay
    def loss_of(images: Any, classes: Any) -> Any:
        return ag.cross_entropy(logits(ag, images, leaves, activation, ag.linear), classes)

    def run() -> Any:
        optimizer.zero_grad()
        loss = loss_of(images, classes)
        optimizer.step()
        images.device.finish()
        return loss

    return run, lambda loss: updates(loss.to_host(), [leaf.to_host() for leaf in leaves], parameters)


def numpy(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    current = [*parameters]

    def run() -> Any:
        loss, current[:] = by_hand(x, labels, current, activation)
        return loss

    return run, lambda loss: updates(loss, current, parameters)


def torch(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    torch = load("torch")
    leaves = [torch.tensor(each, requires_grad=True) for each in parameters]
    images, classes, optimizer = torch.from_numpy(x), torch.from_numpy(labels), torch.optim.SGD(leaves, LR)

    def linear(x: Any, w: Any, b: Any) -> Any:
        return torch.addmm(b, x, w)

    def run() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits(torch, images, leaves, activation, linear), classes)
        loss.backward()
        optimizer.step()
        return loss

    return run, lambda loss: updates(loss.item(), [leaf.detach().numpy() for leaf in leaves], parameters)


def autograd(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    anp, autograd = load("autograd.numpy"), load("autograd")
    anp.relu = lambda z: anp.maximum(z, 0)
    rows, current = np.arange(len(labels)), [*parameters]

    def cost(leaves: Any) -> Any:
        z = logits(anp, x, leaves, activation)
        z = z - anp.max(z, axis=1, keepdims=True)
        return -anp.mean((z - anp.log(anp.sum(anp.exp(z), axis=1, keepdims=True)))[rows, labels])

    both = autograd.value_and_grad(cost)

    def run() -> Any:
        loss, grads = both(current)
        current[:] = [p - np.float32(LR) * g for p, g in zip(current, grads, strict=True)]
        return loss

    return run, lambda loss: updates(loss, current, parameters)


def tinygrad(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    tinygrad, optim = load("tinygrad"), load("tinygrad.nn.optim")
    leaves = [tinygrad.Tensor(each).realize() for each in parameters]
    images, classes = tinygrad.Tensor(x).realize(), tinygrad.Tensor(labels).realize()
    optimizer = optim.SGD(leaves, LR)

    @tinygrad.TinyJit
    def step() -> Any:
        with tinygrad.Context(TRAINING=1):
            optimizer.zero_grad()
            scores = logits(tinygrad.Tensor, images, leaves, activation)
            loss = scores.sparse_categorical_crossentropy(classes).backward()
            return loss.realize(*optimizer.schedule_step())

    def run() -> Any:
        loss = step()
        tinygrad.Device[tinygrad.Device.DEFAULT].synchronize()
        return loss

    return run, lambda loss: updates(loss.item(), [leaf.numpy() for leaf in leaves], parameters)


def jax(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    jax = load("jax")
    jnp, lib = jax.numpy, jax.nn
    images, classes = jnp.asarray(x), jnp.asarray(labels)
    current = [[jnp.asarray(each) for each in parameters]]

    def cost(leaves: Any) -> Any:
        scores = jax.nn.log_softmax(logits(lib, images, leaves, activation))
        return -scores[jnp.arange(len(classes)), classes].mean()

    @jax.jit
    def step(leaves: Any) -> Any:
        loss, grads = jax.value_and_grad(cost)(leaves)
        return loss, [p - LR * g for p, g in zip(leaves, grads, strict=True)]

    def run() -> Any:
        loss, current[0] = step(current[0])
        jax.block_until_ready(current[0])
        return loss

    return run, lambda loss: updates(loss, current[0], parameters)


def ancestor(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    old = Ancestor()
    leaves = [old.tensor(each, requires_grad=True) for each in parameters]
    images, classes = old.tensor(x), old.tensor(np.eye(parameters[-1].size, dtype=np.float32)[labels])
    optimizer = load("netcl.optim").SGD([leaf.value for leaf in leaves], LR)
    act = getattr(old.ag, activation)

    def run() -> Any:
        for leaf in leaves:
            leaf.grad = leaf.value.grad = None
        with old.ag.Tape() as tape:
            z = images
            for place in range(0, len(leaves), 2):
                z = old.ag.bias_add(old.ag.matmul_op(z, leaves[place]), leaves[place + 1])
                if place + 2 < len(leaves):
                    z = act(z)
            loss = old.ag.cross_entropy(z, classes)
        tape.backward(loss)
        for leaf in leaves:
            leaf.value.grad = leaf.grad
        optimizer.step()
        old.queue.finish()
        return loss

    return run, lambda loss: updates(loss.to_host(), [leaf.value.to_host() for leaf in leaves], parameters)
