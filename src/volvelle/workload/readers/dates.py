"""Points in time in a form or a time zone of one's own, and whether day and month may have changed places."""

import math
import shlex
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volvelle.model.problems import Problem
from volvelle.model.units import DAY, format_duration
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Ledger
from volvelle.workload.readers.rows import epoch_seconds, known_timestamp

_MONTHS = 12
_SPREAD = 3.0
"""Times over so many times the days that the other order gives them are in the wrong order."""


def zone_named(name: str) -> ZoneInfo | None:
    """The time zone of a name like ``Europe/Berlin``; None for other names."""
    try:
        return ZoneInfo(name) if "/" in name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def in_zones(columns: Columns, zones: Mapping[str, ZoneInfo]) -> Columns:
    """The rows with the times that name no zone in those of ``zones``, by column, as ISO times that do."""
    least, made = [-math.inf] * len(columns), {}
    for name in zones:
        cells = map(partial(_in_zone, zones[name]), columns.texts(name), least)
        made[name] = list(cells)
        least = [
            known_timestamp(cell) or before for cell, before in zip(made[name], least, strict=True)
        ]
    return columns.with_columns(made)


def _in_zone(zone: ZoneInfo, text: str, least: float) -> str:
    """The time with its offset; of two, where clocks go back, the first that is not before ``least``."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is not None or text.isdecimal():
        return text
    first, second = (moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    later = epoch_seconds(first) < least <= epoch_seconds(second)
    return (second if later else first).isoformat()


class DateForm:
    """Times written in ``form``, for ``strptime``.

    Dates with both numbers up to 12 are read in either order of day and month, so that a column tells the
    order by its other dates: ``own`` and ``others`` count those that only one of the two reads.
    """

    def __init__(self, form: str) -> None:
        self.form = form
        swapped = form.replace("%d", "\0").replace("%m", "%d").replace("\0", "%m")
        known = form.startswith("%Y")  # no order but one has the year first
        self.other = swapped if "%d" in form and "%m" in form and not known else ""
        self.own = self.others = 0
        self._example = ""
        self._days: tuple[set[int], set[int]] = (set(), set())

    def read(self, text: str) -> str:
        """The time in ISO form; what is no such date is left for its column to complain about."""
        try:
            moment = datetime.strptime(text.strip(), self.form)
        except ValueError:
            self._note_other(text.strip())
            return text
        seconds = epoch_seconds(moment)
        if self.other:
            self._days[0].add(int(seconds // DAY))
            if moment.day > _MONTHS:
                self.own += 1
            else:
                turned = moment.replace(month=moment.day, day=moment.month)
                self._days[1].add(int(epoch_seconds(turned) // DAY))
                self._example = self._example or text.strip()
        return moment.isoformat()

    def _note_other(self, text: str) -> None:
        try:
            datetime.strptime(text, self.other)
        except ValueError:
            return
        if not self.others:
            self._example = text
        self.others += 1

    def check(self, ledger: Ledger) -> None:
        """Once all is read: say the order that was taken where no date shows it.

        Raises `Problem` where the dates show the other order, or are spread over far more days in this one.
        """
        if not self.other or self.own > self.others or not self._example:
            return
        mend = f"say --dates {shlex.quote(self.other)}"
        given = f"{self._order(self.form)} (--dates {shlex.quote(self.form)})"
        if self.others > self.own:
            raise Problem(
                f"{ledger.file}: {self._example!r} is no date with {given}; of {self.own + self.others:,} "
                f"dates that show an order, {self.others:,} have {self._order(self.other)}",
                mend=mend,
            )
        spans = [max(days) - min(days) + 1 for days in self._days]
        if spans[0] > _SPREAD * spans[1] and len(self._days[0]) > 1:
            raise Problem(
                f"{ledger.file}: with {given} its times are spread over "
                f"{format_duration(spans[0] * DAY)} with gaps of weeks, with {self._order(self.other)} over "
                f"{format_duration(spans[1] * DAY)}",
                mend=f"{mend}, or write ISO times if they are right as they are",
            )
        if "%d." not in self.form:  # points stand behind days
            reason = f"{self._order(self.form)} is taken, which no date shows; if it is not, {mend}"
            ledger.taken(reason, 2, "submit_time", self._example)

    @staticmethod
    def _order(form: str) -> str:
        return "the day first" if form.index("%d") < form.index("%m") else "the month first"
