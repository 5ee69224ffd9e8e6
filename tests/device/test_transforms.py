"""Functions to functions: values by hand and by torch-free references, nesting in every order, and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.autograd.modes import modes
from netcl.errors import AnomalyError, ArgumentError, DTypeError, GradcheckError, GradFnError, GraphError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device", "float64")

Scalar = Callable[[Any], Any]
RNG = np.random.default_rng(7)
A = RNG.normal(size=(3, 4))
X = RNG.normal(size=4)
V = RNG.normal(size=4)


def forward(f: Scalar) -> Scalar:
    """d/dx by forward mode, for functions of one number."""
    return lambda x: ag.jvp(f, (x,), (np.float64(1.0),))[1]


JVP: Any = ag.jvp  # for calls that a type checker would refuse
MODES = {"reverse": ag.grad, "forward": forward}


def smooth(x: Any) -> Any:
    """A scalar function with products, reductions, views and a max in it."""
    return ag.log(ag.exp(ag.matmul(A, x)).sum()) + x.max() * ag.tanh(x[1:3].reshape(2, 1)).T.mean() + (x**3).sum()


def difference(f: Callable[[np.ndarray], Any], x: np.ndarray, v: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """The directional derivative by a central difference."""
    return (np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h)


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("inner", MODES)
def test_nested_derivatives_do_not_confuse_their_variables(outer: str, inner: str) -> None:
    d, e = MODES[outer], MODES[inner]
    x = np.float64(2.0)
    assert d(lambda x: x * e(lambda y: x + y)(x))(x).item() == 1.0
    assert d(lambda x: x * e(lambda y: x * y * y)(x))(x).item() == 24.0  # d/dx 2x³ = 6x²
    assert d(lambda x: e(lambda y: x * x * y)(np.float64(5.0)))(x).item() == 4.0


@pytest.mark.parametrize("orders", list(itertools.product(MODES, repeat=3)), ids="-".join)
def test_third_derivatives_in_every_mix_of_modes(orders: tuple[str, str, str]) -> None:
    f: Scalar = lambda x: x**4 + ag.sin(x)  # noqa: E731 - a function to be wrapped three times
    for mode in orders:
        f = MODES[mode](f)
    assert f(np.float64(2.0)).item() == pytest.approx(48.0 - np.cos(2.0), rel=1e-13)


def test_grad_and_value_and_grad_of_some_arguments() -> None:
    def f(x: Any, y: Any, scale: float = 1.0) -> Any:
        return (x * x * y).sum() * scale

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    np.testing.assert_array_equal(ag.grad(f)(x, y).to_host(), [6.0, 16.0])
    np.testing.assert_array_equal(ag.grad(f, argnums=1)(x, y).to_host(), [1.0, 4.0])
    value, (gx, gy) = ag.value_and_grad(f, argnums=(0, -1))(x, y, scale=10.0)
    assert (value.item(), gx.to_host().tolist(), gy.to_host().tolist()) == (190.0, [60.0, 160.0], [10.0, 40.0])
    assert type(value) is nc.Tensor
    assert type(gx) is nc.Tensor


def test_vjp_and_jvp_are_transposes_and_agree_with_differences() -> None:
    def f(x: Any) -> Any:
        return ag.tanh(ag.matmul(A, x)) * x.sum()

    u = RNG.normal(size=3)
    out, pullback = ag.vjp(f, X)
    same, pushed = ag.jvp(f, (X,), (V,))
    (pulled,) = pullback(u)
    np.testing.assert_allclose(out.to_host(), np.tanh(A @ X) * X.sum(), rtol=1e-14)
    np.testing.assert_array_equal(out.to_host(), same.to_host())
    assert pulled.to_host() @ V == pytest.approx(u @ pushed.to_host(), rel=1e-13)
    numeric = difference(lambda x: np.tanh(A @ x) * x.sum(), X, V)
    np.testing.assert_allclose(pushed.to_host(), numeric, rtol=1e-8)
    (again,) = pullback(u)  # a pullback may be called as often as one likes
    np.testing.assert_array_equal(again.to_host(), pulled.to_host())


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
def test_jacobian_has_the_shape_of_the_result_and_then_of_the_input(mode: str | None) -> None:
    def f(x: Any) -> Any:
        return ag.matmul(A, ag.sin(x)).reshape(3, 1) * np.array([[1.0, 2.0]])

    table = ag.jacobian(f, mode=mode)(X)
    expected = (A * np.cos(X))[:, None, :] * np.array([1.0, 2.0])[None, :, None]
    assert table.shape == (3, 2, 4)
    np.testing.assert_allclose(table.to_host(), expected, rtol=1e-13, atol=1e-15)


def test_jacobians_of_scalars_and_of_nothing() -> None:
    assert ag.jacobian(lambda x: x * x)(np.float64(3.0)).to_host().tolist() == 6.0
    assert ag.jacobian(lambda x: x * 2.0)(np.zeros((0, 2))).shape == (0, 2, 0, 2)
    assert ag.jacobian(lambda x: x.sum())(np.zeros((0,))).shape == (0,)


def test_hessian_and_its_product_with_a_vector() -> None:
    def f(x: Any) -> Any:
        return (x[0] * x[1] ** 2).sum() + ag.exp(x[2])

    x = np.array([2.0, 3.0, 0.5])
    expected = np.array([[0.0, 6.0, 0.0], [6.0, 4.0, 0.0], [0.0, 0.0, np.exp(0.5)]])
    np.testing.assert_allclose(ag.hessian(f)(x).to_host(), expected, rtol=1e-14)
    v = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(ag.hvp(f, x, v).to_host(), expected @ v, rtol=1e-14)


def test_four_ways_to_a_hessian_product_agree() -> None:
    slope = ag.grad(smooth)
    ways = [
        ag.hvp(smooth, X, V),  # forward over reverse
        ag.grad(lambda x: (slope(x) * V).sum())(X),  # reverse over reverse
        ag.vjp(lambda x: ag.jvp(smooth, (x,), (V,))[1], X)[1](np.float64(1.0))[0],  # reverse over forward
        ag.jacobian(lambda x: ag.jvp(smooth, (x,), (V,))[1], mode="forward")(X),  # forward over forward
    ]
    numeric = difference(lambda x: slope(x).to_host(), X, V)
    for way in ways:
        np.testing.assert_allclose(way.to_host(), numeric, rtol=1e-7, atol=1e-9)


def test_create_graph_gives_what_nested_grad_gives() -> None:
    x = ag.tensor(X, requires_grad=True)
    ag.Tape().backward(smooth(x), create_graph=True)
    first: Any = x.grad
    assert isinstance(first, ag.Node)
    x.zero_grad()
    (first * V).sum().backward()
    np.testing.assert_allclose(x.grad.to_host(), ag.hvp(smooth, X, V).to_host(), rtol=1e-12)


def test_nodes_that_a_function_closes_over_keep_their_graph() -> None:
    w = ag.tensor(np.float64(3.0), requires_grad=True)
    slope = ag.grad(lambda x: w * w * x * x)(np.float64(2.0))  # 2 w² x, a node of w's graph
    assert slope.item() == 36.0
    slope.backward()
    assert w.grad.item() == 24.0  # d/dw 2 w² x = 4 w x


def test_the_derivative_of_a_constant_is_zero() -> None:
    out, pullback = ag.vjp(lambda x: ag.tensor([1.0, 2.0]), X)
    np.testing.assert_array_equal(pullback([1.0, 1.0])[0].to_host(), np.zeros(4))
    value, tangent = ag.jvp(lambda x: ag.tensor([1.0, 2.0]), (X,), (V,))
    np.testing.assert_array_equal(tangent.to_host(), np.zeros(2))
    assert (out.shape, value.shape) == ((2,), (2,))
    np.testing.assert_array_equal(ag.grad(lambda x: (x > 0.0).sum() * 1.0)(X).to_host(), np.zeros(4))


def test_asking_for_a_derivative_under_no_grad_is_asking_all_the_same() -> None:
    w = ag.tensor(np.float64(2.0), requires_grad=True)
    with ag.no_grad():
        g = ag.grad(lambda x: w * x * x)(np.float64(3.0))
        assert type(g) is nc.Tensor  # but nothing of the user's own graph is recorded
        assert g.item() == 12.0
        assert not ag.is_grad_enabled()
    assert ag.grad(lambda x: x.detach() * x)(np.float64(3.0)).item() == 3.0


def test_no_grad_inside_a_function_makes_constants() -> None:
    def f(x: Any) -> Any:
        with ag.no_grad():
            constant = x * x
        return constant * x

    assert ag.grad(f)(np.float64(3.0)).item() == 9.0


def test_a_tape_records_nothing_of_a_transform() -> None:
    with ag.Tape() as tape:
        ag.grad(lambda x: x * x)(np.float64(3.0))
    assert tape.nodes == []


def test_an_exception_inside_leaves_the_modes_as_they_were() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("on purpose")

    for transform in (ag.grad(fails), ag.jacobian(fails), lambda x: ag.jvp(fails, (x,), (x,))):
        with pytest.raises(KeyError, match="on purpose"):
            transform(np.float64(1.0))
        assert not modes.tapes
        assert ag.is_grad_enabled()


def test_what_is_kept_from_a_transform_that_ended_is_a_constant_to_the_next() -> None:
    kept: list[Any] = []
    ag.jvp(lambda x: (kept.append(x * x), x)[1], (np.float64(3.0),), (np.float64(1.0),))
    inner = ag.grad(lambda x, y: (kept.append(x * x * y), x)[1])
    ag.grad(lambda y: (kept.append(y), inner(y, y))[1])(np.float64(3.0))
    for x, value in zip(kept, (9.0, 3.0, 27.0), strict=True):
        assert (x * 2.0).to_host() == 2 * value
        assert x.reshape(1).sum().item() == value
        assert ag.grad(lambda y, x=x: y * x)(np.float64(5.0)).to_host() == value
        assert ag.jvp(lambda y, x=x: y * x, (np.float64(5.0),), (np.float64(1.0),))[1].to_host() == value


def test_backward_from_inside_a_transform_refuses_to_miss_the_outer_graph() -> None:
    w = ag.tensor(np.float64(2.0), requires_grad=True)
    kept: list[Any] = []
    ag.grad(lambda x: (kept.append(x * w), x)[1])(np.float64(3.0))
    with pytest.raises(GraphError, match="transform"):
        kept[0].backward()
    assert w.grad is None


def test_a_function_may_use_threads_of_its_own() -> None:
    with ThreadPoolExecutor(2) as pool:

        def f(x: Any) -> Any:
            return sum(pool.map(lambda i: x * x * x * float(i), range(3)), 0.0)

        assert ag.grad(f)(np.float64(2.0)).item() == 36
        assert ag.grad(ag.grad(f))(np.float64(2.0)).item() == 36
        assert ag.jvp(ag.grad(f), (np.float64(2.0),), (np.float64(1.0),))[1].item() == 36
        assert ag.jvp(f, (np.float64(2.0),), (np.float64(1.0),))[1].item() == 36


def test_a_pullback_of_a_custom_op_can_be_differentiated_later() -> None:
    def square(x: Any) -> Any:
        return ag.apply_op(lambda v: v * v, lambda g: [g * 2.0 * x], x)

    _, pullback = ag.vjp(square, np.float64(3.0))
    assert ag.grad(lambda v: pullback(v)[0])(np.float64(1.0)).item() == 6
    assert ag.jvp(lambda v: pullback(v)[0], (np.float64(1.0),), (np.float64(1.0),))[1].item() == 6


@pytest.mark.parametrize("transform", [ag.grad, forward])
def test_anomalies_are_looked_for_in_every_level(transform: Any) -> None:
    with ag.detect_anomaly():
        assert transform(ag.grad(lambda x: x**3))(np.float64(2.0)).item() == 12
        with pytest.raises(AnomalyError, match="log gave 1 NaN"):
            transform(ag.grad(ag.log))(np.float64(-1.0))
        with pytest.raises(AnomalyError, match="infinite"):
            transform(ag.grad(lambda x: x**1.5))(np.float64(0.0))


def test_a_custom_op_nests_if_its_rules_are_made_of_ops() -> None:
    def square(x: Any) -> Any:
        return ag.apply_op(
            lambda v: v * v, lambda g: [g * 2.0 * x], x, jvp=lambda ts: ts[0] * 2.0 * x, op_name="square"
        )

    for outer, inner in itertools.product(MODES.values(), repeat=2):
        assert outer(inner(square))(np.float64(3.0)).item() == 2.0


def test_a_custom_op_without_a_rule_for_forward_mode_says_so() -> None:
    def square(x: Any) -> Any:
        return ag.apply_op(lambda v: v * v, lambda g: [g * 2.0 * x], x, op_name="square")

    with pytest.raises(GraphError, match=r"square.*forward mode"):
        ag.jvp(square, (X,), (V,))
    wrong = lambda x: ag.apply_op(lambda v: v * v, lambda g: [g], x, op_name="square", jvp=lambda ts: ts[0].sum())  # noqa: E731
    with pytest.raises(GradFnError, match=r"square.*shape \(\).*\(4,\)"):
        ag.jvp(wrong, (X,), (V,))


def test_a_rule_that_is_not_made_of_ops_is_differentiated_once() -> None:
    def square(x: Any) -> Any:
        def rule(g: Any) -> list[Any]:
            return [nc.Tensor.from_host(g.to_host() * 2.0 * x.to_host())]

        return ag.apply_op(lambda v: v * v, rule, x, op_name="square", once_differentiable=True)

    assert ag.grad(square)(np.float64(3.0)).item() == 6.0
    with pytest.raises(GraphError, match="square can be differentiated once only"):
        ag.grad(ag.grad(square))(np.float64(3.0))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ag.grad(lambda x: x)(X), ShapeError, r"one number.*\(4,\)"),
        (lambda: ag.grad(lambda x: x.sum())(np.arange(3)), DTypeError, "int64"),
        (lambda: ag.grad(lambda x: x.sum(), argnums=1)(X), ArgumentError, "argnums=1"),
        (lambda: ag.grad(lambda x: 1.0)(X), ArgumentError, "one tensor, not float"),
        (lambda: JVP(lambda x: x, X, V), ArgumentError, "tuple"),
        (lambda: ag.jvp(lambda x: x, (X,), (V, V)), ArgumentError, "1 primals came with 2"),
        (lambda: ag.jvp(lambda x: x, (X,), (V[:2],)), ShapeError, r"\(2,\).*\(4,\)"),
        (lambda: ag.jvp(lambda x: x, (X,), (V.astype(np.float32),)), DTypeError, "float32.*float64"),
        (lambda: ag.vjp(lambda x: x, X)[1](V[:2]), ShapeError, r"\(2,\).*\(4,\)"),
        (lambda: ag.jacobian(lambda x: x, mode="sideways"), ArgumentError, "sideways"),
    ],
)
def test_misuse_is_refused_with_what_came_in(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


# Checkpointing


def layered(wrap: Callable[[Scalar], Scalar], w: Any) -> Scalar:
    layer = wrap(lambda x: ag.tanh(ag.matmul(w, x)))
    return lambda x: (layer(layer(layer(x))) ** 2).sum()


@pytest.mark.parametrize("wrap", [ag.checkpoint, lambda f: ag.checkpoint(ag.checkpoint(f))], ids=["once", "nested"])
def test_a_checkpoint_changes_no_derivative(wrap: Any) -> None:
    results = []
    for this in (lambda f: f, wrap):
        w = ag.tensor(A[:, :3], requires_grad=True)
        x = ag.tensor(X[:3], requires_grad=True)
        f = layered(this, w)
        f(x).backward()
        second = ag.hvp(f, X[:3], V[:3])
        nested = ag.grad(lambda x, f=f: (ag.grad(f)(x) * V[:3]).sum())(X[:3])
        results.append([t.to_host() for t in (x.grad, w.grad, second, nested.detach())])
    for plain, kept in zip(*results, strict=True):
        np.testing.assert_allclose(kept, plain, rtol=1e-12)


def test_a_checkpoint_keeps_its_inputs_instead_of_its_activations() -> None:
    def deep(x: Any) -> Any:
        for _ in range(20):
            x = ag.tanh(x)
        return x

    x = ag.tensor(np.zeros(1000), requires_grad=True)
    with ag.Tape() as plain:
        deep(x)
    with ag.Tape() as kept:
        out = ag.checkpoint(deep)(x)
    assert (len(plain.nodes), len(kept.nodes)) == (20, 1)
    assert out.parents == [x]
    assert out.op_name == "checkpoint"


def test_a_checkpoint_whose_input_changed_since_refuses() -> None:
    w = ag.tensor(X, requires_grad=True)
    loss = ag.checkpoint(lambda: (w * w).sum())()
    w.value = ag.tensor(V)
    with pytest.raises(ArgumentError, match="new value"):
        loss.backward()


def test_a_checkpoint_of_a_constant_is_the_constant() -> None:
    assert type(ag.checkpoint(lambda x: x * 2.0)(ag.tensor(X))) is nc.Tensor
    with pytest.raises(ArgumentError, match="one tensor, not tuple"):
        ag.checkpoint(lambda x: (x, x))(ag.tensor(X, requires_grad=True))


# Checks of gradients


def test_gradcheck_along_a_direction_and_of_second_derivatives() -> None:
    assert ag.gradcheck(smooth, X, directional=True)
    report = ag.gradgradcheck(smooth, X)
    assert report.checked == 4
    bad = lambda x: ag.apply_op(lambda v: v * v, lambda g: [g * x], x, op_name="bad")  # noqa: E731
    with pytest.raises(GradcheckError, match="direction"):
        ag.gradcheck(bad, X, directional=True)
