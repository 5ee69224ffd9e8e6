"""The bench: peers and netcl in turn, in random order, each in its own process.

A round asks every contender once, so that what slows the machine for a while slows all of them, and the ratio is the
median over rounds of the ratio within one round.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import stats
from benchmarks.link import Link, LostError
from benchmarks.peers import PEERS, python_of
from benchmarks.rows import TARGETS, Row, peer_of
from benchmarks.stats import Spread

_SPINNING = 0.2
"""Seconds before a sample of a row on several cores. The threads of who was sampled before wait for more work in a busy
loop: OpenBLAS's for 2²⁸ cycles (driver/others/blas_server.c), a tenth of a second, in which who comes next has one core
less."""


@dataclass
class Result:
    """What came of a row: samples by contender, round by round, or why there are none.

    `growth` has, for rows that grow, the median at each size.
    """

    row: Row
    samples: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, tuple[str, str]] = field(default_factory=dict)
    growth: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    seconds: float = 0.0  # that measuring took

    def spread(self, contender: str) -> Spread | None:
        """Median and quartiles of one contender's samples."""
        samples = self.samples.get(contender)
        return Spread.of(samples) if samples else None

    def ratio(self, other: str | None = None) -> Spread | None:
        """The subject's samples over another's: those of the row's `against`, unless it says another."""
        ours, theirs = self.samples.get(self.row.subject), self.samples.get(other or self.row.against)
        return stats.ratio(ours, theirs) if ours and theirs else None

    @property
    def measured(self) -> float | None:
        """The number that the target limits."""
        ours, of = self.spread(self.row.subject), TARGETS[self.row.target].of
        if of == "ratio":
            ratio = self.ratio()
            return ratio.median if ratio else None
        if ours is None:
            return None
        if of == "ms more":
            theirs = self.spread(self.row.against)
            return (ours.median - theirs.median) / 1e6 if theirs else None
        return ours.median / {"ms": 1e6, "MiB": 2**20, "exponent": 1.0}[of]

    @property
    def verdict(self) -> str:
        """`met`, `missed ×1.20`, or why neither can be said."""
        measured, limit = self.measured, TARGETS[self.row.target].limit
        if measured is None:
            for contender in (self.row.subject, self.row.against):
                if contender in self.problems:
                    return f"{label(contender)}: {self.problems[contender][0]}"
            return "not measured"
        excess = measured / limit
        return "met" if excess <= 1 else f"missed ×{excess:.{2 if excess >= 1.01 else 4}f}"


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use: `taskset` chooses them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def label(contender: str) -> str:
    """Return a contender's name for people."""
    return contender.replace("_", " ")


@dataclass
class Plan:
    """How much time a measurement may take, and on which cores and device."""

    peers_dir: Path
    rounds: int = 12
    seconds: float = 6.0  # for a row, shared by its contenders
    sample_seconds: float = 0.02
    seed: int = 0
    device: str | None = None
    peers: Sequence[str] | None = None
    cores: Sequence[int] = field(default_factory=usable_cores)

    def pinned(self, cores: int) -> list[int]:
        """Return the cores that a row of so many runs on: the last ones, as interrupts go to the first."""
        return list(self.cores)[-cores:]


