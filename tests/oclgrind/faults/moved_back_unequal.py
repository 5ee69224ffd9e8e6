"""Planted: the last group is moved back over the one before, and computes other values than that did."""

from __future__ import annotations

import numpy as np

import netcl as nc

SOURCE = """
__kernel void elementwise(__global const float* x, __global float* out)
{
    const long i = min((long)get_group_id(0) * 64, 100L - 64) + get_local_id(0);
    out[i] = x[i] + get_group_id(0);
}
"""


def test_an_element_that_is_computed_twice() -> None:
    x = nc.Tensor.from_host(np.arange(100, dtype=np.float32))
    assert nc.kernel(SOURCE)(x, out=x.shape, size=128).to_host()[:36].tolist() == list(range(36))
