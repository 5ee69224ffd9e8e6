"""Files of the student's folder: found, read, and written whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RECORD = ".netcl-course.json"
"""What `netcl lab` laid, in the folder that it laid it into; by it the folder is known."""

_PATIENCE = 3.0  # s to wait for another notebook; it holds the lock for milliseconds
_STALE = 10.0  # s after which whoever held the lock is gone


def course_folder(start: Path | None = None) -> Path | None:
    """The folder of the course that holds `start`, or the folder that Python runs in; None outside one."""
    try:
        here = (start or Path.cwd()).resolve()
    except OSError:  # the folder was deleted under a running notebook
        return None
    return next((folder for folder in (here, *here.parents) if _is_course(folder)), None)


def _is_course(folder: Path) -> bool:
    try:
        return (folder / RECORD).is_file()
    except OSError:  # a folder above that may not be looked into
        return False


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(part, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        _replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _replace(part: Path, path: Path) -> None:
    for attempt in range(20):
        try:
            os.replace(part, path)
            return
        except PermissionError:  # on Windows: another process is just reading it
            if os.name != "nt" or attempt == 19:
                raise
            time.sleep(0.02)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other notebooks from changing a file meanwhile.

    The lock is a file beside it, which works on every file system; one whose owner is gone is taken over.

    Raises:  OSError if the folder cannot be written, or another process does not let go
    """
    lock = path.with_name(f".{path.name}.lock")
    start = time.monotonic()
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except (FileExistsError, PermissionError) as error:  # Windows says the latter while it is being deleted
            if isinstance(error, PermissionError) and os.name != "nt":
                raise
            _clear_stale(lock)
            if time.monotonic() - start > _PATIENCE:
                raise OSError(f"another notebook holds {lock.name}") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _clear_stale(lock: Path) -> None:
    try:
        if time.time() - lock.stat().st_mtime > _STALE:
            lock.unlink(missing_ok=True)
    except OSError:  # gone already
        pass
