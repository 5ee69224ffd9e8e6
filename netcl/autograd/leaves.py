"""Where graphs begin: leaves."""

from __future__ import annotations

from typing import Any

from netcl.autograd.node import Node
from netcl.autograd.site import here
from netcl.autograd.traced import settled
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError
from netcl.tensor import Tensor


def tensor(
    data: Any, requires_grad: bool = False, dtype: Any = None, device: Device | None = None, name: str | None = None
) -> Any:
    """Copy data to the device: a leaf Node if it requires grad, else a plain Tensor.

    Python numbers and lists become float32, NumPy arrays keep their dtype. Without `name` a picture uses the name of
    the caller's variable. A Tensor is taken as it is, without a copy.

    Raises: DTypeError if integers or booleans are to require grad, or the device has no such dtype; ArgumentError for a
            `name` without `requires_grad`: a Tensor has none

    >>> tensor([1.0, 2.0], requires_grad=True)
    <Node leaf (2,) float32>
    """
    if name is not None and not requires_grad:
        raise ArgumentError(
            f"the name {name!r} is for a node, and without requires_grad=True this is a tensor, which has no name; "
            "pictures show the name of your variable"
        )
    data = settled(data)
    if isinstance(data, Node):
        raise DTypeError(f"tensor() makes leaves from data, not from {data!r}; use .detach() for its value alone")
    if isinstance(data, Tensor):
        value = data if dtype is None or data.dtype == dtype else data.astype(dtype)
    else:
        value = Tensor.from_host(data, dtype, device)
    if not requires_grad:
        return value
    if value.dtype.kind != "f":
        raise DTypeError(
            f"only floating-point tensors can require grad, not {value.dtype}: a derivative with respect to integers "
            "means nothing; pass dtype=np.float32"
        )
    return Node(value, name=name, site=here())
