"""The stepper in JupyterLab: by mouse, by keyboard alone, and reopened where its kernel is gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
nbformat = pytest.importorskip("nbformat", reason="JupyterLab is not installed")
ROOT = Path(__file__).resolve().parents[2]
FORK = """from netcl import autograd as ag, viz
a = ag.tensor(2.0, requires_grad=True)
b = ag.tensor(3.0, requires_grad=True)
f = a * b + a ** 2"""
CELLS = (FORK, "viz.step(f)", "viz.step(f, predict=True, ask=['entry'])")


def notebook(folder: Path, name: str) -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "P"}})
    nbformat.write(made, folder / name)
    return made


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab of its own, with folders of its own."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    home = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    options = ["--no-browser", "--allow-root", "--port", str(port), "--ServerApp.root_dir", str(home / "work")]
    options += ["--IdentityProvider.token=", "--LabApp.workspaces_dir", str(home / "spaces"), "--LabApp.news_url=None"]
    (home / "work").mkdir()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environ = {**os.environ, **folders, "PYTHONPATH": path}
    log = (home / "log").open("w")
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environ, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        _await(f"{address}/api", server, home / "log")
        yield address, home
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


def _await(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
    pytest.fail("JupyterLab did not start")


@pytest.fixture
def opened(lab: tuple[str, Path], browser: Any) -> Iterator[Callable[..., Any]]:
    pages = []

    def open_notebook(name: str, run: bool = True) -> Any:
        page = browser.new_page(viewport={"width": 1100, "height": 1300})
        pages.append(page)
        page.set_default_timeout(60_000)
        page.goto(f"{lab[0]}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        if run:
            page.locator(".jp-Notebook .jp-Cell").first.click()
            page.get_by_role("menuitem", name="Run", exact=True).first.click()
            page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
            page.locator(".netcl-live svg").nth(1).wait_for()
        return page

    yield open_notebook
    for page in pages:
        page.close()


def test_the_stepper_works_by_mouse_and_by_keyboard_alone(lab: tuple[str, Path], opened: Callable[..., Any]) -> None:
    notebook(lab[1] / "work", "live.ipynb")
    page = opened("live.ipynb")
    cell = page.locator(".jp-Notebook .jp-Cell").nth(1)
    assert cell.locator(".jp-RenderedSVG").count() == 0 or not cell.locator(".jp-RenderedSVG").first.is_visible()
    cell.get_by_role("button", name="Next").click()
    cell.get_by_text("step 1 of 5", exact=True).wait_for()
    cell.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    cell.get_by_text("step 2 of 5", exact=True).wait_for()
    cell.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    cell.get_by_text("step 4 of 5", exact=True).wait_for()
    assert "4 + 3 = 7" in cell.locator(".netcl-say").inner_text()
    assert "f = a * b + a ** 2" in cell.locator(".netcl-src").inner_text()


def test_a_step_is_predicted_by_keyboard_alone(lab: tuple[str, Path], opened: Callable[..., Any]) -> None:
    notebook(lab[1] / "work", "predict.ipynb")
    page = opened("predict.ipynb")
    cell = page.locator(".jp-Notebook .jp-Cell").nth(2)
    for given, told in (("2", "No:"), ("1", "Right:")):
        box = cell.get_by_role("textbox").last
        box.focus()
        page.keyboard.press("Control+a")
        page.keyboard.type(given)
        page.keyboard.press("Tab")
        cell.get_by_role("button", name="certain").focus()
        page.keyboard.press("Enter")
        cell.get_by_role("button", name="Check").focus()
        page.keyboard.press("Enter")
        cell.locator(".netcl-ask", has_text=told).first.wait_for()
    cell.get_by_text("step 1 of 5, and now?").wait_for()


def test_without_a_kernel_a_picture_is_still_there(lab: tuple[str, Path], opened: Callable[..., Any]) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    made = notebook(lab[1] / "work", "stored.ipynb")
    nbclient.NotebookClient(made, kernel_name="python3", store_widget_state=False).execute()
    nbformat.write(made, lab[1] / "work" / "stored.ipynb")
    page = opened("stored.ipynb", run=False)
    cell = page.locator(".jp-Notebook .jp-Cell").nth(1)
    cell.get_by_text("4 + 3 = 7").first.wait_for()  # not trusted: the steps in words
    folders = {f"JUPYTER_{kind}_DIR": str(lab[1] / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    trust = [sys.executable, "-m", "jupyter", "trust", str(lab[1] / "work" / "stored.ipynb")]
    subprocess.run(trust, env={**os.environ, **folders}, check=True, capture_output=True)
    page = opened("stored.ipynb", run=False)
    cell = page.locator(".jp-Notebook .jp-Cell").nth(1)
    cell.locator(".jp-RenderedSVG").wait_for()
    assert cell.locator(".jp-RenderedSVG").is_visible()
