"""Moments as people write and read them, in the time zone of the machine they sit at."""

import re
from datetime import date, datetime, timedelta
from functools import lru_cache

from volvelle.model.units import parse_duration

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
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
    return _ahead(_moment(words, text, now).timestamp() - now.timestamp(), text)


def _ahead(seconds: float, text: str) -> float:
    if seconds <= 0:
        raise ValueError(f"{text!r} has passed; {_FORMS}")
    return seconds


def _moment(words: str, text: str, now: datetime) -> datetime:
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
    """The time ``clock`` of ``day``; without one, midnight at its end."""
    if not clock:
        return day.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    found = _CLOCK.fullmatch(clock)
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        raise ValueError(f"cannot read {text!r} as a time; {_FORMS}")
    return day.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)


def say_moment(seconds: float | None, now: datetime) -> str:
    """A moment (seconds since the epoch) for a reader at ``now``: as short as it is clear."""
    if seconds is None:
        return "-"
    at = datetime.fromtimestamp(seconds, now.tzinfo)
    if abs(seconds - now.timestamp()) < 3600:
        return f"{at:%H:%M:%S}"
    day, clock = _say_day(at.date(), now.date())
    return f"{day}{at.hour:02d}:{at.minute:02d}" if clock else day


@lru_cache
def _say_day(day: date, today: date) -> tuple[str, bool]:
    """The day, for a reader on ``today``, and whether the time of day goes with it.

    Kept, as a long queue has many moments on few days.
    """
    days = (day - today).days
    if days == 0:
        return "", True
    if days == 1:
        return "tomorrow ", True
    if -1 <= days < 7:
        return f"{day:%a} ", True
    return (f"{day:%d %b} ", True) if day.year == today.year else (f"{day:%d %b %Y}", False)


def here() -> datetime:
    """Now, in the time zone of this machine."""
    return datetime.now().astimezone()
