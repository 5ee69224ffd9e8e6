"""What a notebook shows for a tensor, a node or a tape that stands alone on a cell's last line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netcl.autograd import Node, Tape
from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.cards import ROOMY, compose, measure
from netcl.viz.names import find_names, scopes
from netcl.viz.naming import Naming
from netcl.viz.palette import LIGHT
from netcl.viz.summary import summarise
from netcl.viz.svg import Writer
from netcl.viz.text import clip
from netcl.viz.values import ArrayView, shape_text
from netcl.viz.views import SLOT_TEXT, Card, Slot

_MARGIN = 6.0
_VARIABLE = re.compile(r"[^\W\d][\w.]{0,19}")
_MOST_ANCESTORS = 8
_MOST_NODES = 12  # of a tape, at either end


def bundle(x: Any) -> dict[str, str]:
    """The MIME bundle of a tensor, a node or a tape: a card as SVG, and text.

    Nothing that another run would show otherwise stands in it: no address, no device, no cell number.

    >>> print(bundle(Tensor.from_host([[1.0, 2.0], [3.0, 4.5]]))["text/plain"])
    Tensor on the device (2, 2) float32
      1    2
      3  4.5
    """
    if isinstance(x, Tape):
        return {"text/plain": _tape_text(x)}
    if isinstance(x, Node):
        card = _node_card(x)
    elif isinstance(x, Tensor):
        card = _tensor_card(x)
    else:  # a dual number, which lives as long as one transform runs
        return {"text/plain": repr(x)}
    return {"image/svg+xml": _svg(card), "text/plain": _text(card)}


def _spaces() -> Iterator[Mapping[str, Any]]:
    """The variables of a notebook: it is shown by the notebook's machinery, above which no frame of the user stands."""
    return scopes(None, vars(sys.modules["__main__"]))


def _tensor_card(tensor: Tensor) -> Card:
    name = find_names({id(tensor): tensor}, _spaces()).get(id(tensor), "")
    shown = clip(name, 60) or "Tensor"
    return Card(
        0, "op", shown, shown, "Tensor" if name else "on the device", tensor.shape, str(tensor.dtype), summarise(tensor)
    )


def _node_card(node: Node) -> Card:
    naming = Naming(_nearest(node), None, None, _spaces())
    name = naming.names[node]
    title = naming.titles[node]
    leaf = node.grad_fn is None
    if leaf and name == "leaf1":
        name = title = "leaf"
    lines = [] if not node.released else ["graph released"]
    kind = "leaf" if leaf else "op"
    op = "Node · leaf" if leaf else f"Node · {clip(node.op_name or 'op', 24)}"
    by = name if _VARIABLE.fullmatch(name) else ""
    return Card(
        0, kind, name, title, op, node.shape, str(node.dtype), summarise(node.value), _slot(node), f"{by}.grad",
        lines=tuple(lines),
    )  # fmt: skip


def _nearest(node: Node) -> list[Node]:
    """The node and a few of its ancestors, so that its formula can be written out."""
    found = [node]
    for each in found:
        found += [parent for parent in dict.fromkeys(each.parents) if parent not in found]
        if len(found) >= _MOST_ANCESTORS:
            break
    return sorted(found, key=lambda each: each.index)


def _slot(node: Node) -> Slot:
    if not node.requires_grad:
        return Slot("not needed")
    if node.grad is None:
        return Slot("elsewhere", note="no gradient yet")
    array = summarise(gradient(node))
    return Slot("zero" if array.zero and array.size else "value", array)


def _svg(card: Card) -> str:
    block = compose(measure(card, ROOMY), "side")
    wide, high = block.width + 2 * _MARGIN, block.height + 2 * _MARGIN
    writer = Writer(LIGHT)
    writer.open((card.title, block.hint), (wide, high), (wide, high))
    writer.block(_MARGIN, _MARGIN, block)
    writer.parts.append("</svg>")
    return "".join(writer.parts)


def _text(card: Card) -> str:
    head = " ".join(part for part in (card.title, card.op, shape_text(card.shape), card.dtype) if part)
    lines = [head, *card.lines]
    assert card.value is not None
    if card.slot is None:
        return "\n".join([*lines, *_numbers(card.value)])
    lines += ["value", *_numbers(card.value)]
    slot = card.slot
    said = SLOT_TEXT[slot.state] or slot.note
    lines.append(f"{card.caption}{': ' if said else ''}{said}")
    if slot.array is not None:
        lines += _numbers(slot.array)
    return "\n".join(lines)


def _numbers(array: ArrayView) -> list[str]:
    if not array.cells or (array.uniform is not None and array.size > 1):
        badge = [f"  {array.badge}"] if array.badge and array.uniform is None else []
        return [f"  {array.line()}", *badge]
    widths = [max(map(len, column)) for column in zip(*array.cells, strict=True)]
    rows = ["  " + "  ".join(text.rjust(wide) for text, wide in zip(row, widths, strict=True)) for row in array.cells]
    each = array.shape[-2] if len(array.shape) > 2 else len(rows)
    return [row for i, row in enumerate(rows) for row in ([""] if i and i % each == 0 else []) + [row]]


def _tape_text(tape: Tape) -> str:
    nodes = tape.nodes
    if not nodes:
        return "Tape: nothing recorded"
    head = f"Tape: {len(nodes)} node{'s' * (len(nodes) > 1)} recorded"
    if len(nodes) <= 2 * _MOST_NODES:
        return "\n".join([head, *_rows(nodes, 1)])
    first, last = nodes[:_MOST_NODES], nodes[-_MOST_NODES:]
    left = len(nodes) - 2 * _MOST_NODES
    rows = [*_rows(first, 1), f"  … {left} more", *_rows(last, len(nodes) - _MOST_NODES + 1)]
    return "\n".join([head, *rows])


def _rows(nodes: Sequence[Node], first: int) -> list[str]:
    titles = Naming(nodes, None, None, _spaces()).titles
    rows = [
        (str(i), clip(titles[node], 40), node.op_name or "op", shape_text(node.shape), str(node.dtype))
        for i, node in enumerate(nodes, first)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in rows]
