"""softmax and its kin: in one launch along rows, in several along other axes; the same numbers either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.commands import recorded
from netcl.device import Device
from netcl.kernels import along_rows, long_rows
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


@pytest.fixture(params=["own", "groups"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The way a device goes over long rows, and that of GPUs, which any device can go."""

    def forget() -> None:
        along_rows.fits.cache_clear()
        along_rows._launch.cache_clear()

    if request.param == "groups":
        monkeypatch.setattr(long_rows, "in_vectors", lambda device: False)
    forget()
    yield request.param
    forget()


SHAPES = [
    (1, 1), (3, 5), (9, 15), (17, 16), (9, 17), (2, 3, 7), (9, 31), (9, 32), (9, 33), (2, 3, 63), (300, 65), (9, 256),
    (9, 257), (200, 200), (5, 1000), (3, 20011), (5000, 7), (5000, 18), (40000, 1), (257,),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("f", "exact", "exact_vjp"), CASES, ids=IDS)
def test_rows_of_any_length_agree_with_numpy(
    device: Device, way: str, f: Any, exact: Any, exact_vjp: Any, shape: tuple[int, ...], dtype: Any
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
@pytest.mark.parametrize("classes", [5, 16, 300])
def test_cross_entropy_of_short_and_long_rows(
    device: Device, way: str, classes: int, labels: Any, reduction: str
) -> None:
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
    """And what is no such row takes several: another axis, a view with gaps, a second derivative."""
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


def log_of_sum(x: np.ndarray) -> np.ndarray:
    top = x.max(-1, keepdims=True)
    return (np.log(np.exp(x - top).sum(-1, keepdims=True)) + top)[..., 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 5), (9, 15), (9, 16), (9, 17), (2, 3, 70), (300, 65), (5, 1000), (33,)], ids=str)
def test_logsumexp_of_rows(device: Device, way: str, shape: tuple[int, ...], dtype: Any) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip("this device has no float64")
    rng = np.random.default_rng(4)
    x, g = (rng.standard_normal(s).astype(dtype) for s in (shape, shape[:-1]))
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    rtol = 1e-5 if dtype == np.float32 else 1e-13
    for keepdims in (False, True):
        out = ag.logsumexp(leaf, -1, keepdims)
        assert out.shape == ((*shape[:-1], 1) if keepdims else shape[:-1]) and out.dtype == dtype
        np.testing.assert_allclose(out.to_host().reshape(g.shape), log_of_sum(x.astype(np.float64)), rtol=rtol)
        leaf.zero_grad()
        out.backward(Tensor.from_host(g.reshape(out.shape), device=device))
        exact = softmax(x.astype(np.float64)) * g.astype(np.float64)[..., None]
        np.testing.assert_allclose(leaf.grad.to_host(), exact, rtol=rtol, atol=rtol)
    leaf.zero_grad()
    ag.logsumexp(leaf, -1).sum().backward()  # whose cotangent is one number, spread
    np.testing.assert_allclose(leaf.grad.to_host(), softmax(x.astype(np.float64)), rtol=rtol, atol=rtol)


