"""Futures: what is drawn from the past, and that machine code plays it to the same end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import of

from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.parts import KnownJob
from volvelle.core.play_out import Arrays, Arrivals, can_play_out
from volvelle.core.scheduler import Scheduler
from volvelle.core.view import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.simulate import futures
from volvelle.simulate.futures import arrival_of, finishes
from volvelle.simulate.resample import Arrival, RecentPast
from volvelle.testing.scenario import Scenario, linear_job

COMPILED = [
    "fifo",
    "srsf",
    "sjf:preemptive=true",
    "las:round=30",
    of("pcs", "pcs:thresholds=60/200,disparity=1"),
]


def busy(policy: str, estimator: str, jobs: list[Job]) -> tuple[Scheduler, list[Arrival]]:
    """A scheduler with all ``jobs``, each submitted at its time, and how they came."""
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy=policy, estimator=estimator)
    scheduler = scenario.scheduler()
    arrivals = []
    for number, job in enumerate(jobs):
        now = job.spec.submit_time
        scheduler.handle(now, [JobSubmitted(now, number, job.spec, job.truth)])
        arrivals.append(arrival_of(scheduler, number))
    return scheduler, arrivals


def past_of(arrivals: list[Arrival], rng: np.random.Generator, *, err: bool) -> RecentPast:
    """Thirty arrivals like these, and how long forty jobs took."""
    past = RecentPast()
    times = np.cumsum(rng.integers(1, 20, 30)).tolist()
    for n, time in enumerate(times):
        past.arrived(arrivals[n % len(arrivals)]._replace(time=float(time)))
    for ratio in rng.uniform(0.5, 2.0, 40).tolist():
        past.finished(ratio if err else 1.0)
    return past


@pytest.mark.parametrize("policy", COMPILED)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), err=st.booleans())
def test_a_future_ends_the_same_compiled_and_interpreted(policy: str, seed: int, err: bool) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        linear_job(n, float(n), float(rng.integers(1, 4)), float(rng.integers(20, 300)))
        for n in range(int(rng.integers(2, 8)))
    ]
    scheduler, arrivals = busy(policy, "noisy:error=0.3" if err else "oracle", jobs)
    past = past_of(arrivals, rng, err=err)
    number, next_number = len(jobs) - 1, len(jobs)

    def told(fork: Fork) -> FloatColumn | None:
        return finishes(
            fork,
            past,
            number,
            horizon=100.0,
            next_number=next_number,
            play_outs=futures._FEW,
            rng=np.random.default_rng(seed),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(futures, "_FEW_ARRIVALS", futures._ARRIVALS)
        interpreted = told(Fork(scheduler))
    scheduler.compile()
    assert can_play_out(scheduler)
    fork = Fork(scheduler).in_arrays(Arrays())
    compiled = told(fork)
    assert compiled is not None
    assert interpreted is not None
    assert compiled.tolist() == interpreted.tolist()
    again = told(fork)
    assert again is not None
    assert again.tolist() == compiled.tolist(), "in the same arrays"


def test_who_comes_in_a_future_is_believed_what_was_believed_then() -> None:
    """A job of 100 s is believed to take 10: it goes first, before what is left of one of 500 s."""
    scheduler, _ = busy("srtf", "oracle", [linear_job(0, 0.0, 4.0, 50.0)])
    short = linear_job(7, 20.0, 4.0, 10.0)
    _, arrivals = busy("srtf", "oracle", [short])
    columns = arrivals[0].columns[:, None].copy()
    columns[0] = 5.0  # its number
    coming = Arrivals(columns, [KnownJob(short.spec, short.truth)])
    fork = Fork(scheduler)
    assert fork.until().finish == {0: 50.0}
    ten_times_as_long = fork.with_arrivals(coming).believing(lambda done: np.full(len(done), 10.0))
    assert ten_times_as_long.until().finish == {0: 600.0, 5: 120.0}


def test_a_past_that_is_short_says_nothing() -> None:
    _, arrivals = busy("srsf", "oracle", [linear_job(0, 0.0, 4.0, 50.0)])
    past = RecentPast()
    past.arrived(arrivals[0])
    assert not past.enough
    assert not past.beliefs_err
    assert past.ratios(np.array([0.5]), np.random.default_rng(0)).tolist() == [1.0]


def test_somebody_comes_as_long_as_a_job_may_take() -> None:
    """One arrival in ten seconds: of 2,000 s there are 200, twice over, if they are not too many."""
    _, arrivals = busy("srsf", "oracle", [linear_job(0, 0.0, 4.0, 50.0)])
    past = RecentPast()
    for n in range(40):
        past.arrived(arrivals[0]._replace(time=10.0 * n))
    rng = np.random.default_rng(0)
    _, seconds = past.coming(2_000.0, 3_000, rng)
    assert seconds[-1] == pytest.approx(2 * 2_000.0 + 200.0)  # and a block more
    assert len(past.coming(2_000.0, 300, rng)[0]) == 300


def test_a_job_under_way_takes_what_is_still_possible() -> None:
    past = RecentPast()
    for ratio in np.linspace(0.5, 1.5, 41).tolist():
        past.finished(ratio)
    rng = np.random.default_rng(0)
    drawn = past.ratios(np.full(200, 1.2), rng)
    assert drawn.min() > 1.2
    assert past.ratios(np.array([3.0]), rng) == pytest.approx([1.05 * 3.0])


def test_a_burst_goes_on_and_comes_again() -> None:
    """Of 60 arrivals the last 30 came within a minute: many a future begins with more than 30 of these."""
    _, arrivals = busy("srsf", "oracle", [linear_job(0, 0.0, 4.0, 50.0)])
    past = RecentPast()
    for n in range(30):
        past.arrived(arrivals[0]._replace(time=600.0 * n))
    for n in range(30):
        past.arrived(arrivals[0]._replace(time=18_000.0 + 2.0 * n))
    rng = np.random.default_rng(0)
    soon = np.array([(past.coming(3_600.0, 300, rng)[1] <= 600.0).sum() for _ in range(200)])
    assert 0.2 < np.mean(soon > 30) < 0.8
    assert 0.1 < np.mean(soon < 30) < 0.8
