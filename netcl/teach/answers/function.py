"""A function that the student wrote: called on cases that it has not seen, and compared with a reference."""

from __future__ import annotations

import ast
import copy
import dis
import inspect
import os
import random
import re
import textwrap
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from netcl.autograd import Node
from netcl.errors import DeviceError
from netcl.teach.answers.base import Answer, Data, UnfitError, kind_of, on_host, shown, value
from netcl.teach.answers.number import close
from netcl.teach.limit import LateError, limited
from netcl.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_UNBUILT = "DeviceError: the compiler did not accept the kernel:"
_IDLE = frozenset("RESUME NOP LOAD_CONST POP_TOP RETURN_CONST RETURN_VALUE EXTENDED_ARG CACHE".split())
_CONSTANTS = frozenset(("LOAD_CONST", "RETURN_CONST"))


class Outcome(NamedTuple):
    """What a function did with one case."""

    case: str
    value: Any
    error: str = ""  # the type of what it raised, "" if nothing
    told: str = ""  # the whole of it


@dataclass(frozen=True)
class Function(Answer):
    """A function, right if it does on every case what the reference does.

    `cases(rng)` makes the argument tuples, anew for each function that is called, so that one which writes into its
    arguments disturbs nobody. With `tensors=True` arrays arrive as tensors of netcl. `call(f, *args)` says how the
    answer is used, where it is not simply called: for a class, or to bring results of many forms into one; `say(*args)`
    then tells a case in words. `returns` says what list the function is to return, to somebody who returned none;
    `parts` names the entries of that list, so that it is said which of them are wrong, instead of showing all of it.

    Units:  `seconds` for all cases together

    >>> from types import SimpleNamespace
    >>> square = Function(lambda d: lambda x: x * x, cases=lambda rng: [(n,) for n in range(-2, 3)])
    >>> d = SimpleNamespace()
    >>> square.same(square.read(lambda x: x**2, d), square.target(d))
    True
    """

    reference: Callable[[Data], Callable[..., Any]]
    cases: Callable[[random.Random], Sequence[tuple[Any, ...]]]
    rtol: float = 1e-5
    atol: float = 1e-6
    why: str = ""
    tensors: bool = False
    call: Callable[..., Any] | None = None
    seconds: float = 10.0
    returns: str = ""
    say: Callable[..., str] | None = None
    parts: tuple[str, ...] = ()

    def read(self, given: Any, d: Data) -> Any:
        if not callable(given):
            raise UnfitError(f"A function is asked for, and {kind_of(given)} was given.")
        return self._outcomes(given)

    def target(self, d: Data) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._outcomes(value(self.reference, d))

    def empty(self, given: Any) -> bool:
        return super().empty(given) or _is_stub(given)

    def unfinished(self, given: Any) -> bool:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(given)))
        except Exception:  # there is no source to look at, or only a part of a line
            return False
        nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
        return any(isinstance(node, ast.Constant) and node.value is ... for node in nodes)

    def same(self, one: Any, other: Any) -> bool:
        return len(one) == len(other) and all(map(self._agree, one, other))

    def _agree(self, one: Outcome, other: Outcome) -> bool:
        if one.error or other.error:
            return one.error == other.error
        return alike(one.value, other.value, self.rtol, self.atol)

    def remark(self, read: Any, d: Data) -> str:
        where = next(
            (i for i, pair in enumerate(zip(read, self.target(d), strict=True)) if not self._agree(*pair)), None
        )
        if where is None:
            return ""
        found, right = read[where], self.target(d)[where]
        if found.error == LateError.__name__:
            return f"{found.case} did not come to an end within {self.seconds:g} s and was interrupted."
        if found.error:
            return f"{found.case} raised {found.told}"
        if isinstance(right.value, list | tuple) and not isinstance(found.value, list | tuple):
            asked = self.returns or f"a list, here of {len(right.value)}"
            return f"{found.case} gives {shown(found.value)}; {asked} is asked for."
        if self.parts and len(self.parts) == len(found.value) == len(right.value):
            return f"{found.case}: {self._by_parts(found.value, right.value)}."
        said = f"{found.case} gives {shown(found.value)}; that is not right."
        if _has_nan(found.value) and not _has_nan(right.value):
            said += " There is NaN in it."
        shape = _shape(found.value)
        if shape is not None and shape != _shape(right.value):
            said += f" Its shape {shape} is not the one that is asked for."
        return said

    def _by_parts(self, found: Sequence[Any], right: Sequence[Any]) -> str:
        """Which of the named parts are right, which are wrong, and which are missing."""
        sorts: dict[str, list[str]] = {"right": [], "wrong": [], "missing": []}
        for name, one, other in zip(self.parts, found, right, strict=True):
            if alike(one, other, self.rtol, self.atol):
                sorts["right"].append(name)
            elif one is None:
                sorts["missing"].append(name)
            elif _shape(one) not in (None, _shape(other)):
                sorts["wrong"].append(f"{name} (its shape is {_shape(one)})")
            else:
                sorts["wrong"].append(f"{name} (there is NaN in it)" if _has_nan(one) else name)
        return "; ".join(f"{sort}: {', '.join(names)}" for sort, names in sorts.items() if names)

    def wanted(self, d: Data) -> list[str]:
        return ["A function; it is called on cases that you do not see."]

    def _outcomes(self, f: Callable[..., Any]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        cases = [_copied(args) for args in self.cases(random.Random("netcl"))]
        name = getattr(f, "__name__", "f")
        plain = [f"{shown(name, 40).strip(chr(39))}({', '.join(shown(arg, 80) for arg in args)})" for args in cases]
        told = plain if self.say is None else [self.say(*args) for args in cases]

        def run() -> None:
            for args, case in zip(cases, told, strict=True):
                outcomes.append(self._outcome(f, args, case))
                if outcomes[-1].told.startswith(_UNBUILT):  # no other case builds what the compiler refuses
                    outcomes.extend(outcomes[-1]._replace(case=other) for other in told[len(outcomes) :])
                    break

        try:
            with np.errstate(all="ignore"):
                limited(run, self.seconds)
        except LateError:
            outcomes += [Outcome(case, None, LateError.__name__) for case in told[len(outcomes) :]]
        return outcomes

    def _outcome(self, f: Callable[..., Any], args: tuple[Any, ...], case: str) -> Outcome:
        if self.tensors:
            args = tuple(Tensor.from_host(arg) if isinstance(arg, np.ndarray) else arg for arg in args)
        try:
            result = f(*args) if self.call is None else self.call(f, *args)
            return Outcome(case, _copied(result, to_host=True))
        except (Exception, SystemExit) as error:  # the student's own, and shown as such
            return Outcome(case, None, type(error).__name__, _told(error))


def _told(error: BaseException) -> str:
    """An exception in one line, with the line of the student's code that it came from."""
    try:
        text = str(error)
    except Exception:  # the text of a student's exception may fail as well
        text = ""
    if (refused := _refused(error, text)) is not None:
        return refused
    files = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    steps = [line for file, line in files if not file.startswith(_PACKAGE)]
    line = f" (line {steps[0]})" if steps else ""
    return shown(_Bare(f"{type(error).__name__}: {text}" if text else type(error).__name__), 300) + line + "."


def _refused(error: BaseException, text: str) -> str | None:
    """What the compiler said of a kernel, with the line of its source; drivers word it in their own ways."""
    if not isinstance(error, DeviceError) or "could not build a kernel" not in text:
        return None
    said = [line.strip() for line in text.splitlines() if "error: " in line]
    found = next(filter(None, (re.search(r":(\d+):\d+:\s*(.*)", line) for line in said)), None)
    if found is None:
        return f"{_UNBUILT} {shown(_Bare(said[0] if said else text), 300)}"
    line, what = int(found[1]), found[2].removeprefix("error: ")
    return f"{_UNBUILT} line {line} of its source: {shown(_Bare(what), 200)}."


class _Bare(str):
    def __repr__(self) -> str:
        return str(self)


def _is_stub(given: Any) -> bool:
    """Whether a function does nothing but return None, or one that is defined in it, or a method of a class."""
    if isinstance(given, type):
        return any(map(_is_stub, vars(given).values()))
    return isinstance(given, FunctionType) and _is_idle(given.__code__)


def _is_idle(code: CodeType) -> bool:
    inner = [const for const in code.co_consts if isinstance(const, CodeType) and const.co_name != "<lambda>"]
    idle = all(
        step.opname in _IDLE and (step.opname not in _CONSTANTS or step.argval in (None, ...))
        for step in dis.get_instructions(code)
    )
    return idle or any(map(_is_idle, inner))


def _copied(thing: Any, to_host: bool = False) -> Any:
    if to_host and isinstance(thing, Node | Tensor):
        return on_host(thing)
    if isinstance(thing, np.ndarray):
        return thing.copy()
    if type(thing) in (list, tuple, set):
        return type(thing)(_copied(item, to_host) for item in thing)
    if type(thing) is dict:
        return {key: _copied(item, to_host) for key, item in thing.items()}
    if isinstance(thing, Node | Tensor | FunctionType) or to_host:
        return thing
    try:
        return copy.deepcopy(thing)
    except Exception:  # made anew for each function in any case
        return thing


def _shape(found: Any) -> tuple[int, ...] | None:
    return np.shape(found) if _is_numeric(found) else None


def _has_nan(found: Any) -> bool:
    if not isinstance(found, list | tuple) and not _is_numeric(found):
        return False
    try:
        return bool(np.isnan(np.asarray(found, np.float64)).any())
    except Exception:  # a list of whatever the student's function returned
        return False


def alike(one: Any, other: Any, rtol: float, atol: float) -> bool:
    """Whether two results agree: numbers and arrays within the tolerance, sequences item by item, the rest exactly.

    Rows written as lists are as good as an array.

    >>> alike([1.0, "a"], (1.0 + 1e-9, "a"), 1e-6, 0.0), alike(True, 1, 0.0, 0.0)
    (True, False)
    >>> alike([[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]]), 1e-6, 0.0)
    True
    """
    if isinstance(one, bool | np.bool_) or isinstance(other, bool | np.bool_):
        return isinstance(one, bool | np.bool_) and isinstance(other, bool | np.bool_) and bool(one) == bool(other)
    if (_is_numeric(one) and _is_numeric(other)) or _array_and_rows(one, other) or _array_and_rows(other, one):
        return _numbers_alike(one, other, rtol, atol)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return False
        return all(alike(a, b, rtol, atol) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key], rtol, atol) for key in one)
    plain = (str, bytes, set, frozenset, type(None))
    return isinstance(one, plain) and isinstance(other, plain) and one == other


def _array_and_rows(one: Any, other: Any) -> bool:
    return isinstance(one, np.ndarray) and isinstance(other, list | tuple)


def _is_numeric(thing: Any) -> bool:
    return isinstance(thing, int | float | complex | np.ndarray | np.number)


def _numbers_alike(one: Any, other: Any, rtol: float, atol: float) -> bool:
    if type(one) is int and type(other) is int:
        return one == other or abs(one - other) <= atol  # of any size
    try:
        left, right = np.asarray(one), np.asarray(other)
        if left.shape != right.shape:
            return False
        if "O" in (left.dtype.kind, right.dtype.kind) or {left.dtype.kind, right.dtype.kind} & set("USV"):
            return bool(np.array_equal(left, right))
        return close(left, right, rtol, atol)
    except (OverflowError, TypeError, ValueError):
        return False
