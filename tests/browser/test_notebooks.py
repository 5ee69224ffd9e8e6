"""The notebooks in JupyterLab: they run, look as they did, can be read by everyone, and say something unrun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

OUTPUTS = ".jp-OutputArea-output"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["quickstart.ipynb", "gallery.ipynb"])
def test_a_notebook_runs(
    name: str, theme: str, lab: Any, copied: Callable[..., str], axe: Callable[..., list[str]]
) -> None:
    page = lab.open(copied(name), theme)
    lab.run(page)
    page.locator(".netcl-live svg").first.wait_for()
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0
    for each in page.locator(".jp-RenderedSVG:visible").all():
        assert each.bounding_box()["height"] > 40
    assert "\n".join(axe(page, OUTPUTS)) == ""
    assert page.faults == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_looks_as_it_did(
    theme: str, lab: Any, copied: Callable[..., str], trust: Callable[..., None], looks: Callable[[Any, str], None]
) -> None:
    name = copied("quickstart.ipynb", "trusted-")
    trust(lab, lab.home / "work" / name)
    page = lab.open(name, theme)
    looks(page.locator(".jp-RenderedSVG").nth(1), f"draw-{theme}")


@pytest.mark.parametrize("name", ["quickstart.ipynb", "gallery.ipynb"])
def test_every_output_says_something_untrusted_and_unrun(name: str, lab: Any, copied: Callable[..., str]) -> None:
    page = lab.open(copied(name))
    page.locator(OUTPUTS).first.wait_for()
    assert page.locator(".jp-RenderedSVG").count() == 0  # what is not trusted shows no SVG
    shown = [each.inner_text() for each in page.locator(OUTPUTS).all()]
    assert len(shown) > 5 and all(text.strip() for text in shown)
    assert any("from the loss back to the leaves" in text for text in shown)
