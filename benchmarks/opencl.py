"""Make PoCL ready for a peer, as netcl makes it ready for itself, without importing netcl.

Without this a peer's first kernel fails on a CPU that PoCL's compiler has no name for, and every peer would be reported
as broken where only the driver is. The two modules of netcl that know how need nothing else of it, so they are loaded
by their paths: the ancestor's process has another netcl.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

NETCL = Path(__file__).resolve().parents[1] / "netcl"


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", NETCL / f"{name}.py")
    assert spec is not None and spec.loader is not None  # a path to a .py file has both
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def make_ready() -> None:
    """Find the linker and name the CPU; PoCL's devices and settings stay what the peer's users would have."""
    import pyopencl as cl

    _load("pocl").guard_linker()
    for platform in cl.get_platforms():
        if platform.name == "Portable Computing Language":
            _load("pocl_cpu").name_unknown_cpus(platform.get_devices(cl.device_type.CPU))


def loader() -> str:
    """Return the path of the OpenCL loader that comes with pyopencl, or "" if it uses the system's."""
    import pyopencl as cl

    found = sorted((Path(cl.__file__).parent / ".libs").glob("libOpenCL*"))
    return str(found[0]) if found else ""
