"""docs/architecture.md speaks of the code as it is: picture, example, names of functions, fields and files."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import cli
from netcl.autograd import Node, Tape, build_topo

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULES = {
    "device": "netcl.device",
    "dual": "netcl.autograd.dual",
    "elementwise": "netcl.kernels.elementwise",
    "engine": "netcl.autograd.engine",
    "memory": "netcl.memory",
    "pullback": "netcl.autograd.pullback",
    "record": "netcl.autograd.record",
    "rows": "netcl.ops.rows",
    "site": "netcl.autograd.site",
    "table": "netcl.ops.table",
}


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The variables of the page's first example, after it has run."""
    indented = PAGE.split("\n\n!")[0].splitlines()
    names: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in indented if line.startswith("    ")), names)
    return names


def test_the_picture_is_what_the_command_beside_it_writes(tmp_path: Path) -> None:
    assert "`netcl demo --save docs/worked_example.svg`" in PAGE
    fresh = tmp_path / "worked_example.svg"
    assert cli.main(["demo", "--save", str(fresh)]) == 0
    stored = ROOT / "docs" / "worked_example.svg"
    assert stored.read_bytes() == fresh.read_bytes(), "run: netcl demo --save docs/worked_example.svg"


def test_the_example_gives_what_the_page_says(example: dict[str, Any]) -> None:
    x, y, z, loss = (example[name] for name in ("x", "y", "z", "loss"))
    assert z.value.to_host().tolist() == [[3, 12, 27], [48, 75, 108]]
    assert (z.op_name, z.operands, z.attrs, z.creation_trace, z.name) == ("mul", (3.0, y), {}, None, None)
    assert z.parents == [y] and z.requires_grad and z.index > y.index and z.level == 0
    assert z.pass_id == loss.pass_id > 0
    assert [node.op_name for node in reversed(build_topo(loss))] == ["sum", "mul", "pow", "add", None]
    assert (z.grad.to_host() == 1).all() and (y.grad.to_host() == 3).all()
    assert np.allclose(x.grad.to_host(), 6 * (x.to_host() + 1))


def test_the_table_of_fields_is_node_s() -> None:
    table = PAGE[PAGE.index("| field | meaning") :].split("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert listed == [field.name for field in dataclasses.fields(Node)]


def test_every_function_that_is_named_exists() -> None:
    named = {tuple(name.split(".", 1)) for name in re.findall(r"`(\w+\.[\w.]+)`", PAGE)}
    checked = {(module, rest) for module, rest in named if module in MODULES}
    assert len(checked) >= 15
    for module, rest in sorted(checked):
        found: Any = importlib.import_module(MODULES[module])
        for part in rest.split("."):
            found = getattr(found, part)
    assert hasattr(Tape(), "_pending_flush_queue") and hasattr(Tape(), "nodes")


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`(netcl/[\w/.]+)`", PAGE)
    assert len(named) >= 9
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_row_that_is_shown_is_the_table_s() -> None:
    rows = re.findall(r"^    (elementwise\(.*\))$", PAGE, re.M)
    source = (ROOT / "netcl" / "ops" / "elementwise.py").read_text(encoding="utf-8")
    assert rows and all(row[:-1] in source for row in rows)
