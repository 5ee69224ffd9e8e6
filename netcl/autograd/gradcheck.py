"""gradcheck: does a gradient agree with the change that it predicts?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netcl.autograd.engine import Node, Tape
from netcl.autograd.leaves import tensor
from netcl.autograd.modes import no_grad
from netcl.errors import ArgumentError, GradcheckError
from netcl.tensor import Tensor

# Central differences err by h² f‴/6 from the formula and by ε|f|/h from rounding; their sum is least near h = ε^(1/3)
# (Press et al., Numerical Recipes, §5.7). The tolerances leave a factor of about a hundred over that least error.
_STEP = {np.dtype(np.float64): 6e-6, np.dtype(np.float32): 5e-3}
_RTOL = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 2e-2}
_ATOL = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 2e-3}


@dataclass(frozen=True)
class Entry:
    """One entry of one input: what backward says and what a central difference says."""

    argument: int
    index: tuple[int, ...]
    analytic: float
    numeric: float
    error: float  # |analytic − numeric| over what the tolerances allow; above 1 it is wrong

    def __str__(self) -> str:
        return (f"argument {self.argument}, entry {self.index}: backward gives {self.analytic:.10g}, "
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
    f: Callable[..., Any], *inputs: Any, step: float | None = None, rtol: float | None = None,
    atol: float | None = None, seed: int = 0,
) -> GradcheckReport:  # fmt: skip
    """Compare the gradients of `f` with central differences, entry by entry.

    Math:    L(x) = Σ v ⊙ f(x) for a random v;  ∂L/∂x_i against (L(x + h e_i) − L(x − h e_i)) / 2h
             Every floating-point input is checked. Float64 is the dtype to check in: in float32 little can be seen.
    Raises:  GradcheckError, whose text lists the worst entries and whose `report` holds all, if any disagrees

    >>> x = np.array([0.5, 2.0])
    >>> bool(gradcheck(lambda x: x * x, x))
    True
    """
    hosts = [np.array(x.to_host() if isinstance(x, (Tensor, Node)) else x) for x in inputs]
    checked = [i for i, host in enumerate(hosts) if host.dtype.kind == "f"]
    if not checked:
        raise ArgumentError("gradcheck needs at least one floating-point input")
    leaves = [tensor(host, requires_grad=i in checked) for i, host in enumerate(hosts)]
    out = f(*leaves)
    if not isinstance(out, Node):
        raise ArgumentError(f"gradcheck: f returned {out!r}, which does not depend on any input that requires grad")
    v = np.random.default_rng(seed).uniform(0.5, 1.5, out.shape).astype(out.dtype)
    Tape().backward(out, Tensor.from_host(v, device=out.value.device))

    def loss(values: list[np.ndarray]) -> float:
        with no_grad():
            result = f(*[tensor(value) for value in values])
        return float((result.to_host().astype(np.float64) * v).sum())

    entries: list[Entry] = []
    for i in checked:
        h, r, a = (given if given is not None else table[hosts[i].dtype]
                   for given, table in ((step, _STEP), (rtol, _RTOL), (atol, _ATOL)))  # fmt: skip
        grad = leaves[i].grad
        analytic = np.zeros(hosts[i].shape) if grad is None else grad.to_host()
        for index in np.ndindex(hosts[i].shape):
            numeric = _central_difference(loss, hosts, i, index, h)
            error = abs(float(analytic[index]) - numeric) / (a + r * abs(numeric))
            entries.append(Entry(i, index, float(analytic[index]), numeric, float("inf") if np.isnan(error) else error))
    report = GradcheckReport(tuple(entries), len(entries))
    if not report:
        raise GradcheckError(str(report), report)
    return report


def _central_difference(
    loss: Callable[[list[np.ndarray]], float], hosts: list[np.ndarray], i: int, index: tuple[int, ...], step: float
) -> float:
    """Return (L(x + h e) − L(x − h e)) / 2h, with the h that the dtype really holds."""
    x = float(hosts[i][index])
    h = step * max(1.0, abs(x))
    sides = []
    for x_moved in (x + h, x - h):
        moved = list(hosts)
        moved[i] = hosts[i].copy()
        moved[i][index] = x_moved
        sides.append((loss(moved), float(moved[i][index])))
    (upper, above), (lower, below) = sides
    return (upper - lower) / (above - below)
