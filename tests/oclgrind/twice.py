"""The kernels that move their last group back: what they write twice is one value. Run by `make oclgrind` alone."""

from __future__ import annotations

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import LARGEST_GROUP
from netcl.kernels.fused import SHORTEST

RNG = np.random.default_rng(5)


def values(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2, shape).astype(np.float32)


@pytest.mark.parametrize("n", [LARGEST_GROUP + 1, LARGEST_GROUP + 37])
def test_elementwise(n: int) -> None:
    a, b = values(n), values(n)
    x, y = (ag.tensor(each, requires_grad=True) for each in (a, b))
    product = x * y
    product.backward(np.ones(n, np.float32))
    np.testing.assert_array_equal(product.to_host(), a * b)
    np.testing.assert_array_equal(x.grad.to_host(), b)
    np.testing.assert_array_equal(y.grad.to_host(), a)


def test_elementwise_into_and_from_views() -> None:
    a = values(43, 50)
    x = ag.tensor(a, requires_grad=True)
    (x[:, 1:49].T * 2.0).backward(np.ones((48, 43), np.float32))
    wanted = np.zeros_like(a)
    wanted[:, 1:49] = 2
    np.testing.assert_array_equal(x.grad.to_host(), wanted)


@pytest.mark.parametrize("shape", [(SHORTEST + 1,), (LARGEST_GROUP + 37,), (3, SHORTEST + 6)])
def test_fused(shape: tuple[int, ...]) -> None:
    a, b = values(*shape), values(*shape[-1:])
    x, y = (ag.tensor(each, requires_grad=True) for each in (a, b))
    out = ag.fuse(lambda x, y: (x * y + 1.0) * x)(x, y)
    out.backward(np.ones(shape, np.float32))
    np.testing.assert_allclose(out.to_host(), (a * b + 1) * a, rtol=1e-6)
    np.testing.assert_allclose(x.grad.to_host(), 2 * a * b + 1, rtol=1e-6)
    np.testing.assert_allclose(y.grad.to_host(), (a * a).sum(tuple(range(len(shape) - 1))), rtol=1e-6)


@pytest.mark.parametrize("columns", [17, 30, 47])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_fold_columns(columns: int, name: str) -> None:
    a = values(5, columns)
    found = getattr(nc.Tensor.from_host(a), name)(0).to_host()
    np.testing.assert_allclose(found, getattr(a, name)(0), rtol=1e-6)
