"""Lines and steps over an axis: one panel, or several that share their horizontal axis.

A step series with more changes than the panel has pixels is drawn as the mean of each pixel column
over a pale band from its least to its greatest value, so that nothing short-lived is lost and the
course can still be followed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.metrics.outcomes import Steps
from volvelle.model.arrays import FloatColumn
from volvelle.report.charts.axes import Axis, FittedAxis, fit
from volvelle.report.charts.layout import (
    NARROW,
    WIDTH,
    Box,
    LegendEntry,
    also_narrow,
    frame,
    header,
    left_margin,
)
from volvelle.report.charts.marks import Area, Drawing, Line, Mark, Panel, Text, clip_text
from volvelle.report.charts.palette import series_color, series_dash
from volvelle.report.charts.simplify import simplify_line, step_envelope, step_points


@dataclass(frozen=True)
class Series:
    """One named line. A ``stepped`` one holds its value until the next ``x``, the last to ``until``.

    Without ``until``, it is held to the end of the axis.
    """

    name: str
    x: FloatColumn
    y: FloatColumn
    color: str = "series-1"
    dash: tuple[float, ...] = ()
    stepped: bool = False
    filled: bool = False
    width: float = 2.0
    until: float | None = None

    @classmethod
    def numbered(cls, index: int, name: str, x: FloatColumn, y: FloatColumn) -> "Series":
        """A line in the colour and pattern of the series number ``index``."""
        return cls(name, x, y, series_color(index), series_dash(index))

    @classmethod
    def of_steps(
        cls,
        name: str,
        steps: Steps,
        span: tuple[float, float],
        color: str = "series-1",
        *,
        dash: tuple[float, ...] = (),
        filled: bool = False,
        until: float | None = None,
    ) -> "Series":
        """``steps`` within ``span``, on an axis that begins with it; 0 before the first change.

        ``until`` is when the series ends, if before the span does.
        """
        start, end = span[0], min(span[1], span[1] if until is None else until)
        inside = (steps.times > start) & (steps.times < end)
        before = np.flatnonzero(steps.times <= start)
        first = steps.values[before[-1]] if before.size else 0.0
        x = np.concatenate([[0.0], steps.times[inside] - start])
        y = np.concatenate([[first], steps.values[inside]])
        return cls(name, x, y, color, dash, stepped=True, filled=filled, until=end - start)


@dataclass(frozen=True)
class Plot:
    """The series that share one panel, and its vertical axis, which reaches ``at_least`` so far."""

    series: tuple[Series, ...]
    y: Axis
    title: str = ""
    at_least: float = 0.0


@also_narrow
def line_chart(
    title: str,
    plots: Sequence[Plot],
    x: Axis,
    *,
    subtitle: str = "",
    description: str = "",
    columns: int = 1,
    height: float = 300.0,
    width: float = WIDTH,
    legend: bool | None = None,
) -> Drawing:
    """The panels in rows of ``columns``, each ``height`` tall without its axis; ``x`` is shared.

    The legend names every series once, with the series that covers it if one does; by default it is left out
    where there is only one. A narrow drawing has one column.
    """
    columns = columns if width > NARROW else 1
    ticks = 4 if width <= NARROW else 10 if columns == 1 else 7
    across = fit(x, [s.x for plot in plots for s in plot.series], wanted=ticks)
    entries = _entries(plots)
    shown = entries if (len(entries) > 1 if legend is None else legend) else []
    marks, top = header(title, subtitle, shown, width)
    top += 48 if any(plot.title for plot in plots) else 30
    upright = [
        fit(
            plot.y,
            [*(series.y for series in plot.series), np.array([plot.at_least])],
            wanted=max(2, int(height / 42)),
        )
        for plot in plots
    ]
    margin = left_margin(upright)
    panel_width = (width - 12) / columns - margin - 8
    for index, (plot, y) in enumerate(zip(plots, upright, strict=True)):
        row, column = divmod(index, columns)
        box = Box(
            12 + margin - 12 + column * (panel_width + margin + 8) + 4,
            top + row * (height + _gap(plots)),
            panel_width,
            height,
        )
        last_row = index + columns >= len(plots)
        marks += _plot_marks(plot, box, across, y, x_title=last_row)
    rows = -(-len(plots) // columns)
    total = top + rows * (height + _gap(plots)) - _gap(plots) + 48
    return Drawing(width, total, tuple(marks), title, description or subtitle)


def _gap(plots: Sequence[Plot]) -> float:
    return 72.0 if any(plot.title for plot in plots) else 56.0


def _entries(plots: Sequence[Plot]) -> list[LegendEntry]:
    named: dict[str, LegendEntry] = {}
    for plot in plots:
        for at, series in enumerate(plot.series):
            above = next((one.name for one in plot.series[at + 1 :] if _covers(one, series)), "")
            name = f"{series.name} (same as {above})" if above else series.name
            entry = LegendEntry(name, series.color, series.dash, series.filled)
            named.setdefault(series.name, entry)
    return list(named.values())


def _covers(above: Series, below: Series) -> bool:
    """Whether two lines are less than a pixel apart everywhere, by relative distance."""
    return 0 < above.x.size == below.x.size and bool(
        np.allclose(above.x, below.x, rtol=1e-3) and np.allclose(above.y, below.y, rtol=1e-3)
    )


def _plot_marks(plot: Plot, box: Box, x: FittedAxis, y: FittedAxis, *, x_title: bool) -> list[Mark]:
    marks = frame(box, x, y, x_title=x_title)
    if plot.title:
        marks.append(Text(box.x, box.y - 25, clip_text(plot.title, 13, box.width), bold=True))
    drawn: list[Mark] = []
    for series in plot.series:
        drawn += _series_marks(series, box, x, y)
    marks.append(
        Panel(box.x, box.y, box.width, box.height, tuple(drawn), x.read_out(), y.read_out())
    )
    return marks


def _series_marks(series: Series, box: Box, x: FittedAxis, y: FittedAxis) -> list[Mark]:
    known = np.isfinite(series.x) & np.isfinite(series.y)
    if not known.any():
        return []
    across = x.place(series.x[known], box.x, box.right)
    upright = y.place(series.y[known], box.bottom, box.y)
    right = box.right
    if series.until is not None:
        right = min(right, float(x.place(np.array([series.until]), box.x, box.right)[0]))
    columns = max(1, int(right - box.x))
    marks: list[Mark] = []
    if series.stepped and len(across) > 2 * columns:
        # Downwards is positive on the sheet: the band's "low" is what the reader sees on top.
        band = step_envelope(across, upright, box.x, right, columns)
        outline = np.concatenate(
            [np.column_stack([band.x, band.low]), np.column_stack([band.x, band.high])[::-1]]
        )
        marks.append(Area(outline, series.color, 0.25))
        points = np.column_stack([band.x, band.mean])
    elif series.stepped:
        points = step_points(across, upright, right)
    else:
        points = simplify_line(np.column_stack([across, upright]), columns)
    if series.filled:
        ends = np.array([[points[-1, 0], box.bottom], [points[0, 0], box.bottom]])
        marks.append(Area(np.concatenate([points, ends]), series.color, 0.25))
    marks.append(Line(points, series.color, series.width, series.dash, series.name))
    return marks
