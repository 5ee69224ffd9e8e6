"""What Oclgrind wrote to its log, put together: each distinct finding once.

A message begins after an empty line. Its first line says what is wrong and at which address; the lines below are
indented and name the kernel, the work-item, the instruction of LLVM and the line of OpenCL C:

    Invalid write of size 4 at global memory address 0x2000000000000c
            Kernel: shift
            Entity: Global(2,0,0) Local(2,0,0) Group(0,0,0)
              store float %3, float addrspace(1)* %arrayidx2, align 4, !dbg !42
            At line 5 (column 16) of input.cl:
              out[i + 1] = x[i];

Whatever is in the log counts as a finding, for Oclgrind writes nothing there that is good news. There is one exception.
Some kernels move their last group (or vector) back over the one before, since PoCL does not vectorise what stands under
`if (i < n)`: they compute, and write, some elements twice, the same value each time. Oclgrind is told to report that
too, for elsewhere two values may be equal by chance. The kernels of MOVED_BACK also run in `twice.py`, where it is not
told so and nothing may be found: that their values are equal is tested. Results in the buffer of an operand are never
written like this (`in_place` in elementwise.prepare): that would be a read-write race, which is no exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_ADDRESS = re.compile(r" address 0x[0-9a-f]+")
_KERNEL = re.compile(r"^\s*Kernel:\s*(\S+)", re.M)
_PLACE = re.compile(r"^\s*At line (\d+) \(column \d+\) of [^\n]*:\n[ \t]*([^\n]*)", re.M)
_ENTITY = re.compile(r"^\s*(?:First|Second) entity:\s*(Global\([\d,]*\)) Local\([\d,]*\) (Group\([\d,]*\))", re.M)
_STORE = re.compile(r"(?:for \(.*\) )?out\d*\[")
_TESTS_SHOWN = 3

MOVED_BACK = {"elementwise": "Group", "fused": "Group", "fused_vjp": "Group", "fold_columns": "Global"}
"""The kernels that write some elements twice, and whether groups or (each with a vector) work-items are moved back."""

Start = tuple[int, str]  # where in the log, in bytes, a test began, and its name


class Finding(NamedTuple):
    """One kind of fault at one place: what, in which kernel, and at which lines (two for a race)."""

    what: str
    kernel: str
    places: tuple[tuple[int, str], ...]


class Seen(NamedTuple):
    """How often a finding was reported, and during which tests."""

    count: int
    tests: tuple[str, ...]


def parse(log: bytes, starts: Sequence[Start] = (), *, twice: bool = True) -> dict[Finding, Seen]:
    """Return the distinct findings in order of their first appearance; `starts` are in the order of the log.

    Without `twice`, kernels may not write an element twice either.
    """
    found: dict[Finding, Seen] = {}
    for offset, message in _messages(log):
        if twice and is_written_twice(message):
            continue
        finding = _finding(message)
        before = found.get(finding, Seen(0, ()))
        test = next((name for start, name in reversed(starts) if start <= offset), "")
        tests = before.tests if not test or test in before.tests else (*before.tests, test)
        found[finding] = Seen(before.count + 1, tests)
    return found


def is_written_twice(message: str) -> bool:
    """Say whether a message is of one of MOVED_BACK: one store in two neighbours, of a result in global memory."""
    finding = _finding(message)
    moved = MOVED_BACK.get(finding.kernel)
    if moved is None or finding.what != "Write-write data race at global memory" or len(finding.places) != 2:
        return False
    entities = _ENTITY.findall(message)
    if len(entities) != 2 or finding.places[0] != finding.places[1] or not _STORE.match(finding.places[0][1]):
        return False
    first, second = (_numbers(entity[moved == "Group"]) for entity in entities)
    return [abs(a - b) for a, b in zip(first, second, strict=True)] == [1, 0, 0]


def _numbers(place: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", place)]


def was_cut(log: bytes, starts: Sequence[Start]) -> bool:
    """Say whether a part of the log is lost: it was begun anew, which leaves a hole or makes it shorter."""
    return b"\0" in log or any(start > len(log) for start, _ in starts)


def describe(found: dict[Finding, Seen]) -> str:
    """Return a paragraph for each finding."""
    return "\n\n".join("\n".join(_lines(finding, seen)) for finding, seen in found.items())


def _messages(log: bytes) -> Iterator[tuple[int, str]]:
    """Cut the log into messages, each with its place in bytes."""
    for match in re.finditer(rb"(?:^|(?<=\n))[^\s\0][^\n]*(?:\n[^\n]+)*", log):
        yield match.start(), match[0].decode("utf-8", "replace")


def _finding(message: str) -> Finding:
    head, *rest = message.splitlines()
    if head.startswith("OCLGRIND FATAL ERROR") and rest:
        head = f"{head}: {rest[0].strip()}"
    kernel = _KERNEL.search(message)
    places = tuple((int(line), text.strip()) for line, text in _PLACE.findall(message))
    return Finding(_ADDRESS.sub("", head.strip()), kernel[1] if kernel else "?", places)


def _lines(finding: Finding, seen: Seen) -> Iterator[str]:
    times = "once" if seen.count == 1 else f"{seen.count} times"
    yield f"{finding.what}: kernel {finding.kernel}, {times}"
    for line, text in finding.places:
        yield f"    line {line}: {text}"
    for test in seen.tests[:_TESTS_SHOWN]:
        yield f"    in {test}"
    if len(seen.tests) > _TESTS_SHOWN:
        yield f"    and in {len(seen.tests) - _TESTS_SHOWN} more tests"
