"""`step`: a backward pass to go through by hand, with everything that one step does beside the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from netcl.errors import ArgumentError
from netcl.viz.arrange import PAGE, Direction, checked
from netcl.viz.asking import Asking
from netcl.viz.css import ALONE, VARIABLES, VariableWriter, show, style, widened
from netcl.viz.film import Filmstrip
from netcl.viz.follow import heading
from netcl.viz.frames import Frames, Look
from netcl.viz.guard import guarded
from netcl.viz.layout import TIME_LIMIT
from netcl.viz.names import caller_frame
from netcl.viz.palette import LIGHT
from netcl.viz.panels import panel
from netcl.viz.png import bundled
from netcl.viz.quiz import KINDS, Answer, Quiz
from netcl.viz.replay import Replay, replay
from netcl.viz.select import MOST_CARDS
from netcl.viz.steps import Step
from netcl.viz.text import counted, xml
from netcl.viz.tools import KERNEL, Tools

_PLAY = 1800  # ms a step
_PLAYS = {False: "Play", True: "Pause"}
_DIRECTIONS = ("auto", "lr", "td")
_MOST = (MOST_CARDS, 24, 12)  # a graph that is too wide for a page with all its cards is folded further


class Stepper:
    """A backward pass, one edge a step. `at` is the step that is shown; set it to go there.

    In predict mode `answers` keeps what was answered, and how sure the student was. The graph is not changed, and is
    held as long as the stepper is.
    """

    def __init__(self, run: Replay, frames: Frames, quiz: Quiz | None = None, shows_png: bool = False) -> None:
        self.run, self.frames, self.quiz, self.shows_png = run, frames, quiz, shows_png
        last = run.passage.last
        self.error, self.picture, self.below = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.first, self.back, self.next, self.last = (
            widgets.Button(description=text, tooltip=tip, layout=widgets.Layout(width="auto"))
            for text, tip in (
                ("⏮ First", "the seed"), ("◀ Back", "one step back"), ("Next ▶", "one step on"), ("Last ⏭", "the end"),
            )
        )  # fmt: skip
        self.slider = widgets.IntSlider(
            0, 0, max(last, 1), description="step", layout=widgets.Layout(flex="1 1 200px", min_width="180px")
        )
        self.slider.style.description_width = "initial"
        self.play = widgets.Play(min=0, max=last, interval=_PLAY, layout=widgets.Layout(display="none"))
        # The buttons of Play have no names for a screen reader: it only counts, and this one starts it.
        self.playing = widgets.ToggleButton(
            description=_PLAYS[False], tooltip="go on by itself", layout=widgets.Layout(width="auto")
        )
        self.tools = Tools(self)
        self.asking = Asking(self, quiz) if quiz is not None else None
        self.widget = self._assemble()
        self._limit()
        self.refresh()

    def _assemble(self) -> widgets.VBox:
        shown = widgets.HTML(f"{style()}{ALONE}")
        moves = [self.first, self.back, self.next, self.last, self.slider]
        if self.asking is None:
            moves[2:2] = [self.play, self.playing]
            widgets.link((self.play, "value"), (self.slider, "value"))
            self.playing.observe(self._played, "value")
            widgets.link((self.playing, "value"), (self.play, "playing"))
        bar = widgets.Box(
            moves, layout=widgets.Layout(flex_flow="row wrap", align_items="center", padding="0 0 0 12px")
        )
        asking = [self.asking.box] if self.asking is not None else []
        # The buttons above the picture: below a tall one they would be off the screen when it changes.
        parts = [shown, bar, self.error, *asking, self.picture, self.below, self.tools.box]
        self.slider.observe(self._moved, "value")
        self.first.on_click(lambda _: self._go(0))
        self.back.on_click(lambda _: self._go(self.at - 1))
        self.next.on_click(lambda _: self._go(self.at + 1))
        self.last.on_click(lambda _: self._go(self._reach))
        whole = widgets.VBox(parts, layout=widgets.Layout(max_width=f"{self.frames.page + 20:.0f}px"))
        whole.add_class("netcl-step")
        return whole

    # Where it stands

    @property
    def at(self) -> int:
        """The number of the step that is shown."""
        return self.slider.value

    @at.setter
    def at(self, number: int) -> None:
        if not 0 <= number <= self._reach:
            raise ArgumentError(f"there are steps 0 to {self._reach} to show here, not {number}")
        self.slider.value = number

    @property
    def step(self) -> Step:
        """What happens at the step that is shown."""
        return self.run.passage.steps[self.at]

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers so far, in predict mode."""
        return tuple(self.quiz.answers) if self.quiz is not None else ()

    @property
    def questions_open(self) -> bool:
        """Whether steps have to be predicted before they are shown."""
        return self.quiz is not None

    @property
    def _reach(self) -> int:
        return self.asking.reach if self.asking is not None else self.run.passage.last

    @guarded
    def _go(self, number: int) -> None:
        self.slider.value = min(max(number, 0), self._reach)

    @guarded
    def _moved(self, _: Any) -> None:
        if self.slider.value > self._reach:
            self.slider.value = self._reach
        self.refresh()

    @guarded
    def _played(self, _: Any) -> None:
        self.playing.description = _PLAYS[self.playing.value]
        if self.playing.value and self.at == self._reach:
            self._go(0)

    def reveal(self, number: int) -> None:
        """Show a step that had to be predicted first."""
        self._limit()
        self.slider.value = number

    def _limit(self) -> None:
        self.slider.max = max(self._reach, 1)
        self.slider.disabled = self._reach == 0

    # What it shows

    def refresh(self) -> None:
        """Draw the step that is shown, and what stands beside it."""
        at, passage = self.at, self.run.passage
        asked = self._asked()
        trail = self.tools.trail
        look = trail.look(self.run, at) if trail is not None else Look(at)
        look = Look(at, asked, look.masks, look.notes, self.asking is not None)
        drawn = self.frames.svg(look, VARIABLES, VariableWriter)
        self.picture.value = f'<div class="netcl-step netcl-live"{widened(self.frames.page)}>{drawn}</div>'
        shown = passage.steps[at if asked is None else asked]
        entry = trail.lines if trail is not None else {}
        caption = heading(self.run, trail, shown.target) if trail is not None else ""
        notes = "".join(f'<p class="netcl-note">{xml(note)}</p>' for note in (*self.run.view.notes, *self.run.notes))
        panels = panel(passage, at, asked, entry, caption)
        self.below.value = f'<div class="netcl-step" aria-live="polite">{panels}{notes}</div>'
        self.first.disabled = self.back.disabled = at == 0
        self.next.disabled = self.last.disabled = at >= self._reach
        if self.tools.bar.value == KERNEL:
            self.tools.show_kernel()

    def _asked(self) -> int | None:
        asking = self.asking
        return asking.asked if asking is not None and self.at == asking.reach else None

    # What notebooks and files get

    @property
    def static(self) -> dict[str, str]:
        """What is seen without a kernel: all steps, or in predict mode the graph before the first."""
        if self.quiz is not None:
            picture = self.frames.svg(Look(0, unnumbered=True), LIGHT)
            said = f"backward pass of {self.run.view.name}, {counted(self.run.passage.last, 'step')} to predict"
            shown = {"image/svg+xml": picture, "text/plain": f"{said}\n\n{self.run.passage.steps[0].sentence}"}
        else:
            shown = {"image/svg+xml": self._film.svg, "text/plain": self._film.text}
        return bundled(shown) if self.shows_png else shown

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the pass to a file, in the format that its ending names, and return the path.

        `.html` is a page that steps through the pass by keyboard and needs no server and no network.

        Raises:  ArgumentError if the ending is not .html, .svg, .png, .txt or .dot
        """
        return self._film.save(path)

    @property
    def _film(self) -> Filmstrip:
        return Filmstrip(self.run.passage, notes=self.run.notes, page=self.frames.page)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**(self.widget._repr_mimebundle_() or {}), "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        show(self.static, self._repr_mimebundle_())

    def __repr__(self) -> str:
        asked = ", to be predicted" if self.quiz is not None else ""
        return f"<Stepper of {self.run.view.name}: {counted(self.run.passage.last, 'step')}{asked}>"


def step(
    root: Any,
    *,
    predict: bool = False,
    ask: Sequence[str] = KINDS,
    names: Mapping[Any, str] | None = None,
    direction: Direction = "auto",
    png: bool = False,
    page: float = PAGE,
    time_limit: float = TIME_LIMIT,
) -> Stepper:
    """Go through the backward pass of a node (or of a tape's last one) by hand: step 0 is the seed, then edge by edge.

    The pass is run again on a copy of the graph's records, from the seed of the last backward or from ones: nothing in
    the graph changes, and it need not have run. With `predict` each step is asked about before it is shown; `ask`
    chooses among the questions: `"edge"`, `"shape"`, `"sign"`, `"entry"`. `png` stores the static picture as PNG too,
    which a notebook shows that is not trusted. `page` is how wide the output area is.

    Units:   `page` in CSS pixels, from 400; `time_limit` in seconds: a layout that takes longer gives steps in words
    Raises:  ArgumentError if `root` has no graph, or an argument is not one of the above; GraphError if it was released

    >>> from netcl import autograd as ag, viz
    >>> a = ag.tensor(2.0, requires_grad=True)
    >>> f = a * a
    >>> stepper = viz.step(f)
    >>> stepper
    <Stepper of f: 2 steps>
    >>> stepper.at = 2
    >>> stepper.step.sentence.split(". ")[-1]
    '1 × 2 = 2 is added to what ∂f/∂a holds: 2 + 2 = 4.'
    >>> viz.step(f, page=480).widget.layout.max_width
    '500px'
    """
    if direction not in _DIRECTIONS:
        raise ArgumentError(f"direction is one of {', '.join(_DIRECTIONS)}, not {direction!r}")
    checked(page)
    frame = caller_frame()
    for most in _MOST:
        run = replay(root, names, frame, most)
        frames = Frames(run.passage, direction, time_limit, page)
        if not frames.too_wide or direction == "lr":
            break
    return Stepper(run, frames, Quiz(run, ask) if predict else None, png)
