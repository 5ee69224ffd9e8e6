"""ag.replay and what it cannot look up again: it says so. And names, arguments and modules of all kinds."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("on_device")

F = np.float32


def leaf(data: Any) -> ag.Node:
    return ag.tensor(np.asarray(data, F), requires_grad=True)


beta_of_later: float


def test_names_that_come_to_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    w = leaf([1, 2])

    def f() -> Any:
        try:
            return (w * beta_of_later).sum()
        except NameError:
            return w.sum() * abs(-1.0)

    step = ag.replay(f)
    assert [step().item(), step().item()] == [3, 3]
    monkeypatch.setitem(globals(), "abs", lambda x: 7.0)  # it hides Python's own
    assert [step().item(), step().item()] == [21, 21]
    monkeypatch.setitem(globals(), "beta_of_later", 2.0)
    assert [step().item(), step().item()] == [6, 6]
    assert step.counts == {"captured": 3, "replayed": 3}


def test_modules_that_f_is_the_first_to_import(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "netcl_test_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text(
        "beta = 2.0\ndef __getattr__(name):\n    return beta if name == 'late' else 0\n"
    )
    (package / "loss.py").write_text(
        "w = None\n"
        "def relative():\n    from .settings import beta\n    return (w * beta).sum()\n"
        "def absolute():\n    import netcl_test_package.settings as s\n    return (w * s.late).sum()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("relative", "absolute"):
        for each in [each for each in sys.modules if each.startswith("netcl_test_package")]:
            monkeypatch.delitem(sys.modules, each)
        loss = importlib.import_module("netcl_test_package.loss")
        loss.w = leaf([1, 2])  # type: ignore[attr-defined]
        step = ag.replay(getattr(loss, name))
        assert [step().item() for _ in range(3)] == [6, 6, 6]
        assert step.counts == {"captured": 2, "replayed": 1}
        sys.modules["netcl_test_package.settings"].beta = 5.0  # type: ignore[attr-defined]
        assert [step().item() for _ in range(3)] == [15, 15, 15]
        assert step.counts == {"captured": 3, "replayed": 3}


def test_names_of_attributes_are_no_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda: (w * 2.0).sum())
    monkeypatch.setitem(globals(), "sum", 0)  # as a notebook's `loss = step(x)` beside `net.loss(x)`
    step()
    for k in range(3):
        monkeypatch.setitem(globals(), "sum", k)
        step()
    assert step.counts == {"captured": 1, "replayed": 3}


@pytest.mark.parametrize(
    "draw",
    [
        random.random,
        lambda: float(np.random.rand()),  # noqa: NPY002
        random.Random(0).random,
        np.random.default_rng(0).normal,
    ],
    ids=["random", "numpy.random", "Random", "Generator"],
)
def test_random_numbers_of_python_and_numpy_are_refused(draw: Callable[[], float]) -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda: (w * draw()).sum())
    for _ in range(2):
        with pytest.raises(ArgumentError, match="draws random numbers"):
            step()
    assert w.grad is None


def test_what_comes_from_where_nobody_can_look_is_not_replayed() -> None:
    w = leaf([1, 2])
    numbers = iter(range(1, 10))
    step = ag.replay(lambda: (w * float(next(numbers))).sum())
    with pytest.warns(UserWarning, match="since it reaches an iterator, range_iterator"):
        assert [step().item() for _ in range(9)] == [3 * k for k in range(1, 10)]

    class Hidden:
        """An object that shows nothing of what it holds."""

        __slots__ = ()
        held: ClassVar[Any] = None

        def __class_getitem__(cls, key: Any) -> Any:
            return _HIDDEN[key]

    for tensor in (ag.tensor([1.0, 2.0]), leaf([1, 2])):
        w.zero_grad()
        _hide(tensor)
        with pytest.raises(ArgumentError, match="takes a tensor from where it cannot be looked up again"):
            ag.replay(lambda: (w * Hidden[0]).sum())()
        assert w.grad is None
    (w * w).sum().backward()
    with pytest.raises(ArgumentError, match="a gradient, an iterator"):
        ag.replay(lambda: (w * w.grad).sum())()
    assert w.grad is not None and w.grad.to_host().tolist() == [2, 4]


class _Hiding(dict):  # type: ignore[type-arg]
    """A dict whose entries are elsewhere: what `ag.replay` cannot see at all."""

    def __missing__(self, key: int) -> Any:
        return eval("_hidden", globals())


_HIDDEN = _Hiding()
_hidden: Any = None


def _hide(x: Any) -> None:
    globals()["_hidden"] = x


def test_a_leaf_made_within_is_refused() -> None:
    w = leaf([1, 2])
    step = ag.replay(lambda x: (ag.Node(x, requires_grad=True) * w).sum())
    with pytest.raises(ArgumentError, match="a node of its own"):
        step(ag.tensor([1.0, 2.0]))
    assert w.grad is None


def test_work_of_another_thread_is_refused() -> None:
    w, x = leaf([1, 2]), ag.tensor([1.0, 1.0])

    def f() -> Any:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(x * 2.0))
        thread.start()
        thread.join()
        return (w * found[0]).sum()

    with pytest.raises(ArgumentError, match="another thread"):
        ag.replay(f)()


def test_objects_that_are_equal_are_not_the_same() -> None:
    @dataclasses.dataclass(frozen=True)
    class Scale:
        name: str
        k: float = dataclasses.field(compare=False)

    w = leaf([1, 2])
    step = ag.replay(lambda scale: (w * scale.k).sum())
    scales = [Scale("a", 2.0), Scale("a", 5.0)]
    for scale in (*scales, *scales):
        assert step(scale).item() == 3 * scale.k
    assert step.counts == {"captured": 2, "replayed": 2}

    @dataclasses.dataclass
    class Loose:  # which has no hash
        k: float

    loose = Loose(2.0)
    assert [step(loose).item(), step(loose).item()] == [6, 6]
    loose.k = 5.0
    assert step(loose).item() == 15


def test_arguments_come_as_they_are() -> None:
    class Mode(enum.IntEnum):
        TWICE = 2

    w = leaf([1, 2])
    names = ag.replay(lambda mode: (w * float(len(mode.name))).sum())
    assert [names(Mode.TWICE).item(), names(Mode.TWICE).item()] == [15, 15]
    third = ag.replay(lambda k: (w * (k * 3)).sum())
    for k in (F(0.1), 0.1, F(0.1)):
        assert third(k).item() == (w * (k * 3)).sum().item()
    part = ag.replay(lambda rows: w[rows].sum())
    for rows, expected in ((slice(0, 1), 1), (slice(1, 2), 2), (slice(0, 1), 1), (slice(None), 3)):
        assert part(rows).item() == expected
    assert (third.counts, part.counts["replayed"]) == ({"captured": 2, "replayed": 1}, 1)


def test_a_kernel_of_ones_own_is_noted_once() -> None:
    w = leaf([1, 2])
    double = nc.kernel("kernel void double_it(global float* out, global const float* a) {"
                       "const int i = get_global_id(0); out[i] = 2 * a[i]; }")  # fmt: skip
    step = ag.replay(
        lambda: ag.apply_op(lambda v: double(v, out=v.shape), lambda g: [g * 2.0], w, op_name="double").sum()
    )
    assert [step().item() for _ in range(3)] == [6, 6, 6]
    assert step.counts == {"captured": 1, "replayed": 2}  # what it learns at its first launch is no change
