"""Forward mode on a recorded graph: which tangent each node has, and what each operand brings to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netcl.autograd import Node, detect_anomaly, no_grad
from netcl.autograd.dual import Dual
from netcl.autograd.fuse import FusedPullback
from netcl.autograd.modes import no_tape
from netcl.autograd.pullback import OpPullback
from netcl.autograd.push import push
from netcl.errors import ArgumentError, GraphError, ShapeError
from netcl.tensor import Tensor

_LEVEL = -1  # of no transform
_MOST_ROWS = 256  # of a Jacobian that is built from a rule for the other direction


class Tangents:
    """The tangents of nodes in order of creation, from those given for leaves; the other leaves stand still.

    Math:    y_dot = Σ over the parents x of (∂y/∂x) x_dot; `parts` are the terms, one for each parent
    Raises:  ArgumentError for a tangent of what is no leaf of the graph, ShapeError for one that does not fit
    """

    def __init__(self, nodes: Sequence[Node], given: Mapping[Any, Any]) -> None:
        leaves = [node for node in nodes if node.grad_fn is None]
        self.notes: list[str] = []
        self.of: dict[Node, Tensor] = {}
        self.parts: dict[Node, list[Tensor | None]] = {}
        for leaf, value in given.items():
            if leaf not in leaves:
                raise ArgumentError(f"tangents are given for leaves of the graph, and {leaf!r} is none")
            self.of[leaf] = _fitting(leaf, value)
        with no_grad(), detect_anomaly(False), no_tape():
            for node in nodes:
                if node.grad_fn is not None and not node.released:
                    self._push(node)

    def _push(self, node: Node) -> None:
        parts = [self._part(node, nth) for nth in range(len(node.parents))]
        self.parts[node] = parts
        moving = [part for part in parts if part is not None]
        if moving:
            total = moving[0]
            for part in moving[1:]:
                total = total + part
            self.of[node] = total

    def _part(self, node: Node, nth: int) -> Tensor | None:
        tangent = self.of.get(node.parents[nth])
        if tangent is None:
            return None
        pullback = node.grad_fn
        if isinstance(pullback, FusedPullback) and pullback.plain:
            return pullback.push(nth, tangent)
        if isinstance(pullback, OpPullback) and pullback.plain and not pullback.gone:
            args: list[Any] = list(pullback.saved)
            args[pullback.wanted[nth]] = Dual(args[pullback.wanted[nth]], tangent, _LEVEL)
            try:
                out = push(pullback.op, args, pullback.attrs, _LEVEL)
                return out.tangent if isinstance(out, Dual) else None
            except GraphError:  # no rule for forward mode: that for backward will do
                pass
        return self._transposed(node, nth, tangent)

    def _transposed(self, node: Node, nth: int, tangent: Tensor) -> Tensor | None:
        """J ẋ row by row, each pulled back from an entry of the result."""
        if node.value.size > _MOST_ROWS:
            self.notes.append(f"{node.op_name} has no rule for forward mode, and is too large to do without")
            return None
        rule: Any = node.grad_fn
        found = np.zeros(node.value.size, node.dtype)
        moves = tangent.to_host()
        for i in range(node.value.size):
            unit = np.zeros(node.value.size, node.dtype)
            unit[i] = 1
            row = rule(Tensor.from_host(unit.reshape(node.shape), device=node.value.device))[nth]
            found[i] = 0 if row is None else (getattr(row, "value", row).to_host() * moves).sum()
        return Tensor.from_host(found.reshape(node.shape), device=node.value.device)


def _fitting(leaf: Node, value: Any) -> Tensor:
    found = value if isinstance(value, Tensor) else Tensor.from_host(value, leaf.dtype, leaf.value.device)
    if found.shape != leaf.shape:
        raise ShapeError(f"a tangent of shape {found.shape} came for a leaf of shape {leaf.shape}")
    return found
