"""Every line of OpenCL C in the project, and how it is launched.

A kernel here reads operands that have a `layout` (netcl.layout) and a `buffer`, and fills a buffer. It knows nothing of
tensors or graphs.
"""

from netcl.kernels.affine import affine_vjp
from netcl.kernels.elementwise import Formula, Plan, evaluate, prepare
from netcl.kernels.matmul import matmul
from netcl.kernels.random import random
from netcl.kernels.reduce import REDUCTIONS, reduce
from netcl.kernels.scan import scan

__all__ = [
    "REDUCTIONS", "Formula", "Plan", "affine_vjp", "evaluate", "matmul", "prepare", "random", "reduce", "scan",
]  # fmt: skip
