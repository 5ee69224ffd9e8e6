"""Planted: every other element of the result is never written, and the next op reads it."""

from __future__ import annotations

import netcl as nc

SOURCE = """
__kernel void thin(__global const float* x, __global float* out)
{
    const size_t i = get_global_id(0);
    if (i % 2 == 0) out[i] = x[i];
}
"""


def test_a_read_of_what_nobody_wrote() -> None:
    x = nc.Tensor.from_host([1.0, 2.0, 3.0])
    assert (nc.kernel(SOURCE)(x, out=x.shape) + 1.0).to_host()[::2].tolist() == [2, 4]
