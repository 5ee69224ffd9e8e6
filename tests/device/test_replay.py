"""ag.replay: the same numbers as eager code, nothing seen to change, and no stale one ever."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn, optim
from netcl.commands import recorded
from netcl.device import Device
from netcl.errors import ArgumentError, GraphError, IndexingError

F = np.float32
SCALE = 2.0


@pytest.fixture(autouse=True)
def on_this_device(on_device: Device) -> Device:
    return on_device


def leaf(data: Any) -> ag.Node:
    return ag.tensor(np.asarray(data, F), requires_grad=True)


def host(x: Any) -> Any:
    return x.to_host().tolist()


def model(seed: int) -> nn.Module:
    rng = nc.random.Generator(seed)
    return nn.Sequential(nn.Linear(3, 5, rng=rng), nn.Tanh(), nn.Linear(5, 4, rng=rng))


def batches(count: int, size: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [(rng.standard_normal((size, 3)).astype(F), rng.integers(0, 4, size)) for _ in range(count)]


def trained(wrap: Callable[[Any], Any], optimizer: Callable[[Any], optim.Optimizer]) -> tuple[list[Any], list[Any]]:
    net = model(0)
    opt = optimizer(net.parameters())
    step = wrap(lambda x, y: ag.cross_entropy(net(x), y))
    losses = []
    for x, y in batches(6):
        opt.zero_grad()
        losses.append(host(step(ag.tensor(x), ag.tensor(y))))
        opt.step()
    return losses, [host(p) for p in net.parameters()]


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    def step(*args: Any) -> Any:
        loss = f(*args)
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize(
    "optimizer",
    [lambda ps: optim.SGD(ps, 0.1, momentum=0.9), lambda ps: optim.AdamW(ps, optim.cosine(0.1, 6))],
    ids=["SGD", "AdamW"],
)
def test_a_replayed_training_is_the_eager_one_bit_by_bit(optimizer: Any) -> None:
    assert trained(ag.replay, optimizer) == trained(eager, optimizer)


def test_it_replays_and_each_shape_has_launches_of_its_own() -> None:
    w = leaf([1, 2, 3])
    step = ag.replay(lambda x: (x * w).sum())
    for rows in (2, 2, 4, 2, 4):
        w.zero_grad()
        assert step(ag.tensor(np.ones((rows, 3), F))).item() == 6 * rows
        assert host(w.grad) == [rows] * 3
    assert step.counts == {"captured": 2, "replayed": 3}


def test_gradients_are_added_and_what_is_held_never_changes() -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda x: ((w * x) ** 2).sum())
    kept = []
    for k, x in enumerate(([1, 1], [2, 0], [0, 3]), 1):
        loss = step(np.asarray(x, F))
        kept.append((loss, loss.item(), w.grad, host(w.grad), w.value, host(w.value)))
        w.value = w.value * 2.0
        assert step.counts == {"captured": 1, "replayed": k - 1}
    # (w x)² with w = (1, 2), (2, 4), (4, 8): its derivative is 2 w x².
    assert [loss for _, loss, *_ in kept] == [5, 16, 576]
    assert [grad for *_, grad, _, _ in kept] == [[2, 4], [18, 4], [18, 148]]
    for loss, then, grad, grad_then, value, value_then in kept:
        assert (loss.item(), host(grad), host(value)) == (then, grad_then, value_then)


def test_arguments_of_every_kind() -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda x, *, k, plus=None: (w * x * k if plus is None else w * x * k + plus).sum())
    for k, expected in ((1, 17.0), (3, 51.0), (1, 17.0), (True, 17.0), (F(0.5), 8.5)):
        assert step(np.asarray([3, 7], F), k=k).item() == expected
    assert step.counts == {"captured": 4, "replayed": 1}  # a number belongs to what was noted
    assert step(ag.tensor([3.0, 7.0]), k=1, plus=ag.tensor([1.0, 1.0])).item() == 19
    grid = ag.tensor(np.arange(8, dtype=F).reshape(2, 4))
    for x in (grid.T[1], grid[0, 1:3], grid[:, 3]):  # views, with strides and offsets
        assert step(x, k=1).item() == (x.to_host() * [1, 2]).sum()
    assert step.counts["captured"] == 5

    other = leaf([10, 20])
    through = ag.replay(lambda v: (v * v).sum())
    for _ in range(2):
        through(other)
        through(w)
    assert host(other.grad) == [40, 80] and through.counts == {"captured": 2, "replayed": 2}
    with pytest.raises(ArgumentError, match=r"given <Node mul .*pass \.detach"):
        through(w * 2.0)
    with pytest.raises(ArgumentError, match="given a list: pass its entries"):
        through([w])


def test_all_that_f_returns_comes_back_the_loss_first() -> None:
    w = leaf([[1, 2], [3, 4]])

    def scores(x: Any) -> Any:
        y = x @ w
        return (y * y).sum(), y, y.T, x

    step = ag.replay(scores)
    for x in ([[1.0, 0.0]], [[0.0, 2.0]]):
        w.zero_grad()
        loss, y, turned, same = step(ag.tensor(x))
        expected = np.asarray(x, F) @ np.asarray([[1, 2], [3, 4]], F)
        assert loss.item() == (expected**2).sum() and host(y) == expected.tolist() and host(same) == x
        assert host(turned) == expected.T.tolist()
        assert host(w.grad) == (2 * np.asarray(x, F).T @ expected).tolist()
    assert step.counts["replayed"] == 1
    with pytest.raises(ArgumentError, match="returns tensors, the loss first, not float"):
        ag.replay(lambda: ((w * w).sum(), 1.0))()
    with pytest.raises(GraphError, match="has no graph"):
        ag.replay(lambda x: x.sum())(ag.tensor([1.0]))


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda w: w.sum() if w.sum().item() > 0 else -w.sum(), "reads a value on the host"),
        (lambda w: (w * np.ones(3, F)).sum(), "copies an array from the host"),
        (lambda w: (w[ag.tensor([0, 1], dtype=int)]).sum(), "from the host|on the host"),
        (lambda w: ag.dropout(w, 0.5, 7, 0).sum(), "draws random numbers"),
        (lambda w: (w * nc.random.normal(3, seed=1)).sum(), "draws random numbers"),
    ],
)
def test_what_a_replay_would_leave_out_is_refused(f: Any, said: str) -> None:
    w = leaf([1, 2, 3])
    step = ag.replay(f)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=said):
            step(w)
    assert w.grad is None
    assert host(w * 2.0) == [2, 4, 6]  # and the device is as it was
    assert host(ag.tensor([1.0])) == [1]


def test_what_f_keeps_for_itself_is_refused() -> None:
    w, kept = leaf([1, 2]), []
    norm = nn.BatchNorm(2)

    def keep() -> Any:
        kept.append(w * 3.0)
        return kept[-1].sum()

    def move() -> Any:
        loss = (w * w).sum()
        w.value = w.value - 0.5
        return loss

    for f in (keep, move, lambda: (norm(w.reshape(1, 2) * ag.reshape(w, (2, 1)))).sum()):
        with pytest.raises(ArgumentError, match=r"keeps \d of its tensors beyond its end"):
            ag.replay(f)()
    norm.eval()
    step = ag.replay(lambda x: norm(x * w).sum())
    x = ag.tensor(np.ones((2, 2), F))
    first = [step(x).item() for _ in range(2)]
    assert first[0] == first[1] == norm(x * w).sum().item() and step.counts["replayed"] == 1
    norm.running_mean = norm.running_mean + 1.0  # state that is no parameter
    assert step(x).item() == norm(x * w).sum().item() != first[0]


def test_what_f_reaches_by_name_is_looked_up_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    w, weight = leaf([1, 2]), 1.0
    settings, entries = {"power": 1}, [3.0]

    class Loss:
        def __init__(self) -> None:
            self.bias = 0.5

        def __call__(self, x: Any) -> Any:
            return (x * SCALE + self.bias).sum()

    def inner(x: Any) -> Any:
        return x * weight

    loss = Loss()
    step = ag.replay(lambda: loss(inner(w) ** settings["power"]) + entries[0])
    # Σ (2 (weight w)^power + bias) + entry, w = (1, 2)
    assert [step().item(), step().item()] == [10, 10]
    assert step.counts == {"captured": 1, "replayed": 1}
    weight = 2.0
    assert step().item() == 16
    loss.bias = 1.5
    assert step().item() == 18
    settings["power"] = 2
    assert step().item() == 46
    entries[0] = 0.0
    assert step().item() == 43
    monkeypatch.setitem(globals(), "SCALE", -2.0)
    assert step().item() == -37
    weight, loss.bias = float("2"), 1.5  # equal, if not the same object
    assert step().item() == -37
    assert step.counts == {"captured": 6, "replayed": 2}


def test_a_model_in_training_is_not_replayed_in_evaluation() -> None:
    w = leaf([1, 2, 3, 4])
    drop = nn.Dropout(0.5, rng=0)
    drop.eval()
    step = ag.replay(lambda: drop(w).sum())
    assert [step().item() for _ in range(3)] == [10, 10, 10]
    drop.train()
    with pytest.raises(ArgumentError, match="draws random numbers"):
        step()
    drop.eval()
    assert step().item() == 10


def test_a_parameter_that_is_frozen_gets_no_gradient() -> None:
    a, b = leaf([1, 2]), leaf([3, 4])
    step = ag.replay(lambda: (a * b).sum())
    assert step().item() == step().item() == 11
    b.requires_grad = False
    a.zero_grad()
    b.zero_grad()
    b.value = b.value * 10.0
    for k in (1, 2):
        assert step().item() == 110 and host(a.grad) == [30 * k, 40 * k] and b.grad is None
    b.value = b.value * 0.5  # a new value is seen, trained or not
    assert step().item() == 55
    assert step.counts == {"captured": 2, "replayed": 3}


def test_a_value_that_is_only_read_is_that_of_the_day() -> None:
    w, target = leaf([1, 2]), leaf([5, 5])
    step = ag.replay(lambda: ((w - target.detach()) ** 2).sum())
    assert [step().item(), step().item()] == [25, 25]
    target.value = target.value - 4.0
    assert step().item() == 1 and target.grad is None


def test_two_parameters_over_one_memory_do_not_become_one() -> None:
    a, b = leaf([1, 2]), leaf([0, 0])
    b.value = a.value
    step = ag.replay(lambda: (a * b + a).sum())
    assert step().item() == 8
    b.value = ag.tensor([10.0, 10.0])
    assert [step().item(), step().item()] == [33, 33]
    assert host(b.grad) == [3, 6]
    assert step.counts == {"captured": 2, "replayed": 1}


def test_an_argument_that_is_a_parameter_or_a_constant_too() -> None:
    w, constant = leaf([1, 2]), ag.tensor([3.0, 4.0])
    step = ag.replay(lambda x, y: (w * x + constant * y).sum())
    assert step(w.value, constant).item() == 1 + 4 + 9 + 16
    other = ag.tensor([10.0, 10.0])
    assert step(other, other).item() == 30 + 70
    assert step(constant, w.value).item() == 3 + 8 + 3 + 8
    assert step.counts == {"captured": 1, "replayed": 2}


def test_labels_are_checked_at_every_call() -> None:
    w = leaf(np.eye(3))
    step = ag.replay(lambda x, labels: ag.cross_entropy(x @ w, labels))
    x = np.eye(3, dtype=F)
    good = [step(x, np.array(labels)).item() for labels in ([0, 1, 2], [2, 1, 0])]
    grad = host(w.grad)
    with pytest.raises(IndexingError, match=r"label 3 at \(1,\)"):
        step(x, np.array([0, 3, 1]))
    assert host(w.grad) == grad
    assert step(x, np.array([0, 1, 2])).item() == good[0] != good[1]
    assert step.counts == {"captured": 1, "replayed": 2}
    with pytest.raises(ArgumentError, match="reads a value"):  # labels that were computed on the way
        ag.replay(lambda x, labels: ag.cross_entropy(x @ w, labels + 1))(x, np.array([0, 1, 0]))


def test_fused_checkpointed_and_own_ops_within() -> None:
    rng = np.random.default_rng(0)
    w, kernel = leaf(rng.standard_normal((4, 4))), leaf(rng.standard_normal((2, 1, 3, 3)))
    fused = ag.fuse(lambda v: (ag.tanh(v * 2.0) + v) ** 2)
    again = ag.checkpoint(lambda v: ag.exp(v * 0.1) @ w)
    double = nc.kernel("kernel void twice(global float* out, global const float* a) {"
                       "const int i = get_global_id(0); out[i] = 2 * a[i]; }")  # fmt: skip

    def f(x: Any) -> Any:
        y = again(fused(x @ w))
        y = ag.apply_op(lambda v: double(v, out=v.shape), lambda g: [g * 2.0], y, op_name="twice")
        return ag.cumsum(ag.conv2d(y.reshape(1, 1, 4, 4), kernel, padding=1), 1).mean() + ag.logsumexp(y, 1).sum()

    inputs = [rng.standard_normal((4, 4)).astype(F) for _ in range(3)]
    results: dict[str, Any] = {}
    for name, step in (("eager", eager(f)), ("replay", ag.replay(f))):
        results[name] = []
        for x in inputs:
            w.zero_grad()
            kernel.zero_grad()
            results[name].append((host(step(ag.tensor(x))), host(w.grad), host(kernel.grad)))
    assert results["replay"] == results["eager"]


def test_large_arrays_on_the_queue_for_large_work() -> None:
    n = 1 << 19
    rng = np.random.default_rng(0)
    w = leaf(rng.standard_normal(n))
    step = ag.replay(lambda x: (ag.tanh(w * x) * w).sum())
    for _ in range(3):
        x = rng.standard_normal(n).astype(F)
        w.zero_grad()
        loss = step(x)
        t = np.tanh(w.to_host().astype(np.float64) * x)
        assert loss.item() == pytest.approx((t * w.to_host()).sum(), rel=1e-4)
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.to_host(), t + w.to_host() * x * (1 - t * t), rtol=1e-4, atol=1e-5)
    assert step.counts["replayed"] == 2


def test_threads_that_play_at_once(on_device: Device) -> None:
    w = leaf([1, 1])
    step = ag.replay(lambda x: (w * x * x).sum())
    step(np.asarray([0, 0], F))
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(25):
            loss = step(ag.tensor(np.asarray([k, 2 * k], F), device=on_device))  # a thread's own default is another
            if loss.item() != 5 * k * k:
                wrong.append((k, loss.item()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert host(w.grad) == [25 * 30, 4 * 25 * 30]


def test_kernels_that_the_device_let_go_are_made_again(on_device: Device) -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda x: ((w + 1.5) ** 3 * x).sum())
    expected = step(np.asarray([1, 1], F)).item()
    on_device._ready.clear()
    assert step(np.asarray([1, 1], F)).item() == expected
    with recorded(on_device) as commands:
        step(np.asarray([1, 1], F))
    assert sum(command.kind == "kernel" for command in commands) >= 2  # its launches are the device's own


def test_what_lies_between_is_let_go_with_the_function(on_device: Device) -> None:
    w, x = leaf(np.ones(1000)), ag.tensor(np.ones(1000, np.float32))
    for _ in range(2):
        gc.collect()  # what earlier tests left
        before = on_device.pool.stats().active_blocks
        f = ag.replay(lambda x: (ag.tanh(w * x) * w).sum())
        for _ in range(3):
            f(x)
        w.zero_grad()
        assert on_device.pool.stats().active_blocks > before
        del f
        gc.collect()
        assert on_device.pool.stats().active_blocks == before


def test_modes_and_transforms_run_f_as_it_is() -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda x: (w * x * x).sum())
    x = ag.tensor([3.0, 4.0])
    with ag.no_grad():
        assert step(x).item() == 41
    with ag.detect_anomaly():
        assert step(x).item() == 41
    assert host(w.grad) == [9, 16]
    assert host(ag.grad(step)(x)) == [6, 16]
    assert ag.jvp(step, (x,), (ag.tensor([1.0, 0.0]),))[1].item() == 6
    assert step.counts == {"captured": 0, "replayed": 0}
    with ag.Tape() as tape:
        step(x)
    assert tape.nodes == []


def test_a_graph_from_before_is_refused() -> None:
    w = leaf([1, 2])
    before = w * 2.0
    with pytest.raises(ArgumentError, match=r"goes back to <Node mul .*made before it ran"):
        ag.replay(lambda: before.sum())()
    with pytest.raises(ArgumentError, match="takes a function that returns a loss, not 3"):
        ag.replay(3)  # type: ignore[arg-type]


def test_an_error_in_f_leaves_all_as_it_was() -> None:
    w, fails = leaf([1, 2]), [True]

    def f() -> Any:
        y = w * 2.0
        if fails[0]:
            raise KeyError("mine")
        return y.sum()

    step = ag.replay(f)
    with pytest.raises(KeyError, match="mine"):
        step()
    fails[0] = False
    assert w.grad is None and step().item() == 6 and host(w.grad) == [2, 2]


def test_a_function_that_is_never_replayed_is_told_so() -> None:
    w, count = leaf([1, 2]), 0

    def f() -> Any:
        nonlocal count
        count += 1
        return (w * float(count)).sum()

    step = ag.replay(f)
    with pytest.warns(UserWarning, match=r"f was noted 8 times and never replayed, since 'count' changes"):
        values = [step().item() for _ in range(9)]
    assert values == [3 * k for k in range(1, 10)]


def test_methods_and_names() -> None:
    class Trainer:
        def __init__(self, k: float) -> None:
            self.w = leaf([k, k])

        @ag.replay
        def loss(self, x: Any) -> Any:
            """The loss."""
            return (self.w * x).sum()

    first, second = Trainer(1), Trainer(2)
    x = ag.tensor([1.0, 2.0])
    assert [first.loss(x).item(), second.loss(x).item(), first.loss(x).item()] == [3, 6, 3]
    assert host(first.w.grad) == [2, 4]
    assert host(second.w.grad) == [1, 2]
    assert Trainer.loss.__name__ == "loss" and Trainer.loss.__doc__ == "The loss."
