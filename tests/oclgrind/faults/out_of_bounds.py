"""Planted: the last work-item writes one element past the end, where netcl's own pool has room to spare."""

from __future__ import annotations

import netcl as nc

SOURCE = """
__kernel void shift(__global const float* x, __global float* out)
{
    const size_t i = get_global_id(0);
    if (i == 0) out[0] = 0;
    out[i + 1] = x[i];
}
"""


def test_a_write_past_the_end() -> None:
    x = nc.Tensor.from_host([1.0, 2.0, 3.0])
    assert nc.kernel(SOURCE)(x, out=x.shape).to_host().tolist() == [0, 1, 2]
