"""The `grad_fn` of a node: what turns the cotangent of a result into those of its parents.

Called with a tensor it gives tensors. `with_graph` gives nodes, for derivatives of derivatives.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from netcl.autograd.modes import recording
from netcl.device import Device
from netcl.errors import GradFnError, GraphError
from netcl.methods import ArrayMethods
from netcl.ops import Op, Row
from netcl.ops.broadcasting import unbroadcast
from netcl.ops.row_vjp import RowVJP, local
from netcl.ops.rows import handed, interpret_expr, row_vjp
from netcl.ops.shape import astype
from netcl.tensor import Tensor

NO_ATTRS: Any = MappingProxyType({})
"""The static parameters of an op that has none: one for all, so none can write to it."""


def same(x: Any, y: Any) -> bool:
    """Say whether two values are the same one: no element of a tensor ever changes, so the same memory says it."""
    both = type(x) is type(y) is Tensor
    return x is y or (both and x.buffer is y.buffer and x.layout is y.layout)


def check_result(name: str, node: Any, out: Any) -> None:
    """Refuse a second derivative by way of a node that no longer has the value which its op computed."""
    if not same(node.value, out):
        raise GraphError(
            f"{name}: its result was given a new value, so the second derivative would be that of another function; "
            "run the forward pass again"
        )


class _Unread:
    """A large operand that no wanted rule reads, such as the weights of a first layer.

    It is not kept, so that a parameter's next value may take its memory; while something else keeps it, it is there.
    """

    __slots__ = ("device", "layout", "there")

    def __init__(self, x: Tensor) -> None:
        self.there = weakref.ref(x)
        self.layout = x.layout
        self.device = x.device

    def tensor(self) -> Tensor:
        """Return the operand, or a tensor of its shape and dtype whose elements cannot be read."""
        found = self.there()
        return Tensor(self.layout, _GONE, self.device) if found is None else found


_GONE = object()  # no block, so that a kernel refuses it
_LARGE = 1 << 11  # elements; what is smaller is kept all the same, for pictures


@lru_cache(maxsize=256)
def unread(op: Op, wanted: tuple[int, ...]) -> frozenset[int]:
    """Return the numbers of the operands whose elements no rule for an operand that is wanted reads."""
    every = frozenset(range(len(op.args)))
    return every.difference(*[op.reads.get(op.args[i], every) for i in wanted])


class OpPullback:
    """The VJP of an op from the table, with the values that it was given and its rules read."""

    __slots__ = ("_all_kept", "_saved", "attrs", "op", "out", "plain", "wanted")

    def __init__(
        self, op: Op, saved: Sequence[Any], out: Any, attrs: dict[str, Any], wanted: Sequence[int], plain: bool
    ) -> None:
        self.op = op
        self._saved = saved
        self._all_kept = True
        if op.reads:
            for i in unread(op, tuple(wanted)):
                if type(x := saved[i]) is Tensor and x.layout.size >= _LARGE:
                    self._saved = [*self._saved]
                    self._saved[i] = _Unread(x)
                    self._all_kept = False
        self.out = out
        self.attrs = attrs
        self.wanted = wanted  # which operands are parents
        self.plain = plain  # all values are tensors and numbers, so that the kernels can have them

    @property
    def saved(self) -> Sequence[Any]:
        """The operands' values, as far as they are there (see `gone`)."""
        return self._saved if self._all_kept else [x.tensor() if type(x) is _Unread else x for x in self._saved]

    @property
    def gone(self) -> bool:
        """Whether an operand that no rule reads was not kept by anything else either: the op cannot run again."""
        return not self._all_kept and any(type(x) is _Unread and x.there() is None for x in self._saved)

    def __call__(self, g: Any) -> list[Any]:
        op, saved = self.op, self.saved
        if not self.plain or type(g) is not Tensor:
            return self._by_ops(g, self.out, saved)
        if isinstance(op, Row):
            return row_vjp(op, saved, self.wanted).pull(g, handed((g, *saved, self.out)))
        if op.joint is not None and (found := op.joint(self.wanted, g, *saved)) is not None:
            return found
        return self._by_rules(g, self.out, saved)

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Pull back by ops on nodes, so that the result has a graph of its own."""
        ignored = unread(self.op, tuple(self.wanted)) if self.op.reads else ()
        for i, (operand, saved) in enumerate(zip(node.operands, self.saved, strict=True)):
            if i not in ignored and not same(getattr(operand, "value", saved), saved):
                raise GraphError(
                    f"{self.op.name}: an operand was given a new value after it was used, so the second derivative "
                    "would be that of another function; run the forward pass again"
                )
        check_result(self.op.name, node, self.out)
        return self._by_ops(g, node, node.operands)

    def _by_ops(self, g: Any, out: Any, operands: Sequence[Any]) -> list[Any]:
        op = self.op
        if not isinstance(op, Row):
            return self._by_rules(g, out, operands)
        values = dict(zip(op.args, operands, strict=True)) | {"out": out}
        results: list[Any] = []
        for i in self.wanted:
            if op.args[i] not in op.partials:  # an operand that only chooses
                results.append(None)
                continue
            product = g * interpret_expr(local(op, op.args[i]), values)
            results.append(unbroadcast(_typed(product, operands[i]), operands[i].shape))
        return results

    def _by_rules(self, g: Any, out: Any, operands: Sequence[Any]) -> list[Any]:
        rule, attrs = self.op.rule, self.attrs
        return [_typed(rule(i)(g, out, *operands, **attrs), operands[i]) for i in self.wanted]


class RowPullback(OpPullback):
    """That of a row on tensors and numbers: its kernel is chosen by the layouts alone, which `vjp` stands for.

    `kept` begins with the buffers of the operands, or the numbers that they are, and ends with that of the result.
    """

    __slots__ = ("device", "kept", "vjp")

    attrs = NO_ATTRS  # what all have in common stands in the class
    plain = True  # type: ignore[assignment]
    gone = False  # type: ignore[assignment]

    def __init__(self, vjp: RowVJP, kept: tuple[Any, ...], device: Device) -> None:
        self.vjp = vjp
        self.kept = kept
        self.device = device

    @property
    def op(self) -> Any:  # type: ignore[override]
        """The row."""
        return self.vjp.row

    @property
    def wanted(self) -> tuple[int, ...]:  # type: ignore[override]
        """Which operands are parents."""
        return self.vjp.wanted

    @property
    def saved(self) -> list[Any]:  # type: ignore[override]
        """The operands' values."""
        pairs = zip(self.vjp.operands, self.kept)  # noqa: B905 - that of the result is left over
        return [x if layout is None else Tensor(layout, x, self.device) for layout, x in pairs]

    @property
    def out(self) -> Tensor:  # type: ignore[override]
        """The result."""
        return Tensor(self.vjp.out, self.kept[-1], self.device)

    def __call__(self, g: Any) -> list[Any]:
        if type(g) is Tensor:
            return self.vjp.pull(g, (g.buffer, *self.kept))
        return self._by_ops(g, self.out, self.saved)


