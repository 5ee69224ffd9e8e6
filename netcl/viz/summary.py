"""Summaries of tensors: small ones from their numbers, large ones by reductions on the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.ops import OPS
from netcl.ops.reduce import is_finite
from netcl.ops.shape import contiguous
from netcl.tensor import Tensor
from netcl.viz.values import ArrayView, bars, named_stats, number, view

_MOST_READ = 1 << 18  # elements that are brought over whole
_SAMPLE = 1 << 14
_EASY = (1e-12, 1e12)  # magnitudes whose squares float32 can add up


def summarise(tensor: Tensor) -> ArrayView:
    """What a picture shows of a tensor; a large one stays on the device but for a few numbers and a sample.

    >>> summarise(Tensor.from_host(np.ones((1024, 1024), "f4"))).line()
    '1 at every entry'
    """
    if tensor.size <= _MOST_READ:
        return view(tensor.to_host())
    return _reduced(tensor)


def _op(name: str) -> Callable[..., Any]:
    return OPS[name].function  # the bare function: nothing is recorded, and NaN is no anomaly here


def _reduced(x: Tensor) -> ArrayView:
    count, total, least, most = _op("isnan"), _op("sum"), _op("min"), _op("max")
    inexact = x.dtype.kind == "f"
    clean = not inexact or is_finite(x)
    nans = 0 if clean else int(total(count(x)).item())
    infs = 0 if clean else int(total(_op("isinf")(x)).item())
    odd = nans + infs
    if odd == x.size:
        same = _uniform_odd(nans, infs, x)
        return ArrayView(x.shape, str(x.dtype), stats=(("finite", "none"),), nans=nans, infs=infs, uniform=same)
    finite = _op("where")(_op("isfinite")(x), x, 0.0) if odd else x
    low, high = _ends(x, least, most, odd)
    scale = max(abs(low), abs(high))
    if not inexact or (scale and not _EASY[0] < scale < _EASY[1]):
        finite = _op("div")(finite, scale or 1.0)
    else:
        scale = 1.0
    mean = float(total(finite).item()) * scale / (x.size - odd)
    norm = math.sqrt(float(total(_op("square")(finite)).item())) * scale
    same = _uniform(x, low, high, odd)
    return ArrayView(
        x.shape,
        str(x.dtype),
        stats=named_stats(low, high, mean, norm),
        bars=() if same is not None else bars(_sample(x)),
        uniform=same,
        zero=low == high == 0 and not odd,
        nans=nans,
        infs=infs,
        sampled=0 if same is not None else _SAMPLE,
    )


def _ends(x: Tensor, least: Callable[..., Any], most: Callable[..., Any], odd: int) -> tuple[float, float]:
    """The least and the largest finite entry."""
    if not odd:
        return float(least(x).item()), float(most(x).item())
    where, finite = _op("where"), _op("isfinite")(x)
    return float(least(where(finite, x, math.inf)).item()), float(most(where(finite, x, -math.inf)).item())


def _uniform(x: Tensor, low: float, high: float, odd: int) -> str | None:
    if odd or low != high:
        return None
    value: Any = np.asarray(low, x.dtype)[()]
    if low == 0 and x.dtype.kind == "f":  # zeros of both signs are not all the same
        negative = int(_op("sum")(_op("less")(_op("div")(1.0, x), 0.0)).item())
        if 0 < negative < x.size:
            return None
        value = x.dtype.type(-0.0 if negative else 0.0)
    return number(value, 5)


def _uniform_odd(nans: int, infs: int, x: Tensor) -> str | None:
    """`∞` or `−∞` at every entry; NaN is not even itself."""
    if nans or not infs:
        return None
    low, high = float(_op("min")(x).item()), float(_op("max")(x).item())
    return number(low) if low == high else None


def _sample(x: Tensor) -> np.ndarray:
    """Entries at even distances, which do not fall into step with the rows."""
    step = max(x.size // _SAMPLE, 1)
    while x.shape and math.gcd(step, x.shape[-1]) > 1:
        step += 1
    flat = _op("reshape")(x, (x.size,))
    return contiguous(_op("getitem")(flat, slice(None, None, step))).to_host()
