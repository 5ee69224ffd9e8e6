"""Where nodes come from, in scripts, notebooks and anomaly mode; and the paths along which one reaches another."""

from __future__ import annotations

import runpy
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import Tensor, notebook, viz
from netcl import autograd as ag
from netcl.errors import ArgumentError
from netcl.viz.palette import LIGHT
from netcl.viz.paths import Paths
from netcl.viz.trace import Trace

pytestmark = pytest.mark.usefixtures("on_device")

HERE = Path(__file__).name


def leaf(value: Any, name: str | None = None) -> Any:
    return ag.tensor(value, requires_grad=True, name=name)


def traced(node: Any) -> Trace:
    found = viz.trace(node)
    assert isinstance(found, Trace)
    return found


def paths(node: Any, to: Any, **more: Any) -> Paths:
    found = viz.trace(node, to=to, **more)
    assert isinstance(found, Paths)
    return found


def test_a_script_is_traced_to_file_and_line() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    def double(v: Any) -> Any:
        return v * 2.0  # here

    y = double(x)
    found = viz.trace(y)
    assert isinstance(found, Trace)
    assert found.origin is not None
    assert found.origin.place == f"{HERE}, line {found.origin.line}" and found.origin.function == "double"
    assert dict(found.origin.lines)[found.origin.line].endswith("return v * 2.0  # here")
    assert [number for number, _ in found.origin.lines] == list(range(found.origin.line - 2, found.origin.line + 3))
    assert found.ancestors == (("x", "leaf", f"{HERE}, line {found.origin.line - 3}"),)
    assert "  gradient none" in found.text and "y = x·2: mul (2,) float32" in found.text
    y.sum().backward()
    assert "  gradient 1 at every entry" in traced(y).text
    assert repr(found) == "<Trace of y>" and found._repr_mimebundle_() == {"text/plain": str(found)}


def test_anomaly_mode_keeps_the_whole_stack() -> None:
    x = leaf(1.0)

    def inner() -> Any:
        return x * x

    with ag.detect_anomaly():
        y = inner()
    stack = traced(y).stack
    assert any("in test_anomaly_mode" in line for line in stack) and "in inner" in stack[-2]
    assert "return x * x" in stack[-1]
    assert traced(x * x).stack == ()


def test_many_ancestors_are_counted() -> None:
    x = leaf(1.0, "x")
    y = x
    for _ in range(100):
        y = y + 1.0
    found = traced(y)
    assert len(found.ancestors) == 12 and found.more == 88 and "… 88 further back" in found.text


