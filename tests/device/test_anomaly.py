"""detect_anomaly: the first NaN or infinity is named, with the op, its place and what it was fed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.errors import AnomalyError

pytestmark = pytest.mark.usefixtures("on_device")


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def line_of(mark: str) -> int:
    """Return the number of this file's line that ends in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"  {mark}")]
    return found


# Without it


def test_a_nan_in_a_label_gives_a_nan_loss_that_is_seen() -> None:
    x, label = leaf([1.0, 2.0, 3.0]), ag.tensor([1.0, float("nan"), 3.0])
    loss = ((x - label) ** 2).mean()
    loss.backward()
    assert np.isnan(loss.item())
    np.testing.assert_array_equal(x.grad.to_host(), [0, np.nan, 0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.max(), lambda x: x.min(), lambda x: x.sum(), lambda x: x.mean(), lambda x: x.relu().sum(),
        lambda x: abs(x).sum(), lambda x: ag.maximum(x, 0.0).sum(), lambda x: ag.minimum(0.0, x).sum(),
        lambda x: x.sigmoid().sum(), lambda x: x.tanh().sum(), lambda x: x @ ag.tensor([0.0, 0.0]),
        lambda x: (0.0 * x).sum(), lambda x: (x - x).sum(), lambda x: ag.where(x > 5.0, 0.0, x).sum(),
        lambda x: ag.sign(x).sum(),
    ],
    ids=["max", "min", "sum", "mean", "relu", "abs", "maximum", "minimum", "sigmoid", "tanh", "matmul", "times 0",
         "x - x", "where", "sign"],
)  # fmt: skip
def test_no_op_hides_a_nan(f: Any) -> None:
    for values in ([float("nan"), 1.0], [1.0, float("nan")]):
        assert np.isnan(f(leaf(values)).item())
        assert np.isnan(f(ag.tensor(values)).item())


def test_an_infinity_goes_through_without_the_mode() -> None:
    x = leaf([0.0, 1.0])
    y = x.log()
    assert y.to_host().tolist() == [-np.inf, 0]
    y.backward()
    assert x.grad.to_host().tolist() == [np.inf, 1]


# Forward


def test_log_of_minus_one_raises_at_the_forward_op() -> None:
    x = leaf([[-1.0, 1.0], [4.0, 2.0]])
    with ag.detect_anomaly():
        harmless = x * 2.0
        with pytest.raises(AnomalyError) as caught:
            ag.log(x)  # the culprit
    text = str(caught.value)
    assert text.startswith("log gave 1 NaN of 4 values")
    assert f"test_anomaly.py, line {line_of('# the culprit')}: ag.log(x)" in text
    assert "(2, 2) float32, min -1, max 4, mean 1.5, 0 NaN, 0 infinite" in text
    assert isinstance(caught.value, RuntimeError)
    assert harmless.to_host()[0, 0] == -2


def test_an_infinite_value_is_an_anomaly_too_and_all_operands_are_told() -> None:
    a, b = leaf([1.0, 2.0, 3.0]), ag.tensor([0.0, 1.0, 0.0])
    with ag.detect_anomaly(), pytest.raises(AnomalyError) as caught:
        ag.div(a, b)
    text = str(caught.value)
    assert text.startswith("div gave 2 infinite of 3 values")
    assert "operand 1: (3,) float32, min 1, max 3, mean 2" in text
    assert "operand 2: (3,) float32, min 0, max 1, mean 0.333333" in text
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"operand 2: 0\.0"):
        ag.div(a, 0.0)


def test_ops_without_a_node_are_watched_too() -> None:
    with ag.detect_anomaly():
        with pytest.raises(AnomalyError, match="log gave 1 NaN"):
            ag.log(ag.tensor([-1.0]))
        with ag.no_grad(), pytest.raises(AnomalyError, match="sqrt gave 1 NaN"):
            leaf([-1.0]).sqrt()


def test_an_op_of_a_users_own_is_named() -> None:
    nan = ag.tensor([float("nan")])
    for x in (leaf([1.0]), ag.tensor([1.0])):
        with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"mine gave 1 NaN.*test_anomaly\.py"):
            ag.apply_op(lambda v: nan, lambda g: [g], x, op_name="mine")


def test_what_is_finite_is_left_alone() -> None:
    x = leaf([[3.0e38, -3.0e38], [1e-45, 0.0]])
    with ag.detect_anomaly():
        y = x * 1.0
        ag.tensor(np.zeros((0, 3), np.float32)).sum()
        (ag.tensor(np.array([1, 2])) + 1).sum()
        (x > 0.0).astype(np.float32).sum()
        y.backward()
    assert x.grad.to_host().tolist() == [[1, 1], [1, 1]]


