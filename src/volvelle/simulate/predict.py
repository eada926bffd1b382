"""Predictions: when a job will finish, forecast at its submission and, if wanted, at every event.

A job's prediction is made once all that happens at the moment of its submission is settled. Of jobs
submitted at the same moment each knows of those before it, as if the others came a moment later
(PCS' simulator); where starts cost something, those behind it are withdrawn again.
"""

import csv
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volvelle.core.events import JobCancelled, JobFinished
from volvelle.core.forecast import Forecast
from volvelle.core.fork import Fork
from volvelle.core.log import Batch, Submission
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    ASKED,
    COME,
    CONCLUDED,
    FINISHED,
    INFINITY,
    LIMIT,
    LOG_FULL,
    NEVER,
    NEWCOMERS_CAME,
    NODE_AT,
    OBJECT,
    PLACE,
    QUEUED,
    ROWS_FULL,
    THROUGH,
    TIMED_OUT,
    Rules,
)
from volvelle.core.view import JobView
from volvelle.estimate.corrections import SHARES
from volvelle.estimate.likeness import ARRIVALS_SECONDS, Observed, believed_service
from volvelle.estimate.told import ToldTimes
from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job
from volvelle.simulate.world import World

COLUMNS = ("time", "job_id", "start_time", "finish_time")
"""The header of predictions.csv; seconds on the workload's clock."""


@dataclass(frozen=True)
class Refreshed:
    """The predictions for all jobs in the system at ``time``."""

    time: float
    forecast: Forecast


@dataclass(frozen=True)
class Predictions:
    """Finish times predicted at submission, by job; NaN without one.

    ``p50``, ``p90``: by when the job is through with these chances.
    """

    finish: FloatColumn
    p50: FloatColumn
    p90: FloatColumn


class Predictor:
    """Watches a world (as a watcher, and as `World.run`'s ``on_moment``) and predicts.

    jobs: the world's. refresh: predict for all jobs at every event too.
    """

    def __init__(self, jobs: Sequence[Job], *, refresh: bool = False) -> None:
        self.refreshed: list[Refreshed] = []
        self._jobs = jobs
        self._refresh = refresh
        self._predicted = 0
        self._told = ToldTimes[int](own_runs=True)
        self._finish: dict[int, float] = {}
        self._quantiles: dict[int, tuple[float, float]] = {}

    def take(self, batch: Batch, submission: Submission) -> None:
        """Learn from the jobs that are over."""
        over = (batch.kind == FINISHED) | (batch.kind == CONCLUDED) | (batch.kind == TIMED_OUT)
        numbers = np.where(over, batch.number, -1)
        for place in (batch.kind == OBJECT).nonzero()[0].tolist():
            event = batch.notes.objects[batch.number[place]]
            if isinstance(event, JobFinished):
                numbers[place] = event.number
        first, numbers_list = 0, numbers.tolist()
        for time, last in zip(batch.time.tolist(), batch.events_end.tolist(), strict=True):
            for number in numbers_list[first:last]:
                if number in self._told:
                    self._told.came(number, time)
            first = last

    def __call__(self, world: World) -> None:
        """Predict for the jobs that came."""
        come = range(self._predicted, world.submitted)
        self._predicted = world.submitted
        for number in come:
            self._predict(world.scheduler, number, come[number - come.start + 1 :])
        if self._refresh:
            self.refreshed.append(Refreshed(world.now, Fork(world.scheduler).until()))

    def _predict(self, scheduler: Scheduler, number: int, later: range) -> None:
        """Predict when a job will finish; ``later`` are jobs to be taken for not there yet."""
        foreseen = _without(Fork(scheduler), later).until().finish
        finish = foreseen.get(number)
        if finish is None:
            return
        now, spec = scheduler.now, self._jobs[number].spec
        observed = Observed(
            load=len(foreseen),
            arrivals=number
            + 1
            - bisect_left(self._jobs, now - ARRIVALS_SECONDS, hi=number, key=_submitted),
            service=believed_service(scheduler, number, finish - now),
            width=spec.gpus,
        )
        self._told.foresee(foreseen)
        times = self._told.tell(number, now, observed, finish - now, spec.time_limit_seconds)
        self._finish[number] = finish
        self._quantiles[number] = now + times.p50, now + times.p90

    def predictions(self, jobs: int) -> Predictions:
        """The predictions for each of ``jobs`` jobs at its submission."""
        columns = np.full((1 + len(SHARES), jobs), np.nan)
        for number, finish in self._finish.items():
            columns[:, number] = finish, *self._quantiles[number]
        return Predictions(*columns)


