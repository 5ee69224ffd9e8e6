"""What lesson 08 has written for single operations: how a node is recorded, and the rules of product and power."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises import lesson_08_build as build

RECORD = Exercise(
    name="08.record",
    kind="build",
    asks="record(node, tapes): append the node to the innermost tape, if there is one, and return the node",
    answer=Function(lambda d: build.recording(), build.recording_cases, atol=0, why="counts", call=build.recorded,
                    say=build.told_record),
    right=(lambda d: build.recording(), lambda d: _record_otherwise),
    because="Each node stands once, on the tape that was entered last, in the order of making.",
    wrong=(
        Wrong("the outermost tape", lambda d: build.recording("outermost"), (
            "With one tape inside another, the nodes land on the wrong one.",
            "Tapes stack: `with` puts one on top, and the one on top is the one that records.",
            "Of the list [red, green, blue] the newest is blue, at index −1; index 0 is the oldest.",
        )),
        Wrong("every tape", lambda d: build.recording("every"), (
            "Some nodes stand on two tapes.",
            "Only one tape records at a time: the others wait until it is left.",
            "Nested `with open(...)` blocks are alike: a print to the inner file does not reach the outer one.",
        )),
        Wrong("at the front", lambda d: build.recording("front"), (
            "All nodes are there, but the order is off.",
            "The tape keeps the order of making, oldest first; backward relies on it.",
            "Appending 7, 8, 9 to a list gives [7, 8, 9]. Inserting each at index 0 turns it round.",
        )),
        Wrong("on no tape", lambda d: build.recording("nowhere"), (
            "The tapes stay empty.",
            "Making a node and writing it down are two things; the second is missing.",
            "A diary of a walk needs a pen as well as a walk.",
        )),
        Wrong("another node is listed", lambda d: build.recording("copy"), (
            "The tape has entries with the right values, but they are not the nodes that you return.",
            "A gradient that is written to the listed node must be visible to whoever holds the returned one.",
            "`kept = Box(); shelf.append(Box())` leaves `kept` off the shelf. Append the very object.",
        )),
        Wrong("opens a tape itself", lambda d: build.recording("opens a tape"), (
            "Where no tape was active there is one now.",
            "Outside every `with Tape()` there is nothing to write on, and nothing is kept.",
            "A camera that nobody switched on does not film, and does not switch itself on.",
        )),
        Wrong("no `if`", lambda d: build.recording("no if"), (
            "Where no tape is active your function fails.",
            "An empty list has no last entry. Ask first whether there is one.",
            "`[][-1]` raises an IndexError; `if shelf: shelf[-1]` does not.",
        )),
        Wrong("returns nothing", lambda d: build.recording("returns nothing"), (
            "The tapes are right, and the caller is left with None.",
            "The operation that calls record hands its result on, so record must give the node back.",
            "A clerk who stamps a passport and keeps it has done half of the job.",
        )),
    ),
)  # fmt: skip


def _record_otherwise(node: Any, tapes: list[Any]) -> Any:
    for tape in reversed(tapes):
        tape.nodes += [node]
        break
    return node


MULTIPLY = Exercise(
    name="08.multiply",
    kind="build",
    asks="multiply: the grad_fn of ab",
    answer=Function(lambda d: build.multiplying(), build.factors, rtol=1e-12, why="a few float64 operations",
                    call=build.multiplied, say=build.told_product),
    right=(lambda d: build.multiplying(), lambda d: _multiply_otherwise),
    because="d(ab) = b da + a db: what multiplies da goes to a, what multiplies db goes to b.",
    wrong=(
        Wrong("each gets its own value", lambda d: build.multiplying("own"), (
            "The two contributions have changed places.",
            "Write d(ab) and look at what stands before da.",
            "For the area of a 4 by 9 rectangle: the side 4 grows by a little, the area by 9 times that.",
        )),
        Wrong("g is forgotten", lambda d: build.multiplying("no g"), (
            "It is right as long as the cotangent that arrives is 1.",
            "A grad_fn is handed g, and what it returns is g times the local derivatives.",
            "If each unit of the area costs 20, a side of 9 makes the other one cost 180 a unit.",
        )),
        Wrong("taken at the output", lambda d: build.multiplying("output"), (
            "Both factors receive the same number, and the product itself is in it.",
            "Local derivatives of a product read the inputs; the output is not among them.",
            "At 4 · 9 the output is 36, and the local derivatives are the numbers 9 and 4.",
        )),
        Wrong("passes through", lambda d: build.multiplying("as add"), (
            "This is the rule of another operation.",
            "A sum hands g on unchanged, because d(a + b) has coefficients of 1. A product does not.",
            "From 4 + 9 each side gets g. From 4 · 9 that cannot be: the small side matters more.",
        )),
        Wrong("adds to g", lambda d: build.multiplying("plus"), (
            "The right numbers are there, joined by the wrong sign.",
            "Along a path derivatives are multiplied; sums are for different paths that meet.",
            "A gear of 3 that drives a gear of 5 turns it 15 times, not 8.",
        )),
        Wrong("nodes for numbers", lambda d: build.multiplying("nodes"), (
            "A contribution is to be a number, and yours was computed with a node.",
            "A node holds a number in its field `value`; the node itself is no factor.",
            "With a box of 7 sweets you multiply 3 by what is in the box, and not by the box.",
        )),
        Wrong("not recorded", lambda d: build.multiplying("unrecorded"), (
            "The node is right, but no new row stands on the tape.",
            "An operation ends with `record(node, active)`. Without it backward never meets the node.",
            "A letter that is written and not posted reaches nobody.",
        )),
        Wrong("the two are summed", lambda d: build.multiplying("product rule"), (
            "Each factor receives what belongs to both.",
            "The two terms of the differential go to two parents, one to each.",
            "d(uv) at u = 4, v = 9 is 9 du + 4 dv: two addresses, not one parcel of 13 for each.",
        )),
    ),
)  # fmt: skip


def _multiply_otherwise(a: Any, b: Any) -> Any:
    out = SimpleNamespace(value=b.value * a.value, parents=[a, b], op="mul")
    out.grad_fn = lambda g: tuple(g * other.value for other in (b, a))
    return out


POWER = Exercise(
    name="08.power",
    kind="build",
    asks="power(a, k): the value of a ** k for a plain number k, and the grad_fn",
    answer=Function(lambda d: build.powering(), build.bases, rtol=1e-9, why="a few float64 operations",
                    call=build.powered, say=build.told_power),
    right=(lambda d: build.powering(), lambda d: _power_otherwise),
    because="d(xᵏ) = k xᵏ⁻¹ dx, times the cotangent that arrives.",
    wrong=(
        Wrong("the exponent stays", lambda d: build.powering("exponent kept"), (
            "The contribution is too large for bases above 1, and too small below.",
            "Differentiating a power lowers its exponent.",
            "d(t⁵) = 5t⁴ dt; with the exponent kept, the cube at t = 2 would have slope 24 and not 12.",
        )),
        Wrong("the factor is missing", lambda d: build.powering("factor forgotten"), (
            "The exponent is the right one, and the size is wrong.",
            "The exponent comes down as a factor.",
            "A cube of side s grows by three faces, not by one: its slope is 3s².",
        )),
        Wrong("taken at its output", lambda d: build.powering("at the output"), (
            "The local derivative was taken at the wrong number.",
            "Its formula is in terms of the input. The output of the power does not enter.",
            "t² at t = 3: the slope is 2 · 3. Put the output 9 there, and it would be 18.",
        )),
        Wrong("for the exponent", lambda d: build.powering("of the exponent"), (
            "There is a logarithm in it, which belongs to another question.",
            "Here k is a plain number, and a is the parent: d is taken in the base.",
            "2ᵗ has slope 2ᵗ ln 2 in t; t² has no logarithm in its slope.",
        )),
        Wrong("one taken off the power", lambda d: build.powering("one taken off"), (
            "The 1 is taken off in the wrong place.",
            "It is the exponent that is lowered by one, before the power is taken.",
            "Python reads t ** 3 - 1 as (t ** 3) - 1; t ** (3 - 1) is another number.",
        )),
        Wrong("a number for a list", lambda d: build.powering("bare"), (
            "The number is right, but backward wants to walk through a list.",
            "A `grad_fn` returns one contribution for each parent, in a list, also if there is one parent.",
            "For one guest, too, the guest list is a list: `[7]`, not `7`.",
        )),
        Wrong("a node for a number", lambda d: build.powering("nodes"), (
            "The contribution was computed with the node itself.",
            "Differentiate at the number that the node holds: its field `value`.",
            "Of a box with a 7 in it the square is 49 only when you have opened the box.",
        )),
        Wrong("not recorded", lambda d: build.powering("unrecorded"), (
            "The node is right, but no new row stands on the tape.",
            "Hand the node to `record` with the list of active tapes, and return what it returns.",
            "What is said before the recorder is switched on is on no tape, however well it was said.",
        )),
        Wrong("the exponent as a parent", lambda d: build.powering("two parents"), (
            "There is one parent too many.",
            "A plain number has no `grad` to be added to; only nodes are parents.",
            "In 5u, too, the 5 is no node of the graph.",
        )),
        Wrong("a parent without a tuple", lambda d: build.powering("no tuple"), (
            "`parents` must be something that a loop can walk through.",
            "One parent makes a tuple of one entry, and that is written with a comma.",
            "`(7)` is the number 7; `(7,)` is a tuple with a 7 in it.",
        )),
        Wrong("another name", lambda d: build.powering("name"), (
            "All is right but the op's name.",
            "The prompt says what the op is to be called; tables and later cells rely on it.",
            "The engine's product is called `mul`, and not `multiply`.",
        )),
        Wrong("g left out", lambda d: build.powering("no g"), (
            "This is the local derivative, and nothing more.",
            "What comes from upstream must be handed on, scaled.",
            "If 6 arrives at t² at t = 5, then 60 goes on, and not 10.",
        )),
    ),
)  # fmt: skip


def _power_otherwise(a: Any, k: int) -> Any:
    value = a.value**k
    return SimpleNamespace(value=value, parents=[a], op="pow", grad_fn=lambda g: (g * k * value / a.value,))
