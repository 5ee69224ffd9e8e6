"""softmax and its kin: in one launch for short rows, in several for long ones; the same numbers either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.commands import recorded
from netcl.device import Device
from netcl.tensor import Tensor

LABELS = np.array([3, 0, 4, 1, 2, 2, 0])


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    y = softmax(x)
    return y * (g - (y * g).sum(-1, keepdims=True))


def log_softmax_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    return g - softmax(x) * g.sum(-1, keepdims=True)


def standardize(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def standardize_vjp(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    y, n = standardize(x), x.shape[-1]
    centred = g - g.mean(-1, keepdims=True) - y * (y * g).sum(-1, keepdims=True) / n
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES: list[tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = [
    (ag.softmax, softmax, softmax_vjp),
    (ag.log_softmax, lambda x: np.log(softmax(x)), log_softmax_vjp),
    (ag.standardize, standardize, standardize_vjp),
]
IDS = ["softmax", "log_softmax", "standardize"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (17, 16), (2, 3, 7), (9, 255), (9, 256), (9, 257), (200, 200)])
@pytest.mark.parametrize(("f", "exact", "exact_vjp"), CASES, ids=IDS)
def test_rows_of_any_length_agree_with_numpy(
    device: Device, f: Any, exact: Any, exact_vjp: Any, shape: tuple[int, ...], dtype: Any
) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip("this device has no float64")
    rng = np.random.default_rng(1)
    x, g = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    out = f(leaf)
    out.backward(Tensor.from_host(g, device=device))
    tolerance = 3e-6 if dtype == np.float32 else 1e-13
    wide_x, wide_g = x.astype(np.float64), g.astype(np.float64)
    np.testing.assert_allclose(out.to_host(), exact(wide_x), rtol=10 * tolerance, atol=tolerance)
    np.testing.assert_allclose(leaf.grad.to_host(), exact_vjp(wide_g, wide_x), rtol=10 * tolerance, atol=10 * tolerance)
    assert out.dtype == leaf.grad.dtype == dtype


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.astype(np.int32), LABELS.astype(np.uint8)], ids=["int64", "int32", "uint8"]
)
@pytest.mark.parametrize("classes", [5, 300])
def test_cross_entropy_of_short_and_long_rows(device: Device, classes: int, labels: Any, reduction: str) -> None:
    x = np.random.default_rng(2).standard_normal((7, classes)).astype(np.float32)
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    loss = ag.cross_entropy(leaf, Tensor.from_host(labels, device=device), reduction=reduction)
    p = softmax(x.astype(np.float64))
    each = -np.log(p[np.arange(7), LABELS])
    np.testing.assert_allclose(
        loss.to_host(), {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction], rtol=1e-5
    )
    g = np.linspace(1, 2, loss.size, dtype=np.float32).reshape(loss.shape)
    loss.backward(Tensor.from_host(g, device=device))
    weight = (g.astype(np.float64) / (7 if reduction == "mean" else 1)).reshape(-1, 1)
    np.testing.assert_allclose(leaf.grad.to_host(), (p - np.eye(classes)[LABELS]) * weight, rtol=1e-5, atol=1e-6)


def test_short_rows_are_one_launch(device: Device) -> None:
    """And what is no such row takes the long way: another axis, a view with gaps, a second derivative."""
    x = Tensor.from_host(np.random.default_rng(3).standard_normal((6, 8)).astype(np.float32), device=device)
    counts = []
    for f in (lambda: ag.softmax(x), lambda: ag.softmax(x, 0), lambda: ag.softmax(x[:, ::2])):
        f()  # whatever must be built is built
        with recorded(device) as commands:
            f()
        counts.append(len(commands))
    assert counts[0] == 1 and min(counts[1:]) > 1
    twice = ag.hessian(lambda v: (ag.softmax(v) ** 2).sum())(
        Tensor.from_host(np.array([0.1, -0.4, 0.3], np.float32), device=device)
    )
    assert np.allclose(twice.to_host(), twice.to_host().T, atol=1e-6) and np.abs(twice.to_host()).max() > 0.01


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1000.0])
def test_extreme_scores_give_the_same_in_both_ways(device: Device, value: float) -> None:
    short = np.array([[0.5, value, -1.0], [1.0, 2.0, 3.0]], np.float32)
    long = np.concatenate([short, np.full((2, 254), -np.inf, np.float32)], axis=1)  # which adds nothing to any sum
    with np.errstate(all="ignore"):
        for f in (ag.softmax, ag.log_softmax):
            got = f(Tensor.from_host(short, device=device)).to_host()
            np.testing.assert_allclose(got, f(Tensor.from_host(long, device=device)).to_host()[:, :3], rtol=1e-5)
            assert np.isfinite(got[1]).all()
