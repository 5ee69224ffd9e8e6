"""From which size on PoCL's `pthread` queue beats `basic`: two processes of netcl, each kept to one, in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tqdm import tqdm

from benchmarks.bench import Bench, Plan, Result
from benchmarks.report import quantity
from benchmarks.rows import Row
from benchmarks.stats import Spread, ratio

SIZES: dict[str, tuple[int, ...]] = {
    "add": tuple(1 << k for k in range(10, 23, 2)),
    "tanh": tuple(1 << k for k in range(8, 21, 2)),
    "matmul": (16, 32, 64, 128, 256, 512, 1024),
}
OPS = (1, 10)  # ops before the wait: one, as in a script that prints; ten, as inside a step
_SIDES = ("netcl_basic", "netcl_pthread")


def measure(plan: Plan) -> str:
    """Return a table of times on both queues, and where they cross."""
    lines = ["| op | ops | size | basic | pthread | pthread / basic |", "|---|---|---|---|---|---|"]
    crossings = []
    total = len(OPS) * sum(map(len, SIZES.values()))
    with Bench(plan) as basic, Bench(plan) as pthread, tqdm(total=total, desc="crossover", unit="size") as bar:
        for op, sizes in SIZES.items():
            for ops in OPS:
                ratios = []
                for size in sizes:
                    samples = _both(dict(zip(_SIDES, (basic, pthread), strict=True)), op, size, ops)
                    bar.update()
                    if isinstance(samples, str):
                        return samples
                    alone, spread = samples
                    relative = ratio(spread, alone)
                    ratios.append(relative.median)
                    lines.append(
                        f"| {op} | {ops} | {size:,} | {quantity(Spread.of(alone).median, 'ns')} "
                        f"| {quantity(Spread.of(spread).median, 'ns')} "
                        f"| {relative.median:.2f} [{relative.low:.2f}, {relative.high:.2f}] |"
                    )
                crossings.append(f"{op}, {ops} before a wait: {crossing(sizes, ratios)}")
    return "\n".join([*lines, "", *crossings])


def crossing(sizes: Sequence[int], ratios: Sequence[float]) -> str:
    """Say from which size on the second queue is always faster, between the sizes that were measured.

    >>> crossing([100, 1000, 10000], [3.0, 1.25, 0.8])
    'pthread is faster from about 3,162 on'
    """
    slower = [place for place, value in enumerate(ratios) if value >= 1]
    if not slower:
        return f"pthread is faster at every size from {sizes[0]:,} on"
    last = slower[-1]
    if last == len(sizes) - 1:
        return f"pthread is not faster up to {sizes[-1]:,}"
    low, high = math.log(ratios[last]), math.log(ratios[last + 1])
    share = low / (low - high)
    at = math.exp(math.log(sizes[last]) * (1 - share) + math.log(sizes[last + 1]) * share)
    return f"pthread is faster from about {at:,.0f} on"


def _both(sides: dict[str, Bench], op: str, size: int, ops: int) -> tuple[list[float], list[float]] | str:
    """Sample both queues in turn; or say why that cannot be done."""
    row = Row("crossover", "crossover", "", "chain", _SIDES, _SIDES[0], {"n": size, "op": op, "ops": ops}, cores=2)
    result = Result(row)
    runs = {}
    for side, bench in sides.items():
        if not bench.load(result, [side], dict(row.sizes)):
            return f"{side}: {': '.join(result.problems[side])}"
        runs[side] = bench.calibrate(result, side)[0]
    samples: dict[str, list[float]] = {side: [] for side in _SIDES}
    for turn in range(sides[_SIDES[0]].plan.rounds):
        for side in _SIDES if turn % 2 else _SIDES[::-1]:
            answer = sides[side].ask(result, side, "time", runs=runs[side])
            if not answer:
                return f"{side}: {': '.join(result.problems[side])}"
            samples[side].append(answer["ns"] / runs[side] / ops)
    return samples[_SIDES[0]], samples[_SIDES[1]]
