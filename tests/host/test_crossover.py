"""From which size on work goes to all cores: the rule on made-up times, what pins it, and the file that keeps it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from netcl import calibrate, cli, crossover, doctor, platforms, pocl
from netcl.crossover import CROSSOVER, SIZES, choose, find, keep, kept, key_of, pinned
from netcl.errors import DeviceError

KEY = key_of("some CPU", "1.0")
CLEAN = [2.0 * 4096 / size + 0.5 for size in SIZES]  # what starting threads costs, and then half the time


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to keep things in, and nothing pinned."""
    monkeypatch.setattr(pocl, "cache_root", lambda: tmp_path)
    monkeypatch.delenv(crossover.VARIABLE)
    return tmp_path


# The rule


def test_the_crossover_is_the_size_from_which_threads_win() -> None:
    assert [round(ratio, 2) for ratio in CLEAN[:4]] == [2.5, 1.5, 1.0, 0.75]
    assert choose(SIZES, CLEAN) == SIZES[3]
    assert choose(SIZES, [0.5] * len(SIZES)) == SIZES[0]
    assert choose(SIZES, [2.0] * (len(SIZES) - 1) + [0.5]) == SIZES[-1]


@pytest.mark.parametrize("ratio", [2.0, 1.0, 0.99])
def test_threads_that_gain_nothing_anywhere_give_no_crossover(ratio: float) -> None:
    assert choose(SIZES, [ratio] * len(SIZES)) is None


def test_one_sample_that_noise_has_spoilt_does_not_move_the_crossover() -> None:
    for place in range(4, len(SIZES)):
        noisy = [1.15 if i == place else ratio for i, ratio in enumerate(CLEAN)]
        assert choose(SIZES, noisy) == SIZES[3], place
    assert choose(SIZES, [CLEAN[0], 0.96, *CLEAN[2:]]) == SIZES[3], "nor one that it has flattered"


def test_noise_on_every_sample_moves_the_crossover_by_a_size_at_most() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        assert choose(SIZES, (CLEAN * rng.uniform(0.9, 1.1, len(SIZES))).tolist()) in SIZES[2:5]


# What pins it


def test_the_variable_comes_before_what_was_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(KEY) == CROSSOVER
    assert keep(KEY, 1 << 17)
    assert find(KEY) == 1 << 17
    monkeypatch.setenv(crossover.VARIABLE, "12")
    assert find(KEY) == 12
    monkeypatch.setenv(crossover.VARIABLE, " ")
    assert find(KEY) == 1 << 17


@pytest.mark.parametrize("text", ["many", "-1", "1e5", "0.5"])
def test_a_variable_that_is_no_number_of_elements_is_an_error(text: str) -> None:
    with pytest.raises(DeviceError, match=f"NETCL_CROSSOVER={text}: it is a whole number"):
        pinned({crossover.VARIABLE: text})
    (finding,) = doctor.check_environment({crossover.VARIABLE: text})
    assert (finding.level, finding.mend) == ("error", "unset NETCL_CROSSOVER")


def test_the_doctor_says_that_it_is_pinned() -> None:
    (finding,) = doctor.check_environment({crossover.VARIABLE: "100000"})
    assert finding.level == "ok"
    assert "work on 100,000 elements or more goes to all" in finding.what


# The file


def test_it_is_kept_by_device_driver_cores_and_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep(KEY, 1 << 14) and keep(key_of("some CPU", "2.0"), 1 << 15)
    assert (kept(KEY), kept(key_of("some CPU", "2.0")), kept(key_of("another", "1.0"))) == (1 << 14, 1 << 15, None)
    monkeypatch.setattr(pocl, "cores", lambda: 4096)
    assert kept(key_of("some CPU", "1.0")) is None
    monkeypatch.undo()
    monkeypatch.setattr(crossover, "__version__", "0.0")
    assert key_of("some CPU", "1.0") != KEY


