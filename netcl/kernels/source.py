"""What the generated kernels share: their preamble, their operands, and index arithmetic as OpenCL C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from netcl.kernels.functions import definitions
from netcl.layout import CTYPES, Layout
from netcl.memory import Block


class Operand(Protocol):
    """What a kernel reads: a buffer and how the elements lie in it."""

    @property
    def layout(self) -> Layout: ...

    @property
    def buffer(self) -> Block: ...


class Part:
    """What one pass leaves for the next."""

    def __init__(self, layout: Layout, buffer: Block) -> None:
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


def packed(names: Sequence[str]) -> tuple[str, str, str]:
    """Return the C that makes one struct of the integers a kernel takes: its type, its parameter, and their variables.

    An integer that is alone stays what it is.

    >>> packed(["n", "step"])[2]
    'const long n = numbers.n, step = numbers.step;'
    """
    if len(names) == 1:
        return "", f"const long {names[0]}", ""
    struct = f"typedef struct {{ long {', '.join(names)}; }} Numbers;"
    variables = ", ".join(f"{name} = numbers.{name}" for name in names)
    return struct, "const Numbers numbers", f"const long {variables};"


def coordinates(name: str, lengths: Sequence[str], *, multiplied: bool = False) -> str:
    """Return C statements that split the linear index `name` into `name0`, `name1` … over axes of these lengths.

    With `multiplied` no division is needed: a length `d1` has its numbers of `quotients` in `m_d1` and `s_d1`.
    """
    lines = [f"{'ulong' if multiplied else 'long'} {name}_rest = {name};"]
    for axis in range(len(lengths) - 1, 0, -1):
        length, q = lengths[axis], f"{name}_q{axis}"
        by = f"* (ulong)m_{length} >> s_{length}" if multiplied else f"/ {length}"
        lines.append(f"const {'ulong' if multiplied else 'long'} {q} = {name}_rest {by};")
        lines.append(f"const long {name}{axis} = {name}_rest - {q} * {length}; {name}_rest = {q};")
    if lengths:
        lines.append(f"const long {name}0 = {name}_rest;")
    return "\n    ".join(lines)


def quotients(size: int, lengths: Sequence[int]) -> tuple[int, ...] | None:
    """Return two numbers for each length by which an index below `size` is divided without a division.

    A division takes a CPU longer than most expressions do, and is not vectorised. None if there are too many indices.

    Math:    ⌊i / d⌋ = ⌊i m / 2ˢ⌋ for i < 2³¹, where s = 31 + ⌈log₂ d⌉ and m = ⌈2ˢ / d⌉ ≤ 2³²
    Source:  Granlund & Montgomery 1994, Division by invariant integers using multiplication, theorem 4.2

    >>> m, s = quotients(100, [7])
    >>> 99 * m >> s
    14
    """
    if size > 1 << 31 or 0 in lengths:
        return None
    shifts = [31 + (length - 1).bit_length() for length in lengths]
    return tuple(n for d, s in zip(lengths, shifts, strict=True) for n in (-(-(1 << s) // d), s))


def dot(name: str, strides: Sequence[str]) -> str:
    """Return the C expression of an element's place: coordinates `name0`, `name1` … times strides."""
    return " + ".join(f"{name}{axis} * {stride}" for axis, stride in enumerate(strides)) or "0"
