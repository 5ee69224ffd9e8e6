"""What the table's tests cannot say of its ops: ends of the number line, kinks, ties, empty arrays, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")

F = Callable[..., Any]
INF, NAN = math.inf, math.nan


def f32(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)


def derivatives(f: F, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return f(x) elementwise, its derivative and the derivative of that."""
    leaf = ag.tensor(x, requires_grad=True)
    out = f(leaf)
    ag.Tape().backward(out, create_graph=True)
    first = leaf.grad
    leaf.zero_grad()
    first.sum().backward()
    return out.to_host(), first.to_host(), leaf.grad.to_host()


def gradient(f: F, x: np.ndarray) -> np.ndarray:
    leaf = ag.tensor(x, requires_grad=True)
    f(leaf).sum().backward()
    return leaf.grad.to_host()


# Elementwise: far from 0 and near it


@pytest.mark.parametrize(
    ("f", "below", "above"),
    [
        (ag.sigmoid, (0, 0, 0), (1, 0, 0)),
        (ag.softplus, (0, 0, 0), (1000, 1, 0)),
        (ag.silu, (0, 0, 0), (1000, 1, 0)),
        (ag.gelu, (0, 0, 0), (1000, 1, 0)),
        (ag.gelu_tanh, (0, 0, 0), (1000, 1, 0)),
        (ag.elu, (-1, 0, 0), (1000, 1, 0)),
        (ag.tanh, (-1, 0, 0), (1, 0, 0)),
    ],
)
def test_activations_and_two_derivatives_at_plus_and_minus_1000(f: F, below: Any, above: Any) -> None:
    found = derivatives(f, f32([-1000, 1000]))
    for values, low, high in zip(found, below, above, strict=True):
        np.testing.assert_allclose(values, f32([low, high]), rtol=1e-6, atol=1e-6)  # NaN would not be close


def test_small_values_are_not_rounded_away() -> None:
    tiny = f32([1e-10, -1e-10])
    np.testing.assert_array_equal(ag.expm1(tiny).to_host(), tiny)
    np.testing.assert_array_equal(ag.log1p(tiny).to_host(), tiny)
    assert ag.softplus(f32(-50)).item() == pytest.approx(math.exp(-50), rel=1e-6)
    assert ag.gelu(f32(-5)).item() == pytest.approx(-2.5 * math.erfc(5 / math.sqrt(2)), rel=1e-5)
    assert ag.erfc(f32(5)).item() == pytest.approx(math.erfc(5), rel=1e-5)


def test_rounding_is_half_to_even_and_has_the_derivative_0() -> None:
    x = f32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.2])
    for ours, numpys in ((ag.round, np.round), (ag.floor, np.floor), (ag.ceil, np.ceil)):
        np.testing.assert_array_equal(ours(x).to_host(), numpys(x))
        np.testing.assert_array_equal(gradient(ours, x), np.zeros(7))
    assert ag.round(np.array([3, -4])).dtype == np.int64, "integers stay what they are"


