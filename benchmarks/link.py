"""The parent's side of a peer's process: start it, ask it, and give up on it when it takes too long."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer

HERE = Path(__file__).resolve().parent
_NOT_PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
"""Settings of a machine that make NumPy slower than it is, and a path that would lead the ancestor to this netcl."""


class LostError(Exception):
    """The process ended, or took longer than it was given."""


def environment(peer: Peer, cores: int, device: str | None = None) -> dict[str, str]:
    """Return the environment variables for a peer that may use so many cores."""
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT"):
        environ[name] = str(cores)
    if peer.name == "netcl":
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        if device:
            environ["NETCL_DEVICE"] = device
    return environ | dict(peer.environ)


class Link:
    """A running process of one peer.

    >>> import sys
    >>> from benchmarks.peers import PEERS
    >>> with Link(PEERS["numpy"], Path(sys.executable)) as link:
    ...     link.ask("load", family="matmul", function="numpy", sizes={"n": 8}, seed=0)["status"]
    'ok'
    """

    def __init__(self, peer: Peer, python: Path, cores: Sequence[int] = (), device: str | None = None) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), peer.name, *map(str, cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARKS_DEBUG") else subprocess.DEVNULL,
            env=environment(peer, max(len(cores), 1), device),
            text=True,
            bufsize=1,
            start_new_session=True,  # so that what it started ends with it
        )
        # A thread waits for the answers: Windows cannot wait for a pipe and a clock at once.
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # it is a pipe
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")  # the end

    def ask(self, do: str, timeout: float = 120.0, **arguments: Any) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises: LostError if the process ends or needs more than `timeout` seconds; it is then stopped
        """
        process = self._process
        assert process.stdin is not None  # it is a pipe
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
        except (OSError, ValueError):  # the pipe is broken, or was closed by `stop`
            raise LostError(f"its process ended with {process.wait()}") from None
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self.stop()
            raise LostError(f"longer than {timeout:.0f} s") from None
        if not line:
            raise LostError(f"its process ended with {process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        """End the process, and what it started: a layout program that goes on takes a core from all that follow."""
        process = self._process
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        self._reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
