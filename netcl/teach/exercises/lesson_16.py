"""Lesson 16 asks what backward keeps, how many bytes that is beside the parameters and over time, for the best length
of a segment, for a schedule of segments, and for the line that keeps every graph alive."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl import viz
from netcl.teach.answers import Choice, Function, Number, Word
from netcl.teach.exercise import Exercise, Wrong

# 16.keeps: whose rule reads a value of the forward pass

_OPS = {
    "a": "y = x + b",
    "b": "y = x * w, both of them Nodes",
    "c": "y = tanh(x)",
    "d": "y = x.sum()",
    "e": "y = x.reshape(3, 2)",
    "f": "y = x @ w, both of them Nodes",
    "g": "y = 3.0 * x",
}

KEEPS = Exercise(
    name="16.keeps", kind="explain",
    asks="all operations whose backward rule reads an array of the forward pass (three letters)",
    answer=Choice("bcf", options=_OPS, by_letter=True),
    right=("bcf", {"c", "f", "b"}, lambda d: [_OPS[letter] for letter in "cbf"]),
    because="Where the local derivative depends on a value, the value is kept; where the map is fixed, shapes will do.",
    wrong=(
        Wrong("everything", "abcdefg", (
            "Some of these maps are the same wherever x is.",
            "Write the rule of each, and look for x, w or y in it.",
            "For y = 7x the cotangent is 7ȳ: no array of the forward pass occurs.",
        )),
        Wrong("only what is curved", "c", (
            "Something is missing: a product of two Nodes has two rules, and each reads something.",
            "d(pq) = q dp + p dq. Both factors stand in it.",
            "The cotangent of p in pq is q times what arrives.",
        )),
        Wrong("only products", "bf", (
            "Something is missing: one local derivative here is another number at every place.",
            "A curve's slope depends on where one is.",
            "sin′ at 0 is 1, at 1.57 nearly 0: without the place there is no slope.",
        )),
        Wrong("a product without its factors", "cf", (
            "Something is missing: in one of these each Node is the other one's slope.",
            "Where two Nodes are multiplied entry by entry, each rule reads the other factor.",
            "The area of a sheet of 20 by 30: one more in length adds 30 or 20, so both have to be known.",
        )),
        Wrong("matrices without their factors", "bc", (
            "Something is missing: a sum of products is linear in each factor, and its slope is the other one.",
            "The rules of A B send Ȳ Bᵀ and Aᵀ Ȳ (lesson 12): arrays of the forward pass stand in both.",
            "For a single number p q is a product of matrices too, and its slope by p is q.",
        )),
        Wrong("the factor 3 as well", "bcfg", (
            "One too many: what does the rule of a fixed factor read?",
            "A number that stands in the program is no array of the forward pass.",
            "7x has the slope 7 wherever x is.",
        )),
        Wrong("a sum remembers its terms", "bcdf", (
            "One too many: does a sum's cotangent depend on what was added up?",
            "Every term gets what arrives. For that the shape is enough.",
            "Adding 30 and 40, or 1 and 2: moving the first term moves the sum by as much.",
        )),
        Wrong("a view keeps its array", "bcef", (
            "One too many: the rule turns a shape back, and reads no entry.",
            "A shape is a few integers.",
            "To fold a letter up again you need not read it.",
        )),
        Wrong("addition keeps its operands", "abcf", (
            "One too many: what arrives passes through unchanged.",
            "d(p + q) = dp + dq: no p and no q.",
            "Moving p by 0.1 moves p + q by 0.1, for every q.",
        )),
    ),
)  # fmt: skip


# 16.bytes: parameters and activations

BYTES = Exercise(
    name="16.bytes", kind="predict",
    asks="[bytes of parameters, bytes of activations] of layers h = tanh(h @ W), float32",
    data=lambda rng: {
        "layers": rng.choice((3, 5, 6)), "width": rng.choice((32, 64)), "batch": rng.choice((128, 256)),
    },
    answer=Number(
        lambda d: [4 * d.layers * d.width**2, 8 * d.layers * d.batch * d.width], rtol=0, why="whole bytes",
    ),
    right=(
        lambda d: [4 * d.layers * d.width**2, 8 * d.layers * d.batch * d.width],
        lambda d: (
            float(np.zeros((d.layers, d.width, d.width), np.float32).nbytes),
            float(np.zeros((2, d.layers, d.batch, d.width), np.float32).nbytes),
        ),
    ),
    because="A layer has one matrix, and leaves two arrays of batch × width: the product and its tanh.",
    wrong=(
        Wrong("entries for bytes", lambda d: [d.layers * d.width**2, 2 * d.layers * d.batch * d.width], (
            "These are entries.",
            "A float32 has four bytes.",
            "A (10, 7) array of float32 takes 280 bytes.",
        )),
        Wrong("one array a layer", lambda d: [4 * d.layers * d.width**2, 4 * d.layers * d.batch * d.width], (
            "The parameters are right. How many results does one layer leave?",
            "Each operation leaves a result, and there are two operations in h @ W and tanh.",
            "Ten such layers leave twenty arrays.",
        )),
        Wrong("batch forgotten", lambda d: [4 * d.layers * d.width**2, 8 * d.layers * d.width], (
            "That is what a single example leaves.",
            "Every row of the batch has an activation of its own.",
            "With 1000 rows there are 1000 times as many numbers, and not one weight more.",
        )),
        Wrong("weights for each example", lambda d: [
            4 * d.layers * d.width**2 * d.batch, 8 * d.layers * d.batch * d.width,
        ], (
            "The weights have been counted once for each row of the batch.",
            "All rows are multiplied by the same matrix.",
            "A batch of 1000 or of 1: there is one W in a layer.",
        )),
        Wrong("one layer", lambda d: [4 * d.width**2, 8 * d.batch * d.width], (
            "That is one layer.",
            "Each layer has a matrix of its own and leaves results of its own.",
            "Ten layers: ten times both.",
        )),
        Wrong("width not squared", lambda d: [4 * d.layers * d.width, 8 * d.layers * d.batch * d.width], (
            "The activations are right. Which shape has W?",
            "From width numbers to width numbers: a square matrix.",
            "A layer from 10 to 10 has 100 weights.",
        )),
    ),
)  # fmt: skip


# 16.live: bytes over time


def _live(d: Any, at_end: int, scalars: int = 1) -> list[int]:
    n, b = d.steps, d.nbytes
    return [(n + 1) * b + 4 * scalars, at_end * b + 8 * scalars]


def _by_netcl(d: Any) -> tuple[int, int]:
    y: Any = ag.tensor(np.linspace(-1, 1, d.nbytes // 4, dtype=np.float32), requires_grad=True)
    for _ in range(d.steps):
        y = ag.tanh(y)
    moments = viz.memory(y.sum()).moments
    return [m.live for m in moments if m.lane == "forward"][-1], moments[-1].live


LIVE = Exercise(
    name="16.live", kind="predict",
    asks="[bytes alive after the forward pass, after the backward pass] of a chain of tanh and a sum, gradients kept",
    data=lambda rng: {"steps": rng.choice((4, 5, 7)), "nbytes": rng.choice((4000, 8000, 12000))},
    answer=Number(lambda d: _live(d, 2 * d.steps + 1), rtol=0, why="whole bytes"),
    right=(lambda d: _live(d, 2 * d.steps + 1), _by_netcl),
    because="The leaf, a value for each step and the loss; then a gradient for each step, and the seed.",
    wrong=(
        Wrong("the leaf is forgotten", lambda d: [d.steps * d.nbytes + 4, 2 * d.steps * d.nbytes + 8], (
            "One array is missing in both: where did the chain begin?",
            "The leaf is alive too.",
            "One step makes one new array, and there are two.",
        )),
        Wrong("the scalars are forgotten", lambda d: _live(d, 2 * d.steps + 1, scalars=0), (
            "Nearly. The loss and the seed are small, and not nothing.",
            "A float32 scalar has four bytes, and there is one at the end of each pass.",
            "Arrays of 100 bytes, three of them, and a loss: 304.",
        )),
        Wrong("the seed is forgotten", lambda d: [(d.steps + 1) * d.nbytes + 4, (2 * d.steps + 1) * d.nbytes + 4], (
            "The first number is right. With what did backward begin?",
            "The gradient of the loss by itself is an array, too: one number.",
            "A loss and a seed are 8 bytes beside the large arrays.",
        )),
        Wrong("gradients cost nothing", lambda d: _live(d, d.steps + 1), (
            "The first number is right. Backward leaves arrays as well.",
            "Each node has a gradient slot, and each tanh makes a new array for its operand.",
            "One step on 100 bytes: its operand's gradient is 100 bytes more.",
        )),
        Wrong("values are let go on the way", lambda d: _live(d, d.steps + 2), (
            "The first number is right. The graph still holds its values when backward is done, and the gradients too.",
            "Nothing is freed here before the graph goes: retain_grads is True.",
            "One step: leaf, value, and the gradient of the leaf are all alive at the end.",
        )),
        Wrong("the spread is an array", lambda d: _live(d, 2 * d.steps + 2), (
            "One array too many at the end.",
            "What the sum sends back is its scalar, stretched with stride 0 (lesson 11): a view.",
            "A scalar that is spread over a million places still takes four bytes.",
        )),
        Wrong("the passes do not add up", lambda d: [_live(d, 0)[0], d.steps * d.nbytes + 4], (
            "The second number is what backward makes. What was there before is still alive.",
            "Ask what is alive at that moment, not what came last.",
            "100 bytes in the first hour and 100 in the second are 200 at the end.",
        )),
    ),
)  # fmt: skip


# 16.best: the best length of a segment


def _alive(d: Any, k: float) -> list[float]:
    return [k, d.n / k + k]


BEST = Exercise(
    name="16.best", kind="predict",
    asks="[the best segment length k, n/k + k at this k] for n steps",
    data=lambda rng: {"n": rng.choice((49, 81, 121, 169))},
    answer=Number(lambda d: _alive(d, math.isqrt(d.n)), rtol=0, why="whole numbers"),
    right=(
        lambda d: _alive(d, math.isqrt(d.n)),
        lambda d: (lambda k: np.array([k, -(-d.n // k) + k]))(
            min(range(1, d.n + 1), key=lambda k: -(-d.n // k) + k)
        ),
    ),
    because="There 1 − n/k² is zero: as many checkpoints as values in a segment.",
    wrong=(
        Wrong("all in one segment", lambda d: _alive(d, d.n), (
            "Then all values are made again at once, and all are alive at once.",
            "Both parts count: checkpoints and one segment. Make neither of them large.",
            "For 16 steps in one segment 17 arrays are alive, which is more than without any checkpoint.",
        )),
        Wrong("every step by itself", lambda d: _alive(d, 1), (
            "Then everything is a checkpoint.",
            "What is kept for good is one array a segment: fewer segments, fewer of those.",
            "For 16 steps with a segment each there are 16 checkpoints.",
        )),
        Wrong("halves", lambda d: _alive(d, d.n / 2), (
            "Two checkpoints, and a very long segment.",
            "Set the derivative of n/k + k to zero.",
            "For 16 steps halves make 2 + 8; shorter segments make less.",
        )),
        Wrong("the segment alone", lambda d: [math.isqrt(d.n), math.isqrt(d.n)], (
            "The length is right. The checkpoints are alive as well.",
            "n/k + k has two terms.",
            "For 16 steps in segments of 2 there are 8 checkpoints and 2 values: 10.",
        )),
        Wrong("twice the root", lambda d: _alive(d, 2 * math.isqrt(d.n)), (
            "At the minimum both terms are equal; here one is four times the other.",
            "From 1 − n/k² = 0 follows k² = n, without a factor.",
            "For 16 steps a segment of 8 gives 2 + 8, and one of half that gives less.",
        )),
        Wrong("the logarithm", lambda d: _alive(d, round(math.log2(d.n))), (
            "Close, for numbers like this one, and not the minimum.",
            "Logarithms come with checkpoints inside checkpoints; here there is one level.",
            "For 10000 steps the logarithm is about 13, which leaves 769 checkpoints.",
        )),
    ),
)  # fmt: skip


# 16.schedule: lengths of segments for any n


def _cost(schedule: Callable[[int], Any], n: int) -> list[Any]:
    """Whether the segments make up the chain, how many values are alive at most, and whether all segments are ones."""
    lengths = [int(length) for length in schedule(n)]
    ones = n > 3 and max(lengths) == 1
    return [sum(lengths) == n and min(lengths) >= 1, len(lengths) + max(lengths), ones]


def _lengths(rng: random.Random) -> list[tuple[int]]:
    return [(n,) for n in (1, 2, 7, 12, 16, 30, 49, 100, rng.randint(200, 999), 1000)]


def _even(n: int) -> list[int]:
    count = math.isqrt(n - 1) + 1 if n > 1 else 1
    return [n // count + (i < n % count) for i in range(count)]


def _equal(n: int) -> list[int]:
    k = math.ceil(math.sqrt(n))
    return [k] * (n // k) + [n % k] * (n % k > 0)


def _searched(n: int) -> Any:
    k = min(range(1, n + 1), key=lambda k: -(-n // k) + k)
    return np.diff([*range(0, n, k), n])


def _with_zero(n: int) -> list[int]:
    k = math.ceil(math.sqrt(n))
    return [k] * (n // k) + [n % k]


def _remainder_to_last(n: int) -> list[int]:
    k = math.isqrt(n)
    return [k] * (n // k - 1) + [k + n % k]


SCHEDULE = Exercise(
    name="16.schedule", kind="build",
    asks="schedule(n): the lengths of the segments of a chain of n steps, so that fewest values are alive",
    answer=Function(lambda d: _even, cases=_lengths, rtol=0, why="whole numbers", call=_cost),
    right=(lambda d: _even, lambda d: _equal, lambda d: _searched),
    because="About √n segments of about √n steps, and none much longer than the others.",
    wrong=(
        Wrong("one segment", lambda d: lambda n: [n], (
            "With a single segment nothing is saved.",
            "Balance the number of segments against the length of the longest.",
            "For 25 steps one segment costs 26.",
        )),
        Wrong("every step by itself", lambda d: lambda n: [1] * n, (
            "Each step is a segment, so each result is a checkpoint.",
            "Checkpoints are what is kept for good: fewer of them, and a few steps between two.",
            "For 25 steps in 25 segments 25 checkpoints are alive, as without any.",
        )),
        Wrong("a segment of nothing", lambda d: _with_zero, (
            "Sometimes the last of your segments has no step in it.",
            "Where nothing is left over, nothing is to be appended.",
            "25 steps in fives: `25 % 5` is 0, and a checkpoint after no step is kept for nothing.",
        )),
        Wrong("halves", lambda d: lambda n: [n] if n == 1 else [n // 2, n - n // 2], (
            "Two segments are too few for a long chain.",
            "The number of segments must grow with n, as fast as their length.",
            "For 400 steps halves cost 202.",
        )),
        Wrong("the rest is lost", lambda d: lambda n: [math.isqrt(n)] * (n // math.isqrt(n)), (
            "The segments do not add up to the chain where n is no square.",
            "What remains after whole segments needs a place too.",
            "27 steps in segments of 5 leave 2 over.",
        )),
        Wrong("the rest goes to the last", lambda d: _remainder_to_last, (
            "The chain is complete. The last segment can be nearly twice as long as the others.",
            "The longest segment is what counts: give the rest a segment of its own, or share it out.",
            "For 35 steps in fives, all seven segments can be equal; for 38 one of them need not take all three.",
        )),
        Wrong("a fixed number", lambda d: lambda n: [
            n // min(n, 10) + (i < n % min(n, 10)) for i in range(min(n, 10))
        ], (
            "Ten segments fit a chain of about a hundred steps, and no other.",
            "Compute the number from n.",
            "For 10000 steps ten segments cost 1010.",
        )),
        Wrong("the logarithm", lambda d: lambda n: [
            n // n.bit_length() + (i < n % n.bit_length()) for i in range(n.bit_length())
        ], (
            "The number of segments grows too slowly.",
            "At the minimum of n/k + k both terms are equal.",
            "For a million steps 20 segments have 50000 steps each.",
        )),
    ),
)  # fmt: skip


# 16.leak: the line that keeps every graph

LEAK = Exercise(
    name="16.leak", kind="debug",
    asks="the number of the line because of which the graphs of all steps stay alive",
    answer=Word("8"),
    right=(8, "line 8", "8"),
    because="A loss holds its graph, and the list holds every loss. A number holds nothing.",
    wrong=(
        Wrong("the leaf", "1", (
            "This line runs once.",
            "Look for what grows: something that gets one more entry in every step.",
            "One box stays one box, however often you look into it.",
        )),
        Wrong("the tape", "4", (
            "Each step has a new tape under the old name, and the old one goes.",
            "A tape dies when nobody refers to it any more. What refers to something else, for good?",
            "Writing on a new sheet and throwing the old one away leaves one sheet.",
        )),
        Wrong("the forward pass", "5", (
            "Here a graph is made. By itself it would die in the next step, when the name gets a new one.",
            "Ask who else remembers it.",
            "Whoever takes a number from the wall does not keep the queue alive; whoever collects all numbers does.",
        )),
        Wrong("backward", "7", (
            "Backward fills slots. They go with their nodes.",
            "The slots live in the nodes. What keeps the nodes?",
            "A letter in a drawer is gone with the cupboard.",
        )),
        Wrong("the update", "10", (
            "The new value is made under no_grad, and the old one is let go.",
            "This replaces; look for what collects.",
            "Who swaps a book for another still has one book.",
        )),
        Wrong("the last line", "12", (
            "It asks for one number, when all is over.",
            "By then the memory is full. Look into the loop.",
            "The bill is written at the end; the meal was eaten before.",
        )),
    ),
)  # fmt: skip


EXERCISES = (KEEPS, BYTES, LIVE, BEST, SCHEDULE, LEAK)
