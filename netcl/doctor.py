"""`netcl doctor`: try what netcl needs of this machine, and say how to mend what is wrong.

Devices are tried in a process of their own, with empty caches: where a driver ends the process, that is a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from netcl import calibrate, crossover, expr, platforms, pocl
from netcl.device import Device
from netcl.errors import DeviceError, NetclError
from netcl.kernels import Formula, evaluate
from netcl.tensor import Tensor

__all__ = ["Finding", "broken_files", "check_cache", "check_devices", "check_environment", "check_linker", "main"]

_PROBE_SECONDS = 120  # a cold build takes one; a machine under load, or over a network's file system, far longer
_MOST_TRIED = 1 << 22  # numbers: a crossover that is pinned may be beyond all memory
_STRINGS = 23  # STRTAB_BLOCK_ID of LLVM's BitcodeFormat
_UNSAFE_MATHS = ("-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-unsafe-math-optimizations")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it stands, and how to mend it."""

    level: Literal["ok", "warning", "error"]
    what: str
    mend: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run every check and print what was found; return 1 if something must be mended, else 0."""
    parser = argparse.ArgumentParser(
        prog="netcl doctor", description="Test every OpenCL device and say how to mend what is wrong."
    )
    parser.add_argument("--fix", action="store_true", help="remove what is broken in the cache of compiled kernels")
    options = parser.parse_args(argv)
    findings = [*check_environment(os.environ), *check_cache(options.fix), check_linker(), *check_devices()]
    print(render(findings))
    return int(any(each.level == "error" for each in findings))


def render(findings: Sequence[Finding]) -> str:
    """Return findings as text, what must be mended marked and counted.

    >>> print(render([Finding("error", "no linker", "install binutils")]))
    ERROR    no linker
             → install binutils
    1 thing to mend
    """
    marks = {"ok": "ok", "warning": "warning", "error": "ERROR"}
    lines = []
    for each in findings:
        lines.append(f"{marks[each.level]:7}  {each.what}")
        if each.mend:
            lines.append(f"         → {each.mend}")
    errors = sum(each.level == "error" for each in findings)
    lines.append("nothing to mend" if not errors else f"{errors} thing{'s' * (errors > 1)} to mend")
    return "\n".join(lines)


# Environment variables


def check_environment(environ: Mapping[str, str]) -> list[Finding]:
    """Find the environment variables that hide devices or change what kernels compute.

    >>> check_environment({})
    []
    """
    checks = {
        "OCL_ICD_VENDORS": _check_vendors,
        "POCL_DEVICES": _check_pocl_devices,
        "POCL_CACHE_DIR": _check_pocl_cache_dir,
        "POCL_KERNEL_CACHE": _check_kernel_cache,
        "PYOPENCL_BUILD_OPTIONS": _check_build_options,
        "POCL_EXTRA_BUILD_FLAGS": _check_build_options,
        "PYOPENCL_CTX": _check_pyopencl_ctx,
        crossover.VARIABLE: _check_crossover,
    }
    found = (check(name, environ[name]) for name, check in checks.items() if name in environ)
    return [each for each in found if each is not None]


def _check_vendors(name: str, value: str) -> Finding | None:
    mend = f"unset {name}, or let it name a folder of .icd files"
    if not value:
        return None  # the loader takes an empty one as unset
    if not Path(value).exists():
        return Finding("error", f"{name}={value} is not there, and hides every driver", mend)
    return Finding("warning", f"{name}={value} hides the drivers of the system that it does not name", mend)


def _check_pocl_devices(name: str, value: str) -> Finding | None:
    known = set(pocl.POCL_DEVICES.split())
    named = value.split()
    mend = f"unset {name}, or set it to 'basic pthread'"
    if not known & set(named):
        return Finding("error", f"{name}={value!r} leaves PoCL without its CPU device", mend)
    single, multi = {"basic", "cpu-minimal"} & set(named), {"pthread", "cpu"} & set(named)
    if not single or not multi:
        which = "large" if single else "small"
        return Finding("warning", f"{name}={value!r} makes {which} kernels slower: netcl uses two of PoCL's", mend)
    return None


def _check_pocl_cache_dir(name: str, value: str) -> Finding | None:
    reason = pocl.why_unusable(Path(value))
    return Finding("error", f"{name}={value} cannot be used: {reason}", f"unset {name}") if reason else None


def _check_kernel_cache(name: str, value: str) -> Finding | None:
    if value.strip() != "0":
        return None
    return Finding("warning", f"{name}={value}: every run compiles its kernels anew", f"unset {name}")


def _check_build_options(name: str, value: str) -> Finding | None:
    unsafe = [flag for flag in _UNSAFE_MATHS if flag in value.split()]
    if unsafe:
        return Finding("error", f"{name} has {' '.join(unsafe)}: NaN and infinity come out wrong", f"unset {name}")
    return Finding("warning", f"{name}={value} changes how kernels are compiled", f"unset {name}") if value else None


def _check_pyopencl_ctx(name: str, value: str) -> Finding | None:
    return Finding("warning", f"{name}={value} does not choose netcl's device", "set NETCL_DEVICE instead")


def _check_crossover(name: str, value: str) -> Finding | None:
    try:
        size = crossover.pinned({name: value})
    except DeviceError as error:
        return Finding("error", str(error), f"unset {name}")
    return None if size is None else Finding("ok", f"{name}={value}: {calibrate.describe(size)}; not measured")


# Caches and the linker


def check_cache(fix: bool = False) -> list[Finding]:
    """Check where compiled kernels are kept, and look for files there that were cut short; remove them if `fix`."""
    root = pocl.cache_root()
    findings = []
    for folder in pocl.cache_folders(os.environ):
        if folder == root:
            break
        mend = "" if root is None else "make it writable, or set XDG_CACHE_HOME to a folder that you can write"
        reason = pocl.why_unusable(folder)
        findings.append(Finding("warning", f"kernels cannot be kept in {folder}: {reason}", mend))
    if root is None:
        return [*findings, Finding("error", "there is no folder to keep kernels in", "set XDG_CACHE_HOME to one")]
    findings.append(Finding("ok", f"kernels are kept in {root}"))
    cache = pocl.pocl_cache()
    return [*findings, *(_broken(path, fix) for path in (broken_files(cache) if cache else []))]


def _broken(path: Path, fix: bool) -> Finding:
    if not fix:
        what = f"a compiled kernel was cut short, and ends any process that loads it: {path}"
        return Finding("error", what, "`netcl doctor --fix` removes it, and it is compiled anew")
    try:
        shutil.rmtree(path.parent)  # what PoCL made of it beside it is as doubtful
    except OSError as error:
        return Finding("error", f"a compiled kernel was cut short and cannot be removed: {error}", f"remove {path}")
    return Finding("ok", f"removed a compiled kernel that was cut short: {path}")


def broken_files(folder: Path) -> list[Path]:
    """Return the files in PoCL's cache that were cut short, as when the disk was full."""
    suspects: Iterator[Path] = (path for path in folder.rglob("*") if path.suffix in (".so", ".bc"))
    return sorted(path for path in suspects if path.is_file() and not _is_whole(path))


