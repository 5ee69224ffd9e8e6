"""Tensors from nothing: zeros, ones, full."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl.device import Device
from netcl.errors import ShapeError
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
    lengths = as_shape("full", shape)
    if any(length < 0 for length in lengths):
        raise ShapeError(f"full: no axis has a negative length, as in {lengths}")
    return Tensor.full(lengths, value, wanted, target)


def zeros(shape: Any, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype, device)


def ones(shape: Any, dtype: Any = np.float32, device: Device | None = None) -> Tensor:
    """Return a tensor of ones."""
    return full(shape, 1, dtype, device)
