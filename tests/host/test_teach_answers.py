"""Each kind of answer reads every reasonable form, says a sentence about every other, and is fooled by none."""

from __future__ import annotations

import decimal
import fractions
import random
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netcl.errors import DeviceError
from netcl.teach.answers import Answer, Choice, Formula, Function, Number, Order, Paths, UnfitError, Word
from netcl.teach.answers.base import holds_stub, shown
from netcl.teach.limit import LateError, limited

D = SimpleNamespace(a=2)


class Hostile:
    """Nothing that can be asked of it is answered."""

    def _no(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("<b>no</b>")

    __repr__ = __str__ = __len__ = __iter__ = __getitem__ = __bool__ = __eq__ = __hash__ = __float__ = _no  # type: ignore[assignment]
    __array__ = __index__ = __contains__ = __lt__ = __copy__ = __deepcopy__ = __getattr__ = _no


def endless_list() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


HOSTILE = [
    Hostile(), [Hostile()], {"a": Hostile()}, 10**400, -(10**400), [10**400], "<script>alert(1)</script>",
    b"7", "", "\x00",
    "x" * 100_000, endless_list(), object(), float("nan"), [float("inf")], 1j, {}, set(), [], (), [[1], [1,
    2]], True, print,
    Hostile, np.array(["a"]), np.array([None]), np.array([{}], object), np.zeros(0), range(3),
    decimal.Decimal("NaN"), ValueError("x"),
    ["a", 3, None], [["a"]], "a" * 50, "((((((((", "lambda: 0", "__import__('os').system('true')", NotImplemented,
]  # fmt: skip
KINDS = [
    Number(lambda d: d.a + 5),
    Number(np.arange(6.0).reshape(2, 3)),
    Formula("2*x*(y + 1)", variables=("x", "y")),
    Choice("b", options={"a": "It adds.", "b": "It sets.", "c": "It waits."}),
    Order([("x", "p"), ("p", "f")]),
    Paths({("x", "p", "f")}),
    Word("sum"),
    Function(lambda d: abs, cases=lambda rng: [(rng.randint(-9, 9),) for _ in range(5)]),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("which", range(len(HOSTILE)))  # pytest itself would stumble over some of them
def test_whatever_is_given_is_wrong_or_said_to_be_unfit(kind: Answer, which: int) -> None:
    given = HOSTILE[which]
    try:
        read = kind.read(given, D)
    except UnfitError as unfit:
        text = str(unfit)
        assert text.endswith((".", ")", '"', "?", "…")) and len(text) < 400
        return
    assert not kind.same(read, kind.target(D))
    assert isinstance(kind.remark(read, D), str)


def right(kind: Answer, given: Any) -> bool:
    return kind.same(kind.read(given, D), kind.target(D))


# Numbers


@pytest.mark.parametrize(
    "given",
    [
        7, 7.0, np.float32(7), np.int8(7), np.array(7), np.array([7]), [[7]], (7,), fractions.Fraction(14, 2),
        decimal.Decimal("7.0"), 7 + 1e-7,
    ],
)  # fmt: skip
def test_a_number_in_any_form(given: Any) -> None:
    assert right(Number(lambda d: d.a + 5), given)


def test_a_tensor_and_a_node_are_numbers() -> None:
    from netcl import autograd as ag

    node = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    kind = Number(np.array([[1, 2], [3, 4]]))
    assert right(kind, node) and right(kind, node.value) and right(kind, [[1, 2], [3, 4]])
    assert right(Number(np.array([3.0, 3.0])), [ag.tensor(3.0), ag.tensor(3.0, requires_grad=True)])


def test_a_number_of_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    assert right(Number(lambda d: d.a + 5), sympy.Integer(7))
    assert right(Number(2**0.5), sympy.sqrt(2))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("7", "without quotes"),
        (True, "truth values"),
        ([1, True], "truth values"),
        (10**400, "too large"),
        ([[1], [1, 2]], "differ in length"),
        (1j, "complex"),
        ({}, "a dict was given"),
        (print, "was given"),
        (Hostile, "could not be read as a number: a Hostile (RuntimeError)"),
        (["7"], "without quotes"),
    ],
)
def test_what_is_no_number_is_said(given: Any, said: str) -> None:
    given = Hostile() if given is Hostile else given
    with pytest.raises(UnfitError) as unfit:
        Number(7).read(given, D)
    assert said in str(unfit.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros(3), "This has shape (3,); an array of shape (2, 1) is asked for."),
        (3, "This has shape (); an array of shape (2, 1) is asked for."),
        ([[1], [float("nan")]], "1 of these numbers are NaN"),
        ([[1], [float("inf")]], "infinite"),
        ([[1], [3]], "1 of these 2 numbers is wrong."),
    ],
)
def test_what_is_wrong_with_an_array_is_said(given: Any, said: str) -> None:
    kind = Number(np.array([[1], [2]]), why="rounding of float32")
    read = kind.read(given, D)
    assert not kind.same(read, kind.target(D))
    assert said in kind.remark(read, D)


