"""Deadlines are written, and forecasts told, as people speak of times."""

from datetime import UTC, datetime, timedelta

import pytest

from volvelle.cli.moments import format_moment, seconds_until

NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("4h30m", datetime(2026, 11, 20, 19, 0)),
        ("90", datetime(2026, 11, 20, 14, 31, 30)),
        ("18:00", datetime(2026, 11, 20, 18, 0)),
        ("9:00", datetime(2026, 11, 21, 9, 0)),
        ("tomorrow 09:00", datetime(2026, 11, 21, 9, 0)),
        ("Tomorrow", datetime(2026, 11, 21, 23, 59)),
        ("today", datetime(2026, 11, 20, 23, 59)),
        ("friday 18:00", datetime(2026, 11, 20, 18, 0)),
        ("fri 09:00", datetime(2026, 11, 27, 9, 0)),
        ("mon 09:00", datetime(2026, 11, 23, 9, 0)),
        ("2026-12-31", datetime(2026, 12, 31, 23, 59)),
        ("2026-12-31 18:00", datetime(2026, 12, 31, 18, 0)),
        ("2026-12-31T18:00:30", datetime(2026, 12, 31, 18, 0, 30)),
        ("2026-12-31T18:00+01:00", datetime(2026, 12, 31, 17, 0)),
    ],
)
def test_a_deadline_is_read_as_it_is_spoken(text: str, then: datetime) -> None:
    assert seconds_until(text, NOW) == (then.replace(tzinfo=UTC) - NOW).total_seconds()


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "tomorrow 9", "today 09:00", "2020-01-01", "-5"]
)
def test_what_is_no_time_or_has_passed_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="tomorrow 09:00"):
        seconds_until(text, NOW)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (timedelta(minutes=20), "14:50:00"),
        (timedelta(hours=4), "18:30"),
        (timedelta(hours=18, minutes=30), "tomorrow 09:00"),
        (timedelta(days=3), "Mon 14:30"),
        (timedelta(days=30), "20 Dec 14:30"),
        (timedelta(days=80), "08 Feb 2027"),
    ],
)
def test_a_moment_is_told_as_shortly_as_it_is_clear(after: timedelta, said: str) -> None:
    assert format_moment((NOW + after).timestamp(), NOW) == said
