"""The colours of a picture, by role: safe for colour-blind readers, text at a contrast of 4.5 or more."""

from __future__ import annotations

from types import MappingProxyType

from netcl.errors import ArgumentError

# Blue and vermilion (Okabe and Ito) are told apart with every common colour blindness; lines differ by dash as well.
LIGHT = MappingProxyType(
    {
        "page": "#ffffff",
        "card": "#f7f8fa",
        "chip": "#ffffff",
        "frame": "#57606a",
        "faint": "#c9d1d9",
        "ink": "#1b1f24",
        "muted": "#57606a",
        "forward": "#0b4a82",
        "forward-slot": "#e8f2fb",
        "forward-tint": "#a9d1f5",
        "backward": "#9a3412",
        "backward-slot": "#fdf0e6",
        "backward-tint": "#fbc59a",
        "tangent": "#0f5c46",
        "tangent-slot": "#e5f5ef",
        "tangent-tint": "#9fdcc4",
        "negative-tint": "#c4c9cf",
        "off": "#6e7781",
        "off-slot": "#eef0f2",
        "warn": "#8b1a1a",
        "warn-slot": "#fde3e3",
    }
)
DARK = MappingProxyType(
    {
        "page": "#16191d",
        "card": "#1f242a",
        "chip": "#16191d",
        "frame": "#8b949e",
        "faint": "#3d444d",
        "ink": "#f0f3f6",
        "muted": "#b1bac4",
        "forward": "#8ec9ff",
        "forward-slot": "#1b2a3a",
        "forward-tint": "#1f5587",
        "backward": "#ffb38a",
        "backward-slot": "#35241b",
        "backward-tint": "#83401c",
        "tangent": "#7fdcb9",
        "tangent-slot": "#18302a",
        "tangent-tint": "#1f5f4b",
        "negative-tint": "#4a525c",
        "off": "#a3acb6",
        "off-slot": "#262c33",
        "warn": "#ffb4b4",
        "warn-slot": "#4a2020",
    }
)
THEMES = {"light": LIGHT, "dark": DARK}

# (text, what it stands on): every pair that the pictures use; a test holds each at 4.5 or more.
PAIRS = (
    ("ink", "page"), ("ink", "card"), ("ink", "chip"), ("muted", "page"), ("muted", "card"), ("muted", "chip"),
    ("forward", "page"), ("forward", "card"), ("forward", "forward-slot"), ("ink", "forward-slot"),
    ("ink", "forward-tint"), ("backward", "page"), ("backward", "card"), ("backward", "chip"),
    ("backward", "backward-slot"), ("ink", "backward-slot"), ("ink", "backward-tint"), ("ink", "negative-tint"),
    ("tangent", "page"), ("tangent", "card"),
    ("tangent", "tangent-slot"), ("ink", "tangent-slot"), ("ink", "tangent-tint"),
    ("muted", "off-slot"), ("ink", "off-slot"), ("warn", "card"), ("warn", "warn-slot"), ("ink", "warn-slot"),
)  # fmt: skip


def theme(name: str) -> MappingProxyType[str, str]:
    """The colours of a scheme.

    Raises:  ArgumentError if there is no scheme of that name

    >>> theme("light")["page"]
    '#ffffff'
    """
    if name not in THEMES:
        raise ArgumentError(f"theme is one of {', '.join(THEMES)}, not {name!r}")
    return THEMES[name]


def mix(low: str, high: str, share: float) -> str:
    """The colour `share` of the way from `low` to `high`.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = ((int(low[i : i + 2], 16), int(high[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{int(a + (b - a) * share + 0.5):02x}" for a, b in pairs)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, from 1 to 21.

    Source:  WCAG 2.2, relative luminance

    >>> round(contrast("#000000", "#ffffff"))
    21
    """
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
