"""The error of netcl's own float32 functions, in units in the last place, over every float32 there is.

    python -m benchmarks.ulp [NAME ...] [--step N]

Each result on the device is compared with the same function in float64 on the host; `--step 97` takes every 97th.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

import netcl as nc
from netcl import autograd as ag
from netcl.kernels.functions import BOUNDS, BUILT_IN_BOUNDS

_TINY = float(np.finfo(np.float32).tiny)
_CHUNK = 1 << 22
_each_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _each_erf,
}
"""The same functions in float64, whose own error is 10⁻⁹ of a float32's last place."""


def bound(name: str) -> float:
    """Return what the error may be: a GPU has functions of its own."""
    return (BOUNDS if nc.get_device().per_item == 1 else BUILT_IN_BOUNDS)[name]


@dataclass(frozen=True)
class Worst:
    """The largest error over some numbers, and where; `wrong` are those with a NaN, infinity or sign out of place."""

    ulp: float
    at: float
    wrong: tuple[float, ...]


def worst(name: str, x: np.ndarray) -> Worst:
    """Compare a function on the device with the exact one, at every x where the result is a normal number.

    Results below the normal numbers may be off by two of their steps, or be 0 where the device flushes them.
    """
    with np.errstate(all="ignore"):
        got = getattr(ag, name)(nc.Tensor.from_host(x)).to_host().astype(np.float64)
        want = EXACT[name](x.astype(np.float64))
        rounded = want.astype(np.float32)
        normal = np.isfinite(rounded) & (np.abs(want) >= _TINY)
        small = np.isfinite(rounded) & ~normal
        same = np.where(np.isfinite(rounded), np.isfinite(got), (got == rounded) | (np.isnan(got) & np.isnan(rounded)))
        same &= np.isnan(rounded) | (got == 0) | (np.signbit(got) == np.signbit(rounded))
        same[small] &= (np.abs(got - want)[small] <= 2 * 2.0**-149) | (got[small] == 0)
        error = np.zeros(x.shape)
        error[normal] = np.abs(got - want)[normal] / np.spacing(np.abs(rounded[normal])).astype(np.float64)
    place = int(error.argmax())
    return Worst(float(error[place]), float(x[place]), tuple(x[~same][:5].tolist()))


def chunks(step: int) -> Iterator[np.ndarray]:
    """Every `step`-th float32 by its bits, NaN and infinities among them."""
    for first in range(0, 1 << 32, _CHUNK * step):
        yield (
            np.arange(first, min(first + _CHUNK * step, 1 << 32), step, dtype=np.uint64)
            .astype(np.uint32)
            .view(np.float32)
        )


def main(given: Any = None) -> int:
    """Print a line for each function; the exit status says whether all kept within their bounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ulp", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXACT)}")
    parser.add_argument("--step", type=int, default=1, metavar="N", help="only every N-th number")
    options = parser.parse_args(given)
    failed = 0
    for name in options.names or EXACT:
        count = -(-(1 << 32) // (_CHUNK * options.step))
        results = [worst(name, x) for x in tqdm(chunks(options.step), name, total=count)]
        most = max(results, key=lambda result: result.ulp)
        wrong = [x for result in results for x in result.wrong]
        failed |= most.ulp > bound(name) or bool(wrong)
        print(f"{name:8} {most.ulp:.3f} ulp at {most.at!r}, bound {bound(name)}; wrong: {wrong[:5] or 'none'}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
