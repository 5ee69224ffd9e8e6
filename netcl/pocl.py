"""What must be right before PoCL is asked for its devices: a cache it can write, both its CPU devices, and a linker.

PoCL reads its settings once, when it is first asked. With a cache folder that it cannot write it shows no device. It
links every new kernel with `ld`, and a link that fails *ends the process*: no linker, or one without libgcc's files.
So netcl puts a launcher of its own, also named `ld`, where PoCL looks first. It leaves out the libraries, which kernels
do not need, and hands every other caller's arguments on untouched.
"""

from __future__ import annotations

import os
import shlex
import shutil
import site
import stat
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where PoCL does not come from the package index
    fcntl = None

__all__ = ["build_lock", "cache_folders", "cache_root", "find_linkers", "guard_linker", "prepare", "why_unusable"]

LINKERS = ("ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "x86_64-linux-gnu-ld", "x86_64-conda-linux-gnu-ld")
LINKER_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", os.path.dirname(sys.executable))
"""Where linkers are looked for after PATH: a server started by a system service may have a bare one."""

# PoCL 4 renamed `basic` and `pthread`. Names that a PoCL does not know it passes over, so all four can be asked for.
POCL_DEVICES = "basic pthread cpu-minimal cpu"
POCL_DEVICES_OF_ONE_CORE = "basic cpu-minimal"  # where threads have nothing to spread over, they only cost
_THREADS = "POCL_MAX_PTHREAD_COUNT"  # fewer threads in each of several processes would all be kept on the first cores
POCL_CACHE = "pocl"  # below cache_root()
LOCK_SECONDS = 30.0  # one build takes a quarter of one

# PoCL's links are told from everybody else's by the name of what they make: a compiler that finds this launcher
# (gcc reads COMPILER_PATH too) must have its libraries.
_LAUNCHER = """#!/bin/sh
case " $* " in
*/tempfile_??????.so\\ *)
    for argument do
        shift
        case $argument in -L* | -l*) ;; *) set -- "$@" "$argument" ;; esac
    done ;;
esac
exec {linker} "$@"
"""


def cores() -> int:
    """Return on how many cores this process may run.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_match_cores() -> bool:
    """Say whether PoCL's threads may be kept apart, thread i on core i: it has one for each core, and all are ours.

    Left to itself, Linux may wake two of them on one core and leave them there, launch after launch, while another core
    idles. PoCL counts the machine's cores, not those of a process: on some of them its threads would be kept elsewhere.
    """
    count = os.cpu_count() or 1
    allowed = os.sched_getaffinity(0) if sys.platform.startswith("linux") else set()
    return count > 1 and allowed == set(range(count)) and os.environ.get(_THREADS, str(count)) == str(count)


@contextmanager
def prepare() -> Iterator[None]:
    """Make the environment right for the block in which OpenCL is first asked for its devices.

    What a user has set is left alone, and what is set here is taken back at the end of the block, so that child
    processes see the environment they would have seen. Two settings stay: COMPILER_PATH (see `guard_linker`), and
    XDG_CACHE_HOME where the user's own cache folder cannot be written, for pyopencl's sake.
    """
    settings = {"POCL_DEVICES": POCL_DEVICES_OF_ONE_CORE if cores() == 1 else POCL_DEVICES}
    if threads_match_cores():
        settings["POCL_AFFINITY"] = "1"
    root = cache_root()
    if root is not None:
        settings["POCL_CACHE_DIR"] = str(root / POCL_CACHE)
        settings.update(_intel_settings(root))
        _lend_cache(root)
    guard_linker()
    ours = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


# Cache folders


def cache_folders(environ: Mapping[str, str]) -> list[Path]:
    """List the folders that may hold netcl's cache, best first.

    >>> cache_folders({"XDG_CACHE_HOME": "/somewhere"})[0].name
    'netcl'
    """
    shared = dict.fromkeys([tempfile.gettempdir(), *(["/var/tmp", "/dev/shm"] if os.name == "posix" else [])])
    bases = [_home_cache(environ), *(Path(folder) / f"netcl-{_user()}" for folder in shared)]
    return [base / "netcl" for base in bases]


def _home_cache(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    chosen = environ.get("XDG_CACHE_HOME", "")
    return Path(chosen) if os.path.isabs(chosen) else home / ".cache"  # the XDG standard has relative paths ignored


def why_unusable(folder: Path) -> str | None:
    """Return why kernels cannot be kept in a folder (made if it is not there), or None if they can."""
    reason = _why_unwritable(folder)
    if reason is None and hasattr(os, "statvfs") and os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        reason = "nothing may be run from it (mounted noexec), and kernels are programs"
    return reason


def _why_unwritable(folder: Path) -> str | None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.parent.name == f"netcl-{_user()}":
            _keep_private(folder.parent)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"netcl")
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _keep_private(folder: Path) -> None:
    """Refuse a folder in a place open to all that someone else may have laid there."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(0, "it belongs to another user")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


@lru_cache(maxsize=1)
def cache_root() -> Path | None:
    """Return the folder for everything that netcl keeps between runs, or None where nothing can be written."""
    return next((folder for folder in cache_folders(os.environ) if why_unusable(folder) is None), None)


def _lend_cache(root: Path) -> None:
    # pyopencl, and pytools below it, keep caches of their own and raise where they cannot write.
    home = _home_cache(os.environ)
    if sys.platform.startswith("linux") and root.parent != home and _why_unwritable(home):
        os.environ["XDG_CACHE_HOME"] = str(root.parent)


def pocl_cache() -> Path | None:
    """Return the folder where PoCL keeps compiled kernels: the user's choice, or one below `cache_root`."""
    chosen, root = os.environ.get("POCL_CACHE_DIR"), cache_root()
    return Path(chosen) if chosen else root and root / POCL_CACHE


@contextmanager
def build_lock() -> Iterator[None]:
    """Keep other processes that share PoCL's cache from building a program while this block does.

    PoCL writes `program.bc` in place, after removing what is there. Two processes that build the same program at once
    get in each other's way: the build of one fails, or it reads half a file. Where the lock cannot be had, for a
    process that holds it was stopped, say, the block runs without it after LOCK_SECONDS.
    """
    folder = pocl_cache()
    lock = None if folder is None else _lock(folder / "netcl.lock")
    try:
        yield
    finally:
        if lock is not None and fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough while a child forked meanwhile has it open
            os.close(lock)


def _lock(path: Path) -> int | None:
    if fcntl is None:
        return None
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None  # no PoCL here that would have made the folder, or none that can write to it
    end = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < end:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            break  # a network's file system without locks
        else:
            return lock
    os.close(lock)
    return None


# The linker


def find_linkers(path: str) -> Iterator[str]:
    """Find the linkers on a search path and in the usual folders, the preferred first."""
    folders = os.pathsep.join(filter(None, (path, *LINKER_FOLDERS)))
    found = (shutil.which(name, path=folders) for name in LINKERS)
    yield from dict.fromkeys(linker for linker in found if linker is not None)


@lru_cache(maxsize=1)
def guard_linker() -> str | None:
    """Put a launcher that PoCL can link with where it looks first; return the linker behind it, None if there is none.

    PoCL finds `ld` through clang's driver, which looks into COMPILER_PATH before any other place, PATH included, and
    reads it anew at every link. So PATH stays as it is, and COMPILER_PATH must stay set.
    """
    root = cache_root()
    if not sys.platform.startswith("linux") or root is None:
        return None
    for linker in find_linkers(os.environ.get("PATH", "")):
        folder = _launcher(linker, root)
        if folder is not None:
            others = [each for each in os.environ.get("COMPILER_PATH", "").split(os.pathsep) if each != str(folder)]
            os.environ["COMPILER_PATH"] = os.pathsep.join(filter(None, (str(folder), *others)))
            return linker
    return None


def _launcher(linker: str, root: Path) -> Path | None:
    """Return the folder of the launcher for a linker, made and tried if it is new; None if it does not link."""
    text = _LAUNCHER.format(linker=shlex.quote(linker))
    folder = root / f"ld-{zlib.crc32(text.encode()):08x}"
    return folder if _lay(folder, {"ld": text}, accept=lambda new: _links(new / "ld")) else None


def _links(launcher: Path) -> bool:
    """Try a launcher as PoCL would call it: an object that is empty, and a library that nobody has."""
    import subprocess  # here, for it is slow to import and needed once per user

    libraries = ["-L/nowhere", "-lgcc", "--as-needed", "-lnetcl_has_no_such_library", "--no-as-needed"]
    with tempfile.TemporaryDirectory(dir=launcher.parent.parent) as folder:
        target, source = Path(folder, "tempfile_netcl0.so"), Path(folder, "tempfile_netcl0.so.o")
        source.write_bytes(_empty_object())
        command = [launcher, "-m", "elf_x86_64", "-shared", "-o", target, source, *libraries]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and target.is_file()


def _empty_object() -> bytes:
    """Return a relocatable ELF file for x86-64 with no code in it (System V ABI, AMD64 supplement)."""
    names = b"\0.shstrtab\0"
    sections = 64 + len(names) + (-len(names)) % 8
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, sections, 0, 64, 0, 0, 64, 2, 1)
    table = bytes(64) + struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    return (header + names).ljust(sections, b"\0") + table


