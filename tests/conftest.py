"""What every test shares: one run per OpenCL device, and property tests that repeat exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from netcl.device import Device

# A failure must come back on the next run and on another machine; how fast a machine is decides nothing.
settings.register_profile("netcl", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("netcl")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        from netcl import platforms

        found = platforms.devices()
        ids = [f"{number}-{each.name}" for number, each in enumerate(found)]
        metafunc.parametrize("device", found, ids=ids, indirect=True, scope="session")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """Each OpenCL device in turn; a machine without one fails these tests, it does not skip them."""
    return request.param
