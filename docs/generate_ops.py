"""Write docs/ops.md from the op table: `python docs/generate_ops.py`. A test fails while the page is out of date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from netcl import expr as ex
from netcl.ops import COMPOSITES, OPS, Op, Row

PAGE = Path(__file__).with_name("ops.md")

INTRODUCTION = """\
# Op reference

<!-- Written by docs/generate_ops.py from the op table. Change the table, not this page. -->

Every op is `ag.<name>`, on tensors and nodes alike; where NumPy has the op, the name is NumPy's. `a`, `b`, `c` are the
operands, `out` the result, and `G` the cotangent of the result: what backward knows about `out` when it asks an op for
the cotangents of its operands.

- **NumPy's functions** of tensors and nodes are the ops of their names: `np.sum(x)`, `np.dot(x, y)`. One that has no op
  gives NumPy's numbers; of a node that requires grad it says that these would lose the gradient, and refuses.
- **Cost.** An elementwise op is one kernel with one work-item for each element of the result, forward and back; where
  broadcasting stretched an operand, going back adds a sum. A view costs nothing. A sum over n elements is a tree of
  depth log n. A matrix product of (n, k) and (k, m) takes n·k·m multiplications, and as many for each operand on the
  way back.
- **Dtypes.** float32 and float64 stay as they are and promote as in NumPy. "Integers stay integers" marks the ops that
  compute in integers if all operands are; elsewhere integers become float32.
- **Tested for.** The intervals of the operands on which tests compare the derivative with differences: off poles and
  kinks, on both sides of each. The op itself takes every number.
"""


def reference() -> str:
    """Return the page.

    >>> reference().startswith("# Op reference")
    True
    """
    rows = [op for op in OPS.values() if isinstance(op, Row)]
    groups: dict[str, list[Op]] = {}
    for op in OPS.values():
        if not isinstance(op, Row):
            groups.setdefault(first_sentence(sys.modules[op.function.__module__].__doc__), []).append(op)
    lines = [INTRODUCTION, f"Elementwise: {links(op.name for op in rows)}", ""]
    lines += [f"Structural: {links(op.name for ops in groups.values() for op in ops)}", ""]
    lines += [f"Made of these: {links(COMPOSITES)}", "", "## Elementwise ops", ""]
    lines += ["The operands broadcast as in NumPy, and the result has the shape to which they do.", ""]
    for row in rows:
        lines += elementwise(row)
    for title, ops in groups.items():
        lines += [f"## {title}", ""]
        for op in ops:
            lines += [*function(op), *derivatives(op)]
    lines += ["## Functions made of ops", "", "Plain Python: their derivatives are those of the ops in them.", ""]
    for composite in COMPOSITES.values():
        lines += function(composite)
    return "\n".join(lines).rstrip("\n") + "\n"


def links(names: Iterable[str]) -> str:
    """Return names as links to their entries."""
    return " · ".join(f"[{name}](#{name})" for name in names)


def elementwise(row: Row) -> Iterator[str]:
    """Yield the lines of one row."""
    yield from heading(row)
    labels = ["out", *(f"∂out/∂{arg}" for arg in row.partials)]
    for label, e in zip(labels, [row.expr, *row.partials.values()], strict=True):
        sign = "⟺" if row.returns_bool else "="
        yield f"    {label:<{max(map(len, labels))}} {sign} {ex.to_text(e)}"
    yield ""
    facts = []
    if row.returns_bool:
        facts.append("The result is a truth value, which has no derivative.")
    elif row.keeps_integers:
        facts.append("Integers stay integers.")
    if row.mask:
        facts.append(f"{row.mask} is any dtype, and true where it is not 0.")
    if row.domain:
        facts.append(f"Tested for {', '.join(f'{arg} in {intervals(ends)}' for arg, ends in row.domain.items())}.")
    if facts:
        yield from (" ".join(facts), "")
    yield from prose(row.note)


def intervals(ends: tuple[float, ...]) -> str:
    """Return intervals as text.

    >>> intervals((-2, -0.5, 0.5, 2))
    '[−2, −0.5] ∪ [0.5, 2]'
    """
    written = [ex.to_text(ex.Num(end)) for end in ends]
    return " ∪ ".join(f"[{low}, {high}]" for low, high in zip(written[::2], written[1::2], strict=True))


def derivatives(op: Op) -> Iterator[str]:
    """Yield how cotangents and tangents pass a structural op."""
    edges = {arg: edge.replace("{", "").replace("}", "") for arg, edge in op.edges.items()}
    if edges:
        yield from ("Backward sends " + ", and ".join(f"to {arg}: `{edge}`" for arg, edge in edges.items()) + ".", "")
    if op.linear:
        yield from ("The op is linear: tangents pass through the op itself.", "")


def function(f: Op | Callable[..., Any]) -> list[str]:
    """Return the lines of a function that has a docstring: its first sentence, and the rest as it is aligned."""
    summary, _, rest = (inspect.getdoc(f) or "").partition("\n\n")
    lines = [*heading(f), summary.replace("\n", " "), ""]
    if rest:
        lines += [*("    " + line if line else "" for line in rest.split("\n")), ""]
    return lines


def heading(f: Any) -> list[str]:
    """Return the title of an op or function, how it is called, and its other names."""
    parameters = inspect.signature(f).parameters.values()
    call = f"{f.__name__}({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"
    aliases = getattr(f, "aliases", ())
    also = f" Also {', '.join(f'`{alias}`' for alias in aliases)}." if aliases else ""
    return [f"### {f.__name__}", "", f"`{call}`{also}", ""]


def first_sentence(text: str | None) -> str:
    """Return the first sentence of a docstring, without its full stop."""
    return " ".join((text or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def prose(note: str) -> Iterator[str]:
    """Yield a note, with an empty line before code."""
    for line in note.split("\n") if note else ():
        if line.startswith("    "):
            yield ""
        yield line
    if note:
        yield ""


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
