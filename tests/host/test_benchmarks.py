"""The benchmarks' own machinery: statistics, the table, reports, and what happens to what is missing or wrong.

Nothing here is timed; where a process is asked for samples, a stand-in answers.
"""

from __future__ import annotations

import doctest
import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import crossover, growing, link, peers, report, rows, stats, worker
from benchmarks.bench import Bench, Plan, Result, usable_cores
from benchmarks.measure import measure
from benchmarks.peers import PEERS
from benchmarks.rows import ROWS, TARGETS, Row, peer_of
from benchmarks.stats import Spread

ROOT = Path(__file__).resolve().parents[2]
ROW = Row("probe", "probe", "a probe", "chain", ("netcl", "torch", "numpy"), "torch")


class Stand:
    """Stands in for a peer's process: answers from a script, and keeps what it was asked."""

    def __init__(self, load: dict[str, Any], nanoseconds: list[int]) -> None:
        self.load, self.nanoseconds, self.asked = load, iter(nanoseconds), []

    def ask(self, do: str, timeout: float, **arguments: Any) -> dict[str, Any]:
        self.asked.append(do)
        if do == "load":
            return self.load
        return {"ns": next(self.nanoseconds)} if do == "time" else {}

    def stop(self) -> None:
        self.asked.append("stop")


OK = {"status": "ok", "detail": ""}
SLOW = 50_000_000  # longer than a sample has to be, so that one run is a sample


def bench(monkeypatch: pytest.MonkeyPatch, stands: dict[str, Stand], **plan: Any) -> Bench:
    """A bench whose peers are stand-ins; who has none is not installed."""
    made = Bench(Plan(Path("nowhere"), cores=[0], **plan))
    monkeypatch.setattr(made, "python", lambda peer: Path(sys.executable) if peer in stands else None)
    monkeypatch.setattr(made, "start", lambda peer, cores: stands[peer])
    return made


# Statistics


@pytest.mark.parametrize("module", [stats, rows, report, crossover, link], ids=lambda module: module.__name__)
def test_examples_in_the_benchmarks_docstrings(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_a_ratio_is_taken_within_rounds() -> None:
    # The machine is ten times slower in the second round: medians by themselves would say 10, rounds say 2.
    assert stats.ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Spread(2.0, 2.0, 2.0)


def test_one_sample_has_no_spread_and_none_no_median() -> None:
    assert Spread.of([3.0]).iqr == 0
    with pytest.raises(ValueError, match="no samples"):
        Spread.of([])


@pytest.mark.parametrize("k", [0.0, 1.0, 1.5, 3.0])
def test_an_exponent_is_found_through_noise(k: float) -> None:
    rng, sizes = np.random.default_rng(0), [10, 100, 1000, 10_000]
    costs = [7.0 * size**k * float(np.exp(rng.normal(0, 0.01))) for size in sizes]
    assert stats.exponent(sizes, costs) == pytest.approx(k, abs=0.01)


# The table


def test_every_target_has_a_row_and_every_row_a_target() -> None:
    assert {row.target for row in ROWS} == set(TARGETS)
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {name for name, target in TARGETS.items() if target.must} == {"chain", "GPU matmul"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_has_its_cases(row: Row) -> None:
    case = importlib.import_module(f"benchmarks.cases.{row.family}")
    assert row.subject in row.contenders and row.against in row.contenders
    assert peer_of(row.subject) == "netcl"
    assert {peer_of(contender) for contender in row.contenders} <= set(PEERS)
    if row.how == "process":
        programs = case.IMPORTS if row.sizes["cache"] == "import" else case.FIRST_GRADIENTS
        assert set(row.contenders) <= set(programs)
        for program in programs.values():
            compile(program, row.name, "exec")
        return
    assert all(callable(getattr(case, contender)) for contender in row.contenders)
    assert case.TOLERANCE >= 0


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("chain", {"n": 7}), ("matmul", {"n": 16}), ("mlp", {"batch": 4}), ("moons", {"batch": 8}), ("tanh", {"n": 64}),
        ("conv", {"batch": 1, "channels": 2, "size": 5}), ("fanout", {"n": 9}), ("memory", {"batch": 4}),
        ("gpu", {"n": 64, "op": "add", "gpu": False}), ("drawing", {"n": 20}), ("drawing", {"steps": 3}),
    ],
)  # fmt: skip
def test_netcl_s_cases_are_right(family: str, sizes: dict[str, Any]) -> None:
    case = importlib.import_module(f"benchmarks.cases.{family}")
    given = case.inputs(np.random.default_rng(1), **sizes)
    run, read = case.netcl(**given)
    assert worker.difference(read(run()), case.expected(**given), max(case.TOLERANCE, 1e-12)) == ""


# What is missing, wrong, or too slow


