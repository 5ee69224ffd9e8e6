"""What a picture can be asked for: parts folded, a neighbourhood, one lane, tangents, a checkpoint's inside, PNG."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn, viz
from netcl.autograd.modes import modes
from netcl.autograd.scope import scope
from netcl.errors import ArgumentError, GraphError, ShapeError
from netcl.viz import layout, png
from netcl.viz.fold import groups
from netcl.viz.nudge import nudge
from netcl.viz.views import Card, GraphView

pytestmark = pytest.mark.usefixtures("on_device")

RNG = np.random.default_rng(2)


def leaf(value: Any, name: str | None = None) -> Any:
    return ag.tensor(value, requires_grad=True, name=name)


def card(view: GraphView, name: str) -> Card:
    (found,) = (each for each in view.cards if each.name == name and each.kind != "use")
    return found


def folds(view: GraphView) -> list[str]:
    return [each.title for each in view.cards if each.kind == "fold"]


def network(blocks: int) -> Any:
    class Block(nn.Module):
        def __init__(self, rng: Any) -> None:
            self.linear, self.act = nn.Linear(4, 4, rng=rng), nn.Tanh()

        def forward(self, x: Any) -> Any:
            return x + self.act(self.linear(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            rng = nc.random.Generator(0)
            self.blocks = [Block(rng) for _ in range(blocks)]
            self.head = nn.Linear(4, 2, rng=rng)

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    x = nc.Tensor.from_host(RNG.normal(size=(3, 4)).astype("f4"))
    loss = (Net()(x) ** 2).mean()
    loss.backward()
    return loss


def test_a_node_knows_its_scope() -> None:
    x = leaf(1.0)
    with scope("outer"), scope("inner") as inner:
        y = x * 2.0
    assert y.scope is inner and y.scope.outer.name == "outer" and (x * 2.0).scope is None
    assert modes.scope is None and x.scope is None


def test_scopes_of_generators_end_in_any_order_and_threads_do_not_see_each_other() -> None:
    x = leaf(1.0)

    def part() -> Any:
        with scope("generator"):
            yield x * 1.0

    suspended = part()
    assert next(suspended).scope.name == "generator"
    with scope("later"):
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append((x * 1.0).scope))
        thread.start()
        thread.join()
        suspended.close()
        assert (x * 1.0).scope.name == "later" and seen == [None]
    assert modes.scope is None
    with pytest.raises(ZeroDivisionError), scope("broken"):
        raise ZeroDivisionError
    assert modes.scope is None


def test_modules_are_scopes_named_by_the_attribute_that_holds_them() -> None:
    view = viz.draw(network(2), fold=True).view
    assert folds(view) == ["blocks[0] (Block)", "blocks[1] (Block)", "head (Linear)"]
    view = viz.draw(network(2), fold=["blocks[1] (Block)", "head (Linear)"]).view
    assert folds(view) == ["blocks[1] (Block)", "head (Linear)"]


def test_a_deep_network_is_folded_where_it_repeats(svg_reader: Any) -> None:
    drawing = viz.draw(network(30))
    assert folds(drawing.view) == ["Block × 29", "blocks[29] (Block)", "head (Linear)"]
    assert card(drawing.view, "Block × 29").lines[-2:] == ("87 nodes", "58 leaves of its own")
    assert svg_reader.read(drawing.svg).faults(drawing.view) == []


def test_folding_by_name_keeps_leaves_and_adds_up_what_comes_back() -> None:
    x = leaf([1.0, 2.0, 3.0], "x")
    with scope("layer 1"):
        y = ag.tanh(x * 2.0) * x
    loss = (y * x).sum()
    loss.backward()
    view = viz.draw(loss, fold="layer 1").view
    assert folds(view) == ["layer 1"] and card(view, "layer 1").lines == ("2 mul · 1 tanh", "3 nodes")
    (into,) = (e for e in view.edges if view.card(e.child).name == "layer 1")
    (past,) = (e for e in view.edges if view.card(e.child).name == "yx" and view.card(e.parent).name == "x")
    assert into.forward == "2 uses" and into.contribution is not None and past.contribution is not None
    total = np.array(into.contribution.cells[0], float) + np.array(past.contribution.cells[0], float)
    assert np.allclose(total, x.grad.to_host(), rtol=1e-3)
    assert card(view, "x").slot.total == "sum of 3 contributions"  # type: ignore[union-attr]
    assert card(view, "x").slot.formula == "", "the formula of a part would be wrong"  # type: ignore[union-attr]
    assert viz.draw(loss, fold="no such part").view.cards == viz.draw(loss).view.cards


def test_what_is_woven_into_the_rest_is_not_folded() -> None:
    x = leaf(1.0, "x")
    first = ag.Node(x.value, lambda g: [g], [x], op_name="a", operands=(x,))
    between = ag.Node(x.value, lambda g: [g], [first], op_name="b", operands=(first,))
    last = ag.Node(x.value, lambda g: [g], [between], op_name="c", operands=(between,))
    end = ag.Node(x.value, lambda g: [g], [last], op_name="d", operands=(last,))
    with scope("part") as part:
        first.scope = last.scope = part
    assert groups([x, first, between, last, end], ["part"]) is None
    assert folds(viz.draw(end, fold="part").view) == []


def test_repeats_are_found_and_what_differs_is_left() -> None:
    x = leaf(np.ones((2, 2), "f4"), "x")
    y = x
    for _ in range(40):
        y = ag.tanh(y + 1.0)
    z = y
    for _ in range(30):
        z = ag.sin(z)
    loss = z.sum()
    loss.backward()
    view = viz.draw(loss).view
    assert folds(view) == ["× 39", "sin × 29"]
    assert card(view, "× 39").lines == ("add · tanh", "78 nodes")
    assert folds(viz.draw(loss, fold=False, time_limit=20).view) == []
    assert len(viz.draw(loss, fold=False).view.cards) == 112


def test_a_neighbourhood_of_a_node_or_of_a_name(svg_reader: Any) -> None:
    x = leaf([1.0, 2.0], "x")
    y = x
    for _ in range(50):
        y = y * x
    middle = y
    for _ in range(50):
        y = ag.tanh(y)
    loss = y.sum()
    loss.backward()
    drawing = viz.draw(loss, around=middle, depth=1)
    assert len(drawing.view.cards) == 4 and drawing.view.name == "loss"
    assert drawing.view.notes[0] == "98 nodes further away are not shown"
    assert drawing.view.card(drawing.view.root).name == "middle"
    assert svg_reader.read(drawing.svg).faults(drawing.view) == []
    assert viz.draw(loss, around="middle", depth=1).view == drawing.view
    assert "seed" not in drawing.text
    assert drawing.text.splitlines()[0].startswith("backward pass of loss")
    x_slot = card(viz.draw(loss, around="x", depth=1).view, "x").slot
    assert x_slot is not None and x_slot.total == "sum of 51 contributions"


def test_a_search_that_finds_nothing_or_too_much_says_so() -> None:
    a, b = leaf(1.0, "weight_a"), leaf(2.0, "weight_b")
    f = a * b
    assert viz.draw(f, around="_a", depth=0).view.cards[0].name == "weight_a"
    with pytest.raises(ArgumentError, match="0 nodes are called 'bias'"):
        viz.draw(f, around="bias")
    with pytest.raises(ArgumentError, match="2 nodes are called 'weight': weight_a, weight_b"):
        viz.draw(f, around="weight")
    with pytest.raises(ArgumentError, match="not in this graph"):
        viz.draw(f, around=leaf(3.0))


@pytest.mark.parametrize("direction", ["auto", "lr", "td"])
@pytest.mark.parametrize("show", ["forward", "backward"])
def test_one_lane_alone(svg_reader: Any, show: Any, direction: Any) -> None:
    X = nc.Tensor.from_host(np.ones((2, 3), "f4"))
    W, b = leaf(np.ones((3, 2), "f4"), "W"), leaf([1.0, 2.0], "b")
    loss = (ag.tanh(X @ W + b) * b).sum()
    loss.backward()
    drawing = viz.draw(loss, show=show, direction=direction)
    picture = svg_reader.read(drawing.svg)
    assert picture.faults(drawing.view) == []
    assert {lane.dashed for lane in picture.lanes} == {show == "backward"}
    assert ("forward: values" in drawing.svg) == (show == "forward")
    assert ("∂loss/∂W" in drawing.svg) == (show == "backward") == ("seed 1" in drawing.svg)
    assert any(each.name == "X" for each in drawing.view.cards) == (show == "forward")
    assert ("backward pass" in drawing.text) == (show == "backward") and drawing.dot.count("dashed") == (
        len(drawing.view.edges) if show == "backward" else 0
    )


def test_tangents_are_those_of_jvp(svg_reader: Any) -> None:
    start, move = RNG.normal(size=(2, 3)).astype("f4"), RNG.normal(size=(2, 3)).astype("f4")
    W = nc.Tensor.from_host(RNG.normal(size=(3, 2)).astype("f4"))

    def f(x: Any) -> Any:
        return (ag.tanh(x @ W + 1.0) ** 2).mean() * ag.exp(x).max()

    x = leaf(start, "x")
    loss = f(x)
    drawing = viz.draw(loss, tangents={x: move})
    _, expected = ag.jvp(f, (start,), (move,))
    slot = card(drawing.view, "loss").slot
    assert slot is not None and slot.state == "tangent" and slot.array is not None and slot.array.scalar is not None
    assert np.isclose(slot.array.scalar, expected.item(), rtol=1e-4)
    assert svg_reader.read(drawing.svg).faults(drawing.view) == [] and drawing.view.show == "tangents"
    assert {lane.dashed for lane in svg_reader.read(drawing.svg).lanes} == {False}
    assert drawing.text.startswith("forward mode: tangents of loss") and "ẋ" in drawing.svg


def test_tangents_of_scalars_are_written_with_their_numbers() -> None:
    a, b = leaf(2.0, "a"), leaf(3.0, "b")
    f = a * b + a**2
    view = viz.draw(f, tangents={a: 1.0, b: 0.5}).view
    said = {view.card(e.parent).name + "→" + view.card(e.child).name: e.numbers for e in view.edges}
    assert said["a→ab"] == "tangent 1 × (b = 3) → 3" and said["b→ab"] == "tangent 0.5 × (a = 2) → 1"
    assert said["a→a²"] == "tangent 1 × (2a = 4) → 4"
    assert card(view, "ab").slot.total == "3 + 1 = 4" and card(view, "a").caption == "ȧ"  # type: ignore[union-attr]
    still = viz.draw(f, tangents={b: 1.0}).view
    assert card(still, "a").slot.note == "stands still"  # type: ignore[union-attr]
    assert card(still, "a²").slot.note == "does not move"  # type: ignore[union-attr]


def test_tangents_pass_ops_that_have_only_a_rule_for_backward() -> None:
    x = leaf([1.0, 2.0], "x")
    y = ag.apply_op(lambda v: v * v, lambda g: [g * x.value * 2.0], x, op_name="mine")
    slot = card(viz.draw(y.sum(), tangents={x: [1.0, 10.0]}, names={}).view, "y").slot
    assert slot is not None and slot.array is not None and slot.array.cells == (("2", "40"),)
    checked = ag.checkpoint(lambda v: v * v)(x)
    slot = card(viz.draw(checked.sum(), tangents={x: [1.0, 10.0]}).view, "checked").slot
    assert slot is not None and slot.array is not None and slot.array.cells == (("2", "40"),)


def test_tangents_that_do_not_fit_are_refused() -> None:
    x = leaf([1.0, 2.0], "x")
    with pytest.raises(ShapeError, match=r"shape \(3,\) came for a leaf of shape \(2,\)"):
        viz.draw(x * 2.0, tangents={x: [1.0, 2.0, 3.0]})
    with pytest.raises(ArgumentError, match="leaves of the graph"):
        viz.draw(x * 2.0, tangents={leaf(1.0): 1.0})


def test_a_checkpoint_can_be_looked_into() -> None:
    x, W = leaf([1.0, 2.0], "x"), leaf([0.5, 0.25], "W")
    z = x * 1.0

    def f(v: Any) -> Any:
        return ag.tanh(v * W) ** 2

    h = ag.checkpoint(f)(z)
    loss = h.sum()
    loss.backward()
    before = [(node.grad, node.pass_id) for node in (x, W, z, h)]
    view = viz.draw(loss).view
    (edge,) = (e for e in view.edges if view.card(e.parent).name == "z")
    assert edge.rule == "back through it, run again"
    inside = viz.draw(h, inside=True).view
    assert [c.title for c in inside.cards] == ["W", "z", "zW", "tanh(zW)", "h = tanh(zW)²"]
    assert np.allclose(np.array(card(inside, "z").slot.array.cells[0], float), z.grad.to_host(), rtol=1e-3)  # type: ignore[union-attr]
    assert [(node.grad, node.pass_id) for node in (x, W, z, h)] == before
    with pytest.raises(ArgumentError, match="only the result of ag"):
        viz.draw(loss, inside=True)


def test_a_fused_node_shows_its_formula_and_its_partial() -> None:
    x, w, b = leaf([[1.0, 2.0], [3.0, 4.0]], "x"), leaf([0.5, 0.25], "w"), leaf(0.5, "b")

    def scaled(x: Any, w: Any, b: Any) -> Any:
        return ((x * w + b) ** 2).mean()

    loss = ag.fuse(scaled)(x, w, b)
    loss.backward()
    view = viz.draw(loss, names={}).view
    assert [(c.title, c.op, c.lines) for c in view.cards][-1] == (
        "loss = mean((xw + b)²)", "fused scaled", ("4 ops in one kernel",),
    )  # fmt: skip
    said = {view.card(e.parent).name: (e.rule, e.after) for e in view.edges}
    assert said == {
        "x": ("spread () → (2, 2), ÷ 4, ⊙ 2w·(xw + b)", ""),
        "w": ("spread () → (2, 2), ÷ 4, ⊙ 2x·(xw + b)", "sum over axis 0"),
        "b": ("spread () → (2, 2), ÷ 4, ⊙ 2(xw + b)", "sum over every entry"),
    }
    z = x.to_host() * w.to_host() + 0.5  # each contribution, from what its label says
    assert np.allclose(x.grad.to_host(), np.ones((2, 2)) / 4 * 2 * w.to_host() * z)
    assert np.allclose(w.grad.to_host(), (np.ones((2, 2)) / 4 * 2 * x.to_host() * z).sum(0))
    assert np.allclose(b.grad.to_host(), (np.ones((2, 2)) / 4 * 2 * z).sum())


def test_a_fused_node_in_a_graph_has_formulas_and_numbers() -> None:
    a = leaf(2.0, "a")
    y = ag.fuse(lambda a: 3.0 * (a + 1.0) ** 2)(a)
    y.backward()
    view = viz.draw(y, names={y: "y"}).view
    assert [c.title for c in view.cards] == ["a", "y = 3(a + 1)²"]
    assert view.edges[0].numbers == "upstream 1 × 6(a + 1) → 18"
    assert card(view, "a").slot.formula == "6(a + 1)"  # type: ignore[union-attr]
    moving = viz.draw(y, tangents={a: 0.5}, names={y: "y"}).view
    assert card(moving, "y").slot.array.cells == (("9",),)  # type: ignore[union-attr]
    long = ag.fuse(lambda a: ag.sin(ag.exp(a) + ag.tanh(a) * a / (a * a + 1.0)) * ag.cos(a * ag.sigmoid(a) - 0.5))(a)
    long.backward()
    (edge,) = viz.draw(long, names={long: "long"}).view.edges
    assert edge.rule == "back through it, computed again"
    assert card(viz.draw(long, names={long: "long"}).view, "long").title == "long = fused(a)"


def test_a_fused_node_can_be_looked_into() -> None:
    x, w = leaf([1.0, 2.0], "x"), leaf([0.5, 0.25], "w")

    def scaled(x: Any) -> Any:
        h = ag.tanh(x * w)
        return (h * h).sum()

    loss = ag.fuse(scaled)(x)
    loss.backward()
    before = [(node.grad, node.pass_id) for node in (x, w, loss)]
    view = viz.draw(loss, inside=True, names={}).view
    assert [c.title for c in view.cards] == ["x", "w", "xw", "tanh(xw)", "tanh(xw)²", "loss = sum(tanh(xw)²)"]
    for node in (x, w):
        assert node.name is not None
        shown = card(view, node.name).slot.array  # type: ignore[union-attr]
        assert np.allclose(np.array(shown.cells[0], float), node.grad.to_host(), rtol=1e-3)  # type: ignore[union-attr]
    assert [(node.grad, node.pass_id) for node in (x, w, loss)] == before
    x.value = x.value * 2.0
    with pytest.raises(GraphError, match="new value"):
        viz.draw(loss, inside=True)


def test_a_fused_node_is_stepped_and_nudged() -> None:
    x = leaf([0.5, -1.0], "x")
    loss = ag.fuse(lambda x: (ag.tanh(x * 2.0 + 0.5) ** 2).sum())(x)
    loss.backward()
    assert repr(viz.step(loss, names={loss: "loss"})) == "<Stepper of loss: 1 step>"
    moved = nudge(loss, x, x.grad.to_host(), np.ones(()), ("x", "loss"), 0)
    assert moved.after - moved.before == pytest.approx(moved.slope * 0.01, rel=0.05)
    assert "x → loss" in viz.trace(x, to=loss, names={loss: "loss"}).text


def test_the_kernels_of_a_fused_node_are_listed() -> None:
    x = leaf([1.0, 2.0], "x")
    loss = ag.fuse(lambda x: (ag.tanh(x) ** 2).sum())(x)
    loss.backward()
    table = viz.kernels(loss)
    assert [(row.lane, row.op, len(row.kernels)) for row in table.rows] == [
        ("forward", "fused", 1), ("backward", "fused", 1)
    ]  # fmt: skip
    assert all("tanh" in source for source in table.sources.values()) and len(table.sources) == 2
    assert viz.trace(loss).text.splitlines()[0].startswith("loss = sum(tanh(x)²): fused")


def test_a_second_order_graph_names_gradients_and_the_seed() -> None:
    x = leaf(2.0, "x")
    y = x**3
    ag.Tape().backward(y, create_graph=True)
    slope = x.grad
    assert [c.title for c in viz.draw(slope, names={slope: "slope"}).view.cards] == [
        "x", "seed", "x²", "3x²", "slope = seed·3x²",
    ]  # fmt: skip
    curve = slope * 1.0
    del slope
    assert any(c.title.startswith("x.grad = ") for c in viz.draw(curve).view.cards)


def test_png_is_offered_and_saved(tmp_path: Path) -> None:
    x = leaf([1.0, 2.0])
    drawing = viz.draw((x * x).sum(), png=True)
    bundle = drawing._repr_mimebundle_()
    data = base64.b64decode(bundle["image/png"])
    assert data == drawing.png and drawing.save(tmp_path / "x.PNG").read_bytes() == data
    units = float(drawing.svg.split('width="')[1].split('"')[0])
    assert abs(png.size(data)[0] - png.ZOOM * units) <= 2
    assert "image/png" not in viz.draw(x * x)._repr_mimebundle_()
    assert len(set(data)) > 100, "something is drawn"


def test_png_without_resvg_or_without_fonts_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = viz.draw(leaf(1.0, "x") * 2.0)
    monkeypatch.setattr(png, "_writes", lambda: False)
    with pytest.raises(ArgumentError, match="need a font"):
        drawing.png  # noqa: B018
    monkeypatch.setattr(png, "resvg_py", None)
    with pytest.raises(ArgumentError, match=r"pip install netcl\[png\]"):
        drawing.png  # noqa: B018


def test_a_time_limit_gives_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "dot"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setattr(layout, "_bundled", lambda: str(slow))
    x = leaf([1.0, 2.0], "x")
    drawing = viz.draw((x * x).sum(), time_limit=0.2)
    assert "shown as a table: the layout took longer than its time limit" in drawing.svg


def test_a_thousand_cards_are_laid_out_without_graphviz(monkeypatch: pytest.MonkeyPatch, svg_reader: Any) -> None:
    def refuse(*_: Any) -> str:
        raise AssertionError("asked")

    monkeypatch.setattr(layout, "_run_dot", refuse)
    nodes = [leaf(1.0)]
    for i in range(400):
        nodes.append(nodes[-1] * nodes[int(RNG.integers(max(i - 5, 0), i + 1))])
    drawing = viz.draw(nodes[-1], fold=False)
    assert len(drawing.view.cards) >= 401
    assert svg_reader.read(drawing.svg).faults(drawing.view, cut=True) == []


def test_a_page_is_as_wide_as_is_said() -> None:
    a = leaf(2.0, "a")
    f = a * leaf(3.0, "b") + a**2
    wide, narrow = viz.draw(f), viz.draw(f, page=400)
    assert wide.view == narrow.view and 'width="400"' in narrow.svg and 'width="400"' not in wide.svg
    with pytest.raises(ArgumentError, match="400 px wide or more, not 10"):
        viz.draw(f, page=10)


def test_a_dark_picture_says_the_same() -> None:
    x = leaf([1.0, 2.0], "x")
    y = (x * x).sum()
    light, dark = viz.draw(y), viz.draw(y, theme="dark")
    assert light.view == dark.view and light.svg != dark.svg and "#16191d" in dark.svg


def test_the_line_that_made_a_node_names_it_and_not_a_loop_that_ended_there() -> None:
    node = None
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()
    for node in (x, loss):
        assert node is not None
    assert [card.name for card in viz.draw(loss).view.cards if card.kind != "op"] == ["x", "loss"]
