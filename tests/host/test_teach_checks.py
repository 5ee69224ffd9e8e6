"""`check` answers in words, `figure` has words beside it, `interact` shows what goes wrong; none of them fails."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netcl import teach
from netcl.errors import ArgumentError
from netcl.teach import checks, exercises, record
from netcl.teach.answers import Choice, Formula, Function, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.figures import Picture
from netcl.teach.interaction import Interaction

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    record._memory.clear()
    checks.forget()
    yield
    record._memory.clear()
    checks.forget()


def planted(**changes: Any) -> Exercise:
    fields: dict[str, Any] = {
        "name": "99.sum",
        "kind": "predict",
        "asks": "a <b> & c",
        "answer": Number(lambda d: d.a + 3),
        "right": (),
        "because": "Both `count` <i>.",
        "wrong": (
            Wrong("first", lambda d: d.a, ("one is <off>", "the `rule`", "a parallel")),
            Wrong("second", 3, ("off too", "another rule", "another parallel")),
        ),
        "data": lambda rng: {"a": rng.randint(10, 99)},
    }
    return Exercise(**{**fields, **changes})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exercise]:
    found = {"99.sum": planted()}
    monkeypatch.setattr(exercises, "find", lambda name: found[name])
    return found


def test_a_right_answer_says_why(known: dict[str, Exercise]) -> None:
    result = teach.check("99.sum", teach.given("99.sum").a + 3)
    assert result and repr(result) == "<99.sum: right>"
    assert result.text == "✓ 99.sum: right\n  Both count <i>."
    assert "Both <code>count</code> &lt;i&gt;." in result.html
    assert set(result._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_hints_go_on_when_the_same_rule_is_met_again(known: dict[str, Exercise]) -> None:
    a = teach.given("99.sum").a
    first = [teach.check("99.sum", a) for _ in range(4)]
    assert [result.level for result in first] == [1, 2, 3, 3]
    assert [len(result.lines) for result in first] == [1, 2, 3, 3]
    assert first[1].text == "✗ 99.sum: not yet · hint 2 of 3\n  one is <off>\n  the rule"
    assert teach.check("99.sum", 3).lines == ("off too",)
    teach.check("99.sum", 1.5)
    assert teach.check("99.sum", 3).level == 2


def test_the_unanswered_says_what_is_asked(known: dict[str, Exercise]) -> None:
    for answer in (..., None, [1, ...]):
        result = teach.check("99.sum", answer)
        assert not result and result.lines == ("Predict: a <b> & c", "A number.")
    assert teach.check("99.sum").state == "unanswered"
    known["99.sum"] = planted(answer=Choice("a", {"a": "It <adds>", "b": "It sets"}))
    assert teach.check("99.sum").lines[1:] == ("a: It <adds>", "b: It sets")
    assert "<adds>" not in teach.check("99.sum").html


def test_a_remark_on_the_kind_is_not_denied_to_be_a_hint() -> None:
    listed = Function(lambda d: lambda n: [n], cases=lambda rng: [(n,) for n in range(5)], returns="a list of one")
    exercise = planted(answer=listed, right=(lambda d: lambda n: [n],), wrong=())
    assert checks.check(exercise, lambda n: n).text.endswith("(0) gives 0; a list of one is asked for.")
    assert "none of the hints" not in checks.check(exercise, lambda n: n).text
    assert "none of the hints" in checks.check(exercise, lambda n: [n + 1]).text


def test_silent_checks_do_not_count(known: dict[str, Exercise], capsys: pytest.CaptureFixture[str]) -> None:
    a = teach.given("99.sum").a
    assert teach.right("99.sum", a + 3) and not teach.right("99.sum", a) and not teach.right("99.sum")
    assert teach.check("99.sum", a).level == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "broken",
    [
        planted(answer=Number(lambda d: d.missing)),
        planted(wrong=(Wrong("broken", lambda d: 1 / 0, ("x", "y", "z")),)),
        planted(wrong=(Wrong("a text", "seven", ("x", "y", "z")),)),
        planted(data=lambda rng: rng.missing),
        planted(answer=Function(lambda d: abs, cases=lambda rng: [(1 / 0,)])),
    ],
    ids=["answer", "rule", "rule's answer", "data", "cases"],
)
def test_a_fault_of_the_checker_is_its_own(known: dict[str, Exercise], broken: Exercise) -> None:
    known["99.sum"] = broken
    result = teach.check("99.sum", abs if isinstance(broken.answer, Function) else 5.5)
    assert result.state == "fault"
    assert result.text.startswith("! 99.sum: the checker failed; your answer may be right\n")
    assert "Please report this" in result.text
    assert record.entries() == {}


def test_an_unknown_name_says_which_there_are() -> None:
    with pytest.raises(
        ArgumentError, match=r"no exercise is called '06\.frok'; is '06\.fork' meant\?.* 06\.entry, 06\.fork"
    ):
        teach.check("06.frok", 1)
    with pytest.raises(ArgumentError, match=r"no lesson '99' has exercises; those that have: .*06"):
        teach.given("99.x")
    with pytest.raises(ArgumentError, match="is a text such as"):
        teach.right(6, 1)  # type: ignore[arg-type]


def test_a_check_loads_the_exercises_of_its_lesson_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from netcl.teach import check; check('06.values', 'd'); "
        "print(*sorted(name for name in sys.modules if 'exercises.lesson' in name), 'sympy' in sys.modules)"
    )
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [
        "netcl.teach.exercises.lesson_06",
        "netcl.teach.exercises.lesson_06_rules",
        "False",
    ]


def test_without_sympy_a_formula_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, Exercise]
) -> None:

    monkeypatch.setitem(sys.modules, "sympy", None)
    known["99.sum"] = planted(answer=Formula("2*x"))
    assert 'SymPy, which is not installed: pip install "netcl[lab]"' in teach.check("99.sum", "x + x").text


def test_data_are_the_same_on_every_machine_and_differ_by_seed() -> None:
    exercise = planted()
    assert exercise.given(0) == exercise.given("0")
    assert exercise.given(0).a == 57
    assert len({exercise.given(seed).a for seed in range(20)}) > 10


@pytest.mark.parametrize("hints", [("a", "b"), ("a", "b", " "), ("a", "b", "c", "d"), ("a", 2, "c")])
def test_a_rule_has_three_hints(hints: Any) -> None:
    with pytest.raises(ArgumentError, match="three hints"):
        Wrong("rule", 1, hints)


def test_the_kind_is_one_of_four() -> None:
    with pytest.raises(ArgumentError, match="predict, explain, debug, build"):
        planted(kind="guess")


# Progress


def test_progress_lists_every_exercise() -> None:
    every = teach.progress()
    assert len(every.rows) == sum(len(exercises.lesson(number)) for number in exercises.lessons())
    teach.check("06.values", "d")
    teach.check("06.own", 3)
    own = teach.progress("06")
    assert own.summary == f"1 of {len(own.rows)} exercises done" and repr(own) == f"<Progress: {own.summary}>"
    assert [row.state for row in own.rows if row.tries] == ["✓ done, 1 try", "✗ not yet, 1 try"]
    assert "✗ not yet, 1 try" in own.text and "✓ done, 1 try" in own.html
    assert "<script" not in own.html and own.html.count("<tr>") == len(own.rows) + 1


# Figures and sliders


def drawn(h: float = 1.0) -> Any:
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(4, 3))
    figure.add_subplot().plot([0, h], [0, 1])
    if h > 1.9:
        raise ValueError("h is <too> large")
    return figure


def test_a_figure_has_words_wherever_they_are_read() -> None:
    picture = teach.figure(drawn(), alt='A line  from "0"\nto <1>')
    assert str(picture) == 'A line from "0" to <1>'
    bundle, metadata = picture._repr_mimebundle_()
    assert bundle["text/plain"] == picture.alt
    assert 'alt="A line from &quot;0&quot; to &lt;1&gt;"' in bundle["text/html"]
    assert metadata["image/png"] == {"alt": picture.alt, "width": 400}
    assert picture.png.startswith(b"\x89PNG") and struct.unpack(">II", picture.png[16:24]) == (400, 300)


def test_a_figure_is_the_same_on_every_run() -> None:
    assert teach.figure(drawn(), alt="a line").png == teach.figure(drawn(), alt="a line").png


def test_the_alternative_text_reaches_a_reader_of_the_html(tmp_path: Path) -> None:
    nbformat, nbconvert = pytest.importorskip("nbformat.v4"), pytest.importorskip("nbconvert")
    bundle, metadata = teach.figure(drawn(), alt="A line to 1.")._repr_mimebundle_()
    output = nbformat.new_output("execute_result", data=bundle, metadata=metadata, execution_count=1)
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell("figure()", outputs=[output], execution_count=1)])
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert 'alt="A line to 1."' in page and "No description" not in page


@pytest.mark.parametrize("alt", ["", "  \n", None, 3])
def test_a_figure_needs_words(alt: Any) -> None:
    with pytest.raises(ArgumentError, match="needs words"):
        teach.figure(drawn(), alt=alt)


def moved() -> Interaction:
    return teach.interact(drawn, alt=lambda h: f"A line to {h:.2f} & <more>.", h=(0.01, 2.0, 0.5))


def test_sliders_move_the_picture_and_its_words() -> None:
    shown = moved()
    assert repr(shown) == "<Interaction: h = 0.5 at the start>"
    static = shown.static
    shown.sliders["h"].value = 1.25
    assert shown.picture.alt == "A line to 1.25 & <more>." and "A line to 1.25 &amp; &lt;more&gt;." in shown.shown.value
    assert shown.static is static and shown.picture.png != static.png
    assert repr(shown) == "<Interaction: h = 0.5 at the start>"
    shown.reset.click()
    assert shown.values == {"h": 0.5} and shown.picture.png == static.png


def test_what_goes_wrong_after_a_move_is_shown_and_the_picture_stays() -> None:
    shown = moved()
    before = shown.picture
    shown.sliders["h"].value = 1.95
    assert "<b>ValueError</b>: h is &lt;too&gt; large" in shown.error.value
    assert shown.picture is before
    shown.sliders["h"].value = 0.6
    assert shown.error.value == ""


def test_a_static_picture_stands_beside_the_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    told: list[Any] = []
    monkeypatch.setattr(display, "display", lambda bundle, **options: told.append(bundle))
    moved()._ipython_display_()
    static, note, live = told
    assert set(note) == {"text/html"} and "run the cell" in note["text/html"]
    assert set(static) == {"text/plain", "text/html", "image/png"}
    assert live["text/plain"] == "<Interaction: h = 0.5 at the start>"
    assert "application/vnd.jupyter.widget-view+json" in live
    json.dumps(told)


@pytest.mark.parametrize(
    "ranges", [{}, {"h": 1}, {"h": (0, 1)}, {"h": (1, 0, 0.5)}, {"h": (0, 1, 2)}, {"h": (0, 0, 0)}, {"h": ("a", 1, 2)},
               {"h": (0, float("inf"), 1)}]
)  # fmt: skip
def test_what_is_no_range_is_said(ranges: Any) -> None:
    with pytest.raises(ArgumentError):
        teach.interact(drawn, alt=lambda **values: "a line", **ranges)


def test_the_first_picture_must_be_drawn() -> None:
    with pytest.raises(ValueError, match="too"):
        teach.interact(drawn, alt=lambda h: "a line", h=(0, 2, 1.95))


def test_names_that_are_not_there_are_no_attributes() -> None:
    assert teach.interact.__name__ == "interact" and isinstance(teach.figure(drawn(), alt="x"), Picture)
    with pytest.raises(AttributeError, match=r"netcl\.teach has no 'nothing'"):
        teach.nothing  # noqa: B018
