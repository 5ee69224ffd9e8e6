"""The environment made for PoCL: cache folders, settings, the lock around builds, and the linker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netcl import pocl

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
    for name in ("POCL_DEVICES", "POCL_CACHE_DIR", "POCL_AFFINITY", "POCL_MAX_PTHREAD_COUNT", "OCL_ICD_VENDORS"):
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
    monkeypatch.setenv("POCL_AFFINITY", "0")
    with pocl.prepare():
        assert os.environ["POCL_AFFINITY"] == "0"
        assert os.environ["POCL_DEVICES"] == "pthread"
        assert os.environ["POCL_CACHE_DIR"] == "/scratch/kernels"
    assert os.environ["POCL_DEVICES"] == "pthread"


@linux
@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("count", "allowed", "threads", "kept"),
    [
        (4, {0, 1, 2, 3}, None, "1"),
        (4, {0, 1, 2, 3}, "4", "1"),
        (4, {2, 3}, None, None),  # taskset or a container's cores: thread 0 is not to be sent to core 0
        (4, {0, 1, 2, 3}, "2", None),
        (1, {0}, None, None),
        (2, {0, 4}, None, None),  # a core's second hyper-thread is switched off
    ],
)
def test_threads_are_kept_apart_where_all_cores_are_ours(
    count: int, allowed: set[int], threads: str | None, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed)
    if threads is not None:
        monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", threads)
    with pocl.prepare():
        assert os.environ.get("POCL_AFFINITY") == kept
    assert "POCL_AFFINITY" not in os.environ


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


# The lock around builds


@posix
def test_the_lock_is_held_in_the_block_and_free_after_it(prepared: Path) -> None:
    import fcntl

    folder = prepared / "pocl"
    folder.mkdir()

    def is_free() -> bool:
        with open(folder / "netcl.lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    assert is_free()
    with pytest.raises(KeyError), pocl.build_lock():
        assert not is_free()
        raise KeyError
    assert is_free()


@posix
def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
    prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared / "pocl").mkdir()
    monkeypatch.setattr(pocl, "LOCK_SECONDS", 0.05)
    entered = []
    with pocl.build_lock(), pocl.build_lock():
        entered.append(True)
    assert entered


def test_without_a_cache_folder_there_is_nothing_to_lock(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pocl.build_lock():
        assert list(prepared.iterdir()) == []  # PoCL never made its folder
    monkeypatch.setattr(pocl, "cache_root", lambda: None)
    with pocl.build_lock():
        assert pocl.pocl_cache() is None


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
