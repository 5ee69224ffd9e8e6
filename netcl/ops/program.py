"""Programs: rows of the table one after another on the same elements, perhaps summed at the end, as a kernel each way.

What a fused function is made of. The forward kernel has a local variable per row; that of the VJP computes them again
and has one for the cotangent of each, so it needs no more than the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from netcl import expr as ex
from netcl import layout as lay
from netcl.device import Device
from netcl.kernels import reduce
from netcl.kernels.fused import Grid, Groups, Input, Line, Result, Term, fuse, number
from netcl.kernels.source import Part
from netcl.launch import Launch
from netcl.layout import Layout, Shape
from netcl.ops.broadcasting import unbroadcast
from netcl.ops.dtypes import BOOL
from netcl.ops.reduce import kept_shape
from netcl.ops.row_vjp import G, local
from netcl.ops.rows import Row, is_literal, signature
from netcl.ops.table import OPS
from netcl.tensor import Tensor

_PLANS_KEPT = 1024  # per program; shapes that change at every call would otherwise pile up


class Step(NamedTuple):
    """A row and where its operands are: the result of step k is k, input k is ~k, and a number in the source itself."""

    row: Row
    args: tuple[int | ex.Num, ...]


class Total(NamedTuple):
    """The sum or mean that ends a program: over trailing axes, all of them for None."""

    kind: str
    axis: tuple[int, ...] | None
    keepdims: bool


class Typed(NamedTuple):
    """What the layouts of the inputs decide: the shape of all steps, the dtype that each is computed and kept in."""

    shape: Shape
    works: list[Any]
    dtypes: list[Any]
    out: Layout
    rows: int | None


class Plan(NamedTuple):
    """A launch, what it writes, and how: the numbers' dtypes by input, and the grid of its sums."""

    launch: Launch
    grid: Grid
    numbers: dict[int, Any]
    tensors: list[int]


def literal(row: Row, x: Any) -> ex.Num | None:
    """Return a number as it is written into the source, for those that the row itself has kernels of their own for."""
    return ex.Num(x) if is_literal(row, x) else None


