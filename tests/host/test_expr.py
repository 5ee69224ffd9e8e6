"""Scalar expressions: each reading by itself, and all readings against each other."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netcl import expr
from netcl.errors import ExprError
from netcl.expr import Call, Expr, Num, Var, parse

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}


def python_text(e: Expr) -> str:
    """Write an expression in Python with every parenthesis, independently of the package's own writers."""
    if isinstance(e, Num):
        return f"({e.value!r})"
    if isinstance(e, Var):
        return e.name
    args = [python_text(arg) for arg in e.args]
    if e.fn in BINARY:
        return f"({args[0]} {BINARY[e.fn]} {args[1]})"
    return f"(-{args[0]})" if e.fn == "neg" else f"{e.fn}({', '.join(args)})"


def trees(leaves: st.SearchStrategy[Expr], functions: dict[str, int]) -> st.SearchStrategy[Expr]:
    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        calls = [st.builds(Call, st.just(fn), st.tuples(*[inner] * arity)) for fn, arity in functions.items()]
        return st.one_of(calls)

    return st.recursive(leaves, extend, max_leaves=12)


NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -1.5, 2.0, 0.25])).map(Num)
LEAVES = st.one_of(NUMBERS, st.sampled_from("abc").map(Var))
# IEEE 754 fixes the result of these to the last bit, so that readings can be compared for equality.
EXACT = {"neg": 1, "abs": 1, "floor": 1, "ceil": 1, "round": 1, "sign": 1, "sqrt": 1, "where": 3}
PLAIN: dict[str, Any] = {
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sign": lambda x: (x > 0) - (x < 0),
    "sqrt": math.sqrt,
    "where": lambda c, x, y: x if c else y,
}


# parse


