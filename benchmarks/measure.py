"""Measure a row in the way that it names."""

from __future__ import annotations

import time
from functools import partial

from benchmarks import growing, processes
from benchmarks.bench import Bench, Result
from benchmarks.rows import Row


def measure(bench: Bench, row: Row) -> Result:
    """Return what came of a row."""
    how = {
        "steps": bench.steps,
        "resident": bench.memory,
        "sample": bench.memory,
        "process": partial(processes.measure, bench),
        "growth": partial(growing.measure, bench),
    }
    result = Result(row)
    start = time.perf_counter()
    how[row.how](result)
    bench.end()  # what a row leaves behind is no matter of the next: a graph of 10⁵ leaves memory in pieces
    result.seconds = round(time.perf_counter() - start, 1)
    return result
