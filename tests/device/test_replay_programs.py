"""Random programs: what ag.replay gives is what eager code gives, bit by bit, call after call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netcl import autograd as ag
from netcl import nn, optim
from netcl.autograd.scope import scope
from netcl.ops import OPS, Row

pytestmark = pytest.mark.usefixtures("on_device")

ROWS = [name for name, row in OPS.items() if isinstance(row, Row) and not row.returns_bool and len(row.args) <= 2]
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (0, 3), (2, 3), (4, 1), (2, 1, 3), (2, 4, 3)]
DTYPES = [np.float32, np.float64]


def _rolled(x: Any) -> Any:
    return ag.concatenate([x[1:], x[:1]], 0)


def _first_rows(x: Any) -> Any:
    return x[:, :2] if x.ndim > 1 else x[::-1]


STRUCTURAL: dict[str, Callable[[Any, Any], Any]] = {
    "T": lambda x, w: x.T,
    "flat": lambda x, w: x.reshape(-1),
    "sum": lambda x, w: x.sum(0, keepdims=True) if x.ndim else x.sum(),
    "mean": lambda x, w: x.mean(-1) if x.ndim and x.size else x.sum(),
    "slice": lambda x, w: x[::2] if x.ndim else x,
    "columns": lambda x, w: _first_rows(x) if x.ndim else x,
    "newaxis": lambda x, w: x[None] if x.ndim < 3 else x,
    "rolled": lambda x, w: _rolled(x) if x.ndim and x.shape[0] > 1 else x,
    "cumsum": lambda x, w: ag.cumsum(x, 0) if x.ndim else x,
    "where": lambda x, w: ag.where(x > 0.1, x, x * 0.5),
    "softmax": lambda x, w: ag.softmax(x, -1) if x.ndim and x.size else x,
    "logsumexp": lambda x, w: ag.logsumexp(x, -1) if x.ndim and x.size else x,
    "product": lambda x, w: x @ w if x.ndim >= 2 and x.shape[-1] == w.shape[0] else x,
    "einsum": lambda x, w: ag.einsum("ij,jk->ki", x, w) if x.ndim == 2 and x.shape[-1] == w.shape[0] else x,
    "outer": lambda x, w: x.reshape(-1)[:6].reshape(-1, 1) * w[0],
    "fused": lambda x, w: ag.fuse(lambda v: ag.tanh(v * 0.5) + v)(x),
    "again": lambda x, w: ag.checkpoint(lambda v: ag.sigmoid(v) * v)(x),
    "detached": lambda x, w: x * (x.detach() if isinstance(x, ag.Node) else x),
    "blind": lambda x, w: x + _blind(w),
    "conv": lambda x, w: ag.conv2d(x[:, None], ag.reshape(w, (1, 1, 3, 3)), padding=1)[:, 0]
    if x.ndim == 3 and x.size else x,
    "twice": lambda x, w: x + x,
    "named": lambda x, w: _scoped(x),
}  # fmt: skip


def _blind(w: Any) -> Any:
    with ag.no_grad():
        return (w * 2.0).sum()


def _scoped(x: Any) -> Any:
    with scope("part"):
        return ag.exp(x * 0.01)


class Step(NamedTuple):
    name: str
    operand: int  # which earlier value
    other: int  # which value a row of two takes beside it, or a number


class Program(NamedTuple):
    shape: tuple[int, ...]
    dtype: Any
    steps: list[Step]
    optimizer: int
    weighted: bool  # whether what f returns holds every value, beside the loss


def programs() -> st.SearchStrategy[Program]:
    step = st.builds(
        Step, st.sampled_from(ROWS) | st.sampled_from(list(STRUCTURAL)), st.integers(0, 20), st.integers(0, 20)
    )
    return st.builds(
        Program, st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.lists(step, min_size=1, max_size=8),
        st.integers(0, len(OPTIMIZERS) - 1), st.booleans(),
    )  # fmt: skip


OPTIMIZERS: list[Callable[[Any], optim.Optimizer]] = [
    lambda ps: optim.SGD(ps, 0.1),
    lambda ps: optim.SGD(ps, 0.1, momentum=0.9),
    lambda ps: optim.Adam(ps, 0.01),
    lambda ps: optim.AdamW(ps, optim.cosine(0.1, 6)),
]


def _run(program: Program, x: Any, p: Any, w: Any) -> Any:
    values = [p, x * p, w]
    for name, operand, other in program.steps:
        value = values[operand % len(values)]
        if name in STRUCTURAL:
            values.append(STRUCTURAL[name](value, w))
            continue
        row = OPS[name]
        if len(row.args) == 1:  # type: ignore[attr-defined]
            values.append(row(value))
            continue
        beside = values[other % len(values)]
        try:
            np.broadcast_shapes(value.shape, beside.shape)
        except ValueError:
            beside = 0.5 + other
        values.append(row(value, beside))
    finite = [ag.where(abs(v) < 50.0, v, 0.0 * w[0, 0]) if v.size else v for v in values]
    loss = sum((v * v).sum() for v in finite if v.dtype == program.dtype)
    return (loss, *values) if program.weighted else loss


def _outcome(program: Program, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(3)
    p, w = (ag.tensor(rng.normal(size=s).astype(program.dtype), requires_grad=True) for s in (program.shape, (3, 3)))
    optimizer = OPTIMIZERS[program.optimizer]([p, w])
    step = wrap(lambda x: _run(program, x, p, w))
    seen: list[Any] = []
    held: list[Any] = []
    for k in range(5):
        x = rng.normal(size=program.shape).astype(program.dtype)
        if k == 3:  # of another shape
            x = np.broadcast_to(x, (2, *program.shape) if len(program.shape) < 3 else program.shape).copy()
        if k % 2:
            optimizer.zero_grad()  # and else gradients are added to
        found = step(ag.tensor(x))
        outs = found if isinstance(found, tuple) else (found,)
        now = [each.detach() for each in (*outs, p.value, w.value)] + [each.grad for each in (p, w)]
        held.append([(each, None if each is None else each.to_host().tobytes()) for each in now])
        seen += [None if each is None else (each.shape, each.dtype.str, each.to_host().tobytes()) for each in now]
        optimizer.step()
    for each, then in (pair for pairs in held for pair in pairs):
        assert each is None or each.to_host().tobytes() == then  # what is held never changes
    return seen, step


def _eager(f: Callable[..., Any]) -> Callable[..., Any]:
    def step(*args: Any) -> Any:
        found = f(*args)
        (found[0] if isinstance(found, tuple) else found).backward()
        return found

    return step


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs())
def test_random_programs(program: Program) -> None:
    expected, _ = _outcome(program, _eager)
    found, step = _outcome(program, ag.replay)
    assert found == expected
    assert step.counts == {"captured": 2, "replayed": 3} or len(program.shape) == 3


def _cnn(rng: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1, rng=rng), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4, rng=rng))


LARGE = 1 << 17


@pytest.mark.parametrize("optimizer", range(len(OPTIMIZERS)))
@pytest.mark.parametrize("keep", [False, True], ids=["lone", "kept"])
def test_large_parameters_that_are_written_over(optimizer: int, keep: bool) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[bytes]:
        rng = np.random.default_rng(0)
        w, v = (ag.tensor(rng.normal(size=LARGE).astype(np.float32), requires_grad=True) for _ in range(2))
        steps = OPTIMIZERS[optimizer]([w, v])
        step = wrap(lambda x: (ag.tanh(w * x) * v + w[::2].sum() * 1e-3).sum())
        seen, kept = [], []
        for k in range(5):
            if k != 2:
                steps.zero_grad()
            loss = step(ag.tensor(rng.normal(size=LARGE).astype(np.float32)))
            if keep:
                kept.append((w.value, w.to_host().tobytes(), w.grad, w.grad.to_host().tobytes()))  # type: ignore[union-attr]
            seen += [loss.to_host().tobytes(), *[each.grad.to_host().tobytes() for each in (w, v)]]  # type: ignore[union-attr]
            steps.step()
            seen += [each.to_host().tobytes() for each in (w, v)]
        for value, then, grad, grad_then in kept:
            assert (value.to_host().tobytes(), grad.to_host().tobytes()) == (then, grad_then)
        return seen

    assert run(ag.replay) == run(_eager)
