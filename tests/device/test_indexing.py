"""Indexing by arrays and masks: what NumPy gives, gradients that add up, and what is no index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.errors import IndexingError

pytestmark = pytest.mark.usefixtures("on_device")

X = np.arange(120, dtype=np.float32).reshape(4, 5, 3, 2)
KEYS = [
    np.array([0, 2, 2]),
    [1, -1],
    (slice(None), np.array([[0, 4], [1, 1]])),
    (np.array([0, 1, 1]), slice(None), np.array([0, 2, 2])),
    (0, slice(None), np.array([1, 2, 2])),
    (..., np.array([1, 0])),
    (slice(None, None, -1), np.array([1, 2, 2])),
    (None, np.array([1, 3]), None, np.array([2, 2])),
    (slice(1, 3), np.array([1, 2, 2]), 1),
    (np.array([[0], [1]]), np.array([[2, 3, 3]])),
    (slice(None), slice(None), np.array([0, 1, 0]), slice(None, None, -1)),
    np.array(2),
    [],
    X > 50,
    X[:, :, 0, 0] > 50,
    (slice(None), X[0, :, :, 0] > 10, 1),
    np.zeros(4, bool),
    (slice(0, 0), np.array([1])),
]


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_indexing_by_arrays_is_numpys_and_its_gradient_adds_up(key: Any) -> None:
    leaf = ag.tensor(X, requires_grad=True)
    out = leaf[key]
    np.testing.assert_array_equal(out.to_host(), X[key])
    g = np.arange(1, out.size + 1, dtype=np.float32).reshape(out.shape)
    ag.Tape().backward(out, g)
    expected = np.zeros_like(X)
    np.add.at(expected, key, g)
    np.testing.assert_array_equal(leaf.grad.to_host(), expected)


def test_the_sum_over_one_row_named_a_million_times_has_the_same_bits_every_time_and_is_accurate() -> None:
    numbers = np.zeros(1_000_000, np.int64)
    g = np.random.default_rng(3).uniform(0, 1, numbers.size).astype(np.float32)
    sums = set()
    for _ in range(3):
        leaf = ag.tensor([0.0, 0.0], requires_grad=True)
        ag.Tape().backward(leaf[numbers], g)
        sums.add(leaf.grad.to_host()[0].item())
    assert len(sums) == 1
    assert sums.pop() == pytest.approx(g.sum(dtype=np.float64), rel=1e-5)


def test_an_index_that_is_changed_later_changes_nothing() -> None:
    numbers = np.array([0, 0])
    leaf = ag.tensor([1.0, 2.0], requires_grad=True)
    out = leaf[numbers]
    numbers[:] = 1
    out.sum().backward()
    np.testing.assert_array_equal(leaf.grad.to_host(), [2, 0])


def test_an_index_may_be_on_the_device() -> None:
    leaf = ag.tensor([1.0, 5.0, 3.0], requires_grad=True)
    np.testing.assert_array_equal(leaf[ag.tensor(np.array([2, -1]))].to_host(), [3, 3])
    np.testing.assert_array_equal(leaf[leaf > 2.0].to_host(), [5, 3])
    assert leaf[leaf.argmax()].item() == 5


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (np.array([4]), r"4 is out of range for an axis of 4.*\(4, 5, 3, 2\)"),
        ((0, np.array([0, -6])), "-6 is out of range for an axis of 5"),
        (np.array([0.5]), "float64"),
        ((np.array([0, 1]), np.array([0, 1, 2])), r"\(2,\) and \(3,\) do not broadcast"),
        (np.ones(3, bool), r"mask of shape \(3,\).*\(4,\)"),
        ((0, 0, 0, 0, np.array([1])), "5 axes"),
        ("a", "str"),
        (True, r"one truth value \(True\).*ag.equal\(x, 0\)"),
        ((slice(None), np.False_), "one truth value"),
        (np.array(True), "one truth value"),
    ],
)
def test_what_is_no_index_is_refused(key: Any, says: str) -> None:
    with pytest.raises(IndexingError, match=says):
        ag.tensor(X)[key]


def test_what_compares_by_identity_is_no_mask() -> None:
    x = ag.tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(IndexingError, match=r"one truth value \(False\)"):
        x[x == 0.0]
    with pytest.raises(IndexingError, match="one truth value"):
        x[x.sum() > 0]
    assert x[ag.equal(x, 0)].to_host().tolist() == [0]


def test_taking_by_number() -> None:
    x = X[:2, :3, 0, 0]
    numbers = np.array([[2, 0], [1, 1]])
    np.testing.assert_array_equal(ag.take(x, [5, 0]).to_host(), np.take(x, [5, 0]))
    np.testing.assert_array_equal(ag.take(x, numbers, 1).to_host(), np.take(x, numbers, 1))
    np.testing.assert_array_equal(ag.gather(x, 1, numbers).to_host(), np.take_along_axis(x, numbers, 1))
    leaf = ag.tensor(x, requires_grad=True)
    ag.take_along_axis(leaf, numbers, 1).sum().backward()
    np.testing.assert_array_equal(leaf.grad.to_host(), [[1, 0, 1], [0, 2, 0]])
    np.testing.assert_array_equal(ag.one_hot([2, 0], 3).to_host(), [[0, 0, 1], [1, 0, 0]])
    for wrong in (lambda: ag.take(x, [0.5]), lambda: ag.one_hot([3], 3), lambda: ag.one_hot([-1], 3)):
        with pytest.raises(IndexingError):
            wrong()
