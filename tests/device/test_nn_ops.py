"""Ops of networks by themselves: against NumPy, by finite differences, at the edges, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import random
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from netcl.tensor import Tensor

RNG = np.random.default_rng
LABELS = np.array([[0, 2, 1], [3, 3, 0]])


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return RNG(seed).normal(size=shape)


def put(x: Any, device: Device) -> Any:
    return Tensor.from_host(x, device=device)


def leaf(x: Any, device: Device) -> Any:
    return ag.tensor(put(x, device), requires_grad=True)


# Functions made of ops; the ops themselves have their samples in test_structural.py.
CALLS: list[tuple[str, Callable[..., Any], list[np.ndarray]]] = [
    ("embedding", lambda w: ag.embedding(w, LABELS), [draw(4, 3)]),
    ("mse", ag.mse, [draw(2, 3), draw(2, 3, seed=1)]),
    ("binary_cross_entropy", ag.binary_cross_entropy_with_logits, [draw(2, 3), draw(2, 3, seed=1)]),
    ("layer_norm", ag.layer_norm, [draw(3, 4), draw(4, seed=1), draw(4, seed=2)]),
    ("layer_norm over two axes", lambda a: ag.layer_norm(a, axis=(1, 2)), [draw(2, 3, 2)]),
    ("batch_norm", ag.batch_norm, [draw(3, 2, 2), draw(2, seed=1), draw(2, seed=2)]),
    ("linear", ag.linear, [draw(3, 2), draw(2, 4, seed=1), draw(4, seed=2)]),
    ("attention", ag.attention, [draw(2, 3), draw(4, 3, seed=1), draw(4, 2, seed=2)]),
]
IDS = [name for name, _, _ in CALLS]


@pytest.mark.parametrize(("name", "f", "arrays"), CALLS, ids=IDS)
def test_derivatives_agree_with_finite_differences(device: Device, name: str, f: Any, arrays: list[np.ndarray]) -> None:
    inputs = [put(array if device.has_fp64 else array.astype(np.float32), device) for array in arrays]
    assert ag.gradcheck(f, *inputs)
    # Squared, so that a linear function too has a second derivative to check.
    assert ag.gradgradcheck(lambda *xs: f(*xs) ** 2, *inputs)


@pytest.mark.parametrize(("name", "f", "arrays"), CALLS, ids=IDS)
def test_float32_stays_float32(device: Device, name: str, f: Any, arrays: list[np.ndarray]) -> None:
    leaves = [leaf(array.astype(np.float32), device) for array in arrays]
    out = f(*leaves)
    ag.Tape().backward(out.sum())
    assert out.dtype == np.float32
    assert all(x.grad.dtype == np.float32 and x.grad.shape == x.shape for x in leaves)


# Convolution and pooling


def convolved(a: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    """Convolve by the formula, an element at a time."""
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    padded = np.pad(a, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    filters, channels, rows, columns = w.shape
    high = (padded.shape[2] - dh * (rows - 1) - 1) // sh + 1
    wide = (padded.shape[3] - dw * (columns - 1) - 1) // sw + 1
    out = np.zeros((len(a), filters, high, wide))
    for n, o, i, j in np.ndindex(out.shape):
        first = o // (filters // groups) * channels
        for c, p, q in np.ndindex(channels, rows, columns):
            out[n, o, i, j] += w[o, c, p, q] * padded[n, first + c, i * sh + p * dh, j * sw + q * dw]
    return out


SETTINGS = list(itertools.product([(1, 1), (2, 3)], [(0, 0), (2, 1)], [(1, 1), (2, 1)], [1, 2]))


@pytest.mark.parametrize("settings", SETTINGS)
def test_conv2d_is_its_formula(device: Device, settings: tuple[Any, Any, Any, int]) -> None:
    a, w = draw(2, 4, 6, 7), draw(6, 4 // settings[3], 3, 2)
    dtype = np.float64 if device.has_fp64 else np.float32
    out = ag.conv2d(put(a.astype(dtype), device), put(w.astype(dtype), device), *settings)
    np.testing.assert_allclose(out.to_host(), convolved(a, w, *settings), atol=1e-12 if device.has_fp64 else 1e-4)


def test_a_bias_is_added_by_broadcasting(device: Device) -> None:
    a, w, b = (leaf(x.astype(np.float32), device) for x in (draw(2, 1, 4, 4), draw(3, 1, 3, 3), draw(3)))
    out = ag.conv2d(a, w) + b.reshape(-1, 1, 1)
    out.sum().backward()
    assert b.grad.to_host().tolist() == [8, 8, 8]  # 2 images, 2 × 2 windows


def test_windows_and_back(device: Device) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    windows = ag.unfold(put(a, device), 2)
    assert windows.shape == (2, 2, 2, 3)
    assert windows.to_host()[:, :, 1, 2].tolist() == [[6, 7], [10, 11]]
    counts = ag.fold(put(np.ones((2, 2, 2, 3), np.float32), device), (3, 4)).to_host()
    assert counts.tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [1, 2, 2, 1]]  # how many windows see each element


def test_max_pool_shares_a_tie_and_never_chooses_the_padding(device: Device) -> None:
    a = leaf(np.full((1, 2, 2), -3, np.float32), device)
    out = ag.max_pool2d(a, 2, 2, 1)
    assert out.to_host().tolist() == [[[-3, -3], [-3, -3]]]
    tied = leaf(np.zeros((2, 2), np.float32), device)
    ag.max_pool2d(tied, 2).sum().backward()
    assert tied.grad.to_host().tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_nan_wins_in_max_pool(device: Device) -> None:
    a = np.array([[1, np.nan], [2, 3]], np.float32)
    assert np.isnan(ag.max_pool2d(put(a, device), 2).to_host()).all()


def test_pooling_integers_and_images_alone(device: Device) -> None:
    a = np.arange(16).reshape(4, 4)
    assert ag.max_pool2d(put(a, device), 2).to_host().tolist() == [[5, 7], [13, 15]]
    assert ag.avg_pool2d(put(a, device), 2).to_host().tolist() == [[2.5, 4.5], [10.5, 12.5]]


def test_images_without_elements(device: Device) -> None:
    a, w = leaf(np.zeros((0, 2, 4, 4), np.float32), device), leaf(np.ones((3, 2, 3, 3), np.float32), device)
    out = ag.conv2d(a, w)
    out.sum().backward()
    assert out.shape == (0, 3, 2, 2) and a.grad.shape == (0, 2, 4, 4)
    assert (w.grad.to_host() == 0).all() and w.grad.shape == w.shape
    assert ag.max_pool2d(a, 2).shape == ag.avg_pool2d(a, 2).shape == (0, 2, 2, 2)
    nothing = ag.conv2d(put(np.ones((1, 0, 3, 3), np.float32), device), put(np.ones((2, 0, 2, 2), np.float32), device))
    assert nothing.to_host().tolist() == np.zeros((1, 2, 2, 2)).tolist()


def test_gradients_take_each_operand_s_dtype(device: Device) -> None:
    if not device.has_fp64:
        pytest.skip("this device has no float64")
    a, w = leaf(draw(1, 1, 3, 3).astype(np.float32), device), leaf(draw(1, 1, 2, 2), device)
    ag.conv2d(a, w).sum().backward()
    assert (a.grad.dtype, w.grad.dtype) == (np.float32, np.float64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a, w: ag.conv2d(a, w[0]), ShapeError, r"\(1, 4, 5, 5\) and \(4, 3, 3\)"),
        (lambda a, w: ag.conv2d(a[:, :3], w), ShapeError, r"\(1, 3, 5, 5\) have 3 channels, and .* \(2, 4, 3, 3\)"),
        (lambda a, w: ag.conv2d(a, w, groups=3), ShapeError, "want 12"),
        (lambda a, w: ag.conv2d(a, w, groups=0), ArgumentError, "groups is an integer of at least 1, not 0"),
        (lambda a, w: ag.conv2d(a, w, stride=0), ArgumentError, "stride is an integer of at least 1, or two"),
        (lambda a, w: ag.conv2d(a, w, padding=-1), ArgumentError, "padding is an integer of at least 0"),
        (lambda a, w: ag.conv2d(a, w, dilation=(1, 2, 3)), ArgumentError, r"dilation .* not \(1, 2, 3\)"),
        (lambda a, w: ag.conv2d(a, w, stride=1.5), ArgumentError, "stride"),
        (lambda a, w: ag.conv2d(a, w, dilation=3), ShapeError, "3 × 3 .* does not fit into an image of 5 × 5"),
        (lambda a, w: ag.max_pool2d(a, 6), ShapeError, "6 × 6"),
        (lambda a, w: ag.max_pool2d(a, 2, padding=2), ArgumentError, "more than half"),
        (lambda a, w: ag.avg_pool2d(a, 0), ArgumentError, "kernel is an integer of at least 1"),
        (lambda a, w: ag.avg_pool2d(a[0, 0, 0], 1), ShapeError, r"\(5,\)"),
        (lambda a, w: ag.unfold(a[0, 0, 0], 1), ShapeError, r"\(5,\)"),
        (lambda a, w: ag.fold(a[0, 0], (3, 3)), ShapeError, r"\(5, 5\)"),
        (lambda a, w: ag.fold(a, (9, 9)), ShapeError, r"9 × 6 such windows, and the shape \(1, 4, 5, 5\) has 5 × 5"),
    ],
)  # fmt: skip
def test_windows_that_do_not_fit_are_refused(device: Device, call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call(put(np.ones((1, 4, 5, 5), np.float32), device), put(np.ones((2, 4, 3, 3), np.float32), device))


# Softmax and normalisation


def test_softmax_of_large_scores_is_finite(device: Device) -> None:
    a = leaf(np.array([1000.0, 1000.5], np.float32), device)
    p = ag.softmax(a)
    expected = 1 / (1 + np.exp([0.5, -0.5]))
    np.testing.assert_allclose(p.to_host(), expected, rtol=1e-6)
    np.testing.assert_allclose(ag.log_softmax(a).to_host(), np.log(expected), rtol=1e-5)
    ag.log_softmax(a)[0].backward()
    np.testing.assert_allclose(a.grad.to_host(), [1 - expected[0], -expected[1]], rtol=1e-5)


def test_softmax_without_elements_and_of_integers(device: Device) -> None:
    empty = leaf(np.zeros((0, 3), np.float32), device)
    ag.softmax(empty).sum().backward()
    assert empty.grad.shape == (0, 3) and ag.log_softmax(empty, 0).shape == (0, 3)
    assert ag.softmax(put(np.array([2, 2]), device)).to_host().tolist() == [0.5, 0.5]
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        ag.softmax(empty, 2)


def test_standardize_has_mean_0_and_variance_1(device: Device) -> None:
    out = ag.standardize(put((draw(4, 100) * 7 + 3).astype(np.float32), device)).to_host()
    np.testing.assert_allclose(out.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(out.var(1), 1, atol=1e-4)


def test_batch_norm_wants_its_statistics_together(device: Device) -> None:
    x = put(np.ones((2, 3), np.float32), device)
    with pytest.raises(ArgumentError, match="mean and var together"):
        ag.batch_norm(x, mean=np.zeros(3, np.float32))
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        ag.batch_norm(x[0])


def test_a_masked_key_has_no_weight(device: Device) -> None:
    q, k, v = (put(draw(*shape).astype(np.float32), device) for shape in ((2, 3), (4, 3), (4, 5)))
    mask = np.array([[True, False, False, False], [False, True, True, False]])
    out = ag.attention(q, k, v, mask).to_host()
    np.testing.assert_allclose(out[0], v.to_host()[0], rtol=1e-6)
    short = ag.attention(q[1:], k[1:3], v[1:3]).to_host()
    np.testing.assert_allclose(out[1:], short, rtol=1e-5)
    with pytest.raises(ShapeError, match=r"\(2, 3\), \(4, 3\), \(2, 3\)"):
        ag.attention(q, k, q)


# Dropout and embedding


def test_dropout_keeps_the_mean_and_its_mask_is_the_gradient(device: Device) -> None:
    a = leaf(np.ones(100_000, np.float32), device)
    out = ag.dropout(a, 0.25, 7)
    out.sum().backward()
    values = out.to_host()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / values.size)
    assert (a.grad.to_host() == values).all()


def test_dropout_s_masks_follow_from_seed_and_step(device: Device) -> None:
    a = put(np.ones(1000, np.float32), device)
    masks = [ag.dropout(a, 0.5, seed, step).to_host() > 0 for seed in (0, 1) for step in (0, 1, 2**40)]
    assert (masks[0] == (ag.dropout(a, 0.5, 0, 0).to_host() > 0)).all()
    for one, other in itertools.combinations(masks, 2):
        assert 0.4 < (one == other).mean() < 0.6
    u = random.uniform(1000, seed=0, device=device).to_host()
    assert 0.4 < ((u >= 0.5) == masks[0]).mean() < 0.6  # the same seed elsewhere gives other numbers


def test_dropout_drops_what_is_not_finite(device: Device) -> None:
    a = put(np.full(1000, np.inf, np.float32), device)
    assert set(ag.dropout(a, 0.5, 3).to_host()) == {0, np.inf}
    assert (ag.dropout(a, 1.0, 3).to_host() == 0).all()
    assert (ag.dropout(a, 0.0, 3).to_host() == np.inf).all()
    assert (ag.dropout(a, 0.5, 3, training=False).to_host() == np.inf).all()


@pytest.mark.parametrize(
    ("p", "seed", "step"), [(-0.1, 0, 0), (1.5, 0, 0), (0.5, -1, 0), (0.5, 0, 2**63), (0.5, 1.5, 0)]
)
def test_dropout_s_arguments_are_checked(device: Device, p: float, seed: Any, step: Any) -> None:
    with pytest.raises(ArgumentError, match="dropout"):
        ag.dropout(put(np.ones(3, np.float32), device), p, seed, step)


def test_an_embedding_row_adds_up_all_its_uses_in_one_order(device: Device) -> None:
    rng = RNG(0)
    indices = rng.integers(0, 3, 10_000)
    weight = leaf(rng.normal(size=(4, 2)).astype(np.float32), device)
    grads = []
    for _ in range(3):
        weight.zero_grad()
        g = RNG(1).normal(size=(10_000, 2)).astype(np.float32)
        ag.Tape().backward(ag.embedding(weight, indices), g)
        grads.append(weight.grad.to_host())
        expected = np.zeros((4, 2))
        np.add.at(expected, indices, g)
        np.testing.assert_allclose(grads[-1], expected, atol=2e-3)
    assert (grads[0] == grads[1]).all() and (grads[0] == grads[2]).all() and (grads[0][3] == 0).all()


def test_embedding_without_elements(device: Device) -> None:
    weight = leaf(np.ones((3, 2), np.float32), device)
    out = ag.embedding(weight, np.zeros((0, 4), np.int64))
    out.sum().backward()
    assert out.shape == (0, 4, 2) and (weight.grad.to_host() == 0).all()


def test_indices_that_are_no_rows_are_refused(device: Device) -> None:
    weight = put(np.ones((3, 2), np.float32), device)
    with pytest.raises(IndexingError, match=r"index 3 at \(1,\) is no row: there are 3"):
        ag.embedding(weight, np.array([0, 3]))
    with pytest.raises(IndexingError, match="index -1"):
        ag.embedding(weight, np.array(-1))
    with pytest.raises(DTypeError, match="integers, not float64"):
        ag.embedding(weight, [0.0, 1.0])
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        ag.embedding(weight[0], np.array([0]))
