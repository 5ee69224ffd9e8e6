"""Ops of networks: softmax, normalisation, dropout, and the layers that are made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netcl import kernels
from netcl import layout as lay
from netcl.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from netcl.kernels.along_rows import fits, run_rows
from netcl.kernels.random import UNIFORM
from netcl.methods import ArrayMethods
from netcl.ops.composite import composite
from netcl.ops.dtypes import FLOAT32
from netcl.ops.elementwise import exp, greater_equal, log, sqrt, where
from netcl.ops.indexing import getitem
from netcl.ops.linalg import affine, matmul, swap
from netcl.ops.reduce import Axis, mean, sum
from netcl.ops.reduce import max as amax
from netcl.ops.shape import astype, reshape
from netcl.ops.table import structural
from netcl.tensor import Tensor


def _floating(a: Tensor) -> Tensor:
    return a if a.dtype.kind == "f" else astype(a, FLOAT32)


def along_rows(name: str, axis: Any, *operands: Any, scale: float = 1.0) -> Tensor | None:
    """Run a function of rows in one launch, if these are plain tensors whose rows fit (see kernels/along_rows.py)."""
    if not all([type(x) is Tensor for x in operands]):
        return None
    first = operands[0]
    if not fits(first.device, tuple([x.layout for x in operands]), lay.normalize_axes(name, axis, first.ndim)):
        return None
    layout = lay.contiguous(first.shape, first.dtype)
    return Tensor(layout, run_rows(first.device, name, operands, layout, scale), first.device)


def _less_max(a: Tensor, axis: Axis) -> Tensor:
    """Return a − max(a): exponentials of it do not overflow."""
    return a - amax(a, axis, True) if a.size else a


@structural("a")
def softmax(a: Tensor, axis: Axis = -1) -> Tensor:
    """Turn scores into probabilities that sum to 1 over `axis`.

    Math:    out_i = exp(a_i − max a) / Σ_j exp(a_j − max a);  the maximum cancels, and keeps exp from overflowing
             ∂out_i/∂a_j = out_i (δ_ij − out_j), a symmetric matrix: VJP and JVP are one formula
    Shapes:  (*S) -> S
    """
    if (rows := along_rows("softmax", axis, a)) is not None:
        return rows
    e = exp(_less_max(_floating(a), axis))
    return e / sum(e, axis, True)


def _softmax_jacobian(v: Any, out: Any, axis: Axis) -> Any:
    return out * (v - sum(out * v, axis, True))


@softmax.vjp("a", "{out} · (G − Σ {out} · G)")
def _(g: Any, out: Any, a: Any, axis: Axis = -1) -> Any:
    if (rows := along_rows("softmax_vjp", axis, g, out)) is not None:
        return rows
    return astype(_softmax_jacobian(g, out, axis), a.dtype)


@softmax.jvp
def _(tangents: Any, out: Any, a: Any, axis: Axis = -1) -> Any:
    return _softmax_jacobian(tangents[0], out, axis)


@structural("a")
def log_softmax(a: Tensor, axis: Axis = -1) -> Tensor:
    """Logarithm of softmax, finite where softmax itself rounds to 0.

    Math:    out_i = a_i − max a − log Σ_j exp(a_j − max a)
             ∂out_i/∂a_j = δ_ij − exp(out_j)
    Shapes:  (*S) -> S
    """
    if (rows := along_rows("log_softmax", axis, a)) is not None:
        return rows
    shifted = _less_max(_floating(a), axis)
    return shifted - log(sum(exp(shifted), axis, True))


@log_softmax.vjp("a", "G − exp({out}) · Σ G")
def _(g: Any, out: Any, a: Any, axis: Axis = -1) -> Any:
    if (rows := along_rows("log_softmax_vjp", axis, g, out)) is not None:
        return rows
    return astype(g - exp(out) * sum(g, axis, True), a.dtype)


@log_softmax.jvp
def _(tangents: Any, out: Any, a: Any, axis: Axis = -1) -> Any:
    return tangents[0] - sum(exp(out) * tangents[0], axis, True)


@structural("a")
def standardize(a: Tensor, axis: Axis = -1, eps: float = 1e-5) -> Tensor:
    """Shift and scale to mean 0 and variance 1 over `axis`: the heart of layer and batch normalisation.

    Math:    out = (a − μ) / σ,  σ = √(mean((a − μ)²) + eps)
             ∂out_i/∂a_j = (δ_ij − 1/n − out_i out_j / n) / σ, a symmetric matrix: VJP and JVP are one formula
    Shapes:  (*S) -> S
    """
    if (rows := along_rows("standardize", axis, a, scale=eps)) is not None:
        return rows
    a = _floating(a)
    return (a - mean(a, axis, True)) * _inverse_deviation(a, axis, eps)


def _inverse_deviation(a: Any, axis: Axis, eps: float) -> Any:
    centred = a - mean(a, axis, True)
    return 1.0 / sqrt(mean(centred * centred, axis, True) + eps)


def _standardize_jacobian(v: Any, out: Any, a: Any, axis: Axis, eps: float) -> Any:
    return (v - mean(v, axis, True) - out * mean(out * v, axis, True)) * _inverse_deviation(a, axis, eps)


@standardize.vjp("a", "(G − mean G − {out} · mean({out} · G)) / σ")
def _(g: Any, out: Any, a: Any, axis: Axis = -1, eps: float = 1e-5) -> Any:
    if (rows := along_rows("standardize_vjp", axis, g, out, a, scale=eps)) is not None:
        return rows
    return astype(_standardize_jacobian(g, out, a, axis, eps), a.dtype)


@standardize.jvp
def _(tangents: Any, out: Any, a: Any, axis: Axis = -1, eps: float = 1e-5) -> Any:
    return _standardize_jacobian(tangents[0], out, a, axis, eps)


@structural("a", linear=True)
def dropout(a: Tensor, p: float, seed: int, step: int = 0, training: bool = True) -> Tensor:
    """Set each element to 0 with probability p and scale the others by 1 / (1 − p), so that the mean stays.

    Math:    out_i = a_i / (1 − p) where u_i ≥ p, else 0;  u_i is a function of seed, step and i alone, so the mask is
             the same on every device, and the VJP is the op itself. Without `training` out = a.
    Raises:  ArgumentError unless 0 ≤ p ≤ 1, and 0 ≤ seed, step < 2⁶³
    Source:  Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from overfitting

    Two uses in one step need two seeds, or two numbers `step`: the mask is the same otherwise.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p is a probability, from 0 to 1, not {p!r}")
    for name, number in (("seed", seed), ("step", step)):
        if not isinstance(number, (int, np.integer)) or not 0 <= number < 2**63:
            raise ArgumentError(f"dropout: {name} is an integer from 0 to 2**63 - 1, not {number!r}")
    if not training:
        return a
    layout = lay.contiguous(a.shape, FLOAT32)
    # Stream 0 belongs to nc.random: the same seed there and here must not give the same numbers.
    u = Tensor(layout, kernels.random(a.device, UNIFORM, layout, int(seed), stream=1 + int(step)), a.device)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return where(greater_equal(u, float(p)), a * scale, 0.0)