def test_a_missing_peer_is_said_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    stands = {"netcl": Stand(OK, [SLOW * 2] * 9), "torch": Stand(OK, [SLOW] * 9)}
    result = measure(bench(monkeypatch, stands, rounds=3), ROW)
    assert result.problems == {"numpy": ("not installed", "python -m benchmarks.peers numpy")}
    assert result.measured == 2.0
    assert result.verdict == "missed ×1.33"
    line = report.table([result])
    assert "numpy: not installed" in line and "2.00 [2.00, 2.00] × torch" in line


def test_a_wrong_result_is_said_and_never_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Stand({"status": "wrong", "detail": "result 0 is off by 1.0e+00"}, [])
    result = measure(bench(monkeypatch, {"netcl": wrong, "torch": Stand(OK, [SLOW] * 9)}, rounds=3), ROW)
    assert wrong.asked == ["load", "stop"]
    assert "netcl" not in result.samples
    assert result.verdict == "netcl: wrong"


def test_a_worker_refuses_to_time_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    case = ModuleType("benchmarks.cases.planted")
    case.TOLERANCE = 1e-6  # type: ignore[attr-defined]
    case.inputs = lambda rng, n: {"x": rng.random(n)}  # type: ignore[attr-defined]
    case.expected = lambda x: [2 * x]  # type: ignore[attr-defined]
    case.numpy = lambda x: (lambda: 2 * x, lambda out: [out])  # type: ignore[attr-defined]
    case.torch = lambda x: (lambda: 2.001 * x, lambda out: [out])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, case.__name__, case)
    here = worker.Worker("numpy", [])
    assert here.load("planted", "numpy", {"n": 5}, 0) == OK
    assert here.run is not None
    answer = here.load("planted", "torch", {"n": 5}, 0)
    assert answer["status"] == "wrong" and "off by 5.0e-04" in answer["detail"]
    assert here.run is None
    assert here.load("planted", "jax", {"n": 5}, 0)["status"] == "not there"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([[1.0, 2.0]], ""), ([[1.0, 2.1]], "off by 5.0e-02"), ([[1.0, np.nan]], "off by nan"), ([[1.0]], "shape (1,)"),
        ([], "0 results instead of 1"),
    ],
)  # fmt: skip
def test_results_are_compared(found: list[Any], words: str) -> None:
    said = worker.difference(found, [np.array([1.0, 2.0])], 1e-3)
    assert words in said and bool(said) == bool(words)


def test_a_lost_process_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Stand):
        def ask(self, do: str, timeout: float, **arguments: Any) -> dict[str, Any]:
            raise link.LostError("longer than 60 s")

    lost = Lost(OK, [])
    made = bench(monkeypatch, {"netcl": Stand(OK, [SLOW] * 9), "torch": lost}, rounds=3)
    result = measure(made, ROW)
    assert result.problems["torch"] == ("gave up", "longer than 60 s")
    assert result.verdict == "torch: gave up"
    assert lost.asked == ["stop"]
    assert ("torch", 1) not in made._links


def test_growth_keeps_the_sizes_below_the_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("grows", "chain", "", "growth in nodes", ("netcl",), "netcl", how="growth", grows=("n", (1, 10, 100)))
    costs = iter([1.0, 10.0])
    made = bench(monkeypatch, {"netcl": Stand(OK, [])})

    def load(result: Result, contenders: list[str], sizes: dict[str, Any]) -> list[str]:
        if sizes["n"] == 100:
            result.problems["netcl"] = ("gave up", "")
        return [] if "netcl" in result.problems else contenders

    def rounds(result: Result, contenders: list[str], seconds: float, rounds: int) -> None:
        for contender in contenders:
            result.samples[contender] = [next(costs)]

    monkeypatch.setattr(made, "load", load)
    monkeypatch.setattr(made, "rounds", rounds)
    result = Result(row)
    growing.measure(made, result)
    assert result.growth == {"netcl": [(1, 1.0), (10, 10.0)]}
    assert result.measured == pytest.approx(1.0)
    assert "| grows | netcl | 1.00 | 1: 1.00 ns, 10: 10.0 ns |" in report.growth_table([result])


# Processes


def test_processes_get_neither_slowing_settings_nor_our_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    old, new = link.environment(PEERS["ancestor"], 1), link.environment(PEERS["netcl"], 2, "cpu")
    assert not {"OPENBLAS_CORETYPE", "PYTHONPATH"} & set(old)
    assert old["OMP_NUM_THREADS"] == "1" and new["OMP_NUM_THREADS"] == "2"
    assert new["PYTHONPATH"].startswith(str(ROOT)) and new["NETCL_DEVICE"] == "cpu"
    assert link.environment(PEERS["tinygrad"], 1)["DEV"] == "CL"


