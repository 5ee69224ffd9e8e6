"""One elementwise op on `n` float32: reading and writing memory is all there is to do. For GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Case, torch_on

TOLERANCE = 1e-6
CHECKED = 1 << 16


def inputs(rng: np.random.Generator, n: int, op: str, gpu: bool = True) -> dict[str, Any]:
    a, b = (rng.random(n, dtype=np.float32) for _ in range(2))
    return {"a": a, "b": b, "op": op, "some": rng.integers(0, n, CHECKED), "gpu": gpu}


def expected(a: Any, b: Any, op: str, some: Any, gpu: bool) -> list[np.ndarray]:
    a, b = a[some].astype(np.float64), b[some].astype(np.float64)
    return [a + b if op == "add" else np.tanh(a)]


def netcl(a: Any, b: Any, op: str, some: Any, gpu: bool) -> Case:
    from netcl import autograd as ag

    a, b = ag.tensor(a), ag.tensor(b)

    def run() -> Any:
        out = a + b if op == "add" else ag.tanh(a)
        a.device.finish()
        return out

    return run, lambda out: [out.to_host()[some]]


def torch(a: Any, b: Any, op: str, some: Any, gpu: bool) -> Case:
    torch, device, wait = torch_on(gpu)
    a, b = torch.from_numpy(a).to(device), torch.from_numpy(b).to(device)

    def run() -> Any:
        out = a + b if op == "add" else torch.tanh(a)
        wait()
        return out

    return run, lambda out: [out.cpu().numpy()[some]]
