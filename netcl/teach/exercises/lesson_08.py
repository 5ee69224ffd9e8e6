"""Lesson 08 asks for an engine in parts: recording, two rules, the backward pass, the whole; for what stands on
a tape; for what a Node is; and for the node whose rule is broken."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Choice, Function, Number, Word
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises import lesson_08_build as build
from netcl.teach.exercises.lesson_08_rules import MULTIPLY, POWER, RECORD


def _rows_run(d: SimpleNamespace) -> int:
    x = ag.tensor(0.5, requires_grad=True)
    with ag.Tape() as tape:
        t = x
        for _ in range(d.n):
            t = t * x + 1.0
        t.tanh()
    return len(tape.nodes)


ROWS = Exercise(
    name="08.rows",
    kind="predict",
    asks="how many nodes a run of `wind` puts on the tape",
    data=lambda rng: {"n": rng.randint(5, 9)},
    answer=Number(lambda d: 2 * d.n + 1, atol=0, why="a count"),
    right=(lambda d: 2 * d.n + 1, lambda d: np.array(float(_rows_run(d)))),
    because="The loop makes two nodes each time, the branch that was taken one; leaves and constants make none.",
    wrong=(
        Wrong("counts the signs in the source", lambda d: 5, (
            "That is how many operations the text has. The tape is written while the function runs.",
            "An operation is recorded each time it is executed, and never if it is not.",
            "`for _ in range(3): t = t * 2.0` has one sign, and puts three nodes on the tape.",
        )),
        Wrong("runs the loop once", lambda d: 3, (
            "The branch is right. Look at the loop again.",
            "A loop is not a node. Its body is recorded anew in every round.",
            "`for _ in range(4): t = t - x` leaves four nodes called sub.",
        )),
        Wrong("counts the leaf", lambda d: 2 * d.n + 2, (
            "There is one too many: something stands on your list that no operation made.",
            "A leaf is where a graph starts. The tape lists what was computed, in order.",
            "For `y = u * u` with a leaf u the tape has the product alone.",
        )),
        Wrong("counts the constants", lambda d: 3 * d.n + 1, (
            "You have an entry for each plain number in the loop.",
            "A plain number needs no gradient, so it is kept as an operand and gets no node.",
            "`u * 7.0 + 9.0` records a product and a sum, nothing for the 7 and the 9.",
        )),
        Wrong("takes both branches", lambda d: 2 * d.n + 3, (
            "Part of what you counted was never executed.",
            "Python decides at the `if`, by the value. The other branch leaves no trace in this run.",
            "`u if u.item() > 0 else u * u * u` at u = 4 records nothing at all.",
        )),
        Wrong("the loop alone", lambda d: 2 * d.n, (
            "The loop is right. What else does a run of this function execute?",
            "The value decides at the `if`; the side that is taken is executed like any other line.",
            "`t = u * 2.0`, then `return ag.exp(t)`: the last line has an operation as well, and its node.",
        )),
        Wrong("one node a line", lambda d: d.n + 1, (
            "A line of the loop does more than one thing.",
            "Each operation makes a node, however many of them share a line or an expression.",
            "`t * t * t` is one line and two products.",
        )),
    ),
)  # fmt: skip

NODE = Exercise(
    name="08.node",
    kind="explain",
    asks="which statements about a Node of netcl are true (several letters)",
    answer=Choice("ace", by_letter=True, options={
        "a": "It holds a Tensor, and beside it how that tensor was made.",
        "b": "It is a kind of Tensor, one with a gradient.",
        "c": "It knows its parents, and not who will use it.",
        "d": "It stands for a line of your program, however often the line runs.",
        "e": "Its grad_fn can be called again, with another cotangent.",
        "f": "It keeps the formula of its derivative, to be simplified later.",
        "g": "It knows the nodes that were made from it, so that gradients find the way down.",
    }),
    right=(lambda d: "ace", lambda d: {"a", "c", "e"}),
    because="A Node is a record: a value, its parents, and a function that pulls a cotangent back to them.",
    wrong=(
        Wrong("a Node is a Tensor", lambda d: "bce", (
            "You take the record for the thing that it records.",
            "Ask Python with isinstance, and look at the field called value.",
            "A library card is not a book with a stamp in it: one card names one book, and can be drawn up twice.",
        )),
        Wrong("the graph is the source", lambda d: "acde", (
            "One of your statements is about text, and the graph is not made of text.",
            "Run a line twice, and compare what came of it with `is`.",
            "A recipe baked on Monday and on Tuesday gives two cakes, each with its own crumbs.",
        )),
        Wrong("nodes know their children", lambda d: "aeg", (
            "You have the links pointing in the other direction.",
            "When a node is made, its users do not exist yet; when a user is made, the node is there to point to.",
            "A birth certificate names two parents, and leaves no line for grandchildren.",
        )),
        Wrong("the derivative is symbolic", lambda d: "acef", (
            "Most of it is right, and one statement would make this a computer algebra system.",
            "What is kept are numbers of this run, and a function that works on numbers.",
            "A till adds up prices as they come; it never holds a formula for your bill.",
        )),
        Wrong("a grad_fn works once", lambda d: "ac", (
            "There is a further true statement, about what can be done again.",
            "A VJP is a linear map at a fixed point. Nothing is used up when it is applied.",
            "Lesson 06 sent six seeds back through one graph, one after the other.",
        )),
        Wrong("a Node is a Tensor, and its record", lambda d: "abce", (
            "All true ones are there, with a false one about what kind of thing a Node is.",
            "A Node *has* a Tensor. Print `isinstance(y, type(y.value))`.",
            "A car has an engine. It is no kind of engine.",
        )),
        Wrong("links in both directions", lambda d: "aceg", (
            "All true ones are there, with a false one about a direction.",
            "Think of the moment at which a node is made: which of its relatives exist by then?",
            "A book lists the books that it quotes; it cannot list those that will quote it.",
        )),
        Wrong("a Node is its value alone", lambda d: "ae", (
            "From what you chose, backward could not get any further than one node.",
            "After a grad_fn has answered, its contributions must be delivered to somebody.",
            "A letter with a text and no address stays where it is.",
        )),
    ),
)  # fmt: skip

BACKWARD = Exercise(
    name="08.backward",
    kind="build",
    asks="backward: the seed, then each node of the tape sends to its parents",
    answer=Function(lambda d: build.pulling(), build.tapes, atol=0, why="whole numbers", call=build.pulled,
                    say=build.told_tape),
    right=(lambda d: build.pulling(), lambda d: build.pulling_forward),
    because="Newest first, every node has heard from all its users before it sends; what arrives is added.",
    wrong=(
        Wrong("= for +=", lambda d: build.pulling("="), (
            "Chains come out right, forks do not.",
            "Where several contributions arrive, they are summed; the last one must not replace the others.",
            "In w = uv + 5u at u = 1, v = 8: u hears 8 and 5, so 13.",
        )),
        Wrong("oldest first", lambda d: build.pulling("oldest"), (
            "Most gradients are still zero at the end.",
            "A node can send only what it has received, and it receives from nodes that were made later.",
            "In a bucket chain that starts at the fire, the first bucket is empty.",
        )),
        Wrong("no seed", lambda d: build.pulling("no seed"), (
            "All gradients are zero.",
            "Something must be there before anything can be multiplied and passed on: d loss / d loss.",
            "However long the row of dominoes, somebody has to push the first.",
        )),
        Wrong("seed on the newest row", lambda d: build.pulling("newest row"), (
            "It goes wrong when something was computed after the loss.",
            "The seed belongs to the loss that you were given, wherever on the tape it stands.",
            "If the tape lists u, loss, accuracy, the pass starts in the middle.",
        )),
        Wrong("a parent is served once", lambda d: build.pulling("once"), (
            "x * x comes out with half of its gradient.",
            "A node that stands twice among the parents is at the end of two edges.",
            "For u · u at u = 6 the two factors send 6 each; a dictionary by parent keeps one of them.",
        )),
        Wrong("the tape is used up", lambda d: build.pulling("emptied"), (
            "The gradients are right. But afterwards the tape is not what it was.",
            "Whoever looks at the tape later wants all rows, in the order of recording. Only read it.",
            "`nodes.reverse()` and `nodes.pop()` change a list; `reversed(nodes)` reads it from the end.",
        )),
        Wrong("the tape is turned round", lambda d: build.pulling("turned"), (
            "All gradients arrive, yet the rows stand in another order than before.",
            "A list method that returns None has changed the list itself. Walk a reversed view of it.",
            "After `b = a[::-1]` with a = [7, 8] a is [7, 8]; after `a.reverse()` it is [8, 7].",
        )),
        Wrong("one parent only", lambda d: build.pulling("first parent"), (
            "Some nodes never hear anything, although they were used.",
            "grad_fn returns a list, an entry for each parent, and all are to be delivered.",
            "Of a quotient u / v both u and v want to know; a loop over zip visits both.",
        )),
    ),
)  # fmt: skip


BROKEN = Exercise(
    name="08.broken",
    kind="debug",
    asks="the node whose grad_fn is broken",
    data=build.broken_run,
    answer=Word(lambda d: build.faulty(d)["name"]),
    right=(
        lambda d: build.faulty(d)["name"],
        lambda d: ag.tensor(0.0, requires_grad=True, name=build.faulty(d)["name"]),
    ),
    because="Its gradient is what arrived; what it sends is not that, times its local derivative at its inputs.",
    wrong=(
        Wrong("the victim", lambda d: build.faulty(d)["parents"][0], (
            "This node holds a wrong gradient. But it holds what it was sent.",
            "Judge a row by what goes out of it, given what came in.",
            "If the till is short after a cashier's shift, ask who put money in, not the till.",
        )),
        Wrong("the consumer", lambda d: next(r["name"] for r in d.rows if build.faulty(d)["name"] in r["parents"]), (
            "The rule of this row is fine: multiply its gradient by its local derivatives.",
            "The pass runs from the loss to the leaves, so what is upstream of the fault is still right.",
            "A leak in a pipe wets what lies below it, and leaves what lies above it dry.",
        )),
        Wrong("the loss", lambda d: d.rows[0]["name"], (
            "That is where the pass begins, and its seed is right.",
            "The forward values are not in question here; a loss can be right and its gradients wrong.",
            "In w = 4u with a broken rule for the product, w is right, and only ∂w/∂u is not.",
        )),
        Wrong("the leaf", lambda d: "x", (
            "A leaf has no grad_fn that could be broken.",
            "A leaf only collects: its wrong gradient is the last trace of a fault elsewhere.",
            "At a river's mouth the water is dirty; the factory stands further up.",
        )),
        Wrong("no neighbour", lambda d: "q" if build.faulty(d)["name"] == "s" else "t", (
            "This row sends what it should, and what came in is not its own doing.",
            "For each row multiply the gradient by the local derivative for each parent; then compare.",
            "A row for u + v with gradient 7 has to send 7 to u and 7 to v, whatever their values.",
        )),
        Wrong("the oldest row", lambda d: d.rows[-1]["name"], (
            "The last row that the pass comes to sends what it should.",
            "Go through the rows one at a time, and compute each contribution from that row alone.",
            "A row for u · v with gradient 3 at u = 4, v = 5 has to send 15 to u and 12 to v.",
        )),
    ),
)  # fmt: skip

ENGINE = Exercise(
    name="08.engine",
    kind="build",
    asks="value_and_gradient: run a program on the engine, pull back, return the value and the gradients",
    data=lambda rng: {"graphs": [build.random_program(rng) for _ in range(20)]},
    answer=Function(lambda d: build.engine(), build.programs, rtol=1e-9, atol=1e-12, why="float64 in another order"),
    right=(lambda d: build.engine(), lambda d: build.engine_forward),
    because="Leaves, a tape, the program, the pass back: the whole engine in one function.",
    wrong=(
        Wrong("the engine assigns", lambda d: build.engine("="), (
            "Programs in which a value is used twice come out wrong.",
            "This is your backward from before: what arrives has to be summed with what is there.",
            "y = 7k − k³ at k = 1: contributions of 7 and −3 make 4.",
        )),
        Wrong("run outside the tape", lambda d: build.engine("not recorded"), (
            "The values are right and all gradients are zero: the pass found nothing to walk.",
            "Only what runs inside the `with` block is written down.",
            "Switch the recorder on, then sing.",
        )),
        Wrong("seeded with the loss", lambda d: build.engine("seeded with the loss"), (
            "All gradients are off by one common factor.",
            "The seed answers how fast the loss changes with itself, and not how large it is.",
            "With a loss of 50 and this seed, every gradient is 50 times what it should be.",
        )),
        Wrong("pulled back twice", lambda d: build.engine("twice"), (
            "Each gradient is doubled.",
            "One call of backward for one run: gradients add up over calls as well.",
            "Two calls on w = 3u leave 6 in u.",
        )),
        Wrong("difference as a sum", lambda d: build.engine("sub as add"), (
            "Programs with a difference have a wrong sign somewhere.",
            "d(a − b) = da − db: the second operand's contribution is turned round.",
            "If your costs rise by 8, your profit falls by 8.",
        )),
        Wrong("tanh at its input", lambda d: build.engine("tanh at the input"), (
            "Programs without a tanh agree, the others do not.",
            "Its rule reads the output of this very node, which is why the output is kept.",
            "At x = 1 the output of tanh is about 0.76; 1 − 1² would call it flat.",
        )),
    ),
)  # fmt: skip

EXERCISES = (ROWS, NODE, RECORD, MULTIPLY, POWER, BACKWARD, BROKEN, ENGINE)
