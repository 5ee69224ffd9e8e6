"""The OpenCL C of every function and operator of the expression language, on the device against NumPy.

All cases of a type are one kernel: compiling is what takes time.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from netcl import expr as ex
from netcl.device import Device
from netcl.expr.tree import ARITHMETIC, COMPARISONS
from netcl.kernels.source import preamble
from netcl.layout import CTYPES
from netcl.tensor import Tensor

FUNCTIONS = [f"{name}({', '.join('abc'[: row.arity])})" for name, row in ex.FUNCTIONS.items()]
INTEGER_FUNCTIONS = [
    text for text, row in zip(FUNCTIONS, ex.FUNCTIONS.values(), strict=True) if row.c_integer is not None
]
ORDERS = [f"a {row.symbol} b" for row in COMPARISONS.values()]
COMPOSED = [
    *(f"a {row.symbol} b" for row in ARITHMETIC.values()),
    "-a",
    "1 / 2 - a / (b / c)",
    "a - (b - c) - -a",
    "-(a + b) * (c > 1) / ((a < b) + 2)",
    "where(a * b < c, exp(a < 1), pow(b, 2) == 1)",
    "where(nan == a, 1, -inf) + 1e-8",
]
# Halves (rounded to even), both sides of every pole, infinities and NaN; the sums of the rest are exact in float32.
POINTS = [0.5, -0.5, 1.0, -1.0, 0.25, 1.5, 2.5, -3.75, 0.0, -0.0, 2.0**-10, math.inf, -math.inf, math.nan]


def run(device: Device, texts: list[str], operands: list[np.ndarray]) -> list[np.ndarray]:
    """Compute every expression of a, b, c at every point, in the operands' dtype."""
    dtype, count = operands[0].dtype, operands[0].size
    ctype = CTYPES[dtype]
    names = {name: f"p_{name}[i]" for name in "abc"}
    stores = [f"out[{row} * n + i] = {ex.to_c(ex.parse(text), ctype, names)};" for row, text in enumerate(texts)]
    parameters = ", ".join(f"__global const {ctype}* p_{name}" for name in "abc")
    lines = "\n    ".join(["const long i = get_global_id(0);", "if (i >= n) return;", *stores])
    source = f"""{preamble([dtype], lines)}
__kernel void cases(__global {ctype}* out, {parameters}, const long n)
{{
    {lines}
}}
"""
    out = Tensor.empty((len(texts), count), dtype, device)
    inputs = [Tensor.from_host(x, device=device) for x in operands]
    args = [out.buffer, *(x.buffer for x in inputs), count]
    device.launch(source, "cases", (None, None, None, None, np.int64), count, args, out.size)
    return list(out.to_host())


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 5e-6), (np.float64, 1e-14)])
def test_every_function_computes_what_numpy_computes(device: Device, dtype: type, rtol: float) -> None:
    if dtype is np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64")
    operands = list(np.array(list(itertools.product(POINTS, POINTS, [1.0, -2.0, 0.0])), dtype).T.copy())
    env = {name: x.astype(np.float64) for name, x in zip("abc", operands, strict=True)}
    texts = [*FUNCTIONS, *ORDERS, *COMPOSED]
    for text, found in zip(texts, run(device, texts, operands), strict=True):
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(ex.evaluate(ex.parse(text), env), found.shape)
        np.testing.assert_allclose(found, expected.astype(dtype), rtol, atol=0, err_msg=text)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_every_function_of_integers_computes_what_numpy_computes(device: Device, dtype: type) -> None:
    values = np.array([0, 1, 2, 3, 7, 100, 255 if dtype is np.uint8 else -5], dtype)
    operands = list(np.array(list(itertools.product(values, values, values)), dtype).T.copy())
    env = dict(zip("abc", operands, strict=True))
    texts = [*INTEGER_FUNCTIONS, *ORDERS, "a + b", "a - b", "a * b", "-a", "where(a < b, c, -a) - (a == b)"]
    for text, found in zip(texts, run(device, texts, operands), strict=True):
        with np.errstate(divide="ignore"):  # what NumPy gives then is given here
            expected = ex.evaluate(ex.parse(text), env).astype(dtype)
        np.testing.assert_array_equal(found, expected, err_msg=text)
