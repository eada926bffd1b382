"""What live clusters tell as P90 in bursts, and what futures would make of it: by the code of live forecasts.

The windows and policies of ``p90_bursts.py``, and those of its windows alone that nothing was chosen on.
Whenever jobs come, all jobs are forecast as a live cluster forecasts them (`forecast_jobs`), and those that
came are told their first P90. As if a forecast took no time: live they wait some seconds for it.

Tried against that: 20 futures for each new job, as simulations have them, and of the P90 that these give and
the one of the forecast alone the later. What becomes of the one that is told steers both. Chosen on 0e4a51
from job 600 and on 6c71a0 from job 2,000.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from p90_bursts import BELIEFS, FEWEST, HIGH, LOW, POLICIES, TENTHS, WINDOWS, Seen, Window, seen
from pcs_study import Claim, Column, Report, options, percent, philly, setting

from volvelle.core.fork import Fork
from volvelle.core.log import Batch, Submission
from volvelle.core.play_out import Arrays, can_play_out
from volvelle.core.scheduler import Scheduler
from volvelle.core.state import FINISHED, NEWCOMERS_CAME
from volvelle.estimate.statements import Statements
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.metrics.outcomes import Outcomes
from volvelle.metrics.recorder import Recorder
from volvelle.simulate.arrivals import ArrivalTable
from volvelle.simulate.futures import arrival_of, finishes
from volvelle.simulate.resample import RecentPast
from volvelle.simulate.run import Setting
from volvelle.simulate.world import World
from volvelle.workload.workload import Workload

PLAY_OUTS = 20


class Teller(Protocol):
    """Who tells jobs when they will be through. finish, p90: by job; NaN where nothing was told."""

    finish: Column
    p90: Column

    def ended(self, number: int, time: float) -> None:
        """A job finished."""
        ...

    def tell(self, world: World) -> None:
        """Jobs have come."""
        ...


class Live:
    """As live clusters do."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self.finish, self.p90 = np.full((2, len(workload)), np.nan)
        self._calibration = ForecastCalibration()

    def ended(self, number: int, time: float) -> None:
        """A job finished."""
        self._calibration.job_ended(number, time, finished=True)

    def tell(self, world: World) -> None:
        """Jobs have come."""
        now = world.scheduler.now
        update = forecast_jobs(world.scheduler.fork(), now, self._calibration, 0.0)
        for promise in update.promises:
            self.finish[promise.number] = promise.finish
            self.p90[promise.number] = np.nan if promise.p90 is None else promise.p90


class LaterOfBoth:
    """From the forecast alone, and from futures: what is later."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self.finish, self.p90 = np.full((2, len(workload)), np.nan)
        self._jobs = workload.jobs
        self._rng = np.random.default_rng([seed, 0x9C5])
        self._alone, self._with_futures = Statements(), Statements()
        self._past, self._arrays = RecentPast(), Arrays()
        self._believed_seconds: dict[int, float] = {}
        self._come = 0

    def ended(self, number: int, time: float) -> None:
        """A job finished."""
        job = self._jobs[number]
        self._alone.ended(number, time)
        self._with_futures.ended(number, time)
        self._past.finished(job.seconds_on(job.spec.gpus) / self._believed_seconds.pop(number))

    def tell(self, world: World) -> None:
        """Jobs have come."""
        come, self._come = range(self._come, world.submitted), world.submitted
        scheduler = world.scheduler
        assert can_play_out(scheduler)
        foreseen = Fork(scheduler).until().finish
        for number in come:
            self._past.arrived(arrival_of(scheduler, number))
            row, jobs = scheduler.known.rows[number], scheduler.state.jobs
            work = float(jobs.total[row] * jobs.scale[row])
            self._believed_seconds[number] = work / float(jobs.request_rate[row])
        for number in come:
            self._tell(scheduler, number, foreseen)

    def _tell(self, scheduler: Scheduler, number: int, foreseen: dict[int, float]) -> None:
        now, submitted = scheduler.now, self._jobs[number].spec.submit_time
        finish = self.finish[number] = foreseen[number]
        times = finishes(
            Fork(scheduler).in_arrays(self._arrays),
            self._past,
            number,
            horizon=finish - now,
            next_number=self._come,
            play_outs=PLAY_OUTS,
            rng=self._rng,
        )
        alone = self._alone.reckon_alone(finish - submitted)
        reckoned = self._with_futures.reckon_alone(finish - submitted)
        if times is not None:
            known = self._past.beliefs_known
            reckoned = self._with_futures.reckon(submitted, times, beliefs_known=known)
        self._alone.pass_time(now)
        self._with_futures.pass_time(now)
        p50, p90 = self._with_futures.stated(reckoned, now, foreseen)
        p90 = np.fmax(p90, self._alone.stated(alone, now)[1])
        told = [submitted + p50, submitted + np.fmax(p50, p90)]
        self._alone.add(number, submitted, alone, told)
        self._with_futures.add(number, submitted, reckoned, told)
        self.p90[number] = told[1]


WAYS: dict[str, Callable[[Workload, int], Teller]] = {
    "live clusters": Live,
    "the later of both": LaterOfBoth,
}


class _Ends:
    """Tells who tells of the jobs that finished."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def take(self, batch: Batch, submission: Submission) -> None:
        """A stretch of moments."""
        over = batch.kind == FINISHED
        times = batch.event_time[over].tolist()
        for number, time in zip(batch.number[over].tolist(), times, strict=True):
            self._teller.ended(number, time)


