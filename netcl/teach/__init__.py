"""What the lessons need: exercises that are checked, figures with words, sliders, and the course laid into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.teach.board import progress
from netcl.teach.checks import check, given, right
from netcl.teach.figures import figure

if TYPE_CHECKING:
    from netcl.teach.interaction import interact

__all__ = ["check", "figure", "given", "interact", "progress", "right"]


def __getattr__(name: str) -> Any:
    if name == "interact":
        from netcl.teach import interaction  # at first use: ipywidgets takes longer than all the rest

        return interaction.interact
    raise AttributeError(f"netcl.teach has no {name!r}")
