"""The command `netcl`: lay and open the course, show the worked example, list and test the devices.

Subcommands import what they need when they run, so that `netcl --help` does not wait for OpenCL.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from netcl._version import __version__
from netcl.errors import DeviceError, NetclError

__all__ = ["main"]

QUICKSTART = "notebooks/quickstart.ipynb"
_CALIBRATE = 30.0  # s, many times what it takes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 it failed and said why, 2 wrong usage.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    own, passed_on = _split(arguments)
    parser = _parser()
    options = parser.parse_args(own)
    if options.command is None:
        parser.print_help()
        return 0
    if passed_on and options.command != "lab":
        parser.error(f"`--` passes options on to JupyterLab; `netcl {options.command}` takes none")
    options.passed_on = passed_on
    try:
        code = options.run(options)
        # Here rather than at exit, where a closed pipe could no longer be caught.
        sys.stdout.flush()
        return code
    except (NetclError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        print(f"netcl: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _reader_left() -> int:
    """End quietly when the reader of our output has gone, as in `netcl devices | head -1`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="netcl", description="A glass-box reverse-mode autodiff on OpenCL.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"netcl {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    lab = commands.add_parser(
        "lab",
        help="lay the course into a folder and open JupyterLab there",
        usage="netcl lab [DIR] [--solutions] [--lesson N] [--seed NAME] [--no-browser] [--port N] [--no-start] "
        "[-- OPTION ...]",
        description="Lay the course into a folder and open JupyterLab there. What you changed is never overwritten.",
        epilog="Everything after `--` goes to JupyterLab as it is.",
        allow_abbrev=False,
    )
    lab.add_argument("folder", nargs="?", metavar="DIR", help="the folder (default: ./netcl-course)")
    lab.add_argument("--solutions", action="store_true", help="lay the lessons with solutions too, under solutions/")
    lab.add_argument("--lesson", metavar="N", help="lay and open that lesson alone")
    lab.add_argument("--seed", metavar="NAME", help="a number, or a student's name: it varies the exercises")
    lab.add_argument("--no-browser", action="store_true", help="print the URL, open no browser")
    lab.add_argument("--port", type=int, metavar="N", help="the port that JupyterLab listens on")
    lab.add_argument("--no-start", action="store_true", help="lay the course, start nothing (VS Code, JupyterHub)")
    lab.set_defaults(run=_lab)

    collect = commands.add_parser("collect", help="gather the progress files of a class into one CSV")
    collect.add_argument("folder", metavar="DIR", help="a folder that holds the students' folders, or their files")
    collect.add_argument("-o", "--output", metavar="FILE", help="write there, not to the terminal")
    collect.set_defaults(run=_collect)

    demo = commands.add_parser("demo", help="print the worked example: its graph, values and gradients")
    demo.add_argument("--save", metavar="FILE", help="write the picture too, for example demo.svg")
    demo.set_defaults(run=_demo)

    devices = commands.add_parser("devices", help="list the OpenCL devices")
    devices.set_defaults(run=_devices)

    # The doctor reads its own options; a prefix that no option has leaves every word to it.
    doctor = commands.add_parser(
        "doctor", help="test every device and say how to mend what is wrong", add_help=False, prefix_chars="\0"
    )
    doctor.add_argument("rest", nargs="*")
    doctor.set_defaults(run=_doctor)
    return parser


def _lab(options: argparse.Namespace) -> int:
    from netcl.teach import course

    folder = options.folder or course.DEFAULT_FOLDER
    laid = course.lay(folder, solutions=options.solutions, lesson=options.lesson, seed=options.seed)
    course.trust(laid.fresh)
    print(laid.summary(), flush=True)
    _calibrate()
    if options.no_start:
        return 0
    if find_spec("jupyterlab") is None:
        print('netcl: JupyterLab is not installed: pip install "netcl[lab]"', file=sys.stderr)
        return 1
    # A first visit opens the quickstart; later ones leave the student where he or she was.
    first = QUICKSTART if QUICKSTART in laid.written else None
    return _start(_lab_command(options, laid.lesson or first), laid.folder)


def _calibrate() -> None:
    """Measure once what is worth all cores, in a process of its own: a driver may end it, which `netcl doctor` tells.

    A second at the first start, for what would otherwise be a guess.
    """
    command = [sys.executable, "-c", "from netcl import calibrate; calibrate.once()"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_CALIBRATE, check=False)


def _lab_command(options: argparse.Namespace, opened: str | None) -> list[str]:
    command = [sys.executable, "-m", "jupyterlab"]
    if opened is not None:
        command.append(f"--LabApp.default_url=/lab/tree/{opened}")
    if options.no_browser or not _has_display():
        command.append("--no-browser")
    if options.port is not None:
        command.append(f"--port={options.port}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # In a container the only user is often root, and JupyterLab would refuse to start.
        print("netcl: running as root, so JupyterLab is started with --allow-root", file=sys.stderr)
        command.append("--allow-root")
    return command + options.passed_on


def _has_display() -> bool:
    """Without a display `webbrowser` may still find a text browser, which would take the terminal over."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _start(command: list[str], folder: Path) -> int:
    if os.name == "posix":
        # JupyterLab takes this process's place: Ctrl-C and signals reach it, and its exit code is ours.
        os.chdir(folder)
        os.execv(command[0], command)
    # Windows has no exec that keeps the terminal.
    return subprocess.call(command, cwd=folder)


def _collect(options: argparse.Namespace) -> int:
    from netcl.teach.collect import collect

    found = collect(Path(options.folder).expanduser())
    for complaint in found.complaints:
        print(f"netcl: {complaint}", file=sys.stderr)
    if not found.rows:
        print(f"netcl: no progress files below {options.folder}", file=sys.stderr)
        return 1
    if options.output is None:
        print(found.csv, end="")
    else:
        Path(options.output).write_text(found.csv, encoding="utf-8", newline="")
    return 0


def _demo(options: argparse.Namespace) -> int:
    from netcl import autograd as ag
    from netcl import viz

    x = ag.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], requires_grad=True)
    with ag.Tape() as tape:
        y = (x + 1.0) ** 2
        z = 3.0 * y
        loss = z.sum()
    tape.backward(loss)
    # These variables are netcl's own, where a picture does not look for names.
    picture = viz.draw(loss, names={x: "x", y: "y", z: "z", loss: "loss"})
    print(picture.text)
    print("x.grad = 6 (x + 1) =")
    print(x.grad.to_host())
    if options.save is not None:
        picture.save(options.save)
        print(f"saved {options.save}")
    return 0


def _devices(options: argparse.Namespace) -> int:
    from netcl import platforms

    if not platforms.devices():
        raise DeviceError(platforms.describe())
    print(platforms.describe())
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from netcl import doctor

    return doctor.main(options.rest)
