"""Functions of float32 that compilers vectorise: arithmetic, selections and integer operations alone.

PoCL's own `exp`, `tanh` … are calls, and a loop with a call in it runs one element at a time. The polynomials are
minimax fits (Lawson's iteration in 40 digits); what is left of error is rounding. `make ulp` measures each over every
float32 there is, and the tests sample every exponent against BOUNDS.

Nothing here may depend on `a * b + c` being fused. No comparison holds for NaN, so NaN goes the way of the numbers and
comes out as NaN: a test for it would be a branch, and what stands under a branch is not vectorised. For the same reason
both sides of a choice are worked out before it, sin's and cos's reduction for the largest numbers too.
Sources: W. J. Cody, W. Waite, Software Manual for the Elementary Functions, 1980 (reductions in parts, whose products
are exact). M. H. Payne, R. N. Hanek, Radian Reduction for Trigonometric Functions, SIGNUM Newsletter 18 (1983) 19-24.
"""

from __future__ import annotations

import re

# Powers are made of operations that round correctly: each result, of mantissa 1 ≤ m < 2, is off by half a unit at most,
# a relative error of 2⁻²⁴ / m. So one operation (a², 1 / a, √a) makes 0.5. Where there are two, the error of the first
# (mantissa m₁) is m / (2 m₁) units of the second (mantissa m), beside that one's own half:
# a³ = a² · a: m / m₁ is a's mantissa or half of it, and 2^(2/3) at most before the product passes 2; 0.79 + 0.5.
# a⁴ = a² · a² and a⁻² = (1 / a) · (1 / a) have the error twice: m / m₁ is m₁ below √2, then m₁ / 2; 1.41 + 0.5.
# a^(−1/2) = 1 / √a: m = 2 / m₁, so it is 1 / m₁² < 1; 1 + 0.5.
_POWER_BOUNDS = {
    "pow -2": 1.92,
    "pow -1": 0.5,
    "pow -0.5": 1.5,
    "pow 0": 0.0,
    "pow 0.5": 0.5,
    "pow 1": 0.0,
    "pow 2": 0.5,
    "pow 3": 1.3,
    "pow 4": 1.92,
}

BOUNDS = {"exp": 1.1, "log": 1.0, "tanh": 2.7, "sigmoid": 2.6, "erf": 1.5, "sin": 0.52, "cos": 0.52, **_POWER_BOUNDS}
"""The largest error of each, in units in the last place, for every float32 whose true result is a normal number.

Powers are alike wherever division and roots round correctly."""

BUILT_IN_BOUNDS = {**BOUNDS, "exp": 3.0, "log": 3.0, "tanh": 5.0, "sigmoid": 6.0, "erf": 16.0, "sin": 4.0, "cos": 4.0}
"""Those of a GPU's own functions, which OpenCL C 3.0 promises (relative error as ULPs); sigmoid's follows."""

IN_FLOAT64 = frozenset({"sin", "cos"})
"""Functions of float32 that compute in float64 on the way: a device without it uses its own."""

# exp(x) = 2ⁿ exp(r), n = round(x / ln 2), |r| ≤ ln(2) / 2. Adding 1.5 · 2²³ rounds to an integer, which then stands in
# the last bits. exp(r) - 1 is kept apart from the 1, for tanh; 2ⁿ is two factors, for results below the normal numbers.
_EXP = """
void netcl_exp_parts(const float x, float* less_one, int* n)
{
    const float t = x * 1.44269504f + 12582912.0f;
    const float k = t - 12582912.0f;
    *n = as_int(t) - 0x4b400000;
    const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    float p = 0.00138131448f;
    p = p * r + 0.00836941879f;
    p = p * r + 0.041668456f;
    p = p * r + 0.166665152f;
    p = p * r + 0.49999994f;
    *less_one = r + r * r * p;
}
float netcl_exp(const float x)
{
    float less_one;
    int n;
    const float below = x > 89.0f ? 89.0f : x;
    netcl_exp_parts(below < -104.0f ? -104.0f : below, &less_one, &n);
    const int half_n = n >> 1;
    return (1.0f + less_one) * as_float((half_n + 127) << 23) * as_float((n - half_n + 127) << 23);
}
"""

# x = m 2ᵉ with √½ ≤ m < √2, f = m - 1; log(1 + f) = f - f²/2 + f³ P(f).
_LOG = """
float netcl_log(const float x)
{
    const int tiny = x < 1.17549435e-38f;
    const int bits = as_int(tiny ? x * 33554432.0f : x) - 0x3f3504f3;
    const float e = (float)((bits >> 23) - (tiny ? 25 : 0));
    const float f = as_float((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    const float z = f * f;
    float p = 0.0674663857f;
    p = p * f - 0.116756514f;
    p = p * f + 0.118881628f;
    p = p * f - 0.124055892f;
    p = p * f + 0.142195523f;
    p = p * f - 0.166679963f;
    p = p * f + 0.200021192f;
    p = p * f - 0.250000089f;
    p = p * f + 0.333333135f;
    const float y = e * 0.693359375f + (f - (0.5f * z - (z * f * p + e * -2.12194440e-4f)));
    const float finite = x == INFINITY ? x : y;
    return x > 0.0f ? finite : (x == 0.0f ? -INFINITY : NAN);
}
"""

# tanh(t) = (exp(2t) - 1) / (exp(2t) + 1), without the 1 ever being added to what is small.
_TANH = """
float netcl_tanh(const float x)
{
    const float t = fabs(x);
    float less_one;
    int n;
    netcl_exp_parts(t > 10.0f ? 20.0f : t + t, &less_one, &n);
    const float scale = as_float((n + 127) << 23);
    const float grown = scale * less_one + (scale - 1.0f);
    return copysign(t < 1e-4f ? t : grown / (grown + 2.0f), x);
}
"""

