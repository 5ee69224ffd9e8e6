"""The operators of rows with two operands, nearly all that a program runs: the shortest way from `a * b` to its node.

What is ordinary (two tensors or nodes of one device, outside transforms and anomaly mode) is done here without a loop
and with next to no calls, each of which costs a fortieth of it; the rest goes the general way, `record_row`. Both give
the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from netcl.autograd.modes import modes
from netcl.autograd.node import Node, created
from netcl.autograd.record import record_row
from netcl.autograd.site import here, sites
from netcl.ops import Row
from netcl.tensor import Tensor

_frame = sys._getframe
_new = object.__new__


def operator(row: Row) -> Callable[[Any, Any], Any]:
    """Return the operator that runs a row of two operands."""
    cases = row.cases

    def operate(a: Any, b: Any) -> Any:
        wanted = 0  # as in record_row: a bit for each operand that is a parent
        kind = type(a)
        if kind is Node:
            if a.level:
                return record_row(row, (a, b))
            if a.requires_grad:
                wanted = 1
            device = a.home
        elif kind is Tensor:
            device = a.device
        else:
            return record_row(row, (a, b))
        kind = type(b)
        if kind is Node:
            if b.level:
                return record_row(row, (a, b))
            if b.requires_grad:
                wanted += 2
            other = b.home
        elif kind is Tensor:
            other = b.device
        else:
            return record_row(row, (a, b))
        mode = modes.__dict__
        case = cases.get((a.layout, b.layout))
        if case is None or not case.ordinary or other is not device or mode["anomaly"]:
            return record_row(row, (a, b))

        out = case.out
        buffer = device.pool.take(out.room)
        x, y = a.buffer, b.buffer
        device.start(case.launch, (0, buffer, 1, x, 2, y))
        if not wanted or not case.differentiable or not mode["recording"]:
            return Tensor(out, buffer, device)

        node: Any = _new(Node)  # Node(Tensor(out, buffer, device), …)
        node.made = None
        node.layout = out
        node.buffer = buffer
        node.home = device
        node.rule = case.vjps[wanted] or case.vjp(wanted)
        node.a = a
        node.b = b
        node.x = x
        node.y = y
        node.cotangent = None
        node.requires_grad = True
        node.more = None
        frame = _frame(1)
        try:
            node.site = sites[id(frame.f_code)][frame.f_lasti]
        except KeyError:
            node.site = here(2)
        node.scope = mode["scope"]
        node.index = next(created)
        node.pass_id = 0
        node.level = 0
        tapes = mode["tapes"]
        if tapes:
            tapes[-1].nodes.append(node)
        return node

    return operate
