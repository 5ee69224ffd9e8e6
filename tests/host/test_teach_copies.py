"""The students' copies are those of the lessons as they are, without a solution in them, and run."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from netcl.errors import ArgumentError
from netcl.teach import copies

CURRICULUM = Path(__file__).resolve().parents[2] / "curriculum"
LESSONS = copies.copies(CURRICULUM)
NAMES = [path.name for path in LESSONS]
NBGRADER = importlib.util.find_spec("nbgrader") is not None

each = pytest.mark.parametrize("lesson", LESSONS, ids=NAMES)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_no_copy_is_stale() -> None:
    assert copies.stale(CURRICULUM) == [], "python -m netcl.teach.copies makes them anew"


@pytest.mark.skipif(not NBGRADER, reason="nbgrader is not installed: it comes with the extra `dev`")
@each
def test_a_copy_is_what_nbgrader_makes(lesson: Path) -> None:
    assert LESSONS[lesson].read_text(encoding="utf-8") == copies.student_copy(lesson)


@each
def test_a_copy_gives_nothing_away(lesson: Path) -> None:
    text = LESSONS[lesson].read_text(encoding="utf-8")
    assert re.findall("SOLUTION|HIDDEN TESTS", text) == []
    code = [cell for cell in load(LESSONS[lesson])["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert all("nbval-ignore-output" in cell["metadata"]["tags"] for cell in code)


@each
def test_a_copy_has_the_lesson_s_cells(lesson: Path) -> None:
    full, made = load(lesson)["cells"], load(LESSONS[lesson])["cells"]
    assert [cell["id"] for cell in full] == [cell["id"] for cell in made]
    for before, after in zip(full, made, strict=True):
        solution = before["metadata"].get("nbgrader", {}).get("solution")
        assert ("..." in "".join(after["source"])) or not solution
        if before["metadata"].get("nbgrader", {}).get("locked"):
            assert after["metadata"]["editable"] is False


@each
def test_a_copy_s_links_lead_somewhere(lesson: Path) -> None:
    made = LESSONS[lesson]
    text = "\n".join("".join(cell["source"]) for cell in load(made)["cells"] if cell["cell_type"] == "markdown")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"\w+:|#", link)]
    assert [link for link in links if not (made.parent / link).exists()] == []


def test_the_concept_map_names_every_lesson() -> None:
    text = (CURRICULUM / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d) \| \[[^]]+\]\(((\d\d)_\w+\.ipynb)\) \|.*\| (\d\d) \| (\d\d) \|$", text, re.M)
    assert [number for number, *_ in rows] == [f"{i:02}" for i in range(19)]
    assert all(number == other and 30 <= int(core) <= 45 and core <= whole for number, _, other, core, whole in rows)
    assert set(NAMES) <= {name for _, name, *_ in rows}


@each
def test_the_concept_map_has_the_lesson_s_time(lesson: Path) -> None:
    text = (CURRICULUM / "README.md").read_text(encoding="utf-8")
    minutes = re.search(rf"\({re.escape(lesson.name)}\) \|.*\| (\d+) \| (\d+) \|$", text, re.M)
    opening = "".join(load(lesson)["cells"][0]["source"]).partition("**Time**")[2]
    assert minutes and set(re.findall(r"about\s+(\d+)\b", opening)) == {minutes[1], minutes[2]}


# The staleness test itself


@pytest.fixture
def curriculum(tmp_path: Path) -> Path:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["1"], "outputs": [], "execution_count": 1}
    lesson = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "student").mkdir()
    (tmp_path / "01_a.ipynb").write_text(json.dumps(lesson), encoding="utf-8")
    made = {**lesson, "metadata": {"netcl": {"made_from": copies.digest(lesson)}}}
    (tmp_path / "student/01_a.ipynb").write_text(json.dumps(made), encoding="utf-8")
    return tmp_path


def change(path: Path, **cell: Any) -> None:
    lesson = load(path)
    lesson["cells"][0].update(cell)
    path.write_text(json.dumps(lesson), encoding="utf-8")


def test_another_run_makes_no_copy_stale(curriculum: Path) -> None:
    change(curriculum / "01_a.ipynb", outputs=[{"text": "2"}], execution_count=7, source="1")
    assert copies.stale(curriculum) == []


@pytest.mark.parametrize("cell", [{"source": "2"}, {"id": "b"}, {"metadata": {"tags": ["x"]}}, {"cell_type": "raw"}])
def test_a_changed_lesson_makes_its_copy_stale(curriculum: Path, cell: dict[str, Any]) -> None:
    change(curriculum / "01_a.ipynb", **cell)
    assert copies.stale(curriculum) == ["01_a.ipynb"]


def test_a_missing_copy_and_one_without_a_lesson_are_found(curriculum: Path) -> None:
    (curriculum / "student/01_a.ipynb").rename(curriculum / "student/02_b.ipynb")
    assert copies.stale(curriculum) == ["01_a.ipynb", "student/02_b.ipynb"]


@pytest.mark.skipif(NBGRADER, reason="nbgrader is installed here")
def test_without_nbgrader_it_is_said_what_to_install(curriculum: Path) -> None:
    with pytest.raises(ArgumentError, match=r"pip install \"netcl\[dev\]\""):
        copies.student_copy(curriculum / "01_a.ipynb")


@pytest.mark.skipif(not NBGRADER, reason="nbgrader is not installed: it comes with the extra `dev`")
def test_a_region_that_is_not_closed_is_an_error(curriculum: Path) -> None:
    change(curriculum / "01_a.ipynb", source="### BEGIN SOLUTION\n1", metadata={"nbgrader": {"solution": True}})
    with pytest.raises(RuntimeError, match="no end solution"):
        copies.student_copy(curriculum / "01_a.ipynb")
