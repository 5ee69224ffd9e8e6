"""What lesson 18 has students bring: a layer on the op that they wrote in lesson 17."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.errors import ArgumentError
from netcl.platforms import get_device
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_18_build import normal
from netcl.tensor import Tensor

FAR = 30000.0  # so far to the left, x + √(x² + 4) is nothing in float32


def _cancelling(x: Any) -> Any:
    return (x + ag.sqrt(x * x + 4.0)) / 2.0


def _by_ops(x: Any) -> Any:
    """f(x) = f(max(x, 0)) f(min(x, 0)), each in the form in which nothing cancels."""
    right, left = ag.maximum(x, 0.0), ag.minimum(x, 0.0)
    return (right + ag.sqrt(right * right + 4.0)) / (ag.sqrt(left * left + 4.0) - left)


def _with_rule(rule: Callable[[Any, Any, Any], Any], forward: Callable[[Any], Any] = _by_ops) -> Callable[[Any], Any]:
    """squareplus with a rule of (g, x, out), as an op of one's own."""

    def op(x: Any) -> Any:
        return ag.apply_op(forward, lambda g, out: [rule(g, x.value, out)], x, once_differentiable=True)

    return op


def _slope_by_value(g: Any, x: Any, out: Any) -> Any:
    return g * out / ag.sqrt(x * x + 4.0)


_own = _with_rule(_slope_by_value)
_value_cancels = _with_rule(_slope_by_value, _cancelling)
_slope_cancels = _with_rule(lambda g, x, out: g * (1.0 + x / ag.sqrt(x * x + 4.0)) / 2.0)
_of_max = _with_rule(lambda g, x, out: g * ag.astype(x > 0.0, x.dtype))
_at_output = _with_rule(lambda g, x, out: g * (1.0 + out / ag.sqrt(out * out + 4.0)) / 2.0)


def _dense(op: Callable[[Any], Any]) -> Callable[[Any], Callable[..., Any]]:
    return lambda d: lambda x, weight, bias: op(x @ weight + bias)


def _passed(f: Callable[..., Any], x: Tensor, weight: Tensor, bias: Tensor, g: Tensor, far: float) -> list[Any]:
    """Value, dtype and gradients; so far to the left that they are small, both are brought to the size of 1."""
    leaves = [ag.tensor(value, requires_grad=True) for value in (x, weight, bias)]
    out = f(*leaves)
    if not isinstance(out, ag.Node):
        raise ArgumentError(f"dense returned {type(out).__name__} for nodes; ops on nodes make a node")
    ag.Tape().backward(out, g)
    grads = [None if leaf.grad is None else leaf.grad.to_host() * far * far for leaf in leaves]
    return [out.to_host() * far, str(out.dtype), *grads]


def _told(x: Any, weight: Any, bias: Any, g: Any, far: float) -> str:
    if far != 1:
        return f"dense, where the affine map gives {-far:g} in {weight.dtype}"
    return f"dense on x {x.shape}, weight {weight.shape} and bias {bias.shape} in {weight.dtype}"


def _dense_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    dtypes = (np.float32, np.float64) if get_device().has_fp64 else (np.float32,)
    cases = []
    for t in dtypes:
        for n, k, m in ((4, 2, 3), (3, 3, 3), (1, 5, 2), (6, 1, 1), (17, 4, 8)):
            shapes = ((n, k), (k, m), (m,), (n, m))
            cases.append((*(normal(rng, shape, t) for shape in shapes), 1.0))
        cases.append((np.array([[2]], t), np.array([[-FAR / 2]], t), np.zeros(1, t), np.array([[1.5]], t), FAR))
    return cases


OP = Exercise(
    name="18.op", kind="build",
    asks="dense(x, weight, bias): squareplus, your op, of the affine map, on nodes",
    answer=Function(
        _dense(_own), cases=_dense_cases, rtol=1e-4, atol=1e-5, tensors=True, call=_passed, seconds=60.0,
        why="float32 products, summed in any order", say=_told,
        parts=("value", "dtype", "gradient of x", "gradient of weight", "gradient of bias"),
    ),
    right=(
        _dense(_own),
        _dense(_by_ops),
        lambda d: lambda x, weight, bias: _own(ag.linear(x, weight, bias)),
    ),
    because="Value and all three gradients are right, in every shape and dtype that was tried, and far to the left.",
    wrong=(
        Wrong("difference of near equals, value and slope", _dense(_cancelling), (
            "Right near zero. Far to the left nothing is left of the value, nor of the gradients.",
            "Lesson 17 turned the formula round for negative x, since x and the root nearly cancel. Bring that form.",
            "10000 − √99999999 is 0 in float32; as 1 / (10000 + √99999999) it keeps its digits.",
        )),
        Wrong("difference of near equals, value", _dense(_value_cancels), (
            "Far to the left the value is lost, and your rule, which reads it, has nothing to divide.",
            "The rule is that of lesson 17; the forward pass needs both forms, chosen by the sign of x.",
            "For p = −5000 the sum p + √(p² + 1) loses all digits, 1 / (√(p² + 1) − p) none.",
        )),
        Wrong("difference of near equals, slope", _dense(_slope_cancels), (
            "The values are right everywhere. Far to the left your gradients are nothing at all.",
            "1 + x/√(…) cancels where x is very negative; the slope is also the value over the root.",
            "1 − 0.99999999 is 0 in float32, whatever it is multiplied with afterwards.",
        )),
        Wrong("the op left out", lambda d: lambda x, weight, bias: x @ weight + bias, (
            "This is the affine map alone.",
            "Without something that bends, any number of layers is one affine map.",
            "Twice 3p + 1 is 3(3p + 1) + 1, a straight line again.",
        )),
        Wrong("bias after the op", lambda d: lambda x, weight, bias: _own(x @ weight) + bias, (
            "Look at where the bias comes in.",
            "The bias moves the place of the bend; so it is added before the op.",
            "max(p, 0) + 7 bends at 0 whatever the 7 is; max(p + 7, 0) bends at −7.",
        )),
        Wrong("bias forgotten", lambda d: lambda x, weight, bias: _own(x @ weight), (
            "One of the three arguments has no gradient.",
            "A node gets a gradient only if the result was made from it.",
            "x @ weight alone maps 0 to 0, whatever is learned.",
        )),
        Wrong("the rule of max(x, 0)", _dense(_of_max), (
            "The values are right, the gradients are not: they are all or nothing.",
            "squareplus is smooth; its slope lies between 0 and 1 everywhere.",
            "Half a unit left of zero its slope is about 0.38, and not 0.",
        )),
        Wrong("slope taken at the output", _dense(_at_output), (
            "The values are right. Your slopes are all above one half.",
            "The local derivative belongs to the input of the op; the output is always positive.",
            "At x = −40 the slope is near 0. At the output, near 0 as well, it would be one half.",
        )),
        Wrong("values instead of nodes", lambda d: lambda x, weight, bias: _own(x @ weight.value + bias), (
            "The weight has no gradient.",
            "`.value` is the tensor without its history; whoever goes on with it leaves the graph.",
            "p.value * 7 is a number to the engine, and no gradient reaches p.",
        )),
        Wrong("the op twice", _dense(lambda x: _own(_own(x))), (
            "Your values are too large, and never below one.",
            "One layer has one bend: the op is applied once.",
            "squareplus maps 0 to 1; applied again, 1 goes to about 1.62.",
        )),
    ),
)  # fmt: skip
