"""Measure from which size on work is worth PoCL's threads, once per device: `netcl doctor` and `netcl lab` ask for it.

It is not done on import, nor in the middle of someone's work: it takes a second, and the machine should be quiet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from netcl import crossover, expr, platforms, pocl
from netcl.device import Device
from netcl.kernels import Formula, evaluate
from netcl.tensor import Tensor

__all__ = ["describe", "measure", "once"]

_FORMULAS = ("a + b", "tanh(a)")  # as much memory as an op ever moves for its arithmetic, and much arithmetic
_OPS = 4  # before the wait: work comes in runs, and each ends with a finish, where the host reads or queues cross
_ROUNDS = 25
_SAMPLE = 2e-4  # s: short, so that some samples fall between what else the machine does


def measure(device: Device) -> int | None:
    """Return the crossover of a device, measured now; None if threads paid at no size, or it has one queue.

    Both queues take turns over all sizes, many times, and of each the least time counts: what else the machine does
    only ever adds to it. Each is asked through a device of its own, so nothing that `device` does or holds is touched.
    """
    if len(device.cl_devices) < 2:
        return None
    basic, pthread = (Device(device.cl_devices, device.index) for _ in range(2))
    basic.crossover, pthread.crossover = 1 << 62, 0
    samplers = [
        [_sampler(side, text, size) for side in (basic, pthread) for text in _FORMULAS] for size in crossover.SIZES
    ]
    rounds = [[[sample() for sample in each] for each in samplers] for _ in range(_ROUNDS)]
    least = np.min(np.array(rounds), axis=0).reshape(-1, 2, len(_FORMULAS))
    ratios = np.exp(np.log(least[:, 1] / least[:, 0]).mean(axis=1))
    return crossover.choose(crossover.SIZES, ratios.tolist())


def _sampler(device: Device, text: str, size: int) -> Callable[[], float]:
    """Return what takes the time of some ops and a wait, in seconds; its kernel is compiled and warm."""
    formula = Formula(expr.parse(text))
    host = np.linspace(-2, 2, size, dtype=np.float32)
    operands = [Tensor.from_host(host, device=device) for _ in formula.variables]
    layout, dtype = operands[0].layout, operands[0].dtype

    def run(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            for _ in range(_OPS):
                evaluate(device, formula, operands, layout, dtype)
            device.finish()
        return (time.perf_counter() - start) / times

    run(2)
    times = max(1, round(_SAMPLE / run(2)))
    return lambda: run(times)


def describe(size: int) -> str:
    """Say what a crossover means.

    >>> describe(131072)[:24]
    'work on 131,072 elements'
    """
    return f"work on {size:,} elements or more goes to all {pocl.cores()} cores, smaller work to one"


def once() -> None:
    """Measure each device that was not measured before, keep what is found, and print it."""
    for device in platforms.devices():
        key = crossover.key_of(device.name, device.cl_devices[0].driver_version)
        if len(device.cl_devices) < 2 or crossover.pinned(os.environ) is not None or crossover.kept(key) is not None:
            continue
        size = measure(device)
        if size is not None and crossover.keep(key, size):
            print(f"measured for {device.name}: {describe(size)}")
