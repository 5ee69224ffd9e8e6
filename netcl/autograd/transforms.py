"""Functions to functions: grad, vjp, jvp, Jacobians and Hessians, with JAX's signatures.

Each run of a transform has a level. Its nodes (or duals) hold values of levels outside it, which an op reaches last: so
an inner derivative treats outer variables as constants, and an outer one sees every op of the inner
(Siskind & Pearlmutter 2005, Perturbation Confusion and Referential Transparency).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from netcl.autograd.dual import Dual
from netcl.autograd.engine import pull_back
from netcl.autograd.modes import modes, recording
from netcl.autograd.node import Node
from netcl.autograd.site import here
from netcl.autograd.traced import settled
from netcl.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from netcl.ops import OPS
from netcl.tensor import Tensor

_ARRAYS = (Tensor, Node, Dual)
_levels = itertools.count(1)


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return f(*primals) and the function that pulls cotangents of it back to the primals.

    Math:    pullback(v) = (Jᵢᵀ v for each primal i), with Jᵢ = ∂f/∂xᵢ; no Jacobian is built
    Shapes:  v has the shape of the result, entry i of the pullback's tuple that of primal i
    Raises:  DTypeError for an integer primal; ShapeError, DTypeError or DeviceError for a cotangent that does not fit

    >>> out, pullback = vjp(lambda x: x * x, [1.0, 3.0])
    >>> pullback([1.0, 1.0])[0].to_host()
    array([2., 6.], dtype=float32)
    """
    values = [_floating("vjp", x) for x in primals]
    with _running() as level:
        leaves = [Node(value, level=level, site=here()) for value in values]
        out = _array("vjp", f(*leaves))
    mine = isinstance(out, Node) and out.level == level
    result = out.value if mine else out

    def pullback(v: Any) -> tuple[Any, ...]:
        seed = _like("pullback", v, result)
        if not mine:
            return tuple(_zeros_like(value) for value in values)
        found = pull_back(out, seed, targets=leaves)
        return tuple(_zeros_like(leaf.value) if found.get(leaf) is None else found[leaf] for leaf in leaves)

    return _outside(result), pullback


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return f(*primals) and the directional derivative along the tangents, in one forward pass (dual numbers).

    Math:    out_dot = Σ over i of Jᵢ tᵢ; nothing is recorded, and no Jacobian is built
    Shapes:  each tangent has the shape and dtype of its primal; the results have the shape of f's
    Raises:  ShapeError or DTypeError for a tangent that does not fit, GraphError for an op without a forward rule

    >>> out, tangent = jvp(lambda x: x * x, ([1.0, 3.0],), ([1.0, 0.0],))
    >>> tangent.to_host()
    array([2., 0.], dtype=float32)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ArgumentError("jvp takes a tuple of primals and a tuple of tangents: jvp(f, (x,), (t,))")
    if len(primals) != len(tangents):
        raise ArgumentError(f"jvp: {len(primals)} primals came with {len(tangents)} tangents")
    values = [_floating("jvp", x) for x in primals]
    moves = [_like("jvp", t, value) for t, value in zip(tangents, values, strict=True)]
    with _running() as level:
        out = _array("jvp", f(*[Dual(x, t, level) for x, t in zip(values, moves, strict=True)]))
    if isinstance(out, Dual) and out.level == level:
        return _outside(out.primal), _outside(out.tangent)
    return _outside(out), _zeros_like(out)


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., tuple[Any, Any]]:
    """Return a function that gives f's value and its gradient together; see `grad`.

    >>> value, g = value_and_grad(lambda x: (x * x).sum())([1.0, 3.0])
    >>> value.item(), g.to_host().tolist()
    (10.0, [2.0, 6.0])
    """
    single = isinstance(argnums, int)
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)

    @functools.wraps(f)
    def run(*xs: Any, **kwargs: Any) -> tuple[Any, Any]:
        for i in wanted:
            if not -len(xs) <= i < len(xs):
                raise ArgumentError(f"grad: argnums={argnums} but only {len(xs)} arguments came")
        places = [i % len(xs) for i in wanted]

        def of_wanted(*chosen: Any) -> Any:
            args = list(xs)
            for place, x in zip(places, chosen, strict=True):
                args[place] = x
            return f(*args, **kwargs)

        out, pullback = vjp(of_wanted, *[xs[i] for i in places])
        if out.size != 1:
            raise ShapeError(
                f"grad is of a function to one number, but f gave shape {out.shape}; sum it, or use jacobian"
            )
        grads = pullback(Tensor.full(out.shape, 1, out.dtype, out.device))  # made there, so that a replay may take it
        return out, grads[0] if single else grads

    return run


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Return the function that gives the gradient of f.

    Math:    grad(f)(x) = ∂f/∂x, the transpose of f's 1 × n Jacobian
    Shapes:  f gives one number; the gradient has the shape of argument `argnums` (a tuple of them for a tuple)
    Raises:  ShapeError if f gives more than one number, DTypeError for an integer argument

    Applied again it gives second derivatives: `grad(grad(f))`.

    >>> grad(grad(lambda x: x**3))(2.0).item()
    12.0
    """
    both = value_and_grad(f, argnums)

    @functools.wraps(f)
    def run(*xs: Any, **kwargs: Any) -> Any:
        return both(*xs, **kwargs)[1]

    return run


def jacobian(f: Callable[..., Any], mode: str | None = None) -> Callable[[Any], Any]:
    """Return the function that gives the Jacobian of f.

    Math:    J[i, j] = ∂f(x)[i] / ∂x[j]; by columns (forward mode, a jvp for each entry of x) if f has at least as many
             outputs as inputs, else by rows (reverse mode, a vjp for each output); `mode` is "forward" or "reverse"
    Shapes:  out.shape + in.shape
    Raises:  ArgumentError for another mode

    >>> jacobian(lambda x: x * x)([1.0, 3.0]).to_host()
    array([[2., 0.],
           [0., 6.]], dtype=float32)
    """
    if mode not in (None, "forward", "reverse"):
        raise ArgumentError(f'jacobian: mode is "forward", "reverse" or None, not {mode!r}')

    @functools.wraps(f)
    def run(x: Any) -> Any:
        value = _floating("jacobian", x)
        out, pullback = vjp(f, value)
        forward = mode == "forward" or (mode is None and out.size >= value.size)
        basis_of = value if forward else out
        if not basis_of.size or not (out.size if forward else value.size):
            return _zeros_of((*out.shape, *value.shape), out)
        lines = []
        for i in range(basis_of.size):
            unit = np.zeros(basis_of.size, basis_of.dtype)
            unit[i] = 1
            unit = unit.reshape(basis_of.shape)
            lines.append(jvp(f, (value,), (unit,))[1] if forward else pullback(unit)[0])
        table = OPS["stack"](*lines, axis=0)
        if not forward:
            return table.reshape((*out.shape, *value.shape))
        axes = (*range(1, len(out.shape) + 1), 0)
        return table.transpose(axes).reshape((*out.shape, *value.shape))

    return run


def hessian(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return the function that gives the Hessian of f, forward over reverse.

    Math:    H[i, j] = ∂²f / ∂x[i] ∂x[j]
    Shapes:  f gives one number; x.shape + x.shape

    >>> hessian(lambda x: (x**3).sum())([1.0, 2.0]).to_host()
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacobian(grad(f), mode="forward")


def hvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """Return the Hessian of f at x times v, without building the Hessian: forward mode over reverse mode.

    Math:    H v = d/dε ∇f(x + ε v) at ε = 0  (Pearlmutter 1994, Fast Exact Multiplication by the Hessian)
    Shapes:  v and the result have the shape of x

    >>> hvp(lambda x: (x**3).sum(), [1.0, 2.0], [1.0, 1.0]).to_host()
    array([ 6., 12.], dtype=float32)
    """
    return jvp(grad(f), (x,), (v,))[1]


@contextmanager
def _running() -> Iterator[int]:
    """Open a level, inside all others. Recording is on: asking for a derivative under no_grad is asking all the same.

    No two transforms share a number, in any thread: what is kept from one that has ended is a constant to the others.
    """
    with recording(True):
        yield next(_levels)


def _outside(x: Any) -> Any:
    """Drop the graph of a result if it belongs to the user's own level and is not being recorded there."""
    return x.value if isinstance(x, Node) and x.level == 0 and not modes.recording else x


