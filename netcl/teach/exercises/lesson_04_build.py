"""What lesson 04 has built: a Jacobian of two maps in order, and the sum over all paths in one sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong

Edge = tuple[str, str]
Weighted = tuple[str, str, float]

# f = pq with p = x², q = x + p: a diamond with a bridge from p to q.
BRIDGED: tuple[Edge, ...] = (("x", "p"), ("x", "q"), ("p", "q"), ("p", "f"), ("q", "f"))


def _of_both(order: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Any:
    """The Jacobian of the twist after the mix at x, with the factors put together by `order`.

    It is given J of the mix at x, J of the twist at u = mix(x), J of the twist at x, and J of the mix at u.
    """

    def jacobian(x: Any) -> np.ndarray:
        x = np.asarray(x, float)
        u = _mix(x)
        return order(_mix_slope(x), _twist_slope(u), _twist_slope(x), _mix_slope(u))

    return jacobian


def _as_array(function: Callable[[Any], Any], x: list[float]) -> Any:
    """A student's result; a list of rows is a matrix as well."""
    found = function(np.array(x))
    return np.array(found, float) if isinstance(found, list | tuple) else found


def _mix(x: np.ndarray) -> np.ndarray:
    return np.array([x[0] * x[1], x[0] + x[1]])


def _mix_slope(x: np.ndarray) -> np.ndarray:
    return np.array([[x[1], x[0]], [1.0, 1.0]])


def _twist_slope(u: np.ndarray) -> np.ndarray:
    return np.array([[2 * u[0], -1.0], [u[1], u[0]]])


def _points(rng: Random) -> list[tuple[list[float]]]:
    return [([float(rng.choice([-3, -2, 2, 3, 4])), float(rng.choice([-5, 1, 5, 6]))],) for _ in range(6)]


def _swept(edges: Sequence[Weighted], start: str, end: str) -> float:
    """One sweep in order of creation: every edge is used once."""
    reached = {start: 1.0}
    for a, b, local in edges:
        reached[b] = reached.get(b, 0.0) + reached.get(a, 0.0) * local
    return reached.get(end, 0.0)


def _pulled(edges: Sequence[Weighted], start: str, end: str) -> float:
    """The same sum from the other end."""
    missing = {end: 1.0}
    for a, b, local in reversed(edges):
        missing[a] = missing.get(a, 0.0) + local * missing.get(b, 0.0)
    return missing.get(start, 0.0)


def _overwritten(edges: Sequence[Weighted], start: str, end: str) -> float:
    reached = {start: 1.0}
    for a, b, local in edges:
        if a in reached:
            reached[b] = reached[a] * local
    return reached.get(end, 0.0)


def _overwritten_by_nothing(edges: Sequence[Weighted], start: str, end: str) -> float:
    reached = {start: 1.0}
    for a, b, local in edges:
        reached[b] = reached.get(a, 0.0) * local
    return reached.get(end, 0.0)


def _counted(edges: Sequence[Weighted], start: str, end: str) -> float:
    return _swept([(a, b, 1.0) for a, b, _ in edges], start, end)


def _added_along(edges: Sequence[Weighted], start: str, end: str) -> float:
    reached = {start: 1.0}
    for a, b, local in edges:
        if a in reached:
            reached[b] = reached.get(b, 0.0) + reached[a] + local
    return reached.get(end, 0.0)


def _from_the_first(edges: Sequence[Weighted], start: str, end: str) -> float:
    return _swept(edges, edges[0][0], end)


def _multiplied_over(edges: Sequence[Weighted], start: str, end: str) -> float:
    reached = {start: 1.0}
    for a, b, local in edges:
        if a in reached:
            reached[b] = reached.get(b, 1.0) * reached[a] * local
    return reached.get(end, 0.0)


def _largest(edges: Sequence[Weighted], start: str, end: str) -> float:
    reached = {start: 1.0}
    for a, b, local in edges:
        if a in reached:
            reached[b] = max(reached.get(b, 0.0), reached[a] * local, key=abs)
    return reached.get(end, 0.0)


def _graphs(rng: Random) -> list[tuple[list[Weighted], str, str]]:
    """Hidden graphs: a chain, x·x, two edges of which the last is smaller, a bridge, a start in the middle, no path at
    all, another leaf as the end, a ladder that forbids walking."""
    r = [float(rng.choice([-3, -2, 2, 3, 4])) for _ in range(12)]
    chain = [("x", "u", r[0]), ("u", "v", r[1]), ("v", "f", r[2])]
    square = [("x", "y", abs(r[3])), ("x", "y", abs(r[3]))]
    bridge = [(a, b, r[i]) for i, (a, b) in enumerate(BRIDGED)]
    middle = [("x", "p", r[5]), ("p", "q", r[6]), ("p", "r", r[7]), ("q", "f", r[8]), ("r", "f", 5.0)]
    ladder: list[Weighted] = []
    for i in range(60):
        ladder += [(f"t{i}", f"u{i}", 0.5), (f"t{i}", f"v{i}", 0.75)]
        ladder += [(f"u{i}", f"t{i + 1}", 1.0), (f"v{i}", f"t{i + 1}", 1.0)]
    return [
        (chain, "x", "f"), (square, "x", "y"), (bridge, "x", "f"), (middle, "p", "f"), (chain, "v", "u"),
        (bridge, "p", "f"), ([("x", "y", 5.0), ("x", "y", 2.0)], "x", "y"),
        ([("a", "p", r[9]), ("b", "p", r[10]), ("p", "f", 2.0)], "a", "b"), (ladder, "t0", "t60"),
    ]  # fmt: skip


