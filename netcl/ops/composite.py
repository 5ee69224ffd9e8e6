"""Functions made of ops in plain Python, offered under their names beside the ops; their pictures show what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Every such function by name."""


def composite(function: F) -> F:
    """Offer a function as `ag.<its name>`."""
    COMPOSITES[function.__name__] = function
    return function
