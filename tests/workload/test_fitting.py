"""A workload like a trace has the trace's statistics, and the size that was asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs, of

from volvelle.model.arrays import FloatColumn
from volvelle.model.job import Job, JobSpec, Reward, Truth
from volvelle.model.problems import Problem
from volvelle.model.units import DAY, HOUR
from volvelle.workload.describe import Description, describe
from volvelle.workload.fitting import like, stretched
from volvelle.workload.generators import make_generator
from volvelle.workload.reading import read_trace
from volvelle.workload.rhythm import WEEK, weekly_rhythm
from volvelle.workload.workload import Workload


def synthetic(jobs: int = 6000, seed: int = 1) -> Workload:
    generator = make_generator("demo", {"jobs": jobs, "users": 12})
    return generator.generate(np.random.default_rng(seed))


TRACE = synthetic()


def again(trace: Workload, seed: int = 2, **wishes: Any) -> Workload:
    return like(trace, **wishes).generate(np.random.default_rng(seed))


def check_alike(trace: Workload, other: Workload, log_tolerance: float) -> None:
    """Quantiles of duration within a factor, width and class shares, users, length, load."""
    before, after = describe(trace, 64), describe(other, 64)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.95):
        had, has = (d.duration_seconds.quantile(share) or 1.0 for d in (before, after))
        assert abs(np.log((has + 1) / (had + 1))) < log_tolerance, f"quantile {share}"
    assert _width_shares(after) == pytest.approx(_width_shares(before), abs=0.01)
    assert after.jobs == before.jobs and after.users == before.users
    assert after.classes == pytest.approx(before.classes, abs=0.01 * before.jobs)
    assert after.span_seconds == pytest.approx(before.span_seconds, rel=0.01)
    assert after.load == pytest.approx(before.load, rel=0.1)


def _width_shares(description: Description) -> list[float]:
    return [width.job_share for width in description.widths]


def test_statistics_of_a_synthetic_trace_are_kept() -> None:
    check_alike(TRACE, again(TRACE), 0.05)


def test_widths_and_durations_stay_joint() -> None:
    other = again(TRACE)
    for width in (1, 2, 4, 8, 16):
        had, has = (
            np.median(workload.durations[workload.gpus == width]) for workload in (TRACE, other)
        )
        assert has == pytest.approx(had, rel=0.1)


def test_users_stay_in_their_pools() -> None:
    pairs = {(job.spec.user, job.spec.pool) for job in TRACE}
    assert {(job.spec.user, job.spec.pool) for job in again(TRACE)} == pairs


def test_the_daily_and_weekly_rhythm_is_kept() -> None:
    other = again(TRACE)

    def by_hour(times: FloatColumn) -> FloatColumn:
        hours = np.bincount((times % DAY // (4 * HOUR)).astype(np.int64), minlength=6)
        return hours / len(times)

    def weekend(workload: Workload) -> float:
        return float((workload.submit_times % WEEK >= 5 * DAY).mean())

    assert by_hour(other.submit_times) == pytest.approx(by_hour(TRACE.submit_times), abs=0.025)
    assert weekend(other) == pytest.approx(weekend(TRACE), abs=0.025)


@needs("gavel")
def test_bursts_are_kept() -> None:
    poisson = make_generator("gavel", {"jobs": 5000}).generate(np.random.default_rng(3))
    parameters: dict[str, object] = {"jobs": 5000, "arrivals": "batches:mean_batch=5"}
    batches = make_generator("gavel", parameters).generate(np.random.default_rng(3))
    for trace, bound in ((poisson, 0.15), (batches, 0.25)):
        had, has = like(trace).burstiness, like(again(trace)).burstiness
        assert had is not None and has == pytest.approx(had, rel=bound)
    smooth, bursty = like(poisson).burstiness, like(batches).burstiness
    assert smooth is not None and smooth < 1.5
    assert bursty is not None and bursty > 3 * smooth


def test_a_longer_workload_is_not_the_same_jobs_again() -> None:
    other = again(TRACE, length_seconds=3 * float(TRACE.submit_times[-1]))
    assert len(other) == pytest.approx(3 * len(TRACE), rel=0.01)
    assert len(np.unique(other.durations)) > 0.9 * len(other)
    assert len({job.spec.id for job in other}) == len(other)


def test_deadlines_and_estimates_stretch_with_the_work() -> None:
    other = again(TRACE)
    for job, seconds in zip(other, other.durations.tolist(), strict=True):
        if job.spec.rewards:
            slack = job.spec.rewards[0].deadline_seconds / seconds
            assert slack > 1.2 - 1e-9 and slack < 2.0 + 1e-9


@needs("shockwave")
def test_regimes_failures_and_losses_stretch_with_the_work() -> None:
    adaptive = make_generator("shockwave", {"jobs": 40}).generate(np.random.default_rng(1))
    for job in adaptive:
        double = stretched(job, 2.0, "x", 5.0)
        assert double.seconds_on(job.spec.gpus) == pytest.approx(2 * job.seconds_on(job.spec.gpus))
    spec = JobSpec(id="a", submit_time=0.0, rewards=(Reward(100.0, 7.0),), estimate_seconds=60.0)
    crashing = stretched(Job(spec, Truth(work=10.0, failures=(4.0,))), 3.0, "b", 1.0)
    assert crashing.truth.failures == (12.0,)
    assert crashing.spec.rewards == (Reward(300.0, 7.0),)
    assert (crashing.spec.estimate_seconds, crashing.spec.submit_time) == (180.0, 1.0)


def test_a_number_of_jobs_keeps_the_rate() -> None:
    other = again(TRACE, jobs=500)
    assert len(other) == 500
    assert other.submit_times[-1] == pytest.approx(TRACE.submit_times[-1] / 12, rel=0.02)


def test_jobs_and_length_set_the_rate() -> None:
    other = again(TRACE, jobs=900, length_seconds=DAY)
    assert len(other) == 900
    assert 0.95 * DAY < other.submit_times[-1] - TRACE.submit_times[0] <= DAY


@pytest.mark.parametrize("size", [{"jobs": 2500}, {"length_seconds": 20 * DAY}, {}])
@pytest.mark.parametrize("load", [0.3, 1.4])
def test_a_load_is_met_on_the_new_cluster(size: dict[str, Any], load: float) -> None:
    fitted = like(TRACE, load=load, gpus=100, **size)
    other = fitted.generate(np.random.default_rng(3))
    assert describe(other, 100).load == pytest.approx(load, rel=0.03)
    if "jobs" in size:
        assert len(other) == size["jobs"]
    if "length_seconds" in size:
        assert other.submit_times[-1] == pytest.approx(20 * DAY, rel=0.02)


def test_a_larger_cluster_gets_more_of_the_same_jobs_at_the_same_load() -> None:
    other = again(TRACE, cluster_gpus=64, gpus=256)
    assert len(other) == 4 * len(TRACE)
    assert describe(other, 256).load == pytest.approx(describe(TRACE, 64).load, rel=0.05)
    assert other.gpus.max() == TRACE.gpus.max()


def test_a_smaller_cluster_leaves_out_what_does_not_fit() -> None:
    fitted = like(TRACE, cluster_gpus=64, gpus=8)
    assert fitted.left_out == int((TRACE.gpus > 8).sum())
    assert fitted.generate(np.random.default_rng(1)).gpus.max() == 8


def test_the_same_seed_gives_the_same_workload() -> None:
    assert list(again(TRACE, 5, jobs=50)) == list(again(TRACE, 5, jobs=50))
    assert list(again(TRACE, 5, jobs=50)) != list(again(TRACE, 6, jobs=50))


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"load": 0.5}, "Name the cluster"),
        ({"gpus": 128}, "the size of the trace's own is not known"),
        ({"load": 0.5, "gpus": 8, "jobs": 5, "length_seconds": 9.0}, "contradict each other"),
        ({"jobs": 0}, "jobs is 0"),
        ({"load": -2.0, "gpus": 8}, "load is -2"),
    ],
)
def test_wishes_that_cannot_be_met_are_named(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(Problem, match=said):
        like(TRACE, **wishes)


def test_a_trace_too_small_to_fit_is_named() -> None:
    with pytest.raises(Problem, match="cannot fit"):
        like(Workload(TRACE.jobs[:1], "one"))
    with pytest.raises(Problem, match="cannot fit"):
        like(TRACE, gpus=0.5)  # type: ignore[arg-type]


@given(
    gaps=st.lists(st.floats(0.0, 2 * DAY), min_size=2, max_size=60).filter(lambda g: sum(g) > 1),
    clock=st.sampled_from([0.0, 1.6e9]),
)
@settings(max_examples=60, deadline=None)
def test_operational_time_has_an_inverse_and_counts_the_jobs(
    gaps: list[float], clock: float
) -> None:
    times = clock + np.cumsum([0.0, *gaps])
    rhythm = weekly_rhythm(times)
    assert np.all(rhythm.rates > 0) and len(rhythm.rates) == 168
    moments = np.linspace(clock, times[-1] + WEEK, 50)
    back = rhythm.moment(rhythm.expected(moments))
    assert back == pytest.approx(moments, abs=1e-3)


@pytest.mark.parametrize("jobs", [2, 3, 50])
@pytest.mark.parametrize("seed", range(5))
def test_tiny_traces_can_be_fitted(jobs: int, seed: int) -> None:
    trace = synthetic(jobs, seed)
    other = again(trace, seed)
    assert len(other) == jobs
    assert np.all(np.diff(other.submit_times) >= 0)


def test_an_absolute_clock_keeps_its_hour_of_the_week() -> None:
    shifted = [
        Job(
            JobSpec(id=job.spec.id, submit_time=job.spec.submit_time + 2000 * WEEK + 3 * DAY),
            job.truth,
        )
        for job in TRACE
    ]
    other = again(Workload(shifted))
    assert 3 * DAY <= other.submit_times[0] < 4 * DAY


@pytest.mark.parametrize(
    "path",
    [
        of("chronus", "philly-chronus/trace_job_Philly_MIX2.csv"),
        of("pcs", "philly-pcs/trace_0e4a51.csv"),
        of("pcs", "philly-pcs/trace_ee9e8c.csv"),
        of("gavel", "shockwave/220_jobs_64_gpus.trace"),
        of("pollux", "pollux/workload-1.csv"),
    ],
)
def test_statistics_of_published_traces_are_kept(path: str, shared: Path) -> None:
    file = shared / "data" / path
    if not file.is_file():
        pytest.skip(f"no ../shared/data/{path}")
    trace = read_trace(file)
    check_alike(trace, again(trace), 0.12)
