"""Every op that HIPS autograd has, or can compute, against it: results, first and second derivatives.

Shapes, layouts, dtypes and parameters are drawn by Hypothesis. A row without a namesake there is read as an expression
over autograd's functions, so that its derivatives are theirs. A new row is tested by being in the table; a structural
op that is in no list here fails.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import autograd.numpy
import numpy as np
import pytest
from autograd import grad
from autograd.extend import defvjp, primitive
from hypothesis import given, settings
from hypothesis import strategies as st

from netcl import autograd as ag
from netcl import expr as ex
from netcl.device import Device
from netcl.ops import OPS, Row
from netcl.tensor import Tensor

EXAMPLES = 50
anp: Any = autograd.numpy  # its functions are made at run time, so type checkers do not know them
RNG = np.random.default_rng
Draw = Callable[..., list[np.ndarray]]
TOLERANCE = {np.dtype(np.float32): (2e-4, 5e-4), np.dtype(np.float64): (1e-10, 1e-11)}


# How autograd reads what it has under no name of its own


@primitive
def erfc(x: Any) -> Any:
    return np.vectorize(math.erfc, otypes=[float])(x)


defvjp(erfc, lambda out, x: lambda g: -2 / math.sqrt(math.pi) * anp.exp(-(x**2)) * g)


def where(c: Any, a: Any, b: Any) -> Any:
    """autograd's where does not sum a cotangent over the axes that it stretched; its sum with zeros does."""
    wide = np.zeros(np.broadcast_shapes(np.shape(c), np.shape(a), np.shape(b)))
    return anp.where(c, a + wide, b + wide)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(anp, name)
    for name in [*ex.FUNCTIONS, "less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
    if hasattr(anp, name)
} | {
    "pow": lambda a, b: a**b,
    "erfc": erfc,
    "where": where,
    "erf": lambda a: 1 - erfc(a),
    "rsqrt": lambda a: 1 / anp.sqrt(a),
    "sigmoid": lambda a: 1 / (1 + anp.exp(-a)),
}
"""What a row's expression is read over."""

NAMES = {"add", "sub", "mul", "div", "neg", "pow", "maximum", "minimum", "arctan2", "square", "reciprocal"} | {
    *("exp exp2 expm1 log log2 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh abs sign").split(),
    *("less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor logical_not").split(),
    *("isnan isinf isfinite floor ceil round").split(),
}
ROWS = [op for op in OPS.values() if isinstance(op, Row)]


def reading(row: Row) -> Callable[..., Any]:
    """Return autograd's function of the row's name, or the row's expression over autograd's functions."""
    named = [getattr(anp, name) for name in (row.name, *row.aliases) if hasattr(anp, name)]
    if row.name in NAMES:
        assert named, f"autograd has no {row.name}"
        return named[0]
    return lambda *operands: ex.evaluate(row.expr, dict(zip(row.args, operands, strict=True)), FUNCTIONS)


# Layouts


def plain(x: np.ndarray, device: Device) -> Tensor:
    return Tensor.from_host(x, device=device)


def transposed(x: np.ndarray, device: Device) -> Tensor:
    return Tensor.from_host(x.T.copy(), device=device).T


def spaced(x: np.ndarray, device: Device) -> Tensor:
    """An offset, gaps, and the first axis backwards."""
    wide = np.zeros([2 * n + 3 for n in x.shape], x.dtype)
    wide[tuple(slice(2, 2 + 2 * n, 2) for n in x.shape)] = x[::-1] if x.ndim else x
    view = Tensor.from_host(wide, device=device)[tuple(slice(2, 2 + 2 * n, 2) for n in x.shape)]
    return view[::-1] if x.ndim else view


LAYOUTS = st.sampled_from([plain, transposed, spaced])
DTYPES = st.sampled_from([np.dtype(np.float32), np.dtype(np.float64)])
SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


# The comparison


