"""Predictions: when a job will finish, forecast at its submission and, if wanted, at every event.

A job's prediction is made once all that happens at the moment of its submission is settled. Of jobs
submitted at the same moment each knows of those before it, as if the others came a moment later
(PCS' simulator); where starts cost something, those behind it are withdrawn again.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

import numpy as np

from volvelle.core.columns import Column
from volvelle.core.decision import Decision
from volvelle.core.events import Event, JobFinished
from volvelle.core.policy import Policy
from volvelle.core.scheduler import Scheduler
from volvelle.estimate.calibration import Calibration
from volvelle.metrics.outcomes import FloatColumn
from volvelle.model.job import Job
from volvelle.model.units import ROUNDING_SECONDS
from volvelle.simulate.forecast import Forecast, forecast, withdrawn
from volvelle.simulate.futures import arrival_of, finish_quantiles
from volvelle.simulate.gear import Gear, position_of
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
        self._gear: Gear | None = None
        self._policy: Policy | None = None
        self._past = RecentPast()
        self._calibrations = (Calibration(0.5, tie=0.5), Calibration(0.9, slack=0.005))
        self._finish: dict[int, float] = {}
        self._raw: dict[int, list[float]] = {}
        self._stated: dict[int, list[float]] = {}
        self._bounds: list[tuple[float, int, int]] = []
        """Times stated, with the job and which quantile it is; a heap."""
        self._open: set[tuple[int, int]] = set()
        """The job and quantile of statements of which it is not known yet whether they hold."""
        self._believed_seconds: dict[int, float] = {}

    def record(self, time: float, events: tuple[Event, ...], decision: Decision) -> None:
        """Learn from the jobs that have just finished, and from those that have not by now."""
        for event in events:
            if isinstance(event, JobFinished) and event.number in self._raw:
                self._learn(event.number, time)
        while self._bounds and self._bounds[0][0] < time - ROUNDING_SECONDS:
            bound, number, which = heappop(self._bounds)
            self._judge(number, which, bound, math.inf)

    def _learn(self, number: int, time: float) -> None:
        job = self._jobs[number]
        raws, stated = self._raw.pop(number), self._stated[number]
        for which, calibration in enumerate(self._calibrations):
            calibration.learn(raws[which], time - job.spec.submit_time)
            self._judge(number, which, stated[which], time)
        self._past.finished(job.seconds_on(job.spec.gpus) / self._believed_seconds.pop(number))

    def _judge(self, number: int, which: int, stated: float, ended: float) -> None:
        """Steer by what came of a statement, if that is not done yet."""
        if (number, which) in self._open:
            self._open.remove((number, which))
            self._calibrations[which].steer(stated, ended)

    def __call__(self, world: World) -> None:
        """Predict for those who came, if the moment is settled."""
        if not world.settled:
            return
        policy = world.scheduler.composition.policy
        if self._gear is None or policy is not self._policy:  # also where it was recomposed
            self._gear, self._policy, self._past = Gear(world.scheduler), policy, RecentPast()
        come = range(self._predicted, world.submitted)
        self._predicted = world.submitted
        for number in come:
            self._predict(world.scheduler, number, come[number - come.start + 1 :], self._gear)
        if self._refresh:
            foreseen = self._gear.forecast(world.scheduler) or forecast(world.scheduler)
            self.refreshed.append(Refreshed(world.now, foreseen))

    def _predict(self, scheduler: Scheduler, number: int, later: range, gear: Gear) -> None:
        finish = predicted_finish(scheduler, number, later, gear)
        if finish is None:
            return
        self._finish[number] = finish
        submit = self._jobs[number].spec.submit_time
        times = [finish] * len(_SHARES)
        if number in scheduler.known:
            row = scheduler.jobs.row_of[number]
            matrix = scheduler.jobs.matrix
            self._believed_seconds[number] = float(
                matrix[Column.TOTAL, row] * matrix[Column.SCALE, row]
            ) / float(matrix[Column.REQUEST_RATE, row])
            if self._play_outs:
                after = number + 1 + len(later)
                times = self._play_out(scheduler, number, gear, finish - submit, after) or times
        else:
            self._believed_seconds[number] = math.nan
        raw = [time - submit for time in times]
        stated = [
            submit + calibration.stated(seconds, *self._overdue(scheduler.now, which))
            for which, (calibration, seconds) in enumerate(
                zip(self._calibrations, raw, strict=True)
            )
        ]
        self._raw[number] = raw
        self._stated[number] = [*np.maximum.accumulate(stated).tolist()]
        for which, bound in enumerate(self._stated[number]):
            if not math.isnan(bound):
                heappush(self._bounds, (bound, number, which))
                self._open.add((number, which))

    def _overdue(self, now: float, which: int) -> tuple[FloatColumn, FloatColumn]:
        """Seconds reckoned and taken so far of the jobs that should be through by now."""
        raw = np.array([raws[which] for raws in self._raw.values()])
        so_far = now - np.array([self._jobs[number].spec.submit_time for number in self._raw])
        late = (so_far > raw) & (raw > 0.0)
        return raw[late], so_far[late]

    def _play_out(
        self, scheduler: Scheduler, number: int, gear: Gear, horizon: float, next_number: int
    ) -> list[float] | None:
        """Quantiles of the finish over futures like the recent past; None where there are none."""
        self._past.arrived(arrival_of(scheduler, number, gear))
        return finish_quantiles(
            scheduler,
            gear,
            self._past,
            number,
            horizon=horizon,
            next_number=next_number,
            play_outs=self._play_outs,
            rng=self._rng,
            shares=_SHARES,
        )

    def predictions(self, jobs: int) -> Predictions:
        """What was predicted for each of ``jobs`` jobs at its submission."""
        columns = np.full((1 + len(_SHARES), jobs), np.nan)
        for number, finish in self._finish.items():
            columns[0, number] = finish
            columns[1:, number] = self._stated[number]
        return Predictions(*columns)


_SHARES = (0.5, 0.9)


def predicted_finish(
    scheduler: Scheduler, number: int, without: Iterable[int] = (), gear: Gear | None = None
) -> float | None:
    """When job ``number`` will finish if beliefs hold and nobody else arrives; None for never.

    ``without``: jobs that are to be taken for not there yet. ``gear``: tried first.
    """
    waiting = {event.number for event in scheduler.at_the_door}
    if number not in scheduler.known and number not in waiting:
        return None
    later = [other for other in without if other in scheduler.known or other in waiting]
    if later:
        scheduler = withdrawn(scheduler, later)
    if gear is not None and not waiting:
        at = position_of(scheduler, number)
        if played := gear.play(scheduler, at):
            finish = float(played.finish[at])
            return None if math.isnan(finish) else finish
    return forecast(scheduler, until_finish_of=number).finish.get(number)


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
