"""Planted: a read one element past the end of what an op made, where netcl's own pool has room to spare."""

from __future__ import annotations

import netcl as nc

SOURCE = """
__kernel void shift(__global const float* x, __global float* out)
{
    const size_t i = get_global_id(0);
    out[i] = x[i + 1];
}
"""


def test_a_read_past_the_end() -> None:
    x = nc.Tensor.from_host([1.0, 2.0, 3.0])
    assert nc.kernel(SOURCE)(x + x, out=x.shape).to_host()[:2].tolist() == [4, 6]
