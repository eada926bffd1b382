"""P50 and P90 of live forecasts: told from the first job on, and learned from jobs in such a state."""

import math
import random

import pytest
from waiting import until

from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import Promise
from volvelle.core.events import Event, JobFinished, JobSubmitted, Recomposed
from volvelle.core.forecast import Forecast
from volvelle.core.fork import Fork
from volvelle.core.journal import Header
from volvelle.core.scheduler import Scheduler
from volvelle.estimate.measured import Measured
from volvelle.live.forecasts.calibration import (
    SECONDS_BESIDE,
    ForecastCalibration,
    PastForecast,
)
from volvelle.live.forecasts.forecast_update import ForecastUpdate, forecast_jobs
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.forecasts.overruns import foresee, late_finishes
from volvelle.live.forecasts.what_if import forecast_cluster, forecast_request, new_nodes
from volvelle.live.job_request import JobRequest
from volvelle.live.measured_rates import MeasuredRates
from volvelle.live.scheduler_queries import attempt_number, believed_end
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec


def scheduler_of(*limits: float | None, estimator: str = "declared") -> Scheduler:
    """One GPU, and a job of 100 s for each limit; all but the first wait."""
    composition = WrittenComposition("fifo", "first-free", "accept-all", estimator)
    scheduler = Header(
        volvelle="test", cluster=parse_cluster("1x1"), composition=composition
    ).scheduler()
    for number, limit in enumerate(limits):
        spec = JobSpec(
            id=str(number),
            submit_time=0.0,
            gpus=1.0,
            estimate_seconds=100.0,
            time_limit_seconds=limit,
        )
        scheduler.handle(0.0, [JobSubmitted(0.0, number, spec)])
    return scheduler


def past(ratio: float, jobs: int = 60) -> list[PastForecast]:
    """Jobs that waited and took ``ratio`` times as long as was forecast."""
    return [
        PastForecast(
            n,
            submitted=1e3 * n,
            finish=1e3 * n + 100.0,
            width=1.0,
            service=100.0,
            ended=1e3 * n + 100.0 * ratio,
        )
        for n in range(-jobs, 0)
    ]


def test_without_a_past_p50_is_the_forecast_and_p90_a_guess_that_heeds_the_limit() -> None:
    scheduler, calibration = scheduler_of(None, 5_000.0), ForecastCalibration()
    submitted = {0: 0.0, 1: 0.0}
    both = Forecast(finish={0: 100.0, 1: 200.0}, upcoming={0: 0.0, 1: 100.0})
    told, first = calibration.tell(scheduler, submitted, both)
    assert first == [0, 1]
    assert told[0].p50 == pytest.approx(100.0)
    assert told[1].p50 == pytest.approx(200.0)
    assert all(each.prior for each in told.values())
    assert told[0].p90 is not None
    assert 200.0 < told[0].p90 < 500.0
    assert told[1].start == pytest.approx(100.0)
    assert calibration.ask(scheduler, 1, 100.0, 200.0).p90 == pytest.approx(5_100.0)
    assert calibration.tell(scheduler, submitted, both)[1] == []


def test_a_restored_past_says_how_long_forecasts_really_take() -> None:
    scheduler, calibration = scheduler_of(None), ForecastCalibration()
    calibration.replay(past(2.0))
    told = calibration.ask(scheduler, 0, 90.0, 100.0)
    assert not told.prior
    assert told.p50 == pytest.approx(200.0, rel=0.05)
    assert told.start == pytest.approx(180.0, rel=0.05)
    assert calibration.share_within(scheduler, 0, 100.0, 199.0) == 0.0
    assert calibration.share_within(scheduler, 0, 100.0, 201.0) == 1.0


def test_a_start_leaves_the_run_before_a_guarantee() -> None:
    scheduler, calibration = scheduler_of(None), ForecastCalibration()
    calibration.replay(past(2.0))
    told = calibration.ask(scheduler, 0, 100.0, 200.0).under(Promise(0, 210.0), 100.0, 200.0)
    assert told.start == pytest.approx(110.0)
    assert told.p50 == 210.0


def test_a_forecast_passes_no_believed_end_to_an_estimator_that_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[JobSpec] = []
    monkeypatch.setattr(Measured, "learn", lambda _, spec, seconds: learned.append(spec))
    scheduler = scheduler_of(*[None] * 4, estimator="measured")
    assert Fork(scheduler).until().finish == {n: 100.0 * (n + 1) for n in range(4)}
    assert not learned
    scheduler.handle(0.0, [Recomposed(0.0, "fifo", "backlog:factor=4")])
    scheduler.compile()
    late = JobSpec(id="4", submit_time=0.0, gpus=1.0, estimate_seconds=100.0)
    scheduler.handle(0.0, [JobSubmitted(0.0, 4, late)])
    assert Fork(scheduler).until().finish[4] == 500.0
    assert len(learned) == 5, "machine code asks too where a job waits to be admitted"