@pytest.mark.parametrize(
    "text, tree",
    [
        ("a", Var("a")),
        (" 2 ", Num(2)),
        ("2.5e-3", Num(0.0025)),
        ("-2", Num(-2)),
        ("+a", Var("a")),
        ("-a", Call("neg", (Var("a"),))),
        ("--2", Num(2)),
        ("a - b - 1", Call("sub", (Call("sub", (Var("a"), Var("b"))), Num(1)))),
        ("a / (b * 2)", Call("div", (Var("a"), Call("mul", (Var("b"), Num(2)))))),
        ("-a * b", Call("mul", (Call("neg", (Var("a"),)), Var("b")))),
        ("a <= 0", Call("less_equal", (Var("a"), Num(0)))),
        ("a != b", Call("not_equal", (Var("a"), Var("b")))),
        ("where(a > 0, a, 0.0)", Call("where", (Call("greater", (Var("a"), Num(0))), Var("a"), Num(0.0)))),
        ("anything(a, 1)", Call("anything", (Var("a"), Num(1)))),
        ("f()", Call("f", ())),
        ("inf", Num(math.inf)),
        ("-inf", Num(-math.inf)),
        ("nan", Num(math.nan)),
        ("pi", Num(math.pi)),
    ],
)
def test_parse(text: str, tree: Expr) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    "text, piece",
    [
        ("a ** 2", "a ** 2"),
        ("1 + a // 2", "a // 2"),
        ("a % 2", "a % 2"),
        ("a @ b", "a @ b"),
        ("a and b", "a and b"),
        ("not a", "not a"),
        ("~a", "~a"),
        ("a < b < c", "a < b < c"),
        ("a is b", "a is b"),
        ("a if b else c", "a if b else c"),
        ("np.exp(a)", "np.exp(a)"),
        ("a.b + 1", "a.b"),
        ("f(x=1)", "f(x=1)"),
        ("f(*a)", "*a"),
        ("a[0]", "a[0]"),
        ("1 + True", "True"),
        ("'a'", "'a'"),
        ("2j * a", "2j"),
        ("(a, b)", "(a, b)"),
        ("(a := 1)", "a := 1"),
        ("lambda: 1", "lambda: 1"),
    ],
)
def test_parse_names_the_text_and_the_piece_outside_the_subset(text: str, piece: str) -> None:
    with pytest.raises(ExprError) as caught:
        parse(text)
    assert repr(piece) in str(caught.value) and repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", "a +", "a b", "(a", "a = 1", "a; b", "a\x00", "1" * 5000])
def test_parse_refuses_what_is_no_expression(text: str) -> None:
    with pytest.raises(ExprError):
        parse(text)


def test_parse_says_how_to_write_a_power() -> None:
    with pytest.raises(ExprError, match=r"pow\(x, y\)"):
        parse("a ** 2")


@pytest.mark.parametrize("text", ["(" * 5000 + "a" + ")" * 5000, "+".join("a" * 100_000)])
def test_parse_refuses_what_is_too_deep(text: str) -> None:
    with pytest.raises(ExprError):
        parse(text)


@given(trees(LEAVES, EXACT | dict.fromkeys(BINARY, 2)))
def test_parse_reads_back_what_python_writes(e: Expr) -> None:
    signs_folded = parse(python_text(e))
    assert parse(python_text(signs_folded)) == signs_folded
    assert expr.variables(signs_folded) == expr.variables(e)


# numbers


def test_numbers_are_equal_when_they_are_written_alike() -> None:
    assert Num(1) != Num(1.0) and Num(0.0) != Num(-0.0)
    assert Num(math.nan) == Num(float("nan")) and hash(Num(math.nan)) == hash(Num(float("nan")))
    assert len({parse("1 + a"), parse("1.0 + a"), parse("1+a")}) == 2


@pytest.mark.parametrize("value, kept", [(np.int64(2), 2), (np.float32(0.5), 0.5), (True, 1), (np.float64(3), 3.0)])
def test_numbers_are_kept_as_python_numbers(value: Any, kept: float) -> None:
    assert Num(value) == Num(kept) and type(Num(value).value) is type(kept)


@pytest.mark.parametrize("value", ["one", None, 1j, 10**400, 10**5000], ids=["str", "None", "complex", "large", "huge"])
def test_only_real_numbers_are_numbers(value: Any) -> None:
    with pytest.raises(ExprError):
        Num(value)


# variables, substitute, simplify


def test_variables_come_in_order_of_first_appearance() -> None:
    assert expr.variables(parse("b * exp(a) + b - out / c")) == ("b", "a", "out", "c")
    assert expr.variables(Num(1)) == ()


def test_substitute_replaces_all_names_at_once() -> None:
    swapped = expr.substitute(parse("a - b * c"), {"a": Var("b"), "b": parse("a + 1")})
    assert swapped == parse("b - (a + 1) * c")


@pytest.mark.parametrize(
    "text, simple",
    [
        ("1 * a", "a"),
        ("a * 1.0", "a"),
        ("a / 1", "a"),
        ("a + 0", "a"),
        ("0 + a", "a"),
        ("a - 0", "a"),
        ("-1 * a", "-a"),
        ("a / -1", "-a"),
        ("--a", "a"),
        ("-(-(-a))", "-a"),
        ("a + -b", "a - b"),
        ("a - -b", "a + b"),
        ("a + -2", "a - 2"),
        ("pow(a, 1)", "a"),
        ("pow(a, 0)", "1"),
        ("pow(1, a)", "1"),
        ("pow(a, 3 - 1)", "pow(a, 2)"),
        ("2 * (3 + 4)", "14"),
        ("1 / 2", "0.5"),
        ("pow(2, 10)", "1024"),
        ("pow(2, -1)", "0.5"),
        ("2 < 3", "1"),
        ("nan == nan", "0"),
        ("where(1 > 2, a, b)", "b"),
        ("where(c, a * 1, a)", "a"),
        ("2 * pow(x + 0, 2 - 1) * 1", "2 * x"),
        # what has to stay as it is
        ("0 * a", "0 * a"),
        ("a - a", "a - a"),
        ("a / a", "a / a"),
        ("0 - a", "0 - a"),
        ("a - 1", "a - 1"),
        ("a + 1", "a + 1"),
        ("1 - a", "1 - a"),
        ("1 / a", "1 / a"),
        ("0 / a", "0 / a"),
        ("pow(a, -1)", "pow(a, -1)"),
        ("pow(0, a)", "pow(0, a)"),
        ("1 / 0", "1 / 0"),
        ("pow(-8, 0.5)", "pow(-8, 0.5)"),
        ("pow(10, 1000)", "pow(10, 1000)"),
        ("2 * (3 * a)", "2 * (3 * a)"),
        ("exp(0)", "exp(0)"),
        ("less(1)", "less(1)"),
        ("pow()", "pow()"),
    ],
)
def test_simplify(text: str, simple: str) -> None:
    assert expr.simplify(parse(text)) == parse(simple)


@given(trees(LEAVES, {"add": 2, "sub": 2, "mul": 2, "neg": 1, "less": 2, "equal": 2, "where": 3}))
def test_simplify_holds_for_nan_and_infinity(e: Expr) -> None:
    odd = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 1e308])
    env = dict(zip("abc", np.meshgrid(odd, odd, odd), strict=True))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(expr.evaluate(expr.simplify(e), env), expr.evaluate(e, env))


