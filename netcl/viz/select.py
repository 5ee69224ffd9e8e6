"""Which nodes a picture shows: all of a small graph, of a large one parts, a neighbourhood, or the ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netcl.autograd import Node
from netcl.viz.fold import Group, groups, summary

MOST_CARDS = 60
_NEAREST = 12
_MOST_LEAVES = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """Nodes in order of creation: those shown, and the others; of these, `groups` have a card each.

    `depth` counts from the loss; `uses` are the consumers of each leaf, once per operand.
    """

    shown: tuple[Node, ...]
    hidden: tuple[Node, ...]
    depth: dict[Node, int]
    uses: dict[Node, list[tuple[Node, int]]]
    groups: tuple[Group, ...] = ()

    @property
    def away(self) -> int:
        """How many of the hidden nodes no card stands for."""
        return len(self.hidden) - sum(len(group.nodes) for group in self.groups)


def _measured(nodes: Sequence[Node]) -> tuple[dict[Node, int], dict[Node, list[tuple[Node, int]]]]:
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
    return depth, uses


def select(nodes: Sequence[Node], most: int = MOST_CARDS) -> Selection:
    """Choose from nodes in order of creation, the loss last: all, or those near the loss and some leaves.

    No hidden node has a shown one, leaves apart, among its ancestors: so the folded card comes before what is shown.
    """
    depth, uses = _measured(nodes)
    if len(nodes) <= most:
        return Selection(tuple(nodes), (), depth, uses)
    nearest = sorted(nodes, key=lambda node: (depth[node], -node.index))[: min(_NEAREST, most)]
    shown = set(nearest)
    needed = [parent for node in nearest for parent in node.parents if parent in uses]
    leaves = [node for node in nodes if node in uses and node not in shown]
    shown.update(needed)
    shown.update([leaf for leaf in leaves if leaf not in shown][: max(_MOST_LEAVES - len(set(needed)), 0)])
    hidden = tuple(node for node in nodes if node not in shown)
    if len(hidden) == 1:  # a card that says "1 more" takes as much room as the node
        return Selection(tuple(nodes), (), depth, uses)
    title = f"… {len(hidden):,} more nodes".replace(",", " ")
    rest = Group(title, hidden, summary(hidden), first=True)
    return Selection(tuple(node for node in nodes if node in shown), hidden, depth, uses, (rest,))


def folded(nodes: Sequence[Node], most: int, fold: bool | Iterable[str], keep: Node) -> Selection | None:
    """Choose parts of a model and what repeats to be folded; None if that does not leave at most `most` cards.

    `fold` is True, or the names of the scopes to fold. `keep` is the loss, which stays.
    """
    found = groups(nodes, None if isinstance(fold, bool) else fold)
    if not found:
        return None
    found = [group for group in found if keep not in group.nodes]
    hidden = {node for group in found for node in group.nodes}
    shown = tuple(node for node in nodes if node not in hidden)
    if not found or len(shown) + len(found) > most:
        return None
    depth, uses = _measured(nodes)
    return Selection(shown, tuple(node for node in nodes if node in hidden), depth, uses, tuple(found))


def nearby(nodes: Sequence[Node], centre: Node, distance: int) -> Selection:
    """Choose the nodes that are at most `distance` edges from one, in either direction."""
    consumers: dict[Node, list[Node]] = {}
    for node in nodes:
        for parent in node.parents:
            consumers.setdefault(parent, []).append(node)
    shown = {centre}
    edge = [centre]
    for _ in range(distance):
        edge = [near for node in edge for near in (*node.parents, *consumers.get(node, ())) if near not in shown]
        edge = list(dict.fromkeys(edge))
        shown.update(edge)
    depth, uses = _measured(nodes)
    inside = tuple(node for node in nodes if node in shown)
    return Selection(inside, tuple(node for node in nodes if node not in shown), depth, uses)
