"""Broadcasting's transpose: a sum over the axes that were stretched. It is here, once, and in no row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from netcl import layout as lay
from netcl.layout import Shape
from netcl.ops.table import OPS
from netcl.tensor import Tensor


def unbroadcast(g: Any, shape: Shape) -> Any:
    """Sum a cotangent over the axes that broadcasting stretched.

    Math:    x_bar[j] = sum of g[i] over all i that read x[j]
    Shapes:  g (*B, *S') -> shape (*S); S' is S with its 1s stretched
    Raises:  ShapeError if `shape` does not broadcast to g.shape
    Source:  transpose of broadcast_to; NumPy broadcasting rules

    >>> unbroadcast(Tensor.from_host([[1.0, 2.0], [3.0, 4.0]]), (1, 2)).to_host()
    array([[4., 6.]], dtype=float32)
    """
    if g.shape == shape:
        return g
    axes = stretched_axes(g.shape, shape)
    if type(g) is Tensor and axes:  # the ordinary case, without a record of two ops
        total = OPS["sum"].function(g, axes)
        return total.view(lay.contiguous(shape, total.dtype))
    total = OPS["sum"](g, axes, True) if axes else g
    return OPS["reshape"](total, shape)


@lru_cache(maxsize=4096)
def stretched_axes(stretched: Shape, shape: Shape) -> Shape:
    """Return the axes of `stretched` along which broadcasting repeated an array of `shape`.

    >>> stretched_axes((4, 2, 3), (2, 1))
    (0, 2)
    """
    if lay.broadcast_shapes("unbroadcast", [stretched, shape]) != stretched:
        raise lay.ShapeError(f"unbroadcast: {shape} does not broadcast to {stretched}")
    added = len(stretched) - len(shape)
    return tuple(i for i, n in enumerate(stretched) if i < added or (shape[i - added] == 1 and n != 1))
