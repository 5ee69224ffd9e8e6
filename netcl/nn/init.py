"""Initial values of weights: random, from a generator that the caller gives, and as large as the layer wants them.

Math:    fan_in is the number of inputs that an output is made of, fan_out the number of outputs that an input goes to
         Glorot:  Var w = 2 / (fan_in + fan_out)  keeps variances between the two directions (tanh, sigmoid, linear)
         He:      Var w = 2 / fan_in              keeps forward variances through relu, which zeroes half of them
         A uniform distribution on (−b, b) has the variance b² / 3.
Shapes:  (inputs, outputs) for Linear; (filters, channels, rows, columns) for Conv2d
Source:  Glorot & Bengio 2010, Understanding the difficulty of training deep feedforward neural networks; He, Zhang, Ren
         & Sun 2015, Delving deep into rectifiers
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.errors import ShapeError
from netcl.layout import Shape
from netcl.random import Generator
from netcl.tensor import Tensor

Initializer = Callable[[Generator, Shape, Any], Tensor]


def fans(shape: Shape) -> tuple[int, int]:
    """Return (fan_in, fan_out) of a weight.

    >>> fans((2, 16)), fans((8, 3, 5, 5))
    ((2, 16), (75, 200))
    """
    if len(shape) < 2:
        raise ShapeError(f"a weight has at least two axes, and shape {shape} has {len(shape)}")
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def glorot_uniform(rng: Generator, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Draw from (−b, b) with b = √(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / max(sum(fans(shape)), 1))
    return rng.uniform(shape, -bound, bound, dtype)


def glorot_normal(rng: Generator, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Draw from a normal distribution with variance 2 / (fan_in + fan_out)."""
    return rng.normal(shape, 0.0, math.sqrt(2 / max(sum(fans(shape)), 1)), dtype)


def he_uniform(rng: Generator, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Draw from (−b, b) with b = √(6 / fan_in)."""
    bound = math.sqrt(6 / max(fans(shape)[0], 1))
    return rng.uniform(shape, -bound, bound, dtype)


def he_normal(rng: Generator, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Draw from a normal distribution with variance 2 / fan_in."""
    return rng.normal(shape, 0.0, math.sqrt(2 / max(fans(shape)[0], 1)), dtype)


def standard_normal(rng: Generator, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Draw from a normal distribution with variance 1: rows of an embedding have no fans."""
    return rng.normal(shape, 0.0, 1.0, dtype)
