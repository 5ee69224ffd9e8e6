"""gradcheck: does a gradient agree with the change that it predicts?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl.autograd.engine import Tape
from netcl.autograd.leaves import tensor
from netcl.autograd.modes import no_grad
from netcl.autograd.node import Node
from netcl.autograd.transforms import grad
from netcl.errors import ArgumentError, GradcheckError
from netcl.methods import ArrayMethods
from netcl.tensor import Tensor

# Central differences err by h² f‴/6 from the formula and by ε|f|/h from rounding; their sum is least near h = ε^(1/3)
# (Press et al., Numerical Recipes, §5.7). The tolerances leave a factor of about a hundred over that least error.
_STEP = {np.dtype(np.float64): 6e-6, np.dtype(np.float32): 5e-3}
_RTOL = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 2e-2}
_ATOL = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 2e-3}


@dataclass(frozen=True)
class Entry:
    """What backward says of one entry of one input (argument −1: of a direction of all), and what a difference says."""

    argument: int
    index: tuple[int, ...]
    analytic: float
    numeric: float
    error: float  # |analytic − numeric| over what the tolerances allow; above 1 it is wrong

    def __str__(self) -> str:
        place = "along a random direction" if self.argument < 0 else f"argument {self.argument}, entry {self.index}"
        return (f"{place}: backward gives {self.analytic:.10g}, "
                f"a central difference {self.numeric:.10g} ({self.error:.3g} times the tolerance)")  # fmt: skip


@dataclass(frozen=True)
class GradcheckReport:
    """Every entry that was compared; true if all agree. `worst` is the entry that agrees least."""

    entries: tuple[Entry, ...] = field(repr=False)
    checked: int

    @property
    def worst(self) -> Entry | None:
        """The entry with the largest error, or None if there was nothing to compare."""
        return max(self.entries, key=lambda entry: entry.error, default=None)

    def __bool__(self) -> bool:
        return all(entry.error <= 1 for entry in self.entries)

    def __str__(self) -> str:
        wrong = [entry for entry in self.entries if not entry.error <= 1]
        if not wrong:
            return f"gradcheck: all {self.checked} entries agree; worst {self.worst}"
        lines = [f"gradcheck: {len(wrong)} of {self.checked} entries disagree; the worst first"]
        lines += [f"  {entry}" for entry in sorted(wrong, key=lambda entry: -entry.error)[:10]]
        return "\n".join(lines)


def gradcheck(
    f: Callable[..., Any], *inputs: Any, directional: bool = False, step: float | None = None,
    rtol: float | None = None, atol: float | None = None, seed: int = 0,
) -> GradcheckReport:  # fmt: skip
    """Compare the gradients of `f` with central differences, entry by entry.

    Math:    L(x) = Σ v ⊙ f(x) for a random v;  ∂L/∂x_i against (L(x + h e_i) − L(x − h e_i)) / 2h
             `directional` compares ⟨∇L, u⟩ along one random direction u of all inputs instead: two evaluations of f,
             however many entries there are.
             Every floating-point input is checked. Float64 is the dtype to check in: in float32 little can be seen.
    Raises:  GradcheckError, whose text lists the worst entries and whose `report` holds all, if any disagrees;
             ArgumentError if there is nothing to check

    >>> x = np.array([0.5, 2.0])
    >>> bool(gradcheck(lambda x: x * x, x))
    True
    """
    hosts = [np.array(x.to_host() if isinstance(x, ArrayMethods) else x) for x in inputs]
    checked = [i for i, host in enumerate(hosts) if host.dtype.kind == "f"]
    if not checked:
        raise ArgumentError("gradcheck needs at least one floating-point input, as a NumPy array or a tensor")
    rng = np.random.default_rng(seed)
    leaves = [tensor(host, requires_grad=i in checked) for i, host in enumerate(hosts)]
    out = f(*leaves)
    if not isinstance(out, Node):
        raise ArgumentError(f"gradcheck: f returned {out!r}, which does not depend on any input that requires grad")
    v = rng.uniform(0.5, 1.5, out.shape).astype(out.dtype)
    Tape().backward(out, Tensor.from_host(v, device=out.device))
    grads = {i: np.zeros(hosts[i].shape) if leaves[i].grad is None else leaves[i].grad.to_host() for i in checked}

    def loss(values: list[np.ndarray]) -> float:
        with no_grad():
            result = f(*[tensor(value) for value in values])
        return float((result.to_host().astype(np.float64) * v).sum())

    tolerances = _Tolerances(step, rtol, atol)
    if directional:
        entries = [_along(loss, hosts, grads, {i: rng.normal(size=hosts[i].shape) for i in checked}, tolerances)]
    else:
        entries = [_entry(loss, hosts, grads[i], i, index, tolerances)
                   for i in checked for index in np.ndindex(hosts[i].shape)]  # fmt: skip
    report = GradcheckReport(tuple(entries), len(entries))
    if not report:
        raise GradcheckError(str(report), report)
    return report


def gradgradcheck(f: Callable[..., Any], *inputs: Any, seed: int = 0, **tolerances: Any) -> GradcheckReport:
    """Compare second derivatives with central differences of first ones.

    Math:    gradcheck of x ↦ (Σ v ⊙ f(x))'s gradient with respect to each floating-point input, for a random v
    Raises:  as gradcheck

    >>> bool(gradgradcheck(lambda x: x**3, np.array([0.5, 2.0])))
    True
    """
    values = [x if isinstance(x, ArrayMethods) else tensor(np.asarray(x)) for x in inputs]
    checked = [i for i, value in enumerate(values) if value.dtype.kind == "f"]
    if not checked:
        raise ArgumentError("gradgradcheck needs at least one floating-point input, as a NumPy array or a tensor")
    with no_grad():
        v = np.random.default_rng(seed + 1).uniform(0.5, 1.5, f(*values).shape).astype(values[checked[0]].dtype)

    entries: list[Entry] = []
    for i in checked:
        first = grad(lambda *xs: (f(*xs) * v).sum(), argnums=i)
        entries += gradcheck(first, *values, seed=seed, **tolerances).entries
    return GradcheckReport(tuple(entries), len(entries))


@dataclass(frozen=True)
class _Tolerances:
    """What the caller gave, or else what the dtype allows."""

    step: float | None
    rtol: float | None
    atol: float | None

    def of(self, dtype: np.dtype) -> tuple[float, float, float]:
        given = (self.step, self.rtol, self.atol)
        tables = (_STEP, _RTOL, _ATOL)
        step, rtol, atol = (x if x is not None else table[dtype] for x, table in zip(given, tables, strict=True))
        return step, rtol, atol


def _judge(analytic: float, numeric: float, rtol: float, atol: float) -> float:
    difference, allowed = abs(analytic - numeric), atol + rtol * abs(numeric)
    if not difference:
        return 0.0
    return difference / allowed if allowed and not np.isnan(difference / allowed) else float("inf")


def _entry(
    loss: Callable[[list[np.ndarray]], float], hosts: list[np.ndarray], analytic: np.ndarray, i: int,
    index: tuple[int, ...], tolerances: _Tolerances,
) -> Entry:  # fmt: skip
    """Compare one entry of input i, with the step that the dtype really holds."""
    step, rtol, atol = tolerances.of(hosts[i].dtype)
    x = float(hosts[i][index])
    h = step * max(1.0, abs(x))
    sides = []
    for x_moved in (x + h, x - h):
        moved = list(hosts)
        moved[i] = hosts[i].copy()
        moved[i][index] = x_moved
        sides.append((loss(moved), float(moved[i][index])))
    (upper, above), (lower, below) = sides
    numeric = (upper - lower) / (above - below)
    return Entry(i, index, float(analytic[index]), numeric, _judge(float(analytic[index]), numeric, rtol, atol))


def _along(
    loss: Callable[[list[np.ndarray]], float], hosts: list[np.ndarray], grads: dict[int, np.ndarray],
    direction: dict[int, np.ndarray], tolerances: _Tolerances,
) -> Entry:  # fmt: skip
    """Compare the derivative along one direction of all the inputs that are checked."""
    length = np.sqrt(sum(float((u * u).sum()) for u in direction.values())) or 1.0
    coarsest = max((hosts[i].dtype for i in direction), key=lambda dtype: _STEP[dtype])
    h, rtol, atol = tolerances.of(coarsest)
    sides = []
    for sign in (1.0, -1.0):
        moved = [host if i not in direction else (host + sign * h / length * direction[i]).astype(host.dtype)
                 for i, host in enumerate(hosts)]  # fmt: skip
        sides.append((loss(moved), moved))
    (upper, above), (lower, below) = sides
    numeric = (upper - lower) / (2 * h)
    steps = {i: (above[i].astype(np.float64) - below[i]) / (2 * h) for i in direction}  # as the dtype rounded them
    analytic = sum(float((grads[i] * steps[i]).sum()) for i in direction)
    return Entry(-1, (), analytic, numeric, _judge(analytic, numeric, rtol, atol))
