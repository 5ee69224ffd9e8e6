"""A backward pass as steps, from graphs written by hand: what each step says, what is kept, and how it is drawn."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from netcl.errors import ArgumentError
from netcl.viz.drawing import Drawing
from netcl.viz.film import Filmstrip
from netcl.viz.frames import Frames, Look
from netcl.viz.page import page
from netcl.viz.palette import DARK, LIGHT
from netcl.viz.panels import panel
from netcl.viz.quiz import near, parse_number, pattern
from netcl.viz.saying import split_numbers
from netcl.viz.steps import Passage, passage
from netcl.viz.values import view as summarise
from netcl.viz.views import Card, Edge, GraphView, Slot

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<lambda> <map>", "a\\", "n:1", "x < y", '"q"', "</svg><script>alert(1)</script>", "𝛁", "עברית", "<!--"]


def number(value: float) -> Any:
    return summarise(np.asarray(value, np.float32))


def card(key: int, kind: Any, name: str, value: float, grad: float, total: str = "") -> Card:
    slot = Slot("value", number(grad), "", total, f"added into {name}.grad" if kind == "leaf" else "")
    return Card(
        key, kind, name, name, "" if kind == "leaf" else "mul", (), "float32", number(value), slot, f"∂f/∂{name}"
    )


def fork(names: str | list[str] = "abpqf") -> GraphView:
    """f = ab + a² at a = 2, b = 3."""
    a, b, p, q, f = names
    cards = (
        card(0, "leaf", a, 2, 7, "4 + 3 = 7"), card(1, "leaf", b, 3, 2), card(2, "op", p, 6, 1), card(3, "op", q, 4, 1),
        card(4, "root", f, 10, 1),
    )  # fmt: skip
    edges = (
        Edge(0, 0, 2, "× b", "× b", "upstream 1 × (b = 3) → 3", "", number(3)),
        Edge(1, 1, 2, "× a", "× a", "upstream 1 × (a = 2) → 2", "", number(2)),
        Edge(2, 0, 3, "( )²", "× 2a", "upstream 1 × (2a = 4) → 4", "", number(4)),
        Edge(3, 2, 4, "+ q", "× 1", "upstream 1 × 1 → 1", "", number(1)),
        Edge(4, 3, 4, "+ p", "× 1", "upstream 1 × 1 → 1", "", number(1)),
    )
    return GraphView(4, f, cards, edges, seed="1", ran=True)


@pytest.fixture
def steps() -> Passage:
    return passage(fork())


def test_what_g_is_is_said_where_a_picture_first_shows_it(steps: Passage) -> None:
    """Rules stand on the arrows from step 0 on."""
    products = replace(fork(), edges=tuple(replace(edge, rule="G @ Wᵀ", numbers="") for edge in fork().edges))
    for each, speaks in ((steps, False), (passage(products), True)):
        first = Frames(each).svg(Look(0), LIGHT)
        assert ("G @" in "".join(ET.fromstring(first).itertext())) is speaks
        assert ("G is what arrives" in each.steps[0].sentence) is speaks


def test_the_seed_is_step_0_and_each_edge_is_one_step_in_the_engines_order(steps: Passage) -> None:
    assert [(step.number, step.edge) for step in steps.steps] == [(0, None), (1, 3), (2, 4), (3, 2), (4, 0), (5, 1)]
    assert steps.last == 5
    assert steps.steps[0].sentence == "The seed: ∂f/∂f = 1, since f changes by 1 for each unit of itself."


def test_where_paths_meet_was_and_contribution_make_now(steps: Passage) -> None:
    first, second = steps.ledger(0, 5)
    assert (first.was, first.contribution, first.now) == (None, number(4), number(4))
    assert (second.was, second.contribution, second.now) == (number(4), number(3), number(7))
    assert (first.more, second.more) == (1, 0)
    assert second.sentence == (
        "∂f/∂p = 1 arrives at p. p changes by b = 3 for each unit of a. 1 × 3 = 3 is added to what ∂f/∂a holds: "
        "4 + 3 = 7."
    )


def test_edges_are_done_current_or_waiting(steps: Passage) -> None:
    assert [steps.state(edge, 3) for edge in (3, 4, 2, 0, 1)] == ["done", "done", "current", "waiting", "waiting"]
    assert {steps.state(edge, 0) for edge in range(5)} == {"waiting"}


def test_slots_after_the_current_step_say_not_yet_and_incomplete_ones_so_far(steps: Passage) -> None:
    a, b = steps.view.card(0), steps.view.card(1)
    found = [steps.slot(a, at) for at in range(6)]
    assert [slot.state for slot in found if slot] == ["not yet"] * 3 + ["value"] * 3
    assert found[3] is not None and (found[3].total, found[3].note) == ("so far", "1 more to come")
    assert found[4] == a.slot
    assert [slot.state for at in range(6) if (slot := steps.slot(b, at))] == ["not yet"] * 5 + ["value"]


def test_a_node_that_waits_for_a_path_is_not_ready(steps: Passage) -> None:
    assert steps.ready(0) == {3, 4}
    assert steps.ready(1) == {4, 0, 1}  # q still waits for f
    assert steps.ready(3) == {0, 1}


def test_each_use_of_a_leaf_adds_to_the_leafs_own_slot() -> None:
    graph = fork()
    use = Card(5, "use", "a", "a", use="use 2 of 2")
    graph = replace(graph, cards=(*graph.cards, use), edges=(replace(graph.edges[0], parent=5), *graph.edges[1:]))
    steps = passage(graph)
    assert [step.number for step in steps.ledger(0, 5)] == [3, 4] == [step.number for step in steps.ledger(5, 5)]
    assert steps.steps[4].now == number(7)


def test_sums_of_large_arrays_are_left_out_where_they_are_not_known() -> None:
    graph = fork()
    big = summarise(np.linspace(0, 1, 1000))
    graph = replace(graph, edges=tuple(replace(edge, numbers="", contribution=big) for edge in graph.edges))
    told = passage(graph).steps[4]
    assert told.was == big and told.contribution == big
    assert told.now == graph.card(0).slot.array  # type: ignore[union-attr]
    exact = passage(graph, {edge.key: np.linspace(0, 1, 1000) for edge in graph.edges}).steps[4]
    assert exact.now == summarise(2 * np.linspace(0, 1, 1000))


def test_an_edge_through_which_nothing_flows_is_no_step() -> None:
    graph = fork()
    cut = replace(graph.edges[2], contribution=None, numbers="")
    steps = passage(replace(graph, edges=(*graph.edges[:2], cut, *graph.edges[3:])))
    assert steps.last == 4 and steps.state(2, 4) == "none"


def test_before_backward_there_is_nothing_to_step_through() -> None:
    steps = passage(replace(fork(), ran=False, seed=""))
    assert steps.last == 0 and steps.steps[0].sentence == "Backward has not run."


def test_numbers_on_an_edge_are_read_apart() -> None:
    assert split_numbers("upstream −2 × (1 − h² = 0.5) → −1") == ("−2", "1 − h²", "0.5", "−1")


# The picture


def chunks_of(steps: Passage, look: Look) -> list[ET.Element]:
    root = ET.fromstring(Frames(steps).svg(look, LIGHT))
    return [each for each in root if each.tag == f"{NS}g"]


def test_nothing_moves_from_step_to_step(steps: Passage) -> None:
    frames = Frames(steps)
    roots = [ET.fromstring(frames.svg(Look(at), LIGHT)) for at in range(6)]
    places = [[g.attrib["transform"] for g in root if g.tag == f"{NS}g"] for root in roots]
    sizes = [[(r.attrib["width"], r.attrib["height"]) for r in root.iter(f"{NS}rect")][:1] for root in roots]
    assert all(each == places[0] for each in places) and all(each == sizes[0] for each in sizes)


def test_states_differ_in_line_and_text_and_not_by_colour_alone(steps: Passage) -> None:
    root = ET.fromstring(Frames(steps).svg(Look(3), LIGHT))
    lines = [p.attrib for p in root.iter(f"{NS}path")]
    kinds = {(p.get("stroke-dasharray"), p["stroke-width"]) for p in lines if "stroke-dasharray" in p}
    assert kinds == {("9 4", "3.6"), ("5 4", "1.6"), ("1.5 4.5", "1.6")}
    texts = [t.text for t in root.iter(f"{NS}text")]
    assert {"waiting", "now", "done", "not yet", "so far", "1 more to come"} <= set(texts)
    assert {"1", "2", "3", "4", "5"} <= set(texts)  # every edge has its number


@pytest.mark.parametrize("room", [400, 480, 720, 1000])
@pytest.mark.parametrize("at", range(6))
def test_every_step_can_be_read_on_a_page(steps: Passage, at: int, room: int, svg_reader: Any) -> None:
    for look in (Look(at), Look(at, at + 1 if at < 5 else None, unnumbered=True)):
        frames = Frames(steps, page=room)
        root = ET.fromstring(frames.svg(look, DARK))
        wide, units = float(root.attrib["width"]), float(root.attrib["viewBox"].split()[2])
        assert wide <= room and not frames.too_wide
        assert min(float(t.attrib["font-size"]) for t in root.iter(f"{NS}text")) * wide / units >= 10.99
        picture = svg_reader.Picture(wide, (units, 1e9))
        for group in root.findall(f"{NS}g"):
            svg_reader._read_group(picture, group)
        for box, inside in zip(picture.cards, picture.card_texts, strict=True):
            for text in inside:
                assert box.left <= text.left and text.right <= box.right, text.text
                assert box.top <= text.top, text.text


def test_a_question_shows_neither_result_nor_order(steps: Passage) -> None:
    svg = Frames(steps).svg(Look(3, 4, unnumbered=True), LIGHT)
    texts = [t.text for t in ET.fromstring(svg).iter(f"{NS}text")]
    assert "→ ?" in texts and "+ ?" in texts and "?" in texts
    assert "7" not in texts and "5" not in texts  # neither the sum nor the number of the step after


def test_the_ledger_tells_what_came_through_whom_and_what_will(steps: Passage) -> None:
    html = panel(steps, 3)
    assert "What has reached a (∂f/∂a)" in html
    rows = re.findall(r"<tr( class=\"\w+\")?><td>(\d)</td><td>(.*?)</td><td>(.*?)</td><td class=\"n\">(.*?)</td>", html)
    assert rows == [
        (' class="now"', "3", "q", "1 × (2a = 4)", "0 + 4 = 4"), (' class="later"', "4", "p", "× b", "not yet"),
    ]  # fmt: skip


def test_without_a_layout_the_steps_are_told(steps: Passage) -> None:
    frames = Frames(steps)
    frames.scene = "shown as a table: no layout"
    told = " ".join(each.text or "" for each in ET.fromstring(frames.svg(Look(2), LIGHT)).iter(f"{NS}text"))
    assert "no layout" in told and "0 + 1 = 1" in told.replace("\u00a0", " ")
    assert page(frames).count("<svg") >= 1


# The filmstrip


@pytest.mark.parametrize("room", [400, 480, 560, 720, 1000])
def test_a_heading_stays_beside_its_legend_however_narrow_the_page(steps: Passage, room: int, svg_reader: Any) -> None:
    pictures = [
        Filmstrip(steps, page=room).svg,
        *(Frames(steps, page=room).svg(Look(2, at), LIGHT) for at in (None, 3)),
    ]
    for svg in pictures:
        root = ET.fromstring(svg)
        texts = [svg_reader._text_box(child, 0, 0) for child in root if child.tag == f"{NS}text"]
        assert "now" in {text.text for text in texts}
        for one, other in combinations(texts, 2):
            assert not one.overlaps(other), (one.text, other.text)
        wide = float(root.attrib["viewBox"].split()[2])
        assert all(0 <= text.left and text.right <= wide for text in texts)


@pytest.mark.parametrize("room", [400, 720, 1000])
def test_a_filmstrip_has_a_frame_a_step_and_can_be_read(steps: Passage, room: int) -> None:
    film = Filmstrip(steps, page=room)
    root = ET.fromstring(film.svg)
    assert float(root.attrib["width"]) == room
    scale = room / float(root.attrib["viewBox"].split()[2])
    assert min(float(t.attrib["font-size"]) for t in root.iter(f"{NS}text")) * scale >= 10.99
    assert [t.text for t in root.iter(f"{NS}title")][1:] == ["step 0: the seed", *(f"step {n}" for n in range(1, 6))]
    assert film.text.splitlines()[2:] == [f"step {s.number}: {s.sentence}" for s in steps.steps]
    assert repr(film) == "<Filmstrip of f: 5 steps>"


def test_a_long_pass_is_cut_and_says_so(steps: Passage) -> None:
    root = ET.fromstring(Filmstrip(steps, most=3).svg)
    assert [t.text for t in root.iter(f"{NS}title")][1:] == ["step 0: the seed", "step 1", "step 5"]
    assert "steps 2 to 4 are left out here" in " ".join(t.text or "" for t in root.iter(f"{NS}text"))


# The page


def data_of(html: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="netcl-data">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def test_the_page_holds_every_frame_and_needs_nothing_else(steps: Passage) -> None:
    html = page(Frames(steps))
    data = data_of(html)
    for at, chosen in enumerate(data["frames"]):
        parts = [data["chunks"][i][form] for i, form in enumerate(chosen)]
        ET.fromstring(data["open"][at] + "".join(parts) + "</svg>")
    assert len(data["frames"]) == len(data["said"]) == len(data["panels"]) == 6
    assert data["said"][4] == steps.steps[4].sentence
    outside = [url for url in re.findall(r"(?:https?:)?//[\w.]+", html) if url != "http://www.w3.org"]
    assert outside == [] and "default-src 'none'" in html
    assert 'aria-live="polite"' in html and "prefers-color-scheme: dark" in html and ":focus-visible" in html


def test_what_most_steps_share_is_written_once(steps: Passage) -> None:
    data = data_of(page(Frames(steps)))
    assert sum(map(len, data["chunks"])) < 0.6 * 6 * len(data["chunks"])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text_wherever_they_stand(text: str) -> None:
    steps = passage(fork([text, "b", "p", "q", text + "f"]), places={2: ("cell 1, line 1", text), 4: (text, text)})
    html = page(Frames(steps))
    data = data_of(html)
    assert html.count("<script") == 2 and "<script>alert" not in html.replace("<script>\n(function", "")
    for panel_html in data["panels"]:
        assert "<script" not in panel_html and "</svg>" not in panel_html
    ET.fromstring(Filmstrip(steps).svg)
    for at in range(6):
        ET.fromstring(Frames(steps).svg(Look(at), LIGHT))


def test_a_drawing_is_saved_as_a_page_too(tmp_path: Any) -> None:
    drawing = Drawing(fork(), "no layout wanted here")
    html = drawing.save(tmp_path / "fork.html").read_text(encoding="utf-8")
    assert data_of(html)["said"][4].endswith("4 + 3 = 7.")
    with pytest.raises(ArgumentError, match="html"):
        drawing.save(tmp_path / "fork.bmp")


# Answers


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3.0), ("−0.5", -0.5), ("1/3", 1 / 3), (" 2,5 ", 2.5), ("1e-3", 0.001)]
)
def test_numbers_are_read_as_people_type_them(text: str, value: float) -> None:
    assert parse_number(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "seven", "1/0", "2a", "1e999/2"])
def test_what_is_no_number_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ArgumentError, match="no number"):
        parse_number(text)


def test_rounded_answers_are_right_and_neighbours_are_not() -> None:
    assert near(0.33, 1 / 3) and near(-0.0, 0.0)
    assert not near(7.2, 7) and not near(0.0, 0.001) and not near(float("nan"), 1)


def test_signs_of_arrays() -> None:
    assert pattern(np.zeros((2, 2))) == "zero everywhere" and pattern(np.array([1.0, -1.0])) == "of mixed sign"
