"""Gradients checked by moving something a little: the whole graph from a leaf, or one op from one of its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl.autograd import Node, build_topo
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.replay import Link
from netcl.viz.rerun import Quiet, again, can_rerun
from netcl.viz.values import number

BY = 0.01


@dataclass(frozen=True, slots=True)
class Nudge:
    """What a small move of a leaf did to the loss, and what the gradient said that it would do."""

    leaf: str
    loss: str
    entry: str
    slope: float
    by: float
    before: float
    after: float

    @property
    def delta(self) -> float:
        """How much the loss moved."""
        return self.after - self.before

    @property
    def predicted(self) -> float:
        """Gradient times move."""
        return self.slope * self.by

    @property
    def sentence(self) -> str:
        """Both numbers, and what their difference means.

        >>> Nudge("a", "f", "", 7.0, 0.01, 10.0, 10.0701).sentence
        'a moved by 0.01: f went from 10 to 10.0701, so Δf = 0.0701. Gradient × 0.01 = 7 × 0.01 = 0.07. The \
difference, 0.0001, is the bend of f: a move ten times smaller leaves a hundredth of it.'
        """
        moved = f"{self.leaf}{self.entry} moved by {_text(self.by)}"
        went = f"{self.loss} went from {_text(self.before)} to {_text(self.after)}"
        told = f"Gradient × {_text(self.by)} = {_text(self.slope)} × {_text(self.by)} = {_text(self.predicted)}."
        return f"{moved}: {went}, so Δ{self.loss} = {_text(self.delta)}. {told} {self._verdict()}"

    def _verdict(self) -> str:
        difference = self.delta - self.predicted
        if not math.isfinite(difference):
            return "What is not finite cannot be compared."
        scale = max(abs(self.delta), abs(self.predicted))
        noise = 1e-12 * max(abs(self.before), abs(self.after), 1e-300)
        if abs(difference) <= max(noise, 1e-9 * scale):
            return f"They agree: along this move {self.loss} is straight."
        told = f"The difference, {_text(difference)}, is the bend of {self.loss}"
        if abs(difference) > 0.25 * scale:
            return f"{told}, and large: the move crosses a kink, or is large for so bent a function."
        return f"{told}: a move ten times smaller leaves a hundredth of it."


def _text(value: float) -> str:
    return number(float(f"{value:.6g}"), 6)


def nudge(
    root: Node, leaf: Node, gradient: np.ndarray, seed: np.ndarray, names: tuple[str, str], index: int | None = None,
    by: float = BY,
) -> Nudge:  # fmt: skip
    """Move one entry of a leaf (or, without `index`, all of them) and run the recorded graph again.

    The graph is run by its ops on tensors, in float64 where the device has it; no node changes.

    Raises:  ArgumentError if some op on the way is a user's own, and so cannot be run again
    """
    value = leaf.value.to_host()
    moved = value.astype(np.float64).reshape(-1).copy()
    slope = float(gradient.astype(np.float64).sum() if index is None else gradient.reshape(-1)[index])
    moved[slice(None) if index is None else index] += by
    ways = [value.astype(np.float64), moved.reshape(value.shape)]
    before, after = (float((forward(root, {leaf: way}).astype(np.float64) * seed).sum()) for way in ways)
    return Nudge(names[0], names[1], entry_text(value.shape, index), slope, by, before, after)


def entry_text(shape: tuple[int, ...], index: int | None) -> str:
    """`[1, 2]` for an entry, nothing for a scalar, words for all entries.

    >>> entry_text((2, 3), 5), entry_text((), 0), entry_text((2, 3), None)
    ('[1, 2]', '', ' (every entry)')
    """
    if not shape:
        return ""
    if index is None:
        return " (every entry)"
    return "[" + ", ".join(str(int(i)) for i in np.unravel_index(index, shape)) + "]"


def forward(root: Node, changed: Mapping[Node, np.ndarray]) -> np.ndarray:
    """The value that the root would have if some leaves had others.

    Raises:  ArgumentError if an op that has to be run again was not kept
    """
    wide = root.value.device.has_fp64
    values: dict[Any, Tensor] = {node: _tensor(array, node, wide) for node, array in changed.items()}
    with Quiet():
        for node in build_topo(root):
            if node.grad_fn is None or values.keys().isdisjoint(node.parents):
                continue
            values[node] = _again(node, {i: values[x] for i, x in enumerate(node.operands) if _known(x, values)}, wide)
    return values[root].to_host() if root in values else root.value.to_host()


def _known(x: Any, values: Mapping[Any, Tensor]) -> bool:
    return isinstance(x, Node) and x in values


def _tensor(array: np.ndarray, like: Node, wide: bool) -> Tensor:
    return Tensor.from_host(array, np.float64 if wide else like.dtype, like.value.device)


def _again(node: Node, new: Mapping[int, Tensor], wide: bool) -> Tensor:
    """An op run once more with some operands changed."""
    if not can_rerun(node):
        raise ArgumentError(
            f"{node.op_name} cannot be run again: it is no op of netcl's own, and only its result was kept, or one of "
            "its operands was given a new value since"
        )
    rule: Any = node.grad_fn
    return again(rule, [new.get(i, _widened(x, wide)) for i, x in enumerate(rule.saved)])


def _widened(x: Any, wide: bool) -> Any:
    return x.astype(np.float64) if wide and isinstance(x, Tensor) and x.dtype == np.float32 else x


def difference(link: Link, upstream: np.ndarray, index: int) -> float | None:
    """One entry of what an edge contributes, by a central difference of its op; None where the op was not kept.

    Math:    Σ upstream · (out(x + h) − out(x − h)) / 2h, with x that one entry of that one operand
    """
    if not can_rerun(link.child):
        return None
    rule: Any = link.child.grad_fn
    operand = rule.saved[link.position]
    value = operand.to_host().astype(np.float64)
    wide = operand.device.has_fp64
    h = (1e-5 if wide else 1e-2) * max(1.0, abs(float(value.reshape(-1)[index])))
    results = []
    with Quiet():
        for sign in (1, -1):
            moved = value.reshape(-1).copy()
            moved[index] += sign * h
            tensor = _tensor(moved.reshape(value.shape), link.child.parents[link.nth], wide)
            results.append(_again(link.child, {link.position: tensor}, wide).to_host().astype(np.float64))
    return float((upstream.astype(np.float64) * (results[0] - results[1])).sum() / (2 * h))
