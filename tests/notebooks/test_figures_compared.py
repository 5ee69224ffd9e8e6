"""nbval compares a figure's words and its width, and not its pixels."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbval.plugin import get_sanitize_patterns

ROOT = Path(__file__).resolve().parents[2]
FIGURE = '<img alt="{alt}" width="700" src="data:image/png;base64,{data}">'


def test_the_pixels_alone_are_left_out() -> None:
    patterns = get_sanitize_patterns((ROOT / "tests/notebooks/nbval_sanitize.cfg").read_text(encoding="utf-8"))
    ((pattern, replacement),) = patterns
    texts = {re.sub(pattern, replacement, FIGURE.format(alt="a line", data=data)) for data in ("iVBO+/w==", "iVBOa")}
    assert texts == {'<img alt="a line" width="700" src="PNG">'}


@pytest.mark.parametrize(("alt", "code"), [("a line", 0), ("another line", 1)])
def test_a_run_tells_words_apart_and_not_pixels(tmp_path: Path, alt: str, code: int) -> None:
    shown = FIGURE.format(alt="a line", data="iVBOnew=")
    stored = {"text/html": FIGURE.format(alt=alt, data="iVBOold="), "text/plain": ["words"]}
    source = (
        f"from IPython.display import display\ndisplay({{'text/plain': 'words', 'text/html': {shown!r}}}, raw=True)"
    )
    output = {"output_type": "display_data", "data": stored, "metadata": {}}
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": source, "outputs": [output], "execution_count": 1}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "tests/notebooks").mkdir(parents=True)
    rules = (ROOT / "tests/notebooks/nbval_sanitize.cfg").read_text(encoding="utf-8")
    (tmp_path / "tests/notebooks/nbval_sanitize.cfg").write_text(rules, encoding="utf-8")
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", "a.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout
