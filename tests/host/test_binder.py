"""The folder that Binder reads: repo2docker accepts it, and it installs what the course needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"


def test_the_folder_holds_what_binder_reads() -> None:
    assert sorted(path.name for path in BINDER.iterdir()) == ["postBuild", "requirements.txt", "runtime.txt"]


def test_the_python_is_one_that_repo2docker_and_netcl_have() -> None:
    version = re.fullmatch(r"python-3\.(\d+)\n", (BINDER / "runtime.txt").read_text(encoding="utf-8"))
    assert version is not None
    assert 11 <= int(version[1]) <= 13


def test_netcl_itself_is_installed_with_jupyterlab() -> None:
    # A bare `.` would be installed before the repository is copied, and fail.
    assert (BINDER / "requirements.txt").read_text(encoding="utf-8").split() == ["-e", ".[lab]"]


def test_post_build_is_a_script_that_bash_accepts() -> None:
    script = BINDER / "postBuild"
    assert script.read_text(encoding="utf-8").startswith("#!/bin/bash\n")
    if sys.platform != "win32":
        assert os.access(script, os.X_OK)
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_post_build_lays_the_course_for_a_student(tmp_path: Path) -> None:
    """What is opened there are the students' copies, signed as `netcl lab` signs what it lays."""
    found = re.search(
        r"^netcl (lab netcl-course --no-start)$", (BINDER / "postBuild").read_text(encoding="utf-8"), re.M
    )
    assert found
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")}
    command = [sys.executable, "-m", "netcl", *found[1].split()]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120)
    lesson = tmp_path / "netcl-course" / "curriculum" / "06_reverse_mode.ipynb"
    assert "BEGIN SOLUTION" not in lesson.read_text(encoding="utf-8")


def test_post_build_trusts_folders_that_hold_notebooks() -> None:
    trusted = re.findall(r"(\w+)/\*\.ipynb", (BINDER / "postBuild").read_text(encoding="utf-8"))
    assert trusted == ["curriculum", "notebooks"]
    for folder in trusted:
        assert list((ROOT / folder).glob("*.ipynb"))


@pytest.mark.skipif(
    importlib.util.find_spec("repo2docker") is None,
    reason="jupyter-repo2docker is not installed (it runs on Linux only)",
)
def test_repo2docker_accepts_the_folder() -> None:
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    dockerfile = done.stdout
    copied = dockerfile.index("COPY --chown=0:0 src/ ${REPO_DIR}/")
    installed = dockerfile.index('pip install --no-cache-dir -r "binder/requirements.txt"')
    assert copied < installed < dockerfile.index("RUN ./binder/postBuild")