def _floating(name: str, x: Any) -> Any:
    x = settled(x)
    value = x if isinstance(x, _ARRAYS) else Tensor.from_host(x)
    if value.dtype.kind != "f":
        raise DTypeError(f"{name} is with respect to floating-point inputs, not {value.dtype}; pass it as float32")
    return value


def _array(name: str, out: Any) -> Any:
    out = settled(out)
    if not isinstance(out, _ARRAYS):
        raise ArgumentError(f"{name}: f must return one tensor, not {type(out).__name__}")
    return out


def _like(name: str, given: Any, value: Any) -> Any:
    """Return a tangent or cotangent, checked against the value that it belongs to."""
    given = settled(given)
    is_array = isinstance(given, (*_ARRAYS, np.ndarray))
    x = (
        given
        if isinstance(given, _ARRAYS)
        else Tensor.from_host(given, None if is_array else value.dtype, value.device)
    )
    if x.shape != value.shape:
        raise ShapeError(f"{name}: shape {x.shape} came where the value has {value.shape}")
    if x.dtype != value.dtype:
        raise DTypeError(f"{name}: {x.dtype} came where the value is {value.dtype}")
    if x.device is not value.device:
        raise DeviceError(f"{name}: one on {x.device.name} came where the value is on {value.device.name}")
    return x


def _zeros_of(shape: tuple[int, ...], like: Any) -> Tensor:
    return Tensor.full(shape, 0, like.dtype, like.device)


def _zeros_like(x: Any) -> Tensor:
    return _zeros_of(x.shape, x)
