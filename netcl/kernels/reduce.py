"""Reductions as trees: every pass lets a work-item fold a short run of elements, until one run is left.

A tree keeps float32 sums accurate: the error grows with the logarithm of the length where a running sum's grows with
the length (Higham 1993, The accuracy of floating point summation).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.errors import DTypeError
from netcl.kernels.fold_vectors import fold_columns, fold_rows
from netcl.kernels.source import Operand, coordinates, ctype, dot, packed, preamble
from netcl.launch import Launch
from netcl.layout import Layout, Shape, collapse, contiguous
from netcl.memory import Block

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


def reduce(device: Device, kind: str, x: Operand, axes: Shape, out: Layout, divisor: int | None = None) -> Block:
    """Fold `x` over `axes`; return the buffer of the result.

    Math:    out[kept] = combination of x[kept, reduced] over all reduced indices, over `divisor` if there is one
    Shapes:  out.size is the product of the lengths not in `axes`
    """
    if not out.size:
        return device.pool.allocate(out.nbytes)
    source = x.buffer
    for launch, nbytes in _passes(device, kind, x.layout, axes, out, divisor):
        buffer = device.pool.allocate(nbytes)
        device.run(launch, (buffer, source))
        source = buffer
    return source


@lru_cache(maxsize=4096)
def _passes(
    device: Device, kind: str, x: Layout, axes: Shape, out: Layout, divisor: int | None
) -> tuple[tuple[Launch, int], ...]:
    """Return the launches after each other, with the bytes that each one's parts take."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    launch, runs = _in_vectors(device, kind, x, kept, axes, out.dtype, divisor) or _fold(
        kind, x, kept, axes, out.dtype, divisor
    )
    first = launch, out.size * runs * out.dtype.itemsize
    if runs == 1:
        return (first,)
    return first, *_passes(
        device, kind, contiguous((out.size, runs), out.dtype), (1,), contiguous((out.size,), out.dtype), divisor
    )


def _in_vectors(
    device: Device, kind: str, x: Layout, kept: Shape, axes: Shape, dtype: np.dtype, divisor: int | None
) -> tuple[Launch, int] | None:
    """Fold rows or columns of neighbouring elements as vectors, on a CPU; None for what is neither."""
    if device.kind != "CPU" or dtype.kind != "f" or x.dtype != dtype or kind not in REDUCTIONS:
        return None
    (count, kept_step, kept_rank), (length, step, rank) = _walk(x, kept), _walk(x, axes)
    reduction = REDUCTIONS[kind]
    combine, empty = reduction.combine, reduction.empty.format(**_extremes(dtype))
    if rank == 1 and step == 1 and kept_rank <= 1 and length >= _SHORTEST_ROW:
        return fold_rows(combine, empty, x, count, kept_step, length, divisor)
    if kept_rank == 1 and kept_step == 1 and rank == 1 and length and count >= _FEWEST_COLUMNS:
        return fold_columns(combine, empty, x, count, step, length, divisor)
    return None


def _walk(layout: Layout, axes: Shape) -> tuple[int, int, int]:
    """Return how many elements lie along these axes, the last step between them, and how many axes are needed."""
    steps = layout.element_strides
    lengths, (strides,) = collapse(tuple(layout.shape[a] for a in axes), [tuple(steps[a] for a in axes)])
    return int(np.prod(lengths, dtype=np.int64)), strides[-1] if strides else 0, len(lengths)


def _fold(kind: str, x: Layout, kept: Shape, axes: Shape, dtype: np.dtype, divisor: int | None) -> tuple[Launch, int]:
    """Make partial results for each kept index, side by side; say how many for each."""
    steps = x.element_strides
    kept_lengths, (kept_strides,) = collapse(tuple(x.shape[a] for a in kept), [tuple(steps[a] for a in kept)])
    lengths, (strides,) = collapse(tuple(x.shape[a] for a in axes), [tuple(steps[a] for a in axes)])
    length = int(np.prod(lengths, dtype=np.int64))
    runs = max((length + _RUN - 1) // _RUN, 1)
    total = int(np.prod(kept_lengths, dtype=np.int64)) * runs
    divided = runs == 1 and divisor is not None
    source = _source(kind, x.dtype, dtype, len(kept_lengths), len(lengths), divided)
    numbers = (
        total, runs, length, 1 if divisor is None else divisor, x.element_offset, *kept_lengths[1:], *kept_strides,
        *lengths[1:], *strides,
    )  # fmt: skip
    return Launch(source, "fold", (None, None), numbers, total, x.size, packed=True), runs


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
def _source(kind: str, dtype: np.dtype, out: np.dtype, kept_rank: int, rank: int, divided: bool) -> str:
    reduction = REDUCTIONS.get(kind)
    if reduction is None:
        raise DTypeError(f"there is no reduction named {kind!r}")
    t = ctype(out)
    kept = [f"kd{axis}" for axis in range(kept_rank)]
    kept_steps = [f"ks{axis}" for axis in range(kept_rank)]
    lengths = [f"d{axis}" for axis in range(rank)]
    steps = [f"ds{axis}" for axis in range(rank)]
    names = ["count", "runs", "length", "divisor", "offset", *kept[1:], *kept_steps, *lengths[1:], *steps]
    struct, parameter, variables = packed(names)
    empty = reduction.empty.format(**_extremes(out))
    return f"""{preamble([dtype, out])}
{struct}
__kernel void fold(__global {t}* out, __global const {ctype(dtype)}* x, {parameter})
{{
    {variables}
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
    out[i] = total{f" / ({t})divisor" if divided else ""};
}}
"""
