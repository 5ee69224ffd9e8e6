"""One entry of a tensor followed alone: which entries it reaches on the way to the loss, and its own arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.frames import Look, Masks
from netcl.viz.nudge import entry_text
from netcl.viz.panels import Line
from netcl.viz.replay import Link, Replay, contributions
from netcl.viz.values import ArrayView, number

MOST_ENTRIES = 64  # of a tensor whose Jacobian is worth writing out
_MOST_TERMS = 3
_HIDDEN = "·"


@dataclass(frozen=True)
class Trail:
    """The way of one entry. `involved` are flat indices by card, `lines` the arithmetic by step.

    `lost` says where the way could not be followed further.
    """

    card: int
    index: int
    involved: Mapping[int, frozenset[int]]
    lines: Mapping[int, Line]
    notes: Mapping[int, str] = field(default_factory=dict)
    lost: str = ""

    def look(self, run: Replay, at: int) -> Look:
        """The frame of a step with every number left out that is not on this way."""
        masks: dict[int, tuple[ArrayView | None, ArrayView | None]] = {}
        for card in run.view.cards:
            if card.kind == "constant" or card.value is None:
                continue
            keep = self.involved.get(card.key, frozenset())
            slot = run.passage.slot(card, at)
            shown = slot.array if slot is not None else None
            masks[card.key] = (masked(card.value, keep), masked(shown, keep) if shown is not None else None)
        found: Masks = masks
        return Look(at, masks=found, notes=self.notes)


def masked(array: ArrayView, keep: frozenset[int]) -> ArrayView:
    """An array with all but some of its entries left out; a large one is left as it is.

    >>> masked(ArrayView((2,), "float32", (("1", "2"),), ((0.5, 1.0),)), frozenset({1})).cells
    (('·', '2'),)
    """
    if not array.cells or not array.shape:
        return array
    columns = len(array.cells[0])
    cells = tuple(
        tuple(text if i * columns + j in keep else _HIDDEN for j, text in enumerate(row))
        for i, row in enumerate(array.cells)
    )
    tints = tuple(
        tuple(tint if i * columns + j in keep else 0.0 for j, tint in enumerate(row))
        for i, row in enumerate(array.tints)
    )
    return replace(array, cells=cells, tints=tints)


def follow(run: Replay, card: int, index: int) -> Trail:
    """Follow entry `index` (counted row by row) of a card's tensor from there to the loss."""
    involved: dict[int, set[int]] = {card: {index}}
    jacobians: dict[int, np.ndarray] = {}
    lost = ""
    for edge in sorted(run.view.edges, key=lambda edge: (edge.child, edge.key)):
        source = run.passage.owners.get(edge.parent, edge.parent)
        if source not in involved or edge.key not in run.links:
            continue
        jacobian = _jacobian(run.links[edge.key])
        if jacobian is None:
            lost = f"{run.view.card(edge.child).name} has too many entries to follow one further"
            continue
        jacobians[edge.key] = jacobian
        reached = np.flatnonzero(jacobian[:, sorted(involved[source])].any(axis=1))
        involved.setdefault(edge.child, set()).update(int(i) for i in reached)
    lines, notes = {}, {}
    for step in run.passage.steps[1:]:
        assert step.edge is not None
        mine = involved.get(step.target, set())
        if not mine or step.edge not in run.arrays:
            continue
        if len(mine) > 1:
            rule = step.rule.removeprefix("upstream ")
            lines[step.number] = Line(rule, f"{len(mine)} entries are on its way")
            continue
        (entry,) = mine
        product = _product(run, step.edge, jacobians.get(step.edge), entry)
        lines[step.number] = Line(product, _total(step.was, run.arrays[step.edge], step.now, entry))
        notes[step.edge] = product
    return Trail(card, index, {key: frozenset(found) for key, found in involved.items()}, lines, notes, lost)


def heading(run: Replay, trail: Trail, card: int) -> str:
    """The caption of the ledger of a card: of its one entry on the way, if it is one."""
    found, mine = run.view.card(card), trail.involved.get(card, frozenset())
    if not mine:
        return f"{found.name} is not on the way of this entry"
    if len(mine) > 1 or not found.caption:
        return ""
    entry = entry_text(found.shape, next(iter(mine)))
    name = f"({found.name})" if " " in found.name and not found.name.endswith(")") else found.name
    return f"What has reached {name}{entry} ({found.caption}{entry})"


def _jacobian(link: Link) -> np.ndarray | None:
    """The derivative of every entry of an op's result by every entry of one operand, one pull of its rule a row."""
    child = link.child
    count, width = child.value.size, child.parents[link.nth].value.size
    if count > MOST_ENTRIES or width > MOST_ENTRIES * MOST_ENTRIES:
        return None
    rows = np.zeros((count, width))
    for j in range(count):
        one = np.zeros(count, child.value.dtype)
        one[j] = 1
        pulled = contributions(child, Tensor.from_host(one.reshape(child.value.shape), device=child.value.device))
        tensor = pulled[link.nth]
        if tensor is not None:
            rows[j] = tensor.to_host().reshape(-1)
    return rows


def _product(run: Replay, edge: int, jacobian: np.ndarray | None, entry: int) -> str:
    """`3 × 12 = 36`: upstream times local derivative, summed where several entries of the result read this one."""
    result = number(float(run.arrays[edge].reshape(-1)[entry]))
    if jacobian is None:
        return f"→ {result}"
    upstream = gradient(run.links[edge].child).to_host().reshape(-1)
    terms = [(float(upstream[j]), float(jacobian[j, entry])) for j in np.flatnonzero(jacobian[:, entry])]
    if not terms:
        return "no entry reads it → 0"
    if len(terms) > _MOST_TERMS:
        return f"{len(terms)} products, summed → {result}"
    return " + ".join(f"{number(g)} × {_factor(local)}" for g, local in terms) + f" → {result}"


def _factor(value: float) -> str:
    return f"({number(value)})" if value < 0 else number(value)


def _total(was: ArrayView | None, contribution: np.ndarray, now: ArrayView | None, entry: int) -> str:
    came = float(contribution.reshape(-1)[entry])
    before = "0" if was is None else _entry(was, entry)
    after = _entry(now, entry) if now is not None else "…"
    return f"{before} + {_factor(came)} = {after}"


def _entry(array: ArrayView, entry: int) -> str:
    return number(float(array.numbers.reshape(-1)[entry])) if array.numbers is not None else "…"