def _is_whole(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return True  # gone meanwhile, or another user's: nothing that can be said of it
    return _elf_is_whole(data) if path.suffix == ".so" else _bitcode_is_whole(data)


def _elf_is_whole(data: bytes) -> bool:
    # Linkers write the section headers last, so a file that has them all is whole.
    if len(data) < 64 or not data.startswith(b"\x7fELF"):
        return False
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return start + size * count <= len(data)


def _bitcode_is_whole(data: bytes) -> bool:
    """Walk over the top-level blocks of LLVM bitcode: each says how many 32-bit words it has; its strings come last."""
    if not data.startswith(b"BC\xc0\xde"):
        return False
    position, block = 4, 0
    while position + 8 <= len(data):
        head, words = struct.unpack_from("<II", data, position)
        position += 8 + 4 * words
        block = head >> 2 & 0xFF
    return position == len(data) and block == _STRINGS


def check_linker() -> Finding:
    """Check that PoCL can link: with a linker of this machine, through netcl's launcher."""
    if not sys.platform.startswith("linux"):
        return Finding("ok", "a linker is not needed")
    linker = pocl.guard_linker()
    if linker is None:
        mend = "install binutils (as `apt install binutils` does), or run `pip install 'netcl[intel]'`"
        return Finding("warning", "there is no linker that works, and PoCL needs one", mend)
    return Finding("ok", f"PoCL links with {linker}")


# Devices


def check_devices() -> list[Finding]:
    """Build and run kernels on each device, in other processes and with empty caches."""
    findings: list[Finding] = []
    tried = -1
    while True:
        lines, end = _run_probe(tried + 1)
        if not lines:
            return [*findings, Finding("error", f"looking for OpenCL devices {end}")]
        first, *rest = lines
        if not first["count"]:
            return [*findings, Finding("error", first["message"])]
        if tried < 0:
            findings += [Finding("warning", each) for each in first["problems"]]
        findings += [Finding(line["level"], line["what"], line["mend"]) for line in rest if "what" in line]
        findings += [_keep_crossover(line["key"], line["crossover"]) for line in rest if "crossover" in line]
        tried = max([tried, *(line["index"] for line in rest)])
        if end:
            mend = "let NETCL_DEVICE name another device, or update the driver"
            name = rest[-1]["name"] if rest else "the first device"
            findings.append(Finding("error", f"running a kernel on {name} {end}", mend))
        if tried + 1 >= first["count"] or not rest:
            return findings


def _run_probe(start: int) -> tuple[list[dict[str, Any]], str]:
    """Try the devices from `start` on in a process; return the lines it wrote, and how it died if it did."""
    command = [sys.executable, "-c", f"from netcl import doctor; doctor.probe({start})"]
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=pocl.cache_root()) as caches:
        # Empty caches, or nothing would be built. POCL_CACHE_DIR has been looked at by itself.
        environ = {name: value for name, value in os.environ.items() if name != "POCL_CACHE_DIR"}
        environ["XDG_CACHE_HOME"] = caches
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
            try:
                code = subprocess.run(
                    command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                    timeout=_PROBE_SECONDS, check=False,
                ).returncode  # fmt: skip
                end = "" if code == 0 else _death(code)
            except subprocess.TimeoutExpired:
                end = f"takes more than {_PROBE_SECONDS} s"
            out.seek(0)
            err.seek(0)
            lines = [json.loads(line) for line in out if line.startswith("{")]
            last = err.read().strip().splitlines()[-1:]
    return lines, f"{end}: {last[0]}" if end and last else end


