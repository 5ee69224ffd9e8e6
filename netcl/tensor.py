"""Tensor: an array in device memory. It knows its buffer and how its elements lie there, and nothing of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from netcl import layout as lay
from netcl.device import Device
from netcl.errors import DTypeError, ShapeError
from netcl.layout import Layout, Shape
from netcl.memory import Block
from netcl.methods import ArrayMethods
from netcl.platforms import get_device

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


class Tensor(ArrayMethods):
    """An array on an OpenCL device: a buffer with shape, strides (bytes), dtype and offset (bytes).

    Views share the buffer. No element is ever changed once the tensor exists, so sharing is invisible.

    >>> Tensor.from_host([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """

    __slots__ = ("buffer", "device", "layout")

    def __init__(self, layout: Layout, buffer: Block, device: Device) -> None:
        self.layout = layout
        self.buffer = buffer
        self.device = device

    @classmethod
    def from_host(cls, array: ArrayLike, dtype: DTypeLike | None = None, device: Device | None = None) -> Tensor:
        """Copy an array to the device.

        Python numbers and lists become float32 (booleans stay booleans); NumPy arrays, and what says how it becomes one
        (`__array__`: PyTorch's tensors on the CPU, say), keep their dtype.

        Raises: DTypeError for a dtype that OpenCL has no type for, float64 on a device without it, or nodes in a list;
                ShapeError for lists of different lengths

        >>> Tensor.from_host([1, 2]).dtype
        dtype('float32')
        """
        if isinstance(array, (list, tuple)) and _holds_graph(array):
            raise DTypeError("a list of nodes would lose their graph here: join them with ag.stack, or .detach() them")
        try:
            given = np.asarray(array)
        except ValueError as error:  # lists of different lengths
            raise ShapeError(f"this {type(array).__name__} is not an array: {error}") from None
        if given.dtype.kind not in "biuf":
            raise DTypeError(f"a tensor holds real numbers or booleans, not {type(array).__name__} of {given.dtype}")
        if dtype is not None:
            wanted = np.dtype(dtype)
        elif hasattr(array, "__array__") or given.dtype.kind == "b":
            wanted = given.dtype.newbyteorder("=")
        else:
            wanted = np.dtype(np.float32)
        target = device if device is not None else get_device()
        check_dtype(wanted, target)
        host = np.ascontiguousarray(given, dtype=wanted).reshape(given.shape)  # ascontiguousarray makes 0-d 1-d
        result = cls.empty(host.shape, wanted, target)
        if host.size:
            target.write(result.buffer, host)
        return result

    @classmethod
    def empty(cls, shape: Shape, dtype: np.dtype, device: Device) -> Tensor:
        """Return a tensor whose elements are whatever the memory held, to be filled by a kernel."""
        layout = lay.contiguous(shape, dtype)
        return cls(layout, device.pool.allocate(layout.nbytes), device)

    @classmethod
    def full(cls, shape: Shape, value: float, dtype: np.dtype, device: Device) -> Tensor:
        """Return a tensor with the same value everywhere."""
        result = cls.empty(shape, dtype, device)
        if result.size:
            device.fill(result.buffer, np.full((), value, dtype), result.nbytes)
        return result

    def to_host(self) -> np.ndarray:
        """Copy to a fresh NumPy array. Waits until everything that writes this tensor has run.

        >>> Tensor.from_host([1.0, 2.0]).to_host()
        array([1., 2.], dtype=float32)
        """
        layout = self.layout
        if not layout.size:
            return np.empty(layout.shape, layout.dtype)
        if layout.contiguous:
            host = np.empty(layout.shape, layout.dtype)
            self.device.read(host, self.buffer, layout.offset)
            return host
        # Bring over the stretch of memory that the view spans, and let NumPy pick the elements.
        low = sum(min(stride * (n - 1), 0) for n, stride in zip(layout.shape, layout.strides, strict=True))
        high = sum(max(stride * (n - 1), 0) for n, stride in zip(layout.shape, layout.strides, strict=True))
        span = np.empty((high - low) // layout.dtype.itemsize + 1, layout.dtype)
        self.device.read(span, self.buffer, layout.offset + low)
        return np.ndarray(layout.shape, layout.dtype, span, -low, layout.strides).copy(order="C")

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self.layout.shape

    @property
    def strides(self) -> Shape:
        """Bytes from one element to the next along each axis."""
        return self.layout.strides

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the elements."""
        return self.layout.dtype

    @property
    def offset(self) -> int:
        """Bytes from the start of the buffer to the first element."""
        return self.layout.offset

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.layout.size

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take, without gaps."""
        return self.layout.nbytes

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.layout.ndim

    @property
    def queue(self) -> cl.CommandQueue:
        """The command queue that the next kernel of this tensor's device would follow."""
        return self.device.queue

    def view(self, layout: Layout) -> Tensor:
        """Return a tensor over the same buffer."""
        return Tensor(layout, self.buffer, self.device)

    def detach(self) -> Tensor:
        """Return itself: a tensor is never part of a graph."""
        return self

    def __repr__(self) -> str:
        return f"<Tensor {self.shape} {self.dtype} on {self.device.name}>"


def _holds_graph(values: Sequence[Any]) -> bool:
    """Say whether something in nested lists is more than a tensor: a node, say."""
    return any(
        _holds_graph(x) if isinstance(x, (list, tuple)) else isinstance(x, ArrayMethods) and not isinstance(x, Tensor)
        for x in values
    )


def check_dtype(dtype: np.dtype, device: Device) -> None:
    """Raise a DTypeError unless `device` can hold and compute this dtype."""
    if dtype not in lay.CTYPES:
        raise DTypeError(f"tensors hold float32, float64, integers or bool, not {dtype}")
    if dtype == np.float64 and not device.has_fp64:
        raise DTypeError(f"{device.name} has no float64 (cl_khr_fp64); convert to float32, or choose another device")
