"""Optimisers: what turns gradients into new parameters. And schedules: how large a step is at which time.

A step gives a parameter a new value: graphs, gradients and old values that were kept stay what they were. Where nothing
can see the old value of a large parameter any more, the new one takes its memory.

>>> from netcl import autograd as ag, optim
>>> x = ag.tensor([1.0, -2.0], requires_grad=True)
>>> optimizer = optim.SGD([x], lr=0.25)
>>> (x * x).sum().backward()
>>> optimizer.step(); x.to_host()
array([ 0.5, -1. ], dtype=float32)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl.autograd import Node
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, ShapeError
from netcl.kernels import Formula
from netcl.kernels.lists import SMALL, evaluate_lists
from netcl.layout import contiguous
from netcl.memory import Block, unseen
from netcl.ops.rows import one_device
from netcl.tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "cosine", "step_decay", "warmup"]

Schedule = Callable[[int], float]
"""A learning rate for each step, counted from 0."""


class Optimizer:
    """The base of optimisers: parameters, a learning rate (a number, or a schedule), and state for each parameter.

    A subclass names its state in `state_names`, and says in `rule` and `numbers` what an element of a parameter
    becomes. One whose step is no matter of single elements says in `update` what one parameter becomes instead.
    """

    state_names: tuple[str, ...] = ()

    def __init__(self, parameters: Iterable[Node], lr: float | Schedule, weight_decay: float = 0.0) -> None:
        self.parameters = list(dict.fromkeys(parameters))
        wrong = [p for p in self.parameters if not isinstance(p, Node) or p.grad_fn is not None or not p.requires_grad]
        if wrong:
            raise ArgumentError(f"an optimiser moves leaves that require grad, not {wrong[0]!r}")
        if not self.parameters:
            raise ArgumentError("an optimiser needs at least one parameter, and none came")
        for name, number in (("lr", 0.0 if callable(lr) else lr), ("weight_decay", weight_decay)):
            if not 0 <= number < math.inf:
                raise ArgumentError(f"{type(self).__name__}: {name} is a number from 0, not {number!r}")
        self._schedule = lr
        self.weight_decay = weight_decay
        self.steps = 0
        self.counts = [0] * len(self.parameters)  # steps of each parameter: those in which it had a gradient
        self.state = [{name: _zeros_like(p) for name in self.state_names} for p in self.parameters]

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return float(self._schedule(self.steps)) if callable(self._schedule) else float(self._schedule)

    def zero_grad(self) -> None:
        """Forget the gradients, before the next backward adds to them."""
        for parameter in self.parameters:
            parameter.zero_grad()

    def step(self) -> None:
        """Give every parameter that has a gradient its next value.

        Raises: DTypeError for a gradient that is no tensor, ShapeError for one of another shape, DeviceError for one on
                another device; no value is changed
        """
        lr, counts = self.lr, self.counts
        # Those go together that are small, in the same step of theirs, and on one device. Of a large one the old value
        # and state are let go before the next is begun.
        alike: dict[Any, list[tuple[int, Node, Tensor]]] = {}
        for i, parameter in enumerate(self.parameters):
            g: Any = parameter.grad
            if g is None:
                continue
            device = parameter.home
            if type(g) is not Tensor:
                g = _detached(g)
            if g.device is not device:
                one_device(type(self).__name__, (parameter.value, g))
            if g.layout is not parameter.layout and g.layout.shape != parameter.layout.shape:
                raise ShapeError(f"a gradient has shape {g.shape}, its parameter {parameter.shape}")
            key = counts[i] + 1, device, -1 if parameter.layout.size < SMALL else i
            if key in alike:
                alike[key].append((i, parameter, g))
            else:
                alike[key] = [(i, parameter, g)]
        self.steps += 1
        for (t, device, large), members in alike.items():
            if large < 0 or not self.rule():
                self._advance(members, device, lr, t)
            else:
                with device.lock:  # from finding what may be written over until that is enqueued
                    self._advance(members, device, lr, t, self._unseen(large))

    def _unseen(self, place: int) -> list[Block | None] | None:
        """Return the blocks of a parameter and of its states where the next ones may be written; None for the others.

        They may be written over what nothing else can see: no graph, no other tensor, no variable. To find that out,
        parameter and states get new tensors in the same memory. Who has an old tensor holds its block still; who gets a
        new one cannot enqueue anything that reads it before the step, for want of the device's lock.
        """
        parameter, state = self.parameters[place], self.state[place]
        out = contiguous(parameter.shape, parameter.dtype)
        parameter.value = _again(parameter.value)
        for name in state:
            state[name] = _again(state[name])
        # Of a parameter the node holds the block too, beside the tensor.
        blocks = [parameter.value.buffer, *[x.buffer for x in state.values()]]
        fitting = [x.layout is out for x in (parameter.value, *state.values())]
        free = unseen(blocks, [2, *[1] * len(state)])
        if not any(free):
            return None
        return [block if ok and fits else None for block, ok, fits in zip(blocks, free, fitting, strict=True)]

    def _advance(
        self, members: Sequence[tuple[int, Node, Tensor]], device: Device, lr: float, t: int,
        into: Sequence[Block | None] | None = None,
    ) -> None:  # fmt: skip
        """Move parameters of one device that are all in their step `t`; a single one perhaps into given blocks."""
        places, parameters, grads = zip(*members, strict=True)
        for i in places:
            self.counts[i] = t
        states = [self.state[i] for i in places] if self.state_names else []
        rule = self.rule()
        if not rule:
            for i, p, g in members:
                p.value = self.update(p.value, g, self.state[i], lr, t)
            return
        formula, used = _formula(tuple(rule.items()), ("x", "g", *self.state_names))
        numbers = self.numbers(lr, t)
        lists: list[Any] = [parameters, grads, *[[state[name] for state in states] for name in self.state_names]]
        outs, found = evaluate_lists(device, formula, lists, [numbers[name] for name in used], into)
        for p, layout, buffer in zip(parameters, outs, found[0], strict=True):
            p.move(layout, buffer)
        for name, buffers in zip(self.state_names, found[1:], strict=True):
            for state, layout, buffer in zip(states, outs, buffers, strict=True):
                state[name] = Tensor(layout, buffer, device)

    def rule(self) -> dict[str, str]:
        """Return what an element of the parameter, `x`, becomes, and what each state of it becomes, as expressions.

        They are of x, its gradient `g`, the states, and the names in `numbers`. None is for those that have `update`.
        """
        return {}

    def numbers(self, lr: float, t: int) -> dict[str, float]:
        """Return the numbers in `rule` for a parameter's step t = 1, 2, …"""
        return {"lr": lr}

    def update(self, x: Tensor, g: Tensor, state: dict[str, Tensor], lr: float, t: int) -> Tensor:
        """Return the next value of one parameter in its step t = 1, 2, …, and put the next state into `state`."""
        raise NotImplementedError(f"{type(self).__name__} has neither a rule nor an update")

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the state as NumPy arrays: steps in all and of each parameter, and `momentum.0` and so on."""
        arrays = {"steps": np.array(self.steps), "counts": np.array(self.counts)}
        for i, state in enumerate(self.state):
            arrays |= {f"{name}.{i}": tensor.to_host() for name, tensor in state.items()}
        return arrays

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the state of an optimiser of the same kind, over parameters of the same shapes, or none of it.

        Raises: ArgumentError naming what is missing or too much; ShapeError naming both shapes
        """
        names = ["steps", "counts", *(f"{name}.{i}" for i, state in enumerate(self.state) for name in state)]
        if set(names) != set(arrays):
            odd = sorted(set(names) ^ set(arrays))
            raise ArgumentError(
                f"this state is not one of {type(self).__name__}: missing or too much is {', '.join(odd)}"
            )
        if arrays["counts"].shape != (len(self.parameters),):
            raise ShapeError(f"there are {len(self.parameters)} parameters, and counts has {arrays['counts'].shape}")
        for i, (parameter, state) in enumerate(zip(self.parameters, self.state, strict=True)):
            for name in state:
                if arrays[f"{name}.{i}"].shape != parameter.shape:
                    raise ShapeError(
                        f"parameter {i} has shape {parameter.shape}, and {name}.{i} has {arrays[f'{name}.{i}'].shape}"
                    )
        state = [{name: Tensor.from_host(arrays[f"{name}.{i}"], parameter.dtype, parameter.value.device)
                  for name in self.state_names} for i, parameter in enumerate(self.parameters)]  # fmt: skip
        counts = [int(count) for count in arrays["counts"]]
        self.steps, self.counts, self.state = int(arrays["steps"]), counts, state  # nothing above may fail half-way