def test_every_function_reads_two_hundred_levels() -> None:
    e: Expr = Var("a")
    for _ in range(100):
        e = Call("mul", (Num(0.5), Call("add", (e, Var("a")))))
    assert expr.evaluate(e, {"a": 1.0}) == 1.0
    assert expr.simplify(e) == expr.substitute(e, {"a": Var("a")}) == parse(python_text(e)) == e
    assert len({e, expr.simplify(e)}) == 1
    assert len(repr(e)) > len(expr.to_c(e)) > len(expr.to_text(e)) > 200


# evaluate


@given(
    trees(LEAVES, EXACT | dict.fromkeys(BINARY, 2)),
    st.lists(st.sampled_from([-3.0, -0.75, 0.0, 0.5, 1.0, 2.5]), min_size=3, max_size=3),
)
def test_readings_agree(e: Expr, point: list[float]) -> None:
    env = dict(zip("abc", point, strict=True))
    try:
        expected = float(eval(python_text(e), {**PLAIN, **env}))
    except (ArithmeticError, ValueError):
        assume(False)
        raise
    arrays = {name: np.array([value]) for name, value in env.items()}
    with np.errstate(all="ignore"):
        for reading in (e, expr.simplify(e), parse(python_text(e))):
            np.testing.assert_array_equal(expr.evaluate(reading, env), expected)
            np.testing.assert_array_equal(np.ravel(expr.evaluate(reading, arrays)), [expected])


@pytest.mark.parametrize(
    "text, value",
    [
        ("1 / 2", 0.5),
        ("pow(a, 2)", [4.0, 0.25]),
        ("pow(2, -1)", 0.5),
        ("exp(log(abs(a)))", [2.0, 0.5]),
        ("where(a < 0, -a, a)", [2.0, 0.5]),
        ("(a < 0) + (a < 1)", [2, 1]),
        ("(a > 0) - (a < 0)", [-1, 1]),
        ("-(a < 0)", [-1, 0]),
        ("exp(a < 0)", [math.e, 1.0]),
        ("(1 < 2) + (3 < 4)", 2),
        ("round(a + 3)", [1.0, 4.0]),
        ("erf(a) + erfc(a)", [1.0, 1.0]),
        ("rsqrt(a * a)", [0.5, 2.0]),
        ("arctan2(a, a)", [-0.75 * math.pi, 0.25 * math.pi]),
    ],
)
def test_evaluate(text: str, value: Any) -> None:
    np.testing.assert_allclose(expr.evaluate(parse(text), {"a": np.array([-2.0, 0.5])}), value, rtol=1e-14)


