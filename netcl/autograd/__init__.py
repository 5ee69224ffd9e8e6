"""Reverse-mode automatic differentiation: leaves, ops, tapes and modes. Imported as `ag`.

>>> from netcl import autograd as ag
>>> x = ag.tensor([0.0, 1.0, 2.0], requires_grad=True)
>>> ag.Tape().backward((3.0 * (x + 1.0) ** 2).sum())
>>> x.grad.to_host()
array([ 6., 12., 18.], dtype=float32)
"""

from typing import Any

from netcl.autograd import operators, record
from netcl.autograd.checkpoint import checkpoint
from netcl.autograd.engine import Tape, add_inplace, get_current_tape
from netcl.autograd.fuse import fuse
from netcl.autograd.gradcheck import GradcheckReport, gradcheck, gradgradcheck
from netcl.autograd.leaves import tensor
from netcl.autograd.modes import (
    detect_anomaly,
    is_anomaly_enabled,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from netcl.autograd.node import GradFn, Node
from netcl.autograd.order import build_topo
from netcl.autograd.record import apply_op
from netcl.autograd.replay import replay
from netcl.autograd.transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from netcl.ops import COMPOSITES, OPS

__all__ = [
    "GradFn", "GradcheckReport", "Node", "Tape", "add_inplace", "apply_op", "build_topo", "checkpoint",
    "detect_anomaly", "fuse", "get_current_tape", "grad", "gradcheck", "gradgradcheck", "hessian", "hvp",
    "is_anomaly_enabled", "is_grad_enabled", "jacobian", "jvp", "no_grad", "operators", "record",
    "replay", "set_detect_anomaly", "set_grad_enabled", "tensor", "value_and_grad", "vjp",
]  # fmt: skip

_OP_NAMES = {alias: op for op in OPS.values() for alias in (op.name, *op.aliases)} | COMPOSITES
globals().update(_OP_NAMES)  # every op under its NumPy name: ag.add, ag.subtract, ag.matmul …
__all__ += list(_OP_NAMES)  # pyright: ignore[reportUnsupportedDunderAll] - the table is read at import


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"netcl.autograd has no {name!r}; the ops are {', '.join(sorted(_OP_NAMES))}")
