"""The command `netcl`: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import netcl
from netcl import cli
from netcl.errors import DeviceError

HERE = Path(netcl.__file__).resolve().parents[1]


def netcl_command(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (environment.pop("FIRST", ""), str(HERE), os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [sys.executable, "-m", "netcl", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_version_is_the_package_s() -> None:
    done = netcl_command("--version")
    assert (done.returncode, done.stdout) == (0, f"netcl {netcl.__version__}\n")


def test_help_names_every_command() -> None:
    done = netcl_command("--help")
    assert done.returncode == 0
    for command in ("lab", "collect", "demo", "devices", "doctor"):
        assert f"\n    {command} " in done.stdout


def test_no_command_prints_the_help() -> None:
    assert netcl_command().stdout == netcl_command("--help").stdout


@pytest.mark.parametrize("arguments", [["paint"], ["lab", "--solution"], ["lab", "a", "b"], ["demo", "--", "--port=1"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: netcl" in capsys.readouterr().err


def test_an_error_of_netcl_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(options: object) -> int:
        raise DeviceError("no OpenCL platform found\n  install one")

    monkeypatch.setattr(cli, "_devices", fails)
    assert cli.main(["devices"]) == 1
    assert capsys.readouterr() == ("", "netcl: no OpenCL platform found install one\n")


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_devices", interrupted)
    assert cli.main(["devices"]) == 130


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
def test_a_reader_that_leaves_gets_no_traceback() -> None:
    fake = "cli._devices = lambda options: print('x' * 200_000) or 0"
    script = f"import sys; from netcl import cli; {fake}; sys.exit(cli.main())"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "devices"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


def test_doctor_gets_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    doctor = pytest.importorskip("netcl.doctor")
    seen: list[list[str]] = []
    monkeypatch.setattr(doctor, "main", lambda argv: seen.append(argv) or 3)
    assert cli.main(["doctor", "--some-option", "-h", "word"]) == 3
    assert seen == [["--some-option", "-h", "word"]]


def test_devices_lists_every_device() -> None:
    from netcl import platforms

    done = netcl_command("devices")
    assert (done.returncode, done.stderr) == (0, "")
    found = platforms.devices()
    assert found
    for device in found:
        assert device.name in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is one of the loader in pyopencl's wheel for Linux")
def test_devices_without_a_device_fails_and_says_why(tmp_path: Path) -> None:
    done = netcl_command("devices", OCL_ICD_VENDORS=str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("netcl: no OpenCL platform") and "OCL_ICD_VENDORS" in done.stderr


def test_demo_prints_the_worked_example_and_saves_its_picture(tmp_path: Path) -> None:
    done = netcl_command("demo", "--save", "demo.svg", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(
        "x.grad = 6 (x + 1) =\n[[ 6. 12. 18.]\n [24. 30. 36.]]\nsaved demo.svg\n",
    )
    assert "y = (x + 1)²" in done.stdout
    picture = (tmp_path / "demo.svg").read_text(encoding="utf-8")
    assert "∂loss/∂x" in picture
    assert picture.startswith("<svg") and picture.rstrip().endswith("</svg>")


def test_demo_says_where_it_cannot_save(tmp_path: Path) -> None:
    done = netcl_command("demo", "--save", str(tmp_path / "nowhere" / "demo.svg"))
    assert done.returncode == 1
    assert done.stderr.startswith("netcl: ") and done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr


# netcl lab


@pytest.fixture
def jupyterlab(tmp_path: Path) -> str:
    """A stand-in for JupyterLab that writes down how it was started."""
    module = tmp_path / "stand-in" / "jupyterlab"
    module.mkdir(parents=True)
    (module / "__init__.py").touch()
    (module / "__main__.py").write_text(
        "import json, os, sys\nprint('started', json.dumps([os.getcwd(), sys.argv[1:]]))\nsys.exit(7)\n"
    )
    return str(module.parent)


def started(done: subprocess.CompletedProcess[str]) -> tuple[Path, list[str]]:
    line = next(line for line in done.stdout.splitlines() if line.startswith("started "))
    folder, arguments = json.loads(line.removeprefix("started "))
    return Path(folder), [each for each in arguments if each != "--allow-root"]


def test_lab_lays_the_course_and_starts_jupyterlab_there(tmp_path: Path, jupyterlab: str) -> None:
    done = netcl_command("lab", cwd=tmp_path, FIRST=jupyterlab, DISPLAY=":0")
    assert done.returncode == 7, "the exit code is JupyterLab's"
    folder, arguments = started(done)
    assert folder == (tmp_path / "netcl-course").resolve()
    assert (folder / cli.QUICKSTART).is_file()
    assert arguments == [f"--LabApp.default_url=/lab/tree/{cli.QUICKSTART}"]


def test_lab_opens_the_quickstart_on_the_first_visit_alone(tmp_path: Path, jupyterlab: str) -> None:
    netcl_command("lab", "course", cwd=tmp_path, FIRST=jupyterlab, DISPLAY=":0")
    done = netcl_command("lab", "course", cwd=tmp_path, FIRST=jupyterlab, DISPLAY=":0")
    assert started(done) == ((tmp_path / "course").resolve(), [])


def test_lab_passes_options_on(tmp_path: Path, jupyterlab: str) -> None:
    options = ["course", "--no-browser", "--port", "9876", "--", "--LabApp.collaborative=True", "--", "x"]
    done = netcl_command("lab", *options, cwd=tmp_path, FIRST=jupyterlab)
    assert started(done)[1][1:] == ["--no-browser", "--port=9876", "--LabApp.collaborative=True", "--", "x"]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a display there")
def test_without_a_display_no_browser_is_tried(tmp_path: Path, jupyterlab: str) -> None:
    done = netcl_command("lab", "course", cwd=tmp_path, FIRST=jupyterlab, DISPLAY="", WAYLAND_DISPLAY="")
    assert "--no-browser" in started(done)[1]


def test_lab_without_jupyterlab_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 1
    assert capsys.readouterr().err == 'netcl: JupyterLab is not installed: pip install "netcl[lab]"\n'
    assert (tmp_path / "netcl-course" / cli.QUICKSTART).is_file()


def test_lab_lays_solutions_and_starts_nothing_when_asked(tmp_path: Path, jupyterlab: str) -> None:
    done = netcl_command("lab", "--solutions", "--no-start", cwd=tmp_path, FIRST=jupyterlab)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "netcl-course" / "solutions").glob("06*.ipynb"))
    assert "started" not in done.stdout


def test_lab_keeps_work_and_says_so(tmp_path: Path) -> None:
    netcl_command("lab", "--no-start", cwd=tmp_path)
    mine = tmp_path / "netcl-course" / cli.QUICKSTART
    mine.write_text("my work", encoding="utf-8")
    done = netcl_command("lab", "--no-start", cwd=tmp_path)
    assert mine.read_text(encoding="utf-8") == "my work"
    assert done.stdout.splitlines()[0].endswith("1 kept as you left it")


def test_lab_into_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    done = netcl_command("lab", "notes", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "netcl: notes is a file; name a folder to lay the course into\n"


def test_lab_lays_and_opens_one_lesson_with_numbers_of_one_s_own(tmp_path: Path, jupyterlab: str) -> None:
    options = ["--lesson", "6", "--seed", "Ada", "--no-browser"]
    done = netcl_command("lab", *options, cwd=tmp_path, FIRST=jupyterlab)
    folder, arguments = started(done)
    assert arguments == ["--LabApp.default_url=/lab/tree/curriculum/06_reverse_mode.ipynb", "--no-browser"]
    assert [path.name for path in folder.rglob("*.ipynb")] == ["06_reverse_mode.ipynb"]
    assert "the numbers of the exercises are those of 'Ada'" in done.stdout
    again = netcl_command("lab", *options, cwd=tmp_path, FIRST=jupyterlab)
    assert started(again)[1] == arguments, "a lesson that was laid before is opened as well"


def test_lab_says_which_lessons_there_are(tmp_path: Path) -> None:
    done = netcl_command("lab", "--lesson", "99", "--no-start", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("netcl: there is no lesson '99'; the lessons are 00, 01, ")
    assert list(tmp_path.iterdir()) == []
