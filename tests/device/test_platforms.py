"""Finding devices and choosing one; what is said where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from netcl import platforms, pocl
from netcl.device import Device
from netcl.errors import DeviceError
from netcl.platforms import devices, get_device, use_device

Python = Callable[..., "subprocess.CompletedProcess[str]"]

POCL = "Portable Computing Language"
pocl_here = pytest.mark.skipif(
    not sys.platform.startswith("linux") or [each.platform for each in devices()] != [POCL],
    reason="PoCL on Linux, and nothing beside it",
)


def test_devices_are_numbered_and_the_same_every_time() -> None:
    found = devices()
    assert found
    assert [each.index for each in found] == list(range(len(found)))
    assert all(a is b for a, b in zip(found, devices(), strict=True))
    found.clear()
    assert devices()


def test_a_device_is_found_by_itself_its_number_and_its_name(device: Device) -> None:
    assert get_device(device) is device
    assert get_device(device.index) is device
    assert get_device(str(device.index)) is device
    same = [each for each in devices() if each.name.lower() == device.name.lower()]
    if len(same) == 1:
        assert get_device(device.name.upper()) is device
    assert get_device(device.kind.lower()).kind == device.kind


def test_the_default_is_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETCL_DEVICE", raising=False)
    monkeypatch.setattr(platforms, "_default", None)
    gpus = [each for each in devices() if each.kind == "GPU"]
    assert get_device().kind == ("GPU" if gpus else "CPU")


@pytest.mark.parametrize("spec", ["no such device", 99, -1, ""])
def test_an_unknown_device_is_told_what_there_is(spec: str | int) -> None:
    with pytest.raises(DeviceError, match="is no device here") as caught:
        get_device(spec)
    for each in devices():
        assert each.name in str(caught.value)


def test_use_device_lasts_until_the_next(device: Device) -> None:
    before = get_device()
    use_device(device)
    try:
        assert get_device() is device
    finally:
        use_device(None)
    assert get_device() is before


def test_use_device_in_a_block_restores_also_after_an_error(device: Device) -> None:
    use_device(devices()[0])
    try:
        with pytest.raises(KeyError), use_device(device.index) as used:
            assert used is device
            assert get_device() is device
            raise KeyError
        assert get_device() is devices()[0]
    finally:
        use_device(None)


def test_a_wrong_choice_changes_nothing() -> None:
    before = get_device()
    with pytest.raises(DeviceError):
        use_device("no such device")
    assert get_device() is before


def test_a_choice_is_this_threads_own(device: Device) -> None:
    default = get_device()
    seen: list[Device] = []
    with use_device(device):
        thread = threading.Thread(target=lambda: seen.append(get_device()))
        thread.start()
        thread.join()
    assert seen == [default]


def test_the_table_has_every_device_and_marks_the_one_in_use(device: Device) -> None:
    with use_device(device):
        lines = platforms.describe().splitlines()
    for each in devices():
        assert any(each.name in line and each.platform in line for line in lines)
    (marked,) = (line for line in lines[1:-1] if line.startswith("*"))
    assert device.name in marked


def test_pocls_cpu_is_one_device_that_computes_on_both_sides() -> None:
    ours = [each for each in devices() if each.platform == POCL and each.kind == "CPU"]
    if not ours:
        pytest.skip("PoCL is not here")
    assert len(ours) == 1
    names = [each.name for each in ours[0].cl_devices]
    if "POCL_DEVICES" not in os.environ:
        assert len(names) == 2
    assert not ours[0].name.startswith(("basic", "pthread"))


def test_a_kernel_runs(device: Device) -> None:
    host, back = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    buffer = device.pool.allocate(host.nbytes)
    device.write(buffer, host)
    device.read(back, buffer, 0)
    np.testing.assert_array_equal(back, host)


# In processes of their own: what is set before OpenCL is first used

RUN = "from netcl import platforms; device = platforms.get_device(); print(device.cl_devices[0].name, device.name)"

CORES_OF_THREADS = """
import json, os, numpy, pyopencl
from netcl import platforms
def cores():
    return {task: sorted(os.sched_getaffinity(int(task))) for task in os.listdir("/proc/self/task")}