def agree(
    f: Callable[..., Any], oracle: Callable[..., Any], operands: list[np.ndarray], device: Device, data: st.DataObject
) -> None:
    """Compare f on the device with the oracle on NumPy: the result, its gradient, and the gradient of that."""
    dtype = data.draw(DTYPES if device.has_fp64 else st.just(np.dtype(np.float32)))
    lay_out = data.draw(LAYOUTS)
    operands = [x if x.dtype.kind == "b" else x.astype(dtype) for x in operands]
    exact = [x if x.dtype.kind == "b" else x.astype(np.float64) for x in operands]
    moving = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    laid = [lay_out(x, device) for x in operands]
    leaves = [ag.tensor(x, requires_grad=i in moving) for i, x in enumerate(laid)]
    out = f(*leaves)
    expected = oracle(*exact)
    rtol, atol = TOLERANCE[dtype]
    assert out.shape == np.shape(expected)
    np.testing.assert_allclose(out.to_host(), expected, rtol, atol)
    if out.dtype.kind != "f":
        assert isinstance(out, Tensor) and out.dtype == np.asarray(expected).dtype
        return
    assert out.dtype == dtype
    rng = RNG(1)
    v = rng.uniform(0.5, 1.5, out.shape)
    ws = [rng.uniform(0.5, 1.5, operands[i].shape) for i in moving]

    def first(*xs: Any) -> tuple[Any, ...]:
        return grad(lambda *xs: anp.sum(v * oracle(*xs)), moving)(*xs)

    def second(*xs: Any) -> tuple[Any, ...]:
        return grad(lambda *xs: sum(anp.sum(w * g) for w, g in zip(ws, first(*xs), strict=True)), moving)(*xs)

    ag.Tape().backward(out, v.astype(dtype), create_graph=True)
    gradients = [leaves[i].grad for i in moving]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # autograd warns where a result does not depend on an input
        close(gradients, first(*exact), rtol, atol)
        for i in moving:
            leaves[i].zero_grad()
        total: Any = sum((w.astype(dtype) * g).sum() for w, g in zip(ws, gradients, strict=True))
        if not isinstance(total, Tensor):
            total.backward()
        close([leaves[i].grad for i in moving], second(*exact), 10 * rtol, 10 * atol)


def close(found: list[Any], expected: tuple[Any, ...], rtol: float, atol: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.zeros(theirs.shape) if ours is None else ours.to_host(), theirs, rtol, atol)


# Rows


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_and_its_derivatives(row: Row, device: Device, draw: Draw) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        shape = data.draw(SHAPES)
        shapes = []
        for _ in row.args:  # each broadcasts to `shape`: axes left out on the left, others of length 1
            kept = shape[data.draw(st.integers(0, len(shape))) :]
            shapes.append(tuple([n if data.draw(st.booleans()) else 1 for n in kept]) if len(row.args) > 1 else shape)
        operands = draw(row, RNG(data.draw(st.integers(0, 1000))), shapes)
        agree(row, reading(row), operands, device, data)

    compare()


# Structural ops, and functions made of ops


Case = tuple[list[tuple[int, ...]], dict[str, Any]]
CASES: dict[str, Callable[[st.DataObject], Case]] = {}
"""How to draw the operands' shapes and the parameters of a call."""


def case(*names: str) -> Callable[[Callable[[st.DataObject], Case]], Callable[[st.DataObject], Case]]:
    def declare(function: Callable[[st.DataObject], Case]) -> Callable[[st.DataObject], Case]:
        CASES.update(dict.fromkeys(names, function))
        return function

    return declare


def axis_of(data: st.DataObject, ndim: int) -> int:
    return data.draw(st.integers(-ndim, ndim - 1))


def with_axes(data: st.DataObject, least: int = 1) -> tuple[int, ...]:
    return tuple(data.draw(st.lists(st.integers(1, 4), min_size=least, max_size=3)))


@case("sum", "mean", "max", "min", "var", "std", "prod", "norm", "logsumexp")
def _(data: st.DataObject) -> Case:
    shape = data.draw(SHAPES)
    axis = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1)).map(tuple)) if shape else None
    return [shape], {"axis": axis or None, "keepdims": data.draw(st.booleans())}


