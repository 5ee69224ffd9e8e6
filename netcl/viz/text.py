"""Text that a user chose, made safe, measured and shortened: the only place where a picture escapes anything."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Widths in hundredths of an em, of the widest common sans-serif (DejaVu Sans), so that no other font overflows.
_PLAIN_WIDTHS = (
    "32 40 46 84 64 95 78 27 39 39 50 84 32 36 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84 53 100 68 69 70 "
    "77 63 58 77 75 29 29 66 56 86 75 79 60 79 69 63 61 73 68 99 69 61 69 39 34 39 84 50 50 61 63 55 63 62 35 63 "
    "63 28 28 58 28 97 63 61 63 63 41 52 39 63 59 82 59 59 52 64 34 64 84 "
)
_BOLD_WIDTHS = (
    "35 46 52 84 70 100 87 31 46 46 52 84 38 42 38 37 70 70 70 70 70 70 70 70 70 70 40 40 84 84 84 58 100 77 76 "
    "73 83 68 68 82 84 37 37 77 64 100 84 85 73 85 77 72 68 81 77 110 77 72 73 46 37 46 84 50 50 67 72 59 72 68 "
    "44 72 71 34 34 67 34 104 71 69 72 72 49 60 48 71 65 92 65 65 58 71 37 71 84 "
)
_EXTRA = "∂55 ²44 ³44 ¹44 ⁰44 ⁴44 ⁵44 ⁶44 ⁷44 ⁸44 ⁹44 ⁻54 ᵀ44 ·38 √68 ∇70"
_MONO = 0.62
_WIDE = 1.12  # East Asian characters and emoji
_UNKNOWN = 1.0
# What changes the direction of the text around it, or cannot be seen at all, is left out; a joiner inside a word stays.
_JOINERS = "\u200c\u200d"
_ISOLATE, _END = "\u2068", "\u2069"
_LETTERS = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RIGHT_TO_LEFT = re.compile(f"[{_LETTERS}]+(?:[ _]+[{_LETTERS}]+)*")
_SHORT = 60  # characters: a picture repeats captions, shapes and numbers, and not whole kernels
ELLIPSIS = "…"


def _table(widths: str) -> dict[str, float]:
    table = {chr(32 + i): int(width) / 100 for i, width in enumerate(widths.split())}
    return table | {entry[0]: int(entry[1:]) / 100 for entry in _EXTRA.split()}


_WIDTHS = {False: _table(_PLAIN_WIDTHS), True: _table(_BOLD_WIDTHS)}


def clean(text: str) -> str:
    """The text without what XML forbids or what would upset its neighbours: controls, surrogates, direction marks.

    >>> clean("a\\x00b\\nc"), clean("\\u202eabc")
    ('ab c', 'abc')
    """
    if text.isprintable():  # nothing of the kinds below
        return text
    kept = []
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category in ("Zl", "Zp"):
            kept.append(" ")
        elif (category not in ("Cc", "Cf", "Cs") or char in _JOINERS) and ord(char) & 0xFFFE != 0xFFFE:
            kept.append(char)
    return "".join(kept)


def isolate(text: str) -> str:
    """The text with what reads from right to left fenced, so that the formula around it keeps its order."""
    return text if text.isascii() else _RIGHT_TO_LEFT.sub(f"{_ISOLATE}\\g<0>{_END}", text)


def xml(text: str) -> str:
    """The text as XML character data or as the value of an attribute.

    >>> xml('x < y & "q"')
    'x &lt; y &amp; &quot;q&quot;'
    """
    return _short_xml(text) if len(text) <= _SHORT else _xml(text)


@lru_cache(maxsize=4096)
def _short_xml(text: str) -> str:
    return _xml(text)


def _xml(text: str) -> str:
    text = isolate(clean(text))
    for char, entity in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"):
        text = text.replace(char, entity)
    return text


@lru_cache(maxsize=512)
def _em(char: str, bold: bool, mono: bool) -> float:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF" or ord(char) >= 0x1F000:
        return _WIDE
    if mono:
        return _MONO if ord(char) < 0x2500 else _UNKNOWN
    return _WIDTHS[bold].get(char, _UNKNOWN)


@lru_cache(maxsize=16384)
def width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """How wide the text is at most, in the units of `size`, whatever font the reader has.

    >>> width("xxxx", 10.0, mono=True)
    24.8
    """
    return size * sum(_em(char, bold, mono) for char in text)


def shorten(text: str, room: float, size: float, *, bold: bool = False, mono: bool = False) -> str:
    """The text, cut with an ellipsis where it is wider than `room`.

    >>> shorten("a_rather_long_name", 60.0, 10.0)
    'a_rather_l…'
    """
    if width(text, size, bold=bold, mono=mono) <= room:
        return text
    left = room - width(ELLIPSIS, size, bold=bold, mono=mono)
    kept = 0
    while kept < len(text):
        left -= size * _em(text[kept], bold, mono)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def clip(text: str, count: int) -> str:
    """The text, cut with an ellipsis to `count` characters."""
    return text if len(text) <= count else text[: max(count - 1, 0)].rstrip() + ELLIPSIS


def counted(number: int, thing: str) -> str:
    """A number and what is counted, in the plural where there is not exactly one.

    >>> counted(1, "edge"), counted(0, "edge")
    ('1 edge', '0 edges')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"
