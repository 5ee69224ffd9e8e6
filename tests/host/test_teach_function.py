"""When a function, or a class, that the student is to write counts as not yet written."""

from types import SimpleNamespace

import numpy as np

from netcl.teach.answers import Function


def cases(rng: object) -> list[tuple[int]]:
    return [(1,), (2,)]


TWICE = Function(lambda d: lambda x: 2 * x, cases=cases)


def test_a_stub_is_empty_and_a_wrong_function_is_not():
    def stub(x):
        "What it should do."
        ...

    def wrong(x):
        return x

    assert TWICE.empty(stub) and TWICE.empty(...)
    assert not TWICE.empty(wrong)


def test_a_function_with_a_stub_inside_is_empty():
    def begun(a):
        def grad_fn(g):
            "What goes back."
            ...

        return a, grad_fn

    def done(a):
        def grad_fn(g):
            "What goes back."
            return [g]

        return a, grad_fn

    assert TWICE.empty(begun) and not TWICE.empty(done)


def test_a_class_with_a_stub_among_its_methods_is_empty():
    class Begun:
        def __init__(self, x):
            self.x = x

        def twice(self): ...

    class Done(Begun):
        def twice(self):
            return 2 * self.x

    run = Function(lambda d: Done, cases=cases, call=lambda made, x: made(x).twice())
    assert run.empty(Begun) and not run.empty(Done)
    assert run.same(run.read(Done, SimpleNamespace()), run.target(SimpleNamespace()))


def test_a_case_is_told_in_words_where_a_call_would_not_exist():
    told = Function(lambda d: lambda x: 2 * x, cases=cases, say=lambda x: f"twice, of the number {x},")
    read = told.read(lambda x: 2 * x + 1, SimpleNamespace())
    assert told.remark(read, SimpleNamespace()).startswith(f"twice, of the number {cases(None)[0][0]}, gives ")


def test_named_parts_are_said_to_be_right_wrong_or_missing_instead_of_shown():
    both = Function(lambda d: lambda x: [2 * x, 3 * x, x], cases=cases, parts=("double", "triple", "same"))
    read = both.read(lambda x: [2 * x, np.array([x, x]), None], SimpleNamespace())
    told = both.remark(read, SimpleNamespace())
    assert told.endswith("(1): right: double; wrong: triple (its shape is (2,)); missing: same.")
    found = both.read(lambda x: [2 * x, float("nan"), x], SimpleNamespace())
    assert "right: double, same; wrong: triple (there is NaN in it)." in both.remark(found, SimpleNamespace())
    short = both.read(lambda x: [2 * x], SimpleNamespace())
    assert "that is not right" in both.remark(short, SimpleNamespace())
