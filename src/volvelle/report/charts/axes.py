"""Axes: which quantity, in which unit, with ticks at round values.

Four quantities are drawn: plain numbers, shares (0 to 1, written in percent), times since the start
of a run, and durations; the last two are seconds inside and days, hours, minutes or seconds on the
axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.model.units import DAY, HOUR, MINUTE
from volvelle.report.charts.marks import ReadOutAxis

Quantity = Literal["number", "share", "time", "duration"]

_TIME_UNITS = (("days", DAY), ("hours", HOUR), ("minutes", MINUTE), ("seconds", 1.0))
_TIME_STEPS = {
    "days": (0.25, 0.5, 1, 2, 7, 14, 28, 91, 182, 364),
    "hours": (0.25, 0.5, 1, 2, 3, 6, 12, 24),
    "minutes": (0.25, 0.5, 1, 2, 5, 10, 15, 30, 60),
    "seconds": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60),
}
_LOG_TIMES = {
    "coarse": (
        *((value, f"{value:g} s") for value in (0.001, 0.01, 0.1, 1, 10)),
        *((value * MINUTE, f"{value} min") for value in (1, 10)),
        *((value * HOUR, f"{value} h") for value in (1, 6)),
        *((value * DAY, f"{value:,} d") for value in (1, 7, 30, 100, 1000)),
    ),
    "fine": (
        *((value, f"{value:g} s") for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30)),
        *((value * MINUTE, f"{value} min") for value in (1, 2, 5, 10, 20, 30)),
        *((value * HOUR, f"{value} h") for value in (1, 2, 3, 6, 12)),
        *((value * DAY, f"{value:,} d") for value in (1, 2, 4, 7, 14, 30, 60, 100, 200, 365)),
    ),
}


@dataclass(frozen=True)
class Axis:
    """The scale of an axis. ``low`` and ``high`` fix its ends where the data should not.

    ``whole`` numbers have no ticks between them.
    """

    title: str
    quantity: Quantity = "number"
    unit: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None
    whole: bool = False


@dataclass(frozen=True)
class FittedAxis:
    """An axis with its range in data units, its ticks and its full title."""

    axis: Axis
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str

    def place(self, values: FloatColumn, start: float, end: float) -> FloatColumn:
        """Positions between ``start`` and ``end`` of data ``values``."""
        return start + self._shares(np.asarray(values, dtype=float)) * (end - start)

    def _shares(self, values: FloatColumn) -> FloatColumn:
        if not self.axis.log:
            return (values - self.low) / (self.high - self.low)
        low, high = math.log(self.low), math.log(self.high)
        return (np.log(np.maximum(values, self.low)) - low) / (high - low)

    def read_out(self) -> ReadOutAxis:
        """Parameters by which the page turns a position back into a value."""
        axis = self.axis
        return ReadOutAxis(axis.quantity, axis.log, self.low, self.high, axis.title, axis.unit)


def fit(axis: Axis, values: Sequence[FloatColumn], wanted: int = 6) -> FittedAxis:
    """The axis that shows all finite ``values`` with about ``wanted`` ticks."""
    low, high = _extent(axis, values)
    if axis.log:
        return _fit_log(axis, low, high, wanted)
    if axis.quantity in ("time", "duration"):
        return _fit_time(axis, low, high, wanted)
    scale, unit = (100.0, "%") if axis.quantity == "share" else (1.0, axis.unit)
    step = _nice_step((high - low) * scale / wanted) / scale
    if axis.whole:
        step = max(1.0, step)
    low = axis.low if axis.low is not None else math.floor(low / step + 1e-9) * step
    high = axis.high if axis.high is not None else math.ceil(high / step - 1e-9) * step
    ticks = tuple(
        (value, format_tick(value * scale, step * scale)) for value in _multiples(low, high, step)
    )
    return FittedAxis(axis, low, high, ticks, _titled(axis.title, unit))


def format_tick(value: float, step: float) -> str:
    """``value`` with just the decimals that ``step`` needs: ``12,000``, ``0.25``."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if decimals and not math.isclose(step, round(step, decimals), rel_tol=1e-6):
        decimals += 1
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def _extent(axis: Axis, values: Sequence[FloatColumn]) -> tuple[float, float]:
    lows, highs = [], []
    for column in values:
        seen = column[np.isfinite(column) & ((column > 0) | (not axis.log))]
        if seen.size:
            lows.append(float(seen.min()))
            highs.append(float(seen.max()))
    default = 1.0 if axis.log else 0.0
    low = axis.low if axis.low is not None else min(lows, default=default)
    high = axis.high if axis.high is not None else max(highs, default=low)
    if high <= low:
        high = low * 10 if axis.log else low + 1.0
    return low, high


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.75)


def _multiples(low: float, high: float, step: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _titled(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def _fit_time(axis: Axis, low: float, high: float, wanted: int) -> FittedAxis:
    unit, seconds = next(
        ((name, size) for name, size in _TIME_UNITS if high - low >= 3 * size), _TIME_UNITS[-1]
    )
    span = (high - low) / seconds
    steps = _TIME_STEPS[unit]
    step = next((s for s in steps if span / s <= wanted + 1), _nice_step(span / wanted))
    ticks = tuple(
        (value * seconds, format_tick(value, step))
        for value in _multiples(low / seconds, high / seconds, step)
    )
    return FittedAxis(axis, low, high, ticks, _titled(axis.title, unit))


def _fit_log(axis: Axis, low: float, high: float, wanted: int) -> FittedAxis:
    if axis.quantity in ("time", "duration"):
        candidates = _LOG_TIMES["fine" if high / low < 200 else "coarse"]
    else:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if high / low < 200 else (1,)
        candidates = tuple((m * 10.0**p, f"{m * 10.0**p:,.10g}") for p in powers for m in steps)
    inside = [tick for tick in candidates if low * 0.999 <= tick[0] <= high * 1.001]
    ticks = _spread_out(inside, math.log(high / low) / (wanted + 3))
    unit = "" if axis.quantity in ("time", "duration") else axis.unit
    return FittedAxis(
        axis, low, high, tuple(ticks), _titled(axis.title, f"{unit}, log scale".lstrip(", "))
    )


def _spread_out(ticks: list[tuple[float, str]], gap: float) -> list[tuple[float, str]]:
    kept: list[tuple[float, str]] = []
    for value, label in ticks:
        if not kept or math.log(value / kept[-1][0]) >= gap:
            kept.append((value, label))
    return kept
