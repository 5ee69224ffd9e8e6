"""Imports point one way: what a module may know is written here, and held."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "netcl"

# From the bottom to the top; a module may import those before it, and none after it.
ORDER: Sequence[str] = """
    _version errors notebook expr layout pocl_cpu pocl crossover shelf memory launch device covers commands platforms
    kernels capture methods tensor ops creation random user_kernel autograd nn optim viz teach calibrate doctor cli
    __main__
""".split()

# An import inside a function hides a dependency. These may, for the reason given.
NETCL_INSIDE = {
    "cli.py": "a subcommand imports what it needs, so that --help does not wait for OpenCL",
    "teach/__init__.py": "ipywidgets again: sliders are loaded at first use",
    "teach/exercises/__init__.py": "the exercises of a lesson are loaded when it asks about one",
    "viz/__init__.py": "ipywidgets takes longer than all pictures, so widgets are loaded at first use",
}
OTHERS_INSIDE = {
    "IPython": "there only in notebooks",
    "tqdm": "it imports much, asyncio among it, which short work can do without",
    "nbformat": "comes with JupyterLab; netcl works without it",
    "nbgrader": "makes the students' copies, in a checkout with the extra `dev`",
    "traitlets": "comes with nbgrader, which is configured by it",
    "sympy": "comes with JupyterLab, in the extra `lab`; only exercises that ask for a formula need it",
}

LINES = {"autograd/engine.py": 300, "ops/table.py": 120}
LINES_OF_OTHERS = 400


class Import(NamedTuple):
    line: int
    target: str
    inside: bool


class Module(NamedTuple):
    name: str
    imports: list[Import]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(source: str, name: str, is_package: bool = False, known: frozenset[str] = frozenset(FILES)) -> Module:
    """Find every import of a module, inside functions and in branches too, and what each one names."""
    found = list(_walk(ast.parse(source), False, name.split(".") if is_package else name.split(".")[:-1], known))
    return Module(name, found)


def _walk(node: ast.AST, inside: bool, package: list[str], known: frozenset[str]) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(child.lineno, alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = ".".join(package[: len(package) - child.level + 1] if child.level else [])
            base = ".".join(filter(None, (base, child.module)))
            for alias in child.names:
                # `from netcl import viz` names the module netcl.viz; `from netcl import Tensor` names netcl itself.
                full = f"{base}.{alias.name}"
                yield Import(child.lineno, full if full in known else base, inside)
        elif isinstance(child, ast.Call) and _called(child) in ("import_module", "__import__"):
            first = child.args[0] if child.args else None
            target = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else "?"
            yield Import(child.lineno, target, True)
            yield from _walk(child, inside, package, known)
        else:
            deeper = inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, deeper, package, known)


def _called(call: ast.Call) -> str | None:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def layer(module: str) -> str:
    return module.split(".")[1]


def upward(module: Module) -> list[str]:
    """List the imports of a module that know something above it."""
    wrong = []
    for line, target, _ in module.imports:
        if target.split(".")[0] != "netcl":
            continue
        if target == "netcl":
            wrong.append(f"{module.name}, line {line}: imports netcl itself, which stands above every module")
        elif ORDER.index(layer(target)) > ORDER.index(layer(module.name)):
            wrong.append(f"{module.name}, line {line}: imports {target}, which stands above it")
    return wrong


def hidden(module: Module, file: str) -> list[str]:
    """List the imports inside functions that nothing excuses."""
    wrong = []
    for line, target, inside in module.imports:
        top = target.split(".")[0]
        if not inside or top in sys.stdlib_module_names or top in OTHERS_INSIDE:
            continue
        if top not in ("netcl", "?") or file not in NETCL_INSIDE:
            wrong.append(f"{module.name}, line {line}: imports {target} inside a function")
    return wrong


MODULES = {
    name: imports_of(path.read_text(encoding="utf-8"), name, path.name == "__init__.py") for name, path in FILES.items()
}
BELOW_THE_TOP = [name for name in FILES if name != "netcl"]


@pytest.mark.parametrize("name", BELOW_THE_TOP)
def test_every_module_has_a_place_in_the_order(name: str) -> None:
    assert layer(name) in ORDER


@pytest.mark.parametrize("name", BELOW_THE_TOP)
def test_nothing_imports_what_is_above_it(name: str) -> None:
    assert upward(MODULES[name]) == []


@pytest.mark.parametrize("name", BELOW_THE_TOP)
def test_no_import_hides_inside_a_function(name: str) -> None:
    assert hidden(MODULES[name], FILES[name].relative_to(PACKAGE).as_posix()) == []


def test_no_circle_among_files() -> None:
    graph = {name: {each.target for each in MODULES[name].imports if each.target in FILES} for name in BELOW_THE_TOP}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports run in a circle: {' → '.join(error.args[1])}")


@pytest.mark.parametrize("name", FILES)
def test_files_stay_short(name: str) -> None:
    file = FILES[name].relative_to(PACKAGE).as_posix()
    lines = len(FILES[name].read_text(encoding="utf-8").splitlines())
    assert lines <= LINES.get(file, LINES_OF_OTHERS)


@pytest.mark.parametrize("file", LINES)
def test_files_with_a_budget_of_their_own_exist(file: str) -> None:
    assert (PACKAGE / file).is_file()


def test_opencl_c_stands_only_in_kernels() -> None:
    kernels = PACKAGE / "kernels"
    having = [path for path in sorted(PACKAGE.rglob("*")) if path.is_file() and b"__kernel" in path.read_bytes()]
    having = [path for path in having if path.suffix != ".pyc"]
    assert having, "no kernel found at all: this test looks in the wrong place"
    # user_kernel's example, in its docstring, is the kernel of a user, and exercises hold those that students write.
    elsewhere = [path for path in having if kernels not in path.parents and PACKAGE / "teach" not in path.parents]
    assert elsewhere == [PACKAGE / "user_kernel.py"]


# The finder itself: what it must see, and what it must let pass.

KNOWN = frozenset({"netcl", "netcl.viz", "netcl.viz.svg", "netcl.ops", "netcl.ops.table", "netcl.tensor", "netcl.cli"})


@pytest.mark.parametrize(
    "source",
    [
        "import netcl.viz",
        "from netcl import viz",
        "from netcl.viz import draw",
        "from netcl.viz.svg import card",
        "from ..viz import draw",
        "from .. import viz",
        "if TYPE_CHECKING:\n    from netcl import viz",
        "def f():\n    from netcl import viz",
        "import importlib\nimportlib.import_module('netcl.viz')",
        "import netcl as nc",
        "from netcl import Tensor",
    ],
)
def test_an_import_upward_is_found(source: str) -> None:
    assert len(upward(imports_of(source, "netcl.ops.table", known=KNOWN))) == 1


@pytest.mark.parametrize(
    "source", ["from netcl import tensor", "from netcl.tensor import Tensor", "from . import table"]
)
def test_an_import_downward_or_aside_passes(source: str) -> None:
    assert upward(imports_of(source, "netcl.ops.linalg", known=KNOWN)) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    from netcl.tensor import Tensor",
        "async def f():\n    import netcl.tensor",
        "class A:\n    def f(self):\n        if self:\n            from netcl import tensor",
        "f = lambda: __import__('netcl.tensor')",
        "def f(name):\n    importlib.import_module(name)",
        "def f():\n    import scipy",
    ],
)
def test_an_import_inside_a_function_is_found(source: str) -> None:
    assert len(hidden(imports_of(source, "netcl.ops.table", known=KNOWN), "ops/table.py")) == 1


def test_what_may_stand_inside_a_function_passes() -> None:
    source = "def f():\n    import json\n    import IPython\n"
    assert hidden(imports_of(source, "netcl.ops.table", known=KNOWN), "ops/table.py") == []
    assert hidden(imports_of("def f():\n    from netcl import viz", "netcl.cli", known=KNOWN), "cli.py") == []
