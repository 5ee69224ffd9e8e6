"""The backward pass of a graph, read again: what each edge contributed, what arrived, and which formula it follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netcl.autograd import Node, Tape, detect_anomaly, no_grad
from netcl.expr import Call, Expr, Num, to_text
from netcl.ops import OPS
from netcl.viz.fused import count_of, partial_of, rule_of, shape_within
from netcl.viz.select import Selection
from netcl.viz.symbolic import tidy
from netcl.viz.values import ArrayView, number, view
from netcl.viz.views import Slot
from netcl.viz.wording import partial

_LONGEST_FORMULA = 28
_MOST_HIDDEN = 2000
_MOST_ADDENDS = 4

Contribution = np.ndarray | None


def operands_of(node: Node) -> tuple[Any, ...]:
    """The arguments of an op; a node made by hand may have recorded none but its parents."""
    return node.operands or tuple(node.parents)


def gradient(node: Node) -> Any:
    """The gradient as a Tensor: after create_graph it is a Node."""
    return node.grad.value if isinstance(node.grad, Node) else node.grad


class Hidden:
    """What comes back from consumers that a picture does not show, worked out where they are not too many."""

    def __init__(self, chosen: Selection | None = None) -> None:
        shown = set(chosen.shown) if chosen is not None else set()
        hidden = chosen.hidden if chosen is not None else ()
        self.uses = [(child, nth) for child in hidden for nth, parent in enumerate(child.parents) if parent in shown]
        self.known = len(self.uses) <= _MOST_HIDDEN
        self.waiting = {child.parents[nth] for child, nth in self.uses}
        self._found: dict[Node, list[Contribution]] = {}

    def pull(self, current: Callable[[Node], bool], contributions: Callable[[Node], list[Contribution] | None]) -> None:
        """Work the contributions out."""
        for child in dict.fromkeys(child for child, _ in self.uses) if self.known else ():
            if child.grad_fn is not None and not child.released and current(child):
                self._found[child] = contributions(child) or []

    def arriving(self) -> Iterator[tuple[Node, Contribution]]:
        """Each contribution with the node that it comes to."""
        for child, nth in self.uses:
            if child in self._found and nth < len(self._found[child]):
                yield child.parents[nth], self._found[child][nth]

    def sum_of(self, uses: Sequence[tuple[Node, int]]) -> Contribution:
        """What comes back along several uses together."""
        found = [self._found[child][nth] for child, nth in uses if nth < len(self._found.get(child, ()))]
        arrays = [array for array in found if array is not None]
        return np.sum(arrays, axis=0, dtype=arrays[0].dtype) if arrays and len(found) == len(uses) else None


class Backward:
    """Contributions are recomputed from the gradients that the nodes hold; nothing is written."""

    def __init__(
        self,
        root: Node,
        nodes: Sequence[Node],
        operand_exprs: Callable[[Node], list[Expr]],
        displays: Mapping[Any, Expr],
        hidden: Hidden | None = None,
    ) -> None:
        self.root, self.nodes, self.hidden = root, nodes, hidden or Hidden()
        self.operand_exprs, self.displays = operand_exprs, displays
        self.ran = root.pass_id != 0 and root.grad is not None
        self.notes: list[str] = []
        seen = dict.fromkeys((*nodes, root))  # the loss speaks even where it is not shown
        self.grads: dict[Node, np.ndarray] = {node: gradient(node).to_host() for node in seen if node.grad is not None}
        self.views = {node: view(array) for node, array in self.grads.items()}
        self.contributions: dict[Node, list[Contribution]] = {}
        self.arrivals: dict[Node, list[Contribution]] = {node: [] for node in nodes}
        self.formulas: dict[Node, Expr | None] = {}
        self._recompute()
        self._derive()

    @property
    def seed(self) -> str:
        """What the pass began with, in words; empty if it has not run."""
        if not self.ran:
            return ""
        return self.views[self.root].line(30)

    def positions(self, node: Node) -> list[int]:
        """Where each parent stands among the operands."""
        rule = rule_of(node)
        if rule is not None:
            return list(rule.wanted)
        found = [i for i, x in enumerate(operands_of(node)) if isinstance(x, Node) and x.requires_grad]
        return found if len(found) == len(node.parents) else list(range(len(node.parents)))

    def current(self, node: Node) -> bool:
        """Whether the node's gradient is of the pass that the loss saw last."""
        return self.ran and node.grad is not None and node.pass_id == self.root.pass_id

    def _recompute(self) -> None:
        for node in reversed(self.nodes):
            if node.grad_fn is None or node.released or not self.current(node):
                continue
            arrays = self._pull(node)
            if arrays is None:
                continue
            self.contributions[node] = arrays
            for parent, array in zip(node.parents, arrays, strict=True):
                if parent in self.arrivals:
                    self.arrivals[parent].append(array)
        self.hidden.pull(self.current, self._pull)
        for parent, array in self.hidden.arriving():
            self.arrivals[parent].append(array)

    def _pull(self, node: Node) -> list[Contribution] | None:
        assert node.grad_fn is not None
        try:
            with no_grad(), detect_anomaly(False):  # a picture shows NaN, it does not raise
                found = node.grad_fn(gradient(node))
        except Exception as error:  # a user's grad_fn may raise anything; the picture then says so
            self.notes.append(f"grad_fn of {node.op_name} raised {type(error).__name__}: no contributions from it")
            return None
        return [None if c is None else getattr(c, "value", c).to_host() for c in found]

    # Formulas

    def _derive(self) -> None:
        """Follow formulas from the loss down, where every consumer has one."""
        if not self.ran or self.views[self.root].uniform != "1":
            return
        waiting: dict[Node, list[Expr | None]] = {node: [] for node in self.nodes}
        if self.root not in waiting:
            return
        waiting[self.root].append(Num(1))
        for node in self.hidden.waiting:
            waiting[node].append(None)  # what its other consumers send is not in any formula
        for node in reversed(self.nodes):
            total: Expr | None = None
            for term in waiting[node]:
                if term is None:
                    total = None
                    break
                total = term if total is None else Call("add", (total, term))
            total = tidy(total) if total is not None else None
            self.formulas[node] = total
            if node.grad_fn is None or node.released:
                continue
            for i, (position, parent) in enumerate(zip(self.positions(node), node.parents, strict=True)):
                if parent in waiting:
                    waiting[parent].append(self._pulled(node, i, position, parent, total))

    def _pulled(self, node: Node, i: int, position: int, parent: Node, above: Expr | None) -> Expr | None:
        if above is None or node not in self.contributions:
            return None
        op = OPS.get(node.op_name or "")
        if op is not None and op.partials and node.value.shape == parent.value.shape:
            local = partial(op, op.args[position], self.operand_exprs(node), self.displays[node])
            return None if local is None else Call("mul", (above, local))
        if rule_of(node) is not None and parent.value.shape == shape_within(node):
            local = partial_of(node, position, self.operand_exprs(node))
            if local is not None and (node.shape == parent.shape or isinstance(above, Num)):
                count = count_of(node)
                product = Call("mul", (above, local))
                return product if count == 1 else Call("div", (product, Num(count)))
        array = self.contributions[node][i]
        if isinstance(above, Num) and array is not None and array.size and (array == array.flat[0]).all():
            return Num(float(array.flat[0]))  # a constant stays one through sums, means and other moves
        return None

    def formula(self, node: Node) -> str:
        """`6(x + 1)`, or nothing where it is not known, or too long, or no more than the number itself."""
        e = self.formulas.get(node)
        if e is None or node is self.root:
            return ""
        if isinstance(e, Num) and self.views.get(node) is not None and self.views[node].size == 1:
            return ""
        text = to_text(e)
        return text if len(text) <= _LONGEST_FORMULA else ""

    # Slots

    def slot(self, node: Node, tape: Tape | None) -> Slot:
        """What the gradient slot of a node's card says."""
        array = self.views.get(node)
        if not node.requires_grad:
            return Slot("not needed")
        if array is None:
            return self._empty(node, tape)
        if node.pass_id != self.root.pass_id:
            return self._foreign(node, array)
        state = "zero" if array.zero and array.size else "value"
        if node is self.root:
            return Slot(state, array)
        total, note = self._total(node)
        formula = "" if "over calls" in total else self.formula(node)  # it would stand beside another number
        return Slot(state, array, formula, total, note)

    def _empty(self, node: Node, tape: Tape | None) -> Slot:
        leaf = node.grad_fn is None
        if not self.ran:
            reached = any(each.grad_fn is None and each.grad is not None for each in self.nodes)
            if tape is not None and not tape.retain_grads and reached and not leaf:
                return Slot("dropped")
            return Slot("not run")
        if node.released and not leaf:
            return Slot("released")
        if any(array is not None for array in self.arrivals[node]):
            return Slot("cleared" if leaf else "dropped")
        return Slot("unreached")

    def _foreign(self, node: Node, array: ArrayView) -> Slot:
        """A gradient that some other backward call wrote."""
        if not self.ran:
            return Slot("stale", array, note="of another backward pass")
        mine = [c for c in self.arrivals[node] if c is not None]
        note = ""
        if node.grad_fn is None and mine:
            line = view(_sum(mine)).line(24)
            note = f"this pass brought {line}"
        return Slot("stale", array, note=note)

    def _total(self, node: Node) -> tuple[str, str]:
        leaf = node.grad_fn is None
        mine = [c for c in self.arrivals[node] if c is not None]
        into = f"added into {_bare(to_text(self.displays[node]))}.grad" if leaf else ""
        if node in self.hidden.waiting and not self.hidden.known:
            return "", into
        if not mine:
            return "", into
        total = addition(mine)
        here = _sum(mine)
        if not _close(here, mine, self.grads[node]):
            if not leaf:
                return total, "more came from outside this picture"
            this = total or (f"this pass {view(here).brief(24)}")
            whole = number(float(self.grads[node].flat[0])) if here.size == 1 else "above"
            return f"{this}, total over calls {whole}", into
        return total, into


