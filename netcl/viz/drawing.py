"""`draw`: a graph as a picture, and the object that notebooks and terminals show."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from netcl.errors import ArgumentError
from netcl.viz import svg
from netcl.viz.arrange import ROOM, Direction, Scene, arrange
from netcl.viz.dot import to_dot
from netcl.viz.fallback import write_table
from netcl.viz.frames import Frames
from netcl.viz.graph import read
from netcl.viz.layout import TIME_LIMIT, NoLayoutError
from netcl.viz.names import caller_frame
from netcl.viz.page import page
from netcl.viz.palette import theme as find_theme
from netcl.viz.select import MOST_CARDS
from netcl.viz.steps import passage
from netcl.viz.tables import table
from netcl.viz.views import GraphView

_DIRECTIONS = ("auto", "lr", "td")
_MOST = (MOST_CARDS, 24, 12)  # a graph that is too wide for a page with all its cards is folded further


class Drawing:
    """A picture of a graph as it was when it was drawn: it holds no tensor, and drawing it again gives the same bytes.

    `view` is what it shows, as data. Notebooks show `svg`, terminals and screen readers `text`.
    """

    def __init__(self, view: GraphView, scene: Scene | str, theme: str = "light") -> None:
        self.view = view
        self._scene, self._theme = scene, theme  # for want of a layout, the reason

    @cached_property
    def svg(self) -> str:
        """The picture as one SVG element; a table in its place where it could not be laid out."""
        colours = find_theme(self._theme)
        if isinstance(self._scene, str):
            return write_table(self.view, self.text, self._scene, colours)
        return svg.write(self.view, self._scene, colours)

    @cached_property
    def text(self) -> str:
        """The graph as a table, from the loss back to the leaves."""
        return table(self.view)

    @cached_property
    def dot(self) -> str:
        """The graph in Graphviz's language, to restyle."""
        return to_dot(self.view)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture to a file, in the format that its ending names, and return the path.

        `.html` is a page that steps through the backward pass by keyboard and needs no server and no network.

        Raises:  ArgumentError if the ending is not .svg, .html, .txt or .dot
        """
        path = Path(path)
        written = {".svg": "svg", ".html": "_page", ".txt": "text", ".dot": "dot"}
        if path.suffix.lower() not in written:
            raise ArgumentError(
                f"a drawing is saved as {', '.join(written)}, not as {path.suffix or 'a file without ending'!r}"
            )
        text = getattr(self, written[path.suffix.lower()])
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
        return path

    @property
    def _page(self) -> str:
        return page(Frames(passage(self.view)))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}

    def __repr__(self) -> str:
        return f"<Drawing of {self.view.name}: {len(self.view.cards)} cards, {len(self.view.edges)} edges>"

    def __str__(self) -> str:
        return self.text


def draw(
    root: Any,
    *,
    names: Mapping[Any, str] | None = None,
    direction: Direction = "auto",
    theme: str = "light",
    time_limit: float = TIME_LIMIT,
) -> Drawing:
    """Draw the graph below a node (or that of a tape): values forward, gradients backward, and why.

    `names` overrides what nodes are called, which is otherwise their own name or that of the caller's variable.
    `direction` is `"lr"`, `"td"`, or `"auto"` for whichever is read best on a page. `theme` is `"light"` or `"dark"`.
    Nothing in the graph changes.

    Units:   `time_limit` in seconds; a layout that takes longer gives a table
    Raises:  ArgumentError if `root` has no graph, or an argument is not one of the above

    >>> from netcl import autograd as ag, viz
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (x * x).sum()
    >>> loss.backward()
    >>> viz.draw(loss)
    <Drawing of loss: 3 cards, 3 edges>
    """
    if direction not in _DIRECTIONS:
        raise ArgumentError(f"direction is one of {', '.join(_DIRECTIONS)}, not {direction!r}")
    find_theme(theme)
    frame = caller_frame()
    for most in _MOST:
        view = read(root, names, frame, most)
        try:
            scene = arrange(view, direction, time_limit)
        except NoLayoutError as error:
            return Drawing(view, f"shown as a table: {error}", theme)
        if scene.width <= ROOM or direction == "lr":
            break
    return Drawing(view, scene, theme)
