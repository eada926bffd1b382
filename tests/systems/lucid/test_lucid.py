"""Lucid: which jobs share GPUs, how fast they are then, and when none do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.events import JobSubmitted
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import AnyThroughput, Linear, Table
from volvelle.simulate.run import simulate
from volvelle.systems.lucid.estimator import ProfiledSharing
from volvelle.testing.audit import audited
from volvelle.testing.scenario import Run, Scenario, linear_job


def job(
    number: int, seconds: float, beside: dict[str, float], gpus: float = 1.0, at: float = 0.0
) -> Job:
    """A job of so many seconds alone, called by its number, and its speed beside others."""
    spec = JobSpec(id=str(number), submit_time=at, gpus=gpus, name=str(number))
    rates: dict[str, AnyThroughput] = {other: Linear(rate) for other, rate in beside.items()}
    return Job(spec, Truth(work=seconds * gpus, beside=rates))


def scenario(*jobs: Job, cluster: str = "1x1", policy: str = "lucid") -> Scenario:
    return Scenario.of(parse_cluster(cluster), jobs, policy=policy)


def with_costs(one: Scenario, overheads: Overheads) -> Run:
    return audited(replace(one, setting=replace(one.setting, overheads=overheads)))


def test_a_partner_comes_and_goes_without_a_pause_of_the_other() -> None:
    """10 s alone, then both at 0.9 until the second has done its 45 s; a restore would take 1000 s."""
    one = scenario(job(0, 100.0, {"1": 0.9}), job(1, 45.0, {"0": 0.9}, at=10.0))
    run = with_costs(one, Overheads(restore=1000.0))
    assert run.outcomes.finish == pytest.approx([105.0, 60.0])
    assert run.outcomes.restarts.tolist() == [0, 0]
    assert run.outcomes.gpu_seconds == pytest.approx([80.0, 25.0])


def test_a_job_that_crashes_beside_another_loses_what_it_did_since_its_last_checkpoint() -> None:
    """A checkpoint at 60 s holds 10 + 0.9 x 50 s of work; the job crashes once, when it has done 60."""
    first = job(0, 100.0, {"1": 0.9})
    first = Job(first.spec, Truth(work=100.0, beside=first.truth.beside, failures=(60.0,)))
    one = scenario(first, job(1, 450.0, {"0": 0.9}, at=10.0), policy="lucid:longer=9")
    run = with_costs(one, Overheads(checkpoint_every=30.0))
    crash = 10.0 + 50.0 / 0.9
    again = crash + (100.0 - 55.0) / 0.9
    assert run.outcomes.finish[0] == pytest.approx(again)
    assert run.outcomes.lost_gpu_seconds[0] == pytest.approx(0.5 * (crash - 60.0))


@pytest.mark.parametrize(
    ("beside", "seconds", "gpus", "policy", "share"),
    [
        ((0.96, 0.5), 100.0, 1.0, "lucid", True),  # tiny and jumbo
        ((0.9, 0.9), 100.0, 1.0, "lucid", True),  # medium both
        ((0.9, 0.8), 100.0, 1.0, "lucid", False),  # medium and jumbo
        ((0.9, 0.8), 100.0, 1.0, "lucid:capacity=3", True),
        ((0.9, 0.9), 100.0, 1.0, "lucid:capacity=1", False),
        ((0.9, 0.9), 210.0, 1.0, "lucid", False),  # more than twice as long as the other
        ((0.9, 0.9), 210.0, 1.0, "lucid:longer=3", True),
        ((0.9, 0.9), 100.0, 2.0, "lucid", False),  # not as many GPUs
        ((0.9, 0.0), 100.0, 1.0, "lucid", False),  # not enough memory
        ((0.9, 0.9), 100.0, 1.0, "lucid:widest=0.5", False),
        ((0.9, 0.9), 100.0, 1.0, "lucid:busy=2", False),  # few jobs come
    ],
)
def test_two_jobs_share_gpus_by_their_scores(
    beside: tuple[float, float], seconds: float, gpus: float, policy: str, share: bool
) -> None:
    one, other = beside
    jobs = [job(0, 100.0, {"1": one}), job(1, seconds, {"0": other}, gpus=gpus, at=1.0)]
    outcomes = audited(scenario(*jobs, cluster="1x2", policy=policy)).outcomes
    shared = outcomes.gpu_seconds < outcomes.run_seconds * [1.0, gpus] - 1.0
    assert shared.tolist() == [share, share]


def test_where_few_jobs_come_none_passes_the_first_that_does_not_fit() -> None:
    jobs = [job(0, 100.0, {}), job(1, 100.0, {}, gpus=2.0), job(2, 300.0, {})]
    quiet = audited(scenario(*jobs, cluster="1x2", policy="lucid:busy=2")).outcomes
    assert quiet.first_start.tolist() == [0.0, 100.0, 200.0]
    crowded = audited(scenario(*jobs, cluster="1x2")).outcomes
    assert crowded.first_start.tolist() == [0.0, 300.0, 0.0]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_no_gpu_has_more_than_two_and_every_job_runs_at_the_rates_of_the_table(seed: int) -> None:
    """The audit reckons each job's work anew from who shared its GPUs when; nobody is stopped."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    names = [str(n) for n in range(count)]
    jobs = [
        job(
            n,
            float(rng.integers(50, 900)),
            {name: float(rng.choice([0.0, 0.6, 0.9, 0.97])) for name in names},
            gpus=float(rng.choice([1, 2, 4])),
            at=float(at),
        )
        for n, at in enumerate(np.sort(rng.choice([0, 0, 100, 130, 300], count)))
    ]
    costs = Overheads(start=7.0, restore=50.0, checkpoint=5.0)
    run = with_costs(scenario(*jobs, cluster="1x4"), costs)
    partner: dict[int, int] = {}
    for entry in run.journal.entries:
        decision = entry.decision
        partners = decision.partner if len(decision.partner) else np.full(len(decision.job), -1)
        for number, other in zip(decision.job.tolist(), partners.tolist(), strict=True):
            partner[number] = other
            assert other < 0 or jobs[number].spec.gpus == jobs[other].spec.gpus
    assert run.outcomes.preemptions.sum() == 0


def test_work_is_what_the_past_expects_at_the_rates_of_a_profile() -> None:
    """Two steps a second on one GPU of either type, and half as fast beside another job."""
    estimator, past = ProfiledSharing(), JobSpec(id="a", submit_time=0.0, name="x")
    estimator.learn(past, 300.0)
    truth = Truth(work=50.0, throughput=Table((2.0, 3.0)), beside={"y": Table((1.0, 1.5))})
    believed = estimator.believe(JobSubmitted(0.0, 1, past, truth), seed=0).truth
    assert believed.work == pytest.approx(600.0)
    assert believed.throughput == truth.throughput
    assert believed.beside == truth.beside


def test_a_workload_without_interference_is_refused() -> None:
    one = scenario(linear_job(0, 0.0, 1.0, 10.0))
    with pytest.raises(Problem, match="of no job is it believed how fast it is beside others"):
        simulate(one.workload, one.setting)
