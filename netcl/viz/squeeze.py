"""Rows pressed into a page: Graphviz's order within each row is kept, its liking for straight lines is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SWEEPS = 16
_ORDERINGS = 4


def line_up(
    bands: Sequence[Sequence[str]], links: Sequence[tuple[str, str, float]], sizes: Mapping[str, float], gap: float
) -> dict[str, float]:
    """Middles for things in rows, side by side, each row in the order of the middles of what it is linked to.

    >>> line_up([["a", "b"], ["c", "d"]], [("a", "d", 1.0), ("b", "c", 1.0)], dict.fromkeys("abcd", 10.0), 5.0)
    {'a': -7.5, 'b': 7.5, 'c': 7.5, 'd': -7.5}
    """
    near: dict[str, list[str]] = {name: [] for band in bands for name in band}
    for one, other, _ in links:
        near[one].append(other)
        near[other].append(one)
    at: dict[str, float] = {}
    for sweep in range(_ORDERINGS):
        for band in bands if sweep % 2 == 0 else reversed(bands):
            wishes = {name: [at[each] for each in near[name] if each in at] for name in band}
            order = sorted(band, key=lambda name: sum(w) / len(w) if (w := wishes[name]) else at.get(name, 0.0))
            edge = -(sum(sizes[name] for name in band) + gap * (len(band) - 1)) / 2
            for name in order:
                at[name] = edge + sizes[name] / 2
                edge += sizes[name] + gap
    return {name: at[name] for band in bands for name in band}


def squeeze(
    middles: Mapping[str, float],
    bands: Sequence[Sequence[str]],
    links: Sequence[tuple[str, str, float]],
    sizes: Mapping[str, float],
    gap: float,
    room: float,
) -> dict[str, float]:
    """New middles within `room` for things in rows, each drawn towards what it is linked to.

    `bands` are the rows, `links` pairs with a weight. Every row must fit: its sizes and gaps are at most `room`.
    Sweeps move each thing to the weighted mean of its links, then press the rows until nothing overlaps.

    >>> squeeze({"a": 0.0, "b": 500.0}, [["a"], ["b"]], [("a", "b", 1.0)], {"a": 10.0, "b": 10.0}, 5.0, 100.0)
    {'a': 95.0, 'b': 95.0}
    """
    low, high = min(middles.values()), max(middles.values())
    scale = room / max(high - low, 1.0)
    at = {name: (x - low) * min(scale, 1.0) for name, x in middles.items()}
    pulls: dict[str, list[tuple[str, float]]] = {name: [] for name in middles}
    for one, other, weight in links:
        pulls[one].append((other, weight))
        pulls[other].append((one, weight))
    ordered = [sorted(band, key=lambda name: middles[name]) for band in bands]
    for sweep in range(_SWEEPS):
        for band in ordered if sweep % 2 == 0 else reversed(ordered):
            wishes = [_mean(at, pulls[name], at[name]) for name in band]
            at.update(zip(band, press(wishes, [sizes[name] for name in band], gap, room), strict=True))
    return {name: round(x, 3) for name, x in at.items()}


def _mean(at: Mapping[str, float], pulls: Sequence[tuple[str, float]], here: float) -> float:
    total = sum(weight for _, weight in pulls)
    return sum(at[name] * weight for name, weight in pulls) / total if total else here


def press(wishes: Sequence[float], sizes: Sequence[float], gap: float, room: float) -> list[float]:
    """Middles as near to `wishes` as order, gaps and room allow.

    >>> press([5.0, 5.0], [10.0, 10.0], 2.0, 50.0)
    [5.0, 17.0]
    """
    places = list(wishes)
    for _ in range(4):  # share an overlap between both sides, then settle
        for i in range(1, len(places)):
            overlap = places[i - 1] + (sizes[i - 1] + sizes[i]) / 2 + gap - places[i]
            if overlap > 0:
                places[i - 1] -= overlap / 2
                places[i] += overlap / 2
    edge = -gap
    for i, size in enumerate(sizes):
        places[i] = max(places[i], edge + gap + size / 2)
        edge = places[i] + size / 2
    edge = room + gap
    for i in reversed(range(len(places))):
        places[i] = min(places[i], edge - gap - sizes[i] / 2)
        edge = places[i] - sizes[i] / 2
    return places
