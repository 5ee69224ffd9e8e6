"""Which numbers stand in a notebook's prose, and which numbers its code cells hold or show.

Prose is the text of the markdown cells and the words given to figures (`alt=`); LEFT_OUT says what is no number of
the subject, and why. Computed is a number that the code writes (a literal, an expression of literals) or shows (in a
text, a table, a picture's labels). A string that the code merely prints computes nothing, and an output that changes
from run to run proves nothing: neither is evidence.
"""

from __future__ import annotations

import ast
import html
import math
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

NEAR = 6  # so many cells before and after a text may compute what it tells
WIDE = {"title", "retrieval", "summary"}  # these look ahead or back over a whole lesson
SMALL = 1  # a whole number up to here is told only where it is a result
IGNORED = "nbval-ignore-output"
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
MINUS = str.maketrans("−–", "--")

# (pattern, replacement, why it is no number of the subject)
LEFT_OUT: tuple[tuple[str, str, str], ...] = (
    (r"(?s)^## Sources.*?(?=^## |\Z)", "", "years, volumes, pages, identifiers of papers"),
    (r"(?s)```.*?```", " ", "code given to read or to type"),
    (r"(?s)<code>.*?</code>", " ", "code inside HTML"),
    (r"`(?!−?-?[\d.]+`)[^`\n]*(?:\n[^`\n]*)?`", " ", "code, unless the span is nothing but a number"),
    (r"`", " ", "the marks around a number"),
    (r"\]\([^)]*\)", "] ", "where a link leads"),
    (r"https?://\S+|\barXiv:[\d.]+|\bdoi:\S+", " ", "addresses"),
    (r"<[^<>]{1,200}?>", " ", "HTML tags with their attributes"),
    (r"(?s)\*\*Time\*\*.*?(?=\*\*|\n\n|\Z)", " ", "how long the lesson takes is checked against the course"),
    (r"(?m)^#+ +\d+(?:\.\d+)? +·", "#", "numbers of headings"),
    (r"(?m)^ *\d+\. ", " ", "numbers of a list's items"),
    (r"^\(\d\d\)|(?<=[\s>])\(\d\d(?:, \d\d)*\)", " ", "lessons, as (06)"),
    (
        r"\b(?:[Ll]essons?|[Ss]ections?|[Ee]xercises?|[Cc]hapters?|[Ss]teps?|[Ll]ines?|[Cc]ells?|[Qq]uestions?|"
        r"[Pp]arts?|[Rr]ules?|[Vv]ersion|[Ee]dition|[Ii]tems?|[Rr]ows?|[Aa]xis|[Aa]xes|[Pp]ython|OpenCL)\s+"
        r"\d+(?:\.\d+)*(?:(?:, and |, | and | to | or |–|-)\d+(?:\.\d+)*(?!\.\d|\d))*",
        " ",
        "names that are numbers: lesson 06, sections 4 and 5, exercise 2.3, axis 1",
    ),
    (r"(?:,|et al\.|[A-Z]\w+)\s(?:19|20)\d\d(?=[),.:;])|\((?:19|20)\d\d\)", " ", "the year of a source"),
    (r"\b\d+(?:st|nd|rd|th)\b", " ", "ordinals"),
    (r"\bIEEE (?:Std )?754(?:-\d{4})?|\bCC BY 4\.0", " ", "names of a standard and a licence"),
)

LATEX: tuple[tuple[str, str], ...] = (
    (r"\\t?frac ?(\d)(\d)", r" \1/\2 "),
    (r"\\t?frac\{(-?[\d.]+)\}\{([\d.]+)\}", r" \1/\2 "),
    (r"(?<=\d)\{,\}(?=\d{3})|(?<=\d)\\[,;:](?=\d{3}(?!\d))", ""),
    (r"_\{[^{}]*\}|_\w", " "),  # an index
    (r"\\times", "×"),
    (r"\\(?:approx|to|le|ge|gets|Rightarrow|implies)\b", " ≈ "),
    (r"\\(?:text|textstyle|mathrm|quad|qquad)\b", " "),
    (r"\\[,;:! ]", " "),
    (r"&", " "),
)

TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
WORDS = {word: 13 + place for place, word in enumerate(TEENS)}
WORDS |= {
    word: 10 * place for place, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
UNITS = {
    word: place
    for place, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}
TIMES = {"hundred": 100, "thousand": 1000, "million": 10**6}
TENS = rf"(?:{'|'.join(WORDS)})(?:-(?:{'|'.join(UNITS)}))?"
# "A hundred", "a thousand" and "a million" alone say "many"; with more words they are numbers.
WORD = re.compile(
    rf"\b(?P<many>an? (?=hundred (?:thousand|and))|(?:{'|'.join((*UNITS, *WORDS))}) (?={'|'.join(TIMES)}))?"
    rf"(?P<times>(?:(?:{'|'.join(TIMES)})\b ?)+)?(?:and )?(?P<rest>{TENS})?\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?<![\w.\\^])(?<!\^\{)(?P<sign>-)?"
    r"(?P<digits>\d{1,3}(?:[ \u202f\u00a0]\d{3})+(?!\d)|\d{1,3}(?:,\d{3})+(?!\d)|\d[\d_]*\.\d+|\d[\d_]*)"
    r"(?P<exponent>[eE][+-]?\d+)?"
    r"(?P<power>\^\{-?\d+\}|\^-?\d+|\*\*-?\d+|[⁻⁰¹²³⁴-⁹]+)?"
    r"(?P<over> ?/ ?[1-9]\d*(?![\d.]))?"
    r"(?P<percent> ?\\?%)?"
    r"(?![\d]|\.\d)(?P<letter>[^\W\d_])?"
)
RESULT = re.compile(r"(?:[=≈→]|\b(?:is|are|was|were|gives?|gave|makes?|yields?|together|altogether)) *$")
ABOUT = re.compile(r"(?:≈|\b(?:about|some|nearly|almost|around|roughly|over|below|under|above|than)) *$")


@dataclass(frozen=True)
class Told:
    """A number in the prose: what it says, to which digits, and where."""

    text: str
    value: float
    half: float  # half a unit of the last digit shown
    where: str
    context: str


@dataclass(frozen=True)
class Known:
    """A number that the code holds or shows, to which digits (0: exactly)."""

    value: float
    half: float = 0.0


def joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def read(match: re.Match[str]) -> tuple[float, float] | None:
    """The value of a number as it is written, and half a unit of its last digit."""
    digits = re.sub(r"[ ,_\u202f\u00a0]", "", match["digits"])
    places = len(digits.partition(".")[2])
    value, half = float(digits), 0.5 * 10.0**-places if places else 0.0
    if match["exponent"]:
        scale = 10.0 ** int(match["exponent"][1:])
        value, half = value * scale, 0.5 * 10.0**-places * scale
    if match["power"]:
        exponent = int(re.sub(r"[\^{}*]", "", match["power"].translate(RAISED)))
        if abs(exponent) > 400 or (value == 0 and exponent < 0):
            return None
        value, half = value**exponent, 0.0
    if match["over"] and not half:
        value /= int(match["over"].strip(" /"))
    if match["percent"]:
        value, half = value / 100, half / 100 or 0.005
    return (-value if match["sign"] else value), half


def numbers(text: str) -> Iterator[tuple[re.Match[str], float, float]]:
    for match in NUMBER.finditer(text.translate(MINUS)):
        found = read(match)
        if found is not None:
            yield match, *found


def prose(markdown: str) -> str:
    """Markdown without what LEFT_OUT names, its formulas flattened."""
    for pattern, instead, _ in LEFT_OUT:
        markdown = re.sub(pattern, instead, markdown, flags=re.MULTILINE)

    def flat(match: re.Match[str]) -> str:
        formula = match[0]
        for pattern, instead in LATEX:
            formula = re.sub(pattern, instead, formula)
        return formula.replace("$", " ")

    return re.sub(r"(?s)\$\$.*?\$\$|\$[^$]+\$", flat, markdown)


def told(markdown: str, where: str) -> Iterator[Told]:
    """The numbers in a text that somebody must have computed."""
    text = prose(markdown).translate(MINUS)
    for match, value, half in numbers(text):
        if match["letter"] and not match["exponent"]:
            continue  # 3x, 2D: a factor or a name
        before = text[: match.start()]
        if match["sign"] and re.search(r"[\w)}\]⁰-⁹²³]$", before):
            value = abs(value)  # a difference or a range, no sign
        whole = value == int(value) and not match["percent"] and not match["power"]
        after = text[match.end() : match.end() + 2]
        if whole and abs(value) <= SMALL and not RESULT.search(before) and not re.match(" ?×", after):
            continue
        if whole and value == 0:
            continue  # E'(h) = 0 is a condition
        if match["power"] and abs(value) <= SMALL and value == int(value):
            continue
        if whole and ABOUT.search(before):
            digits = str(int(abs(value)))
            half = 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))
        yield Told(match[0].strip(), value, half, where, context(text, match))
    for match in WORD.finditer(text):
        found = word(match)
        if found is None:
            continue
        value = float(found)
        half = 0.5 * 10.0 ** (len(str(int(value))) - len(str(int(value)).rstrip("0")))
        yield Told(match[0], value, half if ABOUT.search(text[: match.start()]) else 0.0, where, context(text, match))


