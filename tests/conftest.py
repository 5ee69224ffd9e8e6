"""What every test shares: one run per OpenCL device, and property tests that repeat exactly."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from netcl.device import Device
    from netcl.ops import Row

# No test measures, nor depends on what was measured on this machine: which work is large is pinned.
os.environ.setdefault("NETCL_CROSSOVER", "32768")

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


@pytest.fixture(scope="session")
def draw() -> Callable[..., list[np.ndarray]]:
    """Draw operands of a row inside its domain: `draw(row, rng, shape)`, or a list with a shape for each operand."""

    def operands(
        row: Row, rng: np.random.Generator, shapes: tuple[int, ...] | list[tuple[int, ...]], dtype: Any = np.float64
    ) -> list[np.ndarray]:
        each = shapes if isinstance(shapes, list) else [shapes] * len(row.args)
        drawn = []
        for arg, shape in zip(row.args, each, strict=True):
            intervals = np.reshape(row.domain.get(arg, (-2, 2)), (-1, 2))
            ends = intervals[rng.integers(0, len(intervals), shape)]
            values = rng.uniform(ends[..., 0], ends[..., 1])
            drawn.append(np.asarray(values < 0) if arg == row.mask else np.asarray(values, dtype))
        return drawn

    return operands


def _loaded(path: Path) -> ModuleType:
    """A module beside the tests; they are no package, so that none is imported by name."""
    name = f"netcl_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def svg_reader() -> Any:
    """The module svg_reader.py, which reads a picture back from its SVG."""
    return _loaded(Path(__file__).with_name("svg_reader.py"))


@pytest.fixture(scope="session")
def prose_numbers() -> Any:
    """The module prose_numbers.py, which reads the numbers of a notebook's prose, and those that its cells compute."""
    return _loaded(Path(__file__).with_name("prose_numbers.py"))


@pytest.fixture(scope="session")
def load_test() -> Callable[[str], ModuleType]:
    """Load a file of device tests, for what it knows: samples, readings."""
    return lambda name: _loaded(Path(__file__).parent / "device" / name)
