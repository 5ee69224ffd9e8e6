"""What is measured: a file for each family of cases, with the peers side by side.

A case is a function named after its peer (`netcl`, `torch`; `netcl_fused` is another of netcl's). It gets what
`inputs(rng, **sizes)` made, and returns two functions: `run()` does the work that is timed, down to the point where its
result is finished on the device, and `read(result)` gives NumPy arrays to be compared with `expected(**inputs)`, which
is NumPy in float64. A case raises NotThere for something that its peer has not got.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Case = tuple[Callable[[], Any], Callable[[Any], list[Any]]]


class NotThere(Exception):  # noqa: N818 - not an error of the benchmark
    """The peer has not got what this case measures."""


def load(name: str) -> Any:
    """Import a peer's module, which neither the linters' environment nor the other peers' have."""
    return importlib.import_module(name)


def torch_on(gpu: bool) -> tuple[Any, str, Callable[[], None]]:
    """Return torch, the name of the device to put tensors on, and how to wait for it."""
    torch = load("torch")
    if not gpu:
        return torch, "cpu", lambda: None
    if not torch.cuda.is_available():
        raise NotThere("this torch has no CUDA")
    return torch, "cuda", torch.cuda.synchronize


class Ancestor:
    """netcl 0.4.4, with a queue, as a user of it would set it up."""

    def __init__(self) -> None:
        self.ag = load("netcl.autograd")
        self.queue = load("netcl.core.device").manager.default("auto").queue
        self._tensor = load("netcl.core.tensor").Tensor

    def tensor(self, array: Any, requires_grad: bool = False) -> Any:
        """Copy an array to the device and make it a node."""
        return self.ag.tensor(self._tensor.from_host(self.queue, array), requires_grad=requires_grad)
