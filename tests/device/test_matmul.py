"""Matrix products against NumPy in float64: every tile of every table, whichever device it was made for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import layout as lay
from netcl.device import Device
from netcl.kernels import panels, tile_sizes
from netcl.kernels.matmul import _plan
from netcl.kernels.products import arrange
from netcl.kernels.tile_sizes import GroupTile
from netcl.kernels.tiles import with_tile
from netcl.tensor import Tensor

pytestmark = pytest.mark.usefixtures("on_device")

RNG = np.random.default_rng
Sizes = tuple[tuple[int, ...], tuple[int, ...], int, int, int]

SIZES: list[Sizes] = [  # batches of A and B, rows, inner, columns
    ((), (), 1, 1, 1),
    ((), (), 3, 5, 7),
    ((), (), 13, 100, 3),
    ((), (), 1, 300, 50),
    ((), (), 50, 300, 1),
    ((), (), 1, 1000, 1),
    ((), (), 127, 129, 131),
    ((), (), 128, 128, 128),
    ((), (), 30, 64, 32),
    ((), (), 30, 65, 32),
    ((), (), 4, 0, 4),
    ((), (), 0, 4, 4),
    ((), (), 4, 4, 0),
    ((), (), 400, 700, 300),
    ((2,), (2,), 17, 33, 40),
    ((3,), (), 16, 32, 34),
    ((), (3,), 16, 32, 34),
    ((3, 1), (2,), 20, 30, 12),
    ((0,), (), 2, 3, 4),
]


def operand(shape: tuple[int, ...], dtype: Any, turned: bool, cut: int, seed: int) -> tuple[Tensor, np.ndarray]:
    """A matrix that lies transposed in memory, or begins after `cut` rows and columns of a larger one."""
    whole = (*shape[:-2], shape[-2] + cut, shape[-1] + cut)
    array = RNG(seed).normal(size=whole).astype(dtype)
    tensor = Tensor.from_host(np.ascontiguousarray(array.swapaxes(-1, -2)) if turned else array)
    if turned:
        tensor = ag.swapaxes(tensor, -1, -2)
    return tensor[..., cut:, cut:], array[..., cut:, cut:]


def assert_close(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)  # Higham 2002, (3.13)
    assert got.shape == exact.shape
    assert (np.abs(got - exact) <= (a.shape[-1] + 1) * np.finfo(got.dtype).eps * bound).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_layout(device: Device, sizes: Sizes, dtype: Any) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    of_a, of_b, rows, inner, columns = sizes
    for turn_a, turn_b, cut in itertools.product((False, True), (False, True), (0, 3)):
        a, x = operand((*of_a, rows, inner), dtype, turn_a, cut, 1)
        b, y = operand((*of_b, inner, columns), dtype, turn_b, cut, 2)
        assert_close((a @ b).to_host(), x, y)


@pytest.fixture(params=["direct", "packed"])
def copying(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a CPU read every operand where it lies that allows it, or copy every one that is not in order."""
    few = {"direct": 1 << 40, "packed": 0}[request.param]
    for name in ("_NEAR", "_FEW_COLUMNS", "_FEW_BANDS"):
        monkeypatch.setattr(panels, name, few)
    _plan.cache_clear()
    yield
    _plan.cache_clear()


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("columns", [1, 2, 5, 20, 40])
@pytest.mark.parametrize("rows", [1, 2, 5, 7, 30, 400])
def test_operands_may_be_copied_or_not(rows: int, columns: int) -> None:
    for turn_a, turn_b in itertools.product((False, True), (False, True)):
        a, x = operand((rows, 90), np.float32, turn_a, 1, 1)
        b, y = operand((90, columns), np.float32, turn_b, 1, 2)
        assert_close((a @ b).to_host(), x, y)


TILES = [
    pytest.param(tile, dtype, id=f"{maker or 'other'}-{dtype.__name__}-{'x'.join(map(str, tile))}")
    for maker, sizes in tile_sizes._GROUPS.items()
    for dtype in (np.float32, np.float64)
    for tile in sizes[np.dtype(dtype).itemsize]
]


