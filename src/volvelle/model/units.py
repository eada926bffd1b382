"""Durations as people write them; inside the house every time is a float in seconds."""

import math

from volvelle.durations import DAY, HOUR, MINUTE, parse_duration

__all__ = ["DAY", "HOUR", "MINUTE", "format_duration", "parse_duration"]


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
