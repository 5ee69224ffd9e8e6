from typing import Any


def measure(bench: Any, result: Any) -> None: ...
