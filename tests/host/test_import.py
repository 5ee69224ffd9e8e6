"""What `import netcl` loads: little beyond NumPy and pyopencl, for a first cell should not wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Loaded when they are first needed, though NumPy or pyopencl may load some of them themselves.
LATE = ("numpy.random", "graphviz", "ipywidgets", "IPython", "matplotlib", "sympy", "tqdm", "nbformat", "netcl.viz")


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_netcl_loads_nothing_that_can_wait() -> None:
    before, after = loaded("import numpy, pyopencl, pyopencl.tools"), loaded("import netcl")
    assert {"netcl.autograd", "numpy"} <= after
    assert [name for name in LATE if name in after - before] == []
