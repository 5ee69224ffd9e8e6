"""Fused functions give what eager ones give: values, gradients, errors, whatever their chains are made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netcl import autograd as ag
from netcl.commands import recorded
from netcl.errors import AnomalyError, ArgumentError, DTypeError, GradcheckError, GraphError, ShapeError
from netcl.ops import OPS, Row
from netcl.platforms import get_device
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on_device")

Function = Callable[..., Any]
RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 1).normal(size=shape).astype(dtype)


def leaves(hosts: tuple[Any, ...]) -> list[Any]:
    return [x if isinstance(x, (int, float)) else ag.tensor(x, requires_grad=x.dtype.kind == "f") for x in hosts]


def with_gradients(f: Function, hosts: tuple[Any, ...]) -> tuple[Any, list[np.ndarray | None]]:
    """The result of f, and the gradients of its squared sum with respect to all leaves."""
    xs = leaves(hosts)
    out = f(*xs)
    if isinstance(out, ag.Node) and out.size:
        ((out * out).sum() if out.shape else out).backward()
    return out, [x.grad.to_host() if isinstance(x, ag.Node) and x.grad is not None else None for x in xs]


def same(f: Function, *hosts: Any, rtol: float = 1e-4, atol: float = 1e-5) -> Any:
    """Assert that f fused gives what f gives, and return its result."""
    eager, expected = with_gradients(f, hosts)
    fused, found = with_gradients(ag.fuse(f), hosts)
    assert type(fused) is type(eager)
    assert (fused.shape, fused.dtype) == (eager.shape, eager.dtype)
    np.testing.assert_allclose(fused.to_host(), eager.to_host(), rtol=rtol, atol=atol)
    for here, there in zip(found, expected, strict=True):
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            assert (here.shape, here.dtype) == (there.shape, there.dtype)
            np.testing.assert_allclose(
                here, there, rtol=rtol, atol=atol * max(1.0, float(np.abs(there).max(initial=0)))
            )
    return fused


def launches(action: Callable[[], Any]) -> int:
    action()
    with recorded(get_device()) as commands:
        action()
    return sum(command.kind == "kernel" for command in commands)


# What is fused


def test_a_chain_and_its_sum_are_one_node_and_one_launch_each_way() -> None:
    x, w = ag.tensor(normal(50), requires_grad=True), ag.tensor(normal(50), requires_grad=True)
    f = ag.fuse(lambda x, w: (ag.tanh(x * w + 0.5) ** 2).sum())
    loss = f(x, w)
    assert loss.parents == [x, w]
    assert all(node.grad_fn is None for node in loss.parents)
    assert launches(lambda: f(x, w)) == 1
    seed = Tensor.from_host(np.float32(1))
    assert launches(lambda: loss.grad_fn(seed)) == 1


def test_a_fused_node_is_called_as_its_function() -> None:
    def swish(x: Any) -> Any:
        """x times its sigmoid."""
        return x * ag.sigmoid(x)

    fused = ag.fuse(swish)
    x = ag.tensor([1.0], requires_grad=True)
    assert (fused.__name__, fused.__doc__) == ("swish", "x times its sigmoid.")
    assert fused(x).op_name == "fused swish"
    assert ag.fuse(lambda x: x * 2 + 1)(x).op_name == "fused"
    assert fused(x).site.source_line() == "return x * ag.sigmoid(x)"


def test_no_intermediate_result_is_stored() -> None:
    x = ag.tensor(np.ones(1 << 16, np.float32), requires_grad=True)
    f = ag.fuse(lambda x: ((x * 2 + 1) * x - x).mean())
    with recorded(get_device()) as commands:
        loss = f(x)
    assert loss.grad_fn.saved[0] is x.value
    assert not any(isinstance(value, Tensor) and value is not x.value for value in loss.grad_fn.saved)
    assert len([command for command in commands if command.work >= x.size]) == 1


def test_numbers_are_arguments_of_one_kernel() -> None:
    x = ag.tensor(normal(4), requires_grad=True)
    f = ag.fuse(lambda x, slope: (x * slope + slope).sum())
    programs = set()
    for slope in (0.5, 1.5, -2.0):
        with recorded(get_device()) as commands:
            loss = f(x, slope)
            loss.backward()
        programs |= {command.program for command in commands if command.name.startswith("fused")}
        assert loss.item() == pytest.approx(float((x.to_host() * slope + slope).sum()), rel=1e-5)
    assert len(programs) == 2


def test_what_does_not_fuse_runs_between_the_chains() -> None:
    out = same(lambda x, w, b, v: ag.sigmoid(ag.tanh(x @ w + b) @ v).mean(), normal(6, 3), normal(3, 4), normal(4),
               normal(4, 1))  # fmt: skip
    names = [node.op_name for node in ag.build_topo(out) if node.op_name]
    assert names == ["matmul", "fused", "matmul", "fused"]


def test_long_chains_are_cut() -> None:
    def f(x: Any) -> Any:
        for _ in range(150):
            x = x * 0.99 + 0.01
        return x

    assert len([node for node in ag.build_topo(same(f, normal(3))) if node.op_name]) > 2


def test_shared_values_are_computed_once_in_a_kernel() -> None:
    def f(z: Any, c: Any) -> Any:
        for _ in range(12):
            z = z * z * 0.5 + c
        return z

    out = same(f, normal(3) * 0.3, normal(3) * 0.3)
    assert [node.op_name for node in ag.build_topo(out) if node.op_name] == ["fused f"]


# Shapes, dtypes, layouts

CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "broadcast": (lambda x, w, b: ag.tanh(x * w + b), (normal(4, 5), normal(5), normal(4, 1))),
    "broadcast rows": (lambda x, w, b: ag.tanh(x * w + b), (normal(4, 300), normal(300), normal(4, 1))),
    "broadcast and sum": (lambda x, w, b: (ag.tanh(x * w) * b).sum(), (normal(4, 300), normal(300), normal(4, 1))),
    "broadcast and mean": (lambda x, w: (ag.tanh(x * w) * 2).mean(), (normal(4, 300), normal(4, 1))),
    "rank 5": (lambda x, w: x * w + x, (normal(2, 1, 3, 1, 2), normal(1, 2, 1, 2, 1))),
    "0-d": (lambda x, y: x * y + y, (np.float32(3), np.float32(2))),
    "0-d with more": (lambda x, y: x * y + y, (np.asarray(3, np.float32), normal(2, 2))),
    "(1,) with (1, 2)": (lambda x, y: x * y + x, (normal(1), normal(1, 2))),
    "sum of one": (lambda x: (x * x).sum(), (normal(1, 1),)),
    "sum over a long last axis": (lambda x: (x * x).sum(axis=-1), (normal(3, 70),)),
    "sum over long last axes": (lambda x: (x * x).sum(axis=(1, 2), keepdims=True), (normal(3, 20, 40),)),
    "mean over a long last axis": (lambda x, w: (x * w).mean(axis=1), (normal(3, 700), normal(700))),
    "sum over a short axis": (lambda x: (x * x).sum(axis=-1), (normal(70, 3),)),
    "sum over the first axis": (lambda x: (x * x).sum(axis=0), (normal(70, 3),)),
    "sum over every axis by name": (lambda x: (x * x).sum(axis=(0, 1), keepdims=True), (normal(7, 3),)),
    "sum of more than a group": (lambda x: (x * x).sum(), (normal(70001),)),
    "softmax by hand": (
        lambda x: ag.exp(x - x.max(axis=-1, keepdims=True)) / ag.exp(x - x.max(axis=-1, keepdims=True)).sum(-1, True),
        (normal(3, 90),),
    ),
    "ops after a sum": (lambda x: ag.sqrt((x * x + 1).sum()) * 2, (normal(9),)),
    "a sum in a sum": (lambda x: (x * (x * 2).sum()).sum(), (normal(9),)),
    "a small operand's own chain": (lambda x, s: x * ag.exp(s * 2), (normal(5, 4), normal(4))),
    "mixed floats": (lambda x, y: (x * y + x).sum(), (normal(4), normal(4, dtype=np.float64))),
    "integers": (lambda x, n: x * n + n / 2, (normal(4), np.arange(4))),
    "integers alone": (lambda n: n * n + 1, (np.arange(4),)),
    "mean of integers": (lambda n: (n * n).mean(), (np.arange(4),)),
    "sum of truth values": (lambda x: (x > 0).sum(), (normal(9),)),
    "truth values": (lambda x: x * (x > 0), (normal(9),)),
    "a mask of integers": (lambda x, n: ag.where(n, x, x * 2), (normal(4), np.array([0, 256, 1, 0]))),
    "a mask of floats": (lambda x: ag.where(x > 0, 1.0, 2.0), (normal(4),)),
    "where": (lambda x: ag.where(x > 0, x, x * 0.1) * x, (normal(9),)),
    "kinks": (lambda x: ag.relu(x - x) + ag.abs(x * 0) + ag.maximum(x * 1, x), (normal(9),)),
    "an unused branch that overflows": (lambda x: ag.where(x <= 100, x * 2, x * x), (normal(4),)),
    "small powers": (lambda x: x**2 + x**3 - x**-1 + x**0 + (x + 0) ** 1 + (x * x) ** 4.0, (normal(6),)),
    "other powers": (lambda x, e: (x * x) ** e + (x * x + 1) ** 0.5, (normal(6), 2.5)),
    "a number to a power": (lambda x: 2.0 ** (x * 2), (normal(6),)),
    "one leaf in two places": (lambda x: x * x + x, (normal(6),)),
    "the operand itself": (lambda x: x, (normal(6),)),
    "no elements": (lambda x: x * 2 + 1, (normal(0, 3),)),
    "a sum of no elements": (lambda x: (x * 2).sum(), (normal(0, 3),)),
    "a sum over no elements": (lambda x: (x * 2).sum(axis=0), (normal(0, 3),)),
    "a transposed operand": (lambda x, y: x.T * y + y, (normal(3, 4), normal(4, 3))),
    "strides": (lambda x: x[:, ::2] * x[::1, 1::2] + 1, (normal(3, 8),)),
    "reversed": (lambda x: (x[::-1] * x + 1).sum(), (normal(8),)),
    "a slice of its own result": (lambda x: (x * 2)[1:] + x[:-1], (normal(8),)),
    "reshaped": (lambda x: (x * 2).reshape(6) + 1, (normal(2, 3),)),
    "joined": (lambda x: ag.concatenate([x * 2, x + 1]) * 3, (normal(2, 3),)),
    "cast": (lambda x: (x * 2).astype(np.float64) * 3, (normal(3),)),
    "composite": (lambda x: ag.log_softmax(x * 2).mean() + (x * 3).var(), (normal(3, 4),)),
}


@pytest.mark.parametrize("name", CASES)
def test_fused_is_eager(name: str) -> None:
    if not get_device().has_fp64 and name in ("mixed floats", "cast"):
        pytest.skip("the device has no float64")
    f, hosts = CASES[name]
    same(f, *hosts)


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if isinstance(op, Row)])
def test_every_row_fuses(name: str, draw: Callable[..., list[np.ndarray]]) -> None:
    row = OPS[name]
    hosts = draw(row, np.random.default_rng(0), [(4, 3), (3,), (4, 1)][: len(row.args)], np.float32)
    same(lambda *xs: row(*xs) * 1.5, *hosts)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", [(1025,), (3, 300)])
def test_float64_is_computed_in_float64(shape: tuple[int, ...]) -> None:
    x, w = normal(*shape, dtype=np.float64), normal(1, dtype=np.float64)
    same(lambda x, w: (ag.tanh(x * w) * x).mean(axis=-1), x, w, rtol=1e-12, atol=1e-13)
    same(lambda x, w: (ag.tanh(x * w) * x).sum(), x, w, rtol=1e-12, atol=1e-13)


SPECIAL = np.array([-np.inf, -3, -1, -0.0, 0, 1e-30, 0.3, 1, 7, 1e30, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("n", [*sorted(OPS["pow"].literals), -0.0, 2.5, -3])  # type: ignore[attr-defined]
def test_powers_have_the_bits_of_eager_ones(n: float) -> None:
    """Each exponent, and each as a base: what is written into the source is the same on both ways, +0 only added."""
    for f in (lambda x: x**n + 0, lambda x: n**x + 0):
        (eager, expected), (fused, found) = (with_gradients(each, (SPECIAL,)) for each in (f, ag.fuse(f)))
        np.testing.assert_array_equal(fused.to_host(), eager.to_host())
        np.testing.assert_array_equal(found, expected)


def test_minus_zero_is_not_zero_to_a_power() -> None:
    x = Tensor.from_host([-1.0, 1.0, 2.0])
    for base in (0.0, -0.0, 0.0):
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal((base**x).to_host(), np.float32(base) ** x.to_host())


def test_views_are_read_in_place() -> None:
    wide = ag.tensor(normal(6, 8), requires_grad=True)
    views = (wide.value[:, ::2], wide.value.T[:4], wide.value[::-1])
    for view in views:
        host = view.to_host()
        out = ag.fuse(lambda x: ag.tanh(x) * x)(view)
        np.testing.assert_allclose(out.to_host(), np.tanh(host) * host, rtol=1e-5, atol=1e-6)
        total = ag.fuse(lambda x: (ag.tanh(x) * x).sum())(view)
        np.testing.assert_allclose(total.to_host(), (np.tanh(host) * host).sum(), rtol=1e-5)


def test_the_cotangent_may_be_a_view() -> None:
    x = ag.tensor(normal(4, 3), requires_grad=True)
    for f in (lambda x: x * x * 2, lambda x: (x * x) * 2):
        out = ag.fuse(f)(x)
        x.zero_grad()
        (out.T * ag.tensor(normal(3, 4))).sum().backward()
        np.testing.assert_allclose(x.grad.to_host(), 4 * x.to_host() * normal(3, 4).T, rtol=1e-5)


def test_float32_sums_stay_accurate() -> None:
    host = np.full(1 << 20, 0.1, np.float32)
    total = ag.fuse(lambda x: (x * 1.0 + 0.0).sum())(ag.tensor(host, requires_grad=True)).item()
    assert total == pytest.approx(float(host.astype(np.float64).sum()), rel=1e-6)


@pytest.mark.parametrize("kind", ["CPU", "GPU"])
@pytest.mark.parametrize("shape", [
    *[(n,) for n in (1, 63, 64, 65, 256, 257, 1025, 4097)], *[(3, n) for n in (63, 64, 257, 1100)], (70, 3), (65, 1),
])  # fmt: skip
def test_groups_that_do_not_fill_a_row(shape: tuple[int, ...], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_device(), "kind", kind)  # CPUs and GPUs add up in their own ways, and both do so anywhere
    x, w, s = normal(*shape), normal(*shape[-1:]), normal(1)
    parts: list[Function] = [lambda y: y, lambda y: y.sum(), lambda y: y.mean(axis=-1)]
    for end in parts:
        same(lambda x, w, s, end=end: end(ag.sin(x * w) * s + x), x, w, s)


# Random chains


class Chain(NamedTuple):
    """A program drawn at random: each step is an op and where its operands come from."""

    steps: list[tuple[str, int, int]]
    shapes: list[tuple[int, ...]]
    end: str
    f64: list[bool]


UNARY = ("tanh", "sin", "sigmoid", "relu", "abs", "square", "exp", "neg", "half", "shift", "cube")
BINARY = ("add", "sub", "mul", "maximum", "where", "div")
SHAPES = ((3, 4), (4,), (3, 1), (1, 4), (), (1,))


@st.composite
def chains(draw: Callable[..., Any]) -> Chain:
    shapes = [(3, 4), *draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))]
    steps = []
    for k in range(draw(st.integers(1, 9))):
        place = st.integers(0, len(shapes) + k - 1)
        steps.append((draw(st.sampled_from(UNARY + BINARY)), draw(place), draw(place)))
    f64 = draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes)))
    return Chain(steps, shapes, draw(st.sampled_from(("none", "sum", "mean", "last"))), f64)


def run_chain(chain: Chain, *xs: Any) -> Any:
    values = list(xs)
    for name, i, j in chain.steps:
        a, b = values[i], values[j]
        if name in ("half", "shift", "cube"):
            values.append({"half": lambda a: a * 0.5, "shift": lambda a: 1 - a, "cube": lambda a: a**3}[name](a))
        elif name == "exp":
            values.append(ag.exp(ag.minimum(a, 1.0)))
        elif name == "div":
            values.append(a / (b * b + 1))
        elif name == "where":
            values.append(ag.where(a > b, a, b * 0.5))
        else:
            values.append(OPS[name](a, b) if name in BINARY else OPS[name](a))
    out = values[-1] * values[0]
    return {"none": lambda: out, "sum": out.sum, "mean": out.mean, "last": lambda: out.sum(axis=-1)}[chain.end]()


@settings(max_examples=20)
@given(chains())
def test_random_chains_are_as_eager(chain: Chain) -> None:
    rng = np.random.default_rng(len(chain.steps))
    hosts = [
        np.asarray(rng.uniform(-1.2, 1.2, shape), np.float64 if wide and get_device().has_fp64 else np.float32)
        for shape, wide in zip(chain.shapes, chain.f64, strict=True)
    ]
    eager, expected = with_gradients(lambda *xs: run_chain(chain, *xs), tuple(hosts))
    if not np.isfinite(eager.to_host()).all() or np.abs(eager.to_host()).max() > 1e6:
        return  # cubes of cubes: what overflows first is a matter of rounding
    fused, found = with_gradients(ag.fuse(lambda *xs: run_chain(chain, *xs)), tuple(hosts))
    assert (fused.shape, fused.dtype) == (eager.shape, eager.dtype)
    np.testing.assert_allclose(fused.to_host(), eager.to_host(), rtol=1e-3, atol=1e-4)
    for here, there in zip(found, expected, strict=True):
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            scale = max(1.0, float(np.abs(there).max()))
            np.testing.assert_allclose(here, there, rtol=2e-3, atol=2e-4 * scale)


# Graphs: closures, branches, modes, transforms


def test_nodes_that_are_closed_over_get_their_gradients() -> None:
    w, b = ag.tensor(normal(4), requires_grad=True), ag.tensor([0.5], requires_grad=True)
    x = ag.tensor(normal(3, 4))
    grads = []
    for make in (lambda f: f, ag.fuse):
        w.zero_grad()
        b.zero_grad()
        make(lambda x: ag.tanh(w * x + b).sum())(x).backward()
        grads.append((w.grad.to_host(), b.grad.to_host()))
    for here, there in zip(*grads, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


def test_a_closure_is_read_at_every_call() -> None:
    scale = 2.0
    f = ag.fuse(lambda x: x * scale + 1)
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    assert f(x).to_host().tolist() == [3.0, 5.0]
    scale = 10.0
    assert f(x).to_host().tolist() == [11.0, 21.0]


def test_a_branch_on_a_value_goes_the_right_way() -> None:
    def f(x: Any) -> Any:
        h = x * 2
        return h * h if h.sum() > 0 else h * 3

    for sign in (1, -1):
        same(f, sign * np.abs(normal(4)))


def test_python_sees_values_inside() -> None:
    seen = []

    def f(x: Any) -> Any:
        h = x * 2 + 1
        seen.extend([h[1].item(), float(h.sum()), f"{h.sum():.1f}", h.to_host().tolist(), h.shape, len(h), h.dtype])
        return (h * np.asarray(h)).sum()

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    loss = ag.fuse(f)(x)
    assert seen == [5.0, 8.0, "8.0", [3.0, 5.0], (2,), 2, np.dtype(np.float32)]
    loss.backward()
    assert x.grad.to_host().tolist() == [6.0, 10.0]


def test_several_results_and_values_that_escape() -> None:
    kept = []

    def f(x: Any, *, y: Any) -> dict[str, Any]:
        h = x * y
        kept.append(h)
        return {"both": (h + 1, [h * 2]), "name": "h"}

    x, y = ag.tensor([1.0, 2.0], requires_grad=True), ag.tensor([3.0, 4.0], requires_grad=True)
    out = ag.fuse(f)(x, y=y)
    assert out["both"][0].to_host().tolist() == [4.0, 9.0]
    assert out["both"][1][0].to_host().tolist() == [6.0, 16.0]
    assert out["name"] == "h"
    (kept[0] * out["both"][0]).sum().backward()
    np.testing.assert_allclose(x.grad.to_host(), [3 * (2 * 3 + 1), 4 * (2 * 8 + 1)])


def test_methods_and_fused_functions_in_fused_functions() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = ag.tensor([2.0, 3.0], requires_grad=True)

        @ag.fuse
        def __call__(self, x: Any) -> Any:
            return half(x * self.w)

    @ag.fuse
    def half(x: Any) -> Any:
        return x * x * 0.5

    layer = Layer()
    x = ag.tensor([1.0, -1.0], requires_grad=True)
    out = layer(x)
    assert [node.op_name for node in ag.build_topo(out) if node.op_name] == ["fused __call__"]
    out.sum().backward()
    np.testing.assert_allclose(layer.w.grad.to_host(), [2.0, 3.0])


def test_no_grad_outside_and_inside() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Any) -> Any:
        with ag.no_grad():
            constant = x * x
        return (constant * x).sum()

    ag.fuse(f)(x).backward()
    assert x.grad.to_host().tolist() == [1.0, 4.0]
    with ag.no_grad():
        assert isinstance(ag.fuse(f)(x), Tensor)
    assert isinstance(ag.fuse(f)(x.value), Tensor)
    with ag.no_grad():
        pass


def test_a_value_looked_at_under_no_grad_keeps_its_graph() -> None:
    def f(x: Any) -> Any:
        h = x * x
        with ag.no_grad():
            h.to_host()
        return h.sum()

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    ag.fuse(f)(x).backward()
    assert x.grad.to_host().tolist() == [2.0, 4.0]


def test_a_sum_of_what_was_looked_at_meanwhile() -> None:
    def f(x: Any) -> Any:
        h = x * x
        total = h.sum()
        h.to_host()
        return total * 1.5

    same(f, normal(4))


def test_a_chain_of_one_op_is_that_op() -> None:
    out = ag.fuse(lambda x: x * 2)(ag.tensor([1.0], requires_grad=True))
    assert out.op_name == "mul" and out.site.source_line().startswith("out = ag.fuse(lambda")


def test_nodes_that_need_no_gradient_get_none() -> None:
    x, y = ag.tensor([1.0], requires_grad=True), ag.tensor([2.0], requires_grad=True)
    y.requires_grad = False
    out = ag.fuse(lambda x: x * y + y)(x)
    assert out.parents == [x]
    assert isinstance(ag.fuse(lambda x: ag.where(x > 0, 1.0, 2.0) * 3)(x), Tensor)


def test_tapes_hold_the_fused_nodes_and_release_them() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.Tape() as tape:
        loss = ag.fuse(lambda x: (x * x).sum())(x)
    assert tape.nodes == [loss]
    tape.backward(loss)
    tape.backward(loss)
    assert x.grad.to_host().tolist() == [4.0, 8.0]
    tape.release()
    with pytest.raises(GraphError, match="released"):
        loss.backward()


def test_backward_inside_a_fused_function() -> None:
    def f(x: Any, way: str) -> Any:
        loss = (x * x).sum()
        if way == "tape":
            ag.Tape().backward(loss)
        else:
            loss.backward()
        return loss

    for way in ("tape", "method"):
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        ag.fuse(f)(x, way)
        assert x.grad.to_host().tolist() == [2.0, 4.0]


def chain(x: Any) -> Any:
    return (ag.tanh(x * x + 0.5) ** 2 * x).sum()


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "grad": ag.grad,
    "hessian": ag.hessian,
    "grad of grad": lambda f: ag.grad(lambda x: (ag.grad(f)(x) ** 2).sum()),
    "jvp": lambda f: lambda x: ag.jvp(f, (x,), (x,))[1],
    "hvp": lambda f: lambda x: ag.hvp(f, x, x),
    "jacobian": lambda f: ag.jacobian(lambda x: ag.grad(f)(x) * 2),
    "grad of jvp": lambda f: ag.grad(lambda x: ag.jvp(f, (x,), (x,))[1]),
    "fuse of grad": lambda f: ag.fuse(lambda x: ag.grad(f)(x * 2) + x),
    "checkpoint": lambda f: ag.grad(ag.checkpoint(f)),
    "fuse of checkpoint": lambda f: ag.grad(ag.fuse(lambda x: ag.checkpoint(f)(x * 2) * 3)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_fused_functions(name: str) -> None:
    x = normal(5)
    transform = TRANSFORMS[name]
    expected = transform(chain)(x).to_host()
    np.testing.assert_allclose(transform(ag.fuse(chain))(x).to_host(), expected, rtol=1e-4, atol=1e-5)


def test_nested_derivatives_do_not_confuse_their_variables() -> None:
    """d/dx [x · d/dy (x + y)] = 1, with every function fused."""
    inner = {"grad": lambda f: ag.grad(f), "jvp": lambda f: lambda y: ag.jvp(f, (y,), (1.0,))[1]}
    for outer in inner.values():
        for within in inner.values():
            f = ag.fuse(lambda x, within=within: x * within(ag.fuse(lambda y: x + y * 1.0))(1.0))
            assert outer(f)(1.0).item() == pytest.approx(1.0)


def test_an_inner_gradient_by_a_closure_has_its_outer_gradient() -> None:
    def f(x: Any) -> Any:
        return (ag.grad(lambda y: (y * y * x).sum())(x * 1.0) * 2).sum()

    x = normal(3)
    np.testing.assert_allclose(ag.grad(ag.fuse(f))(x).to_host(), ag.grad(f)(x).to_host(), rtol=1e-5)


def test_create_graph_gives_a_graph_that_can_be_differentiated() -> None:
    x = ag.tensor([0.5, -1.0], requires_grad=True)
    tape = ag.Tape()
    tape.backward(ag.fuse(lambda x: (x**3 * 2).sum())(x), create_graph=True)
    first: Any = x.grad
    np.testing.assert_allclose(first.to_host(), 6 * x.to_host() ** 2, rtol=1e-6)
    x.zero_grad()
    first.sum().backward()
    np.testing.assert_allclose(x.grad.to_host(), 12 * x.to_host(), rtol=1e-5)


def test_a_leaf_with_a_new_value_is_refused_where_the_graph_is_walked_again() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    loss = ag.fuse(lambda x: (x * x).sum())(x)
    x.value = Tensor.from_host([5.0])
    loss.backward()
    assert x.grad.to_host().tolist() == [2.0]
    with pytest.raises(GraphError, match=r"fused.*new value"):
        ag.Tape().backward(loss, create_graph=True)


@pytest.mark.usefixtures("float64")
def test_gradcheck_and_gradgradcheck() -> None:
    x, w = normal(3, 2, dtype=np.float64), normal(2, dtype=np.float64)
    f = ag.fuse(lambda x, w: (ag.tanh(x * w) * ag.exp(-x * x) + w).mean())
    assert ag.gradcheck(f, x, w)
    assert ag.gradgradcheck(f, x, w)


@pytest.mark.usefixtures("float64")
def test_gradcheck_finds_a_wrong_partial_in_a_fused_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl import expr as ex
    from netcl.ops import program, row_vjp

    sin = OPS["sin"]
    monkeypatch.setattr(sin, "partials", {"a": ex.parse("sin(a)")})
    row_vjp.local.cache_clear()
    monkeypatch.setattr(program, "_PROGRAMS", {})
    try:
        with pytest.raises(GradcheckError):
            ag.gradcheck(ag.fuse(lambda x: ag.sin(x) * 2), normal(3, dtype=np.float64))
    finally:
        row_vjp.local.cache_clear()


def test_under_detect_anomaly_the_op_is_named() -> None:
    def f(x: Any) -> Any:
        return (ag.log(x - 1) * 2).sum()

    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"log gave 1 NaN(?s:.*)ag\.log\(x - 1\)"):
        ag.fuse(f)(x)
    loss = ag.fuse(lambda x: ag.sqrt(x * 0).sum())(x)
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match="fused"):
        loss.backward()


def test_a_nan_is_seen() -> None:
    x = ag.tensor([1.0, float("nan")], requires_grad=True)
    loss = ag.fuse(lambda x: (x * 2).sum())(x)
    assert np.isnan(loss.item())
    grad = ag.grad(ag.fuse(lambda x: (ag.log(x - 2) ** 2).sum()))(x)
    assert np.isnan(grad.to_host()).all()


def test_a_users_op_gets_tensors() -> None:
    given = []

    def double(value: Any) -> Any:
        given.append(type(value))
        return value * 2

    def f(x: Any) -> Any:
        return (ag.apply_op(double, lambda g: [g * 2], x * 3, op_name="double") * x).sum()

    same(f, normal(3))
    assert set(given) == {Tensor}


def test_threads_do_not_meet() -> None:
    f = ag.fuse(lambda x, k: (ag.tanh(x * k) ** 2).sum())
    host = normal(64)
    wrong: list[Any] = []

    def work(k: float) -> None:
        for _ in range(40):
            x = ag.tensor(host, requires_grad=True)
            loss = f(x, k)
            loss.backward()
            t = np.tanh(host * k)
            if not np.allclose(x.grad.to_host(), 2 * t * (1 - t * t) * k, rtol=1e-3, atol=1e-4):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(0.25 * k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# Errors


def test_errors_are_raised_at_the_line_that_is_wrong() -> None:
    x, n = ag.tensor(normal(2, 3), requires_grad=True), ag.tensor(np.array([1, 2], np.int32))
    reached = []

    def wrong_shape(x: Any) -> Any:
        h = x * 2
        try:
            return h + ag.tensor(normal(4))
        except ShapeError as error:
            reached.append(str(error))
            return h

    assert ag.fuse(wrong_shape)(x).shape == (2, 3)
    assert "add" in reached[0] and "(2, 3)" in reached[0] and "(4,)" in reached[0]
    with pytest.raises(DTypeError, match="does not fit int32"):
        ag.fuse(lambda n: n * 1 + (1 << 40))(n)
    with pytest.raises(ShapeError, match="axis 5"):
        ag.fuse(lambda x: (x * 2).sum(axis=5))(x)
    with pytest.raises(ArgumentError, match="no parameter"):
        ag.fuse(lambda x: ag.sum(x * 2, axes=1))(x)
    with pytest.raises(TypeError, match="integers"):
        ag.fuse(lambda n: ag.tensor(n * 2, requires_grad=True))(n)


def test_what_is_no_function_is_refused() -> None:
    def generator(x: Any) -> Any:
        yield x * 2

    async def coroutine(x: Any) -> Any:
        return x * 2

    for later in (generator, coroutine):
        with pytest.raises(ArgumentError, match="runs later"):
            ag.fuse(later)
    with pytest.raises(ArgumentError, match="no function"):
        ag.fuse(3)  # type: ignore[arg-type]
