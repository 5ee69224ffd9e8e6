"""Node and Tape: the contract line by line. What backward does is in test_backward.py."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.autograd.engine import pull_back
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, GraphError

pytestmark = pytest.mark.usefixtures("on_device")

X = np.array([[0, 1, 2], [3, 4, 5]], np.float32)


def leaf(values: Any, **more: Any) -> Any:
    return ag.tensor(values, requires_grad=True, **more)


def host(x: Any) -> Any:
    return x.to_host().tolist()


# Node


def test_the_first_fields_of_a_node_are_the_contracts_in_order() -> None:
    assert dataclasses.is_dataclass(ag.Node)
    names = [field.name for field in dataclasses.fields(ag.Node)]
    assert names[:7] == ["value", "grad_fn", "parents", "grad", "requires_grad", "op_name", "creation_trace"]
    assert {"name", "operands", "attrs", "site", "index", "pass_id"} <= set(names[7:])


def test_a_node_can_be_made_by_hand_and_takes_part_in_backward() -> None:
    x = leaf([1.0, 2.0])
    node = ag.Node(x.value * 5.0, lambda g: [g * 5.0], [x], None, True, "five", None)
    (node * 2.0).backward()
    assert host(x.grad) == [10, 10]
    assert host(node.grad) == [2, 2]


def test_nodes_hash_and_compare_by_identity() -> None:
    a, b = leaf([1.0]), leaf([1.0])
    twin = dataclasses.replace(a)
    assert a == a and a != b and a != twin
    assert hash(a) == hash(a)
    assert len({a, b, twin}) == 3
    assert {a: 1}[a] == 1 and b not in [a]


def test_repr_is_one_short_line_and_never_the_graph() -> None:
    x = leaf(X, name="weights")
    y = x
    for _ in range(50):
        y = y * x
    assert repr(x) == "<Node 'weights' leaf (2, 3) float32>"
    assert repr(y) == str(y) == "<Node mul (2, 3) float32>"


def test_nodes_are_numbered_in_the_order_of_creation() -> None:
    x = leaf([1.0])
    y = x + 1.0
    z = x * y
    assert x.index < y.index < z.index


def test_a_node_tells_shape_dtype_and_the_rest_of_its_value() -> None:
    x = leaf(X)
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.float32, 2, 6)
    assert host(x) == X.tolist()


# What gets a Node


def test_a_leaf_that_needs_no_gradient_has_no_node() -> None:
    assert type(ag.tensor([1.0])) is nc.Tensor
    x = leaf([1.0])
    assert type(x) is ag.Node
    assert (x.grad_fn, x.parents, x.grad, x.requires_grad, x.op_name, x.pass_id) == (None, [], None, True, None, 0)


def test_a_name_for_what_has_no_node_is_refused_and_not_lost() -> None:
    assert ag.tensor([1.0], requires_grad=True, name="w").name == "w"
    with pytest.raises(ArgumentError, match=r"'w' .* requires_grad=True"):
        ag.tensor([1.0], name="w")


def test_an_op_yields_a_node_only_if_an_input_is_a_node_that_requires_grad() -> None:
    x, constant = leaf([1.0]), ag.tensor([2.0])
    frozen = ag.Node(ag.tensor([3.0]), requires_grad=False)
    assert type(constant + constant) is nc.Tensor
    assert type(constant * 2.0) is nc.Tensor
    assert type(frozen * constant) is nc.Tensor
    assert type(x * constant) is ag.Node
    mixed = x * frozen
    assert mixed.parents == [x]
    with ag.no_grad():
        assert type(x * constant) is nc.Tensor


def test_a_result_that_cannot_have_a_derivative_is_a_tensor() -> None:
    x = leaf([1.0, -1.0])
    for result in (x > 0.0, ag.equal(x, 0.0), x.astype(np.int32)):
        assert type(result) is nc.Tensor


def test_parents_are_nodes_alone_and_operands_are_all_arguments() -> None:
    x, c = leaf([1.0, 2.0]), ag.tensor([3.0, 4.0])
    y = c * x
    assert y.parents == [x]
    assert y.operands == (c, x)
    z = x * 3.0
    assert z.parents == [x] and z.operands == (x, 3.0)
    assert (z.op_name, y.op_name) == ("mul", "mul")
    s = x.reshape(2, 1).sum(axis=0, keepdims=True)
    assert s.attrs is not None and s.attrs["axis"] == 0 and s.attrs["keepdims"] is True
    y.sum().backward()
    assert not hasattr(c, "grad")  # a constant never receives a gradient
    assert host(x.grad) == [3, 4]


def test_what_an_operators_node_works_out_is_as_good_as_what_another_stores(on_device: Device) -> None:
    """It stores no grad_fn, parents and operands; each can be read, and set without losing the others."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 5.0])
    y, g = x * w, ag.tensor([10.0, 20.0])
    assert [c.to_host().tolist() for c in y.grad_fn(g)] == [[30, 100], [10, 40]]
    assert y.parents == [x, w] and y.operands == (x, w)
    assert (-x).parents == [x] and (-x).operands == (x,)

    twin = dataclasses.replace(y, name="twin")
    assert (twin.parents, twin.operands, twin.op_name, twin.index) == ([x, w], (x, w), "mul", y.index)
    twin.backward(g)
    assert host(x.grad) == [30, 100] and host(w.grad) == [10, 40]

    y.operands = (w, x)
    assert y.parents == [x, w] and y.operands == (w, x) and [host(c) for c in y.grad_fn(g)] == [[30, 100], [10, 40]]
    y.grad_fn = lambda g: [g * 2.0, g * 3.0]
    assert y.parents == [x, w] and y.operands == (w, x)
    y.parents = [w, x]
    x.zero_grad()
    w.zero_grad()
    y.backward(g)
    assert host(w.grad) == [20, 40] and host(x.grad) == [30, 60]
    for change in ("grad_fn", "parents"):
        z = x * w
        setattr(z, change, getattr(z, change))
        x.zero_grad()
        w.zero_grad()
        z.backward(g)
        assert host(x.grad) == [30, 100] and z.operands == (x, w)


