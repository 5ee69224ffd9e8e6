"""Planted: the last element of a vector is never written, and a sum of its halves reads it."""

from __future__ import annotations

import numpy as np

import netcl as nc
from netcl.kernels.fold_vectors import _WIDTH

SOURCE = """
__kernel void all_but_one(__global const float* x, __global float* out)
{
    const size_t i = get_global_id(0);
    if (i != 30) out[i] = x[i];
}
"""


def test_a_sum_of_what_nobody_wrote() -> None:
    x = nc.Tensor.from_host(np.arange(4 * _WIDTH, dtype=np.float32))
    assert nc.kernel(SOURCE)(x, out=x.shape).sum().shape == ()
