"""What somebody hears of a notebook's pictures: each SVG says what it is, and a page of nbconvert passes that on."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "curriculum").glob("*.ipynb"), *(ROOT / "notebooks").glob("*.ipynb")])
IDS = [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]
LESSON = ROOT / "curriculum/06_reverse_mode.ipynb"
SVG = "{http://www.w3.org/2000/svg}"


def pictures(notebook: Any) -> list[str]:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return ["".join(each["data"]["image/svg+xml"]) for each in outputs if "image/svg+xml" in each.get("data", {})]


class Images(HTMLParser):
    """What the images of a page say."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.alts: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.alts.append(dict(attrs).get("alt"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
def test_every_svg_is_an_image_with_a_name_and_a_description(path: Path) -> None:
    for picture in pictures(nbformat.read(path, as_version=4)):
        root = ET.fromstring(picture)
        first, second = list(root)[:2]
        assert root.get("role") == "img" and first.tag == f"{SVG}title" and second.tag == f"{SVG}desc"
        assert root.get("aria-label") == first.text and first.text and second.text


def test_a_page_says_what_its_pictures_show() -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="comes with JupyterLab, in the extra `lab`")
    notebook = nbformat.read(LESSON, as_version=4)
    drawn = pictures(notebook)
    exporter = nbconvert.HTMLExporter(preprocessors=["netcl.teach.pages.described"])
    page = exporter.from_notebook_node(notebook)[0]
    assert "netcl-note" in LESSON.read_text(encoding="utf-8") and "netcl-note" not in page
    alts = Images(page).alts
    for picture in drawn:
        title, words = (re.search(rf"<{tag}>(.*?)</{tag}>", picture) for tag in ("title", "desc"))
        assert title and words
        name, told = html.unescape(title[1]), html.unescape(words[1]).removesuffix(".")
        assert any(alt and name in alt and told in alt for alt in alts), name
    assert len(alts) >= len(drawn) >= 3
    assert "linebreaks.automatic = false;\n});\n</script>" in page, "formulas in tables are broken into pieces"
    assert [alt for alt in alts if not alt or "No description" in alt] == []
