"""The explorer in JupyterLab: sliders by keyboard, a picture that stays in its place, errors beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nbformat
import pytest

FORK = """from netcl import autograd as ag, viz
def f(a, b):
    return a * b + a ** 2
viz.explore(f, a=2.0, b=(-1, 1))"""
BRANCHING = """def g(a):
    if a.to_host() > 2.5:
        raise ValueError("too large")
    return ag.log(a) * 2.0 if a.to_host() > 0 else a * a
viz.explore(g, a=1.0)"""
OUTPUTS = ".jp-OutputArea-output"


@pytest.fixture(params=["light", "dark"])
def live(lab: Any, request: pytest.FixtureRequest) -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in (FORK, BRANCHING)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "python3"}}
    lab.write("explore.ipynb", nbformat.v4.new_notebook(cells=cells, metadata=kernel))
    page = lab.open("explore.ipynb", request.param)
    lab.run(page)
    page.locator(".netcl-live svg").nth(1).wait_for()
    page.theme = request.param
    return page


def test_only_numbers_change_while_a_slider_moves(
    live: Any, axe: Callable[..., list[str]], looks: Callable[[Any, str], None]
) -> None:
    here = live.locator(".jp-Notebook .jp-Cell").nth(0)
    assert not any(each.is_visible() for each in here.locator(".jp-RenderedSVG").all())  # the live one replaces it
    picture = here.locator(".netcl-live svg")
    before = picture.bounding_box()
    assert before["width"] <= 720
    moves = (("ArrowRight", "a = 2.25, b = 0."), ("ArrowLeft", "a = 2.25, b = \u22120.1."))
    for number, (key, said) in enumerate(moves):
        here.get_by_role("slider").nth(number).focus()
        for _ in range(5):
            live.keyboard.press(key)
        here.get_by_text(said).wait_for()
    assert picture.bounding_box() == before
    assert here.get_by_text("before 0", exact=True).count() > 0
    here.get_by_role("button", name="Start values").focus()
    live.keyboard.press("Enter")
    here.get_by_text("a = 2, b = 0.").wait_for()
    live.mouse.move(0, 0)
    looks(picture, f"explore-{live.theme}")
    assert "\n".join(axe(live, OUTPUTS)) == ""
    assert live.faults == []


def test_an_error_is_shown_and_nothing_moves(live: Any) -> None:
    here = live.locator(".jp-Notebook .jp-Cell").nth(1)
    picture = here.locator(".netcl-live svg")
    slider = here.get_by_role("slider")
    slider.focus()  # scrolls
    before = picture.bounding_box()["y"] - slider.bounding_box()["y"]
    live.keyboard.press("End")
    here.get_by_role("alert").get_by_text("too large").wait_for()
    assert "The picture is still that of a = 1." in here.get_by_role("alert").inner_text()
    assert abs(picture.bounding_box()["y"] - slider.bounding_box()["y"] - before) < 4
    live.keyboard.press("Home")
    here.get_by_text("Another graph than before (gone: log).").wait_for()
    assert here.get_by_role("alert").count() == 0
    assert live.faults == []
