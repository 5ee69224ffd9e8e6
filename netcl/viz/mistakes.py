"""What a wrong rule would have made of a step: each named, computed, and answered by its cause.

A rule here is wrong on purpose. It gives the numbers that a reader who follows it would predict, so that a wrong
prediction can be told by the rule behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl.autograd.pullback import OpPullback
from netcl.ops import OPS
from netcl.ops.broadcasting import stretched_axes
from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.replay import Link, Replay, contributions
from netcl.viz.steps import Step

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong rule's name, its cause in words, what it would contribute, and what would then be there."""

    rule: str
    cause: str
    came: Array
    now: Array


@dataclass(frozen=True)
class Case:
    """A step as numbers, in float64: `g` arrives, `right` is the contribution, `was` what was there."""

    link: Link
    child: str
    target: str
    g: Array
    right: Array
    was: Array | None
    value: Array
    operands: dict[str, Array]
    out: Array
    arg: str
    op: str


def case_of(run: Replay, step: Step) -> Case | None:
    """The numbers of a step; None for one through folded nodes or without numbers."""
    if step.edge is None or step.edge not in run.links or step.edge not in run.arrays:
        return None
    link = run.links[step.edge]
    child = link.child
    rule, op = child.grad_fn, OPS.get(child.op_name or "")
    saved = rule.saved if isinstance(rule, OpPullback) and not rule.gone else ()
    names = op.args if op is not None and len(op.args) == len(saved) else ()
    was = step.was.numbers if step.was is not None else None
    return Case(
        link=link,
        child=run.view.card(step.child).name,
        target=run.view.card(step.target).name,
        g=gradient(child).to_host().astype(np.float64),
        right=run.arrays[step.edge].astype(np.float64),
        was=was.astype(np.float64) if was is not None else None,
        value=child.parents[link.nth].value.to_host().astype(np.float64),
        operands={name: _host(x) for name, x in zip(names, saved, strict=False)},
        out=child.value.to_host().astype(np.float64),
        arg=names[link.position] if link.position < len(names) else "",
        op=child.op_name or "",
    )


def _host(x: Any) -> Array:
    return x.to_host().astype(np.float64) if isinstance(x, Tensor) else np.asarray(x, np.float64)


def mistakes(case: Case) -> list[Mistake]:
    """Every wrong rule that applies to a step and gives another result than the right one, the likeliest first."""
    found = []
    before = 0.0 if case.was is None else case.was
    right = before + case.right
    with np.errstate(all="ignore"):
        for rule, cause, came, now in _results(case):
            if came.shape != case.right.shape:
                continue
            there = before + came if now is None else now
            if not np.allclose(there, right, rtol=1e-6, atol=0, equal_nan=True):
                found.append(Mistake(rule, cause, came, there))
    return found


Result = tuple[str, str, Array, "Array | None"]


def _results(case: Case) -> Iterator[Result]:
    if case.was is not None:
        yield "= for +=", (
            f"{case.target} was reached before: contributions are added (+=), and this one does not replace the others."
        ), case.right, case.right  # fmt: skip
        yield "forgotten path", f"the path through {case.child} is left out: every path counts.", case.was * 0, case.was
    for rule, cause, came in _wrong_contributions(case):
        if came is not None:
            yield rule, cause, np.asarray(came), None
    yield "value for derivative", f"that is the value of {case.target}, not a derivative.", case.right, case.value


def _wrong_contributions(case: Case) -> Iterator[tuple[str, str, Array | None]]:
    yield "upstream left out", (
        f"the gradient that arrives at {case.child} is left out: the local derivative is multiplied by it."
    ), _pulled_ones(case)  # fmt: skip
    for name, cause, rule in _RULES:
        yield name, cause, rule(case)
    yield "sign", "the sign is the wrong way round.", -case.right


def _pulled_ones(case: Case) -> Array | None:
    """The contribution if ones arrived."""
    child = case.link.child
    ones = Tensor.full(child.value.shape, 1, child.value.dtype, child.value.device)
    tensor = contributions(child, ones)[case.link.nth]
    return tensor.to_host().astype(np.float64) if tensor is not None else None


def _fit(case: Case, array: Array) -> Array | None:
    """An array of the result's shape brought to the operand's: stretched axes are summed, missing ones stretched."""
    shape = case.right.shape
    if array.shape == shape:
        return array
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    try:
        if len(array.shape) >= len(shape) and np.broadcast_shapes(array.shape, shape) == array.shape:
            return array.sum(stretched_axes(array.shape, shape)).reshape(shape)
    except ValueError:
        return None
    return None


def _local(case: Case, operands: dict[str, Array]) -> Array | None:
    """The local partial of an elementwise op at these operands."""
    op = OPS.get(case.op)
    if op is None or not case.arg or case.arg not in op.partials:
        return None
    env = {**operands, "out": operands.get("out", case.out)}
    return np.asarray(ex.evaluate(op.partials[case.arg], env, ex.NUMPY), np.float64)