@case("cumsum")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    return [shape], {"axis": data.draw(st.none() | st.integers(0, len(shape) - 1))}


@case("reshape")
def _(data: st.DataObject) -> Case:
    shape = data.draw(SHAPES)
    return [shape], {"shape": data.draw(st.permutations([*shape, 1])) if shape else (1,)}


@case("transpose")
def _(data: st.DataObject) -> Case:
    shape = data.draw(SHAPES)
    return [shape], {"axes": data.draw(st.none() | st.permutations(range(len(shape))).map(tuple))}


@case("broadcast_to")
def _(data: st.DataObject) -> Case:
    shape = data.draw(SHAPES)
    kept = shape[data.draw(st.integers(0, len(shape))) :]
    return [tuple([n if data.draw(st.booleans()) else 1 for n in kept])], {"shape": shape}


@case("getitem")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    entries = []
    for n in shape[: data.draw(st.integers(0, len(shape)))]:
        number = st.integers(-n, n - 1)
        numbers = st.lists(number, min_size=2, max_size=2).map(np.array)  # of one length, so that they broadcast
        step = st.sampled_from([1, 2, -1])
        entries.append(data.draw(st.one_of(number, numbers, st.builds(slice, st.none(), st.none(), step))))
    return [shape], {"key": tuple(entries)}


