"""backward: seeds, accumulation, what is never written into, and the life of a graph."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import DTypeError, GraphError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


def leaf(values: Any, **more: Any) -> Any:
    return ag.tensor(values, requires_grad=True, **more)


def host(x: Any) -> Any:
    return x.to_host().tolist()


def test_build_topo_lists_every_node_once_parents_before_children() -> None:
    x, unused = leaf([1.0]), leaf([1.0])
    a = x + 1.0
    b = a * x
    c = a * b
    _ = unused * a
    order = ag.build_topo(c)
    assert order == [x, a, b, c]
    assert ag.build_topo(x) == [x]


def test_the_seed_is_ones_or_what_is_given() -> None:
    x = leaf([1.0, 2.0])
    (x * 3.0).backward()
    assert host(x.grad) == [3, 3]
    for seed in ([1.0, 10.0], np.array([1, 10], np.float32), ag.tensor([1.0, 10.0]), leaf([1.0, 10.0])):
        x.zero_grad()
        y = x * 3.0
        ag.Tape().backward(y, grad=seed)
        assert host(x.grad) == [3, 30]
        assert host(y.grad) == [1, 10]
        assert type(x.grad) is nc.Tensor
    x.zero_grad()
    loss = (x * 3.0).sum()
    loss.backward(2.0)
    assert host(x.grad) == [6, 6]


def test_a_seed_that_does_not_fit_is_refused_at_entry() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3.0
    for seed in ([1.0], 1.0, np.ones((2, 1), np.float32), [[1.0, 1.0]]):
        with pytest.raises(ShapeError, match=r"seed.*\(2,\)"):
            ag.Tape().backward(y, seed)
    for wrong in (np.array([1, 1]), np.array([True, True])):
        with pytest.raises(DTypeError, match=rf"{wrong.dtype}.*float32"):
            ag.Tape().backward(y, wrong)
    assert x.grad is None and y.grad is None


def test_gradients_of_leaves_add_up_over_calls_and_those_between_do_not() -> None:
    x = leaf([2.0])
    k = 2.0 * x
    l1, l2 = 2.0 * k, 3.0 * k
    tape = ag.Tape()
    tape.backward(l1)
    assert (host(x.grad), host(k.grad)) == ([4], [2])
    tape.backward(l2)
    assert (host(x.grad), host(k.grad)) == ([10], [3])
    tape.backward(l2)
    assert (host(x.grad), host(k.grad), host(l2.grad)) == ([16], [3], [1])


def test_pass_id_is_the_number_of_the_backward_that_wrote_the_gradient() -> None:
    x, other = leaf([2.0]), leaf([1.0])
    k = 2.0 * x
    k.backward()
    first = k.pass_id
    assert first > 0 and x.pass_id == first and other.pass_id == 0
    (k * other).backward()
    assert k.pass_id == x.pass_id == other.pass_id > first
    x.zero_grad()
    assert x.pass_id == 0 and x.grad is None


def test_a_gradient_that_someone_kept_never_changes() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    z = x + y  # add sends its cotangent on as it is: three nodes see one buffer
    loss = (z * z).sum()
    loss.backward()
    kept = {name: (node.grad, host(node.grad)) for name, node in (("x", x), ("y", y), ("z", z))}
    assert kept["x"][1] == [8, 12]
    for _ in range(3):
        loss.backward()
        (x + x + x).sum().backward()
    for name, (grad, values) in kept.items():
        assert host(grad) == values, name
    assert host(x.grad) == [4 * 8 + 9, 4 * 12 + 9]


def test_a_users_seed_and_what_a_grad_fn_returns_are_never_written_into() -> None:
    x, seed = leaf([1.0, 2.0]), ag.tensor([5.0, 6.0])
    mine = ag.tensor([100.0, 200.0])
    y = ag.apply_op(lambda v: v + 0.0, lambda g: [mine], x)
    total = x + y + x + y + x  # x gets four contributions, added in place where the engine owns the sum
    total.backward(seed)
    assert host(seed) == [5, 6]
    assert host(mine) == [100, 200]
    assert host(x.grad) == [3 * 5 + 100, 3 * 6 + 200]
    x.zero_grad()
    (x + x + x).backward(seed)
    (x + x + x).backward(seed)
    assert host(seed) == [5, 6] and host(x.grad) == [30, 36]


def test_many_contributions_in_one_pass_add_up() -> None:
    x = leaf([1.0, -1.0])
    terms = [x * float(i) for i in range(20)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    total.backward()
    assert host(x.grad) == [190, 190]


@pytest.mark.parametrize("n", [1, 63, 1023, 1024, 1025, 1500, 2047, 4133])
def test_adding_in_place_adds_once_to_every_element_also_in_the_last_group(n: int) -> None:
    """Groups that are moved back compute elements twice, which `total += c` would not survive."""
    values = np.arange(n, dtype=np.float32)
    total, c = nc.Tensor.from_host(values), nc.Tensor.from_host(3 * values + 1)
    for times in (1, 2, 3):
        ag.add_inplace(total, c)
        np.testing.assert_array_equal(total.to_host(), values + times * (3 * values + 1))
    x = leaf(values)
    (x * values + x * 2.0 + x * c + x * x).sum().backward()
    np.testing.assert_array_equal(x.grad.to_host(), values + 2 + (3 * values + 1) + 2 * values)


def test_retain_grads_false_keeps_the_gradients_of_leaves_alone() -> None:
    x = leaf([1.0, 2.0])
    k = x * x
    loss = k.sum()
    loss.backward()
    assert host(k.grad) == [1, 1]
    ag.Tape(retain_grads=False).backward(loss)
    assert k.grad is None and loss.grad is None  # not even that of the pass before
    assert host(x.grad) == [4, 8]
    with ag.Tape(retain_grads=False) as tape:
        again = (x * x * x).sum()
    tape.backward(again)
    assert again.grad is None and host(x.grad) == [7, 20]


def test_an_intermediate_gradient_is_of_the_last_call_also_where_that_sends_none() -> None:
    x = leaf([1.0])
    k = x * 2.0
    k.backward()
    assert host(k.grad) == [1]
    cut = ag.apply_op(lambda a, b: a + b, lambda g: [None, g], k, x)
    cut.backward()
    assert k.grad is None and k.pass_id == 0
    assert host(x.grad) == [3]


def test_a_leaf_that_a_pass_sends_nothing_keeps_its_gradient() -> None:
    x, w = leaf([2.0]), leaf([3.0])
    (x * w).backward()
    before, number = x.grad, x.pass_id
    ag.apply_op(lambda a, b: a + b, lambda g: [None, g], x, w).backward()
    assert x.grad is before and x.pass_id == number and host(x.grad) == [3]
    assert host(w.grad) == [3] and w.pass_id > number


def test_backward_leaves_the_queue_flushed_and_named(on_device: Device) -> None:
    x = leaf([1.0, 2.0])
    tape = ag.Tape()
    assert tape._pending_flush_queue is None
    tape.backward((x * x).sum())
    assert tape._pending_flush_queue is on_device.queue
    assert host(x.grad) == [2, 4]  # to_host is the barrier


def test_a_pass_that_raises_changes_no_gradient() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    good = x * w
    good.backward()
    before = {node: (node.grad, node.pass_id) for node in (x, w, good)}

    def fail(g: nc.Tensor) -> list[Any]:
        raise KeyError("mine")

    bad = ag.apply_op(lambda v: v * 1.0, fail, w)
    loss = (good + bad * x).sum()
    with pytest.raises(KeyError, match="mine"):
        loss.backward()
    for node, (grad, number) in before.items():
        assert node.grad is grad and node.pass_id == number
    assert bad.grad is None and loss.grad is None


def test_the_values_in_a_graph_do_not_change_when_a_parameter_gets_a_new_one() -> None:
    w, x = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    y = w * x
    loss = (y * y).sum()
    w.value = ag.tensor([100.0, 100.0])  # as an optimiser does
    loss.backward()
    assert host(loss) == 100 + 441
    assert host(x.grad) == [2 * 10 * 2, 2 * 21 * 3]  # with the w that the loss saw
    assert host(w.grad) == [2 * 10 * 5, 2 * 21 * 7]
    assert host(w * x) == [500, 700]


# The life of a graph


def test_backward_releases_nothing_and_release_does() -> None:
    x = leaf([1.0, 2.0])
    with ag.Tape() as tape:
        k = x * x
        loss = k.sum()
    for times in (1, 2, 3):
        tape.backward(loss)
        assert host(x.grad) == [2 * times, 4 * times]
    tape.release()
    assert loss.released and k.released and not x.released
    assert (loss.parents, loss.operands, k.parents) == ([], (), [])
    assert host(loss) == 5 and host(k.grad) == [1, 1] and host(x.grad) == [6, 12]  # values and gradients stay
    with pytest.raises(GraphError, match="released"):
        tape.backward(loss)
    with pytest.raises(GraphError, match="released"):
        (k * 2.0).backward()
    assert host(x.grad) == [6, 12]
    (x * 3.0).backward()  # the leaf itself is free to take part in another graph
    assert host(x.grad) == [9, 15]


def test_release_reaches_what_was_computed_before_the_tape() -> None:
    x = leaf([1.0])
    early = x * 2.0
    tape = ag.Tape()
    tape.backward(early * 3.0)
    tape.release()
    assert early.released


def test_a_loss_that_needs_no_gradient_says_so() -> None:
    x = leaf([1.0])
    with ag.no_grad():
        silent = x * 2.0
    for loss, what in ((silent, r"\(1,\)"), (ag.tensor([[1.0]]), r"\(1, 1\)"), (x.detach(), r"\(1,\)"), (3.0, "3.0")):
        with pytest.raises(GraphError, match=f"{what}.*no graph") as caught:
            ag.Tape().backward(loss)
        assert isinstance(caught.value, RuntimeError)
    frozen = ag.Node(ag.tensor([3.0]), requires_grad=False)
    with pytest.raises(GraphError, match="told not to"):
        frozen.backward()


def test_a_leaf_is_its_own_loss() -> None:
    x = leaf([1.0, 2.0])
    x.backward([3.0, 4.0])
    assert host(x.grad) == [3, 4]


# No recursion


LONG = 60_000


def chain(x: Any) -> Any:
    """Sixty thousand nodes, most of them views, which cost no memory: the length is what matters."""
    y = x
    for _ in range(LONG // 1_000):
        y = -y
        for _ in range(999):
            y = y.T
    return y


def test_a_chain_of_60000_nodes_is_ordered_pulled_back_printed_and_freed() -> None:
    x = leaf([1.0, 2.0])
    with ag.Tape() as tape:
        y = chain(x) * 3.0
    assert len(ag.build_topo(y)) == LONG + 2
    tape.backward(y)
    assert host(x.grad) == [3, 3] and host(y) == [3, 6]
    assert host(tape.nodes[0].grad) == [-3, -3]
    assert repr(y) == "<Node mul (2,) float32>" and len(repr(tape)) < 200
    last = weakref.ref(y)
    del tape, y
    assert last() is None


def test_a_long_chain_without_a_tape_is_freed_by_its_last_reference() -> None:
    x = leaf([1.0])
    first = x + 0.0
    gone = weakref.ref(first)
    last = chain(first)
    del first
    assert gone() is not None
    del last
    assert gone() is None


def test_release_of_a_long_chain_needs_no_recursion() -> None:
    x = leaf([1.0])
    with ag.Tape() as tape:
        y = chain(x)
    tape.release()
    assert y.released and y.parents == [] and host(y) == [1]


def test_a_deep_graph_of_second_derivatives_needs_no_recursion() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(2_000):
        y = y * 1.0
    ag.Tape().backward(y * x, create_graph=True)
    first = x.grad
    assert host(first) == [2]
    x.zero_grad()
    first.backward()
    assert host(x.grad) == [2]


def test_a_float32_leaf_gets_a_float32_gradient_beside_a_float64_operand(device: Device) -> None:
    if not device.has_fp64:
        pytest.skip("no float64 on this device")
    a = ag.tensor(np.ones((2, 3), np.float32), requires_grad=True, device=device)
    b = ag.tensor(np.full((3, 2), 2.0), requires_grad=True, device=device)
    (a @ b).sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(a.grad.to_host(), np.full((2, 3), 4.0))
    np.testing.assert_array_equal(b.grad.to_host(), np.full((3, 2), 2.0))
