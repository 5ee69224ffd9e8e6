"""The course is laid into a student's folder, and nothing that the student wrote is ever lost."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from netcl.errors import ArgumentError
from netcl.teach import course, record

LESSON = "curriculum/06-reverse-mode.ipynb"
QUICK = "notebooks/quickstart.ipynb"


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    root = tmp_path / "shipped"
    ship_lesson(root, 1)
    ship(root, QUICK, "quickstart, version 1")
    write(root, "curriculum/data/moons.csv", "1,2\n")
    write(root, "curriculum/.ipynb_checkpoints/06-checkpoint.ipynb", "not part of the course")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "of the student" / "course"


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def ship(root: Path, name: str, text: str) -> None:
    """Write a notebook of one executed cell."""
    output = {"output_type": "stream", "name": "stdout", "text": "the answer"}
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": text, "outputs": [output], "execution_count": 3}
    write(root, name, json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def ship_lesson(root: Path, version: int) -> None:
    """Write a lesson with its solution, and the student's copy of it."""
    ship(root, LESSON, f"lesson, version {version}, solved")
    ship(root, LESSON.replace("curriculum", "curriculum/student"), f"lesson, version {version}")
    made = root / LESSON.replace("curriculum", "curriculum/student")
    made.write_bytes(course._without_outputs(made.read_bytes()))


def read(root: Path, name: str) -> str:
    """Return a file's text; of a notebook that was shipped, the source of its cell."""
    text = (root / name).read_text(encoding="utf-8")
    return json.loads(text)["cells"][0]["source"] if '"cells"' in text else text


def outputs(root: Path, name: str) -> list[Any]:
    (cell,) = json.loads((root / name).read_text(encoding="utf-8"))["cells"]
    return [*cell["outputs"], cell["execution_count"]]


def test_notebooks_come_without_answers_and_solutions_with_them(shipped: Path, folder: Path) -> None:
    course.lay(folder, solutions=True, root=shipped)
    assert outputs(folder, LESSON) == [None]
    assert outputs(folder, QUICK) == [None]
    assert outputs(folder, LESSON.replace("curriculum", "solutions"))[1] == 3


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_lays_every_lesson_with_its_data_and_nothing_else(shipped: Path, folder: Path) -> None:
    laid = course.lay(folder, root=shipped)
    assert names(folder) == {LESSON, QUICK, "curriculum/data/moons.csv", course.RECORD}
    assert read(folder, LESSON) == "lesson, version 1"
    assert sorted(laid.written) == ["curriculum/06-reverse-mode.ipynb", "curriculum/data/moons.csv", QUICK]


