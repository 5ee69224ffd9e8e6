"""The bits of 1 / π by which sin and cos reduce, against SymPy's."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
import sympy

from netcl.kernels.functions import definitions

RECIPROCAL = Fraction(str(sympy.N(1 / sympy.pi, 120)))
SOURCE = definitions("netcl_sin(x)")
PIECES = re.findall(r"d \* \(far \? (0x1\.\w+-\d+) : (0x1\.\w+-\d+)\)", SOURCE)
FAR = 76  # the power of two from which others are taken


def test_all_are_found() -> None:
    assert len(PIECES) == 4
    assert f"far = x >= 0x1p{FAR}f | x <= -0x1p{FAR}f;" in SOURCE


@pytest.mark.parametrize("far", [False, True])
def test_the_pieces_are_one_over_pi_but_for_even_integers(far: bool) -> None:
    whole, b, c, rest = (Fraction(float.fromhex(piece[0 if far else 1])) for piece in PIECES)
    largest = Fraction(2) ** (128 if far else FAR)
    # x is a multiple of this; below 1 nothing of x / π is left out, so there it may as well be 1
    unit = Fraction(2) ** (FAR - 23) if far else Fraction(1)
    left_out = (RECIPROCAL - whole - b - c - rest) * unit
    even = 2 * round(left_out / 2)
    assert bool(even) == far
    assert abs(left_out - even) / unit * largest < Fraction(1, 2**58)
    assert whole > b > c > rest > 0
    for piece in (whole, b, c):
        assert piece.numerator.bit_length() <= 29, "its product with a float32 is not exact"
    assert largest * whole < 2**76, "adding 1.5 · 2⁷⁷ does not round to a multiple of 2²⁵"
    assert 2**24 + largest * (b + c) < 2**47, "adding 1.5 · 2⁵² does not round to an integer, 2⁻⁶ beside the nearest"
