"""The usual layers. Weights are drawn from the generator that is passed as `rng` (an integer is the seed of a new one),
and lie on its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.autograd import Node
from netcl.creation import full
from netcl.errors import ShapeError
from netcl.methods import ArrayMethods
from netcl.nn.init import Initializer, glorot_uniform, he_normal, standard_normal
from netcl.nn.module import Module
from netcl.ops.conv import Pair, pair
from netcl.random import Generator
from netcl.tensor import Tensor


def _generator(rng: Generator | int) -> Generator:
    return rng if isinstance(rng, Generator) else Generator(rng)


def _constant(size: int, value: float, dtype: Any, name: str, rng: Generator | None = None) -> Node:
    return ag.tensor(full((size,), value, dtype, rng.device if rng else None), requires_grad=True, name=name)


class Linear(Module):
    """Affine map of the last axis: x @ weight + bias.

    Shapes:  (*B, inputs) -> (*B, outputs); weight is (inputs, outputs), PyTorch's transposed

    >>> Linear(3, 2, rng=0)(ag.tensor([[1.0, 2.0, 3.0]])).shape
    (1, 2)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        rng: Generator | int,
        bias: bool = True,
        init: Initializer = glorot_uniform,
        dtype: Any = np.float32,
    ) -> None:
        rng = _generator(rng)
        self.weight = ag.tensor(init(rng, (inputs, outputs), dtype), requires_grad=True, name="W")
        self.bias = _constant(outputs, 0, dtype, "b", rng) if bias else None

    def forward(self, x: Any) -> Any:
        """Return x @ weight + bias."""
        return ag.linear(x, self.weight, self.bias)


