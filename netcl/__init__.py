"""netcl: a glass-box reverse-mode autodiff on OpenCL, made to be looked at in a notebook.

>>> import netcl as nc
>>> from netcl import autograd as ag
>>> x = ag.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], requires_grad=True)
>>> with ag.Tape() as tape:
...     loss = (3.0 * (x + 1.0) ** 2).sum()
>>> tape.backward(loss)
>>> x.grad.to_host()
array([[ 6., 12., 18.],
       [24., 30., 36.]], dtype=float32)
"""

import importlib
from typing import TYPE_CHECKING, Any

from netcl import autograd, errors, notebook
from netcl._version import __version__
from netcl.creation import arange, eye, full, full_like, linspace, ones, ones_like, zeros, zeros_like
from netcl.device import Device
from netcl.memory import MemoryStats
from netcl.methods import ArrayMethods
from netcl.platforms import devices, get_device, use_device
from netcl.tensor import Tensor
from netcl.user_kernel import kernel

if TYPE_CHECKING:
    from netcl import nn, optim, random, viz

__all__ = [
    "Device", "MemoryStats", "Tensor", "__version__", "arange", "autograd", "devices", "errors", "eye", "full",
    "full_like", "get_device", "kernel", "linspace", "nn", "ones", "ones_like", "optim", "random", "use_device", "viz",
    "zeros", "zeros_like",
]  # fmt: skip


notebook.watch()  # one callback per cell, of a microsecond


def _repr_mimebundle_(self: Any, include: Any = None, exclude: Any = None) -> dict[str, str]:
    """Return what a notebook shows; the pictures are loaded when the first is asked for."""
    return importlib.import_module("netcl.viz.inline").bundle(self)


for _shown in (ArrayMethods, autograd.Tape):  # from here: tensors and tapes know nothing of pictures
    _shown._repr_mimebundle_ = _repr_mimebundle_  # type: ignore[union-attr]
del _shown


def __getattr__(name: str) -> Any:
    # Loaded at first use: drawing alone takes longer than the rest together.
    if name in ("nn", "optim", "random", "viz"):
        return importlib.import_module(f"netcl.{name}")
    raise AttributeError(f"module 'netcl' has no attribute {name!r}")
