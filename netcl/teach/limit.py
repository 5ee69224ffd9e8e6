"""Run a function that may never come to an end, in this thread, so that it prints where it would print anyway.

A signal would do on POSIX, and only in the main thread; an exception that another thread throws in works on Windows and
inside a Jupyter kernel as well. It is seen between two instructions of Python: a single long call into C is waited for.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_TURNS = 1000
_AGAIN = 0.25  # s; a bare `except:` in a loop swallows the first


class TimeUp(BaseException):
    """Thrown into a function whose time is over; not an Exception, so that `except Exception` lets it pass."""


class LateError(Exception):
    """The function did not come to an end within its time."""


def limited(call: Callable[[], T], seconds: float) -> T:
    """Return what `call` returns, or interrupt it.

    Units:   seconds
    Raises:  LateError when the time is over; else whatever `call` raises

    >>> limited(lambda: 1 + 1, 1.0)
    2
    """
    watch = _Watch(seconds)
    late = False
    result: list[T] = []
    failure: BaseException | None = None
    try:
        try:
            watch.start()
            result.append(call())
        except TimeUp:
            late = True
        except BaseException as error:
            failure = error
        watch.stop()
    except TimeUp:  # thrown just as the function came to its end
        watch.stop()
        late = late or not result
    if late or isinstance(failure, TimeUp):
        raise LateError(f"no result after {seconds:g} s")
    if failure is not None:
        raise failure
    return result[0]


class _Watch:
    """Throws TimeUp into the thread that made it, once its time is over and until it is stopped."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.target = seconds, threading.get_ident()
        self.over, self.lock = threading.Event(), threading.Lock()
        self.stopped = self.thrown = False
        self.thread = threading.Thread(target=self._wait, name="netcl-time-limit", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """From here on nothing is thrown; what was thrown and has not arrived yet arrives here.

        It cannot be taken back: CPython 3.11, told to throw nothing, never again enters a function under a profiler.
        """
        self.stopped = True  # before the lock is waited for: one exception at most can still be on its way
        with self.lock:
            self.over.set()
        if self.thrown:
            for _ in range(_TURNS):  # exceptions of other threads are seen where a loop turns
                pass

    def _wait(self) -> None:
        seconds = self.seconds
        while not self.over.wait(seconds):
            with self.lock:
                if self.stopped:
                    return
                self.thrown = True
                _throw(self.target, TimeUp)
            seconds = _AGAIN


def _throw(thread: int, error: type[BaseException]) -> None:
    throw = getattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", None)
    if throw is not None:  # CPython alone has it; elsewhere there is no limit
        throw(ctypes.c_ulong(thread), ctypes.py_object(error))
