"""The sliders of `explore`: one for a number, a grid of them for a small array, a seed for a large one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np

from netcl.viz.controls import MOST_SEED, Control, Range
from netcl.viz.text import clip

_COLUMNS = 3  # more do not fit a notebook's page


class Knobs:
    """Sliders by what they move: `a`, `W[0, 1]`, and `X` for the seed of an array that is drawn anew.

    `entries` are the numbers that have a slider: its name, its leaf and its range.
    """

    def __init__(self, controls: Sequence[Control]) -> None:
        self.controls = tuple(controls)
        self.sliders: dict[str, Any] = {}
        self.entries: list[tuple[str, Control, Range]] = []
        self.box = widgets.VBox(
            [self._row(control) for control in controls], layout=widgets.Layout(padding="4px 0 0 12px")
        )

    def _row(self, control: Control) -> Any:
        if not control.ranges:
            text = f"{clip(control.shown, 20)}: seed"
            found = widgets.IntSlider(0, 0, MOST_SEED, description=text, layout=_layout(1))
            found.tooltip = "0 is the array as it was given; any other number draws it anew"
            return self._added(control.name, found)
        columns = min(control.base.shape[-1], _COLUMNS) if control.base.shape else 1
        row = []
        for each in control.ranges:
            label, shown = control.label(each), control.shown_label(each)
            text = clip(shown, 28 if columns == 1 else 14)
            made = widgets.FloatSlider(
                each.start, min=each.low, max=each.high, step=each.step, description=text, layout=_layout(columns),
                readout_format=_digits(each.step),
            )  # fmt: skip
            row.append(self._added(label, made))
            self.entries.append((shown, control, each))
        if columns == 1:
            return row[0] if len(row) == 1 else widgets.VBox(row)
        template = widgets.Layout(grid_template_columns=f"repeat({columns}, minmax(0, 1fr))", width="100%")
        return widgets.GridBox(row, layout=template)

    def _added(self, label: str, slider: Any) -> Any:
        slider.style.description_width = "initial"
        self.sliders[label] = slider
        return slider

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The leaves as the sliders stand."""
        found = {}
        for control in self.controls:
            if not control.ranges:
                found[control.name] = control.drawn(self.sliders[control.name].value)
                continue
            array = control.base.copy()
            for each in control.ranges:
                array[each.at] = self.sliders[control.label(each)].value
            found[control.name] = array
        return found

    def observe(self, moved: Callable[[str], Any]) -> None:
        """Call `moved` with a slider's name at every move."""
        for label, slider in self.sliders.items():
            slider.observe(lambda _, mover=label: moved(mover), "value")

    def reset(self) -> None:
        """Every slider to where it began."""
        for control in self.controls:
            for each in control.ranges:
                self.sliders[control.label(each)].value = each.start
            if not control.ranges:
                self.sliders[control.name].value = 0

    def wait(self) -> None:
        """From now on a slider counts as moved when it is let go."""
        for slider in self.sliders.values():
            slider.continuous_update = False


def _layout(columns: int) -> Any:
    return widgets.Layout(width="96%", max_width="520px", min_width="0" if columns > 1 else "200px")


def _digits(step: float) -> str:
    """A format that shows every step.

    >>> _digits(0.05), _digits(2.0), _digits(1e-7)
    ('.2f', '.0f', '.3g')
    """
    text = f"{step:.10f}".rstrip("0")
    places = len(text.partition(".")[2])
    return f".{places}f" if places < 6 else ".3g"