def test_clip_is_numpys_and_gives_the_cotangent_to_what_was_chosen() -> None:
    x = f32([-2, -1, 0, 1, 2, NAN])
    np.testing.assert_array_equal(ag.clip(x, -1, 1).to_host(), np.clip(x, -1, 1))
    np.testing.assert_array_equal(ag.clip(x, 1, -1).to_host(), np.clip(x, 1, -1))
    np.testing.assert_array_equal(gradient(lambda a: ag.clip(a, -1, 1), x)[:5], [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradient(lambda low: ag.clip(x[:5], low, 1), f32(-1)), 1)
    np.testing.assert_array_equal(ag.clip(np.array([1, 5, 9]), 2, 6).to_host(), [2, 5, 6])


def test_the_slope_of_leaky_relu_and_the_height_of_elu_may_be_left_out_or_learned() -> None:
    x = f32([-2, 0, 3])
    np.testing.assert_array_equal(ag.leaky_relu(x).to_host(), f32([-0.02, 0, 3]))
    np.testing.assert_array_equal(gradient(lambda a: ag.leaky_relu(a, 0.5), x), f32([0.5, 0.5, 1]))
    np.testing.assert_array_equal(gradient(lambda b: ag.leaky_relu(x, b), f32(0.1)), -2)
    np.testing.assert_allclose(ag.elu(x, 2.0).to_host(), [2 * math.expm1(-2), 0, 3], rtol=1e-6)
    np.testing.assert_allclose(gradient(lambda b: ag.elu(x, b), f32(1)), math.expm1(-2), rtol=1e-6)


def test_truth_values_of_numbers() -> None:
    x = f32([0, 1, NAN, INF, -INF])
    for name in ("isnan", "isinf", "isfinite", "logical_not"):
        np.testing.assert_array_equal(getattr(ag, name)(x).to_host(), getattr(np, name)(x))
        assert getattr(ag, name)(np.array([0, 3])).dtype == np.bool_
    y = f32([0, 0, 0, 2, NAN])
    for name in ("logical_and", "logical_or", "logical_xor"):
        np.testing.assert_array_equal(getattr(ag, name)(x, y).to_host(), getattr(np, name)(x, y))


def test_operators_of_truth_values() -> None:
    x = ag.tensor([0.1, 0.5, 0.9], requires_grad=True)
    low, high = x < 0.6, x > 0.3
    np.testing.assert_array_equal((low & high).to_host(), [False, True, False])
    np.testing.assert_array_equal((~low | ~high).to_host(), [True, False, True])
    np.testing.assert_array_equal((np.array([True, True, False]) ^ low).to_host(), [False, False, False])
    with pytest.raises(DTypeError, match=r"int64.*logical_and"):
        _ = low & np.array([1, 2, 3])


# Reductions


@pytest.mark.parametrize(
    ("values", "result", "shares"),
    [
        ([1000, 1000.5], 1000 + math.log(1 + math.exp(0.5)), [1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(-0.5))]),
        ([-INF, -INF], -INF, [0, 0]),
        ([-1000, -INF], -1000, [1, 0]),
        ([NAN, 0], NAN, [NAN, NAN]),
    ],
)
def test_logsumexp_where_the_exponentials_are_out_of_range(values: Any, result: float, shares: Any) -> None:
    x = f32(values)
    np.testing.assert_allclose(ag.logsumexp(x).to_host(), result, rtol=1e-6)
    np.testing.assert_allclose(gradient(ag.logsumexp, x), shares, rtol=1e-4)  # ulp(1000) / 2 is 3e-5


def test_logsumexp_of_nothing_and_of_infinity() -> None:
    np.testing.assert_array_equal(ag.logsumexp(np.zeros((0, 2), np.float32), 0).to_host(), [-INF, -INF])
    assert ag.logsumexp(f32([INF, 0])).item() == INF


@pytest.mark.parametrize("values", [[2, 3, 4], [2, 0, 4], [0, 0, 4], [0, 0, 0], [5]])
def test_prod_with_zeros_has_the_right_gradient_and_hessian(values: list[float]) -> None:
    n = len(values)
    first = [math.prod(values[j] for j in range(n) if j != i) for i in range(n)]
    second = [
        [math.prod(values[k] for k in range(n) if k not in (i, j)) * (i != j) for j in range(n)] for i in range(n)
    ]
    np.testing.assert_array_equal(gradient(ag.prod, f32(values)), first)
    if n > 1:
        np.testing.assert_array_equal(ag.hessian(ag.prod)(f32(values)).to_host(), second)


def test_variance_of_one_element_and_of_equal_ones() -> None:
    one, equal = f32([3]), f32([3, 3, 3])
    assert ag.var(one).item() == 0 and ag.std(one).item() == 0
    assert math.isnan(ag.var(one, ddof=1).item()) and math.isnan(ag.std(one, ddof=1).item())
    np.testing.assert_array_equal(gradient(ag.std, equal), [0, 0, 0])
    _, tangent = ag.jvp(ag.std, [equal], [f32([1, 2, 3])])
    assert tangent.item() == 0
    shifted = f32([1e4, 1e4 + 1, 1e4 + 2])
    assert ag.var(shifted).item() == pytest.approx(2 / 3, rel=1e-6), "a large mean costs no digits"


