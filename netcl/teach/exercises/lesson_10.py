"""Lesson 10 asks for a step of descent by hand, for descent as a function, for a training loop that is mended, for the
largest stable step, for what a gradient of zero may mean, and for the depth at which a gradient is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl import optim
from netcl.teach.answers import Choice, Function, Number
from netcl.teach.exercise import Exercise, Wrong


def _step_data(rng: Random) -> dict[str, Any]:
    a, b, x, y = (rng.choice(numbers) for numbers in ((2, 3), (4, 5, 6), (-4, 5, 6), (-1, 2, 3)))
    return {"a": a, "b": b, "x": x, "y": y, "step": rng.choice((0.125, 0.25))}


def _at(d: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
    return np.array([d.x, d.y], float), np.array([d.a * d.x, d.b * d.y], float)


def _step_by_netcl(d: SimpleNamespace) -> np.ndarray:
    w = ag.tensor([float(d.x), float(d.y)], requires_grad=True)
    (0.5 * (ag.tensor([float(d.a), float(d.b)]) * w * w).sum()).backward()
    optim.SGD([w], lr=d.step).step()
    return w.to_host()


STEP = Exercise(
    name="10.step",
    kind="predict",
    asks="the point after one step down ½(a x² + b y²): two numbers",
    data=_step_data,
    answer=Number(lambda d: _at(d)[0] - d.step * _at(d)[1], rtol=1e-5, why="halves of whole numbers: exact"),
    right=(lambda d: [d.x - d.step * d.a * d.x, d.y - d.step * d.b * d.y], _step_by_netcl),
    because="Each coordinate moves by the step size times its own partial derivative, against its sign.",
    wrong=(
        Wrong("uphill", lambda d: _at(d)[0] + d.step * _at(d)[1], (
            "The loss has grown. Compare it before and after.",
            "The gradient points uphill, so it is subtracted.",
            "For 7u² at u = 1 the slope is 14; with a step size of 0.01 the next point is 1 − 0.14.",
        )),
        Wrong("the whole gradient", lambda d: _at(d)[0] - _at(d)[1], (
            "That is a long way to go in one step.",
            "The gradient is scaled by the step size before it is taken off.",
            "A gradient of 30 and a step size of 0.1 move a coordinate by 3.",
        )),
        Wrong("the loss for its slope", lambda d: _at(d)[0] - d.step * _at(d)[0] * _at(d)[1] / 2, (
            "You took off something that is quadratic in the coordinates.",
            "The step is made of derivatives, and the derivative of ½ k u² is linear in u.",
            "½ · 7 · u² at u = 10 is 350, its slope 70.",
        )),
        Wrong("the half is kept", lambda d: _at(d)[0] - d.step * _at(d)[1] / 2, (
            "The direction is right, and the length is not.",
            "The square brings a factor of two, which the half in front takes away.",
            "½ · 8 · u² has the slope 8u, and not 4u.",
        )),
        Wrong("a step of unit length", lambda d: _at(d)[0] - d.step * _at(d)[1] / np.linalg.norm(_at(d)[1]), (
            "You divided the gradient by its length.",
            "Plain gradient descent moves further where it is steeper. Nothing is normalised.",
            "A gradient of (30, 40) with a step size of 0.1 moves by (3, 4), and not by (0.06, 0.08).",
        )),
        Wrong("the step alone", lambda d: -d.step * _at(d)[1], (
            "This is by how much to move, and not where you are then.",
            "The step is added to the point that it starts from.",
            "From kilometre 40, eight back, is kilometre 32.",
        )),
    ),
)  # fmt: skip


def _descent(rule: str = "") -> Callable[..., Any]:
    """descend(gradient, start, step, steps), right or by a wrong rule."""

    def descend(gradient: Callable[[np.ndarray], np.ndarray], start: np.ndarray, step: float, steps: int) -> np.ndarray:
        path = [np.array(start, float)]
        for _ in range(steps):
            x = path[-1]
            g = gradient(path[0] if rule == "gradient of the start" else x)
            if rule == "normalised":
                g = g / np.linalg.norm(g)
            path.append(x + step * g if rule == "uphill" else x - step * g)
        if rule == "one array":
            return np.array([path[-1]] * len(path))
        return np.array({"no start": path[1:], "one short": path[:-1]}.get(rule, path))

    return descend


def _descend_backwards(gradient: Callable[..., Any], start: Any, step: float, steps: int) -> list[np.ndarray]:
    if steps == 0:
        return [np.array(start, float)]
    before = _descend_backwards(gradient, start, step, steps - 1)
    return [*before, before[-1] - step * gradient(before[-1])]


def _slopes(rng: Random) -> list[tuple[Any, ...]]:
    def bowl(x: np.ndarray) -> np.ndarray:
        return np.array([1.0, 4.0]) * x

    def bent(x: np.ndarray) -> np.ndarray:
        return np.tanh(x) + 0.5 * x

    start = np.array([rng.randint(2, 5), -rng.randint(2, 5)], float)
    return [(bowl, np.array([2.0, 1.0]), 0.25, 2), (bowl, start, 0.1, 4), (bent, start, 0.5, 3),
            (bent, np.array([1.0, 2.0, -3.0]), 0.25, 5), (bowl, np.array([4.0, -1.0]), 0.0625, 1)]  # fmt: skip


def _in_words(gradient: Callable[..., Any], start: np.ndarray, step: float, steps: int) -> str:
    return f"descend({gradient.__name__}, {start.tolist()}, {step}, {steps})"


DESCEND = Exercise(
    name="10.descend",
    kind="build",
    asks="descend(gradient, start, step, steps): all points of a descent, the start first, as rows",
    answer=Function(
        lambda d: _descent(), _slopes, rtol=1e-9, why="the same float64 operations", say=_in_words,
        call=lambda f, *args: None if (path := f(*args)) is None else np.array(path, float),
    ),
    right=(lambda d: _descent(), lambda d: _descend_backwards),
    because="At each point the gradient is asked for anew, and a fresh array is kept.",
    wrong=(
        Wrong("up the hill", lambda d: _descent("uphill"), (
            "The points run away from the minimum.",
            "Against the gradient, please.",
            "Where the slope is +3, downhill is to the left.",
        )),
        Wrong("the start is missing", lambda d: _descent("no start"), (
            "There is a point too few, at the front.",
            "The path holds where it starts as well as where it goes.",
            "A walk of five steps has six footprints.",
        )),
        Wrong("the last point is missing", lambda d: _descent("one short"), (
            "There is a point too few, at the end.",
            "Keep the point after moving, so that the last move leaves one too.",
            "Five moves of a chess piece visit six squares, the one it ends on included.",
        )),
        Wrong("one array many times", lambda d: _descent("one array"), (
            "All points of the path are the same.",
            "`x -= …` writes into the array that the list holds already: this is aliasing, lesson 09.",
            "After u = np.zeros(2); kept = [u]; u += 1 the list holds ones.",
        )),
        Wrong("the gradient at the start", lambda d: _descent("gradient of the start"), (
            "The first move is right, and then the direction never changes.",
            "The slope is another one at each point, so gradient is called in each round.",
            "A hiker who looks at the compass only at the car park walks a straight line.",
        )),
        Wrong("moves of one length", lambda d: _descent("normalised"), (
            "All your moves have the same length.",
            "Steep ground gives long moves here, flat ground short ones. Do not divide by the norm.",
            "Slopes of 8 and then 2, with a step size of 0.5: moves of 4 and then 1.",
        )),
    ),
)  # fmt: skip


def _training(rule: str = "") -> Callable[..., Any]:
    """train(curvatures, start, lr, steps) for the loss ½ Σ c w², right or by a wrong rule."""

    def train(curvatures: list[float], start: list[float], lr: float, steps: int) -> np.ndarray:
        c, w = np.array(curvatures), np.array(start, float)
        first, held = c * w, np.zeros_like(w)
        for number in range(steps):
            held = held + c * w if rule == "piles up" else c * w
            if rule == "one loss":
                held = first
            if rule == "zeroed before the step" or (rule == "a step behind" and number == 0):
                continue
            w = w + lr * held if rule == "uphill" else w - lr * held
        return w

    return train


def _train_by_formula(curvatures: list[float], start: list[float], lr: float, steps: int) -> np.ndarray:
    return np.array(start) * (1 - lr * np.array(curvatures)) ** steps


def _trainings(rng: Random) -> list[tuple[Any, ...]]:
    return [([1.0, 2.0], [4.0, -3.0], 0.25, 3), ([3.0], [1.0], 0.125, 2), ([1.0, 0.5, 2.0], [1.0, 2.0, 3.0], 0.5, 4),
            ([4.0, 1.0], [float(rng.randint(1, 5)), -2.0], 0.1, 5), ([2.0, 3.0], [5.0, 1.0], 0.05, 8)]  # fmt: skip


TRAIN = Exercise(
    name="10.train",
    kind="debug",
    asks="train(curvatures, start, lr, steps), mended",
    answer=Function(lambda d: _training(), _trainings, rtol=1e-4, atol=1e-5, why="a few float32 operations a step"),
    right=(lambda d: _training(), lambda d: _train_by_formula),
    because="In each round: empty the slots, compute the loss anew, pull back, move.",
    wrong=(
        Wrong("gradients pile up", lambda d: _training("piles up"), (
            "The first step is right, and every later one is too long.",
            "Gradients of leaves add up over passes, and nothing in this loop empties them.",
            "Slopes of 6, 5, 4 in three rounds: the third move must use 4, and not 15.",
        )),
        Wrong("emptied before they are used", lambda d: _training("zeroed before the step"), (
            "The parameters never move.",
            "Between backward and step the gradients are needed. Empty them before the one or after the other.",
            "A letter that is thrown away between writing and posting does not arrive.",
        )),
        Wrong("one loss for all rounds", lambda d: _training("one loss"), (
            "All steps are equal, although the parameters change.",
            "A graph keeps the values that it was recorded with. New parameters need a new forward pass.",
            "A photograph of the valley shows the same slope wherever you stand.",
        )),
        Wrong("the wrong way", lambda d: _training("uphill"), (
            "The loss grows from round to round.",
            "SGD subtracts by itself; do not turn the loss or the gradient round.",
            "Two minus signs make a plus: − (−3) is 3.",
        )),
        Wrong("a round behind", lambda d: _training("a step behind"), (
            "After n rounds only n − 1 steps have had an effect.",
            "step uses what backward left. Called before it, the first one finds empty slots.",
            "Pay first, count the money afterwards: on the first day there is none.",
        )),
    ),
)  # fmt: skip


def _matrix(d: SimpleNamespace) -> np.ndarray:
    return np.array([[d.p, d.q], [d.q, d.p]], float)


def _stable_data(rng: Random) -> dict[str, Any]:
    p = rng.choice((4, 5, 6))
    # Where p = 3|q|, two mistakes at once (half of the limit of the flattest direction) give the right number.
    return {"p": p, "q": rng.choice([q for q in (-3, -2, -1, 1, 2, 3) if p != 3 * abs(q)])}


STABLE = Exercise(
    name="10.stable",
    kind="predict",
    asks="the largest stable step for ½ wᵀA w, A = [[p, q], [q, p]]",
    data=_stable_data,
    answer=Number(lambda d: 2 / (d.p + abs(d.q)), rtol=5e-3, why="two or three digits are enough"),
    right=(lambda d: 2 / (d.p + abs(d.q)), lambda d: np.float32(2 / np.linalg.eigvalsh(_matrix(d))[-1])),
    because="It is 2/λ for the largest curvature, and that is p + |q|: along (1, 1) if q > 0, along (1, −1) if q < 0.",
    wrong=(
        Wrong("the diagonal alone", lambda d: 2 / d.p, (
            "This would be right if the two coordinates had nothing to do with one another.",
            "Along the axes the curvature is p. It is larger along a diagonal.",
            "For [[7, 5], [5, 7]] the vector (1, 1) is stretched by 12.",
        )),
        Wrong("the best, not the largest", lambda d: 1 / (d.p + abs(d.q)), (
            "With this step the steepest direction is done at once. More is still stable.",
            "The factor 1 − ηλ may go down to −1, and not to 0 only.",
            "At a curvature of 10 a step of 0.15 overshoots, to −0.5, and still converges.",
        )),
        Wrong("the flattest direction", lambda d: 2 / (d.p - abs(d.q)), (
            "One direction is content with this step. Look at the other.",
            "Every direction must be stable, so the steepest one decides.",
            "For curvatures of 1 and 20, a step of 1 multiplies the second coordinate by −19.",
        )),
        Wrong("turned over", lambda d: (d.p + abs(d.q)) / 2, (
            "Steeper valleys would allow longer steps. Is that plausible?",
            "The condition is ηλ < 2. Solve it for η.",
            "At a curvature of 50 the limit is 0.04.",
        )),
        Wrong("the sum of curvatures", lambda d: 1 / d.p, (
            "This is safe, and smaller than it need be.",
            "Curvatures of different directions are not summed: each direction has a factor of its own.",
            "For curvatures of 10 and 30 the limit is 2/30, and not 2/40.",
        )),
    ),
)  # fmt: skip

ZERO = Exercise(
    name="10.zero",
    kind="explain",
    asks="what may be the case where the computed gradient is exactly zero (several letters)",
    answer=Choice("abdg", options={
        "a": "It is a local minimum.",
        "b": "It is a saddle: lower in one direction, higher in another.",
        "c": "It is certain that no point has a lower loss.",
        "d": "A product of many small derivatives was rounded to zero.",
        "e": "It is certain that the loss is zero as well.",
        "f": "The step size was too small, and made the gradient small.",
        "g": "It is a maximum.",
    }),
    right=(lambda d: "abdg", lambda d: ["g", "d", "b", "a"]),
    because="A zero gradient says: to first order nothing changes here. It does not say why, nor what is far away.",
    wrong=(
        Wrong("zero means minimum", lambda d: "a", (
            "There are other places where the ground is level.",
            "The gradient is the first-order part. Whether it bends up or down, it does not tell.",
            "On a mountain pass a ball could lie still, and so it could on the very top.",
        )),
        Wrong("zero means lowest", lambda d: "abcdg", (
            "One of your statements is about points far away.",
            "A derivative knows its neighbourhood, and nothing of the next valley.",
            "u⁴ − 3u² + u has two valleys of different depth, and level ground in both.",
        )),
        Wrong("a maximum is left out", lambda d: "abd", (
            "One more sort of point has a tangent plane that is level.",
            "Turn the bowl over: what changes about its gradient at the centre?",
            "For −u² the slope at 0 is −2 · 0.",
        )),
        Wrong("a computed zero is a true one", lambda d: "abg", (
            "You speak of the mathematics. But the number came from a computer.",
            "float32 has a smallest positive number; below it there is zero.",
            "1e-30 · 1e-30 is zero in float32, and positive on paper.",
        )),
        Wrong("loss and slope are one", lambda d: "abdeg", (
            "One of your statements is about the height, and not about the slope.",
            "Add 7 to any loss: the gradient stays, the loss does not.",
            "u² + 40 has level ground at a height of 40.",
        )),
        Wrong("blames the step size", lambda d: "abdfg", (
            "One of your statements mixes up the slope with what you do about it.",
            "The gradient belongs to the point. The step size comes in afterwards.",
            "A hill is as steep for small feet as for large ones.",
        )),
    ),
)  # fmt: skip


def _layers(d: SimpleNamespace) -> int:
    count, product = 0, 1.0
    while product >= d.limit:
        count, product = count + 1, product / d.divisor
    return count


DEPTH = Exercise(
    name="10.depth",
    kind="predict",
    asks="the smallest number of layers after which less than `limit` of a gradient is left",
    data=lambda rng: {"divisor": rng.choice((3, 4, 5)), "limit": rng.choice((1e-3, 1e-6))},
    answer=Number(_layers, atol=0, why="a count"),
    right=(_layers, lambda d: float(math.ceil(-math.log(d.limit) / math.log(d.divisor)))),
    because="What is left is a power of one factor, and the logarithm turns powers into multiples.",
    wrong=(
        Wrong("rounded down", lambda d: _layers(d) - 1, (
            "With this number a little too much is left.",
            "Count up to the first layer with which it falls *below* the limit.",
            "Halves and a limit of 0.1: after 3 there is 0.125, so 4 are needed.",
        )),
        Wrong("losses are added", lambda d: math.ceil((1 - d.limit) / (1 - 1 / d.divisor)), (
            "You subtracted the same amount at each layer.",
            "Each layer takes its share of what the one before has left: a product, not a sum.",
            "Half of a half is a quarter, and never nothing.",
        )),
        Wrong("a digit a layer", lambda d: round(-math.log10(d.limit)), (
            "You counted the zeros of the limit.",
            "That would be so for a factor of a tenth. This factor is larger.",
            "Halving takes more than three layers for each decimal digit.",
        )),
        Wrong("halved each time", lambda d: math.ceil(-math.log2(d.limit)), (
            "Your factor is not the one that is given.",
            "The base of the logarithm is the divisor.",
            "A factor of a hundredth leaves 0.01, then 0.0001; whoever counts halves needs many more steps.",
        )),
        Wrong("a proportion", lambda d: round(1 / (d.limit * d.divisor)), (
            "So many layers? Try the first few by hand.",
            "Depth stands in the exponent. Solve a power, not a proportion.",
            "From 1 in halves: 0.5, 0.25, 0.125; below 0.2 after 3, and not after 1/(0.2 · 2).",
        )),
    ),
)  # fmt: skip

EXERCISES = (STEP, DESCEND, TRAIN, STABLE, ZERO, DEPTH)
