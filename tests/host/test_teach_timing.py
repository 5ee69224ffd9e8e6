"""The time of a lesson: how it is computed, that each core takes 30 to 45 minutes, and stands without what may wait."""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netcl.teach import copies, timing

CURRICULUM = Path(__file__).resolve().parents[2] / "curriculum"
LESSONS = list(copies.copies(CURRICULUM))
KINDS = {"predict", "explain", "debug", "build"}
README = (CURRICULUM / "README.md").read_text(encoding="utf-8")

each = pytest.mark.parametrize("path", LESSONS, ids=[path.name for path in LESSONS])


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def waits(cell: dict[str, Any]) -> bool:
    return timing.TAG in cell["metadata"].get("tags", [])


def core_of(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in load(path)["cells"] if not waits(cell)]


def text(source: str, *tags: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "text", "source": source, "metadata": {"tags": list(tags)}}


def code(source: str, *tags: str, outputs: tuple[Any, ...] = (), **nbgrader: Any) -> dict[str, Any]:
    metadata = {"tags": list(tags), "nbgrader": nbgrader}
    return {"cell_type": "code", "id": "code", "source": source, "metadata": metadata, "outputs": list(outputs)}


def time_of(*cells: dict[str, Any]) -> timing.Minutes:
    return timing.Minutes(*map(sum, zip(*(t.minutes for t in timing.cell_times({"cells": list(cells)})), strict=True)))


# The lessons


@each
def test_the_core_takes_half_an_hour_to_three_quarters(path: Path) -> None:
    core, whole = timing.minutes(load(path))
    assert 30 <= core <= 45, f"python -m netcl.teach.timing {path.name} says where the time goes"
    assert whole <= 75


@each
def test_headings_and_tags_agree_on_what_may_wait(path: Path) -> None:
    assert timing.mismarked(load(path)) == []
    words = [cell["id"] for cell in load(path)["cells"] if re.search("may.wait", "".join(cell["source"]), re.I)]
    marked = [cell["id"] for cell in load(path)["cells"] if re.search(r"^#+ .*\(may wait\)$", source(cell), re.M)]
    assert set(words) - {"title"} == set(marked), "the heading is the one mark"


@each
def test_the_core_has_all_kinds_of_exercises_and_the_frame(path: Path) -> None:
    written = "\n".join(source(cell) for cell in core_of(path) if cell["cell_type"] == "markdown")
    assert set(re.findall(r"^### Exercise \d+\.\d+ · (\w+)", written, re.M)) == KINDS
    for needed in ("# ", "**The question.**", "## Before you start", "## Summary", "## Two questions", "## Sources"):
        assert re.search(f"^{re.escape(needed)}", written, re.M), needed
    kinds = {kind for cell in core_of(path) for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert kinds & {"image/png", "image/svg+xml"}, "a picture is of the core"


@each
def test_the_core_has_what_the_syllabus_names(path: Path) -> None:
    core = " ".join(" ".join(source(cell).split()) for cell in core_of(path))
    row = re.search(rf"\({re.escape(path.name)}\) \| [^|]+ \| ([^|]+) \|", README)
    assert row
    for needed in SYLLABUS[path.name[:2]]:
        assert needed in core, needed
    assert len(row[1].split("; ")) <= len(SYLLABUS[path.name[:2]])


@each
def test_the_core_needs_nothing_that_may_wait(path: Path) -> None:
    assert list(borrowed(load(path)["cells"])) == []


@each
def test_what_need_not_be_read_is_no_exercise(path: Path) -> None:
    unread = [cell for cell in load(path)["cells"] if "need not be read" in source(cell)]
    assert all(
        cell["cell_type"] == "code" and "solution" not in cell["metadata"].get("nbgrader", {}) for cell in unread
    )
    assert all(re.match(r"# \w.*need not be read\.\n", source(cell)) for cell in unread)


@each
def test_times_are_those_that_are_computed(path: Path) -> None:
    lesson = load(path)
    core, whole = map(timing.rounded, timing.minutes(lesson))
    opening = " ".join(source(lesson["cells"][0]).split())
    assert f"**Time**: {timing.sentence(lesson)}" in opening
    assert re.search(rf"\({re.escape(path.name)}\) \|.*\| {core} \| {whole} \|$", README, re.M), (core, whole)


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def borrowed(cells: list[dict[str, Any]]) -> Iterator[str]:
    """Names that a cell of the core takes from one that may wait: the last to bind them before it."""
    binder: dict[str, dict[str, Any]] = {}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        for statement in ast.parse(source(cell)).body:
            table = symtable.symtable(ast.unparse(statement), "cell", "exec")
            bound = {
                symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()
            }
            for name in sorted(read_by(table) - (bound if not isinstance(statement, ast.Assign) else set())):
                if name in binder and waits(binder[name]) and not waits(cell):
                    yield f"{cell['id']} takes {name} from {binder[name]['id']}, which may wait"
            binder.update(dict.fromkeys(bound, cell))


def read_by(table: symtable.SymbolTable) -> set[str]:
    read = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()}
    if table.get_type() == "module":
        read |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    return read.union(*(read_by(child) for child in table.get_children()))