@lru_cache(maxsize=64)
def _formula(rule: tuple[tuple[str, str], ...], arrays: tuple[str, ...]) -> tuple[Formula, tuple[str, ...]]:
    """Parse a rule: the next x, then the next states in their order; return the names of its numbers too."""
    texts = dict(rule)
    exprs = [ex.parse(texts[name]) for name in arrays if name != "g"]
    named = dict.fromkeys(name for e in exprs for name in ex.variables(e))
    numbers = tuple(name for name in named if name not in arrays)
    return Formula(*exprs, variables=(*arrays, *numbers)), numbers


def _detached(gradient: Any) -> Tensor:
    if not isinstance(gradient, (Tensor, Node)):
        raise DTypeError(
            f"the gradient of a parameter is a Tensor, not {type(gradient).__name__}: ag.tensor makes one of it"
        )
    return gradient.detach()


def _again(x: Tensor) -> Tensor:
    return Tensor(x.layout, x.buffer, x.device)


def _zeros_like(parameter: Node) -> Tensor:
    return Tensor.full(parameter.shape, 0, parameter.dtype, parameter.value.device)


class SGD(Optimizer):
    """Gradient descent, with momentum (heavy ball, or Nesterov's) and weight decay (L2).

    Math:    d = g + weight_decay · x;  v ← momentum · v + d
             x ← x − lr · v;  Nesterov: x ← x − lr (d + momentum · v)
    Source:  Polyak 1964, Some methods of speeding up the convergence of iteration methods; Sutskever, Martens, Dahl &
             Hinton 2013, On the importance of initialization and momentum in deep learning
    """

    def __init__(
        self,
        parameters: Iterable[Node],
        lr: float | Schedule,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        if not 0 <= momentum < 1 or (nesterov and not momentum):
            raise ArgumentError(f"SGD: momentum is from 0 to below 1, above 0 for Nesterov's, not {momentum!r}")
        self.momentum = momentum
        self.nesterov = nesterov
        self.state_names = ("momentum",) if momentum else ()
        super().__init__(parameters, lr, weight_decay)

    def rule(self) -> dict[str, str]:
        """Return x − lr times the direction."""
        d = "(g + x * decay)" if self.weight_decay else "g"
        if not self.momentum:
            return {"x": f"x - {d} * lr"}
        v = f"(momentum * keep + {d})"
        return {"x": f"x - ({d} + {v} * keep) * lr" if self.nesterov else f"x - {v} * lr", "momentum": v}

    def numbers(self, lr: float, t: int) -> dict[str, float]:
        """Return the learning rate, and what stays of the momentum."""
        return {"lr": lr, "decay": self.weight_decay, "keep": self.momentum}


class Adam(Optimizer):
    """Steps scaled by running averages of the gradient and of its square; weight decay is L2, added to the gradient.

    Math:    m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²;  at step t = 1, 2, …
             x ← x − lr · m / (1 − β₁ᵗ) / (√(v / (1 − β₂ᵗ)) + eps)
    Source:  Kingma & Ba 2015, Adam: a method for stochastic optimization, algorithm 1
    """

    state_names = ("mean", "square")

    def __init__(
        self,
        parameters: Iterable[Node],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ArgumentError(f"{type(self).__name__}: betas are from 0 to below 1, not {betas!r}")
        self.betas = betas
        self.eps = eps
        super().__init__(parameters, lr, weight_decay)

    def decayed(self) -> tuple[str, str]:
        """Return the value and the gradient that the step starts from."""
        return "x", "(g + x * decay)" if self.weight_decay else "g"

    def rule(self) -> dict[str, str]:
        """Return x less the scaled average."""
        x, g = self.decayed()
        m, v = f"(mean * b1 + {g} * c1)", f"(square * b2 + {g} * {g} * c2)"
        return {"x": f"{x} - {m} * rate / (sqrt({v} / correction) + eps)", "mean": m, "square": v}

    def numbers(self, lr: float, t: int) -> dict[str, float]:
        """Return β and 1 − β of both averages, the rate and the correction of their start at 0, and the decay."""
        first, second = self.betas
        return {
            "b1": first, "c1": 1 - first, "b2": second, "c2": 1 - second, "rate": lr / (1 - first**t),
            "correction": 1 - second**t, "eps": self.eps, "decay": self.weight_decay,
        }  # fmt: skip


class AdamW(Adam):
    """Adam with weight decay of its own: x shrinks by lr · weight_decay, whatever the gradients' scale.

    Math:    x ← (1 − lr · weight_decay) x, then Adam's step without decay
    Source:  Loshchilov & Hutter 2019, Decoupled weight decay regularization, algorithm 2, with lr in place of α η as
             PyTorch has it
    """

    def __init__(
        self,
        parameters: Iterable[Node],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def decayed(self) -> tuple[str, str]:
        """Shrink the value, and leave the gradient."""
        return "(x * decay)", "g"

    def numbers(self, lr: float, t: int) -> dict[str, float]:
        """Return Adam's, where the decay is what x is shrunk by."""
        return super().numbers(lr, t) | {"decay": 1 - lr * self.weight_decay}


def step_decay(lr: float, every: int, factor: float = 0.1) -> Schedule:
    """Multiply the learning rate by `factor` every `every` steps.

    >>> [step_decay(1.0, 2, 0.5)(t) for t in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    if every < 1:
        raise ArgumentError(f"step_decay: every is at least 1, not {every!r}")
    return lambda t: lr * factor ** (t // every)


def cosine(lr: float, steps: int, final: float = 0.0) -> Schedule:
    """Go from `lr` to `final` in `steps` steps along half a cosine, and stay there.

    Math:    final + (lr − final) (1 + cos(π t / steps)) / 2
    Source:  Loshchilov & Hutter 2017, SGDR: stochastic gradient descent with warm restarts, equation 5

    >>> [round(cosine(1.0, 4)(t), 3) for t in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """
    if steps < 1:
        raise ArgumentError(f"cosine: steps is at least 1, not {steps!r}")
    return lambda t: final + (lr - final) * (1 + math.cos(math.pi * min(t, steps) / steps)) / 2


def warmup(schedule: float | Schedule, steps: int) -> Schedule:
    """Come to a learning rate, or to a schedule that starts there, in equal parts over the first `steps` steps.

    Math:    (t + 1) / (steps + 1) of the rate at its start for t < steps; then the schedule at t − steps
    Source:  Goyal et al. 2017, Accurate, large minibatch SGD, §2.2

    >>> [warmup(1.0, 3)(t) for t in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    if steps < 0:
        raise ArgumentError(f"warmup: steps is at least 0, not {steps!r}")
    after = schedule if callable(schedule) else lambda t: schedule
    return lambda t: after(0) * (t + 1) / (steps + 1) if t < steps else after(t - steps)
