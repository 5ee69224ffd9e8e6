"""How a cotangent goes back through an elementwise op: kernels that follow from the partials of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netcl import expr as ex
from netcl import layout as lay
from netcl.device import Device, Launch
from netcl.kernels import Formula, Plan, prepare
from netcl.layout import Layout, Shape
from netcl.memory import NO_ROOM
from netcl.ops.broadcasting import unbroadcast
from netcl.tensor import Tensor

if TYPE_CHECKING:
    from netcl.ops.rows import Case, Row

G = ex.Var("g")
_PLANS_KEPT = 4096  # shapes that change at every call would otherwise pile up

Literals = tuple[tuple[str, float], ...]


def with_literals(e: ex.Expr, literals: Literals) -> ex.Expr:
    """Put numbers that a row has kernels of their own for into an expression of it."""
    return ex.simplify(ex.substitute(e, {name: ex.Num(x) for name, x in literals})) if literals else e


@lru_cache(maxsize=512)
def local(row: Row, arg: str) -> ex.Expr:
    """Return the partial derivative with respect to `arg`, simplified."""
    return ex.simplify(row.partials[arg])


@lru_cache(maxsize=512)
def _product(row: Row, arg: str, literals: Literals) -> ex.Expr:
    return ex.simplify(ex.Call("mul", (G, with_literals(local(row, arg), literals))))


@lru_cache(maxsize=512)
def _formula(row: Row, wanted: tuple[int, ...], literals: Literals) -> Formula:
    return Formula(*[_product(row, row.args[i], literals) for i in wanted])


class RowVJP:
    """How a cotangent is pulled back through a row, in one kernel, to the operands that are wanted.

    Math:    x_bar = unbroadcast(g · ∂out/∂x)
    Shapes:  g and out (*S); each result has its operand's shape and dtype
    """

    __slots__ = ("case", "parents", "plans", "row", "shortest", "wanted")

    def __init__(self, case: Case, wanted: tuple[int, ...]) -> None:
        self.case = case
        self.row = case.row
        self.wanted = wanted
        # Takes those that are wanted, as a tuple, out of one that begins with the operands.
        first = wanted[0] if wanted else 0
        self.parents = itemgetter(*wanted) if len(wanted) > 1 else itemgetter(slice(first, first + 1))
        self.plans: dict[Layout, list[_Step]] = {}
        # What most steps come down to, by the cotangent's layout: a launch on one or two tensors, with one result. Or
        # none at all: so many parents get the cotangent itself.
        self.shortest: dict[Layout, tuple[Launch | None, Layout, int, int | None]] = {}

    def pull(self, g: Tensor, given: Sequence[Any]) -> list[Any]:
        """Return one cotangent per wanted operand; given are the buffers of `g`, of the operands, and of the result.

        For an operand that is a number, that is given.
        """
        shortest = self.shortest.get(g.layout)
        if shortest is not None:
            launch, layout, i, j = shortest
            if launch is None:
                return [g] * i
            device = g.device
            try:
                take = device.take
                buffer = take(layout.room)
            except NO_ROOM:
                buffer = device.pool.allocate(layout.nbytes)  # which says so
            if j is None:
                device.start(launch, (0, buffer, 1, given[i]))
            else:
                device.start(launch, (0, buffer, 1, given[i], 2, given[j]))
            return [Tensor(layout, buffer, device)]
        steps = self.plans.get(g.layout)
        if steps is None:
            if len(self.plans) >= _PLANS_KEPT:
                self.plans.clear()
                self.shortest.clear()
            steps = self.plans[g.layout] = self._steps(g.layout)
            if not steps and all(self.row.args[i] in self.row.partials for i in self.wanted):
                self.shortest[g.layout] = None, g.layout, len(self.wanted), None
            elif len(steps) == len(self.wanted) == 1:
                plan, layout, sources, _, stretched = steps[0]
                simple = layout.size > 0 and not stretched and 1 <= len(sources) <= 2
                if simple and plan is not None and not plan.numeric:
                    self.shortest[g.layout] = plan.launch, layout, sources[0], sources[1] if len(sources) > 1 else None
        # An operand that only chooses gets none.
        results: list[Any] = [g if self.row.args[i] in self.row.partials else None for i in self.wanted]
        for step in steps:
            step.run(given, results, g.device)
        return results

    def _steps(self, g: Layout) -> list[_Step]:
        """Put into one kernel what has one dtype; where the partial is 1, the cotangent itself is the result."""
        layouts: dict[int, Any] = {-2: g, -1: self.case.out, **dict(enumerate(self.case.layouts))}
        groups: dict[np.dtype | None, list[int]] = {}
        for place, i in enumerate(self.wanted):
            if self.row.args[i] not in self.row.partials:
                continue
            dtype = layouts[i].dtype
            as_it_is = g.dtype == dtype and _product(self.row, self.row.args[i], self.case.literals) == G
            groups.setdefault(None if as_it_is else dtype, []).append(place)
        steps = [self._step(dtype, places, layouts) for dtype, places in groups.items()]
        return [step for step in steps if step.plan is not None or step.stretched]

    def _step(self, dtype: np.dtype | None, places: list[int], layouts: Mapping[int, Any]) -> _Step:
        out, names = self.case.out, self.row.args
        shapes = [layouts[self.wanted[place]].shape for place in places]
        stretched = [(place, shape) for place, shape in zip(places, shapes, strict=True) if shape != out.shape]
        if dtype is None:
            return _Step(None, out, (), places, stretched)
        formula = _formula(self.row, tuple(self.wanted[place] for place in places), self.case.literals)
        given = {"g": layouts[-2], "out": out} | {name: layouts[i] for i, name in enumerate(names)}
        numbers = {"g": 0, "out": -1} | {name: i for i, name in enumerate(names, 1)}
        sources = tuple(numbers[name] for name in formula.variables)
        layout = lay.contiguous(out.shape, dtype)
        plan = prepare(formula, [given[name] for name in formula.variables], layout, out.dtype)
        return _Step(plan, layout, sources, places, stretched)


class _Step(NamedTuple):
    """One launch of a pullback: what it computes for which places, from which of g, the operands and the result."""

    plan: Plan | None  # None: the cotangent itself is the result
    layout: Layout
    sources: tuple[int, ...]
    places: list[int]
    stretched: list[tuple[int, Shape]]  # the places where a sum over stretched axes follows

    def run(self, given: Sequence[Any], results: list[Any], device: Device) -> None:
        """Put the cotangents into their places among the results."""
        plan, layout, sources, places, stretched = self
        if plan is not None:
            buffers = []
            for place in places:
                buffer = device.pool.allocate(layout.nbytes)
                buffers.append(buffer)
                results[place] = Tensor(layout, buffer, device)
            chosen = [given[i] for i in sources]
            buffers += [x for x in chosen if not isinstance(x, (int, float))]
            if layout.size:
                device.run(plan.launch, buffers, plan.numbers(chosen) if plan.numeric else ())
        for place, shape in stretched:
            results[place] = unbroadcast(results[place], shape)
