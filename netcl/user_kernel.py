"""A user's own OpenCL kernel, called with tensors and numbers, and checked before it is launched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyopencl as cl

from netcl.device import Device
from netcl.errors import ArgumentError, DeviceError, DTypeError
from netcl.layout import CTYPES, Shape
from netcl.ops.shape import as_shape, contiguous
from netcl.platforms import get_device
from netcl.tensor import Tensor

_SCALARS = {name: dtype for dtype, name in CTYPES.items() if dtype.kind != "b"}


class Parameter(NamedTuple):
    """One parameter of a kernel: a buffer that it reads, a buffer that it writes, or a number."""

    name: str
    dtype: np.dtype
    buffer: bool
    written: bool

    def __str__(self) -> str:
        return f"{'__global ' if self.buffer else ''}{CTYPES[self.dtype]}{'*' if self.buffer else ''} {self.name}"


class Kernel:
    """An OpenCL kernel as a function on tensors; made by `kernel`."""

    def __init__(self, source: str, name: str | None) -> None:
        self.source = source
        self._name = name
        self._parameters: dict[Device, tuple[str, list[Parameter]]] = {}

    def __call__(self, *args: Any, out: Any, size: int | None = None) -> Any:
        """Launch over `size` work-items (by default one per element of the first result); return the results.

        `args` are the kernel's parameters in order, without the buffers that it writes (those that are not `const`):
        tensors for buffers, Python numbers for numbers. `out` is the shape of the result, or a list of shapes if the
        kernel writes several buffers; their dtypes follow from the kernel.

        Raises: ArgumentError, DTypeError or ShapeError naming the parameter, before anything is launched
        """
        tensors = [x for x in args if isinstance(x, Tensor)]
        device = tensors[0].device if tensors else get_device()
        name, parameters = self._signature(device)
        results = self._results(name, parameters, out, device)
        given = [p for p in parameters if not p.written]
        if len(args) != len(given):
            raise ArgumentError(f"{name} takes {', '.join(map(str, given)) or 'nothing'}; {len(args)} arguments came")
        inputs = iter([_argument(name, p, x, device) for p, x in zip(given, args, strict=True)])
        outputs = iter([result.buffer for result in results])
        values = [next(outputs) if p.written else next(inputs) for p in parameters]
        count = size if size is not None else results[0].size
        if not isinstance(count, (int, np.integer)) or count < 0:
            raise ArgumentError(f"{name}: size is a number of work-items, not {count!r}")
        if count:
            arg_types = tuple(None if p.buffer else p.dtype.type for p in parameters)
            device.launch(self.source, name, arg_types, count, values, count, exact=True)
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"<kernel {self._name or '?'}>"

    def _signature(self, device: Device) -> tuple[str, list[Parameter]]:
        """Ask the compiler what the kernel takes."""
        if device not in self._parameters:
            # NVIDIA's driver dies when it is asked for the names of no kernels (seen on an H200).
            if not re.search(r"\b(__)?kernel\b", re.sub(r"//.*|/\*[\s\S]*?\*/", "", self.source)):
                raise ArgumentError("the source has no kernel")
            program = device.build(self.source)
            names = program.kernel_names.split(";")
            name = self._name or names[0]
            if name not in names or (self._name is None and len(names) > 1):
                raise ArgumentError(f"the source has the kernels {', '.join(names)}; choose: kernel(source, name=...)")
            try:
                parameters = _described(program, name)
            except cl.RuntimeError:  # the program is one of pyopencl's cache
                parameters = _described(device.build(self.source, cached=False), name)
            self._parameters[device] = name, parameters
        return self._parameters[device]

    def _results(self, name: str, parameters: list[Parameter], out: Any, device: Device) -> list[Tensor]:
        written = [p for p in parameters if p.written]
        if not written:
            raise ArgumentError(f"{name} writes nothing: all its buffers are const")
        several = isinstance(out, list)
        shapes: Sequence[Shape] = [as_shape(name, shape) for shape in out] if several else [as_shape(name, out)]
        if len(shapes) != len(written):
            raise ArgumentError(
                f"{name} writes {', '.join(map(str, written))}, so `out` is {len(written)} shapes (a list), "
                f"but {len(shapes)} came"
            )
        return [Tensor.empty(shape, p.dtype, device) for shape, p in zip(shapes, written, strict=True)]


def kernel(source: str, name: str | None = None) -> Kernel:
    """Make a function on tensors of an OpenCL kernel.

    `name` chooses among several kernels in the source. Buffers that are `const` are read, the others are results.
    Inputs that are views are copied first, so that a kernel may index them from 0 without gaps.

    Raises: DeviceError with the compiler's words at the first call, if the source does not compile

    >>> import netcl as nc
    >>> cube = kernel('''
    ... __kernel void cube(__global const float* x, const float scale, __global float* out) {
    ...     const size_t i = get_global_id(0);
    ...     out[i] = scale * x[i] * x[i] * x[i];
    ... }''')
    >>> x = nc.Tensor.from_host([1.0, 2.0])
    >>> cube(x, 10.0, out=x.shape).to_host()
    array([10., 80.], dtype=float32)
    """
    return Kernel(source, name)


def _described(program: cl.Program, name: str) -> list[Parameter]:
    built = cl.Kernel(program, name)
    return [_parameter(built, name, i) for i in range(built.num_args)]


def _parameter(built: cl.Kernel, kernel_name: str, i: int) -> Parameter:
    info = cl.kernel_arg_info
    name = str(built.get_arg_info(i, info.NAME))
    written_type = str(built.get_arg_info(i, info.TYPE_NAME))
    space = built.get_arg_info(i, info.ADDRESS_QUALIFIER)
    dtype = _SCALARS.get(written_type.rstrip("*"))
    places = cl.kernel_arg_address_qualifier
    if dtype is None or space == places.LOCAL:
        raise ArgumentError(
            f"{kernel_name}: parameter {name} is {written_type}; netcl passes buffers and numbers of the types "
            f"{', '.join(_SCALARS)}"
        )
    buffer = space in (places.GLOBAL, places.CONSTANT)
    qualifiers = cast(int, built.get_arg_info(i, info.TYPE_QUALIFIER))
    const = space == places.CONSTANT or qualifiers & cl.kernel_arg_type_qualifier.CONST
    return Parameter(name, dtype, buffer, buffer and not bool(const))


def _argument(kernel_name: str, p: Parameter, x: Any, device: Device) -> Any:
    """Return what is passed for a parameter: a buffer without gaps, or a number that fits."""
    if p.buffer:
        if not isinstance(x, Tensor):
            raise ArgumentError(f"{kernel_name}: {p} is a tensor's buffer, but {type(x).__name__} came")
        if x.device is not device:
            raise DeviceError(f"{kernel_name}: {p.name} is on {x.device.name}, the others on {device.name}")
        if x.dtype != p.dtype and not (x.dtype.kind == "b" and p.dtype == np.uint8):
            raise DTypeError(f"{kernel_name}: {p} needs {p.dtype}, but the tensor is {x.dtype}")
        return contiguous(x).buffer
    if isinstance(x, np.generic):
        x = x.item()
    if not isinstance(x, (int, float)):
        raise ArgumentError(f"{kernel_name}: {p} is a number, but {type(x).__name__} came")
    if p.dtype.kind in "iu":
        limits = np.iinfo(p.dtype)
        if isinstance(x, float) or not limits.min <= x <= limits.max:
            raise DTypeError(f"{kernel_name}: {p} is an integer from {limits.min} to {limits.max}, but {x!r} came")
        return int(x)
    return float(p.dtype.type(x))
