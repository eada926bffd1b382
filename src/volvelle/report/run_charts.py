"""The charts of one run or of several on one trace: completion times, queue, utilisation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from volvelle.metrics import per_job, series
from volvelle.metrics.outcomes import Outcomes, Steps
from volvelle.model.arrays import FloatColumn
from volvelle.report.charts import Axis, Drawing, Plot, Series, cdf, line_chart
from volvelle.report.charts.layout import WIDTH
from volvelle.report.charts.palette import series_color

_TIME = "Time since the first submission"


def completion_cdf(runs: Mapping[str, Outcomes], width: float = WIDTH) -> Drawing:
    """The share of the tracked jobs that finished within a time after submission."""
    return _cdf(
        runs, per_job.jct, "Job completion time",
        "Share of all jobs that finished within the time",
        x_title="Submission to finish", width=width,
    )  # fmt: skip


def wait_cdf(runs: Mapping[str, Outcomes], width: float = WIDTH) -> Drawing:
    """The share of the tracked jobs that first started within a time after submission."""
    return _cdf(
        runs, per_job.responsiveness, "Wait for the first GPU",
        "Share of all jobs that started within the time (under 1 s: drawn at 1 s)",
        x_title="Submission to first start", width=width,
    )  # fmt: skip


def _cdf(
    runs: Mapping[str, Outcomes],
    column: Callable[[Outcomes], FloatColumn],
    title: str,
    subtitle: str,
    *,
    x_title: str,
    width: float,
) -> Drawing:
    lines = []
    for index, (name, outcomes) in enumerate(runs.items()):
        values = column(outcomes)[outcomes.tracked]
        x, share = cdf(np.maximum(values, 1.0), of=len(values))
        lines.append(Series.numbered(index, name, x, share))
    low, high = _log_extent(lines)
    held = tuple(_held_until(line, high) for line in lines)
    axis = Axis(x_title, "duration", log=True, low=low, high=high)
    plot = Plot(held, Axis("Share of jobs", "share", low=0.0, high=1.0))
    return line_chart(title, [plot], axis, subtitle=subtitle, width=width)


def _log_extent(lines: list[Series]) -> tuple[float, float]:
    """From the first value of any line to the last, or to ten times the first where all are one."""
    low = min((float(line.x[0]) for line in lines if len(line.x)), default=1.0)
    high = max((float(line.x[-1]) for line in lines if len(line.x)), default=low)
    return low, high if high > 1.5 * low else 10.0 * low


def _held_until(line: Series, end: float) -> Series:
    """A distribution function goes on at its last share."""
    if not len(line.x):
        return line
    return replace(line, x=np.append(line.x, end), y=np.append(line.y, line.y[-1]))


def utilisation(outcomes: Outcomes) -> Drawing:
    """GPUs held, below the GPUs there are."""
    span = _span([outcomes])
    plot = Plot(
        (
            Series.of_steps("held by jobs", series.busy_gpus(outcomes), span, filled=True),
            Series.of_steps("in the cluster", outcomes.capacity, span, "ink", dash=(6, 3)),
        ),
        Axis("GPUs", low=0.0, high=_capacity([outcomes]) * 1.08),
    )
    return line_chart("GPUs in use", [plot], _time_axis(span), subtitle=_course(outcomes))


def queue(outcomes: Outcomes) -> Drawing:
    """Jobs that wait, and below the GPUs they request."""
    span = _span([outcomes])
    waiting = Series.of_steps("jobs waiting", series.queue_length(outcomes), span)
    wanted = Series.of_steps("GPUs requested", series.queued_gpus(outcomes), span, "series-2")
    plots = [
        Plot((waiting,), Axis("Jobs waiting", low=0.0, whole=True)),
        Plot((wanted,), Axis("GPUs requested by the waiting jobs", low=0.0, whole=True)),
    ]
    return line_chart(
        "Queue", plots, _time_axis(span), height=170, legend=False, subtitle=_course(outcomes)
    )


def queues(runs: Mapping[str, Outcomes], shown: slice = slice(None)) -> Drawing:
    """Jobs that wait, a panel for each run of ``shown``, with axes for all of the runs."""
    axis = Axis("Jobs", low=0.0, whole=True)
    return _multiples(runs, shown, series.queue_length, "Jobs waiting", axis)


def utilisations(runs: Mapping[str, Outcomes], shown: slice = slice(None)) -> Drawing:
    """GPUs held, a panel for each run of ``shown``, with axes for all of the runs."""
    axis = Axis("GPUs", low=0.0, high=_capacity(runs.values()) * 1.08)
    return _multiples(runs, shown, series.busy_gpus, "GPUs in use", axis, lambda run: run.capacity)


def _multiples(
    runs: Mapping[str, Outcomes],
    shown: slice,
    quantity: Callable[[Outcomes], Steps],
    title: str,
    y: Axis,
    bound: Callable[[Outcomes], Steps] | None = None,
) -> Drawing:
    span = _span(runs.values())
    columns = 1 if len(runs) == 1 else 2
    lines = [
        Series.of_steps(
            name, quantity(run), span, series_color(index), filled=True, until=run.end_time
        )
        for index, (name, run) in enumerate(runs.items())
    ]
    most = max((float(line.y.max(initial=1.0)) for line in lines), default=1.0)
    plots = [
        Plot((line, *_bound(bound, run, span)), y, line.name, at_least=most)
        for line, run in zip(lines, runs.values(), strict=True)
    ]
    return line_chart(
        title, plots[shown], _time_axis(span), columns=columns, height=130, legend=False,
        subtitle="Same scale in every panel; line: mean, band: least to most within a pixel"
        + (", dashed: GPUs in the cluster" if bound else ""),
    )  # fmt: skip


def _bound(
    bound: Callable[[Outcomes], Steps] | None, run: Outcomes, span: tuple[float, float]
) -> list[Series]:
    if bound is None:
        return []
    line = Series.of_steps("in the cluster", bound(run), span, "ink", dash=(6, 3))
    return [replace(line, width=1.2)]


def _capacity(runs: Iterable[Outcomes]) -> float:
    return max((float(run.capacity.values.max(initial=1.0)) for run in runs), default=1.0)


def _span(runs: Iterable[Outcomes]) -> tuple[float, float]:
    listed = list(runs)
    start = min((series.start_time(run) for run in listed), default=0.0)
    end = max((run.end_time for run in listed), default=1.0)
    return start, max(end, start + 1.0)


def _time_axis(span: tuple[float, float]) -> Axis:
    return Axis(_TIME, "time", low=0.0, high=span[1] - span[0])


def _course(outcomes: Outcomes) -> str:
    many = len(outcomes.segments.job) > 800
    return "Line: mean, band: least to most within a pixel" if many else ""
