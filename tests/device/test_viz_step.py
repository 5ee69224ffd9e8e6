"""Stepping through real passes: the numbers are those of the pass, predictions are answered by their cause, and the
graph stays as it was. Widgets are driven by setting what their controls hold."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import viz
from netcl.errors import ArgumentError, GraphError
from netcl.viz.behind import behind, measured
from netcl.viz.follow import follow, heading
from netcl.viz.nudge import forward, nudge
from netcl.viz.replay import Replay, replay
from netcl.viz.stepper import Stepper
from netcl.viz.tools import FOLLOW, KERNEL, NOTHING, NUDGE

pytestmark = pytest.mark.usefixtures("on_device")

X = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def leaf(value: Any, **more: Any) -> Any:
    return ag.tensor(value, requires_grad=True, **more)


def fork() -> Any:
    a, b = leaf(2.0, name="a"), leaf(3.0, name="b")
    return a * b + a**2


def seeds_example() -> Any:
    x = leaf(X, name="x")
    y = (x + 1.0) ** 2
    z = 3.0 * y
    return z.sum()


def network() -> Any:
    x = ag.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]])
    w = leaf([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]], name="W")
    c = leaf([0.1, -0.3], name="c")
    h = ag.tanh(x @ w + c)
    h.name = "h"
    return (h * h).mean()


GRAPHS = {"fork": fork, "seed": seeds_example, "network": network}


def card_key(run: Replay, name: str) -> int:
    return next(card.key for card in run.view.cards if card.name == name and card.kind != "use")


# The steps of real graphs


def test_the_fork_step_by_step() -> None:
    steps = viz.step(fork()).run.passage.steps
    assert [step.rule for step in steps[1:]] == [
        "upstream 1 × 1", "upstream 1 × 1", "upstream 1 × (2a = 4)", "upstream 1 × (b = 3)", "upstream 1 × (a = 2)",
    ]  # fmt: skip
    assert steps[4].sentence.endswith("1 × 3 = 3 is added to what ∂f/∂a holds: 4 + 3 = 7.".replace("∂f", "∂loss"))
    assert steps[4].source == "return a * b + a**2" and steps[4].place.startswith("test_viz_step.py, line ")


def test_the_seeds_example_step_by_step() -> None:
    steps = viz.step(seeds_example()).run.passage.steps
    now = [step.now.line() for step in steps if step.now is not None]
    assert now == ["1", "1 at every entry", "3 at every entry", "[6 12 18; 24 30 36]", "[6 12 18; 24 30 36]"]
    assert [step.rule for step in steps[1:]] == ["spread () → (2, 3)", "× 3", "⊙ 2(x + 1)", "× 1"]
    assert [step.source for step in steps[1:4]] == ["return z.sum()", "z = 3.0 * y", "y = (x + 1.0) ** 2"]


@pytest.mark.parametrize("name", GRAPHS)
def test_what_the_steps_add_up_to_is_the_gradient(name: str) -> None:
    root = GRAPHS[name]()
    run = replay(root)
    root.backward()
    for key, node in run.nodes.items():
        total = sum(
            run.arrays[step.edge] for step in run.passage.ledger(key, run.passage.last) if step.edge is not None
        )
        if node is not run.root:
            assert np.array_equal(total, node.grad.to_host())  # type: ignore[union-attr]
    original = {node.index: node for node in ag.build_topo(root)}
    for node in run.nodes.values():
        assert np.array_equal(node.grad.to_host(), original[node.index].grad.to_host())  # type: ignore[union-attr]


def test_the_rule_reads_what_the_picture_says_that_it_reads() -> None:
    run = viz.step(network()).run
    reads = {step.rule: {run.view.card(key).name for key in step.reads} for step in run.passage.steps[1:]}
    assert reads["const1ᵀ @ G"] == {"const1"} and reads["⊙ (1 − h²)"] == {"h"} and reads["⊙ h"] == {"h"}
    assert reads["× 1 then sum over axis 0"] == set()


def test_the_graph_is_as_it_was() -> None:
    root = fork()
    nodes = ag.build_topo(root)
    stepper = viz.step(root, predict=True)
    stepper.tools.bar.value = KERNEL
    assert all(node.grad is None and node.pass_id == 0 for node in nodes)
    root.backward()
    before = [node.grad for node in nodes]
    viz.step(root)
    viz.filmstrip(root)
    assert all(node.grad is grad for node, grad in zip(nodes, before, strict=True))


def test_the_seed_is_that_of_the_last_pass_and_gradients_over_calls_are_told_apart() -> None:
    x = leaf([1.0, 2.0], name="x")
    y = x * 3.0
    y.backward([1.0, 10.0])
    steps = viz.step(y).run.passage.steps
    assert steps[0].sentence == "The seed: ∂y/∂y = [1 10], given to backward by its caller."
    assert steps[1].now is not None and steps[1].now.line() == "[3 30]"
    y.backward([1.0, 10.0])
    run = viz.step(y).run
    assert run.passage.steps[1].now is not None and run.passage.steps[1].now.line() == "[3 30]"
    assert "gradients add up over calls" in run.notes[0]


def test_a_tape_is_stepped_from_its_last_loss_and_what_has_no_graph_is_refused() -> None:
    x = leaf(2.0, name="x")
    with ag.Tape() as tape:
        one, two = x * x, x * 3.0
    tape.backward(one)
    assert viz.step(tape).run.view.name == "one" and two is not None
    with pytest.raises(ArgumentError, match="no input of it was made with requires_grad=True"):
        viz.step(ag.tensor(1.0))
    with pytest.raises(ArgumentError, match="questions are of the kinds"):
        viz.step(x * x, predict=True, ask=["colour"])
    tape.release()
    with pytest.raises(GraphError, match="released"):
        viz.step(one)


def test_a_leaf_used_many_times_and_folded_nodes_add_up() -> None:
    w, h = leaf(0.9, name="w"), ag.tensor(1.0)
    for _ in range(100):
        h = h * w
    run = viz.step(h).run
    steps = run.passage.ledger(card_key(run, "w"), run.passage.last)
    assert steps[-1].now is not None and steps[-1].now.scalar == pytest.approx(100 * 0.9**99, rel=1e-4)
    assert steps[-1].sentence.startswith("The folded nodes use w too.")


# The widget


@pytest.fixture
def stepper() -> Stepper:
    return viz.step(fork())


def test_controls_go_from_step_to_step(stepper: Stepper) -> None:
    assert (stepper.at, stepper.first.disabled, stepper.next.disabled) == (0, True, False)
    stepper.next.click()
    stepper.next.click()
    assert stepper.at == stepper.slider.value == 2
    stepper.back.click()
    assert stepper.at == 1
    stepper.last.click()
    assert (stepper.at, stepper.next.disabled, stepper.last.disabled) == (5, True, True)
    stepper.first.click()
    assert stepper.at == 0
    stepper.slider.value = 4  # the arrow keys on the slider, and the jump
    assert "4 + 3 = 7" in stepper.below.value and "step 4 of 5" in stepper.picture.value
    stepper.play.value = 5
    assert stepper.at == 5
    with pytest.raises(ArgumentError, match="steps 0 to 5"):
        stepper.at = 6


def test_the_picture_is_held_as_html_and_its_repr_is_the_same_on_every_run(stepper: Stepper) -> None:
    bundle = stepper._repr_mimebundle_()
    assert bundle["text/plain"] == repr(stepper) == "<Stepper of loss: 5 steps>"
    assert set(bundle) == {"text/plain", "application/vnd.jupyter.widget-view+json"}
    assert stepper.picture.value.startswith('<div class="netcl-step netcl-live"><svg')
    assert viz.step(fork()).picture.value == stepper.picture.value
    static = stepper.static
    assert set(static) == {"image/svg+xml", "text/plain"} and static == viz.step(fork()).static
    ET.fromstring(static["image/svg+xml"])


def test_an_error_in_a_callback_is_shown_and_goes_away(stepper: Stepper, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> str:
        raise RuntimeError("no <picture> today")

    monkeypatch.setattr(stepper.frames, "svg", fails)
    stepper.next.click()
    assert "RuntimeError" in stepper.error.value and "no &lt;picture&gt; today" in stepper.error.value
    assert 'role="alert"' in stepper.error.value
    monkeypatch.undo()
    stepper.next.click()
    assert stepper.error.value == ""


def test_an_error_of_an_op_that_cannot_run_again_is_shown() -> None:
    x = leaf(2.0, name="x")
    y = ag.apply_op(lambda v: v * v, lambda g: [g * 2.0 * x.value], x, op_name="square")
    stepper = viz.step(y)
    stepper.tools.bar.value = NUDGE
    stepper.tools.push.click()
    assert "square cannot be run again" in stepper.error.value
    assert stepper.run.passage.steps[1].now is not None and stepper.run.passage.steps[1].now.line() == "4"


# Tools


def test_the_kernel_of_a_step_can_be_seen(stepper: Stepper) -> None:
    stepper.at = 4
    stepper.tools.bar.value = KERNEL
    assert "__kernel void elementwise(" in stepper.tools.kernel.value.replace("\n", " ")
    assert "the sum, +=" in stepper.tools.kernel.value and "µs" not in stepper.tools.kernel.value
    stepper.tools.clock.click()
    assert "µs" in stepper.tools.kernel.value
    stepper.at = 1
    assert "No kernel runs" in stepper.tools.kernel.value and stepper.tools.clock.disabled
    stepper.tools.bar.value = NOTHING


def test_each_step_shows_its_own_kernels_and_bytes() -> None:
    run = viz.step(network()).run
    by_rule = {step.rule: behind(run, step) for step in run.passage.steps}
    assert [kernel.purpose for kernel in by_rule["const1ᵀ @ G"].kernels] == ["the rule"]
    assert "matmul" in by_rule["const1ᵀ @ G"].kernels[0].program
    assert by_rule["⊙ (1 − h²)"].nbytes == 3 * 4 * 4  # G, h and the contribution, (2, 2) float32
    assert measured(run, run.passage.steps[4]) > 0


def test_a_nudge_compares_the_loss_with_the_gradient(stepper: Stepper) -> None:
    stepper.tools.bar.value = NUDGE
    stepper.tools.push.click()
    said = stepper.tools.moved.value
    assert "a moved by 0.01" in said and "Gradient × 0.01 = 7 × 0.01 = 0.07" in said


@pytest.mark.parametrize("name", GRAPHS)
def test_the_loss_moves_as_the_gradient_says(name: str, float64: None) -> None:
    root = GRAPHS[name]()
    run = replay(root)
    for node in run.nodes.values():
        if node.grad_fn is None:
            for index in range(node.value.size):
                found = nudge(run.root, node, node.grad.to_host(), np.ones(()), ("leaf", "loss"), index, by=1e-5)  # type: ignore[union-attr]
                assert found.delta == pytest.approx(found.predicted, rel=2e-3, abs=1e-12)
    assert np.allclose(forward(run.root, {}), root.to_host())


def test_a_nudge_across_a_kink_says_so() -> None:
    x = leaf(-0.001, name="x")
    run = replay(ag.relu(x) * 1.0)
    node = run.nodes[card_key(run, "x")]
    found = nudge(run.root, node, node.grad.to_host(), np.ones(()), ("x", "loss"), 0)  # type: ignore[union-attr]
    assert "kink" in found.sentence and found.slope == 0


def test_an_entry_is_followed_alone() -> None:
    stepper = viz.step(seeds_example())
    stepper.tools.bar.value = FOLLOW
    stepper.tools.entry.value = 5
    stepper.at = 3
    assert "3 × 12 → 36" in stepper.picture.value and "0 + 36 = 36" in stepper.below.value
    texts = [
        t.text for t in ET.fromstring(stepper.picture.value[len('<div class="netcl-step netcl-live">') : -6]).iter()
    ]
    assert "·" in texts and "18" not in texts and "36" in texts
    stepper.tools.bar.value = NOTHING
    assert "·" not in [t for t in stepper.picture.value.split(">") if t.startswith("·<")]


def test_a_followed_entry_reaches_what_it_reaches() -> None:
    run = replay(network())
    trail = follow(run, card_key(run, "W"), 3)  # W[1, 1]
    named = {run.view.card(key).name: set(found) for key, found in trail.involved.items()}
    assert named["W"] == {3} and named["h"] == {1, 3} and named[run.view.name] == {0}
    step = run.passage.ledger(card_key(run, "W"), run.passage.last)[0]
    assert trail.lines[step.number].product.count("×") == 2  # two rows of x read it


def test_an_entry_of_what_has_no_name_is_written_behind_brackets() -> None:
    x = leaf([[1.0, 2.0]], name="x")
    run = replay(((x + 1.0) * x.exp()).sum())
    cards = {card.name: card.key for card in run.view.cards}
    trail = follow(run, cards["x"], 1)
    said = {name: heading(run, trail, key) for name, key in cards.items()}
    assert said["x + 1"].startswith("What has reached (x + 1)[0, 1] (")
    assert said["exp(x)"].startswith("What has reached exp(x)[0, 1] (")
    assert said["x"].startswith("What has reached x[0, 1] (")


def test_what_is_not_finite_or_not_there_is_said_so() -> None:
    x = leaf([1.0, float("nan")], name="x")
    for root, told in (((x * x).sum(), "not finite"), (leaf(np.zeros((0, 3), "f4"), name="e").sum(), "no entries")):
        stepper = viz.step(root)
        stepper.tools.bar.value = NUDGE
        stepper.tools.push.click()
        assert told in stepper.tools.moved.value and stepper.error.value == ""


def test_a_leaf_alone_has_only_its_seed() -> None:
    stepper = viz.step(leaf(2.0, name="x"))
    assert repr(stepper) == "<Stepper of x: 0 steps>" and stepper.next.disabled and stepper.slider.disabled
    ET.fromstring(viz.filmstrip(leaf(2.0)).svg)


# Files


def test_what_repeats_is_folded_in_a_long_pass() -> None:
    h = state = leaf([[1.0, -1.0]], name="state")
    W = leaf([[0.5, 0.0], [0.0, 0.5]], name="W")
    for _ in range(40):
        h = ag.tanh(h @ W + state)
    total = h.sum()
    total.backward()
    stepper = viz.step(total)
    folds = [card for card in stepper.run.view.cards if card.kind == "fold"]
    assert len(folds) == 1 and "39" in folds[0].title
    shown = {card.name: card.key for card in stepper.run.view.cards if card.kind == "leaf"}
    for x in (state, W):  # the steps add up to the whole gradient
        last = stepper.run.passage.ledger(shown[x.name], stepper.run.passage.last)[-1]
        assert last.more == 0 and last.now is not None and last.now.numbers is not None
        assert np.allclose(last.now.numbers, x.grad.to_host(), rtol=1e-6)


def test_a_pass_of_nothing_but_folded_parts_is_cut_to_its_end() -> None:
    x = leaf(np.ones((2, 2)), name="x")
    out = x
    for k in range(40):
        with viz.scope(f"layer {k}"):
            out = ag.tanh(out * 2.0)
    assert viz.step(out.sum()).run.passage.last > 10


@pytest.mark.parametrize("predict", [False, True])
def test_a_png_beside_the_static_picture_is_for_notebooks_that_are_not_trusted(predict: bool) -> None:
    root = leaf(2.0) * 3.0
    assert "image/png" not in viz.step(root, predict=predict).static
    shown = viz.step(root, predict=predict, png=True).static
    assert base64.b64decode(shown["image/png"])[1:4] == b"PNG" and shown["image/svg+xml"].startswith("<svg")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_page_is_as_wide_as_is_said(name: str) -> None:
    root = GRAPHS[name]()
    for page in (480, 720, 1000):
        stepper = viz.step(root, page=page)
        live = ET.fromstring(re.sub("</?div[^>]*>", "", stepper.picture.value))
        assert float(live.attrib["width"]) <= page and not stepper.frames.too_wide
        assert float(ET.fromstring(stepper.static["image/svg+xml"]).attrib["width"]) == page
        assert viz.filmstrip(root, page=page).svg == stepper.static["image/svg+xml"]
        assert ('style="max-width:1000px"' in stepper.picture.value) == (page == 1000)
    assert viz.step(root, page=720).static == viz.step(root).static
    for call in (viz.step, viz.filmstrip):
        with pytest.raises(ArgumentError, match="400 px wide or more, not 10"):
            call(root, page=10)


def test_passes_are_saved_as_pages_and_pictures(tmp_path: Path) -> None:
    stepper = viz.step(fork())
    for source in (stepper, viz.filmstrip(fork())):
        html = source.save(tmp_path / "pass.html").read_text(encoding="utf-8")
        assert "4 + 3 = 7." in html and html.startswith("<!DOCTYPE html>")
        ET.fromstring(source.save(tmp_path / "pass.svg").read_text(encoding="utf-8"))
    root = fork()
    root.backward()
    drawn = viz.draw(root).save(tmp_path / "drawn.html").read_text(encoding="utf-8")
    assert "4 + 3 = 7." in drawn


def test_of_a_node_that_stands_twice_each_step_speaks_of_one_place() -> None:
    a = ag.tensor(3.0, requires_grad=True, name="a")
    f = a * a
    said = viz.filmstrip(f).text
    assert said.count("a stands in it twice. Through this one of its places, f changes by a = 3 for each unit") == 2
