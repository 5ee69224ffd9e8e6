"""Pictures of graphs: the forward pass, the backward pass, and why each gradient is what it is.

>>> from netcl import autograd as ag, viz
>>> x = ag.tensor(2.0, requires_grad=True)
>>> y = x ** 3
>>> y.backward()
>>> print(viz.draw(y))  # doctest: +ELLIPSIS
backward pass of y = 8, from the loss back to the leaves
...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netcl.autograd.scope import scope
from netcl.viz.compare import compare
from netcl.viz.drawing import Drawing, draw
from netcl.viz.film import Filmstrip, filmstrip
from netcl.viz.kernels import kernels
from netcl.viz.listing import table
from netcl.viz.memory import memory
from netcl.viz.timeline import timeline
from netcl.viz.trace import trace

if TYPE_CHECKING:
    from netcl.viz.explorer import Explorer, explore
    from netcl.viz.stepper import Stepper, step

__all__ = [
    "Drawing", "Explorer", "Filmstrip", "Stepper", "compare", "draw", "explore", "filmstrip", "kernels", "memory",
    "scope", "step", "table", "timeline", "trace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("Stepper", "step"):
        from netcl.viz import stepper  # at first use: ipywidgets takes longer than all pictures

        return getattr(stepper, name)
    if name in ("Explorer", "explore"):
        from netcl.viz import explorer

        return getattr(explorer, name)
    raise AttributeError(f"netcl.viz has no {name!r}")
