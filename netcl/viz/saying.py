"""A step of the backward pass in one or two sentences, with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl.viz.text import clip
from netcl.viz.values import ArrayView, shape_text

if TYPE_CHECKING:
    from netcl.viz.views import Card, Edge, GraphView

_ROOM = 40
_MINUS = "\u2212"
# Said at the start, since a picture shows all rules from its first step on.
_RULES = "In a rule, G is what arrives at the operation that has it."


def seed(root: Card, graph: GraphView, array: ArrayView | None) -> str:
    """What the pass begins with.

    >>> import numpy as np
    >>> from netcl.viz.values import view
    >>> from netcl.viz.views import Card, GraphView
    >>> graph = GraphView(0, "f", (), (), seed="1", ran=True)
    >>> seed(Card(0, "root", "f", "f", caption="∂f/∂f"), graph, view(np.array(1.0)))
    'The seed: ∂f/∂f = 1, since f changes by 1 for each unit of itself.'
    """
    if not graph.ran:
        return "Backward has not run."
    given = "given to backward by its caller"
    if array is not None and array.uniform == "1":
        what = _name(root) if array.size == 1 else f"each entry of {_name(root)}"
        given = f"since {what} changes by 1 for each unit of itself"
    said = f"The seed: {root.caption} = {graph.seed}, {given}."
    return f"{said} {_RULES}" if any(_speaks_of_g(each) for each in graph.edges) else said


def edge(
    each: Edge,
    upstream: ArrayView | None,
    was: ArrayView | None,
    contribution: ArrayView | None,
    now: ArrayView | None,
    first: bool,
    child: Card,
    target: Card,
    times: int = 1,
) -> str:
    """What one edge does: what arrives, how it goes back, and what it is added to.

    `times` is how often the target stands among the operands of the child.
    """
    if child.kind == "fold":
        return f"The folded nodes use {_name(target)} too. {_added(was, contribution, now, first, target)}"
    up = _told(upstream) if upstream is not None else ""
    arrives = f"{child.caption}{f' = {up}' if up else ''} arrives at {_name(child)}."
    if each.numbers:
        middle, product = _scalar(each, child, target)
        end = _added(was, contribution, now, first, target, product)
    else:
        middle, end = _mapped(each, child, target), _added(was, contribution, now, first, target)
    count = {2: "twice", 3: "three times"}.get(times, f"{times} times")
    twice = times > 1 and target.kind != "fold"
    which = f"{_name(target)} stands in it {count}; this is one of its ways." if twice else ""
    if twice and each.numbers:
        which = f"{_name(target)} stands in it {count}. Through this one of its places,"
    return " ".join(part for part in (arrives, which, middle, end) if part)


def _told(array: ArrayView) -> str:
    """An array in a sentence: its numbers where they are few."""
    line = array.line(_ROOM)
    if array.uniform is not None or not array.stats or line.startswith("["):
        return line
    return f"an array {shape_text(array.shape)} of {' '.join(array.stats[-1])}"


def addition(was: ArrayView | None, contribution: ArrayView | None, now: ArrayView | None, first: bool) -> str:
    """`4 + 3 = 7`, or nothing where it would be too long or is not known.

    >>> import numpy as np
    >>> from netcl.viz.values import view
    >>> addition(view(np.array(4.0)), view(np.array(-3.0)), view(np.array(1.0)), False)
    '4 + (−3) = 1'
    """
    if contribution is None or now is None or (was is None and not first):
        return ""
    parts = [was.line(24) if was is not None else "0", contribution.line(24), now.line(24)]
    if max(map(len, parts)) > 26:
        return ""
    added = f"({parts[1]})" if parts[1].startswith(_MINUS) else parts[1]
    return f"{parts[0]} + {added} = {parts[2]}"


def split_numbers(numbers: str) -> tuple[str, str, str, str]:
    """`upstream 4 × (b = 3) → 12` as upstream, local partial, its value and the result.

    >>> split_numbers("upstream 4 × (b = 3) → 12"), split_numbers("upstream 1 × 1 → 1")
    (('4', 'b', '3', '12'), ('1', '1', '1', '1'))
    """
    body = numbers.removeprefix("upstream ")
    upstream, _, rest = body.partition(" × ")
    local, _, result = rest.rpartition(" → ")
    name, _, value = local.rpartition(" = ")
    return (upstream, name[1:], value[:-1], result) if name else (upstream, value, value, result)


def _scalar(each: Edge, child: Card, target: Card) -> tuple[str, str]:
    upstream, local, value, result = split_numbers(each.numbers)
    by = value if local == value else f"{local} = {value}"
    middle = f"{_name(child)} changes by {by} for each unit of {_name(target)}."
    factor = f"({value})" if value.startswith(_MINUS) else value
    return middle, f"{upstream} × {factor} = {result}"


def _mapped(each: Edge, child: Card, target: Card) -> str:
    if target.kind == "fold":
        return ""
    if each.rule[:2] in ("⊙ ", "× "):
        said = f"Each entry of {_name(child)} changes by {each.rule[2:]} for each unit of the entry it was made from"
        if each.after.startswith("sum"):
            return f"{said}; {_name(target)} was stretched, so the products are summed{each.after[3:]}."
        return f"{said}."
    where = ", where G is what arrived" if _speaks_of_g(each) else ""
    return f"Through {child.op} it goes back by the rule: {each.rule}{where}."


def _added(
    was: ArrayView | None, contribution: ArrayView | None, now: ArrayView | None, first: bool, target: Card,
    product: str = "",
) -> str:  # fmt: skip
    came = product or (_told(contribution) if contribution is not None else "What comes out")
    came = came[:1].upper() + came[1:]
    if target.kind == "fold":
        return f"{came} goes on into the nodes that are folded away."
    plain = first and (contribution is None or contribution.size != 1)  # 0 + an array says nothing more
    total = "" if plain else addition(was, contribution, now, first)
    tail = f": {total}" if total else ""
    zero = ", and it is exactly zero" if contribution is not None and contribution.zero and contribution.size else ""
    if first:
        return f"{came} is the first to reach {target.caption}{zero}{tail}."
    return f"{came} is added to what {target.caption} holds{zero}{tail}."


def _speaks_of_g(each: Edge) -> bool:
    return "G" in each.rule.replace("(", " ").replace(")", " ").split()


def _name(card: Card) -> str:
    return clip(card.name, 24)