def test_the_norm_at_0_has_the_subgradient_0() -> None:
    np.testing.assert_array_equal(gradient(ag.norm, np.zeros(3, np.float32)), [0, 0, 0])
    rows = f32([[0, 0], [3, 4]])
    np.testing.assert_allclose(gradient(lambda a: ag.norm(a, 1), rows), [[0, 0], [0.6, 0.8]], rtol=1e-6)


def test_a_long_running_sum_stays_accurate_in_float32() -> None:
    x = np.full(1_000_000, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(ag.cumsum(x).to_host(), exact, rtol=2e-6)
    assert ag.cumsum(np.array([True, True])).to_host().tolist() == [1, 2]


@pytest.mark.large
def test_a_sum_of_a_hundred_million_float32_numbers_stays_accurate() -> None:
    x = ag.tensor(np.full(100_000_000, 0.1, np.float32))
    exact = 100_000_000 * float(f32(0.1))
    assert ag.sum(x).item() == pytest.approx(exact, rel=1e-6)
    assert ag.mean(x).item() == pytest.approx(float(f32(0.1)), rel=1e-6)


def test_argmax_takes_the_first_of_several_and_nan_before_all() -> None:
    for values in ([1, 3, 3], [1, NAN, 5, NAN], [2], [-INF, -INF]):
        x = f32(values)
        assert ag.argmax(x).item() == np.argmax(x) and ag.argmin(x).item() == np.argmin(x)
    grid = f32([[1, 5], [5, 1]])
    np.testing.assert_array_equal(ag.argmax(grid, 0, keepdims=True).to_host(), [[1, 0]])
    assert ag.argmax(grid, keepdims=True).shape == (1, 1)
    with pytest.raises(ShapeError, match=r"argmax: shape \(0, 2\)"):
        ag.argmax(np.zeros((0, 2)), 0)


def test_argmax_is_no_node_and_leaves_none_on_the_tape() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.Tape() as tape:
        index = x.argmax()
    assert isinstance(index, nc.Tensor) and index.dtype == np.int64 and not tape.nodes


def test_any_and_all_of_nothing() -> None:
    empty = np.zeros((0, 2), np.float32)
    np.testing.assert_array_equal(ag.any(empty, 0).to_host(), [False, False])
    np.testing.assert_array_equal(ag.all(empty, 0).to_host(), [True, True])
    assert ag.any(f32([0, NAN])).item() and not ag.all(f32([0, NAN])).item()


# Shapes

X = np.arange(120, dtype=np.float32).reshape(4, 5, 3, 2)


def test_joined_arrays_promote_and_their_cotangents_keep_their_own_dtype() -> None:
    a, b = ag.tensor(f32([1, 2]), requires_grad=True), np.array([3, 4])
    joined = ag.concatenate((a, b))
    assert joined.dtype == np.float32 and joined.to_host().tolist() == [1, 2, 3, 4]
    joined.sum().backward()
    assert a.grad.dtype == np.float32 and a.grad.shape == (2,)


def test_one_node_joined_with_itself_gets_both_slices() -> None:
    assert gradient(lambda a: ag.concatenate((a, 2.0 * a, a)), f32([1, 2])).tolist() == [4, 4]
    assert gradient(lambda a: ag.stack([a, a], axis=-1), f32([1, 2])).tolist() == [2, 2]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_margins_of_every_mode(mode: Any) -> None:
    x = f32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(ag.pad(x, [(1, 1), (2, 0)], mode).to_host(), np.pad(x, [(1, 1), (2, 0)], mode))
    assert gradient(lambda a: ag.pad(a, 1, mode), x).sum() == (6 if mode == "constant" else 20)


def test_functions_that_are_made_of_ops() -> None:
    x = f32(X[0, :, :, 0])
    pairs: list[tuple[F, F]] = [
        (lambda a: ag.squeeze(ag.expand_dims(a, (0, -1))), lambda a: a),
        (lambda a: ag.unsqueeze(a, 1), lambda a: np.expand_dims(a, 1)),
        (ag.flatten, np.ravel),
        (lambda a: ag.swapaxes(a, 0, 1), lambda a: np.swapaxes(a, 0, 1)),
        (lambda a: ag.moveaxis(a, 0, -1), lambda a: np.moveaxis(a, 0, -1)),
        (lambda a: ag.permute(a, (1, 0)), lambda a: a.T),
        (ag.flip, np.flip),
        (lambda a: ag.repeat(a, [1, 0, 2], 1), lambda a: np.repeat(a, [1, 0, 2], 1)),
        (lambda a: ag.concatenate(ag.split(a, [1, 3])[::-1]), lambda a: np.concatenate(np.split(a, [1, 3])[::-1])),
        (lambda a: ag.diag(ag.diag(a, 1), -1), lambda a: np.diag(np.diag(a, 1), -1)),
        (ag.trace, np.trace),
    ]
    for ours, numpys in pairs:
        np.testing.assert_array_equal(ours(x).to_host(), numpys(x))
        np.testing.assert_array_equal(ours(ag.tensor(x, requires_grad=True)).to_host(), numpys(x))
    assert [part.shape for part in ag.split(np.zeros((6, 2)), 3)] == [(2, 2)] * 3


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (lambda x: ag.concatenate([]), ShapeError, "nothing to join"),
        (lambda x: ag.concatenate((x, x[0])), ShapeError, r"\(4, 5, 3, 2\) and \(5, 3, 2\)"),
        (lambda x: ag.concatenate((x, x), 4), ShapeError, "axis 4 is out of range"),
        (lambda x: ag.concatenate((x, x), out=x), ArgumentError, "no parameter out"),
        (lambda x: ag.stack([x, x[0]]), ShapeError, r"\(5, 3, 2\) differ"),
        (lambda x: ag.pad(x, -1), ShapeError, "-1"),
        (lambda x: ag.pad(x, [(1, 1), (1, 1)]), ShapeError, r"\(4, 5, 3, 2\)"),
        (lambda x: ag.pad(x, 1, "mirror"), ArgumentError, "'mirror'"),
        (lambda x: ag.split(x, 3), ShapeError, "axis of 4 .* 3 equal parts"),
        (lambda x: ag.squeeze(x, 0), ShapeError, r"\(4, 5, 3, 2\)"),
        (lambda x: ag.roll(x, (1, 2), 0), ArgumentError, "2 shifts"),
        (lambda x: ag.diagonal(x, 0, 1, 1), ShapeError, "the same"),
        (lambda x: ag.tril(x[0, 0, 0]), ShapeError, r"\(2,\)"),
        (lambda x: ag.repeat(x, [1, 2], 0), ShapeError, r"\[1, 2\].* 4 elements"),
        (lambda x: ag.tile(x, -1), ShapeError, "-1"),
        (lambda x: ag.var(x, 7), ShapeError, "axis 7"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_came(wrong: F, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        wrong(ag.tensor(X, requires_grad=True))


# Products


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("...ij,...jk", [(2, 1, 3, 4), (3, 4, 2)]),
        ("...i->i...", [(2, 3, 4)]),
        ("ij,kl->", [(2, 3), (4, 2)]),
        ("ij,ij->ij", [(1, 3), (2, 3)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]),
        (",ij->ji", [(), (2, 3)]),
        ("...i->i", [(3,)]),
        ("i->...i", [(3,)]),
    ],
)
def test_einsum_is_numpys(subscripts: str, shapes: Any) -> None:
    operands = [np.random.default_rng(i).integers(-3, 4, shape).astype(np.float32) for i, shape in enumerate(shapes)]
    np.testing.assert_array_equal(ag.einsum(subscripts, *operands).to_host(), np.einsum(subscripts, *operands))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "kind", "says"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], ShapeError, "'j' .* lengths 3 and 4"),
        ("...i,...i", [(2, 3), (4, 3)], ShapeError, r"'\.\.\.' .* lengths 2 and 4"),
        ("ii", [(2, 3)], ShapeError, "'i' .* lengths 2 and 3"),
        ("ij", [(2, 3, 4)], ShapeError, r"'ij' .*\(2, 3, 4\)"),
        ("ij->k", [(2, 3)], ArgumentError, "'k' after ->"),
        ("ij->ii", [(2, 3)], ArgumentError, "'i' after ->"),
        ("i2", [(2, 3)], ArgumentError, "'2' in 'i2'"),
        ("ij,jk", [(2, 3)], ArgumentError, "2 operands, but 1 came"),
        ("...i->i", [(2, 3)], ArgumentError, r"axes of \.\.\. in '\.\.\.i->i' are missing"),
        ("...i,ij->j", [(5, 2, 3), (3, 4)], ArgumentError, r"\.\.\. must stand"),
    ],
)
def test_einsum_names_the_subscript_that_is_wrong(
    subscripts: str, shapes: Any, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        ag.einsum(subscripts, *map(np.zeros, shapes))


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 2, 3), (3,)), ((2, 2, 3), (4, 3, 2)), ((), (2,))]
)
def test_dot_is_numpys(a: Any, b: Any) -> None:
    x, y = np.ones(a, np.float32), np.arange(np.prod(b), dtype=np.float32).reshape(b)
    np.testing.assert_array_equal(ag.dot(x, y).to_host(), np.dot(x, y))


