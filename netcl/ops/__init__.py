"""The ops: one place each. `OPS` is the table; the names are NumPy's."""

from netcl.ops import (
    conv,
    diagonals,
    einsum,
    elementwise,
    indexing,
    join,
    linalg,
    losses,
    nn,
    reduce,
    shape,
    statistics,
)
from netcl.ops.composite import COMPOSITES
from netcl.ops.rows import Row
from netcl.ops.table import OPS, Op, structural

__all__ = [
    "COMPOSITES", "OPS", "Op", "Row", "conv", "diagonals", "einsum", "elementwise", "indexing", "join", "linalg",
    "losses", "nn", "reduce", "shape", "statistics", "structural",
]  # fmt: skip
