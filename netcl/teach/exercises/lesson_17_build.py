"""What lesson 17 has students write: the rule of a slope, a rule that forgot its cotangent, an op of two kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.errors import ArgumentError
from netcl.layout import CTYPES
from netcl.platforms import get_device
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong
from netcl.tensor import Tensor
from netcl.user_kernel import Kernel, kernel

_HEAD = "const size_t i = get_global_id(0);"


@lru_cache(maxsize=64)
def _typed(source: str, dtype: np.dtype) -> Kernel:
    return kernel(source.replace("REAL", CTYPES[dtype]))


def _dtypes() -> tuple[type, ...]:
    return (np.float32, np.float64) if get_device().has_fp64 else (np.float32,)


def _array(rng: random.Random, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return np.array([rng.gauss(0, 2) for _ in range(count)], dtype).reshape(shape)


def _host(rule: Callable[..., np.ndarray]) -> Callable[..., Tensor]:
    """A function on tensors that computes on the host, in the dtype of what came."""
    return lambda g, x: Tensor.from_host(np.asarray(rule(g.to_host(), x.to_host()), x.dtype))


def _with_dtype(f: Callable[..., Any], *args: Any) -> list[Any]:
    result = f(*args)
    return [result, str(result.dtype)]


def _host_rule(rule: Callable[..., np.ndarray]) -> Callable[[Any], Callable[..., Tensor]]:
    return lambda d: _host(rule)


# 17.slope: the cotangent of one slope per column

_SLOPE = """
__kernel void slope(__global const REAL* g, __global const REAL* x, const long rows, const long columns,
                    __global REAL* a_bar) {
    const size_t j = get_global_id(0);
    REAL sum = 0;
    for (long i = 0; i < rows; i++) {
        const REAL v = x[i * columns + j];
        if (v <= 0) sum += g[i * columns + j] * v;
    }
    a_bar[j] = sum;
}
"""


def _slope(g: Tensor, x: Tensor) -> Any:
    rows, columns = x.shape
    return _typed(_SLOPE, x.dtype)(g, x, rows, columns, out=(columns,))


def _slope_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    shapes = ((2, 3), (3, 3), (1, 4), (65, 2), (4, 1), (0, 3))
    return [(_array(rng, shape, t), _array(rng, shape, t)) for t in _dtypes() for shape in shapes]


SLOPE = Exercise(
    name="17.slope", kind="build",
    asks="slope_vjp(g, x): the cotangent of the slopes, one for each column of x",
    answer=Function(
        lambda d: _slope, cases=_slope_cases, rtol=1e-4, atol=1e-5, tensors=True, call=_with_dtype,
        why="float32 sums in any order",
    ),
    right=(
        lambda d: _slope,
        _host_rule(lambda g, x: (g * np.minimum(x, 0)).sum(axis=0)),
        lambda d: lambda g, x: (g * ag.minimum(x, 0.0)).sum(axis=0),
    ),
    because="Each column collected g · x over the rows in which its slope was used.",
    wrong=(
        Wrong("every row counted", _host_rule(lambda g, x: (g * x).sum(axis=0)), (
            "Too much is collected. In which rows was the slope used at all?",
            "Where x is positive, y = x: the slope is not read there and gets nothing back.",
            "A column [−0.5, 20] with g = [1, 1] gives −0.5: the 20 went past the slope.",
        )),
        Wrong("the other side", _host_rule(lambda g, x: (g * np.maximum(x, 0)).sum(axis=0)), (
            "You collected just the rows in which the slope was not used.",
            "The slope multiplies x where x is not positive.",
            "A column of positive numbers only never meets its slope: its cotangent is 0.",
        )),
        Wrong("x forgotten", _host_rule(lambda g, x: (g * (x <= 0)).sum(axis=0)), (
            "The right rows, but what multiplies da in dy?",
            "dy = x da: each contribution is g times x.",
            "At x = −20, moving the slope by 0.01 moves y by −0.2, not by 0.01.",
        )),
        Wrong("cotangent forgotten", _host_rule(lambda g, x: np.minimum(x, 0).sum(axis=0)), (
            "Your result does not mind what arrives.",
            "A rule is linear in its cotangent: twice the g, twice the result.",
            "With g = 0 every slope gets 0.",
        )),
        Wrong("= for +=", _host_rule(lambda g, x: (g * np.minimum(x, 0))[-1:].sum(axis=0)), (
            "Only one row has been heard.",
            "The slope is read in many rows, and what comes back is added: sum += in the loop.",
            "Rows that send 1.5, 0 and 20 make 21.5, and not 20.",
        )),
        Wrong("rows for columns", _host_rule(lambda g, x: (g * np.minimum(x, 0)).sum(axis=1)), (
            "You have one number for each row. Whose are the slopes?",
            "A work-item stands for one column and goes down its rows: entry i · columns + j.",
            "An array of shape (70, 9) has 9 slopes.",
        )),
        Wrong("the rule of x", _host_rule(lambda g, x: (g * (x > 0)).sum(axis=0)), (
            "That is how g goes back to x where it is positive. Here the slope is asked for.",
            "Hold x, move a: dy = x da where x is not positive, and nothing elsewhere.",
            "For p · q the derivative by q is p: the factor that stays.",
        )),
    ),
)  # fmt: skip


# 17.forgotten: a rule that never looks at its cotangent


def _forgotten_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    shapes = ((4,), (2, 3), (1, 1), (3, 2, 2), (17,))
    return [(_array(rng, shape, np.float32), _array(rng, shape, np.float32)) for shape in shapes]


_ODD = "__kernel void odd(__global const float* g, __global const float* x, __global float* x_bar) {"
_MENDED = f"{_ODD} {_HEAD} x_bar[i] = 2 * fabs(x[i]) * g[i]; }}"


FORGOTTEN = Exercise(
    name="17.forgotten", kind="debug",
    asks="odd_square_vjp(g, x) mended: the VJP of y = x · |x|",
    answer=Function(
        lambda d: lambda g, x: _typed(_MENDED, x.dtype)(g, x, out=x.shape), cases=_forgotten_cases, rtol=1e-5,
        atol=1e-6, tensors=True, why="two products in float32",
    ),
    right=(
        lambda d: lambda g, x: _typed(_MENDED, x.dtype)(g, x, out=x.shape),
        _host_rule(lambda g, x: g * 2 * np.abs(x)),
        lambda d: lambda g, x: ag.abs(x) * g * 2.0,
    ),
    because="The local derivative was right all along; now what arrives goes through it.",
    wrong=(
        Wrong("as it stands", _host_rule(lambda g, x: 2 * np.abs(x)), (
            "This is the rule as it was found. Which of its parameters is never read?",
            "A rule multiplies what arrives by the local derivative.",
            "Behind y, put a factor of 10: x̄ must become ten times as large.",
        )),
        Wrong("added", _host_rule(lambda g, x: 2 * np.abs(x) + g), (
            "The cotangent is in now, but not as a factor.",
            "dy = (local derivative) dx, so ȳ dy is a product.",
            "With g = 0 nothing may come back; yours sends the derivative all the same.",
        )),
        Wrong("absolute value lost", _host_rule(lambda g, x: 2 * x * g), (
            "Right for positive x. Which way does x · |x| go on the left of zero?",
            "On the left y = −x², whose derivative is −2x, and that is positive there.",
            "From x = −10 to −9, y goes from −100 up to −81.",
        )),
        Wrong("the 2 lost", _host_rule(lambda g, x: np.abs(x) * g), (
            "Too small by the same factor everywhere.",
            "x stands in the formula twice, and each of them sends back |x| times what arrives.",
            "At x = 10, y goes from 100 to 102.01 when x grows by 0.1: a slope near 20.",
        )),
        Wrong("the value for the derivative", _host_rule(lambda g, x: x * np.abs(x) * g), (
            "You multiply by y. Which formula belongs into a rule?",
            "A rule uses the derivative of the op, taken at its input.",
            "At x = 10 the value is 100 and the derivative 20.",
        )),
        Wrong("squared", _host_rule(lambda g, x: 2 * np.abs(x) * g * g), (
            "Twice the cotangent gives four times your result.",
            "A rule is linear in g: it stands there once.",
            "With g = 10 the result is ten times that of g = 1, not a hundred times.",
        )),
    ),
)  # fmt: skip


# 17.squareplus: an op of two kernels

_FORWARD = f"""
__kernel void squareplus(__global const REAL* x, __global REAL* y) {{
    {_HEAD}
    const REAL r = sqrt(x[i] * x[i] + 4);
    y[i] = x[i] > 0 ? (x[i] + r) / 2 : 2 / (r - x[i]);
}}
"""
_NAIVE = f"""
__kernel void squareplus(__global const REAL* x, __global REAL* y) {{
    {_HEAD}
    y[i] = (x[i] + sqrt(x[i] * x[i] + 4)) / 2;
}}
"""
_TURNED = f"""
__kernel void squareplus(__global const REAL* x, __global REAL* y) {{
    {_HEAD}
    y[i] = 2 / (sqrt(x[i] * x[i] + 4) - x[i]);
}}
"""


def _rule(line: str) -> str:
    return f"""
