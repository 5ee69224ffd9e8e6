"""What recording obeys in each thread: the stack of tapes, whether ops are recorded, whether anomalies are sought.

Everything here is `threading.local`: no thread sees another's modes. Contexts may be left in another order than they
were entered (a suspended generator does that), so leaving one takes out that one and not the newest.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from netcl.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


class _Modes(threading.local):
    def __init__(self) -> None:
        self.tapes: list[Any] = []
        self.recording = True
        self.anomaly = False
        self.scope: Any = None  # the innermost named part of a model that is being run (see scope.py)
        # For each switch, the contexts entered with the value in each; the first entry stands for no context at all.
        self.entered: dict[str, list[tuple[object, bool]]] = {"recording": [(None, True)], "anomaly": [(None, False)]}


modes = _Modes()
"""The current thread's modes; `recording` and `anomaly` are the values in force."""


def _refresh(switch: str) -> None:
    setattr(modes, switch, modes.entered[switch][-1][1])


def _set(switch: str, mode: bool) -> None:
    """Give a switch a value until the context that is now innermost is left, or for good outside all of them."""
    entered = modes.entered[switch]
    entered[-1] = (entered[-1][0], mode)
    _refresh(switch)


class _Switch:
    """A context manager and decorator that gives a switch a value; re-entrant."""

    switch: ClassVar[str]

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        modes.entered[self.switch].append((self, self.mode))
        _refresh(self.switch)

    def __exit__(self, *_: object) -> None:
        entered = modes.entered[self.switch]
        for i in range(len(entered) - 1, -1, -1):
            if entered[i][0] is self:
                del entered[i]
                break
        _refresh(self.switch)

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise ArgumentError(f"{type(self).__name__} decorates a function, not {function!r}")
        if inspect.isgeneratorfunction(function):
            raise ArgumentError(
                f"{function.__name__} is a generator function: use `with {type(self).__name__}` inside it"
            )

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with type(self)._again(self.mode):
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]

    @classmethod
    def _again(cls, mode: bool) -> _Switch:
        switch = _Switch.__new__(cls)
        _Switch.__init__(switch, mode)
        return switch


class recording(_Switch):  # noqa: N801
    """Context manager: recording on or off. What transforms use; users have no_grad and set_grad_enabled."""

    switch = "recording"


@contextmanager
def no_tape() -> Iterator[None]:
    """Put this thread's tapes aside: nodes made in the block are on none."""
    aside, modes.tapes = modes.tapes, []
    try:
        yield
    finally:
        modes.tapes = aside


class no_grad(_Switch):  # noqa: N801 - used as a keyword is, like PyTorch's
    """Context manager and decorator: ops give tensors, and nothing is recorded.

    It cuts reverse mode alone: forward mode (`jvp`, and `hessian`, which is forward over reverse) records nothing and
    sees through it. `.detach()` cuts both.

    >>> import netcl.autograd as ag
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> with no_grad():
    ...     type(x * x).__name__
    'Tensor'
    """

    switch = "recording"

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        if function is not None:
            raise ArgumentError("write @no_grad() with parentheses")
        super().__init__(False)


class set_grad_enabled(_Switch):  # noqa: N801
    """Turn recording on or off: at once when called, for a block under `with`, for a function as a decorator."""

    switch = "recording"
    _before: bool | None = None

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._before = modes.recording
        _set(self.switch, self.mode)

    def _undo_call(self) -> None:
        if self._before is not None:
            _set(self.switch, self._before)
            self._before = None

    def __enter__(self) -> None:
        self._undo_call()
        super().__enter__()

    def __call__(self, function: F) -> F:
        self._undo_call()
        return super().__call__(function)


class detect_anomaly(_Switch):  # noqa: N801
    """Context manager and decorator: look for NaN and infinity in every value and gradient, and keep full stacks.

    The error names the op, where it was created, and what it was fed. Reads a number back per op, so it is slow.
    """

    switch = "anomaly"

    def __init__(self, mode: bool = True) -> None:
        super().__init__(mode)


def set_detect_anomaly(mode: bool) -> None:
    """Turn anomaly detection on or off in this thread, until told otherwise."""
    _set("anomaly", bool(mode))


def is_grad_enabled() -> bool:
    """Say whether ops on nodes are being recorded in this thread.

    >>> is_grad_enabled()
    True
    """
    return modes.recording


def is_anomaly_enabled() -> bool:
    """Say whether anomalies are being looked for in this thread."""
    return modes.anomaly
