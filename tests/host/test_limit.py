"""The limit of time that a student's function has."""

import subprocess
import sys
import textwrap
import time

import pytest

from netcl.teach.limit import LateError, limited


def test_what_comes_in_time_is_returned_and_what_raises_raises():
    assert limited(lambda: [1, 2], 5.0) == [1, 2]
    with pytest.raises(ZeroDivisionError):
        limited(lambda: 1 // 0, 5.0)


def test_an_endless_loop_is_late_and_leaves_nothing_on_its_way():
    def endless():
        while True:
            pass

    for _ in range(5):
        with pytest.raises(LateError):
            limited(endless, 0.01)
        before = time.monotonic()
        while time.monotonic() - before < 0.02:  # an exception still on its way would arrive here
            pass


def test_a_function_that_ends_just_as_its_time_does_gives_one_result_or_is_late():
    def just(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return "done"

    for i in range(40):
        try:
            assert limited(lambda i=i: just(0.0095 + i * 2.5e-5), 0.01) == "done"
        except LateError:
            pass


def test_functions_are_entered_under_a_profiler_afterwards():
    """CPython 3.11 hangs at the next function's first instruction once an exception of another thread is taken back."""
    program = """
        import sys
        from netcl.teach.limit import LateError, limited
        limited(lambda: 1, 5.0)
        try:
            limited(lambda: [i for i in iter(int, 1)], 0.05)
        except LateError:
            pass
        sys.setprofile(lambda *args: None)
        (lambda: 0)()
        sys.setprofile(None)
        print("entered")
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "entered"
