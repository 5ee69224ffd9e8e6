"""A product of two n × n float32 matrices, forward only."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Ancestor, Case, load, torch_on

TOLERANCE = 1e-4
CHECKED = 64  # rows of the result that are compared: all of them would take float64 longer than the measurement


def inputs(rng: np.random.Generator, n: int, gpu: bool = False) -> dict[str, Any]:
    a, b = (rng.uniform(-1, 1, (n, n)).astype(np.float32) for _ in range(2))
    return {"a": a, "b": b, "rows": rng.integers(0, n, CHECKED), "gpu": gpu}


def expected(a: Any, b: Any, rows: Any, gpu: bool) -> list[np.ndarray]:
    return [a[rows].astype(np.float64) @ b.astype(np.float64)]


def netcl(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    from netcl import autograd as ag

    left, right = ag.tensor(a), ag.tensor(b)

    def run() -> Any:
        out = left @ right
        out.device.finish()
        return out

    return run, lambda out: [out.to_host()[rows]]


def numpy(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    return lambda: a @ b, lambda out: [out[rows]]


def torch(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    torch, device, wait = torch_on(gpu)
    left, right = torch.from_numpy(a).to(device), torch.from_numpy(b).to(device)

    def run() -> Any:
        out = left @ right
        wait()
        return out

    return run, lambda out: [out.cpu().numpy()[rows]]


def tinygrad(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    tinygrad = load("tinygrad")
    left, right = (tinygrad.Tensor(each).realize() for each in (a, b))
    product = tinygrad.TinyJit(lambda: (left @ right).realize())

    def run() -> Any:
        out = product()
        tinygrad.Device[tinygrad.Device.DEFAULT].synchronize()
        return out

    return run, lambda out: [out.numpy()[rows]]


def jax(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    jax = load("jax")
    left, right = jax.numpy.asarray(a), jax.numpy.asarray(b)
    return lambda: (left @ right).block_until_ready(), lambda out: [np.asarray(out)[rows]]


def ancestor(a: Any, b: Any, rows: Any, gpu: bool) -> Case:
    old = Ancestor()
    left, right = old.tensor(a), old.tensor(b)

    def run() -> Any:
        out = left @ right
        old.queue.finish()
        return out

    return run, lambda out: [out.to_host()[rows]]
