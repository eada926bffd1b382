"""What a comparison compared: runs that differ in their seed alone, together, and what they are held against."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from volvelle.core.policy import policies
from volvelle.metrics.catalogue import read_objective
from volvelle.metrics.outcomes import RECORDED, Outcomes
from volvelle.metrics.summary import figure
from volvelle.report.grid import Grid, GridRun
from volvelle.report.table import finished_jobs

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
        objective = read_objective(measure)
        figures = [figure(run.outcomes, objective) for run in self.runs]
        return statistics.fmean(figures)

    @property
    def finished(self) -> float:
        return statistics.fmean(finished_jobs(run.outcomes) for run in self.runs)

    @property
    def is_recorded(self) -> bool:
        return self.runs[0].parts.get("policy", "") == RECORDED

    def beside(self, seed: int) -> Outcomes:
        """The run of this seed; what was recorded is the same under all."""
        found = (run.outcomes for run in self.runs if run.seed == seed or self.is_recorded)
        return next(found)

    @property
    def gpu_hours(self) -> float:
        return statistics.fmean(float(run.outcomes.gpu_seconds.sum()) / 3600.0 for run in self.runs)

    @property
    def resized(self) -> float:
        return statistics.fmean(_resized(run.outcomes) for run in self.runs)

    @property
    def needs_durations(self) -> bool:
        written = self.runs[0].parts.get("policy", "")
        kind = policies.all().get(written.partition(":")[0])
        return kind is None or kind.needs_durations

    @property
    def preempts(self) -> bool:
        return self.figure("preemptions:mean") > _RARELY

    @property
    def stops_for_free(self) -> bool:
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


def baseline(judged: Sequence[Composition], reference: str | None) -> Composition:
    """The composition that the others are held against: ``reference``, what was recorded, fifo, or the first."""
    recorded = next((one for one in judged if one.is_recorded), None)
    if reference is None and recorded is not None:
        return recorded
    wanted = policies.make(reference or _DEFAULT_BASELINE).label
    for one in judged:
        known = [each for each in one.written if each.partition(":")[0] in policies.all()]
        if any(policies.make(each).label == wanted for each in known):
            return one
    return judged[0]


def _resized(outcomes: Outcomes) -> float:
    """Share of the jobs that held another number of GPUs than they ask for."""
    held, of = outcomes.segments.gpus, outcomes.segments.job
    other = of[held != outcomes.gpus[of]]
    return len(np.unique(other)) / len(outcomes) if len(outcomes) else 0.0
