"""Elementwise ops: how a row of the table is declared and run. How it is differentiated stands in row_vjp.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl import layout as lay
from netcl.device import Device
from netcl.errors import ArgumentError, DeviceError, DTypeError
from netcl.kernels import Formula, prepare
from netcl.layout import Layout
from netcl.memory import Block
from netcl.ops.dtypes import BOOL, FLOAT64, common
from netcl.ops.row_vjp import Literals, RowVJP, with_literals
from netcl.ops.table import OPS, Op
from netcl.tensor import Tensor, check_dtype

_CASES_KEPT = 4096  # shapes that change at every call would otherwise pile up


class Row(Op):
    """An elementwise op: everything about it follows from `expr` and `partials`."""

    kind = "elementwise"
    expr: ex.Expr

    def __init__(self, name: str, function: Callable[..., Any], expr: ex.Expr, partials: Mapping[str, ex.Expr]) -> None:
        super().__init__(name, function, ex.variables(expr), "")
        self.expr = expr
        self.partials = partials
        self.formula = Formula(expr)
        self.domain: dict[str, tuple[float, ...]] = {}
        self.keeps_integers = False
        self.returns_bool = False
        self.mask: str | None = None
        self.literals: frozenset[float] = frozenset()
        self.note = ""
        self.cases: dict[tuple[Any, ...], Case] = {}

    def case(self, key: tuple[Any, ...], operands: Sequence[Tensor | int | float]) -> Case:
        """Return what is known of operands like these: `key` has the layout of each tensor, the type of each number.

        Raises:  ShapeError or DTypeError if the row cannot be computed for them
        """
        found = self.cases.get(key)
        if found is None:
            if len(self.cases) >= _CASES_KEPT:
                self.cases.clear()
            found = self.cases[key] = Case(self, operands)
        return found


class Case:
    """A row on operands of given layouts: what only these decide, worked out once."""

    __slots__ = ("differentiable", "launch", "layouts", "literals", "ordinary", "out", "plan", "row", "vjps", "widens")

    def __init__(self, row: Row, operands: Sequence[Tensor | int | float]) -> None:
        self.row = row
        self.out, work = signature(row, operands)
        self.layouts = [x.layout if isinstance(x, Tensor) else None for x in operands]
        self.differentiable = self.out.dtype.kind == "f"
        # No operand is as wide as the result, so its device was not asked whether it can do that.
        self.widens = work == FLOAT64 and not any(x is not None and x.dtype == FLOAT64 for x in self.layouts)
        self.literals: Any = tuple((a, x) for a, x in zip(row.args, operands, strict=True) if is_literal(row, x))
        self.plan = prepare(_forward(row, self.literals), self.layouts, self.out, work)
        self.launch = self.plan.launch
        self.ordinary = self.out.size > 0 and not self.widens and not self.plan.numeric
        self.vjps: list[RowVJP | None] = [None] * (1 << len(operands))  # by what is wanted

    def run(self, device: Device, operands: Sequence[Tensor | int | float], buffers: list[Block]) -> Tensor:
        """Launch the forward kernel. `buffers` are those of the tensors among the operands, in their order."""
        out, plan = self.out, self.plan
        if self.widens:
            check_dtype(plan.work, device)
        buffer = device.pool.allocate(out.nbytes)
        if out.size:
            device.run(plan.launch, [buffer, *buffers], plan.numbers(operands) if plan.numeric else ())
        return Tensor(out, buffer, device)

    def vjp(self, wanted: int) -> RowVJP:
        """Return the pullback to the operands whose bits are set in `wanted` (1 is the first)."""
        found = self.vjps[wanted]
        if found is None:
            places = tuple(i for i in range(len(self.layouts)) if wanted >> i & 1)
            found = self.vjps[wanted] = RowVJP(self.row, self.layouts, self.out, self.literals, places)
        return found


def elementwise(
    name: str,
    expression: str,
    *,
    domain: Mapping[str, tuple[float, ...]] | None = None,
    integers: bool = False,
    boolean: bool = False,
    mask: str | None = None,
    literals: Sequence[float] = (),
    alias: Sequence[str] = (),
    default: Mapping[str, float] | None = None,
    doc: str = "",
    **partials: str,
) -> Row:
    """Declare a row of the table: a forward expression and the local partial derivative for each operand.

    Math:    out = expression(a, b, …); the partial named `a` is ∂out/∂a, written with the operands and `out`
    `domain` bounds the operands in tests, off poles and kinks, by the ends of one or more intervals, so that both sides
    of a kink are tried; without an entry it is (-2, 2). `integers`: integer inputs give integer results;
    `boolean`: the result is a truth value; `mask` names the operand that only chooses; `literals` are numbers for which
    there are kernels of their own, since much is simpler with them (a² than aᵇ); `default` has the numbers that the
    last operands are if they are left out; `doc` states a subgradient.
    """
    function = _function(name, expression, default or {})
    row = Row(name, function, ex.parse(expression), {a: ex.parse(p) for a, p in partials.items()})
    row.domain = dict(domain or {})
    row.defaults = dict(default or {})
    row.keeps_integers = integers or boolean
    row.returns_bool = boolean
    row.mask = mask
    row.literals = frozenset(literals)
    row.aliases = tuple(alias)
    row.note = doc
    row.__doc__ = _describe(row, expression, partials)
    return row


def _function(name: str, expression: str, default: Mapping[str, float]) -> Any:
    names = ex.variables(ex.parse(expression))
    parameters = [f"{each}={default[each]!r}" if each in default else each for each in names]
    namespace: dict[str, Any] = {"run": run, "OPS": OPS}
    # A real signature, so that help() and the notebook's tooltip name the operands.
    exec(f"def {name}({', '.join(parameters)}): return run(OPS[{name!r}], ({', '.join(names)},))", namespace)
    return namespace[name]


def _describe(row: Row, expression: str, partials: Mapping[str, str]) -> str:
    lines = [f"{row.name}({', '.join(row.args)}) = {ex.to_text(ex.parse(expression))}, elementwise.", ""]
    lines += [f"Math:    ∂out/∂{a} = {ex.to_text(ex.parse(p))}" for a, p in partials.items()]
    lines.append("Shapes:  the operands broadcast as in NumPy")
    return "\n".join([*lines, "", row.note] if row.note else lines)


def run(row: Row, operands: Sequence[Tensor | int | float]) -> Tensor:
    """Run a row's forward kernel on tensors and numbers (at least one tensor)."""
    device = one_device(row.name, operands)
    buffers = [x.buffer for x in operands if isinstance(x, Tensor)]
    return row.case(_key(row, operands), operands).run(device, operands, buffers)