__kernel void squareplus_vjp(__global const REAL* g, __global const REAL* x, __global const REAL* y,
                             __global REAL* x_bar) {{
    {_HEAD}
    const REAL r = sqrt(x[i] * x[i] + 4);
    x_bar[i] = {line};
}}
"""


def _op(line: str, forward: str = _FORWARD) -> Callable[[Any], Callable[..., Any]]:
    def squareplus(x: Any) -> Any:
        def rule(g: Any, out: Any) -> list[Any]:
            return [_typed(_rule(line), g.dtype)(g, x.value, out, out=g.shape)]

        return ag.apply_op(
            lambda v: _typed(forward, v.dtype)(v, out=v.shape), rule, x, op_name="squareplus", once_differentiable=True
        )

    return lambda d: squareplus


def _by_ops(x: Any) -> Any:
    """By netcl's own operations: f(x) = f(max(x, 0)) f(min(x, 0)), each in the form in which nothing cancels."""
    right, left = ag.maximum(x, 0.0), ag.minimum(x, 0.0)
    return (right + ag.sqrt(right * right + 4.0)) / (ag.sqrt(left * left + 4.0) - left)


def _used(f: Callable[..., Any], x: Tensor, g: Tensor, turned: bool) -> list[Any]:
    leaf = ag.tensor(x.T if turned else x, requires_grad=True)
    y = f(leaf)
    if not isinstance(y, ag.Node):
        raise ArgumentError(f"squareplus returned {type(y).__name__} for a node; ag.apply_op makes one")
    ag.Tape().backward(y, g.T if turned else g)
    return [y.to_host(), None if leaf.grad is None else leaf.grad.to_host(), str(y.dtype)]