def _typed(g: Any, operand: Any) -> Any:
    """Give a cotangent the dtype of the operand that it is for: beside a float64 one, a float32 one's is float64."""
    return g if g is None or g.dtype == operand.dtype else astype(g, operand.dtype)


class CustomPullback:
    """The grad_fn that a user gave to apply_op, with its results checked; `forward` is the op itself."""

    __slots__ = (
        "_count", "_function", "_level", "_likes", "_name", "_once", "_out", "_takes_out", "_wanted", "forward",
    )  # fmt: skip

    def __init__(
        self, name: str, forward: Callable[..., Tensor], function: Callable[..., Any], values: Sequence[Any], out: Any,
        wanted: Sequence[int], once_differentiable: bool, level: int,
    ) -> None:  # fmt: skip
        self.forward = forward
        self._name = name
        self._function = function
        self._count = len(values)
        self._likes = {i: (values[i].shape, values[i].dtype, values[i].device) for i in wanted}
        self._out = out
        self._level = level
        self._wanted = wanted
        self._once = once_differentiable
        self._takes_out = accepts_out(function)

    @property
    def plain(self) -> bool:
        """Whether the op ran on tensors, and not on values of an outer transform."""
        return type(self._out) is Tensor

    def __call__(self, g: Any) -> list[Any]:
        if type(g) is not Tensor or type(self._out) is not Tensor:  # values of an outer transform
            return self._nested(g)
        with recording(False):  # a rule that uses the nodes themselves, for create_graph's sake, gives tensors here
            results = [self._below(result) for result in self._call(g, self._out)]
        for i in self._wanted:
            self._check(i, results[i], Tensor)
        return [results[i] for i in self._wanted]

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Run the user's function on nodes; what comes back must have a graph, unless it was said to have none."""
        if self._once:
            parents = [g, *node.parents] if isinstance(g, type(node)) else node.parents
            contributions = self(getattr(g, "value", g))
            refusal = _OnceDifferentiable(self._name)
            return [
                c if c is None else type(node)(c, refusal, list(parents), op_name=f"{self._name} backward")
                for c in contributions
            ]
        check_result(self._name, node, self._out)
        return self._traced(g, node)

    def _nested(self, g: Any) -> list[Any]:
        """Run the user's function on the values of an outer transform, which differentiates it in turn."""
        if self._once:
            _OnceDifferentiable(self._name)(g)
        return self._traced(self._out.constant(g) if type(g) is Tensor else g, self._out)

    def _below(self, x: Any) -> Any:
        # A rule that closes over a node of this op's own level gives one of that level; its value is what is meant.
        return x.lower if self._level and getattr(x, "level", 0) == self._level else x

    def _traced(self, g: Any, out: Any) -> list[Any]:
        results = [self._below(result) for result in self._call(g, out)]
        for i in self._wanted:
            self._check(i, results[i], ArrayMethods)
            if isinstance(results[i], Tensor):
                raise GraphError(
                    f"{self._name}: its grad_fn returned a Tensor without a graph where its derivative is wanted too; "
                    "make it of ops on g (and out=), or say apply_op(..., once_differentiable=True)"
                )
        return [results[i] for i in self._wanted]

    def _call(self, g: Any, out: Any) -> Sequence[Any]:
        results = self._function(g, out=out) if self._takes_out else self._function(g)
        if not isinstance(results, (list, tuple)) or len(results) != self._count:
            came = f"{len(results)} entries" if isinstance(results, (list, tuple)) else type(results).__name__
            raise GradFnError(
                f"{self._name}: grad_fn must return a list with one entry per argument ({self._count}), but {came} came"
            )
        return results

    def _check(self, i: int, result: Any, kinds: Any) -> None:
        shape, dtype, device = self._likes[i]
        if result is None:
            return
        if not isinstance(result, kinds):
            raise GradFnError(
                f"{self._name}: grad_fn returned {type(result).__name__} for argument {i}, not a Tensor or None"
            )
        if result.shape != shape:
            raise GradFnError(
                f"{self._name}: grad_fn returned shape {result.shape} for argument {i}, which has shape {shape}"
            )
        if result.dtype != dtype:
            raise GradFnError(f"{self._name}: grad_fn returned {result.dtype} for argument {i}, which is {dtype}")
        if result.device is not device:
            raise GradFnError(
                f"{self._name}: grad_fn returned a tensor on {result.device.name} for argument {i}, which is on "
                f"{device.name}"
            )


