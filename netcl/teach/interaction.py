"""`interact`: a drawing with a slider for each of its numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from netcl.errors import ArgumentError
from netcl.teach.figures import Drawn, Picture, figure
from netcl.viz.css import ALONE, show, style
from netcl.viz.guard import guarded
from netcl.viz.text import xml

__all__ = ["Interaction", "interact"]

_STEPS = 100
_SLOW = 0.25  # s a move: above that sliders wait until they are let go


class Interaction:
    """A drawing at the values of its sliders; `picture` is the last that could be drawn."""

    def __init__(self, draw: Callable[..., Drawn], alt: Callable[..., str], ranges: dict[str, tuple[float, ...]]):
        self.draw, self.alt = draw, alt
        self.sliders = {name: _slider(name, *each) for name, each in ranges.items()}
        self._start = {name: slider.value for name, slider in self.sliders.items()}
        self.error, self.shown = widgets.HTML(), widgets.HTML()
        self.picture = self.static = self._drawn()
        for slider in self.sliders.values():
            slider.observe(self._moved, "value")
        self.reset = widgets.Button(description="⏮ Start values", tooltip="every slider to where it began")
        self.reset.on_click(self._restart)
        look = widgets.HTML(f"{style()}{ALONE}")
        column = widgets.Layout(max_width="740px")
        self.widget = widgets.VBox([look, *self.sliders.values(), self.reset, self.error, self.shown], layout=column)
        self._show()

    @property
    def values(self) -> dict[str, float]:
        """Where the sliders stand."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def _drawn(self) -> Picture:
        values = self.values
        return figure(self.draw(**values), self.alt(**values))

    def _show(self) -> None:
        said = f'<p aria-live="polite">{xml(self.picture.alt)}</p>'
        self.shown.value = f'<div class="netcl-step netcl-live">{self.picture.html}{said}</div>'

    @guarded
    def _moved(self, _: Any) -> None:
        start = time.monotonic()
        self.picture = self._drawn()
        self._show()
        if time.monotonic() - start > _SLOW:
            for slider in self.sliders.values():
                slider.continuous_update = False

    @guarded
    def _restart(self, _: Any) -> None:
        for name, slider in self.sliders.items():
            slider.value = self._start[name]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**(self.widget._repr_mimebundle_() or {}), "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        bundle, metadata = self.static._repr_mimebundle_()
        show(bundle, self._repr_mimebundle_(), metadata)

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {value:.4g}" for name, value in self._start.items())
        return f"<Interaction: {values} at the start>"


def _slider(name: str, low: float, high: float, start: float) -> widgets.FloatSlider:
    whole = all(isinstance(number, int) for number in (low, high, start))
    step = 1.0 if whole else 10.0 ** math.floor(math.log10((high - low) / _STEPS))
    return widgets.FloatSlider(
        value=start, min=low, max=high, step=step, description=name, readout_format=".0f" if whole else ".3g",
        style={"description_width": "initial"}, layout=widgets.Layout(width="min(100%,480px)"),
    )  # fmt: skip


def interact(draw: Callable[..., Drawn], alt: Callable[..., str], **sliders: tuple[float, float, float]) -> Interaction:
    """A slider per keyword, given as (low, high, start); `draw(**values)` returns a figure, `alt(**values)` a sentence.

    Three whole numbers make a slider that stands at whole numbers alone; `draw` gets them as floats.

    The picture at the start stands beside the widget for those who read without a kernel. What goes wrong after a move
    is said above the picture, which stays.

    Raises:  ArgumentError if a range is no range, or there is none; whatever `draw` raises at the start
    """
    if not sliders:
        raise ArgumentError("interact() needs a slider: interact(draw, alt=…, h=(0.01, 2.0, 0.5))")
    ranges = {}
    for name, each in sliders.items():
        try:
            low, high, start = (number if isinstance(number, int) else float(number) for number in each)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name} is given as (low, high, start), not {each!r}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= start <= high and low < high):
            raise ArgumentError(f"{name}: low ≤ start ≤ high is needed, not {each!r}")
        ranges[name] = (low, high, start)
    return Interaction(draw, alt, ranges)
