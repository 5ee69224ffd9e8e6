"""The doctor's checks that need no device."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from netcl import doctor, pocl

posix = pytest.mark.skipif(os.name != "posix", reason="shell scripts and signals are POSIX's")


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


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
