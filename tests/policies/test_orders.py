"""The plain orders: ties that rounding errors must not decide."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems_here import of

from volvelle.core.orders import all_rounded, rounded
from volvelle.model.cluster import Cluster, Node, parse_cluster
from volvelle.model.sensitivity import Sensitivity
from volvelle.testing.scenario import Scenario, happen, linear_job

A_LITTLE_MORE = 0.1 + 0.2  # 0.30000000000000004


@pytest.mark.parametrize("policy", ["srtf", "srsf", "sjf", "srtf:round=0.1", of("afs", "afs-l")])
@pytest.mark.parametrize("compiled", [False, True])
def test_rounding_errors_of_what_is_left_decide_nothing(policy: str, compiled: bool) -> None:
    assert A_LITTLE_MORE > 0.3
    jobs = [linear_job(0, 0.0, 1.0, A_LITTLE_MORE), linear_job(1, 0.0, 1.0, 0.3)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy=policy)
    assert happen(scenario, compiled=compiled).outcomes.first_start[0] == 0.0


@pytest.mark.parametrize(("service", "again"), [("seconds", 20.0), ("gpu-seconds", 30.0)])
def test_service_counts_in_seconds_or_gpu_seconds(service: str, again: float) -> None:
    """Job 0 has two GPUs from 0 to 10, job 1 one from 10 on: until it has had as much."""
    jobs = [linear_job(0, 0.0, 2.0, 100.0), linear_job(1, 5.0, 1.0, 100.0)]
    policy = f"las:round=10,service={service}"
    segments = happen(Scenario.of(parse_cluster("1x2"), jobs, policy=policy)).outcomes.segments
    assert segments.start[segments.job == 0].tolist()[:2] == [0.0, again]


@given(st.floats(allow_nan=False))
def test_keys_are_equal_within_two_parts_in_ten_to_the_ten(key: float) -> None:
    assert rounded(key) == key or abs(rounded(key) - key) <= 2.0**-32 * abs(key)
    if abs(key) < 1e300:
        assert rounded(rounded(key)) == rounded(key)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_rounding_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert rounded(low) <= rounded(high)


@given(st.integers(-(2**32), 2**32))
def test_numbers_of_jobs_are_not_rounded(number: int) -> None:
    assert rounded(float(number)) == number


@given(st.lists(st.floats(allow_nan=False)))
def test_keys_are_rounded_together_as_one_by_one(keys: list[float]) -> None:
    assert all_rounded(np.array(keys)).tolist() == [rounded(key) for key in keys]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("policy", ["srtf", "sjf"])
def test_a_job_that_makes_no_progress_on_most_nodes_ends_on_the_others(
    policy: str, compiled: bool
) -> None:
    """Its believed rate is 0 on nodes that have less memory than it needs."""
    nodes = (
        Node("small", 1, cpus=2.0, memory_gb=20.0),
        Node("large", 1, cpus=2.0, memory_gb=30.0, labels=("fast",)),
    )
    hungry = Sensitivity((2.0, 4.0), (30.0, 40.0), ((0.5, 0.5), (0.5, 1.0)), "zero")
    job = linear_job(0, 0.0, 1.0, 10.0, exclusive=True)
    job = msgspec.structs.replace(job, truth=msgspec.structs.replace(job.truth, sensitivity=hungry))
    scenario = Scenario.of(Cluster(nodes), [job], policy=policy, placement="first-free")
    assert happen(scenario, compiled=compiled).outcomes.finish.tolist() == [20.0]
