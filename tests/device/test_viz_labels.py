"""Every label says what its edge brought: the contribution of each structural op, worked out from what is written.

A label is read by its template, from G (the upstream gradient), the operands and the result alone; what stands after
"then" (a sum over axes, a division) is read from the text itself. An op whose label cannot be read fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import viz
from netcl.expr import NUMPY, evaluate
from netcl.ops import OPS, Op
from netcl.ops.rows import Row
from netcl.tensor import Tensor
from netcl.viz.views import Edge

pytestmark = [pytest.mark.usefixtures("on_device"), pytest.mark.usefixtures("float64")]

Reading = Callable[..., np.ndarray]


def _spread(G: Any, a: Any, axis: Any = None, **_: Any) -> np.ndarray:
    axes = tuple(range(a.ndim)) if axis is None else tuple(np.atleast_1d(np.array(axis, int)) % max(a.ndim, 1))
    return np.broadcast_to(np.reshape(G, [1 if i in axes else n for i, n in enumerate(a.shape)]), a.shape)


def _winners(G: Any, a: Any, out: Any, axis: Any = None, **_: Any) -> np.ndarray:
    won = (a == _spread(out, a, axis)).astype(float)
    axes = tuple(range(a.ndim)) if axis is None else axis
    return won * _spread(G, a, axis) / won.sum(axes, keepdims=True)  # those that tie share


def _flat_places(a: np.ndarray, take: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """For each element of what `take` reads from an array like a: the place in a that it was read from, −1 for none."""
    return np.asarray(take(np.arange(1, a.size + 1, dtype=float).reshape(a.shape)) - 1, int)


def _add_back(G: Any, a: Any, places: np.ndarray) -> np.ndarray:
    found = np.zeros(a.size)
    read = places.ravel() >= 0
    np.add.at(found, places.ravel()[read], np.asarray(G).ravel()[read])
    return found.reshape(a.shape)


def _rows(x: np.ndarray, left: bool) -> np.ndarray:
    return x if x.ndim > 1 else x[None, :] if left else x[:, None]


def _upstream(G: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    G = G[..., None, :] if a.ndim == 1 and b.ndim > 1 else G
    G = G[..., None] if b.ndim == 1 else G
    return np.atleast_2d(G)


def _over(axis: Any, ndim: int) -> Any:
    return tuple(range(ndim)) if axis is None else axis


def _hot(a: np.ndarray, labels: np.ndarray, axis: int) -> np.ndarray:
    hot = np.zeros_like(a)
    np.put_along_axis(hot, np.expand_dims(labels, axis), 1.0, axis)
    return hot


def _per_label(G: Any, a: np.ndarray, labels: np.ndarray, axis: int) -> np.ndarray:
    return np.expand_dims(np.broadcast_to(G, labels.shape), axis % a.ndim)


def _others(a: np.ndarray, axis: Any) -> np.ndarray:
    axes = tuple(range(a.ndim)) if axis is None else tuple(np.atleast_1d(axis) % a.ndim)
    found = np.empty_like(a)
    for place in np.ndindex(a.shape):
        rest = a.copy()
        rest[place] = 1.0
        found[place] = rest[tuple(slice(None) if i in axes else place[i] for i in range(a.ndim))].prod()
    return found


def _windows(numpy: ModuleType, a: np.ndarray, kernel: Any, stride: Any, padding: Any) -> np.ndarray:
    stride = kernel if stride is None else stride
    return _flat_places(a, lambda x: numpy.unfold(x, kernel, stride, padding))


def _pooled(numpy: ModuleType, G: Any, a: Any, out: Any, kernel: Any, stride: Any, padding: Any) -> np.ndarray:
    places = _windows(numpy, a, kernel, stride, padding)
    seen = np.where(places >= 0, a.ravel()[places], -np.inf)
    won = (seen == out[..., None, None, :, :]).astype(float)
    return _add_back(won / won.sum((-4, -3), keepdims=True) * G[..., None, None, :, :], a, places)


def readings(numpy: ModuleType) -> dict[str, Reading]:
    """By template: what it says, as NumPy. `numpy` has the readings of the ops that NumPy does not have."""
    soft = numpy.softmax
    return {
        "reshape {out.shape} → {a.shape}": lambda G, a, out, **_: G.reshape(a.shape),
        "transpose {out.shape} → {a.shape}": lambda G, a, out, axes=None: np.transpose(
            G, None if axes is None else np.argsort(np.array(axes) % a.ndim)
        ),
        "sum {out.shape} → {a.shape}": lambda G, a, out, **_: _add_back(
            G, a, _flat_places(a, lambda x: np.broadcast_to(x, out.shape))
        ),
        "as {a.dtype}": lambda G, a, out, **_: G.astype(a.dtype),
        "G @ {b}ᵀ": lambda G, a, b, *_, out: _matmul(_upstream(G, a, b), np.swapaxes(_rows(b, False), -1, -2), a),
        "{a}ᵀ @ G": lambda G, a, b, *_, out: _matmul(np.swapaxes(_rows(a, True), -1, -2), _upstream(G, a, b), b),
        "spread {out.shape} → {a.shape}": lambda G, a, out, **attrs: _spread(G, a, **attrs),
        "spread {out.shape} → {a.shape}, ÷ {count}": lambda G, a, out, **attrs: (
            _spread(G, a, **attrs) / (a.size // out.size)
        ),
        "route to the winner": lambda G, a, out, **attrs: _winners(G, a, out, **attrs),
        "fold {out.shape} → {a.shape}": lambda G, a, out, fill=0.0, **settings: numpy.fold(
            G, a.shape[-2:], **{name: value for name, value in settings.items() if name != "kernel"}
        ),
        "unfold {out.shape} → {a.shape}": lambda G, a, out, size, **settings: numpy.unfold(
            G, a.shape[-4:-2], **settings
        ),
        "fold({w}ᵀ @ G)": lambda G, a, w, out, groups=1, **settings: np.concatenate(
            [
                numpy.fold(np.einsum("ocpq,noij->ncpqij", f, g), a.shape[-2:], **settings)
                for f, g in zip(np.split(w, groups), np.split(G, groups, 1), strict=True)
            ],
            axis=1,
        ),
        "G @ unfold({a})ᵀ": lambda G, a, w, out, groups=1, **settings: np.concatenate(
            [
                np.einsum("noij,ncpqij->nocpq", g, x)
                for g, x in zip(
                    np.split(G, groups, 1), np.split(numpy.unfold(a, w.shape[-2:], **settings), groups, 1), strict=True
                )
            ],
            axis=1,
        ),
        "route to the winner of each window": lambda G, a, out, kernel, stride=None, padding=0: _pooled(
            numpy, G, a, out, kernel, stride, padding
        ),
        "spread over each window, ÷ its size": lambda G, a, out, kernel, stride=None, padding=0: _add_back(
            np.broadcast_to(
                G[..., None, None, :, :] / np.prod(numpy.both(kernel)),
                _windows(numpy, a, kernel, stride, padding).shape,
            ),
            a,
            _windows(numpy, a, kernel, stride, padding),
        ),
        "place on the diagonal of zeros {a.shape}": lambda G, a, out, **where: _add_back(
            G, a, _flat_places(a, lambda x: np.diagonal(x, **where))
        ),
        "take the diagonal": lambda G, a, out, shape, **where: np.diagonal(G, **where),
        "keep the lower triangle": lambda G, a, out, k=0: np.tril(G, k),
        "keep the upper triangle": lambda G, a, out, k=0: np.triu(G, k),
        "add into zeros {a.shape}": lambda G, a, out, key: _add_back(G, a, _flat_places(a, lambda x: x[key])),
        "take from {out.shape} → {a.shape}": lambda G, a, out, shape, key: G[key],
        "sum the copies {out.shape} → {a.shape}": lambda G, a, out, **attrs: _add_back(
            G, a, _flat_places(a, lambda x: _copied(x, **attrs))
        ),
        "roll back": lambda G, a, out, shift, axis=None: np.roll(
            G, tuple(-s for s in shift) if isinstance(shift, tuple) else -shift, axis
        ),
        "{out} · (G − Σ {out} · G)": lambda G, a, out, axis=-1: out * (G - (out * G).sum(axis, keepdims=True)),
        "Σ G over rows": lambda G, a, b, c, out: G.reshape(-1, len(c)).sum(0),
        "G − exp({out}) · Σ G": lambda G, a, out, axis=-1: G - np.exp(out) * G.sum(axis, keepdims=True),
        "(G − mean G − {out} · mean({out} · G)) / σ": lambda G, a, out, axis=-1, eps=1e-5: (
            (G - G.mean(axis, keepdims=True) - out * (out * G).mean(axis, keepdims=True))
            / np.sqrt(a.var(axis, keepdims=True) + eps)
        ),
        "G / (1 − p) where {a} was kept, else 0": lambda G, a, out, p=0.5, **_: np.where(out != 0, G / (1 - p), 0.0),
        "G · (softmax({a}) − one-hot({labels}))": lambda G, a, labels, out, axis=-1, reduction="mean": (
            _per_label(G, a, labels, axis) * (soft(a, axis) - _hot(a, labels, axis))
        ),
        "−G at {labels}, else 0": lambda G, a, labels, out, axis=-1, reduction="mean": (
            -_per_label(G, a, labels, axis) * _hot(a, labels, axis)
        ),
        "⊙ 2({a} − mean) / (n − ddof)": lambda G, a, out, axis=None, keepdims=False, ddof=0: (
            _spread(G, a, axis) * 2 * (a - a.mean(_over(axis, a.ndim), keepdims=True)) / (a.size // out.size - ddof)
        ),
        "⊙ ({a} − mean) / ((n − ddof) {out})": lambda G, a, out, axis=None, keepdims=False, ddof=0: (
            _spread(G, a, axis)
            * (a - a.mean(_over(axis, a.ndim), keepdims=True))
            / ((a.size // out.size - ddof) * _spread(out, a, axis))
        ),
        "⊙ {a} / {out}": lambda G, a, out, axis=None, keepdims=False: _spread(G, a, axis) * a / _spread(out, a, axis),
        "⊙ softmax of {a}": lambda G, a, out, axis=None, keepdims=False: (
            _spread(G, a, axis) * soft(a, _over(axis, a.ndim))
        ),
        "⊙ product of the others": lambda G, a, out, axis=None, keepdims=False: _spread(G, a, axis) * _others(a, axis),
        "sum from the end": lambda G, a, out, axis=None: np.flip(np.flip(G, axis).cumsum(axis), axis).reshape(a.shape),
    }


def _matmul(one: np.ndarray, other: np.ndarray, like: np.ndarray) -> np.ndarray:
    found = one @ other
    return found.reshape(*found.shape[:-2], *like.shape) if like.ndim < 2 else found


def _copied(x: np.ndarray, pad_width: Any = None, mode: str = "constant", reps: Any = None, **_: Any) -> np.ndarray:
    return np.tile(x, reps) if pad_width is None else np.pad(x, pad_width, mode=mode)  # type: ignore[call-overload]


def then(text: str, found: np.ndarray) -> np.ndarray:
    """What a label says after its rule."""
    if match := re.fullmatch(r"sum over ax[ie]s ([\d, ]+)", text):
        return found.sum(tuple(int(axis) for axis in match[1].split(",")))
    if match := re.fullmatch(r"÷ (\d+)", text):
        return found / int(match[1])
    assert not text, text
    return found


@pytest.fixture(scope="session")
def numpy(load_test: Callable[[str], ModuleType]) -> ModuleType:
    """The samples of every structural op, and NumPy readings of those that NumPy does not have."""
    return load_test("test_structural.py")


def drawn(op: Op, operands: list[Any], attrs: dict[str, Any]) -> tuple[Any, Any, list[Edge]]:
    """The result of an op, the gradient that came to it, and the edges that lead into its card."""
    out = op(*operands, **attrs)
    weights = Tensor.from_host(np.random.default_rng(9).normal(size=out.shape))
    total = (out * weights).sum()
    total.backward()
    view = viz.draw(total, names={out: "out", total: "total"}).view
    (card,) = (each for each in view.cards if each.name == "out")
    return out, out.grad.to_host(), [edge for edge in view.edges if edge.child == card.key]


@pytest.mark.parametrize("op", [op for op in OPS.values() if not isinstance(op, Row)], ids=lambda op: op.name)
def test_the_label_says_what_was_sent(op: Op, numpy: ModuleType) -> None:
    read = readings(numpy)
    for arg, template in op.edges.items():
        assert template in read or op.variadic, f"{op.name} writes {template!r} for {arg}: say here what that means"
    checked = 0
    for sample in numpy.SAMPLES[op.name]:
        hosts = [np.asarray(x) for x in numpy.operands_of(sample, np.float64)]
        if any(x.dtype.kind == "f" and x.size == 0 for x in hosts) or sample.attrs.get("dtype") == np.int32:
            continue
        operands = [ag.tensor(x, requires_grad=True) if x.dtype.kind == "f" else Tensor.from_host(x) for x in hosts]
        out, G, edges = drawn(op, operands, sample.attrs)
        flowing = [edge for edge in edges if edge.needs_grad]
        leaves: list[Any] = [x for x in operands if isinstance(x, ag.Node)]
        assert len(flowing) == len(leaves)
        for i, (edge, node) in enumerate(zip(flowing, leaves, strict=True)):
            if op.variadic:
                said = _slice(op.name, G, [x.shape for x in operands], i, **sample.attrs)
                assert edge.rule == "take its slice"
            else:
                arg = op.args[operands.index(node)]
                said = read[op.edges[arg]](G, *hosts, out=out.to_host(), **sample.attrs)
            expected = node.grad.to_host()
            said = then(edge.after, np.asarray(said)).reshape(expected.shape)  # an axis of length 1 stays
            assert edge.rule and "{" not in edge.rule, edge.rule
            np.testing.assert_allclose(said, expected, rtol=1e-6, atol=1e-9)
            checked += 1
    assert checked, "no sample of this op was read"


ROWS = [op for op in OPS.values() if isinstance(op, Row) and op.partials]


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_the_numbers_on_an_elementwise_edge_are_those_of_its_rule(op: Row, draw: Callable[..., Any]) -> None:
    """`upstream 4 × (b = 3) → 12`: the product is right, the rule named is the partial, the result what was sent."""
    hosts = draw(op, np.random.default_rng(4), ())
    operands: list[Any] = [
        ag.tensor(x, requires_grad=True, name=arg) if arg in op.partials else Tensor.from_host(x)
        for arg, x in zip(op.args, hosts, strict=True)
    ]
    _, G, edges = drawn(op, operands, {})
    flowing = [edge for edge in edges if edge.needs_grad]
    names = [arg for arg in op.args if arg in op.partials]
    assert len(flowing) == len(names)
    values = {arg: float(x) for arg, x in zip(op.args, hosts, strict=True)}
    values["out"] = op(*map(Tensor.from_host, hosts)).item()
    for edge, arg in zip(flowing, names, strict=True):
        local = float(evaluate(op.partials[arg], values, NUMPY))
        sent = operands[op.args.index(arg)].grad.item()
        assert np.isclose(sent, G.item() * local, rtol=1e-9)
        said = re.fullmatch(r"upstream (\S+) × (?:\((.+) = (\S+)\)|(\S+)) → (\S+)", edge.numbers)
        assert said is not None, edge.numbers
        upstream, rule, factor, plain, result = said.groups()
        assert np.isclose(number(upstream), G.item(), rtol=1e-3) and np.isclose(number(result), sent, rtol=1e-3)
        assert np.isclose(number(factor or plain.strip("()")), local, rtol=1e-3)
        assert edge.rule.endswith((rule or plain, f"({rule})")), "the rule and the numbers say the same"


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


def _slice(name: str, G: np.ndarray, shapes: list[Any], i: int, axis: int = 0) -> np.ndarray:
    if name == "stack":
        return np.take(G, i, axis)
    start = sum(shape[axis] for shape in shapes[:i])
    return np.take(G, range(start, start + shapes[i][axis]), axis)


def test_no_reading_is_of_a_label_that_is_gone(numpy: ModuleType) -> None:
    written = {template for op in OPS.values() for template in op.edges.values()}
    assert set(readings(numpy)) <= written