def _submitted(job: Job) -> float:
    return job.spec.submit_time


def _without(fork: Fork, numbers: Collection[int]) -> Fork:
    """The same without jobs that are to be taken for not there yet."""
    scheduler = fork.scheduler
    waiting = (
        {event.number for event in scheduler.admissions.submissions} if numbers else set[int]()
    )
    there = [number for number in numbers if number in scheduler.known or number in waiting]
    events = [JobCancelled(scheduler.now, number) for number in there]
    return fork.under(*events) if events else fork


def run_and_predict(world: World) -> FloatColumn | None:
    """Let time pass to the end, and predict when each job will finish once it has come; NaN for never.

    None where Python has to be asked; then nothing has happened.
    """
    scheduler, s = world.scheduler, world.scheduler.state
    admits_all = s.clock[LIMIT] == INFINITY and scheduler.admissions.prepared
    if not _can_play_out(scheduler) or not admits_all or s.clock[NODE_AT] < INFINITY:
        return None
    truly_asked = s.arrivals[PLACE["truly_asked"]]
    if truly_asked.any() or not _machine_code_knows(s.arrivals):
        return None
    from volvelle.core.machine import Machine  # noqa: PLC0415 - loads llvmlite

    scheduler.apply_rules(pauses=NEWCOMERS_CAME)
    predicted = np.full(len(world.arrivals.jobs), np.nan)
    known, why = np.zeros(1, dtype=np.int64), ROWS_FULL
    while why in (ROWS_FULL, LOG_FULL):
        machine = Machine(scheduler.state)
        ahead = scheduler.state.copy()
        ahead.arrivals, ahead.verdict = scheduler.state.arrivals[:, :0], np.zeros(0, dtype=np.int64)
        rules = scheduler.rules
        why = machine.foresee(Machine(ahead), rules, _rules_ahead(scheduler), predicted, known)
        if why == ROWS_FULL:
            scheduler.grow(ROWS_FULL)
        world.hand_over()
    assert why == THROUGH, "machine code asked nobody"
    return predicted


def _can_play_out(scheduler: Scheduler) -> bool:
    """Whether machine code knows all that decides how jobs go on, and asks no part in Python."""
    rules, s = scheduler.rules, scheduler.state
    if not s.compiled or rules.yields or ASKED in (rules.decides, rules.places):
        return False
    parts = scheduler.composition
    if (
        rules.learns
        or rules.notes
        or scheduler.admissions.dependents.blocked
        or rules.divides
        or parts.reports_every is not None
        or scheduler.cluster.changes
    ):
        return False
    if parts.admission.limit(0.0) is None:
        return False
    queued = s.count[COME] > s.count[QUEUED]
    if queued and (scheduler.admissions.arrival is None or not scheduler.admissions.prepared):
        return False  # what is believed of them is not in the table of arrivals
    jobs, here = JobView(s, scheduler.now), s.arrivals[:, s.count[QUEUED] : s.count[COME]]
    if jobs.column("pinned").any() or jobs.column("time_limit").any():
        return False
    asked = np.isnan(jobs.column("unit_rate")) & (jobs.column("table") < 0.0)
    return not asked.any() and _machine_code_knows(here)


def _machine_code_knows(arrivals: FloatColumn) -> bool:
    """Whether machine code knows all that is believed to happen to these jobs, columns of arrivals."""
    asked = np.isnan(arrivals[PLACE["unit_rate"]]) & (arrivals[PLACE["table"]] < 0.0)
    return not (asked.any() or arrivals[PLACE["time_limit"]].any())


def _rules_ahead(scheduler: Scheduler) -> Rules:
    """The rules under which machine code plays out what ``scheduler`` believes."""
    return scheduler.rules._replace(
        simulated=True, tick=0.0, admits=False, logs=False, pauses=NEVER
    )


def write_predictions(refreshed: Iterable[Refreshed], ids: list[str], path: Path) -> None:
    """Write predictions.csv: for every event a line for each job in the system then."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in refreshed:
            start, finish = each.forecast.start, each.forecast.finish
            writer.writerows(
                (repr(each.time), ids[number], repr(start[number]), repr(finish[number]))
                for number in sorted(finish)
            )
