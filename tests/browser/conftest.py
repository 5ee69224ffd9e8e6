"""A headless Chromium, driven by Playwright. CHROMIUM names the program; else it is looked for on the PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (pip install playwright)")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on the PATH; set CHROMIUM to one")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=program, args=list(_ARGUMENTS), ignore_default_args=["--headless"]
        )
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file offline; what the page complains of, and what it asks a network for, is in `page.faults`."""
    contexts = []

    def open_file(path: Any, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 760, "height": 700}, **options})
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.faults = []
        page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("request", lambda request: page.faults.append(request.url) if "file:" not in request.url else None)
        page.goto(path.as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
