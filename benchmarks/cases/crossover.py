"""`ops` times the same op, then a wait, on PoCL's two queues: `basic` in this thread, `pthread` over the cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Case, NotThere

TOLERANCE = 1e-4
ROWS_CHECKED = 16


def inputs(rng: np.random.Generator, n: int, op: str, ops: int) -> dict[str, Any]:
    shape = (n, n) if op == "matmul" else (n,)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(2))
    return {"a": a, "b": b, "op": op, "ops": ops}


def expected(a: Any, b: Any, op: str, ops: int) -> list[np.ndarray]:
    x, y = a[:ROWS_CHECKED].astype(np.float64), b.astype(np.float64)
    return [{"add": lambda: x + y[:ROWS_CHECKED], "tanh": lambda: np.tanh(x), "matmul": lambda: x @ y}[op]()]


def netcl_basic(a: Any, b: Any, op: str, ops: int) -> Case:
    return _forced(1 << 62, a, b, op, ops)


def netcl_pthread(a: Any, b: Any, op: str, ops: int) -> Case:
    return _forced(0, a, b, op, ops)


def _forced(crossover: int, a: Any, b: Any, op: str, ops: int) -> Case:
    import netcl as nc
    from netcl import autograd as ag

    device = nc.get_device()
    if len(device.cl_devices) < 2:
        raise NotThere(f"{device.name} has one queue")
    device.crossover = crossover  # the same all through this process: prepared launches keep their queue
    x, y = ag.tensor(a), ag.tensor(b)
    call = {"add": lambda: x + y, "tanh": lambda: ag.tanh(x), "matmul": lambda: x @ y}[op]

    def run() -> Any:
        for _ in range(ops):
            out = call()
        x.device.finish()
        return out

    return run, lambda out: [out.to_host()[:ROWS_CHECKED]]
