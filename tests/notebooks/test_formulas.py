"""Formulas on lines of their own in lessons are checked by a cell near them, as the ledger tests/formulas.txt says."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
LESSONS = sorted((TESTS.parent / "curriculum").glob("[0-9][0-9]_*.ipynb"))
IDS = [path.name[:2] for path in LESSONS]
FORMULAS = runpy.run_path(str(TESTS / "formulas.py"))
Entry, faults, formulas, ledger = (FORMULAS[name] for name in ("Entry", "faults", "formulas", "ledger"))
LEDGER = ledger((TESTS / "formulas.txt").read_text(encoding="utf-8"))
REASONS = 7  # formulas that no statement checks: definitions of words


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("path", LESSONS, ids=IDS)
def test_every_formula_has_a_statement_that_checks_it(path: Path) -> None:
    assert list(faults(cells(path), LEDGER.get(path.name[:2], []))) == []


def test_there_are_formulas_and_few_reasons() -> None:
    assert sum(len(list(formulas(cells(path)))) for path in LESSONS) > 100
    checks = [name for entries in LEDGER.values() for entry in entries for name, _ in entry.checks]
    assert checks.count(FORMULAS["BECAUSE"]) <= REASONS and len(checks) > 130
    claimed = [entry for entries in LEDGER.values() for entry in entries if not entry.names]
    assert len(claimed) > 80, "what only makes names is not most of it"


# What finds faults


def text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "text", "source": source}


def code(source: str, name: str = "code") -> dict[str, Any]:
    return {"cell_type": "code", "id": name, "source": source}


LESSON = [
    text("## 1 · One\n\n$$y = 2x .$$\n\n$x$ and\n\n$$p = ab, \\qquad q = p$$"),
    code("p = a * b\nassert y == 2*x"),
]
TOLD = "# 01 · One\n\ny = 2x\n    code: assert y == 2 * x\nlet p = ab, \\qquad q = p\n    code: p = a * b\n"


def test_a_lesson_that_agrees_with_its_ledger_has_no_faults() -> None:
    assert [formula.text for formula in formulas(LESSON)] == ["y = 2x", "p = ab, \\qquad q = p"]
    assert list(faults(LESSON, ledger(TOLD)["01"])) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("y = 2x .", "y = 3x .", "not in the ledger: y = 3x"),
        ("$$y = 2x .$$", "", "in the ledger, and not in the lesson: y = 2x"),
        ("assert y == 2*x", "assert y == 3*x", "code does not claim assert y == 2 * x"),
        ("assert y == 2*x", "print(y == 2*x)", "code does not claim"),
        ("assert y == 2*x", "", "code does not claim"),
        ("p = a * b", "p = a + b", "code has no p = a * b"),
    ],
)
def test_a_formula_or_a_statement_that_changed_is_found(old: str, new: str, fault: str) -> None:
    changed = [{**cell, "source": cell["source"].replace(old, new)} for cell in LESSON]
    assert changed != LESSON
    assert any(fault in each for each in faults(changed, ledger(TOLD)["01"]))


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("code: assert 1 == 1", "does not claim"),
        ("code: assert y == y", "does not claim"),
        ("code: assert True", "does not claim"),
        ("code: assert ok", "does not claim"),
        ("code: assert np.allclose(1, 1)", "does not claim"),
        ("other: assert y == 2 * x", "there is no cell other"),
        ("text: assert y == 2 * x", "there is no cell text"),
        ("far: assert y == 2 * x", "far stands 3 sections away"),
    ],
)
def test_a_statement_that_proves_nothing_or_is_not_there_is_found(statement: str, fault: str) -> None:
    told = ledger(f"# 01 · One\ny = 2x\n    {statement}\n")["01"]
    sections = text("## 2 · Two\n\n## 3 · Three\n\n## 4 · Four")
    statements = "assert 1 == 1\nassert y == y\nassert True\nassert ok\nassert np.allclose(1, 1)"
    lesson = [text("## 1 · One\n\n$$y = 2x .$$"), code(statements), sections, code("assert y == 2 * x", "far")]
    (found,) = faults(lesson, told)
    assert fault in found


def test_a_formula_with_nothing_below_it_is_found_and_an_exercise_counts() -> None:
    lesson = [text("## 1 · One\n\n$$y = 2x$$"), code('check("01.y", y)')]
    (found,) = faults(lesson, [Entry("y = 2x", False, ())])
    assert found == "nothing checks y = 2x"
    assert list(faults(lesson, [Entry("y = 2x", False, (("code", "check('01.y', y)"),))])) == []
