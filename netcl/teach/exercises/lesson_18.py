"""Lesson 18: parameters, the loss before training, one step, which data decides, why a wrong gradient may work."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from netcl import autograd as ag
from netcl import nn, optim
from netcl.teach.answers import Choice, Function, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises.lesson_18_build import BATCHES, STANDARDISE
from netcl.teach.exercises.lesson_18_op import OP

# 18.parameters


def _parameters_data(rng: random.Random) -> dict[str, Any]:
    return {"inputs": rng.choice((3, 5)), "first": rng.choice((11, 17, 23)), "second": rng.choice((13, 19, 29))}


PARAMETERS = Exercise(
    name="18.parameters", kind="predict",
    asks="how many numbers an MLP of these sizes learns",
    data=_parameters_data,
    answer=Number(
        lambda d: (d.inputs + 1) * d.first + (d.first + 1) * d.second + d.second + 1, why="whole numbers are counted",
    ),
    right=(
        lambda d: (d.inputs + 1) * d.first + (d.first + 1) * d.second + d.second + 1,
        lambda d: sum(a * b + b for a, b in ((d.inputs, d.first), (d.first, d.second), (d.second, 1))),
        lambda d: float(d.inputs * d.first + d.first * d.second + d.second + d.first + d.second + 1),
    ),
    because="Each layer has a matrix of inputs × outputs and one bias for each output; the op learns nothing.",
    wrong=(
        Wrong("no biases", lambda d: d.inputs * d.first + d.first * d.second + d.second, (
            "The matrices are all there. What else is added in a layer?",
            "x @ W + b: the bias has one entry for each output.",
            "A layer from 100 to 10 has 1000 weights and 10 biases.",
        )),
        Wrong("one bias a layer", lambda d: d.inputs * d.first + d.first * d.second + d.second + 3, (
            "You gave each layer a single bias.",
            "Every output has a bias of its own; the row b is stretched over the examples only.",
            "A layer from 100 to 10 has 10 biases.",
        )),
        Wrong("last layer forgotten", lambda d: (d.inputs + 1) * d.first + (d.first + 1) * d.second, (
            "One layer is missing: how does a single number come out at the end?",
            "Sizes (p, q, r, s) make three layers: one fewer than there are sizes.",
            "From 10 to 1 there are 10 weights and a bias.",
        )),
        Wrong("units counted", lambda d: d.inputs + d.first + d.second + 1, (
            "You counted the units, which are values. What is learned sits between them.",
            "A matrix joins every unit of a layer with every unit of the next.",
            "From 100 units to 10 there are 1000 weights.",
        )),
        Wrong("the op has parameters", lambda d: (
            (d.inputs + 1) * d.first + (d.first + 1) * d.second + d.second + 1 + d.first + d.second
        ), (
            "Too many by as many as there are hidden units.",
            "squareplus has nothing to learn; only the layers before and after it have.",
            "tanh of 10 numbers adds no parameter either.",
        )),
        Wrong("activations for a batch", lambda d: (
            (d.inputs + 1) * d.first + (d.first + 1) * d.second + d.second + 1
        ) * 100, (
            "You multiplied by a number of examples. Does the network grow with the data?",
            "All examples share the parameters; a batch makes more values, not more weights.",
            "A line through a thousand points still has a slope and an intercept.",
        )),
    ),
)  # fmt: skip


# 18.start


def _start_data(rng: random.Random) -> dict[str, Any]:
    return {"classes": rng.choice((3, 5, 6, 7, 12, 20))}


START = Exercise(
    name="18.start", kind="predict",
    asks="the cross-entropy of a network that says 0 for every class",
    data=_start_data,
    answer=Number(lambda d: math.log(d.classes), rtol=2e-3, why="three digits are enough"),
    right=(
        lambda d: math.log(d.classes),
        lambda d: -math.log(1 / d.classes),
        lambda d: np.float32(np.log(np.exp(np.zeros(d.classes)).sum())),
    ),
    because="All classes get the same probability, one in C, and the loss is minus its logarithm.",
    wrong=(
        Wrong("the probability itself", lambda d: 1 / d.classes, (
            "That is how probable the right class is held. What does the loss make of it?",
            "Cross-entropy is minus the natural logarithm of the right class's probability.",
            "A right class that is given the probability 0.01 costs about 4.61.",
        )),
        Wrong("error rate", lambda d: 1 - 1 / d.classes, (
            "That is how often a guess fails, a number below 1. The loss is something else.",
            "Cross-entropy is a logarithm of a probability, not a share of mistakes.",
            "With a hundred classes a guess fails 99 times in 100, and the loss is about 4.61.",
        )),
        Wrong("logarithm to base 2", lambda d: math.log2(d.classes), (
            "The right idea in another unit: these are bits.",
            "netcl's cross-entropy uses the natural logarithm.",
            "One hundredth has 6.64 bits, and minus its natural logarithm is 4.61.",
        )),
        Wrong("nothing said, nothing lost", lambda d: 0.0, (
            "A loss of nothing would mean certainty about the right class.",
            "Logits that are all zero make probabilities that are all equal: softmax divides e⁰ by their sum.",
            "With a hundred classes each gets one hundredth.",
        )),
        Wrong("sum over the classes", lambda d: d.classes * math.log(d.classes), (
            "You added up a loss for each class. How many classes are right?",
            "Only the right class's probability enters the loss of an example.",
            "With a hundred classes and equal probabilities the loss is about 4.61, not 461.",
        )),
        Wrong("sign", lambda d: -math.log(d.classes), (
            "A negative loss: better than certainty.",
            "The logarithm of a probability is negative, and the loss is minus that.",
            "For the probability 0.01 the logarithm is −4.61 and the loss 4.61.",
        )),
        Wrong("two classes", lambda d: math.log(2), (
            "That is the loss of a coin. How many classes are there here?",
            "Softmax shares the probability among all classes.",
            "A coin has two sides; with a hundred classes each gets one hundredth.",
        )),
    ),
)  # fmt: skip


# 18.step: a training step that never zeroes

Step = Callable[..., float]


def _loss(model: Any, x: Any, t: Any, reduction: str = "mean") -> Any:
    return ag.binary_cross_entropy_with_logits(model(x)[:, 0], t, reduction)


def _good(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    optimizer.zero_grad()
    loss = _loss(model, x, t)
    loss.backward()
    optimizer.step()
    return loss.item()


def _zero_at_the_end(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    loss = _loss(model, x, t)
    ag.Tape().backward(loss)
    optimizer.step()
    model.zero_grad()
    return float(loss.value.item())


def _as_found(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    loss = _loss(model, x, t)
    loss.backward()
    optimizer.step()
    return loss.item()


def _zeroed_too_late(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    loss = _loss(model, x, t)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def _one_behind(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    optimizer.step()
    optimizer.zero_grad()
    loss = _loss(model, x, t)
    loss.backward()
    return loss.item()


def _twice(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    loss = _good(model, optimizer, x, t)
    optimizer.step()
    return loss


def _weight_alone(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    model.weight.zero_grad()
    return _as_found(model, optimizer, x, t)


def _summed(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    optimizer.zero_grad()
    loss = _loss(model, x, t, "sum")
    loss.backward()
    optimizer.step()
    return loss.item() / len(t)


def _after_the_step(model: Any, optimizer: Any, x: Any, t: Any) -> float:
    _good(model, optimizer, x, t)
    return _loss(model, x, t).item()


def _as_a_node(model: Any, optimizer: Any, x: Any, t: Any) -> Any:
    loss = _loss(model, x, t)
    _good(model, optimizer, x, t)
    return loss


def _silent(model: Any, optimizer: Any, x: Any, t: Any) -> None:
    _good(model, optimizer, x, t)


def _said(loss: Any) -> Any:
    """A loss that is no number is told as what it is."""
    return "nothing" if loss is None else "a node" if isinstance(loss, ag.Node) else loss


def _stepped(step: Step, x: np.ndarray, t: np.ndarray, momentum: float) -> list[Any]:
    model = nn.Linear(x.shape[1], 1, rng=18)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    losses = [_said(step(model, optimizer, x, t)) for _ in range(3)]
    return [losses, model.weight.to_host(), None if model.bias is None else model.bias.to_host()]


def _step_cases(rng: random.Random) -> list[tuple[Any, ...]]:
    cases = []
    for rows, columns, momentum in ((4, 2, 0.0), (7, 3, 0.0), (1, 2, 0.0), (5, 1, 0.9), (6, 4, 0.5)):
        x = np.array([rng.gauss(0, 1) for _ in range(rows * columns)], np.float32).reshape(rows, columns)
        cases.append((x, np.array([float(i % 2) for i in range(rows)], np.float32), momentum))
    return cases


STEP = Exercise(
    name="18.step", kind="debug",
    asks="train_step(model, optimizer, x, t) mended: one step of descent, and the loss before it",
    answer=Function(
        lambda d: _good, cases=_step_cases, rtol=1e-4, atol=1e-5, call=_stepped, seconds=30.0,
        why="three steps in float32",
    ),
    right=(lambda d: _good, lambda d: _zero_at_the_end, lambda d: lambda *args: _good(*args)),
    because="Every step follows the gradient of its own loss, and of no earlier one.",
    wrong=(
        Wrong("as it stands", lambda d: _as_found, (
            "This is the step as it was found. Print a gradient in the second call: what is in it?",
            "Gradients of leaves add up over backward calls; somebody has to set them back.",
            "Two calls whose gradients are 0.25 and 0.5 leave 0.75, and the second step follows that.",
        )),
        Wrong("zeroed between backward and step", lambda d: _zeroed_too_late, (
            "Do your parameters move at all?",
            "Is the optimiser told to step, and is what backward has computed still there when it is?",
            "A gradient of 0.25 that is forgotten before the step is a step of nothing.",
        )),
        Wrong("one step behind", lambda d: _one_behind, (
            "Your first call does not move anything. Which gradient does the second follow?",
            "The order is: forget, forward, backward, move.",
            "A step that moves first follows the loss of the call before.",
        )),
        Wrong("two steps", lambda d: _twice, (
            "You go too far in each call.",
            "One backward pass is good for one step; after it the gradient is another one.",
            "A rate of 0.25 that is used twice is a rate of about 0.5.",
        )),
        Wrong("weights alone", lambda d: _weight_alone, (
            "The weights are right after two calls. Look at the bias.",
            "All parameters have gradients that add up; the optimiser knows all of them.",
            "A bias with gradients 0.25 and 0.5 must follow 0.5 in its second step.",
        )),
        Wrong("the loss after the step", lambda d: _after_the_step, (
            "Your parameters are right. The losses you return are those of the moved model.",
            "The text asks for the value that the gradient belongs to: work it out once, and return that.",
            "Walking down from 9 to 4 metres, the height before the stride is 9.",
        )),
        Wrong("a node for a number", lambda d: _as_a_node, (
            "What you return is a node, with its whole graph behind it.",
            "One method reads the value of a node as a number of Python's.",
            "A list of 300 nodes keeps 300 graphs alive; a list of 300 numbers is a few kilobytes.",
        )),
        Wrong("nothing returned", lambda d: _silent, (
            "The parameters move as they should, but your function returns nothing.",
            "A function without a return statement gives None.",
            "def double(x): x + x gives None, whatever x is.",
        )),
        Wrong("sum for mean", lambda d: _summed, (
            "Your steps grow with the number of examples.",
            "The loss that was given is a mean; that of a sum has a gradient as many times as long.",
            "Forty equal examples give the gradient of one, not forty times as much.",
        )),
    ),
)  # fmt: skip


# 18.falling

_FALLING = {
    "a": "A loss can fall only if its gradient is right, so near the data the rule must be right.",
    "b": "The optimiser averages over many steps, and the errors of the gradient cancel in the average.",
    "c": "Every direction lowers the loss, if the steps are small enough.",
    "d": "The inner product of the wrong direction with the true gradient is positive: a step against it goes down.",
    "e": "The loss is measured on the training data, and there a network always gets better.",
    "f": "In float32 the two gradients cannot be told apart.",
}

FALLING = Exercise(
    name="18.falling", kind="explain",
    asks="why the loss falls although the gradient is wrong",
    answer=Choice("d", options=_FALLING),
    right=(lambda d: "d", lambda d: {"d"}, lambda d: _FALLING["d"]),
    because="To first order a step along −w changes the loss by −lr ⟨∇L, w⟩: only the sign of that product counts.",
    wrong=(
        Wrong("falling proves it", lambda d: "a", (
            "gradcheck found one entry after the other wrong, on ordinary inputs. What does the curve know of that?",
            "A curve shows that the way goes downhill, not that it is the steepest.",
            "Walking down a slope at 60° to the steepest line still loses height.",
        )),
        Wrong("averaging", lambda d: "b", (
            "These errors are not random: the same rule errs in the same way at every step.",
            "An average of numbers that are all too large is too large.",
            "A watch that runs fast is not mended by looking at it often.",
        )),
        Wrong("any direction", lambda d: "c", (
            "Then what of the direction opposite to yours?",
            "Half of all directions go up, however small the step.",
            "From x = 10 on the curve x², one way leads down; the other leads up.",
        )),
        Wrong("training data", lambda d: "e", (
            "With the sign of the gradient turned it would get worse on the same data.",
            "What is measured on does not explain why it falls.",
            "One of lesson 13's broken rules made a loss rise, on the data it was trained on.",
        )),
        Wrong("float32", lambda d: "f", (
            "Look at the cosine between the two that was printed. Is that rounding?",
            "Float32 has errors near a millionth; these gradients point in different directions.",
            "Rounding turns a direction by far less than a hundredth of a degree.",
        )),
    ),
)  # fmt: skip


# 18.choose

_CHOOSE = {
    "a": "The training loss: it is what descent makes small, so the smallest is best.",
    "b": "The test accuracy: it is what is reported in the end, so it should decide.",
    "c": "The test accuracy, as long as one looks at it only a few times.",
    "d": "All examples together, since more data decide better.",
    "e": "The validation accuracy: these examples were neither trained on nor are they the ones that are reported.",
    "f": "The loss after the first few steps: the rate at which it falls fastest is best.",
}

CHOOSE = Exercise(
    name="18.choose", kind="explain",
    asks="which numbers should decide on the learning rate",
    answer=Choice("e", options=_CHOOSE),
    right=(lambda d: "e", lambda d: ["e"], lambda d: _CHOOSE["e"]),
    because="A choice is learning, too: what has chosen can no longer be an honest witness.",
    wrong=(
        Wrong("training loss", lambda d: "a", (
            "Which network has the smallest loss on what it has learned by heart?",
            "The question is how it does on what it has not seen.",
            "A table of all training examples has no training loss at all, and knows nothing else.",
        )),
        Wrong("test decides", lambda d: "b", (
            "Then what would you still report as unseen?",
            "Among many runs the luckiest on the test data wins; its score is too high by its luck.",
            "Of a hundred coins thrown ten times, the best shows heads eight times or more, and is no better coin.",
        )),
        Wrong("a little peeking", lambda d: "c", (
            "Is a choice that was made on the test data any less a choice because it was quick?",
            "Each look that changes what you do makes the test data part of the training.",
            "An exam whose questions were seen twice beforehand is no exam.",
        )),
        Wrong("everything together", lambda d: "d", (
            "All examples: those too that the network was trained on?",
            "What was learned by heart outweighs what shows how it does on new examples.",
            "A mark made of homework copied and one exam question says little about the exam.",
        )),
        Wrong("fastest start", lambda d: "f", (
            "What falls fastest at first may never settle.",
            "A rate that is too large goes down at once and then jumps about.",
            "Runners of the first hundred metres do not win the marathon.",
        )),
    ),
)  # fmt: skip


EXERCISES = (OP, PARAMETERS, START, STEP, FALLING, STANDARDISE, BATCHES, CHOOSE)
