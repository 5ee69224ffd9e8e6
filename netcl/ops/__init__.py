"""The ops: one place each. `OPS` is the table; the names are NumPy's."""

from netcl.ops import elementwise, linalg, reduce, shape
from netcl.ops.rows import Row
from netcl.ops.table import OPS, Op, structural

__all__ = ["OPS", "Op", "Row", "elementwise", "linalg", "reduce", "shape", "structural"]
