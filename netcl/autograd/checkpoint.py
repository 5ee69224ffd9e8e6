"""Checkpointing: keep a function's inputs instead of its activations, and run it again on the way back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from netcl.autograd.dual import Dual
from netcl.autograd.engine import pull_back
from netcl.autograd.modes import no_tape, recording
from netcl.autograd.node import Node, next_index
from netcl.autograd.pullback import same
from netcl.autograd.record import level_of, make_node
from netcl.autograd.traced import settled
from netcl.errors import ArgumentError
from netcl.tensor import Tensor


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f with its activations dropped after the forward pass and computed again in the backward pass.

    Math:    the same value and the same derivatives; one more forward pass in time, in memory the inputs of f alone
    Source:  Griewank & Walther (2000), Algorithm 799: revolve; Chen et al. (2016), Training Deep Nets with Sublinear
             Memory Cost
    Raises:  ArgumentError if f does not return one tensor

    f must give the same result when it is run again. Nodes that f closes over get their gradients too. Checkpointed
    functions may call checkpointed functions.

    >>> import netcl.autograd as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x * x * x).sum())(x).backward()
    >>> x.grad.to_host()
    array([ 3., 12.], dtype=float32)
    """

    @functools.wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        args = tuple(map(settled, args))
        kwargs = {key: settled(x) for key, x in kwargs.items()}
        mark = next_index()
        with no_tape():  # whose list of nodes would keep the activations
            out = settled(f(*args, **kwargs))
        if not isinstance(out, (Tensor, Node, Dual)):
            raise ArgumentError(f"checkpoint: f must return one tensor, not {type(out).__name__}")
        if not isinstance(out, Node) or out.index <= mark:
            return out  # nothing was recorded: a constant, forward mode, or one of the inputs itself
        inputs = _frontier(out, mark)
        pullback = Rerun(f, args, kwargs, inputs)
        return make_node(out.value, pullback, inputs, "checkpoint", tuple(inputs), None, level=level_of(out))

    return run


def _frontier(out: Node, mark: int) -> list[Node]:
    """Return the nodes made before `mark` that `out` was made from: f's arguments, and what it closes over."""
    found: dict[Node, None] = {}
    seen = {out}
    stack = [out]
    while stack:
        for parent in stack.pop().parents:
            if parent in seen:
                continue
            seen.add(parent)
            if parent.index <= mark:
                found[parent] = None
            else:
                stack.append(parent)
    return sorted(found, key=lambda node: node.index)


class Rerun:
    """The grad_fn of a checkpointed result: runs the function again, and pulls back through that."""

    __slots__ = ("args", "f", "inputs", "kwargs", "values")

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], inputs: Sequence[Node]
    ) -> None:
        self.f = f
        self.args = args
        self.kwargs = kwargs
        self.inputs = inputs
        self.values = [node.value for node in inputs]

    def __call__(self, g: Any) -> list[Any]:
        return self._pull(g, create_graph=False)

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Pull back with a graph, for second derivatives."""
        return self._pull(g, create_graph=True)

    def run(self) -> Any:
        """Run the function again, recording what it does."""
        with recording(True), no_tape():
            return settled(self.f(*self.args, **self.kwargs))

    def _pull(self, g: Any, *, create_graph: bool) -> list[Any]:
        for node, value in zip(self.inputs, self.values, strict=True):
            if not same(node.value, value):
                raise ArgumentError(
                    f"checkpoint: {node!r} was given a new value between the forward and the backward pass, so running "
                    "the function again would differentiate another function"
                )
        out = self.run()
        found = pull_back(out, g, create_graph=create_graph, targets=self.inputs)
        return [found.get(node) for node in self.inputs]
