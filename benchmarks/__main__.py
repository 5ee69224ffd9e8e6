"""The command: `python -m benchmarks`."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import crossover, report
from benchmarks.bench import Bench, Plan, Result
from benchmarks.link import LostError
from benchmarks.measure import measure
from benchmarks.peers import PEERS, default_folder
from benchmarks.rows import ROWS, Row

RESULTS = Path(__file__).resolve().parent / "results"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure netcl beside its peers. Without names, every row is measured and the results are kept.",
        epilog="`python -m benchmarks crossover` finds from which size on PoCL's threads pay; "
        "`python -m benchmarks.peers` installs the peers.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows or families of rows; * stands for anything")
    parser.add_argument("--peers", metavar="A,B", help=f"only these, of {', '.join(p for p in PEERS if p != 'netcl')}")
    parser.add_argument("--device", metavar="NAME", help="netcl's device, as NETCL_DEVICE names it")
    parser.add_argument("--cores", type=int, choices=(1, 2), help="only rows that run on so many cores")
    parser.add_argument("--quick", action="store_true", help="few rounds: is it about right?")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the results here, also those of a part")
    parser.add_argument("--peers-dir", type=Path, default=default_folder(), help="where the peers are installed")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs and of the order")
    parser.add_argument("--list", action="store_true", help="list the rows and measure nothing")
    options = parser.parse_args(arguments)
    if options.peers is not None:
        options.peers = [name for name in options.peers.split(",") if name]
        unknown = set(options.peers) - set(PEERS)
        if unknown:
            parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if options.names != ["crossover"]:
        for name in options.names:
            if not select(ROWS, [name], None):
                parser.error(f"no row is called {name!r}; --list shows them")
    return options


def select(rows: Sequence[Row], names: Sequence[str], cores: int | None) -> list[Row]:
    """Return the rows that the names choose, in the table's order."""
    chosen = [row for row in rows if cores in (None, row.cores)]
    if not names:
        return chosen
    return [row for row in chosen if any(name == row.family or fnmatch.fnmatch(row.name, name) for name in names)]


def about(bench: Bench) -> dict[str, Any]:
    """Describe what was measured on: device and versions, and neither host nor paths."""
    device = bench.link("netcl", 1).ask("describe")
    if device.get("status"):
        raise SystemExit(f"netcl has no device to measure on: {device['detail']}")
    versions = {}
    for peer in PEERS:
        if (bench.plan.peers is None or peer in bench.plan.peers or peer == "netcl") and bench.python(peer):
            try:
                versions[peer] = bench.link(peer, 1).ask("versions")["versions"]
            except LostError as error:
                versions[peer] = {"unknown": str(error)}
    return {
        **device,
        "date": datetime.date.today().isoformat(),
        "cores": len(bench.plan.cores),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "rounds": bench.plan.rounds,
        "seed": bench.plan.seed,
        "versions": versions,
    }


def unsuited(row: Row, kind: str) -> str:
    """Say why a row is not for this kind of device, or ""."""
    if row.gpu and kind != "GPU":
        return "needs a GPU"
    return "" if row.gpu or kind != "GPU" else "measured on a CPU"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return 1 if a result of netcl was wrong or failed."""
    options = parse(arguments)
    rows = select(ROWS, [] if options.names == ["crossover"] else options.names, options.cores)
    if options.list:
        print("\n".join(f"{row.name:24} {row.title}" for row in rows))
        return 0
    plan = Plan(options.peers_dir, seed=options.seed, device=options.device, peers=options.peers)
    if options.quick:
        plan.rounds, plan.seconds, plan.sample_seconds = 3, 1.5, 0.005
    if options.names == ["crossover"]:
        print(crossover.measure(plan))
        return 0
    results: list[Result] = []
    with Bench(plan) as bench, tqdm(rows, desc="benchmarks", unit="row", file=sys.stderr) as bar:
        facts = about(bench)
        for row in bar:
            bar.set_postfix_str(row.name)
            why = unsuited(row, facts["kind"])
            results.append(Result(row, problems={row.subject: (why, "")}) if why else measure(bench, row))
    print(report.table(results))
    grown = report.growth_table(results)
    print("\n".join(["", grown] * bool(grown) + ["", *report.missed(results)]))
    if options.out or not (options.names or options.quick or options.cores or options.peers):
        for path in report.write(options.out or RESULTS, results, facts):
            print(f"wrote {path.name}", file=sys.stderr)
    broken = [result for result in results if result.problems.get(result.row.subject, ("",))[0] in ("wrong", "failed")]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
