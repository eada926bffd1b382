"""The figures of a run and of a trace, as tables for the terminal or for programs."""

import math
from typing import TYPE_CHECKING

from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volvelle.metrics.summary import Summary
    from volvelle.model.job import Job
    from volvelle.report.table import Table
    from volvelle.workload.describe import Description
    from volvelle.workload.proposing import SeenType
    from volvelle.workload.workload import Workload

_MOST_TYPES = 6


def run_figures(summary: "Summary", form: Form) -> "Table":
    """Each metric with its measures; for programs with units as a column and raw numbers."""
    from volvelle.metrics.catalogue import metrics
    from volvelle.metrics.measures import STANDARD
    from volvelle.report.table import Amount, Cell, Column, Table

    rows: list[tuple[Cell, ...]] = []
    for name, metric in metrics.all().items():
        count: int | None = None
        if name in summary.run:
            values = {"mean": summary.run[name]}
        elif name in summary.over_time:
            values = summary.over_time[name]
        else:
            figures = summary.total.figures[name]
            if not figures.count:
                continue
            count, values = figures.count, figures.values
        numbers = [values.get(measure) for measure in STANDARD]
        if form is Form.TABLE:
            if not any(n for n in numbers if n is not None and not math.isnan(n)):
                continue  # nothing was lost, preempted or solved: not worth a line
            shown = [None if n is None else Amount(n, metric.unit) for n in numbers]
            rows.append((metric.title, *shown))
        else:
            rows.append((name, metric.unit, count, *numbers))
    measures = [Column(measure, measure) for measure in STANDARD]
    if form is Form.TABLE:
        return Table("", (Column("metric", ""), *measures), tuple(rows))
    heads = (Column("metric", "metric"), Column("unit", "unit"), Column("count", "count"))
    return Table("", (*heads, *measures), tuple(rows))


def description_facts(
    description: "Description", workload: "Workload", types: "Sequence[SeenType]"
) -> list[str]:
    """The contents of a trace, in a few lines, the last of them a cluster for its GPU ``types``."""
    from volvelle.cli.formatting import counted
    from volvelle.model.units import format_duration
    from volvelle.report.table import format_number

    d = description
    report = workload.report
    named = f"{report.source} ({report.format}): {report}" if report else d.name
    jobs = counted(d.jobs, "job")
    jobs += f" of {counted(d.users, 'user')}" if d.users else ""
    jobs += f" in {counted(d.pools, 'pool')}" if d.pools else ""
    kinds = d.classes if len(d.classes) > 1 else {}
    kinds = kinds | {"elastic": d.elastic, "with fractions of GPUs": d.fractional}
    special = ", ".join(f"{count:,} {name}" for name, count in kinds.items() if count)
    burst = f"; burstiness {format_number(d.burstiness)} (1 is Poisson)" if d.burstiness else ""
    lines = [
        f"{named}.",
        f"{jobs} over {format_duration(d.span_seconds)}{f'; {special}' if special else ''}.",
        f"{format_number(d.gpu_seconds / 3600)} GPU h; at most "
        f"{format_number(d.peak_demanded_gpus)} GPUs if nobody waited{burst}.",
    ]
    if d.unrunnable:
        lines.append(f"{d.unrunnable:,} jobs make no progress on the GPUs they ask for.")
    if d.load is not None:
        busiest = d.busiest_day
        day = (
            f", busiest day {busiest.offered_load:.2f}" if busiest and busiest.offered_load else ""
        )
        lines.append(f"Load {d.load:.2f} of {d.cluster_gpus:,} GPUs{day}.")
    if types:
        lines.append(_cluster_seen(types, workload))
    if report and report.columns:
        lines.append(_as_read(workload.jobs[0]))
    return lines


def _as_read(job: "Job") -> str:
    """The first job of a trace, by which one sees whether columns and units are the right ones."""
    from volvelle.model.units import format_duration
    from volvelle.report.table import format_number

    spec = job.spec
    kind = f" {'|'.join(spec.gpu_types)}" if spec.gpu_types else ""
    of = [f"{name} {who}" for name, who in (("user", spec.user), ("pool", spec.pool)) if who]
    gpus = f"{format_number(spec.gpus)} GPU{'s' * (spec.gpus != 1)}{kind}"
    took = job.seconds_on(spec.gpus, next(iter(spec.gpu_types), ""))
    waited = (
        f"waited {format_duration(job.recorded.start - spec.submit_time)}, " if job.recorded else ""
    )
    said = ", ".join([f"job {spec.id!r}", *of, gpus])
    return f"As read, the first: {said}; {waited}took {format_duration(took)}."


def _cluster_seen(types: "Sequence[SeenType]", workload: "Workload") -> str:
    """Types and widths of jobs, a cluster that would do, and how many GPUs it has by which account."""
    from volvelle.cli.formatting import counted
    from volvelle.report.table import format_number
    from volvelle.workload.proposing import TYPICAL_LOAD, most_recorded_gpus, proposed_cluster

    seen = []
    for one in types[:_MOST_TYPES]:
        widths = f"{one.widths[0]:g}"
        if len(one.widths) > 1:
            widths += f" to {one.widths[-1]:g}"
        kind = f" {one.gpu_type}" if one.gpu_type else " of any type" if len(types) > 1 else ""
        gpus = "GPU" if widths == "1" else "GPUs"
        seen.append(f"{counted(one.jobs, 'job')} of {widths} {gpus}{kind}")
    if len(types) > _MOST_TYPES:
        seen.append(f"{format_number(len(types) - _MOST_TYPES)} types more")
    line = proposed_cluster(types)
    if not line:
        return f"{', '.join(seen)}."
    if any(job.recorded is None for job in workload.jobs):
        made = f"for a load of {TYPICAL_LOAD:g}, or less where all jobs run at once"
    else:
        several = len(types) > 1
        made = f"the most GPUs{' of each type' * several} held at once, as recorded"
        if several:
            made += f"; {format_number(most_recorded_gpus(workload.jobs))} of all types together"
    return f"{', '.join(seen)}; try {line} ({made})."


def quantiles(description: "Description") -> "Table":
    """Durations, GPUs, gaps and estimates: mean and quantiles."""
    from volvelle.report.table import Amount, Cell, Column, Table

    shares = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
    rows: list[tuple[Cell, ...]] = []
    for title, unit, column in (
        ("duration", "s", description.duration_seconds),
        ("GPUs", "1", description.gpus),
        ("gap between submissions", "s", description.gap_seconds),
        ("estimate over duration", "1", description.estimate_ratio),
    ):
        if column.count:
            values = [column.mean, *map(column.quantile, shares.values()), column.most]
            cells = [None if value is None else Amount(value, unit) for value in values]
            rows.append((title, column.count, *cells))
    heads = [Column(name, name) for name in ("mean", *shares, "max")]
    return Table("", (Column("of", ""), Column("jobs", "jobs"), *heads), tuple(rows))
