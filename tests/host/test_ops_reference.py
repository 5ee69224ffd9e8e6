"""docs/ops.md says what the op table says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from netcl.ops import COMPOSITES, OPS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def generated() -> str:
    return runpy.run_path(str(DOCS / "generate_ops.py"))["reference"]()


def test_the_page_is_not_stale(generated: str) -> None:
    stored = (DOCS / "ops.md").read_text(encoding="utf-8")
    assert stored == generated, "docs/ops.md is older than the op table: run `python docs/generate_ops.py`"


def test_every_op_and_function_has_its_entry(generated: str) -> None:
    headings = [line.removeprefix("### ") for line in generated.split("\n") if line.startswith("### ")]
    assert headings == [*OPS_IN_ORDER, *COMPOSITES]


OPS_IN_ORDER = [op.name for kind in ("elementwise", "structural") for op in OPS.values() if op.kind == kind]


def test_an_entry_says_how_it_is_computed_and_differentiated(generated: str) -> None:
    entry = generated.split("### pow\n")[1].split("### ")[0]
    for piece in ("`pow(a, b)` Also `power`.", "out     = a^b", "∂out/∂b = ", "Tested for a in [0.5, 2], b in [−2, 3]"):
        assert piece in entry
    entry = generated.split("### sum\n")[1].split("### ")[0]
    for piece in ("`sum(a, axis=None, keepdims=False)`", "Shapes:", "`spread out.shape → a.shape`", "is linear"):
        assert piece in entry


def test_the_page_is_the_same_on_every_run_and_names_no_place(generated: str) -> None:
    assert runpy.run_path(str(DOCS / "generate_ops.py"))["reference"]() == generated
    assert " at 0x" not in generated and str(DOCS.parent) not in generated