def test_a_new_one_takes_the_place_of_the_old_in_one_move(folder: Path) -> None:
    assert keep(KEY, 1 << 14)
    with (folder / "crossover.json").open() as old:
        assert keep(KEY, 1 << 15)
        assert json.load(old) == {KEY: 1 << 14}, "a reader sees the whole old file"
    assert kept(KEY) == 1 << 15
    assert os.listdir(folder) == ["crossover.json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1, 2]", b"null", b"\xff\xfe\x00", b"[" * 100_000, json.dumps({KEY: "8192"}).encode(),
     json.dumps({KEY: None}).encode(), json.dumps({KEY: True}).encode(), json.dumps({KEY: 8192.5}).encode()],
    ids=["empty", "cut", "list", "null", "binary", "deep", "text", "none", "bool", "float"],
)  # fmt: skip
def test_a_file_that_is_none_of_ours_counts_as_none_and_is_replaced(folder: Path, content: bytes) -> None:
    (folder / "crossover.json").write_bytes(content)
    assert kept(KEY) is None
    assert find(KEY) == CROSSOVER
    assert keep(KEY, 1 << 16)
    assert find(KEY) == 1 << 16


@pytest.mark.parametrize(("written", "read"), [(0, SIZES[0]), (-5, SIZES[0]), (1 << 70, SIZES[-1]), (70_000, 70_000)])
def test_what_is_read_stays_within_what_can_be_right(folder: Path, written: int, read: int) -> None:
    (folder / "crossover.json").write_text(json.dumps({KEY: written}))
    assert find(KEY) == read


def test_without_a_folder_nothing_is_kept_and_nothing_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv(crossover.VARIABLE)
    (tmp_path / "file").touch()
    for root in (None, tmp_path / "nowhere", tmp_path / "file"):
        monkeypatch.setattr(pocl, "cache_root", lambda root=root: root)
        assert not keep(KEY, 1 << 14)
        assert find(KEY) == CROSSOVER
    assert capfd.readouterr() == ("", "")


def test_a_file_that_cannot_be_read_counts_as_none(folder: Path) -> None:
    (folder / "crossover.json").mkdir()
    assert find(KEY) == CROSSOVER
    assert not keep(KEY, 1 << 14)
    assert os.listdir(folder) == ["crossover.json"], "nothing is left behind"


# Who measures, and when


class Fake:
    """As much of a device as deciding whether to measure it needs."""

    name = "some CPU"

    def __init__(self, queues: int) -> None:
        self.cl_devices = [type("", (), {"driver_version": "1.0"})] * queues


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """The devices that were measured: one with two queues, one with one."""
    devices, found = [Fake(2), Fake(1)], []
    monkeypatch.setattr(platforms, "devices", lambda: devices)
    monkeypatch.setattr(calibrate, "measure", lambda device: found.append(device) or 1 << 17)
    return found


def test_a_device_with_two_queues_is_measured_once(
    folder: Path, measured: list[Fake], capsys: pytest.CaptureFixture[str]
) -> None:
    calibrate.once()
    assert capsys.readouterr().out.startswith("measured for some CPU: work on 131,072 elements or more goes to all")
    calibrate.once()
    assert capsys.readouterr().out == ""
    assert [len(each.cl_devices) for each in measured] == [2]
    assert kept(KEY) == 1 << 17


def test_what_is_pinned_is_not_measured(
    folder: Path, measured: list[Fake], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(crossover.VARIABLE, "5")
    calibrate.once()
    assert (measured, capsys.readouterr().out, os.listdir(folder)) == ([], "", [])


def test_a_busy_machine_gives_nothing_to_keep(
    folder: Path, measured: list[Fake], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibrate, "measure", lambda device: None)
    calibrate.once()
    assert (capsys.readouterr().out, os.listdir(folder)) == ("", [])


def test_lab_has_it_measured_before_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []
    monkeypatch.setattr(cli.subprocess, "run", lambda command, **_: ran.append(command[-1]))
    assert cli.main(["lab", str(tmp_path / "course"), "--lesson", "6", "--no-start"]) == 0
    assert ran == ["from netcl import calibrate; calibrate.once()"]
