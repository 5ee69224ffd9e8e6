"""Four of lesson 13's broken rules. Each is `rule(g, out, *operands)`, and returns a list with one cotangent each."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong

_FLOAT32 = "float32 on the device, summed in another order"
_TOLERANCES: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4, "why": _FLOAT32, "tensors": True}


def _normal(rng: random.Random, *shape: int) -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return np.array([rng.gauss(0, 1) for _ in range(count)], np.float32).reshape(shape)


# 13.mean: y = a.mean(axis=1)


def _column(g: Any) -> Any:
    return g.reshape(g.shape[0], 1)


def _mean_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    arrays = [_normal(rng, *shape) for shape in ((2, 3), (4, 4), (5, 2), (1, 6), (3, 1))]
    return [(_normal(rng, len(a)) + np.float32(2), a.mean(axis=1), a) for a in arrays]


MEAN = Exercise(
    name="13.mean", kind="debug",
    asks="mean_rule(g, out, a) mended: the VJP of a.mean(axis=1), as a list of one array",
    answer=Function(
        lambda d: lambda g, out, a: [_column(g) / a.shape[1] + a * 0.0], cases=_mean_cases,
        returns="a list of one array", **_TOLERANCES,
    ),
    right=(
        lambda d: lambda g, out, a: [_column(g) / a.shape[1] + a * 0.0],
        lambda d: lambda g, out, a: [ag.broadcast_to(_column(g), a.shape) / float(a.shape[1])],
        lambda d: lambda g, out, a: [_column(g) @ np.full((1, a.shape[1]), 1 / a.shape[1], np.float32)],
    ),
    because="Each row shares its cotangent among as many entries as were averaged.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g, out, a: [_column(g) / a.size + a * 0.0], (
            "This is the rule as it was found. By which factor do all rows disagree?",
            "Divide by the number of entries that one average is made of, not by all there are.",
            "Ten rows of seven numbers have ten means, and each is made of seven numbers.",
        )),
        Wrong("not stretched", lambda d: lambda g, out, a: [_column(g) / a.shape[1]], (
            "The right numbers, in a column. Which shape has a?",
            "A cotangent has the shape of its operand: each number is handed to every entry of its row.",
            "For an a of shape (10, 7), a column of shape (10, 1) has still to be stretched to (10, 7).",
        )),
        Wrong("rows counted", lambda d: lambda g, out, a: [_column(g) / a.shape[0] + a * 0.0], (
            "Right for square arrays only.",
            "axis=1 disappears, so its length is what was averaged over; the other is the number of averages.",
            "For shape (10, 7) and axis=1 the divisor is 7.",
        )),
        Wrong("not divided", lambda d: lambda g, out, a: [_column(g) + a * 0.0], (
            "That is the rule of the sum.",
            "A mean is a sum over n, and the n stays in the rule.",
            "Moving one of seven numbers by 0.7 moves their mean by 0.1.",
        )),
        Wrong("laid along the rows", lambda d: lambda g, out, a: [g / a.shape[1] + a * 0.0], (
            "Try an array that is not square.",
            "The axis that disappeared has to come back with length 1, at its old place.",
            "Seven means, one for each row, must be stretched as a column of shape (7, 1).",
        )),
        Wrong("times the value", lambda d: lambda g, out, a: [_column(g) * a / a.shape[1]], (
            "The values of a have crept in. Is the mean linear?",
            "The local derivative of a linear operation does not read its input.",
            "Moving 100 by 0.7 moves the mean as much as moving 5 by 0.7.",
        )),
        Wrong("the mean itself", lambda d: lambda g, out, a: [_column(out) + a * 0.0], (
            "You return something that does not depend on g.",
            "A rule is a linear map of the cotangent that arrives: twice the g, twice the result.",
            "With g = 0 nothing may come back.",
        )),
    ),
)  # fmt: skip


# 13.matmul: y = a @ b


def _matmul_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for n in (2, 3, 4, 2, 5):  # square, where no shape gives a wrong transpose away
        a, b = _normal(rng, n, n), _normal(rng, n, n)
        cases.append((_normal(rng, n, n), a @ b, a, b))
    return cases


MATMUL = Exercise(
    name="13.matmul", kind="debug",
    asks="matmul_rule(g, out, a, b) mended: the VJP of a @ b, as a list of two matrices",
    answer=Function(
        lambda d: lambda g, out, a, b: [g @ b.T, a.T @ g], cases=_matmul_cases, returns="a list of two matrices",
        **_TOLERANCES,
    ),
    right=(
        lambda d: lambda g, out, a, b: [g @ b.T, a.T @ g],
        lambda d: lambda g, out, a, b: [(b @ g.T).T, (g.T @ a).T],
        lambda d: lambda g, out, a, b: [ag.einsum("ij,pj->ip", g, b), ag.einsum("ip,ij->pj", a, g)],
    ),
    because="dY = dA B + A dB, and a factor that changes sides is transposed.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g, out, a, b: [g @ b, a.T @ g], (
            "This is the rule as it was found. Which of the two arguments does gradcheck complain about?",
            "In Ā[i, p] = Σ_j Ȳ[i, j] B[p, j] the summed index is B's last.",
            "For numbers nothing shows; for [[0, 1], [0, 0]] the transpose has its 1 elsewhere.",
        )),
        Wrong("both transposes gone", lambda d: lambda g, out, a, b: [g @ b, a @ g], (
            "Now both arguments are wrong.",
            "The transpose of the right factor was there already; it is the left rule that lacks one.",
            "⟨P, QR⟩ = ⟨P Rᵀ, Q⟩ = ⟨Qᵀ P, R⟩: one transpose in each.",
        )),
        Wrong("the other rule mended into a fault", lambda d: lambda g, out, a, b: [g @ b.T, a @ g], (
            "The first argument is right now, and the second no longer.",
            "Each rule has its own transpose; moving one over does not help.",
            "For A of shape (2, 3), only Aᵀ, of shape (3, 2), can stand before a (2, 4) cotangent.",
        )),
        Wrong("factors on the wrong sides", lambda d: lambda g, out, a, b: [b.T @ g, g @ a.T], (
            "The right factors with the right transposes, in the wrong order.",
            "What stood on the right of A in AB stands on the right of Ȳ.",
            "For A of shape (2, 3) the free index of length 2 comes from Ȳ and must be first.",
        )),
        Wrong("the first product the wrong way round", lambda d: lambda g, out, a, b: [b.T @ g, a.T @ g], (
            "The second entry is right. In the first one the two factors stand in the wrong order.",
            "b is on the right of a in a @ b, and its transpose is on the right of g.",
            "For A of shape (2, 3), B (3, 4): Bᵀ is (4, 3) and fits behind a (2, 4) cotangent, not before it.",
        )),
        Wrong("results swapped", lambda d: lambda g, out, a, b: [a.T @ g, g @ b.T], (
            "Two good matrices, delivered to the wrong addresses.",
            "The list has one entry for each argument, in their order: first a's, then b's.",
            "For p·q the rule is [g·q, g·p]: the first entry is p's.",
        )),
        Wrong("the cotangent turned as well", lambda d: lambda g, out, a, b: [g.T @ b.T, a.T @ g.T], (
            "One transpose too many in each.",
            "Only the factor that changes sides is transposed; Ȳ stays as it came.",
            "For Ȳ of shape (2, 4), Ȳᵀ of shape (4, 2) could not give a result with two rows.",
        )),
    ),
)  # fmt: skip


# 13.tanh: y = tanh(a)


def _tanh_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    arrays = [_normal(rng, *shape) for shape in ((4,), (2, 3), (1,), (3, 2, 2), (5,))]
    return [(_normal(rng, *a.shape) + np.float32(2), np.tanh(a), a) for a in arrays]


TANH = Exercise(
    name="13.tanh", kind="debug",
    asks="tanh_rule(g, out, a) mended: the VJP of tanh, as a list of one array",
    answer=Function(
        lambda d: lambda g, out, a: [g * (1.0 - out * out)], cases=_tanh_cases, returns="a list of one array",
        **_TOLERANCES,
    ),
    right=(
        lambda d: lambda g, out, a: [g * (1.0 - out * out)],
        lambda d: lambda g, out, a: [g * (1.0 - ag.tanh(a) ** 2)],
        lambda d: lambda g, out, a: [g / ag.cosh(a) ** 2],
    ),
    because="1 − tanh² takes the tanh itself, which the forward pass has left as out.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g, out, a: [g * (1.0 - a * a)], (
            "This is the rule as it was found. Where does it become negative, and does tanh ever fall?",
            "tanh′ = 1 − tanh²: it is the result that is squared, not the input.",
            "At a = 2 the curve is nearly flat, near 0.07; 1 − 2·2 is −3.",
        )),
        Wrong("square forgotten", lambda d: lambda g, out, a: [g * (1.0 - out)], (
            "At large negative inputs your slope is near 2. The curve is flat there.",
            "The result is squared, which makes the slope even: the same on both sides.",
            "At out = −1 the slope must be 0: 1 − (−1)·(−1).",
        )),
        Wrong("sign", lambda d: lambda g, out, a: [g * (1.0 + out * out)], (
            "Your slope grows where the curve flattens.",
            "It is tan that has a plus; tanh has a minus.",
            "tan′(0.5) is 1 + tan², about 1.30; tanh′(0.5) is about 0.79.",
        )),
        Wrong("the sigmoid's rule", lambda d: lambda g, out, a: [g * out * (1.0 - out)], (
            "At 0 your slope is 0. There tanh is steepest.",
            "out·(1 − out) belongs to the logistic function, whose values lie between 0 and 1.",
            "The logistic function has the slope 0.25 at 0, where its value is 0.5.",
        )),
        Wrong("cotangent forgotten", lambda d: lambda g, out, a: [1.0 - out * out + g * 0.0], (
            "The local derivative is right. Where is what arrived?",
            "A rule multiplies the cotangent by the local derivative.",
            "With g = 0 nothing may come back; with twice the g, twice as much.",
        )),
        Wrong("tanh twice", lambda d: lambda g, out, a: [g * (1.0 - ag.tanh(out) ** 2)], (
            "Near 0 it is right; further out it is not.",
            "out is the tanh already: square it as it is.",
            "At a = 2, out is about 0.964, and tanh(0.964) about 0.746.",
        )),
    ),
)  # fmt: skip


# 13.row: y = a + b, b one row


def _row_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for n, m in ((3, 3), (2, 4), (5, 5), (4, 1), (3, 2)):
        a, b = _normal(rng, n, m), _normal(rng, m)
        cases.append((_normal(rng, n, m), a + b, a, b))
    return cases


ROW = Exercise(
    name="13.row", kind="debug",
    asks="row_rule(g, out, a, b) mended: the VJP of a + b, where b is one row, as a list of two arrays",
    answer=Function(
        lambda d: lambda g, out, a, b: [g, g.sum(axis=0)], cases=_row_cases, returns="a list of two arrays",
        **_TOLERANCES,
    ),
    right=(
        lambda d: lambda g, out, a, b: [g, g.sum(axis=0)],
        lambda d: lambda g, out, a, b: [g * 1.0, g.T.sum(axis=1)],
        lambda d: lambda g, out, a, b: [g, np.ones(g.shape[0], np.float32) @ g],
    ),
    because="b is read by every row, so its cotangent is summed over the rows.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g, out, a, b: [g, g.sum(axis=1)], (
            "This is the rule as it was found. Which axis does b not have?",
            "Sum over the axis along which b was stretched: shapes are laid right-aligned.",
            "For an array of shape (70, 9) and a row of shape (9,), the 70 must disappear.",
        )),
        Wrong("not summed", lambda d: lambda g, out, a, b: [g, g], (
            "The second cotangent does not have the shape of b.",
            "b was stretched over the rows, so its cotangent is summed over them.",
            "A row of shape (9,) gets nine numbers, however many rows there are.",
        )),
        Wrong("axis kept", lambda d: lambda g, out, a, b: [g, g.sum(axis=0, keepdims=True)], (
            "The right numbers, with one axis too many.",
            "b has a single axis. The one that broadcasting put in front is dropped again: no keepdims here.",
            "A row of shape (9,) gets (9,) back, and not (1, 9).",
        )),
        Wrong("averaged", lambda d: lambda g, out, a, b: [g, g.mean(axis=0)], (
            "Too small by the number of rows.",
            "Copies send their cotangents whole, and these are added.",
            "Three rows that send 10, 20, 30 to one entry make 60, not 20.",
        )),
        Wrong("first row", lambda d: lambda g, out, a, b: [g, g[0]], (
            "Only one row has been heard.",
            "What comes back along several edges is added; slicing throws the rest away.",
            "Three rows that send 10, 20, 30 to one entry make 60, not 10.",
        )),
        Wrong("everything summed", lambda d: lambda g, out, a, b: [g, g.sum() + b * 0.0], (
            "All entries of b's cotangent agree now.",
            "The columns stay apart: only the rows are added.",
            "Rows [10, 70] and [20, 90] send [30, 160] back, not 190 twice.",
        )),
        Wrong("minus", lambda d: lambda g, out, a, b: [g, -g.sum(axis=0)], (
            "The size is right. Look at the sign.",
            "db enters dY with a plus.",
            "In p + q both partial derivatives are 1; a −1 belongs to p − q.",
        )),
    ),
)  # fmt: skip
