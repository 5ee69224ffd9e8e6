"""What the generated kernels share: their preamble, their operands, and index arithmetic as OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from pyopencl.tools import PooledBuffer

from netcl.kernels.functions import definitions
from netcl.layout import CTYPES, Layout


class Operand(Protocol):
    """What a kernel reads: a buffer and how the elements lie in it."""

    @property
    def layout(self) -> Layout: ...

    @property
    def buffer(self) -> PooledBuffer: ...


class Part:
    """What one pass leaves for the next."""

    def __init__(self, layout: Layout, buffer: PooledBuffer) -> None:
        self.layout = layout
        self.buffer = buffer


def preamble(dtypes: Sequence[np.dtype], body: str = "", *, contract: bool = False) -> str:
    """Return the pragmas, doubles where they occur and no fused multiply-add unless `contract`, and what `body` calls.

    OpenCL C contracts `a * b + c` by default, and `a * a - b` then differs from NumPy in its last bit.
    """
    lines = []
    if any(dtype == np.float64 for dtype in dtypes):
        lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    if not contract:
        lines.append("#pragma OPENCL FP_CONTRACT OFF")
    return "\n".join([*lines, definitions(body)])


def ctype(dtype: np.dtype) -> str:
    """Return the OpenCL C type that a dtype is stored as."""
    return CTYPES[dtype]


def coordinates(name: str, lengths: Sequence[str]) -> str:
    """Return C statements that split the linear index `name` into `name0`, `name1` … over axes of these lengths."""
    lines = [f"long {name}_rest = {name};"]
    for axis in range(len(lengths) - 1, 0, -1):
        lines.append(f"const long {name}{axis} = {name}_rest % {lengths[axis]}; {name}_rest /= {lengths[axis]};")
    if lengths:
        lines.append(f"const long {name}0 = {name}_rest;")
    return "\n    ".join(lines)


def dot(name: str, strides: Sequence[str]) -> str:
    """Return the C expression of an element's place: coordinates `name0`, `name1` … times strides."""
    return " + ".join(f"{name}{axis} * {stride}" for axis, stride in enumerate(strides)) or "0"
