"""What a notebook shows for a value on a cell's last line: truthful, small, and soon."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import Tensor
from netcl import autograd as ag
from netcl.device import Device
from netcl.viz import summary
from netcl.viz.values import view

pytestmark = pytest.mark.usefixtures("on_device")

RNG = np.random.default_rng(11)
NORMAL = RNG.normal(size=(700, 600))
HALF = RNG.random((700, 600)) < 0.5


def bundle(x: Any) -> dict[str, str]:
    return x._repr_mimebundle_()


def text(x: Any) -> str:
    return bundle(x)["text/plain"]


def test_a_tensor_shows_its_numbers() -> None:
    x = Tensor.from_host(np.arange(12.0, dtype="f4").reshape(2, 2, 3) / 4)
    assert text(x) == (
        "Tensor on the device (2, 2, 3) float32\n     0  0.25   0.5\n  0.75     1  1.25\n\n   1.5  1.75     2\n"
        "  2.25   2.5  2.75"
    )
    svg = bundle(x)["image/svg+xml"]
    assert ET.fromstring(svg).tag.endswith("svg") and ">2.75<" in svg and len(svg) < 10_000


def test_a_node_shows_its_formula_value_and_gradient() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True, name="x")
    y = ag.tanh(x * 2.0) ** 2
    assert text(x) == "x Node · leaf (2,) float32\nvalue\n  1  2\nx.grad: no gradient yet"
    assert text(y).startswith("tanh(x·2)² Node · pow (2,) float32\nvalue\n")
    (y * 0.0).sum().backward()
    assert text(x).endswith("x.grad: exactly zero\n  0 at every entry")
    y.sum().backward()
    assert text(y).endswith("\n.grad\n  1 at every entry")
    assert ET.fromstring(bundle(y)["image/svg+xml"]) is not None


def test_after_create_graph_a_gradient_is_shown_as_its_value() -> None:
    x = ag.tensor(3.0, requires_grad=True, name="x")
    ag.Tape().backward(x * x, create_graph=True)
    assert text(x).endswith("x.grad\n  6")


def test_what_needs_no_gradient_or_has_lost_its_graph_says_so() -> None:
    free = ag.Node(Tensor.from_host([1.0]), requires_grad=False)
    assert "no gradient needed" in text(free)
    x = ag.tensor(2.0, requires_grad=True, name="x")
    with ag.Tape() as tape:
        y = x * x
    tape.backward(y)
    tape.release()
    assert "graph released" in text(y)
    assert text(tape) == "Tape: nothing recorded"


def test_a_tape_lists_what_it_recorded() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True, name="x")
    with ag.Tape() as tape:
        (x * 3.0).sum()
    assert text(tape) == "Tape: 2 nodes recorded\n  1  x·3       mul  (2,)  float32\n  2  sum(x·3)  sum  ()    float32"
    assert set(bundle(tape)) == {"text/plain"}
    with ag.Tape() as tape:
        for _ in range(1000):
            x = x + 1.0
    assert "… 976 more" in text(tape) and len(text(tape).splitlines()) == 26


def test_a_dual_number_has_a_text() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(text(x))
        return x * x

    ag.jvp(f, (2.0,), (1.0,))
    assert seen == ["<Dual () float32>"]


@pytest.mark.parametrize(
    "array",
    [
        NORMAL, NORMAL.astype("f4"), (NORMAL * 1e30).astype("f4"), (NORMAL * 1e-30).astype("f4"), HALF,
        np.arange(420_000).reshape(700, 600) % 9, np.zeros((700, 600), "f4"), np.full((700, 600), -0.0, "f4"),
        np.where(HALF, -0.0, 0.0), np.full((700, 600), -np.inf), np.full((700, 600), np.nan), np.full((700, 600), 7),
        np.where(HALF, np.nan, 1.0), np.where(HALF, np.inf, NORMAL), np.where(HALF, np.inf, -np.inf),
    ],
    ids=str,
)  # fmt: skip
def test_reductions_on_the_device_say_what_the_numbers_say(array: np.ndarray, device: Device) -> None:
    if array.dtype == np.float64 and not device.has_fp64:
        array = array.astype(np.float32)
    here, there = view(array), summary._reduced(Tensor.from_host(array))
    for field in ("shape", "dtype", "uniform", "zero", "nans", "infs"):
        assert getattr(here, field) == getattr(there, field), field
    assert [name for name, _ in here.stats] == [name for name, _ in there.stats] or here.uniform is not None
    assert [line for line in there.stats if line[0] in ("min", "max")] == [
        (name, said.replace("0", "−0") if (name, said) not in there.stats else said)
        for name, said in here.stats
        if name in ("min", "max")
    ]
    assert bool(here.bars) == bool(there.bars)


def test_a_large_tensor_stays_on_the_device(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    x = Tensor.from_host(RNG.normal(size=(1024, 1030)).astype("f4"))
    read: list[int] = []
    original = Device.read

    def counting(self: Device, array: np.ndarray, *more: Any) -> None:
        read.append(array.nbytes)
        original(self, array, *more)

    monkeypatch.setattr(Device, "read", counting)
    shown = text(x)
    assert sum(read) < x.nbytes / 50
    assert "min " in shown and "max " in shown
    exact = view(x.to_host())
    assert dict(exact.stats)["norm"] in shown


def test_a_view_is_summarised_where_it_lies() -> None:
    array = np.arange(2_000_000, dtype="f4").reshape(1000, 2000)
    x = Tensor.from_host(array)
    assert dict(summary.summarise(x.T[::2]).stats)["max"] == dict(view(array.T[::2]).stats)["max"]


SCRIPT = """
import sys
import netcl as nc
from netcl import autograd as ag
assert "netcl.viz" not in sys.modules and "graphviz" not in sys.modules
from IPython.core.formatters import DisplayFormatter
show = DisplayFormatter()
alone = ag.tensor([1.0, 2.0], requires_grad=True)
for x in (alone, nc.ones((2,)), ag.Tape()):
    formats, _ = show.format(x)
    print(sorted(formats), formats["text/plain"].splitlines()[0])
assert "netcl.viz" in sys.modules
"""


def test_it_is_there_after_import_netcl_alone_and_loads_pictures_late(python: Any) -> None:
    run = python(SCRIPT)
    assert run.stdout.splitlines() == [
        "['image/svg+xml', 'text/plain'] alone Node · leaf (2,) float32",
        "['image/svg+xml', 'text/plain'] x Tensor (2,) float32",
        "['text/plain'] Tape: nothing recorded",
    ], run.stderr


def test_repr_stays_one_line() -> None:
    x = ag.tensor(np.ones((3, 3)), requires_grad=True)
    assert all("\n" not in repr(each) for each in (x, x * x, nc.ones((3, 3)), ag.Tape()))
