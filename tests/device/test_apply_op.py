"""apply_op: ops of a user's own, and what is asked of their grad_fn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.errors import ArgumentError, GradFnError, GraphError

pytestmark = pytest.mark.usefixtures("on_device")


def leaf(values: Any) -> Any:
    return ag.tensor(values, requires_grad=True)


def host(x: Any) -> Any:
    return x.to_host().tolist()


def taken(x: Any) -> Any:
    """Return the gradient of x, which is then without one."""
    gradient = x.grad
    x.zero_grad()
    return gradient


def cube(x: Any, **more: Any) -> Any:
    return ag.apply_op(lambda v: v * v * v, lambda g: [g * 3.0 * x * x], x, op_name="cube", **more)


# What it records


def test_fn_gets_tensors_and_the_node_holds_what_it_returns() -> None:
    x, c = leaf([1.0, 2.0]), ag.tensor([3.0, 4.0])
    seen: list[Any] = []

    def scaled(a: Any, b: Any, k: Any) -> Any:
        seen.extend([a, b, k])
        return a * b * k

    y = ag.apply_op(scaled, lambda g: [g * c * 2.0, None, None], x, c, 2.0)
    assert seen == [x.value, c, 2.0]
    assert type(y) is ag.Node and host(y) == [6, 16]
    assert (y.op_name, y.parents, y.operands) == ("scaled", [x], (x, c, 2.0))
    y.backward([1.0, 10.0])
    assert host(x.grad) == [6, 80]


def test_op_name_names_the_op() -> None:
    assert cube(leaf([1.0])).op_name == "cube"
    assert ag.apply_op(lambda v: v + 1.0, lambda g: [g], leaf([1.0])).op_name == "<lambda>"


def test_it_records_on_the_innermost_tape_or_on_the_one_that_is_passed() -> None:
    x = leaf([2.0])
    other = ag.Tape()
    with ag.Tape() as outer, ag.Tape() as inner:
        a = cube(x)
        b = cube(x, tape=other)
        c = cube(x, tape=outer)
    assert (outer.nodes, inner.nodes, other.nodes) == ([c], [a], [b])
    d = cube(x, tape=other)
    e = cube(x)
    assert other.nodes == [b, d]
    other.backward(a + b + c + d + e)
    assert host(x.grad) == [5 * 12]


def test_without_a_node_or_without_recording_it_gives_a_tensor() -> None:
    assert type(cube(ag.tensor([2.0]))) is nc.Tensor
    with ag.no_grad():
        y = cube(leaf([2.0]))
    assert type(y) is nc.Tensor and host(y) == [8]
    assert type(ag.apply_op(lambda v: v > 1.0, lambda g: [g], leaf([2.0]))) is nc.Tensor


@pytest.mark.parametrize(("wrong", "named"), [(np.ones(2), "ndarray"), (3.0, "float"), (None, "NoneType")])
def test_fn_must_return_a_tensor(wrong: Any, named: str) -> None:
    with pytest.raises(ArgumentError, match=f"mine.*{named}"):
        ag.apply_op(lambda v: wrong, lambda g: [g], leaf([1.0]), op_name="mine")


# What grad_fn is given and what it may return


def test_grad_fn_returns_one_entry_per_argument_and_the_node_one_per_parent() -> None:
    x, c, w = leaf([1.0]), ag.tensor([5.0]), leaf([3.0])
    y = ag.apply_op(lambda a, b, d: a * b + d, lambda g: [g * c, ag.tensor([99.0, 99.0]), g], x, c, w)
    assert y.parents == [x, w]
    assert [host(g) for g in y.grad_fn(ag.tensor([2.0]))] == [[10], [2]]
    y.backward()
    assert (host(x.grad), host(w.grad)) == ([5], [1])


def test_none_is_no_gradient() -> None:
    x, w = leaf([1.0]), leaf([3.0])
    y = ag.apply_op(lambda a, b: a + b, lambda g: (None, g), x, w)
    y.backward()
    assert x.grad is None and host(w.grad) == [1]


def test_one_node_twice_among_the_arguments_gets_both_gradients() -> None:
    x = leaf([3.0])
    y = ag.apply_op(lambda a, b: a * b, lambda g: [g * 10.0, g * 1.0], x, x)
    y.backward()
    assert host(x.grad) == [11]


def test_a_grad_fn_that_accepts_out_is_given_the_result() -> None:
    x = leaf([0.0, 1.0])
    given: list[Any] = []

    def pull(g: Any, out: Any) -> list[Any]:
        given.append(out)
        return [g * out]

    def pull_with_more(g: Any, **more: Any) -> list[Any]:
        given.append(more["out"])
        return [g * more["out"]]

    for rule in (pull, pull_with_more):
        x.zero_grad()
        y = ag.apply_op(lambda v: v.exp(), rule, x, op_name="exp")
        y.backward()
        assert given.pop() is y.value
        np.testing.assert_allclose(x.grad.to_host(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_g_has_the_shape_and_dtype_of_the_result() -> None:
    x = leaf([[1.0, 2.0]])
    seen: list[tuple[Any, Any]] = []

    def pull(g: Any) -> list[Any]:
        seen.append((g.shape, g.dtype))
        return [g.broadcast_to((1, 2))]

    y = ag.apply_op(lambda v: v.sum(), pull, x)
    (y * 3.0).backward()
    assert seen == [((), np.float32)]
    assert host(x.grad) == [[3, 3]]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda g: [nc.ones(5)], r"mine.*\(5,\).*argument 0.*\(2,\)"),
        (lambda g: [nc.ones((2, 1)), g], r"mine.*\(2, 1\).*argument 0.*\(2,\)"),
        (lambda g: [g, g.sum()], r"mine.*\(\).*argument 1.*\(2,\)"),
        (lambda g: [g], r"mine.*one entry per argument \(2\).*1 entries"),
        (lambda g: [g, g, g], r"mine.*\(2\).*3 entries"),
        (lambda g: [], r"mine.*\(2\).*0 entries"),
        (lambda g: g, r"mine.*\(2\).*Tensor"),
        (lambda g: None, r"mine.*\(2\).*NoneType"),
        (lambda g: [g, g > 0.0], r"mine.*bool.*argument 1.*float32"),
        (lambda g: [g.astype(np.int32), g], r"mine.*int32.*argument 0.*float32"),
        (lambda g: [g, np.ones(2, np.float32)], r"mine.*ndarray.*argument 1"),
        (lambda g: [1.0, g], r"mine.*float.*argument 0"),
    ],
)
def test_what_a_grad_fn_returns_is_checked_and_the_op_named(returned: Any, says: str) -> None:
    arguments = (leaf([1.0, 2.0]), leaf([3.0, 4.0]))
    if "(5,)" in says.replace("\\", ""):
        arguments = arguments[:1]  # the case as it was reported: (5,) for a (2,) parent
    y = ag.apply_op(lambda *v: v[0] * 1.0, returned, *arguments, op_name="mine")
    with pytest.raises(GradFnError, match=says) as caught:
        y.sum().backward()
    assert isinstance(caught.value, ValueError)
    assert all(x.grad is None for x in arguments) and y.grad is None


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda g: [g], r"by hand.*1 gradients for 2 parents"),
        (lambda g: None, r"by hand.*NoneType.*2 parents"),
        (lambda g: [nc.ones(5), g], r"by hand.*\(5,\).*\(2,\)"),
        (lambda g: [g, g > 0.0], r"by hand.*bool.*float32"),
        (lambda g: [3.0, g], r"by hand.*float for"),
    ],
)
def test_the_grad_fn_of_a_node_made_by_hand_is_checked_too(returned: Any, says: str) -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    node = ag.Node(x.value + w.value, returned, [x, w], op_name="by hand")
    with pytest.raises(GradFnError, match=says):
        (node * 2.0).backward()
    assert x.grad is None and w.grad is None and node.grad is None


# Under create_graph


def test_under_create_graph_g_and_out_are_nodes() -> None:
    x = leaf([2.0])
    seen: list[Any] = []

    def pull(g: Any, out: Any) -> list[Any]:
        seen.extend([g, out])
        return [g * out]

    y = ag.apply_op(lambda v: v.exp(), pull, x, op_name="exp")
    ag.Tape().backward(y, create_graph=True)
    assert type(seen[0]) is ag.Node and seen[1] is y
    first = taken(x)
    first.backward()
    np.testing.assert_allclose(x.grad.to_host(), np.exp([2.0]), rtol=1e-6)


def test_a_grad_fn_made_of_ops_on_nodes_has_a_second_derivative() -> None:
    x = leaf([2.0])
    ag.Tape().backward(cube(x), create_graph=True)
    first = taken(x)
    assert type(first) is ag.Node and host(first) == [12]
    ag.Tape().backward(first, create_graph=True)
    second = taken(x)
    assert host(second) == [12]
    second.backward()
    assert host(x.grad) == [6]


def test_a_grad_fn_that_is_linear_in_g_has_a_graph_through_g() -> None:
    x = leaf([2.0])
    y = ag.apply_op(lambda v: v * 3.0, lambda g: [g * 3.0], x, op_name="triple")
    ag.Tape().backward(y * y, create_graph=True)
    first = taken(x)
    assert host(first) == [36]
    first.backward()
    assert host(x.grad) == [18]


def test_a_result_without_a_graph_is_refused_unless_it_was_said_to_have_none() -> None:
    x = leaf([2.0])

    def through_numpy(g: Any) -> list[Any]:
        return [ag.tensor(g.to_host() * 3 * x.to_host() ** 2)]

    y = ag.apply_op(lambda v: v * v * v, through_numpy, x, op_name="cube")
    y.backward()
    assert host(x.grad) == [12]
    x.zero_grad()
    with pytest.raises(GraphError, match=r"cube.*without a graph.*once_differentiable"):
        ag.Tape().backward(y, create_graph=True)
    assert x.grad is None

    once = ag.apply_op(lambda v: v * v * v, through_numpy, x, op_name="cube", once_differentiable=True)
    ag.Tape().backward(once, create_graph=True)
    first = taken(x)
    assert type(first) is ag.Node and host(first) == [12]
    with pytest.raises(GraphError, match=r"cube.*once"):
        first.backward()
    assert x.grad is None


def test_the_second_derivative_of_a_once_differentiable_op_raises_inside_a_larger_graph_too() -> None:
    x = leaf([2.0])
    once = ag.apply_op(lambda v: v * v, lambda g: [g * x.value * 2.0], x, op_name="square", once_differentiable=True)
    ag.Tape().backward(3.0 * once + x * x, create_graph=True)
    first = taken(x)
    assert host(first) == [16]
    with pytest.raises(GraphError, match="square"):
        first.sum().backward()
