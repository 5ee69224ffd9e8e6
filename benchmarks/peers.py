"""The peers: what netcl is measured against, and the environments that they run in.

`python -m benchmarks.peers` makes an environment for each peer that cannot share netcl's. A peer that is not there is
said in the table; nothing fails for want of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_cache_path
from tqdm import tqdm

_POCL = ("pyopencl", "pocl-binary-distribution; sys_platform == 'linux' and platform_machine == 'x86_64'")


@dataclass(frozen=True)
class Peer:
    """One peer: what it imports as, what pip installs for it, and the environment variables that it wants.

    With `shared` it runs in the environment that runs the benchmarks, as one of netcl's own dependencies.
    """

    name: str
    module: str
    requirements: tuple[str, ...] = ()
    shared: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("netcl", "netcl", shared=True),
        Peer("numpy", "numpy", shared=True),
        Peer("pyopencl", "pyopencl", shared=True),
        Peer("torch", "torch", ("torch==2.13.0", "torchviz==0.0.3", "graphviz-pure==0.2.2", "numpy")),
        Peer("autograd", "autograd", ("autograd==1.9.1", "numpy")),
        Peer("tinygrad", "tinygrad", ("tinygrad==0.14.0", "numpy", *_POCL), environ={"DEV": "CL"}),
        Peer("jax", "jax", ("jax[cpu]==0.10.2", "numpy"), environ={"JAX_PLATFORMS": "cpu"}),
        # The ancestor imports as netcl too, so it can never share a process with netcl.
        Peer("ancestor", "netcl", ("netcl==0.4.4", "numpy", *_POCL)),
    )
}


def default_folder() -> Path:
    """Return where the peers' environments are kept: below the user's cache folder."""
    return user_cache_path("netcl") / "benchmarks" / "peers"


def python_of(peer: Peer, folder: Path) -> Path | None:
    """Return the Python that has this peer: its own environment's, or this one if it can be imported here."""
    own = folder / peer.name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not peer.shared and own.exists():
        return own
    here = Path(sys.executable)
    # `find_spec` in this process would see what this process has put on its path; the ancestor would find netcl.
    if peer.shared or (peer.name != "ancestor" and _importable(here, peer.module)):
        return here
    return None


def _importable(python: Path, module: str) -> bool:
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", look], capture_output=True, check=False).returncode == 0


def make(peer: Peer, folder: Path) -> None:
    """Make a peer's environment, or bring it to the versions in the table.

    Raises: CalledProcessError if pip cannot install it
    """
    target = folder / peer.name
    if not target.exists():
        venv.create(target, with_pip=True)
    python = python_of(peer, folder)
    assert python is not None  # it was just made
    subprocess.run([python, "-m", "pip", "install", "--quiet", *peer.requirements], check=True)


def main(arguments: list[str] | None = None) -> int:
    """Make the environments; return 1 if one could not be made."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    own = [name for name, peer in PEERS.items() if not peer.shared]
    parser.add_argument("names", nargs="*", default=own, metavar="PEER", help=f"of {', '.join(own)}; default: all")
    parser.add_argument("--peers-dir", type=Path, default=default_folder(), help="where they are kept")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(own)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    failed = []
    for name in tqdm(options.names, desc="peers", unit="peer"):
        try:
            make(PEERS[name], options.peers_dir)
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name} could not be installed (pip ended with {error.returncode})", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
