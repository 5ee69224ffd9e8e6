"""A pass over a graph run again, to see what the device does for each node; nothing in the graph changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl.autograd import Node, detect_anomaly, no_grad
from netcl.autograd.engine import pull_back
from netcl.autograd.fuse import FusedPullback
from netcl.autograd.modes import no_tape
from netcl.autograd.pullback import CustomPullback, OpPullback
from netcl.ops import Row
from netcl.ops.rows import run
from netcl.tensor import Tensor
from netcl.viz.backward import gradient


class Quiet:
    """A context in which nothing is recorded on a tape, and NaN is no anomaly."""

    def __enter__(self) -> None:
        self._contexts = (no_grad(), detect_anomaly(False), no_tape())
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def can_rerun(node: Node) -> bool:
    """Whether the op of a node is one of netcl's own, which can run again at other values and in another dtype.

    Not so if a large operand that its rules do not read has been replaced: then the old one was not kept.
    """
    rule = node.grad_fn
    return isinstance(rule, (OpPullback, FusedPullback)) and rule.plain and not _gone(rule)


def _gone(rule: Any) -> bool:
    return isinstance(rule, OpPullback) and rule.gone


def rerun(node: Node) -> Tensor | None:
    """Compute a node's value once more; None where that cannot be done.

    An op of `apply_op` keeps no operands, so it runs on the values that they have now; so does one that `can_rerun`
    refuses because an operand was not kept.
    """
    pullback = node.grad_fn
    now = [x.value if isinstance(x, Node) else x for x in node.operands]
    if isinstance(pullback, CustomPullback) and pullback.plain:
        return pullback.forward(*now)
    if not isinstance(pullback, (OpPullback, FusedPullback)) or not pullback.plain:
        return None
    return again(pullback, now if _gone(pullback) else pullback.saved)


def again(pullback: OpPullback | FusedPullback, operands: Sequence[Any]) -> Tensor:
    """Run what was kept of an op on other operands."""
    if isinstance(pullback, FusedPullback):
        return pullback.program.run(operands)
    op = pullback.op
    return run(op, list(operands)) if isinstance(op, Row) else op.function(*operands, **pullback.attrs)


def seed_of(root: Node) -> Tensor:
    """The seed that the root's last pass began with, or ones."""
    found = gradient(root) if root.grad is not None else None
    return found if found is not None else Tensor.full(root.shape, 1, root.dtype, root.value.device)


def pull(node: Node) -> Sequence[Any]:
    """The contributions of a node, from the gradient that it holds or, for want of one, from ones."""
    g = gradient(node) if node.grad is not None else Tensor.full(node.shape, 1, node.dtype, node.value.device)
    return node.grad_fn(g) if node.grad_fn is not None else []


__all__ = ["Quiet", "again", "can_rerun", "pull", "pull_back", "rerun", "seed_of"]
