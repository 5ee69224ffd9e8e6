"""Which OpenCL devices there are, and which one is used.

The default is a GPU if there is one, else the CPU. NETCL_DEVICE, an environment variable, and `use_device` choose
another: by kind ("cpu", "gpu"), by a part of its name or of its platform's, or by its number in `devices()`.
"""

from __future__ import annotations

import os
import platform as machine
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyopencl as cl

from netcl import pocl, pocl_cpu
from netcl.device import FORKED, Device
from netcl.errors import DeviceError

__all__ = ["describe", "devices", "get_device", "use_device"]

KINDS = ("cpu", "gpu", "accelerator")
_POCL = "Portable Computing Language"
_SINGLE, _MULTI = ("basic-", "cpu-minimal-"), ("pthread-", "cpu-")  # PoCL's CPU devices: before version 4, and since


@dataclass(frozen=True)
class Found:
    """What one look for devices found: the devices, and for each platform why it has none, or fewer."""

    devices: tuple[Device, ...]
    problems: tuple[str, ...]


class _Choice(threading.local):
    """What this thread has chosen: the class attribute answers in threads that have chosen nothing."""

    device: Device | None = None


_lock = threading.RLock()
_choice = _Choice()
_found: Found | None = None
_default: Device | None = None
_forked = False


def devices() -> list[Device]:
    """Return every OpenCL device that can be used; an empty list where there is none.

    Raises: DeviceError in a process forked from one that used OpenCL

    >>> [device.index for device in devices()][0]
    0
    """
    return list(find().devices)


def get_device(spec: Device | str | int | None = None) -> Device:
    """Return the device that `spec` names, or the one in use.

    Raises: DeviceError if there is no such device, or more than one; it lists what there is

    >>> get_device(0) is devices()[0]
    True
    """
    if spec is None:
        return _choice.device or _default or _choose_default()
    return spec if isinstance(spec, Device) else _pick(spec, find())


class use_device:  # noqa: N801 - a function to its users, that can stand in a `with` as well
    """Use a device in this thread from now on, or in a `with` block until its end.

    `device` is a Device, "cpu", "gpu", a part of a device's name or its platform's, a number, or None for the default.

    Raises: DeviceError if there is no such device, or more than one; it lists what there is

    >>> with use_device(0) as device:
    ...     get_device() is device
    True
    """

    def __init__(self, device: Device | str | int | None) -> None:
        chosen = None if device is None else get_device(device)
        self._before = _choice.device
        _choice.device = chosen

    def __enter__(self) -> Device:
        return get_device()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _choice.device = self._before


def describe() -> str:
    """Return a table of the devices, the one in use marked, or what to do if there is none."""
    found = find()
    if not found.devices:
        return no_device_message(found.problems, os.environ)
    current = get_device()
    rows = [("", "no.", "kind", "float64", "memory", "device", "platform")]
    for device in found.devices:
        memory = f"{device.cl_devices[0].global_mem_size / 2**30:.1f} GiB"
        float64 = "yes" if device.has_fp64 else "no"
        mark = "*" if device is current else ""
        rows.append((mark, str(device.index), device.kind, float64, memory, device.name, device.platform))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *found.problems, "* in use; NETCL_DEVICE or nc.use_device(...) choose another"])


# Discovery


def find() -> Found:
    """Look for devices, once per process."""
    global _found
    if _found is None:
        with _lock:
            if _forked:
                raise DeviceError(FORKED)
            if _found is None:
                _found = _look()
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=_after_fork)
    return _found


def _after_fork() -> None:
    # The parent's threads, and with them OpenCL's, are gone; the locks may be held by one of them for ever.
    global _lock, _choice, _found, _default, _forked
    _lock, _choice, _found, _default, _forked = threading.RLock(), _Choice(), None, None, True


def _look() -> Found:
    groups: list[Sequence[cl.Device]] = []
    problems = []
    with pocl.prepare():
        for platform in _platforms():
            usable, problem = _usable(platform)
            groups += _grouped(usable) if platform.name == _POCL else [[device] for device in usable]
            if problem:
                problems.append(problem)
    return Found(tuple(Device(group, index) for index, group in enumerate(groups)), tuple(problems))


def _platforms() -> list[cl.Platform]:
    try:
        found = cl.get_platforms()
    except cl.Error:  # how the loader says that there is none
        return []
    return list({platform.int_ptr: platform for platform in found}.values())  # one driver may be registered twice


def _usable(platform: cl.Platform) -> tuple[list[cl.Device], str]:
    """Return a platform's devices that can run netcl's kernels, and why there is none, if there is none."""
    name = f"the OpenCL platform {platform.name.strip()!r}"
    try:
        found = platform.get_devices()
    except cl.Error as error:
        return [], f"{name} fails to list its devices: {error}"
    usable = [each for each in found if each.available and each.compiler_available]
    if platform.name != _POCL:
        return usable, "" if usable else f"{name} has no device that can be used"
    if not usable:
        return [], pocl_problem(os.environ)
    version = re.search(r"pocl (\d+)", platform.version, re.IGNORECASE)
    # Later versions come with conda or a distribution, which install the linker they need.
    if sys.platform.startswith("linux") and version and int(version[1]) < 4 and pocl.guard_linker() is None:
        return [], (
            "PoCL, the OpenCL driver for the CPU, needs a linker and there is none: install binutils "
            "(as `apt install binutils` does), or run `pip install 'netcl[intel]'` for Intel's driver, which needs none"
        )
    pocl_cpu.name_unknown_cpus([each for each in usable if each.type & cl.device_type.CPU])
    return usable, ""


