"""`explore` on real graphs: its numbers are those of the function, nothing of the user changes, and what goes wrong is
shown. Sliders are driven by setting what they hold."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl import viz
from netcl.errors import ArgumentError
from netcl.viz.explorer import Explorer
from netcl.viz.text import xml

pytestmark = pytest.mark.usefixtures("on_device")


def fork(a: Any, b: Any) -> Any:
    product = a * b
    return product + a**2


def branching(a: Any) -> Any:
    if a.to_host() > 2.5:
        raise ValueError("a < b & too large")
    return ag.log(a) * 2.0 if a.to_host() > 0 else a * a


def network(W: Any, X: Any) -> Any:
    hidden = ag.tanh(X @ W)
    return (hidden * hidden).mean()


def move(explorer: Explorer, **values: float) -> None:
    for name, value in values.items():
        explorer.knobs.sliders[name].value = value


def frames(picture: str) -> list[tuple[str | None, ...]]:
    root = ET.fromstring(re.sub(r"</?div[^>]*>", "", picture))
    found = [e for e in root.iter() if e.tag.endswith(("}g", "}path", "}svg")) or e.get("rx") in ("2", "4", "9")]
    cells = [e for e in found if not (e.get("rx") == "2" and e.get("height") == "18")]  # tiles are as wide as numbers
    return [tuple(e.get(key) for key in ("width", "height", "d", "transform", "viewBox")) for e in cells]


@pytest.fixture
def explorer() -> Explorer:
    return viz.explore(fork, a=2.0, b=(-1, 1))


def test_the_numbers_are_those_of_the_function(explorer: Explorer) -> None:
    move(explorer, a=3.0, b=0.5)
    assert explorer.run.loss == 10.5 and explorer.error.value == ""
    assert {name: float(g) for name, g in explorer.run.gradients.items()} == {"a": 6.5, "b": 3.0}
    assert explorer.summary == "fork = 10.5 (before 9) at a = 3, b = 0.5."
    names = [card.title for card in explorer.run.view.cards]
    assert names == ["a", "b", "product = ab", "a²", "fork = product + a²"]
    for text in ("2a + b", "before 6", "10.5", "1 × (b = 0.5)", "6 + 0.5 = 6.5"):
        assert text in explorer.picture.value
    assert ">before 3<" not in explorer.picture.value  # a did not move since


def test_only_numbers_change(explorer: Explorer) -> None:
    start = frames(explorer.picture.value)
    for a, b in ((0.0, 0.0), (-1.95, -0.98), (6.0, 1.0), (0.05, 0.02)):
        move(explorer, a=a, b=b)
        assert frames(explorer.picture.value) == start
    assert "exactly zero" in viz.explore(lambda a: a * 0.0, a=1.0).svg


def test_the_curve_is_the_loss_and_its_slope_the_gradient(explorer: Explorer) -> None:
    move(explorer, b=0.5)
    curve = explorer.curve
    assert curve is not None and (curve.leaf, curve.loss, curve.slope_name) == ("a", "fork", "∂fork/∂a")
    xs = np.array(curve.xs)
    assert np.allclose(curve.ys, 0.5 * xs + xs**2, atol=1e-4)
    assert (curve.at, curve.slope, curve.before) == ((2.0, 5.0), 4.5, (2.0, 4.0))
    assert curve.before_ys is not None and np.allclose(curve.before_ys, xs**2, atol=1e-4)
    explorer.against.value = 1
    curve = explorer.curve
    assert curve is not None and curve.leaf == "b" and curve.before_ys is None and curve.slope == 2.0
    assert "slope ∂fork/∂b = 2" in explorer.plot.value


def test_another_graph_is_said_and_drawn_and_comes_back_as_it_was() -> None:
    explorer = viz.explore(branching, a=1.0)
    start = frames(explorer.picture.value)
    move(explorer, a=-0.5)
    assert "Another graph than before (gone: log)." in explorer.note.value and explorer.run.loss == 0.25
    assert "before 1" in explorer.picture.value and frames(explorer.picture.value) != start
    move(explorer, a=1.5)
    assert frames(explorer.picture.value) == start


def test_errors_are_shown_and_the_last_good_picture_stays() -> None:
    explorer = viz.explore(branching, a=1.0)
    picture = explorer.picture.value
    move(explorer, a=3.0)
    assert "<b>ValueError</b>: a &lt; b &amp; too large" in explorer.error.value
    assert "The picture is still that of a = 1." in explorer.error.value
    assert explorer.picture.value == picture and explorer.note.layout.display == "none"
    curve = explorer.curve
    assert curve is not None and np.isnan(curve.ys[-1]) and np.isfinite(curve.ys[0])
    move(explorer, a=2.0)
    assert explorer.error.value == "" and explorer.note.layout.display is None and explorer.run.loss > 1


def test_nothing_of_the_users_changes() -> None:
    weight = ag.tensor(2.0, requires_grad=True)
    (weight * 3.0).backward()
    with ag.Tape() as tape:
        explorer = viz.explore(lambda a: a * weight, a=1.0)
        move(explorer, a=1.5)
    assert float(weight.grad.to_host()) == 3.0 and len(tape.nodes) == 0  # type: ignore[union-attr]
    assert "weight" in {card.name for card in explorer.run.view.cards}


def test_a_small_array_has_a_slider_an_entry_and_a_large_one_a_seed() -> None:
    X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(20, 2)
    explorer = viz.explore(network, W=np.array([[0.1], [0.3]], np.float32), X=X)
    assert list(explorer.knobs.sliders) == ["W[0, 0]", "W[1, 0]", "X"]
    first = frames(explorer.picture.value)
    move(explorer, **{"W[1, 0]": 0.5})
    assert np.allclose(explorer.values["W"], [[0.1], [0.5]]) and np.array_equal(explorer.values["X"], X)
    W = explorer.values["W"]
    h = np.tanh(X @ W)
    assert np.allclose(explorer.run.gradients["W"], X.T @ (2 * h * (1 - h**2) / h.size), atol=1e-6)
    assert "before [0.1 0.3]" in explorer.picture.value or "before [0.1; 0.3]" in explorer.picture.value
    move(explorer, X=7)
    assert not np.array_equal(explorer.values["X"], X) and frames(explorer.picture.value) == first
    explorer.reset.click()
    assert np.array_equal(explorer.values["X"], X) and np.allclose(explorer.values["W"], [[0.1], [0.3]])
    assert explorer.error.value == ""


def test_before_can_be_held(explorer: Explorer) -> None:
    move(explorer, a=3.0)
    explorer.hold.value = True
    move(explorer, b=0.5, a=4.0)
    assert explorer.before is not None and explorer.before.loss == 4.0
    explorer.hold.value = False
    move(explorer, b=1.0)
    assert explorer.before.loss == 18.0


@pytest.mark.parametrize(
    ("f", "leaves", "said"),
    [
        (lambda a: a * 2.0, {"a": [1.0, 2.0]}, r"returns shape \(2,\): return its sum"),
        (lambda a: 3.0, {"a": 1.0}, "a Node with one entry, not float"),
        (lambda a: a.value, {"a": 1.0}, "has no graph"),
        (lambda a: ag.tensor(1.0, requires_grad=True) * 2.0, {"a": 1.0}, "depends on none of a"),
        (lambda a: a, {"b": 1.0}, "do not fit"),
        (lambda a: a, {"a": "x"}, "a is a number"),
        (lambda a: a, {}, "a leaf to move"),
        (3, {"a": 1.0}, "takes a function"),
    ],
)
def test_what_cannot_be_explored_is_refused_at_once(f: Any, leaves: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        viz.explore(f, **leaves)


def test_nodes_are_called_as_is_said() -> None:
    bias = ag.tensor([1.0, -1.0])

    def loss(w: Any) -> Any:
        hidden = w * bias
        return (hidden * hidden).sum()

    named = viz.explore(loss, w=[2.0, 3.0], names={"w": "ω", "hidden": "h", "loss": "L", bias: "β"})
    assert repr(named) == "<Explorer of L: ω>"
    assert {card.name for card in named.run.view.cards} == {"ω", "β", "h", "h²", "L"}
    assert list(named.knobs.sliders) == ["w[0]", "w[1]"] and list(named.values) == ["w"]  # the function's own
    assert named.knobs.sliders["w[0]"].description == "ω[0]" and named.curve is not None and named.curve.leaf == "ω[0]"
    move(named, **{"w[0]": 1.0})
    assert named.summary == "L = 10 (before 13) at ω = [1 3]."
    assert "ω     [1 3]" in named.text and "w" not in named.text.replace("backward", "")


def test_the_leaves_and_the_result_of_a_lambda_can_be_named() -> None:
    explorer = viz.explore(lambda a, b: a * 2.0 if b is None else a * a, a=3.0, b=1.0, names={"b": "<i>", "loss": "E"})
    assert explorer.summary == "E = 9 at a = 3, <i> = 1. E does not depend on <i>."
    assert "<i>" not in explorer.note.value and "&lt;i&gt;" in explorer.note.value


def test_a_name_for_what_is_not_there_is_refused_but_not_when_the_graph_changes() -> None:
    with pytest.raises(ArgumentError, match=r"names=\{'q': …\} names nothing here; there are a, b, fork, product"):
        viz.explore(fork, a=1.0, b=2.0, names={"q": "r"})

    def either(a: Any) -> Any:
        if a.to_host() > 0:
            doubled = a * 2.0
            return doubled + 1.0
        return a * a

    explorer = viz.explore(either, a=1.0, names={"doubled": "d"})
    move(explorer, a=-1.0)
    assert explorer.error.value == "" and explorer.run.loss == 1


def test_what_the_function_itself_raises_at_the_start_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="too large"):
        viz.explore(branching, a=5.0)


def test_a_leaf_that_is_not_used_is_said_so_and_one_entry_is_a_scalar() -> None:
    explorer = viz.explore(lambda a, b: (a * 2.0).sum(keepdims=True), a=[1.0], b=2.0)
    assert explorer.summary.endswith("loss does not depend on b.")
    explorer.against.value = 1
    assert explorer.curve is not None and explorer.curve.slope == 0


def test_nan_is_marked_and_does_not_move_the_layout() -> None:
    explorer = viz.explore(lambda a: ag.log(a) * 2.0, a=1.0)
    start = frames(explorer.picture.value)
    move(explorer, a=-0.5)
    assert "first NaN" in explorer.picture.value and explorer.error.value == ""
    assert [each for each in frames(explorer.picture.value) if each in start] == start


def test_what_notebooks_and_files_get(explorer: Explorer, tmp_path: Path) -> None:
    assert repr(explorer) == "<Explorer of fork: a, b>"
    assert explorer._repr_mimebundle_()["text/plain"] == repr(explorer)
    again = viz.explore(fork, a=2.0, b=(-1, 1))
    assert again.static == explorer.static
    assert "a     2      −2 to 6    4" in explorer.text
    ET.fromstring(explorer.save(tmp_path / "e.svg").read_text(encoding="utf-8"))
    assert explorer.save(tmp_path / "e.png").read_bytes()[1:4] == b"PNG"
    html = explorer.save(tmp_path / "e.html").read_text(encoding="utf-8")
    assert "<svg" in html and "<script" not in html and xml(explorer.text) in html
    assert explorer.save(tmp_path / "e.txt").read_text(encoding="utf-8") == explorer.text + "\n"
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', explorer.svg)]
    match = re.search(r'width="([\d.]+)" height="[\d.]+" viewBox="0 0 ([\d.]+)', explorer.svg)
    assert match is not None and min(sizes) * float(match[1]) / float(match[2]) >= 11 - 1e-6
    with pytest.raises(ArgumentError, match=r"not as '\.gif'"):
        explorer.save(tmp_path / "e.gif")


def test_a_long_loop_is_folded_and_keeps_its_layout() -> None:
    def loop(w: Any, c: Any) -> Any:
        h = c
        for _ in range(80):
            h = ag.tanh(h * w + c)
        return h * h

    explorer = viz.explore(loop, w=0.5, c=1.0)
    start = frames(explorer.picture.value)
    assert len(explorer.run.view.cards) < 20 and "237 nodes" in explorer.picture.value
    move(explorer, w=-0.45, c=-1.5)
    assert frames(explorer.picture.value) == start and explorer.error.value == ""


def test_numbers_of_the_function_that_are_no_leaves_may_change() -> None:
    explorer = viz.explore(lambda a: a * float(a.to_host()), a=1.0)  # the factor stands in titles and labels
    move(explorer, a=1.25)
    assert ">loss = a·1.25<" in explorer.picture.value and ">× 1.25<" in explorer.picture.value
    start = frames(explorer.picture.value)
    for a in (-0.75, 0.0, 2.0):
        move(explorer, a=a)
        assert frames(explorer.picture.value) == start and explorer.run.loss == a * a
    assert "Another graph" not in explorer.summary


def test_a_move_feels_immediate(explorer: Explorer) -> None:
    times = []
    for i in range(15):
        start = perf_counter()
        move(explorer, a=-1.0 + i * 0.2)
        times.append(perf_counter() - start)
    assert sorted(times)[7] < 0.1 and explorer.knobs.sliders["a"].continuous_update


def test_a_slow_function_moves_when_the_slider_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netcl.viz.explorer._SLOW", 0.0)
    explorer = viz.explore(fork, a=2.0, b=1.0)
    move(explorer, a=3.0)
    assert not explorer.knobs.sliders["a"].continuous_update