def test_a_file_that_has_changed_since_says_so(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("from netcl import autograd as ag\nx = ag.tensor(1.0, requires_grad=True)\ny = x * 2.0\n")
    y = runpy.run_path(str(script))["y"]
    assert traced(y).origin.changed == ""  # type: ignore[union-attr]
    script.write_text("# one more line\n" + script.read_text())
    time.sleep(0.01)
    found = traced(y)
    assert "the file has changed since" in found.text
    script.write_text("this is not Python")
    assert "the file has changed since" in traced(y).text


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
def run(text, cell):
    assert shell.run_cell(text, store_history=True, cell_id=cell).success
run("import netcl\\nfrom netcl import autograd as ag, viz", "one")
run("x = ag.tensor(2.0, requires_grad=True)\\n\\ny = x * x  # as it was", "two")
run("def f(v):\\n    return v + 1.0\\nz = f(y)", "three")
run("print(viz.trace(y))", "four")
run("x2 = 1\\ny2 = x * 3.0", "two")
run("print(viz.trace(y))\\nprint(viz.trace(y2))\\nprint(viz.trace(z).origin.changed)", "four")
run("def f(v):\\n    return v + 2.0", "five")
run("print(viz.trace(z).origin.changed)", "six")
run("x = ag.tensor(2.0, requires_grad=True)\\n\\ny = x * x  # as it was", "two")
run("print('again:', viz.trace(y).origin.changed)", "seven")
"""


def test_a_notebook_is_traced_to_cell_and_line_with_the_source_as_it_was(python: Any) -> None:
    run = python(NOTEBOOK)
    before, after = run.stdout.split("y = x²: mul () float32")[1:3]
    assert "made in cell 2, line 3\n    1  x = ag.tensor(2.0, requires_grad=True)" in before, run.stderr
    assert "  → 3  y = x * x  # as it was" in before and "since" not in before
    assert "made in cell 2, line 3" in after and "  → 3  y = x * x  # as it was" in after
    assert "the cell has run with another text since" in after
    assert "y2 = x·3" in after and "made in cell 5, line 2" in after
    assert after.count("since") == 1 + after.count("defined anew since")
    assert "\nf has been defined anew since\n" in after and "\nagain: \n" in after
    assert "0x" not in run.stdout and "ipython-input" not in run.stdout


def test_watching_twice_or_outside_a_notebook_does_nothing() -> None:
    notebook.watch()
    assert notebook.cell_number(__file__) is None and not notebook.has_changed(__file__)


def test_a_node_made_by_hand_has_no_place() -> None:
    node = ag.Node(Tensor.from_host([1.0]), name="made")
    assert "where it was made is not known" in traced(node).text


def test_the_two_paths_of_a_fork() -> None:
    a, b = leaf(2.0, "a"), leaf(3.0, "b")
    f = a * b + a**2
    found = paths(a, f, names={f: "f"})
    assert found.count == 2 and [path.factors for path in found.paths] == [("3", "1"), ("4", "1")]
    assert str(found) == (
        "2 paths from a to f\n  1  a → ab → f  3 × 1 = 3\n  2  a → a² → f  4 × 1 = 4\n∂f/∂a = 3 + 4 = 7"
    )
    assert str(paths(b, f, names={f: "f"})) == "1 path from b to f\n  1  b → ab → f  2 × 1 = 2\n∂f/∂b = 2"


def test_an_operand_that_stands_twice_gives_two_paths() -> None:
    x = leaf(-3.0, "x")
    y = x * x
    assert str(paths(x, y, names={y: "y"})).endswith("∂y/∂x = (−3) + (−3) = −6")


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_over_paths_is_the_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = [leaf(rng.uniform(0.5, 1.5), f"x{i}") for i in range(3)]
    nodes = list(leaves)
    for _ in range(9):
        one, other = rng.choice(len(nodes), 2)
        op = [ag.add, ag.mul, ag.sub, lambda a, b: ag.sin(a) * b][rng.integers(4)]
        nodes.append(op(nodes[one], nodes[other]))
    loss = nodes[-1] + sum(leaves)
    loss.backward()
    for x in leaves:
        found = paths(x, loss, most=10_000)
        assert found.count == len(found.paths)
        each = [np.prod([_number(text) for text in path.factors]) for path in found.paths]
        assert np.isclose(sum(each), x.grad.item(), rtol=1e-2, atol=1e-2)
        assert np.isclose(sum(p.contribution.item() for p in found.paths), x.grad.item(), rtol=1e-4)  # type: ignore[union-attr]


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_paths_of_arrays_carry_maps_and_what_arrives() -> None:
    W, x = leaf([[1.0, 2.0], [3.0, 4.0]], "W"), leaf([[1.0, -1.0]], "x")
    h = ag.tanh(x @ W)
    loss = (h * h + h @ W).sum()
    loss.backward()
    found = paths(W, loss)
    assert found.count == 4 and all(path.factors == () for path in found.paths)
    assert found.paths[-1].rules == ("hᵀ @ G", "× 1", "spread () → (1, 2)")
    assert np.allclose(sum(p.contribution for p in found.paths), W.grad.to_host())  # type: ignore[misc, arg-type]
    assert np.allclose(found.total, W.grad.to_host())


def test_a_million_paths_are_counted_and_not_walked() -> None:
    x = leaf(1.0, "x")
    y = x
    for _ in range(20):
        y = y + y
    found = paths(x, y, most=3, names={y: "y"})
    assert found.count == 2**20 and len(found.paths) == 3 and found.total == 2**20
    assert "1 048 576 paths" in str(found) and "… and 1 048 573 more" in str(found)
    assert "1 × 1 × 1 × 1 × (12 more) × 1" in str(found)


def test_a_path_through_which_no_gradient_passes_is_zero() -> None:
    x = leaf(2.0, "x")
    y = ag.apply_op(lambda v: v * 2.0, lambda g: [None], x, op_name="stop")
    found = paths(x, y + x)
    assert found.paths[0].says.endswith("0, no gradient passes")
    assert found.total == 1


def test_what_does_not_lead_there_is_refused() -> None:
    x, y = leaf(1.0), leaf(2.0)
    for start, end, message in ((x, y * 2.0, "no path"), (x, x, "no path"), (x, 3.0, "takes a Node")):
        with pytest.raises(ArgumentError, match=message):
            viz.trace(start, to=end)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes a Node, not Tensor"):
        viz.trace(Tensor.from_host(1.0))  # type: ignore[arg-type]


def test_tracing_changes_nothing() -> None:
    x = leaf(2.0)
    with ag.Tape() as tape:
        y = x * x
        y.backward()
        before = (x.grad, y.grad, x.pass_id, y.pass_id, list(tape.nodes))
        viz.trace(x, to=y)
        viz.trace(y)
        assert (x.grad, y.grad, x.pass_id, y.pass_id, list(tape.nodes)) == before


def test_the_picture_lights_the_paths(svg_reader: Any) -> None:
    a, b = leaf(2.0, "a"), leaf(3.0, "b")
    f = a * b + a**2
    f.backward()
    found = paths(a, f, names={f: "f"})
    assert found.view is not None
    name = {card.key: card.name for card in found.view.cards}
    between = {edge.key: (name[edge.parent], name[edge.child]) for edge in found.view.edges}
    for path in found.paths:
        assert [between[key] for key in path.edges] == list(pairwise(path.names))
    one, every = found.draw(1), found.svg
    assert set(one.lit or ()) == set(found.paths[0].edges)
    assert one.text.startswith("path 1 of 2: a → ab → f  3 × 1 = 3\n")
    assert svg_reader.read(one.svg).faults(found.view) == [] == svg_reader.read(every).faults(found.view)
    assert (
        one.svg.count(LIGHT["faint"]) == 3 * 4 and every.count(LIGHT["faint"]) == 4
    )  # two lines and two heads an edge
    assert "image/svg+xml" in found._repr_mimebundle_()
    with pytest.raises(ArgumentError, match="2 paths are listed, and 3"):
        found.draw(3)


def test_large_graphs_have_no_lit_picture() -> None:
    x = leaf(1.0, "x")
    y = x
    for _ in range(50):
        y = y + 1.0
    found = paths(x, y)
    assert found.svg == "" and "image/svg+xml" not in found._repr_mimebundle_()
    with pytest.raises(ArgumentError, match="too large"):
        found.draw(1)
