"""`explore`: a function with a slider for each of its leaves; its graph, and its loss against one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import numpy as np

from netcl.errors import ArgumentError
from netcl.viz import curve as curves
from netcl.viz.controls import Control, Range, controls
from netcl.viz.css import ALONE, VARIABLES, VariableWriter, show, style
from netcl.viz.exploring import Function, Ghost, Run
from netcl.viz.guard import complaint, guarded
from netcl.viz.knobs import Knobs
from netcl.viz.names import caller_frame
from netcl.viz.page import still
from netcl.viz.palette import LIGHT
from netcl.viz.png import bundled, render
from netcl.viz.report import grid
from netcl.viz.select import MOST_CARDS
from netcl.viz.steady import Signature, Steady, changed, signature
from netcl.viz.svg import Writer
from netcl.viz.tables import table
from netcl.viz.text import clip, xml
from netcl.viz.values import number, view

_TALL = "min-height:70px"  # as tall as an error, so that nothing moves when one takes its place
_POINTS = 41
_SLOW = 0.25  # s a move: above that sliders wait until they are let go
_MOST_LAYOUTS = 8
_MOST = (MOST_CARDS, 24, 12)


class Explorer:
    """A function at the values that its sliders hold. `knobs.sliders` are those, by what they move.

    `run` is the last run that came to an end, `before` the one that it is compared with. No tensor of it is held, and
    no gradient of the user's is changed.
    """

    def __init__(self, function: Function, shows_png: bool = False) -> None:
        self.function, self.ghost, self.shows_png = function, Ghost(), shows_png
        self._layouts: dict[Signature, Steady] = {}
        self._sampled: dict[Any, tuple[float, ...]] = {}  # losses along a slider, by where the others stand
        self._quiet = False
        self.knobs = Knobs(function.controls)
        self.error, self.picture, self.note, self.plot = (widgets.HTML() for _ in range(4))
        self.against = widgets.Dropdown(
            description="against", options=[(text, i) for i, (text, _, _) in enumerate(self.knobs.entries)],
            layout=widgets.Layout(width="auto", min_width="180px"),
        )  # fmt: skip
        self.reset = widgets.Button(description="⏮ Start values", tooltip="every slider to where it began")
        self.hold = widgets.ToggleButton(description="Hold 'before'", tooltip="compare with the same run from now on")
        self.run = self._first()
        self.widget = self._assemble()
        self._show()

    def _first(self) -> Run:
        """The run at the start; a graph that is too wide for a page with all its cards is folded further."""
        for most in _MOST:
            self.function.most = most
            run = self.function.run(self.knobs.values)  # what goes wrong here is told to the caller
            steady = Steady(run.view)
            if not steady.too_wide:
                break
        self._layouts[steady.signature] = steady
        self.ghost.moved(run, "", time.monotonic())
        return run

    def _assemble(self) -> widgets.VBox:
        self.knobs.observe(self._moved)
        self.against.observe(self._turned, "value")
        self.hold.observe(self._turned, "value")
        self.reset.on_click(self._restart)
        row = widgets.Layout(flex_flow="row wrap", align_items="center", padding="2px 0 0 12px")
        chosen = [self.against] if self.knobs.entries else []
        bar = widgets.Box([self.reset, self.hold, *chosen], layout=row)
        shown = widgets.HTML(f"{style()}{ALONE}")
        parts = [shown, self.knobs.box, bar, self.error, self.note, self.plot, self.picture]
        whole = widgets.VBox(parts, layout=widgets.Layout(max_width="740px"))
        whole.add_class("netcl-step")
        return whole

    @property
    def before(self) -> Run | None:
        """The run to compare with, if there is one that differs."""
        found = self.ghost.run
        return None if found is self.run else found

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The leaves of the run that is shown."""
        return {name: value.copy() for name, value in self.run.values.items()}

    # What moves

    @guarded
    def _moved(self, mover: str) -> None:
        if self._quiet:
            return
        start = time.monotonic()
        try:
            self.run = self.function.run(self.knobs.values)
        except Exception as error:  # whatever the function raises is shown where the loss was, and the picture stays
            self.note.layout.display = "none"
            self.error.value = complaint(error, f"The picture is still that of {self._at()}.")
            return
        self.note.layout.display = None
        self.ghost.moved(self.run, mover, time.monotonic())
        self._show()
        if time.monotonic() - start > _SLOW:
            self.knobs.wait()

    @guarded
    def _turned(self, _: Any) -> None:
        self.ghost.held = bool(self.hold.value)
        self._show()

    @guarded
    def _restart(self, _: Any) -> None:
        self._quiet = True
        try:
            self.knobs.reset()
        finally:
            self._quiet = False
        self._moved("reset")

    # What is shown

    def _show(self) -> None:
        before = self.before
        drawn = self._layout().svg(self.run.view, before.view if before else None, VARIABLES, VariableWriter)
        self.picture.value = f'<div class="netcl-step netcl-live">{drawn}</div>'
        said = f'<div class="netcl-panel" style="{_TALL}"><p>{xml(self.summary)}</p></div>'
        self.note.value = f'<div class="netcl-step" aria-live="polite">{said}</div>'
        curve = self.curve
        self.plot.value = "" if curve is None else f'<div class="netcl-step">{self._plotted(curve)}</div>'

    def _layout(self) -> Steady:
        """The layout of this graph: made once, and the same whenever the graph comes back."""
        form = signature(self.run.view)
        if form not in self._layouts:
            if len(self._layouts) >= _MOST_LAYOUTS:
                self._layouts.pop(next(iter(self._layouts)))
            self._layouts[form] = Steady(self.run.view)
        if not self._layouts[form].fits(self.run.view):  # once: from then on these words have room as well
            self._layouts[form] = Steady(self.run.view, roomy=True)
        return self._layouts[form]

    def _at(self) -> str:
        values = self.run.values
        found = (f"{each.shown} = {view(values[each.name]).line(30)}" for each in self.function.controls)
        return clip(", ".join(found), 160)

    @property
    def summary(self) -> str:
        """The loss and where it is; another graph than before is said, and a leaf that it does not depend on."""
        run, before = self.run, self.before
        was = f" (before {number(before.loss, 4)})" if before is not None else ""
        said = [f"{run.view.name} = {number(run.loss, 4)}{was} at {self._at()}."]
        said += [changed(before.view, run.view)] if before is not None else []
        said += [f"{run.view.name} does not depend on {', '.join(run.unused)}."] if run.unused else []
        return " ".join(filter(None, said))

    # The curve

    @property
    def curve(self) -> curves.Curve | None:
        """The loss against the chosen entry, computed anew only when another one has moved."""
        if self.against.value is None:
            return None
        label, control, which = self.knobs.entries[self.against.value]
        now, before = self.run, self.before
        ys, xs = self._samples(control, which, now)
        at = float(now.values[control.name][which.at]), now.loss
        was = (float(before.values[control.name][which.at]), before.loss) if before is not None else None
        old = self._samples(control, which, before)[0] if before is not None else None
        slope = float(now.gradients[control.name][which.at])
        root = clip(now.view.name, 16)
        return curves.Curve(
            label, now.view.name, f"∂{root}/∂{clip(label, 20)}", xs, ys, at, slope, was, None if old == ys else old
        )

    def _samples(self, control: Control, which: Range, run: Run) -> tuple[tuple[float, ...], tuple[float, ...]]:
        xs = tuple(float(x) for x in np.linspace(which.low, which.high, _POINTS))
        others = tuple(
            value.tobytes() if name != control.name else _without(value, which.at).tobytes()
            for name, value in run.values.items()
        )
        key = (control.name, which.at, others)
        if key not in self._sampled:
            while len(self._sampled) >= 4:
                self._sampled.pop(next(iter(self._sampled)))
            self._sampled[key] = self.function.losses(control.name, which.at, xs, run.values)
        return self._sampled[key], xs

    def _plotted(self, curve: curves.Curve) -> str:
        out, drawn = VariableWriter(VARIABLES), curves.block(curve)
        size = (drawn.width, drawn.height)
        out.open((f"{curve.loss} against {curve.leaf}", curve.sentence), size, size)
        out.shapes(drawn.shapes)
        return "".join([*out.parts, "</svg>"])

    # What notebooks and files get

    @property
    def svg(self) -> str:
        """The graph and the curve below it, as one SVG element."""
        return self._drawn(LIGHT, Writer)

    def _drawn(self, colours: Mapping[str, str], writer: type[Writer]) -> str:
        curve, before = self.curve, self.before
        below = curves.block(curve) if curve is not None else None
        return self._layout().svg(self.run.view, before.view if before else None, colours, writer, below)

    @property
    def text(self) -> str:
        """The leaves with their ranges and gradients, and the graph as a table."""
        rows = []
        for control in self.function.controls:
            value, slope = (view(found[control.name]) for found in (self.run.values, self.run.gradients))
            spans = {f"{number(each.low)} to {number(each.high)}" for each in control.ranges}
            span = " and ".join(sorted(spans)) if len(spans) < 3 else f"{len(spans)} ranges"
            rows.append([control.shown, value.line(30), span or "drawn from a seed", slope.line(30)])
        titles = ["leaf", "value", "from … to", f"∂{clip(self.run.view.name, 16)}/∂leaf"]
        curve = [self.curve.sentence, ""] if self.curve is not None else []
        return "\n".join([self.summary, "", *grid(titles, rows), "", *curve, table(self.run.view)])

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture (`.svg`, `.png`), the table (`.txt`), or both (`.html`) to a file, and return the path.

        Raises:  ArgumentError if the ending is another
        """
        path = Path(path)
        written = {".svg": "svg", ".png": "png", ".html": "_page", ".txt": "text"}
        kind = written.get(path.suffix.lower())
        if kind is None:
            raise ArgumentError(
                f"this is saved as {', '.join(written)}, not as {path.suffix or 'a file without ending'!r}"
            )
        if kind == "png":
            path.write_bytes(render(self.svg))
        else:
            path.write_text(getattr(self, kind) + "\n", encoding="utf-8", newline="\n")
        return path

    @property
    def _page(self) -> str:
        picture = self._drawn(VARIABLES, VariableWriter)
        return still(f"{self.run.view.name} at {self._at()}", picture, self.text)

    @property
    def static(self) -> dict[str, str]:
        """What is seen without a kernel."""
        shown = {"image/svg+xml": self.svg, "text/plain": self.text}
        return bundled(shown) if self.shows_png else shown

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**(self.widget._repr_mimebundle_() or {}), "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        show(self.static, self._repr_mimebundle_())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Explorer of {self.run.view.name}: {', '.join(each.shown for each in self.function.controls)}>"


def _without(value: np.ndarray, at: tuple[int, ...]) -> np.ndarray:
    """The array but for one entry."""
    rest = value.copy()
    rest[at] = 0
    return rest


def explore(
    f: Callable[..., Any], /, *, names: Mapping[Any, str] | None = None, png: bool = False, **leaves: Any
) -> Explorer:
    """Move the leaves of a function by sliders, and see what that does to its graph and to every gradient.

    A leaf is given as a number (its slider reaches around it), `(low, high)`, `(low, high, step)`, or an array: a small
    one has a slider for each entry, a large one is drawn anew from a seed. At each move `f` is called with nodes and
    its backward pass is run. The numbers before the move stay as a ghost; the curve shows the loss against one leaf,
    and its tangent, which is the gradient. Nodes are called as in `f`, or as `names` says: by an argument's name, by
    that of a variable of `f`, by "loss" for a result without one, or by a tensor that `f` reads. `png` stores the
    static picture as PNG too, which a notebook shows that is not trusted.

    Raises:  ArgumentError if `f` does not return a scalar node that depends on a leaf, a leaf is none of the above, or
             `names` speaks of what is not there

    >>> from netcl import viz
    >>> explorer = viz.explore(lambda a, b: a * b + a**2, a=2.0, b=(-1, 1))
    >>> explorer
    <Explorer of loss: a, b>
    >>> explorer.knobs.sliders["b"].value = 1.0
    >>> explorer.summary
    'loss = 6 (before 4) at a = 2, b = 1.'
    >>> viz.explore(lambda p: (p - 3.0) ** 2, p=1.0, names={"p": "θ", "loss": "L"})
    <Explorer of L: θ>
    """
    found = controls(leaves, names)
    return Explorer(Function(f, found, caller_frame(), names), png)