# Intel's CPU runtime from the package index


def _intel_settings(root: Path) -> dict[str, str]:
    """Return the settings that let the loader find Intel's CPU runtime, if it is installed beside us.

    Its package registers it for conda alone: the .icd file it lays names a folder of the machine it was built on.
    """
    if sys.platform == "win32":  # untested
        library = Path(sys.prefix, "Library", "bin", "intelocl64.dll")
        return {"OCL_ICD_FILENAMES": str(library)} if library.exists() else {}
    places: Iterator[Path] = (Path(each, "lib", "libintelocl.so") for each in (sys.prefix, site.USER_BASE) if each)
    library = next((each for each in places if each.exists()), None)
    if library is None or Path(sys.prefix, "conda-meta").is_dir():
        return {}
    # OCL_ICD_VENDORS takes the place of the system's folder, so the system's drivers are named again.
    icds = {"netcl-intel.icd": f"{library}\n"}
    system = Path(os.environ.get("OPENCL_VENDOR_PATH") or "/etc/OpenCL/vendors")
    for icd in sorted(system.glob("*.icd")):
        icds[icd.name] = _read(icd)
    folder = root / f"vendors-{zlib.crc32(repr(icds).encode()):08x}"
    return {"OCL_ICD_VENDORS": str(folder)} if _lay(folder, icds) else {}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeError):
        return ""  # a driver that cannot be read is one that the loader cannot read either


def _lay(folder: Path, files: Mapping[str, str], accept: Callable[[Path], bool] = Path.is_dir) -> bool:
    """Lay a folder with these files, if they pass, in one move: another process never sees half of it.

    The folder's name must tell its content, for what is there already is taken as it is.
    """
    if folder.is_dir():
        return True
    try:
        new = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            for name, text in files.items():
                (new / name).write_text(text)
                (new / name).chmod(0o700)
            if accept(new):
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError:
        pass  # the disk is full, or another process laid the folder meanwhile: the next line tells which
    return folder.is_dir()
