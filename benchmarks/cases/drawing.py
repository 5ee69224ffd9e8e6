"""A graph after its backward pass, drawn as SVG: netcl's pictures, with values and rules, and torchviz's plain boxes.

`n` nodes in layers of ten, each made of two of the layer before, or a recurrent network unrolled over `steps` steps.
Only the drawing is timed. torchviz has no layout of its own, and gets the same program that netcl uses.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.cases import Case, load

TOLERANCE = 0.0
WIDTH = 10
HIDDEN = 16


def inputs(rng: np.random.Generator, n: int = 0, steps: int = 0) -> dict[str, Any]:
    def draw(*shape: int) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    if steps:
        arrays = [draw(steps, 1, 8), draw(8, HIDDEN), draw(HIDDEN, HIDDEN), draw(HIDDEN)]
        return {"arrays": arrays, "orders": None}
    # Each node of a layer takes two neighbours in a random order of the layer before, so that every node is used.
    return {"arrays": [draw(WIDTH, 4)], "orders": [rng.permutation(WIDTH) for _ in range(max(n // WIDTH, 1))]}


def expected(arrays: Any, orders: Any) -> list[np.ndarray]:
    return [np.array(1)]


def layered(leaves: Sequence[Any], orders: Any, lib: Any) -> Any:
    """Build the graph of layers and add up its last layer; returns the loss."""
    layer = list(leaves)
    for depth, order in enumerate(orders):
        op = lib.maximum if depth % 2 else lib.minimum
        layer = [op(layer[order[i]], layer[order[i - 1]]) for i in range(WIDTH)]
    total = layer[0]
    for each in layer[1:]:
        total = total + each
    return total.sum()


def unrolled(x: Sequence[Any], w: Any, u: Any, b: Any, h: Any, tanh: Callable[[Any], Any]) -> Any:
    """Run the recurrent network; returns the loss."""
    for step in x:
        h = tanh(step @ w + h @ u + b)
    return h.sum()


def netcl(arrays: Any, orders: Any) -> Case:
    from netcl import autograd as ag
    from netcl import viz

    if orders is None:
        x, *weights = arrays
        w, u, b = (ag.tensor(each, requires_grad=True) for each in weights)
        start = ag.tensor(np.zeros((1, HIDDEN), np.float32))
        loss = unrolled([ag.tensor(step) for step in x], w, u, b, start, ag.tanh)
    else:
        loss = layered([ag.tensor(each, requires_grad=True) for each in arrays[0]], orders, ag)
    loss.backward()

    def run() -> Any:
        drawing = viz.draw(loss) if orders is None else viz.draw(loss, fold=False)
        return drawing, drawing.svg

    def read(result: Any) -> list[Any]:
        drawing, svg = result
        cards = len(drawing.view.cards)
        # Without a layout the drawing is a table of words, which would be quick and no picture.
        return [svg.startswith("<svg") and svg.count("<polygon") >= cards - 1 and cards >= len(orders or ()) * WIDTH]

    return run, read


def torch(arrays: Any, orders: Any) -> Case:
    torch, torchviz = load("torch"), load("torchviz")
    sys.setrecursionlimit(10**6)  # torchviz walks the graph by recursion
    if orders is None:
        x, *weights = arrays
        w, u, b = (torch.tensor(each, requires_grad=True) for each in weights)
        loss = unrolled([torch.tensor(step) for step in x], w, u, b, torch.zeros(1, HIDDEN), torch.tanh)
    else:
        loss = layered([torch.tensor(each, requires_grad=True) for each in arrays[0]], orders, torch)
    loss.backward()

    def run() -> Any:
        source = torchviz.make_dot(loss).source.encode()
        return subprocess.run([layout_program(), "-Tsvg"], input=source, capture_output=True, check=True).stdout

    return run, lambda svg: [b"<svg" in svg and svg.count(b'class="node"') >= len(orders or ()) * WIDTH]


def layout_program() -> str:
    """Return graphviz-pure's program, or the system's dot."""
    from importlib import metadata

    try:
        files = metadata.files("graphviz-pure") or []
    except metadata.PackageNotFoundError:
        files = []
    found = [str(file.locate()) for file in files if file.name in ("graphviz-pure", "graphviz-pure.exe")]
    return found[0] if found else "dot"