class Program:
    """Steps of one shape, on which inputs broadcast."""

    def __init__(self, steps: tuple[Step, ...], inputs: int, total: Total | None) -> None:
        self.steps = steps
        self.inputs = inputs
        self.total = total
        self._plans: dict[Any, Any] = {}

    def __len__(self) -> int:
        """How many ops it has."""
        return len(self.steps) + (self.total is not None)

    def __repr__(self) -> str:
        rows = [step.row.name for step in self.steps]
        return f"<Program {' '.join([*rows, self.total.kind] if self.total else rows)}>"

    @cached_property
    def active(self) -> frozenset[int]:
        """The inputs on which the result depends through rows that have a partial for them."""
        reached = {len(self.steps) - 1}
        found = set()
        for k in range(len(self.steps) - 1, -1, -1):
            step = self.steps[k]
            if k not in reached or step.row.returns_bool:
                continue
            for arg, place in zip(step.row.args, step.args, strict=True):
                if arg in step.row.partials and isinstance(place, int):
                    (reached if place >= 0 else found).add(place if place >= 0 else ~place)
        return frozenset(found)

    # Running

    def run(self, values: Sequence[Any]) -> Tensor:
        """Compute the result from tensors and numbers, in one launch and what is left to add of its sums."""
        device = _device(values)
        groups = Groups(device.kind == "CPU", device.large_local_size)
        key = (groups, *_key(values))
        found = self._plans.get(key)
        if found is None:
            found = self._keep(key, self._forward(values, groups=groups))
        typed, plan = found
        out = typed.out
        if plan is None:
            return Tensor(out, device.pool.allocate(out.nbytes), device)
        if self.total is None:
            buffer = device.pool.allocate(out.nbytes)
            _launch(device, plan, [buffer], values)
            return Tensor(out, buffer, device)
        return self._summed(device, plan, values, out, 1 if typed.rows is not None else plan.grid.rows)

    def _summed(self, device: Device, plan: Plan, values: Sequence[Any], out: Layout, rows: int) -> Tensor:
        """Launch, and add up the partial sums: those of each row, or of all rows together."""
        parts = lay.contiguous((out.size, plan.grid.parts * rows), out.dtype)
        buffer = device.pool.allocate(parts.nbytes)
        _launch(device, plan, [buffer], values)
        return Tensor(out, _added(device, parts, buffer, out), device)

    def pull(self, g: Tensor, values: Sequence[Any], wanted: Sequence[int]) -> list[Tensor]:
        """Pull a cotangent of the result back to the inputs that are wanted, in one launch.

        Math:    x_bar = unbroadcast(Σ over the paths from x to the result of g · the product of the partials along it)
        Shapes:  g as the result; each cotangent has the shape and dtype of its input
        """
        device = g.device
        groups = Groups(device.kind == "CPU", device.large_local_size)
        key = (groups, *_key(values), g.layout, *wanted)
        found = self._plans.get(key)
        if found is None:
            found = self._keep(key, self._backward(g.layout, values, wanted, groups=groups))
        plan, layouts = found
        buffers = [device.pool.allocate(layout.nbytes) for layout in layouts]
        if plan is not None:
            _launch(device, plan, buffers, [*values, g])
        results = []
        for i, layout, buffer in zip(wanted, layouts, buffers, strict=True):
            shape = values[i].shape
            if layout.shape == shape:
                results.append(Tensor(layout, buffer, device))
            elif values[i].size == 1 and plan is not None:
                single = lay.contiguous(shape, layout.dtype)
                results.append(Tensor(single, _added(device, layout, buffer, single), device))
            else:
                results.append(unbroadcast(Tensor(layout, buffer, device), shape))
        return results

    def replay(self, operands: Sequence[Any], each: Callable[[int, Any], None] | None = None) -> Any:
        """Run the program op by op on anything that ops take; `each` is told the number and result of every step."""
        results: list[Any] = []
        for k, step in enumerate(self.steps):
            args = [
                place.value if isinstance(place, ex.Num) else results[place] if place >= 0 else operands[~place]
                for place in step.args
            ]
            results.append(step.row(*args))
            if each is not None:
                each(k, results[-1])
        if self.total is None:
            return results[-1]
        out = OPS[self.total.kind](results[-1], self.total.axis, self.total.keepdims)
        if each is not None:
            each(len(self.steps), out)
        return out

    # Plans

    def _keep(self, key: Any, plan: Any) -> Any:
        if len(self._plans) >= _PLANS_KEPT:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    def typed(self, values: Sequence[Any]) -> Typed:
        """Work out shape and dtypes for such inputs.

        Raises:  ShapeError or DTypeError as the ops would
        """
        results: list[Any] = []
        works = []
        for step in self.steps:
            args = [
                place.value if isinstance(place, ex.Num) else results[place] if place >= 0 else values[~place]
                for place in step.args
            ]
            layout, work = signature(step.row, args)
            works.append(work)
            results.append(ghost(layout))
        last = results[-1].layout
        out, rows = last, None
        if self.total is not None:
            axes = lay.normalize_axes(self.total.kind, self.total.axis, last.ndim)
            rows = math.prod(last.shape[: last.ndim - len(axes)]) if self.total.axis is not None else None
            out = lay.contiguous(total_shape(last.shape, axes, self.total.keepdims), last.dtype)
        return Typed(last.shape, works, [each.dtype for each in results], out, rows)

    def _forward(self, values: Sequence[Any], *, groups: Groups) -> tuple[Typed, Plan | None]:
        typed = self.typed(values)
        if not math.prod(typed.shape):
            return typed, None
        inputs, lines = self._inputs(values, typed), self._lines(typed)
        total = self.total
        result = Result(lines[-1].name, total is not None, total is not None and total.kind == "mean")
        return typed, self._fuse("fused", typed, inputs, lines, [result], groups)

    def _fuse(
        self, name: str, typed: Typed, inputs: list[Input], lines: list[Line], results: list[Result], groups: Groups
    ) -> Plan:
        launch, grid = fuse(name, typed.shape, inputs, lines, results, groups=groups, rows=typed.rows)
        numbers = {k: x.dtype for k, x in enumerate(inputs) if x.layout is None}
        return Plan(launch, grid, numbers, [k for k in range(len(inputs)) if k not in numbers])

    def _inputs(self, values: Sequence[Any], typed: Typed) -> list[Input]:
        """Name the inputs; a number has the dtype of the one step that takes it, or is a truth value that chooses."""
        numbers: dict[int, Any] = {}
        for step, work in zip(self.steps, typed.works, strict=True):
            for arg, place in zip(step.row.args, step.args, strict=True):
                if isinstance(place, int) and place < 0:
                    numbers[~place] = BOOL if arg == step.row.mask else work
        return [Input(f"x{k}", x.layout if isinstance(x, Tensor) else None, numbers[k]) for k, x in enumerate(values)]

    def _names(self, k: int) -> dict[str, str]:
        """The variables of the kernel that the names of a row stand for."""
        step = self.steps[k]
        names = {
            arg: f"x{~place}" if place < 0 else f"t{place}"
            for arg, place in zip(step.row.args, step.args, strict=True)
            if isinstance(place, int)
        }
        return names | {"out": f"t{k}", "g": f"g{k}"}

    def _lines(self, typed: Typed) -> list[Line]:
        """A variable for the result of each step."""
        lines = []
        for k, step in enumerate(self.steps):
            term = self._term(k, step.row.expr, typed)
            lines.append(Line(f"t{k}", [term], typed.dtypes[k]))
        return lines

    def _term(self, k: int, e: ex.Expr, typed: Typed) -> Term:
        step = self.steps[k]
        numbers: dict[str, ex.Expr] = {
            arg: place for arg, place in zip(step.row.args, step.args, strict=True) if isinstance(place, ex.Num)
        }
        if numbers:
            e = ex.simplify(ex.substitute(e, numbers))
        names = self._names(k)
        return Term(e, typed.works[k], {name: names[name] for name in ex.variables(e)})

    def _backward(
        self, g: Layout, values: Sequence[Any], wanted: Sequence[int], *, groups: Groups
    ) -> tuple[Plan | None, list[Layout]]:
        typed = self.typed(values)
        if not math.prod(typed.shape):
            return None, [lay.contiguous(typed.shape, values[i].dtype) for i in wanted]
        if self.total is not None:
            axes = lay.normalize_axes(self.total.kind, self.total.axis, len(typed.shape))
            kept = lay.reshape(g, kept_shape(typed.shape, axes))
            assert kept is not None, "an axis of length 1 can be put anywhere"
            g = kept
        inputs = [*self._inputs(values, typed), Input("g", g, g.dtype)]
        lines = [*self._lines(typed), *self._cotangents(values, typed, wanted)]
        size = math.prod(typed.shape)
        results = [Result(f"b{i}", summed=values[i].size == 1 and size > 1) for i in wanted]
        plan = self._fuse("fused_vjp", typed, inputs, lines, results, groups)
        sums = (1, plan.grid.rows * plan.grid.parts)
        layouts = []
        for i, result in zip(wanted, results, strict=True):
            full = values[i].shape if values[i].size == size else typed.shape
            layouts.append(lay.contiguous(sums if result.summed else full, values[i].dtype))
        return plan, layouts

    def _cotangents(self, values: Sequence[Any], typed: Typed, wanted: Sequence[int]) -> list[Line]:
        """A variable for the cotangent of each step on the way to an input that is wanted, the last step first."""
        leads = self._leading(wanted, typed)
        terms: dict[int, list[Term]] = {}
        last = len(self.steps) - 1
        first = "g / n" if self.total is not None and self.total.kind == "mean" else "g"
        names = {"g": "g", "n": "count"} if first != "g" else {"g": "g"}
        terms[last] = [Term(ex.parse(first), typed.dtypes[last], names)]
        lines = []
        for k in range(last, -1, -1):
            if k not in leads or k not in terms:
                continue
            lines.append(Line(f"g{k}", terms[k], typed.dtypes[k]))
            row = self.steps[k].row
            for arg, place in zip(row.args, self.steps[k].args, strict=True):
                if arg in row.partials and place in leads:
                    product = ex.simplify(ex.Call("mul", (G, local(row, arg))))
                    terms.setdefault(place, []).append(self._term(k, product, typed))  # type: ignore[arg-type]
        return [*lines, *[Line(f"b{i}", terms[~i], values[i].dtype) for i in wanted]]

    def _leading(self, wanted: Sequence[int], typed: Typed) -> set[Any]:
        """The places (see Step) from which the cotangent of an input that is wanted can be reached."""
        leads: set[Any] = {~i for i in wanted}
        for k, step in enumerate(self.steps):
            pairs = zip(step.row.args, step.args, strict=True)
            if typed.dtypes[k].kind == "f" and any(arg in step.row.partials and place in leads for arg, place in pairs):
                leads.add(k)
        return leads


