"""Lesson 00: bytes of a tensor, what one run of a kernel writes, a kernel of one's own, a test that lies, no GPU."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from netcl.autograd import Node
from netcl.teach.answers import Choice, Function, Number
from netcl.teach.answers.base import on_host
from netcl.teach.exercise import Exercise, Wrong
from netcl.tensor import Tensor
from netcl.user_kernel import kernel

# 00.item


def _item_data(rng: Random) -> dict[str, Any]:
    # Powers of three: every sum and every difference tells which entries it came from. Not the run in the middle, which
    # gives zero whatever one does. Times 11, so that the answer is none of the small numbers in the hints.
    return {"x": rng.sample([11 * 3**i for i in range(7)], 7), "k": rng.choice([1, 2, 4, 5])}


def _mirrored(d: SimpleNamespace) -> int:
    return d.x[len(d.x) - 1 - d.k] - d.x[d.k]


# 00.kernel

_STEPS = """
__kernel void steps(__global const float* x, __global float* out) {
    const size_t i = get_global_id(0);
    out[i] = x[i + 1] - x[i];
}
"""


def _steps(x: Any) -> Any:
    return x[1:] - x[:-1]


def _steps_by_kernel(x: Any) -> Any:
    return kernel(_STEPS)(x, out=(x.size - 1,))


def _launched(steps: Any, x: Any) -> Any:
    """What the kernel wrote. A run too many reads behind the end of x, where anything may lie: zero stands for that."""
    made = steps(x)
    if not isinstance(made, Tensor | Node):
        return f"{type(made).__name__}, which is no tensor"
    found = on_host(made)
    return np.append(found[:-1], np.float32(0)) if found.shape == x.shape else found


def _wrapped(x: Any) -> Any:
    host = x.to_host()
    return Tensor.from_host(np.roll(host, -1) - host)


def _step_cases(rng: Random) -> list[tuple[Any, ...]]:
    # Whole numbers, so that float32 is exact. 2 is the shortest; 64 is a work-group, 65 one more.
    lengths = (2, 3, 7, 64, 65, 1000, 40_000)
    return [(np.array([rng.randint(-50, 50) for _ in range(n)], np.float32),) for n in lengths]


# 00.selftest


def _agrees(got: Any, want: Any) -> bool:
    return bool(np.all(np.abs(got - want) <= 1e-5 * np.maximum(1, np.abs(want))))


def _agrees_in_a_loop(got: Any, want: Any) -> bool:
    for g, w in zip(np.ravel(got), np.ravel(want), strict=True):
        if not abs(g - w) <= 1e-5 * max(1, abs(w)):
            return False
    return True


def _nan_slips(got: Any, want: Any) -> bool:
    return not np.any(np.abs(got - want) > 1e-5 * np.maximum(1, np.abs(want)))


def _agree_cases(rng: Random) -> list[tuple[Any, ...]]:
    plain = np.array([rng.uniform(-2, 2) for _ in range(6)])
    last, below, hidden = plain.copy(), plain.copy(), np.ones(1000)
    last[-1] += 0.1
    below[2] -= 0.5
    hidden[rng.randrange(500, 900)] += 0.005
    large = np.array([3e6, 5e6, 8e6])
    return [
        (plain.copy(), plain),
        (plain.reshape(2, 3) + 1e-7, plain.reshape(2, 3)),
        (plain + np.array([0.1, -0.1, 0, 0, 0, 0]), plain),
        (below, plain),
        (last, plain),
        (hidden, np.ones(1000)),
        (large + 1, large),
        (-large - 1, -large),
        (np.array([1.0, np.nan, 2.0]), np.array([1.0, 1.0, 2.0])),
        (np.array([np.nan]), np.array([np.nan])),
        (np.array(0.5), np.array(0.5)),
        (np.array([1000.0, 1.005]), np.array([1000.0, 1.0])),
        (np.array([2.0, 5e-6]), np.array([2.0, 0.0])),
        (np.array([2.0, 1e-9]), np.array([2.0, 0.0])),
        (np.array([1.000015, 2.0]), np.array([1.0, 2.0])),
    ]


# 00.gpu

_WHY_NO_GPU = {
    "a": "A driver for the CPU compiles the same OpenCL kernels for the CPU's cores.",
    "b": "netcl notices that there is no GPU and computes everything with NumPy.",
    "c": "Every processor has some graphics inside; without any the kernels could not run.",
    "d": "The kernels are sent to a computer on the network that has a GPU.",
    "e": "Python reads the kernel's text and does what it says, place by place.",
    "f": "The results are stored in the notebook; nothing is computed.",
}

# A wrong rule with its three hints reads as one block.
# fmt: off
EXERCISES = (
    Exercise(
        name="00.bytes", kind="predict",
        asks="how many bytes a tensor takes that is made of a list of lists",
        data=lambda rng: {"rows": rng.randint(6, 12), "cols": rng.randint(13, 30)},
        answer=Number(lambda d: 4 * d.rows * d.cols, rtol=0, atol=0, why="a count of bytes is a whole number"),
        right=(
            lambda d: 4 * d.rows * d.cols,
            lambda d: float(np.zeros((d.rows, d.cols), np.float32).nbytes),
            lambda d: Tensor.from_host(np.zeros((d.rows, d.cols)).tolist()).nbytes,
        ),
        because="Rows times columns entries; Python's numbers become float32, of which each takes 32 bits.",
        wrong=(
            Wrong("float64", lambda d: 8 * d.rows * d.cols, (
                "Your number is that of NumPy's usual dtype.",
                "From Python's numbers netcl makes float32, not float64: look at the cell that prints both.",
                "A list of 3 numbers: NumPy makes 24 bytes of it, netcl half as many.",
            )),
            Wrong("entries", lambda d: d.rows * d.cols, (
                "You counted the entries.",
                "Every entry takes several bytes: its dtype says how many bits, and a byte has eight.",
                "Five entries of float32 take 20 bytes, not 5.",
            )),
            Wrong("bits", lambda d: 32 * d.rows * d.cols, (
                "Your number is right in another unit.",
                "The 32 in float32 counts bits; there are eight of them in a byte.",
                "One entry of float32 is 32 bits long; three of them take 12 bytes.",
            )),
            Wrong("one row", lambda d: 4 * d.cols, (
                "That is what a part of the table takes.",
                "Each of the rows has all of the columns.",
                "A table of 2 rows and 3 columns has six entries, not three.",
            )),
            Wrong("sum of lengths", lambda d: 4 * (d.rows + d.cols), (
                "The number of entries is off.",
                "The lengths of the axes are multiplied, not added.",
                "A shape of (2, 3) has six entries, although 2 + 3 is five.",
            )),
        ),
    ),
    Exercise(
        name="00.item", kind="predict",
        asks="the number that one run of the kernel `mirror` writes",
        data=_item_data,
        answer=Number(_mirrored, rtol=0, atol=1e-3, why="whole numbers: exact in float32"),
        right=(_mirrored, lambda d: np.float32(d.x[::-1][d.k] - d.x[d.k]), lambda d: float(d.x[-1 - d.k]) - d.x[d.k]),
        because="Run i reads the entry as far from the end as entry i is from the start, and subtracts entry i.",
        wrong=(
            Wrong("sign", lambda d: -_mirrored(d), (
                "The two entries are the right ones.",
                "Look at which of them is subtracted from which.",
                "With 8 at the mirrored place and 3 at place i, the run writes 8 − 3, not 3 − 8.",
            )),
            Wrong("off by one", lambda d: d.x[len(d.x) - d.k] - d.x[d.k], (
                "One of the two entries is next to the right one.",
                "The last entry of an array of length n stands at n − 1, since the first stands at 0.",
                "For n = 4 and run 1 the kernel reads x[4 − 1 − 1] = x[2], not x[3].",
            )),
            Wrong("runs from one", lambda d: d.x[len(d.x) - d.k] - d.x[d.k - 1], (
                "That is what the run before this one writes.",
                "Runs are numbered from 0: the first run has i = 0.",
                "Run number 3 is the fourth run, and reads x[3].",
            )),
            Wrong("first term alone", lambda d: d.x[len(d.x) - 1 - d.k], (
                "Your number is a part of what is written.",
                "The line has two terms: x at the mirrored place, minus x at i.",
                "With 8 at the mirrored place and 3 at place i, the run writes 8 − 3, not 8.",
            )),
            Wrong("neighbours", lambda d: d.x[d.k + 1] - d.x[d.k], (
                "One of the entries is taken from the wrong place.",
                "n − 1 − i counts from the end of the array; it is not the place beside i.",
                "For n = 9, run 2 reads the places 6 and 2, not 3 and 2.",
            )),
            Wrong("added", lambda d: d.x[len(d.x) - 1 - d.k] + d.x[d.k], (
                "The places are right; what is done with their entries is not.",
                "Read the sign between the two terms again.",
                "With 8 at the mirrored place and 3 at place i, the run writes 8 − 3, not 8 + 3.",
            )),
        ),
    ),
    Exercise(
        name="00.kernel", kind="build",
        asks="steps(x): a kernel for the differences between neighbours, later minus earlier",
        answer=Function(lambda d: _steps, cases=_step_cases, rtol=0, atol=1e-3, why="whole numbers: exact in float32",
                        tensors=True, call=_launched),
        right=(lambda d: _steps, lambda d: _steps_by_kernel),
        because="Run i reads the places i and i + 1, and there is one run fewer than there are entries.",
        wrong=(
            Wrong("sign", lambda d: lambda x: x[:-1] - x[1:], (
                "The sizes of the results are right, their signs are not.",
                "Later minus earlier: what grows has positive steps.",
                "From 2 to 7 the step is +5.",
            )),
            Wrong("added", lambda d: lambda x: x[1:] + x[:-1], (
                "Something other than a difference is computed.",
                "A step says how far it is from one entry to the next: subtract.",
                "From 20 to 70 the step is 50; 90 would be their sum.",
            )),
            Wrong("from the first", lambda d: lambda x: x[1:] - x[0], (
                "The first result is right, later ones are not.",
                "Each step starts at the neighbour, not at the first entry: the place subtracted moves with i.",
                "In 1, 4, 9 the second step is 9 − 4; the distance 9 − 1 is from the start.",
            )),
            Wrong("all around", lambda d: _wrapped, (
                "The result is too long.",
                "The last entry has no neighbour after it: n entries have n − 1 steps.",
                "Three numbers on a line have two gaps between them; `out=(2,)` makes two runs.",
            )),
            Wrong("without signs", lambda d: lambda x: abs(x[1:] - x[:-1]), (
                "Results are right where x grows.",
                "A step down is negative: the direction belongs to it.",
                "From 7 to 2 the step is −5; 5 would be the distance.",
            )),
            Wrong("the later one alone", lambda d: lambda x: x[1:], (
                "Each result is one of the entries.",
                "x[i + 1] is where the step ends. Where does it start?",
                "From 30 to 70 the step is 40, not 70.",
            )),
            Wrong("on the host", lambda d: lambda x: np.diff(x.to_host()), (
                "What comes back is no tensor: NumPy made it, or it was read back too early.",
                "Give a source to `nc.kernel`, call what that returns, and return the result as it is.",
                "In section 3, `line(x, out=x.shape)` is a tensor, and `.to_host()` of it is an array.",
            )),
        ),
    ),
    Exercise(
        name="00.selftest", kind="debug",
        asks="agrees(got, want): True exactly if every entry agrees",
        answer=Function(lambda d: _agrees, cases=_agree_cases, rtol=0, atol=0, why="an answer is True or False"),
        right=(lambda d: _agrees, lambda d: _agrees_in_a_loop),
        because="Each entry is compared by itself, with what its size allows; a comparison with NaN is never true.",
        wrong=(
            Wrong("errors cancel", lambda d: lambda got, want: bool(abs(np.sum(got - want)) < 1e-5), (
                "Errors in two places may hide each other.",
                "A sum of differences can be zero though none of them is: take sizes first, place by place.",
                "Off by +5 here and by −5 there: the sum is nothing, and both are wrong.",
            )),
            Wrong("no absolute value", lambda d: lambda got, want: bool(
                np.all(got - want <= 1e-5 * np.maximum(1, np.abs(want)))), (
                "An entry that is far too small gets through.",
                "A large negative difference is less than any allowance: what counts is its size.",
                "2 in place of 7 differs by −5, and −5 is less than 0.1.",
            )),
            Wrong("the first entry alone", lambda d: lambda got, want: bool(
                abs(np.ravel(got)[0] - np.ravel(want)[0]) <= 1e-5 * max(1, abs(np.ravel(want)[0]))), (
                "A fault in a later place is not seen.",
                "Every entry must be looked at, not one for all.",
                "[3, 4] and [3, 9] begin alike.",
            )),
            Wrong("the same for large ones", lambda d: lambda got, want: bool(np.all(np.abs(got - want) <= 1e-5)), (
                "Large numbers that agree to seven digits are refused.",
                "What is allowed grows with the size of the wanted entry.",
                "At 4000000 a difference of 2 is within the allowance, which is 40 there.",
            )),
            Wrong("NaN gets through", lambda d: _nan_slips, (
                "One kind of entry is let through that agrees with nothing.",
                "Each comparison with NaN gives the same answer. Ask that all are small, not that none is large.",
                "For nan, `nan > 5` and `nan <= 5` are both the same. Which of the two lines lets it pass?",
            )),
            Wrong("on average", lambda d: lambda got, want: bool(
                np.mean(np.abs(got - want)) <= 1e-5 * max(1, np.max(np.abs(want)))), (
                "One fault among many entries is not seen.",
                "An average makes one large error small: compare place by place.",
                "One error of 3 among 10000 entries is 0.0003 on average.",
            )),
            Wrong("sign of want", lambda d: lambda got, want: bool(
                np.all(np.abs(got - want) <= 1e-5 * np.maximum(1, want))), (
                "Large negative numbers are treated like small ones.",
                "The allowance goes by the size of the wanted entry, and a size has no sign.",
                "At −4000000 the allowance is 40, as it is on the other side of zero.",
            )),
            Wrong("one allowance for all", lambda d: lambda got, want: bool(
                np.max(np.abs(got - want)) <= 1e-5 * max(1, np.max(np.abs(want)))), (
                "One large entry makes room for errors in all the others.",
                "The allowance belongs to an entry, as the difference does: `np.maximum(1, …)` of the whole array.",
                "Beside an entry of 7000 an error of 0.05 in an entry of 2 must be seen: there 0.00002 is allowed.",
            )),
            Wrong("numpy.allclose as it comes", lambda d: lambda got, want: bool(np.allclose(got, want)), (
                "Near zero you are stricter than was asked.",
                "`np.allclose` has two allowances of its own, `rtol` and `atol`, and adds them up. Write your own.",
                "Where 0 is wanted, 3e-6 is within what the exercise allows, and far beyond 1e-8.",
            )),
            Wrong("two allowances added", lambda d: lambda got, want: bool(
                np.allclose(got, want, rtol=1e-5, atol=1e-5)), (
                "Near one, twice as much gets through as was asked.",
                "The larger of two allowances is not their sum.",
                "Where 1 is wanted, `atol + rtol * 1` allows 0.00002, and the exercise half of that.",
            )),
            Wrong("purely relative", lambda d: lambda got, want: bool(
                np.all(np.abs(got - want) <= 1e-5 * np.abs(want))), (
                "Where zero is wanted, you let nothing pass but zero itself.",
                "The allowance has a floor: it goes by the size of the entry only where that is more than 1.",
                "Where 0.01 is wanted, 0.010005 is within 0.00001 of it, though not within a hundred-thousandth of it.",
            )),
        ),
    ),
    Exercise(
        name="00.gpu", kind="explain",
        asks="why the notebook runs on a laptop without any graphics",
        answer=Choice("a", options=_WHY_NO_GPU),
        right=(lambda d: "a", lambda d: _WHY_NO_GPU["a"], lambda d: ["a"]),
        because="OpenCL is a standard; whose processor follows it is the driver's business.",
        wrong=(
            Wrong("NumPy in its place", lambda d: "b", (
                "Which kernels did `viz.kernels` show, and what was compiled?",
                "netcl has no second way to compute: without a device it raises an error.",
                "With no driver at all, `ag.tensor([1.0]) + 2.0` is a DeviceError, and not 3.0.",
            )),
            Wrong("OpenCL needs a GPU", lambda d: "c", (
                "Look at what `device.kind` said in section 8.",
                "A kernel needs a processor and a driver for it, not a graphics processor.",
                "One text in C for 2 + 3 gives 5 on a telephone, a laptop and a server: three compilers were written.",
            )),
            Wrong("the network", lambda d: "d", (
                "Pull out the cable and run the notebook again.",
                "A device belongs to the machine on which the notebook's Python runs.",
                "On a machine with 8 GiB, the table of section 1 says about 8 GiB of memory: its own.",
            )),
            Wrong("interpreted by Python", lambda d: "e", (
                "Who builds the kernel when it is first called?",
                "A kernel's text is compiled to the processor's own instructions; Python only hands it over.",
                "A loop of Python over 10000000 numbers makes you wait for seconds; `x + 1.0` on as many does not.",
            )),
            Wrong("nothing runs", lambda d: "f", (
                "Change a number in section 3 and run that cell again.",
                "A stored output is replaced whenever its cell runs.",
                "Put 5.0 for the 3.0 in its list: the last number becomes 16, which no stored output has.",
            )),
        ),
    ),
)
# fmt: on
