"""Durations and numbers of GPUs as people write them; inside the house every time is a float in seconds."""

import math
from contextlib import suppress
from typing import Any

from volvelle.durations import DAY, HOUR, MINUTE, parse_duration

__all__ = ["DAY", "HOUR", "MINUTE", "format_duration", "parse_duration", "refuse_part"]


def format_duration(seconds: float) -> str:
    """``seconds`` for a reader, in its two largest units: ``2d 03h``, ``4h 12m``, ``1m 40s``, ``48.6ms``."""
    if not math.isfinite(seconds):
        return "-" if math.isnan(seconds) else "inf"
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if seconds < 10:
        return f"{sign}{1000 * seconds:.3g}ms" if 0 < seconds < 0.1 else f"{sign}{seconds:.3g}s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{sign}{whole}s"
    if whole < HOUR:
        return f"{sign}{whole // 60}m {whole % 60:02d}s"
    minutes = round(seconds / MINUTE)
    if minutes < 24 * 60:
        return f"{sign}{minutes // 60}h {minutes % 60:02d}m"
    hours = round(seconds / HOUR)
    return f"{sign}{hours // 24}d {hours % 24:02d}h"


def refuse_part(gpus: Any) -> Any:
    """``gpus`` of a job on a server, as they are written. Raises ValueError for a part of a GPU."""
    part = False
    with suppress(TypeError, ValueError):
        part = float(gpus) % 1.0 > 0.0
    if part:
        raise ValueError(
            "a server gives whole GPUs; where they are cut (MIG), ask for 1 of the type of the piece, "
            "as in a100-1g.10gb"
        )
    return gpus
