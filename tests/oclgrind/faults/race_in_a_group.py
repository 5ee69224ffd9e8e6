"""Planted: under a name that may write elements twice, from two groups, neighbours in one group do."""

from __future__ import annotations

import numpy as np

import netcl as nc

SOURCE = """
__kernel void elementwise(__global const float* x, __global float* out)
{
    const size_t i = get_global_id(0) / 2;
    out[i] = x[i];
}
"""


def test_two_writes_of_one_value() -> None:
    x = nc.Tensor.from_host(np.arange(64, dtype=np.float32))
    assert nc.kernel(SOURCE)(x, out=x.shape, size=128).to_host().tolist() == list(range(64))
