"""The elementwise ops, a row each: forward expression and local partial derivatives, in the common subset of Python
and C (see expr.py). Rows say which subgradient they take at a kink."""

from __future__ import annotations

from operator import index
from typing import Any

from netcl.errors import DTypeError
from netcl.ops.composite import as_array, composite
from netcl.ops.rows import elementwise

# Arithmetic
add = elementwise("add", "a + b", a="1", b="1", integers=True)
sub = elementwise("sub", "a - b", a="1", b="-1", integers=True, alias=["subtract"])
mul = elementwise("mul", "a * b", a="b", b="a", integers=True, alias=["multiply"])
div = elementwise(
    "div", "a / b", a="1 / b", b="-out / b", domain={"b": (-2, -0.5, 0.5, 2)}, alias=["divide", "true_divide"]
)  # fmt: skip
floor_divide = elementwise(
    "floor_divide",
    "floor_divide(a, b)",
    a="0",
    b="0",
    domain={"a": (-2.7, -2.2, 2.2, 2.7), "b": (-1.05, -0.95, 0.95, 1.05)},
    integers=True,
    doc="Rounded down, as in Python: a = b·out + a mod b. The derivatives are 0, at the jumps too, as that of floor\n"
    "is (PyTorch has none here). Integers divided by 0 give 0, as in NumPy.",
)
remainder = elementwise(
    "remainder",
    "remainder(a, b)",
    a="1",
    b="-floor_divide(a, b)",
    domain={"a": (-2.7, -2.2, 2.2, 2.7), "b": (-1.05, -0.95, 0.95, 1.05)},
    integers=True,
    alias=["mod"],
    doc="a − b·⌊a / b⌋, with the sign of b, as in Python. At the jumps the derivatives are those beside them, as in\n"
    "PyTorch. Integers have the remainder 0 where b is 0, as in NumPy.",
)
neg = elementwise("neg", "-a", a="-1", integers=True, alias=["negative"])
pow = elementwise(
    "pow",
    "pow(a, b)",
    a="where(b == 0, 0, b * pow(a, b - 1))",
    b="where(a == 0, where(b >= 0, 0, nan), out * log(a))",
    domain={"a": (0.5, 2), "b": (-2, 3)},
    literals=(-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4),
    alias=["power"],
    doc="At b = 0 the result is 1 for every a, so ∂out/∂a is 0 there, at a = 0 too; ∂out/∂b is 0 at a = 0, b ≥ 0, and\n"
    "NaN where a < 0, where no real derivative exists. Integers are computed in float32.",
)

square = elementwise("square", "a * a", a="2 * a", integers=True)
reciprocal = elementwise("reciprocal", "1 / a", a="-out * out", domain={"a": (-2, -0.5, 0.5, 2)})

# Exponentials and roots
exp = elementwise("exp", "exp(a)", a="out")
exp2 = elementwise("exp2", "exp2(a)", a="0.6931471805599453 * out")
expm1 = elementwise("expm1", "expm1(a)", a="out + 1")
log = elementwise("log", "log(a)", a="1 / a", domain={"a": (0.5, 3)})
log2 = elementwise("log2", "log2(a)", a="1.4426950408889634 / a", domain={"a": (0.5, 3)})
log1p = elementwise("log1p", "log1p(a)", a="1 / (1 + a)", domain={"a": (-0.5, 2)})
sqrt = elementwise(
    "sqrt",
    "sqrt(a)",
    a="0.5 / out",
    domain={"a": (0.5, 3)},
    doc="At 0 the derivative is infinite, as the limit is: d√a/da → ∞ for a → 0.",
)
rsqrt = elementwise("rsqrt", "rsqrt(a)", a="-0.5 * out / a", domain={"a": (0.5, 3)})

# Trigonometric and hyperbolic
sin = elementwise("sin", "sin(a)", a="cos(a)")
cos = elementwise("cos", "cos(a)", a="-sin(a)")
tan = elementwise("tan", "tan(a)", a="1 + out * out", domain={"a": (-1.2, 1.2)})
arcsin = elementwise(
    "arcsin", "arcsin(a)", a="1 / sqrt((1 - a) * (1 + a))", domain={"a": (-0.9, 0.9)}, alias=["asin"]
)  # fmt: skip
arccos = elementwise(
    "arccos", "arccos(a)", a="-1 / sqrt((1 - a) * (1 + a))", domain={"a": (-0.9, 0.9)}, alias=["acos"]
)  # fmt: skip
arctan = elementwise("arctan", "arctan(a)", a="1 / (1 + a * a)", alias=["atan"])
arctan2 = elementwise(
    "arctan2",
    "arctan2(a, b)",
    a="b / (a * a + b * b)",
    b="-a / (a * a + b * b)",
    domain={"a": (-2, -0.5, 0.5, 2)},
    alias=["atan2"],
    doc="The angle of the point (b, a), in (−π, π]. At the origin there is no derivative, and the partials are NaN.",
)
sinh = elementwise("sinh", "sinh(a)", a="cosh(a)")
cosh = elementwise("cosh", "cosh(a)", a="sinh(a)")
tanh = elementwise("tanh", "tanh(a)", a="1 - out * out")
sigmoid = elementwise(
    "sigmoid",
    "1 / (1 + exp(-a))",
    a="out * (1 - out)",
    doc="Finite for every a: exp(-a) overflows to infinity, and 1 / inf is 0.",
)

# Smooth activations, and the error function
erf = elementwise("erf", "erf(a)", a="1.1283791670955126 * exp(-a * a)")
erfc = elementwise("erfc", "erfc(a)", a="-1.1283791670955126 * exp(-a * a)", doc="1 − erf(a), small values kept.")
softplus = elementwise(
    "softplus",
    "where(a > 0, a, 0) + log1p(exp(-abs(a)))",
    a="exp(a - out)",
    doc="log(1 + exp(a)), written so that nothing overflows; the derivative is sigmoid(a) = exp(a − out).",
)
silu = elementwise(
    "silu",
    "a * sigmoid(a)",
    a="sigmoid(a) * (1 + a * sigmoid(-a))",
    alias=["swish"],
    doc="Source:  Ramachandran, Zoph & Le (2017), Searching for Activation Functions",
)
gelu = elementwise(
    "gelu",
    "0.5 * a * erfc(-0.7071067811865476 * a)",
    a="0.5 * erfc(-0.7071067811865476 * a) + 0.3989422804014327 * a * exp(-0.5 * a * a)",
    doc="a Φ(a), where Φ is the normal distribution; erfc keeps small values that 1 + erf would round away.\n"
    "Source:  Hendrycks & Gimpel (2016), Gaussian Error Linear Units",
)
_INNER = "(1.5957691216057308 * a * (1 + 0.044715 * a * a))"
gelu_tanh = elementwise(
    "gelu_tanh",
    f"a * sigmoid({_INNER})",
    a=f"sigmoid({_INNER}) * (1 + a * sigmoid(-{_INNER}) * (1.5957691216057308 + 0.2140644488178072 * a * a))",
    doc="The approximation of gelu as 0.5 a (1 + tanh(√(2/π) (a + 0.044715 a³))); 1 + tanh(u) is 2 sigmoid(2u).",
)

# Kinks
relu = elementwise("relu", "where(a < 0, 0, a)", a="where(a > 0, 1, 0)", domain={"a": (-2, -0.2, 0.2, 2)},
                   integers=True, doc="At the kink a = 0 the subgradient is 0.")  # fmt: skip
leaky_relu = elementwise(
    "leaky_relu",
    "where(a > 0, a, b * a)",
    a="where(a > 0, 1, b)",
    b="where(a > 0, 0, a)",
    domain={"a": (-2, -0.2, 0.2, 2)},
    default={"b": 0.01},
    doc="At the kink a = 0 the subgradient is b, the slope on the left.",
)
elu = elementwise(
    "elu",
    "where(a > 0, a, b * expm1(a))",
    a="where(a > 0, 1, b * exp(where(a > 0, 0, a)))",
    b="where(a > 0, 0, expm1(where(a > 0, 0, a)))",
    domain={"a": (-2, -0.2, 0.2, 2)},
    default={"b": 1.0},
    doc="At a = 0 the subgradient is b, the slope on the left; for b = 1 there is no kink.",
)
clip = elementwise(
    "clip",
    "where(a < b, where(b > c, c, b), where(a > c, c, a))",
    a="where(a < b, 0, where(a > c, 0, 1))",
    b="where(a < b, where(b > c, 0, 1), 0)",
    c="where(a < b, where(b > c, 1, 0), where(a > c, 1, 0))",
    domain={"a": (-2, -1.2, -0.8, 0.8, 1.2, 1.4, 1.7, 2), "b": (-1.1, -0.9, 1.5, 1.6), "c": (0.9, 1.1)},
    integers=True,
    doc="min(max(a, b), c): a between the bounds b and c. At a bound the cotangent goes to a; outside, to the bound.",
)
abs = elementwise("abs", "abs(a)", a="sign(a)", domain={"a": (-2, -0.2, 0.2, 2)}, integers=True, alias=["absolute"],
                  doc="At the kink a = 0 the subgradient is 0.")  # fmt: skip
