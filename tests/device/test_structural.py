"""Every structural op on sample calls: forward against NumPy; VJP and JVP against central differences and each other.

An op without samples, or with a parameter that no sample gives, fails. The VJP is right if ⟨v, J u⟩ = ⟨Jᵀ v, u⟩ for a
random u and v.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.autograd.pullback import OpPullback, unread
from netcl.device import Device
from netcl.ops import OPS, Op
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on_device")

OPS_HERE = {name: op for name, op in OPS.items() if op.kind == "structural"}
RNG = np.random.default_rng


# NumPy readings of ops that NumPy does not have


def place(a: np.ndarray, shape: Any, key: Any) -> np.ndarray:
    out = np.zeros(shape, a.dtype)
    np.add.at(out, key, a)
    return out


def place_diagonal(a: np.ndarray, shape: Any, **where: int) -> np.ndarray:
    out = np.zeros(shape, a.dtype)
    numbers = np.diagonal(np.arange(out.size).reshape(shape), **where)
    out.flat[numbers.ravel()] = a.ravel()
    return out


def both(setting: Any) -> tuple[int, int]:
    return (setting, setting) if isinstance(setting, int) else tuple(setting)


def unfold(
    a: np.ndarray, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, fill: float = 0.0
) -> np.ndarray:
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = map(both, (kernel, stride, padding, dilation))
    wide = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(ph, ph), (pw, pw)], constant_values=fill)
    down = (wide.shape[-2] - dh * (kh - 1) - 1) // sh + 1
    across = (wide.shape[-1] - dw * (kw - 1) - 1) // sw + 1
    out = np.empty((*a.shape[:-2], kh, kw, down, across), a.dtype)
    for p, q, i, j in np.ndindex(kh, kw, down, across):
        out[..., p, q, i, j] = wide[..., i * sh + p * dh, j * sw + q * dw]
    return out


def fold(a: np.ndarray, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1) -> np.ndarray:
    numbers = np.arange(math.prod(size), dtype=float).reshape(size)
    places = unfold(numbers, a.shape[-4:-2], stride, padding, dilation, fill=-1.0)
    out = np.zeros((*a.shape[:-4], math.prod(size)), a.dtype)
    for index in np.argwhere(places >= 0):
        out[..., int(places[tuple(index)])] += a[(..., *index)]
    return out.reshape(*a.shape[:-4], *size)


def conv2d(a: np.ndarray, w: np.ndarray, groups: int = 1, **settings: Any) -> np.ndarray:
    windows = unfold(a, w.shape[-2:], **settings)
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups), strict=True)
    return np.concatenate([np.einsum("ncpqij,ocpq->noij", x, f) for x, f in parts], axis=1)


def max_pool2d(a: np.ndarray, kernel: Any, stride: Any = None, padding: Any = 0) -> np.ndarray:
    floats = a.astype(np.result_type(a, np.float32))
    return unfold(floats, kernel, kernel if stride is None else stride, padding, fill=-np.inf).max((-4, -3))


def avg_pool2d(a: np.ndarray, kernel: Any, stride: Any = None, padding: Any = 0) -> np.ndarray:
    return unfold(a, kernel, kernel if stride is None else stride, padding).mean((-4, -3))


def softmax(a: np.ndarray, axis: Any = -1) -> np.ndarray:
    e = np.exp(a)
    return e / e.sum(axis, keepdims=True)


def standardize(a: np.ndarray, axis: Any = -1, eps: float = 1e-5) -> np.ndarray:
    return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + eps)


def nll(a: np.ndarray, labels: np.ndarray, axis: int = -1, reduction: str = "mean") -> Any:
    losses = -np.take_along_axis(a, np.expand_dims(labels, axis), axis).squeeze(axis)
    return losses if reduction == "none" else getattr(losses, reduction)()


def cross_entropy(a: np.ndarray, labels: np.ndarray, axis: int = -1, reduction: str = "mean") -> Any:
    return nll(np.log(softmax(a, axis)), labels, axis, reduction)


def dropout(a: np.ndarray, **settings: Any) -> np.ndarray:
    """The op itself says which elements stay: that they are the right ones is not the matter here."""
    return a * OPS["dropout"](np.ones(a.shape), **settings).to_host()


READINGS: dict[str, Callable[..., Any]] = {
    "getitem": lambda a, key: a[key],
    "place": place,
    "astype": lambda a, dtype: a.astype(dtype),
    "norm": lambda a, **over: np.sqrt((a * a).sum(**over)),
    "logsumexp": lambda a, **over: np.log(np.exp(a).sum(**over)),
    "place_diagonal": place_diagonal,
    "concatenate": lambda *arrays, axis=0: np.concatenate(arrays, axis),
    "stack": lambda *arrays, axis=0: np.stack(arrays, axis),
    "unfold": unfold,
    "fold": fold,
    "conv2d": conv2d,
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
    "softmax": softmax,
    "log_softmax": lambda a, axis=-1: np.log(softmax(a, axis)),
    "standardize": standardize,
    "dropout": dropout,
    "cross_entropy": cross_entropy,
    "nll": nll,
    "affine": lambda a, b, c: a @ b + c,
}
"""Ops that are not here have NumPy's name and mean what NumPy means."""


