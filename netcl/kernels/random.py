"""Random numbers from a counter: element i is a function of a key and of i alone, and the same bits on every device.

A counter-based generator has no state to hand from one work-item to the next, so the numbers do not depend on how a
device splits the work (Salmon, Moraes, Dror & Shaw 2011, Parallel random numbers: as easy as 1, 2, 3; Philox 4x32-10).
Past the integer rounds only conversions, additions and multiplications follow, which IEEE 754 rounds in one way; the
library functions of OpenCL may differ in their last bits, so normals come from polynomials that stand here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from netcl.device import Device
from netcl.kernels.source import ctype, preamble
from netcl.layout import Layout
from netcl.memory import Block

BITS = "bits"
UNIFORM = "uniform"
NORMAL = "normal"
INTEGERS = "integers"

_ARG_TYPES = (None, np.int64, np.uint64, np.uint64, np.uint64, np.uint64)


def draws(program: str, name: str) -> bool:
    """Say whether a kernel is the one that draws random numbers."""
    return name == "draw" and _PHILOX in program


def random(device: Device, kind: str, out: Layout, key: int, stream: int = 0, first: int = 0, span: int = 0) -> Block:
    """Draw a random number for every element; return the buffer of the result.

    Math:    a block of four 32-bit words is philox(counter, key), with the counter stream · 2⁶⁴ + first + its index.
             bits: each word by itself; the other kinds make two elements of a block, of 64 bits w each:
             uniform: ⌊w / 2⁴⁰⌋ / 2²⁴ in float32, ⌊w / 2¹¹⌋ / 2⁵³ in float64, so in [0, 1)
             integers: ⌊w · span / 2⁶⁴⌋, so in [0, span)
             normal: √(−2 ln u) · (cos θ, sin θ), worked out in float32 for both dtypes
    Source:  Salmon et al. 2011; Box & Muller 1958 for normals; Lemire 2019, Fast random integer generation in an
             interval, for integers, whose bias is below span / 2⁶⁴
    """
    buffer = device.pool.allocate(out.nbytes)
    if out.size:
        source = _source(kind, out.dtype)
        device.launch(source, "draw", _ARG_TYPES, out.size, [buffer, out.size, key, first, stream, span], out.size)
    return buffer


_PHILOX = """
uint4 philox(uint4 c, uint2 k)
{
    for (int round = 0; round < 10; round++) {
        const uint low = 0xD2511F53u * c.x, high = mul_hi(0xD2511F53u, c.x);
        const uint low2 = 0xCD9E8D57u * c.z, high2 = mul_hi(0xCD9E8D57u, c.z);
        c = (uint4)(high2 ^ c.y ^ k.x, low2, high ^ c.w ^ k.y, low);
        k += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}
"""

# The polynomials are those of Cephes (Moshier), logf and sinf. A root by Newton's method, since sqrt() of a float may
# be off by 3 units in the last place, and by how much differs between devices.
_NORMAL = """
float logarithm(float x)
{
    const int shifted = as_int(x) + (0x3f800000 - 0x3f3504f3);
    const float e = (float)((shifted >> 23) - 0x7f);
    const float f = as_float((shifted & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const float z = f * f;
    float y = 7.0376836292e-2f;
    y = y * f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    y = y * f * z;
    y = y - 2.12194440e-4f * e;
    y = y - 0.5f * z;
    return (f + y) + 0.693359375f * e;
}

float root(float x)
{
    float y = as_float(0x5f3759df - (as_int(x) >> 1));
    for (int step = 0; step < 4; step++)
        y = y * (1.5f - 0.5f * x * y * y);
    return x * y;
}

float normal(uint4 words, int odd)
{
    const float radius = root(-2.0f * logarithm(((float)words.x + 0.5f) * 0x1p-32f));
    /* A quarter of the circle, and an angle within 45 degrees of its middle. */
    const uint quarter = words.z >> 30;
    const float a = (float)((int)(words.z & 0x3fffffff) - 0x20000000) * 0x1p-30f * 1.57079632679489662f;
    const float z = a * a;
    const float c = 1.0f - 0.5f * z
        + z * z * ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f);
    const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * a + a;
    const uint turn = (quarter + (odd ? 3 : 0)) & 3;
    return radius * (turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s);
}
"""

_VALUES = {
    BITS: "i % 4 == 0 ? words.x : i % 4 == 1 ? words.y : i % 4 == 2 ? words.z : words.w",
    UNIFORM: "(float)(word >> 40) * 0x1p-24f",
    INTEGERS: "mul_hi(word, span)",
    NORMAL: "normal(words, i % 2)",
}
_UNIFORM_DOUBLE = "(double)(word >> 11) * 0x1p-53"


@lru_cache(maxsize=16)
def _source(kind: str, dtype: np.dtype) -> str:
    value = _UNIFORM_DOUBLE if (kind, dtype) == (UNIFORM, np.float64) else _VALUES[kind]
    return f"""{preamble([dtype])}{_PHILOX}{_NORMAL if kind == NORMAL else ""}
__kernel void draw(__global {ctype(dtype)}* out, const long n, const ulong key, const ulong first, const ulong stream,
                   const ulong span)
{{
    const long i = get_global_id(0);
    if (i >= n) return;
    const ulong block = first + i / {4 if kind == BITS else 2};
    const uint4 counter = (uint4)((uint)block, (uint)(block >> 32), (uint)stream, (uint)(stream >> 32));
    const uint4 words = philox(counter, (uint2)((uint)key, (uint)(key >> 32)));
    const ulong word = i % 2 ? (ulong)words.z << 32 | words.w : (ulong)words.x << 32 | words.y;
    out[i] = ({ctype(dtype)})({value});
}}
"""