_SIGMOID = """
float netcl_sigmoid(const float x)
{
    const float e = netcl_exp(-fabs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
"""

# Below 1 an odd polynomial; above, 1 - erfc(t), with log(erfc(t)) / t as a polynomial, the same from 4 on. (As a choice
# of 4 or t that would become a branch: compilers work the rest out for the constant. NaN is the odd polynomial's.)
_ERF = """
float netcl_erf(const float x)
{
    const float t = fabs(x);
    const float z = t * t;
    float p = 7.85386073e-05f;
    p = p * z - 0.000801019371f;
    p = p * z + 0.00518832775f;
    p = p * z - 0.0268538129f;
    p = p * z + 0.112835854f;
    p = p * z - 0.37612626f;
    p = p * z + 0.128379166f;
    const float capped = as_float(min(as_int(t), 0x40800000));
    float q = 1.88515219e-06f;
    q = q * capped - 3.05590111e-05f;
    q = q * capped + 0.000194091408f;
    q = q * capped - 0.000429963664f;
    q = q * capped - 0.00198653853f;
    q = q * capped + 0.0215152726f;
    q = q * capped - 0.10439501f;
    q = q * capped - 0.63598752f;
    q = q * capped - 1.12848711f;
    float less_one;
    int n;
    netcl_exp_parts(q * capped, &less_one, &n);
    const float low = t + t * p, high = 1.0f - (1.0f + less_one) * as_float((n + 127) << 23);
    return copysign(t >= 1.0f ? high : low, x);
}
"""

# x / π - shift = n + f, n an integer, |f| < 0.52: sin(x - shift π) = (-1)ⁿ sin(π f), and cos(x) = sin(x - 3π / 2). Of 1
# / π only those bits count that do not make x / π an even integer (Payne and Hanek): 29 for each of a, b and c, so that
# their products with the 24 of x are exact in float64, and 53 for the rest; from 2⁷⁶ on they are taken from further on.
# Adding 1.5 · 2⁷⁷ rounds to a multiple of 2²⁵, and 1.5 · 2⁵² to an integer, which then stands in the last bits. Near 0,
# f is right to 2⁻⁵⁷; no float32 comes closer than 2⁻³⁰ to a multiple of π / 2 other than 0 (J.-M. Muller, Elementary
# Functions, on reduction). Multiplying and adding at once, where a device can, is faster and changes nothing that
# float32 shows; rounded once, no result is beyond ±1. (With a comparison of |x|, LLVM puts two calls in a kernel into
# vectors of two, and then none of its work-items into longer ones.)
_SIN_SHIFTED = """
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
float netcl_sin_shifted(const float x, const double shift)
{
    #pragma OPENCL FP_CONTRACT ON
    const int far = x >= 0x1p76f | x <= -0x1p76f;
    const double d = (double)x;
    const double whole = d * (far ? 0x1.529fc27p-53 : 0x1.45f306cp-2);
    const double a = whole - ((whole + 0x1.8p77) - 0x1.8p77) - shift;
    const double b = d * (far ? 0x1.5f47d4cp-83 : 0x1.c9c882ap-30);
    const double c = d * (far ? 0x1.377036dp-111 : 0x1.4fe13a8p-60);
    const double rest = d * (far ? 0x1.14acc9e21c821p-140 : 0x1.f47d4d377036ep-87);
    const double n = a + b + c + 0x1.8p52;
    const double f = (a - (n - 0x1.8p52)) + b + c + rest;
    const double r = as_double(as_long(f * 3.14159265358979324) ^ (as_long(n) << 63));
    const double z = r * r;
    double p = -2.38134758e-08;
    p = p * z + 2.7521062966e-06;
    p = p * z - 0.00019840783379503;
    p = p * z + 0.0083333304567377;
    p = p * z - 0.1666666661069110;
    return (float)(r * (1.0 + z * p));
}
#else
#define netcl_sin_shifted(x, shift) (shift == 0 ? sin(x) : cos(x))
#endif
"""

_SIN = """
float netcl_sin(const float x)
{
    return netcl_sin_shifted(x, 0.0);
}
"""

_COS = """
float netcl_cos(const float x)
{
    return netcl_sin_shifted(x, 1.5);
}
"""

# A GPU runs an element in a thread of its own, so nothing is gained by vectors, and its own functions are the quicker.
_BUILT_IN = """
#define netcl_exp exp
#define netcl_log log
#define netcl_tanh tanh
#define netcl_erf erf
#define netcl_sin sin
#define netcl_cos cos
#define netcl_sigmoid(x) (1.0f / (1.0f + exp(-(x))))
"""

_SOURCES = {
    "exp": (_EXP,),
    "log": (_LOG,),
    "tanh": (_EXP, _TANH),
    "sigmoid": (_EXP, _SIGMOID),
    "erf": (_EXP, _ERF),
    "sin": (_SIN_SHIFTED, _SIN),
    "cos": (_SIN_SHIFTED, _COS),
}


def definitions(code: str) -> str:
    """Return the OpenCL C of the functions that some code calls, each once.

    >>> definitions("x + 1.0f")
    ''
    """
    called = [name for name in _SOURCES if re.search(rf"\bnetcl_{name}\(", code)]
    if not called:
        return ""
    own = "".join(dict.fromkeys(part for name in called for part in _SOURCES[name]))
    return f"#if NETCL_PER_ITEM > 1{_BUILT_IN}#else{own}#endif\n"
