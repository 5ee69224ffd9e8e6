"""Callbacks of widgets have no caller that could be told: what goes wrong in one is shown beside the picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import ipywidgets as widgets

from netcl.viz.replay import Replay
from netcl.viz.text import clip, xml


class Shows(Protocol):
    """Something with a place for errors."""

    error: widgets.HTML


class Stage(Protocol):
    """What the parts of a stepper see of the whole: the pass, where it stands, and how to have it drawn."""

    run: Replay
    error: widgets.HTML

    @property
    def at(self) -> int: ...
    @property
    def questions_open(self) -> bool: ...
    def refresh(self) -> None: ...
    def reveal(self, number: int) -> None: ...


F = TypeVar("F", bound=Callable[..., Any])


def guarded(method: F) -> F:
    """Show what a callback raises in `self.error`, and take it away at the next one."""

    @wraps(method)
    def call(self: Shows, *args: Any, **kwargs: Any) -> Any:
        self.error.value = ""  # before, and not after: one callback may set off another
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # ipywidgets would write it to a log that nobody reads
            self.error.value = complaint(error)
            return None

    return call  # type: ignore[return-value]


def complaint(error: Exception, more: str = "") -> str:
    """An error as HTML, and a line below it.

    >>> complaint(ValueError("x < y"))
    '<div class="netcl-step"><div class="netcl-error" role="alert"><b>ValueError</b>: x &lt; y</div></div>'
    """
    told = clip(str(error), 2000)
    inside = f"<b>{xml(type(error).__name__)}</b>: {xml(told)}" + (f"<br>{xml(more)}" if more else "")
    return f'<div class="netcl-step"><div class="netcl-error" role="alert">{inside}</div></div>'
