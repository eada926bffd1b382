"""What anticipatory scheduling is compared with, on the paper's example and on others worked out by hand."""

import numpy as np
import pytest

from volvelle.model.cluster import Cluster, Node, Pool
from volvelle.model.job import Job
from volvelle.model.problems import Problem
from volvelle.testing.scenario import Scenario, happen, linear_job


def starts(policy: str, jobs: list[Job], quotas: dict[str, float]) -> list[float]:
    pools = tuple(Pool(name, quota, lends=True) for name, quota in quotas.items())
    cluster = Cluster((Node("node", int(sum(quotas.values()))),), pools)
    outcomes = happen(Scenario.of(cluster, jobs, policy=policy)).outcomes
    return [float(start) for start in outcomes.first_start]


def two_pools() -> list[Job]:
    """Red has a long job, then a wide one and two short ones; blue comes later."""
    return [
        linear_job(0, 0.0, 1.0, 100.0, pool="red"),
        linear_job(1, 0.0, 2.0, 30.0, pool="red"),
        linear_job(2, 0.0, 1.0, 10.0, pool="red"),
        linear_job(3, 0.0, 1.0, 5.0, pool="red"),
        linear_job(4, 5.0, 2.0, 10.0, pool="blue"),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fcfs-pools", [0.0, 100.0, 130.0, 130.0, 5.0]),
        ("ssf", [40.0, 10.0, 0.0, 0.0, 5.0]),
        ("ssf:strict=false", [5.0, 105.0, 0.0, 0.0, 5.0]),
        ("gssf", [20.0, 0.0, 0.0, 0.0, 10.0]),
        ("mmfs", [0.0, 0.0, 0.0, 10.0, 30.0]),
    ],
)
def test_who_starts_when(policy: str, expected: list[float]) -> None:
    assert starts(policy, two_pools(), {"red": 2.0, "blue": 2.0}) == expected


def test_max_min_fairness_serves_the_pool_with_least_of_what_it_owns() -> None:
    """Blue owns three times as much as red, and gets three times as much of what comes free."""
    jobs = [linear_job(0, 0.0, 8.0, 10.0, pool="red")]
    jobs += [linear_job(1 + n, 1.0, 1.0, 50.0, pool="red") for n in range(8)]
    jobs += [linear_job(9 + n, 1.0, 1.0, 50.0, pool="blue") for n in range(8)]
    began = starts("mmfs", jobs, {"red": 2.0, "blue": 6.0})
    assert sum(start == 10.0 for start in began[1:9]) == 2
    assert sum(start == 10.0 for start in began[9:]) == 6


def test_jobs_of_no_pool_own_nothing_and_are_served_last() -> None:
    jobs = [linear_job(0, 0.0, 2.0, 10.0), linear_job(1, 0.0, 2.0, 10.0, pool="red")]
    assert starts("fcfs-pools", jobs, {"red": 2.0}) == [10.0, 0.0]
    assert starts("mmfs", jobs, {"red": 2.0}) == [10.0, 0.0]


@pytest.mark.parametrize(
    ("policy", "expected"), [("fcfs-pools", [None]), ("anticipatory-vc", [0.0])]
)
def test_a_job_wider_than_its_pool_is_turned_away_at_home_and_a_guest_elsewhere(
    policy: str, expected: list[float | None]
) -> None:
    pools = (Pool("red", 1.0, lends=True), Pool("blue", 3.0, lends=True))
    cluster = Cluster((Node("node", 4),), pools)
    jobs = [linear_job(0, 0.0, 2.0, 10.0, pool="red")]
    outcomes = happen(
        Scenario.of(cluster, jobs, policy=f"{policy}:locality=true", placement="first-free")
    ).outcomes
    started = [None if np.isnan(start) else start for start in outcomes.first_start.tolist()]
    assert started == expected
    if expected == [None]:
        assert outcomes.reason == ["wants 2 GPUs, its pool 'red' has 1"]


def test_nothing_is_lent_to_a_job_wider_than_its_pool_where_pools_are_alone() -> None:
    pools = (Pool("red", 1.0, lends=True), Pool("blue", 3.0, lends=True))
    jobs = [linear_job(0, 0.0, 2.0, 10.0, pool="red")]
    cluster = Cluster((Node("node", 4),), pools)
    alone = happen(Scenario.of(cluster, jobs, policy="fcfs-pools")).outcomes
    assert alone.reason == ["wants 2 GPUs, its pool 'red' has 1"]
    assert happen(Scenario.of(cluster, jobs, policy="mmfs")).outcomes.finish[0] == 10.0


def guests_and_owners() -> list[Job]:
    """Red's job 1 is a guest of blue's when blue's wide job comes; one of blue's GPUs is idle then."""
    return [
        linear_job(0, 0.0, 2.0, 100.0, pool="red"),
        linear_job(1, 0.0, 1.0, 50.0, pool="red"),
        linear_job(2, 1.0, 2.0, 10.0, pool="blue"),
        linear_job(3, 2.0, 1.0, 5.0, pool="red"),
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("hived-nonpreemptive", [0.0, 0.0, 50.0, 60.0]), ("mmfs", [0.0, 0.0, 50.0, 2.0])],
)
def test_what_comes_free_is_kept_for_a_dedicated_job(policy: str, expected: list[float]) -> None:
    """Without preemption HiveD's owner waits for the guest that is there, and for no other."""
    assert starts(policy, guests_and_owners(), {"red": 2.0, "blue": 2.0}) == expected


def test_a_guest_of_hived_does_not_use_up_what_its_pool_owns() -> None:
    """Job 1 borrows to its end: red's own GPUs, free at 10, are for red's next job, and the third borrows."""
    jobs = [
        linear_job(0, 0.0, 2.0, 10.0, pool="red"),
        linear_job(1, 0.0, 2.0, 100.0, pool="red"),
        linear_job(2, 0.0, 2.0, 100.0, pool="red"),
        linear_job(3, 1.0, 2.0, 5.0, pool="blue"),
    ]
    assert starts("hived-nonpreemptive", jobs, {"red": 2.0, "blue": 2.0}) == [0.0, 0.0, 10.0, 100.0]


def test_themis_without_preemption_serves_who_is_furthest_behind_and_stops_nobody() -> None:
    """When job 0 ends the short job has waited ten times its length, the long one a tenth."""
    jobs = [
        linear_job(0, 0.0, 1.0, 100.0, pool="red"),
        linear_job(1, 0.0, 1.0, 1000.0, pool="red"),
        linear_job(2, 1.0, 1.0, 10.0, pool="red"),
    ]
    assert starts("themis:preemptive=false", jobs, {"red": 1.0}) == [0.0, 110.0, 100.0]


def test_themis_divides_nothing_without_preemption() -> None:
    with pytest.raises(Problem, match="it needs preemptive=true"):
        starts("themis:preemptive=false,filter=0.5", two_pools(), {"red": 2.0, "blue": 2.0})
