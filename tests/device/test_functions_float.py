"""The float32 functions: within their bounds at every exponent, and right at NaN and the infinities."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import ulp
from benchmarks.ulp import EXACT, bound, worst
from netcl.expr.c import INLINE
from netcl.kernels.functions import BOUNDS, BUILT_IN_BOUNDS, definitions
from netcl.ops.elementwise import pow as power


def at_every_exponent(count: int = 96) -> np.ndarray:
    """Numbers of both signs with each of float32's exponents, from 0 and the subnormals to infinity and NaN."""
    rng = np.random.default_rng(0)
    exponents = np.arange(256, dtype=np.uint32)[:, None] << 23
    fractions = np.concatenate([[0, 1, (1 << 23) - 1], rng.integers(0, 1 << 23, count - 3)]).astype(np.uint32)
    positive = (exponents | fractions).ravel()
    return np.concatenate([positive, positive | np.uint32(1 << 31)]).view(np.float32)


def test_the_sample_has_every_exponent() -> None:
    x = at_every_exponent()
    bits = x.view(np.uint32) >> 23
    assert set(bits.tolist()) == set(range(512))
    assert 0.0 in x and np.isinf(x).any() and np.isnan(x).any()


@pytest.mark.parametrize("name", EXACT)
def test_every_exponent_is_within_the_bound(name: str) -> None:
    found = worst(name, at_every_exponent())
    assert not found.wrong
    assert found.ulp <= bound(name), f"{name}: {found.ulp} at {found.at!r}"
    assert found.ulp > 0.3 or bound(name) == 0, f"{name} is hardly measured: {found.ulp}"


@pytest.mark.parametrize("name", EXACT)
def test_where_a_function_bends(name: str) -> None:
    """Densely around 0, and from one branch of the code to the next: at ±1, ±√½, ±10, ±88 …"""
    ends = [0.0, 0.3466, 0.7071, 1.0, 1.4142, 4.0, 9.0, 10.0, 16.6, 87.3, 88.7, 103.97]
    x = np.concatenate([np.linspace(end - 0.3, end + 0.3, 4001) for end in ends]).astype(np.float32)
    found = worst(name, np.concatenate([x, -x]))
    assert not found.wrong
    assert found.ulp <= bound(name), f"{name}: {found.ulp} at {found.at!r}"


def test_what_is_out_of_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, np.nan, 1e-39], np.float32)
    wrong = np.array([1.0, 0.0, -1.0, np.nan, np.inf, 1.0, 0.0, 2e-39], np.float32)
    for i, value in enumerate(wrong):
        got = x.copy()
        got[i] = value
        monkeypatch.setattr(ulp, "compute", lambda name, x, got=got: got)
        found = worst("pow 1", x)
        if i == 2:
            assert found.ulp > 1e6 and found.at == 1.0
        elif i != 1:  # the sign of a zero is not looked at
            np.testing.assert_array_equal(found.wrong, x[i : i + 1])


def test_infinity_is_one_step_above_the_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cube of 6981463572480 is 0.62 of a step below 2¹²⁸: rounded once it is the largest number, twice infinite."""
    x = np.array([6981463572480, 6.9e12, 7e12], np.float32)
    largest = np.finfo(np.float32).max
    for got, wrong in (
        (x * 0 + largest, x[1:]),
        (x * np.inf, x[1:2]),
        (x * -np.inf, x),
    ):
        monkeypatch.setattr(ulp, "compute", lambda name, x, got=got: got)
        found = worst("pow 3", x)
        misplaced = set(found.wrong) | ({found.at} if found.ulp > bound("pow 3") else set())
        assert misplaced == set(wrong.tolist())


def test_all_have_a_bound_and_a_definition() -> None:
    assert set(BOUNDS) == set(EXACT) == set(BUILT_IN_BOUNDS)
    assert {float(name[4:]) for name in EXACT if name.startswith("pow ")} == power.literals
    assert set(BOUNDS) >= INLINE
    for name in INLINE:
        assert f"float netcl_{name}(" in definitions(f"netcl_{name}(x)")
    assert definitions("exp(x) + netcl_exp(y)").count("float netcl_exp(") == 1
