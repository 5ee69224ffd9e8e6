"""Which nodes a picture folds into one card each: parts of a model by their scopes, and what repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.autograd.scope import Scope
from netcl.nn import Module
from netcl.tensor import Tensor
from netcl.viz.report import thousands
from netcl.viz.text import clean, clip

_LONGEST_PERIOD = 64
_LEAST_REPEATS = 3
_MOST_RUNS = 4  # different repeated parts that are looked for, one after another
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that one card stands for. With `first` the card comes before all others, else where its last node was."""

    title: str
    nodes: tuple[Node, ...]
    lines: tuple[str, ...]
    first: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """What stands in the row of ops: a node, or several already put together under a name."""

    nodes: tuple[Node, ...]
    name: str = ""
    times: int = 1
    period: tuple[str, ...] = ()  # of a repeated part: what it repeats
    module: Module | None = None  # whose call it is


def groups(nodes: Sequence[Node], names: Iterable[str] | None = None) -> list[Group] | None:
    """The groups of a graph: parts named by scopes, at the outermost level that says something, and what repeats.

    `names` folds the scopes so named, and nothing else. None if what would be folded is woven into the rest.
    """
    ops = [node for node in nodes if node.grad_fn is not None]
    if names is not None:
        wanted = set(names)
        units = _scoped(ops, lambda chain: next((scope for scope in chain if label(scope) in wanted), None))
    else:
        depths = range(1, max((len(_chain(node.scope)) for node in ops), default=0) + 1)
        levels = [_scoped(ops, lambda chain, d=depth: chain[d - 1] if len(chain) >= d else None) for depth in depths]
        levels = [_folded(level) for level in levels] or [_folded([_Unit((node,)) for node in ops])]
        units = next((level for level in levels if not _swallowed(level, len(ops))), levels[-1])
    found = _groups(units, nodes, private=names is None)
    return found if _in_order(nodes, found) else None


def _swallowed(units: Sequence[_Unit], count: int) -> bool:
    """Whether one part holds most of the ops: a card that says "model" says nothing."""
    return any(unit.times == 1 and len(unit.nodes) > count / 2 for unit in units)


def label(scope: Scope) -> str:
    """What a scope is called: its name, or for a module the attribute of the module around it that holds it."""
    outer = scope.outer
    while outer is not None:
        if isinstance(outer.owner, Module) and isinstance(scope.owner, Module):
            for name, member in _members(outer.owner):
                if member is scope.owner:
                    return clip(clean(f"{name} ({scope.name})"), 40)
        outer = outer.outer
    return clip(clean(scope.name), 40)


def _members(module: Module) -> Iterator[tuple[str, Any]]:
    for name, member in vars(module).items():
        if isinstance(member, (list, tuple)):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(member))
        elif isinstance(member, dict):
            yield from ((f"{name}[{key!r}]", each) for key, each in member.items())
        else:
            yield name, member


def _chain(scope: Scope | None) -> list[Scope]:
    """A scope and those around it, the outermost first."""
    chain = []
    while scope is not None:
        chain.append(scope)
        scope = scope.outer
    return chain[::-1]


def _scoped(ops: Sequence[Node], choose: Any) -> list[_Unit]:
    """Ops in order, those of one chosen scope together."""
    chosen = {scope: choose(_chain(scope)) for scope in {node.scope for node in ops}}
    together: dict[Any, list[Node]] = {}
    for node in ops:
        scope = chosen[node.scope]
        together.setdefault(scope if scope is not None else node, []).append(node)
    return [
        _Unit(tuple(members), label(key), module=_module(key)) if isinstance(key, Scope) else _Unit(tuple(members))
        for key, members in sorted(together.items(), key=lambda item: item[1][-1].index)
    ]


def _module(scope: Scope) -> Module | None:
    return scope.owner if isinstance(scope.owner, Module) else None


def _folded(units: list[_Unit]) -> list[_Unit]:
    """Units with every part that repeats folded, but for its last time."""
    for _ in range(_MOST_RUNS):
        found = _longest_run(_signatures(units))
        if found is None:
            break
        start, period, times = _from_the_first(units, *found)
        end = start + period * times
        part = units[start : start + period]
        members = tuple(node for unit in units[start:end] for node in unit.nodes)
        name = part[0].name if len(part) == 1 else ""
        names = tuple(unit.name or clean(unit.nodes[0].op_name or "op") for unit in part)
        units = [*units[:start], _Unit(members, name, times, names), *units[end:]]
    return units


def _from_the_first(units: Sequence[_Unit], start: int, period: int, times: int) -> tuple[int, int, int]:
    """The run with the times before it that differ only in what they were fed, as the first of a loop does."""
    kinds = [[(node.op_name, node.shape) for node in unit.nodes] for unit in units]
    while start >= period and kinds[start - period : start] == kinds[start : start + period]:
        start, times = start - period, times + 1
    return start, period, times


def _signatures(units: Sequence[_Unit]) -> np.ndarray:
    """A number for each unit: equal ones have the same ops on equal shapes, fed from equally far back."""
    place = {node: i for i, unit in enumerate(units) for node in unit.nodes}
    uses = Counter(parent for unit in units for node in unit.nodes for parent in set(node.parents))
    numbers: dict[Any, int] = {}
    found = []
    for i, unit in enumerate(units):
        if unit.times > 1:
            found.append(-1 - i)  # what is folded already is like nothing else
            continue
        inside = tuple(_signature(node, i, place, uses) for node in unit.nodes)
        found.append(numbers.setdefault((unit.name.partition(" (")[2] or unit.name, inside), len(numbers)))
    return np.array(found, dtype=np.int64)


