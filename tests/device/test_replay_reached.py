"""ag.replay and all that a function may read beside its arguments: whatever changes, the number is the eager one."""

from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import math
import os
import random
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import nn
from netcl.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("on_device")

F = np.float32
Case = tuple[Callable[[], Any], Callable[[], Any]]
"""A function of no arguments, and what is done between its calls."""

mine: Any = types.ModuleType("mine")
mine.beta, mine.gamma = 2.0, {"deep": {"deeper": 1.0}}
mine.helper = lambda x: x * 2.0


def leaf(data: Any) -> ag.Node:
    return ag.tensor(np.asarray(data, F), requires_grad=True)


class Settings:
    beta = 1.0


CASES: dict[str, Callable[[ag.Node], Case]] = {}


def case(make: Callable[[ag.Node], Case]) -> Callable[[ag.Node], Case]:
    CASES[make.__name__] = make
    return make


def changing(holder: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(holder, name, value)


@case
def attribute_of_a_module(w: ag.Node) -> Case:
    mine.beta = 2.0
    return lambda: (w * mine.beta).sum(), changing(mine, "beta", 5.0)


@case
def dicts_in_a_module(w: ag.Node) -> Case:
    mine.gamma = {"deep": {"deeper": 1.0}}
    return lambda: (w * mine.gamma["deep"]["deeper"]).sum(), lambda: mine.gamma["deep"].update(deeper=4.0)


@case
def function_of_a_module(w: ag.Node) -> Case:
    mine.helper = lambda x: x * 2.0
    return lambda: mine.helper(w).sum(), changing(mine, "helper", lambda x: x * 3.0)


@case
def module_imported_within(w: ag.Node) -> Case:
    sys.modules["mine"] = mine
    mine.beta = 2.0

    def f() -> Any:
        from mine import beta  # type: ignore[import-not-found]

        return (w * beta).sum()

    return f, changing(mine, "beta", 5.0)


@case
def function_of_a_library(w: ag.Node) -> Case:
    fake = types.ModuleType("numpy")  # stands for a library
    fake.scale = math.sqrt  # type: ignore[attr-defined]
    return lambda: (w * fake.scale(4.0)).sum(), changing(fake, "scale", math.exp)


@case
def class_attribute(w: ag.Node) -> Case:
    class Config:
        beta = 2.0

    return lambda: (w * Config.beta).sum(), changing(Config, "beta", 5.0)


@case
def class_attribute_through_an_object(w: ag.Node) -> Case:
    class Config:
        beta = 2.0

    class Special(Config):
        pass

    config = Special()
    return lambda: (w * config.beta).sum(), changing(Config, "beta", 5.0)


@case
def attribute_that_hides_one_of_the_class(w: ag.Node) -> Case:
    class Config:
        beta = 2.0

    config = Config()
    return lambda: (w * config.beta).sum(), changing(config, "beta", 5.0)


@case
def attribute_that_is_deleted(w: ag.Node) -> Case:
    class Config:
        beta = 2.0

    config = Config()
    config.beta = 5.0
    return lambda: (w * config.beta).sum(), lambda: delattr(config, "beta")


@case
def mutable_class_attribute(w: ag.Node) -> Case:
    class Config:
        betas: ClassVar[dict[str, float]] = {"a": 2.0}

    return lambda: (w * Config.betas["a"]).sum(), lambda: Config.betas.update(a=5.0)


@case
def attributes_replaced_as_a_whole(w: ag.Node) -> Case:
    config = types.SimpleNamespace(beta=2.0)
    return lambda: (w * config.beta).sum(), lambda: vars(config).update(beta=5.0)


@case
def property_of_an_object(w: ag.Node) -> Case:
    class Config:
        @property
        def beta(self) -> float:
            return mine.beta

    mine.beta = 2.0
    config = Config()
    return lambda: (w * config.beta).sum(), changing(mine, "beta", 5.0)


@case
def static_and_class_methods(w: ag.Node) -> Case:
    class Config:
        @staticmethod
        def beta() -> float:
            return mine.beta

        @classmethod
        def twice(cls) -> float:
            return cls.beta() * 2

    mine.beta = 2.0
    return lambda: (w * Config.twice()).sum(), changing(mine, "beta", 5.0)


@case
def slots(w: ag.Node) -> Case:
    class Config:
        __slots__ = ("beta",)

        def __init__(self) -> None:
            self.beta = 2.0

    config = Config()
    return lambda: (w * config.beta).sum(), changing(config, "beta", 5.0)


@case
def dataclass_with_slots(w: ag.Node) -> Case:
    @dataclasses.dataclass(slots=True)
    class Config:
        beta: float = 2.0

    config = Config()
    return lambda: (w * config.beta).sum(), changing(config, "beta", 5.0)


@case
def enumeration(w: ag.Node) -> Case:
    class Mode(enum.Enum):
        LOW = 2.0
        HIGH = 5.0

    state = {"mode": Mode.LOW}
    return lambda: (w * state["mode"].value).sum(), lambda: state.update(mode=Mode.HIGH)


@case
def attribute_of_a_function(w: ag.Node) -> Case:
    def f() -> Any:
        return (w * f.beta).sum()  # type: ignore[attr-defined]

    f.beta = 2.0  # type: ignore[attr-defined]
    return f, changing(f, "beta", 5.0)


@case
def default_argument(w: ag.Node) -> Case:
    def inner(beta: float = 2.0, *, gamma: float = 1.0) -> Any:
        return (w * beta * gamma).sum()

    return lambda: inner(), changing(inner, "__defaults__", (5.0,))


@case
def keyword_only_default(w: ag.Node) -> Case:
    def inner(*, gamma: float = 1.0) -> Any:
        return (w * gamma).sum()

    return lambda: inner(), changing(inner, "__kwdefaults__", {"gamma": 5.0})


@case
def mutable_default(w: ag.Node) -> Case:
    betas = [2.0]

    def inner(betas: list[float] = betas) -> Any:
        return (w * betas[0]).sum()

    return inner, lambda: betas.insert(0, 5.0)


@case
def code_replaced_in_place(w: ag.Node) -> Case:  # as IPython's autoreload does
    def inner(x: Any) -> Any:
        return x * 2.0

    return lambda: inner(w).sum(), changing(inner, "__code__", (lambda x: x * 5.0).__code__)


@case
def long_list(w: ag.Node) -> Case:
    betas = [2.0] * 5000
    return lambda: (w * betas[4000]).sum(), lambda: betas.__setitem__(4000, 5.0)


@case
def numpy_array_changed_in_place(w: ag.Node) -> Case:
    betas = np.array([[1.0, 2.0]])
    return lambda: (w * float(betas[0, 1])).sum(), lambda: betas.__setitem__((0, 1), 5.0)


@case
def numpy_view_changed_in_place(w: ag.Node) -> Case:
    base = np.arange(20.0)
    betas = base[::3]
    return lambda: (w * float(betas[2])).sum(), lambda: base.__setitem__(6, 50.0)


@case
def numpy_masked(w: ag.Node) -> Case:
    betas = np.ma.masked_array([1.0, 2.0], [False, True])
    return lambda: (w * float(betas.filled(7.0)[1])).sum(), lambda: np.ma.getmaskarray(betas).__setitem__(1, False)


@case
def numpy_dates(w: ag.Node) -> Case:
    days = np.array(["2020-01-02", "2020-01-05"], "M8[D]")
    return lambda: (w * float((days[1] - days[0]).astype(int))).sum(), lambda: days.__setitem__(1, days[0])


@case
def numpy_shape_in_place(w: ag.Node) -> Case:
    betas = np.zeros((2, 3))
    return lambda: (w * float(betas.shape[0])).sum(), changing(betas, "shape", (3, 2))


@case
def numpy_of_no_axes(w: ag.Node) -> Case:
    beta = np.array(2.0)
    return lambda: (w * float(beta)).sum(), lambda: beta.__setitem__((), 5.0)


@case
def numpy_objects(w: ag.Node) -> Case:
    betas = np.array([2.0, "a", None], object)
    return lambda: (w * betas[0]).sum(), lambda: betas.__setitem__(0, 5.0)


@case
def double_ended_queue(w: ag.Node) -> Case:
    betas = collections.deque([2.0, 3.0])
    return lambda: (w * betas[0]).sum(), lambda: betas.rotate(1)


@case
def arrays_of_python(w: ag.Node) -> Case:
    betas = array.array("d", [2.0])
    return lambda: (w * betas[0]).sum(), lambda: betas.__setitem__(0, 5.0)


@case
def counter_and_chain(w: ag.Node) -> Case:
    counter = collections.Counter("aab")
    chain = collections.ChainMap({}, counter)
    return lambda: (w * float(chain["a"])).sum(), lambda: counter.update("aa")


@case
def dict_emptied_and_filled(w: ag.Node) -> Case:
    options = {"relu": True}
    return (
        lambda: (ag.tanh(w) if options.get("relu") else w).sum(),
        lambda: [options.clear(), options.update(tanh=True)],
    )


@case
def read_only_view_of_a_dict(w: ag.Node) -> Case:
    options = {"beta": 2.0}
    view = types.MappingProxyType(options)
    return lambda: (w * view["beta"]).sum(), lambda: options.update(beta=5.0)


@case
def dict_of_a_class_of_its_own(w: ag.Node) -> Case:
    class Options(dict):  # type: ignore[type-arg]
        beta = 1.0

    options = Options(x=2.0)
    options.beta = 2.0
    return lambda: (w * options.beta * options["x"]).sum(), changing(options, "beta", 5.0)


@case
def bound_method_of_a_list(w: ag.Node) -> Case:
    betas = [2.0]
    get = betas.__getitem__
    return lambda: (w * get(0)).sum(), lambda: betas.insert(0, 5.0)


@case
def partial_of_a_callable_object(w: ag.Node) -> Case:
    class Loss:
        def __init__(self) -> None:
            self.beta = 2.0

        def __call__(self, x: Any, power: int) -> Any:
            return (x**power * self.beta).sum()

    loss = Loss()
    return functools.partial(loss, w, power=2), changing(loss, "beta", 5.0)


@case
def method_replaced_in_a_class(w: ag.Node) -> Case:
    class Loss:
        def of(self, x: Any) -> Any:
            return x * 2.0

    loss = Loss()
    return lambda: loss.of(w).sum(), changing(Loss, "of", lambda self, x: x * 5.0)


@case
def method_replaced_in_an_object(w: ag.Node) -> Case:
    net = nn.Tanh()
    return lambda: net(w).sum(), changing(net, "forward", lambda x: x * 5.0)


@case
def class_replaced(w: ag.Node) -> Case:
    class Low:
        beta = 2.0

    class High:
        beta = 5.0

    config = Low()
    return lambda: (w * config.beta).sum(), changing(config, "__class__", High)


@case
def weak_reference(w: ag.Node) -> Case:
    config = Settings()
    config.beta = 2.0
    ref = weakref.ref(config)
    return lambda: (w * ref().beta).sum(), changing(config, "beta", 5.0)  # type: ignore[union-attr]


@case
def context_variable(w: ag.Node) -> Case:
    beta = contextvars.ContextVar("beta", default=2.0)
    return lambda: (w * beta.get()).sum(), lambda: beta.set(5.0)


@case
def thread_local(w: ag.Node) -> Case:
    local = threading.local()
    local.beta = 2.0
    return lambda: (w * local.beta).sum(), changing(local, "beta", 5.0)


@case
def environment(w: ag.Node) -> Case:
    os.environ["NETCL_TEST_BETA"] = "2"
    return (
        lambda: (w * float(os.environ["NETCL_TEST_BETA"])).sum(),
        lambda: os.environ.update(NETCL_TEST_BETA="5"),
    )


@case
def decorated_function(w: ag.Node) -> Case:
    def doubling(f: Any) -> Any:
        @functools.wraps(f)
        def run(*args: Any) -> Any:
            return f(*args) * 2.0

        return run

    @doubling
    @functools.lru_cache
    def beta() -> float:
        return 2.0

    state = [1.0]
    return lambda: (w * beta() * state[0]).sum(), lambda: state.__setitem__(0, 5.0)


@case
def function_with_the_name_of_a_librarys(w: ag.Node) -> Case:
    state = [2.0]

    @functools.wraps(ag.cross_entropy)
    def f() -> Any:
        return (w * mine.beta).sum() * state[0]

    mine.beta = 2.0
    return f, changing(mine, "beta", 5.0)


@case
def fused_and_checkpointed(w: ag.Node) -> Case:
    state = {"beta": 2.0}
    inner = ag.checkpoint(ag.fuse(lambda x: ag.tanh(x * state["beta"])))
    return lambda: inner(w).sum(), lambda: state.update(beta=5.0)


@case
def tensor_replaced(w: ag.Node) -> Case:
    state = [ag.tensor([1.0, 2.0, 3.0])]
    return lambda: (w * state[0]).sum(), lambda: state.__setitem__(0, ag.tensor([3.0, 2.0, 1.0]))


@case
def node_replaced_by_one_of_another_shape(w: ag.Node) -> Case:
    state = [leaf([1, 2, 3])]
    return lambda: (w * state[0]).sum(), lambda: state.__setitem__(0, leaf([4]))


@case
def another_shape_of_a_parameter(w: ag.Node) -> Case:
    other = leaf([1, 2, 3])
    return lambda: (w * other).sum(), changing(other, "value", ag.tensor([4.0]))


@case
def sign_of_zero(w: ag.Node) -> Case:
    state = [0.0]
    return lambda: (1.0 / (w * state[0])).sum(), lambda: state.__setitem__(0, -0.0)


@pytest.mark.parametrize("name", CASES)
def test_the_number_is_never_that_of_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setenv("NETCL_TEST_BETA", "2")
    w = leaf([1, 2, 3])
    f, change = CASES[name](w)
    step = ag.replay(f)

    def now(run: Callable[[], Any]) -> tuple[Any, Any]:
        w.zero_grad()
        loss = run()
        assert w.grad is not None
        return loss.to_host().tobytes(), w.grad.to_host().tobytes()

    def eager() -> Any:
        loss = f()
        loss.backward()
        return loss

    first = [now(step) for _ in range(3)]
    assert first == [now(eager)] * 3
    assert step.counts["replayed"] >= 1
    change()
    second = [now(step) for _ in range(3)]
    assert second == [now(eager)] * 3
    assert second[0] != first[0]
    assert step.counts["captured"] >= 2


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