def test_logsumexp_of_what_is_not_finite(device: Device, way: str) -> None:
    x = np.zeros((4, 40), np.float32)
    x[0] = -np.inf
    x[1, 38], x[2, 3], x[3, 39] = np.inf, np.nan, -np.inf
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    out = ag.logsumexp(leaf, -1)
    np.testing.assert_allclose(out.to_host(), [-np.inf, np.inf, np.nan, np.log(39)], rtol=1e-6)
    out.backward(Tensor.from_host(np.ones(4, np.float32), device=device))
    got = leaf.grad.to_host()
    assert (got[0] == 0).all() and np.isnan(got[2]).all() and got[3, 39] == 0
    np.testing.assert_allclose(got[3, :39], 1 / 39, rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(1, 40), (100, 16), (3000, 17), (1025, 33), (2, 600, 20), (70000, 16), (5000, 3)], ids=str
)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_many_rows(device: Device, way: str, shape: tuple[int, ...], reduction: str) -> None:
    rng = np.random.default_rng(5)
    x, labels = rng.normal(0, 3, shape).astype(np.float32), rng.integers(0, shape[-1], shape[:-1])
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    loss = ag.cross_entropy(leaf, Tensor.from_host(labels, device=device), reduction=reduction)
    wide = x.astype(np.float64)
    each = log_of_sum(wide) - np.take_along_axis(wide, labels[..., None], -1)[..., 0]
    exact = {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction]
    np.testing.assert_allclose(loss.to_host(), exact, rtol=1e-5, atol=1e-6)
    g = rng.uniform(1, 2, loss.shape).astype(np.float32)
    loss.backward(Tensor.from_host(g, device=device))
    p = softmax(wide)
    np.put_along_axis(p, labels[..., None], np.take_along_axis(p, labels[..., None], -1) - 1, -1)
    weight = np.broadcast_to(g, shape[:-1])[..., None] / (labels.size if reduction == "mean" else 1)
    np.testing.assert_allclose(leaf.grad.to_host(), p * weight, rtol=1e-5, atol=1e-6 * weight.max())


@pytest.mark.parametrize("shape", [(64, 1000), (300, 300), (4, 17), (3000, 40)], ids=str)
def test_rows_take_a_launch_each_way_and_a_loss_two(device: Device, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    x, g, rows = (
        Tensor.from_host(rng.standard_normal(s).astype(np.float32), device=device) for s in (shape, shape, shape[:1])
    )
    labels = Tensor.from_host(rng.integers(0, shape[1], shape[0]), device=device)
    one = Tensor.from_host(np.float32(1), device=device)
    leaf = ag.tensor(x, requires_grad=True)

    def launches(run: Any) -> int:
        run()
        with recorded(device) as commands:
            run()
        return len(commands)

    cases: list[tuple[Any, Any, int]] = [(lambda f=f: f(leaf), g, 1) for f, _, _ in CASES]
    cases.append((lambda: ag.logsumexp(leaf, -1), rows, 1))
    cases.append((lambda: ag.cross_entropy(leaf, labels), one, 2 if device.kind == "CPU" else 3))
    for f, seed, most in cases:
        out = f()
        assert launches(f) <= most
        assert launches(lambda out=out, seed=seed: out.grad_fn(seed)) == 1


@pytest.mark.parametrize(("f", "exact", "exact_vjp"), CASES, ids=IDS)
def test_second_derivatives_of_long_rows(
    device: Device, f: Any, exact: Callable[..., Any], exact_vjp: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(7)
    x, w, v = (rng.standard_normal((3, 40)).astype(np.float32) for _ in range(3))
    weights = Tensor.from_host(w, device=device)
    got = ag.hvp(lambda a: (f(a) * weights).sum(), *[Tensor.from_host(each, device=device) for each in (x, v)])
    step, wide = 1e-5, x.astype(np.float64)
    slope = (exact_vjp(w, wide + step * v) - exact_vjp(w, wide - step * v)) / (2 * step)
    np.testing.assert_allclose(got.to_host(), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("place", [0, 17, 38, 39])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1000.0, -3e38])
def test_extreme_scores_in_long_rows_are_as_in_numpy(device: Device, way: str, value: float, place: int) -> None:
    x = np.random.default_rng(8).standard_normal((3, 40)).astype(np.float32)
    x[1, place] = value
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = wide - wide.max(-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        for f, exact in ((ag.softmax, softmax(wide)), (ag.log_softmax, logs)):
            got = f(Tensor.from_host(x, device=device)).to_host()
            np.testing.assert_allclose(got, exact.astype(np.float32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1000.0])
def test_extreme_scores_give_the_same_in_both_ways(device: Device, value: float) -> None:
    short = np.array([[0.5, value, -1.0], [1.0, 2.0, 3.0]], np.float32)
    long = np.concatenate([short, np.full((2, 254), -np.inf, np.float32)], axis=1)  # which adds nothing to any sum
    with np.errstate(all="ignore"):
        for f in (ag.softmax, ag.log_softmax):
            got = f(Tensor.from_host(short, device=device)).to_host()
            np.testing.assert_allclose(got, f(Tensor.from_host(long, device=device)).to_host()[:, :3], rtol=1e-5)
            assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [5, 15, 16, 17, 33, 1100])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17])