def test_an_array_must_have_its_shape_and_a_number_may_stand_in_one() -> None:
    assert not right(Number(np.array([7])), 7)
    assert not right(Number(np.array([7])), [[7]])
    assert right(Number(7), [[7]])
    assert not right(Number(7), [7, 7])


def test_the_tolerance_is_the_stated_one() -> None:
    assert right(Number(100.0, rtol=0.01, atol=0), 100.9)
    assert not right(Number(100.0, rtol=0.01, atol=0), 101.1)
    assert right(Number(0.0, rtol=0, atol=0.5), 0.4)
    assert right(Number(float("nan")), float("nan"))
    assert not right(Number(float("nan")), 0.0)
    assert right(Number(np.array([True, False])), [True, False])


# Formulas


@pytest.mark.parametrize(
    "given",
    [
        "2*x*(y+1)", "2*x*y + 2*x", "x*(2*y + 2)", "2 * (y + 1) * x", "2·x·(y + 1)", "−(−2*x*(y+1))", 
        "pow(2, 1)*x*(1 + y)",
        "2*x*(y+1)*(sin(x)**2 + cos(x)**2)", "where(x < 0, 2*x*(y+1), 2*x*y + 2*x)", "log(exp(2*x*(y+1)))",
        "2.0*x*(y+1)", "2*x*(y**2 - 1)/(y - 1)", "+2*x*(y+1)", "abs(x)*sign(x)*(2*y + 2)",
    ],
)  # fmt: skip
def test_a_formula_in_any_form(given: str) -> None:
    assert right(KINDS[2], given)


def test_a_formula_of_sympy_with_symbols_of_one_s_own() -> None:
    sympy = pytest.importorskip("sympy")
    x, y = sympy.symbols("x y")
    assert right(KINDS[2], sympy.expand(2 * x * (y + 1)))
    assert right(Formula("3"), 3) and right(Formula("1/2"), 0.5)
    with pytest.raises(UnfitError, match="'z' is none of the variables: x, y"):
        KINDS[2].read(sympy.Symbol("z"), D)


@pytest.mark.parametrize(
    "given", ["2*x*y + 1", "2*x*(y+1) + 1e-9", "x*(y+1)", "2*abs(x)*(y+1)", "2*x*y + 2*sqrt(x**2)"]
)
def test_a_formula_that_differs_somewhere_is_another(given: str) -> None:
    assert not right(KINDS[2], given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("2x", "is a * missing"), ("x^2", "write x**2"), ("x²", "x**2"), ("√x", "sqrt(x)"), ("2(x+1)", "2*(x + 1)"),
        ("x(y+1)", "behind x"), ("f(x)", "'f' is none of the functions"), ("z",
        "'z' is none of the variables"), ("", "empty"),
        ("f = 2*x", "right of the equals sign"), ("sin", "sin is a function"), ("sin(x, y)", "number of arguments"),
        ("1/0", "divides by zero"), ("0**-1", "divides by zero"), ("9**9**9", "too large"), ("x**10**9", "too large"),
        ("((9**99)**99)**99", "too large"), ("1e999", "too large"), ("x.real", "is made of"), ("[x]", "is made of"),
        ("x if x else y", "is made of"), ("(lambda: x)()", "is made of"), ("'x'", "is made of"), ("True", "is made of"),
        ("x" * 500, "longer"), ("x @ y", "Only + - * /"), ("x == y", "Of comparisons"), ("x +", "no complete formula"),
        ("__import__('os')", "none of the functions"), ("\ud800", "annot be read"), (3j, "a complex was given"),
    ],
)  # fmt: skip
def test_what_is_no_formula_is_said(given: Any, said: str) -> None:
    with pytest.raises(UnfitError) as unfit:
        KINDS[2].read(given, D)
    assert said in str(unfit.value)


def test_a_domain_that_is_rarely_met_is_decided_by_simplifying() -> None:
    kind = Formula("sqrt(x - 11) + sqrt(11.5 - x)")
    assert right(kind, "sqrt(11.5 - x) + sqrt(x - 11)")
    assert not right(kind, "sqrt(x - 11)")