@pytest.mark.parametrize(
    "text", ["a / 2 + 1", "(1 / 3) * a", "sqrt(2 / pi) * a", "erf(a)", "pow(a, -1)", "a * (a > 0)"]
)
def test_constants_take_the_dtype_of_the_array(text: str) -> None:
    assert expr.evaluate(parse(text), {"a": np.ones(2, np.float32)}).dtype == np.float32


def test_a_comparison_of_arrays_is_boolean() -> None:
    assert expr.evaluate(parse("a < 1"), {"a": np.zeros(2)}).dtype == np.bool_


def test_evaluate_with_other_functions_uses_pythons_operators() -> None:
    words = {"exp": lambda x: f"exp[{x}]", "equal": lambda x, y: f"[{x} is {y}]"}
    assert expr.evaluate(parse("exp(a) + exp(b)"), {"a": "x", "b": "y"}, words) == "exp[x]exp[y]"
    assert expr.evaluate(parse("a == b"), {"a": "x", "b": "y"}, words) == "[x is y]"
    with pytest.raises(ExprError, match="'less'"):
        expr.evaluate(parse("a < b"), {"a": 1, "b": 2}, words)


def test_evaluate_names_what_is_missing() -> None:
    with pytest.raises(ExprError, match="'frobnicate'"):
        expr.evaluate(parse("frobnicate(a)"), {"a": 1.0})
    with pytest.raises(ExprError, match=r"'b'.*a"):
        expr.evaluate(parse("a + b"), {"a": 1.0})


# to_c


@pytest.mark.parametrize(
    "text, ctype, c",
    [
        ("1 / 2", "float", "(1.0f / 2.0f)"),
        ("1 / 2", "double", "(1.0 / 2.0)"),
        ("a + 2", "int", "(a + 2)"),
        ("a * 2.0", "long", "(a * 2)"),
        ("-a - -2", "float", "((-a) - (-2.0f))"),
        ("--a", "float", "(-(-a))"),
        ("0.1", "float", "0.1f"),
        ("pi", "float", "3.1415927f"),
        ("pi", "double", "3.141592653589793"),
        ("1e-8 * 1e20", "float", "(1e-08f * 1e+20f)"),
        ("1e300", "float", "(INFINITY)"),
        ("-inf", "float", "(-INFINITY)"),
        ("inf", "double", "((double)INFINITY)"),
        ("nan", "float", "(NAN)"),
        ("pow(a, 2)", "float", "(a * a)"),
        ("pow(a, 5)", "float", "pow(a, 5.0f)"),
        ("abs(a)", "float", "fabs(a)"),
        ("abs(a)", "int", "(a < 0 ? -a : a)"),
        ("round(a)", "double", "rint(a)"),
        ("floor(a)", "int", "a"),
        ("arctan2(a, b)", "float", "atan2(a, b)"),
        ("a <= b", "float", "(a <= b)"),
        ("where(a < 0, exp(a), a + 1)", "float", "((a < 0.0f) ? netcl_exp(a) : (a + 1.0f))"),
        ("where(a, b, 0)", "int", "((a != 0) ? b : 0)"),
        ("where(a - 1, a, b)", "float", "(((a - 1.0f) != 0) ? a : b)"),
        ("(a > 0) - (a < 0)", "float", "((float)(a > 0.0f) - (float)(a < 0.0f))"),
        ("exp(a == b)", "double", "exp((double)(a == b))"),
        ("where(a < b, a < 1, 2)", "float", "((a < b) ? (float)(a < 1.0f) : 2.0f)"),
    ],
)
def test_to_c(text: str, ctype: str, c: str) -> None:
    assert expr.to_c(parse(text), ctype) == c


def test_to_c_puts_names_in() -> None:
    names = {"a": "a[i]", "b": "x + y", "∂x": "dx"}
    assert expr.to_c(parse("a * b - c"), names=names) == "((a[i] * (x + y)) - c)"
    assert expr.to_c(Var("∂x"), names=names) == "dx"


