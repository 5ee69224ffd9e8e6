"""Which formulas stand on lines of their own in the lessons, and which cells check them, by the ledger formulas.txt.

The ledger has every such formula as it is written. Below it stand statements, each with the cell that has it: an
`assert`, or the `check` of an exercise that asks for the formula. `let` before a formula says that it makes names and
claims nothing; then what stands below is code that has it. Whether a statement checks its formula is for a reader to
judge; that it is there, asserts something, and stands near is for the test. A formula that is changed, and a statement
that is changed or goes, no longer agree with the ledger: then both have to be looked at again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

BECAUSE = "because"
NEAR = 2  # so many sections before and after the one of a formula may check it
RELATION = re.compile(r"=|\\(?:approx|le|ge|longrightarrow|mapsto|Rightarrow)\b")
_PIECE = re.compile(r"(?m)^## (?P<heading>.+)$|\$\$(?P<formula>[\s\S]+?)\$\$")


class Formula(NamedTuple):
    """A formula on a line of its own, and the number of the section that it stands in."""

    text: str
    section: int


class Entry(NamedTuple):
    """What the ledger says of a formula: whether it only makes names, and the pairs of a cell's name and its code."""

    text: str
    names: bool
    checks: tuple[tuple[str, str], ...]


def normal(formula: str) -> str:
    """A formula in one line, without what ends its sentence.

    >>> normal("\\n  x = 1 \\\\,\\n")
    'x = 1'
    """
    return re.sub(r"(?:\\,|[\s.,])+$", "", " ".join(formula.split()))


def formulas(cells: Sequence[dict[str, Any]]) -> Iterator[Formula]:
    """Every display of the text cells with a relation in it."""
    section = 0
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for piece in _PIECE.finditer("".join(cell["source"])):
                section += piece["formula"] is None
                if piece["formula"] is not None and RELATION.search(piece["formula"]):
                    yield Formula(normal(piece["formula"]), section)


def ledger(text: str) -> dict[str, list[Entry]]:
    """The entries of each lesson: a line "# 06 …" begins one, what is indented belongs to the formula above it."""
    found: dict[str, list[Entry]] = {}
    lesson: list[Entry] = []
    for line in text.splitlines():
        if heading := re.match(r"# (\d\d)\b", line):
            lesson = found.setdefault(heading[1], [])
        elif line.startswith("    "):
            name, _, code = line.strip().partition(": ")
            lesson[-1] = lesson[-1]._replace(checks=(*lesson[-1].checks, (name, code)))
        elif line.strip() and not line.startswith("#"):
            lesson.append(Entry(line.removeprefix("let "), line.startswith("let "), ()))
    return found


def faults(cells: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> Iterator[str]:
    """Where a lesson and its part of the ledger disagree."""
    there = {formula.text: formula for formula in formulas(cells)}
    told = {entry.text: entry for entry in entries}
    yield from (f"not in the ledger: {text}" for text in there if text not in told)
    yield from (f"in the ledger, and not in the lesson: {text}" for text in told if text not in there)
    for text in told.keys() & there.keys():
        if not told[text].checks:
            yield f"nothing checks {text}"
        for name, code in told[text].checks:
            if name != BECAUSE and (fault := _fault(cells, there[text], told[text].names, name, code)):
                yield f"{fault}: {text}"


def _fault(cells: Sequence[dict[str, Any]], formula: Formula, names: bool, name: str, code: str) -> str:
    section = 0
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            section += len(re.findall(r"^## ", source, re.M))
        if cell["id"] == name and cell["cell_type"] == "code":
            if abs(section - formula.section) > NEAR:
                return f"{name} stands {abs(section - formula.section)} sections away"
            if names:
                return "" if " ".join(code.split()) in " ".join(source.split()) else f"{name} has no {code}"
            return "" if code in set(claims(source)) else f"{name} does not claim {code}"
    return f"there is no cell {name}"


def claims(source: str) -> Iterator[str]:
    """The statements of a cell that fail if something is not so, as Python writes them itself.

    >>> list(claims("assert x ==  1\\nassert 1 == 1\\nassert x == x\\ncheck('a.b', x)"))
    ['assert x == 1', "check('a.b', x)"]
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check":
            yield ast.unparse(node)
        elif isinstance(node, ast.Assert) and _says_something(node.test):
            yield ast.unparse(ast.Assert(node.test, None))


def _says_something(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(map(_says_something, test.values))
    if isinstance(test, ast.UnaryOp):
        return _says_something(test.operand)
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    sides = test.args if isinstance(test, ast.Call) else sides
    texts = [ast.unparse(side) for side in sides]
    named = any(isinstance(node, ast.Name) for side in sides for node in ast.walk(side))
    return named and len(set(texts)) == len(texts)
