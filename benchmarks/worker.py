"""One peer's process: it takes commands as lines of JSON on its input, and answers each with a line.

It runs under the peer's own Python, so it may import nothing but NumPy, the standard library, and the cases. The parent
is `link.py`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def _as_package() -> None:
    """Make `benchmarks` importable alone: with the repository on its path the ancestor would be our netcl."""
    sys.path[:] = [each for each in sys.path if Path(each or ".").resolve() != HERE]
    spec = importlib.util.spec_from_file_location(
        "benchmarks", HERE / "__init__.py", submodule_search_locations=[str(HERE)]
    )
    assert spec is not None and spec.loader is not None  # a path to a .py file has both
    package = importlib.util.module_from_spec(spec)
    sys.modules["benchmarks"] = package
    spec.loader.exec_module(package)


class Worker:
    """What a peer's process holds: the case that was loaded last."""

    def __init__(self, peer: str, cores: list[int]) -> None:
        self.peer = peer
        self.run: Any = None
        self.check: Any = None
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
        prepare(peer)

    def load(
        self, family: str, function: str, sizes: dict[str, Any], seed: int, checked: bool = True
    ) -> dict[str, Any]:
        """Make a case and check its result against NumPy in float64; only what is right can be timed.

        Without `checked` the first run is the one that `resident` measures, and is checked there.
        """
        self.drop()
        import numpy as np

        from benchmarks import cases

        module = importlib.import_module(f"benchmarks.cases.{family}")
        made = getattr(module, function, None)
        if made is None:
            return {"status": "not there", "detail": f"cases/{family}.py has no {function}"}
        seeds = [seed, zlib.crc32(f"{family} {sorted(sizes.items())}".encode())]
        given = module.inputs(np.random.default_rng(seeds), **sizes)
        try:
            run, read = made(**given)
        except cases.NotThere as error:
            return {"status": "not there", "detail": str(error)}
        self.check = lambda result: difference(read(result), module.expected(**given), module.TOLERANCE)
        if checked and (detail := self.check(run())):
            return {"status": "wrong", "detail": detail}
        self.run = run
        return {"status": "ok", "detail": ""}

    def time(self, runs: int) -> dict[str, Any]:
        """Return the nanoseconds that `runs` runs took together."""
        run = self.run
        start = time.perf_counter_ns()
        for _ in range(runs):
            run()
        return {"ns": time.perf_counter_ns() - start}

    def sample(self) -> dict[str, Any]:
        """Return the number that a case measures by itself: bytes, say."""
        return {"status": "ok", "value": float(self.run())}

    def resident(self) -> dict[str, Any]:
        """Return by how many bytes the first run raises the peak of resident memory."""
        if importlib.util.find_spec("resource") is None:
            return {"status": "not there", "detail": "this system does not say what is resident"}
        gc.collect()
        before = _reset_peak()
        result = self.run()
        grown = max(peak_resident() - before, 1)
        detail = self.check(result)
        return {"status": "wrong", "detail": detail} if detail else {"status": "ok", "value": float(grown)}

    def drop(self) -> dict[str, Any]:
        """Forget the case."""
        self.run = self.check = None
        gc.collect()
        return {}

    def describe(self) -> dict[str, Any]:
        """Say what netcl's device is (netcl's process alone can)."""
        import netcl as nc

        device = nc.get_device()
        version = device.cl_devices[0].platform.version.strip()
        return {"device": device.name, "kind": device.kind, "platform": f"{device.platform}, {version}"}

    def versions(self) -> dict[str, Any]:
        """Return the versions of what runs here."""
        from importlib import metadata

        names = ("numpy", "torch", "autograd", "tinygrad", "jax", "pyopencl", "netcl", "torchviz", "graphviz-pure")
        found = {"python": ".".join(map(str, sys.version_info[:3]))}
        for name in names:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        return {"versions": found}


def prepare(peer: str) -> None:
    """Set up what a peer's user has set up before importing it."""
    from benchmarks import opencl

    if peer in ("ancestor", "pyopencl"):
        opencl.make_ready()
    if peer == "tinygrad":
        opencl.make_ready_without_pyopencl()
    if peer == "torch":
        import torch  # pyright: ignore[reportMissingImports] - the linters' environment has no torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def difference(found: list[Any], expected: list[Any], tolerance: float) -> str:
    """Say what is wrong with results, or "" if they are right: off by `tolerance` of the largest element at most."""
    import numpy as np

    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        if one.size != other.size:  # the ancestor's sums have shape (1,)
            return f"result {place} has shape {one.shape} instead of {other.shape}"
        error = np.max(np.abs(one.reshape(other.shape) - other), initial=0.0)
        scale = np.max(np.abs(other), initial=0.0) or 1.0
        if not error <= tolerance * scale:  # so that NaN is wrong
            return f"result {place} is off by {error / scale:.1e} of its largest element"
    return ""


def peak_resident() -> int:
    """Return the peak of resident memory, in bytes."""
    import resource  # there on Unix alone

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _reset_peak() -> int:
    """Set the peak back to what is resident now, where the system can, and return it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # the growth is then counted from the peak so far, and so too small at worst
    return peak_resident()


def serve(worker: Worker) -> None:
    """Answer until the input ends. What a peer prints goes to stderr, so that it is no answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:  # whatever a peer raises is an entry in the table
            last = traceback.format_exc(limit=-1) if os.environ.get("BENCHMARKS_DEBUG") else ""
            answer = {"status": "failed", "detail": f"{type(error).__name__}: {str(error)[:200]}{last}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _as_package()
    serve(Worker(sys.argv[1], [int(core) for core in sys.argv[2:]]))
