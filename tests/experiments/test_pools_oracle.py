"""Figure 19's program: against all schedules there are, and beside the policy that looks ahead."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pools_oracle import OracleJobs, best_schedule

from volvelle.metrics.baseline import against
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.testing.scenario import Scenario, happen, linear_job

pytest.importorskip("highspy")


@st.composite
def instances(draw: st.DrawFn, most: int) -> tuple[Cluster, list[Job]]:
    """A few jobs with whole times in two or three pools that are too small for them."""
    quotas = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    pools = tuple(Pool(f"pool-{i}", float(quota), lends=True) for i, quota in enumerate(quotas))
    jobs, time = [], 0.0
    for number in range(draw(st.integers(2, most))):
        time += draw(st.sampled_from([0.0, 0.0, 1.0, 2.0]))
        owner = draw(st.integers(0, len(quotas) - 1))
        gpus, seconds = (
            draw(st.integers(1, quotas[owner])),
            draw(st.sampled_from([1.0, 2.0, 4.0, 7.0])),
        )
        jobs.append(linear_job(number, time, gpus, seconds, pool=pools[owner].name))
    return Cluster((Node("node", sum(quotas)),), pools), jobs


def fits(jobs: OracleJobs, starts: NDArray[np.float64]) -> bool:
    for now in starts:
        runs = (starts <= now) & (starts + jobs.seconds > now)
        if jobs.gpus[runs].sum() > jobs.owned.sum() + 1e-9:
            return False
    return True


@settings(max_examples=40)
@given(instances(4))
def test_no_schedule_waits_less(instance: tuple[Cluster, list[Job]]) -> None:
    jobs = OracleJobs.of(instance[1], instance[0])
    found = best_schedule(jobs, unit=1.0)
    spans = [
        np.arange(submit, last + 1.0)
        for submit, last in zip(jobs.submit, jobs.cut_offs, strict=True)
    ]
    best = min(sum(starts) for starts in itertools.product(*spans) if fits(jobs, np.array(starts)))
    assert found.gap == 0.0
    assert fits(jobs, found.starts)
    assert found.waited_seconds == pytest.approx(best - jobs.submit.sum())


@settings(max_examples=30)
@given(instances(12))
def test_looking_ahead_gains_at_most_what_the_oracle_does(
    instance: tuple[Cluster, list[Job]],
) -> None:
    """Nobody is harmed under either; all waits together are least under the oracle."""
    cluster, jobs = instance
    oracle = best_schedule(OracleJobs.of(jobs, cluster), unit=1.0)
    alone, ahead = (
        happen(Scenario.of(cluster, jobs, policy=policy)).outcomes
        for policy in ("fcfs-pools", "anticipatory-vc")
    )
    waits = [float(np.sum(outcomes.queueing_delay)) for outcomes in (alone, ahead)]
    assert oracle.gap == 0.0
    assert oracle.waited_seconds <= waits[1] + 1e-6
    assert waits[1] <= waits[0] + 1e-6
    assert (oracle.starts <= alone.first_start + 1e-9).all()
    assert against(ahead, alone).slowed == 0


@settings(max_examples=15)
@given(instances(8), st.sampled_from([1, 2, 3]))
def test_windows_sized_by_duration_leave_schedules_that_can_be_carried_out(
    instance: tuple[Cluster, list[Job]], windows: int
) -> None:
    jobs = OracleJobs.of(instance[1], instance[0])
    fine, coarse = best_schedule(jobs, unit=1.0), best_schedule(jobs, unit=1.0, windows=windows)
    assert fits(jobs, coarse.starts)
    assert (coarse.starts <= jobs.cut_offs).all()
    assert fine.waited_seconds <= coarse.waited_seconds + 1e-9


@settings(max_examples=20)
@given(instances(10))
def test_it_begins_with_a_schedule_that_is_known(instance: tuple[Cluster, list[Job]]) -> None:
    """With windows longer than anything the known starts are the best choice, or better ones are found."""
    cluster, jobs = instance
    ahead = happen(Scenario.of(cluster, jobs, policy="anticipatory-vc")).outcomes
    found = best_schedule(OracleJobs.of(jobs, cluster), unit=1000.0, known=ahead.first_start)
    assert found.waited_seconds <= float(np.sum(ahead.queueing_delay)) + 1e-6
    assert fits(OracleJobs.of(jobs, cluster), found.starts)


def unfair() -> OracleJobs:
    """One GPU is idle in pool 2: pool 0 has two short jobs that wait, pool 1 one that is a little longer."""
    pools = tuple(Pool(name, 1.0, lends=True) for name in "abc")
    jobs = [
        linear_job(0, 0.0, 1.0, 10.0, pool="a"),
        linear_job(1, 0.0, 1.0, 10.0, pool="b"),
        linear_job(2, 0.0, 1.0, 4.0, pool="a"),
        linear_job(3, 0.0, 1.0, 4.0, pool="a"),
        linear_job(4, 0.0, 1.0, 5.0, pool="b"),
    ]
    return OracleJobs.of(jobs, Cluster((Node("node", 3),), pools))


def test_beta_weighs_fairness_against_waiting() -> None:
    """Without it all that fits runs at once; with much of it no pool ever holds more than its share."""
    free, fair = (best_schedule(unfair(), unit=1.0, beta=beta) for beta in (0.0, 1000.0))
    assert free.gap == 0.0
    assert fair.gap == pytest.approx(0.0, abs=1e-9)
    assert free.waited_seconds < fair.waited_seconds
    np.testing.assert_array_equal(fair.starts, unfair().cut_offs)


def test_a_time_limit_leaves_the_reference_and_says_how_far_it_may_be() -> None:
    found = best_schedule(unfair(), unit=0.01, limit_seconds=0.0)
    np.testing.assert_array_equal(found.starts, unfair().cut_offs)
    assert found.gap > 0.0


def test_jobs_that_never_start_alone_have_no_cut_off() -> None:
    cluster = Cluster((Node("node", 2),), (Pool("a", 1.0, lends=True),))
    with pytest.raises(Problem, match="job 0 wants 2 GPUs, its pool owns 1"):
        best_schedule(OracleJobs.of([linear_job(0, 0.0, 2.0, 1.0, pool="a")], cluster))
    with pytest.raises(Problem, match="job 'job-0' is of pool '', which owns nothing"):
        OracleJobs.of([linear_job(0, 0.0, 1.0, 1.0)], cluster)