def test_start_p50_and_share_agree_where_jobs_are_shorter_than_their_estimates() -> None:
    calibration, now, epoch = ForecastCalibration(), 1e-3, 1_000.0
    calibration.replay(past(0.1))
    scheduler = scheduler_of(None, None, None)
    waiting = forecast_jobs(scheduler.fork(), now, calibration, epoch).times[2]
    assert waiting.start is not None
    assert waiting.p50 is not None
    assert now < waiting.start < waiting.p50 < 200.0
    due = {"kind": "strict", "within": 250.0}  # P50 is before it, and the forecast finish behind it
    request = JobRequest.model_validate(
        {"command": "train", "gpus": 1, "estimate": 100.0, "deadline": due}
    )
    asked = forecast_request(scheduler, calibration, MeasuredRates(), request, "ada", now, epoch)
    assert asked.start is not None
    assert asked.p50 is not None
    assert asked.deadline_share is not None
    assert epoch + now < asked.start < asked.p50 < epoch + 250.0
    assert asked.deadline_share >= 0.5


def test_what_if_tells_the_times_that_the_queue_tells() -> None:
    scheduler, calibration, now, epoch = scheduler_of(*3 * [None]), ForecastCalibration(), 1e-3, 1e3
    calibration.replay(past(0.1))
    told = forecast_jobs(scheduler.fork(), now, calibration, epoch).times
    nodes = new_nodes(1, 1, "")
    found = forecast_cluster(scheduler, calibration, "fifo", "accept-all", nodes, now, epoch)
    assert {each.number for each in found.jobs} == {1, 2}
    for each in found.jobs:
        was = told[each.number]
        assert was.start is not None and was.p50 is not None and each.finish is not None
        assert each.start_before == pytest.approx(epoch + was.start)
        assert each.finish_before == pytest.approx(epoch + was.p50)
        assert each.finish < epoch + was.p50 < epoch + 200.0


def test_what_remains_counts_as_often_as_at_the_first_forecast() -> None:
    scheduler, calibration = scheduler_of(None), ForecastCalibration()
    calibration.replay(past(2.0))
    calibration.tell(scheduler, {0: 0.0}, Forecast(finish={0: 100.0}))
    scheduler.now = 50.0
    told = calibration.tell(scheduler, {0: 0.0}, Forecast(finish={0: 100.0}))[0][0]
    assert told.p50 == pytest.approx(150.0, rel=0.05)


def test_jobs_that_go_on_past_their_times_make_later_ones_later() -> None:
    calm, late = ForecastCalibration(), ForecastCalibration()
    going_on = [PastForecast(n, n, 100.0 + n, 1.0, 100.0) for n in range(20)]
    for calibration, more in ((calm, []), (late, going_on)):
        calibration.replay([*past(1.0), *more])
    times = []
    for calibration in (calm, late):
        scheduler = scheduler_of(None)
        scheduler.now = 10_000.0
        times.append(calibration.ask(scheduler, 0, None, 10_100.0).p90 or math.nan)
    assert times[1] > times[0]


def test_a_job_that_is_cancelled_is_not_learned_from() -> None:
    scheduler, calibration = scheduler_of(None), ForecastCalibration()
    calibration.replay(past(2.0))
    before = calibration.ask(scheduler, 0, 90.0, 100.0)
    calibration.tell(scheduler, {0: 0.0}, Forecast(finish={0: 100.0}, upcoming={0: 90.0}))
    calibration.job_ended(0, 1.0, finished=False)
    assert calibration.ask(scheduler, 0, 90.0, 100.0) == before


@pytest.mark.parametrize(("jobs", "policy"), [(19, "fifo"), (60, "fifo"), (60, "srsf")])
def test_told_times_of_a_queue_are_its_forecast_stretched_by_one_factor(
    jobs: int, policy: str
) -> None:
    """Starts stay at the ends that let them in, and jobs alike take alike; 1 until twenty jobs are over."""
    rng = random.Random(jobs)
    composition = WrittenComposition(policy, "first-free", "accept-all", "declared")
    header = Header(volvelle="test", cluster=parse_cluster("1x4"), composition=composition)
    scheduler, calibration = header.scheduler(), ForecastCalibration()
    calibration.replay(each for n in range(jobs) for each in past(rng.uniform(0.3, 3.0), n + 1)[:1])
    for now in range(40):
        spec = JobSpec(
            id=str(now),
            submit_time=now,
            gpus=rng.choice((1.0, 2.0, 4.0)),
            estimate_seconds=rng.choice((10.0, 40.0, 600.0)),
        )
        scheduler.handle(now, [JobSubmitted(now, now, spec)])
        told = forecast_jobs(scheduler.fork(), now, calibration, 0.0).times
    forecast, factors = foresee(scheduler), set[float]()
    for number, each in told.items():
        assert each.start is not None and each.p50 is not None and each.p90 is not None
        pairs = ((each.p50, forecast.finish[number]), (each.start, forecast.upcoming[number]))
        least = now - SECONDS_BESIDE
        factors.update((then - least) / (at - least) for then, at in pairs if at > now)
        assert now <= each.p50 <= each.p90
    assert max(factors) == pytest.approx(min(factors))
    assert (min(factors) == pytest.approx(1.0)) is (jobs < 20)


