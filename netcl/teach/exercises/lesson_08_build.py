"""The parts of lesson 08's engine: what a right part returns for a case, and what a part with a wrong rule returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

active: list[Any] = []
"""The tapes on which this module's operations record, as a notebook's own list `active` is for the student's."""

Case = tuple[Any, ...]
Row = list[list[float]]
"""One row of a tape: [parent's number, local derivative] for each parent."""


class Operand:
    """A node in the hands of a check. Arithmetic on it gives no number, but an operand, which can be seen."""

    def __init__(self, value: float, parents: Any = (), grad_fn: Any = None, op: str = "leaf") -> None:
        self.value, self.parents, self.grad_fn, self.op, self.grad = value, parents, grad_fn, op, 0.0

    def _no_number(self, *_: Any) -> Operand:
        return Operand(math.nan)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_number
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = _no_number


def recording(rule: str = "") -> Callable[..., Any]:
    """record(node, tapes), right or by a wrong rule."""

    def record(node: Any, tapes: list[Any]) -> Any:
        if rule == "no if":
            tapes[-1].nodes.append(node)
            return node
        chosen = {"outermost": tapes[:1], "every": tapes, "nowhere": []}.get(rule, tapes[-1:])
        for tape in chosen:
            listed = SimpleNamespace(value=node.value) if rule == "copy" else node
            tape.nodes.insert(0 if rule == "front" else len(tape.nodes), listed)
        if rule == "opens a tape" and not tapes:
            tapes.append(SimpleNamespace(nodes=[node]))
        return None if rule == "returns nothing" else node

    return record


def told_record(outside: int, outer: int, inner: int) -> str:
    """The case in words."""
    return (
        f"record, for {outside} nodes on no tape, {outer} on one, {inner} on a second inside it, 1 on the first again,"
    )


def recorded(record: Callable[..., Any], outside: int, outer: int, inner: int) -> dict[str, Any]:
    """What two nested tapes list after nodes were made outside, on the outer, on the inner, on the outer one."""
    first, second, returned = SimpleNamespace(nodes=[]), SimpleNamespace(nodes=[]), []

    strays = 0
    for count, active in ((outside, []), (outer, [first]), (inner, [first, second]), (1, [first])):
        tapes = list(active)
        for _ in range(count):
            node = Operand(len(returned))
            returned.append((node, record(node, tapes)))
        strays += len(tapes) - len(active)
    same = sum(given is node for node, given in returned)
    listed = [node for tape in (first, second) for node in tape.nodes]
    own = sum(any(node is made for made, _ in returned) for node in listed)
    order = [[node.value for node in tape.nodes] for tape in (first, second)]
    return {"on the first": order[0], "on the second": order[1], "tapes opened": strays, "nodes returned": same,
            "of these listed": own}  # fmt: skip


def recording_cases(rng: Random) -> list[Case]:
    """Return numbers of nodes: some outside, some on each tape."""
    return [(1, 2, 3), (0, 1, 2), (2, 2, 2), (3, 4, 2)] + [tuple(rng.randint(2, 6) for _ in range(3)) for _ in "ab"]


def multiplying(rule: str = "") -> Callable[..., Any]:
    """multiply(a, b), right or by a wrong rule."""
    sends: dict[str, Callable[[float, float, float], list[float]]] = {
        "": lambda a, b, g: [g * b, g * a],
        "own": lambda a, b, g: [g * a, g * b],
        "no g": lambda a, b, g: [b, a],
        "output": lambda a, b, g: [g * a * b, g * a * b],
        "as add": lambda a, b, g: [g, g],
        "plus": lambda a, b, g: [g + b, g + a],
        "product rule": lambda a, b, g: [g * (a + b), g * (a + b)],
    }
    rules = sends.get(rule, sends[""])

    def multiply(a: Any, b: Any) -> Operand:
        inputs = (a, b) if rule == "nodes" else (a.value, b.value)
        node = Operand(a.value * b.value, (a, b), lambda g: rules(*inputs, g), "mul")
        return node if rule == "unrecorded" else recording()(node, active)

    return multiply


def multiplied(multiply: Callable[..., Any], x: float, y: float, g: float) -> dict[str, Any]:
    """The product's node, what it sends to its two factors when g arrives, and its rows on a tape."""
    a, b = Operand(x), Operand(y)
    return _answer(multiply, (a, b), g, {"a": a, "b": b})


def told_product(x: float, y: float, g: float) -> str:
    """The case in words."""
    return f"multiply(Node({x:g}), Node({y:g})), with g = {g:g} arriving,"


