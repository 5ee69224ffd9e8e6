"""PoCL without a linker, or with one that has no libgcc: kernels run, or an error says why; no process is aborted."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from netcl import doctor, platforms

fcntl = pytest.importorskip("fcntl", reason="the guard is PoCL's on Linux")

Python = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux")
    or shutil.which("ld") is None
    or not any(each.platform == "Portable Computing Language" for each in platforms.devices()),
    reason="the guard is PoCL's on Linux, and there must be a linker to hide",
)

PROBE = "from netcl import doctor, pocl\n{0}\ndoctor.probe(0)"
UNGUARDED = PROBE.format("pocl.guard_linker = lambda: 'ld'")
GUARDED = PROBE.format("")
WITHOUT_ANY_LINKER = PROBE.format("pocl.LINKER_FOLDERS = ()")


@pytest.fixture(params=["no linker on PATH", "no libgcc"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A PATH with which PoCL's own link fails."""
    folder = tmp_path / "bin"
    folder.mkdir()
    if request.param == "no libgcc":
        linker = folder / "ld"
        # What GNU ld does where no compiler is installed.
        linker.write_text(
            '#!/bin/sh\nfor each do case $each in -lgcc*) echo "ld: cannot find $each" >&2; exit 1 ;; esac; done\n'
            f'exec {shutil.which("ld")} "$@"\n'
        )
        linker.chmod(0o755)
    return str(folder)


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_unguarded_the_process_is_aborted(python: Python, path: str) -> None:
    done = python(UNGUARDED, PATH=path)
    assert done.returncode == -signal.SIGABRT
    assert "Final linking" in done.stderr


def test_guarded_kernels_run(python: Python, path: str) -> None:
    done = python(GUARDED, PATH=path)
    assert done.returncode == 0, done.stderr
    levels = [line["level"] for line in lines(done) if "level" in line]
    assert levels
    assert set(levels) == {"ok"}


def test_without_any_linker_an_error_names_what_to_install(python: Python, tmp_path: Path) -> None:
    done = python(WITHOUT_ANY_LINKER, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, *rest = lines(done)
    (message,) = first["problems"]
    assert "binutils" in message
    assert "netcl[intel]" in message
    assert all("Portable" not in line.get("what", "") for line in rest)


def test_path_stays_and_a_compiler_still_links(python: Python, tmp_path: Path) -> None:
    """COMPILER_PATH, which gcc reads too, must not cost another program its libraries."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to try")
    code = (
        "import os, subprocess; before = os.environ['PATH']\n"
        "from netcl import platforms; platforms.devices(); assert os.environ['PATH'] == before\n"
        f"source = {str(tmp_path / 'a.c')!r}\n"
        "open(source, 'w').write('#include <math.h>\\nint main(int n, char **v) { return (int)cos((double)n) + 7; }')\n"
        "subprocess.run(['gcc', source, '-o', source + '.out', '-lm'], check=True)\n"
        "print(subprocess.run([source + '.out']).returncode)"
    )
    done = python(code)
    assert done.stdout.strip() == "7", done.stderr


def test_a_build_waits_for_another_process_that_builds(python: Python, tmp_path: Path) -> None:
    cache, ready, built = tmp_path / "kernels", tmp_path / "ready", tmp_path / "built"
    cache.mkdir()
    code = (
        "import sys; from pathlib import Path; from netcl import doctor, platforms; platforms.find()\n"
        "Path(sys.argv[1]).touch(); doctor.probe(0); Path(sys.argv[2]).touch()"
    )
    with open(cache / "netcl.lock", "w") as file, ThreadPoolExecutor(1) as pool:
        fcntl.flock(file, fcntl.LOCK_EX)
        child = pool.submit(python, code, str(ready), str(built), POCL_CACHE_DIR=str(cache))
        while not ready.exists() and not child.done():
            time.sleep(0.01)
        time.sleep(2.0)  # unhindered, it is done in less than one
        waited = not built.exists()
        fcntl.flock(file, fcntl.LOCK_UN)
        done = child.result()
    assert done.returncode == 0, done.stderr
    assert built.exists()
    assert waited


def test_four_processes_share_a_cold_cache(python: Python, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: python(GUARDED), range(4)))
    for done in runs:
        assert done.returncode == 0, done.stderr
        assert {line["level"] for line in lines(done) if "level" in line} == {"ok"}
    cache = tmp_path / "cache" / "netcl"
    assert list((cache / "pocl").rglob("*.so")), "nothing was compiled: the cache lies elsewhere"
    assert doctor.broken_files(cache) == []
    launchers = [each for each in cache.iterdir() if each.name.startswith("ld-")]
    assert len(launchers) == 1
    assert [each.name for each in cache.iterdir() if each.name.startswith("tmp")] == []
