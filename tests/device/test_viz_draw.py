"""Pictures of real graphs: what they say is what was computed, and drawing changes nothing."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import expr as ex
from netcl import viz
from netcl.errors import ArgumentError
from netcl.viz import symbolic
from netcl.viz.views import Card, Edge, GraphView

pytestmark = pytest.mark.usefixtures("on_device")

X = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def leaf(value: Any, **more: Any) -> Any:
    return ag.tensor(value, requires_grad=True, **more)


def card(view: GraphView, name: str) -> Card:
    (found,) = (each for each in view.cards if each.name == name and each.kind != "use")
    return found


def slot(view: GraphView, name: str) -> Any:
    found = card(view, name).slot
    assert found is not None
    return found


def edge(view: GraphView, parent: str, child: str) -> Edge:
    (found,) = (e for e in view.edges if view.card(e.parent).name == parent and view.card(e.child).name == child)
    return found


def seeds_example() -> viz.Drawing:
    x = leaf(X)
    with ag.Tape() as tape:
        y = (x + 1.0) ** 2
        z = 3.0 * y
        loss = z.sum()
    tape.backward(loss)
    return viz.draw(loss)


def test_the_seeds_example_shows_what_its_figure_shows(svg_reader: Any) -> None:
    drawing = seeds_example()
    view = drawing.view
    assert [c.title for c in view.cards] == ["x", "x + 1", "y = (x + 1)²", "z = 3y", "loss = sum(z)"]
    assert view.seed == "1"
    assert card(view, "x").caption == "∂loss/∂x" and card(view, "x + 1").caption == "∂loss/∂(x + 1)"
    assert [slot(view, name).array.line() for name in ("loss", "z", "y")] == [
        "1", "1 at every entry", "3 at every entry",
    ]  # fmt: skip
    assert slot(view, "x").formula == "6(x + 1)"
    assert slot(view, "x").array.cells == (("6", "12", "18"), ("24", "30", "36"))
    assert slot(view, "x").note == "added into x.grad"
    assert [e.forward for e in view.edges] == ["+ 1", "( )²", "× 3", "sum"]
    assert [e.rule for e in view.edges] == ["× 1", "⊙ 2(x + 1)", "× 3", "spread () → (2, 3)"]
    picture = svg_reader.read(drawing.svg)
    assert picture.faults(view) == []
    assert picture.width <= 720 and picture.least_text >= 10.99
    assert {"seed 1", "∂loss/∂x = 6(x + 1)", "⊙ 2(x + 1)"} <= set(picture.texts)
    assert len(drawing.svg) <= 40 * 1024


def fork(calls: int = 1) -> tuple[Any, Any, Any]:
    a, b = leaf(2.0, name="a"), leaf(3.0, name="b")
    f = a * b + a**2
    for _ in range(calls):
        f.backward()
    return a, b, f


def test_where_two_paths_meet_both_contributions_and_their_sum_are_shown() -> None:
    _, _, f = fork()
    view = viz.draw(f).view
    assert edge(view, "a", "ab").numbers == "upstream 1 × (b = 3) → 3"
    assert edge(view, "a", "a²").numbers == "upstream 1 × (2a = 4) → 4"
    assert slot(view, "a").total == "4 + 3 = 7"
    assert ex.to_text(ex.parse("2 * a + b")) == slot(view, "a").formula
    assert slot(view, "b").total == ""


def test_gradients_that_pile_up_over_calls_are_told_from_those_of_this_pass() -> None:
    _, _, f = fork(calls=2)
    view = viz.draw(f).view
    assert slot(view, "a").total == "4 + 3 = 7, total over calls 14"
    assert slot(view, "b").total == "this pass 2, total over calls 4"


def test_before_backward_nothing_is_claimed(svg_reader: Any) -> None:
    _, _, f = fork(calls=0)
    drawing = viz.draw(f)
    assert {c.slot.state for c in drawing.view.cards if c.slot} == {"not run"}
    assert "backward not run" in drawing.text and "backward not run" in drawing.svg
    assert "upstream" not in drawing.svg.replace("upstream gradient", "")
    assert all(e.rule and e.contribution is None for e in drawing.view.edges)
    assert svg_reader.read(drawing.svg).faults(drawing.view) == []


def test_a_zero_gradient_is_told_from_none() -> None:
    x = leaf([1.0, 2.0])
    loss = (x * 0.0).sum()
    loss.backward()
    assert slot(viz.draw(loss).view, "x").state == "zero"


def test_another_backward_since_makes_gradients_stale() -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    first, second = y.sum(), (3.0 * y).sum()
    first.backward()
    second.backward()
    view = viz.draw(first).view
    assert slot(view, "y").state == "stale" and slot(view, "x").state == "stale"
    assert edge(view, "y", "first").contribution is not None
    assert all(e.contribution is None for e in view.edges if view.card(e.parent).name == "x")
    view = viz.draw(second).view
    assert slot(view, "y").state == "value"
    assert slot(view, "x").total == "sum of 2 contributions, total over calls above"


def test_gradients_that_are_gone_are_said_to_be_gone() -> None:
    x = leaf(2.0)
    tape = ag.Tape(retain_grads=False)
    with tape:
        y = x * 3.0
        loss = y * y
    tape.backward(loss)
    assert slot(viz.draw(tape, names={loss: "loss"}).view, "y").state == "dropped"
    y2 = x * 3.0
    z = y2 * y2
    z.backward()
    x.zero_grad()
    assert slot(viz.draw(z).view, "x").state == "cleared"


def test_a_released_graph_is_drawn_as_what_is_left() -> None:
    x = leaf(2.0)
    with ag.Tape() as tape:
        loss = x * x
    tape.backward(loss)
    tape.release()
    drawing = viz.draw(loss)
    assert "released" in drawing.text and len(drawing.view.cards) == 1
    assert "released" in drawing.svg
    with pytest.raises(ArgumentError, match="holds no nodes"):
        viz.draw(tape)


def test_constants_are_small_operands_without_a_gradient() -> None:
    data = nc.Tensor.from_host(np.ones((4, 3), "f4"))
    W = leaf(np.ones((3, 2)))
    loss = (data @ W).sum()
    loss.backward()
    view = viz.draw(loss).view
    assert card(view, "data").kind == "constant" and slot(view, "data").state == "not needed"
    assert not edge(view, "data", "data @ W").needs_grad
    assert edge(view, "W", "data @ W").rule == "dataᵀ @ G"


def test_broadcasting_says_what_is_summed() -> None:
    b, x, s = leaf([1.0, 2.0, 3.0]), leaf(np.ones((4, 3), "f4")), leaf(2.0)
    y = x + b
    loss = (y * s).sum()
    loss.backward()
    view = viz.draw(loss).view
    assert edge(view, "b", "y").after == "sum over axis 0"
    assert edge(view, "s", "sy" if any(c.name == "sy" for c in view.cards) else "ys").after == "sum over every entry"


def test_what_the_labels_say_is_what_was_added() -> None:
    """Every elementwise rule, put in numbers and times the upstream gradient, gives the edge's contribution."""
    rng = np.random.default_rng(3)
    a, b = leaf(rng.uniform(0.5, 2, (2, 3)).astype("f4"), name="a"), leaf(np.float32(1.5), name="b")
    values = {"a": a.to_host().astype("f8"), "b": 1.5}
    for f in (
        lambda: a * b, lambda: a / b, lambda: a - b, lambda: a**3, lambda: ag.exp(a), lambda: ag.log(a), lambda: -a,
        lambda: ag.tanh(a * b), lambda: ag.sqrt(a), lambda: ag.maximum(a, b), lambda: (a + 1.0) ** 2 * b, lambda: a * a,
    ):  # fmt: skip
        a.zero_grad()
        b.zero_grad()
        loss = f().sum()
        loss.backward()
        view = viz.draw(loss).view
        for name in ("a", "b"):
            formula = slot(view, name).formula if any(c.name == name for c in view.cards) else ""
            if formula:
                found = _read(formula, values)
                assert np.allclose(found, {"a": a, "b": b}[name].grad.to_host(), rtol=1e-4), formula


