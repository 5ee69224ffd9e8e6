"""Progress bars: only of long work, and only where somebody sees them."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from netcl.viz import progress as module
from netcl.viz.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time; each look at it takes a second."""
    now = [0.0]

    def tick() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=tick))
    monkeypatch.setattr(module, "_shell", lambda: None)
    return now


def test_a_terminal_sees_how_far_long_work_is(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    assert list(progress(range(5), "kernels", 5)) == [0, 1, 2, 3, 4]
    assert "kernels" in out.getvalue() and "/5" in out.getvalue()


def test_short_work_and_files_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    assert list(progress("abc", "letters")) == ["a", "b", "c"] and out.getvalue() == ""


def test_no_bar_is_written_into_a_file(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    assert list(progress("abc", "letters")) == ["a", "b", "c"] and out.getvalue() == ""


def test_a_notebook_waits_longer(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr(module, "_shell", lambda: SimpleNamespace(config={"IPKernelApp": {}}))
    made: list[Any] = []
    monkeypatch.setattr(module, "_bar", lambda *given: made.append(given) or SimpleNamespace(update=int, close=int))
    assert list(progress("abcde", "letters")) == list("abcde") and made == []
    assert list(progress("abcdefg", "letters", 7)) == list("abcdefg") and made == [("letters", 5, 7)]
