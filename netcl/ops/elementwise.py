"""The elementwise ops, a row each: forward expression and local partial derivatives, in the common subset of Python
and C (see expr.py). Rows say which subgradient they take at a kink."""

from __future__ import annotations

from netcl.ops.rows import elementwise

# Arithmetic
add = elementwise("add", "a + b", a="1", b="1", integers=True)
sub = elementwise("sub", "a - b", a="1", b="-1", integers=True, alias=["subtract"])
mul = elementwise("mul", "a * b", a="b", b="a", integers=True, alias=["multiply"])
div = elementwise(
    "div", "a / b", a="1 / b", b="-out / b", domain={"b": (-2, -0.5, 0.5, 2)}, alias=["divide", "true_divide"]
)  # fmt: skip
neg = elementwise("neg", "-a", a="-1", integers=True, alias=["negative"])
pow = elementwise(
    "pow",
    "pow(a, b)",
    a="where(b == 0, 0, b * pow(a, b - 1))",
    b="where(a == 0, where(b >= 0, 0, nan), out * log(a))",
    domain={"a": (0.5, 2), "b": (-2, 3)},
    alias=["power"],
    doc="At b = 0 the result is 1 for every a, so ∂out/∂a is 0 there, at a = 0 too; ∂out/∂b is 0 at a = 0, b ≥ 0, and\n"
    "NaN where a < 0, where no real derivative exists. Integers are computed in float32.",
)

# Exponentials and roots
exp = elementwise("exp", "exp(a)", a="out")
log = elementwise("log", "log(a)", a="1 / a", domain={"a": (0.5, 3)})
sqrt = elementwise(
    "sqrt",
    "sqrt(a)",
    a="0.5 / out",
    domain={"a": (0.5, 3)},
    doc="At 0 the derivative is infinite, as the limit is: d√a/da → ∞ for a → 0.",
)

# Trigonometric and hyperbolic
sin = elementwise("sin", "sin(a)", a="cos(a)")
cos = elementwise("cos", "cos(a)", a="-sin(a)")
tanh = elementwise("tanh", "tanh(a)", a="1 - out * out")
sigmoid = elementwise(
    "sigmoid",
    "1 / (1 + exp(-a))",
    a="out * (1 - out)",
    doc="Finite for every a: exp(-a) overflows to infinity, and 1 / inf is 0.",
)

# Kinks
relu = elementwise("relu", "where(a < 0, 0, a)", a="where(a > 0, 1, 0)", domain={"a": (-2, -0.2, 0.2, 2)},
                   integers=True, doc="At the kink a = 0 the subgradient is 0.")  # fmt: skip
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