def _grouped(found: Sequence[cl.Device]) -> list[Sequence[cl.Device]]:
    """Put PoCL's two views of one CPU together: single-threaded first."""
    single = next((each for each in found if each.name.startswith(_SINGLE)), None)
    multi = next((each for each in found if each.name.startswith(_MULTI) and not each.name.startswith(_SINGLE)), None)
    if single is None or multi is None:
        return [[each] for each in found]
    return [[single, multi], *([each] for each in found if each not in (single, multi))]


# Choice


def _choose_default() -> Device:
    global _default
    found = find()
    named = os.environ.get("NETCL_DEVICE", "").strip()
    if named:
        try:
            chosen = _pick(named, found)
        except DeviceError as error:
            raise DeviceError(f"NETCL_DEVICE={named}: {error}") from None
    else:
        chosen = next((device for kind in ("GPU", "CPU", "") for device in _preferred(found, kind)), None)
        if chosen is None:
            raise DeviceError(no_device_message(found.problems, os.environ))
    _default = chosen
    return chosen


def _preferred(found: Found, kind: str) -> list[Device]:
    """Return the devices of a kind, the preferred first: PoCL starts small kernels ten times faster than others."""
    return sorted((each for each in found.devices if kind in ("", each.kind)), key=lambda each: each.platform != _POCL)


def _pick(spec: str | int, found: Found) -> Device:
    if not found.devices:
        raise DeviceError(no_device_message(found.problems, os.environ))
    matches = match(spec, found)
    if len(matches) == 1:
        return matches[0]
    there = "; ".join(f"{each.index}: {each.name} ({each.kind}, {each.platform})" for each in found.devices)
    what = "is more than one device" if matches else "is no device here"
    raise DeviceError(f"{spec!r} {what}; there are {there}" + "".join(f". Not used: {each}" for each in found.problems))


def match(spec: str | int, found: Found) -> list[Device]:
    """Return the devices that a number, a kind or a name fits."""
    text = str(spec).strip().lower()
    if text in KINDS:
        return _preferred(found, text.upper())[:1]
    if re.fullmatch(r"-?\d+", text):
        return [each for each in found.devices if each.index == int(text)]
    exact = [each for each in found.devices if each.name.lower() == text]
    return exact or [each for each in found.devices if text and text in f"{each.name}\n{each.platform}".lower()]


# What to do where there is no device


def no_device_message(problems: Sequence[str], environ: Mapping[str, str]) -> str:
    """Say why there is no OpenCL device, and what to do."""
    if problems:
        return "no OpenCL device: " + "; ".join(problems)
    vendors = environ.get("OCL_ICD_VENDORS", "")
    if vendors:
        return (
            f"no OpenCL platform: the environment variable OCL_ICD_VENDORS={vendors} hides all but the drivers that it "
            "names, and names none that works; unset it, or let it name a folder of .icd files"
        )
    return f"no OpenCL platform; {what_to_install(sys.platform, machine.machine())}"


def what_to_install(system: str, processor: str) -> str:
    """Say how OpenCL is had on an operating system (as in sys.platform) and a processor.

    >>> what_to_install("linux", "x86_64")
    "run `pip install pocl-binary-distribution` for one on the CPU, or install your GPU's driver with its OpenCL part"
    """
    wide = processor.lower() in ("x86_64", "amd64")
    if system.startswith("linux") and wide:
        command = "run `pip install pocl-binary-distribution`"
    elif system == "win32" and wide:
        command = "run `pip install netcl[intel]`"
    else:
        command = "run `conda install -c conda-forge pocl pyopencl`"
    return f"{command} for one on the CPU, or install your GPU's driver with its OpenCL part"


def pocl_problem(environ: Mapping[str, str]) -> str:
    """Say why PoCL shows no device."""
    start = "PoCL, the OpenCL driver for the CPU, shows none: "
    folder = environ.get("POCL_CACHE_DIR")
    if folder is None and pocl.cache_root() is None:
        tried = ", ".join(str(each) for each in pocl.cache_folders(environ))
        return f"{start}it found no folder for its cache ({tried}); set XDG_CACHE_HOME to a folder that you can write"
    reason = pocl.why_unusable(Path(folder)) if folder is not None else None
    if reason:
        return f"{start}it cannot write POCL_CACHE_DIR={folder} ({reason}); unset that environment variable"
    named = environ.get("POCL_DEVICES")
    if named is not None:
        return f"{start}POCL_DEVICES={named!r} names none that it has; unset it, or set it to 'basic pthread'"
    return f"{start}`netcl doctor` looks further"