def _bare(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"


def _sum(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.sum([array.astype(np.float64) for array in arrays], axis=0)


def addition(arrays: Sequence[np.ndarray]) -> str:
    """`12 + 2 = 14` for scalars, the count of what was added for arrays, nothing for one contribution."""
    if len(arrays) < 2:
        return ""
    if arrays[0].size != 1 or len(arrays) > _MOST_ADDENDS:
        return f"sum of {len(arrays)} contributions"
    texts = [number(float(array.flat[0])) for array in arrays]
    shown = [texts[0], *(f"({text})" if text.startswith("\u2212") else text for text in texts[1:])]
    return f"{' + '.join(shown)} = {number(float(_sum(arrays).flat[0]))}"


def _close(total: np.ndarray, parts: Sequence[np.ndarray], grad: np.ndarray) -> bool:
    """Whether a gradient is the sum of its parts, but for rounding."""
    if total.shape != grad.shape:
        return False
    scale = np.sum([np.abs(part.astype(np.float64)) for part in parts], axis=0)
    eps = float(np.finfo(grad.dtype).eps) if grad.dtype.kind == "f" else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(total - grad) <= 8 * len(parts) * eps * scale
    return bool((near | (total == grad) | (np.isnan(total) & np.isnan(grad)) | ~np.isfinite(scale)).all())
