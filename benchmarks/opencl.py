"""Make PoCL ready for a peer, as netcl makes it ready for itself, without importing netcl.

Without this a peer's first kernel fails on a CPU that PoCL's compiler has no name for, and every peer would be reported
as broken where only the driver is. The two modules of netcl that know how need nothing else of it, so they are loaded
by their paths: the ancestor's process has another netcl.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
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


class _Record:
    """A device as name_unknown_cpus wants it: its address."""

    def __init__(self, int_ptr: int) -> None:
        self.int_ptr = int_ptr


def make_ready_without_pyopencl() -> None:
    """Do the same for a peer that has an OpenCL of its own, tinygrad, and lead it to the loader in pyopencl's wheel.

    pyopencl itself is not imported: that would count as the peer's time to start.
    """
    spec = importlib.util.find_spec("pyopencl")
    home = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    loader, module = sorted(home.glob(".libs/libOpenCL*")), sorted(home.glob("_cl.*.so"))
    if not loader or not module:
        return  # the system's loader and drivers are found without help
    # The loader finds the wheel's PoCL by PYOPENCL_HOME, and PoCL its libraries once pyopencl's own module is loaded.
    os.environ["OPENCL_PATH"], os.environ["PYOPENCL_HOME"] = str(loader[0]), str(home)
    ctypes.CDLL(str(module[0]))
    _load("pocl").guard_linker()
    opencl = ctypes.CDLL(str(loader[0]))
    count, pointer = ctypes.c_uint32(), ctypes.c_void_p
    opencl.clGetPlatformIDs.argtypes = [ctypes.c_uint32, pointer, pointer]
    opencl.clGetDeviceIDs.argtypes = [pointer, ctypes.c_uint64, ctypes.c_uint32, pointer, pointer]
    platform = (pointer * 1)()
    if opencl.clGetPlatformIDs(1, platform, None):
        return  # no platform: the peer says so itself
    cpu = 1 << 1  # CL_DEVICE_TYPE_CPU
    opencl.clGetDeviceIDs(platform[0], cpu, 0, None, ctypes.byref(count))
    devices = (pointer * count.value)()
    opencl.clGetDeviceIDs(platform[0], cpu, count, devices, None)
    _load("pocl_cpu").name_unknown_cpus([_Record(address) for address in devices if address])
