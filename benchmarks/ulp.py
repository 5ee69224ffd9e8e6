"""The error of netcl's float32 functions, in units in the last place, over every float32 there is.

    python -m benchmarks.ulp [NAME ...] [--step N] [--jobs N]

Each result on the device is compared with the same function in float64 on the host; `--step 97` takes every 97th.
A name is a function's, or pow with one of the exponents that have a kernel of their own: "pow 3". The whole
range takes half a minute to three for each on one core, a quarter of an hour for all; there is a process for each core.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.special
from tqdm import tqdm

import netcl as nc
from netcl import autograd as ag
from netcl.kernels.functions import BOUNDS, BUILT_IN_BOUNDS, IN_FLOAT64

_TINY = float(np.finfo(np.float32).tiny)
_NUMBERS = 1 << 32
_PART = 1 << 24
_CHUNK = 1 << 15  # arrays that malloc keeps: larger ones are new pages each time, and take five times as long


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _root(x: np.ndarray) -> np.ndarray:
    """As pow(x, 0.5) of C has it: np.power takes np.sqrt, which has −0 at −0 and NaN at −∞."""
    return np.where(x == -np.inf, np.inf, np.sqrt(x + 0.0))


EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": scipy.special.erf,
    "sin": np.sin,
    "cos": np.cos,
    "pow -2": lambda x: 1 / (x * x),
    "pow -1": lambda x: 1 / x,
    "pow -0.5": lambda x: 1 / _root(x),
    "pow 0": np.ones_like,
    "pow 0.5": _root,
    "pow 1": np.positive,
    "pow 2": lambda x: x * x,
    "pow 3": lambda x: x * x * x,
    "pow 4": lambda x: (x * x) * (x * x),
}
"""The same functions in float64, whose own error is 10⁻⁸ of a float32's last place or less.

x² of a float32 is exact in float64, and no power here overflows there. NumPy's sin and cos were compared with mpmath's,
in 300 bits, at 25,000 float32 numbers up to 2¹²⁸ and beside multiples of π / 2: they are right to 1 ulp of float64.
"""


def bound(name: str) -> float:
    """Return what the error may be: a GPU has functions of its own."""
    device = nc.get_device()
    own = device.per_item == 1 and (device.has_fp64 or name not in IN_FLOAT64)
    return (BOUNDS if own else BUILT_IN_BOUNDS)[name]


@dataclass(frozen=True)
class Worst:
    """The largest error over some numbers, and where; `wrong` are those with a NaN, infinity or sign out of place."""

    ulp: float
    at: float
    wrong: tuple[float, ...]


def compute(name: str, x: np.ndarray) -> np.ndarray:
    """Return the device's result; the exponent of pow is a number, for which there is a kernel of its own."""
    function, _, exponent = name.partition(" ")
    operand = nc.Tensor.from_host(x)
    result = ag.pow(operand, float(exponent)) if exponent else getattr(ag, function)(operand)
    return result.to_host()


def worst(name: str, x: np.ndarray) -> Worst:
    """Compare a function on the device with the exact one, at every x where the result is a normal number."""
    with np.errstate(all="ignore"):
        got = compute(name, x)
        want = EXACT[name](x.astype(np.float64))
        rounded = want.astype(np.float32)
        size = np.abs(rounded)
        usual = (size >= _TINY) & (size < np.inf) & np.isfinite(got)
        power_of_two = (rounded.view(np.uint32) & 0x7F800000).view(np.float32)
        error = np.where(usual, np.abs(got - want) / power_of_two, 0.0)
        rest = np.flatnonzero(~usual)
        misplaced = rest[~_in_place(got[rest].astype(np.float64), want[rest], rounded[rest], bound(name))]
    place = int(error.argmax())
    return Worst(float(error[place]) * 2**23, float(x[place]), tuple(x[misplaced[:5]].tolist()))


def _in_place(got: np.ndarray, want: np.ndarray, rounded: np.ndarray, ulp: float) -> np.ndarray:
    """Say where NaN, infinities and what is below the normal numbers are as they should be.

    Results below the normal numbers may be off by two of their steps, or be 0 where the device flushes them. At the end
    of the range infinity counts as 2¹²⁸, one step above the largest number, and may be off by as much as numbers may.
    """
    close = (np.abs(rounded) < _TINY) & ((np.abs(got - want) <= 2 * 2.0**-149) | (got == 0))
    end = (got == rounded) | (np.abs(np.clip(got, -(2.0**128), 2.0**128) - want) <= ulp * 2.0**104)
    same = np.where(np.isinf(got) | np.isinf(rounded), end, close)
    return np.isnan(got) & np.isnan(rounded) | same & ((got == 0) | (np.signbit(got) == np.signbit(rounded)))


def chunks(first: int, last: int, step: int) -> Iterator[np.ndarray]:
    """Every `step`-th float32 by its bits from `first` on, before `last`, a chunk at a time."""
    for start in range(-(-first // step) * step, last, _CHUNK * step):
        bits = np.arange(start, min(start + _CHUNK * step, last), step, dtype=np.uint64)
        yield bits.astype(np.uint32).view(np.float32)


def together(results: Iterable[Worst]) -> Worst:
    """Return the largest of some errors, with whatever is out of place in any of them."""
    results = list(results)
    most = max(results, key=lambda result: result.ulp)
    return Worst(most.ulp, most.at, tuple(x for result in results for x in result.wrong)[:5])


def worst_of_part(name: str, step: int, first: int) -> Worst:
    """Compare a function over the `_PART` numbers from `first` on; this is what one process is asked for at a time."""
    none = Worst(0.0, 0.0, ())
    return together([none, *(worst(name, x) for x in chunks(first, first + _PART, step))])


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(given: Any = None) -> int:
    """Print a line for each function; the exit status says whether all kept within their bounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ulp", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(map(repr, EXACT))}")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="only every N-th number")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes (default: one for each core)")
    options = parser.parse_args(given)
    unknown = [name for name in options.names if name not in EXACT]
    if unknown:
        parser.error(f"no function {', '.join(map(repr, unknown))}: there are {', '.join(map(repr, EXACT))}")
    failed = False
    # Started afresh, not forked: OpenCL's threads do not survive a fork.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, fresh) if options.jobs > 1 else nullcontext() as pool:
        for name in options.names or EXACT:
            parts = range(0, _NUMBERS, _PART)
            results = (pool.map if pool else map)(partial(worst_of_part, name, options.step), parts)
            found = together(tqdm(results, name, total=len(parts)))
            failed |= found.ulp > bound(name) or bool(found.wrong)
            at = f"{found.ulp:.3f} ulp at {found.at!r}, bound {bound(name)}"
            print(f"{name:8} {at}; wrong: {list(found.wrong) or 'none'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
