"""The report of a workload: what is in a trace before anything is run on it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from volvelle.metrics.outcomes import Steps
from volvelle.report.charts import (
    Axis,
    BarGroup,
    Drawing,
    Plot,
    Series,
    bar_chart,
    line_chart,
    write_pngs,
)
from volvelle.report.page import Section, figure, note, tiles, write_page
from volvelle.report.table import Amount, Cell, Column, Table, format_cell, format_number, to_html
from volvelle.workload import describe
from volvelle.workload.describe import Description, Distribution, GroupShare

_HALF_WIDTH = 560.0
_MOST_WIDTHS = 10
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def write_describe_report(
    description: Description,
    directory: Path,
    *,
    title: str,
    facts: Mapping[str, str],
    png: bool = False,
) -> Path:
    """Write ``report.html`` into ``directory``, with ``png`` also its charts; return the page's path."""
    directory.mkdir(parents=True, exist_ok=True)
    drawings = {
        "load": load_drawing(description),
        "durations": distribution_drawing(
            description.duration_seconds, "Job durations", "Alone on the requested GPUs"
        ),
        "gaps": distribution_drawing(
            description.gap_seconds, "Time between submissions", "From one job to the next", "gaps"
        ),
        "widths": widths_drawing(description),
    }
    if png:
        write_pngs(drawings, directory)
    figures = {name: figure(drawing, name) for name, drawing in drawings.items()}
    pair = f'<div class="pair">{figures["durations"]}{figures["gaps"]}</div>'
    groups = [
        (description.top_users, "Users with the most GPU time", "user"),
        (description.top_pools, "Pools with the most GPU time", "pool"),
    ]
    shown = [to_html(_group_table(*entry)) for entry in groups if entry[0]]
    sections = [
        Section("load", "Load over time", figures["load"]),
        Section("distributions", "The jobs", pair + to_html(_quantile_table(description))),
        Section("widths", "GPUs per job", figures["widths"]),
        Section("groups", "Users and pools", "".join(shown) or note("The trace names none.")),
    ]
    return write_page(
        directory / "report.html",
        title=title,
        facts=facts,
        lead=tiles(_headline(description)),
        sections=sections,
    )


def load_drawing(description: Description) -> Drawing:
    """GPUs that would be busy if no job waited, and the work submitted each day, over time."""
    hourly, daily = description.hourly, description.daily
    span = (hourly.start_seconds, description.first_submit_seconds + description.span_seconds)
    span = (span[0], max(span[1], span[0] + hourly.bin_seconds))
    lines = [
        Series.of_steps(
            "demanded, by the hour", _steps(hourly, hourly.demanded_gpus), span, filled=True
        ),
        Series.of_steps(
            "submitted, by the day",
            _steps(daily, daily.submitted_gpus),
            span,
            "series-2",
            until=_end_of_last_full_bin(daily, span[1]),
        ),
    ]
    if description.cluster_gpus:
        there = Steps(np.array([span[0]]), np.array([float(description.cluster_gpus)]))
        lines.append(Series.of_steps("in the cluster", there, span, "ink", dash=(6, 3)))
    axis = Axis("Time since the trace begins", "time", low=0.0, high=span[1] - span[0])
    return line_chart(
        "Load",
        [Plot(tuple(lines), Axis("GPUs", low=0.0))],
        axis,
        subtitle="GPUs in use if every job started at once, and GPU time submitted per day",
    )


def _end_of_last_full_bin(series: describe.TimeSeries, end: float) -> float:
    """Where to stop drawing: the last bin, cut off by the trace's end, would look like a fall."""
    full = int((end - series.start_seconds) // series.bin_seconds)
    return series.start_seconds + full * series.bin_seconds if full else end


def _steps(series: describe.TimeSeries, values: Sequence[float]) -> Steps:
    times = series.start_seconds + series.bin_seconds * np.arange(len(values), dtype=np.float64)
    return Steps(times, np.array(values, dtype=np.float64))


def distribution_drawing(
    distribution: Distribution, title: str, x_title: str, counted: str = "jobs"
) -> Drawing:
    """The distribution function of durations, on a log scale."""
    points = np.array(distribution.cdf, dtype=np.float64).reshape(-1, 2)
    line = Series.numbered(0, counted, np.maximum(points[:, 0], 1.0), points[:, 1])
    plot = Plot((line,), Axis(f"Share of {counted}", "share", low=0.0, high=1.0))
    axis = Axis(x_title, "duration", log=True)
    subtitle = f"Share of the {distribution.count:,} {counted} not longer (under 1 s: drawn at 1 s)"
    return line_chart(title, [plot], axis, subtitle=subtitle, width=_HALF_WIDTH)


def widths_drawing(description: Description) -> Drawing:
    """Share of jobs and share of GPU time by the GPUs requested; the rarest widths together."""
    kept = sorted(description.widths, key=lambda width: -width.jobs)[:_MOST_WIDTHS]
    kept.sort(key=lambda width: width.gpus)
    names = [format_number(width.gpus) for width in kept]
    jobs = [width.job_share for width in kept]
    time = [width.gpu_second_share for width in kept]
    if len(description.widths) > len(kept):
        names.append("others")
        jobs.append(1.0 - sum(jobs))
        time.append(1.0 - sum(time))
    groups = [
        BarGroup("of the jobs", np.array(jobs)),
        BarGroup("of the GPU time", np.array(time), "series-2"),
    ]
    return bar_chart(
        "GPUs per job", names, groups, "GPUs requested", Axis("Share", "share", low=0.0)
    )


def _headline(description: Description) -> dict[str, str]:
    figures = {
        "jobs": f"{description.jobs:,}",
        "from first to last submission": format_cell(description.span_seconds, "s"),
        "of GPU time": f"{format_cell(description.gpu_seconds, 'GPU s')} h",
        "GPUs at most, if nobody waited": format_number(description.peak_demanded_gpus),
    }
    if description.load is not None:
        figures[f"load of {description.cluster_gpus:,} GPUs"] = format_cell(
            100.0 * description.load, "%"
        )
    day = description.busiest_day
    if day is not None and day.offered_load is not None:
        figures[f"load on the busiest day (day {day.day})"] = format_cell(
            100.0 * day.offered_load, "%"
        )
    return figures


def _quantile_table(description: Description) -> Table:
    listed = (
        ("Duration", description.duration_seconds, "s"),
        ("GPUs requested", description.gpus, "1"),
        ("Time between submissions", description.gap_seconds, "s"),
        ("User's estimate over the truth", description.estimate_ratio, "1"),
    )
    rows = [(name, d.count, *_quantiles(d, unit)) for name, d, unit in listed if d.count]
    heads = ("mean", "least", *(f"p{100 * share:g}" for share in _QUANTILES), "most")
    columns = (Column("of", "of"), Column("count", "count"), *(Column(h, h) for h in heads))
    return Table("Distributions", columns, tuple(rows))


def _quantiles(distribution: Distribution, unit: str) -> list[Cell]:
    numbers = (
        distribution.mean,
        distribution.least,
        *(distribution.quantile(share) for share in _QUANTILES),
        distribution.most,
    )
    return [None if number is None else Amount(number, unit) for number in numbers]


def _group_table(groups: Sequence[GroupShare], title: str, name: str) -> Table:
    return Table(
        title,
        (
            Column(name, name),
            Column("jobs", "jobs"),
            Column("gpu_seconds", "GPU time", "GPU s"),
            Column("share", "share", "%"),
        ),
        tuple(
            (group.name, group.jobs, group.gpu_seconds, 100.0 * group.gpu_second_share)
            for group in groups
        ),
    )
