"""Pools that own GPUs and lend them: what their jobs may hold, and which of them run on borrowed GPUs."""

import numpy as np
import pytest

from volvelle.core.lanes import borrowed
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import Cluster, Node, Pool, cluster_from
from volvelle.simulate.world import World
from volvelle.testing.scenario import Scenario, happen, linear_job


def cluster_of(*pools: Pool, gpus: int) -> Cluster:
    return Cluster((Node("node", gpus),), pools)


def test_a_pool_that_lends_may_borrow_what_no_other_keeps() -> None:
    pools = (Pool("red", 2.0, lends=True), Pool("blue", 3.0), Pool("green", 1.0, lends=True))
    assert cluster_of(*pools, gpus=8).limits == {"red": 5.0, "blue": 3.0, "green": 5.0}
    assert cluster_of(Pool("red", 2.0), gpus=8).limits == {"red": 2.0}


def test_lending_is_said_in_the_cluster_file() -> None:
    document = {
        "nodes": [{"gpus": 8}],
        "pools": [{"name": "red", "quota": 2, "lends": True}, {"name": "blue", "quota": 6}],
    }
    assert cluster_from(document, "here").pools == (Pool("red", 2.0, True), Pool("blue", 6.0))


def test_jobs_that_have_run_longest_are_on_the_gpus_of_their_pool() -> None:
    pool = np.array([0, 0, 0, 1, -1, -1])
    held = np.array([2.0, 2.0, 1.0, 4.0, 1.0, 1.0])
    since = np.array([5.0, 3.0, 9.0, 0.0, 0.0, 1.0])
    found = borrowed(pool, held, since, np.array([3.0, 4.0]), 1.0)
    np.testing.assert_array_equal(found, [True, False, False, False, False, True])


def test_what_owners_leave_idle_is_used_and_told_apart() -> None:
    """Job 1 of pool red does not fit beside job 0 into what red owns."""
    pools = (Pool("red", 2.0, lends=True), Pool("blue", 2.0, lends=True))
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0, pool="red"),
        linear_job(1, 0.0, 1.0, 5.0, pool="red"),
        linear_job(2, 1.0, 1.0, 5.0, pool="blue"),
        linear_job(3, 1.0, 1.0, 5.0, pool="blue"),
    ]
    on_borrowed: dict[float, list[bool]] = {}

    def look(world: World) -> None:
        on_borrowed[world.now] = world.scheduler.view().borrowed.tolist()

    run = happen(Scenario.of(cluster_of(*pools, gpus=4), jobs), on_moment=look)
    assert run.outcomes.first_start.tolist() == [0.0, 0.0, 1.0, 5.0]
    assert on_borrowed[1.0] == [False, True, False, False]


@pytest.mark.parametrize("lends", [False, True])
def test_a_job_wider_than_its_pool_needs_one_that_borrows(lends: bool) -> None:
    pools = (Pool("red", 2.0, lends), Pool("blue", 2.0, lends))
    jobs = [linear_job(0, 0.0, 3.0, 10.0, pool="red")]
    outcomes = happen(Scenario.of(cluster_of(*pools, gpus=4), jobs)).outcomes
    if lends:
        assert outcomes.status[0] == JobStatus.FINISHED
    else:
        assert outcomes.reason[0] == "wants 3 GPUs, its pool 'red' has 2"
