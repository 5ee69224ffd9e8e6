"""Long work says how far it is: on a terminal after a second, in a notebook after five."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

_TERMINAL, _NOTEBOOK = 1.0, 5.0  # s; a bar in a notebook is stored with it, so one of short work would be in the way

T = TypeVar("T")


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar while they take long and somebody can see it; it goes away with the last one.

    >>> list(progress("ab", "letters"))
    ['a', 'b']
    """
    start, bar = time.monotonic(), None
    patience = _patience()
    try:
        for done, item in enumerate(items):
            if bar is not None:
                bar.update()
            elif time.monotonic() - start > patience:
                bar = _bar(what, done, total)
            yield item
    finally:
        if bar is not None:
            bar.close()


def _patience() -> float:
    """Seconds before there is a bar: none ever where the errors go into a file."""
    kernel = "IPKernelApp" in getattr(_shell(), "config", {})
    return _NOTEBOOK if kernel else _TERMINAL if sys.stderr is not None and sys.stderr.isatty() else float("inf")


def _shell() -> Any:
    """IPython's shell, if this runs in one."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def _bar(what: str, done: int, total: int | None) -> Any:
    from tqdm.auto import tqdm  # here, since it imports much that short work can do without

    return tqdm(desc=what, initial=done, total=total, leave=False)
