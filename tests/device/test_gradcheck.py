"""gradcheck accepts every row of the op table, and refuses every row that is broken on purpose; and gradcheck itself.

A broken rule is the row's own partial with one thing changed. It is read over ops that are compiled once, so that
hundreds of broken rules cost no kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import expr as ex
from netcl.errors import ArgumentError, GradcheckError
from netcl.ops import OPS, Row, row_vjp
from netcl.ops.rows import interpret_expr
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("float64")

ROWS = [op for op in OPS.values() if isinstance(op, Row) and op.partials]
PARTIALS = [pytest.param(row, arg, id=f"{row.name}-{arg}") for row in ROWS for arg in row.partials]
Draw = Callable[..., list[np.ndarray]]
SHAPE = (32,)
TWO, ANY = ex.Num(2), ex.Num(0.37)


# Broken rules


def mutants(row: Row, arg: str) -> Iterator[tuple[str, ex.Expr]]:
    """The partial of `arg` with one thing changed, and what was changed."""
    partial = row.partials[arg]
    yield "sign", ex.Call("neg", (partial,))
    yield "twice", ex.Call("mul", (TWO, partial))
    yield "constant", ANY
    for other in row.partials:
        if other != arg:
            yield f"that of {other}", row.partials[other]
            renamed = {arg: ex.Var(other), other: ex.Var(arg)}
            yield f"{arg} and {other} confused", ex.substitute(partial, renamed)
    for dropped in without_a_part(partial):
        yield f"dropped a part: {ex.to_text(dropped)}", dropped


def without_a_part(e: ex.Expr) -> Iterator[ex.Expr]:
    """The expression with one call replaced by one of its arguments: a lost term, factor, function or branch."""
    if isinstance(e, ex.Call):
        yield from (arg for arg in e.args if not is_truth_value(arg))
        for i, arg in enumerate(e.args):
            for shorter in without_a_part(arg):
                yield ex.Call(e.fn, (*e.args[:i], shorter, *e.args[i + 1 :]))


def is_truth_value(e: ex.Expr) -> bool:
    return isinstance(e, ex.Call) and OPS[e.fn].kind == "elementwise" and getattr(OPS[e.fn], "returns_bool", False)


def values_of(e: ex.Expr, row: Row, operands: Sequence[np.ndarray]) -> np.ndarray:
    env = dict(zip(row.args, operands, strict=True))
    with np.errstate(all="ignore"):
        return np.broadcast_to(ex.evaluate(e, env | {"out": ex.evaluate(row.expr, env)}), SHAPE)


def with_partial(row: Row, arg: str, partial: ex.Expr) -> Callable[..., Any]:
    """A copy of the row in which `partial` is said to be the derivative with respect to `arg`."""

    def broken(*xs: Any) -> Any:
        values = {name: x.value if isinstance(x, ag.Node) else x for name, x in zip(row.args, xs, strict=True)}

        def grad_fn(g: Tensor, out: Tensor) -> list[Tensor | None]:
            local = interpret_expr(partial, values | {"out": out})
            return [g * local if name == arg else None for name in row.args]

        return ag.apply_op(row.function, grad_fn, *xs, op_name=f"broken {row.name}")

    return broken


def check_alone(row: Row, arg: str, f: Callable[..., Any], operands: Sequence[np.ndarray]) -> Any:
    """gradcheck of one operand, the others held."""
    i = row.args.index(arg)
    return ag.gradcheck(lambda x: f(*operands_as_tensors(operands, i, x)), operands[i])


def operands_as_tensors(operands: Sequence[np.ndarray], i: int, x: Any) -> list[Any]:
    return [x if j == i else ag.tensor(host) for j, host in enumerate(operands)]


# Every row


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_gradcheck_accepts_the_row(row: Row, draw: Draw) -> None:
    operands = draw(row, np.random.default_rng(11), SHAPE)
    report = ag.gradcheck(row, *operands)
    assert report and report.checked == SHAPE[0] * len(row.partials)


@pytest.mark.parametrize("row, arg", PARTIALS)
def test_gradcheck_refuses_the_row_broken_on_purpose(row: Row, arg: str, draw: Draw) -> None:
    """A mutant that reads the same at every point is the same rule there: it must be accepted, and no sample may be so
    poor that a change of sign, scale or all of it is one of those, save for a derivative that is 0 everywhere."""
    operands = draw(row, np.random.default_rng(12), SHAPE)
    right = values_of(row.partials[arg], row, operands)
    for kind, mutant in mutants(row, arg):
        wrong = values_of(mutant, row, operands)
        broken = with_partial(row, arg, mutant)
        if np.allclose(wrong, right, rtol=1e-9, atol=1e-12):
            assert check_alone(row, arg, broken, operands)
            zero = ex.simplify(row.partials[arg]) == ex.Num(0)
            assert zero or kind not in ("sign", "twice", "constant"), "is the domain too narrow?"
            continue
        with pytest.raises(GradcheckError, match="disagree"):
            check_alone(row, arg, broken, operands)


@pytest.mark.parametrize("row", ROWS[::12], ids=[row.name for row in ROWS[::12]])
def test_a_partial_replaced_in_the_table_is_refused(row: Row, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way from the table to the kernel, which the broken copies above do not take."""
    operands = draw(row, np.random.default_rng(13), SHAPE)
    monkeypatch.setattr(row, "partials", {arg: ex.Call("add", (p, ANY)) for arg, p in row.partials.items()})
    try:
        forget_derivatives()
        with pytest.raises(GradcheckError, match="disagree"):
            ag.gradcheck(row, *operands)
    finally:
        monkeypatch.undo()
        forget_derivatives()
    assert ag.gradcheck(row, *operands)


