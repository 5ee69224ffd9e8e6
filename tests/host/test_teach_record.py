"""What is done is kept in the student's folder, whole, by several notebooks at once, and never lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from netcl import teach
from netcl.teach import checks, files, record
from netcl.teach.record import PROGRESS, Entry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    record._memory.clear()
    checks.forget()
    yield
    record._memory.clear()
    checks.forget()


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / files.RECORD).write_text('{"seed": "7"}', encoding="utf-8")
    (tmp_path / "curriculum").mkdir()
    monkeypatch.chdir(tmp_path / "curriculum")
    return tmp_path


def kept(folder: Path) -> dict[str, Entry]:
    found, sound = record.read(folder / PROGRESS)
    assert sound
    return found


def test_outside_a_course_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not teach.check("06.values", "a")
    assert teach.check("06.values", "d")
    assert list(tmp_path.iterdir()) == []
    assert record.entries()["06.values"].tries == 2
    assert "✓ done, 2 tries" in teach.progress("06").text


def test_the_folder_keeps_tries_and_what_was_met(course: Path) -> None:
    for answer in ("a", "b", "b", "d", "c"):
        teach.check("06.values", answer)
    (entry,) = kept(course).values()
    assert (entry.done, entry.tries) == (True, 5)
    assert entry.rules["the local derivative is taken at the output"] == 2
    assert json.loads((course / PROGRESS).read_text(encoding="utf-8"))["seed"] == "7"
    assert [path.name for path in course.iterdir() if path.name.startswith(".")] == [files.RECORD]


def test_nothing_counts_that_is_no_try(course: Path) -> None:
    teach.check("06.values", ...)
    teach.right("06.values", "d")
    teach.given("06.fork")
    assert not (course / PROGRESS).exists()


def test_the_seed_of_the_folder_varies_the_data(course: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    here = [teach.given(name) for name in ("06.fork", "06.own", "06.seed")]
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert [teach.given(name) for name in ("06.fork", "06.own", "06.seed")] != here


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seed": 3}', '{"exercises": []}', "\x00", "[" * 100_000])
def test_a_broken_file_is_set_aside(course: Path, text: str) -> None:
    (course / PROGRESS).write_text(text, encoding="utf-8")
    assert record.entries() == {}
    teach.check("06.values", "d")
    assert kept(course)["06.values"] == Entry(True, 1)
    assert (course / "netcl-progress.broken.json").read_text(encoding="utf-8") == text
    (course / PROGRESS).write_text("again", encoding="utf-8")
    teach.check("06.values", "d")
    assert (course / "netcl-progress.broken2.json").read_text(encoding="utf-8") == "again"


def test_what_can_be_read_of_a_broken_file_stays(course: Path) -> None:
    body = {"06.fork": {"done": True, "tries": 2, "rules": {}}, "06.own": {"done": "yes"}, "06.seed": 3}
    (course / PROGRESS).write_text(json.dumps({"exercises": body}), encoding="utf-8")
    teach.check("06.values", "d")
    assert set(kept(course)) == {"06.fork", "06.values"}
    assert (course / "netcl-progress.broken.json").exists()


def test_a_crash_while_writing_leaves_the_old_file(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teach.check("06.values", "a")
    before = (course / PROGRESS).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(files.os, "fsync", full)
        result = teach.check("06.values", "d")
    assert result and "could not be kept in netcl-progress.json: No space left on device" in result.text
    assert (course / PROGRESS).read_bytes() == before
    assert record.entries()["06.values"] == Entry(True, 2, {"backward undoes the function": 1})
    teach.check("06.values", "d")
    assert kept(course)["06.values"].tries == 3
    assert sorted(path.name for path in course.iterdir()) == [files.RECORD, "curriculum", PROGRESS]


def test_a_lock_that_is_held_is_said(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.05)
    (course / f".{PROGRESS}.lock").touch()
    assert "another notebook holds" in teach.check("06.values", "d").text


def test_a_lock_that_was_left_behind_is_taken_over(course: Path) -> None:
    lock = course / f".{PROGRESS}.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    teach.check("06.values", "d")
    assert kept(course)["06.values"].done
    assert not lock.exists()


def test_threads_lose_nothing(course: Path) -> None:
    threads = [threading.Thread(target=lambda i=i: record.note(f"06.{i % 4}", "wrong")) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(entry.tries for entry in kept(course).values()) == 24


def test_two_notebooks_lose_nothing(course: Path) -> None:
    code = "import sys; from netcl.teach import record; [record.note(f'06.{i}', 'right') for i in range(20)]"
    code = code.replace("06.{i}", "{sys.argv[1]}.{i}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen([sys.executable, "-c", code, name], cwd=course / "curriculum", env=environment)
        for name in ("06", "07")
    ]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert len(kept(course)) == 40


def test_a_record_that_cannot_be_read_means_the_default_seed(course: Path) -> None:
    for text in ("{", "[]", '{"seed": 3}', "{}"):
        (course / files.RECORD).write_text(text, encoding="utf-8")
        assert record.seed() == "0"


def test_a_folder_above_that_may_not_be_looked_into_is_no_course(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files.Path, "is_file", forbidden)
    assert files.course_folder() is None


def test_a_folder_that_was_deleted_is_no_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(files.Path, "cwd", gone)
    assert files.course_folder() is None
