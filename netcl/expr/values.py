"""Scalar expressions evaluated, on NumPy arrays or on anything that has the functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netcl.errors import ExprError
from netcl.expr.tree import ARITHMETIC, COMPARISONS, FUNCTIONS, OPERATORS, Expr, Num, Var


def _as_in_c(f: Callable[..., Any]) -> Callable[..., Any]:
    """Truth values count as the ints 0 and 1, as in C: NumPy has no `-` for booleans, and its `+` is an or."""

    def call(*args: Any) -> Any:
        if all(np.asarray(arg).dtype == np.bool_ for arg in args):
            args = tuple(np.asarray(arg).astype(np.int64) for arg in args)
        return f(*args)

    return call


def _weak(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of constants stays a Python number, so that 1 / 2 does not turn a float32 array into float64."""

    def call(*args: Any) -> Any:
        result = f(*args)
        return np.asarray(result).item() if all(type(arg) in (bool, int, float) for arg in args) else result

    return call


NUMPY: dict[str, Callable[..., Any]] = {
    "neg": _weak(_as_in_c(operator.neg)),
    **{name: _weak(_as_in_c(row.numpy)) for name, row in (ARITHMETIC | FUNCTIONS).items()},
    **{name: _weak(row.numpy) for name, row in COMPARISONS.items()},
    "where": _weak(np.where),
}


def evaluate(e: Expr, env: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = NUMPY) -> Any:
    """The value of an expression, with `env` for its names and `functions` for its functions and operators.

    `functions` need not hold `add sub mul div neg pow`: Python's operators stand in. It must hold the comparisons that
    occur, since `==` is identity on tensors. Both branches of a `where` are computed.

    Raises:  ExprError naming a function or a variable that is missing

    >>> from netcl import expr
    >>> import numpy as np
    >>> expr.evaluate(expr.parse("where(a < 0, 0, a)"), {"a": np.array([-1.0, 2.0])})
    array([0., 2.])
    """
    match e:
        case Num(value):
            return value
        case Var(name):
            if name not in env:
                raise ExprError(f"no value for {name!r}; there are {', '.join(env) or 'none'}")
            return env[name]
    function = functions.get(e.fn) or OPERATORS.get(e.fn)
    if function is None:
        raise ExprError(f"no function {e.fn!r}; there are {', '.join(functions)}")
    return function(*(evaluate(arg, env, functions) for arg in e.args))
