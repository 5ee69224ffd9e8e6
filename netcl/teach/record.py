"""What is done, kept beside the course in the student's folder; in memory only where there is no such folder.

The file is JSON: `{"seed": "…", "exercises": {"06.fork": {"done": true, "tries": 2, "rules": {"= for +=": 1}}}}`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netcl.teach.files import RECORD, course_folder, locked, write_whole

__all__ = ["PROGRESS", "Entry", "entries", "note", "read", "seed"]

PROGRESS = "netcl-progress.json"
_COUNTED = ("right", "wrong", "unfit")


@dataclass
class Entry:
    """An exercise that was tried: whether it is done, how often it was tried, and which wrong rules were met."""

    done: bool = False
    tries: int = 0
    rules: dict[str, int] = field(default_factory=dict)

    def add(self, state: str, rule: str | None) -> None:
        """Count one more try."""
        self.done = self.done or state == "right"
        self.tries += 1
        if rule is not None:
            self.rules[rule] = self.rules.get(rule, 0) + 1


_memory: dict[str, Entry] = {}


def seed(start: Path | None = None) -> str:
    """The seed that the course in this folder was laid with, as text; "0" without one, and outside a course."""
    folder = course_folder(start)
    if folder is None:
        return "0"
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8")).get("seed", "0")
    except (OSError, ValueError, AttributeError):  # a record that cannot be read: `netcl lab` writes it anew
        return "0"
    return found if isinstance(found, str) else "0"


def note(name: str, state: str, rule: str | None = None) -> str:
    """Count a try and keep whether the exercise is done; return what went wrong with keeping it, if anything did."""
    if state not in _COUNTED:
        return ""
    folder = course_folder()
    if folder is None:
        _memory.setdefault(name, Entry()).add(state, rule)
        return ""
    try:
        _keep(folder, name, state, rule)
        return ""
    except OSError as error:
        _memory.setdefault(name, Entry()).add(state, rule)
        return f"Your progress could not be kept in {PROGRESS}: {error.strerror or error}."


def _keep(folder: Path, name: str, state: str, rule: str | None) -> None:
    path = folder / PROGRESS
    with locked(path):
        kept, sound = read(path)
        if not sound:
            _set_aside(path)
        _merge(kept, _memory)  # what could not be kept before
        kept.setdefault(name, Entry()).add(state, rule)
        body = {key: vars(entry) for key, entry in sorted(kept.items())}
        text = json.dumps({"seed": seed(folder), "exercises": body}, indent=1, ensure_ascii=False)
        write_whole(path, f"{text}\n".encode(errors="replace"))
    _memory.clear()


def _merge(kept: dict[str, Entry], more: dict[str, Entry]) -> None:
    for name, entry in more.items():
        so_far = kept.setdefault(name, Entry())
        so_far.done, so_far.tries = so_far.done or entry.done, so_far.tries + entry.tries
        for rule, count in entry.rules.items():
            so_far.rules[rule] = so_far.rules.get(rule, 0) + count


def read(path: Path) -> tuple[dict[str, Entry], bool]:
    """The entries of a progress file, and whether all of it could be read. A file that is not there holds none.

    Raises:  OSError if the file is there and may not be read
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, True
    except (ValueError, RecursionError):
        return {}, False
    body = content.get("exercises") if isinstance(content, dict) else None
    if not isinstance(body, dict):
        return {}, False
    found = {name: _entry(value) for name, value in body.items()}
    return {name: entry for name, entry in found.items() if entry is not None}, None not in found.values()


def _entry(value: Any) -> Entry | None:
    if not isinstance(value, dict):
        return None
    done, tries, rules = value.get("done"), value.get("tries"), value.get("rules", {})
    if not isinstance(done, bool) or type(tries) is not int or tries < 0 or not isinstance(rules, dict):
        return None
    if not all(type(count) is int for count in rules.values()):
        return None
    return Entry(done, tries, dict(rules))


def _set_aside(path: Path) -> None:
    """Keep a file that cannot be read under another name: somebody may still mend it."""
    count = 1
    while (aside := path.with_name(f"{path.stem}.broken{count if count > 1 else ''}.json")).exists():
        count += 1
    path.replace(aside)


def entries() -> dict[str, Entry]:
    """Each exercise that was tried, in this folder or, outside a course, since the kernel was started."""
    folder = course_folder()
    kept: dict[str, Entry] = {}
    if folder is not None:
        try:
            kept, _ = read(folder / PROGRESS)
        except OSError:  # `note` says so when there is something to keep
            kept = {}
    _merge(kept, _memory)
    return kept
