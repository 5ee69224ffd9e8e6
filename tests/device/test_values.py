"""Values that must come out right: each test is a case that users of autodiff tools have reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def host(x: Any) -> Any:
    return x.to_host().tolist()


def gradient(f: Any, *values: Any) -> Any:
    """Return the gradients of Σ f at some points, as lists."""
    leaves = [leaf(value) for value in values]
    f(*leaves).sum().backward()
    found = [host(x.grad) for x in leaves]
    return found[0] if len(found) == 1 else found


# One value used more than once


def test_a_value_added_to_itself_twice_over_has_gradient_4() -> None:
    a = leaf([1.0, 2.0])
    b = a + a
    c = b + b
    c.sum().backward()
    assert host(a.grad) == [4, 4] and host(b.grad) == [2, 2]


def test_a_value_times_itself_twice_over() -> None:
    def fourth_power(a: Any) -> Any:
        b = a * a
        return b * b

    assert gradient(fourth_power, [1.0, -2.0, 3.0]) == [4, -32, 108]


def test_a_matrix_times_itself() -> None:
    A = np.array([[1, 2], [3, 4]], np.float32)
    ones = np.ones((2, 2), np.float32)
    assert gradient(lambda a: a @ a, A) == (ones @ A.T + A.T @ ones).tolist()

    def twice(a: Any) -> Any:
        b = a @ a
        return b @ b

    # dΣB² = Σ(dB B + B dB), so B̄ = 1 Bᵀ + Bᵀ 1, and Ā = B̄ Aᵀ + Aᵀ B̄
    B = A @ A
    b_bar = ones @ B.T + B.T @ ones
    assert gradient(twice, A) == (b_bar @ A.T + A.T @ b_bar).tolist()


def test_a_vector_times_itself() -> None:
    assert gradient(lambda a: a @ a, [1.0, 2.0, 3.0]) == [2, 4, 6]


def test_a_value_minus_and_over_itself_has_gradient_0() -> None:
    assert gradient(lambda a: a - a, [1.0, 2.0]) == [0, 0]
    assert gradient(lambda a: a / a, [1.0, 2.0]) == [0, 0]


# More than one backward


def test_three_backward_calls_on_one_graph_add_up() -> None:
    x = leaf([1.0, 2.0])
    loss = (3.0 * x).sum()
    for expected in ([3, 3], [6, 6], [9, 9]):
        loss.backward()
        assert host(x.grad) == expected


def test_two_losses_over_one_intermediate_value() -> None:
    x = leaf([5.0])
    k = 2.0 * x
    l1, l2 = 2.0 * k, 3.0 * k
    l1.backward()
    assert host(x.grad) == [4]
    l2.backward()
    assert host(x.grad) == [10]


# Broadcasting


@pytest.mark.parametrize(
    ("a", "b", "a_bar", "b_bar"),
    [
        ((4, 1), (1, 3), 3, 4),
        ((1,), (1, 2), 2, 1),
        ((), (1, 2), 2, 1),
        ((2,), (3, 2), 3, 1),
        ((2, 1, 3, 1, 2), (1, 5, 1, 4, 1), 20, 12),
        ((1, 1, 1, 1, 1), (2, 1, 3, 1, 4), 24, 1),
        ((3,), (2, 1, 4, 1, 3), 8, 1),
        ((1, 3), (3,), 1, 1),
        ((0, 3), (1, 3), 1, 0),
    ],
)
def test_the_gradient_of_a_stretched_operand_has_its_own_shape(a: Any, b: Any, a_bar: Any, b_bar: int) -> None:
    x, y = leaf(np.ones(a, np.float32)), leaf(np.ones(b, np.float32))
    (x * y).sum().backward()
    for node, shape, value in ((x, a, a_bar), (y, b, b_bar)):
        assert node.grad.shape == shape
        assert np.array_equal(node.grad.to_host(), np.full(shape, value, np.float32))


def test_every_stretched_element_counts_with_its_own_factor() -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-4, 5, (2, 1, 3, 1, 2)).astype(np.float32)
    b = rng.integers(-4, 5, (1, 5, 1, 4, 1)).astype(np.float32)
    full = (2, 5, 3, 4, 2)
    a_bar, b_bar = gradient(lambda x, y: x * y, a, b)
    assert a_bar == np.broadcast_to(b, full).sum(axis=(1, 3), keepdims=True).tolist()
    assert b_bar == np.broadcast_to(a, full).sum(axis=(0, 2, 4), keepdims=True).tolist()


# Sums


def test_a_sum_of_everything_is_0d_and_a_sum_of_that_too() -> None:
    x = leaf(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert x.sum().shape == () and x.sum().item() == 276
    assert x.sum().sum().shape == () and x.mean().shape == () and x.max().shape == ()
    scalar = leaf(3.0)
    assert scalar.sum().shape == ()
    scalar.sum().backward()
    assert scalar.grad.shape == () and scalar.grad.item() == 1


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (1, 2), (2, 0), (-1, -3), (), (0, 1, 2), np.int64(1)], ids=str)
def test_sum_mean_and_max_over_axes(axis: Any, keepdims: bool) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for name in ("sum", "mean", "max", "min"):
        x = leaf(array)
        y = getattr(x, name)(axis=axis, keepdims=keepdims)
        expected = getattr(array, name)(axis=axis, keepdims=keepdims)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y.to_host(), expected, rtol=1e-6)
        y.backward()
        reduced = array.size // max(expected.size, 1)
        extreme = getattr(array, name)(axis=axis, keepdims=True)
        x_bar: Any = {"sum": np.ones_like(array), "mean": np.full_like(array, 1 / reduced)}.get(
            name, (array == extreme).astype(np.float32)
        )
        np.testing.assert_allclose(x.grad.to_host(), x_bar, rtol=1e-6)


@pytest.mark.parametrize("axis", [3, -4, (0, 3), (1, 1), (0, -3)], ids=str)
def test_an_axis_twice_or_out_of_range_raises(axis: Any) -> None:
    for name in ("sum", "mean", "max", "min"):
        for x in (leaf(np.ones((2, 3, 4), np.float32)), ag.tensor(np.ones((2, 3, 4), np.float32))):
            with pytest.raises(ShapeError, match=f"{name}.*(twice|out of range)"):
                getattr(x, name)(axis=axis)


# Powers


def test_the_power_0_has_derivative_0_at_0() -> None:
    for exponent in (0, 0.0, ag.tensor(0.0), ag.tensor([0.0])):
        x = leaf([0.0, 2.0])
        y = x**exponent
        assert host(y) == [1, 1]
        y.backward()
        assert host(x.grad) == [0, 0]


def test_the_square_of_a_negative_number() -> None:
    for exponent in (2, 2.0, ag.tensor(2.0), np.int64(2)):
        x = leaf([-2.0, 0.0])
        y = x**exponent
        np.testing.assert_allclose(y.to_host(), [4, 0], rtol=1e-6)
        y.backward()
        np.testing.assert_allclose(x.grad.to_host(), [-4, 0], rtol=1e-6)


def test_a_root_as_a_power_has_an_infinite_derivative_at_0() -> None:
    assert gradient(lambda x: x**0.5, [0.0]) == [np.inf]
    assert gradient(lambda x: x.sqrt(), [0.0, 4.0]) == [np.inf, 0.25]


def test_a_power_of_two_nodes_has_both_gradients() -> None:
    x, y = leaf([2.0, 3.0, 0.0]), leaf([3.0, -1.0, 2.0])
    (x**y).backward()
    np.testing.assert_allclose(x.grad.to_host(), [12, -1 / 9, 0], rtol=1e-6)
    np.testing.assert_allclose(y.grad.to_host(), [8 * np.log(2), np.log(3) / 3, 0], rtol=1e-6)


def test_a_number_to_the_power_of_a_node() -> None:
    y = leaf([3.0, 0.0, -1.0])
    z = 2.0**y
    np.testing.assert_allclose(z.to_host(), [8, 1, 0.5], rtol=1e-6)
    z.backward()
    np.testing.assert_allclose(y.grad.to_host(), np.log(2) * np.array([8, 1, 0.5]), rtol=1e-6)


# Where a derivative is a choice


def test_the_length_of_a_zero_vector_has_the_gradient_that_the_chain_rule_gives() -> None:
    # √ has slope ∞ at 0 and Σx² has slope 0: ∞ · 0 is NaN, as IEEE 754 has it. sqrt's page says that its slope is ∞.
    assert np.isnan(gradient(lambda x: (x * x).sum().sqrt(), [0.0, 0.0])).all()
    assert gradient(lambda x: (x * x).sum().sqrt(), [3.0, 4.0]) == pytest.approx([0.6, 0.8])
    assert "infinite" in ag.sqrt.__doc__


def test_a_condition_that_is_no_tensor_is_refused_since_it_was_meant_to_be_one() -> None:
    """`x == 0` is identity, False for every x: where() would take the other branch, everywhere and silently."""
    x = leaf([0.0, 2.0])
    for f in (lambda x: ag.where(x == 0, 1.0, 1.0 / x), lambda x: ag.where(np.bool_(True), x, x * x)):
        for run in (f, ag.fuse(f), ag.jacobian(f)):
            with pytest.raises(ArgumentError, match=r"the condition is (True|False).*ag\.equal\(x, 0\)"):
                run(x)
    np.testing.assert_array_equal(ag.where(ag.equal(x, 0), 1.0, 1.0 / x).to_host(), [1, 0.5])
    np.testing.assert_array_equal(ag.where(1, x, -x).to_host(), [0, 2])


def test_the_branch_that_was_not_chosen_poisons_nothing_with_the_double_where() -> None:
    def guarded(a: Any) -> Any:
        return ag.where(a <= 0.0, ag.exp(ag.where(a <= 0.0, a, 0.0)), a + 1.0)

    assert gradient(guarded, [100.0]) == [1]
    assert gradient(guarded, [100.0, 1e4, -1.0]) == pytest.approx([1, 1, np.exp(-1)])
    assert "double where" in ag.where.__doc__  # where a user will look


def test_a_single_where_over_an_overflowing_branch_gives_what_its_page_says() -> None:
    x = leaf([100.0])
    y = ag.where(x <= 0.0, ag.exp(x), x + 1.0)
    assert host(y) == [101]
    y.backward()
    assert np.isnan(x.grad.item()) and "NaN" in ag.where.__doc__


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_a_gradient_whose_parts_sum_to_1(name: str) -> None:
    x = leaf([[2.0, 2.0, 2.0], [1.0, 1.0, 2.0]])
    getattr(x, name)(axis=1).backward()
    expected = [[1 / 3] * 3, [0, 0, 1] if name == "max" else [0.5, 0.5, 0]]
    np.testing.assert_allclose(x.grad.to_host(), expected, rtol=1e-6)
    np.testing.assert_allclose(x.grad.to_host().sum(axis=1), [1, 1], rtol=1e-6)
    a_bar, b_bar = gradient(ag.maximum, [1.0, 5.0, 0.0], [1.0, 0.0, 5.0])
    assert (a_bar, b_bar) == ([0.5, 1, 0], [0.5, 0, 1])


def test_kinks_have_the_subgradient_that_their_page_states() -> None:
    assert gradient(lambda x: x.relu(), [-1.0, 0.0, 1.0]) == [0, 0, 1]
    assert gradient(abs, [-2.0, 0.0, 2.0]) == [-1, 0, 1]


# No elements


def test_a_sum_of_nothing_is_0_with_a_gradient_of_its_shape() -> None:
    x = leaf(np.zeros((0, 3), np.float32))
    y = x.sum()
    assert host(y) == 0
    y.backward()
    assert x.grad.shape == (0, 3)
    x = leaf(np.zeros((0, 3), np.float32))
    rows = x.sum(axis=0)
    assert host(rows) == [0, 0, 0]
    rows.backward()
    assert x.grad.shape == (0, 3)


def test_a_product_over_nothing_is_zeros() -> None:
    a, b = leaf(np.zeros((2, 0), np.float32)), leaf(np.zeros((0, 3), np.float32))
    y = a @ b
    assert host(y) == [[0, 0, 0], [0, 0, 0]]
    y.sum().backward()
    assert a.grad.shape == (2, 0) and b.grad.shape == (0, 3)
    assert (leaf(np.zeros((0, 2), np.float32)) @ ag.tensor(np.zeros((2, 3), np.float32))).shape == (0, 3)


def test_the_mean_of_nothing_is_nan_and_its_extremes_raise() -> None:
    with pytest.warns(RuntimeWarning, match=r"mean: shape \(0, 3\)"):
        for x in (leaf(np.zeros((0, 3), np.float32)), ag.tensor(np.zeros((0, 3), np.float32))):
            assert np.isnan(x.mean().item())
            assert np.isnan(x.mean(axis=0).to_host()).all()
    x = leaf(np.zeros((0, 3), np.float32))
    for name in ("max", "min"):
        with pytest.raises(ShapeError, match=rf"{name}.*\(0, 3\)"):
            getattr(x, name)()
        assert getattr(x, name)(axis=1).shape == (0,)


def test_ops_on_no_elements_give_no_elements() -> None:
    x = leaf(np.zeros((0, 3), np.float32))
    y = ((x + 1.0) * np.ones(3, np.float32)).exp().T[:, ::-1].reshape(3, 0, 1)
    assert y.shape == (3, 0, 1) and y.to_host().size == 0
    y.sum().backward()
    assert x.grad.shape == (0, 3)


# Elements that are picked


def test_the_gradient_of_an_index_lies_where_it_points() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    for key in (
        (1,),
        (1, 2),
        (-1, -1),
        slice(None, None, 2),
        (slice(None), slice(None, None, -2)),
        (..., 0),
        (None, 2),
    ):
        x = leaf(array)
        y = x[key]
        assert np.array_equal(y.to_host(), array[key])
        (y * 2.0).sum().backward()
        expected = np.zeros_like(array)
        expected[key] = 2
        assert np.array_equal(x.grad.to_host(), expected)


def test_one_element_used_many_times() -> None:
    x = leaf([1.0, 2.0, 3.0])
    (x[0] * x[0] + x[0] * x[2] + x[-1]).backward()
    assert host(x.grad) == [2 * 1 + 3, 0, 1 + 1]


# Arithmetic as IEEE 754 and NumPy have it


def test_no_build_option_lets_the_compiler_forget_nan_and_infinity(on_device: Device) -> None:
    x = ag.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    assert np.array_equal((x - x).to_host(), [np.nan, np.nan, np.nan, 0], equal_nan=True)
    assert np.array_equal((x * 0.0).to_host(), [np.nan, np.nan, np.nan, 0], equal_nan=True)
    assert host(ag.equal(x, x)) == [False, True, True, True]
    assert host(ag.not_equal(x, x)) == [True, False, False, False]
    assert np.array_equal((0.0 / x).to_host(), [np.nan, 0, -0.0, np.nan], equal_nan=True)
    assert np.signbit((ag.tensor([-0.0]) * 1.0).to_host()).all()
    assert on_device.has_fp64 in (True, False)


def test_a_product_and_a_difference_are_rounded_as_numpy_rounds_them() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(10_000).astype(np.float32) for _ in range(2))
    x, y = ag.tensor(a), ag.tensor(b)
    assert np.array_equal((x * x - y).to_host(), a * a - b)
    assert np.array_equal((x * y + x * y).to_host(), a * b + a * b)
    w = leaf(a)
    (w * w * y - w).sum().backward()
    g = np.ones_like(b)
    assert np.array_equal(w.grad.to_host(), (-g + g * b * a) + g * b * a)  # contributions in the order of the pass


def test_nan_and_infinity_go_through_a_product_of_matrices() -> None:
    a = np.array([[1, np.nan], [np.inf, 0]], np.float32)
    b = np.array([[1, 0], [0, 2]], np.float32)
    with np.errstate(invalid="ignore"):
        assert np.array_equal((ag.tensor(a) @ ag.tensor(b)).to_host(), a @ b, equal_nan=True)


def test_a_float32_sum_of_ten_million_numbers_is_accurate() -> None:
    x = np.full(10_000_000, 0.1, np.float32)
    total = ag.tensor(x).sum().item()
    assert total == pytest.approx(float(x.astype(np.float64).sum()), rel=1e-5)
    assert abs(float(np.cumsum(x)[-1]) - 1e6) > 5e4  # what adding one by one gives


def test_zero_d_and_one_element_go_together() -> None:
    x, y = leaf(2.0), leaf([[3.0]])
    z = x * y
    assert z.shape == (1, 1)
    z.backward()
    assert x.grad.shape == () and x.grad.item() == 3
    assert y.grad.shape == (1, 1) and y.grad.item() == 2
