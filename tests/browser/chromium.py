"""Find the Chromium that the browser tests drive: the one that CHROMIUM names, or the first on the PATH."""

from __future__ import annotations

import os
import shutil
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MISSING = "no Chromium for the browser tests: put one on the PATH, or set CHROMIUM to its program"


def find() -> str | None:
    """The program, or None. A CHROMIUM that leads nowhere is not replaced by another."""
    named = os.environ.get("CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, _NAMES)), None)


if __name__ == "__main__":
    sys.exit(None if find() else MISSING)
