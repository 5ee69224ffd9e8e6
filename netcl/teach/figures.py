"""`figure`: a picture of matplotlib with words for those who do not see it."""

from __future__ import annotations

import base64
import io
from typing import Any, Protocol

from netcl.errors import ArgumentError
from netcl.viz.text import clean, xml

__all__ = ["Picture", "figure"]

_DPI = 100


class Drawn(Protocol):
    """A figure of matplotlib."""

    def savefig(self, fname: Any, **options: Any) -> None: ...
    def get_size_inches(self) -> Any: ...


class Picture:
    """A figure as it was drawn, and `alt`, what it shows in words.

    JupyterLab and nbconvert give an image/png no alternative text, whatever its metadata say; so the picture also comes
    as HTML, which both prefer. Classic Notebook reads the metadata.
    """

    def __init__(self, png: bytes, alt: str, width: int) -> None:
        self.png, self.alt, self.width = png, alt, width

    @property
    def html(self) -> str:
        """The picture as an <img> with its alternative text."""
        data = base64.b64encode(self.png).decode("ascii")
        kept = "max-width:100%;height:auto"
        return f'<img alt="{xml(self.alt)}" width="{self.width}" style="{kept}" src="data:image/png;base64,{data}">'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        data = base64.b64encode(self.png).decode("ascii")
        bundle = {"text/plain": self.alt, "text/html": self.html, "image/png": data}
        return bundle, {"image/png": {"alt": self.alt, "width": self.width}}

    def __str__(self) -> str:
        return self.alt

    def __repr__(self) -> str:
        return f"<Picture: {self.alt}>"


def figure(fig: Drawn, alt: str) -> Picture:
    """Show a figure of matplotlib with its alternative text; it is drawn now, the same on every run.

    Raises:  ArgumentError if `alt` says nothing, or `fig` is no figure

    >>> figure("no figure", alt="nothing")
    Traceback (most recent call last):
    netcl.errors.ArgumentError: figure() takes a figure of matplotlib, not str
    """
    if not callable(getattr(fig, "savefig", None)):
        raise ArgumentError(f"figure() takes a figure of matplotlib, not {type(fig).__name__}")
    if not isinstance(alt, str) or not alt.strip():
        raise ArgumentError('figure() needs words for those who do not see it: figure(fig, alt="…")')
    out = io.BytesIO()
    # Its name and version in the file would differ from one installation to the next.
    fig.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
    return Picture(out.getvalue(), " ".join(clean(alt).split()), round(fig.get_size_inches()[0] * _DPI))
