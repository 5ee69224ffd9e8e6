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

from netcl.viz.compare import compare
from netcl.viz.drawing import Drawing, draw
from netcl.viz.kernels import kernels
from netcl.viz.listing import table
from netcl.viz.memory import memory
from netcl.viz.timeline import timeline
from netcl.viz.trace import trace

__all__ = ["Drawing", "compare", "draw", "kernels", "memory", "table", "timeline", "trace"]
