"""Halves of vectors, written lane by lane: Oclgrind 19.10 takes `v.lo` for uninitialised, whatever is in v.

Its shadow memory gets LLVM's `shufflevector` wrong, which `.lo` and `.hi` become; single components it gets right. So
the kernels are compiled with other words for the same values. Nothing is let pass: a lane that was never written is
still one, and is found (see faults/uninitialised_lane.py).
"""

from __future__ import annotations

import re

# A half is as wide as what it initialises: `const float8 h = a.lo + a.hi;`.
_INITIALISED = re.compile(r"const (?P<scalar>[a-z]+?)(?P<width>\d*) \w+ = [^;]*\.(?:lo|hi)\b[^;]*;")
_HALF = re.compile(r"\b(\w+)\.(lo|hi)\b")


def by_lane(source: str) -> str:
    """Write the halves in the initialisers of some OpenCL C lane by lane.

    >>> by_lane("const float2 h = a.lo + a.hi;")
    'const float2 h = (float2)(a.s0, a.s1) + (float2)(a.s2, a.s3);'
    """
    return _INITIALISED.sub(_rewritten, source)


def _rewritten(match: re.Match[str]) -> str:
    width = int(match["width"] or 1)

    def lanes(half: re.Match[str]) -> str:
        first = 0 if half[2] == "lo" else width
        parts = ", ".join(f"{half[1]}.s{lane:x}" for lane in range(first, first + width))
        return parts if width == 1 else f"({match['scalar']}{width})({parts})"

    return _HALF.sub(lanes, match[0])