def test_narrow_rows_of_what_is_not_finite(device: Device, way: str, n: int, rows: int, dtype: Any) -> None:
    """Every function on rows that are NaN, infinite, far apart or tied in places, beside rows that are not."""
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip("this device has no float64")
    rng = np.random.default_rng(9)
    x, g = rng.normal(0, 3, (rows, n)).astype(dtype), rng.standard_normal((rows, n)).astype(dtype)
    for row, value in enumerate((np.nan, np.inf, -np.inf, 1000.0)):
        x[row, row % n] = x[rows - 1 - row, -1] = value
    x[4] = -np.inf
    x[rows // 2] = 2.5
    labels, each = rng.integers(0, n, rows), rng.uniform(1, 2, rows).astype(dtype)
    wide, wide_g, hot = x.astype(np.float64), g.astype(np.float64), np.eye(n)[labels]
    leaf = ag.tensor(Tensor.from_host(x, device=device), requires_grad=True)
    of_rows, right = Tensor.from_host(each, device=device), Tensor.from_host(labels, device=device)
    rtol = 1e-5 if dtype == np.float32 else 1e-12

    def check(out: Any, seed: Any, exact: np.ndarray, exact_vjp: np.ndarray) -> None:
        for got, want in ((out.to_host(), exact), (out.grad_fn(seed)[0].to_host(), exact_vjp)):
            np.testing.assert_allclose(got, want.astype(dtype), rtol=rtol, atol=rtol)

    with np.errstate(all="ignore"):
        shifted = wide - wide.max(-1, keepdims=True)
        logs, p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)), softmax(wide)
        seed = Tensor.from_host(g, device=device)
        check(ag.softmax(leaf), seed, p, softmax_vjp(wide_g, wide))
        check(ag.log_softmax(leaf), seed, logs, wide_g - np.exp(logs) * wide_g.sum(-1, keepdims=True))
        apart = (0.1 * wide + 3 * np.arange(n)).astype(dtype)  # what differs by little loses digits in its mean
        spread = ag.tensor(Tensor.from_host(apart, device=device), requires_grad=True)
        of_both = [f(apart.astype(np.float64)) for f in (standardize, partial(standardize_vjp, wide_g))]
        check(ag.standardize(spread), seed, *of_both)
        sums = np.logaddexp.reduce(wide, -1)
        bases = np.where(sums == -np.inf, 0, sums)[:, None]
        check(ag.logsumexp(leaf, -1), of_rows, sums, np.exp(wide - bases) * each[:, None])
        losses = -np.take_along_axis(logs, labels[:, None], -1)[:, 0]
        check(ag.cross_entropy(leaf, right, reduction="none"), of_rows, losses, (p - hot) * each[:, None])
        assert np.isnan(ag.cross_entropy(leaf, right).to_host())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 15, 16])
def test_the_sum_of_narrow_losses_counts_each_row_once(device: Device, way: str, n: int, dtype: Any) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip("this device has no float64")
    for rows in (1, 7, 8, 9, 15, 16, 17, 255, 257, 2731, 17000):
        x = Tensor.from_host(np.zeros((rows, n), dtype), device=device)
        labels = Tensor.from_host(np.full(rows, n - 1, np.uint8), device=device)
        got = ag.cross_entropy(x, labels, reduction="sum").to_host()
        np.testing.assert_allclose(got, rows * np.log(n), rtol=2e-6 if dtype == np.float32 else 1e-13)
        assert got == ag.cross_entropy(x, labels, reduction="sum").to_host()
