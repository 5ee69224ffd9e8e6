"""Tables, kernels, timelines, memory and comparisons: each says what was, and changes nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import Tensor, viz
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import ArgumentError
from netcl.viz.compare import ArrayComparison, GraphComparison
from netcl.viz.memory import own_bytes

pytestmark = pytest.mark.usefixtures("on_device")

RNG = np.random.default_rng(5)


def leaf(value: Any, name: str | None = None) -> Any:
    return ag.tensor(value, requires_grad=True, name=name)


def perceptron(ran: bool = True) -> Any:
    X = Tensor.from_host(RNG.normal(size=(8, 4)).astype("f4"))
    W, b = leaf(RNG.normal(size=(4, 3)).astype("f4"), "W"), leaf(np.zeros(3, "f4"), "b")
    loss = (ag.tanh(X @ W + b) ** 2).mean()
    if ran:
        loss.backward()
    return loss


def state(root: Any) -> list[Any]:
    return [(node.value, node.grad, node.pass_id, list(node.parents)) for node in ag.build_topo(root)]


@pytest.mark.parametrize("ran", [True, False])
def test_reports_change_nothing(ran: bool) -> None:
    with ag.Tape() as tape, ag.detect_anomaly():
        loss = perceptron(ran)
        before, recorded = state(loss), list(tape.nodes)
        for report in (
            viz.table(loss),
            viz.kernels(loss),
            viz.memory(loss),
            viz.timeline(loss),
            viz.compare(loss, loss),
        ):
            assert report.text and str(report) == report.text and "\n" not in repr(report)
            bundle = report._repr_mimebundle_()
            assert bundle["text/plain"] == report.text and all(bundle.values())
            if "image/svg+xml" in bundle:
                root = ET.fromstring(bundle["image/svg+xml"])
                assert float(root.attrib["width"]) <= 720 and " id=" not in bundle["image/svg+xml"]
        assert state(loss) == before and tape.nodes == recorded


def test_a_table_is_html_too_and_escapes_what_users_chose() -> None:
    x = leaf(2.0, "</td><script>")
    y = x * x
    y.backward()
    table = viz.table(y, names={y: "loss"})
    assert "<script" not in table.html and "&lt;script&gt;" in table.html
    assert ET.fromstring(f"<div>{table.html}</div>").find(".//tbody") is not None
    assert table.text.startswith("backward pass of loss = 4") and "2 + 2 = 4" in table.text
    assert "text/html" in table._repr_mimebundle_()


def test_a_table_of_many_nodes_is_folded() -> None:
    x = leaf(1.0, "x")
    y = x
    for _ in range(300):
        y = y + 1.0
    assert "more nodes" in viz.table(y).text and "more nodes" not in viz.table(y, most=500).text


def test_kernels_are_those_that_the_ops_run() -> None:
    loss = perceptron()
    found = viz.kernels(loss)
    by_op = {(row.lane, row.op): row for row in found.rows}
    assert [row.lane for row in found.rows] == ["forward"] * 5 + ["backward"] * 5
    tanh = by_op["forward", "tanh"]
    assert len(tanh.kernels) == 1 and "tanh(v0)" in found.sources[tanh.kernels[0]]
    assert tanh.nbytes == 2 * 8 * 3 * 4
    assert by_op["backward", "tanh"].nbytes == 3 * 8 * 3 * 4
    assert by_op["backward", "add"].kernels[-1].startswith("fold")
    assert all(row.time is None for row in found.rows) and "time" not in found.text.splitlines()[2]
    assert found.text == viz.kernels(loss).text, "the same on every run"
    assert len(viz.kernels(loss, backward=False).rows) == 5


def test_kernels_of_one_node_come_with_their_source() -> None:
    x = leaf([1.0, 2.0], "x")
    text = viz.kernels(ag.exp(x * 2.0), alone=True, backward=False).text
    assert "__kernel void elementwise" in text and "exp(v0)" in text and "mul" not in text


def test_views_run_no_kernel_and_custom_ops_run_again() -> None:
    x = leaf(np.ones((2, 3)), "x")
    view = viz.kernels(x.T, alone=True, backward=False)
    assert view.rows[0].kernels == () and view.rows[0].nbytes == 0 and "none: a view" in view.text
    y = ag.apply_op(lambda v: v * 2.0, lambda g: [g * 2.0], x, op_name="mine")
    rows = viz.kernels(y).rows
    assert rows[0].lane == "forward" and not rows[0].note
    assert len(rows[0].kernels) == 1 and len(rows[1].kernels) == 1


def test_both_kernels_of_an_op_of_ones_own_are_shown() -> None:
    head = "__kernel void {}(__global const float* x, __global float* out) {{ "
    double = nc.kernel(head.format("twice") + "out[get_global_id(0)] = 2 * x[get_global_id(0)]; }")
    back = nc.kernel(head.format("twice_vjp") + "out[get_global_id(0)] = x[get_global_id(0)] * 2; }")
    x = leaf([1.0, 2.0], "x")
    y = ag.apply_op(lambda v: double(v, out=v.shape), lambda g: [back(g, out=g.shape)], x, op_name="twice")
    report = viz.kernels(y)
    assert [row.kernels for row in report.rows if row.lane == "forward"] == [("twice 1",)]
    assert "2 * x[" in report.sources["twice 1"] and "x[get_global_id(0)] * 2" in report.sources["twice_vjp 1"]


def test_kernels_are_timed_on_request() -> None:
    rows = viz.kernels(perceptron(), time=True, repeat=2).rows
    assert all(row.time is not None and row.time > 0 for row in rows)


def test_a_timeline_has_every_command_of_the_pass() -> None:
    loss = perceptron()
    line = viz.timeline(loss)
    labels = [event.label for event in line.events]
    assert labels[0] == "forward X @ W" or labels[0].startswith("forward ")
    assert [label.split()[0] for label in labels] == sorted((label.split()[0] for label in labels), reverse=True)
    assert all(event.called <= event.returned and event.start <= event.end for event in line.events)
    assert all(event.start >= event.called - 1e-3 for event in line.events), "nothing runs before it was called"
    assert line.busy > 0 and "backward" in line.text
    assert not any(
        label.startswith("backward") for label in (e.label for e in viz.timeline(loss, backward=False).events)
    )


def test_a_timeline_of_any_function() -> None:
    def work() -> None:
        (nc.ones((4,)) + 1.0).to_host()

    line = viz.timeline(work)
    assert line.name == "work" and [event.name for event in line.events] == ["fill", "elementwise", "read"]
    assert viz.timeline(lambda: None).events == ()
    assert "0 commands" in viz.timeline(lambda: None).text
    assert ET.fromstring(viz.timeline(lambda: None).svg) is not None


def test_memory_of_the_seeds_example_is_counted_by_hand() -> None:
    x = leaf(np.zeros((2, 3), "f4"), "x")
    with ag.Tape() as tape:
        y = (x + 1.0) ** 2
        loss = (3.0 * y).sum()
    found = viz.memory(tape, names={loss: "loss"})
    assert [(m.lane, m.added, m.live) for m in found.moments] == [
        ("start", 24, 24), ("forward", 24, 48), ("forward", 24, 72), ("forward", 24, 96), ("forward", 4, 100),
        ("backward", 4, 104),
        ("backward", 0, 104),  # sum's gradient is a view of the seed: it is spread, not copied
        ("backward", 24, 128), ("backward", 24, 152), ("backward", 0, 152),  # that of x + 1 is passed on as it is
    ]  # fmt: skip
    assert found.peak.live == 152 and found.name == "loss" and found.pool.active_bytes > 0


def test_memory_without_retained_gradients_and_with_a_checkpoint_is_less() -> None:
    def block(h: Any) -> Any:
        for _ in range(4):
            h = ag.tanh(h * 2.0)
        return h

    x = leaf(np.ones((64, 64), "f4"), "x")
    plain, kept = block(block(x)).sum(), ag.checkpoint(block)(ag.checkpoint(block)(x)).sum()
    every = viz.memory(plain)
    dropped = viz.memory(plain, retain_grads=False)
    less = viz.memory(kept, retain_grads=False)
    assert every.peak.live > dropped.peak.live > less.peak.live
    assert viz.memory(plain, backward=False).moments == every.moments[:18]
    tape = ag.Tape(retain_grads=False)
    with tape:
        _ = x * 2.0
    assert viz.memory(tape).moments[-1].gradients <= 2 * x.value.nbytes


def test_what_broadcasting_repeats_is_counted_once() -> None:
    assert own_bytes(nc.ones((1, 4)).broadcast_to((5, 4))) == 16
    assert own_bytes(nc.ones((3, 4)).T) == 48 and own_bytes(nc.ones((0, 4))) == 0


def test_arrays_are_compared_entry_by_entry() -> None:
    a = np.arange(6.0).reshape(2, 3)
    same = viz.compare(Tensor.from_host(a), a)
    assert isinstance(same, ArrayComparison) and same.found.state == "equal"
    near = viz.compare(a, a * (1 + 1e-7))
    assert isinstance(near, ArrayComparison) and near.found.state == "close"
    b = a.copy()
    b[1, 2] = 7.0
    apart = viz.compare(leaf(a), b)
    assert isinstance(apart, ArrayComparison)
    assert apart.found.at == (1, 2) and apart.found.largest == 2 and apart.found.unequal == 1
    assert "[0 0 0; 0 0 −2]" in apart.text and "a − b" in apart.svg
    other = viz.compare(a, a[0])
    assert isinstance(other, ArrayComparison) and "shapes (2, 3) and (3,)" in other.text


def test_nan_is_compared_with_care() -> None:
    a = np.array([np.nan, 1.0, np.inf])
    for b, said in ((a, "equal"), (np.array([1.0, 1.0, np.inf]), "differs"), (np.array([np.nan, 1.0, 2.0]), "differs")):
        found = viz.compare(a, b)
        assert isinstance(found, ArrayComparison) and found.found.state == said


def test_graphs_are_compared_node_by_node() -> None:
    x = leaf([1.0, 2.0], "x")

    def model(slope: float, more: bool = False) -> Any:
        h = ag.tanh(x * slope)
        return ((h + 1.0) if more else h).sum()

    a, b, c = model(2.0), model(2.5), model(2.0, more=True)
    same = viz.compare(a, model(2.0))
    assert isinstance(same, GraphComparison) and same.first is None and "0 differ" in same.text
    found = viz.compare(a, b)
    assert isinstance(found, GraphComparison)
    assert found.first is not None and found.first.title == "x·2" and found.first.other == "x·2.5"
    assert [pair.says[0].split(":")[0] for pair in found.pairs] == ["equal", "differs", "differs", "differs"]
    longer = viz.compare(a, c)
    assert isinstance(longer, GraphComparison)
    assert [pair.other for pair in longer.pairs if not pair.title] == ["tanh(x·2) + 1"]
    a.backward()
    assert "none in the second" in viz.compare(a, b).text


def test_a_graph_and_a_value_are_not_compared() -> None:
    x = leaf(1.0)
    with pytest.raises(ArgumentError, match="cannot be compared"):
        viz.compare(x * 2.0, 3.0)
    for call in (viz.kernels, viz.memory, viz.timeline, viz.table):
        with pytest.raises(ArgumentError, match="Node"):
            call(3.0)  # type: ignore[arg-type]


def test_reports_are_saved_in_the_formats_that_they_have(tmp_path: Path) -> None:
    loss = perceptron()
    report = viz.memory(loss)
    assert report.save(tmp_path / "m.svg").read_text(encoding="utf-8") == report.svg + "\n"
    assert report.save(tmp_path / "m.txt").read_text(encoding="utf-8") == report.text + "\n"
    with pytest.raises(ArgumentError, match=r"saved as \.txt, not as '\.svg'"):
        viz.kernels(loss).save(tmp_path / "k.svg")


def test_released_graphs_are_reported_as_far_as_they_go(device: Device) -> None:
    x = leaf(2.0)
    with ag.Tape() as tape:
        y = x * x
    tape.backward(y)
    tape.release()
    assert viz.memory(y).moments[-1].lane == "forward"
    assert "cannot run again" in viz.kernels(y).text
