"""Fusing: the elementwise chains of a function as one kernel forward and one backward."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from netcl import layout as lay
from netcl.autograd.dual import Dual
from netcl.autograd.modes import modes, no_tape, recording
from netcl.autograd.node import Node
from netcl.autograd.pullback import same
from netcl.autograd.record import as_python, level_of, make_node
from netcl.autograd.site import here
from netcl.autograd.traced import Traced, settled
from netcl.autograd.transforms import jvp, vjp
from netcl.errors import ArgumentError, DeviceError, GraphError
from netcl.kernels.fused import SHORTEST, number
from netcl.layout import Layout
from netcl.ops import OPS, Op, Row
from netcl.ops.dtypes import FLOAT64
from netcl.ops.program import Program, Step, Total, ghost, literal, program, total_shape
from netcl.ops.rows import signature
from netcl.tensor import Tensor, check_dtype

_MOST_STEPS = 48  # in one kernel: it is compiled once per chain, in a time that grows with it
_MOST_INPUTS = 32  # OpenCL promises room for 1024 bytes of arguments
_NUMBERS = frozenset({float, int, bool})
_TOTALS = {OPS["sum"]: "sum", OPS["mean"]: "mean"}
_SIGNATURES_KEPT = 1 << 14
_numbers = itertools.count(1)  # in the order of their making, in all calls: one may use what another left


def fuse(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f with its chains of elementwise ops run as one kernel each, forward and backward.

    Math:    the same values and derivatives, to rounding; a sum or mean at the end of a chain (over all axes, or long
             trailing ones) is taken in the chain's kernel. The backward kernel computes the chain again from its inputs
             and writes all their cotangents, so no intermediate result is stored.
    Raises:  ArgumentError if f is no function, or a generator or coroutine function

    f runs at every call, on values that are not computed until they are needed: by an op that does not fuse (matmul, a
    reshape, an op of your own), by the end of f, or by Python itself. A branch on a value (`if loss > 0`), `.item()` or
    `print` therefore sees the value, as in eager code; it ends the chain there. Nothing is frozen at the first call:
    no closure, no branch, no random number (jax.jit raises, or keeps the first), and Python numbers are arguments
    of the kernel. Kernels are kept by the ops and layouts of a chain, so that later calls only launch them. Nodes that
    f closes over get their gradients. Under detect_anomaly, and in forward mode (`jvp`), f runs op by op. Within f the
    values have the operators, methods and ops of nodes, but are not of their type.

    Each chain is one node, whose picture opens: `viz.draw(node, inside=True)`.

    >>> import netcl.autograd as ag
    >>> x = ag.tensor([0.0, 1.0], requires_grad=True)
    >>> fuse(lambda x: ((2.0 * x + 1.0) ** 2).sum())(x).backward()
    >>> x.grad.to_host()
    array([ 4., 12.], dtype=float32)
    """
    if not callable(f):
        raise ArgumentError(f"fuse takes a function, and {f!r} is no function")
    if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
        raise ArgumentError(f"fuse takes a function that returns its result; {f!r} is one that runs later")
    name = getattr(f, "__name__", type(f).__name__)

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if modes.anomaly or any(isinstance(x, (Dual, Traced)) for x in given):
            return f(*args, **kwargs)  # inside another fused function its chains go on through this one
        trace = _Trace("fused" if name == "<lambda>" else f"fused {name}")
        out = f(*map(trace.begin, args), **{key: trace.begin(x) for key, x in kwargs.items()})
        return _all_settled(out)

    return run


def _all_settled(out: Any) -> Any:
    """Compute what f returned: one value, or tuples, lists and dicts of them."""
    if isinstance(out, (list, tuple)):
        values = [_all_settled(x) for x in out]
        return type(out)(*values) if hasattr(out, "_fields") else type(out)(values)
    if isinstance(out, dict):
        return {key: _all_settled(x) for key, x in out.items()}
    return settled(out)


