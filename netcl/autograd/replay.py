"""Replaying: the launches of a loss and its backward pass, noted once and started again without the Python between."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from netcl.autograd.dual import Dual
from netcl.autograd.engine import check_loss, commit, pull_back
from netcl.autograd.modes import modes, no_tape
from netcl.autograd.node import Node, next_index
from netcl.autograd.order import build_topo
from netcl.autograd.reached import Reached
from netcl.autograd.traced import Traced, settled
from netcl.capture import Capture, Playback, refuse_replay
from netcl.device import Device
from netcl.errors import ArgumentError
from netcl.layout import Layout
from netcl.memory import Block
from netcl.ops.shape import contiguous, copy_into
from netcl.platforms import get_device
from netcl.tensor import Tensor

_KEPT = 16  # captures of one function, for shapes that come in turn
_IN_VAIN = 8  # captures after one another that were not played once, before it is said

_NO_FUNCTION = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})

_WHY = {
    "read": "reads a value on the host (.item(), print, a branch on one, a tensor as index), and a replay leaves that "
    "out: return the tensor, and read it then",
    "write": "copies an array from the host, which a replay would not do again: pass it as an argument, or make it a "
    "tensor beforehand",
    "draw": "draws random numbers (dropout, nc.random), and a replay would draw the same ones again: draw beforehand "
    "and pass them as an argument",
    "stray": "takes a tensor from where it cannot be looked up again (a gradient, an iterator, a node of its own, "
    "another thread): pass it as an argument",
    "replay": "calls a function that is replayed, whose gradients would go past it: call that function's __wrapped__",
}


def replay(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives f's loss and its gradients, by launches that are noted once and then repeated.

    Math:    as `loss = f(*args); loss.backward()`: the gradients are added to those of the leaves, and the loss is
             returned, as a Tensor. Where f returns a tuple the loss is its first, and all of it is returned
    Raises:  ArgumentError if f does what a replay would leave out: reads a value on the host, copies an array from
             there, draws random numbers, keeps a tensor beyond its end, takes one from where it cannot be looked up
             again (a gradient, another thread), calls a replay; for an argument that is a list, or has a graph.
             GraphError if the loss has no graph

    The first call with arguments of some shapes and dtypes runs f and the backward pass as ever, and notes each launch.
    Later ones start these launches again, on the arguments and parameters of the day. No Python of f runs, which in a
    small model takes most of the time, and no graph is made, so there is none to draw. What lies between is computed
    in memory of the replay's own; the loss and the gradients have fresh memory, so what you hold never changes.

    Numbers, texts and modules among the arguments belong to what was noted, and so does what f reaches by its names:
    globals, closures, defaults, attributes of models, objects, classes and modules, entries of lists, dicts and NumPy
    arrays. They are looked up at every call (a long list takes its time); where one was given another value, f runs
    again, as it does every time if it reaches an iterator. NumPy arrays among the arguments come to f as tensors.

    Nobody can see what f gets in other ways, and that stays as it was: what a file, the clock, `eval`, `globals()` or
    the system's random numbers say, and what functions of installed libraries read. What else f does (it prints, or
    counts its calls in a library) is done only when it runs.

    Outside recording (`no_grad`), under `detect_anomaly` and inside transforms f runs as it is. `counts` of the
    function that is returned says how often f ran (`captured`) and how often it was spared (`replayed`).

    >>> import netcl.autograd as ag
    >>> w = ag.tensor([1.0, -1.0], requires_grad=True)
    >>> step = replay(lambda x: ((w * x) ** 2).sum())
    >>> for x in ([1.0, 2.0], [3.0, 1.0]):
    ...     w.zero_grad()
    ...     print(step(ag.tensor(x)).item(), w.grad.to_host())
    5.0 [ 2. -8.]
    10.0 [18. -2.]
    >>> step.counts
    {'captured': 1, 'replayed': 1}
    """
    if not callable(f) or any(is_one(each) for each in (f, type(f).__call__) for is_one in _NO_FUNCTION):
        raise ArgumentError(f"replay takes a function that returns a loss, not {f!r}")
    replayer = _Replayer(f)

    @functools.wraps(f, updated=("__dict__",) if inspect.isroutine(f) else ())  # a model's attributes are its own
    def step(*args: Any, **kwargs: Any) -> Any:
        return replayer.run(args, kwargs)

    step.counts = replayer.counts  # type: ignore[attr-defined]
    return step


