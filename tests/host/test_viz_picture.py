"""Pictures of graphs written by hand: nothing overlaps, nothing overflows, every edge goes where it should."""

from __future__ import annotations

import json
import random
import stat
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl.errors import ArgumentError
from netcl.viz import layout
from netcl.viz.arrange import PAGE, ROOM, arrange
from netcl.viz.drawing import Drawing
from netcl.viz.fallback import write_table
from netcl.viz.layout import NoLayoutError
from netcl.viz.palette import DARK, LIGHT
from netcl.viz.svg import write
from netcl.viz.tables import table
from netcl.viz.values import view as summarise
from netcl.viz.views import Card, Edge, GraphView, Slot

FIXED = np.random.default_rng(7)
HOSTILE = ["<lambda> <map>", "a\\", "n:1", "x < y", '"q"', "</svg><script>alert(1)</script>", "𝛁", "עברית", "&lt;"]
LONG = "a_name_of_exactly_thirty_chars"


def graph(parents: list[list[int]], shape: tuple[int, ...] = (2, 3), names: list[str] | None = None) -> GraphView:
    """A graph whose node i has the parents parents[i]; the last one is the root."""
    cards, edges = [], []
    for key, above in enumerate(parents):
        array = summarise(FIXED.normal(size=shape).astype("f4"))
        name = names[key % len(names)] if names else f"v{key}"
        kind = "root" if key == len(parents) - 1 else "op" if above else "leaf"
        total = "12 + 2 = 14" if key % 3 == 0 else ""
        slot = Slot("value", array, "6(x + 1)" if key % 2 else "", total, "added into it")
        title = f"{name} = f({', '.join(map(str, above))})" if above else name
        caption = f"∂{name}/∂{name}"
        cards.append(Card(key, kind, name, title, "mul" if above else "", shape, "float32", array, slot, caption))
        for parent in above:
            edges.append(Edge(len(edges), parent, key, "× b", "⊙ 2(x + 1)", "", "sum over axis 0", array))
    root = len(parents) - 1
    return GraphView(root, cards[root].name, tuple(cards), tuple(edges), seed="1", ran=True)


def random_parents(count: int, seed: int, window: int = 3) -> list[list[int]]:
    rng = random.Random(seed)
    parents: list[list[int]] = [[], []]
    for key in range(2, count):
        parents.append(sorted({max(key - 1 - rng.randrange(window), 0) for _ in range(rng.randint(1, 2))}))
    used = {parent for above in parents for parent in above}
    ends = [key for key in range(count) if key not in used]
    while len(ends) > 1:
        parents.append(ends[-2:])
        ends[-2:] = [len(parents) - 1]
    return parents


SHAPES: dict[str, list[list[int]]] = {
    "one": [[]],
    "chain": [[], [0], [1], [2], [3]],
    "short chain": [[], [0]],
    "fork": [[], [], [0, 1], [0], [2, 3]],
    "twice": [[], [0, 0], [1]],
    "skip": [[], [0], [1], [2], [0, 3]],
    "wide": [[] for _ in range(9)] + [list(range(9))],
    "layers": [[], [], [0, 1], [], [2, 3], [4], [], [5, 6], [], [7, 8], [9]],
    "random 12": random_parents(12, 1),
    "random 30": random_parents(30, 2, window=2),
}


