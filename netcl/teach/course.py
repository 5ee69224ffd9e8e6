"""Lay the lessons into a folder of the student's, and never overwrite the student's work.

The lessons lie there without their solutions (`curriculum/student/` in what is shipped, `curriculum/` in the folder).

A small record in that folder holds a digest of every file as it was laid. A file that still has its digest is nobody's
work and may be brought up to date; any other file stays as it is, and a newer lesson is laid beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from netcl.errors import ArgumentError
from netcl.teach.copies import FOLDER as STUDENT
from netcl.teach.copies import as_laid
from netcl.teach.files import RECORD, write_whole

__all__ = ["DEFAULT_FOLDER", "RECORD", "Laid", "course_files", "lay", "trust"]

DEFAULT_FOLDER = "netcl-course"
SEED = "seed"
"""The entry of the record that varies the numbers of the exercises."""

_PACKAGE = Path(__file__).resolve().parents[1]
# The lessons link to docs/, so it is laid beside them.
_PARTS = ("curriculum", "docs", "notebooks")
# The instructor's guide has the answers, so it comes with the solutions alone.
_GUIDE = re.compile(r"docs/teaching(\.md|/)")
# Left behind by editors and by runs; never part of a lesson.
_SKIPPED_SUFFIXES = {".pyc", ".tmp"}
_SKIPPED_FOLDERS = {"__pycache__"}


@dataclass
class Laid:
    """What `lay` did, as paths inside the folder.

    Every path stands in exactly one of `written` (new), `updated` (older course, untouched by the student), `same`
    (as laid) and `kept` (the student's work). `beside` maps a kept file to the newer lesson laid next to it.
    `lesson` is the notebook that was asked for by its number, `seed` what varies the numbers of the exercises.
    """

    folder: Path
    written: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    lesson: str | None = None
    seed: str | None = None

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
        lines += [f"the numbers of the exercises are those of {self.seed!r}"] if self.seed is not None else []
        return "\n".join(lines)


def course_files(solutions: bool = False, root: Path | None = None, lesson: str | None = None) -> dict[str, Path]:
    """Map the place of each file in the student's folder to the file that netcl ships.

    With `solutions`, the full lessons are there once more, under `solutions/`, and the instructor's guide is, too. With
    a `lesson`, such as "6", no other notebook is there. `root` is where the lessons lie; without it, inside the
    installed package, or beside it in a checkout.

    Raises:  ArgumentError if no lesson is there, or not the one that is asked for.

    >>> sorted(course_files())[-1].startswith("notebooks/")
    True
    >>> [name for name in course_files(lesson="6") if name.endswith(".ipynb")]
    ['curriculum/06_reverse_mode.ipynb']
    """
    root = root or _lessons_root()
    files: dict[str, Path] = {}
    full: dict[str, Path] = {}
    for part in _PARTS:
        for path in sorted((root / part).rglob("*")):
            name = path.relative_to(root).as_posix()
            if not path.is_file() or not _belongs(path.relative_to(root)) or (_GUIDE.match(name) and not solutions):
                continue
            if name.startswith(f"curriculum/{STUDENT}/"):
                files[f"curriculum/{path.name}"] = path
            elif part == "curriculum":
                full[name] = path
            else:
                files[name] = path
    files.update({name: path for name, path in full.items() if path.suffix != ".ipynb"})
    if not any(name.endswith(".ipynb") for name in files):
        raise ArgumentError(f"no lessons under {root}: the installation is not complete; install netcl again")
    if solutions:
        files.update({f"solutions/{name.removeprefix('curriculum/')}": path for name, path in full.items()})
    return files if lesson is None else _only(files, lesson)


def _only(files: dict[str, Path], lesson: str) -> dict[str, Path]:
    """The files without the notebooks of other lessons."""
    notebooks = {name for name in files if name.endswith(".ipynb")}
    numbers = {name: _number(name) for name in notebooks if not name.startswith("notebooks/")}
    wanted = lesson.zfill(2)
    if wanted not in numbers.values():
        known = ", ".join(sorted({number for number in numbers.values() if number}))
        raise ArgumentError(f"there is no lesson {lesson!r}; the lessons are {known}")
    return {name: path for name, path in files.items() if name not in notebooks or numbers.get(name) == wanted}


def _number(name: str) -> str:
    number = PurePosixPath(name).name[:2]
    return number if number.isdigit() else ""


def lay(
    folder: str | os.PathLike[str],
    solutions: bool = False,
    root: Path | None = None,
    lesson: str | None = None,
    seed: str | None = None,
) -> Laid:
    """Lay the course into `folder`, and keep whatever the student has changed there.

    A missing file is written. A file that nobody changed since it was laid is brought up to date. A changed file is
    kept; if the course has a newer version of it, that one is laid beside it as `NAME.new.ipynb`. Files are written
    whole or not at all. Notebooks come without outputs, but for those under `solutions/`. With `lesson`, such as "6",
    no other notebook is touched. `seed`, a number or a student's name, varies the exercises from then on.

    Raises:  ArgumentError if `folder`, or something in it, stands in the way, or there is no such lesson; OSError if it
             cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = lay(folder), lay(folder)
    >>> bool(first.written), second.written, second.same == first.written
    (True, [], True)
    """
    files = course_files(solutions, root, lesson)
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(f"{folder} is a file; name a folder to lay the course into")
    record = _read_record(folder)
    laid = Laid(folder)
    for name, source in files.items():
        _lay_one(folder, name, _content(name, source), record, laid)
    if lesson is not None:
        laid.lesson = next(name for name in files if name.startswith(f"curriculum/{lesson.zfill(2)}"))
    if seed is not None:
        record[SEED] = seed
    laid.seed = record.get(SEED)
    write_whole(folder / RECORD, (json.dumps(record, indent=1, sort_keys=True) + "\n").encode())
    return laid


def _content(name: str, source: Path) -> bytes:
    """What is laid of a file that is shipped."""
    data = source.read_bytes()
    if not name.endswith(".ipynb") or name.startswith("solutions/"):
        return data
    return as_laid(data.decode()).encode() if name.startswith("curriculum/") else _without_outputs(data)


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
        write_whole(target, data)
        laid.written.append(name)
    elif (present := _digest(target.read_bytes())) == newest:
        laid.same.append(name)
    elif present == record.get(name):
        write_whole(target, data)
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
    write_whole(target, data)
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
