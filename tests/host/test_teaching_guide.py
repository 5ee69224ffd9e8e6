"""The instructor's guide: every lesson is in it, its mistakes are those of the exercises, its answers are computed."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.errors import ArgumentError
from netcl.teach import check, checks, course, exercises, given, right, timing
from netcl.teach.answers import Number
from netcl.teach.exercise import Exercise, Wrong

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDE = DOCS / "teaching"
MAP = (ROOT / "curriculum" / "README.md").read_text(encoding="utf-8")
LESSONS = sorted((ROOT / "curriculum").glob("[0-9][0-9]_*.ipynb"))
NUMBERS = [path.name[:2] for path in LESSONS]
_ROW = re.compile(r"^\| (\d\d) \| \[[^\]]+\]\([^)]+\) \| [^|]+ \| ([^|]+) \| (\d+) \| (\d+) \|$", re.M)
BELIEFS = {number: beliefs.split("; ") for number, beliefs, *_ in _ROW.findall(MAP)}
MINUTES = {number: int(core) for number, _, core, _ in _ROW.findall(MAP)}
ALL_OF_IT = {number: int(whole) for number, _, _, whole in _ROW.findall(MAP)}


def page(name: str) -> str:
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, number: str) -> str:
    """What a page says of a lesson."""
    found = re.search(rf"^## {number} · .*?(?=^## |\Z)", text, re.M | re.S)
    assert found, f"lesson {number} is not in it"
    return found[0]


def hub() -> str:
    return (DOCS / "teaching.md").read_text(encoding="utf-8")


def test_the_map_names_all_lessons_that_there_are() -> None:
    assert len(MINUTES) == 19
    assert set(NUMBERS) <= set(MINUTES)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_has_its_mistakes_and_they_are_planted(number: str) -> None:
    told = section(page("mistakes"), number)
    named = re.findall(r"^\| `(\d\d\.\w+)`: (.+?) \| .{10,} \|$", told, re.M)
    assert len(named) >= 5
    assert len(named) == sum(line.startswith("| `") for line in told.splitlines())
    for name, rule in named:
        assert name.startswith(number)
        assert rule in [wrong.rule for wrong in exercises.find(name).wrong], (name, rule)
    assert {name for name, _ in named} == {exercise.name for exercise in exercises.lesson(number)}
    for belief in BELIEFS[number]:
        assert re.search(rf"\*{re.escape(belief)}[,.]?\*", " ".join(told.split())), belief


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_has_two_answers_and_a_question_for_the_class(number: str) -> None:
    answers = section(page("answers"), number)
    assert re.findall(r"^\*\*(\d)\.\*\*", answers, re.M) == ["1", "2"]
    question = section(page("clicker_questions"), number)
    choices = re.findall(r"\*\*([A-D])\*\*", question)
    keys = re.findall(r"^\*([A-D])[.,]", question, re.M)
    assert keys and len(choices) >= 2 * len(keys) and set(keys) <= set(choices)


@pytest.mark.parametrize("path", LESSONS, ids=NUMBERS)
def test_a_lesson_asks_two_questions_for_paper(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    asked = re.split(r"^## ", text.split("## Two questions without a computer")[1], flags=re.M)[0]
    assert re.findall(r"^(\d)\. ", asked, re.M) == ["1", "2"]


@pytest.mark.parametrize("name", ["answers", "clicker_questions"])
def test_what_is_said_in_numbers_is_computed(name: str) -> None:
    text = re.sub(r"^```.*$", "", page(name), flags=re.M)
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    said: list[str] = []
    assert len(test.examples) >= 25
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_times_and_exercises_are_those_of_the_lessons() -> None:
    timing = hub().split("## Timing, lesson by lesson")[1]
    rows = re.findall(r"^\| (\d\d) \| (\d+) \| (.+) \|$", timing, re.M)
    assert {number: int(minutes) for number, minutes, _ in rows} == MINUTES
    for number, _, rest in rows:
        there = len(exercises.lesson(number))
        for lesson, place in re.findall(r"\b(\d+)\.(\d+)\b", rest):
            assert int(lesson) == int(number) and 1 <= int(place) <= there, rest


def unmarked(plans: str) -> list[str]:
    """Exercises of the plans whose asterisk says otherwise than their lesson."""
    waits: dict[str, bool] = {}
    for path in LESSONS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for exercise in re.findall(r"^#+ Exercise (\d+\.\d+) ·", "".join(cell["source"]), re.M):
                waits[exercise] = timing.TAG in cell["metadata"].get("tags", [])
    named = re.findall(r"(?<![\d.])(\d+\.\d+)(?![.\d])(\\\*)?", plans)
    assert {exercise for exercise, _ in named} <= set(waits)
    return [exercise for exercise, star in named if bool(star) != waits[exercise]]


def test_plans_stand_on_what_does_not_wait_or_say_so() -> None:
    plans = hub().split("## Routes")[1]
    assert unmarked(plans) == [] and len(re.findall(r"\d+\.\d+", plans)) > 60
    assert unmarked(r"6.1, 6.5\*, 15.4; 17.3 and 17.2\*") == ["15.4", "17.3", "17.2"]


def test_the_class_of_ninety_minutes_uses_sections_of_the_core() -> None:
    cells = json.loads(LESSONS[6].read_text(encoding="utf-8"))["cells"]
    core = [cell for cell in cells if timing.TAG not in cell["metadata"].get("tags", [])]
    sections = {number for cell in core for number in re.findall(r"^## (\d+) · ", "".join(cell["source"]), re.M)}
    plan = hub().split("### One class")[1].split("### Three lectures")[0]
    used = re.findall(r"\d+", " ".join(re.findall(r"^\| \d+ \| .* \| ([\d, ]*)\|$", plan, re.M)))
    assert len(used) >= 6
    assert set(used) <= sections and not {"8", "10"} & sections


def test_routes_add_up() -> None:
    rows = re.findall(r"^\| [\w -]+ \| ([\d, to]+) \| (\d+) \| (\d+) \|$", hub().split("### One class")[0], re.M)
    assert len(rows) == 5
    for lessons, minutes, whole in rows:
        chosen = sorted(MINUTES) if lessons == "00 to 18" else lessons.split(", ")
        assert sum(MINUTES[number] for number in chosen) == int(minutes), lessons
        assert sum(ALL_OF_IT[number] for number in chosen) == int(whole), lessons
    weeks = re.findall(r"^\| \d+ \| ([\d, ]+) \|", hub().split("### A semester")[1].split("## Timing")[0], re.M)
    assert len(weeks) == 14
    assert {number for week in weeks for number in week.split(", ")} == set(MINUTES)


def test_the_class_of_ninety_minutes_ends_after_ninety() -> None:
    plan = hub().split("### One class")[1].split("### Three lectures")[0]
    minutes = [int(minute) for minute in re.findall(r"^\| (\d+) \|", plan, re.M)]
    assert minutes == sorted(minutes) and (minutes[0], minutes[-1]) == (0, 90)


def key() -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for item, letter, shows in re.findall(r"^\| (\d+) \| ([A-D]) \| (.+) \|$", page("concept_inventory"), re.M):
        found.setdefault(int(item), {})[letter] = shows
    return found


def test_each_distractor_shows_a_misconception_of_the_syllabus() -> None:
    known = {belief for beliefs in BELIEFS.values() for belief in beliefs}
    known |= {wrong.rule.removeprefix("the ") for each in exercises.lesson("06") for wrong in each.wrong}
    questions = page("concept_inventory").split("## Key")[0]
    items = re.split(r"^### \d+$", questions, flags=re.M)[1:]
    assert len(items) == 12 and sorted(key()) == list(range(1, 13))
    for number, item in enumerate(items, 1):
        assert re.findall(r"^- \*\*([A-D])\*\*", item, re.M) == list("ABCD")
        shows = key()[number]
        assert sorted(shows) == list("ABCD") and list(shows.values()).count("right") == 1
        for belief in set(shows.values()) - {"right"}:
            assert belief in known or belief.removeprefix("the ") in known, belief


def test_beliefs_without_a_distractor_are_named() -> None:
    shown = {belief for shows in key().values() for belief in shows.values()}
    missing = {belief for beliefs in BELIEFS.values() for belief in beliefs} - shown
    said = " ".join(page("concept_inventory").split("Three beliefs")[1].split())
    assert len(missing) == 3 and all(f"*{belief}*" in said for belief in missing)


def the_key_of(item: int) -> str:
    letter = next(letter for letter, shows in key()[item].items() if shows == "right")
    text = re.split(r"^### \d+$", page("concept_inventory"), flags=re.M)[item]
    found = re.search(rf"^- \*\*{letter}\*\* (.+)$", text, re.M)
    assert found
    return found[1]


def test_keys_of_the_inventory_are_computed() -> None:
    x = ag.tensor(3.0, requires_grad=True)
    p = x * x
    (p * x).backward()
    assert the_key_of(3) == f"{x.grad.item():g}" == "27"
    (x * 1.0).backward()
    assert x.grad.item() == 28 and "added" in the_key_of(8)
    b = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    seed = np.arange(15, dtype=np.float32).reshape(5, 3)
    (ag.tensor(np.zeros((5, 3), np.float32)) + b).backward(seed)
    assert np.array_equal(b.grad.to_host(), seed.sum(0)) and "sum of the rows" in the_key_of(9)
    a, da = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [5.0, -2.0]])
    difference = ((a + 1e-4 * da) @ (a + 1e-4 * da) - (a - 1e-4 * da) @ (a - 1e-4 * da)) / 2e-4
    assert np.allclose(difference, a @ da + da @ a) and "A dA + dA A" in the_key_of(10)


def test_the_handouts_tasks_have_the_right_answers() -> None:
    text = " ".join(page("handouts").split())
    j, u, v = np.array([[3, 2], [1, 1]]), np.array([1, -1]), np.array([1, 10])
    assert f"**a** {3 * 2**2 * 0.1:g}, and {2.1**3 - 8:.4g}." in text
    assert f"**b** rows (3, 2) and (1, 1); ({', '.join(map(str, j @ u))})." in text
    assert f"**c** {3 * 2 * 3}. **d** Jᵀ v = ({', '.join(map(str, j.T @ v))}); both are {v @ j @ u}." in text
    x, w = np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [2.0, -1.0]])
    left, matrix = ag.tensor(x, requires_grad=True), ag.tensor(w, requires_grad=True)
    (left @ matrix).sum().backward()
    assert (left.grad.to_host().tolist(), matrix.grad.to_host().tolist()) == ([[1, 1]], [[1, 1], [2, 2]])
    assert "X̄ = (1 1), and W̄ has the rows (1 1) and (2 2)" in text


def test_printed_pages_are_not_stale_and_their_pictures_are_there() -> None:
    spec = importlib.util.spec_from_file_location("generate_handouts", DOCS / "generate_handouts.py")
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.pages(page("handouts"))
    assert len(made) == 3
    for name, text in made.items():
        assert (GUIDE / "print" / name).read_text(encoding="utf-8") == text, "python docs/generate_handouts.py"
        for source in re.findall(r'src="([^"]+)"', text):
            assert (GUIDE / "print" / source).is_file()
        assert all(re.findall(r'<img src="[^"]+" alt="([^"]*)"', text))


@pytest.mark.parametrize("path", [DOCS / "teaching.md", *sorted(GUIDE.glob("*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        file, _, place = target.partition("#")
        there = path.parent / file
        assert there.exists(), target
        titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.M) if place else []
        assert not place or place in [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_the_readme_and_the_hub_lead_to_all_of_it() -> None:
    assert "(docs/teaching.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {f"teaching/{path.name}" for path in GUIDE.glob("*.md")} <= set(re.findall(r"\((teaching/\w+\.md)\)", hub()))


def test_students_get_no_guide_and_instructors_do() -> None:
    assert not [name for name in course.course_files() if name.startswith("docs/teaching")]
    assert {"docs/teaching.md", "docs/teaching/answers.md"} <= set(course.course_files(solutions=True))


def test_an_exercise_of_one_s_own_is_checked_like_any_other() -> None:
    hints = ("It is off.", "Add.", "1 and 1 is 2.")
    wrong = (Wrong("nothing added", lambda d: d.a, hints),)
    answer = Number(lambda d: d.a + 1)
    own = Exercise("own.sum", "predict", "a + 1", answer, (), "More.", wrong, lambda rng: {"a": rng.randint(2, 9)})
    a = given(own).a
    checks.forget()
    assert [check(own, a).lines for _ in range(3)] == [hints[:1], hints[:2], hints]
    assert check(own, a + 1) and right(own, a + 1) and not right(own, a)
    with pytest.raises(ArgumentError, match="own"):
        check("own.sum", 1)