def test_a_formula_that_is_hard_to_evaluate_ends() -> None:
    start = time.monotonic()
    assert not right(KINDS[2], "exp(exp(exp(100)))*x")
    assert time.monotonic() - start < 60


# Choices and answers about graphs


@pytest.mark.parametrize("given", ["b", "B", " (b) ", "b)", "It sets.", "it  sets", ["b"], {"b"}])
def test_a_choice_in_any_form(given: Any) -> None:
    assert right(KINDS[3], given)


@pytest.mark.parametrize("given", ["ac", "a, c", "c and a", ["c", "a"], {"a", "c"}, ("It adds.", "c")])
def test_several_choices_in_any_order(given: Any) -> None:
    assert right(Choice("ac", options={"a": "It adds.", "b": "It sets.", "c": "It waits."}), given)


@pytest.mark.parametrize("given", ["d", "abd", "It sings.", "", 2, [2], None, "abcabcabcabc"])
def test_what_is_no_choice_is_said(given: Any) -> None:
    with pytest.raises(UnfitError):
        KINDS[3].read(given, D)


@pytest.mark.parametrize(
    ("given", "met"),
    [("ab", 0), ("acd", 1), ("a", 2), ("c", None), ("abd", 0), ("d", 3), ("ad", 1), ("bcd", 3)],
)
def test_a_letter_of_several_has_its_hint(given: str, met: int | None) -> None:
    """An exact rule first; else the rule that explains most of the letters that are too many or missing."""
    options = {letter: f"It is {letter}." for letter in "abcd"}
    kind = Choice("ac", options=options, by_letter=True)
    planted = [kind.read(letters, D) for letters in ("abc", "acd", "a", "cd")]
    assert kind.nearest(kind.read(given, D), planted) == met
    assert Choice("ac", options=options).nearest(kind.read("abcd", D), planted) is None


def test_every_order_that_respects_the_edges_is_right() -> None:
    kind = Order(lambda d: [("a", "p"), ("b", "p"), ("p", "f"), ("a", "f")])
    for given in ("a b p f", ["b", "a", "p", "f"], "b → a → p → f", ("a", "b", "p", "f"), "a, b, p, f"):
        assert right(kind, given)
    for given, said in {
        "f p b a": "4 of the edges are", "a p b f": "1 of the edges is", "a b f": "p left out",
        "a b p f f": "f more than once",
    }.items():  # fmt: skip
        read = kind.read(given, D)
        assert not kind.same(read, kind.target(D))
        assert said in kind.remark(read, D)
    with pytest.raises(UnfitError, match="'z' is none of the names: a, b, f, p"):
        kind.read("a b p z", D)


def test_an_order_is_matched_exactly_before_by_its_mistakes() -> None:
    kind = Order([("a", "p"), ("b", "p")])
    made = [kind.read(text, D) for text in ("p a b", "p b a")]
    assert kind.nearest(kind.read("p b a", D), made) == 1
    assert kind.nearest(kind.read("p, b, a", D), made[:1]) == 0
    assert kind.nearest(kind.read("a p b", D), made) == 0  # p too early, as there
    assert kind.nearest(kind.read("a b", D), made) is None


def test_nodes_count_as_their_names() -> None:
    from netcl import autograd as ag

    x = ag.tensor(2.0, requires_grad=True)
    p = x * x
    f = (p + x) * 1.0
    named = ag.tensor(1.0, requires_grad=True, name="weight")
    # Read here: a variable is looked up where the answer is given.
    assert Order([("x", "p"), ("p", "f")]).read([x, p, f], D).names == ("x", "p", "f")
    assert Paths({("x", "f")}).read([[x, f], [x, p, f]], D) == {("x", "f"), ("x", "p", "f")}
    assert (Word("p").read(p, D), Word("p").read(named, D)) == ("p", "weight")
    with pytest.raises(UnfitError, match="has no name"):
        Word("p").read([ag.tensor(1.0, requires_grad=True)].pop(), D)


@pytest.mark.parametrize(
    "given",
    [
        {("x", "p", "f"), ("x", "f")},
        [["x", "f"], ["x", "p", "f"]],
        ["x→f", "x -> p -> f"],
        "x f; x p f",
        "x f\nx p f",
        ["xpf", "xf"],
    ],
)
def test_paths_in_any_form(given: Any) -> None:
    assert right(Paths({("x", "p", "f"), ("x", "f")}), given)


