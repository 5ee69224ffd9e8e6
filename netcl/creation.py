"""Tensors from nothing: constants, ranges, the identity."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.device import Device
from netcl.errors import ArgumentError
from netcl.ops.composite import as_array
from netcl.ops.shape import as_shape
from netcl.platforms import get_device
from netcl.tensor import Tensor, check_dtype


def full(shape: Any, value: float, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a tensor with the same value everywhere.

    Raises: ShapeError if `shape` is not made of integers from 0, DTypeError if the device has no such dtype

    >>> full((2, 2), 7.0).to_host()
    array([[7., 7.],
           [7., 7.]], dtype=float32)
    """
    target = device if device is not None else get_device()
    wanted = np.dtype(dtype)
    check_dtype(wanted, target)
    return Tensor.full(as_shape("full", shape), value, wanted, target)


def zeros(shape: Any, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype, device)


def ones(shape: Any, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a tensor of ones."""
    return full(shape, 1, dtype, device)


def full_like(a: Any, value: float, dtype: Any = None) -> Tensor:
    """Return a tensor with the same value everywhere, of the shape, dtype and device of another.

    >>> full_like(Tensor.from_host([1.0, 2.0]), 7.0).to_host()
    array([7., 7.], dtype=float32)
    """
    like = as_array(a)
    return full(like.shape, value, like.dtype if dtype is None else dtype, like.device)


def zeros_like(a: Any, dtype: Any = None) -> Tensor:
    """Return zeros of the shape, dtype and device of another tensor."""
    return full_like(a, 0, dtype)


def ones_like(a: Any, dtype: Any = None) -> Tensor:
    """Return ones of the shape, dtype and device of another tensor."""
    return full_like(a, 1, dtype)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: Any = None, device: Device | None = None
) -> Tensor:
    """Return the numbers from `start` (0 if only one is given) up to but not including `stop`.

    Integers give int64, and can index; with a float among the arguments the result is float32.

    Raises: ArgumentError if step is 0

    >>> arange(3).to_host(), arange(1.0, 2.0, 0.5).to_host()
    (array([0, 1, 2]), array([1. , 1.5], dtype=float32))
    """
    bounds = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ArgumentError("arange: step is 0")
    whole = all(isinstance(x, (int, np.integer)) for x in (*bounds, step))
    wanted = np.dtype(dtype) if dtype is not None else np.dtype(np.int64 if whole else np.float32)
    return Tensor.from_host(np.arange(*bounds, step), wanted, device)


def linspace(
    start: float, stop: float, num: int = 50, dtype: Any = np.float32, device: Device | None = None
) -> Tensor:  # fmt: skip
    """Return `num` numbers at equal distances, both ends included.

    >>> linspace(0, 1, 3).to_host()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    return Tensor.from_host(np.linspace(start, stop, num), dtype, device)


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a matrix with ones on diagonal number k and zeros elsewhere, square unless `m` says otherwise.

    >>> eye(2).to_host()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return Tensor.from_host(np.eye(n, m, k, np.bool_), dtype, device)
