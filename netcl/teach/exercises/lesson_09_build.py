"""What lesson 09 has built: orders of a graph and the delivery of contributions, right and by wrong rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Case = tuple[Any, ...]
Parents = dict[str, list[str]]
"""A graph as text: the names of each node's parents, in order."""


def depth_first(parents: Parents, root: str) -> list[str]:
    """Parents before children, by a stack of [node, how many of its parents were looked at]."""
    seen, order, stack = {root}, [], [[root, 0]]
    while stack:
        node, looked = stack[-1]
        if looked == len(parents[node]):
            order.append(node)
            stack.pop()
            continue
        stack[-1][1] += 1
        parent = parents[node][looked]
        if parent not in seen:
            seen.add(parent)
            stack.append([parent, 0])
    return order


def by_users(parents: Parents, root: str) -> list[str]:
    """The same by Kahn's rule: a node is taken when all its users were taken; turned round at the end."""
    below = dict.fromkeys(depth_first(parents, root))
    users = {name: 0 for name in below}
    for name in below:
        for parent in parents[name]:
            users[parent] += 1
    ready, order = [root], []
    while ready:
        order.append(ready.pop())
        for parent in parents[order[-1]]:
            users[parent] -= 1
            if not users[parent]:
                ready.append(parent)
    return order[::-1]


def breadth_first(parents: Parents, root: str) -> list[str]:
    """The root, its parents, their parents: each node when it is first met."""
    order, queue, seen = [], deque([root]), {root}
    while queue:
        order.append(queue.popleft())
        for parent in parents[order[-1]]:
            if parent not in seen:
                seen.add(parent)
                queue.append(parent)
    return order


def preorder(parents: Parents, root: str, last_first: bool = False) -> list[str]:
    """Each node before what lies below it, following one parent to the end before the next."""
    order, stack = {}, [root]
    while stack:
        node = stack.pop()
        if node not in order:
            order[node] = None
            stack += parents[node] if last_first else parents[node][::-1]
    return list(order)


def every_path(parents: Parents, root: str) -> list[str]:
    """Depth first with nothing remembered: a node stands there once for each path from the root."""
    order, stack = [], [root]
    while stack:
        order.append(stack.pop())
        stack += parents[order[-1]] if len(order) < 10**5 else []
    return order[::-1]


SORTS: dict[str, Callable[[Parents, str], list[str]]] = {
    "": depth_first,
    "users": by_users,
    "breadth": lambda parents, root: breadth_first(parents, root)[::-1],
    "preorder": lambda parents, root: preorder(parents, root)[::-1],
    "paths": every_path,
    "children first": lambda parents, root: depth_first(parents, root)[::-1],
    "all": lambda parents, root: _all(parents),
    "names": lambda parents, root: sorted(depth_first(parents, root)),
}


def _all(parents: Parents) -> list[str]:
    order = depth_first({**parents, "": list(parents)}, "")
    return order[:-1]


def recursive(parents: Parents, root: str) -> list[str]:
    """Depth first by recursion."""
    met, order = set(), []

    def visit(node: str) -> None:
        if node not in met:
            met.add(node)
            for parent in parents[node]:
                visit(parent)
            order.append(node)

    visit(root)
    return order


class Judged(list[int]):
    """What an order is judged by; every right order gives the same numbers. Shown as what is wrong with the order.

    Entries, different ones, edges the wrong way round, entries that the root does not need, entries after the root.
    """

    said = ""

    def __repr__(self) -> str:
        return self.said


def judged(sort: Callable[..., Any], parents: Parents, root: str) -> Judged:
    """What an order is judged by. Of an order in which nodes stand twice the edges are not asked for."""
    order = list(sort({name: list(of) for name, of in parents.items()}, root))
    place = {name: i for i, name in enumerate(order)}
    below = set(depth_first(parents, root))
    wrong = [(name, p) for name in place for p in parents[name] if place.get(p, -1) > place[name]]
    strangers, twice = sorted(place.keys() - below), len(order) > len(place)
    after = 0 if twice else len(order) - 1 - place.get(root, -1)
    found = Judged([len(order), len(place), 0 if twice else len(wrong), len(strangers), after])
    found.said = _said(order, wrong, strangers, sorted(below - place.keys()))
    return found