class Conv2d(Module):
    """Filters slid over images (see ag.conv2d).

    Shapes:  (N, channels, H, W) -> (N, filters, windows down, windows across); weight is (filters, channels / groups,
             rows, columns), as PyTorch's
    """

    def __init__(
        self,
        channels: int,
        filters: int,
        kernel: Pair,
        *,
        rng: Generator | int,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        init: Initializer = he_normal,
        dtype: Any = np.float32,
    ) -> None:
        if groups < 1 or channels % groups or filters % groups:
            raise ShapeError(f"Conv2d: {channels} channels and {filters} filters do not divide into {groups} groups")
        rng = _generator(rng)
        shape = (filters, channels // groups, *pair("Conv2d", "kernel", kernel, 1))
        self.weight = ag.tensor(init(rng, shape, dtype), requires_grad=True, name="W")
        self.bias = _constant(filters, 0, dtype, "b", rng) if bias else None
        self.settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def forward(self, x: Any) -> Any:
        """Return the convolution, plus a bias per filter."""
        out = ag.conv2d(x, self.weight, **self.settings)
        return out if self.bias is None else out + self.bias.reshape(-1, 1, 1)


class MaxPool2d(Module):
    """Largest element of every window (see ag.max_pool2d)."""

    def __init__(self, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.settings = {"kernel": kernel, "stride": stride, "padding": padding}

    def forward(self, x: Any) -> Any:
        """Return the maxima."""
        return ag.max_pool2d(x, **self.settings)


class AvgPool2d(Module):
    """Average of every window (see ag.avg_pool2d)."""

    def __init__(self, kernel: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        self.settings = {"kernel": kernel, "stride": stride, "padding": padding}

    def forward(self, x: Any) -> Any:
        """Return the averages."""
        return ag.avg_pool2d(x, **self.settings)


class Flatten(Module):
    """Make one axis of all but the first: (N, …) -> (N, the product of the rest)."""

    def forward(self, x: Any) -> Any:
        """Return x with two axes."""
        return ag.reshape(x, (np.shape(x)[0], int(np.prod(np.shape(x)[1:], dtype=np.int64))))


class LayerNorm(Module):
    """Standardize the last axis, then scale and shift (see ag.layer_norm)."""

    def __init__(self, features: int, eps: float = 1e-5, dtype: Any = np.float32) -> None:
        self.weight = _constant(features, 1, dtype, "γ")
        self.bias = _constant(features, 0, dtype, "β")
        self.eps = eps

    def forward(self, x: Any) -> Any:
        """Return the normalised x."""
        return ag.layer_norm(x, self.weight, self.bias, eps=self.eps)


class BatchNorm(Module):
    """Standardize every channel (axis 1), then scale and shift (see ag.batch_norm).

    In training the batch's own mean and variance are used, and averages of them kept: running ← (1 − momentum) running
    + momentum · batch, the variance with n − 1 below, as in PyTorch. In evaluation the averages are used.
    """

    def __init__(self, features: int, momentum: float = 0.1, eps: float = 1e-5, dtype: Any = np.float32) -> None:
        self.weight = _constant(features, 1, dtype, "γ")
        self.bias = _constant(features, 0, dtype, "β")
        self.running_mean = full((features,), 0, dtype)
        self.running_var = full((features,), 1, dtype)
        self.momentum = momentum
        self.eps = eps

    def forward(self, x: Any) -> Any:
        """Return the normalised x; in training, remember what the batch was like."""
        if not self.training:
            return ag.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps)
        x = x if isinstance(x, ArrayMethods) else Tensor.from_host(x)
        out = ag.batch_norm(x, self.weight, self.bias, eps=self.eps)
        self._remember(x.detach())
        return out

    def _remember(self, x: Tensor) -> None:
        axes = (0, *range(2, x.ndim))
        count = x.size // max(x.shape[1], 1)
        if count < 2:
            raise ShapeError(
                f"BatchNorm: shape {x.shape} has one value per channel, which has no variance to train with"
            )
        mean = x.mean(axes, True)
        var = ((x - mean) ** 2).mean(axes) * (count / (count - 1))
        keep = 1 - self.momentum
        self.running_mean = self.running_mean * keep + mean.reshape(-1) * self.momentum
        self.running_var = self.running_var * keep + var * self.momentum


class Dropout(Module):
    """In training set each element to 0 with probability p and scale the others by 1 / (1 − p) (see ag.dropout).

    Every call has a mask of its own; the same `rng` gives the same masks on every device.
    """

    def __init__(self, p: float = 0.5, *, rng: Generator | int) -> None:
        self.p = p
        self.seed = int(_generator(rng).integers(0, 2**62).item())
        self.step = 0

    def forward(self, x: Any) -> Any:
        """Return x with a part of it zeroed; in evaluation x itself."""
        if not self.training:
            return x
        self.step += 1
        return ag.dropout(x, self.p, self.seed, self.step)


class Embedding(Module):
    """A table of vectors, looked up by integers (see ag.embedding).

    Shapes:  integers (*S) -> (*S, width); weight is (count, width)
    """

    def __init__(
        self,
        count: int,
        width: int,
        *,
        rng: Generator | int,
        init: Initializer = standard_normal,
        dtype: Any = np.float32,
    ) -> None:
        self.weight = ag.tensor(init(_generator(rng), (count, width), dtype), requires_grad=True, name="E")

    def forward(self, indices: Any) -> Any:
        """Return the rows that the indices name."""
        return ag.embedding(self.weight, indices)


class Sequential(Module):
    """Modules, or any functions of one argument, one after the other.

    >>> Sequential(Linear(2, 4, rng=0), ag.tanh, Linear(4, 1, rng=1))
    Sequential(Linear(weight (2, 4), bias (4,)), <op tanh(a)>, Linear(weight (4, 1), bias (1,)))
    """

    def __init__(self, *layers: Callable[[Any], Any]) -> None:
        self.layers = list(layers)

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self.layers))})"

    def forward(self, x: Any) -> Any:
        """Pass x through all of them."""
        for layer in self.layers:
            x = layer(x)
        return x


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Any) -> Any:
        """Return relu(x)."""
        return ag.relu(x)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, x: Any) -> Any:
        """Return tanh(x)."""
        return ag.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(−x))."""

    def forward(self, x: Any) -> Any:
        """Return sigmoid(x)."""
        return ag.sigmoid(x)


class Softplus(Module):
    """log(1 + exp(x))."""

    def forward(self, x: Any) -> Any:
        """Return softplus(x)."""
        return ag.softplus(x)


class GELU(Module):
    """x times the probability that a standard normal is below x."""

    def forward(self, x: Any) -> Any:
        """Return gelu(x)."""
        return ag.gelu(x)


class SiLU(Module):
    """x · sigmoid(x)."""

    def forward(self, x: Any) -> Any:
        """Return silu(x)."""
        return ag.silu(x)
