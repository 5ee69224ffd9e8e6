"""Errors come at the call that is wrong, before anything is enqueued, and say what came in."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import errors
from netcl.device import Device
from netcl.errors import ArgumentError, DeviceError, GradFnError, GraphError, NetclError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def filled(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_every_error_is_a_netcl_error_and_one_that_python_users_expect() -> None:
    builtin = {
        "ShapeError": ValueError, "DTypeError": TypeError, "DeviceError": RuntimeError, "GraphError": RuntimeError,
        "GradFnError": ValueError, "AnomalyError": RuntimeError, "ArgumentError": ValueError,
        "IndexingError": IndexError, "ExprError": ValueError,
    }  # fmt: skip
    for name, base in builtin.items():
        kind = getattr(errors, name)
        assert issubclass(kind, NetclError) and issubclass(kind, base), name


# Seeds and what a grad_fn returns


def test_a_seed_of_the_wrong_shape_is_refused_at_entry() -> None:
    calls: list[Any] = []
    x = leaf([1.0, 2.0])
    y = ag.apply_op(lambda v: v * 2.0, lambda g: calls.append(g) or [g * 2.0], x)
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)"):
        y.backward(filled(3))
    assert calls == [] and x.grad is None


def test_a_gradient_of_five_for_a_parent_of_two_is_refused_with_the_ops_name() -> None:
    y = ag.apply_op(lambda v: v * 2.0, lambda g: [nc.ones(5)], leaf([1.0, 2.0]), op_name="stretch")
    with pytest.raises(GradFnError, match=r"stretch.*\(5,\).*\(2,\)"):
        y.backward()


def test_one_gradient_for_two_parents_is_refused_with_the_ops_name() -> None:
    y = ag.apply_op(lambda a, b: a + b, lambda g: [g], leaf([1.0]), leaf([1.0]), op_name="join")
    with pytest.raises(GradFnError, match=r"join.*\(2\).*1 entries"):
        y.backward()


# Shapes and dtypes


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (4, 2)), ((3,), (4,)), ((2, 3), (2,)), ((5, 2, 3), (4, 3, 2)), ((), (2, 2)), ((2, 2), ())]
)
def test_matmul_shows_both_shapes(a: Any, b: Any) -> None:
    for x, y in ((leaf(filled(*a)), filled(*b)), (ag.tensor(filled(*a)), leaf(filled(*b)))):
        with pytest.raises(ShapeError) as caught:
            operator.matmul(x, y)
        assert str(caught.value).startswith(f"matmul: shapes {a} and {b}")


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "less", "equal"])
def test_shapes_that_do_not_broadcast_are_both_shown_with_the_op(name: str) -> None:
    op = getattr(ag, name)
    for x in (leaf(filled(2, 3)), ag.tensor(filled(2, 3))):
        with pytest.raises(ShapeError, match=rf"{name}.*\(2, 3\).*\(4,\)"):
            op(x, filled(4))


def test_where_shows_all_three_shapes() -> None:
    with pytest.raises(ShapeError, match=r"where.*\(2,\).*\(3,\).*\(4,\)"):
        ag.where(filled(2) > 0, leaf(filled(3)), filled(4))


def test_integers_that_require_grad_are_refused_by_dtype() -> None:
    with pytest.raises(TypeError, match="int64"):
        leaf(np.array([1, 2]))


def test_a_wrong_number_of_arguments_or_an_unknown_one_is_refused() -> None:
    x = leaf([1.0])
    with pytest.raises(ArgumentError, match=r"add takes a, b.*1 arguments"):
        ag.add(x)
    with pytest.raises(ArgumentError, match=r"exp.*2 arguments"):
        ag.exp(x, x)
    with pytest.raises(ArgumentError, match="axes"):
        x.sum(axes=0)
    with pytest.raises(AttributeError, match="exponential"):
        ag.exponential(x)


@pytest.mark.parametrize(
    "what",
    ["a", None, 1j, {}, object(), [[1.0], [1.0, 2.0]]],
    ids=["text", "None", "complex", "dict", "object", "ragged"],
)
def test_what_is_no_array_is_refused(what: Any) -> None:
    for x in (leaf([1.0]), ag.tensor([1.0])):
        for operate in (lambda x, y: x + y, lambda x, y: y * x, lambda x, y: x @ y):
            with pytest.raises((TypeError, ValueError)):
                operate(x, what)
    with pytest.raises((TypeError, ValueError)):
        ag.tensor(what)


# Graphs


def test_backward_through_a_released_graph_says_so() -> None:
    x = leaf([1.0])
    with ag.Tape() as tape:
        y = x * 2.0
    tape.release()
    for loss in (y, y * 3.0, x * y):
        with pytest.raises(GraphError, match="released"):
            loss.backward()
        with pytest.raises(GraphError, match="released"):
            ag.Tape().backward(loss, create_graph=True)
    assert x.grad is None


def test_a_loss_that_needs_no_gradient_says_so() -> None:
    for loss in (ag.tensor(1.0), leaf(1.0).detach(), 3.0, None, np.ones(2)):
        with pytest.raises(GraphError, match="requires grad"):
            ag.Tape().backward(loss)


# Nothing is enqueued


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + np.ones(5, np.float32),
        lambda x: x @ np.ones((4, 2), np.float32),
        lambda x: x.sum(axis=7),
        lambda x: x.mean(axis=7),
        lambda x: x.max(axis=(0, 0)),
        lambda x: x.reshape(5),
        lambda x: x[7],
        lambda x: x.transpose(0, 0),
        lambda x: x.broadcast_to((3, 3)),
        lambda x: x.astype(np.float16),
        lambda x: ag.where(x, x, np.ones(9, np.float32)),
    ],
)
def test_a_wrong_call_launches_no_kernel(
    wrong: Callable[[Any], Any], on_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = leaf(filled(2, 3))
    launched: list[Any] = []
    with ag.Tape() as tape:
        for name in LAUNCHES:
            monkeypatch.setattr(type(on_device), name, lambda *args, **more: launched.append(args))
        with pytest.raises(NetclError):
            wrong(x)
    assert launched == [] and tape.nodes == []


LAUNCHES = [name for name in ("launch", "run") if hasattr(Device, name)]


def test_the_test_above_would_see_a_launch(on_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = leaf(filled(2, 3))
    launched: list[Any] = []
    for name in LAUNCHES:
        monkeypatch.setattr(type(on_device), name, lambda *args, **more: launched.append(args))
    ag.add(x, 1.0)
    x.sum()
    ag.matmul(x, x.T)
    assert len(launched) >= 3


# Devices


def test_memory_that_is_not_there_is_refused_with_its_size(on_device: Device) -> None:
    with pytest.raises(DeviceError, match=r"no 4,398,046,511,104 bytes"):
        nc.zeros((1 << 20, 1 << 20))
    assert nc.ones(3).to_host().tolist() == [1, 1, 1]  # and the device goes on
    assert on_device.pool.stats().held_bytes < 1 << 40


def test_two_devices_do_not_mix(on_device: Device) -> None:
    other = next((each for each in nc.devices() if each is not on_device), None)
    if other is None:
        other = Device(on_device.cl_devices, on_device.index + 1)  # the same hardware in a context of its own
    x, y = leaf([[1.0]]), ag.tensor([[2.0]], device=other)
    for operate in (lambda: x + y, lambda: x @ y, lambda: ag.where(x, y, x)):
        with pytest.raises(DeviceError, match="two devices"):
            operate()
    with pytest.raises(DeviceError, match="seed"):
        (x * 2.0).backward(y)
    for transform in (lambda: ag.vjp(lambda x: x * 1.0, x.value)[1](y), lambda: ag.jvp(ag.exp, (x.value,), (y,))):
        with pytest.raises(DeviceError, match="came where the value is on"):
            transform()
    mine = ag.apply_op(lambda v: v * 1.0, lambda g: [y], x, op_name="mine")
    by_hand = ag.Node(x.value * 1.0, lambda g: [y], [x], op_name="by hand")
    for node in (mine, by_hand):
        with pytest.raises(GradFnError, match=f"{node.op_name}.* on {other.name}"):
            (node * 2.0).backward()
    assert x.grad is None