def test_a_pullback_that_is_kept_is_that_of_the_values_at_the_time(on_device: Device) -> None:
    x = leaf([1.0, 2.0])
    y = x * x
    pullback = y.grad_fn
    x.value = ag.tensor([50.0, 60.0])
    y.backward(ag.tensor([1.0, 1.0]))
    assert host(x.grad) == [2, 4]
    assert [host(c) for c in pullback(ag.tensor([1.0, 1.0]))] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("shape", [(3,), (1,), ()])
def test_the_derivative_is_that_of_what_was_computed_whatever_value_a_node_is_given(
    on_device: Device, shape: tuple[int, ...]
) -> None:
    # Those of tanh and of division read the result. In 4,000 elements a kernel would read beyond the new one's memory.
    a, b = np.linspace(0.5, 2, 4000, dtype=np.float32), np.linspace(2, 1, 4000, dtype=np.float32)
    x, y = leaf(a), leaf(b)
    made = [ag.tanh(x), x / y, ag.where(x > 1.0, ag.exp(x), 0.0)]
    losses = [node.sum() for node in made]
    for node in made:
        node.value = nc.zeros(shape)
        assert node.shape == shape and node.to_host().tolist() == np.zeros(shape).tolist()
    for loss in losses:
        loss.backward()
    expected = 1 - np.tanh(a) ** 2 + 1 / b + np.where(a > 1, np.exp(a), 0)
    np.testing.assert_allclose(x.grad.to_host(), expected, rtol=1e-5)
    np.testing.assert_allclose(y.grad.to_host(), -a / b**2, rtol=1e-5)
    assert made[1].parents == [x, y] and made[1].operands == (x, y)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.ones(2, np.float32), "ndarray: ag.tensor"),
        ([1.0, 2.0], "list: ag.tensor"),
        (2.0, "float: ag.tensor"),
        (None, "NoneType: ag.tensor"),
        (lambda: leaf([1.0, 2.0]) * 2.0, r"Node: \.detach"),
    ],
    ids=["array", "list", "number", "none", "node"],
)
def test_a_value_that_is_no_tensor_is_refused(value: Any, said: str) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(DTypeError, match=f"value of a node is a Tensor, not {said}"):
        x.value = value() if callable(value) else value
    assert host(x * 3.0) == [3, 6]


def test_a_gradient_stays_what_it_was_whatever_value_its_node_is_given(on_device: Device) -> None:
    w, other = ag.tensor(X), ag.tensor(np.ones((4, 1), np.float32))
    for give in (lambda node: setattr(node, "value", other), lambda node: node.move(other.layout, other.buffer)):
        x = leaf(X + 1)
        y = x * 2.0
        z = y / w.reshape(2, 3).exp()
        (z * w).sum().backward()
        give(x)
        y.value = other
        assert x.grad is x.grad and y.grad is y.grad
        np.testing.assert_allclose(y.grad.to_host(), X / np.exp(X), rtol=1e-6)
        np.testing.assert_allclose(x.grad.to_host(), 2 * X / np.exp(X), rtol=1e-6)
        assert x.shape == y.shape == (4, 1)


