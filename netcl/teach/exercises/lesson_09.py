"""Lesson 09 asks for an order, for what a bad order and an assignment leave behind, for a topological sort without
recursion, for buffers that two nodes share, and for what several passes add up to."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Choice, Function, Number, Order
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises import lesson_09_build as build


def _order_data(rng: Random) -> dict[str, Any]:
    """One graph under changing names: k is used by m, n, r and the loss; m by n alone.

    The names stand in an order that is right neither way round: the cell prints them, and must not print an answer.
    """
    k, m, n, r, x, y = rng.sample("abcdghkmnpqrsuvwz", 6)
    return {"parents": {"loss": [k, r, n], m: [k], k: [x, y], n: [m, k], r: [k], x: [], y: []}}


def _backward_edges(d: SimpleNamespace) -> list[tuple[str, str]]:
    return [(name, parent) for name, parents in d.parents.items() for parent in parents]


ORDER = Exercise(
    name="09.order",
    kind="predict",
    asks="an order in which backward may handle these nodes, the loss first",
    data=_order_data,
    answer=Order(_backward_edges),
    right=(
        lambda d: build.by_users(d.parents, "loss")[::-1],
        lambda d: build.depth_first({k: v[::-1] for k, v in d.parents.items()}, "loss")[::-1],
    ),
    because="Every node stands behind all of its users, so its gradient is complete when its turn comes.",
    wrong=(
        Wrong("breadth first", lambda d: build.breadth_first(d.parents, "loss"), (
            "One node sends while a user of it has not yet sent.",
            "How few steps a node is away from the loss does not matter. What matters is its slowest user.",
            "In w = u + g(h(u)) the leaf u is one step away, and yet it has to wait for h.",
        )),
        Wrong("down to the leaves first", lambda d: build.preorder(d.parents, "loss"), (
            "You follow one way to its end before the other ways have arrived where they meet.",
            "At a meeting point, wait: continue only when each user has been there.",
            "A bus that leaves with the first passenger misses those who come by the other train.",
        )),
        Wrong("down by the last parent", lambda d: build.preorder(d.parents, "loss", True), (
            "It starts well, and then a node is taken as soon as one way reaches it.",
            "Count a node's users, and cross one off each time. At none left, it may go.",
            "If u feeds three nodes, the first two deliveries leave it waiting.",
        )),
        Wrong("as it is printed", lambda d: list(d.parents), (
            "That is the list as the cell prints it, and it is printed in no particular order.",
            "Draw the graph, the loss at the top, and go from each node to those that it was made from.",
            "A list of guests says nothing about who has to arrive before whom.",
        )),
        Wrong("as it was made", lambda d: build.depth_first(d.parents, "loss"), (
            "This is an order for the forward pass.",
            "Gradients flow from the loss; turn it round.",
            "To get dressed: socks, shoes. To undress, the shoes come first.",
        )),
        Wrong("one path only", lambda d: _one_path(d), (
            "Some nodes are missing.",
            "Every node below the loss has its turn, however the ways branch.",
            "To water a garden it is not enough to follow one hose of four.",
        )),
    ),
)  # fmt: skip


def _one_path(d: SimpleNamespace) -> list[str]:
    path = ["loss"]
    while d.parents[path[-1]]:
        path.append(d.parents[path[-1]][0])
    return path


def _point(rng: Random) -> dict[str, Any]:
    return {"x": rng.choice((2, 4, 5)), "y": rng.randint(3, 6)}  # another point than the lesson's x = 3, y = 2


def _pass(d: SimpleNamespace, order: str, rule: str = "add") -> float:
    """∂h/∂x as a pass over p = xy, v = p + x, h = pv leaves it, in this order; h tells p before it tells v."""
    p = d.x * d.y
    rows = {"h": [("p", p + d.x), ("v", p)], "v": [("p", 1), ("x", 1)], "p": [("x", d.y), ("y", d.x)]}
    grad = dict.fromkeys("vpxy", 0) | {"h": 1}
    written = {"h"}
    for name in order:
        for parent, slope in rows[name]:
            sent = grad[name] * slope
            if rule == "first" and parent in written:
                continue
            written.add(parent)
            grad[parent] = sent if rule == "=" or (rule == "= at p" and parent == "p") else grad[parent] + sent
    return grad["x"]


def _h_by_netcl(d: SimpleNamespace, order: str) -> float:
    x, y = ag.tensor(float(d.x), requires_grad=True), ag.tensor(float(d.y), requires_grad=True)
    p = x * y
    v = p + x
    nodes = {"p": p, "v": v, "h": p * v}
    grads = {nodes["h"]: 1.0}
    for name in order:
        sent = nodes[name].grad_fn(ag.tensor(grads[nodes[name]]))
        for parent, part in zip(nodes[name].parents, sent, strict=True):
            grads[parent] = grads.get(parent, 0.0) + part.item()
    return grads[x]


LATE = Exercise(
    name="09.late",
    kind="predict",
    asks="what the order h, p, v leaves in the slot of ∂h/∂x",
    data=_point,
    answer=Number(lambda d: _pass(d, "hpv"), rtol=1e-6, why="whole numbers: exact in float32"),
    right=(lambda d: d.x * d.y * (d.y + 2), lambda d: _h_by_netcl(d, "hpv")),
    because="p sends when only h has been heard. What v brings it afterwards stays in its slot, and goes no further.",
    wrong=(
        Wrong("the true gradient", lambda d: _pass(d, "hvp"), (
            "This would be right in a right order. Follow the bad one, step by step.",
            "A node sends once, at its turn: what arrives later is not sent on.",
            "A letter that reaches the office after closing time is in the box, and not in the post.",
        )),
        Wrong("the last delivery alone", lambda d: d.x * d.y, (
            "Here the slots do add. Only the order is bad.",
            "Two contributions reach x, from two different users, and both are kept.",
            "Slots of 20 and then 5 more make 25, at whatever time they come.",
        )),
        Wrong("without v", lambda d: d.y * (d.x * d.y + d.x), (
            "The node v has its turn as well, later than it should.",
            "It still holds what h sent, and it still has two parents. One of them is x.",
            "In u = ab, w = u + a, the node w brings a its 1, whether early or late.",
        )),
        Wrong("p sends again", lambda d: 3 * d.x * d.y * (d.y + 1), (
            "You let p send whenever something reaches it, each time all that it has.",
            "Each node of the order stands there once, so each edge is used once.",
            "A postman who brings today's letters again with tomorrow's delivers the first ones twice.",
        )),
        Wrong("v passes by", lambda d: d.x * d.y * (2 * d.y + 1), (
            "p was given time to wait, and then one edge was left out.",
            "In this order p does not wait; and v has an edge of its own that leads straight to x.",
            "Lay a finger on every dashed arrow in turn: six arrows, six deliveries.",
        )),
    ),
)  # fmt: skip

ASSIGNED = Exercise(
    name="09.assigned",
    kind="predict",
    asks="what `=` in place of `+=` leaves in the slot of ∂h/∂x, in the right order h, v, p",
    data=_point,
    answer=Number(lambda d: _pass(d, "hvp", "="), rtol=1e-6, why="whole numbers: exact in float32"),
    right=(lambda d: d.x * d.y**2, lambda d: np.float32(d.y * (d.x * d.y))),
    because="At p the later delivery, from v, replaces that of h; at x the one from p replaces that of v.",
    wrong=(
        Wrong("adds all the same", lambda d: _pass(d, "hvp"), (
            "That is the gradient. Now play the faulty engine.",
            "`=` forgets what was there. Which of the deliveries comes last, at p and at x?",
            "u = 4, then u = 9: it is 9, with nothing left of the 4.",
        )),
        Wrong("the first one stays", lambda d: _pass(d, "hvp", "first"), (
            "You kept what came first at each slot.",
            "An assignment keeps what comes last.",
            "Deliveries of 8 and then 3 into one slot: with `=` it holds 3.",
        )),
        Wrong("only p forgets", lambda d: _pass(d, "hvp", "= at p"), (
            "At p you were strict, at x you were not.",
            "x is a slot like the others: two deliveries, one survivor.",
            "Two users of a leaf, sending 20 and then 30: with `=` the leaf holds 30.",
        )),
        Wrong("only x forgets", lambda d: d.y * (2 * d.x * d.y + d.x), (
            "At x you were strict, at p you were not.",
            "p hears from h and from v, and with `=` it goes on with one of the two.",
            "If a node hears 7 and then 2, it multiplies 2, and not 9, by its local derivative.",
        )),
        Wrong("the direct edge alone", lambda d: d.x * d.y + d.x, (
            "That is what h sends to p, and it does not get as far as x.",
            "Start with the seed, and write each slot anew at each delivery.",
            "With the slopes 2 and 5, one behind the other, the seed 1 becomes 2 and then 10; half way it is only 2.",
        )),
    ),
)  # fmt: skip

SORT = Exercise(
    name="09.sort",
    kind="build",
    asks="topological(parents, root): the nodes below root, parents before children, without recursion",
    answer=Function(lambda d: build.SORTS[""], build.graphs, atol=0, why="counts", call=build.judged),
    right=(lambda d: build.depth_first, lambda d: build.by_users),
    because="Each node once, behind all its parents, and none that the root does not need.",
    wrong=(
        Wrong("breadth first, reversed", lambda d: build.SORTS["breadth"], (
            "All nodes are there, once, and some edges point the wrong way.",
            "The distance from the root is the shortest one. The longest is what counts.",
            "In w = u + g(g(u)) breadth first meets u before the inner g.",
        )),
        Wrong("preorder, reversed", lambda d: build.SORTS["preorder"], (
            "You list a node when you come to it. Some parents have a longer way to be found.",
            "List a node when you *leave* it: when all its parents are listed.",
            "Packing a box: put in the big things first, close the lid last. The lid is the node.",
        )),
        Wrong("nothing remembered", lambda d: build.SORTS["paths"], (
            "Some nodes stand there many times.",
            "Keep a set of what has been met. Without it you walk each path, and their number explodes.",
            "A ladder of 30 rungs has a billion ways down and 31 nodes.",
        )),
        Wrong("children first", lambda d: build.SORTS["children first"], (
            "It is an order, seen from the other end.",
            "Parents come before children here; the root is the last.",
            "For y = tanh(u) the list is [u, y].",
        )),
        Wrong("by recursion", lambda d: build.recursive, (
            "Right for small graphs. The chain of ten thousand nodes ends in a RecursionError.",
            "Each call waits for the one below it, and Python limits how many may wait. Keep a list of your own.",
            "At a limit of 1000 waiting calls, a chain of 300 nodes passes and one of 3000 fails.",
        )),
        Wrong("strangers too", lambda d: build.SORTS["all"], (
            "There are nodes in your list that the root was not made from.",
            "Start at the root, and follow parents. Do not start from the dictionary.",
            "A value that was computed only to be printed has no part in the loss.",
        )),
        Wrong("by name", lambda d: build.SORTS["names"], (
            "Sorting by name works for some names.",
            "A name says nothing about who was made from whom. The lists of parents do.",
            "b = 3a comes after a; so does aa = 3b.",
        )),
    ),
)  # fmt: skip

EQUALS = Exercise(
    name="09.equals",
    kind="explain",
    asks="for which programs an engine with `=` for `+=` is right all the same (several letters)",
    answer=Choice("adf", options={
        "a": "A chain: tanh of the square of a leaf.",
        "b": "A leaf times itself.",
        "c": "A fork whose two contributions are equal numbers.",
        "d": "A tree: (a + b) times (c + d), four different leaves.",
        "e": "A network that uses one weight in two layers.",
        "f": "The sum of all entries of a product of two different matrices.",
        "g": "Two losses over the same leaves, pulled back one after the other, for the gradient of their sum.",
    }),
    right=(lambda d: "adf", lambda d: {"f", "d", "a"}),
    because="Where each value has one user, each slot gets one delivery, and replacing nothing is adding to nothing.",
    wrong=(
        Wrong("equal contributions", lambda d: "acdf", (
            "Two equal numbers were delivered in one of your programs. What should their sum be?",
            "To replace a number by its equal is to lose one of the two.",
            "Twice 6 is 12; with `=` it stays 6.",
        )),
        Wrong("a square is one use", lambda d: "abdf", (
            "Count edges, not users: one of your programs has two edges between the same pair.",
            "u · u has u as both factors, and sends to each.",
            "At u = 7 each factor gets 7, and the slope is 14.",
        )),
        Wrong("only chains", lambda d: "a", (
            "What you named is right, and there are more.",
            "Several parents do no harm. The harm is done by several users.",
            "In (u − v) nothing meets: u and v hear one thing each.",
        )),
        Wrong("only the tree", lambda d: "d", (
            "That one is right. It is not the only one without a fork.",
            "Ask of each program whether some value in it is used twice. How long a way is does not matter.",
            "In sin(cos(u)), u has one user and so has cos(u): 7 is written once into each slot, or −7.",
        )),
        Wrong("a shared weight is two", lambda d: "adef", (
            "One of your programs has a leaf with two users.",
            "However far apart two uses lie, they share one slot.",
            "A key that opens two doors is one key: wear it at both, and it wears twice.",
        )),
        Wrong("arrays are forks", lambda d: "ad", (
            "A larger array does not make a fork.",
            "A matrix enters a product as one parent, and its VJP sums over entries inside.",
            "A parcel with a hundred things in it is delivered once.",
        )),
        Wrong("passes are separate", lambda d: "adfg", (
            "Over two calls of backward, too, something meets in the leaves' slots.",
            "If the second call replaces what the first left, you have the gradient of one loss.",
            "Losses with slopes 8 and 5: their sum has slope 13.",
        )),
    ),
)  # fmt: skip

ALIAS = Exercise(
    name="09.alias",
    kind="debug",
    asks="deliver, mended: no slot may change through another slot's buffer",
    answer=Function(lambda d: build.delivering(), build.deliveries, atol=0, why="sums of whole numbers"),
    right=(lambda d: build.delivering(), lambda d: build.delivered_at_once),
    because="The sum goes into an array of its own. An array that others may hold is read, and never written.",
    wrong=(
        Wrong("as it stood", lambda d: build.delivering("shared"), (
            "A slot changed at a moment when nothing was delivered to it.",
            "`+=` on an array writes into the array. Who else holds that array?",
            "v = u; v += 1 on arrays changes u as well, because there is one array and two names.",
        )),
        Wrong("assigns", lambda d: build.delivering("="), (
            "Nothing is shared any more, and nothing is added either.",
            "Contributions to one slot are summed; only where the sum is put must change.",
            "There is 20 in the slot, 3 arrives: what belongs there is 23, in a fresh array.",
        )),
        Wrong("one array for all slots", lambda d: build.delivering("one buffer"), (
            "All slots end up the same.",
            "A list times a number repeats the reference, not the array.",
            "rows = [[]] * 3; rows[0].append(1) fills all three rows.",
        )),
        Wrong("the first one is lost", lambda d: build.delivering("first lost"), (
            "The sums lack what came first.",
            "A slot that was empty must take over the value that arrives, or add it to zeros.",
            "zeros_like makes zeros of the right shape, and copies no number.",
        )),
        Wrong("each array once", lambda d: build.delivering("once"), (
            "An array that is sent to two slots counts in both.",
            "Sharing the memory is the fault. Sharing the value is right.",
            "In u + w both operands get the whole of g, not one of them.",
        )),
        Wrong("averages", lambda d: build.delivering("mean"), (
            "With one delivery it is right, with two it is half.",
            "Influences add up. Nothing in the chain rule divides by their number.",
            "Two taps fill a tub twice as fast as one, not equally fast.",
        )),
    ),
)  # fmt: skip


def _twice_run(d: SimpleNamespace) -> float:
    y_bar = x_bar = 0
    for _ in range(d.passes):
        y_bar += d.n
        x_bar += d.m * y_bar
    return x_bar


TWICE = Exercise(
    name="09.twice",
    kind="predict",
    asks="∂z/∂x's slot in the engine of lesson 08, after several calls of backward",
    data=lambda rng: {"m": rng.randint(2, 3), "n": rng.choice((5, 7)), "passes": rng.randint(3, 4)},
    answer=Number(_twice_run, rtol=1e-6, why="whole numbers: exact"),
    right=(lambda d: d.m * d.n * d.passes * (d.passes + 1) // 2, lambda d: np.float32(_twice_run(d))),
    because="The slot of y is not emptied either, so each pass sends x more than the one before.",
    wrong=(
        Wrong("slots empty themselves", lambda d: d.m * d.n, (
            "This would be so if every pass began with empty slots.",
            "`+=` adds to what is there, and nobody took it away.",
            "A step counter that is never reset shows yesterday's steps as well.",
        )),
        Wrong("only leaves keep", lambda d: d.m * d.n * d.passes, (
            "You let the intermediate slot start anew in each pass. This engine does not.",
            "Go through the second pass by hand: what stands at y before the seed is sent?",
            "With slopes 10 and 1: pass one brings 10 to the middle, pass two makes it 20.",
        )),
        Wrong("doubles each time", lambda d: d.m * d.n * 2 ** (d.passes - 1), (
            "It grows, though not as fast as that.",
            "The seed is set anew, so the middle slot grows by the same amount in each pass.",
            "Amounts of 1, 2, 3 add up to 1, 3, 6; doubling would give 1, 2, 4.",
        )),
        Wrong("the square of the passes", lambda d: d.m * d.n * d.passes**2, (
            "You took the last state of the middle slot for all passes.",
            "In an early pass the middle slot is still small. Sum over the passes.",
            "Salaries of 1, 2, 3 make 6 in three months, not 3 times 3.",
        )),
        Wrong("multiplies by itself", lambda d: (d.m * d.n) ** d.passes, (
            "Passes do not feed into one another like operations of a chain.",
            "Each pass starts at the seed. What it finds in a slot is added to.",
            "Reading a meter twice and adding the readings does not multiply them.",
        )),
    ),
)  # fmt: skip

EXERCISES = (ORDER, LATE, SORT, ASSIGNED, EQUALS, ALIAS, TWICE)
