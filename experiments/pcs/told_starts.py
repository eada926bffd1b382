"""Times as a server tells them: how many jobs start and finish by them, in each class of observable state.

    python experiments/pcs/told_starts.py [--policies srsf,las]

Runs, policies and classes are those of ``told_times.py``; beliefs are off by 30 %. At each submission all
jobs are forecast and calibrated by the server's own class. Judged is what a job is told first, if it waits.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from pcs_study import RESULTS, Claim, Column, Report, command_line, philly, setting
from told_times import BELIEFS, LEAST, POLICIES, WINDOWS, Window, observed

from volvelle.core.fork import Fork
from volvelle.core.log import Batch, Submission
from volvelle.core.paying import compile_where_it_pays, pays_for
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import CONCLUDED, FINISHED, NEWCOMERS_CAME
from volvelle.estimate.corrections import STATE_CLASSES, state_classes
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.scheduler_queries import holds_gpus, submit_times
from volvelle.metrics.recorder import Recorder
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload


class Server:
    """Forecasts at each submission, by number: ``told`` and ``forecast`` starts of jobs that waited then.

    finish: P50 and P90 of all jobs.
    """

    def __init__(self) -> None:
        self.told: dict[int, float] = {}
        self.forecast: dict[int, float] = {}
        self.finish: dict[int, tuple[float, float]] = {}
        self._calibration = ForecastCalibration()
        self._ended: list[tuple[int, float]] = []

    def take(self, batch: Batch, submission: Submission) -> None:
        """Note the jobs that are over."""
        over = np.isin(batch.kind, (FINISHED, CONCLUDED))
        ends = zip(batch.number[over].tolist(), batch.event_time[over].tolist(), strict=True)
        self._ended += ends

    def __call__(self, world: World) -> None:
        """Forecast all jobs."""
        for number, time in self._ended:
            self._calibration.job_ended(number, time, finished=True)
        self._ended = []
        scheduler = world.scheduler.fork()
        compile_where_it_pays(scheduler, repeatedly=True)
        result = Fork(scheduler).until()
        told, first = self._calibration.tell(scheduler, dict(submit_times(scheduler)), result)
        for number in first:
            start, p50, p90 = told[number].start, told[number].p50, told[number].p90
            if p50 is not None and p90 is not None:
                self.finish[number] = p50, p90
            if start is not None and not holds_gpus(scheduler, number):
                self.told[number], self.forecast[number] = start, result.upcoming[number]


class Row(NamedTuple):
    """A class of jobs of a run: the shares that start by the told or forecast time, and end by P50 or P90."""

    trace: str
    policy: str
    name: str
    jobs: int
    told: float
    forecast: float
    p50: float
    p90: float

    @property
    def half(self) -> bool:
        """Whether 40 to 60 % start by the told time."""
        return 0.4 <= self.told <= 0.6


def rows(window: Window, policy: str, jobs: int) -> Iterator[Row]:
    """The classes of a run, all jobs first."""
    workload = Workload(philly(window.trace).jobs[window.first : window.first + jobs])
    given = setting(POLICIES[policy], window.gpus, BELIEFS["off by 30 %"])
    scheduler = Scheduler(given.cluster, given.composition.build(), seed=given.seed)
    recorder, server = Recorder(given.cluster), Server()
    arrivals = ArrivalTable(scheduler, workload.jobs)
    world = World(scheduler, arrivals, [recorder, server], compiled=pays_for(scheduler, jobs))
    world.run(server, pauses=NEWCOMERS_CAME)
    outcomes = recorder.outcomes(workload.durations)
    states = observed(workload, given, outcomes)
    numbers = np.array(sorted(server.told), dtype=np.int64)
    if not numbers.size:
        return
    began = outcomes.first_start[numbers]
    by_told = held(began, np.array([server.told[n] for n in numbers]))
    by_forecast = held(began, np.array([server.forecast[n] for n in numbers]))
    members = {"all": np.ones(len(numbers), dtype=np.bool_)}
    places = np.array([state_classes(states[n]) for n in numbers])
    for column, name in enumerate(STATE_CLASSES):
        for place in np.unique(places[:, column]).tolist():
            members[f"{name} {place}"] = places[:, column] == place
    ends = np.array([server.finish[n] for n in numbers]).T
    by_p50, by_p90 = (held(outcomes.finish[numbers], bound) for bound in ends)
    for name, mine in members.items():
        kinds = (by_told, by_forecast, by_p50, by_p90)
        shares = (float(of[mine].mean()) for of in kinds)
        yield Row(window.trace, policy, name, int(mine.sum()), *shares)


def held(began: Column, told: Column) -> Column:
    """1 where a job starts before the time, one half at it."""
    return np.where(np.abs(began - told) <= 1.0, 0.5, began < told)


def main() -> None:
    given = command_line(
        __doc__,
        RESULTS,
        {
            "jobs": (1_000, "of each part of a trace"),
            "policies": ("srsf,fifo-skip,PCS", "under which"),
        },
    )
    given.setting = f"{given.jobs:,} jobs of each part, one draw of beliefs, off by 30 %"
    report = Report("told_starts", "Told starts by what can be observed", given)
    found = [
        row
        for window in WINDOWS
        for policy in given.policies.split(",")
        for row in rows(window, policy, given.jobs)
    ]
    lines, claims = [], []
    for policy in given.policies.split(","):
        for chosen in (True, False):
            traces = {window.trace for window in WINDOWS if window.chosen is chosen}
            mine = [row for row in found if row.policy == policy and row.trace in traces]
            runs = [row for row in mine if row.name == "all"]
            classes = [row for row in mine if row.name != "all" and row.jobs >= LEAST]
            if not (jobs := sum(row.jobs for row in runs)):
                continue
            kept = f"{sum(row.half for row in classes)} of {len(classes)}"
            lines.append(
                (
                    *(policy, "yes" if chosen else "no", f"{jobs:,}"),
                    f"{sum(row.forecast * row.jobs for row in runs) / jobs:.1%}",
                    f"{sum(row.told * row.jobs for row in runs) / jobs:.1%}",
                    kept,
                    f"{sum(row.p50 * row.jobs for row in runs) / jobs:.1%}",
                    f"{sum(row.p90 * row.jobs for row in runs) / jobs:.1%}",
                )
            )
            if not chosen:
                claims.append(
                    Claim(
                        f"our goal: under {policy} 40 to 60 % start by the told time in each class of "
                        f"{LEAST} jobs or more, on what nothing was chosen on",
                        kept,
                        all(row.half for row in classes),
                    )
                )
    report.table(
        (
            *("policy", "constants chosen on it", "jobs that waited", "start by the forecast time"),
            *("start by the told time", "classes with 40 to 60 %"),
            *("finish by P50", "finish by P90"),
        ),
        lines,
    )
    report.claims(claims)
    report.runs(Row._fields, found)
    report.close()


if __name__ == "__main__":
    main()
