"""What detect_anomaly does: find the first NaN or infinity, and say which op made it, where, and from what."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl.autograd.site import Site, is_inside
from netcl.errors import AnomalyError
from netcl.methods import ArrayMethods
from netcl.ops.reduce import is_finite
from netcl.tensor import Tensor


def stack() -> list[str]:
    """Return the Python stack of the user's call, outermost frame first, netcl's own frames left out."""
    return traceback.format_list([frame for frame in traceback.extract_stack() if not is_inside(frame.filename)])


def check_forward(op_name: str, out: Any, operands: Sequence[Any], site: Site | None) -> None:
    """Raise an AnomalyError if the result of an op is not finite."""
    value = out.detach()  # in a transform `out` may itself be a node or a dual
    if not is_finite(value):
        raise AnomalyError(
            f"{op_name} gave {_faults(value)}{_at(site)}\n"
            + "\n".join(_statistics(i, x) for i, x in enumerate(operands))
        )


def check_backward(node: Any, g: Any, contributions: Sequence[Any]) -> None:
    """Raise an AnomalyError if a gradient that an op sends back is not finite."""
    for parent, contribution in zip(node.parents, contributions, strict=True):
        if contribution is not None and not is_finite(contribution.detach()):
            trace = "".join(node.creation_trace or [])
            raise AnomalyError(
                f"the gradient that {node.op_name} sends back to its operand of shape {parent.value.shape} has "
                f"{_faults(contribution.detach())}; the op was created{_at(node.site)}\n{_statistics('g', g)}\n"
                + "\n".join(_statistics(i, x) for i, x in enumerate(node.operands))
                + (f"\ncreated at:\n{trace}" if trace else "")
            )


def _faults(x: Tensor) -> str:
    host = x.to_host()
    nans, infinities = int(np.isnan(host).sum()), int(np.isinf(host).sum())
    parts = [f"{n} {what}" for n, what in ((nans, "NaN"), (infinities, "infinite")) if n]
    return f"{' and '.join(parts)} of {host.size} values"


def _at(site: Site | None) -> str:
    return f" at {site.describe()}: {site.source_line()}" if site is not None else ""


def _statistics(label: int | str, x: Any) -> str:
    name = f"operand {label + 1}" if isinstance(label, int) else label
    if not isinstance(x, ArrayMethods):
        return f"  {name}: {x!r}"
    value = x.detach()
    host = value.to_host()
    if not host.size:
        return f"  {name}: {value.shape} {value.dtype}, no elements"
    with np.errstate(all="ignore"):
        return (
            f"  {name}: {value.shape} {value.dtype}, min {host.min():.6g}, max {host.max():.6g}, "
            f"mean {host.mean():.6g}, {int(np.isnan(host).sum())} NaN, {int(np.isinf(host).sum())} infinite"
        )
