"""Compared compositions: runs that differ in their seed alone, together, and their baseline."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.core.parts import estimators
from volvelle.core.policy import Policy, policies
from volvelle.metrics import series
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.outcomes import RECORDED, Outcomes, Steps
from volvelle.metrics.summary import figure
from volvelle.model.arrays import distinct
from volvelle.model.problems import Problem
from volvelle.report.cautions import PartOfTheLoad
from volvelle.report.grid import Grid, GridRun
from volvelle.report.sentences import Durations
from volvelle.report.table import finished_jobs
from volvelle.workload.proposing import fewer_nodes

_LONG = 300.0  # seconds; records with shorter mean waits are left as they are
_MOSTLY = 0.5  # of the time in which jobs waited
_RARELY = 0.05  # preemptions a job, below which a run is said not to preempt
_DEFAULT_BASELINE = "fifo"


@dataclass(frozen=True)
class Composition:
    """The runs that differ in their seed alone. ``alike``: its own label, and others with the same runs."""

    label: str
    runs: tuple[GridRun, ...]
    alike: tuple[str, ...]
    written: frozenset[str]
    """The policies of all of them, as they are written."""

    def figure(self, measure: str) -> float:
        """A measure as in ``jct:mean``, the mean over the seeds."""
        objective = read_objective(measure)
        figures = [figure(run.outcomes, objective) for run in self.runs]
        return statistics.fmean(figures)

    def mean(self, of: Callable[[Outcomes], float]) -> float:
        """The value of ``of`` for the runs, the mean over the seeds."""
        return statistics.fmean(of(run.outcomes) for run in self.runs)

    @property
    def finished(self) -> float:
        """Jobs that finished."""
        return self.mean(finished_jobs)

    @property
    def is_recorded(self) -> bool:
        """Whether it is what the trace recorded."""
        return self.runs[0].parts.get("policy", "") == RECORDED

    @property
    def is_incumbent(self) -> bool:
        """Whether its policy is the scheduler that the site has."""
        policy = self._policy
        return policy is not None and policy.incumbent

    @property
    def _policy(self) -> Policy | None:
        """Its policy; None where that is of another installation, or in a file that is gone."""
        try:
            return policies.make(self.runs[0].parts.get("policy", ""))
        except Problem:
            return None

    def beside(self, seed: int) -> Outcomes:
        """The run of this seed; what was recorded is the same under all."""
        found = (run.outcomes for run in self.runs if run.seed == seed or self.is_recorded)
        return next(found)

    @property
    def gpu_hours(self) -> float:
        """GPU-hours that jobs hold."""
        return self.mean(lambda outcomes: float(outcomes.gpu_seconds.sum()) / 3600.0)

    @property
    def resized(self) -> float:
        """Share of the jobs that held another number of GPUs than they ask for, 0 to 1."""
        return self.mean(_resized)

    @property
    def durations(self) -> Durations:
        """The knowledge that it needs of how long jobs take; ``exact`` has none but a simulation."""
        policy = self._policy
        if self.is_recorded or (policy is not None and not policy.needs_durations):
            return "none"
        try:
            estimator = estimators.make(self.runs[0].parts.get("estimator", "oracle"))
        except Problem:  # of another installation
            return "exact"
        return "exact" if estimator.needs_truth else "estimated"

    @property
    def preempts(self) -> bool:
        """Whether it preempts more than now and then."""
        return self.figure("preemptions:mean") > _RARELY

    def fewer_nodes(self, gpus: float) -> str:
        """The option for a smaller cluster of its own nodes, of ``gpus`` GPUs; "" where none can be named."""
        cluster = self.runs[0].cluster
        return "" if cluster is None else fewer_nodes(cluster, gpus)

    @property
    def stops_for_free(self) -> bool:
        """Whether a stop and a resume cost nothing in it."""
        run = self.runs[0]
        return not any(map(run.overheads.resize_seconds, run.outcomes.specs))


def compositions(grid: Grid) -> list[Composition]:
    """The compositions of ``grid``, in its order."""
    written = {run.label: run.parts.get("policy", "") for run in grid.runs}
    return [
        Composition(
            group[0],
            tuple(run for run in grid.runs if run.label == group[0]),
            group,
            frozenset(written[label] for label in group),
        )
        for group in grid.alike
    ]


def judge(
    grid: Grid,
) -> tuple[list[Composition], list[Composition], PartOfTheLoad | None]:
    """All compositions; those that finished as many jobs as any policy did, which can be judged; and what
    says that the trace's own record, left out of these then, is of a part of the load.
    """
    found = compositions(grid)
    most = max((one.finished for one in found if not one.is_recorded), default=0.0)
    judged = [one for one in found if one.finished == most] if most else []
    for one in judged:
        if one.is_recorded and (part := _part_of_the_load(one)):
            return found, [each for each in judged if each is not one], part
    return found, judged, None


def baseline_of(grid: Grid, reference: str | None = None) -> str:
    """The name of the row that the others are held against, whether or not it can be judged."""
    judged = [one for one in compositions(grid) if not (one.is_recorded and _part_of_the_load(one))]
    return ", ".join(baseline(judged, reference).alike)


def baseline(judged: Sequence[Composition], reference: str | None) -> Composition:
    """The run that others are held against: ``reference``, the incumbent, the record, fifo, or the first."""
    for usual in (lambda one: one.is_incumbent, lambda one: one.is_recorded):
        found = next(filter(usual, judged), None)
        if reference is None and found is not None:
            return found
    wanted = policies.make(reference or _DEFAULT_BASELINE).label
    for one in judged:
        known = [each for each in one.written if each.partition(":")[0] in policies.names()]
        if any(policies.make(each).label == wanted for each in known):
            return one
    return judged[0]


def _resized(outcomes: Outcomes) -> float:
    """Share of the jobs that held another number of GPUs than they ask for."""
    held, of = outcomes.segments.gpus, outcomes.segments.job
    other = of[held != outcomes.gpus[of]]
    return len(distinct(other)) / len(outcomes) if len(outcomes) else 0.0


def _part_of_the_load(record: Composition) -> PartOfTheLoad | None:
    """The sign that a record leaves out load: jobs waited for long, mostly beside idle GPUs."""
    recorded = record.runs[0].outcomes
    span = series.start_time(recorded), recorded.end_time
    queue = series.queue_length(recorded)
    waited = series.integral(Steps(queue.times, np.minimum(queue.values, 1.0)), *span)
    beside_idle = series.integral(series.waits_beside_idle(recorded), *span)
    _, starts, ends = series.waits(recorded)
    if (ends - starts).sum() <= _LONG * len(recorded) or beside_idle <= _MOSTLY * waited:
        return None
    capacity, peak = map(
        float, (recorded.capacity.values.max(), series.busy_gpus(recorded).values.max())
    )
    return PartOfTheLoad(waited, beside_idle, capacity, peak, record.fewer_nodes(peak))