def _answer(operation: Callable[..., Any], args: tuple[Any, ...], g: float, named: dict[str, Any]) -> dict[str, Any]:
    node, rows = _made_on_a_tape(operation, args)
    if node is None:
        raise ValueError("no node came back: is record, of exercise 8.3, written?")
    sent = node.grad_fn(g)
    numbers = ["a node" if isinstance(each, Operand) else each for each in sent] if _is_row(sent) else sent
    if isinstance(numbers, Operand):
        numbers = "a node"
    parents = [_name(parent, named) for parent in node.parents] if _is_row(node.parents) else "no tuple"
    return {"value": node.value, "sends": numbers, "parents": parents, "op": node.op, "rows on the tape": rows}


def _is_row(thing: Any) -> bool:
    return isinstance(thing, list | tuple)


def _name(parent: Any, named: dict[str, Any]) -> str:
    return next((name for name, node in named.items() if node is parent), "another")


def _made_on_a_tape(operation: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, int]:
    """What an operation returned, and how many rows it left on the tape that its module's `active` listed last.

    Where no such list can be seen, a row is believed.
    """
    tapes = getattr(operation, "__globals__", {}).get("active")
    if not isinstance(tapes, list):
        return operation(*args), 1
    tape, depth = SimpleNamespace(nodes=[]), len(tapes)
    tapes.append(tape)
    try:
        node = operation(*args)
    finally:
        del tapes[depth:]
    return node, len(tape.nodes) if any(row is node for row in tape.nodes) else 0


def factors(rng: Random) -> list[Case]:
    """Return two factors and a cotangent: whole numbers, a zero, a negative, fractions."""
    random = [tuple(rng.choice((-1, 1)) * rng.randint(2, 9) / 4 for _ in range(3)) for _ in range(3)]
    return [(3.0, 5.0, 1.0), (2.0, -7.0, 4.0), (0.0, 3.0, -2.0), (-1.5, 0.25, 0.5), *random]


def powering(rule: str = "") -> Callable[..., Any]:
    """power(a, k), right or by a wrong rule."""

    def power(a: Any, k: int) -> Operand:
        x = a.value
        slope = {
            "exponent kept": k * x**k,
            "factor forgotten": x ** (k - 1),
            "at the output": k * (x**k) ** (k - 1),
            "of the exponent": x**k * math.log(abs(x)),
            "one taken off": k * x**k - 1,
        }.get(rule, k * x ** (k - 1))

        def grad_fn(g: float) -> Any:
            sent = {"no g": slope, "nodes": a * k}.get(rule, g * slope)
            return sent if rule == "bare" else [sent]

        parents = {"two parents": (a, k), "no tuple": a}.get(rule, (a,))
        node = Operand(x**k, parents, grad_fn, "power" if rule == "name" else "pow")
        return node if rule == "unrecorded" else recording()(node, active)

    return power


def powered(power: Callable[..., Any], x: float, k: int, g: float) -> dict[str, Any]:
    """The power's node, what it sends when g arrives, and its rows on a tape."""
    a = Operand(x)
    return _answer(power, (a, k), g, {"a": a})


def told_power(x: float, k: int, g: float) -> str:
    """The case in words."""
    return f"power(Node({x:g}), {k}), with g = {g:g} arriving,"


def bases(rng: Random) -> list[Case]:
    """Return a base, a whole exponent and a cotangent; the base is not 0, because of the exponent −1."""
    random = [(rng.choice((-1, 1)) * rng.randint(2, 7) / 4, rng.choice((2, 3, 4, -1)), rng.randint(2, 5) * 1.0)
              for _ in range(3)]  # fmt: skip
    return [(1.5, 2, 2.0), (-0.5, 3, 3.0), (2.0, -1, -4.0), (0.75, 1, 5.0), (-1.25, 2, 0.5), *random]


def pulling(rule: str = "") -> Callable[..., None]:
    """backward(tape, loss), right or by a wrong rule."""

    def backward(tape: Any, loss: Any) -> None:
        if rule != "no seed":
            (tape.nodes[-1] if rule == "newest row" else loss).grad = 1.0
        for node in tape.nodes if rule == "oldest" else reversed(tape.nodes):
            pairs = list(zip(node.parents, node.grad_fn(1.0 if rule == "no g" else node.grad), strict=True))
            if rule == "once":
                pairs = list({id(parent): (parent, sent) for parent, sent in pairs}.values())
            for parent, sent in pairs[:1] if rule == "first parent" else pairs:
                parent.grad = sent if rule == "=" else parent.grad + sent
        if rule == "emptied":
            tape.nodes.clear()
        if rule == "turned":
            tape.nodes.reverse()

    return backward