def total_shape(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """Return the shape that is left of another after axes were summed."""
    return kept_shape(shape, axes) if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)


def ghost(layout: Layout) -> Tensor:
    """Return a tensor without elements to read, for what only the layout decides."""
    return Tensor(layout, None, None)  # type: ignore[arg-type]


def _device(values: Sequence[Any]) -> Device:
    return next(x.device for x in values if isinstance(x, Tensor))


def _key(values: Sequence[Any]) -> list[Any]:
    return [x.layout if type(x) is Tensor else type(x) for x in values]


def _launch(device: Device, plan: Plan, results: Sequence[Any], values: Sequence[Any]) -> None:
    buffers = [*results, *[values[k].buffer for k in plan.tensors]]
    device.run(plan.launch, buffers, [number(values[k], dtype) for k, dtype in plan.numbers.items()])


def _added(device: Device, parts: Layout, buffer: Any, out: Layout) -> Any:
    """Add up the partial sums of each row; the buffer itself if there is one each."""
    return buffer if parts.shape[1] == 1 else reduce(device, "sum", Part(parts, buffer), (1,), out)


_PROGRAMS: dict[Any, Program] = {}


def program(steps: tuple[Step, ...], inputs: int, total: Total | None) -> Program:
    """Return the program of these steps, the same one each time."""
    key = (steps, inputs, total)
    found = _PROGRAMS.get(key)
    if found is None:
        if len(_PROGRAMS) >= _PLANS_KEPT:
            _PROGRAMS.clear()
        found = _PROGRAMS[key] = Program(steps, inputs, total)
    return found