def test_what_is_wrong_with_paths_is_said() -> None:
    kind = Paths({("x", "p", "f"), ("x", "f")})
    assert kind.remark(kind.read([("x", "f")], D), D) == "All of these are paths; some are missing."
    turned = "A path is turned round: it begins at the input, and follows the arrows."
    assert kind.remark(kind.read([("x", "f"), ("f", "x")], D), D) == turned
    assert kind.remark(kind.read([("p", "f")], D), D) == "This is not a path that is asked for."
    assert kind.remark(kind.read([("x", "f"), ("p", "f")], D), D) == "1 of these 2 is not a path that is asked for."
    assert right(Paths({("x", "f")}), ["x", "f"])


@pytest.mark.parametrize("given", ["sum", " SUM ", "`sum`", "'sum'", "sum.", "total"])
def test_a_word_in_any_form(given: str) -> None:
    assert right(Word("sum", also=["total"]), given)


def test_the_number_of_a_line() -> None:
    assert all(right(Word(3), given) for given in (3, "3", "line 3", "Line  3", np.int64(3)))
    assert not right(Word(3), 4)


# Functions


def square(**options: Any) -> Function:
    return Function(lambda d: lambda x: x * x, cases=lambda rng: [(rng.randint(-9, 9),) for _ in range(6)], **options)


def test_a_function_in_any_form() -> None:
    class Squares:
        def __call__(self, x: int) -> float:
            return float(x * x)

    assert right(square(), lambda x: x**2) and right(square(), Squares())
    assert not right(square(), lambda x: 2 * x)


def test_an_endless_function_is_interrupted() -> None:
    def ends_never(x: int) -> None:
        while True:
            try:
                while True:
                    pass
            except:  # noqa: E722  # the worst of loops
                pass

    kind = square(seconds=0.2)
    start = time.monotonic()
    read = kind.read(ends_never, D)
    assert time.monotonic() - start < 20
    assert "did not come to an end within 0.2 s and was interrupted" in kind.remark(read, D)


def test_the_errors_of_a_function_are_the_student_s_own() -> None:
    def recursive(x: int) -> int:
        return recursive(x)

    def fails(x: int) -> float:
        nothing = 0
        return x / nothing

    def leaves(x: int) -> None:
        raise SystemExit("<b>")

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def mute(x: int) -> None:
        raise MuteError

    line = fails.__code__.co_firstlineno + 2
    for f, said in [
        (recursive, "RecursionError"), (fails, f"ZeroDivisionError: division by zero (line {line})"), (leaves,
        "SystemExit: <b>"),
        (mute, "raised MuteError"), (lambda: 0, "TypeError"),
    ]:  # fmt: skip
        kind = square()
        read = kind.read(f, D)
        assert not kind.same(read, kind.target(D))
        assert said in kind.remark(read, D)
        assert kind.remark(read, D).startswith(f"{f.__name__}(")