def _recursive(edges: Sequence[Weighted], start: str, end: str) -> float:
    """The sum over paths from each node on, each computed once and kept."""
    known = {end: 1.0}
    for a in reversed(list(dict.fromkeys(a for a, _, _ in edges))):
        if a != end:
            known[a] = sum(local * known.get(b, 0.0) for from_, b, local in edges if from_ == a)
    return known.get(start, 0.0)


BUILD = (
    Exercise(
        name="04.order",
        kind="build",
        asks="the Jacobian of twist(mix(x)) at any x",
        answer=Function(
            lambda d: _of_both(lambda first, second, _at_x, _at_u: second @ first),
            cases=_points, rtol=1e-9, why="a few products of whole numbers: exact in float64", call=_as_array,
        ),
        right=(
            lambda d: _of_both(lambda first, second, _at_x, _at_u: second.dot(first)),
            lambda d: _of_both(lambda first, second, _at_x, _at_u: (first.T @ second.T).T),
            lambda d: lambda x: np.array([
                [2 * x[0] * x[1] * x[1] - 1, 2 * x[0] * x[1] * x[0] - 1],
                [(x[0] + x[1]) * x[1] + x[0] * x[1], (x[0] + x[1]) * x[0] + x[0] * x[1]],
            ]),
        ),
        because="dz = J_twist du and du = J_mix dx: what acts first stands on the right, at the value it is given.",
        wrong=(
            Wrong("in the order of reading", lambda d: _of_both(lambda first, second, _x, _u: first @ second), (
                "The two matrices are right, but not their places.",
                "Matrices act on the column to their right, so the map that acts first stands on the right.",
                "Turn, then stretch: S (R dx). Written R S it would stretch first.",
            )),
            Wrong("the outer one at x", lambda d: _of_both(lambda first, _second, at_x, _u: at_x @ first), (
                "One Jacobian is taken at the wrong point.",
                "Each map's Jacobian is taken at what that map is given.",
                "For sin(5t) at t = 2 the outer slope is cos at 10, not cos at 2.",
            )),
            Wrong("the inner one at u", lambda d: _of_both(lambda _first, second, _x, at_u: second @ at_u), (
                "The map that acts first is differentiated where it never is.",
                "The inner map sees the input itself, so its Jacobian is taken there.",
                "For sin(5t²) at t = 2 the inner slope is 10 · 2, taken at t and not at 5t².",
            )),
            Wrong("transposed", lambda d: _of_both(lambda first, second, _x, _u: (second @ first).T), (
                "Rows and columns are exchanged.",
                "Rows belong to outputs and columns to inputs.",
                "For g(s, t) = (s + 7t, t) the first row is (1, 7): both inputs of the first output.",
            )),
            Wrong("entry by entry", lambda d: _of_both(lambda first, second, _x, _u: second * first), (
                "The matrices were multiplied entry by entry.",
                "Every output hangs on every input through all intermediate values: row times column.",
                "In NumPy `A * B` multiplies entries. For maps one after the other it is another sign.",
            )),
            Wrong("added", lambda d: _of_both(lambda first, second, _x, _u: second + first), (
                "The two Jacobians were added.",
                "Sums are for maps side by side. Here one is applied after the other.",
                "u = 5t, w = 7u: the slopes 5 and 7 are multiplied.",
            )),
        ),
    ),
    Exercise(
        name="04.ladder",
        kind="build",
        asks="a function that sums over all paths and uses each edge once",
        answer=Function(
            lambda d: _swept, cases=_graphs, rtol=1e-6, seconds=3.0,
            why="sums in another order differ in the last digits of float64",
        ),
        right=(lambda d: _pulled, lambda d: _recursive),
        because="What has reached a node is complete when its first consumer is met, so one number per node is enough.",
        wrong=(
            Wrong("= for +=", lambda d: _overwritten, (
                "Where several edges end in one node, only one of them is left.",
                "At a join what arrives is added to what is there.",
                "Edges t → w with 3 and again t → w with 4: w must hold 7.",
            )),
            Wrong("= for +=, also by what brings nothing", lambda d: _overwritten_by_nothing, (
                "An edge that brings nothing wipes out what a node has already.",
                "A node that the start does not reach holds zero: adding that changes nothing, assigning it does.",
                "Edges s → u with 9 and u → w with 5: from u on, the first must not touch the 1 that u starts with.",
            )),
            Wrong("paths counted", lambda d: _counted, (
                "The number of paths comes out, whatever the edges carry.",
                "What passes along an edge is multiplied by its local derivative.",
                "One edge t → w that carries 9 gives 9, though there is a single path.",
            )),
            Wrong("added along", lambda d: _added_along, (
                "Along a path the numbers on the edges were added.",
                "Each operation scales the move that it is given.",
                "t → u with 5, u → w with 7: the result is 35.",
            )),
            Wrong("begun at the first edge", lambda d: _from_the_first, (
                "It is right only if the start happens to be the first node of the list.",
                "The start is the node that moves by itself: the value one belongs there, wherever it stands.",
                "Edges t → u with 5, u → w with 7: from u to w it is 7.",
            )),
            Wrong("multiplied over paths", lambda d: _multiplied_over, (
                "Where paths meet, their products were multiplied.",
                "Side by side means adding, one after the other means multiplying.",
                "Two edges t → w, with 3 and with 5: the result is 8.",
            )),
            Wrong("the strongest path only", lambda d: _largest, (
                "Where paths meet, the largest was kept and the rest dropped.",
                "Every path counts, small and negative ones as well.",
                "Two edges t → w, with 6 and with −6: they cancel, and the result is zero.",
            )),
        ),
    ),
)  # fmt: skip
