"""Indices are split into coordinates by multiplications: for every index that a kernel may meet."""

from __future__ import annotations

import numpy as np

from netcl.kernels.source import quotients

LARGEST = (1 << 31) - 1


def test_every_quotient_is_that_of_a_division() -> None:
    rng = np.random.default_rng(0)
    lengths = [1, 2, 3, 5, 7, 10, 641, 1 << 16, (1 << 16) + 1, 1 << 30, (1 << 30) + 1, LARGEST, LARGEST + 1]
    lengths += [int(d) for d in rng.integers(1, 1 << 31, 500)] + [int(d) for d in rng.integers(1, 1 << 12, 500)]
    numbers = quotients(LARGEST + 1, lengths)
    assert numbers is not None
    for d, m, s in zip(lengths, numbers[::2], numbers[1::2], strict=True):
        assert 0 < m <= 1 << 32
        top = LARGEST // d
        edges = {0, 1, d - 1, d, d + 1, top * d - 1, top * d, LARGEST, *map(int, rng.integers(0, 1 << 31, 50))}
        edges |= {q * d + off for q in map(int, rng.integers(0, top + 1, 20)) for off in (-1, 0)}
        for i in edges:
            if 0 <= i <= LARGEST:
                assert i * m < 1 << 64 and i * m >> s == i // d


def test_too_many_indices_are_divided() -> None:
    assert quotients((1 << 31) + 1, [3]) is None
    assert quotients(0, [0]) is None
