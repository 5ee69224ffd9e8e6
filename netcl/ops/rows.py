"""Elementwise ops: how a row of the table runs, and how its derivatives follow from its partials.

Broadcasting and its transpose are here, once, and in no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl import layout as lay
from netcl.errors import DeviceError, DTypeError
from netcl.kernels import Formula, Plan, execute, prepare
from netcl.layout import Layout, Shape
from netcl.ops.dtypes import BOOL, FLOAT64, common
from netcl.ops.table import OPS, Op
from netcl.tensor import Tensor, check_dtype

G = ex.Var("g")


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
        self.note = ""
        self.plans: dict[Any, tuple[Layout, Plan, bool]] = {}


def elementwise(
    name: str,
    expression: str,
    *,
    domain: Mapping[str, tuple[float, ...]] | None = None,
    integers: bool = False,
    boolean: bool = False,
    mask: str | None = None,
    alias: Sequence[str] = (),
    default: Mapping[str, float] | None = None,
    doc: str = "",
    **partials: str,
) -> Row:
    """Declare a row of the table: a forward expression and the local partial derivative for each operand.

    Math:    out = expression(a, b, …); the partial named `a` is ∂out/∂a, written with the operands and `out`
    `domain` bounds the operands in tests, off poles and kinks, by the ends of one or more intervals, so that both sides
    of a kink are tried; without an entry it is (-2, 2). `integers`: integer inputs give integer results;
    `boolean`: the result is a truth value; `mask` names the operand that only chooses; `default` has the numbers that
    the last operands are if they are left out; `doc` states a subgradient.
    """
    function = _function(name, expression, default or {})
    row = Row(name, function, ex.parse(expression), {a: ex.parse(p) for a, p in partials.items()})
    row.domain = dict(domain or {})
    row.defaults = dict(default or {})
    row.keeps_integers = integers or boolean
    row.returns_bool = boolean
    row.mask = mask
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
    device: Any = None
    key: list[Any] = []
    for x in operands:
        if type(x) is Tensor:
            key.append(x.layout)
            if x.device is not device:
                if device is not None:
                    raise DeviceError(f"{row.name}: the operands are on two devices, {device.name} and {x.device.name}")
                device = x.device
        else:
            key.append(type(x))
    signature = tuple(key)
    found = row.plans.get(signature)
    if found is None:
        found = row.plans[signature] = _prepare(row, operands)
    out, plan, widens = found
    if widens:
        check_dtype(plan.work, device)
    buffer = device.pool.allocate(out.nbytes)
    if out.size:
        execute(device, plan, operands, buffer)
    return Tensor(out, buffer, device)


def _prepare(row: Row, operands: Sequence[Any]) -> tuple[Layout, Plan, bool]:
    """Return what only the layouts decide: the result's, the plan, and whether no operand is as wide as the result."""
    if len(row.plans) >= 4096:  # shapes that change at every call would otherwise pile up
        row.plans.clear()
    out, work = _signature(row, operands)
    layouts = [x.layout if isinstance(x, Tensor) else None for x in operands]
    widens = work == FLOAT64 and not any(layout is not None and layout.dtype == FLOAT64 for layout in layouts)
    return out, prepare(row.formula, layouts, out, work), widens


def _signature(row: Row, operands: Sequence[Any]) -> tuple[Layout, np.dtype]:
    """Work out the layout of the result and the dtype to compute in."""
    chosen = [x for arg, x in zip(row.args, operands, strict=True) if arg != row.mask]
    dtypes = [x.dtype for x in chosen if isinstance(x, Tensor)]
    numbers = [type(x) for x in chosen if not isinstance(x, Tensor)]
    work = common(dtypes, numbers, integers=row.keeps_integers)
    if work == BOOL and row.name in ("neg", "sub"):
        raise DTypeError(f"{row.name} of booleans means nothing; use logical_not, or compare with not_equal")
    shape = lay.broadcast_shapes(row.name, [x.shape for x in operands if isinstance(x, Tensor)])
    return lay.contiguous(shape, BOOL if row.returns_bool else work), work


@lru_cache(maxsize=512)
def local(row: Row, arg: str) -> ex.Expr:
    """Return the partial derivative with respect to `arg`, simplified."""
    return ex.simplify(row.partials[arg])


class _Pullback:
    """g · ∂out/∂arg as a formula, and where its operands come from: g, out, or the operand of the row by number."""

    __slots__ = ("formula", "identity", "index", "plans", "sources")

    def __init__(self, row: Row, arg: str) -> None:
        self.formula = Formula(ex.simplify(ex.Call("mul", (G, local(row, arg)))))
        self.identity = self.formula.expr == G
        self.index = row.args.index(arg)
        places = {"g": -2, "out": -1} | {name: i for i, name in enumerate(row.args)}
        self.sources = tuple(places[name] for name in self.formula.variables)
        self.plans: dict[Any, tuple[Layout, Plan]] = {}


@lru_cache(maxsize=512)
def _pullback(row: Row, arg: str) -> _Pullback:
    return _Pullback(row, arg)


def pull(row: Row, arg: str, g: Tensor, out: Tensor, operands: Sequence[Any]) -> Tensor:
    """Pull a cotangent back through a row, to one tensor operand, in one kernel and a sum where it was stretched.

    Math:    x_bar = unbroadcast(g · ∂out/∂x)
    Shapes:  g and out (*S); the result has the operand's shape and dtype
    """
    pullback = _pullback(row, arg)
    target = operands[pullback.index]
    if pullback.identity and g.dtype is target.dtype:
        contribution = g
    else:
        needed = [g if i == -2 else out if i == -1 else operands[i] for i in pullback.sources]
        key = (out.layout, target.dtype, *[x.layout if type(x) is Tensor else None for x in needed])
        found = pullback.plans.get(key)
        if found is None:
            if len(pullback.plans) >= 4096:
                pullback.plans.clear()
            layout = lay.contiguous(out.shape, target.dtype)
            found = layout, prepare(pullback.formula, key[2:], layout, out.dtype)
            pullback.plans[key] = found
        layout, plan = found
        buffer = g.device.pool.allocate(layout.nbytes)
        if layout.size:
            execute(g.device, plan, needed, buffer)
        contribution = Tensor(layout, buffer, g.device)
    return contribution if contribution.shape == target.shape else unbroadcast(contribution, target.shape)


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
    total = OPS["sum"](g, axes, True) if axes else g
    return OPS["reshape"](total, shape)


def stretched_axes(stretched: Shape, shape: Shape) -> Shape:
    """Return the axes of `stretched` along which broadcasting repeated an array of `shape`.

    >>> stretched_axes((4, 2, 3), (2, 1))
    (0, 2)
    """
    if lay.broadcast_shapes("unbroadcast", [stretched, shape]) != stretched:
        raise lay.ShapeError(f"unbroadcast: {shape} does not broadcast to {stretched}")
    added = len(stretched) - len(shape)
    return tuple(i for i, n in enumerate(stretched) if i < added or (shape[i - added] == 1 and n != 1))


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