def _read(formula: str, values: dict[str, Any]) -> Any:
    """A formula in mathematical notation, as numbers; only what the test above makes is understood."""
    source = formula.replace("−", "-").replace("·", "*").translate(str.maketrans({"²": "**2", "³": "**3"}))
    source = source.replace("√a", "sqrt(a)").replace("√(", "sqrt(")
    out = ""
    for char in source:
        before = out[-1:]
        if (char.isalpha() or char == "(") and (before.isdigit() or before == ")"):
            out += "*"
        if char in "ab" and before in ("a", "b"):
            out += "*"
        out += char
    names = {"sqrt": np.sqrt, "exp": np.exp, "tanh": np.tanh, "log": np.log, "where": np.where}
    return eval(out.replace(" = ", " == "), {"__builtins__": {}}, names | values)


def test_drawing_changes_nothing() -> None:
    x = leaf(X)
    with ag.Tape() as tape:
        y = x * x
        loss = y.sum()
        tape.backward(loss)
        before = [(node.grad, node.pass_id, node.value, node.name, list(node.parents)) for node in (x, y, loss)]
        recorded = list(tape.nodes)
        viz.draw(loss).svg  # noqa: B018 - worked out when it is asked for
        assert tape.nodes == recorded
    after = [(node.grad, node.pass_id, node.value, node.name, list(node.parents)) for node in (x, y, loss)]
    assert all(one[0] is other[0] and one[1:] == other[1:] for one, other in zip(before, after, strict=True))