# The samples


class Sample(NamedTuple):
    """The operands of a call (a shape stands for random floats) and its parameters."""

    operands: tuple[Any, ...]
    attrs: dict[str, Any]


def call(*operands: Any, **attrs: Any) -> Sample:
    return Sample(operands, attrs)


LABELS = np.array([2, 0, 3])
SAMPLES: dict[str, list[Sample]] = {
    "reshape": [call((2, 6), shape=(3, -1)), call((2, 3), shape=6), call((1,), shape=()), call((0, 3), shape=(3, 0))],
    "transpose": [call((2, 3)), call((2, 3, 4), axes=(1, -1, 0)), call((3,)), call(())],
    "broadcast_to": [call((3, 1), shape=(2, 3, 4)), call((), shape=(2, 2)), call((2, 3), shape=(2, 3))],
    "getitem": [
        call((3, 4), key=(slice(None, None, -1), slice(1, None, 2))),
        call((3, 4), key=(1, None, ..., slice(0, 2))),
        call((3,), key=-1),
        call((2, 3), key=(slice(2, 2),)),
        call((4, 3), key=np.array([2, 0, 2, -1])),
        call((4, 3), key=np.zeros((0, 2), int)),
        call((2, 3, 4), key=(np.array([[1], [0]]), slice(None), np.array([3, 3]))),
        call((2, 3), key=np.array([[True, False, True], [False, True, False]])),
    ],
    "place": [
        call((3, 2), shape=(3, 4), key=(slice(None, None, -1), slice(1, None, 2))),
        call((), shape=(3,), key=1),
        call((4, 3), shape=(3, 3), key=np.array([2, 0, 2, -1])),
    ],
    "astype": [call((2, 3), dtype=np.float64), call((2, 3), dtype=np.float32), call((2, 3), dtype=np.int32)],
    "concatenate": [call((2, 3), (2, 1), (2, 0), axis=-1), call((3,), (2,)), call((2, 3))],
    "stack": [call((2, 3), (2, 3), axis=1), call((), ()), call((2, 0), (2, 0), axis=-1)],
    "pad": [
        call((2, 3), pad_width=((1, 0), (2, 3)), constant_values=0.5),
        call((3,), pad_width=2),
        call((2, 3), pad_width=(1, 2), mode="edge"),
        call((3, 4), pad_width=((0, 2), (3, 1)), mode="reflect"),
        call((3, 4), pad_width=((0, 2), (3, 1)), mode="symmetric"),
        call((3, 2), pad_width=((4, 1), (0, 3)), mode="wrap"),
    ],
    "roll": [call((2, 3), shift=1), call((2, 3, 4), shift=(1, -2), axis=(0, -1)), call((0, 3), shift=5, axis=1)],
    "tile": [call((2, 3), reps=(2, 1, 3)), call((2, 3), reps=2), call((), reps=3), call((2,), reps=0)],
    "matmul": [
        call((2, 3), (3, 4)),
        call((3,), (3,)),
        call((3,), (3, 2)),
        call((2, 3), (3,)),
        call((4, 2, 3), (3, 2)),
        call((3,), (4, 3, 2)),
        call((2, 1, 2, 3), (4, 3, 2)),
        call((2, 0), (0, 3)),
    ],
    "affine": [
        call((2, 3), (3, 4), (4,)),
        call((4, 2, 3), (3, 2), (2,)),
        call((3,), (3, 2), (2,)),
        call((17, 5), (5, 21), (21,)),
        call((2, 0), (0, 3), (3,)),
        call((0, 2), (2, 3), (3,)),
    ],
    "sum": [
        call((2, 3, 4)),
        call((2, 3, 4), axis=(0, -1)),
        call((2, 3, 4), axis=1, keepdims=True),
        call((0, 3), axis=0),
        call((2, 3), axis=()),
        call(()),
        call((700,)),
    ],
    "mean": [call((2, 3, 4)), call((2, 3, 4), axis=(2, 0)), call((2, 3, 4), axis=-1, keepdims=True), call(())],
    "max": [call((2, 3, 4)), call((2, 3, 4), axis=(0, -1)), call((2, 3, 4), axis=1, keepdims=True), call(())],
    "min": [call((2, 3, 4)), call((2, 3, 4), axis=(0, -1)), call((2, 3, 4), axis=1, keepdims=True), call(())],
    "var": [call((2, 3, 4)), call((2, 3, 4), axis=(0, -1), ddof=1), call((2, 3, 4), axis=1, keepdims=True)],
    "std": [call((2, 3, 4)), call((2, 3, 4), axis=(0, -1), ddof=1), call((2, 3, 4), axis=1, keepdims=True)],
    "norm": [call((2, 3)), call((2, 3, 4), axis=(0, -1)), call((2, 3, 4), axis=1, keepdims=True)],
    "logsumexp": [call((2, 3, 4)), call((2, 3, 4), axis=(0, -1)), call((2, 3, 4), axis=1, keepdims=True)],
    "prod": [
        call((2, 3, 2)),
        call((2, 3, 4), axis=(0, -1), keepdims=True),
        call(np.array([[0.0, 2, 3], [0, 0, 1], [4, 5, 6]]), axis=1),
        call((0, 3), axis=0),
    ],
    "cumsum": [call((2, 3)), call((2, 3, 4), axis=1), call((2, 0), axis=0), call((700,), axis=-1)],
    "diagonal": [call((3, 4)), call((2, 3, 4), offset=-1, axis1=2, axis2=0)],
    "place_diagonal": [call((3,), shape=(3, 4)), call((3, 2), shape=(2, 3, 4), offset=-1, axis1=2, axis2=0)],
    "tril": [call((3, 4)), call((2, 3, 3), k=-1)],
    "triu": [call((3, 4)), call((2, 3, 3), k=1)],
    "unfold": [
        call((2, 5, 6), kernel=(2, 3)),
        call((5, 6), kernel=2, stride=(2, 1), padding=1, dilation=(1, 2), fill=0.5),
    ],
    "fold": [
        call((2, 2, 3, 4, 4), size=(5, 6)),
        call((2, 2, 3, 6), size=(5, 6), stride=(2, 1), padding=1, dilation=(1, 2)),
    ],
    "conv2d": [
        call((2, 3, 4, 5), (2, 3, 2, 3)),
        call((1, 4, 5, 4), (6, 2, 3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    ],
    "max_pool2d": [call((2, 4, 6), kernel=2), call((5, 4), kernel=(3, 2), stride=2, padding=1)],
    "avg_pool2d": [call((2, 4, 6), kernel=2), call((5, 4), kernel=(3, 2), stride=2, padding=1)],
    "softmax": [call((2, 3)), call((2, 3, 2), axis=(0, 1)), call((0, 3))],
    "log_softmax": [call((2, 3)), call((2, 3, 2), axis=(0, 1)), call((0, 3))],
    "standardize": [call((2, 5)), call((3, 2, 4), axis=(0, -1), eps=0.1)],
    "dropout": [call((3, 4), p=0.5, seed=0), call((3, 4), p=0.25, seed=3, step=1, training=True)],
    "cross_entropy": [
        call((3, 4), LABELS),
        call((2, 4, 3), np.array([LABELS, LABELS]), axis=1, reduction="sum"),
        call((4,), np.array(1), reduction="none"),
    ],
    "nll": [call((3, 4), LABELS), call((2, 4, 3), np.array([LABELS, LABELS]), axis=1, reduction="none")],
}
CALLS = [(op, sample) for name, op in OPS_HERE.items() for sample in SAMPLES.get(name, [])]


def of_calls(calls: list[tuple[Op, Sample]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("op, sample", calls, ids=[op.name for op, _ in calls])


def operands_of(sample: Sample, dtype: Any) -> list[np.ndarray]:
    rng = RNG(5)
    return [rng.uniform(-2, 2, x).astype(dtype) if isinstance(x, tuple) else x for x in sample.operands]


def windowed(x: np.ndarray) -> Tensor:
    """The same numbers on the device with an offset, gaps and the first axis backwards."""
    wide = np.zeros([2 * n + 3 for n in x.shape], x.dtype)
    key = tuple(slice(2, 2 + 2 * n, 2) for n in x.shape)
    wide[key] = x[::-1] if x.ndim else x
    view = Tensor.from_host(wide)[key or ...]
    return view[::-1] if x.ndim else view


def inner(xs: Any, ys: Any) -> float:
    return float(sum(np.vdot(x, y) for x, y in zip(xs, ys, strict=True)))


# Forward


@pytest.mark.parametrize("op", OPS_HERE.values(), ids=list(OPS_HERE))
def test_the_op_has_samples_that_give_every_parameter(op: Op) -> None:
    assert op.name in SAMPLES, f"give {op.name} sample calls in SAMPLES"
    given = {name for sample in SAMPLES[op.name] for name in sample.attrs}
    assert given == set(op.attr_names)


def test_no_sample_is_of_an_op_that_is_gone() -> None:
    assert set(SAMPLES) | set(READINGS) <= set(OPS_HERE)


def check_forward(op: Op, sample: Sample, operands: list[np.ndarray], out: Any) -> None:
    expected = (READINGS.get(op.name) or getattr(np, op.name))(*operands, **sample.attrs)
    assert out.shape == np.shape(expected)
    if out.dtype.kind != "f":
        np.testing.assert_array_equal(out.to_host(), expected)
        return
    tolerance = 1e-12 if out.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(out.to_host(), expected, rtol=tolerance, atol=tolerance)


@of_calls([(op, SAMPLES[name][0]) for name, op in OPS_HERE.items() if SAMPLES.get(name)])  # all of them: below
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_forward_is_what_numpy_gives(op: Op, sample: Sample, dtype: type) -> None:
    operands = operands_of(sample, dtype)
    check_forward(op, sample, operands, op(*map(Tensor.from_host, operands), **sample.attrs))


# Derivatives


@pytest.mark.usefixtures("float64")
@of_calls(CALLS)
@pytest.mark.parametrize("lay_out", [Tensor.from_host, windowed], ids=["contiguous", "strided"])
def test_both_derivatives_are_those_of_the_forward_op(op: Op, sample: Sample, lay_out: Callable[..., Tensor]) -> None:
    operands = operands_of(sample, np.float64)
    moving = [i for i, x in enumerate(operands) if x.dtype.kind == "f"]
    rng = RNG(6)
    u = [rng.normal(size=operands[i].shape) for i in moving]

    def f(*xs: Any) -> Any:
        given = iter(xs)
        every = [next(given) if i in moving else Tensor.from_host(x) for i, x in enumerate(operands)]
        return op(*every, **sample.attrs)

    leaves = [ag.tensor(lay_out(operands[i]), requires_grad=True) for i in moving]
    out = f(*leaves)
    check_forward(op, sample, operands, out)
    if out.dtype.kind != "f":
        assert isinstance(out, Tensor), "what is no float has no derivative, and no graph"
        return
    exact = out.dtype == np.float64
    v = rng.normal(size=out.shape).astype(out.dtype)
    ag.Tape().backward(out, Tensor.from_host(v))
    pulled = [leaf.grad.to_host() for leaf in leaves]
    assert [g.shape for g in pulled] == [x.shape for x in u]

    primals = [lay_out(operands[i]) for i in moving]
    same, pushed = ag.jvp(f, primals, [lay_out(x) for x in u])
    np.testing.assert_array_equal(same.to_host(), out.to_host())
    assert pushed.shape == out.shape and pushed.dtype == out.dtype
    np.testing.assert_allclose(inner([v], [pushed.to_host()]), inner(pulled, u), rtol=1e-11 if exact else 1e-5)

    step = 1e-6 if exact else 1e-2
    sides = [f(*[lay_out(operands[i] + h * x) for i, x in zip(moving, u, strict=True)]) for h in (step, -step)]
    numeric = (sides[0].to_host() - sides[1].to_host()) / (2 * step)
    np.testing.assert_allclose(pushed.to_host(), numeric, *((1e-7, 1e-8) if exact else (1e-3, 1e-3)))


@pytest.mark.usefixtures("float64")
@of_calls([(op, sample) for op, sample in CALLS if len(sample.operands) > 1])
def test_one_operand_moves_and_the_others_rest(op: Op, sample: Sample) -> None:
    """Rules of several operands get None for a tangent that is zero, and are not asked for cotangents nobody wants."""
    operands = operands_of(sample, np.float64)
    for i, x in enumerate(operands):
        if x.dtype.kind != "f":
            continue

        def f(x: Any, i: int = i) -> Any:
            return op(*[x if j == i else Tensor.from_host(y) for j, y in enumerate(operands)], **sample.attrs)

        u = RNG(7).normal(size=x.shape)
        out, pull = ag.vjp(f, x)
        _, pushed = ag.jvp(f, [x], [u])
        v = RNG(8).normal(size=out.shape)
        np.testing.assert_allclose(inner([v], [pushed.to_host()]), inner([pull(v)[0].to_host()], [u]), rtol=1e-11)


@pytest.mark.usefixtures("float64")
@of_calls(CALLS)
def test_the_derivative_of_the_derivative(op: Op, sample: Sample) -> None:
    """Along one direction; the square gives ops that are linear a second derivative too."""
    operands = operands_of(sample, np.float64)
    if sample.attrs.get("dtype") in (np.float32, np.int32):
        return  # float32 in between leaves too few digits for a difference

    def f(*xs: Any) -> Any:
        return op(*xs, **sample.attrs) ** 2.0

    assert ag.gradgradcheck(f, *operands, directional=True)


@of_calls([(op, sample) for op, sample in CALLS if op.reads])
@pytest.mark.parametrize("lay_out", [Tensor.from_host, windowed])
def test_a_rule_reads_no_more_than_it_says(op: Op, sample: Sample, lay_out: Callable[..., Tensor]) -> None:
    """In place of the operands that it is said not to read it gets some whose elements nothing can read."""
    tensors = [lay_out(x) for x in operands_of(sample, np.float32)]
    out = op.function(*tensors, **sample.attrs)
    g = lay_out(RNG(9).normal(size=out.shape).astype(out.dtype))
    subsets = [wanted for n in range(1, len(tensors) + 1) for wanted in combinations(range(len(tensors)), n)]
    for wanted in subsets:
        kept = [Tensor(x.layout, object(), x.device) if i in unread(op, wanted) else x for i, x in enumerate(tensors)]
        for given in (tensors, kept):
            results = OpPullback(op, given, out, sample.attrs, wanted, True)(g)
            if given is tensors:
                expected = [x.to_host() for x in results]
        for x, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(x.to_host(), right)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((70_001,), None), ((1023,), None), ((1025,), 0), ((64,), 0), ((63,), 0), ((257, 1000), 1), ((1000, 257), 0),
        ((3, 5000), 0), ((700, 17), 0), ((700, 15), 0), ((7, 129, 65), (1, 2)), ((7, 129, 65), (0, 1)),
        ((7, 129, 65), 1), ((1, 100), 0), ((0, 100), 0), ((100, 0), 1),
    ],
)  # fmt: skip
def test_rows_and_columns_fold_like_numpy(on_device: Device, dtype: Any, shape: tuple[int, ...], axis: Any) -> None:
    """The widths at which rows and columns are folded as vectors, and their neighbours."""
    if dtype == np.float64 and not on_device.has_fp64:
        pytest.skip("this device has no float64")
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    tensor = Tensor.from_host(x, device=on_device)
    tolerance = (1e-5 if dtype == np.float32 else 1e-13) * max(1.0, x.size**0.5)
    for name in ("sum", "max", "min") if x.size else ("sum",):
        result = getattr(tensor, name)(axis).to_host()
        np.testing.assert_allclose(result, getattr(np, name)(x.astype(np.float64), axis), rtol=1e-6, atol=tolerance)
    if x.size:  # the NaN wins, wherever it stands
        x.ravel()[x.size // 2] = np.nan
        for name in ("sum", "max", "min"):
            result = getattr(Tensor.from_host(x, device=on_device), name)(axis).to_host()
            np.testing.assert_array_equal(np.isnan(result), np.isnan(getattr(np, name)(x, axis)))
