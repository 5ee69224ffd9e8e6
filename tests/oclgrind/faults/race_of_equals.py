"""Planted: two neighbouring groups write the same values to the same elements, in a kernel that should not."""

from __future__ import annotations

import numpy as np

import netcl as nc

SOURCE = """
__kernel void halve(__global const float* x, __global float* out)
{
    const size_t i = get_local_id(0);
    out[i] = x[i];
}
"""


def test_two_writes_of_one_value() -> None:
    x = nc.Tensor.from_host(np.arange(64, dtype=np.float32))
    assert nc.kernel(SOURCE)(x, out=x.shape, size=128).to_host().tolist() == list(range(64))
