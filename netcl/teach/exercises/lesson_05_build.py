"""What lesson 05 has built and mended: four JVP rules, dual numbers, and a loop that takes a step too early."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from netcl.teach.answers import Function
from netcl.teach.exercise import Exercise, Wrong

Rule = Callable[..., Any]
Pair = tuple[float, float]

_RULES: dict[str, Rule] = {
    "mul": lambda a, b, a_dot, b_dot: a_dot * b + a * b_dot,
    "div": lambda a, b, a_dot, b_dot: (a_dot * b - a * b_dot) / b**2,
    "sin": lambda a, a_dot: np.cos(a) * a_dot,
    "matmul": lambda a, b, a_dot, b_dot: a_dot @ b + a @ b_dot,
}


def _push(**changed: Rule) -> Callable[[str, Any, Any], Any]:
    """The function that looks a rule up, with some of the rules changed."""
    rules = _RULES | changed

    def push(op: str, primals: Any, tangents: Any) -> Any:
        return rules[op](*map(np.asarray, primals), *map(np.asarray, tangents))

    return push


def _entry_by_entry(a: Any, b: Any, a_dot: Any, b_dot: Any) -> Any:
    """What `*` gives where it gives anything."""
    return a_dot * b + a * b_dot if a.shape == b.shape else a_dot @ b + a @ b_dot


def _pushed(push: Callable[..., Any], op: str, primals: Any, tangents: Any) -> Any:
    """A tangent, or that matrices did not fit: NumPy's own sentence on that would not tell which rule is meant."""
    try:
        return push(op, primals, tangents)
    except ValueError as error:
        if op != "matmul" or "matmul" not in str(error):
            raise
        return "no tangent: the shapes of a matrix product do not fit"


def _told_rule(op: str, primals: Any, tangents: Any) -> str:
    return f"push for {op}, with shapes {' and '.join(str(np.shape(each)) for each in primals)},"


def _by_branches(op: str, primals: Any, tangents: Any) -> Any:
    if op == "sin":
        return tangents[0] * np.sin(primals[0] + np.pi / 2)
    (a, b), (a_dot, b_dot) = primals, tangents
    if op == "matmul":
        return np.matmul(a_dot, b) + np.matmul(a, b_dot)
    if op == "div":
        return a_dot / b - a * b_dot / (b * b)
    return b * a_dot + b_dot * a


