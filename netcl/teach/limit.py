"""Run a function that may never come to an end, in this thread, so that it prints where it would print anyway.

A signal would do on POSIX, and only in the main thread; an exception that another thread throws in works on Windows and
inside a Jupyter kernel as well. It is seen between two instructions of Python: a single long call into C is waited for.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_TURNS = 1000
_AGAIN = 0.25  # s


class TimeUp(BaseException):
    """Thrown into a function whose time is over; not an Exception, so that `except Exception` lets it pass.

    A bare `except:` in an endless loop swallows it. So, when it is made, which happens in the thread that it was thrown
    into, that thread is told to stop at each line; and when the next one is made, to raise one more at the next line.
    That line stands behind the `except:`, where its `try` does not reach.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        watch = _watches.get(threading.get_ident())
        if watch is None or watch.stopped:
            return
        watch.armed = sys.gettrace() is _each_line  # only code that runs under it stops at its lines
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not limited.__code__:
            frame.f_trace = _each_line
            frame = frame.f_back
        sys.settrace(_each_line)


class LateError(Exception):
    """The function did not come to an end within its time."""


def _each_line(frame: FrameType, event: str, arg: Any) -> Any:
    if frame.f_globals is globals():
        return None
    watch = _watches.get(threading.get_ident())
    if watch is not None and watch.armed and not watch.stopped and event == "line":
        watch.armed = False
        raise TimeUp
    return _each_line


def limited(call: Callable[[], T], seconds: float) -> T:
    """Return what `call` returns, or interrupt it.

    Units:   seconds
    Raises:  LateError when the time is over; else whatever `call` raises

    >>> limited(lambda: 1 + 1, 1.0)
    2
    """
    watch, outer, traced = _Watch(seconds), _watches.get(threading.get_ident()), sys.gettrace()
    late, failure = False, None
    result: list[T] = []
    _watches[watch.target] = watch
    watch.thread.start()
    try:
        watch.begin.release()
        result.append(call())
    except TimeUp:
        late = True
    except BaseException as error:
        failure = error
    # Since Python 3.11 exceptions arrive only where a function begins or a loop turns: none between here and there.
    watch.stopped = True
    try:
        watch.close(outer, traced)
    except TimeUp:  # it was on its way when the function came to its end
        late = late or not result
        watch.close(outer, traced)
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
        self.begin = threading.Lock()  # held until the function is called: starting a thread must not be interrupted
        self.begin.acquire()
        self.stopped = self.armed = self.thrown = False
        self.thread = threading.Thread(target=self._wait, name="netcl-time-limit", daemon=True)

    def close(self, outer: _Watch | None, traced: Any) -> None:
        """After `stopped` is set: wait until nothing more is thrown; what has not arrived yet arrives here.

        It cannot be taken back: CPython 3.11, told to throw nothing, never again enters a function under a profiler.
        """
        sys.settrace(traced)
        with self.lock:
            self.over.set()
        if outer is not None:
            _watches[self.target] = outer
        else:
            _watches.pop(self.target, None)
        if self.thrown:
            for _ in range(_TURNS):  # exceptions of other threads are seen where a loop turns
                pass

    def _wait(self) -> None:
        pause = self.seconds
        self.begin.acquire()
        while not self.over.wait(pause):
            with self.lock:
                if self.stopped:
                    return
                self.thrown = True
                _throw(self.target, TimeUp)
            pause = _AGAIN


_watches: dict[int, _Watch] = {}  # by thread


def _throw(thread: int, error: type[BaseException]) -> None:
    throw = getattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", None)
    if throw is not None:  # CPython alone has it; elsewhere there is no limit
        throw(ctypes.c_ulong(thread), ctypes.py_object(error))
