"""Parses and formats moments, in the time zone of this machine."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache
from math import floor

from volvelle.model.units import parse_duration

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")
_FORMS = "write 4h30m, 18:00, tomorrow 09:00, friday 18:00 or 2026-12-31 18:00"


def seconds_until(text: str, now: datetime) -> float:
    """Seconds from ``now`` (with its zone) to the moment in ``text``; a duration counts from now.

    A time without a day is the next such time, a day without a time its end. Raises ValueError with the
    forms that are understood, also for a moment that has passed.
    """
    words = text.strip().lower()
    if not _CLOCK.fullmatch(words):
        try:
            return _ahead(parse_duration(words), text)
        except ValueError:
            pass
    return _ahead(_parse_moment(words, text, now).timestamp() - now.timestamp(), text)


def _ahead(seconds: float, text: str) -> float:
    if seconds <= 0:
        raise ValueError(f"{text!r} has passed; {_FORMS}")
    return seconds


def _parse_moment(words: str, text: str, now: datetime) -> datetime:
    day, _, clock = words.rpartition(" ")
    if not _CLOCK.fullmatch(clock):
        day, clock = words, ""
    if not day and clock:
        at = _at(now, clock, text)
        return at if at > now else _at(now + timedelta(days=1), clock, text)
    if day in ("today", "tomorrow"):
        return _at(now + timedelta(days=day == "tomorrow"), clock, text)
    named = [number for number, name in enumerate(_DAYS) if len(day) >= 3 and name.startswith(day)]
    if named:
        at = _at(now + timedelta(days=(named[0] - now.weekday()) % 7), clock, text)
        return at if at > now else at + timedelta(days=7)
    try:
        written = datetime.fromisoformat(day)
    except ValueError:
        raise ValueError(f"cannot read {text!r} as a time; {_FORMS}") from None
    written = written if written.tzinfo else written.replace(tzinfo=now.tzinfo)
    return written if len(day) > len("2026-12-31") else _at(written, clock, text)


def _at(day: datetime, clock: str, text: str) -> datetime:
    """The time ``clock`` of ``day``; without one its last minute, so that the day is read from it."""
    clock = clock or "23:59"
    found = _CLOCK.fullmatch(clock)
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        raise ValueError(f"cannot read {text!r} as a time; {_FORMS}")
    return day.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)


def format_moment(seconds: float | None, now: datetime) -> str:
    """A moment (seconds since the epoch) for a reader at ``now``: as short as it is clear."""
    return "-" if seconds is None else reader_at(now)(seconds)


@lru_cache
def seconds_of(now: datetime) -> float:
    """Seconds since the epoch; a queue asks for each of its rows."""
    return now.timestamp()


@lru_cache
def reader_at(now: datetime) -> Callable[[float], str]:
    """`format_moment` for one reader.

    Computed without `datetime`, which takes six times as long, and beyond an hour once for each minute: a
    queue has thousands of moments.
    """
    since, today = now.timestamp(), now.toordinal() - _EPOCH.toordinal()
    offset = round((now.utcoffset() or timedelta()).total_seconds())
    days: dict[int, tuple[str, bool]] = {}
    minutes: dict[float, str] = {}

    def formatted(seconds: float) -> str:
        minute = (seconds + offset) // 60.0
        if minute in minutes:
            return minutes[minute]
        day, second = divmod(floor(seconds) + offset, _DAY_SECONDS)
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}"
        if -3600.0 < seconds - since < 3600.0:
            return f"{clock}:{second % 60:02d}"
        if day not in days:
            days[day] = _format_day(day, today)
        text, timed = days[day]
        text += clock if timed else ""
        if not -3660.0 < seconds - since < 3660.0:  # so is all of its minute
            minutes[minute] = text
        return text

    return formatted


def _format_day(day: int, today: int) -> tuple[str, bool]:
    """A day for a reader on ``today``, both since the epoch's, and whether the time of day goes with it."""
    ahead = day - today
    if ahead == 0:
        return "", True
    if ahead == 1:
        return "tomorrow ", True
    at, current = (_EPOCH + timedelta(days=days) for days in (day, today))
    if -1 <= ahead < 7:
        return f"{at:%a} ", True
    return (f"{at:%d %b} ", True) if at.year == current.year else (f"{at:%d %b %Y}", False)


def local_now() -> datetime:
    """Now, in the time zone of this machine."""
    return datetime.now().astimezone()


def local(seconds: float) -> datetime:
    """A moment (seconds since the epoch), in the time zone of this machine."""
    return datetime.fromtimestamp(seconds).astimezone()
