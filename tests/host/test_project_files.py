"""Files that repeat each other's facts agree, and those that no run reads can be read."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

import netcl

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def load(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def requirement(package: str) -> str:
    """The version part of a package's requirement in pyproject.toml, such as `>=1.26`."""
    found = re.search(rf'"{re.escape(package)}((?:>=|==)[\w.]+)[";]', PYPROJECT)
    assert found, f"pyproject.toml does not require {package}"
    return found[1]


def test_the_citation_has_the_package_s_version() -> None:
    citation = load("CITATION.cff")
    assert citation["version"] == netcl.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_pre_commit_lints_with_the_version_that_make_lint_has() -> None:
    hooks = {hook["id"]: hook for repo in load(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    assert hooks["ruff-check"]["additional_dependencies"] == [f"ruff{requirement('ruff')}"]


def test_stripping_notebooks_keeps_what_nbval_compares() -> None:
    hooks = {hook["id"]: hook for repo in load(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    assert {"--keep-output", "--keep-id", "--keep-count"} <= set(hooks["nbstripout"]["entry"].split())


@pytest.mark.parametrize(
    ("conda", "package"),
    [
        ("numpy", "numpy"),
        ("pyopencl", "pyopencl"),
        ("ipywidgets", "ipywidgets"),
        ("python-graphviz", "graphviz"),
        ("jupyterlab", "jupyterlab"),
    ],
)
def test_conda_users_get_the_same_lowest_versions(conda: str, package: str) -> None:
    wanted = [line.split() for line in load("environment.yml")["dependencies"] if isinstance(line, str)]
    assert [conda, requirement(package)] in wanted


def test_the_workflow_runs_on_every_python_and_system_that_is_named() -> None:
    jobs = load(".github/workflows/ci.yml")["jobs"]
    pythons = re.findall(r"Python :: (3\.\d+)", PYPROJECT)
    assert jobs["linux"]["strategy"]["matrix"]["python"] == pythons
    assert {jobs["windows"]["runs-on"], jobs["macos"]["runs-on"]} == {"windows-latest", "macos-14"}


@pytest.mark.skipif(sys.platform == "win32", reason="files have no executable bit there")
@pytest.mark.parametrize("script", [".ci/run", "binder/postBuild"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