def pulled(backward: Callable[..., Any], leaves: int, rows: list[Row], loss: int) -> dict[str, Any]:
    """All gradients that a pass over a tape made of numbers leaves, leaves first, then a node per row; and the tape."""
    nodes = [Operand(0.0) for _ in range(leaves)]
    for row in rows:
        parents = tuple(nodes[int(number)] for number, _ in row)
        nodes.append(Operand(0.0, parents, _sender(row), "row"))
    tape = SimpleNamespace(nodes=nodes[leaves:])
    backward(tape, nodes[loss])
    left = [next((i for i, made in enumerate(nodes[leaves:]) if made is row), "another") for row in tape.nodes]
    return {"gradients": [node.grad for node in nodes], "rows on the tape": left}


def told_tape(leaves: int, rows: list[Row], loss: int) -> str:
    """The case in words: the nodes are numbered, leaves first."""
    said = "; ".join(
        f"node {leaves + i} with " + " and ".join(f"{slope:g} for node {int(parent)}" for parent, slope in row)
        for i, row in enumerate(rows)
    )
    return f"backward from node {loss}, with {leaves} leaves numbered from 0, then {said} as local derivatives,"


def _sender(row: Row) -> Callable[[float], list[float]]:
    return lambda g: [g * slope for _, slope in row]


def pulling_forward(tape: Any, loss: Any) -> None:
    """The same gradients by forward mode: a tangent of 1 at one node after another."""
    nodes = {id(node): node for row in tape.nodes for node in (*row.parents, row)} | {id(loss): loss}
    for start in nodes.values():
        tangent = {id(start): 1.0}
        for row in tape.nodes:
            slopes = row.grad_fn(1.0)
            moved = sum(slope * tangent.get(id(p), 0.0) for p, slope in zip(row.parents, slopes, strict=True))
            tangent.setdefault(id(row), moved)
        start.grad = tangent.get(id(loss), 0.0)


def tapes(rng: Random) -> list[Case]:
    """Return tapes as numbers: a chain, a fork, x * x, a node after the loss, and random ones."""
    chain = [[[0, 3]], [[1, -2]], [[2, 5]]]
    fork = [[[0, 3], [1, 2]], [[0, 4]], [[2, 1], [3, 1]]]
    square = [[[0, 5], [0, 5]], [[1, 2]]]
    late = [[[0, 2], [1, 3]], [[2, 7]], [[2, 4], [0, 1]]]
    return [(1, chain, 3), (2, fork, 4), (1, square, 2), (2, late, 3), *(_random_tape(rng, 2, 5) for _ in range(3))]


def _random_tape(rng: Random, leaves: int, count: int) -> Case:
    rows: list[Row] = []
    for number in range(leaves, leaves + count):
        parents = [number - 1, rng.randrange(number)]
        rows.append([[parent, rng.choice((-3, -2, 2, 3))] for parent in parents])
    return leaves, rows, leaves + count - 1


def values_of(program: list[list[Any]], numbers: list[float]) -> tuple[list[float], list[Row]]:
    """Run a program of [op, first, second] on numbers: every value, and each instruction's row of local derivatives."""
    values, rows = list(numbers), []
    for op, i, j in program:
        a, b = values[i], values[j] if op != "pow" else j
        value, row = _instruction(op, i, j, a, b)
        values.append(value)
        rows.append(row)
    return values, rows


def _instruction(op: str, i: int, j: int, a: float, b: float) -> tuple[float, Row]:
    if op == "add":
        return a + b, [[i, 1.0], [j, 1.0]]
    if op == "sub":
        return a - b, [[i, 1.0], [j, -1.0]]
    if op == "mul":
        return a * b, [[i, b], [j, a]]
    if op == "div":
        return a / b, [[i, 1 / b], [j, -a / b**2]]
    if op == "pow":
        return a**b, [[i, b * a ** (b - 1)]]
    return math.tanh(a), [[i, 1 - math.tanh(a) ** 2]]