@pytest.mark.parametrize(
    "e, ctype, message",
    [
        (parse("frobnicate(a)"), "float", "'frobnicate'"),
        (Call("matmul", (Var("a"), Var("b"))), "float", "'matmul'"),
        (parse("exp(a, b)"), "float", "exp takes 1 argument, got 2"),
        (parse("pow(a)"), "float", "pow takes 2 arguments, got 1"),
        (parse("pow(a, 2)"), "int", "pow has no reading in integers"),
        (parse("a / 2"), "long", "div has no reading in integers"),
        (parse("exp(a)"), "int", "exp has no reading in integers"),
        (parse("a + 0.5"), "int", "0.5 is not an integer, as int"),
        (parse("a + inf"), "int", "inf is not an integer, as int"),
        (parse("a"), "float16", "'float16'"),
        (Var("my x"), "float", "'my x'"),
    ],
)
def test_to_c_refuses(e: Expr, ctype: str, message: str) -> None:
    with pytest.raises(ExprError, match=message):
        expr.to_c(e, ctype)


C_CASES = [
    *(f"{fn}({', '.join('abc'[: row.arity])})" for fn, row in expr.FUNCTIONS.items()),
    "1 / 2 - a / (b / c)",
    "a - (b - c) - -a",
    "-(a + b) * (c > 1) / ((a < b) + 2)",
    "where(a * b < c, exp(a < 1), pow(b, 2) == 1)",
    "where(nan == a, 1, -inf) + 1e-8",
]
COMPILER = shutil.which("cc")


def compiled(source: str, folder: Path) -> ctypes.CDLL:
    assert COMPILER is not None
    (folder / "cases.c").write_text("#include <tgmath.h>\n#define rsqrt(x) (1 / sqrt(x))\n" + source, encoding="utf-8")
    command = [COMPILER, "-shared", "-fPIC", "-ffp-contract=off", "-o", "cases.so", "cases.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "cases.so"))


# netcl's own float32 functions are OpenCL C (netcl/kernels/functions.py); here C's stand for them.
OWN_FUNCTIONS = "".join(f"#define netcl_{name} {name}f\n" for name in ("exp", "log", "tanh", "erf", "sin", "cos"))
OWN_FUNCTIONS += "#define netcl_sigmoid(x) (1 / (1 + expf(-(x))))\n"


@pytest.mark.skipif(COMPILER is None, reason="no C compiler: the C text is then tested on OpenCL devices alone")
@pytest.mark.parametrize("ctype, rtol", [("float", 1e-5), ("double", 1e-13)])
def test_the_c_text_computes_what_numpy_computes(ctype: str, rtol: float, tmp_path: Path) -> None:
    functions = [
        f"{ctype} case{i}({ctype} a, {ctype} b, {ctype} c) {{ return {expr.to_c(parse(text), ctype)}; }}\n"
        for i, text in enumerate(C_CASES)
    ]
    library = compiled(OWN_FUNCTIONS + "".join(functions), tmp_path)
    number = ctypes.c_float if ctype == "float" else ctypes.c_double
    for i, text in enumerate(C_CASES):
        function = getattr(library, f"case{i}")
        function.restype, function.argtypes = number, [number] * 3
        for a, b, c in [(0.5, 0.25, 3.0), (-0.75, 2.0, -1.0), (math.nan, 0.0, 1.0), (0.0, 1.0, 2.5)]:
            with np.errstate(all="ignore"):
                expected = expr.evaluate(parse(text), {"a": np.float64(a), "b": np.float64(b), "c": np.float64(c)})
            np.testing.assert_allclose(function(a, b, c), expected, rtol=rtol, err_msg=f"{text} at {a}, {b}, {c}")


@pytest.mark.skipif(COMPILER is None, reason="no C compiler: the C text is then tested on OpenCL devices alone")
def test_the_c_text_in_integers(tmp_path: Path) -> None:
    cases: dict[str, Callable[[int, int], int]] = {
        "abs(a - 5) * b": lambda a, b: abs(a - 5) * b,
        "sign(a - b)": lambda a, b: (a > b) - (a < b),
        "where(a < b, floor(a), -b) - (a == b)": lambda a, b: (a if a < b else -b) - (a == b),
        "5000000000 + a": lambda a, b: 5000000000 + a,
        "floor_divide(a, b)": lambda a, b: a // b if b else 0,
        "remainder(a, b)": lambda a, b: a % b if b else 0,
    }
    source = "".join(
        f"long long case{i}(long long a, long long b) {{ return {expr.to_c(parse(text), 'long')}; }}\n"
        for i, text in enumerate(cases)
    )
    library = compiled(source, tmp_path)
    for i, f in enumerate(cases.values()):
        function = getattr(library, f"case{i}")
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_longlong] * 2
        for a, b in [(3, 4), (-2, -7), (5, 5), (0, 1), (-7, 2), (7, -2), (4, 0), (9, -1)]:
            assert function(a, b) == f(a, b)


