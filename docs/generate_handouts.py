"""Write the printable pages of docs/teaching/handouts.md into docs/teaching/print: `python docs/generate_handouts.py`.

A test fails while they are stale. This reads the little Markdown that the handouts use, so that nothing has to be
installed: headings, paragraphs, lists, tables, one picture to a paragraph, **bold** and `code`.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

PAGE = Path(__file__).with_name("teaching") / "handouts.md"
PRINT = PAGE.with_name("print")
_STYLE = """
@page { size: A4; margin: 14mm 16mm }
body { font: 10.5pt/1.38 Georgia, 'DejaVu Serif', serif; color: #000; background: #fff; margin: 0 auto;
max-width: 178mm } h1 { font-size: 16pt; margin: 0 0 2mm }
h2 { font-size: 11.5pt; margin: 4mm 0 1mm } p, ul { margin: 0 0 2mm }
table { border-collapse: collapse; width: 100%; margin: 2mm 0 } th, td { border: 0.4pt solid #777; padding: 1mm 1.6mm;
text-align: left; vertical-align: top } code { font: 9.5pt 'DejaVu Sans Mono', monospace } img { display: block;
margin: 0 auto; max-height: 150mm; max-width: 100% } ul { padding-left: 5mm } footer { font-size: 8pt; margin-top: 3mm }
"""
_FOOT = "netcl, Calculus &amp; Gradients. CC BY 4.0."


def _inline(text: str) -> str:
    text = html.escape(" ".join(text.split()), quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)


def _row(line: str, cell: str) -> str:
    cells = (part.strip() for part in line.strip().strip("|").split("|"))
    return "<tr>" + "".join(f"<{cell}>{_inline(part)}</{cell}>" for part in cells) + "</tr>"


def _block(text: str) -> str:
    """A paragraph of Markdown as HTML."""
    if text.startswith("### "):
        return f"<h2>{_inline(text[4:])}</h2>"
    if text.startswith("|"):
        head, _, *body = text.splitlines()
        return "<table>" + "\n".join([_row(head, "th"), *(_row(line, "td") for line in body)]) + "</table>"
    if text.startswith("- "):
        items = re.split(r"^- ", text, flags=re.M)[1:]
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
    picture = re.fullmatch(r"!\[([^\]]+)\]\(([^)]+)\)", text)
    if picture:
        alt = html.escape(" ".join(picture[1].split()))
        return f'<img src="../{picture[2]}" alt="{alt}">'  # one folder deeper than the page
    return f"<p>{_inline(text)}</p>"


def pages(text: str) -> dict[str, str]:
    """Map the name of each printed page to its HTML."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title, *blocks = re.split(r"\n\n+", section.strip())
        name = title.lower().replace(" ", "_") + ".html"
        body = "\n".join(_block(block) for block in blocks)
        found[name] = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_inline(title)}</title>\n'
            f"<style>{_STYLE}</style></head><body>\n<h1>{_inline(title)}</h1>\n{body}\n<footer>{_FOOT}</footer>\n</body></html>\n"
        )
    return found


def main() -> None:
    """Write the pages."""
    PRINT.mkdir(exist_ok=True)
    for name, text in pages(PAGE.read_text(encoding="utf-8")).items():
        (PRINT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
