"""One kernel per elementwise formula and pattern of operands: a work-item per element, broadcasting by strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl.device import LARGEST_GROUP, Device
from netcl.errors import DTypeError
from netcl.kernels.source import (
    Operand,
    coordinates,
    ctype,
    dot,
    packed,
    preamble,
    quotients,
)
from netcl.launch import Launch
from netcl.layout import Layout, broadcast_to, collapse
from netcl.memory import Block

_FLOAT32_MAX = float(np.finfo(np.float32).max)
# Which element a work-item computes, before and after the lines that do it. What stands under `if (i < n)` PoCL does
# not vectorise well, so the last group of many is moved back over the one before, and computes some elements again.
_LINE = "\n    "
_GUARDED = ("const long i = get_global_id(0);\n    if (i >= n) return;", "")
_MOVED_BACK = (
    """const long span = get_local_size(0) * NETCL_PER_ITEM;
    const long first = get_group_id(0) * span, last = n - span;
#if NETCL_PER_ITEM > 1
    #pragma unroll
    for (int each = 0; each < NETCL_PER_ITEM; each++) {
#else
    { const int each = 0;
#endif
    const long i = (first < last ? first : last) + each * get_local_size(0) + get_local_id(0);""",
    "\n    }",
)
_PLANS_KEPT = 4096  # per formula; shapes that change at every step would otherwise pile up


class Plan:
    """A prepared launch, and how the numbers among the operands are passed to it."""

    __slots__ = ("conditions", "launch", "numeric", "range", "work")

    def __init__(self, launch: Launch, work: np.dtype, numeric: Sequence[int], conditions: frozenset[int]) -> None:
        self.launch = launch
        self.work = work
        self.numeric = tuple(numeric)  # which operands are numbers
        self.conditions = conditions.intersection(numeric)
        self.range = float(np.finfo(work).max) if work.kind == "f" else -1.0  # floats up to here pass as they are

    def execute(self, device: Device, operands: Sequence[Operand | int | float], results: list[Block]) -> None:
        """Launch on operands that fit, into one buffer for each expression, with room for its result (not empty)."""
        buffers = [*results, *[x.buffer for x in operands if not isinstance(x, (int, float))]]
        device.run(self.launch, buffers, self.numbers(operands) if self.numeric else ())

    def numbers(self, operands: Sequence[Any]) -> list[int | float]:
        """Return the numbers among the operands as the kernel takes them."""
        numbers: list[Any] = []
        for place in self.numeric:
            x = operands[place]
            if type(x) is not float or not self.range >= x >= -self.range or place in self.conditions:
                x = _number(bool(x) if place in self.conditions else x, self.work)
            numbers.append(x)
        return numbers


class Formula:
    """Expressions that one kernel computes on a device, with the plans of the launches seen so far.

    Each expression has a result of its own, all of one layout. `variables` is the order in which operands are passed;
    `conditions` are those that only choose: they are not converted to the dtype of the computation, in which 0.5 or
    256 could become 0.
    """

    __slots__ = ("conditions", "exprs", "plans", "variables")

    def __init__(self, *exprs: ex.Expr, variables: Sequence[str] | None = None) -> None:
        self.exprs = exprs
        names = dict.fromkeys(name for e in exprs for name in ex.variables(e))
        self.variables = tuple(names if variables is None else variables)
        self.conditions = frozenset(
            i for i, name in enumerate(self.variables) if all(_only_chooses(name, e) for e in exprs)
        )
        self.plans: dict[Any, Plan] = {}

    def __repr__(self) -> str:
        return f"Formula({', '.join(map(ex.to_text, self.exprs))})"


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
    into: Block | None = None,
) -> Block:
    """Compute an expression for every element; return the buffer of the result.

    Math:    out[i] = expression of the operands at i, computed in dtype `work`, stored in out's dtype
    Shapes:  each tensor operand broadcasts to out.shape; a Python number is the same everywhere;
             with `into`, out may be a view of that buffer, and only the elements of the view are written
    Raises:  DTypeError if a number does not fit an integer `work` dtype
    """
    buffer = device.pool.allocate(out.nbytes) if into is None else into
    if not out.size:
        return buffer
    layouts = [None if isinstance(x, (int, float)) else x.layout for x in operands]
    in_place = any(into is x.buffer for x in operands if not isinstance(x, (int, float)))
    plan = prepare(formula, layouts, out, work, in_place=in_place)
    plan.execute(device, operands, [buffer])
    return buffer


def prepare(
    formula: Formula, layouts: Sequence[Layout | None], out: Layout, work: np.dtype, *, in_place: bool = False
) -> Plan:
    """Return the plan for operands of these layouts (None for a number), made at first need.

    `in_place`: the result lies in the buffer of an operand, so that no element may be computed twice.
    """
    key = (out, work, in_place, *layouts)
    plan = formula.plans.get(key)
    if plan is None:
        if len(formula.plans) >= _PLANS_KEPT:
            formula.plans.clear()
        plan = formula.plans[key] = _plan(formula, layouts, out, work, in_place)
    return plan


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


def _plan(formula: Formula, layouts: Sequence[Layout | None], out: Layout, work: np.dtype, in_place: bool) -> Plan:
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
    divisors = quotients(out.size, lengths[1:])
    statics: list[int] = [out.size, *lengths[1:], *(divisors or ())] if stretched else [out.size]
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
    whole = out.size >= LARGEST_GROUP and not in_place
    frame = _MOVED_BACK if whole else _GUARDED
    source = _source(formula, layouts, accesses, out.dtype, work, len(lengths), divisors is not None, scattered, frame)
    count = layouts.count(None)
    number = np.uint8 if work.kind == "b" else work.type
    arg_types = (*[None] * (len(formula.exprs) + len(layouts) - count), *[number] * count)
    launch = Launch(source, "elementwise", arg_types, tuple(statics), out.size, out.size, several=whole, packed=True)
    numeric = [i for i, layout in enumerate(layouts) if layout is None]
    return Plan(launch, work, numeric, formula.conditions)


def _access(layout: Layout | None, out: Layout, scattered: bool) -> str:
    """Return how an operand's element is found: a number, at the result's own index, the only one, or by strides."""
    if layout is None:
        return "number"
    if not scattered and layout.shape == out.shape and layout.contiguous and layout.offset == 0:
        return "same"
    return "one" if layout.single else "strided"


def _source(
    formula: Formula,
    layouts: Sequence[Layout | None],
    accesses: Sequence[str],
    out: np.dtype,
    work: np.dtype,
    rank: int,
    multiplied: bool,
    scattered: bool,
    frame: tuple[str, str],
) -> str:
    """Write the kernel: operands are v0, v1 … so that equal expressions of different ops share one program."""
    t = ctype(work)
    alone = "restrict " if frame is _MOVED_BACK else ""  # results are in no operand's buffer: loads need not wait
    buffers, numbers, tail, loads = [], [], ["n"], []
    target = "i"
    if scattered or "strided" in accesses:
        tail += [f"d{axis}" for axis in range(1, rank)]
        if multiplied:
            tail += [f"{name}_d{axis}" for axis in range(1, rank) for name in "ms"]
        loads.append(coordinates("i", [f"d{axis}" for axis in range(rank)], multiplied=multiplied))
    if scattered:
        steps = [f"s_{axis}" for axis in range(rank)]
        tail += ["o_", *steps]
        target = f"o_ + {dot('i', steps)}"
    for i, (layout, access) in enumerate(zip(layouts, accesses, strict=True)):
        if layout is None:
            numbers.append(f"const {t} v{i}")
            continue
        buffers.append(f"__global const {ctype(layout.dtype)}* {alone}p{i}")
        place = "i"
        if access == "one":
            tail.append(f"o{i}")
            place = f"o{i}"
        elif access == "strided":
            steps = [f"s{i}_{axis}" for axis in range(rank)]
            tail += [f"o{i}", *steps]
            place = f"o{i} + {dot('i', steps)}"
        kept = ctype(layout.dtype) if i in formula.conditions else t
        loads.append(f"const {kept} v{i} = ({kept})p{i}[{place}];")
    outs = ["out"] if len(formula.exprs) == 1 else [f"out{i}" for i in range(len(formula.exprs))]
    stores = []
    for name, e in zip(outs, formula.exprs, strict=True):
        body = ex.to_c(e, t, {name: f"v{i}" for i, name in enumerate(formula.variables)})
        stores.append(f"{name}[{target}] = " + (f"({body}) != 0;" if out.kind == "b" else f"({ctype(out)})({body});"))
    dtypes = [out, work, *(layout.dtype for layout in layouts if layout is not None)]
    lines = "\n    ".join([*loads, *stores])
    results = [f"__global {ctype(out)}* {alone}{name}" for name in outs]
    begin, end = frame
    struct, parameter, variables = packed(tail)
    return f"""{preamble(dtypes, lines)}{struct}
__kernel void elementwise({", ".join([*results, *buffers, *numbers, parameter])})
{{
    {variables and variables + _LINE}{begin}
    {lines}{end}
}}
"""
