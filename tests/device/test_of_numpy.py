"""NumPy's functions of tensors and nodes: an op of that name, or NumPy's numbers where no gradient is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.errors import ArgumentError, GraphError

pytestmark = pytest.mark.usefixtures("on_device")
Call = Callable[[Any], Any]

SQUARE = np.array([[1, 4, 2], [3, -1, 5], [0.5, 2, 7]], np.float32)
OTHER = np.array([[2, 0, 1], [1, 1, -3], [4, 2, 0]], np.float32)

OPS: list[Call] = [
    lambda x: np.dot(x, OTHER), lambda x: np.dot(OTHER, x), lambda x: np.dot(x[0], x[1]), lambda x: np.dot(x, x[0]),
    lambda x: np.trace(x), lambda x: np.trace(x, offset=1), lambda x: np.diagonal(x, 1), lambda x: np.diag(x),
    lambda x: np.concatenate((x, OTHER)), lambda x: np.concatenate([x, x], axis=1), lambda x: np.stack((x, x), axis=1),
    lambda x: np.where(OTHER > 1, x, OTHER), lambda x: np.einsum("ij,jk->ik", x, OTHER), lambda x: np.ravel(x),
    lambda x: np.tensordot(x, OTHER, axes=1), lambda x: np.outer(x[0], x[1]), lambda x: np.tril(x),
    lambda x: np.triu(x, 1), lambda x: np.roll(x, 1, axis=0), lambda x: np.tile(x, (2, 1)), lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((1, 0), (0, 2)), mode="edge"), lambda x: np.linalg.norm(x), lambda x: np.expand_dims(x, 0),
    lambda x: np.take_along_axis(x, np.array([[0], [2], [1]]), axis=1), lambda x: np.split(x, 3)[1],
    lambda x: np.broadcast_to(x, (2, 3, 3)), lambda x: np.flip(x, 0),
]  # fmt: skip
LOST: dict[str, Call] = {
    "np.sort": lambda x: np.sort(x),
    "np.cumprod": lambda x: np.cumprod(x),
    "np.median": lambda x: np.median(x),
    "np.inner": lambda x: np.inner(OTHER, x),
    "np.diff": lambda x: np.diff(x, axis=0),
    "np.linalg.inv": lambda x: np.linalg.inv(x),
    "np.nan_to_num": lambda x: np.nan_to_num(x=x),
    "np.block": lambda x: np.block([[x, OTHER]]),
    "np.meshgrid": lambda x: np.meshgrid(x, x),
}
KEPT: list[Call] = [
    np.asarray, np.array, np.copy, np.shape, np.ndim, np.size, np.zeros_like, np.argsort, np.nonzero, np.count_nonzero,
    lambda x: np.allclose(x, SQUARE), lambda x: np.array_equal(x, SQUARE), lambda x: np.isclose(x, 1), np.histogram,
    lambda x: np.asarray(x, np.int64), lambda x: np.where(x), lambda x: np.searchsorted([1.0, 2.0], x),
]  # fmt: skip


def same(found: Any, expected: Any) -> None:
    """Require equal numbers, of an array or of several."""
    several = isinstance(expected, (list, tuple))
    for one, other in zip(found, expected, strict=True) if several else [(found, expected)]:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("call", OPS)
def test_what_is_an_op_is_the_op_with_its_gradient(call: Call) -> None:
    x = ag.tensor(SQUARE, requires_grad=True)
    found = call(x)
    assert type(found) is ag.Node and type(call(x.value)) is nc.Tensor
    expected = call(SQUARE)
    np.testing.assert_allclose(found.to_host(), expected, rtol=1e-6)
    np.testing.assert_allclose(call(x.value).to_host(), expected, rtol=1e-6)
    assert ag.gradcheck(call, SQUARE)


@pytest.mark.parametrize("name", LOST)
def test_what_would_lose_a_gradient_is_refused_by_name(name: str) -> None:
    x = ag.tensor(SQUARE, requires_grad=True)
    call, said = LOST[name], rf"{name} makes an array .* x\.to_host\(\)"
    with pytest.raises(GraphError, match=said):
        call(x)
    with pytest.raises(GraphError, match=said):
        call(x * 2.0)
    for transformed in (lambda: ag.jvp(call, (SQUARE,), (OTHER,)), lambda: ag.fuse(lambda a: call(a * 2.0))(x)):
        with pytest.raises(GraphError, match=said):
            transformed()


@pytest.mark.parametrize("call", LOST.values(), ids=LOST)
def test_where_no_gradient_is_lost_numpy_computes(call: Call) -> None:
    x = ag.tensor(SQUARE, requires_grad=True)
    expected = call(SQUARE)
    with ag.no_grad():
        without = call(x)
    for found in (without, call(x.value), call(x.to_host()), call(ag.tensor(SQUARE))):
        same(found, expected)


@pytest.mark.parametrize("call", KEPT)
def test_what_only_looks_is_numpys(call: Call) -> None:
    for x in (ag.tensor(SQUARE, requires_grad=True), nc.Tensor.from_host(SQUARE)):
        found, expected = call(x), call(SQUARE)
        assert type(found) is type(expected)
        same(found, expected)


def test_what_an_op_cannot_do_is_refused_in_its_words() -> None:
    x = ag.tensor(SQUARE, requires_grad=True)
    with pytest.raises(ArgumentError, match="dot takes no out"):
        np.dot(x, OTHER, out=np.zeros((3, 3)))
    with pytest.raises(ArgumentError, match="norm has no parameter ord"):
        np.linalg.norm(x, ord=1)


def test_another_librarys_array_is_asked_too() -> None:
    class Other:
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> str:
            return "theirs"

    assert np.dot(ag.tensor(SQUARE, requires_grad=True), Other()) == "theirs"  # type: ignore[call-overload]
