"""The stepper in JupyterLab: by mouse, by keyboard alone, and reopened where its kernel is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import nbformat
import pytest

FORK = """from netcl import autograd as ag, viz
a = ag.tensor(2.0, requires_grad=True)
b = ag.tensor(3.0, requires_grad=True)
f = a * b + a ** 2"""
CELLS = (FORK, "viz.step(f)", "viz.step(f, predict=True, ask=['entry'])")
OUTPUTS = ".jp-OutputArea-output"
STILL = ".jp-RenderedSVG, .jp-RenderedImage, .jp-RenderedHTML"
INTERACT = """from matplotlib.figure import Figure
from netcl import teach
def line(slope):
    figure = Figure(figsize=(4, 2))
    figure.subplots().plot([0, 1], [0, slope])
    return figure
teach.interact(line, lambda slope: f"a line of slope {slope:.1f}", slope=(0.0, 2.0, 1.0))"""


def notebook(kernel: str = "python3", sources: Sequence[str] = CELLS) -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": kernel, "display_name": kernel}})


@pytest.fixture(params=["light", "dark"])
def live(lab: Any, request: pytest.FixtureRequest) -> Any:
    """A page with both steppers, in a light and in a dark JupyterLab."""
    lab.write("live.ipynb", notebook())
    page = lab.open("live.ipynb", request.param)
    lab.run(page)
    page.locator(".netcl-live svg").nth(1).wait_for()
    page.theme = request.param
    return page


def cell(page: Any, number: int) -> Any:
    return page.locator(".jp-Notebook .jp-Cell").nth(number)


def step_by_mouse_and_keyboard(here: Any, page: Any) -> None:
    here.get_by_role("button", name="Next").click()
    here.get_by_text("step 1 of 5", exact=True).wait_for()
    here.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    here.get_by_text("step 2 of 5", exact=True).wait_for()
    here.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    here.get_by_text("step 4 of 5", exact=True).wait_for()
    assert "4 + 3 = 7" in here.locator(".netcl-say").inner_text()
    assert "f = a * b + a ** 2" in here.locator(".netcl-src").inner_text()


def predict_by_keyboard(here: Any, page: Any) -> None:
    for given, told in (("2", "No:"), ("1", "Right:")):
        here.get_by_role("textbox").last.focus()
        page.keyboard.press("Control+a")
        page.keyboard.type(given)
        page.keyboard.press("Tab")
        here.get_by_role("button", name="certain").focus()
        page.keyboard.press("Enter")
        here.get_by_role("button", name="Check").focus()
        page.keyboard.press("Enter")
        here.locator(".netcl-ask", has_text=told).first.wait_for()
    here.get_by_text("step 1 of 5, and now?").wait_for()


def test_steps_and_predictions_by_mouse_and_by_keyboard_alone(
    live: Any, axe: Callable[..., list[str]], looks: Callable[[Any, str], None]
) -> None:
    stepper, asked = cell(live, 1), cell(live, 2)
    assert not any(each.is_visible() for each in stepper.locator(".jp-RenderedSVG").all())  # the live one replaces it
    step_by_mouse_and_keyboard(stepper, live)
    predict_by_keyboard(asked, live)
    live.mouse.move(0, 0)
    looks(stepper.locator(".netcl-live"), f"step-{live.theme}")
    looks(asked.locator(".netcl-live"), f"predict-{live.theme}")
    assert "\n".join(axe(live, OUTPUTS)) == ""
    assert live.faults == []


def test_a_pass_plays_to_its_end_and_pauses(live: Any) -> None:
    here = cell(live, 1)
    here.get_by_role("button", name="Last").click()
    here.get_by_role("button", name="Play").click()  # at the end it starts anew
    here.get_by_text("step 2 of 5", exact=True).wait_for()
    here.get_by_role("button", name="Pause").click()
    live.wait_for_timeout(4000)
    assert here.get_by_text("step 2 of 5", exact=True).count() == 1
    here.get_by_role("slider").focus()
    live.keyboard.press("End")
    live.keyboard.press("ArrowLeft")
    here.get_by_role("button", name="Play").focus()
    live.keyboard.press("Space")
    here.get_by_text("step 5 of 5", exact=True).wait_for()
    here.get_by_role("button", name="Play").wait_for()


def test_a_prediction_by_mouse(live: Any) -> None:
    here = cell(live, 2)
    here.get_by_role("textbox").last.fill("1")
    here.get_by_role("button", name="certain").click()
    here.get_by_role("button", name="Check").click()
    here.locator(".netcl-ask", has_text="Right:").first.wait_for()
    here.get_by_text("step 1 of 5, and now?").wait_for()


def test_without_a_kernel_a_picture_is_still_there(lab: Any, trust: Callable[..., None]) -> None:
    made = notebook()
    import_module("nbclient").NotebookClient(made, kernel_name="python3", store_widget_state=False).execute()
    made.metadata["kernelspec"] = {"name": "gone", "display_name": "gone"}
    path = lab.write("stored.ipynb", made)
    page = lab.open("stored.ipynb")
    cell(page, 1).get_by_text("4 + 3 = 7").first.wait_for()  # not trusted: the steps in words
    trust(lab, path)
    page = lab.open("stored.ipynb")
    cell(page, 1).locator(".jp-RenderedSVG").wait_for()
    assert cell(page, 1).locator(".jp-RenderedSVG").is_visible()


def test_with_a_png_a_picture_is_there_in_a_notebook_that_is_not_trusted(lab: Any) -> None:
    explored = "viz.explore(lambda a, b: a * b + a ** 2, a=2.0, b=(-1, 1), png=True)"
    made = notebook(sources=(FORK, "viz.step(f, png=True)", explored))
    import_module("nbclient").NotebookClient(made, kernel_name="python3", store_widget_state=False).execute()
    made.metadata["kernelspec"] = {"name": "gone", "display_name": "gone"}
    lab.write("stored_png.ipynb", made)
    page = lab.open("stored_png.ipynb")
    for number in (1, 2):
        cell(page, number).scroll_into_view_if_needed()
        picture = cell(page, number).locator(".jp-RenderedImage img")
        picture.wait_for()
        assert picture.evaluate("each => each.complete && each.naturalWidth > 600")


def test_with_a_png_a_kernel_still_shows_the_widgets_alone(lab: Any) -> None:
    lab.write("live_png.ipynb", notebook(sources=(FORK, "viz.step(f, png=True)")))
    page = lab.open("live_png.ipynb")
    lab.run(page)
    cell(page, 1).locator(".netcl-live svg").wait_for()
    cell(page, 1).get_by_role("button", name="Next").click()
    cell(page, 1).get_by_text("step 1 of 5", exact=True).wait_for()
    assert not any(each.is_visible() for each in cell(page, 1).locator(".jp-RenderedImage, .jp-RenderedSVG").all())


def test_a_notebook_that_was_saved_shows_its_picture_and_no_error_until_it_is_run_again(lab: Any) -> None:
    explored = "viz.explore(lambda a, b: a * b + a ** 2, a=2.0, b=(-1, 1))"
    lab.write("saved.ipynb", notebook(sources=(FORK, "viz.step(f)", explored, INTERACT)))
    page = lab.open("saved.ipynb")
    lab.run(page)
    for number in (1, 2, 3):
        cell(page, number).locator(".netcl-live").wait_for()
        assert [each for each in cell(page, number).locator(STILL).all() if each.is_visible()] == []
    page.keyboard.press("Control+s")
    page.locator(".jp-mod-dirty").wait_for(state="detached")
    _menu(page, "Kernel", "Shut Down Kernel")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for(state="detached")

    page = lab.open("saved.ipynb")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    for number in (1, 2, 3):
        here = cell(page, number)
        here.get_by_text("run the cell to have them").wait_for()
        here.get_by_text("model not found").wait_for(state="attached")
        assert not here.get_by_text("model not found").is_visible()
        assert here.locator(STILL).first.is_visible()
    lab.run(page)
    cell(page, 1).locator(".netcl-live").wait_for()
    assert not cell(page, 1).locator(STILL).first.is_visible()


def _menu(page: Any, menu: str, entry: str) -> None:
    page.get_by_role("menuitem", name=menu, exact=True).first.click()
    page.get_by_role("menuitem", name=entry, exact=True).click()