def by_tile(a: Tensor, b: Tensor, tile: GroupTile, parts: int) -> np.ndarray:
    """Multiply with a given tile, on whatever device."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = Tensor.empty((*batch, a.shape[-2], b.shape[-1]), np.result_type(a.dtype, b.dtype), a.device)
    product, swapped = arrange(a.layout, b.layout, out.layout)
    if product.columns == 1:
        product, swapped = product.turned(), not swapped
    plan = with_tile(product, tile, parts)
    left, right = (b, a) if swapped else (a, b)
    if plan.add is None:
        a.device.run(plan.multiply, (out.buffer, left.buffer, right.buffer))
    else:
        partial = a.device.pool.allocate(plan.part_bytes)
        a.device.run(plan.multiply, (partial, left.buffer, right.buffer))
        a.device.run(plan.add, (out.buffer, partial))
    return out.to_host()


@pytest.mark.parametrize(("tile", "dtype"), TILES)
def test_tiles_of_gpus_on_every_device(device: Device, tile: GroupTile, dtype: Any) -> None:
    if dtype == np.float64 and not device.has_fp64:
        pytest.skip(f"{device.name} has no float64 (cl_khr_fp64)")
    # One operand is read in whole vectors, the other element by element: two ways each. To build all for every tile
    # would take PoCL minutes, so they take turns.
    turned = [each.values[0] for each in TILES].index(tile) % 2 == 1
    for parts in (1, 3):
        for rows, inner, columns in ((tile.rows + 4, 3 * tile.slab + 4, tile.columns - 3), (4, 4, 2), (8, 0, 5)):
            a, x = operand((2, rows, inner), dtype, turned, 0, 1)
            b, y = operand((inner, columns), dtype, turned, 1, 2)
            assert_close(by_tile(a, b, tile, parts), x, y)


def test_a_vector_may_stand_on_either_side() -> None:
    """On GPUs one column of results is computed as one row."""
    for turned in (False, True):
        a, x = operand((70, 90), np.float32, turned, 0, 1)
        b, y = operand((90, 1), np.float32, False, 0, 2)
        assert_close(by_tile(a, b, tile_sizes._GROUPS[""][4][1], 1), x, y)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("tiled", [False, True])
def test_what_lies_beside_the_matrix_does_no_harm(value: float, tiled: bool) -> None:
    """NaN and infinity stay in their row and column: neither padding nor a neighbour in memory meets them."""
    a, x = operand((21, 35), np.float32, False, 2, 1)
    b, y = operand((35, 19), np.float32, True, 2, 2)
    for array, place in ((x, (20, 34)), (y, (0, 18))):
        array[place] = value
    around = [np.full((n + 4, m + 4), value, np.float32) for n, m in (x.shape, y.shape)]
    around[0][2:-2, 2:-2], around[1][2:-2, 2:-2] = x, y
    a, b = (Tensor.from_host(array)[2:-2, 2:-2] for array in around)
    tile = tile_sizes._GROUPS[""][4][1]
    got = by_tile(a, b, tile, 1) if tiled else (a @ b).to_host()
    with np.errstate(invalid="ignore"):
        expect = x @ y
    assert np.array_equal(np.isnan(got), np.isnan(expect))
    assert np.array_equal(np.isinf(got), np.isinf(expect))
    assert np.isfinite(got).sum() == 20 * 18


@pytest.mark.parametrize(("of_a", "of_b"), [((2, 3), ()), ((2, 3), (1, 1)), ((2, 3), (3,)), ((3,), (2, 3)), ((), (4,))])
def test_gradients_of_batches(of_a: tuple[int, ...], of_b: tuple[int, ...]) -> None:
    x, y = RNG(1).normal(size=(*of_a, 5, 40)), RNG(2).normal(size=(*of_b, 40, 6))
    batch = np.broadcast_shapes(of_a, of_b)
    g = RNG(3).normal(size=(*batch, 5, 6))
    a, b = (ag.tensor(array.astype(np.float32), requires_grad=True) for array in (x, y))
    out = a @ b
    ag.Tape().backward(out, Tensor.from_host(g.astype(np.float32)))
    for node, full in ((a, g @ y.swapaxes(-1, -2)), (b, x.swapaxes(-1, -2) @ g)):
        extra = full.ndim - len(node.shape)
        stretched = tuple(i for i in range(full.ndim) if i < extra or full.shape[i] != node.shape[i - extra])
        expect = full.sum(stretched).reshape(node.shape)
        assert np.allclose(node.grad.to_host(), expect, atol=2e-5 * math.sqrt(40 * len(full)))


@pytest.mark.parametrize(
    ("of_a", "of_b"), [((0, 2, 3), (3, 4)), ((2, 0, 3), (3, 4)), ((2, 3, 0), (0, 4)), ((2, 3, 4), (4, 0))]
)
def test_gradients_of_nothing(of_a: tuple[int, ...], of_b: tuple[int, ...]) -> None:
    a, b = (ag.tensor(np.ones(shape, np.float32), requires_grad=True) for shape in (of_a, of_b))
    (a @ b).sum().backward()
    assert np.array_equal(a.grad.to_host(), np.full(of_a, of_b[-1]))
    assert np.array_equal(b.grad.to_host(), np.full(of_b, math.prod(of_a[:-1])))


def test_a_shared_right_operand_is_one_product() -> None:
    """So many matrices that are one below the other are multiplied as one."""
    a, b = (lay.contiguous(shape, np.dtype(np.float32)) for shape in ((2, 3, 4, 5), (5, 6)))
    product, swapped = arrange(a, b, lay.contiguous((2, 3, 4, 6), a.dtype))
    assert (product.batch, product.rows, swapped) == ((), 24, False)
    apart = lay.index(a, (slice(None), slice(None), slice(0, 3)))
    product, _ = arrange(apart, b, lay.contiguous((2, 3, 3, 6), a.dtype))
    assert (product.batch, product.rows) == ((6,), 3)
