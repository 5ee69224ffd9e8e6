"""`draw`: a graph as a picture, and the object that notebooks and terminals show."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.autograd import Node
from netcl.errors import ArgumentError
from netcl.viz import svg
from netcl.viz.arrange import PAGE, Direction, Scene, arrange, checked
from netcl.viz.dot import to_dot
from netcl.viz.fallback import write_table
from netcl.viz.frames import Frames
from netcl.viz.graph import read
from netcl.viz.inside import opened
from netcl.viz.lanes import only
from netcl.viz.layout import TIME_LIMIT, NoLayoutError
from netcl.viz.names import caller_frame
from netcl.viz.page import page as page_of
from netcl.viz.palette import theme as find_theme
from netcl.viz.png import bundled, render
from netcl.viz.select import MOST_CARDS
from netcl.viz.steps import passage
from netcl.viz.tables import table
from netcl.viz.text import counted
from netcl.viz.views import GraphView, Show

_MOST = (MOST_CARDS, 24, 12)  # a graph that is too wide for a page with all its cards is folded further


class Drawing:
    """A picture of a graph as it was when it was drawn: it holds no tensor, and drawing it again gives the same bytes.

    `view` is what it shows, as data. Notebooks show `svg`, terminals and screen readers `text`; with `shows_png` also
    `png`, for notebooks that are not trusted and show no SVG.
    """

    def __init__(
        self, view: GraphView, scene: Scene | str, theme: str = "light", shows_png: bool = False,
        lit: Collection[int] | None = None, said: str = "",
    ) -> None:  # fmt: skip
        self.view, self.shows_png, self.lit, self.said = view, shows_png, lit, said
        self._scene, self._theme = scene, theme  # for want of a layout, the reason

    @cached_property
    def svg(self) -> str:
        """The picture as one SVG element; a table in its place where it could not be laid out."""
        colours = find_theme(self._theme)
        if isinstance(self._scene, str):
            return write_table(self.view, self.text, self._scene, colours)
        return svg.write(self.view, self._scene, colours, self.lit)

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG file, at twice its size on a page.

        Raises:  ArgumentError if the extra `png` is not installed
        """
        return render(self.svg)

    @cached_property
    def text(self) -> str:
        """The graph as a table, from the loss back to the leaves; what is lit in the picture is said above it."""
        return f"{self.said}\n\n{table(self.view)}" if self.said else table(self.view)

    @cached_property
    def dot(self) -> str:
        """The graph in Graphviz's language, to restyle."""
        return to_dot(self.view)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, in the format that its ending names, and return the path.

        `.html` is a page that steps through the backward pass by keyboard and needs no server and no network.

        Raises:  ArgumentError if the ending is not .svg, .png, .html, .txt or .dot
        """
        path = Path(path)
        written = {".svg": "svg", ".png": "png", ".html": "_page", ".txt": "text", ".dot": "dot"}
        kind = written.get(path.suffix.lower())
        if kind is None:
            raise ArgumentError(
                f"a drawing is saved as {', '.join(written)}, not as {path.suffix or 'a file without ending'!r}"
            )
        if kind == "png":
            path.write_bytes(self.png)
        else:
            path.write_text(getattr(self, kind) + "\n", encoding="utf-8", newline="\n")
        return path

    @property
    def _page(self) -> str:
        return page_of(Frames(passage(self.view)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        shown = {"image/svg+xml": self.svg, "text/plain": self.text}
        return bundled(shown) if self.shows_png else shown

    def __repr__(self) -> str:
        cards, edges = counted(len(self.view.cards), "card"), counted(len(self.view.edges), "edge")
        return f"<Drawing of {self.view.name}: {cards}, {edges}>"

    def __str__(self) -> str:
        return self.text


def draw(
    root: Any, *, names: Mapping[Any, str] | None = None, direction: Direction = "auto", theme: str = "light",
    show: Show = "both", fold: bool | str | Collection[str] = "auto", around: Node | str | None = None, depth: int = 2,
    tangents: Mapping[Any, Any] | None = None, inside: bool = False, png: bool = False, page: float = PAGE,
    time_limit: float = TIME_LIMIT,
) -> Drawing:  # fmt: skip
    """Draw the graph below a node (or that of a tape): values forward, gradients backward, and why.

    `names` overrides what nodes are called, which is otherwise their own name or that of the caller's variable.
    `direction` is `"lr"`, `"td"`, or `"auto"` for whichever is read best on a page. `theme` is `"light"` or `"dark"`.
    `show` is `"forward"`, `"backward"` or `"both"`. Of a large graph modules, scopes and what repeats are folded into a
    card each; `fold` True does so in a small graph too, names fold the scopes so called, False folds nothing. `around`,
    a node or its name, draws only what is within `depth` edges of it. `tangents`, for leaves, draws forward mode: which
    tangent each node then has. `inside` draws what a checkpointed or fused node computes. `png` gives notebooks a PNG
    as well. `page` is how wide the output area is; a picture for a narrow one runs down. Nothing in the graph changes.

    Units:   `page` in CSS pixels, from 400; `time_limit` in seconds; a layout that takes longer gives a table
    Raises:  ArgumentError if `root` has no graph, or an argument is not one of the above

    >>> from netcl import autograd as ag, viz
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (x * x).sum()
    >>> loss.backward()
    >>> viz.draw(loss)
    <Drawing of loss: 3 cards, 3 edges>
    """
    _one_of("direction", direction, ("auto", "lr", "td"))
    _one_of("show", show, ("both", "forward", "backward"))
    find_theme(theme)
    checked(page)
    frame = caller_frame()
    if inside:
        root, names = opened(root, names, frame)
    ends = time.monotonic() + time_limit
    drawing: Drawing | None = None
    for most in _MOST:
        view = only(read(root, names, frame, most, fold=fold, around=around, distance=depth, tangents=tangents), show)
        try:
            scene = arrange(view, direction, max(ends - time.monotonic(), 0.0) if drawing else time_limit, True, page)
        except NoLayoutError as error:
            return drawing or Drawing(view, f"shown as a table: {error}", theme, png)
        drawing = Drawing(view, scene, theme, png)
        if scene.fits or direction == "lr" or fold is False or around is not None:
            break
    assert drawing is not None
    return drawing


def _one_of(name: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ArgumentError(f"{name} is one of {', '.join(allowed)}, not {given!r}")
