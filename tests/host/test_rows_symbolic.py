"""Every row of the op table: the partials that are written against the derivative that SymPy finds, and against central
differences of the NumPy reading. A new row is tested by being in the table."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

from netcl import expr as ex
from netcl.ops import OPS, Row

ROWS = {name: op for name, op in OPS.items() if isinstance(op, Row)}
PARTIALS = [pytest.param(row, arg, id=f"{name}-{arg}") for name, row in ROWS.items() for arg in row.partials]
Draw = Callable[..., list[np.ndarray]]


# How SymPy reads an expression


class Floor(sympy.Function):
    """floor with the derivative that it has off its jumps; SymPy leaves that of its own floor open."""

    def fdiff(self, argindex: int = 1) -> Any:
        return sympy.Integer(0)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    return sympy.Piecewise((yes, truth(condition)), (no, True))


def truth(x: Any) -> Any:
    return x if isinstance(x, TRUTH_VALUES) else sympy.Ne(x, 0)


def number(x: Any) -> Any:
    return sympy.Piecewise((1, x), (0, True)) if isinstance(x, TRUTH_VALUES) else x


TRUTH_VALUES = (sympy.core.relational.Relational, sympy.logic.boolalg.BooleanAtom)


# Functions that SymPy has under another name, or means otherwise; the rest has the same name there.
SYMPY: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": lambda a, b: a**b,
    "less": sympy.Lt,
    "less_equal": sympy.Le,
    "greater": sympy.Gt,
    "greater_equal": sympy.Ge,
    "equal": sympy.Eq,
    "not_equal": sympy.Ne,
    "abs": lambda a: choose(a >= 0, a, -a),
    "sign": lambda a: choose(a > 0, 1, choose(a < 0, -1, 0)),
    "floor": Floor,
    "ceil": lambda a: sympy.Integer(-1) * Floor(-a),
    "round": lambda a: Floor(a + sympy.Rational(1, 2)),  # off the halves
    "floor_divide": lambda a, b: Floor(a / b),
    "remainder": lambda a, b: a - b * Floor(a / b),
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "arctan2": sympy.atan2,
    "exp2": lambda a: 2**a,
    "expm1": lambda a: sympy.exp(a) - 1,
    "log1p": lambda a: sympy.log(1 + a),
    "log2": lambda a: sympy.log(a, 2),
    "rsqrt": lambda a: 1 / sympy.sqrt(a),
    "sigmoid": lambda a: 1 / (1 + sympy.exp(-a)),
}
CONSTANTS = {math.pi: sympy.pi, math.inf: sympy.oo, -math.inf: -sympy.oo}


def symbolic(e: ex.Expr, names: dict[str, Any]) -> Any:
    """Read an expression in SymPy, numbers exactly."""
    if isinstance(e, ex.Num):
        return sympy.nan if math.isnan(e.value) else CONSTANTS.get(e.value) or sympy.Rational(e.value)
    if isinstance(e, ex.Var):
        return names[e.name]
    args = [symbolic(arg, names) for arg in e.args]
    if e.fn == "where":
        return choose(args[0], number(args[1]), number(args[2]))
    function = SYMPY.get(e.fn) or getattr(sympy, e.fn)
    return function(*map(number, args))


def symbols_of(row: Row) -> dict[str, Any]:
    return {arg: sympy.Symbol(arg, real=True, positive=min(row.domain.get(arg, (-1,))) > 0 or None) for arg in row.args}


def operands_of(e: ex.Expr) -> Iterator[tuple[str, tuple[ex.Expr, ...]]]:
    if isinstance(e, ex.Call):
        yield e.fn, e.args
        for arg in e.args:
            yield from operands_of(arg)


# What a row must be


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_is_whole(row: Row) -> None:
    assert row.args == ex.variables(row.expr)
    assert not {"g", "out"} & set(row.args), "these names mean the cotangent and the result"
    differentiable = set() if row.returns_bool else set(row.args) - {row.mask}
    assert set(row.partials) == differentiable
    for partial in row.partials.values():
        assert set(ex.variables(partial)) <= {*row.args, "out"}
    assert set(row.domain) <= set(row.args)
    for ends in row.domain.values():
        assert len(ends) % 2 == 0 and list(ends) == sorted(ends)


@pytest.mark.parametrize("name", ex.FUNCTIONS)
def test_every_function_has_a_symbolic_reading_with_the_same_values(name: str) -> None:
    names = "abc"[: ex.FUNCTIONS[name].arity]
    call = ex.Call(name, tuple(map(ex.Var, names)))
    symbols = {each: sympy.Symbol(each, real=True) for each in names}
    values = dict(zip(names, (0.625, 0.375, -1.5), strict=False))
    found = high_precision(symbolic(call, symbols), symbols)(*values.values())
    assert float(found) == pytest.approx(ex.evaluate(call, values))


def high_precision(e: Any, names: dict[str, Any]) -> Callable[..., Any]:
    """Make a function of mpmath numbers, one for each name."""
    return sympy.lambdify(list(names.values()), e, modules=[{"Floor": mpmath.floor}, "mpmath"])


# The partials


def exact(e: ex.Expr) -> bool:
    """Whether no constant is rounded, as log(2) is: SymPy would search long for an identity that does not hold then."""
    if isinstance(e, ex.Num):
        return not math.isfinite(e.value) or float(e.value).as_integer_ratio()[1] < 1 << 20
    return isinstance(e, ex.Var) or all(map(exact, e.args))


def disagreement(row: Row, arg: str, partial: ex.Expr, draw: Draw) -> str:
    """Compare a partial with SymPy's derivative: by simplification, or where that cannot decide, at 40 digits at points
    inside the domain. Constants of a row are doubles, so two ways to write one (2 / √π) agree to 16 digits alone."""
    names = symbols_of(row)
    out = number(symbolic(row.expr, names))
    derivative = sympy.diff(out, names[arg])
    written = number(symbolic(partial, names | {"out": out}))
    if exact(row.expr) and exact(partial) and sympy.simplify(written - derivative) == 0:
        return ""
    with mpmath.workdps(40):
        left, right = high_precision(written, names), high_precision(derivative, names)
        for point in zip(*draw(row, np.random.default_rng(1), (60,)), strict=True):
            at = [mpmath.mpf(float(x)) for x in point]
            if not mpmath.almosteq(left(*at), right(*at), rel_eps=1e-14, abs_eps=1e-14):
                return f"{left(*at)}, but the derivative is {right(*at)} at {point}"
    return ""


@pytest.mark.parametrize("row, arg", PARTIALS)
def test_the_partial_is_the_derivative_of_the_forward_expression(row: Row, arg: str, draw: Draw) -> None:
    assert not disagreement(row, arg, row.partials[arg], draw)


@pytest.mark.parametrize("row, arg", PARTIALS)
def test_a_partial_that_is_a_little_off_is_refused(row: Row, arg: str, draw: Draw) -> None:
    assert disagreement(row, arg, ex.Call("add", (row.partials[arg], ex.Num(1e-9))), draw)


@pytest.mark.parametrize("row, arg", PARTIALS)
def test_the_partial_is_what_central_differences_of_the_numpy_reading_give(row: Row, arg: str, draw: Draw) -> None:
    env = dict(zip(row.args, draw(row, np.random.default_rng(2), (200,)), strict=True))
    step = 6e-6  # ε^(1/3): where the errors of the formula and of rounding are least together
    with np.errstate(all="ignore"):  # both branches of a where are computed
        above, below = (ex.evaluate(row.expr, env | {arg: env[arg] + h}) for h in (step, -step))
        partial = ex.evaluate(row.partials[arg], env | {"out": ex.evaluate(row.expr, env)})
    np.testing.assert_allclose(np.broadcast_to(partial, 200), (above - below) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("row, arg", PARTIALS)
def test_the_domain_reaches_both_sides_of_every_kink(row: Row, arg: str, draw: Draw) -> None:
    """Else a partial could be wrong on the side that no test sees."""
    env = dict(zip(row.args, draw(row, np.random.default_rng(3), (200,)), strict=True))
    with np.errstate(all="ignore"):
        env["out"] = ex.evaluate(row.expr, env)
        for fn, args in operands_of(row.partials[arg]):
            if fn in ("less", "less_equal", "greater", "greater_equal"):
                left, right = (ex.evaluate(side, env) for side in args)
            elif fn in ("abs", "sign"):
                left, right = ex.evaluate(args[0], env), 0
            else:
                continue
            assert np.any(left < right) and np.any(left > right), f"{ex.to_text(row.partials[arg])}: one side only"


def test_importing_the_ops_looks_for_no_device() -> None:
    code = """
import pyopencl
def refuse(*args, **kwargs):
    raise SystemExit("an OpenCL platform was looked for")
pyopencl.get_platforms = pyopencl.create_some_context = refuse
import netcl.ops
print("add" in netcl.ops.OPS)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout.strip() == "True", run.stderr
