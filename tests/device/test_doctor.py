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
@pytest.mark.parametrize("name", ["*.so", "*.bc"])
def test_a_truncated_file_is_found_and_removed(python: Python, tmp_path: Path, name: str) -> None:
    assert python(RUN).returncode == 0
    files = sorted((tmp_path / "cache").rglob(name))
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    died = python(RUN)
    assert died.returncode != 0 or '"level": "error"' in died.stdout, "a truncated file does no harm: no need to look"

    found = python(DOCTOR)
    assert found.returncode == 1, found.stdout + found.stderr
    assert all(str(path) in found.stdout for path in files)
    assert "--fix" in found.stdout

    fixed = python(DOCTOR, "--fix")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert not any(path.exists() for path in files)
    again = python(RUN)
    assert again.returncode == 0, again.stderr
    assert '"level": "error"' not in again.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader of pyopencl's wheel for Linux")
def test_a_variable_that_hides_every_driver_is_named(python: Python) -> None:
    done = python(DOCTOR, OCL_ICD_VENDORS="/nowhere")
    assert done.returncode == 1
    assert "OCL_ICD_VENDORS=/nowhere" in done.stdout
    assert "unset OCL_ICD_VENDORS" in done.stdout