def test_tensordot_and_outer_are_numpys() -> None:
    x, y = f32(X[:2, :3, :2, 0]), f32(X[:3, :2, :2, 1])
    for axes in (0, ([0, 1], [1, 0]), ([-1], [1])):
        np.testing.assert_array_equal(ag.tensordot(x, y, axes).to_host(), np.tensordot(x, y, axes))
    np.testing.assert_array_equal(ag.outer(x[0], y[0]).to_host(), np.outer(x[0], y[0]))
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \[0\] of \(2, 3\)"):
        ag.tensordot(np.ones((2, 3)), np.ones((2, 3)), 1)


# Methods and creation


def test_methods_are_the_functions_of_their_names() -> None:
    x = ag.tensor(f32([[4, 1], [2, 3]]), requires_grad=True)
    named: dict[str, tuple[Any, ...]] = {
        "var": (0,), "std": (0,), "prod": (), "cumsum": (1,), "norm": (), "logsumexp": (1,), "softmax": (0,),
        "log_softmax": (0,), "diagonal": (), "square": (), "abs": (), "clip": (2, 3), "round": (), "floor": (),
        "ceil": (), "argmax": (1,), "argmin": (), "any": (), "all": (0,), "flatten": (), "ravel": (), "squeeze": (),
        "unsqueeze": (1,), "swapaxes": (0, 1), "take": ([0], 1), "repeat": (2, 0), "dot": ([1.0, 2.0],), "trace": (),
    }  # fmt: skip
    for name, arguments in named.items():
        expected = getattr(ag, name)(x, *arguments).to_host()
        for value in (x, x.value):
            np.testing.assert_array_equal(getattr(value, name)(*arguments).to_host(), expected, err_msg=name)
    np.testing.assert_array_equal(x.permute(1, 0).to_host(), x.T.to_host())


def test_tensors_from_nothing() -> None:
    assert nc.arange(3).dtype == np.int64 and nc.arange(3.0).dtype == np.float32
    np.testing.assert_array_equal(nc.arange(5, 0, -2).to_host(), [5, 3, 1])
    np.testing.assert_array_equal(nc.arange(0, 1, 0.25).to_host(), np.arange(0, 1, 0.25))
    np.testing.assert_array_equal(nc.linspace(0, 1, 5).to_host(), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(nc.eye(2, 3, 1).to_host(), np.eye(2, 3, 1))
    like = ag.tensor(f32([[1, 2]]), requires_grad=True)
    for made, value in ((nc.zeros_like(like), 0), (nc.ones_like(like), 1), (nc.full_like(like, 7), 7)):
        assert isinstance(made, nc.Tensor) and made.dtype == np.float32
        np.testing.assert_array_equal(made.to_host(), np.full((1, 2), value))
    assert nc.zeros_like(like, np.int32).dtype == np.int32
    with pytest.raises(ArgumentError, match="step is 0"):
        nc.arange(0, 1, 0)
