"""Programs and the source of their kernels: what can be asked without a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from netcl import layout as lay
from netcl.expr import Num, parse
from netcl.kernels.fused import SHORTEST, Grid, Groups, Input, Line, Result, Term, fuse
from netcl.layout import Layout, Shape
from netcl.ops import OPS
from netcl.ops.program import Program, Step, Total, ghost, literal, program

F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)
CPU, GPU, SMALL = Groups(True, 1024), Groups(False, 256), Groups(True, 8)


def layout(*shape: int) -> Layout:
    return lay.contiguous(shape, F32)


def rows(*steps: tuple[Any, ...], inputs: int, total: Total | None = None) -> Program:
    found: list[Any] = [OPS[name] for name, *_ in steps]
    return program(tuple(Step(row, tuple(step[1:])) for row, step in zip(found, steps, strict=True)), inputs, total)


def source(shape: Shape, *layouts: Layout | None, summed: bool = False, groups: Groups = CPU) -> tuple[str, Grid, int]:
    """The kernel of `a * b`, how it walks, and how many work-items it has."""
    inputs = [Input(f"x{k}", each, F32) for k, each in enumerate(layouts)]
    names = dict(zip("ab", (each.name for each in inputs), strict=False))
    term = Term(parse("a * b" if len(layouts) > 1 else "a * 2"), F32, names)
    launch, grid = fuse("fused", shape, inputs, [Line("t0", [term], F32)], [Result("t0", summed)], groups=groups)
    assert launch.grid is not None
    return launch.program, grid, launch.grid[0]


def test_a_program_is_the_same_object_each_time() -> None:
    first = rows(("mul", ~0, ~1), ("tanh", 0), inputs=2)
    assert first is rows(("mul", ~0, ~1), ("tanh", 0), inputs=2)
    assert first is not rows(("mul", ~0, ~1), ("tanh", 0), inputs=2, total=Total("sum", None, False))
    assert repr(first) == "<Program mul tanh>" and len(first) == 2


def test_active_inputs_are_those_that_a_derivative_reaches() -> None:
    chosen = rows(("greater", ~0, ~1), ("where", 0, ~2, ~3), ("mul", 1, ~4), inputs=5)
    assert OPS["where"].args[0] == "c"
    assert chosen.active == {2, 3, 4}
    assert rows(("greater", ~0, ~1), inputs=2).active == frozenset()
    assert rows(("pow", ~0, Num(2)), ("add", 0, ~1), inputs=2).active == {0, 1}


def test_dtypes_of_steps_are_those_of_the_ops() -> None:
    mixed = rows(("mul", ~0, ~1), ("greater", 0, ~0), ("mul", 1, ~0), inputs=2)
    typed = mixed.typed([ghost(layout(3)), ghost(lay.contiguous((3,), F64))])
    assert [str(dtype) for dtype in typed.dtypes] == ["float64", "bool", "float32"]
    assert (typed.shape, typed.out.shape, typed.rows) == ((3,), (3,), None)
    total = rows(("mul", ~0, ~0), ("tanh", 0), inputs=1, total=Total("sum", (1, 2), True))
    typed = total.typed([ghost(layout(3, 4, 5))])
    assert (typed.shape, typed.out.shape, typed.rows) == ((3, 4, 5), (3, 1, 1), 3)


POW: Any = OPS["pow"]


@pytest.mark.parametrize("x", [*POW.literals, 2.0, -2.0])
def test_the_numbers_that_a_row_has_kernels_for_are_written_into_the_source(x: float) -> None:
    """The same as in eager code, so that both give the same values."""
    assert POW.literals == {-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4}
    assert literal(POW, x) == Num(x)


@pytest.mark.parametrize("x", [5, 2.5, -3, -0.0, math.nan, math.inf, True, "2", np.float32(2)])
def test_other_numbers_are_not(x: Any) -> None:
    assert literal(POW, x) is None


def test_rows_without_such_numbers_take_all_as_arguments() -> None:
    assert literal(OPS["mul"], 2) is None  # type: ignore[arg-type]


def test_a_full_row_has_no_guard_and_a_short_one_has() -> None:
    whole, _, items = source((1000,), layout(1000), layout(1000))
    assert "if (" not in whole and items == 1024
    short, _, items = source((10,), layout(10), layout(10))
    assert "if (j < length)" in short and items == SHORTEST


def test_numbers_are_arguments() -> None:
    text, _, _ = source((1000,), layout(1000), None)
    parameters = text.partition("void fused(")[2].partition("{")[0]
    assert "const float x1" in parameters and "Numbers numbers" in parameters


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (300,), (5000,), (3, 70), (1000, 100), (4, 1 << 14)])
@pytest.mark.parametrize("groups", [CPU, GPU, SMALL])
@pytest.mark.parametrize("summed", [True, False])
def test_groups_cover_every_element_and_waste_little(shape: Shape, groups: Groups, summed: bool) -> None:
    _, grid, items = source(shape, layout(*shape), layout(*shape), summed=summed, groups=groups)
    size = math.prod(shape)
    assert grid.rows * grid.length == size
    assert grid.parts * grid.width >= grid.length > (grid.parts - 1) * grid.width
    assert grid.width <= groups.largest
    assert items == grid.rows * grid.parts * grid.width <= max(1.3 * size, 256)


def test_rows_are_chosen_where_they_spare_the_arithmetic_of_coordinates() -> None:
    column, grid, _ = source((50, 100), layout(50, 100), layout(100))
    assert (grid.rows, grid.length) == (50, 100) and "_rest" not in column
    row, grid, _ = source((50, 100), layout(50, 100), layout(50, 1))
    assert (grid.rows, grid.length) == (50, 100) and "[o1 + row]" in row
    _, grid, _ = source((50, 100), layout(50, 100), layout(1, 1))
    assert (grid.rows, grid.length) == (1, 5000)
    short, grid, _ = source((100, 10), layout(100, 10), layout(10))
    assert (grid.rows, grid.length) == (1, 1000) and "i_q1 * d1" in short
    transposed, _, _ = source((80, 90), layout(80, 90), lay.transpose(layout(90, 80), (1, 0)))
    assert "s1_0" in transposed


def test_sums_end_in_one_way_on_cpus_and_in_another_on_others() -> None:
    cpu, _, _ = source((5000,), layout(5000), layout(5000), summed=True)
    assert "float16" in cpu and cpu.count("barrier") == 1
    gpu, _, _ = source((5000,), layout(5000), layout(5000), summed=True, groups=GPU)
    assert "float16" not in gpu and "m /= 2" in gpu
