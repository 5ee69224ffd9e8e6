"""The same expressions over many arrays, such as a step of all parameters of a model: the small ones share a launch.

A launch costs as much as a thousand elements do, and a model has many parameters that are smaller. A work-item takes an
element of one of them. What is large has a launch of its own, which is vectorised (elementwise.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl import expr as ex
from netcl.device import Device, Launch
from netcl.kernels.elementwise import Formula, prepare
from netcl.kernels.source import Operand, ctype, preamble
from netcl.layout import Layout, contiguous

_SMALL = 1 << 11  # elements: from here on a launch of its own is the shorter way
_TOGETHER = (
    8  # arrays of a launch; with seven buffers each, their arguments fit into the 1,024 bytes that OpenCL grants
)

Buffers = list[PooledBuffer]


def evaluate_lists(
    device: Device, formula: Formula, arrays: Sequence[Sequence[Operand]], numbers: list[float]
) -> list[tuple[Layout, Buffers]]:
    """Compute a formula for every array; return for each the layout and the buffers of its results.

    Math:    as `evaluate`; the last variables of the formula are the numbers, alike for all
    Shapes:  the results of an array have the shape and dtype of its first operand, to which the others broadcast; the
             first operands of all have one dtype
    """
    results: list[tuple[Layout, Buffers]] = []
    together: list[PooledBuffer] = []  # results and operands of the arrays that wait for a launch
    sizes: list[int] = []
    take, several = device.pool.allocate, len(formula.exprs) > 1
    for operands in arrays:
        first = operands[0].layout
        out = contiguous(first.shape, first.dtype)
        buffers = [take(out.nbytes) for _ in formula.exprs] if several else [take(out.nbytes)]
        results.append((out, buffers))
        if out.size >= _SMALL or not all([x.layout is out for x in operands]):
            plan = prepare(formula, [*[x.layout for x in operands], *[None] * len(numbers)], out, out.dtype)
            if out.size:
                plan.execute(device, [*operands, *numbers], buffers)
        elif out.size:
            together += buffers
            together += [x.buffer for x in operands]
            sizes.append(out.size)
            if len(sizes) == _TOGETHER:
                device.run(_launch(formula, len(numbers), out.dtype, tuple(sizes)), together, numbers)
                together, sizes = [], []
    if sizes:
        dtype = results[0][0].dtype
        device.run(_launch(formula, len(numbers), dtype, tuple(sizes)), together, numbers)
    return results


@lru_cache(maxsize=256)
def _launch(formula: Formula, numbers: int, dtype: np.dtype, sizes: tuple[int, ...]) -> Launch:
    ends = tuple(accumulate(sizes))
    buffers = (len(formula.exprs) + len(formula.variables) - numbers) * len(sizes)
    arg_types = (*[None] * buffers, *[dtype.type] * numbers)
    return Launch(_source(formula, numbers, dtype, len(sizes)), "lists", arg_types, ends, ends[-1], ends[-1])


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
        f"__global {'' if name in results else 'const '}{t}* {name}{j}" for j in range(count) for name in each
    ]
    parameters += [f"const {t} v_{name}" for name in rest] + [f"const long end{j}" for j in range(count)]
    branches = [
        f"if (i < end{j}) STEP(i - {f'end{j - 1}' if j else '0'}, {', '.join(f'{name}{j}' for name in each)})"
        for j in range(count)
    ]
    return f"""{preamble([dtype], stores)}
#define STEP(place, {", ".join(each)}) {{ const long at = place; {loads} {stores} }}
__kernel void lists({", ".join(parameters)})
{{
    const long i = get_global_id(0);
    {" else ".join(branches)}
}}
"""