def test_a_bare_block_is_no_gradient() -> None:
    x, block = leaf(X), ag.tensor([1.0]).buffer
    for give in (lambda: setattr(x, "grad", block), lambda: ag.Node(x.value, grad=block)):
        with pytest.raises(DTypeError, match=f"gradient of a node is a Tensor, not {type(block).__name__}"):
            give()
    assert x.grad is None


def test_copies_with_the_same_index_take_part_in_one_graph() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3.0
    a, b = dataclasses.replace(y), dataclasses.replace(y)
    assert y.index == a.index == b.index
    (y + a * 10.0 + b * 100.0).sum().backward()
    assert host(x.grad) == [333, 333]
    assert host(a.grad) == [10, 10] and host(b.grad) == [100, 100]


def test_a_thousand_copies_of_one_node_take_part_in_one_graph() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3.0
    copies: list[Any] = [dataclasses.replace(y) for _ in range(1000)]
    ag.stack(copies).sum().backward()
    assert host(x.grad) == [3000, 3000]
    assert all(host(each.grad) == [1, 1] for each in copies)


def test_a_gradient_lies_on_the_device_of_its_pass_wherever_the_value_went(on_device: Device) -> None:
    elsewhere = Device(on_device.cl_devices, on_device.index + 100)
    for _ in range(3):  # the first pass works out how the next go
        x = leaf([0.0, 2.0])
        y = -ag.sin(x)
        x.value = nc.zeros(2, device=elsewhere)
        y.backward(ag.tensor([1.0, 0.0]))
        assert x.grad.device is on_device and x.device is elsewhere
        assert host(x.grad) == [-1, 0]


