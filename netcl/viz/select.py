"""Which nodes a picture shows: all of a small graph, the neighbourhood of the loss and the leaves of a large one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from netcl.autograd import Node

MOST_CARDS = 60
_NEAREST = 12
_MOST_LEAVES = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """Nodes in order of creation: those shown, and the others, which one card stands for.

    No hidden node has a shown one, leaves apart, among its ancestors: so the folded card comes before what is shown.
    `depth` counts from the loss; `uses` are the consumers of each leaf, once per operand.
    """

    shown: tuple[Node, ...]
    hidden: tuple[Node, ...]
    depth: dict[Node, int]
    uses: dict[Node, list[tuple[Node, int]]]

    @property
    def summary(self) -> tuple[str, ...]:
        """What is folded, by op, the most frequent first."""
        counts = Counter(node.op_name or "leaf" for node in self.hidden)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        texts = [f"{count} {name}" for name, count in ranked[:6]]
        if len(ranked) > 6:
            texts.append(f"{sum(count for _, count in ranked[6:])} others")
        return tuple(" · ".join(texts[i : i + 3]) for i in range(0, len(texts), 3))


def select(nodes: Sequence[Node], most: int = MOST_CARDS) -> Selection:
    """Choose from nodes in order of creation, the loss last."""
    depth = dict.fromkeys(nodes, 0)
    uses: dict[Node, list[tuple[Node, int]]] = {node: [] for node in nodes if node.grad_fn is None}
    for node in reversed(nodes):
        below = depth[node] + 1
        for position, parent in enumerate(node.parents):
            if depth[parent] < below:
                depth[parent] = below
            if parent in uses:
                uses[parent].append((node, position))
    for consumers in uses.values():
        consumers.sort(key=lambda use: (use[0].index, use[1]))
    if len(nodes) <= most:
        return Selection(tuple(nodes), (), depth, uses)
    nearest = sorted(nodes, key=lambda node: (depth[node], -node.index))[: min(_NEAREST, most)]
    shown = set(nearest)
    needed = [parent for node in nearest for parent in node.parents if parent in uses]
    leaves = [node for node in nodes if node in uses and node not in shown]
    shown.update(needed)
    shown.update([leaf for leaf in leaves if leaf not in shown][: max(_MOST_LEAVES - len(set(needed)), 0)])
    hidden = [node for node in nodes if node not in shown]
    if len(hidden) == 1:  # a card that says "1 more" takes as much room as the node
        shown, hidden = set(nodes), []
    return Selection(tuple(node for node in nodes if node in shown), tuple(hidden), depth, uses)
