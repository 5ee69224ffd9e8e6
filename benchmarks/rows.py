"""The table: what is to be reached, and the rows that measure it.

TARGETS says what counts as reached, and which targets must be met; every row names the one that it answers to. A row
names its file in `cases/`, the functions there that compete, and the one that it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Of = Literal["ratio", "ms", "ms more", "MiB", "exponent"]
How = Literal["steps", "resident", "sample", "process", "growth"]


@dataclass(frozen=True)
class Target:
    """A limit on a measured number; `must` blocks, and `aim` is what would be better still.

    The number is the ratio to the row's `against`, milliseconds, milliseconds more than `against`, MiB, or the
    exponent of growth.
    """

    limit: float
    of: Of
    must: bool = False
    aim: float | None = None

    def __str__(self) -> str:
        unit = {"ratio": " ×", "exponent": ""}.get(self.of, f" {self.of}")
        words = ("must " if self.must else "") + f"≤ {self.limit:g}{unit}"
        return words + (f", aim {self.aim:g}" if self.aim is not None else "")


TARGETS: dict[str, Target] = {
    "chain": Target(1.5, "ratio", must=True, aim=1.0),
    "long chain": Target(1.5, "ratio"),
    "long chain, memory": Target(100, "MiB"),
    "matmul, one core": Target(1.0, "ratio"),
    "matmul, two cores": Target(1.1, "ratio"),
    "MLP, batch 64": Target(0.9, "ratio"),
    "MLP, batch 512": Target(1.0, "ratio"),
    "moons": Target(0.4, "ratio"),
    "tanh, eager": Target(0.35, "ratio"),
    "tanh, fused": Target(0.10, "ratio"),
    "conv2d": Target(1.5, "ratio"),
    "import": Target(40, "ms more"),
    "first gradient, cold": Target(1300, "ms"),
    "first gradient, warm": Target(350, "ms"),
    "GPU elementwise": Target(1.0, "ratio"),
    "GPU matmul": Target(1.5, "ratio", must=True, aim=1.25),
    "GPU chain": Target(1.0, "ratio"),
    "drawing, 100": Target(100, "ms"),
    "drawing, 1000": Target(1000, "ms"),
    "drawing, RNN": Target(500, "ms"),
    "memory, MLP": Target(1.3, "ratio"),
    "growth in nodes": Target(1.1, "exponent"),
    "growth of matmul": Target(3.1, "exponent"),
}


@dataclass(frozen=True)
class Row:
    """One line of the table. Times are divided by `per`; a row runs on one core unless `cores` says two.

    `how` says what is measured: the time of steps in living processes, by how much one step raises resident memory in
    a fresh process, a number that the case measures itself, the time of whole processes, or time or memory (`growing`)
    over the sizes that `grows` names. A contender that does not answer within `patience` seconds gives up.
    """

    name: str
    family: str
    title: str
    target: str
    contenders: tuple[str, ...]
    against: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    subject: str = "netcl"
    per: int = 1
    cores: int = 1
    how: How = "steps"
    gpu: bool = False
    grows: tuple[str, tuple[int, ...]] = ("", ())
    growing: Literal["time", "memory"] = "time"
    patience: float = 90.0

    @property
    def unit(self) -> str:
        """What the samples are counted in."""
        if self.how == "growth":
            return ""  # an exponent
        return "bytes" if self.how in ("resident", "sample") else "ns"


def peer_of(contender: str) -> str:
    """Return whose function this is: that of "netcl_fused" is netcl.

    >>> peer_of("netcl_fused")
    'netcl'
    """
    return contender.partition("_")[0]


_EAGER = ("netcl", "torch", "autograd", "ancestor")
_MLP = (*_EAGER[:3], "tinygrad", "jax", "numpy", "ancestor")

ROWS: tuple[Row, ...] = (
    *(
        Row(f"chain-{n}", "chain", f"eager chain (8,), N = {n}, forward + backward, an op", "chain",
            _EAGER if n < 10_000 else _EAGER[:3], "torch", {"n": n}, per=n)
        for n in (100, 1000, 10_000)
    ),
    Row("chain-100000", "chain", "10⁵-op chain, an op", "long chain", ("netcl", "torch"), "torch", {"n": 100_000},
        per=100_000),
    Row("chain-100000-memory", "chain", "10⁵-op chain, growth of resident memory", "long chain, memory",
        ("netcl", "torch"), "torch", {"n": 100_000}, how="resident"),
    *(
        Row(f"matmul-{n}{'-two' * (cores == 2)}", "matmul", f"matmul float32, N = {n}, {words}", f"matmul, {words}",
            ("netcl", "numpy", "torch", "jax", *("tinygrad",) * (n <= 1024), *("ancestor",) * (n <= 512)), "numpy",
            {"n": n}, cores=cores)
        for cores, words in ((1, "one core"), (2, "two cores")) for n in (256, 512, 1024, 2048)
    ),
    *(
        Row(f"mlp-{batch}", "mlp", f"MLP 784-128-10, a step, batch {batch}", f"MLP, batch {batch}", _MLP, "torch",
            {"batch": batch})
        for batch in (64, 512)
    ),
    Row("moons", "moons", "two-moons MLP 2-16-16-2, a step, batch 100", "moons", _MLP, "torch", {"batch": 100}),
    Row("moons-replayed", "moons", "the same, ag.replay", "moons", ("netcl_replayed", "torch", "numpy"), "torch",
        {"batch": 100}, subject="netcl_replayed"),
    Row("tanh", "tanh", "sum(tanh(x·w + b)²), 10M, forward + backward for x, eager", "tanh, eager",
        ("netcl", "torch", "autograd", "jax_jit", "ancestor"), "torch", {"n": 10_000_000}),
    Row("tanh-fused", "tanh", "the same, ag.fuse", "tanh, fused", ("netcl_fused", "torch", "jax_jit"), "torch",
        {"n": 10_000_000}, subject="netcl_fused"),
    Row("conv2d", "conv", "conv2d 3 × 3, 64 channels, 32 × 32, batch 16, forward + backward", "conv2d",
        ("netcl", "torch", "jax_jit", "ancestor"), "torch", {"batch": 16, "channels": 64, "size": 32}),
    Row("import", "startup", "import", "import", ("netcl", "numpy", "pyopencl", "torch", "ancestor"), "pyopencl",
        {"cache": "import"}, how="process"),
    *(
        Row(f"first-gradient-{cache}", "startup", f"process to first gradient, {cache} cache",
            f"first gradient, {cache}",
            ("netcl", "pyopencl", "tinygrad", "torch", "autograd", "jax", "ancestor"), "pyopencl", {"cache": cache},
            how="process")
        for cache in ("cold", "warm")
    ),
    *(
        Row(f"gpu-{op}", "gpu", f"GPU: {op}, 2²⁸ float32", "GPU elementwise", ("netcl", "torch"), "torch",
            {"n": 1 << 28, "op": op}, gpu=True)
        for op in ("add", "tanh")
    ),
    *(
        Row(f"gpu-matmul-{n}", "matmul", f"GPU: matmul float32, N = {n}", "GPU matmul", ("netcl", "torch"), "torch",
            {"n": n, "gpu": True}, gpu=True)
        for n in (2048, 4096, 8192)
    ),
    Row("gpu-chain-1000", "chain", "GPU: eager chain (8,), N = 1000, forward + backward, an op", "GPU chain",
        ("netcl", "torch"), "torch", {"n": 1000, "gpu": True}, per=1000, gpu=True),
    *(
        Row(f"drawing-{n}", "drawing", f"{n} nodes with two parents each, drawn unfolded", f"drawing, {n}",
            ("netcl", "torch"), "torch", {"n": n})
        for n in (100, 1000)
    ),
    Row("drawing-rnn", "drawing", "recurrent network unrolled over 80 steps, drawn", "drawing, RNN",
        ("netcl", "torch"), "torch", {"steps": 80}, patience=30),
    *(
        Row(f"memory-{batch}", "memory", f"MLP step, batch {batch}, peak bytes of tensors", "memory, MLP",
            ("netcl", "netcl_dropping", "torch"), "torch", {"batch": batch}, how="sample")
        for batch in (64, 512)
    ),
    Row("memory-512-dropping", "memory", "the same with retain_grads=False", "memory, MLP",
        ("netcl_dropping", "torch"), "torch", {"batch": 512}, how="sample", subject="netcl_dropping"),
    Row("growth-chain", "chain", "chain, time over N", "growth in nodes", ("netcl", "torch"), "torch", how="growth",
        grows=("n", (100, 1000, 10_000, 100_000, 1_000_000))),
    Row("growth-chain-memory", "chain", "chain, resident memory over N", "growth in nodes", ("netcl", "torch"),
        "torch", how="growth", grows=("n", (1000, 10_000, 100_000, 1_000_000)), growing="memory"),
    Row("growth-fan-out", "fanout", "one node used N times, time over N", "growth in nodes",
        ("netcl", "torch", "ancestor"), "torch", how="growth", grows=("n", (10, 100, 1000, 10_000))),
    Row("growth-matmul", "matmul", "matmul float32, time over N", "growth of matmul", ("netcl", "numpy", "torch"),
        "numpy", how="growth", grows=("n", (64, 128, 256, 512, 1024, 2048, 4096))),
    Row("growth-drawing", "drawing", "drawing, time over nodes", "growth in nodes", ("netcl", "torch"), "torch",
        how="growth", grows=("n", (10, 100, 1000, 10_000)), patience=30),
)  # fmt: skip


def row(name: str) -> Row:
    """Return the row of this name.

    Raises: KeyError if there is none
    """
    return {each.name: each for each in ROWS}[name]
