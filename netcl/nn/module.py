"""Module: what layers and models have in common: parameters by name, and a state that can be saved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from netcl.autograd import Node
from netcl.autograd.scope import enter, leave
from netcl.errors import ArgumentError, DTypeError, ShapeError
from netcl.nn.files import load_npz, save_npz
from netcl.tensor import Tensor

M = TypeVar("M", bound="Module")


class Module:
    """The base of layers and models: write `forward`, and keep parameters and modules in attributes.

    A leaf Node in an attribute is a parameter; lists, tuples and dicts are looked through. A Tensor in an attribute is
    state that is not trained. `training` says which of their two ways dropout and batch normalisation take.

    >>> from netcl import autograd as ag
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         self.factor = ag.tensor([2.0], requires_grad=True)
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(ag.tensor([1.0, 3.0])).to_host()
    array([2., 6.], dtype=float32)
    """

    training = True

    def forward(self, *args: Any) -> Any:
        """Compute the output. Calling the module calls this."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any) -> Any:
        entered = enter(None, self)  # so that pictures can fold it
        try:
            return self.forward(*args)
        finally:
            leave(entered)

    def __repr__(self) -> str:
        members = [pair for name, member in vars(self).items() for pair in _named(member, name)]
        parts = [repr(value) if isinstance(value, Module) else f"{name} {value.shape}"
                 for name, value in members if isinstance(value, (Module, Node, Tensor))]  # fmt: skip
        return f"{type(self).__name__}({', '.join(parts)})"

    def modules(self) -> Iterator[Module]:
        """Go through this module and all below it, each once."""
        seen: set[Module] = {self}
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            yield module
            below = [value for name, member in vars(module).items() for _, value in _named(member, name)]
            for value in reversed(below):
                if isinstance(value, Module) and value not in seen:
                    seen.add(value)
                    stack.append(value)

    def named_parameters(self) -> Iterator[tuple[str, Node]]:
        """Go through the parameters with their names; one in two places comes once, under its first name."""
        for name, _, value in self._state():
            if isinstance(value, Node):
                yield name, value

    def parameters(self) -> list[Node]:
        """Return the parameters: what an optimiser takes."""
        return [parameter for _, parameter in self.named_parameters()]

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def train(self: M, training: bool = True) -> M:
        """Set `training` here and in every module below; return this module."""
        for module in self.modules():
            module.training = training
        return self

    def eval(self: M) -> M:
        """Leave training: dropout lets everything through, batch normalisation uses its running statistics."""
        return self.train(False)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters and of the rest of the state as NumPy arrays, by name."""
        return {name: value.to_host() for name, _, value in self._state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the values of a state_dict: all of them, or none where one does not fit.

        Parameters stay the same nodes, with new values.

        Raises: ArgumentError naming what is missing or too much; ShapeError or DTypeError naming what came and fits
        """
        entries = list(self._state())
        names = [name for name, _, _ in entries]
        wrong = [f"it lacks {name}" for name in names if name not in state]
        wrong += [f"it has {name}, for which there is no place" for name in state if name not in names]
        if wrong:
            raise ArgumentError(f"this state is not one of {type(self).__name__}: {'; '.join(wrong)}")
        arrays = {name: np.asarray(state[name]) for name in names}
        for name, _, value in entries:
            came = arrays[name]
            if came.shape != value.shape:
                raise ShapeError(f"{name} has shape {value.shape}, and the state has {came.shape} for it")
            if came.dtype.newbyteorder("=") != value.dtype:
                raise DTypeError(f"{name} is {value.dtype}, and the state has {came.dtype} for it: convert with astype")
        for name, owner, value in entries:
            old = value.value if isinstance(value, Node) else value
            new = Tensor.from_host(arrays[name], device=old.device)
            if isinstance(value, Node):
                value.value = new
            else:
                setattr(owner, name.rpartition(".")[2], new)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to an .npz file, whole or not at all (see save_npz)."""
        save_npz(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read the state from a file that `save` wrote.

        Raises: as load_npz and load_state_dict
        """
        self.load_state_dict(load_npz(path))

    def _state(self) -> Iterator[tuple[str, Module, Node | Tensor]]:
        """Go through parameters and other tensors: name, the module whose attribute it is, value."""
        yield from _state_below(self, "", set())


def _state_below(module: Module, prefix: str, seen: set[Any]) -> Iterator[tuple[str, Module, Node | Tensor]]:
    seen.add(module)
    for attribute, member in vars(module).items():
        if isinstance(member, Tensor):
            yield prefix + attribute, module, member
            continue
        for name, value in _named(member, attribute):
            if not isinstance(value, (Node, Module)) or value in seen:
                continue
            if isinstance(value, Module):
                yield from _state_below(value, f"{prefix}{name}.", seen)
            elif value.grad_fn is None and value.op_name is None:  # not a result that the module happens to keep
                seen.add(value)
                yield prefix + name, module, value


def _named(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Go through what an attribute holds, with names: itself, or what lies in its lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        entries = enumerate(value)
    elif isinstance(value, dict):
        entries = value.items()
    else:
        yield name, value
        return
    for key, entry in entries:
        yield from _named(entry, f"{name}.{key}")