class _Noted(NamedTuple):
    """The launches of one call, and what they rest on."""

    playback: Playback
    device: Device
    nodes: list[tuple[Node, Any, Layout | None]]  # whether each required grad, and how its value lay if it is used
    reached: Reached
    layouts: list[Layout]  # of what f returned, and of the gradients
    leaves: list[Node]  # which those are of
    single: bool
    looks: list[tuple[int, Layout, Callable[[Tensor], None]]]  # which argument is checked on the host, and how

    def blocks(self, given: Sequence[Any]) -> list[Block] | None:
        """Return the memory of the arguments and nodes of the day, or None where something is not as it was."""
        if self.reached.changed() is not None:
            return None
        tensors = [x for x in given if type(x) is Tensor]
        for place, layout, check in self.looks:
            x = tensors[place]
            check(x if x.layout is layout else x.view(layout))
        blocks = [x.buffer for x in tensors]
        for node, required, layout in self.nodes:
            if node.requires_grad is not required:
                return None
            if layout is not None:
                if node.layout is not layout or node.home is not self.device:
                    return None
                blocks.append(node.buffer)
        return blocks

    def play(self, blocks: Sequence[Block]) -> Any:
        """Start the launches, give the leaves their gradients, and return what f would."""
        made = self.playback.play(blocks)
        tensors = [Tensor(layout, block, self.device) for layout, block in zip(self.layouts, made, strict=True)]
        count = len(tensors) - len(self.leaves)
        commit(dict(zip(self.leaves, tensors[count:], strict=True)), self.leaves)
        self.device.queue.flush()
        return tensors[0] if self.single else tuple(tensors[:count])


