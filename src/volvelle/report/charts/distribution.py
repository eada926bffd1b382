"""Distributions: the empirical CDF as a series of corners, and grouped bars as a chart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.model.arrays import FloatColumn
from volvelle.report.charts.axes import Axis, FittedAxis, fit
from volvelle.report.charts.layout import (
    TEXT_SIZE,
    WIDTH,
    Box,
    LegendEntry,
    also_narrow,
    frame,
    header,
    left_margin,
)
from volvelle.report.charts.marks import Drawing, Mark, Panel, Rect, Text, clip_text


def cdf(values: FloatColumn, of: int | None = None) -> tuple[FloatColumn, FloatColumn]:
    """The corners of the steps by which the share of ``values`` not above x grows with x, from 0.

    Only finite values are counted. ``of`` is the number that is 100 percent; by default their number.
    """
    known = np.sort(values[np.isfinite(values)])
    shares = np.arange(len(known) + 1) / max(1, of or len(known))
    return np.repeat(known, 2), np.repeat(shares, 2)[1:-1]


@dataclass(frozen=True)
class BarGroup:
    """One value for each category, in one colour."""

    name: str
    values: FloatColumn
    color: str = "series-1"


@also_narrow
def bar_chart(
    title: str,
    categories: Sequence[str],
    groups: Sequence[BarGroup],
    x_title: str,
    y: Axis,
    *,
    subtitle: str = "",
    width: float = WIDTH,
    height: float = 220.0,
) -> Drawing:
    """Bars side by side for each category, from zero."""
    upright = fit(y, [group.values for group in groups], max(2, int(height / 50)))
    across = FittedAxis(Axis(x_title), 0.0, max(1.0, len(categories)), (), x_title)
    legend = [LegendEntry(group.name, group.color, filled=True) for group in groups]
    shown = legend if len(groups) > 1 else []
    marks, box = _single(title, subtitle, shown, x=across, y=upright, width=width, height=height)
    share = box.width / max(1, len(categories))
    bars: list[Rect] = []
    for place, category in enumerate(categories):
        middle = box.x + (place + 0.5) * share
        label = clip_text(category, TEXT_SIZE, share)
        marks.append(Text(middle, box.bottom + 17, label, "muted", TEXT_SIZE, "middle"))
        bars += _bars_at(place, category, groups, upright, box=box, share=share)
    return _finish(title, subtitle, marks, box, bars)


def _bars_at(
    place: int,
    category: str,
    groups: Sequence[BarGroup],
    y: FittedAxis,
    *,
    box: Box,
    share: float,
) -> list[Rect]:
    each = min(48.0, share * 0.8 / len(groups))
    start = box.x + place * share + (share - each * len(groups)) / 2
    shown = y.axis.quantity == "share"
    bars = []
    for number, group in enumerate(groups):
        value = float(group.values[place])
        top = float(y.place(np.array([value]), box.bottom, box.y)[0])
        text = f"{100 * value:.3g} %" if shown else f"{value:,.5g}"
        bars.append(
            Rect(start + number * each + 0.5, top, each - 1, box.bottom - top, group.color,
                 title=f"{category}: {text} {group.name}")
        )  # fmt: skip
    return bars


def _single(
    title: str,
    subtitle: str,
    legend: Sequence[LegendEntry],
    *,
    x: FittedAxis,
    y: FittedAxis,
    width: float,
    height: float,
) -> tuple[list[Mark], Box]:
    marks, top = header(title, subtitle, legend, width)
    margin = left_margin([y])
    box = Box(margin + 4, top + 30, width - margin - 24, height)
    return marks + frame(box, x, y), box


def _finish(
    title: str, subtitle: str, marks: list[Mark], box: Box, bars: Sequence[Mark]
) -> Drawing:
    panel = Panel(box.x, box.y, box.width, box.height, tuple(bars))
    return Drawing(box.right + 20, box.bottom + 48, (*marks, panel), title, subtitle)