# to_text


@pytest.mark.parametrize(
    "text, written",
    [
        # numbers
        ("3.0", "3"),
        ("0.1 + 2.50", "0.1 + 2.5"),
        ("1234567", "1234567"),
        ("1 / 3.14159265", "1 / 3.14159"),
        ("1e-8 * x", "1e−08·x"),
        ("pow(1e-8, 2)", "(1e−08)²"),
        ("-2.5", "−2.5"),
        ("inf", "∞"),
        ("-inf", "−∞"),
        ("nan", "nan"),
        ("2 * pi * x", "2πx"),
        # products
        ("3 * y", "3y"),
        ("2 * (x + 1)", "2(x + 1)"),
        ("2 * 3", "2·3"),
        ("2 * -3", "2·(−3)"),
        ("-2 * x", "−2x"),
        ("0 * x", "0·x"),
        ("a * b", "ab"),
        ("a * b * c", "abc"),
        ("a * (b * c)", "abc"),
        ("2 * a * b", "2ab"),
        ("a * 2", "a·2"),
        ("h * w", "hw"),
        ("hid * w", "hid·w"),
        ("3 * loss", "3·loss"),
        ("3 * e5", "3·e5"),
        ("2 * exp(x)", "2·exp(x)"),
        ("a * (x + 1)", "a·(x + 1)"),
        ("(x + 1) * a", "(x + 1)·a"),
        ("(x + 1) * (y + 2)", "(x + 1)(y + 2)"),
        ("exp(x) * (y + 2)", "exp(x)·(y + 2)"),
        ("a * -b", "a·(−b)"),
        ("2 * -b", "2(−b)"),
        ("-a * b", "−ab"),
        ("-(a * b)", "−ab"),
        ("-((a + b) * exp(c)) * (a + 1)", "−(a + b)·exp(c)·(a + 1)"),
        ("2 * (a < b)", "2(a < b)"),
        # quotients
        ("a / b", "a / b"),
        ("a / b * c", "(a / b)·c"),
        ("a / (b * c)", "a / (bc)"),
        ("a * (b / c)", "a·(b / c)"),
        ("a * b / c", "ab / c"),
        ("a / b / c", "a / b / c"),
        ("a / (b / c)", "a / (b / c)"),
        ("-out / b", "−out / b"),
        ("-(a / b)", "−a / b"),
        ("floor_divide(a + 1, b)", "⌊(a + 1) / b⌋"),
        ("-floor_divide(a, b) * c", "−⌊a / b⌋·c"),
        ("remainder(a, b + 1) - 2 * remainder(x, 3)", "(a mod (b + 1)) − 2(x mod 3)"),
        ("-((a + b) / c) * a", "(−(a + b) / c)·a"),
        ("a / -b", "a / (−b)"),
        ("1 / pow(b, 2)", "1 / b²"),
        ("(a + b) / 2", "(a + b) / 2"),
        # sums and signs
        ("a - (b - c)", "a − (b − c)"),
        ("a - (b + c)", "a − (b + c)"),
        ("a - b - c", "a − b − c"),
        ("a + (b - c)", "a + b − c"),
        ("a + -b", "a + (−b)"),
        ("a + -b * c", "a + (−bc)"),
        ("-a + b", "−a + b"),
        ("a - -1", "a − (−1)"),
        ("-(a + b)", "−(a + b)"),
        ("--a", "−(−a)"),
        ("1 - out * out", "1 − out·out"),
        # powers
        ("pow(x + 1, 2)", "(x + 1)²"),
        ("3 * pow(x, 2)", "3x²"),
        ("pow(-x, 2)", "(−x)²"),
        ("-pow(x, 2)", "−x²"),
        ("pow(-2, 2)", "(−2)²"),
        ("pow(x, -1)", "x⁻¹"),
        ("pow(x, 2.0)", "x²"),
        ("pow(x, 10)", "x¹⁰"),
        ("pow(x, 0.5)", "√x"),
        ("sqrt(x + 1)", "√(x + 1)"),
        ("2 * sqrt(x)", "2√x"),
        ("pow(sqrt(x), 2)", "(√x)²"),
        ("pow(x, 1.5)", "x^1.5"),
        ("pow(x, -0.5)", "x^(−0.5)"),
        ("pow(x, a + b)", "x^(a + b)"),
        ("pow(x, pow(y, 2))", "x^(y²)"),
        ("pow(pow(x, 2), 3)", "(x²)³"),
        ("pow(2, x) * y", "2^x·y"),
        ("pow(x, 2) * y", "x²y"),
        ("2 * pow(x, y)", "2x^y"),
        ("pow(a * b, 2)", "(ab)²"),
        ("pow(exp(x), 2)", "exp(x)²"),
        ("pow(a, inf)", "a^∞"),
        # comparisons and calls
        ("a <= b", "a ≤ b"),
        ("a + 1 >= -b", "a + 1 ≥ −b"),
        ("a == b", "a = b"),
        ("(a != b) + 1", "(a ≠ b) + 1"),
        ("(a < b) == (b < c)", "(a < b) = (b < c)"),
        ("exp(-x)", "exp(−x)"),
        ("abs(x + 1)", "|x + 1|"),
        ("abs(x) * abs(y)", "|x|·|y|"),
        ("abs(abs(x) - 1)", "abs(|x| − 1)"),
        ("2 * floor(x)", "2⌊x⌋"),
        ("where(a <= 0, exp(a), a + 1)", "where(a ≤ 0, exp(a), a + 1)"),
        ("sum(z)", "sum(z)"),
        ("f()", "f()"),
    ],
)
def test_to_text(text: str, written: str) -> None:
    assert expr.to_text(parse(text)) == written


