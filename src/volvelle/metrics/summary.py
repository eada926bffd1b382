"""The aggregates of a run: mean, p50, p90, p99 and max of every metric, whole and by group.

Only tracked jobs are summarised. A figure says over how many of them it is (``count``), and the
statuses say what became of the rest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from volvelle.metrics import labels, measures, series
from volvelle.metrics.catalogue import Objective, metrics
from volvelle.metrics.labels import Labels
from volvelle.metrics.outcomes import JobStatus, Outcomes, Steps, once
from volvelle.model.arrays import FloatColumn, IntColumn

GROUPINGS: dict[str, Callable[[Outcomes], Labels]] = {
    "pool": labels.pools,
    "user": labels.users,
    "class": labels.classes,
    "width": labels.widths,
}
"""The labels by which jobs are grouped; width is the GPUs requested."""


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
    groups: for each of `GROUPINGS`, its groups by name.
    """

    submitted: int
    total: Group
    run: dict[str, float]
    over_time: dict[str, dict[str, float]]
    groups: dict[str, dict[str, Group]]

    def as_json(self) -> dict[str, Any]:
        """The content of metrics.json: plain JSON values, NaN and infinity as null."""
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

    def figure(self, objective: Objective) -> float | None:
        """The objective's figure over the whole run; None where it is not of the standard measures."""
        name, measure = objective.metric.name, objective.measure
        if objective.metric.kind == "run":
            return self.run[name]
        figures = (
            self.over_time[name] if name in self.over_time else self.total.figures[name].values
        )
        return figures.get(measure)


def figure(outcomes: Outcomes, objective: Objective) -> float:
    """The objective's figure, from the summary where it is in it."""
    found = summarise(outcomes).figure(objective)
    return objective.of(outcomes) if found is None else found


@once
def summarise(outcomes: Outcomes) -> Summary:
    """Aggregate the tracked jobs, whole and by each of `GROUPINGS`."""
    columns: dict[str, FloatColumn] = {}
    run: dict[str, float] = {}
    over_time: dict[str, dict[str, float]] = {}
    start, end = series.start_time(outcomes), outcomes.end_time
    for name, metric in metrics.all().items():
        result = metric(outcomes)
        if isinstance(result, Steps):
            figures = measures.over_time(result, start, end, *measures.STANDARD)
            over_time[name] = dict(zip(measures.STANDARD, figures, strict=True))
        elif isinstance(result, float):
            run[name] = result
        else:
            columns[name] = result
    tracked = np.flatnonzero(outcomes.tracked)
    [total] = _groups(outcomes, columns, _Members([""], tracked, np.array([0, len(tracked)])))
    return Summary(
        submitted=len(outcomes),
        total=total,
        run=run,
        over_time=over_time,
        groups={
            grouping: dict(zip(members.names, _groups(outcomes, columns, members), strict=True))
            for grouping, members in _members(outcomes, tracked).items()
        },
    )


def hand_on(summary: Summary, outcomes: Outcomes) -> None:
    """Let `summarise` answer with the ``summary`` that another process made of the same outcomes."""
    outcomes.derived[summarise] = summary


class _Members(NamedTuple):
    """Rows of jobs, group by group: those of group ``i`` are ``rows[bounds[i]:bounds[i + 1]]``."""

    names: list[str]
    rows: IntColumn
    bounds: IntColumn


def _members(outcomes: Outcomes, tracked: IntColumn) -> dict[str, _Members]:
    """The tracked rows by each grouping, groups in order of their names (widths as numbers)."""
    found = {}
    for grouping, labels_of in GROUPINGS.items():
        labelled = labels_of(outcomes)
        numbers = labelled.of[tracked]
        jobs = np.bincount(numbers, minlength=len(labelled.names))
        key = float if grouping == "width" else str
        ascending = sorted(np.flatnonzero(jobs).tolist(), key=lambda at: key(labelled.names[at]))
        place = np.zeros(len(jobs), dtype=np.int64)
        place[ascending] = np.arange(len(ascending))
        found[grouping] = _Members(
            [labelled.names[at] for at in ascending],
            tracked[np.argsort(place[numbers], kind="stable")],
            np.concatenate(([0], np.cumsum(jobs[ascending]))),
        )
    return found


def _groups(outcomes: Outcomes, columns: dict[str, FloatColumn], members: _Members) -> list[Group]:
    jobs = np.diff(members.bounds)
    places = np.repeat(np.arange(len(jobs)), jobs)
    statuses = outcomes.status[members.rows]
    counts = {
        status.value: np.bincount(places[statuses == status.value], minlength=len(jobs)).tolist()
        for status in JobStatus
    }
    figures = {
        name: _figures(column[members.rows], members.bounds) for name, column in columns.items()
    }
    return [
        Group(
            jobs=count,
            statuses={status: of_status[at] for status, of_status in counts.items()},
            figures={name: of_metric[at] for name, of_metric in figures.items()},
        )
        for at, count in enumerate(jobs.tolist())
    ]


def _figures(values: FloatColumn, bounds: IntColumn) -> list[Figures]:
    """The figures of a metric for each group of ``values``; NaN counts as unknown."""
    known = ~np.isnan(values)
    bounds = np.concatenate(([0], np.cumsum(known)))[bounds]
    figures = measures.of_groups(values[known], bounds)
    by_group = zip(*(figures[measure].tolist() for measure in measures.STANDARD), strict=True)
    return [
        Figures(count, dict(zip(measures.STANDARD, row, strict=True)))
        for count, row in zip(np.diff(bounds).tolist(), by_group, strict=True)
    ]


def _jobs_json(group: Group) -> dict[str, Any]:
    return {
        name: _with_unit(name, {"count": figures.count, **figures.values})
        for name, figures in group.figures.items()
    }


def _with_unit(name: str, figures: dict[str, float]) -> dict[str, Any]:
    return {
        "unit": metrics.get(name).unit,
        **{key: value if math.isfinite(value) else None for key, value in figures.items()},
    }


def _in_order(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: figures[name] for name in metrics.all()}