def forget_derivatives() -> None:
    row_vjp.local.cache_clear()
    row_vjp._product.cache_clear()
    row_vjp._formula.cache_clear()
    for row in ROWS:
        row.cases.clear()


# gradcheck itself


def wrong_in_one_entry(x: Any) -> Any:
    """x², whose rule is wrong by 10 % at entry (1, 0) alone."""
    factor = Tensor.from_host(np.array([[2.0, 2.0], [2.2, 2.0]]))
    return ag.apply_op(lambda v: v * v, lambda g: [g * factor * values(x)], x, op_name="square")


def values(x: Any) -> Tensor:
    return x.value if isinstance(x, ag.Node) else x


def test_the_report_names_the_worst_entry() -> None:
    with pytest.raises(GradcheckError) as caught:
        ag.gradcheck(wrong_in_one_entry, np.array([[1.0, 2.0], [3.0, 4.0]]))
    report: Any = caught.value.report
    assert not report and report.checked == 4
    assert report.worst.argument == 0 and report.worst.index == (1, 0)
    assert report.worst.analytic == pytest.approx(1.1 * report.worst.numeric)
    assert sum(entry.error > 1 for entry in report.entries) == 1
    assert "1 of 4 entries disagree" in str(caught.value) and "entry (1, 0)" in str(caught.value)


def test_the_tolerances_decide() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert ag.gradcheck(wrong_in_one_entry, x, rtol=0.2)
    with pytest.raises(GradcheckError):
        ag.gradcheck(lambda x: x.exp(), x, rtol=0.0, atol=0.0)


def test_a_coarse_step_is_seen() -> None:
    """The difference quotient errs by h² f‴ / 6: the step is used, and is not taken for the derivative's fault."""
    x = np.array([1.0])
    with pytest.raises(GradcheckError):
        ag.gradcheck(lambda x: x**3, x, step=0.1)
    assert ag.gradcheck(lambda x: x**3, x, step=0.1, atol=0.02)


def test_a_gradient_that_never_arrives_is_refused() -> None:
    with pytest.raises(GradcheckError, match="backward gives 0"):
        ag.gradcheck(lambda a, b: a + b.detach() if isinstance(b, ag.Node) else a + b, np.ones(2), np.ones(2))


def test_a_nan_is_refused() -> None:
    with pytest.raises(GradcheckError):
        ag.gradcheck(lambda x: x.log(), np.array([-1.0]))


def test_inputs_that_cannot_be_differentiated_are_held_still() -> None:
    mask = np.array([True, False])
    report = ag.gradcheck(ag.where, mask, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert {entry.argument for entry in report.entries} == {1, 2}


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="floating-point input"):
        ag.gradcheck(lambda x: x, np.array([1, 2]))
    with pytest.raises(ArgumentError, match="does not depend"):
        ag.gradcheck(lambda x: x.detach(), np.array([1.0, 2.0]))


def test_float32_is_checked_with_wider_steps_and_tolerances() -> None:
    x = np.array([0.5, 1.5], np.float32)
    assert ag.gradcheck(lambda x: x.tanh(), x)
    with pytest.raises(GradcheckError):
        ag.gradcheck(wrong_in_one_entry_of_float32, x)


def wrong_in_one_entry_of_float32(x: Any) -> Any:
    return ag.apply_op(lambda v: v * v, lambda g: [g * 2.4 * values(x)], x, op_name="square")


def test_empty_inputs_have_nothing_that_could_disagree() -> None:
    report = ag.gradcheck(lambda x: x * 2.0, np.zeros((0, 3)))
    assert report and report.checked == 0 and report.worst is None
