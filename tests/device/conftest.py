"""Each device in turn as the one in use; and processes of their own, for tests of what happens before OpenCL is first
used, or of what ends a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netcl import autograd as ag
from netcl.device import Device
from netcl.platforms import use_device

ROOT = Path(__file__).resolve().parents[2]
# What this process's own start, or whoever runs the tests, has set.
SETTINGS = (
    *("OCL_ICD_VENDORS", "POCL_DEVICES", "POCL_CACHE_DIR", "POCL_AFFINITY"),
    *("NETCL_DEVICE", "COMPILER_PATH", "XDG_CACHE_HOME"),
)

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Run Python code in a process with empty caches; environment variables are given by name."""

    def run(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if name not in SETTINGS}
        environ.update({"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), **variables})
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture
def on_device(device: Device) -> Iterator[Device]:
    """Use each device in turn, as a user who chose it."""
    with use_device(device):
        yield device


@pytest.fixture
def float64(on_device: Device) -> None:
    """Skip on a device that cannot compute in float64."""
    if not on_device.has_fp64:
        pytest.skip(f"{on_device.name} has no float64 (cl_khr_fp64)")


@pytest.fixture
def never_stale() -> Callable[[ag.Node, Callable[[], Any], Callable[[], Any]], None]:
    """Compare ag.replay(f) with f bit by bit, before and after a change that f must notice; w has the gradient."""

    def check(w: ag.Node, f: Callable[[], Any], change: Callable[[], Any]) -> None:
        step = ag.replay(f)

        def now(run: Callable[[], Any]) -> tuple[Any, Any]:
            w.zero_grad()
            loss = run()
            assert w.grad is not None
            return loss.to_host().tobytes(), w.grad.to_host().tobytes()

        def eager() -> Any:
            loss = f()
            loss.backward()
            return loss

        first = [now(step) for _ in range(3)]
        assert first == [now(eager)] * 3
        assert step.counts["replayed"] >= 1
        change()
        second = [now(step) for _ in range(3)]
        assert second == [now(eager)] * 3
        assert second[0] != first[0]
        assert step.counts["captured"] >= 2

    return check