def test_a_parent_that_is_newer_than_its_node_is_refused() -> None:
    x = leaf(2.0)
    node = ag.Node(nc.full((), 5.0), lambda g: [g], [x], op_name="mine")
    newer = x * 2.0
    with pytest.raises(GraphError, match=r"<Node mul \(\) float32> is newer than <Node mine"):
        node.parents = [newer]
    with pytest.raises(GraphError, match="is newer than"):
        dataclasses.replace(node, parents=[x, newer])
    (node + newer).backward()
    assert node.parents == [x] and host(newer.grad) == 1 and host(x.grad) == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_pass_goes_from_the_newest_node_to_the_oldest(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [leaf([float(i)]) for i in range(4)]
    for _ in range(60):
        a, b = rng.choice(nodes), rng.choice(nodes[-6:])
        nodes.append(rng.choice([a + b, a * 0.5, -b, ag.stack([a, b]).sum(0)]))
    root = nodes[-1] + nodes[-2]
    order = ag.build_topo(root)
    assert [node.index for node in order] == sorted(node.index for node in order)
    went: list[Any] = []
    pull_back(root, ag.tensor([1.0]), visit=went.append)
    assert went == order[::-1]
    end: Any = rng.choice(order[: len(order) // 2])
    went.clear()
    found = pull_back(root, ag.tensor([1.0]), visit=went.append, targets=[end])
    leads = {end}
    for node in order:
        if leads & {*node.parents}:
            leads.add(node)
    assert went == [node for node in order[::-1] if node in leads]
    root.backward()
    np.testing.assert_allclose(found[end].to_host(), end.grad.to_host(), rtol=1e-6)


def test_what_is_done_to_one_node_is_not_done_to_others() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2.0
    with pytest.raises(TypeError):
        y.attrs["axis"] = 1  # type: ignore[index]
    y.attrs = {"axis": 1}
    z = x * 3.0
    assert dict(z.attrs or {}) == {} and y.attrs == {"axis": 1}


def test_a_node_that_stands_twice_among_the_operands_is_two_parents() -> None:
    x = leaf([3.0])
    y = x * x
    assert y.parents == [x, x]
    assert [host(c) for c in y.grad_fn(ag.tensor([1.0]))] == [[3], [3]]


def test_grad_fn_is_pure_and_gives_one_entry_per_parent() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = 2.0 * x + x * y
    product = z.parents[1]
    g = ag.tensor([10.0, 100.0])
    for _ in range(2):
        assert [host(c) for c in product.grad_fn(g)] == [[30, 400], [10, 200]]
    z.backward()
    assert [host(c) for c in product.grad_fn(g)] == [[30, 400], [10, 200]]
    assert host(g) == [10, 100]


def test_integers_and_booleans_cannot_require_grad() -> None:
    for data in (np.array([1, 2]), np.array([True]), np.int32(3)):
        with pytest.raises(TypeError, match="require grad") as caught:
            ag.tensor(data, requires_grad=True)
        assert isinstance(caught.value, DTypeError)
        assert str(data.dtype) in str(caught.value)
    assert leaf([1, 2]).dtype == np.float32  # a list is float32
    assert leaf(np.array([1, 2]), dtype=np.float32).dtype == np.float32


def test_tensor_takes_a_tensor_without_a_copy_and_no_node() -> None:
    value = ag.tensor([1.0])
    assert leaf(value).value is value
    with pytest.raises(TypeError, match="detach"):
        ag.tensor(leaf([1.0]))


# Tape


def test_the_example_of_the_design() -> None:
    x = leaf(X)
    with ag.Tape() as tape:
        y = (x + 1.0) ** 2
        z = 3.0 * y
        loss = z.sum()
    tape.backward(loss)
    assert np.array_equal(x.grad.to_host(), 6 * (X + 1))
    assert host(loss) == 273 and loss.shape == ()
    assert host(loss.grad) == 1
    assert host(z.grad) == [[1] * 3] * 2
    assert host(y.grad) == [[3] * 3] * 2
    assert tape.nodes == [y.parents[0], y, z, loss]


def test_tapes_stack_and_the_innermost_records() -> None:
    x = leaf([1.0])
    assert ag.get_current_tape() is None
    with ag.Tape() as outer:
        a = x + 1.0
        with ag.Tape() as inner:
            assert ag.get_current_tape() is inner
            b = x + 2.0
        assert ag.get_current_tape() is outer
        c = x + 3.0
    assert ag.get_current_tape() is None
    assert outer.nodes == [a, c] and inner.nodes == [b]


def test_leaving_an_inner_tape_by_an_exception_restores_the_outer() -> None:
    with ag.Tape() as outer:
        with pytest.raises(ZeroDivisionError), ag.Tape():
            raise ZeroDivisionError
        assert ag.get_current_tape() is outer
    assert ag.get_current_tape() is None


def test_a_suspended_generator_leaves_its_own_tape_and_no_other() -> None:
    x = leaf([1.0])

    def steps() -> Any:
        with ag.Tape() as own:
            yield own, x + 1.0
            yield own, x + 2.0

    with ag.Tape() as outer:
        running = steps()
        own, first = next(running)
        assert ag.get_current_tape() is own
    assert ag.get_current_tape() is own  # the outer one left before: it took out itself
    _, second = next(running)
    running.close()
    assert ag.get_current_tape() is None
    assert own.nodes == [first, second] and outer.nodes == []
    with ag.Tape() as outer:
        running = steps()
        next(running)
        running.close()
        assert ag.get_current_tape() is outer


def test_a_tape_entered_twice_is_left_twice() -> None:
    tape = ag.Tape()
    with tape, ag.Tape() as between, tape:
        assert ag.get_current_tape() is tape
        inner = leaf([1.0]) + 1.0
    assert tape.nodes == [inner] and between.nodes == []
    assert ag.get_current_tape() is None


def test_outside_any_tape_nodes_link_to_their_parents() -> None:
    x = leaf([1.0, 2.0])
    loss = (x * x).sum()
    ag.Tape().backward(loss)
    assert host(x.grad) == [2, 4]
    x.zero_grad()
    assert x.grad is None
    (x * x).sum().backward()
    assert host(x.grad) == [2, 4]


def test_a_tensor_without_a_graph_says_so_when_asked_to_go_back(on_device: Device) -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.no_grad():
        loss = (x * x).sum()
    with pytest.raises(GraphError, match=r"Tensor of shape \(\) has no graph"):
        loss.backward()


def test_a_node_that_only_chooses_gets_no_gradient(on_device: Device) -> None:
    """where(c, a, b) has no derivative in c, though c may be a node of floats."""
    c = ag.tensor([1.0, 0.0, 2.0], requires_grad=True)
    a = ag.tensor([3.0, 4.0, 5.0], requires_grad=True)
    loss = (ag.where(c, a, 0.0) * c).sum()
    loss.backward()
    assert np.array_equal(a.grad.to_host(), [1, 0, 2]) and np.array_equal(c.grad.to_host(), [3, 0, 5])
    alone = ag.where(c, 2.0, np.zeros(3, np.float32)).sum()
    alone.backward()
    assert np.array_equal(c.grad.to_host(), [3, 0, 5])  # as it was: nothing came
    slope = ag.grad(lambda v: (ag.grad(lambda u: (ag.where(u, u * u, 0.0)).sum())(v)).sum())
    assert np.array_equal(slope(np.array([1.0, 0.0, 2.0], np.float32)).to_host(), [2, 0, 2])
