"""Predictions: when a job will finish, forecast at its submission and, if wanted, at every event.

A job's prediction is made once all that happens at the moment of its submission is settled. Of jobs
submitted at the same moment each knows of those before it, as if the others came a moment later
(PCS' simulator); where starts cost something, those behind it are withdrawn again.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from volvelle.core.scheduler import Scheduler
from volvelle.metrics.outcomes import FloatColumn
from volvelle.simulate.forecast import Forecast, forecast, withdrawn
from volvelle.simulate.gear import Gear
from volvelle.simulate.world import World

COLUMNS = ("time", "job_id", "start_time", "finish_time")
"""The header of predictions.csv; seconds on the workload's clock."""


@dataclass(frozen=True)
class Refreshed:
    """The predictions for all jobs in the system at ``time``."""

    time: float
    forecast: Forecast


class Predictor:
    """Watches a world (`World.run`'s ``on_moment``) and predicts. ``refresh``: at every event too."""

    def __init__(self, *, refresh: bool = False) -> None:
        self.refreshed: list[Refreshed] = []
        self._refresh = refresh
        self._finish: dict[int, float] = {}
        self._predicted = 0
        self._gear: Gear | None = None

    def __call__(self, world: World) -> None:
        """Predict for those who came, if the moment is settled."""
        if not world.settled:
            return
        scheduler = world.scheduler
        if self._gear is None:
            self._gear = Gear(scheduler)
        come = range(self._predicted, world.submitted)
        self._predicted = world.submitted
        for number in come:
            later = come[number - come.start + 1 :]
            finish = predicted_finish(scheduler, number, later, self._gear)
            if finish is not None:
                self._finish[number] = finish
        if self._refresh:
            self.refreshed.append(Refreshed(world.now, forecast(scheduler)))

    def finish(self, jobs: int) -> FloatColumn:
        """The finish predicted for each of ``jobs`` jobs at its submission, NaN without one."""
        column = np.full(jobs, np.nan)
        for number, finish in self._finish.items():
            column[number] = finish
        return column


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
        numbers = np.sort(np.fromiter(scheduler.jobs.row_of, np.int64, scheduler.jobs.count))
        at = int(np.searchsorted(numbers, number))
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
