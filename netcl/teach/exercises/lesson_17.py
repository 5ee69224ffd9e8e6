"""Lesson 17: launches of a formula, a cotangent by a rule, what an engine asks of an op, and why two adders race."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_17_build import FORGOTTEN, SLOPE, SQUAREPLUS

# 17.softsign: a cotangent by a rule


def _softsign_data(rng: random.Random) -> dict[str, Any]:
    x = [1.0, -3.0, 7.0] if rng.random() < 0.5 else [3.0, 1.0, -7.0]
    return {"x": x, "g": [64.0 * k for k in rng.sample((3, 5, 7, 9), 3)]}


def _each(rule: Any) -> Any:
    return lambda d: [rule(g, x) for g, x in zip(d.g, d.x, strict=True)]


SOFTSIGN = Exercise(
    name="17.softsign", kind="predict",
    asks="x̄ for y = x / (1 + |x|), where x and ȳ are given",
    data=_softsign_data,
    answer=Number(
        lambda d: np.array(d.g) / (1 + np.abs(d.x)) ** 2, rtol=1e-6, why="divisions by powers of two: exact",
    ),
    right=(
        lambda d: np.array(d.g) / (1 + np.abs(d.x)) ** 2,
        _each(lambda g, x: g * (1 - abs(x) / (1 + abs(x))) ** 2),
        lambda d: (np.float32(d.g) / np.float32(1 + np.abs(d.x)) / np.float32(1 + np.abs(d.x))).tolist(),
    ),
    because="Each ȳ is divided by (1 + |x|)²: the local derivative, taken at the input.",
    wrong=(
        Wrong("not squared", _each(lambda g, x: g / (1 + abs(x))), (
            "Far from zero the curve is flatter than you say.",
            "The quotient rule leaves the denominator squared.",
            "At x = 0.25 the local derivative is 0.64; one over 1.25 would be 0.8.",
        )),
        Wrong("cotangent forgotten", _each(lambda g, x: 1 / (1 + abs(x)) ** 2), (
            "These are the local derivatives. What arrived from upstream?",
            "A rule multiplies the cotangent that comes in by the local derivative.",
            "If ȳ were 0 everywhere, nothing might come back.",
        )),
        Wrong("taken at the output", _each(lambda g, x: g / (1 + abs(x / (1 + abs(x)))) ** 2), (
            "You put y into a formula that is written in x.",
            "The local derivative is taken at the input of the op, here x.",
            "For y = x² at x = 10 the factor is 20, and not 200.",
        )),
        Wrong("absolute value lost", _each(lambda g, x: g / (1 + x) ** 2), (
            "For positive x you are right. Look at the entry where x is negative.",
            "Left of zero the denominator is 1 − x, which is 1 + |x| again.",
            "At x = −0.25 the denominator is 1.25, not 0.75.",
        )),
        Wrong("sign of x carried along", _each(lambda g, x: np.sign(x) * g / (1 + abs(x)) ** 2), (
            "One of your signs says that the curve falls somewhere. Does it?",
            "The curve rises everywhere: its local derivative is positive on both sides of zero.",
            "At x = −0.25 a step to the right raises y, from −0.2 upward.",
        )),
        Wrong("the op applied to the cotangent", _each(lambda g, x: g * x / (1 + abs(x))), (
            "You multiplied by the value of the op instead of by its derivative.",
            "Forward computes y; backward needs dy/dx, which is another formula.",
            "At x = 0.25 the value is 0.2 and the derivative 0.64.",
        )),
    ),
)  # fmt: skip


# 17.launches: a formula as kernels

_FORMULAS = (
    ("x * tanh(log(1 + exp(x)))", 3, ("exp", "add", "log", "tanh", "mul"),
     lambda x: x * ag.tanh(ag.log(1.0 + ag.exp(x)))),
    ("sqrt(1 + x * x) * sin(x)", 2, ("mul", "add", "sqrt", "sin", "mul"), lambda x: ag.sqrt(1.0 + x * x) * ag.sin(x)),
    ("exp(sin(x)) / (2 + tanh(cos(x)))", 4, ("sin", "exp", "cos", "tanh", "add", "div"),
     lambda x: ag.exp(ag.sin(x)) / (2.0 + ag.tanh(ag.cos(x)))),
)  # fmt: skip


def _launches_data(rng: random.Random) -> dict[str, Any]:
    text, functions, ops, f = rng.choice(_FORMULAS)
    return {"text": text, "functions": functions, "ops": ops, "f": f, "n": rng.choice((1000, 2000, 4000))}


LAUNCHES = Exercise(
    name="17.launches", kind="predict",
    asks="how many kernels netcl launches for the value of the formula, with x an array",
    data=_launches_data,
    answer=Number(lambda d: len(d.ops), why="launches are counted"),
    right=(lambda d: len(d.ops), lambda d: float(len(list(d.ops))), lambda d: np.int64(sum(1 for _ in d.ops))),
    because="Each operation that runs by itself is one launch, however long the array is.",
    wrong=(
        Wrong("the line is one kernel", lambda d: 1, (
            "Does netcl see the line, or one operation after the other?",
            "Python calls an operation as soon as its operands are there, and each call launches.",
            "x * y + z is a product and then a sum: a pair of launches.",
        )),
        Wrong("named functions alone", lambda d: d.functions, (
            "You counted the functions with a name. What do the signs between them do?",
            "An operator is an operation like any other: it has a kernel of its own.",
            "log(x) + x launches for log, and again for the +.",
        )),
        Wrong("operators alone", lambda d: len(d.ops) - d.functions, (
            "You counted the signs. What do the functions with a name do?",
            "A function such as exp is an operation, too.",
            "log(x) + x launches for the +, and before that for log.",
        )),
        Wrong("one for each entry", lambda d: len(d.ops) * d.n, (
            "How many entries has one launch?",
            "One launch runs as many work-items as the result has entries: the length costs no launches.",
            "A sum of two arrays of a million entries is a single launch.",
        )),
        Wrong("both passes", lambda d: 2 * len(d.ops), (
            "Only the value is asked for. What have you counted besides?",
            "The backward pass comes later, when backward is called.",
            "For log(x) alone the value takes a single launch; its rule would be extra.",
        )),
        Wrong("the leaf counted", lambda d: len(d.ops) + 1, (
            "One too many. Is there something in your count that is not computed?",
            "x lies on the device already: a leaf launches nothing.",
            "log(x) is a single launch, though there are two nodes.",
        )),
    ),
)  # fmt: skip


# 17.race

_RACE = {
    "a": "OpenCL has no += on global memory, so the kernel would not compile.",
    "b": "Two work-items of one column may read the same old sum; each writes its own new one, and one is lost.",
    "c": "The sum would be right but for rounding, since the order of the additions varies.",
    "d": "Work-items run in the order of their numbers, so only the last row of each column would remain.",
    "e": "It goes wrong on GPUs only; on a CPU each work-item finishes before the next begins.",
    "f": "The result holds old bytes at the start; were it zero at the start, the kernel would be right.",
}

RACE = Exercise(
    name="17.race", kind="explain",
    asks="why ā is not added up by one work-item per entry with a_bar[j] += …",
    answer=Choice("b", options=_RACE),
    right=(lambda d: "b", lambda d: ["b"], lambda d: _RACE["b"]),
    because="+= is a read and a write, and between the two another work-item may have written.",
    wrong=(
        Wrong("does not compile", lambda d: "a", (
            "It compiles. What it computes is the trouble.",
            "+= is ordinary C: read, add, write. Nothing makes the three into one step.",
            "A kernel with out[0] += 1 builds without a word, and counts too low.",
        )),
        Wrong("rounding only", lambda d: "c", (
            "Would you lose the last digits, or whole contributions?",
            "Another order changes the rounding; a lost write changes the sum.",
            "Ones are added exactly in any order; a thousand of them that race may still give 40.",
        )),
        Wrong("last one wins", lambda d: "d", (
            "Who promised an order of the work-items?",
            "They run in any order and at the same time: what is lost is not the same on every run.",
            "If it were an order, the same run would always give the same wrong sum.",
        )),
        Wrong("only GPUs", lambda d: "e", (
            "How many cores has your CPU, and how many entries does one of its instructions work on?",
            "PoCL spreads work-groups over the cores and work-items over vector lanes: they overlap.",
            "Two threads in Python that do total = total + 1 lose counts as well.",
        )),
        Wrong("only the start is wrong", lambda d: "f", (
            "True that it must begin with zeros. Suppose that it does; is it right then?",
            "Zeros help the first to come; what of two that come together?",
            "Both read 0, both write their own: one of two contributions is gone.",
        )),
    ),
)  # fmt: skip


# 17.engine

_ENGINE = {
    "a": "a function that computes the result from the values of the operands",
    "b": "a row in the engine's own table of operations",
    "c": "a rule that turns the cotangent of the result into one for each operand",
    "d": "the formula of the derivative, as an expression that the engine can read",
    "e": "the place of the op in the order of the backward pass",
    "f": "the source of the kernels, so that the engine can differentiate it",
}
_RIGHT = "ac"


ENGINE = Exercise(
    name="17.engine", kind="explain",
    asks="what apply_op must be given so that backward passes through your op (several letters)",
    answer=Choice(_RIGHT, options=_ENGINE, by_letter=True),
    right=(lambda d: "ac", lambda d: {"c", "a"}, lambda d: [_ENGINE["c"], _ENGINE["a"]]),
    because="A value and a rule: what lies inside either is nobody's business but yours.",
    wrong=(
        Wrong("the engine finds the rule itself", lambda d: "a", (
            "From the value alone, how would the engine know which way a change goes?",
            "An engine does not differentiate code. Each op brings its own rule.",
            "Two ops may agree at the values that were met, and have other slopes there.",
        )),
        Wrong("the value follows from the rule", lambda d: "c", (
            "Then what would the next operation compute with?",
            "Forward comes first: the value is needed before any cotangent exists.",
            "The rule of a sum is a spread; from that alone nobody can say what the sum was.",
        )),
        Wrong("a row in the table", lambda d: "abc", (
            "One of your choices would change netcl's own files. Did any cell do that?",
            "The table describes the ops that netcl brings; the pass asks a node for its rule, whoever wrote it.",
            "A custom op is drawn, taped and checked, and its name is in no table.",
        )),
        Wrong("symbolic derivative", lambda d: "acd", (
            "One of your choices is never read by anybody.",
            "The rule is a function that is called with a cotangent; how it computes is up to it.",
            "A rule may look its slope up in a list of measurements: no formula at all.",
        )),
        Wrong("the order by hand", lambda d: "ace", (
            "One of your choices the engine finds out for itself.",
            "The operands of a node say what comes before it: that is the order (lesson 09).",
            "Nobody numbered the nodes in lesson 06, and they were visited in order.",
        )),
        Wrong("kernels are differentiated", lambda d: "acf", (
            "One of your choices is text that the engine never sees.",
            "It receives functions. Whether they launch kernels or use NumPy makes no difference.",
            "The op of section 1 had no kernel, and backward passed through it.",
        )),
    ),
)  # fmt: skip


EXERCISES = (SOFTSIGN, ENGINE, RACE, SLOPE, FORGOTTEN, SQUAREPLUS, LAUNCHES)
