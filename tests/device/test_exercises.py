"""Every exercise of every lesson: right answers pass, each wrong rule is met by its own hint, and no hint tells."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from netcl.teach import exercises
from netcl.teach.answers import Choice, Formula, Function, Number, Order, Paths, Word
from netcl.teach.exercise import KINDS, Exercise, Wrong
from netcl.teach.verdict import judge

CURRICULUM = Path(__file__).resolve().parents[2] / "curriculum"
SEEDS = range(20)
FEWEST_RIGHT, FEWEST_WRONG, FEWEST_A_LESSON = 2, 5, 4


def loaded() -> tuple[dict[str, tuple[Exercise, ...]], dict[str, str]]:
    """The exercises by lesson, and the lessons that cannot be imported: one must not take the others down."""
    found, broken = {}, {}
    for number in exercises.lessons():
        try:
            found[number] = tuple(exercises.lesson(number))
        except Exception as error:  # told by a test of its own
            broken[number] = f"{type(error).__name__}: {error}"
    return found, broken


LESSONS, BROKEN = loaded()
EXERCISES = [exercise for each in LESSONS.values() for exercise in each]


# What can be wrong with an exercise. Each returns sentences; none means that it is sound.


def faults(exercise: Exercise) -> list[str]:
    found = [*counted(exercise), *forms(exercise), *shared_hints(exercise)]
    for seed in SEEDS if exercise.data is not None else [0]:
        found += refused(exercise, seed) + mistaken(exercise, seed) + given_away(exercise, seed)
    return found


def counted(exercise: Exercise) -> list[str]:
    found = [f"{len(exercise.right)} right answers"] if len(exercise.right) < FEWEST_RIGHT else []
    found += [f"{len(exercise.wrong)} wrong rules"] if len(exercise.wrong) < FEWEST_WRONG else []
    rules = Counter(wrong.rule for wrong in exercise.wrong)
    found += [f"two rules are called {rule!r}" for rule, count in rules.items() if count > 1]
    found += [f"{field} says nothing" for field in ("asks", "because") if not getattr(exercise, field).strip()]
    return found


def forms(exercise: Exercise) -> list[str]:
    """Two answers that look the same to the checker prove no more than one."""
    d = exercise.given(0)
    seen = {form(exercise.made(answer, d)) for answer in exercise.right}
    few = min(FEWEST_RIGHT, len(exercise.right))
    return [f"the right answers have {len(seen)} form, not {few}"] if len(seen) < few else []


def form(answer: Any) -> Any:
    if isinstance(answer, FunctionType):
        return answer.__code__.co_code, str(answer.__code__.co_consts), answer.__code__.co_names
    return type(answer), repr(answer)


def shared_hints(exercise: Exercise) -> list[str]:
    hints = Counter(" ".join(hint.casefold().split()) for wrong in exercise.wrong for hint in wrong.hints)
    return [f"the hint {hint!r} stands {count} times" for hint, count in hints.items() if count > 1]


def refused(exercise: Exercise, seed: int) -> list[str]:
    d = exercise.given(seed)
    found = []
    for i, source in enumerate(exercise.right):
        verdict = judge(exercise, exercise.made(source, d), seed)
        if verdict.state != "right":
            told = verdict.rule.rule if verdict.rule else verdict.remark
            found.append(f"seed {seed}: right answer {i} is {verdict.state}: {told}")
    return found


def mistaken(exercise: Exercise, seed: int) -> list[str]:
    d = exercise.given(seed)
    found = []
    for wrong in exercise.wrong:
        verdict = judge(exercise, exercise.made(wrong.answer, d), seed)
        if verdict.rule is not wrong:
            told = f"that of {verdict.rule.rule!r}" if verdict.rule else f"none ({verdict.state} {verdict.remark})"
            found.append(f"seed {seed}: {wrong.rule!r} is met by the hint {told}")
    return found


def given_away(exercise: Exercise, seed: int) -> list[str]:
    answer, d = exercise.answer, exercise.given(seed)
    try:
        return [
            f"seed {seed}: the hint {hint!r} of {wrong.rule!r} holds the answer"
            for wrong in exercise.wrong
            for hint in wrong.hints
            if tells(hint, answer, d)
        ]
    except Exception as error:  # of the exercise's own functions
        return [f"seed {seed}: fault in the right answer: {type(error).__name__}: {error}"]


def tells(hint: str, answer: Any, d: Any) -> bool:
    match answer:
        case Number():
            return holds_numbers(hint, answer.target(d))
        case Word():
            return holds_word(hint, answer.target(d))
        case Choice():
            return holds_option(hint, answer, d)
        case Formula():
            texts = (answer.expected(d) if callable(answer.expected) else answer.expected, str(answer.target(d)))
            return any(holds_formula(hint, str(text)) for text in texts)
        case Paths():
            return any(bare("→".join(path)) in bare(hint).replace("->", "→") for path in answer.target(d))
        case Order():
            return bare("".join(answer.target(d).names)) in re.sub(r"[→,>-]", "", bare(hint))
    return False


def bare(text: str) -> str:
    return re.sub(r"[\s`*]", "", text)


def holds_formula(hint: str, formula: str) -> bool:
    hint, formula = (re.sub(r"\s*([-+/()])\s*|\s*(?<!\*)\*(?!\*)\s*|`", r"\1", text) for text in (hint, formula))
    return len(formula) > 1 and re.search(rf"(?<![\w.]){re.escape(formula)}(?!\w)", hint) is not None


def holds_numbers(hint: str, expected: np.ndarray) -> bool:
    """Whether the numbers stand in the hint, all and in this order; exponents and indices are no numbers here."""
    text = hint.replace("−", "-")
    found = [float(number) for number in re.findall(r"(?<![\w.^*\[])-?\d+(?:\.\d+)?(?![\w\]]|\.\d)", text)]
    wanted = expected.ravel().tolist()
    if not wanted or (expected.size > 1 and len(set(wanted)) == 1):
        return False
    return any(found[i : i + len(wanted)] == wanted for i in range(len(found)))


def holds_word(hint: str, word: str) -> bool:
    if len(word) == 1 and word.isalpha():  # "a" is an article as well
        return re.search(rf"[`'\"]{re.escape(word)}[`'\"]", hint) is not None
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", hint, re.I) is not None


def holds_option(hint: str, answer: Choice, d: Any) -> bool:
    letters = answer.target(d)
    texts = [answer.options[letter].strip(" .").casefold() for letter in letters]
    named = [rf"\b(?:option|answer|letter) {letter}\b|\({letter}\)|`{letter}`" for letter in letters]
    return any(text in hint.casefold() for text in texts) or any(re.search(one, hint, re.I) for one in named)


# The lessons


def test_every_lesson_has_exercises_and_there_are_enough() -> None:
    assert sorted({*LESSONS, *BROKEN}) == [f"{number:02}" for number in range(19)]
    assert len(EXERCISES) >= 76


@pytest.mark.parametrize("number", exercises.lessons())
def test_the_exercises_of_a_lesson_are_loaded(number: str) -> None:
    assert number not in BROKEN, BROKEN[number]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_an_exercise_is_sound(exercise: Exercise) -> None:
    found = faults(exercise)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_graph_is_not_printed_in_an_order_that_answers(seed: int) -> None:
    (exercise,) = (exercise for exercise in EXERCISES if exercise.name == "09.order")
    printed = list(exercise.given(seed).parents)
    assert {judge(exercise, order, seed).state for order in (printed, printed[::-1])} == {"wrong"}


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_has_exercises_of_all_kinds(number: str) -> None:
    names = [exercise.name for exercise in LESSONS[number]]
    assert len(names) >= FEWEST_A_LESSON
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"{number}.") for name in names)
    assert {exercise.kind for exercise in LESSONS[number]} == set(KINDS)


def cells(number: str) -> list[dict[str, Any]]:
    (path,) = CURRICULUM.glob(f"{number}_*.ipynb")
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("number", LESSONS)
def test_the_exercises_stand_in_the_notebook(number: str) -> None:
    code = "\n".join("".join(cell["source"]) for cell in cells(number) if cell["cell_type"] == "code")
    named = {exercise.name for exercise in LESSONS[number]}
    assert set(re.findall(r"\bcheck\(\s*[\"']([^\"']+)[\"']", code)) == named
    assert set(re.findall(r"\bteach\.right\(\s*[\"']([^\"']+)[\"']", code)) == named
    given = set(re.findall(r"\bgiven\(\s*[\"']([^\"']+)[\"']", code))
    assert given <= named


@pytest.mark.parametrize("number", LESSONS)
def test_the_notebook_s_exercises_are_those_of_nbgrader(number: str) -> None:
    for cell in cells(number):
        source, marked = "".join(cell["source"]), cell["metadata"].get("nbgrader")
        solution, hidden = "### BEGIN SOLUTION" in source, "### BEGIN HIDDEN TESTS" in source
        assert source.count("### BEGIN") == source.count("### END")
        assert bool(marked and marked["solution"]) == solution
        assert bool(marked and marked["grade"]) == hidden
        if hidden:
            assert marked and marked["locked"] and marked["points"] > 0


@pytest.mark.parametrize("number", LESSONS)
def test_the_options_of_a_choice_stand_in_the_notebook(number: str) -> None:
    """By their words: formulas are set in TeX there."""
    prose = set(words(" ".join("".join(cell["source"]) for cell in cells(number) if cell["cell_type"] == "markdown")))
    for exercise in LESSONS[number]:
        if isinstance(exercise.answer, Choice):
            assert [
                word for option in exercise.answer.options.values() for word in words(option) if word not in prose
            ] == []


def words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{4,}", text.casefold())


# The test of the test: one sound exercise, and one broken in each way


def planted(**changes: Any) -> Exercise:
    sound = Exercise(
        name="99.sum",
        kind="predict",
        asks="a + b",
        data=lambda rng: {"a": rng.randint(10, 20), "b": rng.randint(30, 40)},
        answer=Number(lambda d: d.a + d.b),
        right=(lambda d: d.a + d.b, lambda d: float(d.a + d.b)),
        because="They add.",
        wrong=tuple(
            Wrong(rule, make, (f"{rule} is off", f"{rule} was meant", f"with {rule} it would be 3"))
            for rule, make in {
                "minus": lambda d: d.a - d.b,
                "times": lambda d: d.a * d.b,
                "first": lambda d: d.a,
                "second": lambda d: d.b,
                "turned": lambda d: d.b - d.a,
            }.items()
        ),
    )
    return dataclasses.replace(sound, **changes)


def hinting(*hints: str) -> tuple[Wrong, ...]:
    first, *others = planted().wrong
    return (dataclasses.replace(first, hints=(*hints, *first.hints)[:3]), *others)


def function(**changes: Any) -> Exercise:
    def cases(rng: random.Random) -> list[tuple[int]]:
        return [(rng.randint(5, 9),) for _ in range(5)]

    makers = (lambda x: -x, lambda x: x + 1, lambda x: 0, lambda x: x / 0, lambda x: [x])
    wrong = tuple(
        Wrong(f"{i}", lambda d, f=f: f, (f"{i} off", f"{i} rule", f"{i} parallel")) for i, f in enumerate(makers)
    )
    answer = Function(lambda d: lambda x: x * x, cases=cases)
    right = (lambda d: lambda x: x**2, lambda d: lambda x: x * x)
    return dataclasses.replace(planted(data=None, answer=answer, right=right, wrong=wrong), **changes)


@pytest.mark.parametrize("exercise", [planted(), function()], ids=["number", "function"])
def test_a_sound_exercise_passes(exercise: Exercise) -> None:
    assert faults(exercise) == []


BAD = {
    "one right answer": (planted(right=(lambda d: d.a + d.b,)), "1 right answers"),
    "one form": (planted(right=(lambda d: d.a + d.b, lambda d: d.b + d.a)), "have 1 form"),
    "four wrong rules": (planted(wrong=planted().wrong[:4]), "4 wrong rules"),
    "a right answer refused": (planted(right=(lambda d: d.a + d.b, lambda d: d.a)), "right answer 1 is wrong: first"),
    "a wrong rule that is right": (planted(wrong=(Wrong("same", lambda d: d.a + d.b, ("p", "q", "r")),)), "(right )"),
    "two rules of one result": (
        planted(wrong=(*planted().wrong, Wrong("again", lambda d: d.a, ("p", "q", "r")))),
        "'again' is met by the hint that of 'first'",
    ),
    "rules that meet for one seed": (
        planted(wrong=(*planted().wrong, Wrong("seldom", lambda d: d.a if d.b == 40 else -1, ("p", "q", "r")))),
        "'seldom' is met by the hint that of 'first'",
    ),
    "a shared hint": (planted(wrong=hinting("Times is  off")), "stands 2 times"),
    "a hint that tells": (planted(wrong=hinting("It is 57.", "or 51", "or 48")), "holds the answer"),
    "a checker that fails": (planted(answer=Number(lambda d: d.c)), "fault"),
    "a wrong rule that cannot be read": (
        planted(wrong=(*planted().wrong, Wrong("text", "seven", ("p", "q", "r")))),
        "fault",
    ),
    "a function's rule that is right": (
        function(wrong=(*function().wrong, Wrong("same", lambda d: lambda x: x * x, ("p", "q", "r")))),
        "'same' is met by the hint none (right )",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_broken_exercise_is_found(what: str) -> None:
    exercise, told = BAD[what]
    assert told in "\n".join(faults(exercise))


@pytest.mark.parametrize(
    ("answer", "hint", "told"),
    [
        (Number(7), "together 7.", True),
        (Number(7), "together 17, x**7, x[7], 7.5 or 7th", False),
        (Number(-7), "it is −7", True),
        (Number([1, 2]), "first 1, then 2", True),
        (Number([1, 2]), "first 2, then 1", False),
        (Word("sum"), "Look at the sum.", True),
        (Word("sum"), "Look at the summary.", False),
        (Word("a"), "a path is missing", False),
        (Word("a"), "look at `a`", True),
        (Choice("b", {"a": "It waits", "b": "It adds"}), "In truth it adds.", True),
        (Choice("b", {"a": "It waits", "b": "It adds"}), "Choose option b.", True),
        (Choice("b", {"a": "It waits", "b": "It adds"}), "Does it wait?", False),
        (Formula("2*x"), "Write 2 * x.", True),
        (Formula("2*x"), "Think of 3*x.", False),
        (Paths({("x", "p", "f")}), "One is x → p → f.", True),
        (Paths({("x", "p", "f")}), "One is y → p → f.", False),
        (Order([("x", "p"), ("p", "f")]), "Take x, p, f.", True),
        (Order([("x", "p"), ("p", "f")]), "Take f, p, x.", False),
    ],
)
def test_a_hint_that_tells_is_found(answer: Any, hint: str, told: bool) -> None:
    assert tells(hint, answer, planted().given(0)) == told