def check_by_hand(node: Any, contributions: Any) -> None:
    """Refuse what the grad_fn of a node made by hand gives, unless it fits the parents; apply_op's checks its own."""
    listed = isinstance(contributions, (list, tuple))
    if not listed or len(contributions) != len(node.parents):
        came = len(contributions) if listed else f"a {type(contributions).__name__} as"
        raise GradFnError(f"{node.op_name}: grad_fn gave {came} gradients for {len(node.parents)} parents")
    for parent, c in zip(node.parents, contributions, strict=True):
        if c is not None and not (isinstance(c, ArrayMethods) and (c.shape, c.dtype) == (parent.shape, parent.dtype)):
            came = f"{c.shape} {c.dtype}" if isinstance(c, ArrayMethods) else type(c).__name__
            raise GradFnError(f"{node.op_name}: grad_fn gave {came} for a parent of {parent.shape} {parent.dtype}")
        device = getattr(c, "device", parent.device)
        if device is not parent.device:
            raise GradFnError(f"{node.op_name}: grad_fn gave a tensor on {device.name}, not {parent.device.name}")


class _OnceDifferentiable:
    """The grad_fn of a result that has no derivative."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, g: Any) -> list[Tensor | None]:
        raise GraphError(f"{self._name} can be differentiated once only (apply_op was told once_differentiable=True)")

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Refuse, as a call does."""
        return self(g)


def accepts_out(function: Callable[..., Any]) -> bool:
    """Say whether a user's rule wants the op's result as `out`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return any(p.name == "out" or p.kind is p.VAR_KEYWORD for p in parameters)


class _Released:
    """The grad_fn of a node whose graph was let go."""

    def __call__(self, g: Any) -> list[Tensor | None]:
        raise GraphError("this graph was released (tape.release()): run the forward pass again before backward")

    def with_graph(self, g: Any, node: Any) -> list[Any]:
        """Refuse, as a call does."""
        return self(g)


released = _Released()
