"""Forward mode: push tangents through an op, by the same partials and rules that reverse mode pulls cotangents by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netcl import expr as ex
from netcl.autograd.dual import Dual
from netcl.autograd.pullback import accepts_out
from netcl.errors import GradFnError, GraphError
from netcl.methods import ArrayMethods
from netcl.ops import Op, Row
from netcl.ops.row_vjp import local
from netcl.ops.rows import interpret_expr
from netcl.ops.shape import astype, broadcast_to


def push(op: Op, args: Sequence[Any], attrs: dict[str, Any], level: int) -> Any:
    """Run an op on duals of one level.

    Math:    out + out_dot ε, with out_dot = Σ over the operands x of (∂out/∂x) x_dot
    Raises:  GraphError naming the op if it has no rule for forward mode
    """
    primals, tangents = _split(args, level)
    out = op(*primals, **attrs)
    if out.dtype.kind != "f":
        return out
    if isinstance(op, Row):
        tangent = _push_row(op, primals, tangents, out)
    elif op.jvp_rule is not None:
        tangent = op.jvp_rule(tangents, out, *primals, **attrs)
    elif op.linear:
        tangent = op(*tangents, **attrs)
    else:
        raise GraphError(f"{op.name} has no rule for forward mode (op.jvp)")
    return out if tangent is None else Dual(out, tangent, level)


def _split(args: Sequence[Any], level: int) -> tuple[list[Any], list[Any]]:
    moving = [type(x) is Dual and x.level == level for x in args]
    primals = [x.primal if moves else x for x, moves in zip(args, moving, strict=True)]
    return primals, [x.tangent if moves else None for x, moves in zip(args, moving, strict=True)]


def _push_row(op: Row, primals: Sequence[Any], tangents: Sequence[Any], out: Any) -> Any:
    values = dict(zip(op.args, primals, strict=True)) | {"out": out}
    total = None
    for arg, tangent in zip(op.args, tangents, strict=True):
        if tangent is None or arg not in op.partials:
            continue
        partial = local(op, arg)
        term = tangent if partial == ex.Num(1) else tangent * interpret_expr(partial, values)
        total = term if total is None else total + term
    if total is None:
        return None
    typed = total if total.dtype == out.dtype else astype(total, out.dtype)
    return typed if typed.shape == out.shape else broadcast_to(typed, out.shape)


def push_custom(
    name: str, run: Callable[..., Any], rule: Callable[..., Any] | None, args: Sequence[Any], level: int
) -> Any:
    """Run a user's op (see apply_op) on duals of one level."""
    if rule is None:
        raise GraphError(f"{name} has no rule for forward mode: apply_op(..., jvp=...) would give it one")
    primals, tangents = _split(args, level)
    out = run(*primals)
    tangent = rule(tangents, out=out) if accepts_out(rule) else rule(tangents)
    while getattr(tangent, "level", 0) >= level:
        tangent = tangent.lower  # the rule closes over a dual of this level; its primal is what is meant
    if not isinstance(tangent, ArrayMethods) or tangent.shape != out.shape:
        came = f"shape {tangent.shape}" if isinstance(tangent, ArrayMethods) else type(tangent).__name__
        raise GradFnError(f"{name}: jvp returned {came}, but the result has shape {out.shape}")
    return Dual(out, tangent, level)
