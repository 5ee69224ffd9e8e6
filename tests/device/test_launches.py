"""What takes one launch where it could take several, and that its numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import optim
from netcl.commands import recorded
from netcl.device import Device
from netcl.errors import IndexingError, ShapeError

pytestmark = pytest.mark.usefixtures("on_device")


def launches(device: Device, run: Any) -> int:
    """How many kernels a function runs, once it ran before."""
    run()
    with recorded(device) as commands:
        run()
    return sum(command.kind == "kernel" for command in commands)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2)])
@pytest.mark.parametrize("shape", [(3, 5, 7), (40, 2, 100), (7, 300, 16), (2, 1, 70000)])
def test_a_mean_divides_where_it_adds_up(device: Device, shape: tuple[int, ...], axis: Any) -> None:
    x = np.random.default_rng(0).normal(1, 1, shape).astype(np.float32)
    tensor = ag.tensor(x)
    exact = x.astype(np.float64).mean(axis)
    got = ag.mean(tensor, axis)
    assert got.shape == exact.shape
    np.testing.assert_allclose(got.to_host(), exact, rtol=1e-5, atol=1e-6)
    assert launches(device, lambda: ag.mean(tensor, axis)) == launches(device, lambda: ag.sum(tensor, axis))


def test_a_mean_of_nothing_is_nan(device: Device) -> None:
    with pytest.warns(RuntimeWarning, match="no elements"):
        assert np.isnan(ag.mean(ag.tensor(np.zeros((0, 3), np.float32)), 0).to_host()).all()


SHAPES = [(3, 5), (), (1,), (2047,), (64, 32), (3, 1000), (0, 2), (7,), (2, 2, 2), (11,)]
OPTIMISERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {"weight_decay": 0.1}),
    ("AdamW", {}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMISERS)
def test_parameters_moved_together_move_as_each_alone(device: Device, name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    together, alone = ([ag.tensor(start, requires_grad=True) for start in starts] for _ in range(2))
    make = getattr(optim, name)
    optimizers = [make(together, lr=0.1, **options), *[make([x], lr=0.1, **options) for x in alone]]
    for step in range(3):
        for x, y in zip(together, alone, strict=True):
            if step or x.shape != (7,):  # one starts later, and is a step behind
                x.grad = y.grad = ag.tensor(rng.normal(size=x.shape).astype(np.float32))
        for optimizer in optimizers:
            optimizer.step()
    for x, y in zip(together, alone, strict=True):
        np.testing.assert_array_equal(x.to_host(), y.to_host())


def test_a_step_of_small_parameters_is_one_launch(device: Device) -> None:
    def step(*shapes: tuple[int, ...]) -> int:
        xs = [ag.tensor(np.ones(shape, np.float32), requires_grad=True) for shape in shapes]
        for x in xs:
            x.grad = ag.tensor(np.ones(x.shape, np.float32))
        return launches(device, optim.SGD(xs, lr=0.1, momentum=0.5).step)

    assert step((2, 16), (16,), (16, 16), (16,), (16, 2), (2,)) == 1
    assert step((784, 128), (128,), (128, 10), (10,)) == 2  # what is large has a launch of its own
    assert step(*[(5,)] * 17) == 3
    assert step((0,)) == 0


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_step_reads_views_as_they_are(device: Device, name: str) -> None:
    rng = np.random.default_rng(0)
    start, g = rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)
    views = ag.tensor(ag.tensor(start).T, requires_grad=True)
    plain = ag.tensor(np.ascontiguousarray(start.T), requires_grad=True)
    views.grad, plain.grad = ag.tensor(np.tile(g, (2, 1)))[6:], ag.tensor(g)
    spread, ones = (ag.tensor(start, requires_grad=True) for _ in range(2))
    spread.sum().backward()  # a gradient that is one number, spread
    ones.grad = ag.tensor(np.ones_like(start))
    getattr(optim, name)([views, plain, spread, ones], lr=0.1).step()
    np.testing.assert_array_equal(views.to_host(), plain.to_host())
    np.testing.assert_array_equal(spread.to_host(), ones.to_host())
    assert not np.allclose(plain.to_host(), start.T)


def test_an_optimiser_of_ones_own_may_say_what_a_whole_parameter_becomes(device: Device) -> None:
    class Normalised(optim.Optimizer):
        state_names = ("last",)

        def update(self, x: Any, g: Any, state: dict[str, Any], lr: float, t: int) -> Any:
            state["last"] = g / (g * g).sum() ** 0.5
            return x - state["last"] * (lr / t)

    x = ag.tensor([3.0, 4.0], requires_grad=True)
    optimizer = Normalised([x], lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(x.to_host(), [3 - 0.6 - 0.3, 4 - 0.8 - 0.4], rtol=1e-6)
    np.testing.assert_allclose(optimizer.state[0]["last"].to_host(), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (100, 2, 16), (100, 16, 2), (3, 5, 7), (64, 784, 128), (700, 300, 130)], ids=str
)
def test_an_affine_map_is_a_product_and_a_sum_in_the_launches_of_the_product(
    device: Device, sizes: tuple[int, int, int], dtype: Any
) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    n, k, m = sizes
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=shape).astype(dtype) for shape in ((n, k), (k, m), (m,)))
    for a, c in ((ag.tensor(x), ag.tensor(w)), (ag.tensor(np.ascontiguousarray(x.T)).T, ag.tensor(w.T.copy()).T)):
        bias = ag.tensor(b)
        got = ag.affine(a, c, bias).to_host()
        np.testing.assert_array_equal(got, (a @ c + bias).to_host())
        bound = (np.abs(x) @ np.abs(w) + np.abs(b)).astype(np.float64)
        assert (np.abs(got - (x.astype(np.float64) @ w + b)) <= (k + 2) * np.finfo(dtype).eps * bound).all()
    if device.kind == "CPU" and m > 1 and n * k * m >= 1 << 10:
        assert launches(device, lambda: ag.affine(a, c, bias)) == launches(device, lambda: a @ c)


def test_an_affine_map_takes_what_a_product_and_a_sum_take(device: Device) -> None:
    x, w = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(
        ag.affine(ag.tensor(x), ag.tensor(w), ag.tensor(np.arange(4))).to_host(), x @ w + range(4)
    )
    strided = ag.tensor(np.arange(8, dtype=np.float32))[::2]
    ones = ag.tensor(np.ones((2, 3, 3), np.float32))
    np.testing.assert_array_equal(
        ag.affine(ones, ag.tensor(w.astype(np.float32)), strided).to_host()[1, 0], [12, 17, 22, 27]
    )
    np.testing.assert_array_equal(
        ag.linear(ones, ag.tensor(w.astype(np.float32)), 1.0).to_host()[0, 0], [13, 16, 19, 22]
    )
    with pytest.raises(ShapeError, match=r"affine: shapes \(2, 3, 3\), \(3, 4\) and \(3,\)"):
        ag.affine(ones, ag.tensor(w), ag.tensor(np.ones(3)))
    with pytest.raises(ShapeError, match=r"matmul: shapes \(2, 3, 3\) and \(2, 4\)"):
        ag.affine(ones, ag.tensor(w[:2].astype(np.float32)), strided)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 5), (100, 2), (16, 128), (17, 121), (2047, 1), (2048, 1), (2, 3, 7), (300, 10)]
)
def test_a_cross_entropy_is_averaged_where_it_is_computed(device: Device, shape: tuple[int, ...], dtype: Any) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    rng = np.random.default_rng(0)
    x, labels = rng.normal(0, 3, shape).astype(dtype), rng.integers(0, shape[-1], shape[:-1])
    exact = x.astype(np.float64)
    shifted = exact - exact.max(-1, keepdims=True)
    each = np.log(np.exp(shifted).sum(-1)) - np.take_along_axis(shifted, labels[..., None], -1)[..., 0]
    scores, classes = ag.tensor(x), ag.tensor(labels)
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    for reduction, wanted in (("mean", each.mean()), ("sum", each.sum()), ("none", each)):
        got = ag.cross_entropy(scores, classes, reduction=reduction)
        assert got.shape == wanted.shape and got.dtype == dtype
        np.testing.assert_allclose(got.to_host(), wanted, rtol=rtol, atol=rtol)
    if x.size <= 2048:
        assert launches(device, lambda: ag.cross_entropy(scores, classes)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (100, 2, 16), (100, 16, 2), (100, 16, 16), (37, 5, 21), (3, 64, 33), (300, 1, 7), (64, 784, 128)],
)
@pytest.mark.parametrize("wanted", ["abc", "bc", "ac", "a", "b", "c"])
def test_the_way_back_through_an_affine_map(
    device: Device, sizes: tuple[int, int, int], wanted: str, dtype: Any
) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    n, k, m = sizes
    rng = np.random.default_rng(0)
    a, b, c, g = (rng.normal(size=shape).astype(dtype) for shape in ((n, k), (k, m), (m,), (n, m)))
    exact = {"a": (g, b.T), "b": (a.T, g), "c": (np.ones((1, n), dtype), g)}
    # As they lie, transposed in memory, and beginning after a row and a column of a larger matrix.
    for put in (
        ag.tensor,
        lambda x: ag.tensor(x.T.copy()).T,
        lambda x: ag.tensor(np.pad(x, 1))[(slice(1, -1),) * x.ndim],
    ):
        leaves = [ag.tensor(put(x), requires_grad=name in wanted) for name, x in zip("abc", (a, b, c), strict=True)]
        out = ag.affine(*leaves)
        out.backward(put(g))
        for name, leaf in zip("abc", leaves, strict=True):
            if name in wanted:
                left, right = (x.astype(np.float64) for x in exact[name])
                bound = (left.shape[1] + 1) * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right))
                assert (np.abs(leaf.grad.to_host() - left @ right) <= bound).all()
    if device.kind == "CPU" and 1 << 10 <= n * k * m <= 1 << 17:
        seed = ag.tensor(g)
        pull: Any = out.grad_fn
        assert launches(device, lambda: pull(seed)) == 1
        product = leaves[0] @ leaves[1]
        if isinstance(product, ag.Node):
            pull = product.grad_fn
            assert launches(device, lambda: pull(seed)) == 1


def test_a_gradient_that_is_spread_goes_back_through_an_affine_map(device: Device) -> None:
    a, b, c = (ag.tensor(np.ones(s, np.float32), requires_grad=True) for s in ((4, 3), (3, 20), (20,)))
    ag.affine(a, b, c).sum().backward()
    assert (a.grad.to_host() == 20).all() and (b.grad.to_host() == 4).all() and (c.grad.to_host() == 4).all()


def test_labels_are_read_once_for_each_tensor_and_number_of_classes(device: Device) -> None:
    def reads(scores: Any, labels: Any) -> int:
        with recorded(device) as commands:
            ag.cross_entropy(scores, labels)
        return sum(command.kind == "read" for command in commands)

    five, four = (ag.tensor(np.ones((3, n), np.float32)) for n in (5, 4))
    labels, others = (ag.tensor(np.array([0, 4, 2])) for _ in range(2))
    assert [reads(five, each) for each in (labels, labels, others, labels)] == [1, 0, 1, 0]
    with pytest.raises(IndexingError, match=r"label 4 at \(1,\) is no class: there are 4"):
        ag.cross_entropy(four, labels)
    wrong = ag.tensor(np.array([0, -1, 2]))
    for _ in range(2):
        with pytest.raises(IndexingError, match=r"label -1 at \(1,\)"):
            ag.cross_entropy(five, wrong)


@pytest.mark.parametrize(
    ("f", "back"),
    [
        (lambda x, a, b: x * a + x * b + x / a, 3),  # three products, two of them added where they are computed
        (lambda x, a, b: ag.sin(x) + ag.exp(x) * a, 3),
        (lambda x, a, b: x * 2.0 - x * 3.0 + x * b, 4),  # and the sign of the second
        (lambda x, a, b: (x * a) * (x * b), 3),  # one launch for both factors, two for x
        (lambda x, a, b: x * x + x * a, 4),  # both parents are one node: each by itself, and added
        (lambda x, a, b: x + x + x, 2),  # nothing to compute, only to add
    ],
    ids=["products", "functions", "numbers", "two at once", "one node twice", "passed on"],
)
def test_what_comes_in_second_is_added_by_the_launch_that_computes_it(device: Device, f: Any, back: int) -> None:
    rng = np.random.default_rng(3)
    hosts = [rng.uniform(0.5, 2.0, (5, 33)).astype(np.float32) for _ in range(4)]
    x = ag.tensor(hosts[0], requires_grad=True)
    a, b, g = (ag.tensor(each) for each in hosts[1:])

    def pull() -> None:
        x.zero_grad()
        f(x, a, b).backward(g)

    assert launches(device, pull) - launches(device, lambda: f(x, a, b)) == back
    exact = jacobian_row(f, *[each.astype(np.float64) for each in hosts])
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.to_host(), exact, rtol=1e-5, atol=1e-6)


def jacobian_row(f: Any, x: np.ndarray, a: np.ndarray, b: np.ndarray, g: np.ndarray) -> np.ndarray:
    """g · ∂f/∂x, for an f that works element by element, by central differences in float64."""
    step = 1e-6

    def at(moved: np.ndarray) -> np.ndarray:
        return f(*[ag.tensor(each) for each in (moved, a, b)]).to_host()

    return g * (at(x + step) - at(x - step)) / (2 * step)


def test_a_total_of_another_shape_or_in_two_dtypes_is_added_all_the_same(on_device: Device) -> None:
    rng = np.random.default_rng(4)
    row, matrix, other = rng.normal(size=3), rng.normal(size=(2, 3)), rng.normal(size=3)
    x = ag.tensor(row.astype(np.float32), requires_grad=True)
    m, o = ag.tensor(matrix.astype(np.float32)), ag.tensor(other.astype(np.float32))
    ((x * m).sum() + (x * o).sum() + ag.broadcast_to(x, (2, 3)).sum()).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.to_host(), matrix.sum(0) + other + 2, rtol=1e-5)
    if on_device.has_fp64:
        x.zero_grad()
        ((x * ag.tensor(other)).sum() + (x * o).sum() + (x * ag.tensor(other)).sum()).backward()
        assert x.grad.dtype == np.float32
        np.testing.assert_allclose(x.grad.to_host(), 3 * other, rtol=1e-5)