def matmul(a: Expr, b: Expr) -> Expr:
    return Call("matmul", (a, b))


A, W, X = Var("A"), Var("W"), Var("x")


@pytest.mark.parametrize(
    "e, written",
    [
        (matmul(X, W), "x @ W"),
        (matmul(matmul(X, W), A), "x @ W @ A"),
        (matmul(X, matmul(W, A)), "x @ (W @ A)"),
        (Call("add", (matmul(X, W), Var("bias"))), "x @ W + bias"),
        (matmul(Call("add", (X, Num(1))), W), "(x + 1) @ W"),
        (matmul(Call("mul", (Num(2), X)), W), "2x @ W"),
        (matmul(X, Call("mul", (Num(2), W))), "x @ (2W)"),
        (Call("mul", (matmul(X, W), A)), "(x @ W)·A"),
        (Call("div", (matmul(X, W), Num(2))), "x @ W / 2"),
        (Call("div", (Num(2), matmul(X, W))), "2 / (x @ W)"),
        (matmul(Call("div", (X, Num(2))), W), "(x / 2) @ W"),
        (matmul(X, Call("pow", (W, Num(2)))), "x @ W²"),
        (Call("pow", (matmul(X, W), Num(2))), "(x @ W)²"),
        (matmul(X, Call("neg", (W,))), "x @ (−W)"),
        (Call("sum", (matmul(X, W),)), "sum(x @ W)"),
    ],
)
def test_to_text_of_matrix_products(e: Expr, written: str) -> None:
    assert expr.to_text(e) == written