def test_a_second_run_writes_nothing(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    before = (folder / LESSON).stat().st_mtime_ns
    laid = course.lay(folder, root=shipped)
    assert (laid.written, laid.updated, laid.kept, laid.fresh) == ([], [], [], [])
    assert (folder / LESSON).stat().st_mtime_ns == before


def test_work_is_kept_and_a_newer_lesson_is_laid_beside_it(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    ship_lesson(shipped, 2)
    laid = course.lay(folder, root=shipped)
    beside = "curriculum/06-reverse-mode.new.ipynb"
    assert laid.beside == {LESSON: beside}
    assert read(folder, LESSON) == "my answers"
    assert read(folder, beside) == "lesson, version 2"
    assert f"{LESSON} has your work and was kept; the newer lesson is {beside}" in laid.summary()


def test_work_on_an_unchanged_lesson_is_kept_in_silence(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    laid = course.lay(folder, root=shipped)
    assert (laid.kept, laid.beside) == ([LESSON], {})
    assert "06-reverse-mode.new.ipynb" not in " ".join(names(folder))


def test_a_newer_lesson_is_offered_once(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    ship_lesson(shipped, 2)
    course.lay(folder, root=shipped)
    (folder / "curriculum/06-reverse-mode.new.ipynb").unlink()
    assert course.lay(folder, root=shipped).beside == {}


def test_an_untouched_lesson_is_brought_up_to_date(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    ship_lesson(shipped, 2)
    laid = course.lay(folder, root=shipped)
    assert laid.updated == [LESSON]
    assert read(folder, LESSON) == "lesson, version 2"


def test_work_in_the_newer_lesson_is_kept_too(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    ship_lesson(shipped, 2)
    course.lay(folder, root=shipped)
    write(folder, "curriculum/06-reverse-mode.new.ipynb", "my answers, continued")
    ship_lesson(shipped, 3)
    laid = course.lay(folder, root=shipped)
    assert laid.beside == {LESSON: "curriculum/06-reverse-mode.new2.ipynb"}
    assert read(folder, "curriculum/06-reverse-mode.new.ipynb") == "my answers, continued"
    assert read(folder, "curriculum/06-reverse-mode.new2.ipynb") == "lesson, version 3"


def test_an_untouched_offer_gives_way_to_a_newer_one(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    for version in (2, 3):
        ship_lesson(shipped, version)
        course.lay(folder, root=shipped)
    assert read(folder, "curriculum/06-reverse-mode.new.ipynb") == "lesson, version 3"
    assert "curriculum/06-reverse-mode.new2.ipynb" not in names(folder)


@pytest.mark.parametrize("damage", ["", "{", "[]", None], ids=["empty", "cut", "not a mapping", "gone"])
def test_without_its_record_every_differing_file_counts_as_work(
    shipped: Path, folder: Path, damage: str | None
) -> None:
    course.lay(folder, root=shipped)
    if damage is None:
        (folder / course.RECORD).unlink()
    else:
        write(folder, course.RECORD, damage)
    ship_lesson(shipped, 2)
    laid = course.lay(folder, root=shipped)
    assert read(folder, LESSON) == "lesson, version 1"
    assert laid.beside == {LESSON: "curriculum/06-reverse-mode.new.ipynb"}
    assert set(json.loads(read(folder, course.RECORD))) >= {LESSON, QUICK}


def test_a_deleted_lesson_comes_back(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    (folder / LESSON).unlink()
    assert course.lay(folder, root=shipped).written == [LESSON]


def test_solutions_lie_in_a_folder_of_their_own(shipped: Path, folder: Path) -> None:
    course.lay(folder, root=shipped)
    write(folder, LESSON, "my answers")
    laid = course.lay(folder, solutions=True, root=shipped)
    assert "solutions/06-reverse-mode.ipynb" in laid.written
    assert read(folder, "solutions/06-reverse-mode.ipynb") == "lesson, version 1, solved"
    assert read(folder, LESSON) == "my answers"


def test_a_lesson_alone_is_laid_with_what_it_needs(shipped: Path, folder: Path) -> None:
    ship(shipped, "curriculum/student/07-costs.ipynb", "another")
    laid = course.lay(folder, root=shipped, lesson="6")
    assert names(folder) == {LESSON, "curriculum/data/moons.csv", course.RECORD}
    assert laid.lesson == LESSON
    laid = course.lay(folder, root=shipped, lesson="06", solutions=True)
    assert laid.written == ["solutions/06-reverse-mode.ipynb", "solutions/data/moons.csv"]


@pytest.mark.parametrize("lesson", ["8", "", "six", "006"])
def test_a_lesson_that_is_not_there_is_named(shipped: Path, folder: Path, lesson: str) -> None:
    with pytest.raises(ArgumentError, match=f"no lesson '{lesson}'; the lessons are 06"):
        course.lay(folder, root=shipped, lesson=lesson)
    assert not folder.exists()


def test_the_seed_is_kept_until_another_is_given(shipped: Path, folder: Path) -> None:
    assert course.lay(folder, root=shipped).seed is None
    assert "numbers of" not in course.lay(folder, root=shipped).summary()
    assert course.lay(folder, root=shipped, seed="Ada Lovelace").seed == "Ada Lovelace"
    assert "those of 'Ada Lovelace'" in course.lay(folder, root=shipped).summary()
    assert record.seed(folder / "curriculum") == "Ada Lovelace"
    course.lay(folder, root=shipped, seed="3")
    assert record.seed(folder) == "3"


def test_a_student_s_links_lead_where_those_of_the_lesson_do(shipped: Path, folder: Path) -> None:
    name = "curriculum/student/06-reverse-mode.ipynb"
    write(shipped, name, '{"cells": [{"source": ["see [ops](../../docs/ops.md), [05](../05.ipynb)"]}]}')
    course.lay(folder, root=shipped)
    assert "see [ops](../docs/ops.md), [05](05.ipynb)" in (folder / LESSON).read_text(encoding="utf-8")


def test_a_crash_while_writing_leaves_the_old_file(
    shipped: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.lay(folder, root=shipped)
    ship_lesson(shipped, 2)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        course.lay(folder, root=shipped)
    assert read(folder, LESSON) == "lesson, version 1"
    assert not [name for name in names(folder) if name.endswith(".tmp")]


def test_a_file_where_the_folder_should_be_is_named(shipped: Path, tmp_path: Path) -> None:
    write(tmp_path, "notes", "mine")
    with pytest.raises(ArgumentError, match="notes is a file"):
        course.lay(tmp_path / "notes", root=shipped)


def test_a_folder_where_a_lesson_should_be_is_named(shipped: Path, folder: Path) -> None:
    (folder / LESSON).mkdir(parents=True)
    with pytest.raises(ArgumentError, match="is a folder"):
        course.lay(folder, root=shipped)


def test_an_installation_without_lessons_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no lessons"):
        course.course_files(root=tmp_path)


def test_netcl_ships_the_quickstart_and_the_lesson_on_reverse_mode() -> None:
    files = course.course_files()
    assert QUICK in files
    assert any(name.startswith("curriculum/06") for name in files)
    assert "curriculum/data/digits.npz" in files and "solutions/data/digits.npz" in course.course_files(solutions=True)
    assert all(json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4 for path in notebooks(files))


def notebooks(files: dict[str, Path]) -> list[Path]:
    return [path for name, path in files.items() if name.endswith(".ipynb")]


def test_laid_notebooks_are_trusted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    notary = pytest.importorskip("nbformat.sign").NotebookNotary
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    laid = course.lay(folder)
    notebook = nbformat.read(folder / QUICK, as_version=4)
    assert not notary().check_signature(notebook)
    course.trust(laid.fresh)
    assert notary().check_signature(notebook)
