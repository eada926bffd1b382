"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 60.0

_T = TypeVar("_T")


def until(
    found: Callable[[], _T | None], what: str = "it", patience_seconds: float = PATIENCE_SECONDS
) -> _T:
    """What ``found`` finds, as soon as it does."""
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.01)
    raise AssertionError(f"waited {patience_seconds:g} s for {what}")