maximum = elementwise(
    "maximum",
    "where(a >= b, a, where(b >= a, b, a + b))",
    a="where(a > b, 1, where(a == b, 0.5, 0))",
    b="where(b > a, 1, where(a == b, 0.5, 0))",
    domain={"a": (-1.5, -1, 0, 1), "b": (-0.8, -0.2, 1.2, 2)},
    integers=True,
    doc="Where a = b each operand gets half of the cotangent. NaN in either gives NaN, as in NumPy.",
)
minimum = elementwise(
    "minimum",
    "where(a <= b, a, where(b <= a, b, a + b))",
    a="where(a < b, 1, where(a == b, 0.5, 0))",
    b="where(b < a, 1, where(a == b, 0.5, 0))",
    domain={"a": (-1.5, -1, 0, 1), "b": (-0.8, -0.2, 1.2, 2)},
    integers=True,
    doc="Where a = b each operand gets half of the cotangent. NaN in either gives NaN, as in NumPy.",
)

sign = elementwise("sign", "sign(a)", a="0", domain={"a": (-2, -0.2, 0.2, 2)}, integers=True,
                   doc="The derivative is 0, at the jump too.")  # fmt: skip
floor = elementwise("floor", "floor(a)", a="0", domain={"a": (-1.8, -1.2, 0.2, 0.8)}, integers=True,
                    doc="The derivative is 0, at the jumps too.")  # fmt: skip
ceil = elementwise("ceil", "ceil(a)", a="0", domain={"a": (-1.8, -1.2, 0.2, 0.8)}, integers=True,
                   doc="The derivative is 0, at the jumps too.")  # fmt: skip
rint = elementwise("rint", "round(a)", a="0", domain={"a": (-1.4, -0.6, 0.6, 1.4)}, integers=True,
                   doc="Halves go to the even neighbour. The derivative is 0, at the jumps too.")  # fmt: skip


@composite
def round(a: Any, decimals: int | None = 0) -> Any:
    """Round to so many decimals, halves to the even neighbour, as NumPy does; below 0, to tens, hundreds ….

    Math:    out = rint(a · 10ᵈ) / 10ᵈ, d = decimals;  ∂out/∂a = 0, at the jumps too
    Raises:  DTypeError for integers that would be rounded to tens

    >>> round([0.126, 2.5], 2).to_host()
    array([0.13, 2.5 ], dtype=float32)
    """
    a, places = as_array(a), 0 if decimals is None else index(decimals)
    if not places or (places > 0 and a.dtype.kind != "f"):
        return rint(a)
    if a.dtype.kind != "f":
        raise DTypeError(f"round: {a.dtype} to tens and hundreds (decimals={places}) is not exact; use .astype")
    # A Python number, in double precision: `abs` is a row here, and its power one that a device rounds as it likes.
    scale = 10.0**places if places > 0 else 10.0**-places
    return rint(a * scale) / scale if places > 0 else rint(a / scale) * scale


# Choice
where = elementwise(
    "where",
    "where(c, a, b)",
    a="where(c, 1, 0)",
    b="where(c, 0, 1)",
    integers=True,
    mask="c",
    doc="c chooses and gets no gradient. The branch that was not chosen gets the cotangent 0, and 0 · inf is NaN: if\n"
    "its own derivative can overflow, make its input harmless first (the double where):\n"
    "    where(a <= 0, exp(where(a <= 0, a, 0)), a + 1)",
)

# Comparisons: truth values, without a derivative
less = elementwise("less", "a < b", boolean=True)
less_equal = elementwise("less_equal", "a <= b", boolean=True)
greater = elementwise("greater", "a > b", boolean=True)
greater_equal = elementwise("greater_equal", "a >= b", boolean=True)
equal = elementwise("equal", "a == b", boolean=True)
not_equal = elementwise("not_equal", "a != b", boolean=True)

# Logic: a number counts as true where it is not 0, NaN included
logical_and = elementwise("logical_and", "where(a != 0, b != 0, 0)", boolean=True)
logical_or = elementwise("logical_or", "where(a != 0, 1, b != 0)", boolean=True)
logical_xor = elementwise("logical_xor", "(a != 0) != (b != 0)", boolean=True)
logical_not = elementwise("logical_not", "a == 0", boolean=True)
isnan = elementwise("isnan", "a != a", boolean=True)
isinf = elementwise("isinf", "where(a == a, a - a != 0, 0)", boolean=True, doc="inf − inf is NaN, which is not 0.")
isfinite = elementwise("isfinite", "a - a == 0", boolean=True, doc="x − x is 0 unless x is NaN or infinite.")