def test_a_drawing_holds_no_tensor() -> None:
    def inside() -> tuple[viz.Drawing, list[Any]]:
        x = leaf(X)
        loss = (x * x).sum()
        loss.backward()
        return viz.draw(loss), [weakref.ref(x), weakref.ref(loss)]

    drawing, gone = inside()  # a frame of Python < 3.13 keeps what was looked up in it until it ends
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert "∂loss/∂x" in drawing.svg


def test_names_come_from_the_caller_and_can_be_overridden() -> None:
    class Layer:
        def __init__(self) -> None:
            self.W = leaf(2.0)

    layer, given = Layer(), leaf(3.0, name="given")

    def inside() -> viz.Drawing:
        hidden = layer.W * given
        out = hidden + 1.0
        return viz.draw(out, names={given: "<lambda> <map>"})

    view = inside().view
    assert [c.name for c in view.cards] == ["layer.W", "<lambda> <map>", "hidden", "out"]


def test_what_has_no_name_is_written_out_or_numbered() -> None:
    x = leaf(2.0)
    view = viz.draw(ag.tanh(ag.exp(2.0 * x + 1.0) * x) * 3.0).view
    assert view.name == "loss"
    assert [c.title for c in view.cards if c.kind != "use"] == [
        "x", "2x", "2x + 1", "exp(2x + 1)", "t1 = exp(2x + 1)·x", "tanh(t1)", "loss = tanh(t1)·3",
    ]  # fmt: skip


def test_custom_ops_and_their_errors() -> None:
    x = leaf([1.0, 2.0])
    y = ag.apply_op(lambda v: v * 2.0, lambda g: [g * 2.0], x, op_name="<lambda> <map>")
    loss = y.sum()
    loss.backward()
    view = viz.draw(loss).view
    assert card(view, "y").title == "y = <lambda> <map>(x)"
    assert edge(view, "x", "y").rule == "grad_fn of <lambda> <map>"

    def breaks(g: Any) -> Any:
        raise KeyError("no")

    z = ag.apply_op(lambda v: v * 2.0, breaks, x, op_name="broken")
    total = z.sum()
    with pytest.raises(KeyError):
        total.backward()
    z.grad, total.grad = nc.ones((2,)), nc.ones(())
    z.pass_id = total.pass_id = 10**6
    drawing = viz.draw(total)
    assert "grad_fn of broken raised KeyError" in drawing.svg


def test_nan_is_marked_where_it_begins() -> None:
    x = leaf([1.0, 0.0])
    y = ag.log(x - 1.0)
    z = y * 0.0
    loss = z.sum()
    loss.backward()
    view = viz.draw(loss).view
    assert card(view, "y").badges[0] == "first forward: 1 of 2 NaN · 1 of 2 Inf"
    assert [c.name for c in view.cards if any(badge.startswith("first backward") for badge in c.badges)] != []
    assert card(view, "z").badges[0].startswith("value: ")


def test_second_order_and_nodes_as_gradients() -> None:
    x = leaf(2.0)
    tape = ag.Tape()
    with tape:
        y = x**3
    tape.backward(y, create_graph=True)
    assert slot(viz.draw(y).view, "x").array.line() == "12"
    slope = x.grad
    assert "12" in viz.draw(slope).text


def test_a_leaf_with_another_value_since_says_so() -> None:
    W = leaf([1.0])
    loss = (W * 2.0).sum()
    W.value = nc.ones((1,))
    assert card(viz.draw(loss).view, "W").lines == ("has a new value since this graph was made",)


def test_a_tape_draws_its_last_nodes() -> None:
    x = leaf(2.0)
    with ag.Tape() as tape:
        y = x * 2.0
        loss = y * y
        other = y + 1.0  # noqa: F841 - the picture finds its name
    tape.backward(loss)
    view = viz.draw(tape).view
    assert view.name == "loss" and view.card(view.root).name == "loss"
    assert slot(view, "other").state == "unreached"


@pytest.mark.parametrize("given", [3.0, None, "x", [1.0]])
def test_what_is_no_graph_is_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match="a Node or a Tape"):
        viz.draw(given)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="has no graph"):
        viz.draw(nc.ones((2,)))
    with pytest.raises(ArgumentError, match="direction"):
        viz.draw(leaf(1.0), direction="up")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="theme"):
        viz.draw(leaf(1.0), theme="neon")


