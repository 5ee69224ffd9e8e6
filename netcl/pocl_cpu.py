"""Give PoCL a CPU name that its compiler knows, where it has none of its own.

PoCL asks LLVM for the host's name. An LLVM older than the CPU answers "generic", which clang then refuses as a target
("unknown target CPU 'generic'", pocl issue 1049), so that no kernel can be built: PoCL 3.0 on AMD's Zen 5, for one.
No build option or environment variable reaches that name, so the device record's pointer to it is replaced.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyopencl as cl

# PoCL's built-in functions come compiled for these CPUs, one library each; PoCL takes the last that fits the host.
# Code for another name does not inline them (exp in a scalar kernel: 8 times slower), and with a lesser one it dies.
# Flags as Linux prints them. Source: kernellib_feature_map in PoCL's pocl_llvm_utils.cc.
_LIBRARIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64", frozenset()),
    ("core2", frozenset("ssse3 cx16".split())),
    ("penryn", frozenset("sse4_1 cx16".split())),
    ("sandybridge", frozenset("avx cx16 popcnt".split())),
    ("ivybridge", frozenset("avx cx16 popcnt f16c".split())),
    ("bdver1", frozenset("avx cx16 popcnt xop fma4".split())),
    ("haswell", frozenset("avx avx2 cx16 popcnt abm f16c fma bmi1 bmi2".split())),
    ("skylake-avx512", frozenset("avx512f".split())),
)
_UNKNOWN = b"generic\0"
_RECORD_BYTES = 1024  # PoCL 3.0's device record ends there; the name's pointer was seen at byte 640
_names: list[ctypes.Array[ctypes.c_char]] = []  # PoCL keeps the pointers for the life of the process


def library_cpu(flags: Iterable[str]) -> str:
    """Return the CPU that PoCL's built-in functions were compiled for, on a host with these flags.

    >>> library_cpu(["sse2"])
    'x86-64'
    """
    have = frozenset(flags)
    return [name for name, needed in _LIBRARIES if needed <= have][-1]


def name_unknown_cpus(devices: Sequence[cl.Device]) -> int:
    """Replace the name "generic" in the records of PoCL's CPU devices; return how many were replaced.

    Harmless elsewhere: only Linux on x86-64 and only a pointer that leads to exactly that word is touched, and the
    record is read through the kernel's view of memory, where a bad address is an error and not a crash.
    """
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        return 0
    offsets = {device.int_ptr: _find_name(device.int_ptr) for device in devices}
    if not any(offset is not None for offset in offsets.values()):
        return 0
    name = ctypes.create_string_buffer(library_cpu(_cpu_flags()).encode())
    _names.append(name)
    replaced = 0
    for record, offset in offsets.items():
        if offset is not None:
            ctypes.c_void_p.from_address(record + offset).value = ctypes.addressof(name)
            replaced += 1
    return replaced


def _find_name(record: int) -> int | None:
    """Return the offset within a device record of the pointer to the unknown name, if it is there."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        return None  # a hardened container closes /proc to us: nothing to mend then
    try:
        words = os.pread(memory, _RECORD_BYTES, record)
        for offset in range(0, len(words) - 7, 8):
            (pointer,) = struct.unpack_from("<Q", words, offset)
            if not 4096 <= pointer < 1 << 47:  # not an address of user space
                continue
            try:
                text = os.pread(memory, len(_UNKNOWN), pointer)
            except OSError:
                continue  # a number that is no address
            if text == _UNKNOWN:
                return offset
    except OSError:
        return None  # the record's last page may end early
    finally:
        os.close(memory)
    return None


def _cpu_flags() -> list[str]:
    with open("/proc/cpuinfo") as lines:  # read as far as needed: the kernel writes a page per core
        found = next((line for line in lines if line.startswith("flags")), "")
    return found.partition(":")[2].split()
