"""What stands below the picture of a step, as HTML: the sentence, the source line, and the ledger of a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netcl.viz import saying
from netcl.viz.steps import Passage, Step
from netcl.viz.text import clip, xml
from netcl.viz.values import ArrayView


@dataclass(frozen=True, slots=True)
class Line:
    """One step seen at a single entry: how the contribution comes about, and what it is added to."""

    product: str
    total: str


def panel(
    passage: Passage, at: int, asked: int | None = None, entry: Mapping[int, Line] | None = None, heading: str = ""
) -> str:
    """The panel of step `at`; beside a question the ledger is that of the step which is `asked` about."""
    step = passage.steps[at]
    shown = step if asked is None else passage.steps[asked]
    parts = [source(shown), ledger(passage, shown, at, entry or {}, heading)]
    said = f'<p class="netcl-say">{xml(step.sentence)}</p>' if asked is None else ""
    return f'<div class="netcl-panel">{said}{"".join(parts)}</div>'


def source(step: Step) -> str:
    """The line of the user's program that made the node which passes its gradient on."""
    if not step.place:
        return ""
    return f'<div class="netcl-src"><span>{xml(step.place)}</span><code>{xml(step.source)}</code></div>'


def ledger(passage: Passage, shown: Step, at: int, entry: Mapping[int, Line], heading: str = "") -> str:
    """What has reached a card, through which consumer, and what will."""
    card = passage.view.card(shown.target)
    reached = [step for step in passage.ledger(card.key, at) if step.edge is not None]
    coming = passage.coming(card.key, at)
    if not reached and not coming:
        return ""
    rows = [_row(passage, step, "now" if step.number == at else "", entry) for step in reached]
    rows += [_row(passage, step, "later", entry) for step in coming]
    title = f"What has reached {clip(card.name, 24)} ({card.caption})" if card.caption else card.title
    head = (
        '<thead><tr><th scope="col">step</th><th scope="col">through</th><th scope="col">by the rule</th>'
        '<th scope="col" class="n">was + contribution = now</th></tr></thead>'
    )
    return f"<table><caption>{xml(heading or title)}</caption>{head}<tbody>{''.join(rows)}</tbody></table>"


def _row(passage: Passage, step: Step, state: str, entry: Mapping[int, Line]) -> str:
    through = clip(passage.view.card(step.child).title, 32)
    rule = step.rule.removeprefix("upstream ")
    if state == "later":
        edge = next(each for each in passage.view.edges if each.key == step.edge)
        rule, total = edge.rule or edge.forward, "not yet"
    elif step.number in entry:
        line = entry[step.number]
        rule, total = line.product, line.total
    else:
        total = sum_text(step)
    mark = ' class="now"' if state == "now" else ' class="later"' if state else ""
    return (
        f"<tr{mark}><td>{step.number}</td><td>{xml(through)}</td><td>{xml(rule)}</td>"
        f'<td class="n">{xml(total)}</td></tr>'
    )


def sum_text(step: Step) -> str:
    """`4 + 3 = 7`; for what is too long to add up on a line, what is there now."""
    first = step.was is None
    added = saying.addition(step.was, step.contribution, step.now, first)
    if added:
        return added
    came = _brief(step.contribution)
    return f"{_brief(step.was) if not first else '0'} + {came}" + (f" = {_brief(step.now)}" if step.now else "")


def _brief(array: ArrayView | None) -> str:
    return array.brief(22) if array is not None else "…"
