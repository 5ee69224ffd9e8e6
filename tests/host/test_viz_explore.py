"""What `explore` is made of, without a device: ranges, the curve, ghosts, and a layout that numbers do not change."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netcl.errors import ArgumentError
from netcl.viz.controls import MOST_SLIDERS, around, control, controls
from netcl.viz.curve import HIGH, WIDE, Curve, block, bounds, clipped, pieces, ticks, with_point
from netcl.viz.exploring import PAUSE, Ghost, Run
from netcl.viz.palette import LIGHT
from netcl.viz.shapes import Line, Text, ink
from netcl.viz.steady import Steady, changed, ghosted, signature
from netcl.viz.values import number, view
from netcl.viz.views import Card, Edge, GraphView, Slot

# Ranges


@pytest.mark.parametrize("value", [2.0, -3.0, 0.01, 1e-6, 7.3, 123456.0, 0.0, -0.1, 1e20])
def test_a_number_has_a_range_around_it_that_crosses_zero(value: float) -> None:
    found = around(value)
    assert found.low <= 0 <= found.high and found.low < value < found.high
    steps = (found.high - found.low) / found.step
    assert 50 <= steps <= 250 and steps == pytest.approx(round(steps))
    assert found.start == value


def test_ranges_are_taken_as_given() -> None:
    assert control("b", (-1, 1)).ranges[0].start == 0
    third = control("b", (0, 1, 0.25)).ranges[0]
    assert (third.low, third.high, third.step, third.start) == (0, 1, 0.25, 0.5)
    off_grid = control("b", (0, 3, 1)).ranges[0]
    assert off_grid.start in (1.0, 2.0)  # on a step


@pytest.mark.parametrize(
    "given",
    [(1, -1), (1, 1), (0, 1, 0), (0, 1, -0.1), (0, 1, 2), (0,), (0, 1, 2, 3), (0, math.inf), ("0", 1), "x", None, [],
     [[1.0], [1.0, 2.0]], math.nan, [1.0, math.inf], {"a": 1}, True, [1j]],
)  # fmt: skip
def test_what_is_no_range_is_refused_by_name(given: Any) -> None:
    with pytest.raises(ArgumentError, match="weight"):
        control("weight", given)


def test_no_leaf_at_all_is_refused() -> None:
    with pytest.raises(ArgumentError, match="a leaf to move"):
        controls({})


def test_small_arrays_have_a_range_an_entry_and_large_ones_a_seed() -> None:
    small = control("W", [[1.0, -2.0], [0.5, 0.0]])
    assert [small.label(each) for each in small.ranges] == ["W[0, 0]", "W[0, 1]", "W[1, 0]", "W[1, 1]"]
    assert {(each.low, each.high) for each in small.ranges} == {(-4.0, 4.0)} and small.base.dtype == np.float32
    assert control("W", np.zeros(3)).base.dtype == np.float64 and control("n", 3).base.dtype == np.float32
    large = control("X", np.linspace(0.0, 10.0, MOST_SLIDERS + 1))
    assert large.ranges == ()
    assert np.array_equal(large.drawn(0), large.base)
    assert np.array_equal(large.drawn(3), large.drawn(3)) and not np.array_equal(large.drawn(3), large.drawn(4))
    assert large.drawn(3).dtype == large.base.dtype and 0 < large.drawn(3).mean() < 10


def test_an_array_that_was_given_is_not_the_one_that_moves() -> None:
    given = np.zeros(2)
    control("v", given).base[0] = 1
    assert given[0] == 0


# The curve


def square(at: float, **more: Any) -> Curve:
    xs = tuple(float(x) for x in np.linspace(-2, 2, 41))
    return Curve("a", "f", "∂f/∂a", xs, tuple(x * x for x in xs), (at, at * at), 2 * at, **more)


def test_ticks_are_round_and_inside() -> None:
    for low, high in ((-2.0, 6.0), (0.0, 1e-7), (1e6, 1e6 + 3), (-0.013, 0.4)):
        found = ticks(low, high)
        assert 2 <= len(found) <= 7
        assert all(low - 1e-9 * abs(low) <= tick <= high * (1 + 1e-9) for tick in found)
        steps = np.diff(found)
        assert steps == pytest.approx(steps[0])


def test_the_tangent_goes_through_the_point_with_the_gradients_slope() -> None:
    curve = square(1.0)
    tangent = curve.tangent()
    assert tangent is not None
    (x0, y0), (x1, y1) = tangent
    assert (y1 - y0) / (x1 - x0) == pytest.approx(2.0)
    assert y0 + 2.0 * (1.0 - x0) == pytest.approx(1.0)
    assert all(curve.up[0] <= y <= curve.up[1] for y in (y0, y1)) and x0 < 1.0 < x1
    assert replace(curve, slope=math.nan).tangent() is None


def test_a_pole_does_not_flatten_the_curve() -> None:
    xs = np.linspace(-1, 1, 41)
    with np.errstate(divide="ignore"):
        low, high = bounds((1 / xs).tolist(), [1.0])
    assert -21 < low < 0 < high < 21
    flat = bounds([3.0, 3.0])
    assert flat[0] < 3 < flat[1]
    assert bounds([math.nan, math.inf], [2.0]) == (1.0, 3.0) and bounds([]) == (-1.0, 1.0)


def test_the_curve_has_gaps_where_it_has_no_value() -> None:
    found = pieces([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, math.nan, 1.0, 0.0], (0.0, 4.0), (0.0, 2.0))
    assert found == [[(0.0, 0.0), (1.0, 1.0)], [(3.0, 1.0), (4.0, 0.0)]]
    assert clipped((0.0, 5.0), (1.0, 6.0), (0.0, 1.0), (0.0, 2.0)) is None
    xs, ys = with_point(square(0.01))
    assert list(xs) == sorted(xs) and (0.01, 0.0001) in list(zip(xs, ys, strict=True))


@pytest.mark.parametrize("at", [-2.0, 0.01, 2.0, 3.0])
def test_all_of_a_curves_picture_is_inside_it_and_can_be_read(at: float) -> None:
    drawn = block(square(at, before=(-1.0, 1.0), before_ys=(5.0,) * 41))
    for shape in drawn.shapes:
        left, right = ink(shape)
        assert -0.5 <= left and right <= WIDE + 0.5
        if isinstance(shape, Text):
            assert shape.size >= 11 and 0 < shape.y < HIGH
        if isinstance(shape, Line):
            assert all(0 <= y <= HIGH for _, y in shape.points)
    assert {"before", "slope ∂f/∂a = " + ("6" if at == 3 else f"{2 * at:g}".replace("-", "\u2212"))} <= {
        shape.text for shape in drawn.shapes if isinstance(shape, Text)
    }


# Ghosts


def run(loss: float) -> Run:
    return Run({}, graph(loss, 1.0), loss, {})


def test_the_ghost_is_the_run_before_the_slider_began_to_move() -> None:
    ghost, runs = Ghost(), [run(float(i)) for i in range(7)]
    ghost.moved(runs[0], "", 0.0)
    assert ghost.run is None
    ghost.moved(runs[1], "a", 0.1)
    ghost.moved(runs[2], "a", 0.2)
    assert ghost.run is runs[0]  # one movement
    ghost.moved(runs[3], "b", 0.3)
    assert ghost.run is runs[2]  # another slider
    ghost.moved(runs[4], "b", 0.3 + PAUSE + 0.1)
    assert ghost.run is runs[3]  # after a pause
    ghost.held = True
    ghost.moved(runs[5], "a", 9.0)
    assert ghost.run is runs[3]
    ghost.held = False
    ghost.moved(runs[6], "b", 20.0)
    assert ghost.run is runs[5]


# A layout that stays


def graph(value: float, slope: float, op: str = "mul", shape: tuple[int, ...] = ()) -> GraphView:
    def card(key: int, kind: Any, name: str, number: float) -> Card:
        array = view(np.full(shape, number, np.float32))
        slot = Slot("zero" if slope == 0 else "value", view(np.full(shape, slope, np.float32)), total="1 + 2 = 3")
        return Card(key, kind, name, name, "" if kind == "leaf" else op, shape, "float32", array, slot, f"∂f/∂{name}")

    cards = (card(0, "leaf", "a", value), card(1, "root", "f", value * 2))
    edge = Edge(
        0, 0, 1, "× 2", "× 2", f"upstream 1 × 2 → {number(slope)}", contribution=cards[0].slot and cards[0].slot.array
    )
    return GraphView(1, "f", cards, (edge,), seed="1", ran=True)


VALUES = [(2.0, 0.5), (0.0, 0.0), (-0.123456, -3.14159), (1e-38, -1e20), (12345.678, 99999.0), (math.nan, math.inf)]


def outlines(svg: str) -> list[dict[str, str]]:
    """What must not move: frames, groups, lines."""
    kept = []
    for element in ET.fromstring(svg).iter():
        tag = element.tag.rpartition("}")[2]
        if element.get("stroke") == LIGHT["warn"]:  # the pattern of what is not finite
            continue
        if tag in ("svg", "g", "path", "polygon") or (tag == "rect" and element.get("rx") in ("9", "4")):
            kept.append({key: value for key, value in element.attrib.items() if key not in ("fill", "aria-label")})
    return kept


@pytest.mark.parametrize("shape", [(), (2,), (3, 40)])
@pytest.mark.parametrize(("value", "slope"), VALUES)
def test_only_numbers_change(shape: tuple[int, ...], value: float, slope: float) -> None:
    first = graph(1.0, 1.0, shape=shape)
    steady = Steady(first)
    other = graph(value, slope, shape=shape)
    drawn = steady.svg(other, first, LIGHT)
    assert outlines(drawn) == outlines(steady.svg(first, None, LIGHT))
    assert "0.0000" not in drawn  # the room that was kept is not shown as a number
    assert drawn == Steady(other).svg(other, first, LIGHT) or shape == (3, 40)


def test_numbers_that_moved_have_what_they_were_below_them() -> None:
    before, now = graph(2.0, 0.5), graph(3.0, 0.5)
    shown = ghosted(now, before)
    assert [card.note for card in shown.cards] == ["before 2", "before 4"]
    assert [card.slot.note for card in shown.cards if card.slot] == ["", ""]
    assert [card.slot.note for card in ghosted(graph(3.0, 0.0), None).cards if card.slot] == ["exactly zero"] * 2


def test_another_graph_is_said_in_a_sentence() -> None:
    one, other = graph(1.0, 1.0), graph(1.0, 1.0, "exp")
    assert changed(one, graph(5.0, 2.0)) == "" and signature(one) == signature(graph(5.0, 2.0))
    assert changed(one, other) == "Another graph than before (new: exp; gone: mul)."
    assert changed(one, graph(1.0, 1.0, shape=(2,))) == "Another graph than before (a is (2,), and was ())."
    twisted = replace(one, edges=(*one.edges, replace(one.edges[0], key=1)))
    assert changed(one, twisted) == "Another graph than before (the same ops, connected in another way)."
    assert ghosted(other, one).cards[0].note == ""  # leaves are still compared, and this one is what it was
