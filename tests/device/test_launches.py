"""What takes one launch where it could take several, and that its numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.commands import recorded
from netcl.device import Device

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