def row_vjp(row: Row, operands: Sequence[Any], wanted: Sequence[int]) -> RowVJP:
    """Return the pullback of a row on such tensors and numbers, to the operands whose numbers are `wanted`."""
    return row.case(_key(row, operands), operands).vjp(sum(1 << i for i in wanted))


def handed(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return what a kernel is handed of each value: the buffer of a tensor, or the number itself."""
    return tuple([x.buffer if type(x) is Tensor else x for x in values])


def is_literal(row: Row, x: Any) -> bool:
    """Say whether a row has kernels of their own for a number. −0 equals 0, and yet (−0)⁻¹ is another infinity."""
    return type(x) in (int, float) and x in row.literals and (x != 0 or math.copysign(1, x) > 0)


def _key(row: Row, operands: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([x.layout if type(x) is Tensor else (type(x), x) if is_literal(row, x) else type(x) for x in operands])


def one_device(name: str, operands: Sequence[Any]) -> Device:
    """Return the device that all tensors among the operands are on."""
    devices = list(dict.fromkeys(x.device for x in operands if isinstance(x, Tensor)))
    if len(devices) > 1:
        raise DeviceError(f"{name}: the operands are on two devices, {' and '.join(one.name for one in devices)}")
    return devices[0]


def signature(row: Row, operands: Sequence[Any]) -> tuple[Layout, np.dtype]:
    """Work out the layout of the result and the dtype to compute in."""
    condition = operands[row.args.index(row.mask)] if row.mask is not None else None
    if type(condition) is bool:
        raise ArgumentError(
            f"{row.name}: the condition is {condition}, the same for all elements; `x == 0` asks whether x is that "
            "object, and ag.equal(x, 0) compares elements (for one choice, `a if condition else b`)"
        )
    chosen = [x for arg, x in zip(row.args, operands, strict=True) if arg != row.mask]
    dtypes = [x.dtype for x in chosen if isinstance(x, Tensor)]
    numbers = [type(x) for x in chosen if not isinstance(x, Tensor)]
    work = common(dtypes, numbers, integers=row.keeps_integers)
    if work == BOOL and row.name in ("neg", "sub"):
        raise DTypeError(f"{row.name} of booleans means nothing; use logical_not, or compare with not_equal")
    shape = lay.broadcast_shapes(row.name, [x.shape for x in operands if isinstance(x, Tensor)])
    return lay.contiguous(shape, BOOL if row.returns_bool else work), work


@lru_cache(maxsize=512)
def _forward(row: Row, literals: Literals) -> Formula:
    # The numbers are passed all the same, so that a launch need not know.
    return Formula(with_literals(row.expr, literals), variables=row.args) if literals else row.formula


def interpret_expr(expression: ex.Expr, values: Mapping[str, Any]) -> Any:
    """Read an expression over ops, on tensors or nodes: how second derivatives and tangents are made of rows.

    Python numbers among the values are worked out first, in double precision. An op on numbers alone would know neither
    the dtype nor the device of the tensors.
    """
    numbers = {name: ex.Num(value) for name, value in values.items() if isinstance(value, (int, float))}
    if numbers:
        expression = ex.simplify(_fold(ex.substitute(expression, numbers)))
    return ex.evaluate(expression, values, OPS)


def _fold(e: ex.Expr) -> ex.Expr:
    if not isinstance(e, ex.Call):
        return e
    args = tuple(_fold(arg) for arg in e.args)
    numbers = [np.float64(arg.value) for arg in args if isinstance(arg, ex.Num)]
    if len(numbers) < len(args):
        return ex.Call(e.fn, args)
    with np.errstate(all="ignore"):  # log(0) is -inf here, as it is in a kernel
        return ex.Num(float(ex.NUMPY[e.fn](*numbers)))
