"""A headless Chromium, a JupyterLab to drive it in, axe-core, and screenshots that were looked at once.

`make browser` installs what is needed but the Chromium itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CHROMIUM = runpy.run_path(str(HERE / "chromium.py"))
WANTED = ("PIL", "axe_playwright_python", "jupyterlab", "nbclient", "playwright")
SLOW = 60_000  # ms; a kernel that starts on a busy machine takes its time
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--force-color-profile=srgb", "--font-render-hinting=none",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="store the screenshots that are taken as the ones to expect")


def pytest_sessionstart() -> None:
    missing = [name for name in WANTED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.exit(f"not installed: {', '.join(missing)}; `make browser` does it", returncode=2)
    if CHROMIUM["find"]() is None:
        pytest.exit(CHROMIUM["MISSING"], returncode=2)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM["find"](), args=list(_ARGUMENTS), ignore_default_args=["--headless"]
        )
        yield found
        found.close()


def _watched(page: Any) -> Any:
    """What goes wrong on a page is in `page.faults`."""
    page.faults = []
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    return page


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file offline; what the page complains of, and what it asks a network for, is in `page.faults`."""
    contexts = []

    def open_file(path: Any, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 760, "height": 700}, **options})
        contexts.append(context)
        context.set_offline(True)
        page = _watched(context.new_page())
        page.on("request", lambda request: page.faults.append(request.url) if "file:" not in request.url else None)
        page.goto(path.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()


# JupyterLab


@dataclass
class Lab:
    """A JupyterLab of its own, with folders of its own."""

    address: str
    home: Path
    browser: Any
    pages: list[Any] = field(default_factory=list)

    def environ(self) -> dict[str, str]:
        return {**os.environ, **_folders(self.home)}

    def write(self, name: str, notebook: Any) -> Path:
        path = self.home / "work" / name
        import_module("nbformat").write(notebook, path)
        return path

    def theme(self, name: str) -> None:
        """The settings of a student: light or dark. Every cell is in the page, wherever it is scrolled to."""
        chosen = {
            "apputils-extension/themes": {"theme": f"JupyterLab {name.title()}"},
            "apputils-extension/notification": {
                "fetchNews": "false",
                "checkForUpdates": False,
                "doNotDisturbMode": True,
            },
            "notebook-extension/tracker": {"windowingMode": "none"},
        }
        for where, setting in chosen.items():
            path = self.home / "config" / "lab" / "user-settings" / "@jupyterlab" / f"{where}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(setting))

    def open(self, name: str, theme: str = "light") -> Any:
        self.theme(theme)
        page = _watched(self.browser.new_page(viewport={"width": 1300, "height": 1300}))
        self.pages.append(page)
        page.set_default_timeout(SLOW)
        page.goto(f"{self.address}/lab/tree/{name}?reset")
        page.wait_for_selector(f'[data-jp-theme-light="{str(theme == "light").lower()}"] .jp-Notebook .jp-Cell')
        return page

    def run(self, page: Any) -> None:
        """Run all cells, and wait until the last has come to its end."""
        page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
        page.locator(".jp-Notebook .jp-Cell").first.click()
        self._run_all(page)
        still = 0
        for _ in range(SLOW // 250):
            prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputArea-prompt").all_inner_texts()
            if all(re.search(r"\[\d+\]", prompt) for prompt in prompts):
                return
            # A Lab that has just started may say that its kernel is idle and then lose what it is asked to run.
            still = 0 if any("*" in prompt for prompt in prompts) else still + 1
            if still == 20:
                self._run_all(page)
                still = 0
            page.wait_for_timeout(250)
        page.screenshot(path=_folder() / "not-run.png")
        pytest.fail(f"the cells have not all run: {prompts}")

    def _run_all(self, page: Any) -> None:
        page.get_by_role("menuitem", name="Run", exact=True).first.click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def _folder() -> Path:
    """Where whole screenshots are left to be looked at."""
    folder = ROOT / "build" / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _folders(home: Path) -> dict[str, str]:
    return {f"JUPYTER_{kind}_DIR": str(home / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    home = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--port", str(port), "--ServerApp.root_dir", str(home / "work")]
    options += ["--IdentityProvider.token=", "--LabApp.workspaces_dir", str(home / "spaces"), "--LabApp.news_url=None"]
    (home / "work").mkdir()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    environ = {**os.environ, **_folders(home), "PYTHONPATH": path}
    with (home / "log").open("w") as log:
        started = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environ, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            _await(f"{address}/api", started, home / "log")
            yield address, home
        finally:
            started.terminate()
            started.wait(timeout=30)


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
def lab(server: tuple[str, Path], browser: Any) -> Iterator[Lab]:
    made = Lab(*server, browser)
    yield made
    for page in made.pages:
        page.close()


# What a page is held against


# What netcl cannot mend: JupyterLab makes an image of an SVG and gives it no text (jupyter/enhancement-proposals#120),
# though the SVG holds one; ipywidgets gives the handle of a slider no name, though its description stands beside it.
ELSEWHERE = {"image-alt": ".jp-RenderedSVG > img", "aria-input-field-name": ".widget-slider .noUi-handle"}


@pytest.fixture(scope="session")
def axe() -> Callable[..., list[str]]:
    """The serious faults that axe-core finds on a page, or in the parts of it that a selector names."""
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")

    def faults(page: Any, part: str = "html") -> list[str]:
        assert page.locator(part).count() > 0
        page.evaluate(script)
        return page.evaluate(_GRAVE, [part, ELSEWHERE])

    return faults


_GRAVE = """async ([part, elsewhere]) => (await axe.run({include: [part]}, {elementRef: true})).violations
    .filter(({impact}) => impact === "serious" || impact === "critical")
    .flatMap(({id, nodes}) => nodes.filter(({element}) => !(id in elsewhere && element.matches(elsewhere[id])))
        .map(({html}) => `${id}: ${html.slice(0, 200)}`))"""


SCALE = 4  # screenshots are stored at a quarter of their size: letters blur, so that another font hinting is no change
MOST, MEAN = 48, 2.0  # of 255: how far one pixel of the small picture may be off, and all of them together


_WIDTHS = """() => {
    const pen = document.createElement("canvas").getContext("2d");
    return ["Helvetica,Arial,sans-serif", "ui-monospace,Menlo,Consolas,monospace"].map(font => {
        pen.font = "100px " + font;
        return Math.round(pen.measureText("∂loss/∂y = 2(x + 1)").width); }); }"""


@pytest.fixture
def looks(request: pytest.FixtureRequest) -> Iterator[Callable[[Any, str], None]]:
    """Compare a screenshot of a locator with the stored one of that name; `--renew` stores it instead.

    With other fonts than those of the stored ones nothing can be compared; that is said after the test.
    """
    fonts = HERE / "looks" / "fonts.json"
    other = []

    def compare(locator: Any, name: str) -> None:
        widths = locator.page.evaluate(_WIDTHS)
        if request.config.getoption("--renew"):
            fonts.write_text(json.dumps(widths) + "\n")
        elif widths != json.loads(fonts.read_text()):
            other.append(name)
            return
        image = import_module("PIL.Image")
        chops, stat = import_module("PIL.ImageChops"), import_module("PIL.ImageStat")
        folder = _folder()
        whole, stored = folder / f"{name}.full.png", HERE / "looks" / f"{name}.png"
        locator.screenshot(path=whole, animations="disabled")
        small = image.open(whole).convert("RGB").reduce(SCALE).quantize(64)
        if request.config.getoption("--renew"):
            stored.parent.mkdir(exist_ok=True)
            small.save(stored, optimize=True)
            return
        small.save(folder / f"{name}.png")
        now, before = small.convert("RGB"), image.open(stored).convert("RGB")
        assert all(abs(a - b) <= 2 for a, b in zip(now.size, before.size, strict=True)), (now.size, before.size)
        both = tuple(map(min, now.size, before.size))
        apart = chops.difference(now.crop((0, 0, *both)), before.crop((0, 0, *both)))
        worst, mean = max(high for _, high in apart.getextrema()), max(stat.Stat(apart).mean)
        assert worst <= MOST and mean <= MEAN, f"{whole} looks unlike {stored}: {worst} at most, {mean:.2f} on average"

    yield compare
    if other:
        pytest.skip(f"other fonts than in the stored screenshots: {', '.join(other)} not compared")


@pytest.fixture(scope="session")
def trust() -> Callable[[Lab, Path], None]:
    def sign(lab: Lab, path: Path) -> None:
        done = subprocess.run([sys.executable, "-m", "jupyter", "trust", str(path)], env=lab.environ(), check=False,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr

    return sign


@pytest.fixture
def copied(lab: Lab) -> Callable[..., str]:
    """Copy a notebook into the Lab's folder, as a student gets it; one with a mark can be trusted by itself."""

    def copy(name: str, mark: str = "") -> str:
        made = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))
        if mark:
            made["metadata"]["mark"] = mark
        (lab.home / "work" / f"{mark}{name}").write_text(json.dumps(made), encoding="utf-8")
        return f"{mark}{name}"

    return copy