def _squareplus_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for t in _dtypes():
        for shape in ((4,), (2, 3), (3, 1, 2), (), (0, 3), (1000,)):
            cases.append((_array(rng, shape, t), _array(rng, shape, t) + t(1), len(shape) == 2))
        far = np.array([-30000, -1000, -40, 0, 40, 1000, 30000], t)
        cases.append((far, _array(rng, far.shape, t), False))
    return cases


SQUAREPLUS = Exercise(
    name="17.squareplus", kind="build",
    asks="squareplus(x), an op of two kernels of yours: y = (x + √(x² + 4)) / 2 and its rule",
    answer=Function(
        _op("g[i] * y[i] / r"), cases=_squareplus_cases, rtol=1e-4, atol=1e-30, tensors=True, call=_used, seconds=60.0,
        why="a few roundings in float32, relative to the value itself", parts=("value", "gradient", "dtype"),
    ),
    right=(
        _op("g[i] * y[i] / r"),
        _op("x[i] > 0 ? g[i] * (1 + x[i] / r) / 2 : 2 * g[i] / (r * (r - x[i]))"),
        lambda d: _by_ops,
    ),
    because="Value and slope keep their digits far to the left as well.",
    wrong=(
        Wrong("difference of near equals, forward", _op("g[i] * 2 / (r * (r - x[i]))", _NAIVE), (
            "The value loses its digits far to the left, where x and the root nearly cancel.",
            "For negative x use the other form: the product of x + √ and √ − x is known.",
            "3 − √8.99 keeps its digits as 0.01 / (3 + √8.99).",
        )),
        Wrong("as it is written, value and slope", _op("g[i] * (1 + x[i] / r) / 2", _NAIVE), (
            "Right near zero. Far to the left both the value and the slope lose their digits.",
            "Two forms of the value stand in this section: choose by the sign of x, and take the slope from the value.",
            "1000000 + 0.1 − 1000000 in float32 is 0.125.",
        )),
        Wrong("as it is written, slope by value", _op("g[i] * y[i] / r", _NAIVE), (
            "The rule is fine, and divides a value that has lost its digits.",
            "Mend the forward kernel: for negative x there is a form in which nothing cancels.",
            "Who copies a wrong digit carefully has a wrong digit.",
        )),
        Wrong("turned round on both sides", _op("g[i] * y[i] / r", _TURNED), (
            "Right on the left. Far to the right you divide by a difference of near equals.",
            "The turned form is for negative x; for positive x the first one adds: `condition ? this : that`.",
            "√(x² + 1) − x at x = 10000: in float32 the root is 10000 too, and 1 / 0 is infinite.",
        )),
        Wrong("difference of near equals, backward", _op("g[i] * (1 + x[i] / r) / 2"), (
            "The value is right. The slope loses its digits far to the left.",
            "1 + x/√ is a difference of near equals when x is very negative; the slope is also value over root.",
            "1 − 0.9999999 in float32 keeps one digit; 0.001 / 1000 keeps all of them.",
        )),
        Wrong("cotangent forgotten", _op("y[i] / r"), (
            "Forward is right. Your backward kernel never reads what arrives.",
            "x̄ is ȳ times the local derivative: g[i] is one of the factors.",
            "gradcheck sees this one; the gradient of a sum does not, since there ȳ is 1.",
        )),
        Wrong("the rule of max(x, 0)", _op("x[i] > 0 ? g[i] : 0"), (
            "Your slope jumps at zero. The curve does not.",
            "The curve looks like max(x, 0) from afar, and its slope goes from 0 to 1 smoothly.",
            "At x = 0 the slope of a smooth bend is one half.",
        )),
        Wrong("half of the rule", _op("g[i] * x[i] / (2 * r)"), (
            "One of the two terms of the formula sends nothing back.",
            "x stands outside the root, too: that term has the derivative 1.",
            "For x + x² at x = 10 the two terms send 1 and 20.",
        )),
        Wrong("the root's inner derivative lost", _op("g[i] * (1 + 1 / r) / 2"), (
            "The slope of the root is not complete.",
            "√u sends back 1 / (2√u) times what is inside's own derivative, here 2x.",
            "For √(x² + 1) at x = 0 the slope is 0, since the inside does not move.",
        )),
        Wrong("only multiplied by the value", _op("g[i] * y[i]"), (
            "Far to the right your slope grows with x. The curve is a straight line there.",
            "Value and slope are related by the root: one of them is divided by it.",
            "Far out y is nearly x; its slope is nearly 1, not x.",
        )),
    ),
)  # fmt: skip