class _Trace:
    """One call of a fused function: makes traced values of its ops, and nodes of these."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.recording = modes.recording

    def begin(self, x: Any) -> Any:
        """Stand in for a value, so that what is done to it is seen."""
        if not isinstance(x, (Node, Tensor)):
            return x
        traced = Traced(self.record, self.settle, _layout(x), x.device)
        traced.become(x)
        return traced

    def record(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Put off an op where it can be fused; else run it, on the values of what was put off."""
        if modes.recording == self.recording and not modes.anomaly:
            if isinstance(op, Row):
                traced = self._row(op, args)
            else:
                traced = self._total(op, args[0], **attrs) if op in _TOTALS else None
            if traced is not None:
                traced.number = next(_numbers)
                traced.site, traced.scope = here(), modes.scope
                return traced
        return self.begin(op(*[settled(x) for x in args], **attrs))

    def _row(self, row: Row, args: Sequence[Any]) -> Traced | None:
        device: Any = next(x.device for x in args if type(x) is Traced)
        operands: list[Any] = []
        key: list[Any] = [row]
        for x in args:
            x = _operand(x, device)
            kind = type(x)
            if kind is Dual:
                return None
            operands.append(x)
            if kind in _NUMBERS:
                key.append(kind)
                continue
            key.append(_layout(x))
            if x.device is not device:
                raise DeviceError(f"{row.name}: the operands are on two devices, {device.name} and {x.device.name}")
        out, work = _signature(tuple(key), row, operands)
        if work == FLOAT64:
            check_dtype(work, device)
        elif work.kind != "f":
            for x in operands:
                if type(x) in _NUMBERS:
                    number(x, work)  # an error belongs to the op that is wrong
        bound = 1
        for i, x in enumerate(operands):
            if type(x) is not Traced:
                continue
            if x.total is not None or x.shape != out.shape:
                operands[i] = x.settled
            else:
                bound += x.size_bound
        if bound > _MOST_INPUTS // 3:
            steps, inputs = _weigh(operands)
            bound = steps + 1
            if bound > _MOST_STEPS or inputs > _MOST_INPUTS:
                operands, bound = [settled(x) for x in operands], 1
        traced = Traced(self.record, self.settle, out, device)
        traced.row, traced.args, traced.size_bound = row, operands, bound
        return traced

    def _total(self, op: Op, x: Any, axis: Any = None, keepdims: Any = False) -> Traced | None:
        if not x.waits or x.total or not x.size or x.dtype.kind != "f":
            return None
        axes = lay.normalize_axes(op.name, axis, len(x.shape))
        over_all = len(axes) == len(x.shape)
        trailing = axes and axes[0] == len(x.shape) - len(axes)
        if not over_all and not (trailing and math.prod(x.shape[axes[0] :]) >= SHORTEST):
            return None
        out = lay.contiguous(total_shape(x.shape, axes, bool(keepdims)), x.dtype)
        traced = Traced(self.record, self.settle, out, x.device)
        traced.args, traced.size_bound = (x,), x.size_bound + 1
        traced.total = Total(_TOTALS[op], None if over_all else axes, bool(keepdims))
        return traced

    def settle(self, traced: Traced) -> Any:
        """Compute a value in one kernel, together with all that it is made of and is not computed yet."""
        order = sorted(_waiting([traced]), key=lambda each: each.number)
        with recording(self.recording):
            out = self._alone(traced) if len(order) == 1 else self._together(order, traced.total)
        if isinstance(out, Node) and out.grad_fn is not None:
            out.site, out.scope = traced.site, traced.scope
        return out

    def _alone(self, traced: Traced) -> Any:
        """A chain of one op is that op."""
        values = [settled(x) for x in traced.args]
        if traced.total is None:
            return traced.row(*values)
        return OPS[traced.total.kind](*values, traced.total.axis, traced.total.keepdims)

    def _together(self, order: Sequence[Traced], total: Total | None) -> Any:
        places: dict[int, int] = {id(each): k for k, each in enumerate(order)}
        inputs: list[Any] = []
        steps = []
        for each in order[: -1 if total else None]:
            refs: list[Any] = []
            for x in each.args:
                if type(x) is Traced and not x.waits:
                    x = x.settled
                is_number = type(x) in _NUMBERS
                written = literal(each.row, x) if is_number else None
                if written is not None:
                    refs.append(written)
                    continue
                if is_number or id(x) not in places:
                    places[id(x)] = ~len(inputs)
                    inputs.append(x)
                refs.append(places[id(x)])
            steps.append(Step(each.row, tuple(refs)))
        found = program(tuple(steps), len(inputs), total)
        return _apply(found, inputs, self.name, tuple([each.site for each in order]))


def _layout(x: Any) -> Layout:
    """Return a layout with the shape and dtype of a value, whichever strides."""
    value = x.value if type(x) is Node else x
    return value.layout if type(value) in (Tensor, Traced) else lay.contiguous(value.shape, value.dtype)


_signatures: dict[Any, tuple[Layout, Any]] = {}


def _signature(key: tuple[Any, ...], row: Row, operands: Sequence[Any]) -> tuple[Layout, Any]:
    found = _signatures.get(key)
    if found is None:
        if len(_signatures) >= _SIGNATURES_KEPT:
            _signatures.clear()
        ghosts = [ghost(x) if isinstance(x, Layout) else y for x, y in zip(key[1:], operands, strict=True)]
        found = _signatures[key] = signature(row, ghosts)
    return found


