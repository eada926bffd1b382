"""The aggregates of a run: mean, p50, p90, p99 and max of every metric, whole and by group.

Only tracked jobs are summarised. A figure says over how many of them it is (``count``), and the
statuses say what became of the rest.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from volvelle.metrics import measures, series
from volvelle.metrics.catalogue import METRICS
from volvelle.metrics.outcomes import FloatColumn, IntColumn, JobStatus, Outcomes, Steps
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem, nearest

GROUPINGS: dict[str, Callable[[JobSpec], str | float]] = {
    "pool": lambda spec: spec.pool,
    "user": lambda spec: spec.user,
    "class": lambda spec: spec.job_class.value,
    "width": lambda spec: spec.gpus,
}
"""What jobs can be grouped by; width is the GPUs requested."""


@dataclass(frozen=True)
class SummaryRow:
    """One metric of one group, for a table; grouping and group are empty for the whole run."""

    grouping: str
    group: str
    metric: str
    title: str
    unit: str
    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Figures:
    """A metric's measures, by their names, over ``count`` jobs."""

    count: int
    values: dict[str, float]


@dataclass(frozen=True)
class Group:
    """Jobs that were summarised together: how many, how they stood, and what was measured."""

    jobs: int
    statuses: dict[str, int]
    figures: dict[str, Figures]


@dataclass(frozen=True)
class Summary:
    """The aggregates of one run.

    submitted: jobs of the workload, tracked or not.
    total: all tracked jobs. run: the metrics that are one number. over_time: those that are series.
    groups: for each grouping asked for, its groups by name.
    """

    submitted: int
    total: Group
    run: dict[str, float]
    over_time: dict[str, dict[str, float]]
    groups: dict[str, dict[str, Group]]

    def as_json(self) -> dict[str, Any]:
        """What metrics.json holds: plain JSON values, NaN and infinity as null."""
        return {
            "jobs": {
                "submitted": self.submitted,
                "tracked": self.total.jobs,
                "status": self.total.statuses,
            },
            "metrics": _in_order(
                _jobs_json(self.total)
                | {name: _with_unit(name, {"value": value}) for name, value in self.run.items()}
                | {name: _with_unit(name, values) for name, values in self.over_time.items()}
            ),
            "by": {
                grouping: {
                    name: {
                        "jobs": group.jobs,
                        "status": group.statuses,
                        "metrics": _jobs_json(group),
                    }
                    for name, group in groups.items()
                }
                for grouping, groups in self.groups.items()
            },
        }

    def rows(self) -> list[SummaryRow]:
        """A flat table: per-job metrics of the whole run, then of each group; empty ones left out.

        The run's single numbers and series are in `run` and `over_time`.
        """
        parts = [("", "", self.total)] + [
            (grouping, name, group)
            for grouping, groups in self.groups.items()
            for name, group in groups.items()
        ]
        return [
            SummaryRow(
                grouping,
                group_name,
                name,
                METRICS[name].title,
                METRICS[name].unit,
                figures.count,
                **figures.values,
            )
            for grouping, group_name, group in parts
            for name, figures in group.figures.items()
            if figures.count
        ]


def summarise(outcomes: Outcomes, *, by: Sequence[str] = ()) -> Summary:
    """Aggregate the tracked jobs, whole and once more by each of ``by`` (keys of `GROUPINGS`).

    Raises `Problem` for an unknown grouping.
    """
    for grouping in by:
        if grouping not in GROUPINGS:
            raise Problem(
                f"cannot group jobs by {grouping!r}{nearest(grouping, GROUPINGS)}",
                mend=f"group by {', '.join(GROUPINGS)}",
            )
    columns: dict[str, FloatColumn] = {}
    run: dict[str, float] = {}
    over_time: dict[str, dict[str, float]] = {}
    start, end = series.start_time(outcomes), outcomes.end_time
    for name, metric in METRICS.items():
        result = metric.of(outcomes)
        if isinstance(result, Steps):
            figures = measures.over_time(result, start, end, *measures.STANDARD)
            over_time[name] = dict(zip(measures.STANDARD, figures, strict=True))
        elif isinstance(result, float):
            run[name] = result
        else:
            columns[name] = result
    tracked = np.flatnonzero(outcomes.tracked)
    return Summary(
        submitted=len(outcomes),
        total=_group(outcomes, columns, tracked),
        run=run,
        over_time=over_time,
        groups={
            grouping: {
                name: _group(outcomes, columns, members)
                for name, members in _members(outcomes, grouping, tracked)
            }
            for grouping in by
        },
    )


def _members(outcomes: Outcomes, grouping: str, tracked: IntColumn) -> list[tuple[str, IntColumn]]:
    """The tracked rows of each group, groups in order of their keys (widths as numbers)."""
    key_of = GROUPINGS[grouping]
    keys, group = np.unique(
        np.array([key_of(outcomes.specs[row]) for row in tracked]), return_inverse=True
    )
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(1, len(keys)))
    return [
        (str(key).removesuffix(".0") if grouping == "width" else str(key), tracked[members])
        for key, members in zip(keys.tolist(), np.split(order, bounds), strict=False)
    ]


def _group(outcomes: Outcomes, columns: dict[str, FloatColumn], members: IntColumn) -> Group:
    statuses = outcomes.status[members]
    return Group(
        jobs=len(members),
        statuses={status.value: int((statuses == status.value).sum()) for status in JobStatus},
        figures={name: _figures(column[members]) for name, column in columns.items()},
    )


def _figures(values: FloatColumn) -> Figures:
    known = values[~np.isnan(values)]
    figures = measures.of_jobs(known, *measures.STANDARD)
    return Figures(len(known), dict(zip(measures.STANDARD, figures, strict=True)))


def _jobs_json(group: Group) -> dict[str, Any]:
    return {
        name: _with_unit(name, {"count": figures.count, **figures.values})
        for name, figures in group.figures.items()
    }


def _with_unit(name: str, figures: dict[str, float]) -> dict[str, Any]:
    return {
        "unit": METRICS[name].unit,
        **{key: value if math.isfinite(value) else None for key, value in figures.items()},
    }


def _in_order(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in METRICS}
