"""ag.replay and what things hold that a function reads: whatever changes, the number is the eager one."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import nn

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
    return lambda: (w * float(betas.shape[0])).sum(), lambda: betas.resize((3, 2), refcheck=False)


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
def memory_views(w: ag.Node) -> Case:
    content = bytearray([1, 2])
    view = memoryview(content)[::-1]
    return lambda: (w * float(view[0])).sum(), lambda: content.__setitem__(1, 5)


@case
def numbers_of_c(w: ag.Node) -> Case:
    beta = ctypes.c_double(2.0)
    return lambda: (w * beta.value).sum(), changing(beta, "value", 5.0)


@case
def array_of_c(w: ag.Node) -> Case:
    betas = (ctypes.c_int * 3)(1, 2, 3)
    return lambda: (w * float(betas[1])).sum(), lambda: betas.__setitem__(1, 5)


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
def gradient_within(w: ag.Node) -> Case:
    state = {"beta": 2.0}
    slope = ag.grad(lambda x: (x**3 * state["beta"]).sum())
    return lambda: (slope(w) * 2.0).sum(), lambda: state.update(beta=5.0)


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
def test_the_number_is_never_that_of_before(
    name: str, monkeypatch: pytest.MonkeyPatch, never_stale: Callable[..., None]
) -> None:
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setenv("NETCL_TEST_BETA", "2")
    w = leaf([1, 2, 3])
    never_stale(w, *CASES[name](w))