def _operand(x: Any, device: Any) -> Any:
    """Return what an op takes: a traced value that waits, a node, a dual, a tensor, or a Python number."""
    kind = type(x)
    if kind is Traced:
        return x if x.waits else x.settled
    if kind in _NUMBERS or isinstance(x, (Node, Tensor, Dual)):
        return x
    x = as_python(x)
    return x if type(x) in _NUMBERS else Tensor.from_host(x, device=device)


def _waiting(roots: Sequence[Any]) -> list[Traced]:
    """Return the traced values that are still to be computed, of some and all that they are made of."""
    stack = [x for x in roots if isinstance(x, Traced) and x.waits]
    found = dict.fromkeys(stack)
    while stack:
        for x in stack.pop().args:
            if isinstance(x, Traced) and x.waits and x not in found:
                found[x] = None
                stack.append(x)
    return list(found)


def _weigh(args: Sequence[Any]) -> tuple[int, int]:
    """Return how many steps and inputs the kernel of an op on these would have, the op itself apart."""
    waiting = _waiting(args)
    inputs = [x for each in waiting for x in each.args if not (isinstance(x, Traced) and x.waits)]
    return len(waiting), len({id(x) for x in inputs}) + len(args)


def _apply(found: Program, inputs: Sequence[Any], name: str, sites: tuple[Any, ...]) -> Any:
    """Run a program on the innermost transform's level; outer ones see it as that one does (see record._nested)."""
    level = max(map(level_of, inputs), default=0)
    if any(isinstance(x, Dual) for x in inputs):
        return found.replay(inputs)
    mine = [i for i, x in enumerate(inputs) if isinstance(x, Node) and x.level == level]
    values = [x.value if i in mine else x for i, x in enumerate(inputs)]
    plain = not any(isinstance(x, (Node, Dual)) for x in values)
    out = found.run(values) if plain else _apply(found, values, name, sites)
    wanted = [i for i in mine if inputs[i].requires_grad and i in found.active]
    if not wanted or not modes.recording or out.dtype.kind != "f":
        return out
    pullback = FusedPullback(found, values, out, wanted, plain, sites)
    return make_node(out, pullback, [inputs[i] for i in wanted], name, tuple(inputs), None, level=level)


class FusedPullback:
    """The grad_fn of a chain: one kernel that computes it again, and with it the cotangents of its inputs."""

    __slots__ = ("out", "plain", "program", "saved", "sites", "wanted")

    def __init__(
        self, found: Program, saved: Sequence[Any], out: Any, wanted: Sequence[int], plain: bool, sites: Sequence[Any]
    ) -> None:
        self.program = found
        self.saved = saved
        self.out = out
        self.wanted = wanted  # which inputs are parents
        self.plain = plain  # all values are tensors and numbers, so that the kernels can have them
        self.sites = sites  # of each step

    def __call__(self, g: Any) -> list[Any]:
        if self.plain and type(g) is Tensor:
            return list(self.program.pull(g, self.saved, self.wanted))
        return self._by_ops(g, self.saved)

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Pull back through the ops of the chain, on nodes, so that the result has a graph of its own."""
        self._check_unchanged(node)
        return self._by_ops(g, node.operands)

    def push(self, nth: int, tangent: Tensor) -> Tensor:
        """Push a tangent of the `nth` parent forward, op by op."""
        before, after = self.saved[: self.wanted[nth]], self.saved[self.wanted[nth] + 1 :]
        moved = self.saved[self.wanted[nth]]
        return jvp(lambda x: self.program.replay([*before, x, *after]), (moved,), (tangent,))[1]

    def run(self, node: Any) -> Any:
        """Run the chain op by op, recording what it does, at the places in f where its ops stand.

        Raises:  GraphError if an operand was given a new value
        """
        self._check_unchanged(node)
        with recording(True), no_tape():
            return self.program.replay(node.operands, self._placed)

    def _placed(self, k: int, made: Any) -> None:
        if isinstance(made, Node):
            made.site = self.sites[k]

    def _check_unchanged(self, node: Any) -> None:
        for operand, saved in zip(node.operands, self.saved, strict=True):
            if not same(getattr(operand, "value", saved), saved):
                raise GraphError(
                    f"{node.op_name}: an operand was given a new value after it was used, so its ops run again would "
                    "be those of another point; run the forward pass again"
                )

    def _by_ops(self, g: Any, operands: Sequence[Any]) -> list[Any]:
        def of_wanted(*chosen: Any) -> Any:
            args = list(operands)
            for i, x in zip(self.wanted, chosen, strict=True):
                args[i] = x
            return self.program.replay(args)

        return list(vjp(of_wanted, *[operands[i] for i in self.wanted])[1](g))