@case("concatenate")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    axis = data.draw(st.integers(0, len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    return [(*shape[:axis], n, *shape[axis + 1 :]) for n in lengths], {"axis": axis}


@case("stack")
def _(data: st.DataObject) -> Case:
    shape = data.draw(SHAPES)
    return [shape] * data.draw(st.integers(1, 3)), {"axis": axis_of(data, len(shape) + 1)}


@case("pad")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    width = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return [shape], {"pad_width": data.draw(st.lists(width, min_size=len(shape), max_size=len(shape)))}


@case("roll")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    return [shape], {"shift": data.draw(st.integers(-5, 5)), "axis": data.draw(st.none() | st.just(len(shape) - 1))}


@case("tile")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    return [shape], {"reps": data.draw(st.lists(st.integers(1, 2), min_size=len(shape), max_size=len(shape)))}


@case("diagonal", "trace")
def _(data: st.DataObject) -> Case:
    side = data.draw(st.integers(1, 4))
    return [(side, side)], {"offset": 0}  # autograd differentiates nothing else


@case("tril", "triu")
def _(data: st.DataObject) -> Case:
    return [with_axes(data, 2)], {"k": data.draw(st.integers(-2, 2))}


@case("matmul")
def _(data: st.DataObject) -> Case:
    n, k, m, batch = (data.draw(st.integers(1, 4)) for _ in range(4))
    left = data.draw(st.sampled_from([(k,), (n, k), (batch, n, k), (1, n, k)]))
    right = data.draw(st.sampled_from([(k,), (k, m), (batch, k, m), (2, 1, k, m)]))
    return [left, right], {}


@case("affine")
def _(data: st.DataObject) -> Case:
    n, k, m, batch = (data.draw(st.integers(1, 4)) for _ in range(4))
    return [data.draw(st.sampled_from([(k,), (n, k), (batch, n, k)])), (k, m), (m,)], {}


@case("tensordot")
def _(data: st.DataObject) -> Case:
    shared = with_axes(data)
    return [(2, *shared), (*shared, 3)], {"axes": len(shared)}


@case("repeat")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    return [shape], {"repeats": data.draw(st.integers(1, 3)), "axis": data.draw(st.integers(0, len(shape) - 1))}


@case("squeeze", "flatten", "softmax", "log_softmax")
def _(data: st.DataObject) -> Case:
    return [with_axes(data)], {}


@case("expand_dims", "flip")
def _(data: st.DataObject) -> Case:
    shape = with_axes(data)
    return [shape], {"axis": axis_of(data, len(shape))}


SUBSCRIPTS = "ij,jk->ik ij,jk ij->ji ij->i ij,ij-> bij,bjk->bik i,j->ij ij,jk,kl->il ...ij,jk->...ik i,i,i->i".split()


@case("einsum")
def _(data: st.DataObject) -> Case:
    subscripts = data.draw(st.sampled_from(SUBSCRIPTS))
    lengths = {label: data.draw(st.integers(1, 3)) for label in "bijkl"}
    terms = subscripts.partition("->")[0].replace("...", "b").split(",")
    return [tuple(lengths[label] for label in term) for term in terms], {"subscripts": subscripts}


ORACLES: dict[str, Callable[..., Any]] = {
    "getitem": lambda a, key: a[key],
    "concatenate": lambda *arrays, axis: anp.concatenate(arrays, axis),
    "stack": lambda *arrays, axis: anp.stack(arrays, axis),
    "pad": lambda a, pad_width: anp.pad(a, pad_width, "constant"),
    "norm": lambda a, axis, keepdims: anp.sqrt(anp.sum(a**2, axis=axis, keepdims=keepdims)),
    "logsumexp": lambda a, axis, keepdims: anp.log(anp.sum(anp.exp(a), axis=axis, keepdims=keepdims)),
    "softmax": lambda a: anp.exp(a) / anp.sum(anp.exp(a), axis=-1, keepdims=True),
    "log_softmax": lambda a: anp.log(anp.exp(a) / anp.sum(anp.exp(a), axis=-1, keepdims=True)),
    "affine": lambda a, b, c: anp.matmul(a, b) + c,
    "flatten": anp.ravel,
    "flip": lambda a, axis: a[(*[slice(None)] * (axis % a.ndim), slice(None, None, -1))],
    "diagonal": lambda a, offset: a[np.arange(len(a)), np.arange(len(a))],
    "broadcast_to": lambda a, shape: a * anp.ones(shape),
    "transpose": lambda a, axes: anp.transpose(a, axes),
    "einsum": lambda *arrays, subscripts: anp.einsum(subscripts, *arrays),
}
OURS: dict[str, Callable[..., Any]] = {"einsum": lambda *arrays, subscripts: ag.einsum(subscripts, *arrays)}
ELSEWHERE = {
    "place": "the transpose of getitem, whose second derivative it is",
    "place_diagonal": "the transpose of diagonal, whose second derivative it is",
    "astype": "autograd has one dtype; tests/device/test_structural.py",
    **dict.fromkeys(
        ["unfold", "fold", "conv2d", "max_pool2d", "avg_pool2d", "standardize", "dropout", "embedding", "add_rows",
         "cross_entropy", "nll"],
        "autograd has no networks: tests/device/test_nn_against_torch.py",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.kind == "structural"])
def test_every_structural_op_has_an_oracle_or_a_reason(name: str) -> None:
    assert (name in CASES) != (name in ELSEWHERE)


@pytest.mark.parametrize("name", CASES)
def test_an_op_and_its_derivatives(name: str, device: Device) -> None:
    ours = OURS.get(name) or getattr(ag, name)
    oracle = ORACLES.get(name) or getattr(anp, name)

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        shapes, attrs = CASES[name](data)
        rng = RNG(data.draw(st.integers(0, 1000)))
        operands = [rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape) for shape in shapes]
        agree(lambda *xs: ours(*xs, **attrs), lambda *xs: oracle(*xs, **attrs), operands, device, data)

    compare()


# The comparison itself


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x: x * x + 1e-3, id="value"),
        pytest.param(lambda x: x * x.detach(), id="gradient"),
        pytest.param(lambda x: 2.0 * x * x.detach() - x.detach() * x.detach(), id="second derivative"),
    ],
)
def test_what_is_wrong_is_found(wrong: Callable[..., Any], device: Device) -> None:
    @settings(max_examples=5)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            agree(wrong, anp.square, [np.array([1.0, 2.0])], device, data)

    compare()
