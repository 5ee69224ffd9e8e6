"""Lesson 15 asks what detach cuts, which tape holds which node, what is true of threads, and for three functions: an
evaluation whose mode does not leak, a descent whose tape is not stale, and a gradient that is made by threads."""

from __future__ import annotations

from typing import Any

from netcl import autograd as ag
from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises import lesson_15_build as build
from netcl.teach.exercises.lesson_15_threads import THREADS

# 15.detach: one value is taken out


def _by_netcl(d: Any) -> list[float]:
    x, y = ag.tensor(float(d.x), requires_grad=True), ag.tensor(float(d.y), requires_grad=True)
    p = x * y
    (x * p.detach() + p).backward()
    return [x.grad.item(), y.grad.item()]


DETACH = Exercise(
    name="15.detach", kind="predict",
    asks="[∂f/∂x, ∂f/∂y] of p = xy, f = x·p.detach() + p",
    data=lambda rng: {"x": rng.choice((3, 5, 7)), "y": rng.choice((4, 6, 8))},
    answer=Number(lambda d: [d.x * d.y + d.y, d.x], rtol=1e-6, why="whole numbers: exact in float32"),
    right=(lambda d: [d.x * d.y + d.y, d.x], _by_netcl),
    because="In the first term p is a constant with the value xy; in the second it is a function of both.",
    wrong=(
        Wrong("nothing is cut", lambda d: [2 * d.x * d.y + d.y, d.x * d.x + d.x], (
            "That is the derivative of x·p + p. One of these two p is a constant.",
            "What is detached keeps its value and sends nothing back.",
            "For u·(u²).detach() the derivative is u², not 3u².",
        )),
        Wrong("the whole product is cut", lambda d: [d.y, d.x], (
            "The first term has disappeared altogether.",
            "Only one factor is detached. The other factor still moves, and is multiplied by the constant.",
            "For u·(u²).detach() at u = 10 the derivative is 100, and not nothing.",
        )),
        Wrong("everything is cut", lambda d: [0, 0], (
            "detach() acts on one value, not on all that comes after it.",
            "Draw the graph and take away the one arrow that leads back into p from the product.",
            "In g = u.detach() + u the second u is as alive as ever.",
        )),
        Wrong("the other factor is cut", lambda d: [d.x * d.y + d.y, d.x * d.x + d.x], (
            "∂f/∂x is right. The other one is as if x had been detached in the first term, and not p.",
            "The first term is x times a number. How much does that number move when y moves?",
            "In u·(uv).detach() the letter v occurs inside the constant alone.",
        )),
        Wrong("the second term is forgotten", lambda d: [d.x * d.y, 0], (
            "The same p is used once more, without detach.",
            "A fork: one of the two arrows into p is cut, and the other is not.",
            "In g = 3·p.detach() + 5p, p receives 5.",
        )),
        Wrong("swapped", lambda d: [d.x, d.x * d.y + d.y], (
            "Two right numbers, at the wrong addresses.",
            "The first is asked for x, which occurs in both terms.",
            "For g = 7u + v the list is [7, 1].",
        )),
    ),
)  # fmt: skip


# 15.who: which tape holds what


def _counted(d: Any) -> tuple[int, int]:
    """The lesson's block, run."""
    y: Any = ag.tensor([1.0], requires_grad=True)
    with ag.Tape() as outer:
        for _ in range(d.before):
            y = y * 2.0
        with ag.Tape() as inner:
            for _ in range(d.inside):
                y = y + 1.0
        with ag.no_grad():
            for _ in range(d.silent):
                _ = y * 3.0
        for _ in range(d.after):
            y = y * 0.5
    y = y + 1.0
    return len(outer.nodes), len(inner.nodes)


WHO = Exercise(
    name="15.who", kind="predict",
    asks="[len(outer.nodes), len(inner.nodes)] of the nested tapes",
    data=lambda rng: {
        "before": rng.choice((2, 3)), "inside": rng.choice((5, 6)), "silent": 4, "after": rng.choice((7, 8)),
    },
    answer=Number(lambda d: [d.before + d.after, d.inside], rtol=0, why="counts"),
    right=(lambda d: [d.before + d.after, d.inside], _counted),
    because="Each node is on one tape: the innermost that is open in its thread when it is made.",
    wrong=(
        Wrong("the outer one sees the inner one's", lambda d: [d.before + d.inside + d.after, d.inside], (
            "You have written some nodes down twice.",
            "A node goes onto the innermost tape, and onto no other.",
            "With three tapes inside each other, an operation in the middle of all is on one of them.",
        )),
        Wrong("the inner one stays open", lambda d: [d.before, d.inside + d.after], (
            "What comes after the inner block is still on the inner tape of yours.",
            "Leaving a block restores what was in force outside.",
            "After a bracket is closed the sentence goes on where it was.",
        )),
        Wrong("no_grad writes", lambda d: [d.before + d.silent + d.after, d.inside], (
            "The operations of the silent block are among yours.",
            "Under no_grad no Node is made, so there is nothing to write down.",
            "A block of 70 operations under no_grad leaves a tape at 0.",
        )),
        Wrong("the silent ones go to the inner one", lambda d: [d.before + d.after, d.inside + d.silent], (
            "The inner tape has been left when the silent block begins; and nothing is recorded there.",
            "Under no_grad there are results, but no Nodes.",
            "A block of 70 operations under no_grad changes no count.",
        )),
        Wrong("the last line too", lambda d: [d.before + d.after + 1, d.inside], (
            "The last operation stands behind the outer block.",
            "It makes a Node all the same. Which tape is open then?",
            "An operation outside all blocks is on no tape; its Node still links to its parents.",
        )),
        Wrong("everything on both", lambda d: [d.before + d.inside + d.after] * 2, (
            "That is the number of Nodes that are made in the block. They are shared out between two tapes.",
            "Go through the lines, and ask of each which tape was opened last and is still open.",
            "Two tapes that follow each other never hold the same node.",
        )),
    ),
)  # fmt: skip


