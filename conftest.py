"""What every run with nbval shares. (What the tests share is in tests/conftest.py.)"""

from __future__ import annotations

from pathlib import Path

import pytest

SANITIZE = Path(__file__).parent / "tests" / "notebooks" / "nbval_sanitize.cfg"


def pytest_configure(config: pytest.Config) -> None:
    """nbval compares HTML, where a figure stands as a PNG, another with each matplotlib: its words are compared."""
    if getattr(config.option, "nbval", False) and config.option.nbval_sanitize_with is None:
        config.option.nbval_sanitize_with = str(SANITIZE)
