"""Bounded borrowing: where borrowers have hard time limits or may be stopped, nobody is later than alone."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_anticipatory import run, workloads

from volvelle.core.view import View
from volvelle.metrics.baseline import against
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.systems.anticipatory.coarse import Anticipatory
from volvelle.testing.scenario import Scenario, happen, linear_job

POLICY = "anticipatory:quanta=10/100"


def limited(job: Job, seconds: float | None) -> Job:
    """The same job, ended when it has run for so long, and believed to take a second."""
    spec = msgspec.structs.replace(job.spec, time_limit_seconds=seconds, estimate_seconds=1.0)
    return Job(spec, job.truth)


def within_limits(jobs: list[Job]) -> list[Job]:
    """The same jobs, with time limits a little longer than they take."""
    return [limited(job, 1.05 * job.truth.work / job.spec.gpus) for job in jobs]


@settings(max_examples=40, deadline=None)
@given(workloads(), st.floats(1.0, 4.0), st.booleans())
def test_nobody_is_late_where_limits_are_hard_and_it_is_known_how_much_comes(
    workload: tuple[Cluster, list[Job]], slack: float, some: bool
) -> None:
    """However wrong beliefs are: every job is believed to take a second. Some jobs have no limit."""
    where, jobs = workload
    jobs = [
        limited(job, slack * job.truth.work / job.spec.gpus if number % 3 or not some else None)
        for number, job in enumerate(jobs)
    ]
    names = [pool.name for pool in where.pools]

    def kept_for(policy: Anticipatory, view: View) -> np.ndarray:
        found = np.zeros((3, len(names)))
        for at, quantum in enumerate((10.0, 100.0, np.inf)):
            for job in jobs:
                if view.now < job.spec.submit_time <= view.now + quantum:
                    found[at, names.index(job.spec.pool)] += job.spec.gpus
        return found

    alone = run("fcfs-pools", where, jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Anticipatory, "_kept_for", kept_for)
        shared = run(f"{POLICY},bounded=true", where, jobs, estimator="declared")
    assert (shared.finish <= alone.finish + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(workloads())
def test_nobody_is_late_where_all_borrowers_may_be_stopped(
    workload: tuple[Cluster, list[Job]],
) -> None:
    """Whatever comes, and whatever is believed: nothing is known of arrivals, and beliefs are wrong."""
    where, jobs = workload
    jobs = [limited(job, None) for job in jobs]
    alone = run("fcfs-pools", where, jobs)
    shared = run(f"{POLICY},preempt=true", where, jobs, estimator="declared")
    assert (shared.finish <= alone.finish + 1e-6).all()


def two_pools(*quotas: float) -> Cluster:
    pools = tuple(Pool(name, quota, lends=True) for name, quota in zip("ab", quotas, strict=True))
    return Cluster((Node("node", int(sum(quotas))),), pools)


def test_a_borrower_whose_turn_has_come_is_stopped_no_more() -> None:
    """At 100 s pool a is empty again: its second job, which borrows, would start there, not its third."""
    jobs = [
        linear_job(0, 0.0, 2, 110.0, pool="a", preemptible=False),
        linear_job(1, 101.0, 2, 50.0, pool="a"),
        linear_job(2, 102.0, 2, 900.0, pool="a"),
        linear_job(3, 120.0, 2, 10.0, pool="b"),
    ]
    found = run(f"{POLICY},preempt=true", two_pools(2, 2), jobs)
    assert found.preemptions.tolist()[1] == 0
    assert found.finish.tolist()[1] == 151.0
    assert found.first_start.tolist()[3] == 120.0


@pytest.mark.parametrize(("limit", "starts"), [(9.0, 250.0), (90.0, 510.0), (None, 1000.0)])
def test_a_borrower_goes_by_its_time_limit(limit: float | None, starts: float) -> None:
    """Jobs came to pool b up to 205 s, from 510 s on in few stretches of 100 s."""
    jobs = [linear_job(0, 0.0, 2, 1000.0, pool="a")]
    jobs += [linear_job(1 + at, 5.0 + 50.0 * at, 2, 1.0, pool="b") for at in range(5)]
    jobs.append(limited(linear_job(6, 250.0, 1, 8.0, pool="a"), limit))
    policy = f"{POLICY},recent=10,bounded=true"
    found = run(policy, two_pools(2, 2), jobs, estimator="declared")
    assert found.first_start.tolist()[6] == starts


def burst(lasting: float) -> list[Job]:
    """Pool b is quiet, and a borrows; then 40 jobs come to b, of two GPUs each."""
    jobs = [linear_job(0, 0.0, 2, 1000.0, pool="a")]
    jobs += [linear_job(1 + at, 5.0 + 10.0 * at, 2, 1.0, pool="b") for at in range(20)]
    jobs += [linear_job(21 + at, 400.0 + at, 1, lasting, pool="a") for at in range(2)]
    jobs += [linear_job(23 + at, 430.0 + at, 2, 5.0, pool="b") for at in range(40)]
    return jobs


def test_a_promise_on_harm_is_not_kept_by_beliefs() -> None:
    """Borrowers believed to take a second take 300 when a burst comes: all jobs of the burst were late."""
    jobs = [limited(job, None) for job in burst(300.0)]
    policy = f"{POLICY},recent=2,step=1,harm=0.1"
    alone = run("fcfs-pools", two_pools(2, 2), jobs)
    scenario = Scenario.of(two_pools(2, 2), jobs, policy=policy, estimator="declared")
    found = happen(scenario)
    assert against(found.outcomes, alone).slowed == 0
    notices = [each for entry in found.journal.entries for each in entry.decision.notices]
    said = (
        "jobs of pool a that have no time limit of at most 100s borrow nothing: harm=0.1 could not"
    )
    assert notices.count(f"{said} be kept") == 1


def test_a_job_with_a_time_limit_borrows_where_harm_is_limited() -> None:
    policy, jobs = f"{POLICY},recent=2,step=1,harm=0.1", within_limits(burst(20.0))
    found = run(policy, two_pools(2, 2), jobs, estimator="declared")
    assert found.first_start.tolist()[21:23] == [400.0, 401.0]
    assert against(found, run("fcfs-pools", two_pools(2, 2), jobs)).slowed == 0
