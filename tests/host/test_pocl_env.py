"""The environment made for PoCL, the choice of a device by name, and the doctor's checks that need no device."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netcl import doctor, platforms, pocl
from netcl.errors import DeviceError

posix = pytest.mark.skipif(os.name != "posix", reason="users, modes and shell scripts are POSIX's")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the XDG standard and PoCL's wheel: Linux")


# Cache folders


@linux
@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.cache/netcl"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "/scratch"}, "/scratch/netcl"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": "relative"}, "/home/ada/.cache/netcl"),
        ({"HOME": "/home/ada", "XDG_CACHE_HOME": ""}, "/home/ada/.cache/netcl"),
    ],
)
def test_the_users_own_cache_comes_first(environ: dict[str, str], folder: str) -> None:
    assert pocl.cache_folders(environ)[0] == Path(folder)


@posix
def test_the_other_folders_carry_the_users_number() -> None:
    others = pocl.cache_folders({"HOME": "/home/ada"})[1:]
    assert others
    assert {each.parent.name for each in others} == {f"netcl-{os.getuid()}"}


def test_a_folder_that_can_be_written_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert pocl.why_unusable(folder) is None
    assert list(folder.iterdir()) == []


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reason = pocl.why_unusable(tmp_path / "file" / "below")
    assert reason is not None
    assert "director" in reason


@posix
def test_a_folder_laid_by_someone_else_is_refused(tmp_path: Path) -> None:
    base = tmp_path / f"netcl-{os.getuid()}"
    (tmp_path / "elsewhere").mkdir()
    base.symlink_to(tmp_path / "elsewhere")
    assert pocl.why_unusable(base / "netcl") == "it belongs to another user"


@posix
def test_a_folder_in_a_place_open_to_all_is_made_private(tmp_path: Path) -> None:
    base = tmp_path / f"netcl-{os.getuid()}"
    base.mkdir(mode=0o755)
    base.chmod(0o777)
    assert pocl.why_unusable(base / "netcl") is None
    assert base.stat().st_mode & 0o777 == 0o700


# The environment that PoCL sees


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of this test's own, and no look for a linker."""
    monkeypatch.setattr(pocl, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(pocl, "guard_linker", lambda: None)
    for name in ("POCL_DEVICES", "POCL_CACHE_DIR", "OCL_ICD_VENDORS"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path


def test_settings_hold_in_the_block_alone(prepared: Path) -> None:
    with pocl.prepare():
        assert os.environ["POCL_DEVICES"].split()[:2] == ["basic", "pthread"]
        assert os.environ["POCL_CACHE_DIR"] == str(prepared / "pocl")
    assert "POCL_DEVICES" not in os.environ
    assert "POCL_CACHE_DIR" not in os.environ


@pytest.mark.usefixtures("prepared")
def test_settings_are_taken_back_after_an_error() -> None:
    with pytest.raises(KeyError), pocl.prepare():
        raise KeyError
    assert "POCL_DEVICES" not in os.environ


@pytest.mark.usefixtures("prepared")
def test_what_a_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCL_DEVICES", "pthread")
    monkeypatch.setenv("POCL_CACHE_DIR", "/scratch/kernels")
    with pocl.prepare():
        assert os.environ["POCL_DEVICES"] == "pthread"
        assert os.environ["POCL_CACHE_DIR"] == "/scratch/kernels"
    assert os.environ["POCL_DEVICES"] == "pthread"


@linux
def test_intels_runtime_is_named_beside_the_systems_drivers(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "prefix" / "lib" / "libintelocl.so"
    library.parent.mkdir(parents=True)
    library.touch()
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "gpu.icd").write_text("libgpu.so.1\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(vendors))
    with pocl.prepare():
        laid = Path(os.environ["OCL_ICD_VENDORS"])
    assert {each.name: each.read_text().strip() for each in laid.iterdir()} == {
        "netcl-intel.icd": str(library),
        "gpu.icd": "libgpu.so.1",
    }
    assert laid.parent == prepared
    assert "OCL_ICD_VENDORS" not in os.environ


# The linker and its launcher


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@posix
def test_linkers_are_found_the_usual_one_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl, "LINKER_FOLDERS", (str(tmp_path / "usual"),))
    lld = program(tmp_path / "first" / "ld.lld", "")
    usual = program(tmp_path / "usual" / "ld", "")
    (tmp_path / "first" / "ld.bfd").write_text("not a program")
    assert list(pocl.find_linkers(str(tmp_path / "first"))) == [str(usual), str(lld)]
    assert list(pocl.find_linkers("")) == [str(usual)]


LOGGING = 'for each do printf "%s\\n" "$each"; done > "${0%/*}/log"; while [ "$1" != -o ]; do shift; done; : > "$2"'


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """A launcher in front of a linker that writes down what it is called with."""
    folder = pocl._launcher(str(program(tmp_path / "a linker" / "ld", LOGGING)), tmp_path)
    assert folder is not None
    return folder / "ld"


def call(launcher: Path, *arguments: str) -> list[str]:
    subprocess.run([launcher, *arguments], check=True)
    return (launcher.parent.parent / "a linker" / "log").read_text().splitlines()


@posix
def test_pocls_link_loses_its_libraries_and_nothing_else(launcher: Path, tmp_path: Path) -> None:
    out, source = str(tmp_path / "my cache" / "tempfile_Ab3dEf.so"), str(tmp_path / "my cache" / "tempfile_x.so.o")
    Path(out).parent.mkdir()
    got = call(launcher, "-shared", "-o", out, "-L/usr/lib", "-L/lib", source, "-lgcc", "--as-needed", "-lgcc_s", "-lc")
    assert got == ["-shared", "-o", out, source, "--as-needed"]


@posix
def test_everybody_elses_link_keeps_its_libraries(launcher: Path, tmp_path: Path) -> None:
    arguments = ["-o", str(tmp_path / "program"), "-L/usr/lib", "a b.o", "", "-lgcc", "$(false)", "-lc"]
    assert call(launcher, *arguments) == arguments


@posix
def test_a_linker_that_does_not_link_is_passed_over(tmp_path: Path) -> None:
    assert pocl._launcher(str(program(tmp_path / "broken" / "ld", "exit 1")), tmp_path) is None
    assert [each.name for each in tmp_path.iterdir()] == ["broken"]


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


# The doctor's checks


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("OCL_ICD_VENDORS", "/nowhere/at/all", "error"),
        ("OCL_ICD_VENDORS", ".", "warning"),
        ("OCL_ICD_VENDORS", "", None),
        ("POCL_DEVICES", "basic pthread", None),
        ("POCL_DEVICES", "cpu-minimal cpu", None),
        ("POCL_DEVICES", "pthread", "warning"),
        ("POCL_DEVICES", "basic,pthread", "error"),
        ("POCL_DEVICES", "", "error"),
        ("POCL_KERNEL_CACHE", "0", "warning"),
        ("POCL_KERNEL_CACHE", "1", None),
        ("PYOPENCL_BUILD_OPTIONS", "-cl-fast-relaxed-math", "error"),
        ("PYOPENCL_BUILD_OPTIONS", "-g", "warning"),
        ("POCL_EXTRA_BUILD_FLAGS", "-g -cl-finite-math-only", "error"),
        ("PYOPENCL_CTX", "0", "warning"),
        ("HOME", "/home/ada", None),
    ],
)
def test_environment_variables(name: str, value: str, level: str | None) -> None:
    findings = doctor.check_environment({name: value})
    assert [each.level for each in findings] == ([] if level is None else [level])
    for each in findings:
        assert name in each.what
        assert each.mend


