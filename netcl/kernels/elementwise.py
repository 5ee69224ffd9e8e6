"""One kernel per elementwise expression and pattern of operands: a work-item per element, broadcasting by strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl import expr as ex
from netcl.device import Device, Launch
from netcl.errors import DTypeError
from netcl.kernels.source import Operand, coordinates, ctype, dot, preamble
from netcl.layout import Layout, broadcast_to, collapse

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_PLANS_KEPT = 4096  # per formula; shapes that change at every step would otherwise pile up


class Plan(NamedTuple):
    """A prepared launch, and how the numbers among the operands are passed to it."""

    launch: Launch
    work: np.dtype
    numeric: bool  # whether some operand is a number
    conditions: frozenset[int]
    range: float  # floats up to here are passed as they are


class Formula:
    """An expression that can be run on a device, with the plans of the launches seen so far.

    `variables` gives the order in which operands are passed, `conditions` which of them only choose: those are not
    converted to the dtype of the computation, in which 0.5 or 256 could become 0.
    """

    __slots__ = ("conditions", "expr", "plans", "variables")

    def __init__(self, expression: ex.Expr, variables: Sequence[str] | None = None) -> None:
        self.expr = expression
        self.variables = tuple(ex.variables(expression) if variables is None else variables)
        self.conditions = frozenset(i for i, name in enumerate(self.variables) if _only_chooses(name, expression))
        self.plans: dict[Any, Plan] = {}

    def __repr__(self) -> str:
        return f"Formula({ex.to_text(self.expr)})"


def _only_chooses(name: str, e: ex.Expr) -> bool:
    """Whether every place of a name is the condition of a where."""
    if isinstance(e, ex.Call):
        parts = e.args[1:] if e.fn == "where" and isinstance(e.args[0], ex.Var) else e.args
        return all(_only_chooses(name, part) for part in parts)
    return e != ex.Var(name)


def evaluate(
    device: Device,
    formula: Formula,
    operands: Sequence[Operand | int | float],
    out: Layout,
    work: np.dtype,
    into: PooledBuffer | None = None,
) -> PooledBuffer:
    """Compute an expression for every element; return the buffer of the result.

    Math:    out[i] = expression of the operands at i, computed in dtype `work`, stored in out's dtype
    Shapes:  each tensor operand broadcasts to out.shape; a Python number is the same everywhere;
             with `into`, out may be a view of that buffer, and only the elements of the view are written
    Raises:  DTypeError if a number does not fit an integer `work` dtype
    """
    buffer = device.pool.allocate(out.nbytes) if into is None else into
    if not out.size:
        return buffer
    plan = prepare(formula, [None if isinstance(x, (int, float)) else x.layout for x in operands], out, work)
    execute(device, plan, operands, buffer)
    return buffer


def prepare(formula: Formula, layouts: Sequence[Layout | None], out: Layout, work: np.dtype) -> Plan:
    """Return the plan for operands of these layouts (None for a number), made at first need."""
    key = (out, work, *layouts)
    plan = formula.plans.get(key)
    if plan is None:
        if len(formula.plans) >= _PLANS_KEPT:
            formula.plans.clear()
        plan = formula.plans[key] = _plan(formula, layouts, out, work)
    return plan


def execute(device: Device, plan: Plan, operands: Sequence[Operand | int | float], buffer: PooledBuffer) -> None:
    """Launch a plan on operands that fit it, into a buffer that has room for the result (which is not empty)."""
    if not plan.numeric:
        device.run(plan.launch, [buffer, *[x.buffer for x in operands]])  # type: ignore[union-attr]
        return
    buffers: list[Any] = [buffer]
    numbers: list[Any] = []
    place = 0
    for x in operands:
        if isinstance(x, (int, float)):
            if type(x) is float and plan.range >= x >= -plan.range and place not in plan.conditions:
                numbers.append(x)
            else:
                numbers.append(_number(bool(x) if place in plan.conditions else x, plan.work))
        else:
            buffers.append(x.buffer)
        place += 1
    device.run(plan.launch, buffers, numbers)


def _number(value: float, work: np.dtype) -> int | float:
    if work.kind == "f":
        if work == np.float32 and abs(value) > _FLOAT32_MAX:
            return math.inf if value > 0 else -math.inf  # pyopencl would raise for what C makes infinite
        try:
            return float(value)
        except OverflowError:
            raise DTypeError(f"an integer of {int(value).bit_length()} bits does not fit {work}") from None
    if work.kind == "b":
        return int(bool(value))
    limits = np.iinfo(work)
    if not limits.min <= value <= limits.max:
        raise DTypeError(f"the number {value!r} does not fit {work}")
    return int(value)


def _plan(formula: Formula, layouts: Sequence[Layout | None], out: Layout, work: np.dtype) -> Plan:
    """Choose how each operand is read, and write the kernel."""
    scattered = not (out.contiguous and out.offset == 0)
    accesses = [_access(layout, out, scattered) for layout in layouts]
    stretched = [
        broadcast_to(layout, out.shape)
        for layout, access in zip(layouts, accesses, strict=True)
        if layout is not None and access == "strided"
    ]
    if scattered:
        stretched.insert(0, out)
    lengths, strides = collapse(out.shape, [layout.element_strides for layout in stretched])
    statics: list[int] = [out.size, *lengths[1:]] if stretched else [out.size]
    walks = iter(zip(stretched, strides, strict=True))
    if scattered:
        view, steps = next(walks)
        statics += [view.element_offset, *steps]
    for layout, access in zip(layouts, accesses, strict=True):
        if access == "one" and layout is not None:
            statics.append(layout.element_offset)
        elif access == "strided":
            view, steps = next(walks)
            statics += [view.element_offset, *steps]
    source = _source(formula, layouts, accesses, out.dtype, work, len(lengths), scattered)
    count = layouts.count(None)
    number = np.uint8 if work.kind == "b" else work.type
    arg_types = (*[None] * (1 + len(layouts) - count), *[number] * count)
    launch = Launch(source, "elementwise", arg_types, tuple(statics), out.size, out.size)
    largest = float(np.finfo(work).max) if work.kind == "f" else -1.0
    return Plan(launch, work, count > 0, formula.conditions, largest)


def _access(layout: Layout | None, out: Layout, scattered: bool) -> str:
    """Return how an operand's element is found: a number, at the result's own index, the only one, or by strides."""
    if layout is None:
        return "number"
    if not scattered and layout.shape == out.shape and layout.contiguous and layout.offset == 0:
        return "same"
    return "one" if layout.size == 1 else "strided"


def _source(
    formula: Formula,
    layouts: Sequence[Layout | None],
    accesses: Sequence[str],
    out: np.dtype,
    work: np.dtype,
    rank: int,
    scattered: bool,
) -> str:
    """Write the kernel: operands are v0, v1 … so that equal expressions of different ops share one program."""
    t = ctype(work)
    buffers, numbers, tail, loads = [], [], ["const long n"], []
    target = "i"
    if scattered or "strided" in accesses:
        tail += [f"const long d{axis}" for axis in range(1, rank)]
        loads.append(coordinates("i", [f"d{axis}" for axis in range(rank)]))
    if scattered:
        steps = [f"s_{axis}" for axis in range(rank)]
        tail += [f"const long {name}" for name in ("o_", *steps)]
        target = f"o_ + {dot('i', steps)}"
    for i, (layout, access) in enumerate(zip(layouts, accesses, strict=True)):
        if layout is None:
            numbers.append(f"const {t} v{i}")
            continue
        buffers.append(f"__global const {ctype(layout.dtype)}* p{i}")
        place = "i"
        if access == "one":
            tail.append(f"const long o{i}")
            place = f"o{i}"
        elif access == "strided":
            steps = [f"s{i}_{axis}" for axis in range(rank)]
            tail += [f"const long {name}" for name in (f"o{i}", *steps)]
            place = f"o{i} + {dot('i', steps)}"
        kept = ctype(layout.dtype) if i in formula.conditions else t
        loads.append(f"const {kept} v{i} = ({kept})p{i}[{place}];")
    body = ex.to_c(formula.expr, t, {name: f"v{i}" for i, name in enumerate(formula.variables)})
    store = f"({body}) != 0" if out.kind == "b" else f"({ctype(out)})({body})"
    dtypes = [out, work, *(layout.dtype for layout in layouts if layout is not None)]
    lines = "\n    ".join(loads)
    return f"""{preamble(dtypes)}
__kernel void elementwise(__global {ctype(out)}* out, {", ".join([*buffers, *numbers, *tail])})
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    {lines}
    out[{target}] = {store};
}}
"""