@dropout.vjp("a", "G / (1 − p) where {a} was kept, else 0")
def _(g: Any, out: Any, a: Any, p: float, seed: int, step: int = 0, training: bool = True) -> Any:
    return dropout(g, p, seed, step, training)


@composite
def embedding(weight: Any, indices: Any) -> Any:
    """Look up a row of a table for every index: weight[indices], with indices that are checked.

    Math:    out[…, j] = weight[indices[…], j]; the VJP adds up the cotangents of all places that read a row, in order
    Shapes:  (V, D), integers (*S) -> (*S, D)
    Raises:  IndexingError for an index that is no row (a negative one neither), DTypeError for indices that are not
             integers, ShapeError if weight has not two axes

    >>> embedding(Tensor.from_host([[1.0, 2.0], [3.0, 4.0]]), [1, 1, 0]).to_host()[:, 0]
    array([3., 3., 1.], dtype=float32)
    """
    shape = np.shape(weight)
    if len(shape) != 2:
        raise ShapeError(f"embedding: the table has shape (V, D), not {shape}")
    host = np.asarray(indices)
    if host.dtype.kind not in "iu":
        raise DTypeError(f"embedding: indices are integers, not {host.dtype}")
    wrong = np.argwhere((host < 0) | (host >= shape[0]))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        raise IndexingError(f"embedding: index {host[place]} at {place} is no row: there are {shape[0]}, from 0")
    return getitem(weight, host)


