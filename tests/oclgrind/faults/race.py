"""Planted: all work-items write the same element, each a value of its own."""

from __future__ import annotations

import netcl as nc

SOURCE = """
__kernel void last(__global const float* x, __global float* out)
{
    out[0] = x[get_global_id(0)];
}
"""


def test_many_writes_to_one_element() -> None:
    x = nc.Tensor.from_host([1.0, 2.0, 3.0])
    assert nc.kernel(SOURCE)(x, out=(1,), size=3).to_host()[0] in (1, 2, 3)
