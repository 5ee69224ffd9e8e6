"""Operators and methods: the same on tensors and nodes, beside Python numbers, NumPy scalars and arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def same(x: Any, array: Any) -> None:
    """Require equal shape, dtype, and every bit of every element."""
    host, expected = x.to_host(), np.asarray(array)
    assert host.shape == expected.shape == x.shape
    assert host.dtype == expected.dtype == x.dtype
    assert host.tobytes() == expected.tobytes()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("number", [2, 2.0, np.int64(2), np.float64(2), np.float32(2), np.int8(2), np.bool_(True)],
                         ids=lambda x: type(x).__name__)  # fmt: skip
def test_python_and_numpy_scalars_take_the_tensors_dtype(number: Any, requires_grad: bool) -> None:
    x = ag.tensor([1.0, 3.0], requires_grad=requires_grad)
    for result in (x * number, number * x):
        assert type(result) is (ag.Node if requires_grad else nc.Tensor)
        same(result, f32([1, 3]) * np.float32(number))


@pytest.mark.usefixtures("float64")
def test_mixed_arrays_promote_as_in_numpy_but_integers_leave_float32() -> None:
    float32, float64 = f32([1.5, 2]), np.array([0.1, 3], np.float64)
    int64, booleans = np.array([3, 4], np.int64), np.array([True, False])
    for a, b, dtype in [
        (float32, float64, np.float64),
        (float32, int64, np.float32),
        (float32, booleans, np.float32),
        (float64, int64, np.float64),
        (np.array([1, 2], np.int8), np.array([3, 4], np.uint8), np.int16),
        (int64, booleans, np.int64),
    ]:
        result = nc.Tensor.from_host(a) * nc.Tensor.from_host(b)
        same(result, a.astype(dtype) * b.astype(dtype))
        same(nc.Tensor.from_host(a) * b, a.astype(dtype) * b.astype(dtype))  # with an array: the same


@pytest.mark.parametrize("symbol", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge"])
def test_operators_and_their_reflections_on_tensors_and_nodes(symbol: str) -> None:
    operate = getattr(operator, symbol)
    array, row = f32([[1, 2], [3, 4]]), f32([2, 3])
    for x in (nc.Tensor.from_host(array), ag.tensor(array, requires_grad=True)):
        for left, right in [(x, 2.0), (2.0, x), (x, row), (row, x), (x, nc.Tensor.from_host(row))]:
            expected = operate(*(array if side is x else np.asarray(side) for side in (left, right)))
            result = operate(left, right)
            assert result.dtype == (bool if expected.dtype == bool else np.float32)
            np.testing.assert_allclose(result.to_host(), expected, rtol=1e-6)


ENDS = [-np.inf, -7.5, -3, -1, -0.3, -0.0, 0, 0.1, 0.5, 1, 2.7, 3, 1e30, np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floor_division_and_remainder_are_numpys_at_every_end(device: Device, dtype: Any) -> None:
    """With the bits of NumPy: 1 // 0.1 is 9, and the sign of a remainder is the divisor's, that of 0 too."""
    if dtype is np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64")
    a, b = np.array(ENDS, dtype)[:, None], np.array(ENDS, dtype)
    with np.errstate(all="ignore"):
        quotient, rest = divmod(nc.Tensor.from_host(a, device=device), nc.Tensor.from_host(b, device=device))
        for found, expected in ((quotient, a // b), (rest, a % b)):
            np.testing.assert_array_equal(found.to_host(), expected)
            known = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found.to_host())[known], np.signbit(expected)[known])
        x = nc.Tensor.from_host(b, device=device)
        for pair, both in ((divmod(x, 2), divmod(b, 2)), (divmod(-7, x), divmod(dtype(-7), b))):
            for found, expected in zip(pair, both, strict=True):
                np.testing.assert_array_equal(found.to_host(), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
def test_floor_division_and_remainder_of_integers_also_by_0_and_minus_1(dtype: Any) -> None:
    ends = np.array(
        [0, 1, 2, 3, 7, np.iinfo(dtype).max, np.iinfo(dtype).min, *([-1, -3] if np.iinfo(dtype).min else [])]
    )
    a, b = (np.array(each, dtype) for each in np.meshgrid(ends, ends))
    x, y = nc.Tensor.from_host(a), nc.Tensor.from_host(b)
    with np.errstate(all="ignore"):
        same(x // y, a // b)
        same(x % y, a % b)


def test_the_gradient_of_a_remainder_is_1_and_minus_the_quotient_and_that_of_a_quotient_0() -> None:
    a, b = f32([7, -7, 7, -7, 5.5]), f32([2, 3, -2, -3, 0.75])
    x, y = ag.tensor(a, requires_grad=True), ag.tensor(b, requires_grad=True)
    (x % y).backward([1.0] * 5)
    same(x.grad, f32(np.ones(5)))
    same(y.grad, -(a // b))
    x.zero_grad()
    y.zero_grad()
    (x // y).backward([1.0] * 5)
    assert not x.grad.to_host().any() and not y.grad.to_host().any()
    x.zero_grad()
    y.zero_grad()
    (y * (x // y) + x % y).backward([1.0] * 5)  # which is x
    same(x.grad, f32(np.ones(5)))
    np.testing.assert_array_equal(y.grad.to_host(), 0)


def test_round_is_a_builtin_a_method_and_numpys_function() -> None:
    array = f32([[0.5, 1.5, -2.5], [13.126, -0.004, 1250]])
    for x in (nc.Tensor.from_host(array), ag.tensor(array, requires_grad=True)):
        for decimals in (0, 2, -1, -2):
            methods = [round(x, decimals), x.round(decimals), x.round(decimals=decimals)]
            functions: list[Any] = [ag.round(x, decimals), ag.round(x, decimals=decimals), np.round(x, decimals)]
            for found in methods + functions:
                np.testing.assert_array_equal(found.to_host(), array.round(decimals))
        same(round(x), array.round())
        assert type(round(x, 1)) is type(x)
    node = ag.tensor(array, requires_grad=True)
    round(node, 1).backward([[1.0] * 3] * 2)
    assert not node.grad.to_host().any()
    with pytest.raises(TypeError, match="float"):
        ag.round(node, 1.5)
    whole = nc.Tensor.from_host(np.array([13, -5]))
    same(round(whole, 2), np.array([13, -5]))
    with pytest.raises(DTypeError, match="int64"):
        round(whole, -1)


@pytest.mark.usefixtures("float64")
def test_float64_is_rounded_to_decimals_that_float32_has_no_scale_for() -> None:
    array = np.array([0.123456789012345, -2.000000000005, 1e-12])
    np.testing.assert_array_equal(ag.round(nc.Tensor.from_host(array), 11).to_host(), array.round(11))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_the_sign_of_minus_0_is_0(dtype: Any) -> None:
    array = np.array([-0.0, 0, -3, 3] if dtype is np.int32 else [-0.0, 0, -3, 3, -np.inf, np.nan], dtype)
    found = ag.sign(nc.Tensor.from_host(array)).to_host()
    np.testing.assert_array_equal(found, np.sign(array))
    assert not np.signbit(found[0])


CALLED: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x), lambda x: np.sum(x, axis=1, keepdims=True), lambda x: np.prod(x, 0), lambda x: np.mean(x, 1),
    lambda x: np.max(x), lambda x: np.min(x, 0), lambda x: np.std(x), lambda x: np.var(x, ddof=1),
    lambda x: np.any(x), lambda x: np.all(x, 1), lambda x: np.argmax(x), lambda x: np.argmin(x, 1),
    lambda x: np.cumsum(x, 0), lambda x: np.round(x, 1), lambda x: np.around(x), lambda x: np.clip(x, -1, 3),
    lambda x: np.clip(x, 0, None), lambda x: np.clip(x, None, 2), lambda x: np.take(x, [2, 0], 1),
    lambda x: np.repeat(x, 2, 0), lambda x: np.squeeze(x), lambda x: np.reshape(x, (3, 2)), lambda x: np.transpose(x),
    lambda x: np.swapaxes(x, 0, 1), lambda x: np.moveaxis(x, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLED)
def test_numpys_functions_that_call_a_method_give_what_they_give_of_an_array(call: Callable[[Any], Any]) -> None:
    """np.sum(x) calls x.sum(axis=None, out=None)."""
    array = f32([[1, -2, 3], [4, 5.26, -6]])
    for x in (nc.Tensor.from_host(array), ag.tensor(array, requires_grad=True)):
        found = call(x)
        assert isinstance(found, (ag.Node, nc.Tensor))
        np.testing.assert_allclose(found.to_host(), call(array), rtol=1e-6)


def test_an_array_to_write_into_is_refused_and_so_is_what_else_a_method_cannot_do() -> None:
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("sum takes no out", lambda: np.sum(x, out=np.zeros(()))),  # type: ignore[call-overload]
        ("argmax takes no out", lambda: np.argmax(x, out=np.zeros((), np.int64))),  # type: ignore[call-overload]
        ("out", lambda: x.cumsum(out=x)),
        ("mean takes no dtype", lambda: np.mean(x, dtype=np.float64)),  # type: ignore[call-overload]
        ("reshape takes no order='F'", lambda: np.reshape(x, (2, 1), order="F")),  # type: ignore[call-overload]
        ("take takes no mode='clip'", lambda: x.take([7], mode="clip")),
        ("sum has no parameter where", lambda: x.sum(where=True)),
    ]
    for message, call in refused:
        with pytest.raises(ArgumentError, match=message):
            call()


def test_a_clip_is_open_where_it_has_no_end() -> None:
    x = ag.tensor([-3.0, 0.5, np.nan, np.inf], requires_grad=True)
    np.testing.assert_array_equal(x.clip(high=0).to_host(), f32([-3, 0, np.nan, 0]))
    x.clip(0.0).backward([1.0] * 4)
    np.testing.assert_array_equal(x.grad.to_host(), [0, 1, 1, 1])
    same(nc.Tensor.from_host(np.arange(5)).clip(2), np.arange(5).clip(2))


def test_a_node_has_the_bytes_of_its_value() -> None:
    x = ag.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    assert x.nbytes == x.value.nbytes == 24
    seen = []
    ag.fuse(lambda x: seen.append((x * 2).nbytes))(x)
    ag.jvp(lambda x: seen.append(x.nbytes) or x, (x,), (np.ones((2, 3), np.float32),))
    assert seen == [24, 24]


def test_matmul_neg_and_abs_are_operators_too() -> None:
    array = f32([[1, -2], [3, 4]])
    for x in (nc.Tensor.from_host(array), ag.tensor(array, requires_grad=True)):
        same(x @ array, array @ array)
        same(array @ x, array @ array)
        same(-x, -array)
        same(abs(x), abs(array))


def test_the_methods_are_on_tensors_and_nodes_alike() -> None:
    array = f32([[1, 4], [9, 16]])
    for x in (nc.Tensor.from_host(array), ag.tensor(array, requires_grad=True)):
        same(x.sum(axis=0), array.sum(axis=0))
        same(x.mean(), np.float32(7.5))
        same(x.max(1), array.max(1))
        same(x.min(), np.float32(1))
        same(x.reshape(4), array.reshape(4))
        same(x.reshape((4, 1)), array.reshape(4, 1))
        same(x.T, array.T)
        same(x.sqrt(), np.sqrt(array))
        same(x.astype(np.int32), array.astype(np.int32))


def test_numpy_leaves_an_operation_with_an_array_to_the_node() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    for result in (
        f32([3, 4]) * x,
        f32([3, 4]) + x,
        f32([3, 4]) - x,
        f32([[3, 4]]) @ x,
        f32([3, 4]) / x,
        f32([2, 3]) ** x,
    ):
        assert type(result) is ag.Node
        assert result.parents == [x]
    (f32([3, 4]) * x).backward()
    same(x.grad, f32([3, 4]))


@pytest.mark.usefixtures("float64")
def test_ones_of_numpy_times_a_float32_node_is_a_float64_node_whose_gradient_is_float32() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = np.ones(2) * x
    assert type(y) is ag.Node and y.dtype == np.float64
    y.backward()
    same(x.grad, f32([1, 1]))


def test_a_number_that_changes_from_call_to_call_is_the_one_of_the_call() -> None:
    x = ag.tensor([1.0, -2.0])
    numbers = [0.0, -0.0, 0.0, 3.0, 3.0, float("nan"), float("inf"), 1e300, -1e300, 2, True]
    for number in numbers:
        with np.errstate(over="ignore"):
            expected = np.array([1.0, -2.0], np.float32) * np.float32(number)
        given = (x * number).to_host()
        np.testing.assert_array_equal(given, expected)
        np.testing.assert_array_equal(np.signbit(given), np.signbit(expected))


def test_a_number_is_formatted_as_python_does() -> None:
    loss = ag.tensor(1.23456, requires_grad=True) * 1.0
    assert f"{loss:.3f}|{loss.detach():8.2e}" == "1.235|1.23e+00"
    assert f"{loss}" == repr(loss)
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        f"{ag.tensor([1.0, 2.0]):.3f}"


@pytest.mark.parametrize("shape", [(3, 4), (300, 70)])
def test_one_element_spread_over_a_shape(shape: tuple[int, int]) -> None:
    """As the gradient of a sum is: kernels read it without strides, from where it lies."""
    many = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    few = np.arange(12, dtype=np.float32).reshape(3, 4)
    y, spread = nc.Tensor.from_host(many), ag.broadcast_to(nc.Tensor.from_host(few)[1:2, 2:3], shape)
    assert spread.strides == (0, 0) and spread.offset
    for result in (spread * y, ag.fuse(lambda a, b: a * b)(spread, y), (spread.T * y.T).T):
        np.testing.assert_array_equal(result.to_host(), many * few[1, 2])
    np.testing.assert_array_equal((spread + spread).to_host(), np.full(shape, 2 * few[1, 2]))
