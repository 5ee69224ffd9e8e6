"""What the README and the pages beside it promise: the example runs, the commands exist, the links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from netcl.teach import course

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "curriculum/README.md")]


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)
    assert len(found) == 1, f"the README has {len(found)} blocks of {language}"
    return found[0]


def commands() -> str:
    """Every indented line: what a reader types."""
    return "\n".join(line.strip() for line in README.splitlines() if line.startswith("    "))


def texts(path: Path) -> str:
    """A page's text, or that of all Markdown cells of a notebook."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def dead_links(path: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", texts(path))
    local = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]
    return [target for target in local if target and not (path.parent / target).exists()]


def test_the_example_prints_what_stands_below_it(tmp_path: Path) -> None:
    code = block("python")
    assert len(code.splitlines()) <= 15
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == block("text")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_two_commands_stand_first_and_exist() -> None:
    first = [line.split("#")[0].strip() for line in commands().splitlines()[:2]]
    assert first == ["make lab", "make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert {"lab", "test"} <= set(re.findall(r"^(\w+):", makefile, re.M))


def test_the_plain_commands_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = re.findall(r"^\t\$\(PYTEST\) (.*)$", makefile, re.M)
    assert len(wanted) == 2
    typed = commands().splitlines()
    assert [line.removeprefix("pytest ") for line in typed if line.startswith("pytest ")] == wanted
    extras = re.findall(r'pip install -e "\.\[(\w+)\]"', commands())
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert extras == ["lab", "test"]
    assert all(re.search(rf"^{extra} = \[", pyproject, re.M) for extra in extras)


def test_binder_opens_this_repository() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    address = re.search(r'^Repository = "https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?"', pyproject, re.M)
    badge = re.search(r"\[!\[Binder\]\(https://mybinder\.org/badge_logo\.svg\)\]\(([^)]+)\)", README)
    assert badge
    if address:
        assert badge[1].startswith(f"https://mybinder.org/v2/gh/{address[1]}/")
    else:  # a repository that has no public address yet cannot be linked to
        assert badge[1] == "https://mybinder.org"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    assert dead_links(path) == []


def test_links_lead_somewhere_in_a_student_s_folder(tmp_path: Path) -> None:
    course.lay(tmp_path, solutions=True)
    pages = [path for path in sorted(tmp_path.rglob("*")) if path.suffix in (".md", ".ipynb")]
    assert any(path.suffix == ".ipynb" and "](" in texts(path) for path in pages)
    assert {path.name: dead_links(path) for path in pages} == {path.name: [] for path in pages}
