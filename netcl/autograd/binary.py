"""The operators of rows with two operands, nearly all that a program runs: the shortest way from `a * b` to its node.

What is ordinary (two tensors or nodes of one device, outside transforms and anomaly mode) is done here without a loop;
the rest goes the general way, `record_row`. Both give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyopencl as cl

from netcl.autograd.modes import modes
from netcl.autograd.node import Node, row_node
from netcl.autograd.record import record_row
from netcl.autograd.site import here
from netcl.ops import Row
from netcl.tensor import Tensor

_NO_ROOM = (cl.Error, TypeError)  # TypeError is for 2⁶⁴ bytes and more


def operator(row: Row) -> Callable[[Any, Any], Any]:
    """Return the operator that runs a row of two operands."""
    name, cases = row.name, row.cases

    def operate(a: Any, b: Any) -> Any:
        wanted = 0  # as in record_row: a bit for each operand that is a parent
        kind = type(a)
        if kind is Node:
            if a.level:
                return record_row(row, (a, b))
            x = a.value
            if a.requires_grad:
                wanted = 1
        elif kind is Tensor:
            x = a
        else:
            return record_row(row, (a, b))
        kind = type(b)
        if kind is Node:
            if b.level:
                return record_row(row, (a, b))
            y = b.value
            if b.requires_grad:
                wanted += 2
        elif kind is Tensor:
            y = b
        else:
            return record_row(row, (a, b))
        mode = modes.__dict__
        case = cases.get((x.layout, y.layout))
        device = x.device
        if case is None or not case.ordinary or y.device is not device or mode["anomaly"]:
            return record_row(row, (a, b))

        out = case.out
        try:
            buffer = device.pool.take(out.room)
        except _NO_ROOM:
            return record_row(row, (a, b))  # which says so
        device.start(case.plan.launch, (0, buffer, 1, x.buffer, 2, y.buffer))
        result = Tensor(out, buffer, device)
        if not wanted or not case.differentiable or not mode["recording"]:
            return result
        vjp = case.vjps.get(wanted) or case.vjp(wanted)
        node = row_node(result, vjp, (a, b, x, y, result), name, here(2), mode["scope"])
        if mode["tapes"]:
            mode["tapes"][-1].nodes.append(node)
        return node

    return operate
