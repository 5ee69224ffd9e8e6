"""How a node comes to be: ops called on nodes are recorded here, those of the table and those of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.autograd import anomaly
from netcl.autograd.dual import Dual
from netcl.autograd.engine import Tape
from netcl.autograd.modes import modes
from netcl.autograd.node import Node
from netcl.autograd.pullback import NO_ATTRS, CustomPullback, OpPullback, RowPullback
from netcl.autograd.push import push, push_custom
from netcl.autograd.site import here
from netcl.autograd.traced import Traced, settled
from netcl.errors import ArgumentError
from netcl.ops import Op, Row
from netcl.ops.rows import handed, is_literal, one_device
from netcl.ops.table import interpret
from netcl.tensor import Tensor

_ARRAYS = (Tensor, Node, Dual)
_NUMBERS = frozenset({float, int, bool})
_ROW_OPERANDS = (*_ARRAYS, float, int)


def record(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run an op; return a Node if recording is on and some argument is a Node that requires grad, else a Tensor."""
    if type(op) is Row and not attrs:
        return record_row(op, args)
    values: list[Any] = []
    parents: list[Node] = []
    wanted: list[int] = []
    place, arrays = 0, False
    for x in args:
        kind = type(x)
        if kind is Node:
            if x.level:
                return _record_coerced(op, args, attrs)
            values.append(x.value)
            if x.requires_grad:
                parents.append(x)
                wanted.append(place)
        elif kind is Tensor:
            values.append(x)
        else:
            return _record_coerced(op, args, attrs)
        place += 1
        arrays = True
    if not arrays:
        return _record_coerced(op, args, attrs)
    out = op.function(*values, **attrs)
    if not parents or not modes.recording or out.layout.dtype.kind != "f":
        if modes.anomaly:
            anomaly.check_forward(op.name, out, values, here())
        return out
    return make_node(out, OpPullback(op, values, out, attrs, wanted, True), parents, op.name, args, attrs)


def record_row(row: Row, args: tuple[Any, ...]) -> Any:
    """Run a row of the table, as `record` does: the way that most ops take, so one loop does all that is needed."""
    values: list[Any] = []
    buffers: list[Any] = []
    key: list[Any] = []
    device: Any = None
    wanted, bit = 0, 1  # the operands that are parents, and this one, as bits
    for x in args:
        kind = type(x)
        if kind is Node:
            if x.level:
                return _record_coerced(row, args, NO_ATTRS)
            if x.requires_grad:
                wanted += bit
            x = x.value
        elif kind is not Tensor:
            if kind not in _NUMBERS:
                return _record_coerced(row, args, NO_ATTRS)
            values.append(x)
            key.append((kind, x) if row.literals and is_literal(row, x) else kind)
            bit += bit
            continue
        values.append(x)
        buffers.append(x.buffer)
        key.append(x.layout)
        if x.device is not device:
            device = x.device if device is None else one_device(row.name, values)
        bit += bit
    if device is None:
        return _record_coerced(row, args, NO_ATTRS)
    signature = tuple(key)
    case = row.cases.get(signature) or row.case(signature, values)
    out = case.run(device, values, buffers)
    mode = modes.__dict__  # the thread's own, looked up once
    if not wanted or not case.differentiable or not mode["recording"]:
        if mode["anomaly"]:
            anomaly.check_forward(row.name, out, values, here())
        return out
    vjp = case.vjp(wanted)
    kept = handed(values)
    if len(args) > 2 or mode["anomaly"]:
        parents = [args[i] for i in vjp.wanted]
        return make_node(out, RowPullback(vjp, (*kept, out.buffer), device), parents, row.name, args, NO_ATTRS)
    node = Node(out, site=here(2), scope=mode["scope"])
    node.rule = vjp
    node.a, node.b = args if len(args) == 2 else (*args, None)
    node.x, node.y = kept if len(args) == 2 else (*kept, None)
    if mode["tapes"]:
        mode["tapes"][-1].nodes.append(node)
    return node


