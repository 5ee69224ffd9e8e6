"""Every op of networks against PyTorch on the CPU, in float64: values, gradients, and gradients of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netcl import autograd as ag
from netcl.device import Device
from netcl.tensor import Tensor

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'netcl[oracle]'")
F: Any = torch.nn.functional

Draw = Callable[[st.SearchStrategy[Any]], Any]


@pytest.fixture(scope="module", autouse=True)
def _one_thread_is_enough() -> None:
    torch.set_num_threads(1)


class Case(NamedTuple):
    """One call: ours and PyTorch's, and the arrays that both are given."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arrays: list[np.ndarray]


def normal(draw: Draw, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Draw numbers that do not tie: pooling has a kink where they do."""
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=shape) * scale


def lengths(draw: Draw, least: int, most: int, count: int) -> list[int]:
    return [draw(st.integers(least, most)) for _ in range(count)]


def conv2d(draw: Draw) -> Case:
    groups, n = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    channels, filters = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel, stride, dilation = lengths(draw, 1, 3, 2), lengths(draw, 1, 3, 2), lengths(draw, 1, 2, 2)
    padding, size = lengths(draw, 0, 2, 2), lengths(draw, 1, 7, 2)
    assume(all(s + 2 * p > d * (k - 1) for s, p, d, k in zip(size, padding, dilation, kernel, strict=True)))
    attrs = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation), "groups": groups}
    arrays = [normal(draw, n, channels, *size), normal(draw, filters, channels // groups, *kernel)]
    return Case(lambda a, w: ag.conv2d(a, w, **attrs), lambda a, w: F.conv2d(a, w, **attrs), arrays)


def pool(draw: Draw, ours: Any, theirs: Any) -> Case:
    kernel, size = lengths(draw, 1, 3, 2), lengths(draw, 1, 7, 2)
    stride = tuple(lengths(draw, 1, 3, 2)) if draw(st.booleans()) else None
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    assume(all(s + 2 * p >= k for s, p, k in zip(size, padding, kernel, strict=True)))
    arrays = [normal(draw, *lengths(draw, 1, 3, 2), *size)]
    return Case(
        lambda a: ours(a, tuple(kernel), stride, padding), lambda a: theirs(a, tuple(kernel), stride, padding), arrays
    )


def max_pool2d(draw: Draw) -> Case:
    return pool(draw, ag.max_pool2d, F.max_pool2d)


def avg_pool2d(draw: Draw) -> Case:
    return pool(draw, ag.avg_pool2d, F.avg_pool2d)


def unfold(draw: Draw) -> Case:
    kernel, size = lengths(draw, 1, 3, 2), lengths(draw, 3, 6, 2)
    attrs = {"stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 2)), "dilation": 1}
    a = normal(draw, *lengths(draw, 1, 3, 2), *size)
    return Case(
        lambda a: ag.unfold(a, kernel, **attrs).reshape(a.shape[0], a.shape[1] * kernel[0] * kernel[1], -1),
        lambda a: F.unfold(a, kernel, **attrs),
        [a],
    )


def along_axis(draw: Draw, ours: Any, theirs: Any) -> Case:
    shape = lengths(draw, 1, 5, draw(st.integers(1, 4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    scale = draw(st.sampled_from([1.0, 30.0]))
    return Case(lambda a: ours(a, axis), lambda a: theirs(a, axis), [normal(draw, *shape, scale=scale)])


def softmax(draw: Draw) -> Case:
    return along_axis(draw, ag.softmax, F.softmax)


def log_softmax(draw: Draw) -> Case:
    return along_axis(draw, ag.log_softmax, F.log_softmax)


def labelled(draw: Draw, ours: Any, theirs: Any, before: Any) -> Case:
    """Classes on axis 1, as PyTorch wants them; `before` makes what the loss takes of any scores."""
    n, classes, *more = lengths(draw, 1, 4, draw(st.integers(2, 4)))
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    seed = draw(st.integers(0, 2**32 - 1))
    labels = np.random.default_rng(seed).integers(0, classes, (n, *more))
    kind = draw(st.sampled_from(["int64", "int32", "uint8"]))
    return Case(
        lambda a: ours(a, labels.astype(kind), axis=1, reduction=reduction),
        lambda a: theirs(a, torch.tensor(labels), reduction=reduction),
        [before(normal(draw, n, classes, *more, scale=3.0))],
    )


def cross_entropy(draw: Draw) -> Case:
    return labelled(draw, ag.cross_entropy, F.cross_entropy, lambda x: x)


def nll(draw: Draw) -> Case:
    return labelled(draw, ag.nll, F.nll_loss, lambda x: -np.abs(x))


def two_alike(draw: Draw, ours: Any, theirs: Any, second: Any) -> Case:
    shape = lengths(draw, 1, 5, draw(st.integers(0, 3)))
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    return Case(
        lambda a, b: ours(a, b, reduction=reduction),
        lambda a, b: theirs(a, b, reduction=reduction),
        [normal(draw, *shape, scale=5.0), second(normal(draw, *shape))],
    )


def mse(draw: Draw) -> Case:
    return two_alike(draw, ag.mse, F.mse_loss, lambda x: x)


def binary_cross_entropy_with_logits(draw: Draw) -> Case:
    ours, theirs = ag.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits
    return two_alike(draw, ours, theirs, lambda x: 1 / (1 + np.exp(-x)))


def layer_norm(draw: Draw) -> Case:
    shape = lengths(draw, 2, 5, draw(st.integers(1, 3)))
    eps = draw(st.sampled_from([1e-5, 0.1]))
    return Case(
        lambda a, w, b: ag.layer_norm(a, w, b, eps=eps),
        lambda a, w, b: F.layer_norm(a, shape[-1:], w, b, eps),
        [normal(draw, *shape), normal(draw, shape[-1]), normal(draw, shape[-1])],
    )


def batch_norm_in_training(draw: Draw) -> Case:
    n, c, *more = lengths(draw, 2, 4, draw(st.integers(2, 4)))
    return Case(
        lambda a, w, b: ag.batch_norm(a, w, b, eps=0.01),
        lambda a, w, b: F.batch_norm(a, None, None, w, b, training=True, eps=0.01),
        [normal(draw, n, c, *more), normal(draw, c), normal(draw, c)],
    )


def batch_norm_in_evaluation(draw: Draw) -> Case:
    n, c, *more = lengths(draw, 1, 4, draw(st.integers(2, 4)))
    mean, var = normal(draw, c), normal(draw, c) ** 2
    return Case(
        lambda a, w, b: ag.batch_norm(a, w, b, mean.astype(a.dtype), var.astype(a.dtype)),
        lambda a, w, b: F.batch_norm(a, torch.tensor(mean), torch.tensor(var), w, b),
        [normal(draw, n, c, *more), normal(draw, c), normal(draw, c)],
    )


def embedding(draw: Draw) -> Case:
    count, width = lengths(draw, 1, 5, 2)
    shape = lengths(draw, 0, 4, draw(st.integers(0, 3)))
    indices = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, count, shape)
    return Case(
        lambda w: ag.embedding(w, indices),
        lambda w: F.embedding(torch.tensor(indices), w),
        [normal(draw, count, width)],
    )


def linear(draw: Draw) -> Case:
    *batch, inputs = lengths(draw, 1, 4, draw(st.integers(1, 3)))
    outputs = draw(st.integers(1, 4))
    return Case(
        ag.linear,
        lambda x, w, b: F.linear(x, w.T, b),
        [normal(draw, *batch, inputs), normal(draw, inputs, outputs), normal(draw, outputs)],
    )


def attention(draw: Draw) -> Case:
    n, m, d, e = lengths(draw, 1, 4, 4)
    batch = lengths(draw, 1, 3, draw(st.integers(0, 2)))
    mask = None
    if draw(st.booleans()):
        mask = normal(draw, n, m) > 0
        mask[:, 0] = True  # a query that may look nowhere has no average

    def theirs(q: Any, k: Any, v: Any) -> Any:
        # The other implementations behind this function have no second derivative.
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, None if mask is None else torch.tensor(mask))

    return Case(
        lambda q, k, v: ag.attention(q, k, v, mask),
        theirs,
        [normal(draw, *batch, n, d), normal(draw, *batch, m, d), normal(draw, *batch, m, e)],
    )


CASES = [
    attention, avg_pool2d, batch_norm_in_evaluation, batch_norm_in_training, binary_cross_entropy_with_logits, conv2d,
    cross_entropy, embedding, layer_norm, linear, log_softmax, max_pool2d, mse, nll, softmax, unfold,
]  # fmt: skip


def on_device(array: np.ndarray, order: str, device: Device) -> Any:
    """Copy an array to the device, its axes in another order there than in the tensor's shape if so said."""
    if order == "plain" or array.ndim < 2:
        return Tensor.from_host(array, device=device)
    return Tensor.from_host(np.ascontiguousarray(array.T), device=device).T


def close(ours: Any, theirs: Any, dtype: Any) -> None:
    tolerance = 1e-10 if dtype == np.float64 else 2e-4
    expected = theirs.detach().numpy()
    assert ours.shape == expected.shape and ours.dtype == dtype
    np.testing.assert_allclose(
        ours.to_host(), expected, rtol=tolerance, atol=tolerance * max(1, abs(expected).max(initial=0))
    )


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@given(data=st.data())
def test_values_and_gradients_to_second_order(
    device: Device, make: Callable[[Draw], Case], data: st.DataObject
) -> None:
    case = make(data.draw)
    wide = device.has_fp64 and data.draw(st.sampled_from([True, True, False]))
    dtype, order = np.dtype(np.float64 if wide else np.float32), data.draw(st.sampled_from(["plain", "turned"]))
    arrays = [array.astype(dtype) for array in case.arrays]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))

    leaves = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in arrays]
    out = case.theirs(*leaves)
    v = rng.normal(size=tuple(out.shape)).astype(dtype)
    directions = [rng.normal(size=array.shape).astype(dtype) for array in arrays]
    first = torch.autograd.grad(out, leaves, torch.tensor(v.astype(np.float64)), create_graph=True)
    along = sum((g * torch.tensor(u.astype(np.float64))).sum() for g, u in zip(first, directions, strict=True))
    graph = getattr(along, "requires_grad", False)
    second = torch.autograd.grad(along, leaves, allow_unused=True) if graph else [None] * len(leaves)

    ours = [on_device(array, order, device) for array in arrays]
    result, pullback = ag.vjp(case.ours, *ours)
    close(result, out, dtype)
    for g, expected in zip(pullback(Tensor.from_host(v, device=device)), first, strict=True):
        close(g, expected, dtype)

    def slope(*xs: Any) -> Any:
        _, pull = ag.vjp(case.ours, *xs)
        gs = pull(Tensor.from_host(v, device=device))
        return sum((g * Tensor.from_host(u, device=device)).sum() for g, u in zip(gs, directions, strict=True))

    for h, expected in zip(ag.grad(slope, tuple(range(len(ours))))(*ours), second, strict=True):
        close(h, torch.zeros(h.shape) if expected is None else expected, dtype)

    _, moved = ag.jvp(case.ours, ours, [Tensor.from_host(u, device=device) for u in directions])
    forward = float((moved.to_host().astype(np.float64) * v).sum())  # ⟨v, J u⟩ = ⟨Jᵀ v, u⟩
    backward = float(torch.as_tensor(along).detach())
    assert np.isclose(forward, backward, rtol=1e-9 if wide else 1e-3, atol=1e-9 if wide else 1e-2)