def test_a_wrong_function_that_fails_alike_is_the_same() -> None:
    kind = square()
    assert kind.same(kind.read(lambda x: x / 0, D), kind.read(lambda x: 1 // 0, D))
    assert not kind.same(kind.read(lambda x: x / 0, D), kind.read(lambda x: [][x], D))


def test_a_function_that_writes_into_its_arguments_disturbs_nobody() -> None:
    shared = [np.ones(2), {"a": [1.0]}]

    def spoils(array: np.ndarray, table: dict[str, list[float]]) -> float:
        total = array.sum() + table["a"][0]
        array[:] = 99
        table["a"].append(99.0)
        return float(total)

    kind = Function(lambda d: lambda array, table: array.sum() + sum(table["a"]), cases=lambda rng: [tuple(shared)] * 5)
    assert right(kind, spoils) and right(kind, spoils)
    assert shared[0].tolist() == [1, 1] and shared[1] == {"a": [1.0]}


def test_what_a_function_prints_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    square().read(print, D)
    assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.parametrize(
    "result", [Hostile, "huge", "x", None, [1, [2]], [[1], [1, 2]], np.full(2, np.nan), {1: 2}, print, True, 1j]
)
def test_whatever_a_function_returns_is_shown(result: Any) -> None:
    result = {Hostile: Hostile(), "huge": 10**10**5}.get(result, result) if isinstance(result, type | str) else result
    kind = square()
    read = kind.read(lambda x: result, D)
    assert not kind.same(read, kind.target(D))
    assert kind.remark(read, D).startswith("<lambda>(")


def test_a_class_is_used_as_the_exercise_says() -> None:
    class Pair:
        def __init__(self, a: int, b: int) -> None:
            self.sum = a + b

    cases = [(1, 2), (3, 4)]
    kind = Function(lambda d: Pair, cases=lambda rng: cases, call=lambda f, a, b: f(a, b).sum)

    class Mine:
        def __init__(self, first: int, second: int) -> None:
            self.sum = float(second + first)

    assert right(kind, Mine)
    assert not right(kind, lambda a, b: SimpleNamespace(sum=a))


def test_arguments_arrive_as_tensors_where_the_exercise_says() -> None:
    from netcl import Tensor

    kinds: list[type] = []

    def negative(x: Any) -> Any:
        kinds.append(type(x))
        return -x

    kind = Function(
        lambda d: lambda x: -x, cases=lambda rng: [(np.ones((n, 2), np.float32),) for n in range(1, 6)], tensors=True
    )
    assert right(kind, negative)
    assert kinds == [Tensor] * 5


def test_a_stub_is_no_answer() -> None:
    def stub(x: int) -> Any:
        """Says what it is for."""
        ...

    def nothing(x: int) -> None:
        return None

    def zero(x: int) -> int:
        return 0

    assert [square().empty(f) for f in (stub, nothing, zero, ..., None)] == [True, True, False, True, True]
    assert holds_stub([1, [2, ...]]) and holds_stub({"a": ...}) and not holds_stub([None, 0])


def test_a_stub_in_a_function_that_was_begun_is_unfinished() -> None:
    def begun(x: int) -> Any:
        if x == 0:
            return 0
        ...

    def elsewhere(x: Any) -> Any:
        return x[..., 0]

    assert square().unfinished(begun) and not square().empty(begun)
    assert [square().unfinished(f) for f in (elsewhere, abs, lambda x: x, 3)] == [False] * 4


# The time limit itself


def test_the_limit_is_not_felt_by_what_ends_in_time() -> None:
    assert limited(lambda: 3, 5.0) == 3
    with pytest.raises(KeyError):
        limited(lambda: {}["a"], 5.0)
    time.sleep(0.01)  # nothing is thrown afterwards


def test_the_limit_holds_in_another_thread() -> None:
    told: list[BaseException] = []

    def run() -> None:
        try:
            limited(lambda: [None for _ in iter(int, 1)], 0.1)
        except LateError as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert [str(error) for error in told] == ["no result after 0.1 s"]


def test_no_exception_is_left_over_when_the_time_is_just_over() -> None:
    rng = random.Random(1)

    def busy(seconds: float) -> int:
        end = time.perf_counter() + seconds
        count = 0
        while time.perf_counter() < end:
            count += 1
        return count

    late = 0
    for _ in range(60):
        try:
            limited(lambda: busy(0.02 + rng.uniform(-0.01, 0.01)), 0.02)
        except LateError:
            late += 1
        for _ in range(200):  # where a late exception would strike
            pass
    assert late < 60


def test_shown_never_fails() -> None:
    assert [isinstance(shown(thing), str) for thing in HOSTILE] == [True] * len(HOSTILE)


def test_a_sum_is_refused_where_one_fraction_is_asked_for() -> None:
    single = Formula("dx/(x*(x + dx))", variables=("x", "dx"), single=True)
    assert right(single, "dx/(x**2 + x*dx)")
    assert not right(single, "1/x - 1/(x + dx)")
    assert single.nearest(single.read("1/x - 1/(x + dx)", D), [single.target(D)]) == 0


def test_a_kernel_that_is_not_accepted_is_built_once_and_the_compiler_s_line_is_said() -> None:
    tried = []

    def broken(n: int) -> None:
        tried.append(n)
        raise DeviceError(
            "D could not build a kernel:\nBuild on D:\nerror: /a/b.cl:4:33: expected ';'\nDevice D failed"
        )

    kind = Function(lambda d: lambda n: n, cases=lambda rng: [(n,) for n in range(5)])
    said = kind.remark(kind.read(broken, D), D)
    assert tried == [0]
    assert "broken(0) raised" in said and "line 4 of its source: expected ';'." in said


def test_who_returns_no_list_is_told_what_list_is_asked_for() -> None:
    kind = Function(lambda d: lambda n: [n], cases=lambda rng: [(n,) for n in range(5)], returns="a list of one")
    assert kind.remark(kind.read(lambda n: n, D), D).endswith("(0) gives 0; a list of one is asked for.")
