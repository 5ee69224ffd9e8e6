"""Losses: what a network's output costs. Each is a mean over the elements unless `reduction` says "sum" or "none"."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from netcl import layout as lay
from netcl.capture import look
from netcl.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from netcl.kernels.along_rows import fits, run_rows
from netcl.layout import Layout, Shape
from netcl.ops.composite import composite
from netcl.ops.elementwise import equal, sub, where
from netcl.ops.nn import log_softmax, softmax
from netcl.ops.reduce import mean, sum
from netcl.ops.rows import elementwise
from netcl.ops.shape import astype, broadcast_to, reshape
from netcl.ops.table import structural
from netcl.tensor import Tensor

# How many classes are enough for labels that were found to be right once. No element of a tensor changes, so what was
# found stays true, and a training step over the same labels need not wait for the device again.
_enough: WeakKeyDictionary[Tensor, int] = WeakKeyDictionary()


def _reduce(values: Any, reduction: str) -> Any:
    if reduction == "none":
        return values
    return mean(values) if reduction == "mean" else sum(values)


def _check_reduction(op: str, reduction: Any) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f'{op}: reduction is "mean", "sum" or "none", not {reduction!r}')


def _check_labels(op: str, a: Tensor, labels: Tensor, axis: int) -> None:
    """Refuse labels that are no classes of `a`; reads them from the device, the first time that a tensor comes."""
    (place,) = lay.normalize_axes(op, axis, a.layout.ndim)
    classes = _classes(op, a.layout, labels.layout, place, str(axis))
    if _enough.get(labels, classes + 1) > classes:
        look(labels, partial(_check_values, op, classes))


def _check_values(op: str, classes: int, labels: Tensor) -> None:
    if _enough.get(labels, classes + 1) <= classes:
        return
    host = labels.to_host()
    if not host.size or (host.min() >= 0 and host.max() < classes):
        _enough[labels] = int(host.max()) + 1 if host.size else 0
    else:
        where_wrong = tuple(int(i) for i in np.argwhere((host < 0) | (host >= classes))[0])
        raise IndexingError(
            f"{op}: label {host[where_wrong]} at {where_wrong} is no class: there are {classes}, from 0"
        )


@lru_cache(maxsize=1024)
def _classes(op: str, a: Layout, labels: Layout, axis: int, given: str) -> int:
    """Return how many classes there are, once labels are integers, one for each of the scores' rows."""
    if labels.dtype.kind not in "iu":
        raise DTypeError(
            f"{op}: labels are class indices, so integers, not {labels.dtype}; write np.array([2, 0]), or "
            "ag.tensor([2, 0], dtype=int), since a list becomes float32"
        )
    wanted = tuple(n for i, n in enumerate(a.shape) if i != axis)
    if labels.shape != wanted:
        raise ShapeError(
            f"{op}: scores {a.shape} with the classes on axis {given} want labels {wanted}, not {labels.shape}"
        )
    return a.shape[axis]


def _beside(values: Any, axis: int, ndim: int) -> Any:
    """Give an array of one value per label an axis of length 1 where the classes are."""
    (place,) = lay.normalize_axes("cross_entropy", axis, ndim)
    return reshape(values, (*values.shape[:place], 1, *values.shape[place:]))


def _hot(a: Any, labels: Any, axis: int) -> Any:
    """Return the truth values that say which class is the label's."""
    (place,) = lay.normalize_axes("cross_entropy", axis, len(a.shape))
    classes = np.arange(a.shape[place]).reshape(-1, *[1] * (len(a.shape) - 1 - place))
    return equal(_beside(labels, axis, len(a.shape)), classes)


def _per_label(g: Any, labels: Any, a: Any, axis: int, reduction: str) -> Any:
    """Spread the cotangent of a reduced loss over the labels."""
    if reduction == "mean":
        g = g / float(labels.size)
    return _beside(broadcast_to(g, labels.shape), axis, len(a.shape))


@structural("a", "labels")
def cross_entropy(a: Tensor, labels: Tensor, axis: int = -1, reduction: str = "mean") -> Tensor:
    """Cross-entropy of scores (logits) against the indices of the right classes.

    Math:    loss = −log softmax(a)[label], averaged over the labels;  ∂loss/∂a = (softmax(a) − one-hot(label)) / N
    Shapes:  (*S, C), integers (*S) -> (); (*S) for "none". `axis` says where the classes are: 1 for (N, C, H, W)
    Raises:  IndexingError for a label that is no class, DTypeError for labels that are not integers, ShapeError naming
             both shapes

    The labels are read from the device to be checked, once for each tensor. Finite for scores of any finite size.
    """
    _check_reduction("cross_entropy", reduction)
    _check_labels("cross_entropy", a, labels, axis)
    if _beside_it(labels, a) and _fits(a, axis):
        layout = lay.contiguous(labels.layout.shape if reduction == "none" else (), a.layout.dtype)
        scale = float(labels.layout.size) if reduction == "mean" else 1.0
        return Tensor(layout, run_rows(a.device, "cross_entropy", (a, labels), layout, scale), a.device)
    return _reduce(-sum(where(_hot(a, labels, axis), log_softmax(a, axis), 0.0), axis), reduction)


