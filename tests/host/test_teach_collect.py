"""`netcl collect`: a class's progress in one table, whatever lies among the files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from netcl import cli
from netcl.errors import ArgumentError
from netcl.teach.collect import collect
from netcl.teach.record import PROGRESS


def progress(path: Path, entries: dict[str, tuple[bool, int]], seed: str = "0") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {name: {"done": d, "tries": n, "rules": {}} for name, (d, n) in entries.items()}
    path.write_text(json.dumps({"seed": seed, "exercises": body}), encoding="utf-8")


@pytest.fixture
def group(tmp_path: Path) -> Path:
    progress(tmp_path / "ada" / PROGRESS, {"06.fork": (True, 2), "06.own": (False, 5)}, seed="ada")
    progress(tmp_path / "bo" / "netcl-course" / PROGRESS, {"06.fork": (True, 1), "99.new": (True, 1)})
    progress(tmp_path / f"cy_123_{PROGRESS}", {})
    return tmp_path


def table(text: str) -> dict[str, dict[str, Any]]:
    return {row["student"]: row for row in csv.DictReader(text.splitlines())}


def test_each_student_is_a_row(group: Path) -> None:
    found = collect(group)
    assert found.complaints == []
    rows = table(found.csv)
    assert list(rows) == ["ada", "bo/netcl-course", "cy_123_netcl-progress"]
    assert [rows["ada"][key] for key in ("seed", "done", "tries")] == ["ada", "1", "7"]
    assert [rows["ada"][key] for key in ("06.fork", "06.fork tries", "06.own", "06.own tries")] == ["1", "2", "0", "5"]
    assert [rows["ada"]["99.new"], rows["bo/netcl-course"]["99.new"]] == ["", "1"]
    assert rows["cy_123_netcl-progress"]["06.fork"] == ""
    assert "06.rules" in rows["ada"]  # no one has tried it yet


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "null", '{"exercises": 3}'])
def test_a_broken_file_is_named_and_the_others_are_read(group: Path, text: str) -> None:
    (group / "bo" / "netcl-course" / PROGRESS).write_text(text, encoding="utf-8")
    found = collect(group)
    assert found.complaints == ["bo/netcl-course/netcl-progress.json: it cannot be read, and was left out"]
    assert list(table(found.csv)) == ["ada", "cy_123_netcl-progress"]


def test_what_is_no_text_is_named(group: Path) -> None:
    (group / "bo" / "netcl-course" / PROGRESS).write_bytes(b"\xff\xfe\x00")
    assert len(collect(group).complaints) == 1


def test_a_part_is_better_than_nothing(group: Path) -> None:
    body = {"06.fork": {"done": True, "tries": 1}, "06.own": {"done": 1}}
    (group / "ada" / PROGRESS).write_text(json.dumps({"exercises": body, "seed": 3}), encoding="utf-8")
    found = collect(group)
    assert found.complaints == ["ada/netcl-progress.json: only a part of it can be read"]
    assert table(found.csv)["ada"]["06.fork"] == "1"
    assert table(found.csv)["ada"]["seed"] == ""


def test_what_was_set_aside_and_what_lies_beside_is_no_progress(group: Path) -> None:
    for name in (
        "netcl-progress.broken.json",
        "netcl-progress.broken2.json",
        ".netcl-progress.json.7.tmp",
        "notes.json",
    ):
        (group / "ada" / name).write_text("{", encoding="utf-8")
    (group / "di" / PROGRESS).mkdir(parents=True)
    assert collect(group).complaints == []
    assert len(collect(group).rows) == 3


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@sum(A1)", " =1", "＝1"])
def test_no_cell_is_a_formula(tmp_path: Path, name: str) -> None:
    progress(tmp_path / "x" / PROGRESS, {"=1+1": (True, 1)}, seed=name)
    rows = list(csv.reader(collect(tmp_path).csv.splitlines()))
    cells = [cell for row in rows for cell in row]
    assert f"'{name}" in cells and "'=1+1" in cells
    assert not [cell for cell in cells if cell.lstrip(" ").startswith(("=", "+", "-", "@", "＝"))]


def test_separators_and_quotes_in_names_stay_in_their_cells(tmp_path: Path) -> None:
    progress(tmp_path / "a,b" / PROGRESS, {}, seed='say "one"\ntwo')
    (row,) = csv.DictReader(collect(tmp_path).csv.splitlines())
    assert (row["student"], row["seed"]) == ("a,b", 'say "one" two')


def test_a_file_that_is_far_too_large_is_left_out(group: Path) -> None:
    (group / "ada" / PROGRESS).write_text(" " * 5_000_001, encoding="utf-8")
    assert "more than 5000000 bytes" in collect(group).complaints[0]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no folder"):
        collect(tmp_path / "nowhere")


def test_the_command_writes_the_table(group: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (group / "di").mkdir()
    (group / "di" / PROGRESS).write_text("{", encoding="utf-8")
    assert cli.main(["collect", str(group)]) == 0
    out, err = capsys.readouterr()
    assert len(table(out)) == 3
    assert err == "netcl: di/netcl-progress.json: it cannot be read, and was left out\n"
    assert cli.main(["collect", str(group), "-o", str(tmp_path / "all.csv")]) == 0
    assert (tmp_path / "all.csv").read_bytes().decode() == out


def test_the_command_says_when_there_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["collect", str(tmp_path)]) == 1
    assert "no progress files below" in capsys.readouterr().err
    assert cli.main(["collect", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"netcl: there is no folder {tmp_path / 'nowhere'}\n"
