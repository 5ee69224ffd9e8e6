"""Optimisers: step by step against their published rules in NumPy, and against PyTorch where it is installed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import optim
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng
STEPS = 12


def start(device: Device) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return where a parameter starts, and a gradient for every step."""
    dtype = np.float64 if device.has_fp64 else np.float32
    rng = RNG(0)
    return rng.normal(size=(3, 2)).astype(dtype), [rng.normal(size=(3, 2)).astype(dtype) for _ in range(STEPS)]


def run(make: Callable[[list[Any]], optim.Optimizer], device: Device) -> list[np.ndarray]:
    """Return the parameter after every step."""
    x0, gradients = start(device)
    x = ag.tensor(x0, requires_grad=True, device=device)
    optimizer = make([x])
    path = []
    for g in gradients:
        optimizer.zero_grad()
        (x * g).sum().backward()  # a loss whose gradient is g
        optimizer.step()
        path.append(x.to_host())
    return path


def sgd(momentum: float = 0, nesterov: bool = False, weight_decay: float = 0) -> Callable[[np.ndarray, list], list]:
    def path(x: np.ndarray, gradients: list[np.ndarray]) -> list[np.ndarray]:
        v, points = np.zeros_like(x), []
        for g in gradients:
            d = g + weight_decay * x
            v = momentum * v + d
            x = x - 0.1 * (d + momentum * v if nesterov else v)
            points.append(x)
        return points

    return path


def adam(l2: float = 0, decoupled: float = 0) -> Callable[[np.ndarray, list], list]:
    def path(x: np.ndarray, gradients: list[np.ndarray]) -> list[np.ndarray]:
        m, v, points = np.zeros_like(x), np.zeros_like(x), []
        for t, raw in enumerate(gradients, 1):
            g = raw + l2 * x
            x = x - 0.1 * decoupled * x
            m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
            x = x - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-6)
            points.append(x)
        return points

    return path


ADAM = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}
RULES: list[tuple[str, dict[str, Any], Callable[[np.ndarray, list], list]]] = [
    ("SGD", {"lr": 0.1}, sgd()),
    ("SGD", {"lr": 0.1, "weight_decay": 0.3}, sgd(weight_decay=0.3)),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, sgd(0.9)),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.3}, sgd(0.9, True, 0.3)),
    ("Adam", ADAM, adam()),
    ("Adam", {**ADAM, "weight_decay": 0.3}, adam(l2=0.3)),
    ("AdamW", {**ADAM, "weight_decay": 0.3}, adam(decoupled=0.3)),
]


@pytest.mark.parametrize(("name", "options", "rule"), RULES, ids=[f"{name}-{len(o)}" for name, o, _ in RULES])
def test_steps_are_the_published_ones(device: Device, name: str, options: dict[str, Any], rule: Any) -> None:
    path = run(lambda xs: getattr(optim, name)(xs, **options), device)
    np.testing.assert_allclose(path, rule(*start(device)), rtol=1e-12 if device.has_fp64 else 1e-4)


@pytest.mark.parametrize(("name", "options", "rule"), RULES, ids=[f"{name}-{len(o)}" for name, o, _ in RULES])
def test_steps_are_pytorch_s(device: Device, name: str, options: dict[str, Any], rule: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'netcl[oracle]'")
    x0, gradients = start(device)
    x = torch.tensor(x0, requires_grad=True)
    optimizer = getattr(torch.optim, name)([x], **options)
    expected = []
    for g in gradients:
        x.grad = torch.tensor(g)
        optimizer.step()
        expected.append(x.detach().numpy().copy())
    path = run(lambda xs: getattr(optim, name)(xs, **options), device)
    np.testing.assert_allclose(path, expected, rtol=1e-11 if device.has_fp64 else 1e-4)


def test_adamw_decays_by_default_as_pytorch_s_does(device: Device) -> None:
    x = ag.tensor([1.0], requires_grad=True, device=device)
    assert optim.AdamW([x]).weight_decay == 0.01 and optim.Adam([x]).weight_decay == 0


def test_a_step_leaves_graphs_gradients_and_old_values_alone(device: Device) -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True, device=device)
    old = x.value
    loss = (x * x).sum()
    loss.backward()
    kept = x.grad
    optim.SGD([x], lr=0.5).step()
    assert x.to_host().tolist() == [0, 0] and old.to_host().tolist() == [1, 2] and kept.to_host().tolist() == [2, 4]
    x.zero_grad()
    loss.backward()
    assert x.grad.to_host().tolist() == [2, 4]  # of the value that the loss was computed from


