"""One function run at many places: the graph that it makes there, its gradients, and what it was called with before."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import numpy as np

from netcl.autograd import Node, Tape, build_topo, no_grad, tensor
from netcl.errors import ArgumentError
from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.controls import Control
from netcl.viz.graph import read
from netcl.viz.names import find_names, scopes
from netcl.viz.progress import progress
from netcl.viz.replay import copied
from netcl.viz.select import MOST_CARDS
from netcl.viz.text import clean
from netcl.viz.views import GraphView

_LOSS = "loss"
PAUSE = 1.0  # s: a longer one ends a movement of a slider
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Run:
    """What came of one call: the graph as a picture sees it, the loss, and the gradient of every leaf moved."""

    values: Values
    view: GraphView
    loss: float
    gradients: Values
    unused: tuple[str, ...] = ()


@dataclass
class Ghost:
    """Which run to compare with: the one that stood there before the slider that moves now began to move."""

    run: Run | None = None
    held: bool = False
    _latest: Run | None = field(default=None, repr=False)
    _mover: str = ""
    _when: float = -math.inf

    def moved(self, run: Run, mover: str, when: float) -> None:
        """Take in a run that a mover made at some time, in seconds."""
        if not self.held and (mover != self._mover or when - self._when > PAUSE):
            self.run = self._latest
        self._latest, self._mover, self._when = run, mover, when


class Function:
    """A user's function with its leaves. `frame` is where its caller's variables are looked up for names; `names` says
    what these, or tensors, are called instead; `most` is how many cards a graph may have before it is folded."""

    def __init__(
        self, f: Callable[..., Any], controls: Sequence[Control], frame: FrameType | None = None,
        names: Mapping[Any, str] | None = None,
    ) -> None:  # fmt: skip
        self.f, self.controls, self.most = f, tuple(controls), MOST_CARDS
        self._given = dict(names or {})
        self.name = clean(str(getattr(f, "__name__", "")))
        self._spaces = list(scopes(frame))
        self._names: dict[tuple[Any, ...], tuple[list[str | None], dict[tuple[int, int], str]]] = {}
        _check(f, [control.name for control in controls])

    def run(self, values: Values) -> Run:
        """Call the function, and run the backward pass on a copy of its graph: no `.grad` of the user's changes.

        Raises:  ArgumentError if what it returns is no scalar or has no graph, and whatever the function raises
        """
        leaves = {name: tensor(value.copy(), requires_grad=True, name=name) for name, value in values.items()}
        with Tape():
            root, seen = self._called(leaves)
            self._scalar(root)
            nodes = build_topo(root)
            if not root.requires_grad or not set(nodes).intersection(leaves.values()):
                raise ArgumentError(f"what {self._said} returns depends on none of {', '.join(leaves)}")
            names = self._found(nodes, root, seen)
        copies = copied(root)
        Tape().backward(copies[root])
        known = {copies.get(x, x): name for x, name in names.items()}
        view = _alone(read(copies[root], known, most=self.most, fold="auto"))
        gradients = {}
        for name, leaf in leaves.items():
            copy = copies.get(leaf)
            reached = copy is not None and copy.grad is not None
            gradients[name] = gradient(copy).to_host() if reached else np.zeros_like(values[name])  # type: ignore[arg-type]
        loss = float(root.to_host().reshape(-1)[0])
        unused = tuple(control.shown for control in self.controls if leaves[control.name] not in copies)
        return Run(dict(values), view, loss, gradients, unused)

    def losses(self, name: str, at: tuple[int, ...], xs: Sequence[float], values: Values) -> tuple[float, ...]:
        """The loss at other values of one entry; NaN where the function raises."""
        found = []
        for x in progress(xs, "points of the curve", len(xs)):
            moved = {key: value.copy() for key, value in values.items()}
            moved[name][at] = x
            try:
                with no_grad():
                    out = self.f(**{key: tensor(value) for key, value in moved.items()})
                    found.append(float(out.to_host().reshape(-1)[0]))
            except Exception:  # the function's own; it has no value there, which the curve shows as a gap
                found.append(math.nan)
        return tuple(found)

    @property
    def _said(self) -> str:
        return self.name if self.name.isidentifier() else "the function"

    def _scalar(self, root: Any) -> None:
        if isinstance(root, Tensor):
            raise ArgumentError(f"what {self._said} returns has no graph: it depends on no leaf that requires grad")
        if not isinstance(root, Node):
            raise ArgumentError(f"{self._said} returns the loss, a Node with one entry, not {type(root).__name__}")
        if root.value.size != 1:
            raise ArgumentError(
                f"only a scalar has a gradient to show, and {self._said} returns shape {root.shape}: "
                "return its sum() or mean()"
            )

    def _called(self, leaves: Mapping[str, Node]) -> tuple[Any, dict[str, Any]]:
        """What the function returns, and its own variables at that moment: they are its nodes' names."""
        code = getattr(inspect.unwrap(self.f), "__code__", None)
        variables: dict[str, Any] = {}

        def watch(frame: FrameType, event: str, _: Any) -> None:
            if event == "return" and frame.f_code is code:
                variables.update(frame.f_locals)

        others = sys.getprofile()
        if code is None or others is not None:
            return self.f(**leaves), variables
        sys.setprofile(watch)
        try:
            return self.f(**leaves), variables
        finally:
            sys.setprofile(None)

    def _found(self, nodes: Sequence[Node], root: Node, seen: Mapping[str, Any]) -> dict[Any, str]:
        """Names by what they name. Once found, they are kept for all runs that make the same graph."""
        nodes = sorted(nodes, key=lambda node: node.index)
        place = {node: i for i, node in enumerate(nodes)}
        form = tuple((node.op_name, node.shape, tuple(place[each] for each in node.parents)) for node in nodes)
        inner = [
            (i, j, x)
            for i, node in enumerate(nodes)
            for j, x in enumerate(node.operands)
            if isinstance(x, (Node, Tensor)) and x not in place
        ]
        if form not in self._names:
            free = dict(inspect.getclosurevars(self.f).nonlocals) if inspect.isfunction(self.f) else {}
            spaces = [dict(seen), free, getattr(self.f, "__globals__", {}), *self._spaces]
            found = find_names({id(x): x for x in [*nodes, *(x for _, _, x in inner)]}, iter(spaces))
            named = [node.name or found.get(id(node)) for node in nodes]
            if named[place[root]] is None and self.name.isidentifier() and self.name not in named:
                named[place[root]] = self.name
            if named[place[root]] is None and _LOSS in self._given and _LOSS not in named:
                named[place[root]] = _LOSS  # what a picture would call it
            constants = {(i, j): self._given.get(x) or found.get(id(x)) for i, j, x in inner}
            self._names[form] = self._renamed(named), {at: name for at, name in constants.items() if name}
        named, constants = self._names[form]
        names: dict[Any, str] = {x: constants[i, j] for i, j, x in inner if (i, j) in constants}
        return names | {node: name for node, name in zip(nodes, named, strict=True) if name}

    def _renamed(self, named: Sequence[str | None]) -> list[str | None]:
        """The names of nodes with those in place that were given for them.

        Raises:  ArgumentError at the first run if one was given for what is not there
        """
        known = {name for name in (*named, *(control.name for control in self.controls)) if name}
        strange = [key for key in self._given if isinstance(key, str) and key not in known]
        if strange and not self._names:  # another graph, later, may do without
            raise ArgumentError(f"names={{{strange[0]!r}: …}} names nothing here; there are {', '.join(sorted(known))}")
        return [self._given.get(name, name) if name else None for name in named]


def _alone(view: GraphView) -> GraphView:
    """The graph without what is said of a program's own leaves: these are new at every run."""
    cards = (replace(card, slot=replace(card.slot, note="")) if card.slot else card for card in view.cards)
    return replace(view, cards=tuple(cards))


def _check(f: Callable[..., Any], names: Sequence[str]) -> None:
    """That the function can be called with these leaves.

    Raises:  ArgumentError
    """
    if not callable(f):
        raise ArgumentError(f"explore takes a function of its leaves, not {type(f).__name__}")
    try:
        inspect.signature(f).bind(**dict.fromkeys(names))
    except ValueError:  # a callable that does not tell its parameters
        return
    except TypeError as error:
        raise ArgumentError(f"the leaves given do not fit {getattr(f, '__name__', 'the function')}: {error}") from error