def _record_coerced(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run an op on anything that can be made a tensor, and on the nodes and duals of transforms."""
    for x in args:
        if type(x) is Traced:
            return x.record(op, args, attrs)
    args = _coerce(op, args)
    level = max(map(level_of, args), default=0)
    if level:
        return _nested(op, args, attrs, level)
    wanted = [i for i, x in enumerate(args) if isinstance(x, Node) and x.requires_grad]
    values = [x.value if isinstance(x, Node) else x for x in args]
    out = op.function(*values, **attrs)
    if not wanted or not modes.recording or out.dtype.kind != "f":
        if modes.anomaly:
            anomaly.check_forward(op.name, out, values, here())
        return out
    grad_fn = OpPullback(op, values, out, attrs, wanted, True)
    return make_node(out, grad_fn, [args[i] for i in wanted], op.name, args, attrs)


def level_of(x: Any) -> int:
    """Return the number of the transform that a node or dual belongs to; 0 for everything outside transforms."""
    return x.level if isinstance(x, (Node, Dual)) else 0


def _nested(op: Op, args: tuple[Any, ...], attrs: dict[str, Any], level: int) -> Any:
    """Run an op for the innermost transform among its arguments; to that one, all that is of outer ones is constant."""
    if any(type(x) is Dual and x.level == level for x in args):
        return push(op, args, attrs, level)
    values = tuple([x.value if type(x) is Node and x.level == level else x for x in args])
    out = op(*values, **attrs)  # outer transforms see the op here
    if out.dtype.kind != "f" or not modes.recording:
        return out
    wanted = [i for i, x in enumerate(args) if type(x) is Node and x.level == level]
    plain = not any(isinstance(x, (Node, Dual)) for x in values)
    grad_fn = OpPullback(op, values, out, attrs, wanted, plain)
    return make_node(out, grad_fn, [args[i] for i in wanted], op.name, args, attrs, level=level)


def _coerce(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Turn arrays and lists into tensors, and numbers of other types into Python's."""
    known = _ROW_OPERANDS if isinstance(op, Row) else _ARRAYS
    if all(type(x) in known for x in args) and any(type(x) in _ARRAYS for x in args):
        return args
    given = [as_python(x) for x in args]
    device = next((x.device for x in given if isinstance(x, _ARRAYS)), None)
    kept = _ROW_OPERANDS if isinstance(op, Row) and device is not None else _ARRAYS
    return tuple([x if isinstance(x, kept) else Tensor.from_host(x, device=device) for x in given])


def as_python(x: Any) -> Any:
    """Return a number as one of Python's own types, which decide the dtype: not of NumPy's, an IntEnum, or the like."""
    if isinstance(x, np.generic):
        return x.item()
    if type(x) not in _NUMBERS and isinstance(x, (float, int)):
        return float(x) if isinstance(x, float) else int(x)
    return x


def make_node(
    out: Tensor, grad_fn: Any, parents: list[Node], name: str, args: tuple[Any, ...], attrs: dict[str, Any] | None,
    tape: Tape | None = None, level: int = 0,
) -> Node:  # fmt: skip
    """Make the node of an op's result; an ordinary one goes onto the innermost tape, or onto `tape`."""
    mode = modes.__dict__  # the thread's own, looked up once
    trace, site = None, here(3)
    if mode["anomaly"]:
        trace = anomaly.stack()
        anomaly.check_forward(name, out, args, site)
    node = Node(out, grad_fn, parents, None, True, name, trace, None, args, attrs, site, mode["scope"])
    if level:
        node.level = level
        return node  # a tape records the user's own graph, not those of transforms
    if tape is not None:
        tape.nodes.append(node)
    elif mode["tapes"]:
        mode["tapes"][-1].nodes.append(node)
    return node


def apply_op(
    fn: Callable[..., Tensor], grad_fn: Callable[..., Any], *args: Any, tape: Tape | None = None,
    op_name: str | None = None, once_differentiable: bool = False, jvp: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Run an op of your own on tensors and nodes.

    `fn(*values)` gets the tensors of nodes and returns a Tensor; `grad_fn(g)`, or `grad_fn(g, out=...)` if it has that
    parameter, returns a list with one cotangent (or None) per argument. `once_differentiable` says that grad_fn is
    not made of ops, so that it has no derivative itself; a rule that reads `x.value` where it could use x is one of
    those. `jvp(tangents)`, or `jvp(tangents, out=...)`, gets a list with one tangent (or None) per argument and returns
    the tangent of the result; without it forward mode refuses the op.

    Raises: ArgumentError if fn returns no Tensor; backward raises GradFnError for a bad result of grad_fn

    >>> import netcl.autograd as ag
    >>> x = ag.tensor([1.0, 3.0], requires_grad=True)
    >>> y = apply_op(lambda v: v * v, lambda g: [g * 2.0 * x], x, op_name="square")
    >>> y.backward(); x.grad.to_host()
    array([2., 6.], dtype=float32)
    """
    name = op_name or getattr(fn, "__name__", "custom")

    def apply(*args: Any) -> Any:
        level = max(map(level_of, args), default=0)
        if any(type(x) is Dual and x.level == level for x in args):
            return push_custom(name, apply, jvp, args, level)
        mine = [i for i, x in enumerate(args) if isinstance(x, Node) and x.level == level]
        values = [x.value if i in mine else x for i, x in enumerate(args)]
        out = apply(*values) if any(isinstance(x, (Node, Dual)) for x in values) else _result(name, fn(*values))
        wanted = [i for i in mine if args[i].requires_grad]
        if not wanted or not modes.recording or out.dtype.kind != "f":
            if modes.anomaly and isinstance(out, Tensor):
                anomaly.check_forward(name, out, values, here())
            return out
        pullback = CustomPullback(name, fn, grad_fn, values, out, wanted, once_differentiable, level)
        return make_node(out, pullback, [args[i] for i in wanted], name, args, None, tape, level)

    return apply(*map(settled, args))


def _result(name: str, out: Any) -> Tensor:
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{name}: the function must return a Tensor, not {type(out).__name__}")
    return out


interpret(record)
