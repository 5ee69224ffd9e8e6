"""`make oclgrind`: what Oclgrind wrote to its log is put together rightly, and what never ran is noticed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "oclgrind"

# As Oclgrind 21.10 writes them, here with → for a tab; an empty line within a message holds one.
WRITE = """
Invalid write of size 4 at global memory address 0x200000000000c
→Kernel: shift
→Entity: Global({0},0,0) Local({0},0,0) Group(0,0,0)
→  store float %3, float addrspace(1)* %arrayidx2, align 4, !dbg !42
→At line 5 (column 16) of input.cl:
→  out[i + 1] = x[i];
→
"""
RACE = """
Write-write data race at global memory address 0x3000000000002
→Kernel: last
→
→First entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
→  store float %0, float addrspace(1)* %out, align 4, !dbg !37, !tbaa !33
→At line 2 (column 8) of input.cl:
→  out[0] = x[i];
→
→Second entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
→  store float %1, float addrspace(1)* %out, align 4, !dbg !39, !tbaa !33
→At line 3 (column 8) of input.cl:
→  out[0] = y[i];
→
"""
DIVERGENCE = """
Work-group divergence detected (barrier)
→Kernel:     half
→Work-group: (0,0,0)
→Only 32 out of 64 work-items executed barrier
→  tail call spir_func void @_Z7barrierj(i32 noundef 1) #5, !dbg !35
→At line 2 (column 11) of input.cl:
→  if (i % 2) barrier(CLK_LOCAL_MEM_FENCE);
→
"""
FATAL = """
OCLGRIND FATAL ERROR (/src/plugins/Uninitialized.cpp:1805)
Unsupported instruction: freeze
→Kernel: elementwise
→Entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
→  %call.frozen = freeze i64 %call
→Debugging information not available.
→
→
"""
TOO_MANY = "\nOclgrind: 1000 errors generated - suppressing further errors\n\n"


def tabbed(text: str) -> str:
    """Put tabs where arrows stand."""
    return text.replace("→", "\t")


@pytest.fixture(scope="module")
def tool() -> dict[str, ModuleType]:
    """The modules of the tool by name; they import each other as neighbours."""
    found = {}
    sys.path.insert(0, str(TOOL))
    try:
        for name in ("findings", "lanes", "notes", "__main__"):
            spec = importlib.util.spec_from_file_location(f"oclgrind_{name}", TOOL / f"{name}.py")
            assert spec is not None and spec.loader is not None
            found[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found[name])
    finally:
        sys.path.remove(str(TOOL))
        for name in ("findings", "notes"):
            sys.modules.pop(name, None)
    return found


def test_an_empty_log_has_no_findings(tool: dict[str, ModuleType]) -> None:
    assert tool["findings"].parse(b"") == {}
    assert tool["findings"].parse(b"\n\n") == {}


@pytest.mark.parametrize(
    ("message", "what", "kernel", "places"),
    [
        (WRITE.format(2), "Invalid write of size 4 at global memory", "shift", ((5, "out[i + 1] = x[i];"),)),
        (RACE, "Write-write data race at global memory", "last", ((2, "out[0] = x[i];"), (3, "out[0] = y[i];"))),
        (
            DIVERGENCE,
            "Work-group divergence detected (barrier)",
            "half",
            ((2, "if (i % 2) barrier(CLK_LOCAL_MEM_FENCE);"),),
        ),
        (
            FATAL,
            "OCLGRIND FATAL ERROR (/src/plugins/Uninitialized.cpp:1805): Unsupported instruction: freeze",
            "elementwise",
            (),
        ),
        (TOO_MANY, "Oclgrind: 1000 errors generated - suppressing further errors", "?", ()),
        ("\nWhat no version has said yet\n", "What no version has said yet", "?", ()),
    ],
    ids=["write", "race", "divergence", "fatal", "too many", "unknown"],
)
def test_every_message_is_a_finding(
    tool: dict[str, ModuleType], message: str, what: str, kernel: str, places: tuple[tuple[int, str], ...]
) -> None:
    (finding,) = tool["findings"].parse(tabbed(message).encode())
    assert finding == (what, kernel, places)


def test_a_finding_is_told_once_with_its_count_and_the_tests_it_came_up_in(tool: dict[str, ModuleType]) -> None:
    findings = tool["findings"]
    parts = [tabbed(each) for each in (WRITE.format(2), RACE, WRITE.format(7), WRITE.format(2))]
    ends = [sum(len(part.encode()) for part in parts[:n]) for n in range(5)]
    starts = [
        (0, "test_a"),
        (ends[1], "test_quiet"),
        (ends[1], "test_b"),
        (ends[3], "test_c"),
    ]
    found = findings.parse("".join(parts).encode(), starts)
    assert list(found.values()) == [(3, ("test_a", "test_b", "test_c")), (1, ("test_b",))]
    assert findings.describe(found).splitlines() == [
        "Invalid write of size 4 at global memory: kernel shift, 3 times",
        "    line 5: out[i + 1] = x[i];",
        "    in test_a",
        "    in test_b",
        "    in test_c",
        "",
        "Write-write data race at global memory: kernel last, once",
        "    line 2: out[0] = x[i];",
        "    line 3: out[0] = y[i];",
        "    in test_b",
    ]


TWICE = RACE.replace("last", "elementwise").replace("line 3", "line 2").replace("y[i]", "x[i]")
TWICE = TWICE.replace(
    "First entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)", "First entity:  Global(64,0,0) Local(0,0,0) Group(1,0,0)"
)
COLUMNS = TWICE.replace("elementwise", "fold_columns").replace("Global(64,0,0)", "Global(1,0,0)")


@pytest.mark.parametrize("message", [TWICE, COLUMNS], ids=["groups", "work-items"])
def test_one_store_in_two_neighbours_is_no_finding_where_the_last_is_moved_back(
    tool: dict[str, ModuleType], message: str
) -> None:
    findings = tool["findings"]
    assert not findings.parse(tabbed(message).encode())
    assert len(findings.parse(tabbed(message).encode(), twice=False)) == 1
    assert len(findings.parse(tabbed(message + WRITE.format(2)).encode())) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Kernel: elementwise", "Kernel: short_rows"),
        ("Write-write", "Read-write"),
        ("at global", "at local"),
        ("Group(1,0,0)", "Group(0,0,0)"),
        ("Group(1,0,0)", "Group(2,0,0)"),
        ("Group(1,0,0)", "Group(0,1,0)"),
        ("At line 2", "At line 3"),
        ("out[0] = x[i]", "line[0] = x[i]"),
        ("→  out[0] = x[i];\n→\n→Second", "→  out[0] = y[i];\n→\n→Second"),
        ("Second entity", "Some entity"),
    ],
)
def test_whatever_differs_from_that_is_a_finding(tool: dict[str, ModuleType], old: str, new: str) -> None:
    count = 1 if old == "At line 2" else -1
    changed = TWICE.replace(old, new, count)
    assert changed != TWICE
    assert len(tool["findings"].parse(tabbed(changed).encode())) == 1


def test_a_vector_moved_back_is_a_work_item_and_not_a_group(tool: dict[str, ModuleType]) -> None:
    apart = COLUMNS.replace("Global(1,0,0)", "Global(2,0,0)")
    assert len(tool["findings"].parse(tabbed(apart).encode())) == 1


def test_the_kernels_that_are_moved_back_are_there(tool: dict[str, ModuleType]) -> None:
    launched = {name for _, name in tool["notes"].declared(ROOT / "netcl")} | {"fused", "fused_vjp"}
    assert set(tool["findings"].MOVED_BACK) <= launched


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("const float2 b = a.lo + a.hi;", "const float2 b = (float2)(a.s0, a.s1) + (float2)(a.s2, a.s3);"),
        ("const double c = b2.lo + b2.hi;", "const double c = b2.s0 + b2.s1;"),
        ("const float2 b = (a.hi > a.lo || a.hi != a.hi) ? a.hi : a.lo;", None),
        ("const float8 h = a.lo;", "const float8 h = (float8)(a.s0, a.s1, a.s2, a.s3, a.s4, a.s5, a.s6, a.s7);"),
        ("const float b = a.x + a.y; const float2 c = a;", "const float b = a.x + a.y; const float2 c = a;"),
    ],
)
def test_halves_of_vectors_are_written_lane_by_lane(
    tool: dict[str, ModuleType], statement: str, written: str | None
) -> None:
    found = tool["lanes"].by_lane(statement)
    assert found == written if written else ".lo" not in found and ".hi" not in found


def test_a_log_that_was_begun_anew_is_noticed(tool: dict[str, ModuleType]) -> None:
    findings = tool["findings"]
    log = tabbed(RACE).encode()
    assert not findings.was_cut(log, [(0, "test_a"), (len(log), "test_b")])
    assert findings.was_cut(log, [(len(log) + 1, "test_a")])
    assert findings.was_cut(b"\0\0\0" + log, [])


COMPLETE = """\
test→0→tests/device/test_a.py::test_a[x y]
kernel→netcl.kernels.reduce→fold
kernel→netcl.user_kernel→cube
access→number
access→same
access→one
access→strided
access→scattered
row→exp→ran
"""


def test_notes_are_read_but_for_a_line_that_broke_off(tool: dict[str, ModuleType]) -> None:
    read = tool["notes"].read(tabbed(COMPLETE + "kernel→netcl.kernels.unf"))
    assert read == tool["notes"].read(tabbed(COMPLETE))
    assert read.starts == [(0, "tests/device/test_a.py::test_a[x y]")]
    assert read.kernels == {("netcl.kernels.reduce", "fold"), ("netcl.user_kernel", "cube")}


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("", []),
        ("kernel→netcl.kernels.reduce→fold\n", ["the kernel fold of netcl.kernels.reduce"]),
        ("kernel→netcl.user_kernel→cube\n", ["a user's own kernel"]),
        ("access→strided\n", ["an elementwise kernel with an operand 'strided'"]),
        ("row→exp→ran\n", ["the end of the run: it broke off"]),
    ],
)
def test_what_never_ran_is_told(tool: dict[str, ModuleType], line: str, missing: list[str]) -> None:
    read = tool["notes"].read(tabbed(COMPLETE.replace(line, "")))
    assert tool["notes"].never_run(read, {("netcl.kernels.reduce", "fold")}) == missing


def test_a_row_that_never_ran_is_told(tool: dict[str, ModuleType]) -> None:
    read = tool["notes"].read(tabbed(COMPLETE + "row→log→never\n"))
    assert tool["notes"].never_run(read, set()) == ["the row log"]


def test_the_kernels_are_those_of_the_package(tool: dict[str, ModuleType]) -> None:
    declared = tool["notes"].declared(ROOT / "netcl")
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "netcl" / "kernels").glob("*.py"))
    assert len(declared) == sources.count("__kernel void")
    assert {("netcl.kernels.reduce", "fold"), ("netcl.kernels.unfold", "fold")} <= declared
    assert all(name.isidentifier() for _, name in declared), "a name that is filled in later cannot be looked for"


def test_every_fault_that_is_looked_for_is_planted(tool: dict[str, ModuleType]) -> None:
    assert {path.stem for path in (TOOL / "faults").glob("*.py")} == set(tool["__main__"].FAULTS)


def test_the_driver_is_found_below_the_folder_that_is_named(tool: dict[str, ModuleType], tmp_path: Path) -> None:
    driver = tmp_path / "pyopencl" / ".libs" / "liboclgrind-rt-icd-12345678.so"
    driver.parent.mkdir(parents=True)
    driver.touch()
    assert tool["__main__"].find_driver(tmp_path) == driver.resolve()


def test_one_message_says_what_to_install(tool: dict[str, ModuleType], tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL), "--library", str(tmp_path), "--output", str(tmp_path / "out")]
    if tool["__main__"].find_driver(tmp_path) is not None:
        pytest.skip("Oclgrind is installed on this system")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "apt install oclgrind" in done.stderr
