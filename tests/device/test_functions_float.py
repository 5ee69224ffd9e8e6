"""netcl's own float32 functions: within their bounds at every exponent, and right at NaN and the infinities."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.ulp import EXACT, bound, worst
from netcl.expr.c import INLINE
from netcl.kernels.functions import BOUNDS, BUILT_IN_BOUNDS, definitions


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
    assert 0.3 < found.ulp <= bound(name), f"{name}: {found.ulp} at {found.at!r}"


@pytest.mark.parametrize("name", EXACT)
def test_where_a_function_bends(name: str) -> None:
    """Densely around 0, and from one branch of the code to the next: at ±1, ±√½, ±10, ±88 …"""
    ends = [0.0, 0.3466, 0.7071, 1.0, 1.4142, 4.0, 9.0, 10.0, 16.6, 87.3, 88.7, 103.97]
    x = np.concatenate([np.linspace(end - 0.3, end + 0.3, 4001) for end in ends]).astype(np.float32)
    found = worst(name, np.concatenate([x, -x]))
    assert not found.wrong
    assert found.ulp <= bound(name), f"{name}: {found.ulp} at {found.at!r}"


def test_all_have_a_bound_and_a_definition() -> None:
    assert set(INLINE) == set(BOUNDS) == set(EXACT) == set(BUILT_IN_BOUNDS)
    for name in INLINE:
        assert f"float netcl_{name}(" in definitions(f"netcl_{name}(x)")
    assert definitions("exp(x) + netcl_exp(y)").count("float netcl_exp(") == 1