def told(workload: Workload, given: Setting, teller: Teller) -> Outcomes:
    """What came of the jobs, and what they were told."""
    scheduler = Scheduler(given.cluster, given.composition.build(), seed=given.seed)
    recorder = Recorder(given.cluster)
    coming = ArrivalTable(scheduler, workload.jobs)
    world = World(scheduler, coming, [recorder, _Ends(teller)], compiled=True)
    world.run(teller.tell, pauses=NEWCOMERS_CAME)
    outcomes = recorder.outcomes(workload.durations, None, workload.single_gpu_seconds)
    return replace(outcomes, predicted_finish=teller.finish, predicted_p90=teller.p90)


Runs = dict[tuple[Window, str, str], list[Seen]]


def main() -> None:
    given = options(
        __doc__,
        "{jobs} jobs of each window, beliefs off by 30 %, draw {seeds} of beliefs and futures",
        jobs=1_000,
    )
    judged = [window for window in WINDOWS if not window.chosen]
    windows = judged if given.jobs >= FEWEST else judged[-1:]
    report = Report("p90_live", "P90 as live clusters tell it", given)
    found: Runs = {}
    for window in windows:
        jobs = philly(window.trace).jobs[window.first : window.first + given.jobs]
        workload = Workload(jobs)
        for name, policy in POLICIES.items():
            for way, teller in WAYS.items():
                found[window, name, way] = [
                    seen(told(workload, replace(run, seed=seed), teller(workload, seed)))
                    for run in [setting(policy, window.gpus, BELIEFS)]
                    for seed in given.seeds
                ]
    report.say(
        f"Tenths of jobs, by how many are in the system when they come, in which {LOW:.0f} to "
        f"{HIGH:.0f} % keep their P90, more do, and fewer do, of {TENTHS * len(given.seeds)}; the tenth "
        "in which fewest do; all jobs; and how wide P90 is, the median of P90 over the time predicted."
    )
    report.table(
        ("workload", "policy", "P90 from", "within", "above", "below", "worst", "all", "width"),
        [
            (window.name, name, way, *map(str, _counts(draws)), *_summary(draws))
            for (window, name, way), draws in found.items()
        ],
    )
    report.claims(_claims(found))
    report.say(EXPLAINED)
    report.runs(
        ("workload", "policy", "from", "draw", "tenth", "coverage_percent"),
        [
            (window.name, name, way, draw, tenth + 1, repr(float(share)))
            for (window, name, way), draws in found.items()
            for draw, one in zip(given.seeds, draws, strict=True)
            for tenth, share in enumerate(one.in_system)
            if not np.isnan(share)
        ],
    )
    report.close()


def _counts(draws: list[Seen]) -> tuple[int, int, int]:
    """How many tenths are as they should be, above that, and below."""
    tenths = np.concatenate([one.in_system for one in draws])
    return (
        sum(one.within for one in draws),
        int(np.sum(tenths > HIGH)),
        int(np.sum(tenths < LOW)),
    )


def _summary(draws: list[Seen]) -> tuple[str, str, str]:
    worst = min(float(one.in_system.min()) for one in draws)
    if np.isnan(worst):
        return "-", "-", "-"
    every, width = (
        float(np.mean([getattr(one, of) for one in draws])) for of in ("every", "width")
    )
    return f"{worst:.0f} %", percent(every), f"{width:.2f}"


def _claims(found: Runs) -> list[Claim]:
    sums = {
        way: np.sum([_counts(draws) for (_, _, of), draws in found.items() if of == way], axis=0)
        for way in WAYS
    }
    (within, above, below), (now_within, now_above, now_below) = (
        sums["the later of both"].tolist(),
        sums["live clusters"].tolist(),
    )
    return [
        Claim(
            "our goal, live clusters: with futures more tenths are within 85 to 95 %",
            f"{within} against {now_within}",
            within > now_within,
        ),
        Claim(
            "our goal, live clusters: ... and fewer below",
            f"{below} against {now_below}",
            below < now_below,
        ),
        Claim(
            "our goal, live clusters: ... and no more above",
            f"{above} against {now_above}",
            above <= now_above,
        ),
    ]


EXPLAINED = (
    "Where a backlog builds up under Tiresias, which lets later jobs overtake, a forecast alone is too "
    "early for most jobs of the worst tenth, as it knows of no later job; the later of both holds for "
    "most of them, and is further away. Elsewhere there is little between the two ways: a tenth is 98 "
    "jobs, and which futures are drawn moves several tenths over a border. Live clusters do not do it "
    "yet: [decision 56](../../../docs/decisions/0056-live-p90-from-the-forecast-alone.md) says what is "
    "missing."
)

if __name__ == "__main__":
    main()
