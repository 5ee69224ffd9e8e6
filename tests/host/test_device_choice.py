"""Choosing among devices by kind, name and number, and what is said where there is none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netcl import platforms, pocl
from netcl.errors import DeviceError

# Choosing a device


def some_device(index: int, name: str, kind: str, platform: str) -> Any:
    return SimpleNamespace(index=index, name=name, kind=kind, platform=platform)


POCL = "Portable Computing Language"
FOUND = platforms.Found(
    (
        some_device(0, "Xeon", "CPU", "Intel(R) OpenCL"),
        some_device(1, "Xeon", "CPU", POCL),
        some_device(2, "H200", "GPU", "NVIDIA CUDA"),
        some_device(3, "H200 MIG", "GPU", "NVIDIA CUDA"),
    ),
    (),
)


@pytest.mark.parametrize(
    ("spec", "indices"),
    [
        ("gpu", [2]),
        ("GPU", [2]),
        ("cpu", [1]),  # PoCL starts small kernels faster
        ("accelerator", []),
        (3, [3]),
        ("3", [3]),
        (" 1 ", [1]),
        (4, []),
        (-1, []),
        ("h200", [2]),  # the whole name of one wins over a part of another
        ("mig", [3]),
        ("h2", [2, 3]),
        ("xeon", [0, 1]),
        ("intel", [0]),
        ("portable", [1]),
        ("", []),
        ("nothing", []),
    ],
)
def test_specs(spec: str | int, indices: list[int]) -> None:
    assert [each.index for each in platforms.match(spec, FOUND)] == indices


@pytest.mark.parametrize(("spec", "says"), [("xeon", "more than one"), ("nothing", "no device here"), (7, "no device")])
def test_a_wrong_spec_is_told_what_there_is(spec: str | int, says: str) -> None:
    with pytest.raises(DeviceError, match=says) as caught:
        platforms._pick(spec, FOUND)
    assert repr(spec) in str(caught.value)
    for each in FOUND.devices:
        assert f"{each.index}: {each.name} ({each.kind}, {each.platform})" in str(caught.value)


def pocl_device(name: str) -> Any:
    return SimpleNamespace(name=name)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["basic-Xeon", "pthread-Xeon"], [["basic-Xeon", "pthread-Xeon"]]),
        (["pthread-Xeon", "basic-Xeon"], [["basic-Xeon", "pthread-Xeon"]]),
        (["cpu-minimal-Xeon", "cpu-Xeon"], [["cpu-minimal-Xeon", "cpu-Xeon"]]),
        (["pthread-Xeon"], [["pthread-Xeon"]]),
        (["cpu-minimal-Xeon"], [["cpu-minimal-Xeon"]]),
        (["basic-Xeon", "pthread-Xeon", "CUDA"], [["basic-Xeon", "pthread-Xeon"], ["CUDA"]]),
        ([], []),
    ],
)
def test_pocls_views_of_one_cpu_are_one_device(names: list[str], groups: list[list[str]]) -> None:
    got = platforms._grouped([pocl_device(name) for name in names])
    assert [[each.name for each in group] for group in got] == groups


# Messages where there is no device


@pytest.mark.parametrize(
    ("system", "processor", "says"),
    [
        ("linux", "x86_64", "pip install pocl-binary-distribution"),
        ("linux", "aarch64", "conda-forge pocl"),
        ("darwin", "arm64", "conda-forge pocl"),
        ("win32", "AMD64", "netcl[intel]"),
    ],
)
def test_what_to_install(system: str, processor: str, says: str) -> None:
    assert says in platforms.what_to_install(system, processor)


def test_no_platform_at_all() -> None:
    message = platforms.no_device_message([], {})
    assert message.startswith("no OpenCL platform")
    assert platforms.what_to_install(sys.platform, platforms.machine.machine()) in message


def test_vendors_that_hide_everything() -> None:
    message = platforms.no_device_message([], {"OCL_ICD_VENDORS": "/nowhere"})
    assert "OCL_ICD_VENDORS=/nowhere" in message
    assert "unset" in message


def test_platforms_without_devices_come_each_with_their_reason() -> None:
    message = platforms.no_device_message(["the first has none", "the second neither"], {})
    assert "the first has none; the second neither" in message


def test_pocl_without_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    blocked = str(tmp_path / "file" / "below")
    assert f"POCL_CACHE_DIR={blocked}" in platforms.pocl_problem({"POCL_CACHE_DIR": blocked})
    usable = {"POCL_CACHE_DIR": str(tmp_path)}
    assert "POCL_DEVICES='gpu'" in platforms.pocl_problem({**usable, "POCL_DEVICES": "gpu"})
    assert "netcl doctor" in platforms.pocl_problem(usable)
    monkeypatch.setattr(pocl, "cache_root", lambda: None)
    assert "XDG_CACHE_HOME" in platforms.pocl_problem({})