def context(text: str, match: re.Match[str]) -> str:
    return " ".join(text[max(0, match.start() - 45) : match.end() + 35].split())


def word(match: re.Match[str]) -> int | None:
    """The value of a number in words: sixty-one, two hundred, a hundred and eighty; None where none is told."""
    many, times, rest = (match[name] and match[name].lower() for name in ("many", "times", "rest"))
    value = 0
    if many and times:
        value = {**UNITS, **WORDS}.get(many.strip(), 1) * math.prod(TIMES[each] for each in times.split())
    if rest and bool(many) == bool(times):
        value += sum({**UNITS, **WORDS}[part] for part in rest.split("-"))
    return value or None


OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
CASTS = {"float", "int", "float32", "float64", "int64"}


def constant(node: ast.AST) -> float | None:
    """The value of an expression of literals, None for any other."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = constant(inner)
            return None if value is None else -value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = constant(left), constant(right)
            if a is None or b is None or (isinstance(op, ast.Pow) and (abs(b) > 400 or abs(a) > 1e6)):
                return None
            try:
                return OPERATORS[type(op)](a, b)
            except (ZeroDivisionError, OverflowError):
                return None
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner]) if name in CASTS:
            return constant(inner)
        case ast.Call(func=ast.Name(id="Fraction"), args=[a, b]):
            return constant(ast.BinOp(a, ast.Div(), b))
    return None


def shown(data: dict[str, Any]) -> Iterator[str]:
    """The words of an output: its text, and a picture's words and labels (no coordinates)."""
    for kind, content in data.items():
        text = joined(content) if isinstance(content, (str, list)) else ""
        if kind == "text/plain":
            yield text
        elif kind in ("text/html", "image/svg+xml", "text/markdown"):
            yield from (html.unescape(label) for label in re.findall(r'(?:alt|aria-label|title)="([^"]*)"', text))
            text = re.sub(r"(?s)<(style|script)\b.*?</\1>", " ", text)
            yield html.unescape(re.sub(r"<[^>]*>", " ", text))


def strings(tree: ast.AST) -> list[str]:
    found = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return sorted({text for text in found if len(text) >= 4 and re.search(r"\d", text)}, key=len, reverse=True)


