"""From which size on work is worth PoCL's threads: how that follows from times, and where it is kept between runs.

`calibrate.py` takes the times. A size that is kept is that of one device, driver, number of cores and version of netcl.
It decides where work runs and how fast, and no result.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netcl import pocl
from netcl._version import __version__
from netcl.errors import DeviceError

__all__ = ["CROSSOVER", "VARIABLE", "choose", "find", "keep", "kept", "key_of", "pinned"]

CROSSOVER = 1 << 17
"""Work (elements touched) from which `pthread` is used where nothing was measured: between tanh's and an addition's."""

VARIABLE = "NETCL_CROSSOVER"
"""The environment variable that pins it."""

SIZES = tuple(1 << power for power in range(12, 21))
"""Below, no thread wakes in time; above, waking one costs nothing that counts."""

_GAIN = math.log(1.05)  # what threads must gain for their trouble: other work wants the cores too, and queues to cross
_FILE = "crossover.json"


def choose(sizes: Sequence[int], ratios: Sequence[float]) -> int | None:
    """Return the size from which threads pay, given at each size the time of `pthread` over that of `basic`.

    It is None where they pay at none: then other programs have the cores, and to keep that would be to believe it.

    Math:  the c for which the product of 1.05 ratio(s) over all sizes s ≥ c is least. Where the ratio falls below once
           and stays, that is where it does; a sample that noise has spoilt a little does not move it.

    >>> choose([4096, 8192, 16384, 32768], [4.0, 1.5, 0.8, 0.6])
    16384
    """
    best, least, total = None, 0.0, 0.0
    for size, ratio in zip(reversed(sizes), reversed(ratios), strict=True):
        total += math.log(ratio) + _GAIN
        if total < least:
            best, least = size, total
    return best


def find(key: str) -> int:
    """Return the crossover of a device: the pinned one, the one that was measured, or else CROSSOVER.

    Raises:  DeviceError if it is pinned to what is no number of elements
    """
    for size in (pinned(os.environ), kept(key)):
        if size is not None:
            return size
    return CROSSOVER


def pinned(environ: Mapping[str, str]) -> int | None:
    """Return what NETCL_CROSSOVER says, or None.

    Raises:  DeviceError if it is no number of elements

    >>> pinned({"NETCL_CROSSOVER": "100_000"})
    100000
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        size = int(text)
    except ValueError:
        size = -1
    if size < 0:
        raise DeviceError(f"{VARIABLE}={text}: it is a whole number of elements, from which on work goes to all cores")
    return size


# What is kept between runs


def key_of(name: str, driver: str) -> str:
    """Return under what the crossover of a device is kept: whatever may move it is named."""
    return f"{name}, driver {driver}, {pocl.cores()} cores, netcl {__version__}"


def kept(key: str) -> int | None:
    """Return the crossover that was kept; None if there is none, or the file cannot be read or is none of ours."""
    size = _read().get(key)
    return min(max(size, SIZES[0]), SIZES[-1]) if type(size) is int else None


def keep(key: str, size: int) -> bool:
    """Keep a crossover for the runs to come; say whether that could be done."""
    root = pocl.cache_root()
    if root is None:
        return False
    text = json.dumps({**_read(), key: size}, indent=1, sort_keys=True)
    try:
        handle, name = tempfile.mkstemp(prefix=f"{_FILE}-", dir=root)
        new = Path(name)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            new.replace(root / _FILE)  # in one move: another process never reads half of it
        finally:
            new.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _read() -> dict[str, Any]:
    root = pocl.cache_root()
    try:
        found = json.loads((root / _FILE).read_text(encoding="utf-8")) if root is not None else {}
    except (OSError, ValueError, RecursionError):  # not there, not ours to read, or not what we wrote
        return {}
    return found if isinstance(found, dict) else {}
