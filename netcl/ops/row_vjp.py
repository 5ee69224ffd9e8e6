"""How a cotangent goes back through an elementwise op: kernels that follow from the partials of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from netcl import expr as ex
from netcl import layout as lay
from netcl.device import Device
from netcl.kernels import Formula, Plan, prepare
from netcl.launch import Launch
from netcl.layout import Layout, Shape
from netcl.ops.broadcasting import unbroadcast
from netcl.ops.table import Op
from netcl.tensor import Tensor

G = ex.Var("g")
_PLANS_KEPT = 4096  # shapes that change at every call would otherwise pile up

Literals = tuple[tuple[str, float], ...]


def with_literals(e: ex.Expr, literals: Literals) -> ex.Expr:
    """Put numbers that a row has kernels of their own for into an expression of it."""
    return ex.simplify(ex.substitute(e, {name: ex.Num(x) for name, x in literals})) if literals else e


@lru_cache(maxsize=512)
def local(row: Op, arg: str) -> ex.Expr:
    """Return the partial derivative with respect to `arg`, simplified."""
    return ex.simplify(row.partials[arg])


@lru_cache(maxsize=512)
def _product(row: Op, arg: str, literals: Literals) -> ex.Expr:
    return ex.simplify(ex.Call("mul", (G, with_literals(local(row, arg), literals))))


@lru_cache(maxsize=512)
def _formula(row: Op, wanted: tuple[int, ...], literals: Literals) -> Formula:
    return Formula(*[_product(row, row.args[i], literals) for i in wanted])


class RowVJP:
    """How a cotangent is pulled back through a row, in one kernel, to the operands that are wanted.

    Math:    x_bar = unbroadcast(g · ∂out/∂x)
    Shapes:  g and out (*S); each result has its operand's shape and dtype
    """

    __slots__ = ("literals", "lone", "operands", "out", "parents", "plans", "row", "shortest", "sums", "wanted")

    def __init__(
        self, row: Op, operands: Sequence[Layout | None], out: Layout, literals: Literals, wanted: tuple[int, ...]
    ) -> None:
        self.row = row
        self.operands = operands  # their layouts; None for a number
        self.out = out
        self.literals = literals
        self.wanted = wanted
        self.lone = wanted[0] if len(wanted) == 1 else None
        # Takes those that are wanted, as a tuple, out of one that begins with the operands.
        first = wanted[0] if wanted else 0
        self.parents = itemgetter(*wanted) if len(wanted) > 1 else itemgetter(slice(first, first + 1))
        self.plans: dict[Layout, list[_Step]] = {}
        # What most steps come down to, by the cotangent's layout: a launch on one or two tensors, with one result. Or
        # none at all: so many parents get the cotangent itself.
        self.shortest: dict[Layout, tuple[Launch | None, Layout, int, int | None]] = {}
        self.sums: dict[tuple[Layout | None, ...], _Sum | None] = {}

    def pull(self, g: Tensor, given: Sequence[Any]) -> list[Any]:
        """Return one cotangent per wanted operand; given are the buffers of `g`, of the operands, and of the result.

        For an operand that is a number, that is given.
        """
        shortest = self.shortest.get(g.layout)
        if shortest is not None:
            launch, _, count, _ = shortest
            if launch is None:
                return [g] * count
            return [self.pull_one(g.layout, given, g.device, None)]
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

    def pull_one(self, g: Layout, given: Sequence[Any], device: Device, wanted: Layout | None) -> Any:
        """Return what `pull` does for a single operand: a bare block, without its Tensor, if it lies as is wanted.

        `g` is the layout of the cotangent, whose buffer is the first that is given.
        """
        shortest = self.shortest.get(g)
        if shortest is None:
            return self.pull(Tensor(g, given[0], device), given)[0]
        launch, layout, i, j = shortest
        if launch is None:
            block = given[0]
        else:
            block = device.pool.take(layout.room)
            if j is None:
                device.start(launch, (0, block, 1, given[i]))
            else:
                device.start(launch, (0, block, 1, given[i], 2, given[j]))
        return block if layout is wanted else Tensor(layout, block, device)

    def add(self, g: Tensor, given: Sequence[Any], totals: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Return what `pull` does, added to the totals that some have, in one launch. None where that takes more.

        Math:    x_bar = x_bar + g · ∂out/∂x, rounded twice, as by two launches
        """
        key = (g.layout, *[None if total is None else total.layout for total in totals])
        if key not in self.sums:
            if len(self.sums) >= _PLANS_KEPT:
                self.sums.clear()
            self.sums[key] = self._sum(*key)
        found = self.sums[key]
        if found is None:
            return None
        plan, layout, sources, added = found
        chosen = [given[i] for i in sources] + [totals[place].buffer for place in added]  # type: ignore[union-attr]
        return _launched(plan, layout, chosen, len(totals), g.device)

    def _sum(self, g: Layout, *totals: Layout | None) -> _Sum | None:
        """Plan `add` for the layouts of the cotangent and the totals, if one kernel computes all that is wanted."""
        steps = self._steps(g)
        if len(steps) != 1 or steps[0].plan is None or steps[0].stretched or len(steps[0].places) != len(self.wanted):
            return None
        _, layout, sources, *_ = steps[0]
        products = [_product(self.row, self.row.args[i], self.literals) for i in self.wanted]
        names = Formula(*products).variables
        added = [place for place, total in enumerate(totals) if total is not None]
        for place in added:
            products[place] = ex.Call("add", (ex.Var(f"total{place}"), products[place]))
        formula = Formula(*products, variables=(*names, *[f"total{place}" for place in added]))
        layouts = [*self._chosen(g, names), *[totals[place] for place in added]]
        return _Sum(prepare(formula, layouts, layout, self.out.dtype), layout, sources, added)

    def _steps(self, g: Layout) -> list[_Step]:
        """Put into one kernel what has one dtype; where the partial is 1, the cotangent itself is the result."""
        layouts: dict[int, Any] = {-2: g, -1: self.out, **dict(enumerate(self.operands))}
        groups: dict[np.dtype | None, list[int]] = {}
        for place, i in enumerate(self.wanted):
            if self.row.args[i] not in self.row.partials:
                continue
            dtype = layouts[i].dtype
            as_it_is = g.dtype == dtype and _product(self.row, self.row.args[i], self.literals) == G
            groups.setdefault(None if as_it_is else dtype, []).append(place)
        steps = [self._step(dtype, places, layouts) for dtype, places in groups.items()]
        return [step for step in steps if step.plan is not None or step.stretched]

    def _step(self, dtype: np.dtype | None, places: list[int], layouts: Mapping[int, Any]) -> _Step:
        out, names = self.out, self.row.args
        shapes = [layouts[self.wanted[place]].shape for place in places]
        stretched = [(place, shape) for place, shape in zip(places, shapes, strict=True) if shape != out.shape]
        if dtype is None:
            return _Step(None, out, (), places, stretched)
        formula = _formula(self.row, tuple(self.wanted[place] for place in places), self.literals)
        numbers = {"g": 0, "out": -1} | {name: i for i, name in enumerate(names, 1)}
        sources = tuple(numbers[name] for name in formula.variables)
        layout = lay.contiguous(out.shape, dtype)
        plan = prepare(formula, self._chosen(layouts[-2], formula.variables), layout, out.dtype)
        return _Step(plan, layout, sources, places, stretched)

    def _chosen(self, g: Layout, names: Sequence[str]) -> list[Layout | None]:
        known = {"g": g, "out": self.out} | dict(zip(self.row.args, self.operands, strict=True))
        return [known[name] for name in names]


class _Sum(NamedTuple):
    """The launch of `RowVJP.add`: from which of g, the operands and the result, and the totals of which places."""

    plan: Plan
    layout: Layout
    sources: tuple[int, ...]
    added: list[int]


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
            made = _launched(plan, layout, [given[i] for i in sources], len(places), device)
            for place, result in zip(places, made, strict=True):
                results[place] = result
        for place, shape in stretched:
            results[place] = unbroadcast(results[place], shape)


def _launched(plan: Plan, layout: Layout, chosen: Sequence[Any], count: int, device: Device) -> list[Tensor]:
    """Launch a plan on buffers and numbers, unless there is nothing to compute; return its results."""
    buffers = [device.pool.allocate(layout.nbytes) for _ in range(count)]
    results = [Tensor(layout, buffer, device) for buffer in buffers]
    if layout.size:
        buffers += [x for x in chosen if not isinstance(x, (int, float))]
        device.run(plan.launch, buffers, plan.numbers(chosen) if plan.numeric else ())
    return results
