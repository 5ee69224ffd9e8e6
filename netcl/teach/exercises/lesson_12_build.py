"""The rules of lesson 12 that are written as code: products in batches, a quadratic form, and softmax."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong
from netcl.tensor import Tensor

_ROUNDING = "float64, rounded a few times"


def _normal(rng: random.Random, *shape: int) -> np.ndarray:
    count = int(np.prod(shape, dtype=int))
    return np.array([rng.gauss(0, 1) for _ in range(count)]).reshape(shape)


# 12.batched: one matrix for a whole batch


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, x.shape[-1])


def _by_loop(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    total = np.zeros((a.shape[-1], g.shape[-1]))
    for at in np.ndindex(a.shape[:-2]):
        total = total + a[at].T @ g[at]
    return total


def _each(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2) @ g


def _summed_first(g: np.ndarray, a: np.ndarray) -> np.ndarray:
    axes = tuple(range(a.ndim - 2))
    return a.sum(axis=axes).T @ g.sum(axis=axes)


def _batched_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    sizes = [((4,), 2, 3, 5), ((), 3, 2, 4), ((2, 3), 4, 2, 2), ((5,), 1, 3, 3), ((2, 1, 2), 3, 4, 1), ((3,), 2, 2, 2)]
    return [(_normal(rng, *batch, n, m), _normal(rng, *batch, n, k)) for batch, n, k, m in sizes]


BATCHED = Exercise(
    name="12.batched", kind="build",
    asks="a function b_bar(g, a): the cotangent of B for Y = A @ B, with A of shape (*batch, n, k), B of shape (k, m)",
    answer=Function(lambda d: _by_loop, cases=_batched_cases, rtol=1e-9, atol=1e-9, why=_ROUNDING),
    right=(
        lambda d: _by_loop,
        lambda d: lambda g, a: _flat(a).T @ _flat(g),
        lambda d: lambda g, a: np.einsum("ik,im->km", _flat(a), _flat(g)),
    ),
    because="B is stretched over the batch: Aᵀ Ȳ of every matrix, added up.",
    wrong=(
        Wrong("not summed over the batch", lambda d: _each, (
            "Your result has the axes of the batch. B has none.",
            "B is read by every matrix of the batch: it was stretched, and what comes back is summed.",
            "Ten matrices that share one B send ten contributions, which are added.",
        )),
        Wrong("averaged over the batch", lambda d: lambda g, a: _by_loop(g, a) / max(1, np.prod(a.shape[:-2])), (
            "Right shape, too small by the number of matrices in the batch.",
            "The transpose of a stretch is a sum. A mean belongs into the loss, if one wants it.",
            "Two readers that send 10 and 30 make 40, not 20.",
        )),
        Wrong("last of the batch", lambda d: lambda g, a: _each(g, a).reshape(-1, a.shape[-1], g.shape[-1])[-1], (
            "Only one matrix of the batch has been heard.",
            "Contributions are accumulated: += over the batch, not =.",
            "Readers that send 10, 20 and 30 make 60; the last alone would be 30.",
        )),
        Wrong("transposed result", lambda d: lambda g, a: _flat(g).T @ _flat(a), (
            "You return the transpose of what was asked: look at the shape.",
            "B̄ has B's shape (k, m): the index k comes from A, so Aᵀ stands on the left.",
            "For A of shape (10, 2) and Ȳ of shape (10, 7), Aᵀ Ȳ is (2, 7) and Ȳᵀ A is (7, 2).",
        )),
        Wrong("summed before multiplied", lambda d: _summed_first, (
            "Every matrix of the batch now meets every other one.",
            "Multiply first, then sum: a sum of products is not the product of sums.",
            "10·1 + 20·2 = 50, while (10 + 20)·(1 + 2) = 90.",
        )),
        Wrong("reshaped instead of transposed", lambda d: lambda g, a: a.reshape(a.shape[-1], -1) @ _flat(g), (
            "The shape is right; the numbers are shuffled.",
            "reshape keeps the order in memory, and a transpose changes it.",
            "[[10, 20, 30], [40, 50, 60]] reshaped to (3, 2) starts with the row 10, 20; its transpose with 10, 40.",
        )),
    ),
)  # fmt: skip


# 12.quadratic: left to the student


def _quadratic_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    return [(_normal(rng, n, n), _normal(rng, n)) for n in (2, 3, 5, 8, 4)]


QUADRATIC = Exercise(
    name="12.quadratic", kind="build",
    asks="a function x_bar(m, x): the gradient of xᵀ M x with respect to x, for any square matrix M",
    answer=Function(lambda d: lambda m, x: (m + m.T) @ x, cases=_quadratic_cases, rtol=1e-9, atol=1e-9, why=_ROUNDING),
    right=(
        lambda d: lambda m, x: (m + m.T) @ x,
        lambda d: lambda m, x: m @ x + x @ m,
        lambda d: lambda m, x: np.einsum("ij,j->i", m, x) + np.einsum("ji,j->i", m, x),
    ),
    because="x stands at both ends, and each end sends a term: M x from the left one, Mᵀ x from the right one.",
    wrong=(
        Wrong("M taken for symmetric", lambda d: lambda m, x: 2 * m @ x, (
            "Right for some matrices. Try [[0, 1], [0, 0]].",
            "The two ends send different terms unless M equals its transpose.",
            "For M = [[0, 1], [0, 0]] the form is x₀x₁, whose gradient is (x₁, x₀), not (2x₁, 0).",
        )),
        Wrong("left end alone", lambda d: lambda m, x: m @ x, (
            "One of the two places where x stands is missing.",
            "The product rule has one term for every x: dxᵀ M x and xᵀ M dx.",
            "For one number, 10x² has the slope 20x, not 10x.",
        )),
        Wrong("right end alone", lambda d: lambda m, x: m.T @ x, (
            "You have what the right end sends. x stands on the left as well.",
            "xᵀ M dx = ⟨Mᵀ x, dx⟩ is one term; dxᵀ M x = ⟨M x, dx⟩ is the other.",
            "For one number, both ends of x·10·x send 10x.",
        )),
        Wrong("transposed, and doubled", lambda d: lambda m, x: 2 * m.T @ x, (
            "You doubled one end instead of asking the other.",
            "Double only what is there twice: the ends send M x and Mᵀ x.",
            "For M = [[0, 1], [0, 0]] you get (0, 2x₀); the gradient of x₀x₁ has an x₁ in it.",
        )),
        Wrong("halved", lambda d: lambda m, x: (m + m.T) @ x / 2, (
            "The right direction, half the length.",
            "That would be the gradient of ½ xᵀ M x. Here nothing is halved.",
            "For one number, 10x² at x = 3 has the slope 60; half of it is 30.",
        )),
        Wrong("minus", lambda d: lambda m, x: (m - m.T) @ x, (
            "Look at the sign between the two terms.",
            "The product rule adds. With a minus every symmetric M would have no gradient.",
            "For M = [[10]] the form is 10x², and its slope is not 0.",
        )),
    ),
)  # fmt: skip


# 12.softmax: so that it never overflows


def _softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _by_logarithms(z: np.ndarray) -> np.ndarray:
    return np.exp(z - np.logaddexp.reduce(z, axis=-1, keepdims=True))


def _normalised(e: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return e / e.sum(axis=-1, keepdims=True)


def _of_all(z: np.ndarray) -> np.ndarray:
    e = _exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum()


def _unshifted_of_all(z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.exp(z) / np.exp(z).sum()


def _exp(z: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.exp(z)


def _in_numpy(softmax: Any, z: np.ndarray) -> Any:
    found = softmax(z)
    return "a tensor of netcl" if isinstance(found, Node | Tensor) else found


def _softmax_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    arrays = [
        _normal(rng, 4), _normal(rng, 3, 5), _normal(rng, 2, 3, 4), np.array([1000.0, 1000.5, 999.0]),
        np.array([-2000.0, -2001.0]), np.array([[0.0, 1.0], [3000.0, 3001.0]]), np.array([[5.0, -5.0, 4000.0]]),
        _normal(rng, 3, 1),
    ]  # fmt: skip
    return [(array,) for array in arrays]


SOFTMAX = Exercise(
    name="12.softmax", kind="build",
    asks="a function softmax(z) along the last axis, finite for logits of any size",
    answer=Function(lambda d: _softmax, cases=_softmax_cases, rtol=1e-6, atol=1e-12, why="exp rounds", call=_in_numpy),
    right=(lambda d: _softmax, lambda d: _by_logarithms),
    because="The largest exponent is 0: nothing overflows, and the sum is at least 1.",
    wrong=(
        Wrong("the formula as it stands", lambda d: lambda z: _normalised(_exp(z)), (
            "Right for small logits. Try [1000, 1000.5].",
            "exp overflows to infinity, and infinity over infinity is NaN: subtract something first.",
            "[800, 801] has the same softmax as [0, 1].",
        )),
        Wrong("the formula as it stands, one sum for all", lambda d: lambda z: _unshifted_of_all(z), (
            "Right for one row of small logits. Try two rows; and try large ones.",
            "Each row has a sum of its own, along the last axis, kept for the division. And exp needs a shift first.",
            "Two rows of two equal logits: 0.5 everywhere; and [800, 801] has the same softmax as [0, 1].",
        )),
        Wrong("maximum of the whole array", lambda d: lambda z: _normalised(_exp(z - z.max())), (
            "One row is fine; try rows of very different size, such as [[0, 1], [3000, 3001]].",
            "Every row is shifted by its own maximum: axis=-1, keepdims=True.",
            "Seen from 2500, the row [10, 11] is nearly −2490: its exponentials are all 0, and 0/0 is NaN.",
        )),
        Wrong("normalised over the whole array", lambda d: lambda z: _softmax(z.ravel()).reshape(z.shape), (
            "Your probabilities add up to 1 in all, not in every row.",
            "Sum along the last axis, and keep it so that the division stretches along the row.",
            "Two rows of two equal logits: 0.5 everywhere, not 0.25.",
        )),
        Wrong("shifted by the mean", lambda d: lambda z: _normalised(_exp(z - z.mean(axis=-1, keepdims=True))), (
            "Better, but something far above the others still overflows.",
            "Only one shift leaves no positive exponent: that by the largest logit.",
            "[0, 0, 4000] less its mean has 2666.7 in it, and exp of that is infinite.",
        )),
        Wrong("clipped", lambda d: lambda z: _normalised(_exp(np.minimum(z, 80.0))), (
            "Finite on one side, but large logits have become equal.",
            "Clipping changes the function. A shift of the whole row does not.",
            "[600, 610] clipped is [80, 80]: one half each, where the truth is nearly 0 and 1.",
        )),
        Wrong("not divided", lambda d: lambda z: _exp(z - z.max(axis=-1, keepdims=True)), (
            "Nothing overflows, but your rows do not add up to 1.",
            "After the shift the division by the row's sum is still to be done.",
            "[7, 7] must become two halves, not two ones.",
        )),
        Wrong("divided by one sum for all", lambda d: lambda z: _of_all(z), (
            "The shift is right. With several rows, your probabilities are too small.",
            "The maximum is taken row by row, and so must the sum be: the same axis, kept for the division.",
            "Two rows of logits 7, 7: the row's sum is 2, that of all is 4.",
        )),
        Wrong("netcl's own", lambda d: lambda z: Tensor.from_host(np.float32(z)), (
            "That is a tensor of netcl, whose softmax does the work for you. Write it in NumPy.",
            "`np.exp`, a maximum, a sum and a division are enough.",
            "For [0, log 3] by hand: the exponentials are 1 and 3, the result is a quarter and three quarters.",
        )),
    ),
)  # fmt: skip


# 12.softmax_vjp: a rule that sees the diagonal alone


def _probabilities(rng: random.Random, *shape: int) -> np.ndarray:
    return _softmax(_normal(rng, *shape))


def _vjp(g: np.ndarray, p: np.ndarray) -> np.ndarray:
    return p * (g - (g * p).sum(axis=-1, keepdims=True))


def _by_matrices(g: np.ndarray, p: np.ndarray) -> np.ndarray:
    jacobians = p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]
    return np.einsum("...ij,...i->...j", jacobians, g)


def _vjp_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    shapes = [(3,), (2, 4), (5, 2), (2, 3, 3), (4, 6)]
    return [(_normal(rng, *shape), _probabilities(rng, *shape)) for shape in shapes]


SOFTMAX_VJP = Exercise(
    name="12.softmax_vjp", kind="debug",
    asks="softmax_vjp(g, p) mended: the VJP of softmax along the last axis, p being its result",
    answer=Function(lambda d: _vjp, cases=_vjp_cases, rtol=1e-9, atol=1e-12, why=_ROUNDING),
    right=(
        lambda d: _vjp,
        lambda d: _by_matrices,
        lambda d: lambda g, p: g * p - p * np.einsum("...i,...i->...", g, p)[..., None],
    ),
    because="Each logit also moves the denominator, which all probabilities of its row share.",
    wrong=(
        Wrong("as it stands", lambda d: lambda g, p: g * p * (1 - p), (
            "This is the rule as it was found. Which probabilities move when one logit does?",
            "The Jacobian of softmax has entries off the diagonal: −p_i p_j. The rule must sum over them.",
            "With p = (0.2, 0.8), raising the first logit by a little lowers the second probability, too.",
        )),
        Wrong("no coupling", lambda d: lambda g, p: g * p, (
            "That is the rule of exp. Where is the denominator?",
            "dp_i has two terms. You pulled back the first; what does Σ_i p̄_i times the second give to one dz_k?",
            "If all entries of g agree, the result must be 0: a row of probabilities always adds up to 1.",
        )),
        Wrong("plain mean", lambda d: lambda g, p: p * (g - g.mean(axis=-1, keepdims=True)), (
            "A mean is subtracted, but every entry counts the same in it.",
            "The average of g is weighted by the probabilities.",
            "With p = (0.2, 0.8) and g = (10, 20) the weighted average is 18, the plain one 15.",
        )),
        Wrong("unweighted sum", lambda d: lambda g, p: p * (g - g.sum(axis=-1, keepdims=True)), (
            "What you subtract grows with the number of classes.",
            "Multiply g by p before you sum: ⟨g, p⟩.",
            "With g = (10, 10) and any p, what is subtracted must be 10, not 20.",
        )),
        Wrong("factor p lost", lambda d: lambda g, p: g - (g * p).sum(axis=-1, keepdims=True), (
            "The bracket is right. A class of probability nearly 0 gets as much as any other, though.",
            "z̄ = p ⊙ (…): the whole bracket is multiplied by the probability.",
            "With p = (0.001, 0.999), moving the first logit can hardly change anything.",
        )),
        Wrong("p lost in the second term", lambda d: lambda g, p: g * p - (g * p).sum(axis=-1, keepdims=True), (
            "The first term is right. In the second the sum is there, and something in front of it is not.",
            "Σ_j p_j dz_j holds one dz_k for each k, and each has its own factor.",
            "A class of probability nearly 0 must get nearly nothing, whatever the sum is.",
        )),
        Wrong("one sum for all rows", lambda d: lambda g, p: p * (g - (g * p).sum()), (
            "Right for one row. With several, each hears of the others.",
            "Sum along the last axis only, and keep it with length 1.",
            "Two rows with the averages 10 and 20 subtract 10 and 20, not 30 from both.",
        )),
    ),
)  # fmt: skip