def test_starts_are_learned_from_and_a_restored_calibration_tells_the_same() -> None:
    """Jobs that say 1,000 s and run for 100 wait a tenth of what is forecast, of one or two before them."""
    calibration, scheduler, past = (
        ForecastCalibration(),
        scheduler_of(None),
        dict[int, PastForecast](),
    )
    for number in range(1, 60):
        scheduler.now = now = 100.0 * number
        spec = JobSpec(id=str(number), submit_time=now, gpus=1.0, estimate_seconds=1000.0)
        events: list[Event] = [JobSubmitted(now, number, spec)]
        if number > 1:
            attempt = attempt_number(scheduler, number - 2)
            assert attempt is not None
            events.insert(0, JobFinished(now, number - 2, attempt))
            calibration.job_ended(number - 2, now, finished=True)
            past[number - 2] = past[number - 2]._replace(ended=now)
            past[number - 1] = past[number - 1]._replace(started=now)
        scheduler.handle(now, events)
        update = forecast_jobs(scheduler.fork(), now, calibration, 0.0)
        for one in update.first:
            submitted = 100.0 * one.number
            past[one.number] = PastForecast(
                one.number, submitted, one.finish, 1.0, 1000.0, start=one.start
            )
    assert update.times[number].start == pytest.approx(now + 100.0, abs=20.0)
    restored = ForecastCalibration()
    restored.replay(past.values())
    told = forecast_jobs(scheduler.fork(), now, restored, 0.0).times
    for job, times in update.times.items():
        assert told[job].p50 == pytest.approx(times.p50, rel=0.01)
        assert told[job].p90 == pytest.approx(times.p90, rel=0.05)


def test_seconds_that_all_jobs_lose_do_not_stretch_a_long_one() -> None:
    """Jobs of 1 s that take 1.6 tell little of one of ten minutes."""
    calibration, scheduler = ForecastCalibration(), scheduler_of(None)
    calibration.replay(PastForecast(n, -100.0, -99.0, 1.0, 1.0, ended=-98.4) for n in range(1, 30))
    p50 = calibration.ask(scheduler, 0, None, 600.0).p50
    assert p50 is not None and 600.0 < p50 < 700.0


def test_a_job_that_overran_is_told_to_go_on_and_jobs_behind_it_as_much_later() -> None:
    """It was believed to take 100 s and has run for 300 s."""
    scheduler, calibration, now = scheduler_of(None, None), ForecastCalibration(), 300.0
    update = forecast_jobs(scheduler.fork(), now, calibration, 0.0)
    runs, waits = update.times[0], update.times[1]
    assert (runs.p50, runs.p90) == (600.0, 3_000.0), "as long again; one in ten nine times as long"
    assert (waits.start, waits.p50) == (600.0, 700.0)
    assert waits.p90 == 3_100.0
    assert update.until == 330.0, "the rest grows as time passes"
    request = JobRequest(command="train", gpus=1, estimate="100s")
    scheduler.now = now
    found = forecast_request(
        scheduler.fork(), calibration, MeasuredRates(), request, "ada", now, 1_000.0
    )
    assert (found.start, found.p50, found.p90) == (1_700.0, 1_800.0, 4_200.0)
    assert Fork(scheduler).until().finish == {0: 300.0, 1: 400.0}, "parts decide as before"


def test_a_job_that_is_hardly_late_is_told_little_more_and_none_more_than_its_limit() -> None:
    for now, rest in ((104.0, 10.4), (110.0, 20.0), (150.0, 100.0), (200.0, 200.0)):
        scheduler = scheduler_of(None)
        scheduler.now = now
        assert foresee(scheduler).finish[0] == pytest.approx(now + rest)
        assert late_finishes(scheduler)[0] == pytest.approx(now + 9.0 * rest)
    limited = scheduler_of(350.0)
    assert not late_finishes(limited), "no job is late"
    limited.now = 300.0
    assert foresee(limited).finish == late_finishes(limited) == {0: 350.0}


def test_an_end_that_is_believed_stays_though_it_has_passed() -> None:
    scheduler = scheduler_of(None, None)
    scheduler.now = 300.0
    assert believed_end(scheduler, 0) == 100.0
    assert believed_end(scheduler, 1) is None, "it waits"


def test_a_forecaster_that_is_hurried_takes_the_next_scheduler_without_a_pause() -> None:
    sent: list[ForecastUpdate] = []
    forecaster = Forecaster(ForecastCalibration(), sent.append)
    forecaster.start()
    forecaster.submit(scheduler_of(None, 5_000.0), 0.0, 0.0)
    forecaster.hurry()
    until(lambda: bool(sent))
    assert forecaster.seconds_until_ready() == 0.0
    forecaster.close()