def test_one_bad_value_among_very_many_is_found() -> None:
    host = np.zeros(1_000_003, np.float32)
    host[777_777] = np.nan
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"add gave 1 NaN of 1000003 values"):
        ag.add(ag.tensor(host), 1.0)


# Backward


def test_of_two_roots_of_zero_the_right_one_is_named_with_its_line() -> None:
    x = leaf([0.0])
    with ag.detect_anomaly():
        first = ag.sqrt(x)  # root one
        second = ag.sqrt(x)  # root two
        with pytest.raises(AnomalyError) as caught:
            (first.detach() + second).sum().backward()
        assert_names(caught.value, "# root two", "second = ag.sqrt(x)")
        with pytest.raises(AnomalyError) as caught:
            (first + second.detach()).sum().backward()
        assert_names(caught.value, "# root one", "first = ag.sqrt(x)")
    assert x.grad is None


def assert_names(error: Exception, mark: str, source: str) -> None:
    text = str(error)
    assert text.startswith("the gradient that sqrt sends back to its operand of shape (1,) has 1 infinite of 1 values")
    assert f"the op was created at test_anomaly.py, line {line_of(mark)}: {source}" in text
    assert "g: (1,) float32, min 1, max 1" in text
    assert "operand 1: (1,) float32, min 0, max 0" in text
    trace = text.partition("created at:")[2]
    assert source in trace and "netcl/autograd" not in trace


def test_two_ops_on_one_line_are_told_apart_by_what_they_were_fed() -> None:
    x, y = leaf([0.0]), leaf([[4.0], [0.0]])
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"operand of shape \(2, 1\)"):
        (ag.sqrt(x + 1.0) + ag.sqrt(y)).sum().backward()


def test_the_cell_and_the_line_are_named_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where another environment is active
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("from netcl import autograd as ag\nx = ag.tensor([0.0], requires_grad=True)", store_history=True)
        with ag.detect_anomaly():
            shell.run_cell("a = ag.sqrt(x)", store_history=True)
            shell.run_cell("# the same again\nb = ag.sqrt(x)", store_history=True)
        loss = (shell.user_ns["a"].detach() + shell.user_ns["b"]).sum()
        count = shell.execution_count
        with ag.detect_anomaly(), pytest.raises(AnomalyError) as caught:
            loss.backward()
    finally:
        InteractiveShell.clear_instance()
    assert f"created at cell {count - 1}, line 2: b = ag.sqrt(x)" in str(caught.value)


@pytest.mark.parametrize("sizes", [(2e38, 2e38), (1e38, 1e38, 2e38)], ids=["two", "three"])
def test_a_gradient_that_overflows_where_contributions_meet_is_an_anomaly(sizes: tuple[float, ...]) -> None:
    x = leaf([0.0])
    loss: Any = sum((x * size for size in sizes[1:]), start=x * sizes[0])
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"1 infinite of 1 values.*\.backward\(\)"):
        loss.backward()
    assert x.pass_id == 0
    loss.backward()
    assert x.grad.to_host().tolist() == [np.inf]


def test_a_bad_seed_is_named() -> None:
    x = leaf([1.0, 2.0])
    with ag.detect_anomaly(), pytest.raises(AnomalyError):
        (x * 2.0).backward([float("nan"), 1.0])
    assert x.grad is None


def test_a_pass_that_finds_an_anomaly_changes_no_gradient() -> None:
    x, w = leaf([0.0, 4.0]), leaf([1.0, 1.0])
    (x * w).backward()
    before = x.grad
    loss = (x.sqrt() * w).sum()
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match="sqrt"):
        loss.backward()
    assert x.grad is before and w.grad.to_host().tolist() == [0, 4]
    loss.backward()
    assert x.grad.to_host().tolist() == [np.inf, 1.25]


# Creation traces and sites


def test_creation_traces_are_kept_in_anomaly_mode_alone() -> None:
    def build() -> Any:
        return leaf([1.0]) * 2.0  # built here

    assert build().creation_trace is None
    with ag.detect_anomaly():
        node = build()
    trace = node.creation_trace
    assert isinstance(trace, list) and all(isinstance(line, str) for line in trace)
    assert f"line {line_of('# built here')}" in trace[-1] and "build" in trace[-1]
    assert "node = build()" in trace[-2]


def test_every_node_knows_its_line_without_the_mode() -> None:
    x = ag.tensor([1.0], requires_grad=True)  # the leaf itself
    y = ag.exp(
        x * 2.0  # the product
    )
    s = y[0]  # its element
    for node, mark in ((x, "# the leaf itself"), (y.parents[0], "# the product"), (s, "# its element")):
        assert node.site.line == line_of(mark)
        assert node.site.describe() == f"test_anomaly.py, line {line_of(mark)}"
        assert node.site.source_line().endswith(mark)