def constants(tree: ast.AST) -> Iterator[float]:
    """What code writes: literals, expressions of literals, 1/6 in `x / 6`; and the numbers of OpenCL kernels."""
    for node in ast.walk(tree):
        value = constant(node)
        if value is not None and not isinstance(value, complex):
            yield float(value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (below := constant(node.right)):
            yield 1 / below
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__kernel" in node.value:
            for over, digits in re.findall(r"(/ ?)?\b(\d+(?:\.\d+)?)f?\b", node.value):
                yield 1 / float(digits) if over and float(digits) else float(digits)


def known(cells: Iterable[dict[str, Any]]) -> Iterator[Known]:
    """The numbers that code cells hold in their code or show in what they print."""
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse(joined(cell["source"]))
        yield from (Known(value) for value in constants(tree))
        if IGNORED in cell["metadata"].get("tags", []):
            continue
        for output in cell["outputs"]:
            for text in [joined(output.get("text", "")), *shown(output.get("data", {}))]:
                for literal in strings(tree):
                    text = text.replace(literal, " ")
                for match, value, half in numbers(text):
                    yield Known(value, half)
                    if match["percent"]:
                        yield Known(value * 100)


def fits(number: Told, evidence: Known) -> bool:
    slack = max(number.half, evidence.half) + 1e-9 * abs(number.value)
    if evidence.half > 0.06 * abs(evidence.value):
        slack = number.half + 1e-9 * abs(number.value)  # one digit is no evidence for a finer number
    values = (evidence.value,) if number.value < 0 else (evidence.value, -evidence.value)
    return any(abs(value - number.value) <= slack for value in values)


def alts(cell: dict[str, Any]) -> Iterator[str]:
    """The words that the code gives to a figure."""
    for node in ast.walk(ast.parse(joined(cell["source"]))):
        if isinstance(node, ast.keyword) and node.arg == "alt":
            parts = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
            yield " … ".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def texts(cell: dict[str, Any]) -> list[str]:
    return [joined(cell["source"])] if cell["cell_type"] == "markdown" else list(alts(cell))


def all_told(notebook: dict[str, Any]) -> list[Told]:
    return [each for cell in notebook["cells"] for text in texts(cell) for each in told(text, cell["id"])]


def findings(notebook: dict[str, Any], allowed: Iterable[str] = ()) -> list[Told]:
    """The numbers of the prose that no cell near them computes (for a summary: no cell), without those in `allowed`."""
    cells, names = notebook["cells"], set(allowed)
    evidence = [[each for each in known([cell]) if math.isfinite(each.value)] for cell in cells]
    found = []
    for place, cell in enumerate(cells):
        span = slice(None) if cell["id"] in WIDE else slice(max(0, place - NEAR), place + NEAR + 1)
        near = [each for part in evidence[span] for each in part]
        for number in (each for text in texts(cell) for each in told(text, cell["id"])):
            if number.text not in names and not any(fits(number, each) for each in near):
                found.append(number)
    return found


def equations(markdown: str) -> Iterator[tuple[str, list[float]]]:
    """Chains of equations between numbers alone, as in p = 3 · 1 + 2 · ½ = 4, and the values of their sides."""
    text = prose(markdown).translate(MINUS)
    text = re.sub(r"\\(?:cdot|times)\b|[·×]", "*", text).replace("½", " 1/2 ")
    for run in re.finditer(r"[-\d.+/*() =]*=[-\d.+/*() =]*", text):
        sides = [side.strip().rstrip(".") for side in run[0].split("=")]
        before, after = text[: run.start()], text[run.end() :]
        glued = not run[0].startswith(" ") and re.search(r"[\w\\}\]'′]$", before)
        if glued or re.search(r"\^$|\b[A-Za-z] *$", before):
            sides[0] = ""  # the end of something longer
        if sides[0].startswith(("+", "*", "/", "- ")):
            sides[0] = ""
        if re.match(r" *(?:[\^\\√{⁰-⁹²³]|[A-Za-z]\b)", after):
            sides[-1] = ""  # the beginning of something longer
        values = [number for side in sides if re.search(r"\d", side) and (number := arithmetic(side)) is not None]
        if len(values) > 1:
            yield run[0].strip(), values


def arithmetic(text: str) -> float | None:
    """The value of a sum, product or quotient of numbers, with `2 (3 + 4)` for a product; None for anything else."""
    try:
        value = constant(ast.parse(re.sub(r"(?<=[\d)]) *\(", "*(", text), mode="eval").body)
    except SyntaxError:
        return None
    return None if value is None else float(value)
