"""create_graph: gradients that are nodes, against derivatives worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.errors import GraphError

pytestmark = pytest.mark.usefixtures("on_device", "float64")

F = Callable[[Any], Any]


def leaf(values: Any) -> Any:
    return ag.tensor(np.array(values, np.float64), requires_grad=True)


def derivatives(f: F, x: Any, count: int) -> list[np.ndarray]:
    """Return f'(x), f''(x) … as backward gives them, each taken through the graph of the one before."""
    found = []
    y = f(x).sum()
    for _ in range(count):
        x.zero_grad()
        ag.Tape().backward(y, create_graph=True)
        gradient = x.grad
        assert type(gradient) is ag.Node
        found.append(gradient.to_host())
        y = gradient.sum()
    x.zero_grad()
    return found


P = np.array([0.5, 1.25, 2.0])

CASES: dict[str, tuple[F, list[F]]] = {
    "x⁴": (lambda x: x**4, [lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x]),
    "x·x·x": (lambda x: x * x * x, [lambda x: 3 * x**2, lambda x: 6 * x, lambda x: 6 + 0 * x]),
    "1/x": (lambda x: 1 / x, [lambda x: -(x**-2.0), lambda x: 2 * x**-3.0, lambda x: -6 * x**-4.0]),
    "exp": (lambda x: x.exp(), [np.exp] * 3),
    "log": (lambda x: x.log(), [lambda x: 1 / x, lambda x: -(x**-2.0), lambda x: 2 * x**-3.0]),
    "sqrt": (lambda x: x.sqrt(), [lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5]),
    "sin": (lambda x: x.sin(), [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
    "cos": (lambda x: x.cos(), [lambda x: -np.sin(x), lambda x: -np.cos(x)]),
    "tanh": (
        lambda x: x.tanh(),
        [lambda x: 1 - np.tanh(x) ** 2, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)],
    ),
    "sigmoid": (
        lambda x: x.sigmoid(),
        [lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2, lambda x: np.exp(-x) * (np.exp(-x) - 1) / (1 + np.exp(-x)) ** 3],
    ),
    "xˣ": (
        lambda x: x**x,
        [lambda x: x**x * (np.log(x) + 1), lambda x: x**x * ((np.log(x) + 1) ** 2 + 1 / x)],
    ),
    "2ˣ": (lambda x: 2.0**x, [lambda x: 2**x * np.log(2), lambda x: 2**x * np.log(2) ** 2]),
    "relu(x)²": (lambda x: x.relu() ** 2, [lambda x: 2 * x, lambda x: 2 + 0 * x]),
    "|x|³": (lambda x: abs(x) ** 3, [lambda x: 3 * x**2, lambda x: 6 * x]),
    "3x": (lambda x: 3.0 * x, [lambda x: 3 + 0 * x]),
    "through sum and view": (
        lambda x: (x.reshape(3, 1) * x).sum(axis=0)[::-1].T,  # Σᵢⱼ xᵢxⱼ
        [lambda x: 2 * x.sum() + 0 * x, lambda x: 6 + 0 * x],
    ),
    "mean of squares": (lambda x: (x * x).mean(), [lambda x: 2 * x / 3, lambda x: 2 / 3 + 0 * x]),
    "matmul": (lambda x: (x @ x) * (x @ x), [lambda x: 4 * (x @ x) * x, lambda x: 8 * x.sum() * x + 4 * (x @ x)]),
    "max": (lambda x: x.max() ** 3, [lambda x: 3 * x**2 * (x == 2), lambda x: 6 * x * (x == 2)]),
    "where": (lambda x: ag.where(x < 1.0, x**2, x**3), [lambda x: np.where(x < 1, 2 * x, 3 * x**2),
                                                       lambda x: np.where(x < 1, 2, 6 * x)]),
    "maximum": (lambda x: ag.maximum(x, 1.0) ** 2, [lambda x: np.where(x > 1, 2 * x, 0),
                                                    lambda x: np.where(x > 1, 2, 0)]),
}  # fmt: skip


@pytest.mark.parametrize(("f", "expected"), CASES.values(), ids=CASES.keys())
def test_derivatives_of_derivatives(f: F, expected: list[F]) -> None:
    for found, by_hand in zip(derivatives(f, leaf(P), len(expected)), expected, strict=True):
        np.testing.assert_allclose(found, by_hand(P), rtol=1e-12, atol=1e-12)


def test_mixed_second_derivatives_of_two_variables() -> None:
    x, y = leaf(2.0), leaf(3.0)
    ag.Tape().backward(x * x * y, create_graph=True)
    dx, dy = x.grad, y.grad
    assert (dx.item(), dy.item()) == (12, 4)
    for node in (x, y):
        node.zero_grad()
    dx.backward()
    assert (x.grad.item(), y.grad.item()) == (6, 4)  # ∂²/∂x² = 2y, ∂²/∂x∂y = 2x
    for node in (x, y):
        node.zero_grad()
    dy.backward()
    assert x.grad.item() == 4  # and the other way round


def test_a_gradient_penalty_trains_through_the_gradient() -> None:
    w, x = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf([1.0, -1.0])
    out = (w @ x) ** 2  # ∂Σout/∂x = 2 Wᵀ(Wx) = 2 WᵀW x
    ag.Tape().backward(out.sum(), create_graph=True)
    penalty = (x.grad * x.grad).sum()
    W, v = w.to_host(), x.to_host()
    g = 2 * W.T @ W @ v
    np.testing.assert_allclose(penalty.item(), g @ g, rtol=1e-12)
    for node in (w, x):
        node.zero_grad()
    penalty.backward()
    # With u = Wx and p = |2Wᵀu|²:  dp = 2 gᵀ 2 (dWᵀ u + Wᵀ dW x)
    np.testing.assert_allclose(w.grad.to_host(), 4 * (np.outer(W @ v, g) + np.outer(W @ g, v)), rtol=1e-12)
    np.testing.assert_allclose(x.grad.to_host(), 4 * W.T @ W @ g, rtol=1e-12)


def test_broadcast_operands_have_second_derivatives_of_their_own_shape() -> None:
    a, b = leaf(np.array([[1.0], [2.0]])), leaf(np.array([[3.0, 4.0, 5.0]]))
    ag.Tape().backward((a * a * b).sum(), create_graph=True)
    da = a.grad
    assert da.shape == (2, 1) and da.to_host().tolist() == [[24], [48]]
    a.zero_grad()
    b.zero_grad()
    da.sum().backward()
    assert a.grad.to_host().tolist() == [[24], [24]]
    assert b.grad.to_host().tolist() == [[6, 6, 6]]


def test_the_seed_may_be_a_node_that_gets_a_gradient_too() -> None:
    x, seed = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    ag.Tape().backward(x * x, seed, create_graph=True)
    first = x.grad
    assert first.to_host().tolist() == [6, 16]
    x.zero_grad()
    first.backward()
    assert seed.grad.to_host().tolist() == [2, 4]
    assert x.grad.to_host().tolist() == [6, 8]


def test_float32_stays_float32() -> None:
    x = ag.tensor([2.0], requires_grad=True)
    ag.Tape().backward(x**3 * np.float64(1), create_graph=True)
    first = x.grad
    assert first.dtype == np.float32 and first.to_host().tolist() == [12]


def test_gradients_accumulate_as_nodes() -> None:
    x = leaf([2.0])
    y = x**3
    for total in ([12], [24]):
        ag.Tape().backward(y, create_graph=True)
        assert x.grad.to_host().tolist() == total
    both = x.grad
    x.zero_grad()
    both.backward()
    assert x.grad.to_host().tolist() == [24]


def test_without_create_graph_gradients_are_tensors() -> None:
    x = leaf([2.0])
    y = x**3
    y.backward()
    assert type(x.grad) is nc.Tensor and type(y.grad) is nc.Tensor


def test_a_node_made_by_hand_has_no_second_derivative_and_says_so() -> None:
    x = leaf([1.0])
    node = ag.Node(x.value * 2.0, lambda g: [g * 2.0], [x], op_name="by hand")
    with pytest.raises(GraphError, match="by hand"):
        ag.Tape().backward(node, create_graph=True)


def test_a_parameter_with_a_new_value_is_refused_where_the_second_derivative_would_be_another_functions() -> None:
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    w.value = ag.tensor(np.array([5.0]))
    with pytest.raises(GraphError, match=r"mul.*new value"):
        ag.Tape().backward(y, create_graph=True)
    assert x.pass_id == 0
    y.backward()
    assert x.grad.to_host().tolist() == [3]


def test_a_result_with_a_new_value_is_refused_where_the_second_derivative_would_be_another_functions() -> None:
    x = leaf([2.0])
    made = [ag.tanh(x), x * x, x.sum(), ag.apply_op(lambda v: v * 2.0, lambda g: [g * 2.0], x, op_name="mine")]
    for y in made:
        y.value = ag.tensor(np.zeros(y.shape, y.dtype))
        with pytest.raises(GraphError, match=rf"{y.op_name}.*new value"):
            ag.Tape().backward(y, create_graph=True)
        assert x.grad is None


@pytest.mark.parametrize(
    "f", [lambda x: 0.0**x, lambda x: (-2.0) ** x, lambda x: x**0, lambda x: x * 0.0, lambda x: x**-1]
)
def test_numbers_at_the_edge_give_the_gradient_that_the_first_pass_gives(f: F) -> None:
    x = leaf(P)
    f(x).backward()
    plain = x.grad.to_host()
    x.zero_grad()
    ag.Tape().backward(f(x), create_graph=True)
    np.testing.assert_allclose(x.grad.to_host(), plain, rtol=1e-15, equal_nan=True)