def _signature(node: Node, at: int, place: Mapping[Node, int], uses: Mapping[Node, int]) -> tuple[Any, ...]:
    fed: list[Any] = []
    for x in node.operands or tuple(node.parents):
        if isinstance(x, Node) and x in place:
            fed.append((at - place[x], x.op_name))
        elif isinstance(x, Node) and uses[x] > 1:
            fed.append(id(x))  # a leaf that several share
        else:
            fed.append(x.shape if isinstance(x, (Node, Tensor)) else "number")
    return node.op_name, node.shape, tuple(node.attrs or ()), tuple(fed)


def _longest_run(marks: np.ndarray) -> tuple[int, int, int] | None:
    """Where a part begins that repeats, its length, and how often it can be folded: once less than it stands there."""
    best: tuple[int, int, int] | None = None
    saved = 0
    for period in range(1, min(_LONGEST_PERIOD, len(marks) // _LEAST_REPEATS) + 1):
        same = np.flatnonzero(np.diff(np.concatenate(([0], marks[period:] == marks[:-period], [0]))))
        for start, end in zip(same[::2].tolist(), same[1::2].tolist(), strict=True):
            times = (end - start) // period + 1
            if times >= _LEAST_REPEATS and (times - 1) * period - 1 > saved:
                saved = (times - 1) * period - 1
                best = (end + period - times * period, period, times - 1)
    return best


def _groups(units: Sequence[_Unit], nodes: Sequence[Node], private: bool) -> list[Group]:
    """Groups from units that are parts; with `private` each has the leaves that nothing else uses."""
    owner: dict[Node, int] = {}
    for i, unit in enumerate(units):
        if _is_part(unit):
            owner.update(dict.fromkeys(unit.nodes, i))
    users: dict[Node, set[int]] = {node: set() for node in nodes if node.grad_fn is None}
    for node in nodes:
        for parent in node.parents:
            if parent in users:
                users[parent].add(owner.get(node, -1))
    own: dict[int, list[Node]] = {}
    for leaf, found in users.items():
        if private and len(found) == 1 and -1 not in found:
            own.setdefault(found.pop(), []).append(leaf)
    own = {i: kept for i, leaves in own.items() if (kept := _kept(units[i], leaves))}
    return [
        Group(_title(unit), tuple(sorted((*unit.nodes, *own.get(i, ())), key=lambda node: node.index)),
              _lines(unit, len(own.get(i, ()))))
        for i, unit in enumerate(units)
        if _is_part(unit)
    ]  # fmt: skip


def _is_part(unit: _Unit) -> bool:
    """Whether a unit is a card of its own: several nodes, or one that stands with the parameters of its module."""
    return len(unit.nodes) > 1 or (unit.module is not None and bool(unit.module.parameters()))


def _kept(unit: _Unit, leaves: list[Node]) -> list[Node]:
    """The leaves that go with a unit: parameters, but not the input of a module or of the first of many times."""
    if unit.times > 1:
        return leaves if len(leaves) >= unit.times else []
    if unit.module is not None:
        parameters = set(unit.module.parameters())
        return [leaf for leaf in leaves if leaf in parameters]
    return leaves


def _title(unit: _Unit) -> str:
    if unit.times == 1:
        return unit.name
    kind = unit.name.partition(" (")[2].removesuffix(")") or unit.name  # not the name of the first of them alone
    said = kind or (unit.period[0] if len(unit.period) == 1 else "")
    return f"{said} × {thousands(unit.times)}".strip()


def _lines(unit: _Unit, leaves: int) -> tuple[str, ...]:
    lines = []
    if len(unit.period) > 1:
        shown = [f"{name} × {n}" if n > 1 else name for name, n in _counted(unit.period)]
        if len(shown) > _MOST_NAMED:
            shown = [*shown[: _MOST_NAMED - 1], f"{len(shown) - _MOST_NAMED + 1} more"]
        lines += [" · ".join(shown[i : i + 3]) for i in range(0, len(shown), 3)]
    elif not unit.period or unit.name:
        lines += summary(unit.nodes)
    lines.append(f"{thousands(len(unit.nodes))} node{'s' if len(unit.nodes) > 1 else ''}")
    if leaves:
        lines.append(f"{leaves} {'leaves' if leaves > 1 else 'leaf'} of its own")
    return tuple(lines)


def _counted(names: Iterable[str]) -> list[tuple[str, int]]:
    return [(name, len(list(same))) for name, same in groupby(names)]


def summary(nodes: Iterable[Node]) -> tuple[str, ...]:
    """What is folded, by op, the most frequent first."""
    counts = Counter(clean(node.op_name or "leaf") for node in nodes)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{count} {name}" for name, count in ranked[:6]]
    if len(ranked) > 6:
        texts.append(f"{sum(count for _, count in ranked[6:])} others")
    return tuple(" · ".join(texts[i : i + 3]) for i in range(0, len(texts), 3))


def _in_order(nodes: Sequence[Node], found: Sequence[Group]) -> bool:
    """Whether every card can stand after all that it is made from, a group where its last node was."""
    at = {node: (group.nodes[-1].index, i) for i, group in enumerate(found) for node in group.nodes}
    for node in nodes:
        here = at.get(node, (node.index, -1))
        for parent in node.parents:
            above = at.get(parent, (parent.index, -1))
            if above != here and above[0] > here[0]:
                return False
    return True
