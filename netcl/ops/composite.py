"""Functions made of ops in plain Python, offered under their names beside the ops; their pictures show what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from netcl.methods import ArrayMethods
from netcl.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Every such function by name."""


def composite(function: F) -> F:
    """Offer a function as `ag.<its name>`."""
    COMPOSITES[function.__name__] = function
    return function


def as_array(x: Any) -> Any:
    """Return `x` itself if it is on a device or part of a graph, else a tensor with its values.

    >>> as_array([1.0, 2.0]).shape
    (2,)
    """
    return x if isinstance(x, ArrayMethods) else Tensor.from_host(x)