def long_chain(count: int) -> Any:
    """A chain of nodes made without running a kernel for each."""
    value = nc.ones(())
    node = leaf(1.0, name="x")
    for _ in range(count):
        node = ag.Node(value, lambda g: [g], [node], op_name="step", operands=(node,))
    return node


def test_sixty_thousand_nodes_are_folded(svg_reader: Any) -> None:
    root = long_chain(60_000)
    drawing = viz.draw(root)
    assert [c.title for c in drawing.view.cards] == ["x", "step × 59 999", "root = step(…)"]
    assert svg_reader.read(drawing.svg).faults(drawing.view) == []
    root.op_name = "end"
    drawing = viz.draw(_woven(root))
    assert "more nodes" in drawing.text and len(drawing.view.cards) <= 60
    picture = svg_reader.read(drawing.svg)
    assert picture.faults(drawing.view) == [] and picture.width <= 720
    hidden = 60_002 - sum(c.kind in ("op", "root", "leaf") for c in drawing.view.cards)
    assert f"… {hidden:,} more nodes".replace(",", " ") in drawing.svg


def _woven(root: Any) -> Any:
    """The same chain with every op of another name: nothing repeats."""
    for i, node in enumerate(ag.build_topo(root)[1:]):
        node.op_name = f"op{i}"
    return ag.Node(root.value, lambda g: [g], [root], op_name="last", operands=(root,), name="root")


def recurrent(steps: int) -> Any:
    W, V, b = leaf(np.eye(2) * 0.5, name="W"), leaf(np.ones((2, 2)), name="V"), leaf(np.zeros(2), name="b")  # noqa: N806
    h = x = nc.Tensor.from_host(np.ones((1, 2)))
    for _ in range(steps):
        h = ag.tanh(h @ W + x @ V + b)
    loss = h.sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("steps", [2, 5, 80])
def test_shared_weights_are_drawn_once_for_each_far_use(svg_reader: Any, steps: int) -> None:
    drawing = viz.draw(recurrent(steps))
    view = drawing.view
    picture = svg_reader.read(drawing.svg)
    assert picture.faults(view) == [] and picture.width <= 720 and picture.least_text >= 10.99
    folds = [c.title for c in view.cards if c.kind == "fold"]
    assert folds == (["× 79"] if steps == 80 else [])
    uses = [c.use for c in view.cards if c.kind == "use" and c.name == "W"]
    assert uses and all(use.endswith(f"of {steps}") for use in uses)
    assert len([c for c in view.cards if c.name == "W" and c.kind == "leaf"]) == 1


SCRIPT = """
import sys
import numpy as np
from netcl import autograd as ag, viz
import netcl as nc
a = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
b = ag.tensor([0.5, -1.0], requires_grad=True)
params = {"W": ag.tensor(np.eye(2), requires_grad=True), "V": ag.tensor(np.ones((2, 2)), requires_grad=True)}
data = nc.Tensor.from_host(np.ones((3, 2)))
h = ag.tanh(data @ params["W"] + b)
loss = ((h @ params["V"]) ** 2).sum() + (a * a + b).mean()
loss.backward()
for direction in ("auto", "lr", "td"):
    drawing = viz.draw(loss, direction=direction)
    sys.stdout.buffer.write((drawing.svg + drawing.text + drawing.dot + repr(drawing)).encode())
"""


def test_the_same_bytes_whatever_the_hash_seed_and_the_system_dot(python: Any, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "dot"
    fake.parent.mkdir()
    fake.write_text(f"#!{sys.executable}\nraise SystemExit('asked')\n")
    fake.chmod(0o755)
    with_dot = f"{fake.parent}{os.pathsep}{os.environ['PATH']}"
    runs = [python(SCRIPT, PYTHONHASHSEED=seed) for seed in ("0", "4242")]
    runs.append(python(SCRIPT, PYTHONHASHSEED="7", PATH=with_dot))
    assert [run.stderr for run in runs] == [""] * 3
    assert len({run.stdout for run in runs}) == 1 and "∂loss/∂" in runs[0].stdout
    assert "0x" not in runs[0].stdout and str(tmp_path) not in runs[0].stdout


def test_drawn_twice_it_is_the_same_and_no_id_stands_in_it() -> None:
    one, two = seeds_example(), seeds_example()
    assert one.svg == two.svg and one.text == two.text and one.dot == two.dot
    for forbidden in (" id=", "url(", "href", "<style", "<script"):
        assert forbidden not in one.svg


def test_formulas_are_small_enough_to_read() -> None:
    x = leaf(0.5)
    y = x
    for _ in range(30):
        y = ag.sin(y)
    y.backward()
    formulas = [c.slot.formula for c in viz.draw(y).view.cards if c.slot]
    assert max(map(len, formulas)) <= 28
    assert symbolic.size(ex.parse("a + b")) == 3