before = cores()
platforms.get_device()
print(json.dumps(sorted(each for task, each in cores().items() if task not in before)))
"""


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in (0, 1), done.stderr  # not killed by a signal
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@pocl_here
@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"NETCL_DEVICE": "0"}, ""),
        ({"NETCL_DEVICE": "cpu"}, ""),
        ({"NETCL_DEVICE": "portable"}, ""),
        ({"POCL_DEVICES": "basic"}, "basic"),
        ({"POCL_DEVICES": "pthread no-such-device"}, "pthread"),
        ({"HOME": "/dev/null/nowhere", "XDG_CACHE_HOME": ""}, ""),
        ({"XDG_CACHE_HOME": "/dev/null/nowhere"}, ""),
    ],
)
def test_environments_that_give_a_device(python: Python, variables: dict[str, str], says: str) -> None:
    done = python(RUN, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f" {devices()[0].name}")  # without PoCL's name for how it runs
    assert done.stdout.startswith(says)


@pocl_here
@pytest.mark.skipif(not pocl.threads_match_cores(), reason="not all cores of a machine with several are this process's")
@pytest.mark.parametrize("apart", [True, False])
def test_pocls_threads_stay_on_a_core_each_unless_the_user_says_otherwise(python: Python, apart: bool) -> None:
    done = python(CORES_OF_THREADS, **({} if apart else {"POCL_AFFINITY": "0"}))
    assert done.returncode == 0, done.stderr
    every = sorted(os.sched_getaffinity(0))
    assert json.loads(done.stdout) == ([[core] for core in every] if apart else [every] * len(every))


@pocl_here
@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"NETCL_DEVICE": "h200"}, "NETCL_DEVICE=h200: 'h200' is no device here; there are 0: "),
        ({"OCL_ICD_VENDORS": "/nowhere"}, "OCL_ICD_VENDORS=/nowhere hides"),
        ({"POCL_DEVICES": "gpu"}, "POCL_DEVICES='gpu' names none"),
        ({"POCL_DEVICES": ""}, "POCL_DEVICES='' names none"),
        ({"POCL_CACHE_DIR": "/dev/null/nowhere"}, "cannot write POCL_CACHE_DIR=/dev/null/nowhere"),
    ],
)
def test_environments_that_give_an_error(python: Python, variables: dict[str, str], says: str) -> None:
    done = python(RUN, **variables)
    line = last_line(done)
    assert done.returncode == 1
    assert line.startswith("netcl.errors.DeviceError: ")
    assert says in line


@pocl_here
def test_without_any_platform(python: Python) -> None:
    # Nothing registered, as where PoCL's wheel is not installed.
    done = python(f"import pyopencl; pyopencl.get_platforms = lambda: []\n{RUN}")
    assert "no OpenCL platform; run `" in last_line(done)


@pocl_here
def test_kernels_run_where_home_cannot_be_written(python: Python) -> None:
    done = python("from netcl import doctor; doctor.probe(0)", HOME="/dev/null/nowhere", XDG_CACHE_HOME="")
    assert done.returncode == 0, done.stderr
    assert '"level": "ok"' in done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_is_told_to_use_spawn(python: Python) -> None:
    code = """
import os, sys, warnings
from netcl import errors, platforms
platforms.get_device()
warnings.simplefilter("ignore")  # Python itself warns of a fork with threads about
if os.fork() == 0:
    for ask in (platforms.get_device, platforms.devices, lambda: platforms.get_device("cpu"), platforms.describe):
        try:
            ask()
        except errors.DeviceError as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
"""
    done = python(code)
    assert done.stdout.count("spawn") == 4, done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_child_forked_before_opencl_was_used_can_use_it(python: Python) -> None:
    code = """
import os
from netcl import platforms, pocl
if os.fork() == 0:
    print(platforms.get_device().name, flush=True)
    os._exit(0)
os.wait()
"""
    assert python(code).stdout.strip() == devices()[0].name or len(devices()) > 1
