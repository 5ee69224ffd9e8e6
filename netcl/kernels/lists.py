"""The same expressions over many arrays, such as a step of all parameters of a model: the small ones share a launch.

A launch costs as much as a thousand elements do, and a model has many parameters that are smaller. A work-item takes an
element of one of them. What is large has a launch of its own, which is vectorised (elementwise.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from netcl import expr as ex
from netcl.device import Device
from netcl.kernels.elementwise import Formula, Plan, prepare
from netcl.kernels.source import Operand, ctype, packed, preamble
from netcl.launch import Launch
from netcl.layout import Layout, contiguous
from netcl.memory import Block

SMALL = 1 << 11
"""Elements from which an array has a launch of its own, which then is the shorter way."""

_TOGETHER = 8  # arrays of a launch, where their arguments fit
_ARGUMENTS = 95  # of 8 bytes: OpenCL grants 128, and from three quarters of them on pyopencl warns

_PLACES = list(range(128))


class _Lists(NamedTuple):
    """A prepared evaluation: how the results lie, what has a launch of its own, and which arrays share one."""

    outs: list[Layout]
    alone: list[tuple[int, Plan]]
    together: list[tuple[Callable[[list[Any]], tuple[Any, ...]], Launch]]  # with what chooses its buffers


def evaluate_lists(
    device: Device,
    formula: Formula,
    lists: Sequence[Sequence[Operand]],
    numbers: list[float],
    into: Sequence[Block | None] | None = None,
) -> tuple[list[Layout], list[list[Block]]]:
    """Compute a formula for many arrays; return how the results lie, and for each expression their buffers.

    Math:    as `evaluate`. A variable of the formula has one of the lists, with an entry for each array; the last
             variables are the numbers, alike for all
    Shapes:  the results of an array have the shape and dtype of its entry in the first list, to which the others
             broadcast
    For a single array `into` may have the blocks, of operands too, that its results are written to; None is a new one.
    """
    key = tuple([x.layout for entries in lists for x in entries])
    outs, alone, together = _plan(formula, key, len(lists), len(numbers), into is not None)
    take = device.pool.take
    if into is None:
        results = [[take(out.room) for out in outs] for _ in formula.exprs]
    else:
        results = [[take(outs[0].room) if block is None else block] for block in into]
    for i, plan in alone:
        plan.execute(device, [*[entries[i] for entries in lists], *numbers], [buffers[i] for buffers in results])
    if together:
        buffers = [x for each in results for x in each] + [x.buffer for entries in lists for x in entries]
        for choose, launch in together:
            device.run_placed(launch, choose(buffers + _PLACES), numbers)
    return outs, results


@lru_cache(maxsize=256)
def _plan(formula: Formula, layouts: tuple[Layout, ...], lists: int, numbers: int, in_place: bool) -> _Lists:
    count = len(layouts) // lists
    outs, alone = [], []
    small: dict[np.dtype, list[int]] = {}
    for i in range(count):
        operands = layouts[i::count]
        out = contiguous(operands[0].shape, operands[0].dtype)
        outs.append(out)
        if 0 < out.size < SMALL and all(layout is out for layout in operands):
            small.setdefault(out.dtype, []).append(i)
        elif out.size:
            alone.append((i, prepare(formula, [*operands, *[None] * numbers], out, out.dtype, in_place=in_place)))
    arrays = len(formula.exprs) + lists
    fit = max(min(_TOGETHER, (_ARGUMENTS - numbers) // (arrays + 1)), 1)  # buffers of each, and a number where it ends
    together = [
        (_chooser(count, arrays, members), _launch(formula, numbers, dtype, [outs[i].size for i in members]))
        for dtype, places in small.items()
        for members in (places[first : first + fit] for first in range(0, len(places), fit))
    ]
    return _Lists(outs, alone, together)


def _chooser(count: int, arrays: int, members: Sequence[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Return what takes places and buffers in turn out of the buffers of all arrays, which _PLACES follow."""
    chosen = [each * count + i for each in range(arrays) for i in members]
    return itemgetter(*[x for place, i in enumerate(chosen) for x in (count * arrays + place, i)])


def _launch(formula: Formula, numbers: int, dtype: np.dtype, sizes: Sequence[int]) -> Launch:
    ends = tuple(accumulate(sizes))
    buffers = (len(formula.exprs) + len(formula.variables) - numbers) * len(sizes)
    arg_types = (*[None] * buffers, *[dtype.type] * numbers)
    source = _source(formula, numbers, dtype, len(sizes))
    return Launch(source, "lists", arg_types, ends, ends[-1], ends[-1], packed=True)


@lru_cache(maxsize=64)
def _source(formula: Formula, numbers: int, dtype: np.dtype, count: int) -> str:
    t = ctype(dtype)
    names = formula.variables
    operands, rest = names[: len(names) - numbers], names[len(names) - numbers :]
    results = [f"out{i}" for i in range(len(formula.exprs))]
    loads = " ".join(f"const {t} v_{name} = {name}_[at];" for name in operands)
    renamed = {name: f"v_{name}" for name in names}
    stores = " ".join(
        f"{result}[at] = {ex.to_c(e, t, renamed)};" for result, e in zip(results, formula.exprs, strict=True)
    )
    each = [*results, *[f"{name}_" for name in operands]]
    parameters = [
        f"__global {'' if name in results else 'const '}{t}* {name}{j}" for name in each for j in range(count)
    ]
    struct, parameter, variables = packed([f"end{j}" for j in range(count)])
    parameters += [*[f"const {t} v_{name}" for name in rest], parameter]
    branches = [
        f"if (i < end{j}) STEP(i - {f'end{j - 1}' if j else '0'}, {', '.join(f'{name}{j}' for name in each)})"
        for j in range(count)
    ]
    return f"""{preamble([dtype], stores)}
#define STEP(place, {", ".join(each)}) {{ const long at = place; {loads} {stores} }}
{struct}
__kernel void lists({", ".join(parameters)})
{{
    {variables}
    const long i = get_global_id(0);
    {" else ".join(branches)}
}}
"""
