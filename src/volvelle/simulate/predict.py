"""Predictions: when a job will finish, forecast at its submission and, if wanted, at every event.

A job's prediction is made once all that happens at the moment of its submission is settled. Of jobs
submitted at the same moment each knows of those before it, as if the others came a moment later
(PCS' simulator); where starts cost something, those behind it are withdrawn again.
"""

import csv
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volvelle.core.events import JobCancelled, JobFinished, LossReported
from volvelle.core.forecast import Forecast
from volvelle.core.fork import Fork
from volvelle.core.log import Batch, Submission
from volvelle.core.play_out import Arrays, can_play_out, machine_code_knows, rules_ahead
from volvelle.core.policy import Policy
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import (
    CONCLUDED,
    FINISHED,
    INFINITY,
    LIMIT,
    LOG_FULL,
    NEWCOMERS_CAME,
    NODE_AT,
    OBJECT,
    PLACE,
    ROWS_FULL,
    THROUGH,
)
from volvelle.estimate.statements import SHARES, Statements
from volvelle.metrics.outcomes import FloatColumn
from volvelle.model.job import Job
from volvelle.simulate.futures import arrival_of, finishes
from volvelle.simulate.resample import RecentPast
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

    jobs: the world's; what a job really took is read from them once it has finished. refresh: predict for
    all jobs at every event too. play_outs: over resampled arrivals, for the quantiles; 0, or where the
    past is short: these are the point prediction's, as past errors have them.
    """

    def __init__(
        self, jobs: Sequence[Job], *, refresh: bool = False, play_outs: int = 0, seed: int = 0
    ) -> None:
        self.refreshed: list[Refreshed] = []
        self._jobs = jobs
        self._refresh = refresh
        self._play_outs = play_outs
        self._rng = np.random.default_rng([seed, 0x9C5])
        self._predicted = 0
        self._arrays: Arrays | None = None
        self._policy: Policy | None = None
        self._past = RecentPast()
        self._statements = Statements()
        self._finish: dict[int, float] = {}
        self._stated: dict[int, list[float]] = {}
        self._believed_seconds: dict[int, float] = {}
        self._work_done: dict[int, float] = {}
        """Of jobs that report their loss: what they had done at the last report, at which they may end."""

    def take(self, batch: Batch, submission: Submission) -> None:
        """Learn from the jobs that finished, and from jobs that had not by then."""
        over = (batch.kind == FINISHED) | (batch.kind == CONCLUDED)
        numbers = np.where(over, batch.number, -1)
        for place in (batch.kind == OBJECT).nonzero()[0].tolist():
            event = batch.notes.objects[batch.number[place]]
            if isinstance(event, JobFinished):
                numbers[place] = event.number
            elif isinstance(event, LossReported):
                self._work_done[event.number] = event.work_done
        for number in numbers[batch.kind != CONCLUDED].tolist():
            self._work_done.pop(number, None)  # did all its work, not what it reported last
        first, numbers_list = 0, numbers.tolist()
        for time, last in zip(batch.time.tolist(), batch.events_end.tolist(), strict=True):
            for number in numbers_list[first:last]:
                if number in self._statements:
                    self._learn(number, time)
            first = last
            self._statements.pass_time(time)

    def _learn(self, number: int, time: float) -> None:
        job = self._jobs[number]
        self._statements.ended(number, time)
        work = job.truth.work
        share_done = self._work_done.pop(number, work) / work if work > 0.0 else 1.0
        seconds = job.seconds_on(job.spec.gpus) * share_done
        self._past.finished(seconds / self._believed_seconds.pop(number))

    def __call__(self, world: World) -> None:
        """Predict for the jobs that came."""
        policy = world.scheduler.composition.policy
        if policy is not self._policy:  # also where it was recomposed
            self._policy, self._past = policy, RecentPast()
        come = range(self._predicted, world.submitted)
        self._predicted = world.submitted
        for number in come:
            self._predict(world.scheduler, number, come[number - come.start + 1 :])
        if self._refresh:
            self.refreshed.append(Refreshed(world.now, Fork(world.scheduler).until()))

    def _predict(self, scheduler: Scheduler, number: int, later: range) -> None:
        fork = self._fork(scheduler)
        finish = predicted_finish(fork, number, later)
        if finish is None:
            return
        self._finish[number] = finish
        submit = self._jobs[number].spec.submit_time
        times: FloatColumn | None = None
        foreseen: dict[int, float] = {}
        self._believed_seconds[number] = math.nan
        row, jobs = scheduler.row_of(number), scheduler.state.jobs
        if row is not None:
            work = float(jobs.total[row] * jobs.scale[row])
            self._believed_seconds[number] = work / float(jobs.request_rate[row])
            if self._play_outs:
                after = number + 1 + len(later)
                times = self._play_out(fork, number, finish - submit, after)
                foreseen = _finishes_of_all(fork, later)
        self._state(number, scheduler.now, finish, times, foreseen)

    def _state(
        self,
        number: int,
        now: float,
        finish: float,
        times: FloatColumn | None,
        foreseen: dict[int, float],
    ) -> None:
        """State P50 and P90 of a job that has come; ``times``: when it is through in the play-outs."""
        submit, statements = self._jobs[number].spec.submit_time, self._statements
        if times is None:
            reckoned = statements.reckon_alone(finish - submit)
        else:
            known = self._past.beliefs_known
            reckoned = statements.reckon(submit, times, beliefs_known=known)
        seconds = np.array(statements.stated(reckoned, now, foreseen))
        self._stated[number] = [*np.maximum.accumulate(submit + seconds).tolist()]
        statements.add(number, submit, reckoned, self._stated[number])

    def _fork(self, scheduler: Scheduler) -> Fork:
        """A look-ahead, in arrays of its own where machine code does."""
        if not scheduler.state.compiled:
            return Fork(scheduler)
        self._arrays = self._arrays or Arrays()
        return Fork(scheduler).in_arrays(self._arrays)

    def _play_out(
        self, fork: Fork, number: int, horizon: float, next_number: int
    ) -> FloatColumn | None:
        """When the job is through in futures like the recent past; None where there are none."""
        self._past.arrived(arrival_of(fork.scheduler, number))
        return finishes(
            fork,
            self._past,
            number,
            horizon=horizon,
            next_number=next_number,
            play_outs=self._play_outs,
            rng=self._rng,
        )

    def predictions(self, jobs: int) -> Predictions:
        """What was predicted for each of ``jobs`` jobs at its submission."""
        columns = np.full((1 + len(SHARES), jobs), np.nan)
        for number, finish in self._finish.items():
            columns[0, number] = finish
            columns[1:, number] = self._stated[number]
        return Predictions(*columns)


def _without(fork: Fork, numbers: Collection[int]) -> Fork:
    """The same without jobs that are to be taken for not there yet."""
    scheduler = fork.scheduler
    waiting = (
        {event.number for event in scheduler.admissions.submissions} if numbers else set[int]()
    )
    there = [number for number in numbers if number in scheduler.known or number in waiting]
    events = [JobCancelled(scheduler.now, number) for number in there]
    return fork.under(*events) if events else fork


def _finishes_of_all(fork: Fork, without: Collection[int]) -> dict[int, float]:
    """When the jobs in the system will finish, ``without`` those to be taken for not there yet."""
    return _without(fork, without).until().finish


def predicted_finish(fork: Fork, number: int, without: Collection[int] = ()) -> float | None:
    """When job ``number`` will finish if beliefs hold and nobody else arrives; None for never.

    without: jobs that are to be taken for not there yet.
    """
    scheduler = fork.scheduler
    waiting = {event.number for event in scheduler.admissions.waiting}
    waiting |= scheduler.admissions.dependents.aside.keys()
    if number not in scheduler.known and number not in waiting:
        return None
    finish = _without(fork, without).finish_of(number)
    return finish if finish < math.inf else None


def run_and_predict(world: World) -> FloatColumn | None:
    """Let time pass to the end, and predict when each job will finish once it has come; NaN for never.

    None where Python has to be asked; then nothing has happened.
    """
    scheduler, s = world.scheduler, world.scheduler.state
    admits_all = s.clock[LIMIT] == INFINITY and scheduler.admissions.prepared
    if not can_play_out(scheduler) or not admits_all or s.clock[NODE_AT] < INFINITY:
        return None
    truly_asked = s.arrivals[PLACE["truly_asked"]]
    if truly_asked.any() or not machine_code_knows(s.arrivals):
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
        why = machine.foresee(Machine(ahead), rules, rules_ahead(scheduler), predicted, known)
        if why == ROWS_FULL:
            scheduler.grow(ROWS_FULL)
        world.hand_over()
    assert why == THROUGH, "machine code asked nobody"
    return predicted


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
