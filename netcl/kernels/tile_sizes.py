"""How large a tile of a matrix product is on each class of device: the one table of such numbers, all measured."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from netcl.device import Device
from netcl.kernels.products import Product


class GroupTile(NamedTuple):
    """What a work-group computes out of local memory (tiles.py): its part of the result, how much of k it fetches at a
    time, and a work-item's part of the tile."""

    rows: int
    columns: int
    slab: int
    item_rows: int
    item_columns: int

    @property
    def items(self) -> int:
        """Work-items of a work-group."""
        return self.rows // self.item_rows * (self.columns // self.item_columns)


class ItemTile(NamedTuple):
    """What one work-item computes in vector registers (contract.py): how many rows, one of these, by how many vectors
    of `width` elements."""

    heights: tuple[int, ...]
    vectors: int
    width: int


_GROUPS: dict[str, dict[int, tuple[GroupTile, ...]]] = {
    # Measured on an H200: 0.99 to 1.07 of cuBLAS's time at 2048 to 8192 in float32; 2.6 in float64, where cuBLAS has
    # tensor cores to use.
    "NVIDIA": {
        4: (GroupTile(128, 128, 8, 16, 8), GroupTile(64, 128, 8, 8, 8), GroupTile(32, 64, 16, 4, 4)),
        8: (GroupTile(64, 64, 8, 8, 8), GroupTile(64, 64, 8, 8, 4), GroupTile(32, 32, 8, 4, 2)),
    },
    # For any other GPU: few registers, and 17 of the 32 KiB of local memory that OpenCL grants at least.
    "": {
        4: (GroupTile(64, 64, 16, 4, 4), GroupTile(32, 32, 16, 4, 4)),
        8: (GroupTile(64, 64, 8, 4, 4), GroupTile(32, 32, 8, 4, 2)),
    },
}
"""By maker and bytes per element, the largest first: it reads least, but must come often enough to fill the device."""

# Measured on the H200's 132 compute units, at 256 to 4096.
_AT_ONCE = 2  # of the largest of three tiles, that a unit works on; it pays if as good as no unit idles in the end
_FULL = 0.9
_PART = 512  # of k, that a part has at least: its result is written and read once more
_PARTS_AT_ONCE = 4  # groups per unit up to which k is split: while some wait for memory, others compute

# Of the registers (32 vectors with AVX-512, else 16) three quarters hold the tile, the rest elements of A and B.
_HEIGHTS = {True: (12, 8, 6, 3, 1), False: (6, 4, 3, 1)}
_WIDE = 64  # bytes of an AVX-512 register

WHOLE = 1 << 11
"""Work of a product on a CPU up to which a work-item takes all tiles below each other: 3 µs or less on one core."""
COPIED = 1 << 11
"""Elements of B that such a work-item copies first, if it would otherwise read them one by one for each tile."""


def group_tile(device: Device, product: Product) -> GroupTile | None:
    """Choose the tile for a product on a GPU; None if it cannot run so large a group."""
    first = device.cl_devices[0]
    maker = next(name for name in _GROUPS if name in device.platform)
    tiles = [t for t in _GROUPS[maker][product.dtype.itemsize] if t.items <= first.max_work_group_size]
    if not tiles:
        return None
    for tile in tiles[:-2]:
        rounds = _groups(product, tile) / (_AT_ONCE * first.max_compute_units)
        if rounds >= _FULL * math.ceil(rounds):
            return tile
    for tile in tiles[-2:-1]:
        if _groups(product, tile) >= _FULL * first.max_compute_units:
            return tile
    return tiles[-1]


def parts_of_k(device: Device, product: Product, tile: GroupTile) -> int:
    """Choose into how many parts k is split, so that the groups fill the device."""
    units, groups = device.cl_devices[0].max_compute_units, _groups(product, tile)
    if 2 * groups > units:
        return 1
    return max(min(_PARTS_AT_ONCE * units // groups, product.inner // _PART), 1)


def _groups(product: Product, tile: GroupTile) -> int:
    return product.count * -(-product.rows // tile.rows) * -(-product.columns // tile.columns)


def item_tile(device: Device, dtype: np.dtype, columns: int) -> ItemTile:
    """Choose the tile for results with so many columns on a CPU."""
    first = device.cl_devices[0]
    native = first.native_vector_width_float if dtype == np.float32 else first.native_vector_width_double
    heights = _HEIGHTS[native * dtype.itemsize >= _WIDE]
    width = min(max(native, 2), 1 << (columns.bit_length() - 1))
    return ItemTile(heights, 2 if columns >= 2 * width > 2 else 1, width)