@composite
def linear(x: Any, w: Any, b: Any = None) -> Any:
    """Affine map of the last axis.

    Math:    out = x @ w + b
    Shapes:  (*B, inputs), (inputs, outputs), (outputs,) -> (*B, outputs)

    >>> linear([[1.0, 2.0]], [[1.0], [10.0]], [100.0]).to_host()
    array([[121.]], dtype=float32)
    """
    if b is None:
        return matmul(x, w)
    of_w = w.shape if isinstance(w, ArrayMethods) else np.shape(w)
    of_b = b.shape if isinstance(b, ArrayMethods) else np.shape(b)
    return affine(x, w, b) if of_b == of_w[1:] else matmul(x, w) + b


@composite
def layer_norm(x: Any, weight: Any = None, bias: Any = None, axis: Axis = -1, eps: float = 1e-5) -> Any:
    """Standardize over `axis`, then scale and shift.

    Math:    out = standardize(x) · weight + bias
    Shapes:  (*S) -> S; weight and bias broadcast to it
    Source:  Ba, Kiros & Hinton 2016, Layer normalization
    """
    return _affine(standardize(x, axis, eps), weight, bias)


@composite
def batch_norm(
    x: Any, weight: Any = None, bias: Any = None, mean: Any = None, var: Any = None, eps: float = 1e-5
) -> Any:
    """Standardize every channel (axis 1), then scale and shift.

    Math:    out = (x − μ) / √(σ² + eps) · weight + bias.  Without `mean` and `var`, μ and σ² are those of the batch,
             over all axes but 1, and gradients flow through them (training); with them they are constants (evaluation)
    Shapes:  (N, C, …) -> (N, C, …); weight, bias, mean and var are (C,)
    Raises:  ShapeError if there is no axis 1; ArgumentError if only one of mean and var came
    Source:  Ioffe & Szegedy 2015, Batch normalization
    """
    shape = np.shape(x)
    if len(shape) < 2:
        raise ShapeError(f"batch_norm: an input has shape (N, C, …), not {shape}")
    if (mean is None) != (var is None):
        raise ArgumentError("batch_norm takes mean and var together, or neither")
    column = (-1, *[1] * (len(shape) - 2))  # (C, 1, 1 …) stands beside the channels
    if mean is None:
        normal = standardize(x, (0, *range(2, len(shape))), eps)
    else:
        normal = (x - reshape(mean, column)) / sqrt(reshape(var, column) + eps)
    return _affine(normal, *[None if v is None else reshape(v, column) for v in (weight, bias)])


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


@composite
def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Scaled dot-product attention: every query gets an average of the values, weighted by how well its key fits.

    Math:    out = softmax(q kᵀ / √d) v;  where `mask` is False the score is −inf, so the weight is 0
    Shapes:  (*B, n, d), (*B, m, d), (*B, m, e) -> (*B, n, e); mask broadcasts to (*B, n, m)
    Raises:  ShapeError naming the shapes
    Source:  Vaswani et al. 2017, Attention is all you need, §3.2.1

    A query whose mask is False everywhere has no average, and gives NaN.
    """
    shapes = [np.shape(x) for x in (q, k, v)]
    if min(map(len, shapes)) < 2 or shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ShapeError(
            f"attention: q, k and v are (…, n, d), (…, m, d) and (…, m, e), not {', '.join(map(str, shapes))}"
        )
    scores = matmul(q * (1 / math.sqrt(shapes[0][-1])), swap(k))
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    return matmul(softmax(scores, -1), v)
