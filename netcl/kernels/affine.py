"""The way back through a @ b + c in one launch, on CPUs and where little is to be computed.

Three launches, for the cotangents of a, b and c, take longer to start than a small layer takes to compute.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.contract import Axis, Contraction, Part, loose_vector, prepare, together, vector_type
from netcl.kernels.source import ctype
from netcl.kernels.tile_sizes import item_tile
from netcl.launch import Launch
from netcl.layout import Layout, contiguous, transpose

_LEAST, _MOST = 1 << 10, 1 << 17  # multiplications of each product; below, as in matmul.py, compiling costs more
_BAND = 32  # as in panels.py
_TURNS = 16  # rows that are summed in turn, as in reductions


class AffineVJP(NamedTuple):
    """A prepared way back: the launch, how its results lie, and what picks its buffers from those of
    (g, a, b, *results)."""

    launch: Launch
    outs: list[Layout]
    pick: itemgetter[Any]


@lru_cache(maxsize=1024)
def affine_vjp(device: Device, g: Layout, a: Layout, b: Layout, wanted: tuple[int, ...]) -> AffineVJP | None:
    """Prepare the cotangents that are wanted, of a (0), b (1) and c (2), in this order.

    None comes back where this is not the way: for what is not small, is no matrix of floats, or is not on a CPU.

    Math:    Ā = G Bᵀ,  B̄ = Aᵀ G,  C̄ = Σ G over rows
    Shapes:  g (n, m), a (n, k), b (k, m)
    """
    dtype = g.dtype
    if (
        device.kind != "CPU"
        or dtype.kind != "f"
        or not a.dtype == b.dtype == dtype
        or not a.ndim == b.ndim == g.ndim == 2
    ):
        return None
    (n, m), k = g.shape, a.shape[1]
    if not _LEAST <= n * m * k <= _MOST or (m > 1 and g.element_strides[1] != 1):
        return None
    parts: list[Part] = []
    outs: list[Layout] = []
    buffers: list[tuple[str, ...]] = []
    for i in wanted:
        if i == 0:
            parts.append(_product(device, g, transpose(b, (1, 0))))
            buffers.append((f"out{i}", "g", "b"))
        elif i == 1:
            parts.append(_product(device, transpose(a, (1, 0)), g))
            buffers.append((f"out{i}", "a", "g"))
        else:
            parts.append(_sums(device, g))
            buffers.append((f"out{i}", "g"))
        outs.append(contiguous((a.shape, b.shape, (m,))[i], dtype))
    given = ["g", "a", "b", *(f"out{i}" for i in wanted)]
    pick = itemgetter(*[given.index(name) for name in dict.fromkeys(chain(*buffers))])
    return AffineVJP(together(dtype, parts, buffers), outs, pick)


def _product(device: Device, a: Layout, b: Layout) -> Part:
    (rows, inner), columns = a.shape, b.shape[1]
    (down, along_a), (along_b, across) = a.element_strides, b.element_strides
    rows_of_a, inner_axis = Axis(rows, down, 0, columns), Axis(inner, along_a, along_b)
    offsets = a.element_offset, b.element_offset
    step = across if columns > 1 else 1
    return prepare(device, Contraction(a.dtype, (), rows_of_a, columns, (inner_axis,), offsets, across_b=step), _BAND)


def _sums(device: Device, g: Layout) -> Part:
    rows, columns = g.shape
    width = item_tile(device, g.dtype, columns).width
    statics = (rows, columns, g.element_offset, g.element_strides[0])
    grid = (-(-columns // width), 1, 1)
    return Part(("out", "x"), ("rows", "columns", "offset", "step"), _sums_body(g.dtype, width), statics, grid, 0)


@lru_cache(maxsize=16)
def _sums_body(dtype: np.dtype, width: int) -> str:
    t, vector = ctype(dtype), vector_type(ctype(dtype), width)
    return f"""{loose_vector(t, width)}
    /* The last vector is moved back to end at the edge; it writes what is its own. */
    const long column = min(gx * {width}, columns - {width}), own = gx * {width} - column;
    __global const {t}* from = x + offset + column;
    {vector} total = 0;
    for (long row = 0; row < rows;) {{
        {vector} part = 0;
        for (int turn = 0; turn < {_TURNS} && row < rows; turn++, row++)
            part += *(__global const loose*)(from + row * step);
        total += part;
    }}
    {t} line[{width}];
    *(loose*)line = total;
    for (long i = own; i < {width}; i++) out[column + i] = line[i];"""
