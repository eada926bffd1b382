"""Chronus' guarantees on several GPU types, with pools, and for jobs that change their batch size."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.metrics.promises import broken, promised
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Regime, Reward, Truth
from volvelle.model.node import NodeChange, NodeState
from volvelle.model.overheads import Overheads
from volvelle.model.throughput import AnyThroughput, Linear, PerType
from volvelle.testing.scenario import Run, Scenario, happen, linear_job

LEASE = "chronus:lease=40"
SPEEDS = (0.5, 1.0, 1.5, 4.0)


def due(job: Job, *seconds: float) -> Job:
    """The same job with strict deadlines."""
    rewards = tuple(Reward(each, 100.0 - step) for step, each in enumerate(seconds))
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, rewards=rewards))


def true(job: Job, work: float, *, regimes: tuple[Regime, ...] = (), **rates: float) -> Job:
    """The same job with so much work, these rates per GPU by GPU type, and regimes."""
    linear: dict[str, AnyThroughput] = {kind: Linear(rate) for kind, rate in rates.items()}
    throughput = PerType(linear) if linear else Linear()
    return msgspec.structs.replace(
        job, truth=Truth(work=work, throughput=throughput, regimes=regimes)
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_a_lease_does_not_begin_before_there_is_a_job(compiled: bool) -> None:
    """A node changes first. The checkpoint of the first job is the longest in its lease, so it starts."""
    plain = linear_job(0, 20.0, 1.0, 10.0)
    spec = msgspec.structs.replace(plain.spec, checkpoint_seconds=5.0)
    job = msgspec.structs.replace(plain, spec=spec)
    cluster = msgspec.structs.replace(
        parse_cluster("1x1:a,1x1:b"), changes=(NodeChange(15.0, "b-0", NodeState.DOWN),)
    )
    run = happen(Scenario.of(cluster, [job], policy="chronus"), compiled=compiled)
    assert run.outcomes.first_start.tolist() == [20.0]


def kept(run: Run) -> int:
    """How many guarantees were made; none is broken."""
    assert np.nansum(broken(run.outcomes)) == 0.0
    return int(np.nansum(promised(run.outcomes)))


def only(job: Job, gpu_type: str) -> Job:
    """The same job, on one GPU type."""
    return msgspec.structs.replace(
        job, spec=msgspec.structs.replace(job.spec, gpu_types=(gpu_type,))
    )


def test_a_job_that_starts_early_on_a_slow_type_is_moved_in_time() -> None:
    """Nobody waits, so nobody but the reservation asks for the move."""
    late = true(due(linear_job(2, 1.0, 1.0, 0.0), 899.0), 900.0, a=1.0, b=1.5)
    jobs = [linear_job(0, 0.0, 1.0, 30.0), linear_job(1, 0.0, 1.0, 30.0), late]
    run = happen(Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, policy="chronus:lease=40"))
    assert run.outcomes.first_start[2] == 30.0
    assert kept(run) == 1
    assert run.outcomes.finish[2] <= 900.0


def test_a_reservation_counts_the_batch_sizes_that_are_still_to_come() -> None:
    """After 80 s the first job has 420 s left, not 300 s as by its mean rate: the last finds no room."""
    regimes = (Regime(0.0, 32, 1.0), Regime(100.0, 64, 0.25))
    changing = true(due(linear_job(0, 0.0, 1.0, 0.0), 665.0), 200.0, regimes=regimes)
    jobs = [
        changing,
        due(linear_job(1, 80.0, 1.0, 150.0), 155.0),
        due(linear_job(2, 90.0, 1.0, 100.0), 300.0),
    ]
    run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy="chronus:lease=40"))
    assert kept(run) == 2


def test_what_a_move_costs_is_not_taken_for_a_slow_pace() -> None:
    """The first job is moved at 70 s; by a pace of 10 / 6 it would lose its reservation at 80 s."""
    jobs = [
        due(linear_job(0, 0.0, 1.0, 100.0), 125.0),
        only(due(linear_job(1, 0.0, 1.0, 60.0), 70.0), "a"),
        only(due(linear_job(2, 70.0, 1.0, 5.0), 9.5), "b"),
        only(due(linear_job(3, 80.0, 1.0, 30.0), 34.5), "a"),
        only(due(linear_job(4, 80.0, 1.0, 30.0), 34.5), "b"),
    ]
    costs = Overheads(start=4.0, restore=4.0)
    scenario = Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, overheads=costs)
    assert kept(happen(scenario.under("chronus:lease=40"))) == 3


def test_a_start_that_is_given_up_is_not_added_to_the_work_that_is_left() -> None:
    """At 10 s the job still starts on a; on b it needs 10 s and 20 s then, by 42 s."""
    jobs = [
        only(linear_job(0, 0.0, 1.0, 50.0), "b"),
        true(due(linear_job(1, 5.0, 1.0, 0.0), 37.0), 40.0, a=0.5, b=2.0),
    ]
    costs = Overheads(start=10.0, restore=10.0)
    run = happen(Scenario.of(parse_cluster("1x1:a,1x1:b"), jobs, overheads=costs).under(LEASE))
    assert run.outcomes.first_start[1] == 5.0
    assert kept(run) == 1
    assert run.outcomes.finish[1] == 40.0


@st.composite
def several_types(draw: st.DrawFn) -> Scenario:
    """Up to twelve jobs on up to three GPU types, with speeds and batch sizes of their own."""
    kinds = ("a", "b", "c")[: draw(st.integers(1, 3))]
    cluster = parse_cluster(",".join(f"1x{draw(st.integers(1, 4))}:{kind}" for kind in kinds))
    jobs, submit = [], 0.0
    for number in range(draw(st.integers(2, 12))):
        submit += draw(st.sampled_from([0.0, 0.0, 1.0, 7.0, 20.0, 60.0]))
        gpus = draw(st.integers(1, min(node.gpus for node in cluster.nodes)))
        seconds = draw(st.sampled_from([7.0, 30.0, 60.0, 130.0, 400.0]))
        job = linear_job(number, submit, float(gpus), 0.0)
        if draw(st.integers(0, 3)):
            job = due(job, draw(st.sampled_from([1.3, 2.0, 4.0])) * seconds + 10.0)
        rates = {kind: draw(st.sampled_from(SPEEDS)) for kind in kinds}
        regimes: tuple[Regime, ...] = ()
        if draw(st.integers(0, 2)) == 0:
            speeds = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=3))
            regimes = tuple(
                Regime(step * gpus * seconds / 3.0, 32 << step, speed)
                for step, speed in enumerate(speeds)
            )
        jobs.append(true(job, gpus * seconds, regimes=regimes, **rates))
    costs = Overheads(start=draw(st.sampled_from([0.0, 2.0])), restore=2.0, checkpoint=1.0)
    return Scenario.of(cluster, jobs, overheads=costs)


@pytest.mark.parametrize("policy", ["chronus:lease=40", "chronus:lease=12,parts=3"])
@settings(max_examples=40)
@given(scenario=several_types())
def test_with_true_estimates_no_guarantee_is_broken_on_several_types(
    policy: str, scenario: Scenario
) -> None:
    kept(happen(scenario.under(policy)))