def test_an_unusable_pocl_cache_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (finding,) = doctor.check_environment({"POCL_CACHE_DIR": str(tmp_path / "file")})
    assert finding.level == "error"
    assert doctor.check_environment({"POCL_CACHE_DIR": str(tmp_path)}) == []


def bitcode(*block_words: int) -> bytes:
    """The outline of an LLVM bitcode file: its magic number, and blocks of so many words, strings last."""
    heads = [0x35, 0x21, 0x5D][-len(block_words) :]  # ENTER_SUBBLOCK for IDENTIFICATION, MODULE, STRTAB
    blocks = (struct.pack("<II", *each) + bytes(4 * each[1]) for each in zip(heads, block_words, strict=True))
    return b"BC\xc0\xde" + b"".join(blocks)


@pytest.mark.parametrize(("name", "whole"), [("kernel.so", pocl._empty_object()), ("program.bc", bitcode(3, 9, 4))])
def test_a_file_that_was_cut_anywhere_is_found(tmp_path: Path, name: str, whole: bytes) -> None:
    path = tmp_path / "AB" / name
    path.parent.mkdir()
    path.write_bytes(whole)
    assert doctor.broken_files(tmp_path) == []
    missed = []
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if doctor.broken_files(tmp_path) != [path]:
            missed.append(size)
    assert missed == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("last_accessed", "tempfile_abcdef", "build.log"):
        (tmp_path / name).touch()
    (tmp_path / "folder.so").mkdir()
    assert doctor.broken_files(tmp_path) == []


def test_rendering_counts_what_must_be_mended() -> None:
    ok, warning = doctor.Finding("ok", "fine"), doctor.Finding("warning", "slow", "do this")
    error = doctor.Finding("error", "broken", "do that")
    assert doctor.render([ok, warning]).endswith("nothing to mend")
    assert doctor.render([ok, error, error]).endswith("2 things to mend")
    assert "→ do that" in doctor.render([error])


@posix
def test_a_device_that_ends_the_process_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    case "$2" in
    *"probe(0)"*)
        echo '{"count": 2, "problems": ["a platform is bare"], "message": ""}'
        echo '{"index": 0, "name": "Bad"}'
        echo 'Final linking failed.' >&2
        kill -ABRT $$ ;;
    *"probe(1)"*)
        echo '{"count": 2, "problems": ["a platform is bare"], "message": ""}'
        echo '{"index": 1, "name": "Good"}'
        echo '{"index": 1, "name": "Good", "level": "ok", "what": "Good works", "mend": ""}' ;;
    esac"""
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", text)))
    bare, bad, good = doctor.check_devices()
    assert bare == doctor.Finding("warning", "a platform is bare")
    assert bad.level == "error"
    assert bad.what == "running a kernel on Bad ends the process (SIGABRT): Final linking failed."
    assert good == doctor.Finding("ok", "Good works")


@posix
def test_a_search_that_ends_the_process_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / "python", "kill -SEGV $$")))
    (finding,) = doctor.check_devices()
    assert finding.what == "looking for OpenCL devices ends the process (SIGSEGV)"
