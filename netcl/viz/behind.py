"""The kernels behind one step: what the device ran to send a gradient through one edge and to add it up."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from time import perf_counter

from netcl.autograd.pullback import OpPullback
from netcl.commands import recorded
from netcl.tensor import Tensor
from netcl.viz.backward import gradient
from netcl.viz.replay import Link, Replay
from netcl.viz.rerun import Quiet
from netcl.viz.steps import Step

_REPEATS = 21


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: the kernel's name, its OpenCL C, about how many elements it touches, and what it is for."""

    name: str
    program: str
    work: int
    purpose: str


@dataclass(frozen=True, slots=True)
class Behind:
    """The launches of a step, and the bytes of what they read and wrote: the tensors' own."""

    kernels: tuple[Kernel, ...]
    nbytes: int
    note: str = ""


def behind(run: Replay, step: Step) -> Behind:
    """Run one edge once more and record what reaches the device.

    Units:   bytes
    """
    if step.edge is None:
        return Behind((), 0, "The seed is written into a buffer; no rule runs.")
    link = run.links.get(step.edge)
    if link is None:
        return Behind((), 0, "These nodes are folded away; viz.kernels lists what they run.")
    upstream = gradient(link.child)
    with Quiet():
        _pull(link, upstream)  # whatever must be built is built
        with recorded(upstream.device) as commands:
            contribution = _pull(link, upstream)
        found = [Kernel(c.name, c.program, c.work, "the rule") for c in commands if c.kind == "kernel"]
        moved = [upstream, contribution, *(run.nodes[key].value for key in step.reads if key in run.nodes)]
        nbytes = sum(tensor.nbytes for tensor in moved if tensor is not None) if found else 0
        if step.was is not None and contribution is not None:
            with recorded(upstream.device) as commands:
                _ = contribution + contribution  # the sum that the engine makes
            found += [Kernel(c.name, c.program, c.work, "the sum, +=") for c in commands if c.kind == "kernel"]
            nbytes += 3 * contribution.nbytes
    note = "" if found else "No kernel runs: the same numbers go on, and so does their buffer."
    return Behind(tuple(found), nbytes, note)


def measured(run: Replay, step: Step) -> float:
    """How long one edge's rule takes from the call to its end on the device, the median of several runs.

    Units:   µs
    """
    link = run.links.get(step.edge) if step.edge is not None else None
    if link is None:
        return 0.0
    upstream, times = gradient(link.child), []
    with Quiet():
        for _ in range(_REPEATS):
            upstream.device.finish()
            start = perf_counter()
            _pull(link, upstream)
            upstream.device.finish()
            times.append(perf_counter() - start)
    return statistics.median(times) * 1e6


def _pull(link: Link, upstream: Tensor) -> Tensor | None:
    """The contribution of one edge alone, where its op's rule can be had apart from those of its other edges."""
    rule = link.child.grad_fn
    assert rule is not None
    if isinstance(rule, OpPullback):
        return OpPullback(rule.op, rule.saved, rule.out, rule.attrs, [rule.wanted[link.nth]], rule.plain)(upstream)[0]
    return rule(upstream)[link.nth]
