"""A step takes the memory of a large old value where nothing can see it, and changes nothing that something can see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import optim, viz
from netcl.device import Device
from netcl.errors import ArgumentError
from netcl.kernels.lists import SMALL
from netcl.memory import address
from netcl.tensor import Tensor
from netcl.viz.nudge import forward

pytestmark = pytest.mark.usefixtures("on_device")

RNG = np.random.default_rng
OPTIMISERS: list[Callable[[list[Any]], optim.Optimizer]] = [
    lambda xs: optim.SGD(xs, 0.25),
    lambda xs: optim.SGD(xs, 0.25, momentum=0.5, nesterov=True, weight_decay=0.125),
    lambda xs: optim.AdamW(xs, 0.25),
]
each_optimiser = pytest.mark.parametrize("make", OPTIMISERS, ids=["SGD", "Nesterov", "AdamW"])


def large(size: Any = 3 * SMALL + 5, seed: int = 0) -> np.ndarray:
    return RNG(seed).normal(size=size).astype(np.float32)


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def give(x: Any, g: np.ndarray) -> None:
    """Give a leaf a gradient that no graph goes with."""
    x.grad = Tensor.from_host(g)


# In place


@each_optimiser
@pytest.mark.parametrize("size", [SMALL, 1 << 12, 1 << 17, 100_003, (65, 33)])
def test_a_step_in_place_gives_what_a_step_into_new_memory_gives(make: Any, size: Any) -> None:
    x, y = leaf(large(size)), leaf(large(size))
    one, other = make([x]), make([y])
    for i in range(3):
        g = large(size, 1 + i)
        give(x, g)
        give(y, g)
        seen = [y.value, *other.state[0].values()]
        one.step()
        other.step()
        assert x.to_host().tobytes() == y.to_host().tobytes()
        for mine, theirs in zip(one.state[0].values(), other.state[0].values(), strict=True):
            assert mine.to_host().tobytes() == theirs.to_host().tobytes()
        assert not {address(tensor.buffer) for tensor in seen} & {address(y.value.buffer)}


@each_optimiser
def test_nothing_is_allocated_for_a_large_parameter_that_nothing_else_sees(make: Any, on_device: Device) -> None:
    x = leaf(large())
    optimizer = make([x])
    give(x, large())
    places = [address(tensor.buffer) for tensor in (x.value, *optimizer.state[0].values())]
    before = on_device.pool.stats()
    for _ in range(3):
        optimizer.step()
        assert [address(tensor.buffer) for tensor in (x.value, *optimizer.state[0].values())] == places
    assert on_device.pool.stats().active_bytes == before.active_bytes
    assert on_device.pool.stats().held_blocks == before.held_blocks  # nor was anything for a moment


def test_the_first_layer_of_a_graph_that_lives_on_is_written_over_and_its_gradients_stay() -> None:
    x, labels = Tensor.from_host(large((16, 200))), Tensor.from_host(RNG(0).integers(0, 10, 16), dtype=np.int64)
    w, b, v = leaf(large((200, 30)) / 10), leaf(large(30)), leaf(large((30, 100)) / 5)
    with ag.Tape() as tape:
        loss = ag.cross_entropy(ag.relu(ag.linear(x, w, b)) @ v, labels)
    tape.backward(loss)
    first = [p.grad.to_host() for p in (w, b, v)]
    places = [address(p.value.buffer) for p in (w, v)]
    optim.SGD([w, b, v], 0.5).step()
    assert address(w.value.buffer) == places[0]  # backward reads x there
    assert address(v.value.buffer) != places[1]  # and v here
    for p in (w, b, v):
        p.zero_grad()
    tape.backward(loss)
    for p, g in zip((w, b, v), first, strict=True):
        assert p.grad.to_host().tobytes() == g.tobytes()
    tape.release()
    places = [address(p.value.buffer) for p in (w, v)]
    optim.SGD([w, b, v], 0.5).step()
    assert [address(p.value.buffer) for p in (w, v)] == places


# Whoever can see an old value


class Slotted:
    __slots__ = ("x",)


def in_a_slot(x: Any) -> Any:
    holder = Slotted()
    holder.x = x.value.buffer
    return holder


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a variable": lambda x: x.value,
    "a view": lambda x: x.value[1:],
    "a transpose": lambda x: x.value.T,
    "a detached value": lambda x: x.detach(),
    "a container": lambda x: {"of": [(x.value,)]},
    "the block itself": lambda x: x.value.buffer,
    "a slot": in_a_slot,
    "a closure": lambda x: (lambda value: lambda: value)(x.value),
    "a generator": lambda x: running(x),
    "another parameter": lambda x: leaf(x.value),
    "a graph of a row": lambda x: x * x,
    "a graph of a view": lambda x: x.reshape(-1),
    "a graph of a product": lambda x: x.reshape(1, -1) @ leaf(np.ones((x.size, 1), np.float32)),
    "a fused graph": lambda x: ag.fuse(lambda x: ag.tanh(x * 2.0))(x),
    "a checkpoint": lambda x: ag.checkpoint(lambda x: ag.tanh(x * 2.0))(x),
    "a pullback": lambda x: ag.vjp(lambda x: x * x, x.value)[1],
    "a rule of a user's": lambda x: (lambda v: ag.apply_op(lambda x: x * 1.0, lambda g: [g * v], x))(x.value),
    "a node of its own": lambda x: ag.Node(x.value),
    "a frame": lambda x: suspended(x),
}


def running(x: Any) -> Any:
    def numbers() -> Any:
        value = x.value
        yield
        yield value

    started = numbers()
    next(started)
    return started


def suspended(x: Any) -> Any:
    try:
        value = x.value
        raise KeyError(value.shape)
    except KeyError as error:
        return error.__traceback__


@pytest.mark.parametrize("what", HOLDERS)
def test_a_value_that_something_can_see_stays(what: str) -> None:
    x = leaf(large())
    place = address(x.value.buffer)
    held = HOLDERS[what](x)
    give(x, large())
    optimizer = optim.SGD([x], 0.5)
    optimizer.step()
    assert address(x.value.buffer) != place, f"{what} saw the value, and it was written over"
    np.testing.assert_allclose(x.to_host(), large() * 0.5, rtol=1e-6)
    del held
    place = address(x.value.buffer)
    optimizer.step()
    assert address(x.value.buffer) == place


def test_a_gradient_in_the_parameters_own_memory_is_read_before_it_would_be_gone() -> None:
    x = leaf(large())
    x.grad = x.value
    optim.SGD([x], 0.5).step()
    np.testing.assert_allclose(x.to_host(), large() * 0.5, rtol=1e-6)
    assert x.grad.to_host().tobytes() == large().tobytes()


def test_a_state_that_was_kept_stays_and_so_does_a_saved_one() -> None:
    x = leaf(large())
    give(x, large(seed=1))
    optimizer = optim.Adam([x])
    optimizer.step()
    kept, saved = optimizer.state[0]["mean"], optimizer.state_dict()
    before = kept.to_host()
    place = address(optimizer.state[0]["square"].buffer)
    optimizer.step()
    assert kept.to_host().tobytes() == before.tobytes() == saved["mean.0"].tobytes()
    assert address(optimizer.state[0]["square"].buffer) == place  # which nobody had
    optimizer.load_state_dict(saved)
    assert optimizer.state[0]["mean"].to_host().tobytes() == before.tobytes()


@pytest.mark.parametrize("value", [lambda x: x.T, lambda x: x[::2], lambda x: ag.broadcast_to(x[:1], x.shape)])
def test_a_view_as_a_parameter_gets_memory_of_its_own(value: Any) -> None:
    base = Tensor.from_host(large((90, 80)))
    x = leaf(value(base))
    expected = x.to_host() * 0.5
    x.grad = x.value
    del base
    optim.SGD([x], 0.5).step()
    x.zero_grad()
    np.testing.assert_allclose(x.to_host(), expected, rtol=1e-6)
    assert x.value.layout.contiguous


def test_what_another_thread_reads_never_changes_under_its_eyes(on_device: Device) -> None:
    x = leaf(np.zeros(SMALL, np.float32))
    give(x, np.ones(SMALL, np.float32))
    optimizer = optim.SGD([x], 1.0)
    stop, wrong, seen = threading.Event(), [], set()

    def read() -> None:
        while not stop.is_set():
            value = x.value
            made = (x * 1.0).value if len(seen) % 2 else value * 1.0
            first, again = value.to_host(), value.to_host()
            if not (first == again).all() or np.ptp(first) or np.ptp(made.to_host()):
                wrong.append((first[0], again[0]))
            seen.add(float(first[0]))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(1000):
            optimizer.step()
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong and x.to_host()[0] == -1000 and seen


# Operands that no rule reads


def test_an_operand_that_no_rule_reads_is_not_kept_once_its_node_has_another() -> None:
    x, w = Tensor.from_host(large((4, 50))), leaf(large((50, 60)))
    y = x @ w
    assert y.grad_fn.saved[1] is w.value and not y.grad_fn.gone
    w.value = nc.zeros((50, 60))
    assert y.grad_fn.gone and y.grad_fn.saved[1].shape == (50, 60)
    y.sum().backward()
    np.testing.assert_allclose(w.grad.to_host(), np.repeat(x.to_host().sum(0)[:, None], 60, 1), rtol=1e-5)
    w.zero_grad()
    ag.Tape().backward(y.sum(), create_graph=True)  # the second derivative does not depend on it either
    assert isinstance(w.grad, ag.Node)
    w.zero_grad()


def test_pictures_of_a_graph_whose_operand_is_gone_say_so() -> None:
    x, w = leaf(large((2, 50))), leaf(large((50, 60)))
    constant = Tensor.from_host(large((2, 50)))
    h = constant @ w
    loss = (h.sum() * x.sum()) ** 2
    loss.backward()
    optim.SGD([w], 0.5).step()
    view = viz.draw(loss, names={loss: "loss", w: "w", x: "x", h: "h"}).view
    lines = {card.name: card.lines for card in view.cards}
    assert lines["w"] == ("has a new value since this graph was made",)
    assert len(viz.kernels(loss).rows) >= 4 and viz.timeline(loss).events
    with pytest.raises(ArgumentError, match="new value since"):
        forward(loss, {w: w.to_host()})
    pytest.importorskip("ipywidgets", reason="the stepper is a widget")
    stepper = viz.step(loss, names={loss: "loss", w: "w", x: "x", h: "h"})
    assert "step" in repr(stepper)