# Words of the core, for each lesson: its figure or interaction, its exercises, its experiment, and its beliefs refuted.
SYLLABUS: dict[str, tuple[str, ...]] = {
    "00": ("nc.devices()", "viz.draw(", "worst < 1e-5", '"OpenCL needs a GPU"'),
    "01": ("teach.interact(secant_picture", "zoom=", '"01.df"', '"a derivative is just a slope at a picture"'),
    "02": ("ax.loglog(h, error", '"02.best_step"', "float64", '"smaller h is always better"'),
    "03": (
        "plot_surface",
        "flat.quiver",
        '"03.units"',
        '"03.shape"',
        '"The gradient points to the minimum"',
        '"Partial derivatives are the whole story"',
    ),
    "04": (
        "paths.draw(1)",
        "2**20",
        '"04.square"',
        '"04.diamond"',
        '"04.order"',
        '"At a fork the last gradient wins"',
        '"Order never matters"',
    ),
    "05": (
        "tangents={a: 1.0, b: 0.5}",
        '"05.rules"',
        '"05.direction"',
        '"Autodiff is symbolic',
        '"Autodiff is finite differences',
    ),
    "06": (
        "viz.step(f, predict=True)",
        '"06.rules"',
        '"06.pairing"',
        "\\langle v, J u\\rangle",
        '"Reverse mode builds Jacobians"',
        '"Backward undoes the function"',
        '"The local derivative is taken at the output"',
        '"The seed is always 1"',
        '"Backprop walks every path"',
    ),
    "07": (
        "inputs n, one output",
        "ms for the Jacobian",
        '"07.crossover"',
        "measured",
        '"Reverse mode is always cheaper"',
    ),
    "08": (
        "teach.interact(beside",
        '"08.record"',
        '"08.multiply"',
        '"08.power"',
        '"08.backward"',
        '"The graph is the source text"',
        '"A Node is a Tensor"',
    ),
    "09": (
        "teach.interact(both",
        "write from into was + came = now",
        '"09.sort"',
        '"09.equals"',
        '"09.alias"',
        '"Recursion will do"',
        '"Gradients zero themselves"',
    ),
    "10": (
        "teach.interact(one_walk",
        '"10.step"',
        '"10.stable"',
        '"backward() updates weights"',
        '"Zero gradient means minimum"',
        "vanish",
    ),
    "11": (
        "shape-flow diagram",
        '"11.unbroadcast"',
        '"11.max"',
        ".mean(",
        '"A gradient may have another shape than its input"',
    ),
    "12": (
        "teach.interact(index_picture",
        '"12.square"',
        '"12.softmax"',
        '"d(A²) = 2A dA"',
        '"Transposes are a matter of luck"',
    ),
    "13": (
        "heat map",
        "viz.trace(logs",
        '"13.matmul"',
        '"13.hunt"',
        '"13.kink"',
        '"NaN starts where it is seen"',
        '"A kink breaks backprop"',
    ),
    "14": (
        "viz.kernels(y, alone=True",
        "viz.timeline(",
        '"14.returns"',
        '"14.benchmark"',
        "Oclgrind",
        '"When Python returns, the kernel is done"',
    ),
    "15": (
        "lanes",
        '"15.leak"',
        '"15.stale"',
        '"15.threads"',
        '"no_grad zeroes gradients"',
        '"The tape is global"',
    ),
    "16": ("viz.memory(loss", "teach.interact(draw", '"16.schedule"', "peak", '"Parameters dominate memory"'),
    "17": (
        "viz.kernels(y",
        "viz.draw(loss",
        '"17.softsign"',
        '"17.squareplus"',
        '"Custom ops mean editing the engine"',
    ),
    "18": ("loss", "boundary", '"18.op"', '"18.falling"', "digits", '"A falling loss proves the gradient right"'),
}


# The model


def test_prose_goes_by_words_and_formulas_have_their_own_time() -> None:
    assert time_of(text("word " * 200)).prose == pytest.approx(1)
    assert time_of(text("$x + y$ $x$ | --- |")).prose == pytest.approx(6 / 60)
    assert time_of(text("$$x\n= y$$")).prose == pytest.approx(10 / 60)
    assert time_of(text("one\n\n## Sources and further reading\n\n- " + "book " * 100)).prose == pytest.approx(1 / 200)