@pytest.mark.parametrize("direction", ["auto", "td", "lr"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("shape", [(), (2, 3), (8, 8), (64, 64)])
def test_nothing_overlaps_and_every_edge_arrives(svg_reader: Any, name: str, direction: Any, shape: Any) -> None:
    view = graph(SHAPES[name], shape)
    picture = svg_reader.read(write(view, arrange(view, direction), LIGHT))
    assert picture.faults(view) == []


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("shape", [(), (2, 3), (64, 64)])
def test_a_picture_fits_the_page_with_text_that_can_be_read(svg_reader: Any, name: str, shape: Any) -> None:
    view = graph(SHAPES[name], shape)
    picture = svg_reader.read(write(view, arrange(view), LIGHT))
    assert picture.width <= PAGE
    assert picture.least_text >= 10.99


@pytest.mark.parametrize("name", ["chain", "fork", "twice", "skip", "layers"])
@pytest.mark.parametrize("page", [440, 560])
def test_a_narrow_page_is_kept_to_and_can_be_read(svg_reader: Any, name: str, page: float) -> None:
    view = graph(SHAPES[name], ())
    scene = arrange(view, page=page)
    picture = svg_reader.read(write(view, scene, LIGHT))
    assert scene.fits and picture.width <= page and picture.least_text >= 10.99
    assert picture.faults(view) == []


@pytest.mark.parametrize("direction", ["auto", "td", "lr"])
def test_hostile_and_long_names_stay_in_their_cards(svg_reader: Any, direction: Any) -> None:
    names = [*HOSTILE, LONG, LONG * 3, "😀" * 30]
    view = graph(SHAPES["layers"], (2, 2), names)
    svg = write(view, arrange(view, direction), LIGHT)
    picture = svg_reader.read(svg)
    assert picture.faults(view) == []
    assert "<script" not in svg and "href" not in svg and " id=" not in svg
    shown = "\n".join(picture.texts).translate(dict.fromkeys(map(ord, "\u2068\u2069")))
    for name in HOSTILE[:4]:
        assert f"{name} = " in shown or f"\n{name}\n" in shown


EXTREMES = [1e-38, -0.0, 1e20, -1.2345678e-12, float("nan"), float("inf"), -float("inf"), 3.0]


@pytest.mark.parametrize(
    "array",
    [
        np.array(EXTREMES, "f4"), np.array(EXTREMES * 8).reshape(8, 8), np.array(EXTREMES * 100), np.zeros((0, 3)),
        np.full((1000, 1000), np.nan), np.array(1e-38, "f4"), np.array(-1.2345678e-12), np.zeros((2, 2), bool),
    ],
)  # fmt: skip
@pytest.mark.parametrize("direction", ["td", "lr"])
def test_no_value_overflows_a_card(svg_reader: Any, array: np.ndarray, direction: Any) -> None:
    seen = summarise(array)
    cards = tuple(
        Card(key, "root" if key else "leaf", f"v{key}", f"v{key}", "", (), "f", seen, Slot("value", seen), "∂b/∂a")
        for key in (0, 1)
    )
    view = GraphView(1, "v1", cards, (Edge(0, 0, 1, "exp", "⊙ out", contribution=seen),), seed="1", ran=True)
    assert svg_reader.read(write(view, arrange(view, direction), LIGHT)).faults(view) == []


def test_forward_lanes_are_solid_and_backward_ones_dashed_the_other_way(svg_reader: Any) -> None:
    view = graph([[], [0]])
    ahead, back = svg_reader.read(write(view, arrange(view), LIGHT)).lanes
    assert not ahead.dashed and back.dashed
    assert ahead.tip[0] > ahead.start[0] and back.tip[0] < back.start[0]


def test_constants_have_no_backward_lane(svg_reader: Any) -> None:
    view = graph([[], [], [0, 1]])
    edges = (view.edges[0], Edge(1, 1, 2, "× c", needs_grad=False))
    view = GraphView(2, "v2", view.cards, edges, seed="1", ran=True)
    assert [lane.dashed for lane in svg_reader.read(write(view, arrange(view), LIGHT)).lanes] == [False, True, False]


def test_both_themes_say_the_same(svg_reader: Any) -> None:
    view = graph(SHAPES["fork"])
    scene = arrange(view)
    light, dark = write(view, scene, LIGHT), write(view, scene, DARK)
    assert light != dark
    assert svg_reader.read(light).texts == svg_reader.read(dark).texts
    assert f'fill="{DARK["page"]}"' in dark


def test_rows_keep_consumers_below_and_widths_in_bounds() -> None:
    view = graph(random_parents(40, 5))
    sizes = {card.key: 200.0 for card in view.cards}
    rows = layout.layer(view, sizes, {edge.key: 100.0 for edge in view.edges}, 700.0)
    assert all(rows[edge.parent] < rows[edge.child] for edge in view.edges)
    assert all(list(rows.values()).count(row) <= 3 for row in rows.values())
    assert set(rows.values()) == set(range(max(rows.values()) + 1))


@pytest.mark.parametrize("window", [3, 20, 200])
def test_long_edges_of_large_graphs_are_cut_and_their_ends_named(svg_reader: Any, window: int) -> None:
    view = graph(random_parents(200, 1, window), shape=())
    scene = arrange(view, stubs=True)
    added = [placed for placed in scene.cards if placed.key >= len(view.cards)]
    assert {placed.key for placed in scene.cards} >= {card.key for card in view.cards}
    assert svg_reader.read(write(view, scene, LIGHT)).faults(view, cut=True) == []
    places = {placed.key: placed for placed in scene.cards}
    assert all(places[edge.parent].bottom < places[edge.child].y for edge in view.edges)
    assert max(places.values(), key=lambda placed: placed.bottom).key == view.root
    assert scene.width <= 1.2 * ROOM
    assert added or window == 3


def test_a_system_dot_is_not_asked_where_the_wheel_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "dot"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    view = graph(SHAPES["fork"])
    before = write(view, arrange(view), LIGHT)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert write(view, arrange(view), LIGHT) == before


def fails(monkeypatch: pytest.MonkeyPatch, view: GraphView) -> str:
    with pytest.raises(NoLayoutError) as caught:
        arrange(view)
    monkeypatch.undo()
    return str(caught.value)


def test_without_graphviz_a_table_is_shown(monkeypatch: pytest.MonkeyPatch, svg_reader: Any) -> None:
    view = graph(SHAPES["fork"], (2, 2), HOSTILE)
    monkeypatch.setattr(layout, "_bundled", lambda: None)
    monkeypatch.setenv("PATH", "")
    reason = fails(monkeypatch, view)
    assert "neither graphviz-pure nor a system dot" in reason
    svg = write_table(view, table(view), f"shown as a table: {reason}", LIGHT)
    picture = svg_reader.read(svg)
    assert picture.least_text >= 10.99 and picture.width == PAGE
    assert any("shown as a table" in text for text in picture.texts)
    drawing = Drawing(view, "shown as a table: no dot")
    assert "shown as a table: no dot" in drawing.svg


@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 1", "failed"), ("sleep 20", "longer than its time limit"), ("echo nonsense", "nothing readable")],
)
def test_a_layout_that_fails_or_takes_too_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str
) -> None:
    fake = tmp_path / "dot"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(layout, "_bundled", lambda: str(fake))
    with pytest.raises(NoLayoutError, match=said):
        arrange(graph(SHAPES["chain"]), time_limit=0.2)


