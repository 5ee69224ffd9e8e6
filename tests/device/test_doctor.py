"""`netcl doctor` on a machine that works, and on one whose cache of kernels was cut short."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from netcl import platforms

Python = Callable[..., "subprocess.CompletedProcess[str]"]

DOCTOR = "import sys; from netcl import doctor; sys.exit(doctor.main(sys.argv[1:]))"
RUN = "from netcl import doctor; doctor.probe(0)"


def test_where_all_is_well(python: Python) -> None:
    done = python(DOCTOR)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("nothing to mend")
    for device in platforms.devices():
        assert f"device {device.index}: {device.name}" in done.stdout
        assert ("float32 and float64" in done.stdout) or not device.has_fp64


@pytest.mark.skipif(
    not any(each.platform == "Portable Computing Language" for each in platforms.devices()),
    reason="the cache is PoCL's",
)
def test_truncated_files_are_found_and_removed(python: Python, tmp_path: Path) -> None:
    assert python(RUN).returncode == 0
    cache = tmp_path / "cache"
    whole = {path: path.read_bytes() for name in ("*.so", "*.bc") for path in cache.rglob(name)}
    for suffix in (".so", ".bc"):  # each does harm by itself: otherwise there is no need to look
        cut = [path for path in whole if path.suffix == suffix]
        assert cut
        for path in cut:
            path.write_bytes(whole[path][: len(whole[path]) // 2])
        died = python(RUN)
        assert died.returncode != 0 or '"level": "error"' in died.stdout, suffix
        for path in cut:
            path.write_bytes(whole[path])

    for path, data in whole.items():
        path.write_bytes(data[: len(data) // 2])
    found = python(DOCTOR)
    assert found.returncode == 1, found.stdout + found.stderr
    assert all(str(path) in found.stdout for path in whole)
    assert "--fix" in found.stdout

    fixed = python(DOCTOR, "--fix")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert not any(path.exists() for path in whole)
    again = python(RUN)
    assert again.returncode == 0, again.stderr
    assert '"level": "error"' not in again.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of pyopencl's wheel for Linux")
def test_a_variable_that_hides_every_driver_is_named(python: Python) -> None:
    done = python(DOCTOR, OCL_ICD_VENDORS="/nowhere")
    assert done.returncode == 1
    assert "OCL_ICD_VENDORS=/nowhere" in done.stdout
    assert "unset OCL_ICD_VENDORS" in done.stdout