class _Replayer:
    """A function with the calls of it that were noted, by the kinds of their arguments."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.name = getattr(f, "__name__", type(f).__name__)
        self.counts = {"captured": 0, "replayed": 0}
        self._noted: dict[Any, _Noted] = {}
        self._vain = 0  # captures since the last replay
        self._why = ""  # why the last call could not be noted
        self._lock = threading.RLock()
        _replayers.add(self)

    def after_fork(self) -> None:
        """Give a forked child, where the device will refuse, a lock that no thread of its parent's holds."""
        self._lock = threading.RLock()

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Replay a call, or make it and note its launches."""
        if not modes.recording or modes.anomaly:
            return self._as_it_is(args, kwargs)
        refuse_replay()
        given: list[Any] = []
        key: list[Any] = [len(args), *kwargs]
        for x in (*args, *kwargs.values()):
            if type(x) is Tensor and x.layout.contiguous and not x.layout.offset:  # nearly all
                given.append(x)
                key += x.layout, x.device
                continue
            if _of_transform(x):
                return self._as_it_is(args, kwargs)
            x = self._argument(x)
            given.append(x)
            key += _kind(x)
        kinds = tuple(key)
        with self._lock:
            noted = self._noted.get(kinds)
            blocks = None if noted is None else noted.blocks(given)
            if noted is None or blocks is None:
                return self._anew(kinds, given, len(args), tuple(kwargs))
            self.counts["replayed"] += 1
            self._vain = 0
        return noted.play(blocks)

    def _as_it_is(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        found = self.f(*args, **kwargs)
        outs = [settled(x) for x in (found if isinstance(found, tuple) else (found,))]
        if modes.recording and not any(map(_of_transform, outs)):
            check_loss(outs[0])
            outs[0].backward()
            outs = [x.value if isinstance(x, Node) else x for x in outs]
        return tuple(outs) if isinstance(found, tuple) else outs[0]

    def _argument(self, x: Any) -> Any:
        """Return an argument as launches take it: an array as a tensor, in row-major order."""
        if isinstance(x, np.ndarray):
            return Tensor.from_host(x)
        if isinstance(x, Tensor):
            return contiguous(x)
        if isinstance(x, Node) and x.rule is not None:
            raise ArgumentError(
                f"replay: {self.name} was given {x!r}, and going back would end there: compute it in {self.name}, or "
                "pass .detach()"
            )
        if isinstance(x, (list, tuple, dict, set)):
            raise ArgumentError(f"replay: {self.name} was given a {type(x).__name__}: pass its entries one by one")
        return x

    def _anew(self, key: Any, given: list[Any], count: int, names: tuple[str, ...]) -> Any:
        """Make a call and note it, in the place of an earlier one like it."""
        before = self._noted.pop(key, None)
        self.counts["captured"] += 1
        self._vain += 1
        if self._vain == _IN_VAIN:
            changed = None if before is None else before.reached.changed()
            why = f"{changed!r} changes: pass that as a tensor, or keep it where {self.name} does not reach it"
            why = why if changed else self._why
            why = why or "its arguments have other shapes or values every time"
            message = f"replay: {self.name} was noted {_IN_VAIN} times and never replayed, since {why}"
            warnings.warn(message, stacklevel=4)
        self._why = ""
        result, noted = self._note(given, count, names)
        if noted is not None:
            self._noted[key] = noted
            if len(self._noted) > _KEPT:
                del self._noted[next(iter(self._noted))]
        return result

    def _note(self, given: list[Any], count: int, names: tuple[str, ...]) -> tuple[Any, _Noted | None]:
        """Run f and the backward pass; return the results, and the launches if they can be repeated."""
        reached = Reached([self.f, *[x for x in given if not isinstance(x, Tensor)]])
        values = [x.buffer for x in reached.nodes]
        devices = [x.device for x in (*given, *reached.nodes) if isinstance(x, (Tensor, Node))]
        capture = Capture(devices[0] if devices else get_device(), self._refusal)
        # Copies, which lie where no parameter and no constant does.
        given = [_copy(x) if isinstance(x, Tensor) else x for x in given]
        tensors, leaves, single = self._run(capture, given[:count], dict(zip(names, given[count:], strict=True)))
        results = [capture.slot(x.buffer) for x in tensors]
        self._check_ended(capture, results)
        if reached.drew():
            raise self._refusal("draw")
        tensor_arguments = [x for x in given if isinstance(x, Tensor)]
        known = {id(x.buffer) for x in (*tensor_arguments, *reached.nodes, *reached.tensors)}
        outside = [i for i in capture.used().union(results) if capture.sizes[i] is None and i != capture.seed]
        moved = any(x.buffer is not before for x, before in zip(reached.nodes, values, strict=True))
        strays = any(id(capture.blocks[i]) not in known for i in outside) and not moved
        if strays or any(x not in reached.nodes for x in leaves):
            raise self._refusal("stray")
        commit(dict(zip(leaves, tensors[len(tensors) - len(leaves) :], strict=True)), leaves)
        result = tensors[0] if single else tuple(tensors[: len(tensors) - len(leaves)])

        if reached.fleeting or moved:
            self._why = f"it reaches {reached.fleeting}" if reached.fleeting else "another thread moves a parameter"
            return result, None
        nodes = [x for x in reached.nodes if not x.level]
        used = {id(block) for block in capture.blocks}
        mine = [x for x in nodes if id(x.buffer) in used]
        places = {id(x.buffer) for x in mine}
        if len(places) < len(mine) or not places.isdisjoint(id(x.buffer) for x in reached.tensors):
            self._why = "a parameter lies where another one does, or a constant"
            return result, None  # next time perhaps no longer
        bound = [capture.slot(x.buffer) for x in (*tensor_arguments, *mine)]
        playback = Playback(capture, bound, results)
        conditions = [(x, x.requires_grad, x.layout if x in set(mine) else None) for x in nodes]
        conditions.sort(key=lambda each: each[2] is None)
        layouts = [x.layout for x in tensors]
        given = bound[: len(tensor_arguments)]
        looks = [(given.index(i), layout, look) for i, layout, look in capture.looks if i in given]
        return result, _Noted(playback, capture.device, conditions, reached, layouts, leaves, single, looks)

    def _run(
        self, capture: Capture, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Tensor], list[Node], bool]:
        """Return what f returned and then the gradients, as tensors; the leaves that these are of; if f gave one."""
        mark = next_index()
        with no_tape(), capture.running():
            found = self.f(*args, **kwargs)
            outs = [settled(x) for x in (found if isinstance(found, tuple) else (found,))]
        if wrong := [x for x in outs if not isinstance(x, (Tensor, Node))]:
            raise ArgumentError(f"replay: {self.name} returns tensors, the loss first, not {type(wrong[0]).__name__}")
        loss = outs[0]
        check_loss(loss)
        old = [x for x in build_topo(loss) if x.rule is not None and x.index < mark]
        if old:
            raise ArgumentError(
                f"replay: {self.name} goes back to {old[0]!r}, which was made before it ran and would not be computed "
                f"again: compute it in {self.name}, or use .detach()"
            )
        value = loss.value
        seed = Tensor.full(value.shape, 1, value.dtype, value.device)  # a constant: no launch of the replay writes it
        capture.seed = capture.slot(seed.buffer)
        leaves: list[Node] = []
        with no_tape(), capture.running():
            grads = pull_back(loss, seed, leaves=leaves)
        leaves = [leaf for leaf in leaves if grads[leaf] is not None]
        tensors = [x.value if isinstance(x, Node) else x for x in outs] + [grads[leaf] for leaf in leaves]
        for x in tensors:
            if x.device is not capture.device:
                raise ArgumentError(f"replay: {self.name} works on {x.device.name}, its input on {capture.device.name}")
        return tensors, leaves, not isinstance(found, tuple)

    def _check_ended(self, capture: Capture, results: list[int]) -> None:
        """See that nobody holds what lay between: a replay would leave it as it is."""
        if capture.seen_elsewhere(results):
            gc.collect()  # a cycle of the user's own
            if kept := capture.seen_elsewhere(results):
                raise ArgumentError(
                    f"replay: {self.name} keeps {len(kept)} of its tensors beyond its end (an attribute such as batch "
                    "norm's running mean, a list, a parameter's new value), where a replay would not put the next: "
                    "return them"
                )

    def _refusal(self, what: str) -> Exception:
        return ArgumentError(f"replay: {self.name} {_WHY[what]}")


_replayers: weakref.WeakSet[_Replayer] = weakref.WeakSet()


def _after_fork() -> None:
    for replayer in _replayers:
        replayer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _of_transform(x: Any) -> bool:
    return isinstance(x, (Dual, Traced)) or (isinstance(x, Node) and x.level > 0)


def _kind(x: Any) -> tuple[Any, Any]:
    """Return what an argument must have in common with one that was noted."""
    if type(x) is Tensor:
        return x.layout, x.device
    if type(x) in _PLAIN:  # by what they show: 1, 1.0 and True are equal, and so are 0.0 and -0.0
        return type(x), repr(x)
    if isinstance(x, np.generic):
        return x.dtype, x.tobytes()
    if type(x) is slice:
        return slice, tuple(map(_kind, (x.start, x.stop, x.step)))
    return type(x), id(x)  # what was noted holds it


def _copy(x: Tensor) -> Tensor:
    result = Tensor.empty(x.shape, x.dtype, x.device)
    if x.size:
        copy_into(result, result.layout, x)
    return result