def _passed_on(case: Case) -> Array | None:
    return None if case.op in ("max", "min") else _fit(case, case.g)


def _to_all(case: Case) -> Array | None:
    return _fit(case, case.g) if case.op in ("max", "min") else None


def _at_output(case: Case) -> Array | None:
    if not case.arg:
        return None
    local = _local(case, {**case.operands, case.arg: case.out})
    return None if local is None else _product(case, local)


def _product(case: Case, local: Array) -> Array | None:
    return _fit(case, np.broadcast_to(case.g * local, np.broadcast_shapes(case.g.shape, local.shape)))


def _own_factor(case: Case) -> Array | None:
    others = [name for name in case.operands if name != case.arg]
    if len(others) != 1 or not case.arg:
        return None
    swapped = {case.arg: case.operands[others[0]], others[0]: case.operands[case.arg]}
    local = _local(case, swapped)
    return None if local is None else _product(case, local)


def _added(case: Case) -> Array | None:
    local = _local(case, case.operands)
    return None if local is None else _fit(case, case.g + local)


def _divided(case: Case) -> Array | None:
    local = _local(case, case.operands)
    return None if local is None else _fit(case, case.g / local)


def _power(case: Case) -> Array | None:
    """The exponent, where it is a constant."""
    return case.operands["b"] if case.op == "pow" and case.arg == "a" and case.operands["b"].size == 1 else None


def _exponent_kept(case: Case) -> Array | None:
    n = _power(case)
    return None if n is None else _product(case, n * case.operands["a"] ** n)


def _factor_dropped(case: Case) -> Array | None:
    n = _power(case)
    return None if n is None else _product(case, case.operands["a"] ** (n - 1))


def _no_transpose(case: Case) -> Array | None:
    if case.op != "matmul" or not case.arg:
        return None
    a, b = case.operands["a"], case.operands["b"]
    try:
        came = case.g @ b if case.arg == "a" else a @ case.g
    except ValueError:  # the shapes do not fit: nobody computes that
        return None
    return came if came.shape == case.right.shape else None


def _transposed(case: Case) -> Array | None:
    shape = case.right.shape
    return case.right.T if case.op in ("matmul", "transpose") and len(shape) == 2 and shape[0] == shape[1] else None


def _stretched(case: Case) -> tuple[int, ...]:
    wide = case.out.shape
    if case.right.shape == wide or _local(case, case.operands) is None:
        return ()
    return tuple(stretched_axes(wide, case.right.shape))


def _not_summed(case: Case) -> Array | None:
    axes, local = _stretched(case), _local(case, case.operands)
    if not axes or local is None:
        return None
    whole = np.broadcast_to(case.g * local, case.out.shape)
    return whole[tuple(0 if axis in axes else slice(None) for axis in range(whole.ndim))].reshape(case.right.shape)


def _averaged(case: Case) -> Array | None:
    axes = _stretched(case)
    return case.right / np.prod([case.out.shape[axis] for axis in axes]) if axes else None


def _sum_divided(case: Case) -> Array | None:
    return case.right * case.out.size / case.right.size if case.op == "sum" else None


def _mean_whole(case: Case) -> Array | None:
    return case.right * case.right.size / case.out.size if case.op == "mean" and case.out.size else None


_RULES: tuple[tuple[str, str, Callable[[Case], Array | None]], ...] = (
    ("missing transpose", "a transpose is missing: the derivative of a product by one factor has the other's "
     "transpose, on the side where the other stood.", _no_transpose),
    ("transposed", "the result is transposed: a gradient lies as its node lies.", _transposed),
    ("not summed", "broadcasting used this entry several times: what comes back through each of them is summed.",
     _not_summed),
    ("averaged", "the contributions of the stretched entries are summed, not averaged.", _averaged),
    ("sum divided", "sum sends what arrives to every entry whole; dividing by their number is for mean.", _sum_divided),
    ("mean not divided", "mean divides by the number of entries, and so does its gradient.", _mean_whole),
    ("spread for route", "only the entry that won took part: the others get nothing.", _to_all),
    ("exponent kept", "the exponent goes down by one when a power is differentiated.", _exponent_kept),
    ("factor dropped", "the exponent comes down as a factor.", _factor_dropped),
    ("local at the output", "the local derivative is taken at the operand's value, not at the result's.", _at_output),
    ("own factor", "that is the operand itself; the derivative by one operand is made of the other one.", _own_factor),
    ("local left out", "the local derivative is left out: what arrives is multiplied by it on the way.", _passed_on),
    ("added for multiplied", "along a path derivatives are multiplied; only paths are added.", _added),
    ("divided", "what arrives is multiplied by the local derivative, not divided by it.", _divided),
)  # fmt: skip
