"""Run one tool on the worked example and leave what it shows in a folder; docs/compare.md says what was seen.

    python docs/compare.py TOOL FOLDER [NOTEBOOK]

Each tool wants an environment of its own. `micrograd` takes its picture from NOTEBOOK, a copy of trace_graph.ipynb of
micrograd's repository. Graphviz's `dot` must be on the PATH for torchviz, torchview, torchlens and micrograd.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any


def torch_example() -> tuple[Any, Any, Any]:
    """The worked example as a module, its input, and the tensors that come of it."""
    import torch

    class Example(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = (x + 1.0) ** 2
            z = 3.0 * y
            return z.sum()

    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = (x + 1.0) ** 2
    y.retain_grad()
    loss = (3.0 * y).sum()
    return Example(), x, {"x": x, "y": y, "loss": loss}


def torchviz(folder: Path) -> None:
    import torchviz

    _, x, made = torch_example()
    made["loss"].backward(retain_graph=True)
    dot = torchviz.make_dot(made["loss"], params={"x": x}, show_attrs=True, show_saved=True)
    dot.render(folder / "graph", format="svg")


def torchview(folder: Path) -> None:
    import torchview

    model, x, _ = torch_example()
    graph = torchview.draw_graph(model, input_data=x, hide_inner_tensors=False, hide_module_functions=False)
    graph.visual_graph.render(folder / "graph", format="svg")


def torchvista(folder: Path) -> None:
    import torchvista

    model, x, _ = torch_example()
    torchvista.trace_model(model, x, export_format="html", export_path=str(folder / "graph.html"))


def torchlens(folder: Path) -> None:
    import torchlens

    model, x, _ = torch_example()
    options = torchlens.options.CaptureOptions(save_grads=True, save_code_context=True)
    trace = torchlens.trace(model, x, capture=options)
    trace.log_backward(trace[trace.output_layers[0]].out)
    for layer in trace.layers:
        where = layer.code_context[0] if layer.code_context else None
        print(layer.layer_label, layer.out.tolist(), layer.grad if layer.has_grad else "no gradient", where)
    trace.draw(vis_outpath=str(folder / "forward"), vis_fileformat="svg", vis_save_only=True)
    trace.draw_backward(vis_outpath=str(folder / "backward"), vis_fileformat="svg", vis_save_only=True)
    trace.draw_combined(vis_outpath=str(folder / "combined"), vis_fileformat="svg", vis_save_only=True)


def treescope(folder: Path) -> None:
    """Of NumPy arrays: PyTorch has left out the names of axes that Treescope 0.1.10 asks its tensors for."""
    import treescope

    _, _, made = torch_example()
    made["loss"].backward()
    seen = {name: (made[name].detach().numpy(), made[name].grad.numpy()) for name in ("x", "y")}
    with treescope.active_autovisualizer.set_scoped(treescope.ArrayAutovisualizer()):
        (folder / "values.html").write_text(treescope.render_to_html(seen), encoding="utf-8")
    (folder / "values.txt").write_text(treescope.render_to_text(seen), encoding="utf-8")


def netron(folder: Path) -> None:
    """Netron reads files of models: the forward pass as ONNX. `netron FOLDER/graph.onnx` then shows it in a browser."""
    import onnx
    from onnx import TensorProto, helper

    numbers = {"one": 1.0, "two": 2.0, "three": 3.0}
    nodes = [
        helper.make_node("Add", ["x", "one"], ["x1"]),
        helper.make_node("Pow", ["x1", "two"], ["y"]),
        helper.make_node("Mul", ["three", "y"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "example",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in numbers.items()],
    )
    model = helper.make_model(graph)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "graph.onnx"))


def micrograd(folder: Path, notebook: str) -> None:
    """micrograd has scalars alone: x is one entry of the example, 2, and nothing is summed."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    known: dict[str, Any] = {}
    for source in ("".join(cell["source"]) for cell in cells):
        if source.startswith(("from micrograd", "def ")) or "import Digraph" in source:
            exec(source, known)
    x = known["Value"](2.0)
    loss = 3.0 * (x + 1.0) ** 2
    loss.backward()
    known["draw_dot"](loss).render(folder / "graph")


def netcl(folder: Path) -> None:
    from netcl import autograd as ag
    from netcl import viz

    x = ag.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], requires_grad=True)
    with ag.Tape() as tape:
        y = (x + 1.0) ** 2
        z = 3.0 * y
        loss = z.sum()
    tape.backward(loss)
    for ending in ("svg", "txt", "html"):
        viz.draw(loss).save(folder / f"graph.{ending}")


TOOLS = {
    each.__name__: each for each in (torchviz, torchview, torchvista, torchlens, treescope, netron, micrograd, netcl)
}

if __name__ == "__main__":
    name, where = sys.argv[1], Path(sys.argv[2])
    where.mkdir(parents=True, exist_ok=True)
    print(name, importlib.metadata.version(name))
    TOOLS[name](where, *sys.argv[3:])  # pyright: ignore[reportArgumentType]
