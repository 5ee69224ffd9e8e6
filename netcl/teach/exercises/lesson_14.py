"""Lesson 14 asks how many work-items a launch has, when the host gets back from two kinds of queue, what has happened
when it does, for a kernel with edges, for what writes out of bounds, and for a benchmark that measures what it says."""

from __future__ import annotations

from random import Random
from typing import Any

from netcl.teach.answers import Choice, Number
from netcl.teach.exercise import Exercise, Wrong
from netcl.teach.exercises import lesson_14_build as build

# 14.items: the size of a launch


def _items(d: Any) -> int:
    return -(-d.n // d.group) * d.group


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


ITEMS = Exercise(
    name="14.items", kind="predict",
    asks="[work-items launched, work-items that return at the guard], for n entries in groups of the given size",
    data=lambda rng: {"n": rng.choice((290, 300, 310, 330, 335, 370)), "group": 64},
    answer=Number(lambda d: [_items(d), _items(d) - d.n], rtol=0, why="counts"),
    right=(
        lambda d: [_items(d), _items(d) - d.n],
        lambda d: ((d.n + d.group - 1) // d.group * d.group, -d.n % d.group),
    ),
    because="Groups come whole, so the count is rounded up, and the guard sends home those that have no entry.",
    wrong=(
        Wrong("one for each entry", lambda d: [d.n, 0], (
            "No group size divides this number of entries. Who fills the last group?",
            "A launch is made of whole groups.",
            "Ten guests at tables of four need three tables, and at those stand twelve chairs.",
        )),
        Wrong("rounded down", lambda d: [d.n // d.group * d.group, 0], (
            "With so few work-items the last entries would never be written.",
            "Round up: an entry that nobody computes is worse than a work-item with nothing to do.",
            "Ten guests at two tables of four leave two guests standing.",
        )),
        Wrong("rounded down, and the rest", lambda d: [d.n // d.group * d.group, d.n % d.group], (
            "Your second number is that of entries without a work-item. There must be none.",
            "Round up: then it is work-items that are left over, and not entries.",
            "Ten guests at two tables of four: two stand. At three tables two chairs are free.",
        )),
        Wrong("groups for items", lambda d: [_items(d) // d.group, _items(d) - d.n], (
            "The first number counts groups. Each of them has many work-items.",
            "Multiply the number of groups by the size of a group.",
            "Three tables of four are twelve chairs, not three.",
        )),
        Wrong("the filled part of the last group", lambda d: [_items(d), d.n % d.group], (
            "The second number counts those of the last group that do have an entry.",
            "Those that return early are the others: launched less needed.",
            "At the third table of four two chairs are taken; with ten guests the free ones are what is asked for. "
            "With eleven, three would be taken and one free.",
        )),
        Wrong("one group too many", lambda d: [_items(d) + d.group, _items(d) + d.group - d.n], (
            "The last group of yours has no entry at all.",
            "Round up once: divide, and take the next whole number, not the one after it.",
            "For ten guests and tables of four: 10/4 lies between two and three, and three is enough.",
        )),
        Wrong("the next power of two", lambda d: [_power_of_two(d.n), _power_of_two(d.n) - d.n], (
            "The group is a power of two here; the launch need not be.",
            "Any multiple of the group's size will do.",
            "Twelve chairs are three tables of four, and twelve is no power of two.",
        )),
    ),
)  # fmt: skip


# 14.returns: the host's time on two kinds of queue

RETURNS = Exercise(
    name="14.returns", kind="predict",
    asks="[ms until both are done where enqueue blocks, ms where it returns at once], for a kernel and host work",
    data=lambda rng: {"kernel": rng.choice((40, 55, 65)), "host": rng.choice((10, 15, 25))},
    answer=Number(lambda d: [d.kernel + d.host, max(d.kernel, d.host)], rtol=0, why="whole ms"),
    right=(
        lambda d: [d.kernel + d.host, max(d.kernel, d.host)],
        lambda d: (float(sum((d.host, d.kernel))), float(d.kernel)),
    ),
    because="Where enqueue blocks the two follow each other. Where it returns, they overlap and the longer decides.",
    wrong=(
        Wrong("at once, both", lambda d: [max(d.kernel, d.host)] * 2, (
            "One of the two queues runs the kernel inside the call.",
            "While such a call lasts, the host does nothing else.",
            "Standing at the copier for 3 minutes, then reading for 5, takes 8.",
        )),
        Wrong("blocking, both", lambda d: [d.kernel + d.host] * 2, (
            "One of the two queues lets the host go on at once.",
            "What happens at the same time is not added.",
            "Leave the copier to itself for 3 minutes and read for 5 meanwhile: 5 in all.",
        )),
        Wrong("swapped", lambda d: [max(d.kernel, d.host), d.kernel + d.host], (
            "Two right numbers, in the other order.",
            "Blocking is the slow one: nothing overlaps.",
            "Who waits beside the copier needs the sum; who walks away needs the longer of the two.",
        )),
        Wrong("the host alone", lambda d: [d.kernel + d.host, d.host], (
            "The host is done then. Is the kernel?",
            "A call that returns at once has not ended the work: what overlaps ends with the longer one.",
            "A copier that needs 9 minutes is not done when its owner has read for 5.",
        )),
        Wrong("the host alone, both", lambda d: [d.host, d.host], (
            "The kernel's own time is in neither number.",
            "Both have to be done before the clock is stopped; and on one of the queues the host stands and waits.",
            "Five minutes of reading do not end the copying, which takes nine.",
        )),
        Wrong("shared equally", lambda d: [d.kernel + d.host, (d.kernel + d.host) / 2], (
            "Two workers with one task each do not share their tasks.",
            "The kernel cannot be taken over by the host, nor the other way round.",
            "Copier 3 minutes, reader 5 minutes: nobody reads less because the copier is done.",
        )),
        Wrong("the difference", lambda d: [d.kernel + d.host, abs(d.kernel - d.host)], (
            "A difference says how long one waits for the other, not how long both take.",
            "Draw two bars that begin together; the end is where the last one ends.",
            "Bars of 3 and 5 that begin together end at 5.",
        )),
    ),
)  # fmt: skip


# 14.done: what is true when Python returns

_STATEMENTS = {
    "a": "The kernel has run, since the line is over.",
    "b": "The shape and the dtype of y are known.",
    "c": "The time that the line took is the time of the kernel.",
    "d": "An operation that reads y may be enqueued at once and will find it complete.",
    "e": "y.to_host() may show old memory if it is called too early.",
    "f": "y.to_host() will wait and then show the right values.",
    "g": "Nothing has been handed to the device: that is put off until y is needed.",
}

DONE = Exercise(
    name="14.done", kind="explain",
    asks="all that is true when `y = x * 2.0` has returned on a queue that returns at once (three letters)",
    answer=Choice("bdf", options=_STATEMENTS, by_letter=True),
    right=("bdf", {"f", "d", "b"}, lambda d: [_STATEMENTS[letter] for letter in "fbd"]),
    because="The host knows what y will be; the queue keeps the order; reading waits. Only the numbers come later.",
    wrong=(
        Wrong("when Python returns, the kernel is done", "abdf", (
            "One of these is too much: a queue that returns at once has not worked at once.",
            "Look at the event's state right after the call.",
            "A letter is not delivered when it drops into the box.",
        )),
        Wrong("the line's time is the kernel's", "bcdf", (
            "One of these confuses the call with what it asks for.",
            "The call returns while the work goes on, so a stopwatch around it stops too early.",
            "Posting a parcel takes a minute. Its journey takes two days.",
        )),
        Wrong("reading may come too early", "bdef", (
            "One of these would make every program wrong now and then.",
            "Reading is a command in the same queue, and the host waits for it.",
            "Who collects a parcel at the counter gets it, or waits for it; never an empty box.",
        )),
        Wrong("nothing has begun", "bdfg", (
            "One of these describes another kind of library.",
            "netcl hands each kernel over when its operation is called; only the end is open.",
            "The letter is in the box: that is more than a plan to write it.",
        )),
        Wrong("an order must be made by hand", "bf", (
            "Something that is true is missing.",
            "Commands of one queue run in the order in which they were given.",
            "On an assembly line nobody asks whether the station before is finished.",
        )),
        Wrong("reading is forbidden", "bd", (
            "Something that is true is missing. What does a host do that asks for numbers which are not there yet?",
            "to_host() is a command of the same queue, and it blocks.",
            "Who comes to the counter before the parcel does waits there, and then has it.",
        )),
        Wrong("the host knows nothing yet", "df", (
            "One thing is known without any kernel.",
            "Shapes and dtypes follow from those of the operands; no number is needed.",
            "A (7, 3) array times a number has the shape (7, 3), whatever stands in it.",
        )),
        Wrong("all is done", "abcf", (
            "You treat the call as if it ran the kernel. That was the other queue.",
            "Enqueue means to put into a queue. Ask what the entry in the queue still lacks.",
            "Ordering a meal and eating it are two events, and the bill for the first shows nothing of the second.",
        )),
    ),
)  # fmt: skip


# 14.outside: out of bounds by arithmetic


def _first(d: Any) -> int:
    """The first work-item whose index is the length of `out` or more."""
    return -((d.shift - d.n) // d.stride)


def _outside_data(rng: Random) -> dict[str, Any]:
    return {"n": rng.choice((14, 18, 20)), "stride": 2, "shift": rng.choice((3, 5))}


OUTSIDE = Exercise(
    name="14.outside", kind="predict",
    asks="[writes outside, bytes from the start of `out` to the first of them] of out[stride * i + shift] = x[i]",
    data=_outside_data,
    answer=Number(lambda d: [d.n - _first(d), 4 * (d.stride * _first(d) + d.shift)], rtol=0, why="counts"),
    right=(
        lambda d: [d.n - _first(d), 4 * (d.stride * _first(d) + d.shift)],
        lambda d: (lambda out: (float(len(out)), 4.0 * out[0]))(
            [i for i in range(d.shift, d.shift + d.stride * d.n, d.stride) if i >= d.n]
        ),
    ),
    because="Places run from 0 to n − 1. The first one outside that is met need not be n; a float32 is four bytes.",
    wrong=(
        Wrong("always place n", lambda d: [d.n - _first(d), 4 * d.n], (
            "The count is right. Does any work-item write just behind the end?",
            "With a stride some places are skipped: take the first one outside that is really written.",
            "With out[3 * i] and 100 places the ones met are 99, inside, and then 102: place 100 is left out.",
        )),
        Wrong("the last one inside as well", lambda d: [
            d.n - _first(d) + 1, 4 * (d.stride * (_first(d) - 1) + d.shift)
        ], (
            "One write too many. What is the last place of the array?",
            "Places are counted from 0, so the last one is the length less one, and it is inside.",
            "An array of 100 entries has the places 0 to 99.",
        )),
        Wrong("places for bytes", lambda d: [d.n - _first(d), d.stride * _first(d) + d.shift], (
            "The count is right. The second number is a place, and bytes are asked for.",
            "Each entry before it takes the bytes of a float.",
            "Place 100 of an array of doubles, of eight bytes each, is 800 bytes from its start.",
        )),
        Wrong("the work-item for the place", lambda d: [d.n - _first(d), 4 * _first(d)], (
            "The count is right. You took the number of the work-item for the place where it writes.",
            "Put the work-item's number into the index of the left side.",
            "With out[3 * i + 30], work-item 7 writes place 51.",
        )),
        Wrong("stride forgotten", lambda d: [d.shift, 4 * d.n], (
            "That is what the shift alone does.",
            "Neighbouring work-items write places that are a stride apart, so the end is reached earlier.",
            "With stride 10 and 100 places, the work-items from the tenth on are too many.",
        )),
        Wrong("bytes past the end", lambda d: [d.n - _first(d), 4 * (d.stride * _first(d) + d.shift - d.n)], (
            "The count is right. You measured from the end of the array.",
            "Measure from its start, as an address does.",
            "In an array of 100 floats, place 103 lies 412 bytes from the start, though 12 behind the end.",
        )),
        Wrong("those inside", lambda d: [_first(d), 4 * (d.stride * _first(d) + d.shift)], (
            "The place is right. You counted the work-items that stay inside.",
            "All work-items less those that stay inside.",
            "If 70 of 100 stay inside, there are 30 faults.",
        )),
    ),
)  # fmt: skip


EXERCISES = (ITEMS, build.SMOOTH, RETURNS, DONE, build.BENCHMARK, OUTSIDE)
