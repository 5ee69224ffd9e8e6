"""The graph inside a checkpointed or a fused node, which was never kept: what it did is run again, op by op."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from netcl.autograd import Node, Tape, build_topo
from netcl.autograd.checkpoint import Rerun
from netcl.autograd.fuse import FusedPullback
from netcl.errors import ArgumentError
from netcl.viz.backward import gradient
from netcl.viz.names import find_names, scopes


def opened(node: Any, names: Mapping[Any, str] | None, frame: FrameType | None) -> tuple[Node, dict[Any, str]]:
    """The node's result computed again, on records of its own that a backward pass may fill; and their names.

    What the function was given are leaves there.

    Raises:  ArgumentError if `node` is neither a checkpointed one nor a fused one
    """
    rule = node.grad_fn if isinstance(node, Node) else None
    if not isinstance(rule, (Rerun, FusedPullback)):
        raise ArgumentError(f"only the result of ag.checkpoint or ag.fuse has an inside, not {node!r}")
    out = rule.run() if isinstance(rule, Rerun) else rule.run(node)
    copies = _copied(out, set(node.parents))
    root = copies[out]
    if node.grad is not None:
        Tape().backward(root, gradient(node))
    originals = [node, *copies]
    found = find_names({id(each): each for each in originals}, scopes(frame))
    known = dict(names or {})
    for original in originals:
        name = known.get(original) or original.name or found.get(id(original))
        if name:
            known[copies.get(original, root)] = name
    return root, known


def _copied(out: Node, inputs: set[Node]) -> dict[Node, Node]:
    """A copy of every record from the inputs on: the same values and rules, gradients of its own."""
    copies: dict[Node, Node] = {}
    for node in build_topo(out):
        leaf = node in inputs
        parents = [copies[parent] for parent in node.parents if parent in copies]
        if not leaf and node.parents and not parents:
            continue  # it led to an input
        operands = tuple(copies.get(x, x) if isinstance(x, Node) else x for x in node.operands)
        copies[node] = Node(
            node.value, None if leaf else node.grad_fn, [] if leaf else parents, requires_grad=node.requires_grad,
            op_name=None if leaf else node.op_name, name=node.name, operands=() if leaf else operands,
            attrs=None if leaf else node.attrs, site=node.site, index=node.index,
        )  # fmt: skip
    return copies