def _said(order: list[str], wrong: list[tuple[str, str]], strangers: list[str], missing: list[str]) -> str:
    whole = f"[{', '.join(order[:8])}{', …' if len(order) > 8 else ''}]"
    twice = next((name for i, name in enumerate(order[:1000]) if name in order[:i]), None)
    if twice is not None:
        return f"{whole}, where {twice} stands more than once"
    if wrong:
        return f"{whole}, where {wrong[0][0]} stands before its parent {wrong[0][1]}"
    if strangers:
        return f"{whole}, with {strangers[0]}, which {order[-1]} is not made from"
    return f"{whole}, without {missing[0]}" if missing else whole


def graphs(rng: Random) -> list[Case]:
    """Return graphs with their roots: a fork, a shortcut, a square, one with strangers, a ladder, a long chain."""
    fork = {"a": [], "b": [], "p": ["a", "b"], "q": ["a"], "f": ["p", "q"]}
    shortcut = {"h": ["p", "v"], "v": ["p", "x"], "p": ["x", "y"], "x": [], "y": []}
    square = {"z": ["y", "y"], "y": ["k", "k"], "k": []}
    strangers = {"m": ["k"], "k": [], "late": ["m", "c"], "c": ["k", "m"], "other": []}
    ladder = {"n0": []} | {f"n{i + 1}": [f"n{i}", f"n{i}"] for i in range(10)}
    chain = {"n0": []} | {f"n{i + 1}": [f"n{i}"] for i in range(10_000)}
    wild = {f"w{i}": [f"w{rng.randrange(i)}" for _ in range(rng.randint(1, 3))] if i else [] for i in range(12)}
    return [(fork, "f"), (shortcut, "h"), (square, "z"), (strangers, "c"), (ladder, "n10"), (chain, "n10000"),
            (wild, "w11")]  # fmt: skip


def delivering(rule: str = "") -> Callable[..., list[np.ndarray]]:
    """What stands in each slot after arrays were delivered, some of them to several slots."""

    def case(buffers: list[np.ndarray], deliveries: list[tuple[int, int]], slots: int) -> list[np.ndarray]:
        buffers = [buffer.copy() for buffer in buffers]
        grads: list[Any] = [None] * slots
        if rule == "one buffer":
            grads = [np.zeros_like(buffers[0])] * slots
        taken = set()
        for slot, number in deliveries:
            came, there = buffers[number], grads[slot]
            if rule == "once" and number in taken:
                continue
            taken.add(number)
            if there is None:
                grads[slot] = np.zeros_like(came) if rule == "first lost" else came
            elif rule in ("shared", "one buffer"):
                there += came
            elif rule == "=":
                grads[slot] = came
            elif rule == "mean":
                grads[slot] = (there + came) / 2
            else:
                grads[slot] = there + came
        return grads

    return case


def delivered_at_once(buffers: list[np.ndarray], deliveries: list[tuple[int, int]], slots: int) -> list[np.ndarray]:
    """The same sums, each taken at the end."""
    return [np.sum([buffers[number] for to, number in deliveries if to == slot], axis=0) for slot in range(slots)]


def deliveries(rng: Random) -> list[Case]:
    """Return arrays, (slot, array) pairs in the order of delivery, and the number of slots."""
    cases: list[Case] = []
    shared = [(0, 0), (1, 0), (0, 1)]
    late = [(0, 0), (0, 1), (1, 0)]
    both = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)]
    twice = [(0, 0), (0, 0), (1, 0), (1, 1)]
    kinds = [(shared, 2, 1), (late, 2, 2), (both, 3, 3), (twice, 2, 2), (both, 3, 4), (shared, 2, 5)]
    for pairs, slots, count in kinds:
        buffers = [np.array([rng.randint(1, 9) for _ in range(count)], float) for _ in range(2)]
        cases.append((buffers, pairs, slots))
    return cases
