"""docs/viz.md shows what its code gives."""

from __future__ import annotations

import re
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from netcl import viz

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "viz.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generated() -> tuple[str, dict[Path, str]]:
    return runpy.run_path(str(DOCS / "generate_viz.py"))["fresh"]()


def test_the_page_is_not_stale(generated: tuple[str, dict[Path, str]]) -> None:
    assert generated[0] == PAGE, "run `python docs/generate_viz.py`"


def test_its_pictures_are_not_stale(generated: tuple[str, dict[Path, str]]) -> None:
    assert generated[1]
    for path, svg in generated[1].items():
        assert path.read_text(encoding="utf-8") == svg, f"{path.name} is stale: run `python docs/generate_viz.py`"


def test_every_picture_is_there_with_words_for_it() -> None:
    named = re.findall(r"!\[([^\]]*)\]\((viz/[\w.-]+)\)", PAGE)
    assert {name for _, name in named} == {f"viz/{path.name}" for path in (DOCS / "viz").iterdir()}
    for words, name in named:
        assert len(words.split()) >= 5
        root = ET.fromstring((DOCS / name).read_text(encoding="utf-8"))
        assert float(root.attrib["width"]) <= 720, name


def test_every_call_has_its_place_on_the_page() -> None:
    calls = [name for name in viz.__all__ if name.islower()]
    assert [name for name in calls if f"viz.{name}(" not in PAGE and f"viz.{name}`" not in PAGE] == []
