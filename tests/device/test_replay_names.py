"""ag.replay and the names that a function looks up: whatever they stand for later, the number is the eager one."""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from netcl import autograd as ag

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


@pytest.mark.parametrize("name", CASES)
def test_the_number_is_never_that_of_before(
    name: str, monkeypatch: pytest.MonkeyPatch, never_stale: Callable[..., None]
) -> None:
    monkeypatch.setitem(sys.modules, "mine", mine)
    monkeypatch.setenv("NETCL_TEST_BETA", "2")
    w = leaf([1, 2, 3])
    never_stale(w, *CASES[name](w))