def test_the_table_runs_from_the_loss_to_the_leaves() -> None:
    view = graph(SHAPES["fork"])
    lines = [line for line in table(view).splitlines() if line.startswith("v")]
    assert [line.split()[0] for line in lines] == ["v4", "v3", "v2", "v1", "v0"]
    assert max(map(len, table(view).splitlines())) <= 200


def test_a_table_keeps_its_columns_with_wide_characters() -> None:
    view = graph([[], [0], [1]], (), ["漢字", "x", "y"])
    lines = table(view).splitlines()[2:]
    start = lines[1].index("  ") + 2
    assert lines[0].startswith("op", start)
    (leaf,) = (line for line in lines if line.startswith("漢字 "))
    assert leaf.startswith("leaf", start - 2)  # two characters that take two columns each


def test_saving(tmp_path: Path) -> None:
    view = graph(SHAPES["fork"], (), HOSTILE)
    drawing = Drawing(view, arrange(view))
    assert drawing.save(tmp_path / "x.svg").read_text(encoding="utf-8") == drawing.svg + "\n"
    assert drawing.save(str(tmp_path / "x.TXT")).read_text(encoding="utf-8") == drawing.text + "\n"
    assert drawing.save(tmp_path / "x.dot").read_text(encoding="utf-8") == drawing.dot + "\n"
    for name in ("x.bmp", "x"):
        with pytest.raises(ArgumentError, match=r"\.svg, .*\.dot"):
            drawing.save(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.TXT", "x.dot", "x.svg"]


def test_dot_source_is_read_by_graphviz_with_every_label_as_typed() -> None:
    view = graph(SHAPES["layers"], (), HOSTILE)
    found = json.loads(layout._run_dot(Drawing(view, arrange(view)).dot, 10.0))
    assert len(found["objects"]) == len(view.cards)
    assert len(found["edges"]) == 2 * len(view.edges)
    assert r"a\\" in found["objects"][1]["label"] and "<lambda> <map>" in found["objects"][0]["label"]


def test_what_a_notebook_gets() -> None:
    view = graph(SHAPES["fork"])
    drawing = Drawing(view, arrange(view))
    assert drawing._repr_mimebundle_() == {"image/svg+xml": drawing.svg, "text/plain": drawing.text}
    assert repr(drawing) == "<Drawing of v4: 5 cards, 5 edges>"


def test_a_view_cannot_be_changed() -> None:
    view = graph(SHAPES["fork"])
    records: list[Any] = [view, view.cards[0], view.edges[0], view.cards[0].slot]
    for record in records:
        with pytest.raises(FrozenInstanceError):
            setattr(record, next(iter(record.__slots__)), "other")


def test_room_is_what_the_least_text_allows() -> None:
    assert PAGE / ROOM * 12 >= 11
