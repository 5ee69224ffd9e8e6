"""Rows of whole processes: an import, and the way to the first gradient, with PoCL's cache cold and warm."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import Bench, Result
from benchmarks.cases import startup
from benchmarks.link import HERE, environment
from benchmarks.peers import PEERS
from benchmarks.rows import Row

# What a peer of PoCL needs on a CPU that PoCL cannot name; a few milliseconds, which count as the peer's.
_READY = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("benchmarks_opencl", {str(HERE / "opencl.py")!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.%s()
"""
_READINESS = {"tinygrad": "make_ready_without_pyopencl", "ancestor": "make_ready", "pyopencl": "make_ready"}
_TIMED = "import time\nstart = time.perf_counter_ns()\n{}\nprint(time.perf_counter_ns() - start)"


class FailedError(Exception):
    """The process failed, or printed something else than it should; says (status, detail)."""


def measure(bench: Bench, result: Result) -> None:
    """Run every contender's process in turn, round after round, each with a cache folder of its own if it is cold."""
    state = result.row.sizes["cache"]
    times = max(2, bench.plan.rounds // (4 if state == "cold" else 2))
    contenders = bench.contenders(result)
    with tempfile.TemporaryDirectory(prefix="netcl-benchmarks-") as kept:
        for turn in range(times + 1):  # the first fills the caches: compiled Python, and the kernels of warm runs
            order = list(contenders)
            bench.random.shuffle(order)
            for contender in order:
                if contender in result.problems:
                    continue
                with tempfile.TemporaryDirectory(dir=kept) as fresh:
                    folder = fresh if state == "cold" else os.path.join(kept, contender)
                    try:
                        nanoseconds = _once(bench, result.row, contender, folder)
                    except FailedError as error:
                        result.problems[contender] = error.args
                        result.samples.pop(contender, None)
                        continue
                if turn:
                    result.samples.setdefault(contender, []).append(nanoseconds)


def _once(bench: Bench, row: Row, contender: str, folder: str) -> float:
    os.makedirs(folder, exist_ok=True)
    python, peer = bench.python(contender), PEERS[contender]
    assert python is not None  # the missing ones have been left out
    environ = environment(peer, 1, bench.plan.device)
    if row.sizes["cache"] == "import":
        return float(_run(python, _TIMED.format(startup.IMPORTS[contender]), environ, folder, bench, row.patience)[0])
    environ |= {"XDG_CACHE_HOME": folder, "POCL_CACHE_DIR": os.path.join(folder, "pocl")}
    ready = _READY % _READINESS[contender] if contender in _READINESS else ""
    printed, nanoseconds = _run(
        python, ready + startup.FIRST_GRADIENTS[contender], environ, folder, bench, row.patience
    )
    if printed != str(startup.expected):
        raise FailedError("wrong", f"printed {printed[:80]} instead of {startup.expected}")
    return nanoseconds


def _run(
    python: Path, program: str, environ: Mapping[str, str], cwd: str, bench: Bench, patience: float
) -> tuple[str, float]:
    with _pinned(bench.plan.pinned(1)):
        start = time.perf_counter_ns()
        try:
            done = subprocess.run(
                [python, "-c", program], env=environ, cwd=cwd, capture_output=True, text=True,
                timeout=patience, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise FailedError("gave up", f"longer than {patience:.0f} s") from None
        nanoseconds = time.perf_counter_ns() - start
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        raise FailedError("failed", last[0][:200])
    return done.stdout.strip().splitlines()[-1], float(nanoseconds)


@contextmanager
def _pinned(cores: list[int]) -> Iterator[None]:
    """Put this process, and so those that it starts, on some cores for a while."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
