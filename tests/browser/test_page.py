"""The saved page of a backward pass: it steps by keyboard and by buttons, with no server and no network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netcl import autograd as ag
from netcl import viz
from netcl.viz.palette import DARK, LIGHT

HOSTILE = "</svg><script>window.broken = 1</script>"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    a, b = ag.tensor(2.0, requires_grad=True, name="a"), ag.tensor(3.0, requires_grad=True, name="b")
    return viz.filmstrip(a * b + a**2).save(tmp_path_factory.mktemp("page") / "fork.html")


def said(page: Any) -> str:
    return page.inner_text("#netcl-say")


def test_arrow_keys_home_and_end_step(saved: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(saved)
    assert said(page).startswith("The seed:")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert said(page).endswith("4 + 3 = 7.") and page.inner_text("#netcl-where") == "step 4 of 5"
    assert page.locator("#netcl-picture svg").get_attribute("aria-label") == "Backward pass of loss, step 4 of 5"
    page.keyboard.press("ArrowLeft")
    assert "step 3" in page.inner_text("#netcl-where")
    page.keyboard.press("End")
    assert page.is_disabled("#netcl-next") and not page.is_disabled("#netcl-back")
    page.keyboard.press("Home")
    assert said(page).startswith("The seed:") and page.is_disabled("#netcl-first")
    assert page.faults == []


def test_every_control_is_reached_and_worked_by_keyboard_alone(saved: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(saved)
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached == ["netcl-play", "netcl-next", "netcl-last", "netcl-range", "SUMMARY"]
    page.focus("#netcl-next")
    page.keyboard.press("Enter")
    assert "step 1" in page.inner_text("#netcl-where")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.focus("#netcl-range")
    page.keyboard.press("ArrowRight")
    assert "step 2" in page.inner_text("#netcl-where")
    page.focus("summary")
    page.keyboard.press("Enter")
    assert page.locator("details li").count() == 6
    assert page.faults == []


def test_buttons_and_play(saved: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(saved)
    page.click("#netcl-last")
    page.click("#netcl-back")
    assert "step 4" in page.inner_text("#netcl-where")
    page.click("#netcl-play")
    assert page.get_attribute("#netcl-play", "aria-pressed") == "true"
    page.locator("#netcl-where", has_text="step 5 of 5").wait_for(timeout=6000)
    assert page.get_attribute("#netcl-play", "aria-pressed") == "false"


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_the_page_follows_the_readers_scheme(
    saved: Path, open_page: Callable[..., Any], scheme: str, colours: Any
) -> None:
    page = open_page(saved, color_scheme=scheme)
    ground = page.evaluate("getComputedStyle(document.querySelector('#netcl-picture rect')).fill")
    expected = tuple(int(colours["page"][i : i + 2], 16) for i in (1, 3, 5))
    assert ground == f"rgb{expected}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_by_everyone_and_looks_as_it_did(
    saved: Path,
    open_page: Callable[..., Any],
    axe: Callable[..., list[str]],
    looks: Callable[[Any, str], None],
    scheme: str,
) -> None:
    page = open_page(saved, color_scheme=scheme, bypass_csp=True)  # the page forbids scripts of others, axe among them
    assert axe(page) == []
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.click("summary")
    assert axe(page) == []
    looks(page.locator("#netcl-picture"), f"page-{scheme}")
    assert page.faults == []


def test_nothing_scrolls_sideways_and_no_text_is_small(saved: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(saved, viewport={"width": 720, "height": 600})
    for _ in range(6):
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        least = page.evaluate(
            """() => Math.min(...[...document.querySelectorAll('svg text')].map(text => {
                const svg = text.ownerSVGElement;
                return parseFloat(text.getAttribute('font-size')) * svg.getBoundingClientRect().width
                    / svg.viewBox.baseVal.width; }))"""
        )
        assert least >= 10.5  # 720 px less the page's own margin
        page.keyboard.press("ArrowRight")


def test_without_scripts_a_picture_and_all_steps_are_there(saved: Path, open_page: Callable[..., Any]) -> None:
    page = open_page(saved, java_script_enabled=False)
    assert page.locator("#netcl-picture svg").count() == 1
    assert page.locator("details li").count() == 6


def test_names_of_users_run_nothing(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    x = ag.tensor(2.0, requires_grad=True, name=HOSTILE)
    page = open_page(viz.filmstrip(x * x).save(tmp_path / "hostile.html"))
    page.keyboard.press("End")
    assert page.evaluate("window.broken") is None
    assert HOSTILE[:20] in page.inner_text("#netcl-say") and page.faults == []
