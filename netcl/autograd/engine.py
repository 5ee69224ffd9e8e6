"""The engine: nodes, tapes, and the backward pass.

A Node records that an op made a value from other nodes. `backward` walks the nodes below a loss from the newest to the
oldest, asks each for the cotangents of its parents (`grad_fn`), and adds them up.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from netcl.autograd import anomaly
from netcl.autograd.modes import modes
from netcl.autograd.node import More, Node, parents_of, storing, whole
from netcl.autograd.order import Newest, build_topo, towards
from netcl.autograd.pullback import check_by_hand, released
from netcl.autograd.traced import settled
from netcl.errors import DeviceError, DTypeError, GraphError, ShapeError
from netcl.kernels import evaluate
from netcl.ops.elementwise import add
from netcl.ops.row_vjp import RowVJP
from netcl.tensor import Tensor

_passes = itertools.count(1)


class Tape:
    """Records the nodes made while it is the innermost active tape, and runs the backward pass.

    `retain_grads=False` drops the gradients of intermediate nodes as they are used.

    >>> import netcl.autograd as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> with Tape() as tape:
    ...     loss = (x * x).sum()
    >>> tape.backward(loss)
    >>> x.grad.to_host()
    array([2., 4.], dtype=float32)
    """

    def __init__(self, retain_grads: bool = True) -> None:
        self.nodes: list[Node] = []
        self.retain_grads = retain_grads
        self._last: Node | None = None
        self._roots: weakref.WeakSet[Node] = weakref.WeakSet()  # a tape used in a loop keeps the last loss alone
        self._pending_flush_queue: Any = None

    def __enter__(self) -> Tape:
        modes.tapes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Take out this tape, not the newest: a suspended generator leaves its tape in its own time.
        for i in range(len(modes.tapes) - 1, -1, -1):
            if modes.tapes[i] is self:
                del modes.tapes[i]
                break

    def backward(self, loss: Any, grad: Any = None, *, create_graph: bool = False) -> None:
        """Compute the gradient of `loss` with respect to every node below it.

        Math:    x_bar = Σ over the consumers y of x of (∂y/∂x)ᵀ y_bar, newest node first; the seed is loss_bar = `grad`
        Shapes:  `grad` has the shape of the loss; None is ones
        Raises:  GraphError if the loss has no graph or it was released, ShapeError, DTypeError or DeviceError for a bad
                 seed, GradFnError for a bad result of a custom grad_fn; a pass that raises changes no gradient

        Gradients of leaves add up over calls; those of intermediate nodes are of the last call alone. The device's
        queue is left flushed, not finished: `to_host()` waits. With `create_graph` gradients are nodes themselves.
        """
        loss, grad = settled(loss), settled(grad)
        check_loss(loss)
        seed = _seed(loss, grad, create_graph)
        leaves: list[Node] = []
        grads = pull_back(loss, seed, create_graph=create_graph, retain=self.retain_grads, leaves=leaves)
        commit(grads, leaves)
        self._last = loss
        self._roots.add(loss)
        queue = loss.value.device.queue
        queue.flush()
        self._pending_flush_queue = queue

    def release(self) -> None:
        """Let the graph go: the nodes keep their values and gradients, and backward through them raises."""
        for node in [*self.nodes, *(node for root in self._roots for node in build_topo(root))]:
            if node.rule is not None:
                rest = More(op_name=node.op_name, creation_trace=node.creation_trace, name=node.name)
                # The rule first: should an interrupt come between, backward must not pass by parents that are gone.
                node.rule, node.more = released, rest
                node.a = node.b = node.x = node.y = None
        self.nodes = []
        self._last = None
        self._roots.clear()


def pull_back(
    root: Node, seed: Any, *, create_graph: bool = False, targets: Collection[Node] = (), retain: bool = False,
    visit: Callable[[Node], None] | None = None, leaves: list[Node] | None = None,
) -> dict[Node, Any]:  # fmt: skip
    """Return the cotangents of the nodes below `root`; None for a node that every path to is cut.

    Those of leaves and targets are kept, with `retain` those of all. With `targets` only the paths to them are walked,
    and none beyond them. `visit` is called with each node, newest first, before it is asked for its contributions;
    `leaves` is given the leaves. The cotangent of an inner node may be the block alone of a tensor that lies as the
    node's value does (see `node.whole`): that is one object less to make, and for Python's collector to visit.
    """
    ends = set(targets)
    inside = towards(root, ends) if ends else None
    cotangents: dict[Node, Any] = {root: seed}
    made: set[Node] = set()  # nodes whose cotangent lies in a buffer made here, which may be added to in place
    anomalies = modes.anomaly
    block = type(seed.buffer) if type(seed) is Tensor else None
    ahead = Newest()
    node = root if inside is None or root in inside else None
    while node is not None:
        if visit is not None:
            visit(node)
        g, rule = cotangents[node], node.rule
        if rule is None or node in ends:
            if rule is None and leaves is not None:
                leaves.append(node)
            node = ahead.pop()
            continue
        if not retain:
            cotangents[node] = None
        by_row = type(rule) is RowVJP and (type(g) is Tensor or type(g) is block) and not create_graph and not anomalies
        if by_row and rule.lone is not None:  # most nodes
            parent = node.b if rule.lone else node.a
            if parent not in cotangents and inside is None:
                layout, buffer = (g.layout, g.buffer) if type(g) is Tensor else (node.layout, g)
                # While a node has a row's rule, its value is the op's; a leaf's may be another before the pass ends.
                wanted = parent.layout if type(parent.rule) is RowVJP and block is not None else None
                cotangents[parent] = rule.pull_one(layout, (buffer, node.x, node.y, node.buffer), node.home, wanted)
                node = ahead.then(parent)
                continue
        g = whole(node, g)
        parents = parents_of(node)
        for parent in parents:
            if parent in cotangents:
                cotangents[parent] = whole(parent, cotangents[parent])
            else:
                cotangents[parent] = None
                if inside is None or parent in inside:
                    ahead.push(parent)
        if g is not None:
            given = (g.buffer, node.x, node.y, node.buffer) if by_row else ()
            if not (by_row and _add(rule, g, given, parents, cotangents, made)):
                contributions = rule.pull(g, given) if by_row else _ask(node, g, create_graph)
                if anomalies:
                    anomaly.check_backward(node, g, contributions)
                _gather(parents, contributions, cotangents, made, not (anomalies or create_graph))
        node = ahead.pop()
    return cotangents


def _gather(
    parents: Sequence[Node], contributions: Sequence[Any], cotangents: dict[Node, Any], made: set[Node], reuse: bool
) -> None:
    """Add what a node sends back to what its parents have; with `reuse` in place, where nothing else sees that."""
    for parent, contribution in zip(parents, contributions):  # noqa: B905 - counted where they were made
        if contribution is None:
            continue
        total = cotangents[parent]
        if total is None:
            cotangents[parent] = contribution
        elif parent in made and type(contribution) is Tensor and reuse:
            add_inplace(total, contribution)
        else:
            total = cotangents[parent] = total + contribution
            if type(total) is Tensor and reuse:
                made.add(parent)


def _add(
    rule: RowVJP, g: Tensor, given: tuple[Any, ...], parents: Sequence[Node], cotangents: dict[Node, Any],
    made: set[Node],
) -> bool:  # fmt: skip
    """Add what a row sends back to what its parents have, in the launch that computes it; say whether that went."""
    totals = [cotangents[parent] for parent in parents]
    if not any(type(total) is Tensor for total in totals) or len(set(parents)) < len(parents):
        return False
    if not all(total is None or type(total) is Tensor for total in totals):
        return False
    sums = rule.add(g, given, totals)
    if sums is None:
        return False
    cotangents.update(zip(parents, sums, strict=True))
    made.update(parents)
    return True


def _ask(node: Node, g: Any, create_graph: bool) -> Sequence[Any]:
    """Ask a node what it sends back to each of its parents."""
    grad_fn: Any = node.grad_fn
    if create_graph and not hasattr(grad_fn, "with_graph"):
        raise GraphError(f"{node.op_name}: the grad_fn of a node made by hand gives no graph; use apply_op")
    contributions = grad_fn.with_graph(g, node) if create_graph else grad_fn(g)
    if not hasattr(grad_fn, "with_graph"):
        check_by_hand(node, contributions)
    return contributions


def check_loss(loss: Any) -> None:
    """Raise a GraphError unless there is a graph behind the loss to go back through."""
    if not isinstance(loss, Node):
        raise GraphError(
            f"backward needs a loss that requires grad, but {_what(loss)} has no graph: no input of it was made "
            "with requires_grad=True, or it was computed under no_grad or detached"
        )
    if not loss.requires_grad:
        raise GraphError(f"backward needs a loss that requires grad, and {loss!r} was told not to")
    if not isinstance(loss.value, Tensor):
        raise GraphError(f"{loss!r} is of a transform, inside another graph that backward cannot reach: return it")


def _what(x: Any) -> str:
    return f"a {type(x).__name__} of shape {x.shape}" if isinstance(x, Tensor) else repr(x)


def _seed(loss: Node, grad: Any, create_graph: bool) -> Any:
    value = loss.value
    if grad is None:
        seed: Any = Tensor.full(value.shape, 1, value.dtype, value.device)
    else:
        seed = grad if create_graph and isinstance(grad, Node) else as_tensor(grad, value)
    if seed.shape != value.shape:
        raise ShapeError(f"backward: the seed has shape {seed.shape}, the loss {value.shape}")
    if seed.dtype != value.dtype:
        raise DTypeError(f"backward: the seed is {seed.dtype}, the loss {value.dtype}")
    if seed.device is not value.device:
        raise DeviceError(f"backward: the seed is on the device {seed.device.name}, the loss on {value.device.name}")
    # A node, so that every gradient has a graph.
    return Node(seed, name="seed") if create_graph and isinstance(seed, Tensor) else seed


def commit(grads: dict[Node, Any], leaves: Sequence[Node]) -> None:
    """Give nodes the cotangents of a pass; those of leaves are added to what they have."""
    number = next(_passes)
    while True:
        # Every sum before any is stored, each a new tensor: a pass that fails changes nothing, a kept gradient neither.
        # Not under the lock: a finaliser that goes back may have the device's, which a sum needs, and wait for it.
        before = [(node, node.grad) for node in leaves if grads[node] is not None]
        sums = {node: had + grads[node] for node, had in before if had is not None}
        with storing:
            if any(node.cotangent is not had for node, had in before):  # another thread's pass came first
                continue
            grads.update(sums)
            try:
                _store(grads, number)
            except BaseException:  # an interrupt on the way: half of them stored would be worse than late
                _store(grads, number)
                raise
            return


def _store(grads: dict[Node, Any], number: int) -> None:
    for node, g in grads.items():
        if g is not None:
            node.cotangent = g
            node.pass_id = number
        elif node.rule is not None:  # this pass kept or sent nothing: one of an earlier pass must not stay
            node.cotangent = None
            node.pass_id = 0


def add_inplace(total: Tensor, contribution: Tensor) -> None:
    """Add to a buffer that the engine itself made during this pass, and that nothing else can see."""
    evaluate(total.device, add.formula, [total, contribution], total.layout, total.dtype, total.buffer)


def as_tensor(x: Any, like: Tensor) -> Tensor:
    """Return `x` as a tensor on the device of `like`; numbers and lists take its dtype, arrays keep theirs."""
    if isinstance(x, (Tensor, Node)):
        return x.value if isinstance(x, Node) else x
    dtype = None if isinstance(x, np.ndarray) else like.dtype
    return Tensor.from_host(x, dtype, like.device)


def get_current_tape() -> Tape | None:
    """Return this thread's innermost active tape, or None."""
    return modes.tapes[-1] if modes.tapes else None