def engine(rule: str = "") -> Callable[..., list[float]]:
    """A program's value, and its gradient with respect to each number that it starts from."""

    def case(program: list[list[Any]], numbers: list[float]) -> list[float]:
        values, rows = values_of(program, numbers)
        if rule == "tanh at the input":
            rows = [[[i, 1 - values[i] ** 2]] if op == "tanh" else row
                    for (op, i, _), row in zip(program, rows, strict=True)]  # fmt: skip
        if rule == "sub as add":
            rows = [[[parent, abs(slope)] for parent, slope in row] if op == "sub" else row
                    for (op, _, _), row in zip(program, rows, strict=True)]  # fmt: skip
        grads = pulled(pulling(rule), len(numbers), rows, len(values) - 1)["gradients"][: len(numbers)]
        factor = {"seeded with the loss": values[-1], "not recorded": 0.0, "twice": 2.0}.get(rule, 1.0)
        return [values[-1], *(factor * g for g in grads)]

    return case


def engine_forward(program: list[list[Any]], numbers: list[float]) -> list[float]:
    """The same by forward mode, a pass per number."""
    values, rows = values_of(program, numbers)
    return [values[-1], *pulled(pulling_forward, len(numbers), rows, len(values) - 1)["gradients"][: len(numbers)]]


def random_program(rng: Random, leaves: int = 3, steps: int = 8) -> Case:
    """Return instructions [op, first, second] and numbers to start from; every instruction uses the newest value."""
    numbers = [rng.choice((-1, 1)) * rng.randint(4, 12) / 8 for _ in range(leaves)]
    program: list[list[Any]] = []
    while len(program) < steps:
        values = values_of(program, numbers)[0]
        i, j = len(values) - 1, rng.randrange(len(values))
        op = rng.choice(("add", "sub", "mul", "mul", "div", "pow", "tanh")) if abs(values[i]) <= 2 else "tanh"
        if (op in ("sub", "div") and i == j) or (op == "div" and abs(values[j]) < 0.5):
            continue  # nothing is left of x − x, and a small divisor makes the check one of rounding
        program.append([op, i, rng.choice((2, 3)) if op == "pow" else j])
    return program, numbers


def programs(rng: Random) -> list[Case]:
    """Return programs for the check: two by hand, and random ones."""
    fork = [["mul", 0, 1], ["pow", 0, 2], ["add", 2, 3]]
    bent = [["sub", 0, 1], ["tanh", 2, 2], ["mul", 3, 3]]
    return [(fork, [2.0, 3.0]), (bent, [1.5, 0.75]), *(random_program(rng) for _ in range(6))]


def broken_run(rng: Random) -> dict[str, Any]:
    """A run of p = xy, q = p + x, r = q², s = ry, t = s + q, f = t + p in which the rule of r or of s is broken."""
    x, y = rng.choice((2.0, 3.0)), rng.choice((-2.0, 2.0, 3.0, -3.0))
    if x == y:
        x = 5.0 - x
    faulty = rng.choice("rs")
    table = {"p": ("mul", "xy"), "q": ("add", "px"), "r": ("pow", "q"), "s": ("mul", "ry"), "t": ("add", "sq"),
             "f": ("add", "tp")}  # fmt: skip
    value = {"x": x, "y": y}
    for name, (op, inputs) in table.items():
        value[name] = _apply(op, [value[i] for i in inputs])
    grads = dict.fromkeys(value, 0.0) | {"f": 1.0}
    rows = []
    for name in reversed(table):
        op, inputs = table[name]
        read = [value[i] for i in inputs]
        if name == faulty:  # a product sends each factor's own value; a square takes its derivative at the output
            read = read[::-1] if op == "mul" else [value[name]]
        sends = [grads[name] * slope for slope in _slopes(op, read)]
        for parent, sent in zip(inputs, sends, strict=True):
            grads[parent] += sent
        rows.append({"name": name, "op": op, "parents": list(inputs), "value": value[name], "grad": grads[name],
                     "sends": sends})  # fmt: skip
    return {"x": x, "y": y, "rows": rows}


def _apply(op: str, inputs: list[float]) -> float:
    return {"mul": inputs[0] * inputs[-1], "add": inputs[0] + inputs[-1], "pow": inputs[0] ** 2}[op]


def _slopes(op: str, inputs: list[float]) -> list[float]:
    return {"mul": [inputs[-1], inputs[0]], "add": [1.0, 1.0], "pow": [2 * inputs[0]]}[op]


def faulty(d: SimpleNamespace) -> dict[str, Any]:
    """The row whose contributions are not its gradient times its local derivatives at its inputs."""
    value = {"x": d.x, "y": d.y} | {row["name"]: row["value"] for row in d.rows}
    for row in d.rows:
        slopes = _slopes(row["op"], [value[parent] for parent in row["parents"]])
        if row["sends"] != [row["grad"] * slope for slope in slopes]:
            return row
    raise AssertionError("no row of this table is broken")