def _keep_crossover(key: str, size: int | None) -> Finding:
    """Keep what the probe measured: its own cache is gone by now."""
    if size is None:
        what = f"work on up to {crossover.SIZES[-1]:,} elements was no faster on all {pocl.cores()} cores"
        return Finding("warning", what, "run `netcl doctor` again when nothing else computes; until then netcl guesses")
    kept = crossover.keep(key, size)
    return Finding("ok", f"{calibrate.describe(size)}: measured{'' if kept else ', but it cannot be kept'}")


def _death(code: int) -> str:
    if code > 0:
        return f"fails (exit code {code})"
    try:
        return f"ends the process ({signal.Signals(-code).name})"
    except ValueError:
        return f"ends the process (signal {-code})"


def probe(start: int) -> None:
    """Try each device from `start` on and write a line of JSON before and after each: run in a process of its own."""
    found = platforms.find()
    message = "" if found.devices else platforms.no_device_message(found.problems, os.environ)
    _say(count=len(found.devices), problems=list(found.problems), message=message)
    for device in found.devices[start:]:
        _say(index=device.index, name=device.name)
        finding = _try_device(device)
        _say(index=device.index, name=device.name, level=finding.level, what=finding.what, mend=finding.mend)
        if finding.level == "ok" and len(device.cl_devices) > 1 and crossover.pinned(os.environ) is None:
            key = crossover.key_of(device.name, device.cl_devices[0].driver_version)
            _say(index=device.index, name=device.name, key=key, crossover=calibrate.measure(device))


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def _try_device(device: Device) -> Finding:
    name = f"device {device.index}: {device.name} ({device.kind}, {device.platform})"
    dtypes = [np.float32, np.float64] if device.has_fp64 else [np.float32]
    try:
        # Both sides of the crossover, for PoCL runs them in different ways.
        sizes = (5, min(2 * device.crossover, _MOST_TRIED))
        wrong = [np.dtype(each).name for each in dtypes for size in sizes if not _right(device, size, each)]
    except NetclError as error:
        return Finding("error", f"{name} cannot be used: {error}", "update its driver, or choose another device")
    if wrong:
        return Finding("error", f"{name} computes wrong values in {', '.join(wrong)}", "update its driver")
    return Finding("ok", f"{name} builds and runs kernels in {' and '.join(np.dtype(each).name for each in dtypes)}")


def _right(device: Device, size: int, dtype: type[np.floating]) -> bool:
    given = np.arange(size, dtype=dtype)
    tensor = Tensor.from_host(given, device=device)
    buffer = evaluate(device, Formula(expr.parse("a * 2 + 1")), [tensor], tensor.layout, tensor.dtype)
    got = np.empty_like(given)
    device.read(got, buffer, 0)
    return bool(np.array_equal(got, given * 2 + 1))
