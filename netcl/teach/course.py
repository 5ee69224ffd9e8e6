"""Lay the lessons into a folder of the student's, and never overwrite the student's work.

A small record in that folder holds a digest of every file as it was laid. A file that still has its digest is nobody's
work and may be brought up to date; any other file stays as it is, and a newer lesson is laid beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from netcl.errors import ArgumentError

__all__ = ["DEFAULT_FOLDER", "RECORD", "Laid", "course_files", "lay", "trust"]

DEFAULT_FOLDER = "netcl-course"
RECORD = ".netcl-course.json"

_PACKAGE = Path(__file__).resolve().parents[1]
# The lessons link to docs/, so it is laid beside them.
_PARTS = ("curriculum", "docs", "notebooks")
# Left behind by editors and by runs; never part of a lesson.
_SKIPPED_SUFFIXES = {".pyc", ".tmp"}
_SKIPPED_FOLDERS = {"__pycache__"}


@dataclass
class Laid:
    """What `lay` did, as paths inside the folder.

    Every path stands in exactly one of `written` (new), `updated` (older course, untouched by the student), `same`
    (as laid) and `kept` (the student's work). `beside` maps a kept file to the newer lesson laid next to it.
    """

    folder: Path
    written: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    @property
    def fresh(self) -> list[Path]:
        """The files that this call wrote.

        >>> Laid(Path("course"), written=["notebooks/quickstart.ipynb"]).fresh[0].name
        'quickstart.ipynb'
        """
        return [self.folder / name for name in (*self.written, *self.updated, *self.beside.values())]

    def summary(self) -> str:
        """Say in a few lines what was done.

        >>> print(Laid(Path("course"), written=["a.ipynb"], kept=["b"], beside={"b": "b.new"}).summary())
        course: 1 file laid, 1 kept as you left it
        b has your work and was kept; the newer lesson is b.new
        """
        counts = [
            (len(self.written), "laid"),
            (len(self.updated), "brought up to date"),
            (len(self.same), "unchanged"),
            (len(self.kept), "kept as you left it"),
        ]
        parts = [f"{count} {what}" for count, what in counts if count]
        if parts:
            number, rest = parts[0].split(" ", 1)
            parts[0] = f"{number} file{'' if number == '1' else 's'} {rest}"
        lines = [f"{self.folder}: {', '.join(parts) or 'nothing to lay'}"]
        lines += [f"{old} has your work and was kept; the newer lesson is {new}" for old, new in self.beside.items()]
        return "\n".join(lines)


def course_files(solutions: bool = False, root: Path | None = None) -> dict[str, Path]:
    """Map the place of each file in the student's folder to the file that netcl ships.

    With `solutions`, the full lessons are there once more, under `solutions/`. `root` is where the lessons lie; without
    it, inside the installed package, or beside it in a checkout.

    Raises:  ArgumentError if no lesson is there.

    >>> sorted(course_files())[-1].startswith("notebooks/")
    True
    """
    root = root or _lessons_root()
    files: dict[str, Path] = {}
    for part in _PARTS:
        for path in sorted((root / part).rglob("*")):
            if path.is_file() and _belongs(path.relative_to(root)):
                files[path.relative_to(root).as_posix()] = path
    if not any(name.endswith(".ipynb") for name in files):
        raise ArgumentError(f"no lessons under {root}: the installation is not complete; install netcl again")
    if solutions:
        lessons = {name: path for name, path in files.items() if name.startswith("curriculum/")}
        files.update({f"solutions/{name.removeprefix('curriculum/')}": path for name, path in lessons.items()})
    return files


def lay(folder: str | os.PathLike[str], solutions: bool = False, root: Path | None = None) -> Laid:
    """Lay the course into `folder`, and keep whatever the student has changed there.

    A missing file is written. A file that nobody changed since it was laid is brought up to date. A changed file is
    kept; if the course has a newer version of it, that one is laid beside it as `NAME.new.ipynb`. Files are written
    whole or not at all. Notebooks come without outputs, but for those under `solutions/`.

    Raises:  ArgumentError if `folder`, or something in it, stands in the way; OSError if it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = lay(folder), lay(folder)
    >>> bool(first.written), second.written, second.same == first.written
    (True, [], True)
    """
    files = course_files(solutions, root)
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; name a folder to lay the course into")
    record = _read_record(folder)
    laid = Laid(folder)
    for name, source in files.items():
        data = source.read_bytes()
        if name.endswith(".ipynb") and not name.startswith("solutions/"):
            data = _without_outputs(data)
        _lay_one(folder, name, data, record, laid)
    _write_whole(folder / RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
    return laid


def _without_outputs(notebook: bytes) -> bytes:
    """Take the stored outputs out: a student is asked to predict, and the answer must not stand below the question."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def trust(paths: list[Path]) -> None:
    """Sign notebooks that netcl itself laid, so that JupyterLab shows their stored pictures before they are run.

    Without this, JupyterLab shows only the plain text of a notebook that it has not run. Nothing is signed where
    Jupyter is not installed.

    >>> trust([])
    """
    try:
        import nbformat
        from nbformat.sign import NotebookNotary
    except ModuleNotFoundError:
        return
    notary = NotebookNotary()
    for path in paths:
        if path.suffix == ".ipynb":
            notary.sign(nbformat.read(path, as_version=4))


def _lessons_root() -> Path:
    shipped = _PACKAGE / "_lessons"
    return shipped if shipped.is_dir() else _PACKAGE.parent


def _belongs(path: Path) -> bool:
    if path.suffix in _SKIPPED_SUFFIXES or path.name.endswith(".new.ipynb"):
        return False
    return not any(part.startswith(".") or part in _SKIPPED_FOLDERS for part in path.parts)


def _lay_one(folder: Path, name: str, data: bytes, record: dict[str, str], laid: Laid) -> None:
    target, newest = folder / name, _digest(data)
    if target.is_dir():
        raise ArgumentError(f"{target} is a folder; move it away, a lesson has that name")
    if not target.exists():
        _write_whole(target, data)
        laid.written.append(name)
    elif (present := _digest(target.read_bytes())) == newest:
        laid.same.append(name)
    elif present == record.get(name):
        _write_whole(target, data)
        laid.updated.append(name)
    else:
        laid.kept.append(name)
        if record.get(name) != newest:
            laid.beside[name] = _lay_beside(folder, name, data, record)
    record[name] = newest


def _lay_beside(folder: Path, name: str, data: bytes, record: dict[str, str]) -> str:
    """Write a newer lesson next to the student's, under the first free name, and return that name."""
    path, newest, count = PurePosixPath(name), _digest(data), 1
    while True:
        mark = "new" if count == 1 else f"new{count}"
        beside = path.with_name(f"{path.stem}.{mark}{path.suffix}").as_posix()
        target = folder / beside
        if not target.exists():
            break
        # An earlier offer that the student has not touched gives way; one with work in it stays.
        if target.is_file() and _digest(target.read_bytes()) in (newest, record.get(beside)):
            break
        count += 1
    _write_whole(target, data)
    record[beside] = newest
    return beside


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_record(folder: Path) -> dict[str, str]:
    """Read what was laid before; without a readable record every differing file counts as the student's work."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {str(name): str(digest) for name, digest in record.items()}


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(part, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
