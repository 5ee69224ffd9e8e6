"""The table, for people and for programs."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench import Result, label
from benchmarks.rows import TARGETS
from benchmarks.stats import Spread

HEADER = ("row", "what", "netcl", "ratio", "target", "verdict", "peers")
_SCALES = {
    "ns": (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)),
    "bytes": (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
    "": (("", 1.0),),
}
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+@~-]+){2,}")


def quantity(value: float, unit: str) -> str:
    """Write a number with three digits and a unit.

    >>> quantity(12345.0, "ns"), quantity(3 * 2.0**20, "bytes"), quantity(1.0612, "")
    ('12.3 µs', '3.00 MiB', '1.06')
    """
    name, scale = next((pair for pair in _SCALES[unit] if value >= pair[1]), _SCALES[unit][-1])
    scaled = value / scale
    digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:.{digits}f} {name}".strip()


def with_spread(spread: Spread, unit: str) -> str:
    """Write a median and the distance between its quartiles, in percent of it."""
    text = quantity(spread.median, unit)
    return f"{text} ±{spread.iqr / 2 / spread.median:.0%}" if spread.iqr and spread.median else text


def without_paths(text: str) -> str:
    """Take paths out of a message: results are published.

    >>> without_paths("no /home/someone/x.so there")
    'no … there'
    """
    return _PATH.sub("…", text)


def cells(result: Result) -> list[str]:
    """Return a result as the cells of its line."""
    row = result.row
    ours, ratio = result.spread(row.subject), result.ratio()
    peers = []
    for contender in row.contenders:
        spread = result.spread(contender)
        if contender == row.subject:
            continue
        if spread:
            relative = result.ratio(contender)
            times = f" ({relative.median:.2f})" if relative and contender != row.against and row.unit else ""
            peers.append(f"{label(contender)} {with_spread(spread, row.unit)}{times}")
        elif contender in result.problems:
            peers.append(f"{label(contender)}: {result.problems[contender][0]}")
    ratio_text = f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] × {label(row.against)}" if ratio else "–"
    if not row.unit:
        ratio_text = "–"
    return [
        row.name, row.title, with_spread(ours, row.unit) if ours else "–", ratio_text, str(TARGETS[row.target]),
        result.verdict, "; ".join(peers),
    ]  # fmt: skip


def table(results: Sequence[Result]) -> str:
    """Return the results as one Markdown table, its columns aligned."""
    lines = [list(HEADER), *(cells(result) for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER) - 1)]
    padded = [[*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]] for line in lines]
    rule = [*("-" * width for width in widths), "-----"]
    return "\n".join(f"| {' | '.join(line)} |" for line in [padded[0], rule, *padded[1:]])


def growth_table(results: Sequence[Result]) -> str:
    """Return what grew: the cost at each size, and the exponent that fits."""
    lines = ["| row | peer | exponent | at each size |", "|---|---|---|---|"]
    for result in results:
        unit = "bytes" if result.row.name.endswith("memory") else "ns"
        for contender, points in result.growth.items():
            spread = result.spread(contender)
            costs = ", ".join(f"{size:,}: {quantity(cost, unit)}" for size, cost in points)
            fitted = f"{spread.median:.2f}" if spread else "–"
            lines.append(f"| {result.row.name} | {label(contender)} | {fitted} | {costs} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def missed(results: Sequence[Result]) -> list[str]:
    """Return the rows that are measured and miss their targets, those that must be met first."""
    late = [result for result in results if result.verdict.startswith("missed")]
    late.sort(key=lambda result: not TARGETS[result.row.target].must)
    return [f"{each.row.name}: {each.verdict}{' (must)' * TARGETS[each.row.target].must}" for each in late]


def markdown(results: Sequence[Result], about: Mapping[str, Any]) -> str:
    """Return the whole report."""
    problems = [
        f"- {result.row.name}, {label(contender)}: {status}" + (f" ({without_paths(detail)})" if detail else "")
        for result in results for contender, (status, detail) in result.problems.items()
    ]  # fmt: skip
    versions = "; ".join(
        f"{peer}: {', '.join(f'{name} {number}' for name, number in found.items())}"
        for peer, found in about["versions"].items()
    )
    parts = [
        f"# Benchmarks on {about['device']}",
        f"{about['date']}, {about['cores']} cores (load {about.get('load')} before), {about['platform']}, "
        f"{about['rounds']} rounds, seed {about['seed']}. "
        "What the columns mean, and how to repeat it: [README](../README.md).",
        table(results), growth_table(results),
        "\n".join(["Missed:", "", *(f"- {line}" for line in missed(results))]) if missed(results) else "",
        "\n".join(["Not measured:", "", *problems]) if problems else "",
        f"Versions: {versions}.",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(results: Sequence[Result], about: Mapping[str, Any]) -> str:
    """Return the report with every sample, for programs."""
    rows = [
        {
            "row": result.row.name, "title": result.row.title, "unit": result.row.unit, "verdict": result.verdict,
            "measured": result.measured, "target": str(TARGETS[result.row.target]),
            "must": TARGETS[result.row.target].must, "against": result.row.against, "subject": result.row.subject,
            "samples": result.samples, "growth": result.growth, "seconds": result.seconds,
            "problems": {name: [status, without_paths(detail)] for name, (status, detail) in result.problems.items()},
        }
        for result in results
    ]  # fmt: skip
    return json.dumps({"about": dict(about), "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def slug(name: str) -> str:
    """Return a device's name as a file's.

    >>> slug("AMD EPYC 9B45 (PoCL)")
    'amd-epyc-9b45-pocl'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"


def write(folder: Path, results: Sequence[Result], about: Mapping[str, Any]) -> list[Path]:
    """Write both reports, whole or not at all, and return their paths."""
    name = slug(about["device"])
    texts = {folder / f"{name}.md": markdown(results, about), folder / f"{name}.json": as_json(results, about)}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
        for path, text in texts.items():
            (Path(scratch) / path.name).write_text(text, encoding="utf-8", newline="\n")
        for path in texts:
            os.replace(Path(scratch) / path.name, path)
    return list(texts)