class Bench:
    """The processes of a run, and the rows that they measure. Use it in a `with` block."""

    def __init__(self, plan: Plan, say: Callable[[str], None] = lambda _: None) -> None:
        self.plan, self.say = plan, say
        self.random = random.Random(plan.seed)
        self._links: dict[tuple[str, int], Link] = {}
        self._pythons: dict[str, Path | None] = {}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the living processes."""
        for link in self._links.values():
            link.stop()
        self._links.clear()

    def python(self, peer: str) -> Path | None:
        """Return the Python that has a peer, or None."""
        if peer not in self._pythons:
            self._pythons[peer] = python_of(PEERS[peer], self.plan.peers_dir)
        return self._pythons[peer]

    def start(self, peer: str, cores: int) -> Link:
        """Start a process for a peer."""
        python = self.python(peer)
        assert python is not None  # `contenders` leaves out the peers that are missing
        return Link(PEERS[peer], python, self.plan.pinned(cores), self.plan.device)

    def link(self, peer: str, cores: int) -> Link:
        """Return the living process of a peer, starting it if there is none."""
        key = (peer, cores)
        if key not in self._links:
            self._links[key] = self.start(peer, cores)
        return self._links[key]

    def contenders(self, result: Result) -> list[str]:
        """Return who can compete, and note in the result who cannot, and why."""
        present = []
        for contender in result.row.contenders:
            peer = peer_of(contender)
            if self.plan.peers is not None and peer not in self.plan.peers and peer != "netcl":
                continue
            if self.python(peer) is None:
                result.problems[contender] = ("not installed", f"python -m benchmarks.peers {peer}")
            else:
                present.append(contender)
        return present

    def ask(self, result: Result, contender: str, do: str, **arguments: Any) -> dict[str, Any] | None:
        """Ask a contender's living process; a process that is lost is noted."""
        key = (peer_of(contender), result.row.cores)
        try:
            answer = self.link(*key).ask(do, result.row.patience, **arguments)
        except LostError as error:
            self._links.pop(key).stop()
            answer = {"status": "gave up", "detail": str(error)}
        if answer.get("status", "ok") != "ok":
            result.problems[contender] = (answer["status"], answer["detail"])
            result.samples.pop(contender, None)
            return None
        return answer

    def load(self, result: Result, contenders: Sequence[str], sizes: dict[str, Any]) -> list[str]:
        """Load a case in every contender's process, and return those whose result is right."""
        row = result.row
        return [
            each for each in contenders
            if self.ask(result, each, "load", family=row.family, function=each, sizes=sizes, seed=self.plan.seed)
        ]  # fmt: skip

    def steps(self, result: Result) -> None:
        """Time steps in living processes."""
        row, plan = result.row, self.plan
        # One case a process: contenders of the same peer (netcl eager and fused) take turns by loading again.
        groups: list[list[str]] = []
        for contender in self.contenders(result):
            group = next((g for g in groups if all(peer_of(c) != peer_of(contender) for c in g)), None)
            if group is None:
                groups.append(group := [])
            group.append(contender)
        for group in groups:
            right = self.load(result, group, dict(row.sizes))
            self.rounds(result, right, plan.seconds / max(len(groups), 1), plan.rounds)

    def memory(self, result: Result) -> None:
        """Take a few samples of memory, each in a fresh process."""
        times = 1 if self.plan.rounds < 5 or result.row.how == "sample" else 3  # bytes of tensors repeat exactly
        self.fresh(result, self.contenders(result), dict(result.row.sizes), result.row.how, times)

    def rounds(self, result: Result, contenders: Sequence[str], seconds: float, rounds: int) -> None:
        """Warm up, then take samples in rounds; a slow contender gets fewer of them."""
        counts, share = {}, seconds / max(len(contenders), 1)
        for contender in contenders:
            runs, cost = self.calibrate(result, contender)
            if runs:
                # One run that takes more than its share is sampled once, and that was done to find out.
                counts[contender] = (runs, min(rounds, int(share / cost)))
                result.samples[contender] = [] if counts[contender][1] else [cost / runs * 1e9 / result.row.per]
        for turn in range(max((most for _, most in counts.values()), default=0)):
            order = [each for each, (_, most) in counts.items() if turn < most and each in result.samples]
            self.random.shuffle(order)
            for contender in order:
                if result.row.cores > 1:
                    time.sleep(_SPINNING)
                answer = self.ask(result, contender, "time", runs=counts[contender][0])
                if answer:
                    result.samples[contender].append(answer["ns"] / counts[contender][0] / result.row.per)

    def calibrate(self, result: Result, contender: str) -> tuple[int, float]:
        """Warm up; return how many runs make a sample, and the seconds that it takes. No runs if it failed."""
        best, spent = math.inf, 0.0
        for _ in range(3):
            answer = self.ask(result, contender, "time", runs=1)
            if not answer:
                return 0, 0.0
            seconds = answer["ns"] / 1e9
            best, spent = min(best, seconds), spent + seconds
            if spent > self.plan.seconds:  # no sooner: what is compiled while it runs needs two runs for that
                break
        runs = max(1, math.ceil(self.plan.sample_seconds / best))
        if runs > 1:
            self.ask(result, contender, "time", runs=runs)
        return runs, best * runs

    def fresh(
        self, result: Result, contenders: Sequence[str], sizes: dict[str, Any], do: str, times: int
    ) -> None:  # fmt: skip
        """Take samples each in a fresh process: memory that one case has touched would serve the next."""
        row, timeout = result.row, result.row.patience
        for _ in range(times):
            for contender in contenders:
                if contender in result.problems:
                    continue
                with self.start(peer_of(contender), row.cores) as link:
                    try:
                        answer = link.ask("load", timeout, family=row.family, function=contender, sizes=sizes,
                                          seed=self.plan.seed, checked=do != "resident")  # fmt: skip
                        if answer["status"] == "ok":
                            answer = link.ask(do, timeout)
                    except LostError as error:
                        answer = {"status": "gave up", "detail": str(error)}
                if answer["status"] == "ok":
                    result.samples.setdefault(contender, []).append(float(answer["value"]) / row.per)
                else:
                    result.problems[contender] = (answer["status"], answer["detail"])
