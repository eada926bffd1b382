"""Durations as people write them. Here so that a training script reads them without importing the rest."""

import math
import re

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0

_UNIT_SECONDS = {
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": MINUTE,
    "min": MINUTE,
    "h": HOUR,
    "d": DAY,
    "w": 7 * DAY,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)")
_CLOCK = re.compile(
    r"(?:(\d+)(?:-| days?,? )(?=(?:[01]?\d|2[0-3]):))?(\d+):([0-5]?\d)(?::([0-5]?\d(?:\.\d+)?))?"
)


def parse_duration(text: str | float) -> float:
    """Seconds in ``text``: ``90``, ``4h30m``, ``1.5d``, ``D-HH:MM:SS``, ``D days HH:MM:SS``, ``HH:MM:SS`` or
    ``MM:SS``.

    As in Slurm, ``D-HH:MM`` is days, hours and minutes, while ``MM:SS`` without days is minutes
    and seconds. Behind the first number, hours are below 24, minutes and seconds below 60. Raises ValueError
    with the forms that are understood.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return _finite(float(text), str(text))
    cleaned = str(text).strip().lower()
    try:
        return _finite(float(cleaned), cleaned)
    except ValueError:
        pass
    clock = _CLOCK.fullmatch(cleaned)
    if clock:
        return _clock_seconds(*clock.groups())
    parts = _PART.findall(cleaned)
    if parts and _PART.sub("", cleaned).strip() == "":
        try:
            return round(sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts), 6)
        except KeyError:
            pass
    raise ValueError(
        f"cannot read {text!r} as a duration; write seconds, 4h30m, 1.5d or D-HH:MM:SS"
    )


def _finite(seconds: float, text: str) -> float:
    if not math.isfinite(seconds):
        raise ValueError(f"a duration must be finite, not {text!r}")
    return seconds


def _clock_seconds(days: str | None, first: str, second: str, third: str | None) -> float:
    if days is not None:
        return int(days) * DAY + int(first) * HOUR + int(second) * MINUTE + float(third or 0)
    if third is not None:
        return int(first) * HOUR + int(second) * MINUTE + float(third)
    return int(first) * MINUTE + int(second)
