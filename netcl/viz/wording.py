"""What is written about an op: its expression, its map forward, and its map backward."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from netcl import expr as ex
from netcl.expr import Call, Expr, Num, Var
from netcl.ops.table import OPS, Op
from netcl.viz.symbolic import tidy
from netcl.viz.text import clean, clip
from netcl.viz.values import number, shape_text

_FORWARD = {"add": "+", "sub": "\u2212", "mul": "×", "div": "÷", "matmul": "@"}
_LONGEST = 60


class Ref(str):
    """A name that knows its shape and dtype as text, for the templates of structural ops (`{a.shape}`)."""

    shape: str
    dtype: str

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], dtype: str) -> Ref:
        ref = cls(name)
        ref.shape, ref.dtype = shape_text(shape), dtype
        return ref


def attributes(op: Op | None, attrs: Mapping[str, Any] | None) -> list[str]:
    """Static parameters as they would be typed: `axis=0`; those that have their default are left out."""
    parameters = inspect.signature(op.function).parameters if op is not None else {}
    texts = []
    for name, value in (attrs or {}).items():
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        if default is inspect.Parameter.empty:
            texts.append(literal(value))
        elif value is not default and value != default:
            texts.append(f"{name}={literal(value)}")
    return texts


def literal(value: Any) -> str:
    """A parameter as text that is the same on every run: no addresses."""
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return str(np.dtype(value))
    if isinstance(value, slice):
        parts = ["" if part is None else literal(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if parts[2] else parts[:2])
    if value is Ellipsis:
        return "..."
    if isinstance(value, tuple):
        return "(" + ", ".join(map(literal, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, (list, np.ndarray)) and np.size(value) <= 6:
        return f"[{', '.join(map(literal, value))}]" if np.ndim(value) else literal(np.asarray(value)[()])
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} {shape_text(value.shape)}>"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return number(value)
    if value is None or isinstance(value, str):
        return clip(clean(repr(value)), 20)
    return f"<{clean(type(value).__name__)}>"


def expression(op_name: str, operands: Sequence[Expr], attrs: Mapping[str, Any] | None) -> Expr:
    """An op applied to its operands, in mathematical notation where there is one."""
    op = OPS.get(op_name)
    if op_name == "mul" and operands[0] == operands[1]:
        return Call("pow", (operands[0], Num(2)))  # `xx` would read as another name
    if op is not None and op.expr is not None and isinstance(op.expr, Call) and len(op.args) == len(operands):
        if all(isinstance(arg, Var) for arg in op.expr.args):
            return ex.substitute(op.expr, dict(zip(op.args, operands, strict=True)))
    if op_name == "affine" and len(operands) == 3:
        return Call("add", (Call("matmul", (operands[0], operands[1])), operands[2]))
    texts = attributes(op, attrs)
    if op_name == "getitem" and len(operands) == 1 and attrs:
        key = literal(attrs.get("key"))
        inside = key[1:-1].removesuffix(",") if key.startswith("(") else key
        return Var(f"{_atom(operands[0])}[{inside}]")
    if op_name == "transpose" and len(operands) == 1 and not texts:
        return Var(f"{_atom(operands[0])}ᵀ")
    return Call(clip(clean(op_name), _LONGEST), (*operands, *map(Var, texts)))


def _atom(e: Expr) -> str:
    text = ex.to_text(e)
    return text if isinstance(e, Var) or (text.endswith(")") and " " not in text.split("(")[0]) else f"({text})"


def forward(op_name: str, operands: Sequence[Expr], position: int, attrs: Mapping[str, Any] | None) -> str:
    """What happens to one operand: `+ 1`, `× b`, `x @`, `( )²`, `sum`."""
    others = [ex.to_text(operand) for i, operand in enumerate(operands) if i != position]
    if op_name in _FORWARD and len(operands) == 2:
        sign = _FORWARD[op_name]
        other = operands[1 - position]
        text = f"({others[0]})" if _loose(other, op_name) else others[0]
        return f"{sign} {text}" if position == 0 or op_name in ("add", "mul") else f"{text} {sign}"
    if op_name == "pow" and position == 0 and isinstance(operands[1], Num):
        return ex.to_text(Call("pow", (Var("x"), operands[1]))).replace("x", "( )")
    return clip(
        " ".join([clean(op_name), *(attributes(OPS.get(op_name), attrs) if len(operands) == 1 else [])]), _LONGEST
    )


def _loose(e: Expr, op_name: str) -> bool:
    if isinstance(e, Num):
        return e.value < 0
    return isinstance(e, Call) and e.fn in ("add", "sub", "neg") and op_name != "add"


def factor(partial: Expr) -> str:
    """A local partial as the right side of a product."""
    text = ex.to_text(partial)
    loose = isinstance(partial, Call) and partial.fn in ("add", "sub", "neg", "less", "greater")
    return f"({text})" if loose or text.startswith("\u2212") else text


def partial(op: Op, arg: str, operands: Sequence[Expr], out: Expr) -> Expr | None:
    """The local partial of an elementwise op, with its operands put in; None where the table has none."""
    found = op.partials.get(arg)
    if found is None or len(op.args) != len(operands):
        return None
    names = dict(zip(op.args, operands, strict=True)) | {"out": out}
    # Names that differ leave nothing to simplify but what the table's own row has.
    named = all(isinstance(e, Var) for e in names.values()) and len(set(names.values())) == len(names)
    e = ex.substitute(_simplified(found), names) if named else ex.simplify(ex.substitute(found, names))
    return tidy(e) or e


@lru_cache(maxsize=512)
def _simplified(e: Expr) -> Expr:
    return ex.simplify(e)


def structural_rule(
    op: Op | None, arg: str, refs: Mapping[str, Ref], attrs: Mapping[str, Any] | None, ratio: int
) -> str:
    """How a structural op sends a cotangent back, from its template; G is the cotangent that arrives."""
    template = op.edges.get(arg) if op is not None else None
    if template is None:
        return ""
    try:
        return template.format(**{**(attrs or {}), "count": ratio, **refs})
    except (LookupError, AttributeError, ValueError):  # a template that asks for what this call does not have
        return template