@pytest.mark.parametrize(
    "name, sum_, product, power",
    [
        ("loss", "loss + 1", "2·loss", "loss²"),
        ("W[0]", "W[0] + 1", "2·W[0]", "W[0]²"),
        ("net.w", "net.w + 1", "2·net.w", "net.w²"),
        ("λ", "λ + 1", "2λ", "λ²"),
        ("x + y", "(x + y) + 1", "2(x + y)", "(x + y)²"),
        ("<lambda>", "(<lambda>) + 1", "2(<lambda>)", "(<lambda>)²"),
        ("use 2 of 5", "(use 2 of 5) + 1", "2(use 2 of 5)", "(use 2 of 5)²"),
    ],
)
def test_to_text_of_names_that_users_choose(name: str, sum_: str, product: str, power: str) -> None:
    x = Var(name)
    assert expr.to_text(x) == name
    assert expr.to_text(Call("add", (x, Num(1)))) == sum_
    assert expr.to_text(Call("mul", (Num(2), x))) == product
    assert expr.to_text(Call("pow", (x, Num(2)))) == power


TOKENS = re.compile(r"\s*(\d+(?:\.\d+)?|loss|[a-z]|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|[()·/+−<=≤≥≠>])")
TO_PYTHON = {"·": "*", "−": "-", "=": "==", "≤": "<=", "≥": ">=", "≠": "!="}


def read_as_mathematics(text: str) -> str:
    """Turn a written expression into Python by the rules that readers apply: juxtaposition multiplies."""
    python = ""
    ends_a_factor = False
    for token in TOKENS.findall(text):
        if token[0] in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹":
            python += f"**({token.translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789'))})"
            continue
        starts_a_factor = token.isalnum() or token == "("
        python += "*" * (ends_a_factor and starts_a_factor)
        python += f"Fraction({token!r})" if token[0].isdigit() else TO_PYTHON.get(token, token)
        ends_a_factor = token[0].isalnum() or token == ")"
    return python


def with_powers(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = [st.builds(Call, st.just(fn), st.tuples(inner, inner)) for fn in BINARY]
    powers = st.builds(Call, st.just("pow"), st.tuples(inner, st.integers(-2, 3).map(Num)))
    return st.one_of(*pairs, powers, st.builds(Call, st.just("neg"), st.tuples(inner)))


RATIONAL_LEAVES = st.one_of(st.integers(-3, 3).map(Num), st.sampled_from(["a", "b", "loss"]).map(Var))


@given(st.recursive(RATIONAL_LEAVES, with_powers, max_leaves=10))
def test_the_written_text_means_the_expression(e: Expr) -> None:
    """Rational arithmetic is exact, so that a dropped parenthesis that matters changes the value."""
    env = {"a": Fraction(2, 3), "b": Fraction(-5, 7), "loss": Fraction(11, 13), "Fraction": Fraction}
    truth = {fn: eval(f"lambda x, y: Fraction(x {symbol} y)", env) for fn, symbol in BINARY.items() if fn != "div"}
    exact = {**truth, "div": lambda x, y: Fraction(x) / y, "pow": lambda x, n: Fraction(x) ** n}
    try:
        expected = expr.evaluate(e, env, exact)
    except ZeroDivisionError:
        assume(False)
        raise
    assert Fraction(eval(read_as_mathematics(expr.to_text(e)), env)) == expected
