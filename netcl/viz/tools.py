"""What can be done beside stepping: follow one entry, nudge a leaf, look at the kernel."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets
import numpy as np

from netcl.viz.backward import gradient
from netcl.viz.behind import behind, measured
from netcl.viz.follow import MOST_ENTRIES, Trail, follow
from netcl.viz.guard import Stage, guarded
from netcl.viz.nudge import BY, entry_text, nudge
from netcl.viz.text import clip, xml
from netcl.viz.values import number

NOTHING, FOLLOW, NUDGE, KERNEL = "Steps", "Follow an entry", "Nudge a leaf", "Kernel"
_ALL = -1
_NO_TENSOR = -1


def html(text: str) -> str:
    """A piece of HTML in the stepper's own style."""
    return f'<div class="netcl-step"><div class="netcl-panel">{text}</div></div>'


class Tools:
    """The controls under the picture; `bar` chooses which of them are open."""

    def __init__(self, stepper: Stage) -> None:
        self.stepper, self.error = stepper, stepper.error
        self.trail: Trail | None = None
        self.bar = widgets.ToggleButtons(options=[NOTHING, FOLLOW, NUDGE, KERNEL], value=NOTHING)
        self.bar.style.button_width = "auto"
        self.bar.layout.padding = "0 0 0 10px"
        wide = widgets.Layout(width="auto", min_width="220px")
        self.tensor = widgets.Dropdown(description="tensor", options=self._tensors(leaves=False), layout=wide)
        self.entry = widgets.Dropdown(description="entry", options=[("", 0)], layout=wide)
        self.trailed = widgets.HTML()
        leaves = self._tensors(leaves=True)
        self.leaf = widgets.Dropdown(description="leaf", options=leaves or [("none", _NO_TENSOR)], layout=wide)
        self.part = widgets.Dropdown(description="entry", options=[("", 0)], layout=wide)
        self.push = widgets.Button(description=f"Add {BY} to it", tooltip="Run the recorded graph again")
        self.moved = widgets.HTML()
        self.kernel = widgets.HTML()
        self.clock = widgets.Button(description="Measure the time", tooltip="Run this step's rule several times")
        self.following = _row(self.tensor, self.entry, self.trailed)
        self.nudging = _row(self.leaf, self.part, self.push, self.moved)
        self.looking = _row(self.clock, self.kernel)
        self.box = widgets.VBox([self.bar, self.following, self.nudging, self.looking])
        self.bar.observe(self._open, "value")
        self.tensor.observe(self._choose_tensor, "value")
        self.entry.observe(self._choose_entry, "value")
        self.leaf.observe(self._choose_leaf, "value")
        self.push.on_click(self._push)
        self.clock.on_click(self._time)
        self._fill_entries()
        self._show_open()

    def _tensors(self, leaves: bool) -> list[tuple[str, int]]:
        run = self.stepper.run
        cards = [card for card in run.view.cards if card.key in run.nodes]
        return [(clip(card.name, 30), card.key) for card in cards if not leaves or card.kind == "leaf"]

    def _entries(self, key: int) -> list[tuple[str, int]]:
        shape = self.stepper.run.view.card(key).shape
        count = min(int(np.prod(shape)), MOST_ENTRIES)
        return [(entry_text(shape, i) or "the number itself", i) for i in range(count)]

    def _fill_entries(self) -> None:
        self.entry.options = self._entries(self.tensor.value) if self.tensor.value is not None else []
        if self.leaf.value is not None and self.leaf.value != _NO_TENSOR:
            some = self._entries(self.leaf.value)
            self.part.options = [*some, ("every entry", _ALL)] if len(some) > 1 else some

    def _show_open(self) -> None:
        boxes = {FOLLOW: self.following, NUDGE: self.nudging, KERNEL: self.looking}
        for name, box in boxes.items():
            box.layout.display = "flex" if self.bar.value == name else "none"

    @guarded
    def _open(self, _: Any) -> None:
        self._show_open()
        self.trail = None
        if self.bar.value == FOLLOW:
            self._follow()
        self.stepper.refresh()

    @guarded
    def _choose_tensor(self, _: Any) -> None:
        self._fill_entries()
        self._follow()
        self.stepper.refresh()

    @guarded
    def _choose_entry(self, _: Any) -> None:
        self._follow()
        self.stepper.refresh()

    @guarded
    def _choose_leaf(self, _: Any) -> None:
        self.moved.value = ""
        self._fill_entries()

    def _follow(self) -> None:
        self.trail, self.trailed.value = None, ""
        if self.bar.value != FOLLOW or self.tensor.value is None or self.entry.value is None:
            return
        self.trail = follow(self.stepper.run, self.tensor.value, self.entry.value)
        lost = f" {self.trail.lost}." if self.trail.lost else ""
        said = f"Entries that are not on its way to the loss are left out.{lost}"
        self.trailed.value = html(f'<p class="netcl-note">{xml(said)}</p>')

    @guarded
    def _push(self, _: Any) -> None:
        """Nudge a leaf; in a quiz, not one whose gradient is still to be found."""
        run, key = self.stepper.run, self.leaf.value
        if key is None or key not in run.nodes:
            return
        card = run.view.card(key)
        if self.stepper.questions_open and run.passage.coming(key, self.stepper.at):
            self.moved.value = html(f"<p>{xml(card.caption)} is not complete at this step: predict it first.</p>")
            return
        leaf = run.nodes[key]
        index = None if self.part.value == _ALL else self.part.value
        if leaf.grad is None or not leaf.value.size:
            told = "This leaf has no entries." if leaf.grad is not None else "No gradient reaches this leaf."
            self.moved.value = html(f"<p>{told}</p>")
            return
        seed = gradient(run.root).to_host()
        found = nudge(run.root, leaf, gradient(leaf).to_host(), seed, (clip(card.name, 24), run.view.name), index)
        self.moved.value = html(f'<p role="status">{xml(found.sentence)}</p>')

    @guarded
    def _time(self, _: Any) -> None:
        step = self.stepper.run.passage.steps[self.stepper.at]
        self.show_kernel(measured(self.stepper.run, step))

    def show_kernel(self, time: float | None = None) -> None:
        """The kernels of the step that is shown; a time only if one was asked for."""
        if self.bar.value != KERNEL:
            return
        step = self.stepper.run.passage.steps[self.stepper.at]
        found = behind(self.stepper.run, step)
        self.clock.disabled = not found.kernels
        parts = [f"<p>{xml(found.note)}</p>"] if found.note else []
        if found.kernels:
            count = len(found.kernels)
            said = f"{count} kernel{'s' * (count > 1)}; tensors of {found.nbytes} bytes read and written."
            if time is not None:
                said += f" The rule took {number(time, 3)} µs here, from the call to its end (median)."
            parts.append(f'<p role="status">{said}</p>')
        for kernel in found.kernels:
            entries = f"{kernel.work} entr{'y' if kernel.work == 1 else 'ies'}"
            parts.append(f"<h4>{xml(kernel.name)}: {kernel.purpose}, about {entries}</h4>")
            label = xml(f"OpenCL C of {kernel.name}")
            code = f"<code>{xml_lines(kernel.program.strip())}</code>"
            parts.append(f'<pre class="netcl-kernel" tabindex="0" aria-label="{label}">{code}</pre>')
        self.kernel.value = html("".join(parts))


def xml_lines(text: str) -> str:
    """Several lines, escaped one by one: `xml` would make spaces of their ends."""
    return "\n".join(xml(line) for line in text.splitlines())


def _row(*children: Any) -> widgets.Box:
    return widgets.Box(
        children, layout=widgets.Layout(flex_flow="row wrap", align_items="center", padding="4px 0 0 10px")
    )
