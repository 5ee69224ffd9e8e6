"""Lesson 12 asks for products of matrices pulled back, for squares of matrices, and for cross-entropy's gradient."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_12_build import BATCHED, QUADRATIC, SOFTMAX, SOFTMAX_VJP

_WHOLE = "whole numbers: exact in float32"


def _matrix(rng: random.Random) -> np.ndarray:
    return np.array([[rng.randint(-5, 6) for _ in range(2)] for _ in range(2)], np.float32)


def _until(make: Callable[[], dict[str, Any]], rules: Callable[[dict[str, Any]], list[np.ndarray]]) -> dict[str, Any]:
    """Draw data until all rules, right and wrong, give different answers."""
    while True:
        data = make()
        answers = [np.asarray(answer, np.float64) for answer in rules(data)]
        if not any(np.array_equal(p, q) for i, p in enumerate(answers) for q in answers[:i]):
            return data


# 12.entry: one entry of Ā


def _entry_rules(d: dict[str, Any]) -> list[Any]:
    a, b, g = d["A"], d["B"], d["Y_bar"]
    return [(g @ b.T)[0, 1], (g @ b)[0, 1], (b.T @ g)[0, 1], (a.T @ g)[0, 1], (g * b)[0, 1], (g @ b.T)[1, 0]]


ENTRY = Exercise(
    name="12.entry", kind="predict",
    asks="Ā[0, 1] for Y = A @ B, where Ȳ and B are given",
    data=lambda rng: _until(lambda: {name: _matrix(rng) for name in ("A", "B", "Y_bar")}, _entry_rules),
    answer=Number(lambda d: (d.Y_bar @ d.B.T)[0, 1], rtol=1e-6, why=_WHOLE),
    right=(
        lambda d: (d.Y_bar @ d.B.T)[0, 1],
        lambda d: sum(float(d.Y_bar[0, j]) * float(d.B[1, j]) for j in range(2)),
        lambda d: d.Y_bar[0] @ d.B[1],
    ),
    because="A[0, 1] meets row 1 of B, and goes into row 0 of Y: multiply these two rows and add.",
    wrong=(
        Wrong("no transpose", lambda d: (d.Y_bar @ d.B)[0, 1], (
            "You went down a column of B. With which entries of B is A[0, 1] multiplied in forward?",
            "In Σ over j of Ȳ[i, j] B[p, j] the summed index is the second of B, so B is transposed.",
            "In a forward product, A[0, 0] meets B[0, 0] and B[0, 1]: a row of B.",
        )),
        Wrong("the other order", lambda d: (d.B.T @ d.Y_bar)[0, 1], (
            "The right two factors, in the wrong order.",
            "The free index i of Ā[i, p] is a row of Ȳ, so Ȳ stands on the left.",
            "For n, k and m that all differ, Bᵀ of shape (m, k) cannot even stand on the left of Ȳ of shape (n, m).",
        )),
        Wrong("the rule for B", lambda d: (d.A.T @ d.Y_bar)[0, 1], (
            "That is an entry of the cotangent of the other factor.",
            "What multiplies dA in dY = dA B + A dB is B; A itself does not come in.",
            "For a product p·q, the derivative by p reads q.",
        )),
        Wrong("entry by entry", lambda d: (d.Y_bar * d.B)[0, 1], (
            "You multiplied two entries at the same place. A matrix product is not ⊙.",
            "A[i, p] is read by the whole row i of Y: there is a sum over j.",
            "One entry of A that meets 0.5 and 0.25 of B, with cotangents 0.1 and 0.2, gets 0.05 + 0.05.",
        )),
        Wrong("indices swapped", lambda d: (d.Y_bar @ d.B.T)[1, 0], (
            "That number stands in Ā, at another place.",
            "The first index is the row. In Ā[i, p] it picks a row of Ȳ, the second a row of B.",
            "[[0.1, 0.2], [0.3, 0.4]] has 0.2 at [0, 1] and 0.3 at [1, 0].",
        )),
    ),
)  # fmt: skip


# 12.why_transpose: an explanation

_WHY = {
    "a": "Because only that way the shapes fit; for square matrices it makes no difference.",
    "b": "Because backward computes with the inverse of B, and the transpose is the inverse.",
    "c": "Because gradients are column vectors by convention, so every factor must be turned.",
    "d": "Because the index that is summed, j, is the second index of both Ȳ and B.",
    "e": "Because matrix products do not commute, and the transpose makes up for the order.",
    "f": "Because netcl stores matrices by rows and the kernel reads columns.",
}

WHY_TRANSPOSE = Exercise(
    name="12.why_transpose", kind="explain",
    asks="why B is transposed in Ā = Ȳ Bᵀ",
    answer=Choice("d", options=_WHY),
    right=(lambda d: "d", lambda d: _WHY["d"]),
    because="Ā[i, p] = Σ_j Ȳ[i, j] B[p, j]: j stands second in both, and a product wants it first in the right one.",
    wrong=(
        Wrong("shapes alone", lambda d: "a", (
            "For square matrices all products fit. Did they all agree with the differences?",
            "Shapes rule out, they do not derive: the rule comes from which entry is read by which.",
            "Of [[1, 2], [3, 4]] and its transpose, both are (2, 2), and they are not the same matrix.",
        )),
        Wrong("inverse", lambda d: "b", (
            "The VJP exists even where B has no inverse. Think of B of all zeros.",
            "Reverse mode uses the transpose of a linear map, never its inverse.",
            "The map p → 10p has the transpose 10 and the inverse 0.1.",
        )),
        Wrong("convention", lambda d: "c", (
            "A convention could be changed. Would another rule agree with finite differences?",
            "Ā has A's shape whatever layout is chosen; its entries are fixed by d loss = ⟨Ā, dA⟩.",
            "For loss = 3p there is no convention that makes the derivative 4.",
        )),
        Wrong("order", lambda d: "e", (
            "It is true that the order matters. It is not what the transpose is for.",
            "Moving B to the other side of ⟨ , ⟩ transposes it: ⟨Ȳ, dA B⟩ = ⟨Ȳ Bᵀ, dA⟩.",
            "For (1, 1) matrices, where products do commute, the rule is the same.",
        )),
        Wrong("storage", lambda d: "f", (
            "On paper nothing is stored, and the transpose is there.",
            "The rule is a sum over indices; the layout in memory decides only how fast it runs.",
            "NumPy's order='F' stores columns, and A @ B is the same matrix.",
        )),
    ),
)  # fmt: skip


# 12.square: the differential of A²


def _square_rules(d: dict[str, Any]) -> list[Any]:
    a, da = d["A"], d["dA"]
    return [
        a @ da + da @ a,
        2 * a @ da,
        2 * da @ a,
        a @ da,
        2 * a * da,
        a @ da - da @ a,
        da @ da,
        a @ da + da @ a + da @ da,
    ]


SQUARE = Exercise(
    name="12.square", kind="predict",
    asks="d(A²), the linear part of (A + dA)² − A², where A and dA are given",
    data=lambda rng: _until(lambda: {name: _matrix(rng) for name in ("A", "dA")}, _square_rules),
    answer=Number(lambda d: d.A @ d.dA + d.dA @ d.A, rtol=1e-6, why=_WHOLE),
    right=(
        lambda d: d.A @ d.dA + d.dA @ d.A,
        lambda d: ((d.A + d.dA) @ (d.A + d.dA) - d.A @ d.A - d.dA @ d.dA).tolist(),
        lambda d: np.einsum("ij,jk->ik", d.A, d.dA) + np.einsum("ij,jk->ik", d.dA, d.A),
    ),
    because="Each of the two factors moves once, and stays at its own place.",
    wrong=(
        Wrong("2A dA", lambda d: 2 * d.A @ d.dA, (
            "You put the two terms together. May A and dA change places?",
            "The product rule keeps every factor at its place: one term has dA first, the other second.",
            "For numbers, p dq + dq p is 2p dq; for matrices the two terms are different matrices.",
        )),
        Wrong("2 dA A", lambda d: 2 * d.dA @ d.A, (
            "Both terms have dA on the left in your answer.",
            "In A·A the left factor may move, or the right one: write one term for each.",
            "d(PQ) = dP Q + P dQ, and now put the same matrix for P and for Q.",
        )),
        Wrong("one factor only", lambda d: d.A @ d.dA, (
            "One of the two places where A stands has not been moved.",
            "A is used twice, and each use has a term: it is the fork of lesson 06.",
            "For the number 10, moving only one factor of 10·10 would give the slope 10 instead of 20.",
        )),
        Wrong("entry by entry", lambda d: 2 * d.A * d.dA, (
            "That is the differential of A ⊙ A, every entry squared by itself.",
            "A² is the matrix product A A: its entries mix rows with columns.",
            "In Python A**2 squares entries, and A @ A multiplies matrices.",
        )),
        Wrong("minus", lambda d: d.A @ d.dA - d.dA @ d.A, (
            "The right terms with a wrong sign between them.",
            "The product rule adds. The difference is the commutator, which says how far they fail to commute.",
            "For numbers the difference of the two terms would always be 0.",
        )),
        Wrong("the quadratic part", lambda d: d.dA @ d.dA, (
            "That is what is left over when the linear part has been taken away.",
            "The differential is linear in dA: terms with dA twice do not belong to it.",
            "(10 + 0.1)² − 100 = 2.01; the linear part is 2, the left-over 0.01.",
        )),
        Wrong("the whole change", lambda d: d.A @ d.dA + d.dA @ d.A + d.dA @ d.dA, (
            "That is all that happens, (A + dA)² − A². The question is for its linear part.",
            "Drop the term in which dA stands twice: it goes to nothing faster than dA.",
            "(7 + 0.1)² − 49 = 1.41, of which 1.4 is linear in the step.",
        )),
    ),
)  # fmt: skip


# 12.surplus: p − y, with numbers


def _surplus_data(rng: random.Random) -> dict[str, Any]:
    weights = rng.choice(((1, 2, 5), (1, 3, 6), (2, 3, 5), (1, 4, 5), (3, 5, 8), (1, 7, 8)))
    weights = np.array(rng.sample(weights, 3), np.float64)
    return {"weights": weights, "z": np.log(weights), "label": rng.randrange(3), "p": weights / weights.sum()}


def _hot(d: Any) -> np.ndarray:
    return np.eye(3)[d.label]


SURPLUS = Exercise(
    name="12.surplus", kind="predict",
    asks="∂loss/∂z for one example: loss = −log softmax(z)[label], with z = log(weights)",
    data=_surplus_data,
    answer=Number(lambda d: d.p - _hot(d), rtol=1e-3, atol=1e-3, why="three digits are enough to see the rule"),
    right=(
        lambda d: d.p - _hot(d),
        lambda d: [w / float(sum(d.weights)) - (i == d.label) for i, w in enumerate(d.weights)],
        lambda d: np.exp(d.z) / np.exp(d.z).sum() - _hot(d),
    ),
    because="Every class sends back its probability, and the right one 1 less.",
    wrong=(
        Wrong("label not subtracted", lambda d: d.p, (
            "Your answer does not know which class is right, though the loss does.",
            "The −z[label] in the loss sends −1 to the label's entry.",
            "With p = (0.25, 0.75) and label 0, raising z[0] lowers the loss: that entry must be negative.",
        )),
        Wrong("sign turned", lambda d: _hot(d) - d.p, (
            "All the numbers are there, with the wrong sign.",
            "loss = −z[label] + log Σ exp(z): the second term has a plus, and gives the probabilities.",
            "Raising the logit of a wrong class raises the loss: its entry must be positive.",
        )),
        Wrong("by p instead of by z", lambda d: -_hot(d) / d.p, (
            "That is how the loss depends on the probabilities. The question is about the logits.",
            "Pull −y/p back through softmax, too: z̄ = p ⊙ (p̄ − Σ p̄ p).",
            "For −log p at p = 0.25 the slope by p is −4; by the logit it is only −0.75.",
        )),
        Wrong("diagonal of the softmax alone", lambda d: np.where(_hot(d) == 1, d.p - 1, 0), (
            "Only the right class hears anything in your answer.",
            "The denominator of softmax reads every logit, so every logit gets a cotangent.",
            "Raising a wrong logit takes probability from the right class, so it cannot have the slope 0.",
        )),
        Wrong("not normalised", lambda d: d.weights - _hot(d), (
            "exp(z) alone is no probability.",
            "Softmax divides by the sum of the exponentials; then subtract the label.",
            "Weights 10 and 30 are the probabilities 0.25 and 0.75.",
        )),
        Wrong("the label counted from one", lambda d: d.p - np.eye(3)[d.label - 1], (
            "The 1 is taken away from a neighbour of the right class.",
            "Labels are indices, and indices begin at 0.",
            "Label 1 among the classes (0.2, 0.7, 0.1) is the one with 0.7.",
        )),
        Wrong("another class", lambda d: d.p - np.eye(3)[(d.label + 1) % 3], (
            "The form is right. The 1 is taken away at the wrong place.",
            "Only the entry of the label is negative: there the loss falls when the logit rises.",
            "With p = (0.2, 0.7, 0.1) and label 0 the signs are −, +, +.",
        )),
        Wrong("sigmoid's slope", lambda d: d.p * (1 - d.p), (
            "That is how one probability changes with its own logit, not how the loss does.",
            "The loss takes a logarithm: it divides by p again, and adds the other classes.",
            "With p = (0.25, 0.75) you would get 0.1875 for both, and both logits should go down.",
        )),
    ),
)  # fmt: skip


EXERCISES = (ENTRY, WHY_TRANSPOSE, BATCHED, SQUARE, QUADRATIC, SOFTMAX, SOFTMAX_VJP, SURPLUS)
