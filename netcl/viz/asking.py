"""Predict mode: each step is asked about before it is shown."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from netcl.errors import ArgumentError
from netcl.viz.guard import Stage, guarded
from netcl.viz.quiz import CONFIDENCE, Answer, Question, Quiz
from netcl.viz.text import xml


class Asking:
    """The questions of a stepper. `reach` is the last step that has been shown."""

    def __init__(self, stepper: Stage, quiz: Quiz) -> None:
        self.stepper, self.quiz, self.error = stepper, quiz, stepper.error
        self.reach = 0
        self.open: list[Question] = []
        self.prompt, self.verdict = widgets.HTML(), widgets.HTML()
        self.choices = widgets.RadioButtons(options=[], layout=widgets.Layout(width="auto"))
        self.number = widgets.Text(placeholder="a number", layout=widgets.Layout(width="140px"))
        self.sure = widgets.ToggleButtons(options=CONFIDENCE, value=None, description="how sure?")
        self.sure.style.button_width = "auto"
        self.check = widgets.Button(description="Check", button_style="primary", tooltip="Keep the answer and check it")
        self.show = widgets.Button(description="Show the step", tooltip="Go on without an answer")
        buttons = widgets.HBox([self.check, self.show])
        inside = widgets.Layout(padding="2px 0 0 14px")
        answer = widgets.VBox([self.choices, self.number, self.sure, buttons], layout=inside)
        self.answer = answer
        self.box = widgets.VBox([self.verdict, self.prompt, answer])
        self.check.on_click(self._check)
        self.show.on_click(self._show)
        self._prepare()

    @property
    def question(self) -> Question | None:
        """The question that is open."""
        return self.open[0] if self.open else None

    @property
    def asked(self) -> int | None:
        """The step that may be pointed at: the one asked about, once it is settled which it is."""
        question = self.question
        return question.step if question is not None and question.kind != "edge" else None

    def _prepare(self) -> None:
        """Put the questions of the next step; a step that has none is shown."""
        passage = self.stepper.run.passage
        self.open = []
        while not self.open and self.reach < passage.last:
            self.open = self.quiz.questions(self.reach + 1)
            if not self.open:
                self.reach += 1
        self._put()

    def _put(self) -> None:
        question = self.question
        self.answer.layout.display = "none" if question is None else "flex"
        if question is None:
            summary = self.quiz.summary
            told = f" {summary[:1].upper()}{summary[1:]}." if summary else ""
            self.prompt.value = _box(f"<h4>The pass is complete.</h4><p>{xml(told.strip())}</p>")
            return
        last = self.stepper.run.passage.last
        head = f"<h4>Predict step {question.step} of {last}, then press Check</h4>"
        self.prompt.value = _box(f"{head}<p>{xml(question.text)}</p>")
        self.choices.layout.display = "flex" if question.options else "none"
        self.number.layout.display = "none" if question.options else "flex"
        self.choices.options = question.options
        self.choices.value = None
        self.number.value = ""
        self.sure.value = None

    @guarded
    def _check(self, _: Any) -> None:
        question = self.question
        if question is None:
            return
        given = (self.choices.value or "") if question.options else self.number.value
        try:
            answer = self.quiz.judge(question, given, self.sure.value or "")
        except ArgumentError as error:  # something is still to be filled in: no error of the program's
            self.verdict.value = _box(f"<p>{xml(str(error)[:1].upper() + str(error)[1:])}.</p>")
            return
        self.verdict.value = _told(answer)
        if answer.right:
            self.open.pop(0)
            if self.open:
                self._put()
            else:
                self._reveal()
        self.stepper.refresh()

    @guarded
    def _show(self, _: Any) -> None:
        self.verdict.value = ""
        if self.question is not None:
            self._reveal()
            self.stepper.refresh()

    def _reveal(self) -> None:
        self.reach += 1
        shown = self.reach
        self._prepare()
        self.stepper.reveal(max(self.reach, shown))


def _box(text: str, mark: str = "") -> str:
    return f'<div class="netcl-step"><div class="netcl-ask{mark}" role="status">{text}</div></div>'


def _told(answer: Answer) -> str:
    text = f"<p><b>{xml(answer.given)}</b> — {xml(answer.feedback)}</p>"
    return _box(
        f'{text}<p class="netcl-note">how sure: {xml(answer.confidence)}</p>', " netcl-right" if answer.right else ""
    )
