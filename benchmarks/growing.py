"""Rows that grow: the cost at several sizes, and the exponent that fits."""

from __future__ import annotations

from benchmarks import stats
from benchmarks.bench import Bench, Result


def measure(bench: Bench, result: Result) -> None:
    """Measure every size by itself, and keep each contender's exponent as its one sample.

    A contender that gives up at a size keeps the sizes below it.
    """
    row = result.row
    name, sizes = row.grows
    contenders = bench.contenders(result)
    for size in sizes:
        given = {**row.sizes, name: size}
        if row.growing == "memory":
            bench.fresh(result, contenders, given, "resident", times=1)
        else:
            right = bench.load(result, contenders, given)
            bench.rounds(result, right, bench.plan.seconds / len(sizes), max(bench.plan.rounds // 4, 1))
        for contender in contenders:
            spread = result.spread(contender)
            if spread:
                result.growth.setdefault(contender, []).append((size, spread.median))
        contenders = [each for each in contenders if each not in result.problems]
        result.samples.clear()
    for contender, points in result.growth.items():
        if len(points) > 1:
            result.samples[contender] = [stats.exponent(*zip(*points, strict=True))]
