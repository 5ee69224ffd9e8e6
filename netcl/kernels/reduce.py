"""Reductions as trees: every pass lets a work-item fold a short run of elements, until one run is left.

A tree keeps float32 sums accurate: the error grows with the logarithm of the length where a running sum's grows with
the length (Higham 1993, The accuracy of floating point summation).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.device import Device
from netcl.errors import DTypeError
from netcl.kernels.fold_vectors import fold_columns, fold_rows
from netcl.kernels.source import Operand, Part, coordinates, ctype, dot, preamble
from netcl.layout import Layout, Shape, collapse, contiguous

_RUN = 256  # elements that one work-item folds
_SHORTEST_ROW = 64  # below these, vectors do not pay
_FEWEST_COLUMNS = 16
_PART = 16  # elements that it folds in turn: in parts, a run of 256 errs like one of 16 + 16


class Reduction(NamedTuple):
    """How two partial results `a` and `b` combine (a template), and what an empty run gives (C; {lowest} is the
    smallest value of the type)."""

    combine: str
    empty: str
    identity: bool  # whether an array without elements has a result


REDUCTIONS = {
    "sum": Reduction("{a} + {b}", "0", True),
    "prod": Reduction("{a} * {b}", "1", True),
    # A comparison with NaN is false, so both branches are asked before a stays: NaN wins, as in NumPy.
    "max": Reduction("({b} > {a} || {b} != {b}) ? {b} : {a}", "{lowest}", False),
    "min": Reduction("({b} < {a} || {b} != {b}) ? {b} : {a}", "{highest}", False),
}


def reduce(device: Device, kind: str, x: Operand, axes: Shape, out: Layout) -> PooledBuffer:
    """Fold `x` over `axes`; return the buffer of the result.

    Math:    out[kept] = combination of x[kept, reduced] over all reduced indices
    Shapes:  out.size is the product of the lengths not in `axes`
    """
    layout = x.layout
    kept = tuple(axis for axis in range(layout.ndim) if axis not in axes)
    count = out.size
    if not count:
        return device.pool.allocate(out.nbytes)
    buffer, runs = _in_vectors(device, kind, x, kept, axes, out.dtype) or _fold(device, kind, x, kept, axes, out.dtype)
    if runs == 1:
        return buffer
    part = Part(contiguous((count, runs), out.dtype), buffer)
    return reduce(device, kind, part, (1,), contiguous((count,), out.dtype))


def _in_vectors(
    device: Device, kind: str, x: Operand, kept: Shape, axes: Shape, dtype: np.dtype
) -> tuple[PooledBuffer, int] | None:
    """Fold rows or columns of neighbouring elements as vectors, on a CPU; None for what is neither."""
    if device.kind != "CPU" or dtype.kind != "f" or x.layout.dtype != dtype or kind not in REDUCTIONS:
        return None
    (count, kept_step, kept_rank), (length, step, rank) = _walk(x.layout, kept), _walk(x.layout, axes)
    reduction = REDUCTIONS[kind]
    combine, empty = reduction.combine, reduction.empty.format(**_extremes(dtype))
    if rank == 1 and step == 1 and kept_rank <= 1 and length >= _SHORTEST_ROW:
        return fold_rows(device, combine, empty, x, count, kept_step, length)
    if kept_rank == 1 and kept_step == 1 and rank == 1 and length and count >= _FEWEST_COLUMNS:
        return fold_columns(device, combine, empty, x, count, step, length)
    return None


def _walk(layout: Layout, axes: Shape) -> tuple[int, int, int]:
    """Return how many elements lie along these axes, the last step between them, and how many axes are needed."""
    steps = layout.element_strides
    lengths, (strides,) = collapse(tuple(layout.shape[a] for a in axes), [tuple(steps[a] for a in axes)])
    return int(np.prod(lengths, dtype=np.int64)), strides[-1] if strides else 0, len(lengths)


def _fold(device: Device, kind: str, x: Operand, kept: Shape, axes: Shape, dtype: np.dtype) -> tuple[PooledBuffer, int]:
    """Run one pass; return partial results for each kept index, side by side, and how many for each."""
    layout = x.layout
    steps = layout.element_strides
    kept_lengths, (kept_strides,) = collapse(tuple(layout.shape[a] for a in kept), [tuple(steps[a] for a in kept)])
    lengths, (strides,) = collapse(tuple(layout.shape[a] for a in axes), [tuple(steps[a] for a in axes)])
    count = int(np.prod(kept_lengths, dtype=np.int64))
    length = int(np.prod(lengths, dtype=np.int64))
    runs = max((length + _RUN - 1) // _RUN, 1)
    total = count * runs
    source = _source(kind, layout.dtype, dtype, len(kept_lengths), len(lengths))
    numbers = (total, runs, length, layout.element_offset, *kept_lengths[1:], *kept_strides, *lengths[1:], *strides)
    arg_types = (None, None, *[np.int64] * len(numbers))
    buffer = device.pool.allocate(total * dtype.itemsize)
    device.launch(source, "fold", arg_types, total, [buffer, x.buffer, *numbers], layout.size)
    return buffer, runs


def _extremes(dtype: np.dtype) -> dict[str, str]:
    if dtype.kind == "f":
        return {"lowest": "-INFINITY", "highest": "INFINITY"}
    if dtype.kind == "b":
        return {"lowest": "0", "highest": "1"}
    name = ctype(dtype).upper()
    if dtype.kind == "u":
        return {"lowest": "0", "highest": f"{name}_MAX"}
    return {"lowest": f"{name}_MIN", "highest": f"{name}_MAX"}


@lru_cache(maxsize=256)
def _source(kind: str, dtype: np.dtype, out: np.dtype, kept_rank: int, rank: int) -> str:
    reduction = REDUCTIONS.get(kind)
    if reduction is None:
        raise DTypeError(f"there is no reduction named {kind!r}")
    t = ctype(out)
    kept = [f"kd{axis}" for axis in range(kept_rank)]
    kept_steps = [f"ks{axis}" for axis in range(kept_rank)]
    lengths = [f"d{axis}" for axis in range(rank)]
    steps = [f"ds{axis}" for axis in range(rank)]
    names = ["count", "runs", "length", "offset", *kept[1:], *kept_steps, *lengths[1:], *steps]
    empty = reduction.empty.format(**_extremes(out))
    return f"""{preamble([dtype, out])}
__kernel void fold(__global {t}* out, __global const {ctype(dtype)}* x, {", ".join(f"const long {n}" for n in names)})
{{
    const long i = get_global_id(0);
    if (i >= count) return;
    const long run = i % runs;
    const long k = i / runs;
    {coordinates("k", kept)}
    const long first = offset + {dot("k", kept_steps)};
    {t} total = ({t})({empty});
    /* Neighbouring work-items read neighbouring elements. */
    for (long j = run; j < length;) {{
        {t} part = ({t})({empty});
        for (int k = 0; k < {_PART} && j < length; k++, j += runs) {{
            {coordinates("j", lengths)}
            const {t} value = ({t})x[first + {dot("j", steps)}];
            part = {reduction.combine.format(a="part", b="value")};
        }}
        total = {reduction.combine.format(a="total", b="part")};
    }}
    out[i] = total;
}}
"""
