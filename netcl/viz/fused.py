"""What a fused node computes, as formulas: its result, and its partials by the chain rule through its ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netcl.autograd import Node
from netcl.autograd.fuse import FusedPullback
from netcl.expr import Call, Expr, Num, to_text
from netcl.ops.program import Program
from netcl.viz.symbolic import size, tidy
from netcl.viz.wording import expression, partial

_MOST_PARTS = 30
_LONGEST_FORMULA = 40


def rule_of(node: Any) -> FusedPullback | None:
    """The grad_fn of a fused node on tensors; None for any other."""
    rule = node.grad_fn if isinstance(node, Node) else None
    return rule if isinstance(rule, FusedPullback) and rule.plain else None


def formula(node: Node, operands: Sequence[Expr]) -> Expr | None:
    """The result as one expression of the operands, or by the function's name where that is too long to read.

    None for a node that is not fused.
    """
    rule = rule_of(node)
    if rule is None:
        return None
    arrays = [e for e, x in zip(operands, node.operands, strict=True) if not isinstance(x, (int, float))]
    whole = Call(node.op_name or "fused", tuple(arrays))
    steps = _steps(rule.program, operands)
    if steps is None:
        return whole
    total = rule.program.total
    attrs = {} if total is None else {"axis": total.axis, "keepdims": total.keepdims}
    e = steps[-1] if total is None else expression(total.kind, [steps[-1]], attrs)
    return e if len(to_text(e)) <= _LONGEST_FORMULA else whole


def _steps(program: Program, operands: Sequence[Expr]) -> list[Expr] | None:
    results: list[Expr] = []
    for k in range(len(program.steps)):
        e = expression(program.steps[k].row.name, _args(program, k, operands, results), None)
        if size(e) > _MOST_PARTS:  # at once: what is used twice is in the formula twice
            return None
        results.append(e)
    return results


def _args(program: Program, k: int, operands: Sequence[Expr], results: Sequence[Expr]) -> list[Expr]:
    return [
        place if isinstance(place, Num) else results[place] if place >= 0 else operands[~place]
        for place in program.steps[k].args
    ]


def partial_of(node: Node, position: int, operands: Sequence[Expr]) -> Expr | None:
    """The derivative of an element, before any sum, by one operand; None where it is too long to read.

    Math:    the sum over the paths from the operand to the result of the products of the partials along it
    """
    rule = rule_of(node)
    steps = _steps(rule.program, operands) if rule is not None else None
    if rule is None or steps is None:
        return None
    program = rule.program
    found: dict[int, Expr] = {len(steps) - 1: Num(1)}
    for k in range(len(steps) - 1, -1, -1):
        above = found.get(k)
        if above is None:
            continue
        args = _args(program, k, operands, steps)
        for arg, place in zip(program.steps[k].row.args, program.steps[k].args, strict=True):
            local = partial(program.steps[k].row, arg, args, steps[k]) if isinstance(place, int) else None
            if local is None or not isinstance(place, int):
                continue
            term = Call("mul", (above, local))
            total = Call("add", (found[place], term)) if place in found else term
            if size(total) > 2 * _MOST_PARTS:
                return None
            found[place] = tidy(total) or total
    return found.get(~position)


def shape_within(node: Node) -> tuple[int, ...]:
    """The shape of what is computed before any sum."""
    rule = rule_of(node)
    return tuple(node.shape) if rule is None else rule.program.typed(rule.saved).shape


def count_of(node: Node) -> int:
    """How many elements a fused mean divides by; 1 for what takes none."""
    rule = rule_of(node)
    if rule is None or rule.program.total is None or rule.program.total.kind != "mean" or not node.size:
        return 1
    return math.prod(shape_within(node)) // node.size
