"""The watch on durations: what a borrower that outlives its quantum closes, and for how long."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from test_anticipatory import run, workloads

from volvelle.core.composition import WrittenComposition
from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.simulate.run import Setting, simulate
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.workload.workload import Workload

POLICY = "anticipatory:quanta=10/100"


def believed(job: Job, seconds: float) -> Job:
    """The same job, of which its user says that it takes so long."""
    return Job(msgspec.structs.replace(job.spec, estimate_seconds=seconds), job.truth)


def overrun(lasting: float) -> list[Job]:
    """At 60 s pool a borrows for 9 s, as is believed; at 75 s it would again."""
    return [
        believed(linear_job(0, 0.0, 2, 1000.0, pool="a"), 1000.0),
        believed(linear_job(1, 60.0, 1, lasting, pool="a"), 9.0),
        believed(linear_job(2, 75.0, 1, 9.0, pool="a"), 9.0),
    ]


@pytest.mark.parametrize(("lasting", "starts"), [(9.0, 75.0), (500.0, 100.0)])
def test_a_borrower_that_outlives_its_quantum_closes_it_for_its_kind(
    lasting: float, starts: float
) -> None:
    """The third job counts as of 100 s then, of which something is known from 100 s on."""
    pools = (Pool("a", 2.0, lends=True), Pool("b", 2.0, lends=True))
    where = Cluster((Node("node", 4),), pools)
    found = run(POLICY, where, overrun(lasting), estimator="declared")
    assert found.first_start.tolist() == [0.0, 60.0, starts]


def test_what_was_outlived_is_closed_on_nodes_as_well() -> None:
    pools = (Pool("a", 2.0, lends=True), Pool("b", 2.0, lends=True))
    where = Cluster((Node("node-0", 2), Node("node-1", 2)), pools)
    scenario = Scenario.of(
        where,
        overrun(500.0),
        policy=f"{POLICY},locality=true",
        placement="consolidated",
        estimator="declared",
    )
    assert happen(scenario).outcomes.first_start.tolist() == [0.0, 60.0, 100.0]


@settings(max_examples=12, deadline=None)
@given(workloads())
def test_queues_watch_as_a_look_at_all_jobs_does(workload: tuple[Cluster, list[Job]]) -> None:
    """Beliefs are off by half, so that borrowers outlive theirs: the same starts to the last bit."""
    where, jobs = workload
    composition = WrittenComposition(POLICY, estimator="noisy:error=0.5")
    setting = Setting(cluster=where, composition=composition)
    asked, kept = (
        simulate(Workload(tuple(jobs)), setting, compiled=each).outcomes for each in (False, True)
    )
    np.testing.assert_array_equal(kept.first_start, asked.first_start)
    np.testing.assert_array_equal(kept.finish, asked.finish)