def _rule_cases(rng: Random) -> list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]:
    def some(*shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array([rng.choice([-3.0, -2.0, 0.5, 2.0, 3.0]) for _ in range(size)]).reshape(shape)

    cases: list[tuple[str, tuple[Any, ...], tuple[Any, ...]]] = []
    for op, shapes in (
        ("mul", [(), ()]), ("mul", [(2, 3), (2, 3)]), ("div", [(), ()]), ("div", [(4,), (4,)]), ("sin", [()]),
        ("sin", [(3, 2)]), ("matmul", [(2, 3), (3, 4)]), ("matmul", [(2, 2), (2, 2)]),
    ):  # fmt: skip
        cases.append((op, tuple(some(*shape) for shape in shapes), tuple(some(*shape) for shape in shapes)))
    return cases


RULES = Exercise(
    name="05.rules",
    kind="build",
    asks="push(op, primals, tangents) for mul, div, sin and matmul",
    answer=Function(
        lambda d: _push(), cases=_rule_cases, call=_pushed, say=_told_rule, rtol=1e-9, atol=1e-12,
        why="a few operations in float64, in whatever order",
    ),
    right=(lambda d: _by_branches, lambda d: _push()),
    because="Take the differential of each operation, and put tangents where it has d's.",
    wrong=(
        Wrong("mul: tangents multiplied", lambda d: _push(mul=lambda a, b, a_dot, b_dot: a_dot * b_dot), (
            "The rule of the entrywise product has a term of second order, and none of first.",
            "d(ab) is a sum of two terms, each with one d.",
            "At a = 20, b = 30 with tangents 0.1 and 0.1 the product moves by about 5, not by 0.01.",
        )),
        Wrong("div: a plus for the minus",
              lambda d: _push(div=lambda a, b, a_dot, b_dot: (a_dot * b + a * b_dot) / b**2), (
            "In the quotient something has the wrong sign.",
            "A larger denominator makes the quotient smaller.",
            "60 / 3 is 20. With 4 below it is 15: the move of b counts against it.",
        )),
        Wrong("div: slopes divided", lambda d: _push(div=lambda a, b, a_dot, b_dot: a_dot / b_dot), (
            "In the quotient the tangents were divided by each other.",
            "The derivative of a quotient is not the quotient of the derivatives. Write u = a/b, a = ub, and use mul.",
            "60 / b at b = 3 when only b moves: the tangent is −60/9 for each unit, though a has no tangent.",
        )),
        Wrong("div: the square forgotten",
              lambda d: _push(div=lambda a, b, a_dot, b_dot: (a_dot * b - a * b_dot) / b), (
            "The quotient is off by a factor that depends on b.",
            "Derive it from a = ub: a_dot = u_dot b + u b_dot. Solve for u_dot, and put a/b for u.",
            "60 / b at b = 3 with the tangent 1 at b: −60/9, about −6.7.",
        )),
        Wrong("sin: the tangent forgotten", lambda d: _push(sin=lambda a, a_dot: np.cos(a)), (
            "For the sine the slope comes out, whatever tangent goes in.",
            "A rule for one operand, too, is a slope times the tangent.",
            "At a = 0 with the tangent 8, the sine moves with 8.",
        )),
        Wrong("sin: of the tangent", lambda d: _push(sin=lambda a, a_dot: np.cos(a_dot)), (
            "The sine's rule was given the wrong number to take the slope at.",
            "Slopes are taken at the primal, never at the tangent.",
            "At a = 0 with the tangent 8 the slope is cos 0.",
        )),
        Wrong("matmul: one matrix held still", lambda d: _push(matmul=lambda a, b, a_dot, b_dot: a_dot @ b), (
            "For matrices one of the two moves is lost.",
            "A matrix product is a product: two operands, two terms.",
            "With the left one still, AB moves by A times the move of B.",
        )),
        Wrong("matmul: the order of the factors", lambda d: _push(
            matmul=lambda a, b, a_dot, b_dot: b @ a_dot + a @ b_dot), (
            "For matrices some factors stand in the wrong order; where they are not square, that cannot even be done.",
            "AB is not BA: in each term the left factor stays left, and the right one right.",
            "A is 20 × 30 and B is 30 × 7: the move of A, too, is 20 × 30, and stands to the left of B.",
        )),
        Wrong("matmul: the second term turned", lambda d: _push(
            matmul=lambda a, b, a_dot, b_dot: a_dot @ b + b_dot @ a), (
            "For matrices one of the two terms has its factors in the wrong order.",
            "When the right factor moves, its move stands on the right, where the factor itself stood.",
            "A is 20 × 30 and B is 30 × 7: the move of B is 30 × 7, and A goes before it.",
        )),
        Wrong("matmul: both terms turned", lambda d: _push(
            matmul=lambda a, b, a_dot, b_dot: b @ a_dot + b_dot @ a), (
            "For matrices that is the tangent of another product, BA.",
            "Numbers may change places in a product, matrices may not.",
            "With A 20 × 30 and B 30 × 7 there is a product AB, and none BA.",
        )),
        Wrong("matmul: entry by entry", lambda d: _push(matmul=_entry_by_entry), (
            "Square matrices give another result than the rest.",
            "In NumPy `*` works entry by entry; the rule of a matrix product has matrix products in it.",
            "For a diagonal A with 5 and 7 the difference shows off the diagonal only.",
        )),
    ),
)  # fmt: skip


def _algebra(
    add: Callable[[Pair, Pair], Pair], mul: Callable[[Pair, Pair], Pair], sub: Callable[[Pair, Pair], Pair],
    constant: float = 0.0, in_place: bool = False,
) -> type:  # fmt: skip
    """A class of dual numbers with these operations; plain numbers have the tangent `constant`.

    With `in_place` a sum is written into its left operand.
    """

    class Dual:
        def __init__(self, primal: float, tangent: float = 0.0) -> None:
            self.primal, self.tangent = primal, tangent

        def _with(self, rule: Callable[[Pair, Pair], Pair], other: Any) -> Dual:
            other = other if isinstance(other, Dual) else Dual(other, constant)
            return Dual(*rule((self.primal, self.tangent), (other.primal, other.tangent)))

        def __add__(self, other: Any) -> Dual:
            total = self._with(add, other)
            if not in_place:
                return total
            self.primal, self.tangent = total.primal, total.tangent
            return self

        def __mul__(self, other: Any) -> Dual:
            return self._with(mul, other)

        def __sub__(self, other: Any) -> Dual:
            return self._with(sub, other)

        __radd__, __rmul__ = __add__, __mul__

    return Dual


def _run(dual: type, x: Pair, y: Pair) -> tuple[Any, ...]:
    """What `check` has a class compute: (x y + x) x − 2 y, and the same once more with numbers on the other side."""
    a, b = dual(*x), dual(*y)
    if a * b is None:  # not written yet
        return None  # pyright: ignore[reportReturnType]
    out: Any = (a * b + a) * a - 2.0 * b
    out = out + 1.0 * a * 3.0 + 1.0
    _ = a + b, a - b, a * b  # must leave both as they were
    if (a.primal, a.tangent, b.primal, b.tangent) != (*x, *y):
        return out.primal, out.tangent, "and an operand was changed"
    return out.primal, out.tangent


def _told(x: Pair, y: Pair) -> str:
    return f"(a b + a) a − 2 b + 1 a 3 + 1, with a = Dual({x[0]:g}, {x[1]:g}) and b = Dual({y[0]:g}, {y[1]:g}),"


def _add(x: Pair, y: Pair) -> Pair:
    return x[0] + y[0], x[1] + y[1]


def _sub(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]


def _mul(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0], x[1] * y[0] + x[0] * y[1]


def _by_matrices() -> type:
    """Dual numbers as 2 × 2 matrices [[a, a_dot], [0, a]], which multiply just so."""

    class Matrix:
        def __init__(self, primal: float, tangent: float = 0.0) -> None:
            self.rows = np.array([[primal, tangent], [0.0, primal]])

        primal = property(lambda self: self.rows[0, 0])
        tangent = property(lambda self: self.rows[0, 1])

        def __add__(self, other: Any) -> Matrix:
            out = self.rows + (other.rows if isinstance(other, Matrix) else other * np.eye(2))
            return Matrix(out[0, 0], out[0, 1])

        def __mul__(self, other: Any) -> Matrix:
            out = self.rows @ (other.rows if isinstance(other, Matrix) else other * np.eye(2))
            return Matrix(out[0, 0], out[0, 1])

        def __sub__(self, other: Any) -> Matrix:
            return self + other * -1.0

        __radd__, __rmul__ = __add__, __mul__

    return Matrix


def _pairs(rng: Random) -> list[tuple[Pair, Pair]]:
    def some() -> float:
        return float(rng.choice([-3, -2, 2, 3, 4]))

    return [((some(), some()), (some(), some())) for _ in range(6)] + [((2.0, 1.0), (5.0, 0.0))]


DUAL = Exercise(
    name="05.dual",
    kind="build",
    asks="a class Dual with +, − and ·, also with plain numbers",
    answer=Function(
        lambda d: _algebra(_add, _mul, _sub), cases=_pairs, call=_run, say=_told, rtol=1e-9,
        why="whole numbers: exact in float64",
    ),
    right=(lambda d: _by_matrices(), lambda d: _algebra(lambda x, y: (y[0] + x[0], y[1] + x[1]), _mul, _sub)),
    because="ε² = 0 leaves just the product rule beside ε, and a plain number is a dual that does not move.",
    wrong=(
        Wrong("tangents multiplied", lambda d: _algebra(_add, lambda x, y: (x[0] * y[0], x[1] * y[1]), _sub), (
            "The product's tangent is off.",
            "Multiply the brackets out, all four terms, before you drop the one with ε².",
            "(10 + 1ε)(20 + 1ε) = 200 + 30ε.",
        )),
        Wrong("one factor held still", lambda d: _algebra(_add, lambda x, y: (x[0] * y[0], x[1] * y[0]), _sub), (
            "One of the two terms beside ε is gone from the product.",
            "Two of the four terms have a single ε. Both stay.",
            "(10 + 0ε)(20 + 1ε) = 200 + 10ε, although the left factor stands still.",
        )),
        Wrong("ε² kept", lambda d: _algebra(_add, lambda x, y: (x[0] * y[0] + x[1] * y[1], _mul(x, y)[1]), _sub), (
            "The values themselves come out wrong, not only the tangents.",
            "The term with ε² belongs nowhere: it is dropped, and must not be added to the value.",
            "(10 + 1ε)(20 + 1ε) has the value 200, whatever moves.",
        )),
        Wrong("numbers that move", lambda d: _algebra(_add, _mul, _sub, constant=1.0), (
            "Something moves that should stand still.",
            "A plain number in the program is a constant.",
            "5 · (20 + 1ε) = 100 + 5ε.",
        )),
        Wrong("written into an operand", lambda d: _algebra(_add, _mul, _sub, in_place=True), (
            "An operation has changed one of the numbers that went in.",
            "A sum is a new number. Make one, and leave `self` and `other` as they are.",
            "After c = 10 + 20 there are still a 10 and a 20, and both may be used again.",
        )),
        Wrong("a minus lost", lambda d: _algebra(_add, _mul, lambda x, y: (x[0] - y[0], x[1] + y[1])), (
            "One operation treats value and tangent differently.",
            "What holds for values in a difference holds for tangents.",
            "(10 + 7ε) − (20 + 9ε) = −10 − 2ε.",
        )),
        Wrong("+ forgets a tangent", lambda d: _algebra(lambda x, y: (x[0] + y[0], x[1]), _mul, _sub), (
            "A sum does not move as it should.",
            "In a sum both operands may move, and the moves are added.",
            "(10 + 7ε) + (20 + 9ε) = 30 + 16ε.",
        )),
    ),
)  # fmt: skip


def _power(x: float, x_dot: float, n: int) -> Pair:
    out, out_dot = 1.0, 0.0
    for _ in range(n):
        out_dot = out_dot * x + out * x_dot
        out = out * x
    return out, out_dot


def _too_early(x: float, x_dot: float, n: int) -> Pair:
    out, out_dot = 1.0, 0.0
    for _ in range(n):
        out = out * x
        out_dot = out_dot * x + out * x_dot
    return out, out_dot


def _moving_start(x: float, x_dot: float, n: int) -> Pair:
    out, out_dot = 1.0, 1.0
    for _ in range(n):
        out, out_dot = out * x, out_dot * x + out * x_dot
    return out, out_dot


def _first_term(x: float, x_dot: float, n: int) -> Pair:
    out, out_dot = 1.0, 0.0
    for _ in range(n):
        out, out_dot = out * x, out_dot * x
    return out, out_dot


def _second_term(x: float, x_dot: float, n: int) -> Pair:
    out, out_dot = 1.0, 0.0
    for _ in range(n):
        out, out_dot = out * x, out * x_dot
    return out, out_dot


BUG = Exercise(
    name="05.bug",
    kind="debug",
    asks="power(x, x_dot, n), mended, for every whole n ≥ 0",
    answer=Function(
        lambda d: _power, rtol=1e-9, why="a few products in float64",
        cases=lambda rng: [(float(rng.choice([2, 3, -2])), float(rng.choice([1, 3, -1])), n) for n in (0, 1, 2, 3, 5)],
    ),
    right=(
        lambda d: lambda x, x_dot, n: (x**n, n * x ** (n - 1) * x_dot if n else 0.0),
        lambda d: lambda x, x_dot, n: [x**n, sum(x**k * x_dot * x ** (n - 1 - k) for k in range(n))],
    ),
    because="The rule of a product reads the old values: take the tangent's step first, or both at once.",
    wrong=(
        Wrong("the step taken too early", lambda d: _too_early, (
            "The tangent is computed from a value that has already moved on.",
            "The rule for a product uses its operands, as they were before the operation.",
            "For 10 · 20 the term of the second factor is 10 times its tangent, not 200 times.",
        )),
        Wrong("the start moves", lambda d: _moving_start, (
            "Even for n = 0 something moves.",
            "A number written into the program is a constant; only x has a tangent of its own.",
            "A product that begins with 5 · x has the slope 5, because the five stands still.",
        )),
        Wrong("the new factor held still", lambda d: _first_term, (
            "Your tangent stays zero for ever.",
            "In each round there are two factors, and the second is x itself, which moves.",
            "In round one the product is 1 · x: its tangent is that of x.",
        )),
        Wrong("the old product held still", lambda d: _second_term, (
            "Only the last round leaves a trace in the tangent.",
            "What was multiplied before moves as well, and its move is scaled by x.",
            "For 10 · 10 with the tangent 1, two equal terms make 20.",
        )),
        Wrong("the tangent raised", lambda d: lambda x, x_dot, n: (x**n, x_dot**n), (
            "The tangent was put through the same power as the value.",
            "A tangent goes through the linear map of the derivative, not through the function.",
            "10 squared with the tangent 3 moves with 2 · 10 · 3, and not with 9.",
        )),
        Wrong("the slope without the tangent", lambda d: lambda x, x_dot, n: (x**n, n * x ** (n - 1) if n else 0.0), (
            "It is right only when x moves with speed one.",
            "A tangent out is a slope times the tangent in.",
            "10 squared with the tangent 3 moves with 60.",
        )),
    ),
)  # fmt: skip
