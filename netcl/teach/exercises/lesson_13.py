"""Lesson 13 asks for broken rules to be found and mended, for the origin of NaNs, and for what a kink does."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Choice, Function, Number, Word
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_13_build import MATMUL, MEAN, ROW, TANH

_FEW = "a central difference in float32 has about three digits"


# 13.divide: what a central difference will say

DIVIDE = Exercise(
    name="13.divide", kind="predict",
    asks="∂(a / b)/∂b at the given a and b: what a central difference will say",
    data=lambda rng: {"a": rng.choice((6.0, 12.0, -6.0, -12.0, 20.0)), "b": rng.choice((4.0, -4.0, 5.0, -5.0))},
    answer=Number(lambda d: -d.a / d.b**2, rtol=1e-2, atol=1e-3, why=_FEW),
    right=(
        lambda d: -d.a / d.b**2,
        lambda d: -(d.a / d.b) / d.b,
        lambda d: (d.a / (d.b + 1e-4) - d.a / (d.b - 1e-4)) / 2e-4,
    ),
    because="The quotient is a times b to the power −1, whose derivative is −1 times b to the power −2.",
    wrong=(
        Wrong("the broken rule itself", lambda d: -d.a / d.b, (
            "That is what the broken rule gives. Differences do not know the rule, they only evaluate a / b.",
            "d(1/b) = −db/b²: b stands twice in the denominator.",
            "1/b at b = 0.1 is 10, and at 0.11 about 9.09: the slope is near −100, not −10.",
        )),
        Wrong("sign lost", lambda d: d.a / d.b**2, (
            "The right size. When the denominator grows, what does the quotient do?",
            "The power −1 comes down as a factor, with its sign.",
            "0.7 / b falls from 7 to 0.7 as b goes from 0.1 to 1.",
        )),
        Wrong("by the numerator", lambda d: 1 / d.b, (
            "That is the derivative by a, which the rule has right.",
            "Hold a and move b: the numerator stays in the answer.",
            "In 0.7 / b the derivative by b is proportional to 0.7.",
        )),
        Wrong("numerator forgotten", lambda d: -1 / d.b**2, (
            "Your answer would be the same for every a.",
            "a is a constant factor here, and constant factors stay.",
            "The slope of 0.7 / b is 0.7 times that of 1 / b.",
        )),
        Wrong("twice differentiated", lambda d: 2 * d.a / d.b**3, (
            "b stands three times in your denominator.",
            "That is the second derivative: the rule has been applied twice.",
            "From b^−1 to b^−2 is one step; b^−3 is one too many.",
        )),
    ),
)  # fmt: skip


# 13.hunt: the first forward offender

CHAIN = ("x", "p", "q", "r", "s", "t", "y", "z", "loss")


def run_chain(x: np.ndarray, k: float, c: float) -> dict[str, np.ndarray]:
    """Compute the chain of the hunt, name by name, in float32."""
    with np.errstate(all="ignore"):
        x = np.asarray(x, np.float32)
        p = x * np.float32(k)
        q = np.exp(p)
        r = q - np.float32(c)
        s = np.sqrt(r)
        t = np.log(s)
        y = t * np.float32(0.5)
        z = y + x
        return dict(zip(CHAIN, (x, p, q, r, s, t, y, z, z.mean()), strict=True))


def _hunt_data(rng: random.Random) -> dict[str, Any]:
    k, c = rng.choice(((150.0, 0.5), (1.0, 1.5), (1.0, 1.0)))
    x = [0.0, rng.choice((1.0, 1.25)), rng.choice((2.0, 2.5, 3.0))]
    rng.shuffle(x)
    return {"x": np.array(x, np.float32), "k": k, "c": c}


def _offender(d: SimpleNamespace) -> str:
    return next(name for name, v in run_chain(d.x, d.k, d.c).items() if not np.isfinite(v).all())


def _beside(d: SimpleNamespace, by: int) -> str:
    return CHAIN[CHAIN.index(_offender(d)) + by]


def _caught(d: SimpleNamespace) -> str:
    """Bisect: everything after the offender is infected, nothing before it is."""
    values = run_chain(d.x, d.k, d.c)
    low, high = 0, len(CHAIN) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if not np.isfinite(values[CHAIN[middle]]).all() else (middle + 1, high)
    return f" {CHAIN[low].upper()} "


def _made_by(d: SimpleNamespace) -> str:
    return {"q": "exp", "s": "sqrt", "t": "log"}[_offender(d)]


HUNT = Exercise(
    name="13.hunt", kind="debug",
    asks="the name of the first node whose value is not finite",
    data=_hunt_data,
    answer=Word(_offender),
    right=(_offender, _caught, lambda d: f"`{_offender(d)}`"),
    because="Its operands are finite and its result is not: there it began.",
    wrong=(
        Wrong("where it is seen", lambda d: "loss", (
            "There you saw it. Are the operands of that operation finite?",
            "NaN and infinity are handed on by nearly every operation: walk back while an operand has them.",
            "In m = log(k), n = 3m, total = mean(n) with a k below 0, all three are NaN, and m began.",
        )),
        Wrong("last before the loss", lambda d: "z", (
            "That is nearer to the beginning than the loss, by one step.",
            "An addition only hands on what it gets: look at its operands.",
            "NaN + 1 is NaN; nobody would say that the addition made it.",
        )),
        Wrong("one too early", lambda d: _beside(d, -1), (
            "Print that value: every entry of it is finite.",
            "The offender is the first node that is not finite, and not the operand that it could not digest.",
            "For m = log(k) with k = −0.7, k is a fine number; m is the offender, even if k is to blame.",
        )),
        Wrong("one too late", lambda d: _beside(d, +1), (
            "Look at its operand: not all of it is finite.",
            "One step further back. The first one has finite operands throughout.",
            "For m = log(−0.7) and n = 3m, n only multiplies what m had made.",
        )),
        Wrong("two away", lambda d: {"t": "r", "s": "q", "q": "s"}[_offender(d)], (
            "Print this value, and the one that it was made from. Which of the two are finite?",
            "If its own value is finite, the offender comes later. If an operand is not, it came before.",
            "In k = 0, m = log(k), n = 3m nothing is wrong with k yet, and n hands on what m began.",
        )),
        Wrong("the op for the node", _made_by, (
            "That is the op. Which node did it make?",
            "Anomaly mode names the op, and then the line: the name of the node stands to the left of the = there.",
            "In m = log(k), log is the op and m the node.",
        )),
        Wrong("the input", lambda d: "x", (
            "Print the input: all of its entries are finite.",
            "An input may be unfortunate and still be a number. Which operation could not take it?",
            "−0.7 is a number. log(−0.7) is not.",
        )),
    ),
)  # fmt: skip


# 13.why_nan: an explanation

_WHY = {
    "a": "where computes only the chosen branch, so the NaN must come from the branch that was chosen.",
    "b": "The forward pass has a NaN in it somewhere, and where hides it.",
    "c": "where multiplies its branches by 0 or 1 in the forward pass, and 0 times infinity is NaN.",
    "d": "The branch not chosen gets the cotangent 0, and the rule of the root multiplies it by infinity.",
    "e": "The condition x > 0 is not differentiable at 0, so its derivative is NaN.",
    "f": "float32 has too few digits near 0; in float64 the gradient would be finite.",
}

WHY_NAN = Exercise(
    name="13.why_nan", kind="explain",
    asks="why the gradient of where(x > 0, sqrt(x), 0) is NaN at x = 0, though its value is 0",
    answer=Choice("d", options=_WHY),
    right=(lambda d: "d", lambda d: _WHY["d"]),
    because="0 · ∞ is NaN: the zero that where sends back does not win against an infinite factor.",
    wrong=(
        Wrong("only the chosen branch runs", lambda d: "a", (
            "Python has computed both branches before where is called. Which is the chosen one at x = 0?",
            "where picks entries of two arrays that are both there, and sends a cotangent to both.",
            "f(g(3), h(3)) calls g and h, whatever f does with them.",
        )),
        Wrong("hidden forward NaN", lambda d: "b", (
            "Print every forward value: are they finite?",
            "A backward pass can make the first NaN: local derivatives have poles of their own.",
            "The cube root of 0 is 0, and its slope there is infinite.",
        )),
        Wrong("forward product", lambda d: "c", (
            "Forward there is nothing infinite to multiply with. Look at the other pass.",
            "Forward, where selects; no product is made. Products belong to the rules of backward.",
            "where(True, 3, inf) is 3, with no NaN.",
        )),
        Wrong("derivative of the condition", lambda d: "e", (
            "Does anything flow back to a condition?",
            "A truth value has no derivative, and where sends none to it: only the branches get cotangents.",
            "where(c, 2x, 3x) has the slope 2 or 3; c's own slope never comes in.",
        )),
        Wrong("too few digits", lambda d: "f", (
            "At exactly 0 no digits are missing.",
            "The local derivative 0.5/√x is infinite at 0 in any precision.",
            "1/0 is infinite with seven digits and with sixteen.",
        )),
    ),
)  # fmt: skip


# 13.sinc: the double where, value and gradient


_TINY = (1e-3, 1e-4, 1e-5, 1e-6, 1.1920929e-07, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 2.220446e-16, 1e-16)


def _value_and_slope(f: Any, x: Any) -> list[Any]:
    leaf = ag.tensor(x, requires_grad=True)
    out = f(leaf)
    out.sum().backward()
    if leaf.grad is None:
        return [out, None]
    # Near 0, but not at it, the two terms of the slope cancel in float32, in every right form: not compared there.
    size = np.abs(x.to_host())
    return [out, np.where((size == 0) | (size > 0.04), leaf.grad.to_host(), np.float32(0))]


def _zero(x: Any) -> Any:
    return ag.equal(x, 0.0)


def _sinc(x: Any) -> Any:
    harmless = ag.where(_zero(x), 1.0, x)
    return ag.where(_zero(x), 1.0, ag.sin(harmless) / harmless)


def _sinc_by_mask(x: Any) -> Any:
    harmless = x + _zero(x) * 1.0
    return ag.where(_zero(x), 1.0, ag.sin(harmless) / harmless)


def _flat(x: Any) -> Any:
    near = abs(x) < 0.4
    harmless = ag.where(near, 1.0, x)
    return ag.where(near, 1.0, ag.sin(harmless) / harmless)


def _sinc_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    arrays = [[0.0, 1.0, -2.0], [0.0], [3.0, -0.5], [[0.0, 0.5], [1.5, 0.0]], [rng.uniform(1, 3), 0.0, 2.5]]
    arrays += [[0.3, -0.3], [0.05, -0.05], [1e-3], [-tiny for tiny in _TINY]]
    return [(np.array(array, np.float32),) for array in arrays]


SINC = Exercise(
    name="13.sinc", kind="build",
    asks="a function sinc(x) of netcl's ops: sin(x)/x, and 1 at 0, with a finite gradient everywhere",
    answer=Function(
        lambda d: _sinc, cases=_sinc_cases, rtol=1e-4, atol=3e-5, tensors=True, call=_value_and_slope,
        why="float32, and a difference of two near numbers in the slope",
    ),
    right=(lambda d: _sinc, lambda d: _sinc_by_mask),
    because="The division never sees a 0: its rule stays finite, and the zero that where sends back can win.",
    wrong=(
        Wrong("one where", lambda d: lambda x: ag.where(_zero(x), 1.0, ag.sin(x) / x), (
            "The values are right. Look at the gradient at 0.",
            "The branch that was not chosen is computed all the same, and 0 times infinity comes back from it.",
            "where(x > 0, log(x), 0) needs its inner x replaced by, say, 5 where x ≤ 0, before log sees it.",
        )),
        Wrong("no where, or a condition that is never true", lambda d: lambda x: ag.sin(x) / x, (
            "The value at 0 itself is NaN. If you have a where in it: is its condition ever true?",
            "On a node, == asks whether it is the same node; entries are compared by ag.equal.",
            "With ag.equal(x, 3.0) an x of [3, 4] gives [True, False]; x == 3.0 is one False.",
        )),
        Wrong("a little something in the denominator", lambda d: lambda x: ag.sin(x) / (x + 1e-3), (
            "Nothing is NaN any more, and every value is a little wrong.",
            "Do not change the function where it was fine: replace only the entries that hurt.",
            "1/(x + 0.01) at x = 0.01 is 50 instead of 100.",
        )),
        Wrong("a little something above and below", lambda d: lambda x: (ag.sin(x) + 1e-8) / (x + 1e-8), (
            "Right at 0. But you have only moved the bad point: where is your denominator zero now?",
            "Do not shift the whole function: two wheres replace exactly the entries that hurt.",
            "(u + 0.5)/(u + 0.5) is 1 at u = 0, and 0/0 at u = −0.5.",
        )),
        Wrong("one all around 0", lambda d: _flat, (
            "Right at 0 and far from it. In between your function is flat, and sin(x)/x is not.",
            "Only the entries that are exactly 0 need another value; all others are computed.",
            "tan(u)/u at u = 0.2 is 1.014 already.",
        )),
        Wrong("outer where forgotten",
              lambda d: lambda x: ag.sin(ag.where(_zero(x), 1.0, x)) / ag.where(_zero(x), 1.0, x), (
            "Finite everywhere. But what is the value at 0 now?",
            "The replaced entry was only there to be harmless; a second where puts the true value in its place.",
            "log(where(x > 0, x, 5)) is log 5 for every negative x, where 0 was wanted.",
        )),
        Wrong("zero put into its place", lambda d: lambda x: _sinc(x) - ag.where(_zero(x), 1.0, 0.0), (
            "The gradient is right. The value at 0 is not the limit of its neighbours.",
            "For small x, sin(x) is nearly x: what does the quotient approach?",
            "tan(0.01)/0.01 is 1.00003, and nowhere near 0.",
        )),
        Wrong("condition the wrong way round", lambda d: lambda x: ag.where(_zero(x), ag.sin(x) / (x + 1.0), 1.0), (
            "Nearly every entry has become constant.",
            "where takes its second argument where the condition holds, and its third elsewhere.",
            "where([True, False], [30, 40], 7) is [30, 7].",
        )),
        Wrong("cut off from the graph", lambda d: lambda x: _sinc(x.detach()) + 0.0 * x, (
            "The values are right, and no gradient comes back from them.",
            "A detached value is a constant to backward. Keep the ops on the node itself.",
            "detach(3x) + 0x has the value 3x and the slope 0.",
        )),
    ),
)  # fmt: skip


# 13.kink: what a difference says where there is no derivative

KINK = Exercise(
    name="13.kink", kind="predict",
    asks="the central difference of max(a·x, b·x) at x = 0, for the given a and b",
    data=lambda rng: dict(zip("ab", rng.choice(((-2.0, 7.0), (2.0, 10.0), (-8.0, 2.0), (2.0, 12.0))), strict=True)),
    answer=Number(lambda d: (d.a + d.b) / 2, rtol=1e-2, atol=1e-3, why=_FEW),
    right=(
        lambda d: (d.a + d.b) / 2,
        lambda d: (max(d.a * 0.01, d.b * 0.01) - max(-d.a * 0.01, -d.b * 0.01)) / 0.02,
        lambda d: np.float32(d.a + 0.5 * (d.b - d.a)),
    ),
    because="Half of the difference lies on each side: it is the mean of the two slopes, for every step.",
    wrong=(
        Wrong("slope on the right", lambda d: d.b, (
            "That is the slope of one side. A central difference looks at both.",
            "f(h) is on the right branch, f(−h) on the left one; take the difference, divide by 2h.",
            "For |x| the branches have the slopes 1 and −1, and the central difference at 0 is neither.",
        )),
        Wrong("slope on the left", lambda d: d.a, (
            "That is what a step to the left alone would say.",
            "The step to the right lands on the other branch, and counts as much.",
            "For max(0, x), the step to the left sees 0 and the step to the right sees h.",
        )),
        Wrong("zero, by symmetry", lambda d: 0, (
            "That holds where the two branches rise equally on both sides. Do they here?",
            "Compute f(h) and f(−h): they are not the same number.",
            "For max(0, x) the values are h and 0: not equal.",
        )),
        Wrong("half the difference of the slopes", lambda d: (d.b - d.a) / 2, (
            "f(−h) is a slope times −h: mind the sign of the step.",
            "f(h) − f(−h) adds up the two slopes, since the second is multiplied by −h.",
            "For max(0.1x, 0.3x): f(h) = 0.3h and f(−h) = −0.1h; their difference is 0.4h.",
        )),
        Wrong("not halved", lambda d: d.a + d.b, (
            "Twice too much: how far apart are the two points?",
            "From −h to h is a distance of 2h.",
            "For max(0.1x, 0.3x): 0.4h over 2h, which is 0.2.",
        )),
        Wrong("no number at all", lambda d: float("nan"), (
            "The derivative does not exist. The difference does: it is made of two function values.",
            "Nothing is divided by zero: h is small, and not 0.",
            "For |x|, (|h| − |−h|)/2h is an ordinary number.",
        )),
    ),
)  # fmt: skip


EXERCISES = (DIVIDE, MEAN, MATMUL, TANH, ROW, HUNT, WHY_NAN, SINC, KINK)