def test_a_process_that_is_too_slow_is_stopped() -> None:
    with link.Link(PEERS["numpy"], Path(sys.executable)) as started:
        with pytest.raises(link.LostError, match="longer than 0 s"):
            started.ask("versions", timeout=0.0)
        with pytest.raises(link.LostError, match="ended"):
            started.ask("versions")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process still runs")
def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nsleep 1000 > /dev/null &\necho $! > {tmp_path}/pid\nwait\n")
    program.chmod(0o755)
    with link.Link(PEERS["numpy"], program) as started, pytest.raises(link.LostError, match="longer than 2 s"):
        started.ask("versions", timeout=2.0)
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    for _ in range(100):  # the kernel ends it in its own time
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


def test_the_ancestor_is_never_taken_from_this_environment(tmp_path: Path) -> None:
    assert peers.python_of(PEERS["ancestor"], tmp_path) is None
    assert peers.python_of(PEERS["numpy"], tmp_path) == Path(sys.executable)


# Reports


def about() -> dict[str, Any]:
    return {
        "device": "A Device", "kind": "CPU", "platform": "PoCL", "date": "2026-01-01", "cores": 2, "rounds": 3,
        "seed": 0, "versions": {"netcl": {"python": "3.11.0"}},
    }  # fmt: skip


def results() -> list[Result]:
    met = Result(ROW, {"netcl": [1e6, 1.1e6, 0.9e6], "torch": [1e6, 1e6, 1e6]})
    lost = Result(ROW, {}, {"netcl": ("failed", "OSError: no /home/someone/lib.so here")})
    return [met, lost]


def test_reports_hold_every_row_and_no_paths(tmp_path: Path) -> None:
    paths = report.write(tmp_path, results(), about())
    assert sorted(path.name for path in paths) == ["a-device.json", "a-device.md"]
    text = (tmp_path / "a-device.md").read_text(encoding="utf-8")
    assert "1.00 ms" in text and "| met" in text and "must ≤ 1.5 ×, aim 1" in text
    assert "netcl: failed (OSError: no … here)" in text
    data = json.loads((tmp_path / "a-device.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in data["rows"]] == ["met", "netcl: failed"]
    assert data["rows"][0]["samples"]["netcl"] == [1e6, 1.1e6, 0.9e6]
    assert "/home" not in text + json.dumps(data)


def test_reports_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = report.write(tmp_path, results(), about())
    texts = [path.read_text(encoding="utf-8") for path in before]

    def full(self: Path, *arguments: Any, **named: Any) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        report.write(tmp_path, results()[:1], about())
    assert [path.read_text(encoding="utf-8") for path in before] == texts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-device.json", "a-device.md"]


def test_what_must_be_met_is_said_first() -> None:
    slow = {"netcl": [3e6], "torch": [1e6]}
    other = Row("other", "probe", "", "conv2d", ("netcl", "torch"), "torch")
    assert report.missed([Result(other, slow), Result(ROW, slow)]) == [
        "probe: missed ×2.00 (must)", "other: missed ×2.00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "netcl", "other", "measured"),
    [
        ("chain", 3e6, 2e6, 1.5), ("import", 230e6, 170e6, 60.0), ("drawing, 100", 50e6, 9e6, 50.0),
        ("long chain, memory", 2.0**20, 1.0, 1.0), ("growth in nodes", 1.25, 1.0, 1.25),
    ],
)  # fmt: skip
def test_each_kind_of_target_reads_its_own_number(target: str, netcl: float, other: float, measured: float) -> None:
    row = Row("probe", "probe", "", target, ("netcl", "torch"), "torch")
    assert Result(row, {"netcl": [netcl], "torch": [other]}).measured == pytest.approx(measured)


# The command


def test_rows_are_chosen_by_family_name_or_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row.name for row in command.select(ROWS, ["mlp", "chain-100"], None)] == ["chain-100", "mlp-64", "mlp-512"]
    assert {row.cores for row in command.select(ROWS, ["matmul-*"], 2)} == {2}
    assert command.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ROWS)
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "no row is called 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(("gpu", "kind", "words"), [
    (True, "CPU", "needs a GPU"), (True, "GPU", ""), (False, "CPU", ""), (False, "GPU", "measured on a CPU"),
])  # fmt: skip
def test_rows_keep_to_their_kind_of_device(gpu: bool, kind: str, words: str) -> None:
    assert command.unsuited(Row("probe", "probe", "", "chain", ("netcl",), "netcl", gpu=gpu), kind) == words


def test_a_plan_pins_to_the_cores_that_it_was_given() -> None:
    plan = Plan(Path("nowhere"), cores=[2, 3, 5])
    assert (plan.pinned(1), plan.pinned(2)) == ([5], [3, 5])
    assert usable_cores()
