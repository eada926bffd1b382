"""DRF and weighted max-min: whose share is smallest, and the loops against their plain twins."""

import numpy as np
from growth_cases import Growing, growings, plain, shares_at
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core import columns
from volvelle.core.compiled import compiled
from volvelle.model.cluster import Cluster, Node, parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.policies.drf import fill_by_dominant_share
from volvelle.policies.max_min import grow_by_weight
from volvelle.testing.scenario import Scenario, happen

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@settings(max_examples=200)
@given(growings(), st.integers(0, 2**32 - 1))
def test_progressive_filling_is_the_same_compiled_and_plain(case: Growing, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, kinds = case.matrix.shape[1], int(rng.integers(1, 3))
    m = case.matrix
    m[columns.TYPES] = rng.integers(1, 2**kinds, jobs)
    m[columns.TYPE] = -1
    m[columns.PREEMPTIBLE] = 1.0
    m[columns.WEIGHT] = rng.choice([0.5, 1.0, 2.0], jobs)
    rank: Floats = rng.choice([1.0, 2.0, 3.0], size=jobs)
    order = case_order(rng, jobs)
    order = order[np.argsort(rank[order], kind="stable")]
    per_gpu = np.stack([np.ones(jobs), *rng.choice([0.0, 1.0, 3.0], (2, jobs))])
    totals = np.array([12.0, 16.0, np.inf])
    capacity = rng.integers(0, 7, kinds).astype(np.float64)
    given_, twin = np.zeros((3, jobs)), np.zeros((3, jobs))
    compiled(fill_by_dominant_share)(m, order, rank, per_gpu, totals, capacity, case.left, given_)
    fill_by_dominant_share(m, order, rank, per_gpu, totals, capacity, case.left, twin)
    assert np.array_equal(given_, twin)
    gpus, types, reasons = given_
    assert np.all((gpus > 0) == (reasons == 0))
    assert np.all((gpus * per_gpu).sum(axis=1) <= totals)
    for kind in range(kinds):
        assert gpus[types == kind].sum() <= capacity[kind]


def case_order(rng: np.random.Generator, jobs: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return rng.permutation(jobs).astype(np.int64)


@settings(max_examples=200)
@given(growings(), st.integers(0, 2**32 - 1))
def test_growth_by_weight_is_the_same_compiled_and_plain(case: Growing, seed: int) -> None:
    weights = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], case.matrix.shape[1])
    case.matrix[columns.WEIGHT] = weights
    results = []
    for grow in (grow_by_weight, plain(grow_by_weight)):
        gpus, left = case.gpus.copy(), case.left.copy()
        free = grow(case.matrix, case.rows, gpus, case.free, left)
        assert gpus.sum() + free == case.gpus.sum() + case.free
        results.append((gpus.tolist(), left.tolist(), free))
    assert results[0] == results[1]


def job(
    number: int,
    gpus: float,
    *,
    user: str = "",
    most: float | None = None,
    weight: float = 1.0,
    cpus: float = 0.0,
    memory_gb: float = 0.0,
) -> Job:
    spec = JobSpec(
        id=f"{number}",
        submit_time=0.0,
        gpus=gpus,
        min_gpus=None if most is None else 1.0,
        max_gpus=most,
        user=user,
        weight=weight,
        cpus=cpus,
        memory_gb=memory_gb,
    )
    return Job(spec, Truth(work=100.0 * gpus))


def shares(policy: str, cluster: Cluster, *jobs: Job) -> dict[int, float]:
    return shares_at(happen(Scenario.of(cluster, jobs, policy=policy)).outcomes, 0.0)


def test_the_example_of_the_paper_comes_out() -> None:
    """Section 4.1: 9 CPUs, 18 GB; A's tasks take (1 CPU, 4 GB), B's (3 CPUs, 1 GB): 3 of A's, 2 of B's."""
    cluster = Cluster((Node("node", gpus=18, cpus=9.0, memory_gb=18.0),))
    tasks_of_a = [job(n, 1.0, user="a", cpus=1.0, memory_gb=4.0) for n in range(6)]
    tasks_of_b = [job(n, 1.0, user="b", cpus=3.0, memory_gb=1.0) for n in range(6, 12)]
    served = shares("drf", cluster, *tasks_of_a, *tasks_of_b)
    assert sum(number < 6 for number in served) == 3
    assert sum(number >= 6 for number in served) == 2


def test_users_share_equally_however_many_jobs_they_have() -> None:
    jobs = [job(0, 8.0, user="ada", most=8.0), *(job(n, 1.0, user="bo") for n in range(1, 9))]
    served = shares("drf", parse_cluster("1x8"), *jobs)
    assert served[0] == 4.0
    assert shares("drf:by=job", parse_cluster("1x9"), *jobs) == dict.fromkeys(range(9), 1.0)


def test_the_weight_of_a_user_counts() -> None:
    jobs = [job(0, 8.0, user="ada", most=8.0, weight=3.0), job(1, 8.0, user="bo", most=8.0)]
    assert shares("drf", parse_cluster("1x8"), *jobs) == {0: 6.0, 1: 2.0}


def test_a_job_that_declares_more_cpus_than_there_are_takes_all() -> None:
    cluster = Cluster((Node("node", gpus=2, cpus=4.0),))
    assert shares("drf", cluster, job(0, 1.0, cpus=64.0), job(1, 1.0, cpus=1.0)) == {0: 1.0}


def test_weighted_max_min_shares_by_weight() -> None:
    jobs = [job(0, 8.0, most=8.0, weight=1.0), job(1, 8.0, most=8.0, weight=3.0)]
    assert shares("max-min:weighted=true", parse_cluster("1x8"), *jobs) == {0: 2.0, 1: 6.0}
    assert shares("max-min", parse_cluster("1x8"), *jobs) == {0: 4.0, 1: 4.0}


def test_where_there_are_too_many_the_heaviest_go_first() -> None:
    jobs = [job(n, 1.0, weight=weight) for n, weight in enumerate([1.0, 2.0, 3.0])]
    assert shares("max-min:weighted=true", parse_cluster("1x2"), *jobs) == {1: 1.0, 2: 1.0}
