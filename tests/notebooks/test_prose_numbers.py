"""No number stands in the prose of a notebook that no cell computes; the finder is tried on planted ones."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "curriculum").glob("*.ipynb"), *(ROOT / "notebooks").glob("*.ipynb")])
IDS = [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]

# A number that prose may tell though no cell computes it, each with its reason.
DEMANDED = "a range that the exercise demands of the student's function; its check calls it out there"
ON_PAPER = "what a question for paper takes as given; no cell is to work it out"
ALLOWED: dict[str, dict[str, str]] = {
    "02_finite_differences": {"-10^6": DEMANDED, "10^6": DEMANDED},
    "13_when_gradients_are_wrong": {"8": ON_PAPER},
}

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


@each
def test_every_number_is_computed(path: Path, prose_numbers: Any) -> None:
    found = prose_numbers.findings(load(path), ALLOWED.get(path.stem, {}))
    assert [f"{number.where}: {number.text} in '{number.context}'" for number in found] == []


@each
def test_every_equation_between_numbers_holds(path: Path, prose_numbers: Any) -> None:
    cells = [cell for cell in load(path)["cells"] if cell["cell_type"] == "markdown"]
    chains = [chain for cell in cells for chain in prose_numbers.equations("".join(cell["source"]))]
    assert [text for text, values in chains if not all(math.isclose(value, values[0]) for value in values)] == []


def test_what_is_allowed_is_still_told_and_not_computed(prose_numbers: Any) -> None:
    for stem, reasons in ALLOWED.items():
        (path,) = (path for path in NOTEBOOKS if path.stem == stem)
        assert {number.text for number in prose_numbers.findings(load(path))} == set(reasons)
        assert all(len(reason.split()) > 5 for reason in reasons.values())


def notebook(
    text: str, code: str = "", output: str = "", tags: tuple[str, ...] = (), kind: str = "text"
) -> dict[str, Any]:
    shown = {"output_type": "stream", "text": output} if kind == "text" else {"data": {kind: output}}
    return {
        "cells": [
            {"cell_type": "markdown", "id": "told", "metadata": {}, "source": text},
            {"cell_type": "code", "id": "code", "metadata": {"tags": [*tags]}, "source": code, "outputs": [shown]},
        ]
    }


SVG = '<svg role="img" aria-label="7.25 at the end"><title>a</title><path d="M 31.5 4"/><text>it is 88.5</text></svg>'
RIGHT: dict[str, tuple[Any, ...]] = {
    "a literal": ("The step is 0.125.", "h = 0.125"),
    "an expression of literals": ("ε is 2⁻²³, or $2^{-23}$.", "eps = np.float32(2.0) ** -23"),
    "a fraction": ("Take 0.75.", "x = Fraction(3, 4)"),
    "an output": ("It falls to 3.69.", "print(loss)", "loss 3.69"),
    "an output with more digits": ("It falls to 3.7.", "print(loss)", "loss 3.6926"),
    "a power of ten": ("The error is $10^{-8}$.", "print(error)", "error 1e-08"),
    "thousands": ("There are 1 048 576 paths, or 1,048,576.", "print(n)", "1048576"),
    "percents": ("It is right for 97 % of them.", "print(share)", "0.971"),
    "about": ("It takes about 1300 steps.", "print(steps)", "1287"),
    "words": ("Sixty-one errors, two hundred places, a hundred and eighty ways.", "a, b, c = 61, 200, 180"),
    "many": ("A million weights, a thousand rows.",),
    "an SVG's text": ("It is 88.5 there.", "draw()", SVG, (), "image/svg+xml"),
    "an SVG's label": ("It is 7.25 there.", "draw()", SVG, (), "image/svg+xml"),
    "0 and 1": ("It goes from 0 to 1; set $f = 0$.",),
    "words up to twelve": ("Three of the twelve rules.",),
    "an exponent": ("Take $1 - u^2$ and x^2.",),
    "a fraction of a name": (r"So $E = \tfrac16 h$.", "E = h / 6"),
    "a kernel's number": (r"So $\tfrac13 x$ and 2.5.", 'SOURCE = "__kernel void f() { x = 2.5f * y / 3.0f; }"'),
    "a small result": ("So $f = 7$.", "print(f)", "7"),
    "a sign": ("It is −2.5.", "x = -2.5"),
    "a difference": ("From 30–45 it is.", "x, y = 30, 45"),
    "a figure's words": ("", 'n = 61\nfigure(fig, alt="61 points")'),
}
WRONG: dict[str, tuple[Any, ...]] = {
    "another literal": ("The step is 0.135.", "h = 0.125"),
    "another power": ("ε is 2⁻²⁴.", "eps = np.float32(2.0) ** -23"),
    "another power in LaTeX": ("ε is $2^{-22}$.", "eps = np.float32(2.0) ** -23"),
    "a digit too many": ("It falls to 3.68.", "print(loss)", "loss 3.69"),
    "wrongly rounded": ("It falls to 3.6.", "print(loss)", "loss 3.6926"),
    "more digits than are shown": ("It falls to 3.6926.", "print(loss)", "loss 4"),
    "another magnitude": ("The error is $10^{-7}$.", "print(error)", "error 1e-08"),
    "percents": ("It is right for 98 % of them.", "print(share)", "0.971"),
    "about": ("It takes about 1200 steps.", "print(steps)", "1287"),
    "words": ("Sixty-two errors.", "n = 61"),
    "a hundred words": ("Three hundred places.", "n = 200"),
    "a coordinate is no evidence": ("It is 31.5 there.", "draw()", SVG, (), "image/svg+xml"),
    "a printed string is no evidence": ("It is 31.5 there.", 'print("here 31.5")', "here 31.5"),
    "a comment is no evidence": ("It is 31.5 there.", "x = 1  # 31.5"),
    "a changing output is no evidence": ("It takes 31.5 ms.", "run()", "31.5", ("nbval-ignore-output",)),
    "a small result": ("So $f = 8$.", "print(f)", "7"),
    "a result of 1": ("So $f = 1$.", "print(f)", "7"),
    "a small number": ("Three of the 4 rules.", "rules = 3"),
    "another fraction": (r"So $E = \tfrac17 h$.", "E = h / 6"),
    "another sign": ("It is −2.5.", "x = 2.5"),
    "a number in a code span": ("It prints `31.5`.", "x = 1"),
    "a figure's words": ("", 'n = 61\nfigure(fig, alt="62 points")'),
    "a figure's words beside computed ones": ("", 'n = 61\nfigure(fig, alt=f"62 of {n} points")'),
}
LEFT_OUT = (
    "`x = 31.5` is typed, and ```\n31.5\n``` too.",
    "See [lesson 31](31_x.ipynb), lessons 00 and 31 to 35, section 31.5, exercise 14.2 and cell 15.",
    "## 31 · Costs\n\n31. an item\n32. another",
    "(14) What is it? <details><summary>(13) And what is that?</summary></details>",
    "By Baur & Strassen (1983), and (Naumann 2008). N. Author, *A book*, 1998.",
    "## Sources\n\n- N. Author, *A book* 31(5), 1998, pages 31–35, doi:10.1000/31.5.",
    "**Time**: about 50 minutes. **You need**: x32, float32, the 20th entry, IEEE 754.",
)


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_a_number_that_is_computed_is_no_finding(case: tuple[Any, ...], prose_numbers: Any) -> None:
    assert prose_numbers.findings(notebook(*case)) == []


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_number_that_nothing_computes_is_found(case: tuple[Any, ...], prose_numbers: Any) -> None:
    (found,) = prose_numbers.findings(notebook(*case))
    assert found.where == ("told" if case[0] else "code")


@pytest.mark.parametrize("text", LEFT_OUT)
def test_names_that_are_numbers_are_left_out(text: str, prose_numbers: Any) -> None:
    assert list(prose_numbers.told(text, "told")) == []
    assert len(list(prose_numbers.told(f"It is 31.5 there.\n\n{text}", "told"))) == 1


def test_what_is_far_away_is_evidence_for_a_summary_alone(prose_numbers: Any) -> None:
    made = notebook("It is 31.5 there.", "x = 31.5")
    told, code = made["cells"]
    far = [notebook("Nothing.")["cells"][0] for _ in range(prose_numbers.NEAR)]
    assert len(prose_numbers.findings({"cells": [told, *far, code]})) == 1
    assert prose_numbers.findings({"cells": [told, *far[1:], code]}) == []
    assert prose_numbers.findings({"cells": [{**told, "id": "summary"}, *far, code]}) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (r"$p = 3 \cdot 1 + 2 \cdot \tfrac12 = 4$", [4, 4]),
        (r"from $\tfrac12(9 + 9) = 9$ to less", [9, 9]),
        ("so 2 + 2 = 5.", [4, 5]),
        (r"$1 - 0.1 \cdot (-2) = 1.3$", [1.2, 1.3]),
    ],
)
def test_an_equation_is_read(text: str, values: list[float], prose_numbers: Any) -> None:
    ((_, found),) = prose_numbers.equations(text)
    assert found == pytest.approx(values)


@pytest.mark.parametrize(
    "text", [r"$x + 1 = 2$", r"$\varepsilon^2 = 0$", "f(0) = 0", r"$6 = 2x$", "n = 3", "$4 = 2^k$"]
)
def test_an_equation_with_a_name_is_none_between_numbers(text: str, prose_numbers: Any) -> None:
    assert list(prose_numbers.equations(text)) == []


def test_a_slip_in_the_last_digit_is_mostly_found(prose_numbers: Any) -> None:
    """Not always: 0.9 turned into 1.0 meets some other 1. What meets no number of its surroundings is always found."""
    slips, caught, reach = 0, 0, prose_numbers.NEAR
    for path in NOTEBOOKS:
        cells = load(path)["cells"]
        for place, cell in enumerate(cells):
            span = cells if cell["id"] in prose_numbers.WIDE else cells[max(0, place - reach) : place + reach + 1]
            near = list(prose_numbers.known(span))
            for number in (one for text in prose_numbers.texts(cell) for one in prose_numbers.told(text, cell["id"])):
                if number.value == int(number.value) and abs(number.value) <= 12:
                    continue  # the next whole number is nearly always about
                for unit in (2 * number.half or 1, -(2 * number.half or 1)):
                    slip = dataclasses.replace(number, value=number.value + unit)
                    slips += 1
                    caught += not any(prose_numbers.fits(slip, known) for known in near)
    print(caught, "of", slips)
    assert slips >= 100
    assert caught / slips >= 0.6, f"{caught} of {slips}"