def _fits(a: Tensor, axis: int) -> bool:
    return fits(a.device, (a.layout,), lay.normalize_axes("cross_entropy", axis, a.layout.ndim))


def _beside_it(x: Tensor, a: Tensor) -> bool:
    """Say whether a tensor lies on the device of `a`, without gaps."""
    return x.device is a.device and x.layout.contiguous and x.layout.offset == 0


def _surplus(a: Any, labels: Any, axis: int) -> Any:
    """Return softmax − one-hot: the probability given to each class, less what it deserves."""
    p = softmax(a, axis)
    return p - astype(_hot(a, labels, axis), p.dtype)


@cross_entropy.vjp("a", "G · (softmax({a}) − one-hot({labels}))")
def _(g: Any, out: Any, a: Any, labels: Any, axis: int = -1, reduction: str = "mean") -> Any:
    if type(g) is type(a) is type(labels) is Tensor and _beside_it(labels, a) and _beside_it(g, a):
        of_a = a.layout
        if g.layout.dtype == of_a.dtype and _fits(a, axis):
            scale = 1.0 / labels.layout.size if reduction == "mean" else 1.0
            layout = lay.contiguous(of_a.shape, of_a.dtype)
            return Tensor(layout, run_rows(a.device, "cross_entropy_vjp", (a, labels, g), layout, scale), a.device)
    return astype(_surplus(a, labels, axis) * _per_label(g, labels, a, axis, reduction), a.dtype)


@cross_entropy.jvp
def _(tangents: Any, out: Any, a: Any, labels: Any, axis: int = -1, reduction: str = "mean") -> Any:
    return _reduce(sum(_surplus(a, labels, axis) * tangents[0], axis), reduction)


@structural("a", "labels")
def nll(a: Tensor, labels: Tensor, axis: int = -1, reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of the right classes, given log-probabilities: cross_entropy without its log_softmax.

    Math:    loss = −a[label], averaged over the labels
    Shapes:  as cross_entropy
    Raises:  as cross_entropy
    """
    _check_reduction("nll", reduction)
    _check_labels("nll", a, labels, axis)
    return _reduce(-sum(where(_hot(a, labels, axis), a, 0.0), axis), reduction)


@nll.vjp("a", "−G at {labels}, else 0")
def _(g: Any, out: Any, a: Any, labels: Any, axis: int = -1, reduction: str = "mean") -> Any:
    spread = broadcast_to(_per_label(g, labels, a, axis, reduction), a.shape)
    return astype(where(_hot(a, labels, axis), -spread, 0.0), a.dtype)


@nll.jvp
def _(tangents: Any, out: Any, a: Any, labels: Any, axis: int = -1, reduction: str = "mean") -> Any:
    return nll(tangents[0], labels, axis, reduction)


logistic_loss = elementwise(
    "logistic_loss",
    "where(a > 0, a, 0) - a * b + log1p(exp(-abs(a)))",
    a="where(a >= 0, 1, exp(where(a >= 0, -a, a))) / (1 + exp(where(a >= 0, -a, a))) - b",
    b="-a",
    domain={"a": (-2, -0.2, 0.2, 2), "b": (0, 1)},
    doc="Cross-entropy of a truth value with the logit a against the target b, from 0 to 1: log(1 + exp(a)) − a b.\n"
    "The partial is sigmoid(a) − b. No exponent is positive, so nothing overflows, in second derivatives neither.",
)


def _same_shapes(op: str, a: Any, b: Any) -> Shape:
    """Refuse two shapes that differ: broadcasting here is a mistake, (N, 1) against (N,) the usual one."""
    if np.shape(a) != np.shape(b):
        raise ShapeError(f"{op}: outputs {np.shape(a)} and targets {np.shape(b)} must have one shape")
    return np.shape(a)


@composite
def mse(a: Any, b: Any, reduction: str = "mean") -> Any:
    """Mean squared error.

    Math:    loss = mean((a − b)²)
    Shapes:  (*S), (*S) -> (); (*S) for "none"
    Raises:  ShapeError if the shapes differ: they do not broadcast here
    """
    _check_reduction("mse", reduction)
    _same_shapes("mse", a, b)
    return _reduce(sub(a, b) ** 2, reduction)


@composite
def binary_cross_entropy_with_logits(a: Any, b: Any, reduction: str = "mean") -> Any:
    """Cross-entropy of truth values whose logits are `a`, against targets `b` from 0 to 1.

    Math:    loss = mean(log(1 + exp(a)) − a b) = −mean(b log σ(a) + (1 − b) log(1 − σ(a))), without overflow
    Shapes:  (*S), (*S) -> (); (*S) for "none"
    Raises:  ShapeError if the shapes differ: they do not broadcast here
    """
    _check_reduction("binary_cross_entropy_with_logits", reduction)
    _same_shapes("binary_cross_entropy_with_logits", a, b)
    return _reduce(logistic_loss(a, b), reduction)
