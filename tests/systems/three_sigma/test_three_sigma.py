"""3Sigma: who is preempted, what waits for whom, and what it learns of wrong estimates."""

import builtins
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from volvelle.core.policy import policies
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, Reward
from volvelle.systems.three_sigma.deciding import mean_of
from volvelle.systems.three_sigma.past import begin, learn, past_of
from volvelle.systems.three_sigma.policy import ThreeSigma
from volvelle.testing.scenario import Run, Scenario, happen, linear_job

POLICY = "3sigma:round=10,ahead=1000,slots=10"


def due(job: Job, seconds: float, value: float = 100.0) -> Job:
    return having(job, rewards=(Reward(seconds, value),))


def having(job: Job, **changed: object) -> Job:
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, **changed))


def run(jobs: Sequence[Job], gpus: int = 1, estimator: str = "oracle") -> Run:
    return happen(Scenario.of(parse_cluster(f"1x{gpus}"), jobs, policy=POLICY, estimator=estimator))


def test_jobs_with_deadlines_preempt_best_effort_and_not_each_other() -> None:
    """A job that has to start at 200 s at the latest preempts best effort; the next waits for it."""
    jobs = [
        linear_job(0, 0.0, 1.0, 500.0),
        due(linear_job(1, 100.0, 1.0, 300.0), 320.0),
        due(linear_job(2, 150.0, 1.0, 100.0), 900.0, value=1000.0),
    ]
    outcomes = run(jobs).outcomes
    assert outcomes.preemptions.tolist() == [1, 0, 0]
    assert outcomes.first_start.tolist()[1:] == [100.0, 400.0]


def test_a_job_with_time_to_spare_lets_best_effort_go_on() -> None:
    jobs = [linear_job(0, 0.0, 1.0, 250.0), due(linear_job(1, 0.0, 1.0, 100.0), 900.0, value=0.1)]
    outcomes = run(jobs).outcomes
    assert outcomes.finish.tolist() == [250.0, 350.0]


def test_of_two_that_cannot_both_be_kept_the_more_valuable_is() -> None:
    jobs = [
        due(linear_job(0, 0.0, 1.0, 400.0), 450.0, value=20.0),
        due(linear_job(1, 0.0, 1.0, 400.0), 450.0, value=80.0),
    ]
    assert run(jobs).outcomes.finish.tolist() == [800.0, 400.0]


def test_a_deadline_out_of_reach_is_best_effort() -> None:
    """The other one lets it run until a slot (100 s) later would be too late, and preempts it then."""
    jobs = [due(linear_job(0, 0.0, 1.0, 400.0), 100.0), due(linear_job(1, 5.0, 1.0, 50.0), 200.0)]
    outcomes = run(jobs).outcomes
    assert outcomes.finish.tolist() == [450.0, 110.0]


def test_run_times_are_believed_as_those_before_turned_out() -> None:
    """Twenty jobs took twice what was declared: one that would end in time by its user is hopeless.

    Who does not know that starts it. At its declared end it is taken to run as long again, which is too long.
    """
    past = [
        having(linear_job(n, 0.0, 1.0, 20.0), estimate_seconds=10.0, id=f"past-{n}")
        for n in range(20)
    ]
    tight = having(due(linear_job(20, 1000.0, 1.0, 200.0), 150.0), estimate_seconds=100.0)
    wide = having(due(linear_job(21, 1000.0, 1.0, 100.0), 160.0, 1.0), estimate_seconds=50.0)
    knows, not_yet = (
        happen(
            Scenario.of(
                parse_cluster("1x1"), [*before, tight, wide], policy=POLICY, estimator="declared"
            )
        ).outcomes
        for before in (past, past[:19])
    )
    assert knows.first_start.tolist()[-2:] == [1100.0, 1000.0]
    assert not_yet.first_start.tolist()[-2:] == [1000.0, 1100.0]


def test_without_the_solver_the_one_that_has_to_start_first_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = builtins.__import__

    def missing(name: str, *rest: object, **named: object) -> object:
        if name == "highspy":
            raise ImportError(name)
        return kept(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", missing)
    jobs = [
        due(linear_job(0, 0.0, 1.0, 100.0), 900.0),
        due(linear_job(1, 0.0, 1.0, 100.0), 120.0),
        linear_job(2, 0.0, 1.0, 100.0),
    ]
    outcomes = run(jobs).outcomes
    assert outcomes.finish[1] == 100.0
    assert np.isfinite(outcomes.finish).all()


def test_a_program_says_how_far_from_the_best_its_rounding_is() -> None:
    jobs = [due(linear_job(n, 0.0, 1.0 + n % 2, 300.0), 700.0) for n in range(8)]
    policy = run(jobs, gpus=3).scheduler.composition.policy
    assert isinstance(policy, ThreeSigma)
    gaps = policy.solver_gaps
    assert gaps is not None
    assert gaps.solved > 0
    assert 0.0 <= gaps.worst < 1.0
    assert "3sigma" in policies.all()


def test_means_and_quantiles_are_those_of_numpy_to_the_last_digit() -> None:
    """Also where old factors are forgotten: after a thousand."""
    rng, memory = np.random.default_rng(0), begin(1.0, 1)
    values, factors = rng.lognormal(3.0, 2.0, (50, 10)), np.round(rng.lognormal(size=1100), 2)
    assert [mean_of(row) for row in values] == values.mean(axis=1).tolist()
    for at, factor in enumerate(factors.tolist(), 1):
        learn(memory, 2.0 * factor, 2.0, np.ones(2))
        if at in (20, 999, 1100):
            told = np.quantile(factors[max(at - 1000, 0) : at], (np.arange(10) + 0.5) / 10)
            assert past_of(memory).quantiles.tolist() == told.tolist()
