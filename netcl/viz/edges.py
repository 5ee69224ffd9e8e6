"""What is written on an edge: the map, with numbers where they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.autograd.checkpoint import Rerun
from netcl.expr import NUMPY, Expr, Num, evaluate, substitute, to_text
from netcl.ops import OPS
from netcl.ops.broadcasting import stretched_axes
from netcl.tensor import Tensor
from netcl.viz.backward import Backward, operands_of
from netcl.viz.fused import count_of, partial_of, rule_of, shape_within
from netcl.viz.values import number, shape_text, view
from netcl.viz.views import Edge
from netcl.viz.wording import Ref, factor, forward, partial, structural_rule

_LONGEST_RULE = 40


class EdgeWriter:
    """Writes edges from what the backward pass was found to be."""

    def __init__(
        self, backward: Backward, operand_exprs: Callable[[Node], list[Expr]], displays: Mapping[Any, Expr]
    ) -> None:
        self.backward, self.operand_exprs, self.displays = backward, operand_exprs, displays

    def constant(self, key: int, card: int, child_card: int, child: Node, position: int) -> Edge:
        """The edge of an operand that needs no gradient."""
        said = forward(child.op_name or "op", self.operand_exprs(child), position, child.attrs)
        return Edge(key, card, child_card, forward=said, needs_grad=False)

    def write(self, key: int, card: int, child_card: int, child: Node, position: int, nth: int) -> Edge:
        """The edge from a parent: operand `position` of `child`, its `nth` parent."""
        parent = child.parents[nth]
        exprs = self.operand_exprs(child)
        found = self.backward.contributions.get(child)
        array = found[nth] if found is not None else None
        if rule_of(child) is not None:
            return self._fused(Edge(key, card, child_card, forward=child.op_name or ""), child, position, array)
        local = self._local(child, position, exprs)
        rule, numbers = self._rule(child, position, exprs, local), ""
        if array is not None and array.size == 1 and child.value.size == 1 and local is not None:
            numbers = self._numbers(child, position, local, array)
        return Edge(
            key,
            card,
            child_card,
            forward=forward(child.op_name or "op", exprs, position, child.attrs),
            rule=rule,
            numbers=numbers,
            after=_after(child.value.shape, parent) if local is not None else _after_structural(child, position),
            contribution=view(array) if array is not None else None,
        )

    def _fused(self, edge: Edge, child: Node, position: int, array: np.ndarray | None) -> Edge:
        """The edge into a fused node: the partial of all its ops together, where it is short enough to read."""
        inner, count = shape_within(child), count_of(child)
        local = partial_of(child, position, self.operand_exprs(child))
        text = factor(local) if local is not None else ""
        parts = []
        if inner != child.shape:
            parts.append(f"spread {shape_text(child.shape)} → {shape_text(inner)}")
        if count > 1:
            parts.append(f"÷ {count}")
        if local != Num(1) or not parts:
            parts.append(f"{'×' if inner == () or isinstance(local, Num) else '⊙'} {text}")
        rule, numbers = ", ".join(parts), ""
        if local is None or len(rule) > _LONGEST_RULE:
            rule = "back through it, computed again"
        elif array is not None and array.size == 1 and inner == ():
            above = number(float(self.backward.grads[child].flat[0]))
            numbers = f"upstream {above} {rule} → {number(float(array.flat[0]))}"
        return replace(
            edge, rule=rule, numbers=numbers, after=_after(inner, operands_of(child)[position]),
            contribution=view(array) if array is not None else None,
        )  # fmt: skip

    def tangent(self, child: Node, position: int, tangent: Tensor, array: np.ndarray) -> tuple[str, str]:
        """What forward mode does with the tangent of an operand: the rule, and the numbers where they fit."""
        exprs = self.operand_exprs(child)
        local = self._local(child, position, exprs)
        if local is None:
            return "", ""
        if array.size > 1 or tangent.size > 1:
            return self._rule(child, position, exprs, local), ""
        return "", self._numbers(child, position, local, array, f"tangent {number(tangent.item())}")

    def _local(self, child: Node, position: int, exprs: list[Expr]) -> Expr | None:
        op = OPS.get(child.op_name or "")
        if op is None or not op.partials or position >= len(op.args):
            return None
        return partial(op, op.args[position], exprs, self.displays[child])

    def _rule(self, child: Node, position: int, exprs: list[Expr], local: Expr | None) -> str:
        if local is not None:
            text = _short(child, position, local)
            scalar = child.value.size == 1
            return f"× {text}" if scalar or isinstance(local, Num) else f"⊙ {text}"
        op = OPS.get(child.op_name or "")
        arg = op.arg(position) if op is not None else None
        if isinstance(child.grad_fn, Rerun):
            return "back through it, run again"
        if op is None or arg is None:
            return f"grad_fn of {child.op_name or 'op'}"
        values = operands_of(child)
        refs = {
            name: _ref(to_text(e) if " " not in to_text(e) else f"({to_text(e)})", x)
            for name, e, x in zip(op.args, exprs, values, strict=False)
        }
        refs["out"] = _ref(to_text(self.displays[child]), child)
        parent = values[position]
        ratio = parent.size // child.value.size if child.value.size and isinstance(parent, (Node, Tensor)) else 0
        return structural_rule(op, arg, refs, child.attrs, ratio)

    def _numbers(self, child: Node, position: int, local: Expr, array: np.ndarray, comes: str = "") -> str:
        """`upstream 4 × (b = 3) → 12`, with the value of the local partial where it is not itself a number."""
        comes = comes or f"upstream {number(float(self.backward.grads[child].flat[0]))}"
        result = number(float(array.flat[0]))
        text = _short(child, position, local)
        if isinstance(local, Num):
            return f"{comes} × {text} → {result}"
        value = _scalar(child, position)
        if value is None:
            return f"{comes} × {text} → {result}"
        bare = text[1:-1] if text == f"({to_text(local)})" else text
        return f"{comes} × ({bare} = {number(value)}) → {result}"


def _short(child: Node, position: int, local: Expr) -> str:
    """A local partial as the right side of a product, or its name where it is too long to read."""
    text = factor(local)
    return text if len(text) <= _LONGEST_RULE else f"∂{child.op_name}/∂{OPS[child.op_name or ''].args[position]}"


def _ref(name: str, x: Any) -> Ref:
    shape = tuple(x.shape) if isinstance(x, (Node, Tensor)) else ()
    return Ref.of(name, shape, str(x.dtype) if isinstance(x, (Node, Tensor)) else type(x).__name__)


def _scalar(child: Node, position: int) -> float | None:
    """The local partial of an op on scalars, as a number."""
    op = OPS[child.op_name or ""]
    values: dict[str, Expr] = {"out": Num(child.value.to_host().item())}
    for arg, x in zip(op.args, operands_of(child), strict=True):
        tensor = x.value if isinstance(x, Node) else x
        values[arg] = Num(tensor.to_host().item() if isinstance(tensor, Tensor) else tensor)
    with np.errstate(all="ignore"):
        try:
            return float(evaluate(substitute(op.partials[op.args[position]], values), {}, NUMPY))
        except ArithmeticError:  # Python's own numbers raise where NumPy's give inf
            return None


def _after_structural(child: Node, position: int) -> str:
    """What a structural op's rule does after that which its label says."""
    shapes = [tuple(x.shape) for x in operands_of(child) if isinstance(x, (Node, Tensor))]
    if (child.op_name == "matmul" and len(shapes) == 2) or (child.op_name == "affine" and position < 2):
        batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
        own = shapes[position][:-2]
        return _sum_over(stretched_axes(batch, own)) if own != batch else ""
    if child.op_name == "conv2d" and position == 1:
        return _sum_over((0,))
    if (child.attrs or {}).get("reduction", "mean" if child.op_name in ("cross_entropy", "nll") else "") == "mean":
        return f"÷ {operands_of(child)[1].size}"
    return ""


def _after(wide: tuple[int, ...], parent: Node) -> str:
    """What undoes broadcasting to `wide`."""
    shape = tuple(parent.value.shape)
    if shape == wide:
        return ""
    axes = stretched_axes(wide, shape)
    if not axes:
        return f"reshape {wide} → {shape}"
    if len(axes) == len(wide):
        return "sum over every entry"
    return _sum_over(axes)


def _sum_over(axes: Sequence[int]) -> str:
    return f"sum over {'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"
