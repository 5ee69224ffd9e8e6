"""Notebooks as HTML pages whose pictures say what they show.

nbconvert (7.17) sets an SVG as an image that has no description, and whoever hears the page hears just that. It has
MathJax break formulas into lines, too, which takes those in tables to pieces. Give it `described` as a preprocessor:

    jupyter nbconvert --to html --HTMLExporter.preprocessors=netcl.teach.pages.described 06_reverse_mode.ipynb
"""

from __future__ import annotations

import base64
import html
import re
from typing import Any

__all__ = ["described"]

_NOTE = 'class="netcl-note"'

# nbconvert's own settings are read before the cells are, so this changes what MathJax made of them.
_UNBROKEN = """<script>
if (window.MathJax && MathJax.Hub) MathJax.Hub.Register.StartupHook("CommonHTML Jax Ready", function () {
    MathJax.OutputJax.CommonHTML.config.linebreaks.automatic = false;
});
</script>"""


def described(notebook: Any, resources: Any) -> tuple[Any, Any]:
    """Set each SVG of a notebook as an image with the title and description in it, and keep lines whole.

    Formulas are not broken, of a bar of progress the last state stays, and no page says to run a cell.

    A preprocessor of nbconvert, for HTML.

    >>> bar = {"output_type": "stream", "text": "\\r 50%\\r100%\\ndone\\n"}
    >>> described({"cells": [{"cell_type": "code", "outputs": [bar]}]}, {})[0]["cells"][0]["outputs"][0]["text"]
    '100%\\ndone\\n'

    >>> picture = '<svg xmlns="http://www.w3.org/2000/svg"><title>A line</title><desc>It rises.</desc></svg>'
    >>> output = {"output_type": "display_data", "data": {"image/svg+xml": picture}}
    >>> described({"cells": [{"cell_type": "code", "outputs": [output]}]}, {})[0]["cells"][0]["outputs"][0]["data"]
    {'text/html': '<img alt="A line. It rises." ...>'}
    """
    for cell in notebook["cells"]:
        if cell.get("outputs"):  # the note beside a widget asks to run the cell
            cell["outputs"] = [one for one in cell["outputs"] if _NOTE not in one.get("data", {}).get("text/html", "")]
        for output in cell.get("outputs", ()):
            if "\r" in output.get("text", ""):  # a bar of progress, of which a notebook shows the last state
                lines = output["text"].split("\n")
                output["text"] = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
            data = output.get("data", {})
            # An SVG without a title says nothing either way; and where there is HTML, that is what nbconvert takes.
            if "<title>" in data.get("image/svg+xml", "") and "text/html" not in data:
                data["text/html"] = _image(data.pop("image/svg+xml"))
    import nbformat  # not installed with netcl alone, but with nbconvert

    notebook["cells"].append(nbformat.v4.new_markdown_cell(_UNBROKEN))
    return notebook, resources


def _image(svg: str) -> str:
    title, words = _inside(svg, "title"), _inside(svg, "desc").removesuffix(".")
    alt = words if words.startswith(title) else f"{title}. {words}" if words else title
    coded = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(f"{alt}.")}" src="data:image/svg+xml;base64,{coded}">'


def _inside(svg: str, tag: str) -> str:
    """The text of the first element of this name: that of the picture as a whole, which stands before its parts."""
    found = re.search(rf"<{tag}>(.*?)</{tag}>", svg, re.DOTALL)
    return " ".join(html.unescape(found[1]).split()) if found else ""
