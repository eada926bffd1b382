"""Which composition ruled when, where it was chosen while the run went on (Blox, figures 15 and 21)."""

from collections.abc import Mapping

import numpy as np

from volvelle.metrics import series
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.units import format_duration
from volvelle.report.charts import Axis, Drawing
from volvelle.report.charts.axes import FittedAxis, fit
from volvelle.report.charts.layout import WIDTH, Box, frame, header, left_margin
from volvelle.report.charts.marks import Mark, Panel, Rect
from volvelle.report.charts.palette import series_color

_ROW = 26.0


def ruled(outcomes: Outcomes) -> dict[str, list[tuple[float, float]]]:
    """For each composition from when to when it ruled, in seconds; the most used first."""
    times = [choice.time for choice in outcomes.choices] + [outcomes.end_time]
    spans: dict[str, list[tuple[float, float]]] = {}
    for choice, end in zip(outcomes.choices, times[1:], strict=True):
        name = f"{choice.policy} + {choice.admission}"
        spans.setdefault(name, []).append((choice.time, max(end, choice.time)))
    return dict(sorted(spans.items(), key=lambda item: -_total(item[1])))


def shares(outcomes: Outcomes) -> dict[str, float]:
    """The share of the time since the first choice in which each composition ruled."""
    spans = {name: _total(those) for name, those in ruled(outcomes).items()}
    whole = sum(spans.values()) or 1.0
    return {name: seconds / whole for name, seconds in spans.items()}


def choices(outcomes: Outcomes) -> Drawing:
    """A row for each composition, filled while it ruled."""
    spans, start = ruled(outcomes), series.start_time(outcomes)
    names = list(spans)
    share = shares(outcomes)
    labels = [f"{name} ({100 * share[name]:.0f} %)" for name in names]
    ticks = tuple((row + 0.5, label) for row, label in enumerate(labels))
    upright = FittedAxis(Axis(""), 0.0, float(max(len(names), 1)), ticks, "")
    length = max(outcomes.end_time - start, 1.0)
    time = Axis("Time since the first submission", "time", low=0.0, high=length)
    across = fit(time, [np.array([0.0, length])], wanted=8)
    title = "Policy and admission chosen"
    marks, top = header(title, "Share of the time since the first choice in brackets", (), WIDTH)
    margin = left_margin([upright])
    box = Box(margin, top + 12, WIDTH - margin - 20, _ROW * max(len(names), 1))
    marks += frame(box, across, upright, downwards=True)
    bars = _bars(spans, start, box, across)
    panel = Panel(box.x, box.y, box.width, box.height, tuple(bars))
    return Drawing(WIDTH, box.bottom + 48, (*marks, panel), title)


def _bars(
    spans: Mapping[str, list[tuple[float, float]]], start: float, box: Box, across: FittedAxis
) -> list[Mark]:
    bars: list[Mark] = []
    for row, (name, those) in enumerate(spans.items()):
        ends = across.place(np.array(those) - start, box.x, box.right)
        for (left, right), (begin, end) in zip(ends.tolist(), those, strict=True):
            title = f"{name}: {format_duration(begin - start)} to {format_duration(end - start)}"
            top = box.y + row * _ROW + 4
            width = max(right - left, 0.5)
            bars.append(Rect(left, top, width, _ROW - 8, series_color(row), title=title))
    return bars


def _total(spans: list[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in spans)