def test_a_parameter_without_a_gradient_stays_and_starts_late(device: Device) -> None:
    x, y = (ag.tensor([1.0], requires_grad=True, device=device) for _ in range(2))
    optimizer = optim.Adam([x, y], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
    assert y.to_host().tolist() == [1] and optimizer.counts == [3, 0] and optimizer.steps == 3
    y.sum().backward()
    optimizer.step()
    assert np.isclose(y.to_host()[0], 0.9, rtol=1e-6)  # its own first step, whose size is lr


def test_a_parameter_given_twice_moves_once(device: Device) -> None:
    x = ag.tensor([1.0], requires_grad=True, device=device)
    x.sum().backward()
    optim.SGD([x, x], lr=0.25).step()
    assert x.to_host().tolist() == [0.75]


def test_a_gradient_that_is_a_node_serves_as_well(device: Device) -> None:
    x = ag.tensor([3.0], requires_grad=True, device=device)
    with ag.Tape() as tape:
        loss = (x * x).sum()
    tape.backward(loss, create_graph=True)
    assert isinstance(x.grad, ag.Node)
    optim.SGD([x], lr=0.5).step()
    assert x.to_host().tolist() == [0]
    tape.release()
    x.zero_grad()


def test_a_gradient_that_is_no_tensor_is_refused(device: Device) -> None:
    parameter = ag.tensor([1.0, 2.0], requires_grad=True, device=device)
    gradient: Any = np.ones(2, np.float32)
    parameter.grad = gradient
    with pytest.raises(DTypeError, match=r"gradient of a parameter is a Tensor, not ndarray: ag.tensor"):
        optim.SGD([parameter], lr=0.5).step()
    assert parameter.to_host().tolist() == [1, 2]


@pytest.mark.parametrize(
    "error, said, wrong",
    [
        (DTypeError, "not list", lambda device: [1.0, 1.0, 1.0]),
        (ShapeError, r"shape \(5,\), its parameter \(3,\)", lambda device: nc.ones(5, device=device)),
        (ShapeError, r"shape \(1,\), its parameter \(3,\)", lambda device: nc.ones(1, device=device)),
    ],
)
def test_a_step_that_is_refused_moves_nothing(device: Device, error: Any, said: str, wrong: Any) -> None:
    parameters: list[Any] = [ag.tensor(np.ones(n, np.float32), requires_grad=True, device=device) for n in (2, 5000, 3)]
    optimizer = optim.SGD(parameters, lr=0.5, momentum=0.9)
    for parameter in parameters:
        parameter.grad = nc.ones(parameter.shape, device=device)
    parameters[2].grad = wrong(device)
    with pytest.raises(error, match=said):
        optimizer.step()
    assert optimizer.steps == 0 and optimizer.counts == [0, 0, 0]
    assert all((each.to_host() == 1).all() for each in parameters)
    parameters[2].grad = nc.ones(3, device=device)
    optimizer.step()
    assert optimizer.steps == 1 and optimizer.counts == [1, 1, 1]
    assert all((each.to_host() == 0.5).all() for each in parameters)


@pytest.mark.parametrize("states", [0, 9, 40])
def test_an_optimiser_of_ones_own_with_many_states_moves_many_parameters(device: Device, states: int) -> None:
    names = tuple(f"s{i}" for i in range(states))

    class Own(optim.Optimizer):
        state_names = names

        def rule(self) -> dict[str, str]:
            return {"x": "x - lr * g", **{name: f"{name} + {i} * g" for i, name in enumerate(names)}}

        def numbers(self, lr: float, t: int) -> dict[str, float]:
            return {"lr": lr}

    arrays = [np.arange(i % 4, dtype=np.float32) + i for i in range(11)]
    parameters = [ag.tensor(array, requires_grad=True, device=device) for array in arrays]
    optimizer = Own(parameters, lr=0.5)
    for parameter, array in zip(parameters, arrays, strict=True):
        parameter.grad = ag.tensor(array, device=device)
    optimizer.step()
    for parameter, state, array in zip(parameters, optimizer.state, arrays, strict=True):
        np.testing.assert_array_equal(parameter.to_host(), array / 2)
        for i, name in enumerate(names):
            np.testing.assert_array_equal(state[name].to_host(), i * array)


@pytest.mark.parametrize(("name", "options", "rule"), RULES, ids=[f"{name}-{len(o)}" for name, o, _ in RULES])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(
    device: Device, name: str, options: dict[str, Any], rule: Any
) -> None:
    x0, gradients = start(device)
    x = ag.tensor(x0, requires_grad=True, device=device)
    optimizer = getattr(optim, name)([x], **options)
    for i, g in enumerate(gradients):
        if i == STEPS // 2:  # as after a restart
            state = optimizer.state_dict()
            assert all(isinstance(array, np.ndarray) for array in state.values())
            optimizer = getattr(optim, name)([x], **options)
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        (x * g).sum().backward()
        optimizer.step()
    assert (x.to_host() == run(lambda xs: getattr(optim, name)(xs, **options), device)[-1]).all()


def test_a_state_that_does_not_fit_is_refused_whole(device: Device) -> None:
    x = ag.tensor(np.ones((2, 3), np.float32), requires_grad=True, device=device)
    optimizer = optim.Adam([x])
    state = optimizer.state_dict()
    with pytest.raises(ArgumentError, match=r"missing or too much is mean\.0, momentum\.0, square\.0"):
        optim.SGD([x], lr=1, momentum=0.5).load_state_dict(state)
    with pytest.raises(ShapeError, match=r"parameter 0 has shape \(2, 3\), and square\.0 has \(3,\)"):
        optimizer.load_state_dict({**state, "steps": np.array(9), "square.0": np.ones(3)})
    assert optimizer.steps == 0


def test_a_learning_rate_may_be_a_schedule(device: Device) -> None:
    x = ag.tensor([0.0], requires_grad=True, device=device)
    optimizer = optim.SGD([x], lr=optim.step_decay(1.0, every=2, factor=0.5))
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        x.sum().backward()
        seen.append(optimizer.lr)
        optimizer.step()
    assert seen == [1, 1, 0.5, 0.5] and x.to_host().tolist() == [-3]


def test_schedules() -> None:
    rate = optim.cosine(2.0, 10, final=1.0)
    assert [rate(0), rate(5), rate(10), rate(99)] == pytest.approx([2, 1.5, 1, 1])
    assert rate(2) == pytest.approx(1 + (1 + math.cos(0.2 * math.pi)) / 2)
    both = optim.warmup(rate, 4)
    assert [both(t) for t in range(4)] == pytest.approx([0.4, 0.8, 1.2, 1.6])
    assert [both(4), both(14)] == [2, 1]
    assert optim.warmup(0.5, 0)(0) == 0.5
    for wrong in (lambda: optim.cosine(1, 0), lambda: optim.step_decay(1, 0), lambda: optim.warmup(1, -1)):
        with pytest.raises(ArgumentError, match="is at least"):
            wrong()


def test_what_cannot_be_optimised_is_refused(device: Device) -> None:
    x = ag.tensor([1.0], requires_grad=True, device=device)
    with pytest.raises(ArgumentError, match="leaves that require grad"):
        optim.SGD([x * 2.0], lr=1)
    with pytest.raises(ArgumentError, match="leaves that require grad, not <Tensor"):
        optim.SGD([x.value], lr=1)  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="at least one parameter"):
        optim.SGD([], lr=1)
    wrong: list[dict[str, Any]] = [
        {"lr": -1},
        {"lr": math.nan},
        {"lr": 1, "weight_decay": -1},
        {"lr": 1, "momentum": 1.0},
        {"lr": 1, "nesterov": True},
    ]
    for options in wrong:
        with pytest.raises(ArgumentError, match="SGD"):
            optim.SGD([x], **options)
    with pytest.raises(ArgumentError, match="AdamW: betas"):
        optim.AdamW([x], betas=(0.9, 1.0))
