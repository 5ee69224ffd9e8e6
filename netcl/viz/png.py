"""PNG from SVG, by resvg: a wheel that needs no system program, and chooses another font where one lacks a sign."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from functools import lru_cache

from netcl.errors import ArgumentError

try:
    import resvg_py
except ImportError:  # the extra `png` was not asked for
    resvg_py = None

ZOOM = 2.0  # pixels per unit: sharp on common screens
_PROBE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
    '<text x="2" y="16" font-size="16" font-family="sans-serif">{}</text></svg>'
)


def render(svg: str, zoom: float = ZOOM) -> bytes:
    """Turn an SVG into a PNG file's bytes.

    Raises:  ArgumentError if resvg is not installed, or the system has no font to write with

    >>> render('<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>')[1:4]
    b'PNG'
    """
    if resvg_py is None:
        raise ArgumentError("PNG pictures need resvg: pip install netcl[png]")
    if not _writes():
        raise ArgumentError("PNG pictures need a font on this system (DejaVu Sans, say); SVG uses those of its reader")
    return _bytes(svg, zoom)


def bundled(shown: Mapping[str, str]) -> dict[str, str]:
    """What a notebook shows, with its SVG as a PNG beside it for those that are not trusted.

    Raises:  ArgumentError if the extra `png` is not installed

    >>> sorted(bundled({"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>'}))
    ['image/png', 'image/svg+xml']
    """
    return {**shown, "image/png": base64.b64encode(render(shown["image/svg+xml"])).decode("ascii")}


def size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG, in pixels, from its header.

    >>> size(render('<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>', zoom=1.0))
    (3, 2)
    """
    return struct.unpack(">II", png[16:24])


def _bytes(svg: str, zoom: float) -> bytes:
    assert resvg_py is not None
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, zoom=zoom, sans_serif_family="DejaVu Sans", monospace_family="DejaVu Sans Mono"
        )
    )


@lru_cache(maxsize=1)
def _writes() -> bool:
    """Whether text leaves any mark."""
    return _bytes(_PROBE.format("x"), 1.0) != _bytes(_PROBE.format(""), 1.0)
