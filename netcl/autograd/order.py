"""In which order the nodes of a graph come: a node is made after its parents, so the order of creation will do."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from operator import attrgetter

from netcl.autograd.node import Node, parents_of


def build_topo(root: Node) -> list[Node]:
    """Return the nodes below `root`, itself included, parents before children; no recursion is needed."""
    found = [root]
    seen = {root}
    for node in found:  # which grows meanwhile
        for parent in parents_of(node):
            if parent not in seen:
                seen.add(parent)
                found.append(parent)
    found.sort(key=attrgetter("index"))
    return found


def towards(root: Node, ends: Collection[Node]) -> set[Node]:
    """Return the nodes below `root` from which some end can be reached, and the ends."""
    reaching = set(ends)
    for node in build_topo(root):
        if not reaching.isdisjoint(parents_of(node)):
            reaching.add(node)
    return reaching


class Newest:
    """Nodes that wait for their turn, and come newest first.

    So a backward pass needs no order of the whole graph beforehand: when a node comes, all that was made from it came.
    """

    __slots__ = ("_copies", "_keys", "_nodes")

    def __init__(self) -> None:
        self._keys: list[int] = []  # a heap of what is the less, the newer
        self._nodes: dict[int, Node] = {}
        self._copies: dict[int, list[Node]] = {}  # which have the index of one that waits, whose key they share

    def push(self, node: Node) -> None:
        """Let a node wait that has not waited before."""
        key = -node.index
        if self._nodes.setdefault(key, node) is not node:
            self._copies.setdefault(key, []).append(node)
        heappush(self._keys, key)

    def pop(self) -> Node | None:
        """Return the newest of those that wait, or None."""
        if not self._keys:
            return None
        key = heappop(self._keys)
        return self._nodes.pop(key) if key in self._nodes else self._copies[key].pop()

    def then(self, node: Node) -> Node | None:
        """Let a node wait, and return the newest: nearly always the node itself."""
        keys = self._keys
        if not keys or -node.index < keys[0]:
            return node
        self.push(node)
        return self.pop()
