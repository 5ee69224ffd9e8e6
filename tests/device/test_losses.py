"""Losses: their values, the sure and wrong answer, and the labels that are no classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from netcl.tensor import Tensor


def leaf(x: Any, device: Device) -> Any:
    return ag.tensor(np.asarray(x, np.float32), requires_grad=True, device=device)


def test_cross_entropy_is_its_formula_and_its_gradient_is_softmax_less_one_hot(device: Device) -> None:
    z = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])
    labels = np.array([1, 0])
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    a = leaf(z, device)
    loss = ag.cross_entropy(a, labels)
    loss.backward()
    assert loss.shape == () and np.isclose(loss.item(), -np.log(p[[0, 1], labels]).mean(), rtol=1e-6)
    np.testing.assert_allclose(a.grad.to_host(), (p - np.eye(3)[labels]) / 2, rtol=1e-5)
    assert np.isclose(ag.nll(ag.log_softmax(a), labels).item(), loss.item(), rtol=1e-6)


@pytest.mark.parametrize("size", [1e3, 1e30, 3e38])
def test_a_sure_wrong_answer_has_a_finite_loss_and_a_finite_gradient(device: Device, size: float) -> None:
    a = leaf([[size / 2, -size / 2, 0.0]], device)
    loss = ag.cross_entropy(a, np.array([1]))
    loss.backward()
    assert np.isclose(loss.item(), size, rtol=1e-6)
    assert a.grad.to_host().tolist() == [[1, -1, 0]]


def test_impossible_classes_cost_nothing_unless_they_are_right(device: Device) -> None:
    a = leaf([[0.0, -np.inf]], device)
    assert ag.cross_entropy(a, np.array([0])).item() == 0
    assert ag.cross_entropy(a, np.array([1])).item() == np.inf


def test_logits_as_large_as_float32_holds_keep_the_binary_loss_finite(device: Device) -> None:
    for size in (100.0, 1e30):
        a = leaf([size, -size, size, -size], device)
        loss = ag.binary_cross_entropy_with_logits(a, np.array([1, 0, 0, 1], np.float32), reduction="sum")
        loss.backward()
        assert np.isclose(loss.item(), 2 * size)
        np.testing.assert_allclose(a.grad.to_host(), [0, 0, 1, -1], atol=1e-40)


def test_the_binary_loss_has_its_second_derivative_at_0_and_far_out(device: Device) -> None:
    def f(a: Any) -> Any:
        return ag.logistic_loss(a, np.float32(1)).sum()

    h = ag.hvp(f, leaf([0.0, 1.0, -1.0, 200.0, -200.0], device).value, np.ones(5, np.float32)).to_host()
    expected = 1 / (2 + np.exp(1.0) + np.exp(-1.0))
    np.testing.assert_allclose(h, [0.25, expected, expected, 0, 0], rtol=1e-5, atol=1e-30)


def test_a_nan_in_a_target_is_seen(device: Device) -> None:
    a, b = leaf([1.0, 2.0], device), np.array([1.0, np.nan], np.float32)
    assert np.isnan(ag.mse(a, b).item())
    assert np.isnan(ag.binary_cross_entropy_with_logits(a, b).item())
    assert np.isnan(ag.cross_entropy(leaf([[np.nan, 1.0]], device), np.array([1])).item())


@pytest.mark.parametrize("loss", [ag.cross_entropy, ag.nll])
def test_labels_that_are_no_classes_are_refused_at_the_call(device: Device, loss: Any) -> None:
    a = leaf(np.zeros((2, 3)), device)
    with pytest.raises(IndexingError, match=r"label 3 at \(1,\) is no class: there are 3"):
        loss(a, np.array([0, 3]))
    with pytest.raises(IndexingError, match=r"label -1 at \(0,\)"):
        loss(a, np.array([-1, 0]))
    with pytest.raises(DTypeError, match="labels are class indices, so integers, not float32"):
        loss(a, [0, 1])
    with pytest.raises(DTypeError, match="not bool"):
        loss(a, np.array([True, False]))
    with pytest.raises(ShapeError, match=r"scores \(2, 3\) with the classes on axis -1 want labels \(2,\), not \(3,\)"):
        loss(a, np.array([0, 1, 2]))
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        loss(a, np.array([0, 1]), axis=2)
    with pytest.raises(ArgumentError, match=r"reduction is .* not 'avg'"):
        loss(a, np.array([0, 1]), reduction="avg")


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_labels_of_every_integer_dtype(device: Device, kind: Any) -> None:
    a = leaf(np.eye(3), device)
    labels = Tensor.from_host(np.array([0, 1, 2], kind), device=device)
    assert np.isclose(ag.cross_entropy(a, labels).item(), np.log(np.e + 2) - 1)


def test_one_label_alone_and_none_at_all(device: Device) -> None:
    a = leaf([1.0, 1.0], device)
    assert np.isclose(ag.cross_entropy(a, np.array(1)).item(), np.log(2))
    none = leaf(np.zeros((0, 3)), device)
    total = ag.cross_entropy(none, np.zeros(0, np.int64), reduction="sum")
    total.backward()
    assert total.item() == 0 and none.grad.shape == (0, 3)


@pytest.mark.parametrize("loss", [ag.mse, ag.binary_cross_entropy_with_logits])
def test_a_column_against_a_row_is_refused(device: Device, loss: Any) -> None:
    # Broadcasting would make an (N, N) table of differences, and a loss that looks plausible.
    with pytest.raises(ShapeError, match=r"outputs \(3, 1\) and targets \(3,\)"):
        loss(leaf(np.zeros((3, 1)), device), np.zeros(3, np.float32))
    with pytest.raises(ArgumentError, match="reduction"):
        loss(leaf(np.zeros(3), device), np.zeros(3, np.float32), reduction=None)


def test_mse_has_a_gradient_for_both(device: Device) -> None:
    a, b = leaf([1.0, 2.0], device), leaf([3.0, 2.0], device)
    ag.mse(a, b).backward()
    assert a.grad.to_host().tolist() == [-2, 0] and b.grad.to_host().tolist() == [2, 0]
