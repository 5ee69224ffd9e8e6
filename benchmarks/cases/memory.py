"""Peak bytes of tensors that are alive during a training step of mlp.py: parameters, batch, activations, gradients.

What is counted is what tensors hold, not what allocators keep for later: netcl's pool says how much of it is in use,
and torch's profiler reports every allocation. `netcl_dropping` lets go of the gradients of intermediates once used.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import Case, load, mlp
from benchmarks.cases.mlp import TOLERANCE, inputs

__all__ = ["TOLERANCE", "expected", "inputs", "netcl", "netcl_dropping", "torch"]


def expected(x: Any, labels: Any, parameters: Any, activation: str) -> list[np.ndarray]:
    return mlp.expected(x, labels, parameters, activation)[1:]


def netcl(x: Any, labels: Any, parameters: Any, activation: str, retain_grads: bool = True) -> Case:
    import netcl as nc
    from netcl import autograd as ag
    from netcl import optim

    reset, peak = _watch(nc.get_device())
    leaves = [ag.tensor(each, requires_grad=True) for each in parameters]
    images, classes, optimizer = ag.tensor(x), ag.tensor(labels), optim.SGD(leaves, mlp.LR)

    def run() -> float:
        reset()
        optimizer.zero_grad()
        with ag.Tape(retain_grads=retain_grads) as tape:
            loss = ag.cross_entropy(mlp.logits(ag, images, leaves, activation, ag.linear), classes)
        tape.backward(loss)
        optimizer.step()
        images.device.finish()
        return peak()

    return run, lambda _: mlp.updates(0, [leaf.to_host() for leaf in leaves], parameters)[1:]


def netcl_dropping(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    return netcl(x, labels, parameters, activation, retain_grads=False)


def _watch(device: Any) -> tuple[Callable[[], None], Callable[[], float]]:
    """Watch the pool of a device: return how to forget the peak, and how to read it.

    Raises: RuntimeError, on reading, if nothing was allocated: the pool is then filled by a way that is not watched
    """
    pool, most = device.pool, [0]
    take = pool.take

    def watched(nbytes: int) -> Any:
        block = take(nbytes)
        most[0] = max(most[0], pool.stats().active_bytes)
        return block

    pool.take = watched

    def reset() -> None:
        most[0] = 0

    def read() -> float:
        if not most[0]:
            raise RuntimeError("no allocation was seen in netcl's pool")
        return float(most[0])

    return reset, read


def torch(x: Any, labels: Any, parameters: Any, activation: str) -> Case:
    torch = load("torch")
    leaves = [torch.tensor(each, requires_grad=True) for each in parameters]
    images, classes, optimizer = torch.from_numpy(x), torch.from_numpy(labels), torch.optim.SGD(leaves, mlp.LR)

    def linear(x: Any, w: Any, b: Any) -> Any:
        return torch.addmm(b, x, w)

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(mlp.logits(torch, images, leaves, activation, linear), classes)
        loss.backward()
        optimizer.step()

    def run() -> float:
        optimizer.zero_grad()  # so that the profile does not begin by freeing what it never saw allocated
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            step()
        before = sum(each.nbytes for each in (*leaves, images, classes))
        return float(before + _peak_of(profile))

    return run, lambda _: mlp.updates(0, [leaf.detach().numpy() for leaf in leaves], parameters)[1:]


def _peak_of(profile: Any) -> int:
    """Return the most bytes that were allocated at once in a profile of torch."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
    live = most = 0
    for _, change in changes:
        live += change
        most = max(most, live)
    return most
