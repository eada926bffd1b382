"""Orders of one's own: they see what users declared."""

import numpy as np
import pytest
from msgspec.structs import replace

from volvelle import policy
from volvelle.core.order_policy import kept_order
from volvelle.core.policy import policies
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Reward
from volvelle.testing.scenario import Scenario, happen, linear_job


@policy.order("test-user-then-deadline")
def user_then_deadline(jobs, now):  # type: ignore[no-untyped-def]
    """Those of user b first, then by queue, then by deadline."""
    assert jobs.user.shape == jobs.queue.shape == jobs.deadline.shape == (len(jobs),)
    return (
        np.where(jobs.user == "b", 0.0, 1e6)
        + np.where(jobs.queue == "x", 0.0, 1e5)
        + np.minimum(jobs.deadline, 1e4)
    )


def declared(number: int, user: str, queue: str, deadline: float | None) -> Job:
    """Ten seconds on one GPU, submitted at 0.001 s times its number."""
    job = linear_job(number, 0.001 * number, 1.0, 10.0)
    rewards = () if deadline is None else (Reward(deadline, 1.0),)
    return replace(job, spec=replace(job.spec, user=user, pool=queue, rewards=rewards))


@pytest.mark.parametrize("compiled", [False, True])
def test_an_order_sees_user_queue_and_deadline(compiled: bool) -> None:
    jobs = [
        declared(0, "c", "", None),  # runs first: nobody else is there
        declared(1, "a", "", None),
        declared(2, "a", "", 500.0),
        declared(3, "a", "x", None),
        declared(4, "b", "", None),
    ]
    written = "test-user-then-deadline:preemptive=false"
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy=written)
    first_start = happen(scenario, compiled=compiled).outcomes.first_start
    assert np.argsort(first_start).tolist() == [0, 4, 3, 2, 1]
    assert kept_order(policies.make(written)) is None, "it is asked for all jobs together"
    assert not policies.make(written).needs_durations


@policy.order("test-by-age")
def by_age(jobs, now, of_gpus=1.0):  # type: ignore[no-untyped-def]
    """A job that comes now has an age of 0."""
    return of_gpus * jobs.gpus / (now - jobs.submit_time)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_key_may_divide_by_zero(compiled: bool) -> None:
    jobs = [linear_job(number, float(number), 1.0, 10.0) for number in range(4)]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="test-by-age:preemptive=false")
    first_start = happen(scenario, compiled=compiled).outcomes.first_start
    assert np.argsort(first_start).tolist() == [0, 1, 2, 3]
    assert kept_order(policies.make("test-by-age:of_gpus=2")) is not None
