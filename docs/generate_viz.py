"""Write the pictures and outputs of docs/viz.md: `python docs/generate_viz.py`. A test fails while they are stale.

Every Python block of the page is run, in order. What its last line gives is saved as the picture that is named right
after it, and its text stands in the text block right after that. Blocks marked `<!-- times -->` give other numbers on
every run: their outputs are written only where there are none.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).with_name("viz.md")
_NAME = "page/viz.md"  # of no file: its lines are those that were read, whatever is written meanwhile
_BLOCK = re.compile(
    r"(?P<times><!-- times -->\n)?```python\n(?P<code>.*?)```\n"
    r"(?:\n!\[[^\]]*\]\((?P<picture>[\w./-]+)\)\n)?"
    r"(?:\n```text\n(?P<text>.*?)```\n)?",
    re.DOTALL,
)


class Output(NamedTuple):
    """What a block gives: where its picture goes, the picture, its text, and the span of the text in the page."""

    picture: Path | None
    svg: str
    text: str | None
    span: tuple[int, int]
    times: bool


def outputs(page: str) -> Iterator[Output]:
    """Run the blocks of the page."""
    linecache.cache[_NAME] = (len(page), None, page.splitlines(keepends=True), _NAME)
    space: dict[str, Any] = {"__name__": "viz_page"}
    for match in _BLOCK.finditer(page):
        start = page.count("\n", 0, match.start("code"))
        result = _run("\n" * start + match["code"], space)
        picture = PAGE.parent / match["picture"] if match["picture"] else None
        text = f"{result}\n" if match["text"] is not None else None
        svg = f"{result.svg}\n" if picture is not None else ""
        yield Output(picture, svg, text, match.span("text"), bool(match["times"]))


def _run(code: str, space: dict[str, Any]) -> Any:
    """Run code as the page's own lines, so that what is traced to it is found there; return what the last one gives."""
    tree = ast.parse(code)
    *body, last = tree.body
    if not isinstance(last, ast.Expr):
        body, last = tree.body, None
    exec(compile(ast.Module(body, []), _NAME, "exec"), space)
    return None if last is None else eval(compile(ast.Expression(last.value), _NAME, "eval"), space)


def fresh() -> tuple[str, dict[Path, str]]:
    """The page with its outputs as they are now, and its pictures by path."""
    page = PAGE.read_text(encoding="utf-8")
    pictures: dict[Path, str] = {}
    changes: list[tuple[tuple[int, int], str]] = []
    for output in outputs(page):
        if output.picture is not None and not (output.times and output.picture.exists()):
            pictures[output.picture] = output.svg
        if output.text is not None and not (output.times and page[slice(*output.span)].strip()):
            changes.append((output.span, output.text))
    for (start, end), text in reversed(changes):
        page = page[:start] + text + page[end:]
    return page, pictures


def main() -> None:
    """Bring the page up to date; a second time, since line numbers move with the texts above them."""
    for _ in range(2):
        page, pictures = fresh()
        PAGE.write_text(page, encoding="utf-8", newline="\n")
    for path, svg in pictures.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