def test_questions_are_answered() -> None:
    asked = (
        "<details><summary>What?</summary>\n\nThis.\n</details>\n\n## Two questions without a computer\n\n1. a\n2. b"
    )
    assert time_of(text(asked)).answering == pytest.approx(1.5)


@pytest.mark.parametrize(("kind", "minutes"), [("predict", 2.5), ("explain", 2.5), ("debug", 3), ("build", 3)])
def test_an_exercise_goes_by_its_kind(kind: str, minutes: float) -> None:
    asked = text(f"### Exercise 1.2 · {kind}")
    solution = code("def f():\n    ### BEGIN SOLUTION\n    a = 1\n    return a\n    ### END SOLUTION\n", solution=True)
    test = code("### BEGIN HIDDEN TESTS\nassert f() == 1\n### END HIDDEN TESTS\ncheck('x', f)", grade=True)
    spent = time_of(asked, solution, test)
    assert spent.answering == pytest.approx(minutes)
    assert spent.code == pytest.approx(4 / 60), "the line that the student sees, and not the tests"


def test_code_is_read_line_by_line_unless_it_says_that_it_need_not_be() -> None:
    assert time_of(code("import x\nfrom x import y\n\nz = f(\n    1,\n)\n")).code == pytest.approx(2 * 4 / 60)
    assert time_of(code("# Draws the picture; need not be read.\nz = 1\nw = 2")).code == 0
    assert time_of(code("z = 1\n# need not be read")).code > 0, "only as the first line"


def test_outputs_are_looked_at() -> None:
    lines = {"output_type": "stream", "text": ["a\n", "b\n"]}
    picture = {"data": {"image/svg+xml": "<svg/>", "text/plain": "a\nb\nc"}}
    widget = {"data": {"text/plain": ["<Interaction: h = 1 at the start>"]}}
    assert time_of(code("f()", outputs=(lines, picture, widget))).looking == pytest.approx((2 + 2 + 20 + 60) / 60)


def test_the_core_is_what_is_not_tagged() -> None:
    core, whole = timing.minutes({"cells": [text("a " * 200), text("b " * 200, timing.TAG)]})
    assert (core, whole) == (pytest.approx(1), pytest.approx(2))


@pytest.mark.parametrize(
    ("core", "waiting", "said"),
    [
        (40, 0, "about 40 minutes."),
        (40, 1, "about 40 minutes, with what is marked *may wait* or without."),
        (40, 9, "about 40 minutes for a first reading, without what is marked *may wait*; about 50 for all of it."),
    ],
)
def test_it_is_said_in_one_way(core: int, waiting: int, said: str) -> None:
    cells = [text("a " * 200 * core)] + [text("b " * 200 * waiting, timing.TAG)] * bool(waiting)
    assert timing.sentence({"cells": cells}) == said


# What finds faults in lessons


def test_a_section_waits_up_to_the_next_heading_of_its_level() -> None:
    tag = timing.TAG
    cells = [text("## A (may wait)", tag), code("1", tag), text("### B", tag), text("## C"), code("1")]
    assert timing.mismarked({"cells": cells}) == []
    assert len(timing.mismarked({"cells": [*cells[:1], code("1"), *cells[2:]]})) == 1
    assert len(timing.mismarked({"cells": [*cells[:3], text("## C", tag), code("1")]})) == 1
    assert "no heading above it has the mark" in timing.mismarked({"cells": [text("## A"), code("1", tag)]})[0]


@pytest.mark.parametrize("source", ["words\n\n## B (may wait)", "## A\n\n### B (may wait)"])
def test_a_section_that_waits_opens_a_cell(source: str) -> None:
    assert "has to open a cell" in timing.mismarked({"cells": [text(source, timing.TAG)]})[0]


@pytest.mark.parametrize("source", ["print(a)", "b = a", "def f():\n    return a", "a = a + 1", "x = [a for _ in b]"])
def test_a_name_from_a_cell_that_may_wait_is_found(source: str) -> None:
    assert len(list(borrowed([code("a = 1"), code("a = 2", timing.TAG), code(source)]))) == 1


@pytest.mark.parametrize("source", ["a = 3\nprint(a)", "for a in b:\n    print(a)", "def f(a):\n    return a", "x.a"])
def test_a_name_of_its_own_is_not(source: str) -> None:
    assert list(borrowed([code("a = 1"), code("a = 2", timing.TAG), code(source)])) == []


def test_the_command_prints_a_table_and_a_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    assert timing.main([str(CURRICULUM)]) == 0
    assert re.findall(r"^(\d\d_\w+) +\d", capsys.readouterr().out, re.M) == [path.stem for path in LESSONS]
    assert timing.main([str(LESSONS[4])]) == 0
    said = capsys.readouterr().out
    assert "Exercise 4.1 · predict" in said and re.search(r"^core +\d", said, re.M) and "(* may wait)" in said
