"""The parts of a picture that need no graph: text, numbers, names, formulas, colours."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netcl import expr as ex
from netcl.errors import ArgumentError
from netcl.ops.table import OPS
from netcl.viz import palette, values, wording
from netcl.viz.names import find_names
from netcl.viz.symbolic import tidy
from netcl.viz.text import clean, isolate, shorten, width, xml
from netcl.viz.values import number, view

HOSTILE = [
    "<lambda> <map>", "a\\", "n:1", "x < y", '"q"', "</svg><script>", "𝛁", "עברית", "🙂", "&amp;", "]]>",
    "\x00\x07\x1b[31m", "a\u202eb", "\ud800", "\ufffe", "tab\tnew\nline", "e\u0301", "'; --",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_user_types_is_read_back_as_typed(text: str) -> None:
    element = ET.fromstring(f'<t a="{xml(text)}">{xml(text)}</t>')
    fences = dict.fromkeys(map(ord, "\u2068\u2069"))
    assert (element.text or "").translate(fences) == clean(text)
    assert element.attrib["a"].translate(fences) == clean(text)


@given(st.text())
def test_any_text_is_well_formed_and_keeps_what_can_be_seen(text: str) -> None:
    element = ET.fromstring(f"<t>{xml(text)}</t>")
    kept = [char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")]
    shown = [char for char in element.text or "" if unicodedata.category(char) not in ("Cf", "Cn")]
    assert [char for char in shown if not char.isspace()] == [char for char in kept if not char.isspace()]


@given(st.text(max_size=60), st.floats(0, 300), st.booleans(), st.booleans())
def test_a_shortened_text_fits(text: str, room: float, bold: bool, mono: bool) -> None:
    cut = shorten(text, room, 12.0, bold=bold, mono=mono)
    assert width(cut, 12.0, bold=bold, mono=mono) <= max(room, width("…", 12.0, bold=bold, mono=mono))
    assert cut == text or cut.endswith("…")


def test_right_to_left_names_are_fenced() -> None:
    assert isolate("x = שם + 1") == "x = \u2068שם\u2069 + 1"
    assert isolate("plain") == "plain"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (273.0, "273"), (-0.0, "−0"), (0.0, "0"), (1e-38, "1e−38"), (1e20, "1e20"), (float("nan"), "NaN"),
        (float("inf"), "∞"), (float("-inf"), "−∞"), (1 / 3, "0.3333"), (-2.5, "−2.5"), (12345.678, "1.235e4"),
        (0.99999, "1.000"), (True, "True"), (7, "7"), (2**40, "1.1e12"), (99999.0, "99999"), (100000.0, "1e5"),
    ],
)  # fmt: skip
def test_numbers_are_short_and_do_not_look_rounder_than_they_are(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(width=32))
def test_every_number_is_short(value: float) -> None:
    assert len(number(value)) <= 10


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_number_is_what_it_says(value: float) -> None:
    read = float(number(value).replace("−", "-"))
    assert read == pytest.approx(value, rel=1e-3, abs=1e-45)
    assert not (read.is_integer() and "." not in number(value) and "e" not in number(value)) or value.is_integer()


def test_arrays_by_size() -> None:
    small = view(np.arange(6, dtype="f4").reshape(2, 3))
    assert small.cells == (("0", "1", "2"), ("3", "4", "5"))
    assert small.line() == "[0 1 2; 3 4 5]"
    assert small.tints[1][2] == 1.0
    large = view(np.linspace(-1, 1, 10**6, dtype="f4").reshape(1000, 1000))
    assert not large.cells and len(large.bars) == 16
    assert dict(large.stats)["min"] == "−1"
    assert view(np.ones((1000, 1000))).line() == "1 at every entry"
    assert view(np.zeros((0, 3))).line() == "empty (0, 3)"
    assert view(np.array(3.5)).line() == "3.5"


_ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-45, 1e38, 99999.6, 0.99999]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (8, 8), (2, 3, 4), (64,), (9, 1), (1, 9)], ids=str)
def test_few_numbers_are_seen_as_many_are(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    draws = [rng.normal(size=shape), rng.choice(_ODD, shape), rng.choice([0.0, -0.0], shape), np.full(shape, np.nan),
             np.full(shape, 2.5), rng.integers(-2, 3, shape)]  # fmt: skip
    for drawn in draws:
        with np.errstate(over="ignore"):
            array = np.asarray(drawn, np.float64).astype(dtype)
        few, many = values._view_of_few(array), values._view_of_any(array)
        assert repr(few) == repr(many)
        assert (few.numbers is None) == (many.numbers is None)


def test_what_is_not_finite_has_a_badge() -> None:
    assert view(np.array([1.0, np.nan, np.inf])).badge == "1 of 3 NaN · 1 of 3 Inf"
    assert view(np.array(np.nan)).badge == "NaN"
    assert view(np.full(100, np.nan)).stats == (("finite", "none"),)
    assert view(np.array([np.finfo("f8").max, -np.finfo("f8").max])).badge == ""


def test_zeros_of_two_signs_are_not_one_number() -> None:
    assert view(np.array([0.0, -0.0])).uniform is None
    assert view(np.array([-0.0, -0.0])).uniform == "−0"


def named(things: dict[str, Any], *wanted: Any) -> list[str | None]:
    found = find_names({id(x): x for x in wanted}, iter([things]))
    return [found.get(id(x)) for x in wanted]


def test_names_are_variables_then_members() -> None:
    a, b, c, d = (object() for _ in range(4))
    layer = SimpleNamespace(W=b, _hidden=d)
    things = {"layers": [layer], "params": {"c": c}, "a": a, "again": a, "_": d, "__": b, "Out": {1: d}}
    assert named(things, a, b, c, d) == ["a", "layers[0].W", "params['c']", None]


def test_a_name_that_was_shadowed_is_not_used() -> None:
    inner, outer = object(), object()
    found = find_names({id(inner): inner, id(outer): outer}, iter([{"x": inner}, {"x": outer}]))
    assert found == {id(inner): "x"}


def test_containers_that_hold_themselves_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert named({"loop": loop}, object()) == [None]


def test_looking_for_names_runs_no_code_of_the_user() -> None:
    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("looked up")

        @property
        def value(self) -> Any:
            raise AssertionError("called")

    assert named({"trap": Trap()}, object()) == [None]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("3 * (2 * (x + 1))", "6(x + 1)"),
        ("b + a + a", "b + 2a"),
        ("x * x", "x²"),
        ("1 - out * out", "1 − out²"),
        ("a - a", "0"),
        ("2 * a - 3 * a", "−a"),
        ("-(-a)", "a"),
        ("1 * b", "b"),
        ("0.5 * (2 * x)", "x"),
    ],
)
def test_formulas_gather_like_terms(source: str, text: str) -> None:
    e = tidy(ex.parse(source))
    assert e is not None and ex.to_text(e) == text


@given(st.integers(0, 10**6), st.floats(-2, 2), st.floats(-2, 2))
def test_a_tidied_formula_has_the_same_value(seed: int, a: float, b: float) -> None:
    rng = np.random.default_rng(seed)
    parts = ["a", "b", "2", "(a + b)", "(a - 3 * b)", "(-a)", "(a * b)", "1"]
    source = "".join(str(rng.choice(parts)) + op for op in rng.choice([" + ", " - ", " * "], 4)) + "a"
    e = tidy(ex.parse(source))
    assert e is not None
    values = {"a": a, "b": b}
    assert ex.evaluate(e, values) == pytest.approx(ex.evaluate(ex.parse(source), values), abs=1e-9)


def test_a_long_formula_is_given_up() -> None:
    assert tidy(ex.parse(" + ".join(f"x{i}" for i in range(10)))) is None


def test_parameters_are_written_as_typed_and_never_as_addresses() -> None:
    assert wording.attributes(OPS["sum"], {"axis": 0, "keepdims": False}) == ["axis=0"]
    assert wording.literal((slice(1, None), 0, Ellipsis, None)) == "(1:, 0, ..., None)"
    assert wording.literal(object()) == "<object>"
    assert wording.literal(np.dtype("float32")) == "float32"


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "text"),
    [
        ("add", ["x", "1"], None, "x + 1"),
        ("relu", ["x"], None, "relu(x)"),
        ("mul", ["x", "x"], None, "x²"),
        ("matmul", ["x", "W"], {}, "x @ W"),
        ("affine", ["x", "W", "b"], {}, "x @ W + b"),
        ("sum", ["z"], {"axis": 0, "keepdims": False}, "sum(z, axis=0)"),
        ("getitem", ["x"], {"key": (slice(None), 0)}, "x[:, 0]"),
        ("getitem", ["a + b"], {"key": -1}, "(a + b)[−1]"),
        ("transpose", ["W"], {"axes": None}, "Wᵀ"),
        ("reshape", ["x"], {"shape": (2, 3)}, "reshape(x, (2, 3))"),
        ("<lambda> <map>", ["x"], None, "<lambda> <map>(x)"),
    ],
)
def test_expressions(op: str, operands: list[str], attrs: Any, text: str) -> None:
    assert ex.to_text(wording.expression(op, [ex.parse(each) for each in operands], attrs)) == text


@pytest.mark.parametrize(
    ("op", "operands", "position", "text"),
    [
        ("add", ["x", "1"], 0, "+ 1"), ("mul", ["3", "y"], 1, "× 3"), ("sub", ["a", "b"], 1, "a −"),
        ("sub", ["a", "b - c"], 0, "− (b − c)"), ("pow", ["x + 1", "2"], 0, "( )²"), ("div", ["a", "b"], 0, "÷ b"),
        ("matmul", ["x", "W"], 0, "@ W"), ("matmul", ["x", "W"], 1, "x @"), ("tanh", ["x"], 0, "tanh"),
    ],
)  # fmt: skip
def test_maps_forward(op: str, operands: list[str], position: int, text: str) -> None:
    assert wording.forward(op, [ex.parse(each) for each in operands], position, None) == text


def test_every_structural_op_has_a_rule_that_can_be_written() -> None:
    for op in OPS.values():
        refs = {arg: wording.Ref.of(arg, (2, 3), "float32") for arg in (*op.args, "out")}
        for arg in op.edges:
            rule = wording.structural_rule(op, arg, refs, dict.fromkeys(op.attr_names), 6)
            assert rule and "{" not in rule, f"{op.name}, operand {arg}: {rule}"


@pytest.mark.parametrize("theme", palette.THEMES)
@pytest.mark.parametrize(("text", "ground"), palette.PAIRS)
def test_text_has_contrast(theme: str, text: str, ground: str) -> None:
    colours = palette.theme(theme)
    assert palette.contrast(colours[text], colours[ground]) >= 4.5


def test_an_unknown_theme_is_refused() -> None:
    with pytest.raises(ArgumentError, match="light, dark, not 'neon'"):
        palette.theme("neon")
