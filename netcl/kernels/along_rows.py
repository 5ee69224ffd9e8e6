"""Functions along the last axis of contiguous rows, in one launch: softmax and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl.device import Device
from netcl.kernels import long_rows, narrow_rows, short_rows
from netcl.kernels.reduce import reduce
from netcl.kernels.row_functions import FUNCTIONS
from netcl.kernels.source import Part
from netcl.launch import Launch
from netcl.layout import Layout, Shape, contiguous
from netcl.memory import Block


@lru_cache(maxsize=1024)
def fits(device: Device, layouts: tuple[Layout, ...], axes: Shape) -> bool:
    """Say whether operands of one shape are rows along their last axis, without gaps, of one float dtype.

    Not so for a few very long rows, which would keep too few cores at work, nor, on a GPU, for many very short ones.
    """
    first = layouts[0]
    if first.dtype.kind != "f" or axes != (first.ndim - 1,) or not first.size:
        return False
    if not all(x.contiguous and x.offset == 0 and x.shape == first.shape and x.dtype == first.dtype for x in layouts):
        return False
    if long_rows.is_long(device, first.shape[-1]):
        return long_rows.are_many(device, first.size, first.shape[-1])
    return short_rows.are_few(first.size) or _are_narrow(device, first)


def _are_narrow(device: Device, rows: Layout) -> bool:
    n = rows.shape[-1]
    return long_rows.in_vectors(device) and narrow_rows.fits(rows.dtype, rows.size // n, n)


def run_rows(device: Device, name: str, operands: Sequence[Any], out: Layout, scale: float = 1.0) -> Block:
    """Run a function on its operands' rows; return the buffer of the result, which has the layout `out`.

    `scale` is the factor of cross_entropy_vjp, and what standardize adds to the variance. A function that gives one
    number for each row (cross_entropy) gives their sum over `scale`, an integer, if `out` has no axes but the rows do.
    """
    launch, parts = _launch(device, name, tuple([x.layout for x in operands]), out)
    buffer = device.pool.allocate(parts.nbytes)
    whole = parts is out
    device.run(launch, [buffer, *[x.buffer for x in operands]], [scale if whole else 1.0])
    return buffer if whole else reduce(device, "sum", Part(parts, buffer), (0,), out, int(scale))


@lru_cache(maxsize=1024)
def _launch(device: Device, name: str, layouts: tuple[Layout, ...], out: Layout) -> tuple[Launch, Layout]:
    """Return the launch and what it gives: the result, or parts of its one sum."""
    named = dict(zip(FUNCTIONS[name].operands, layouts, strict=True))
    labels: np.dtype | None = named["labels"].dtype if "labels" in named else None
    each = int("each" in named and named["each"].size > 1)
    size, n, dtype = layouts[0].size, layouts[0].shape[-1], layouts[0].dtype
    numbers = size // n, n, each
    total = name == "cross_entropy" and out.ndim < layouts[1].ndim
    if long_rows.is_long(device, n):
        launch, parts = long_rows.launch(device, name, dtype, labels, numbers, total)
    elif _are_narrow(device, layouts[0]):
        launch, parts = narrow_rows.launch(name, dtype, labels, numbers, total)
    else:
        parts = 1 if total and short_rows.fits_one_group(size) else size // n
        launch = short_rows.launch(name, dtype, labels, numbers, total and parts == 1)
    return launch, contiguous((parts,), dtype) if total and parts > 1 else out