# 15.lanes: what is true of threads

_STATEMENTS = {
    "a": "Each tape of a thread holds the nodes of that thread and no others.",
    "b": "The tape of the main thread holds the nodes of both threads, since they were made while it was open.",
    "c": "Nothing is recorded in the threads, since the main thread is under no_grad.",
    "d": "Both threads record, since a new thread begins with recording on and no tape.",
    "e": "w.grad holds the gradient of the thread that came last.",
    "f": "Each thread needs a copy of w, since a leaf belongs to the thread in which it was made.",
    "g": "w.grad holds the sum of what both threads sent.",
}

LANES = Exercise(
    name="15.lanes", kind="explain",
    asks="all that is true of two threads that use one leaf while the main thread is under no_grad (three letters)",
    answer=Choice("adg", options=_STATEMENTS, by_letter=True),
    right=("gda", ["a", "d", "g"], lambda d: {_STATEMENTS[letter] for letter in "adg"}),
    because="Modes and tapes are the thread's; leaves and their gradients are everybody's, and gradients add up.",
    wrong=(
        Wrong("the tape is global", "bdg", (
            "One of these takes the tape for something that the whole process shares.",
            "A node goes onto the innermost tape of the thread that made it.",
            "A diary that lies open in one room records nothing of the next room.",
        )),
        Wrong("modes are the process's", "acg", (
            "One of these takes the mode for something that the whole process shares.",
            "no_grad switches the thread that is in the block.",
            "Who puts on ear plugs makes nobody else deaf.",
        )),
        Wrong("the last one wins", "ade", (
            "One of these forgets how gradients of leaves come together.",
            "Over backward calls they are added, whoever calls.",
            "Two collectors who bring 30 and 40 to one till leave 70 in it.",
        )),
        Wrong("leaves belong to threads", "adfg", (
            "One of these asks for more than is needed.",
            "A leaf is memory and a slot for its gradient; every thread may read it.",
            "Two people can read one map.",
        )),
        Wrong("both are the process's", "bce", (
            "You think of one tape and one mode for all. Then two threads could never work side by side.",
            "What changes what an operation *does* is kept for each thread; what an operation *reads* is shared.",
            "Two cooks share a fridge, but each has a pan of their own.",
        )),
        Wrong("the main tape too", "abdg", (
            "You say that a node is on two tapes.",
            "A node goes onto one tape alone, and the thread that makes it decides which.",
            "With three threads and three tapes, 12 operations give 12 entries and not 24.",
        )),
        Wrong("both silent and recorded", "acdg", (
            "Two of these cannot both be true.",
            "Whether a thread records depends on its own mode alone.",
            "A speaker who is muted in one room can be heard in the next.",
        )),
        Wrong("the sum and the last one", "adeg", (
            "Two of these speak of the same slot and do not agree.",
            "Backward adds to what a leaf holds, and does not replace it.",
            "A slot that holds 50 and is sent 8 holds 58 afterwards.",
        )),
        Wrong("tapes of threads", "dg", (
            "Something that is true is missing: what is on a tape that was opened in a thread?",
            "Each thread has a stack of tapes of its own.",
            "Two clerks with a book each: what the one writes is not in the other's.",
        )),
        Wrong("what becomes of the gradients", "ad", (
            "Something that is true is missing: what does the leaf hold in the end?",
            "The leaf is shared, and what is sent to a leaf is added up.",
            "Letters from two towns to one address arrive in one box.",
        )),
        Wrong("silence at the start", "ag", (
            "Something that is true is missing: do these threads record?",
            "What is a thread's mode before it has switched anything?",
            "A new notebook is neither closed nor full.",
        )),
    ),
)  # fmt: skip


EXERCISES = (DETACH, build.LEAK, WHO, build.STALE, LANES, THREADS)
