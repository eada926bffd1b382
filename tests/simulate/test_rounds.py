"""Policies that decide in rounds: only at multiples, and rounds without news are skipped exactly."""

import math

import pytest
from hypothesis import given, settings

from volvelle.core.scheduler import Scheduler
from volvelle.model.cluster import parse_cluster
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import EVERYTHING, Features, scenarios

GANG_ROUNDS = ["las:round=30", "las:round=25,service=seconds", "srtf:round=20", "easy:round=30"]
ROUNDS = [*GANG_ROUNDS, "fifo:round=30", "fifo-skip:round=7.5", "max-min:round=30"]


class EveryRound(Scheduler):
    """A scheduler that asks its policy at every single round."""

    @property
    def period(self) -> float:
        period = self.composition.policy.round
        assert period is not None
        return period

    def _due(self) -> bool:
        return self.now % self.period == 0

    def wake_at(self) -> float | None:
        return (math.floor(self.now / self.period) + 1) * self.period


def decisions_of(run: Run) -> list[tuple[float, list[int], list[float], list[int]]]:
    return [
        (
            entry.time,
            entry.decision.job.tolist(),
            entry.decision.gpus.tolist(),
            entry.decision.slots.tolist(),
        )
        for entry in run.journal.entries
        if len(entry.decision.job)
    ]


@pytest.mark.parametrize("policy", ROUNDS)
@settings(max_examples=15)
@given(scenarios(EVERYTHING))
def test_gpus_change_hands_only_at_multiples_of_the_round(policy: str, scenario: Scenario) -> None:
    run = happen(scenario.under(policy))
    period = run.scheduler.composition.policy.round
    assert period is not None
    for time, *_ in decisions_of(run):
        assert time % period == 0


@pytest.mark.parametrize("policy", GANG_ROUNDS)
@settings(max_examples=25)
@given(scenarios(Features(elastic=False, nodes=False)))
def test_rounds_in_which_nothing_is_new_are_skipped_exactly(
    policy: str, scenario: Scenario
) -> None:
    scenario = scenario.under(policy)
    header = scenario.setting.header
    asked = EveryRound(
        header.cluster, header.composition.build(), overheads=scenario.setting.overheads
    )
    skipping = happen(scenario)
    assert decisions_of(skipping) == decisions_of(happen(scenario, scheduler=asked))


def test_a_quiet_hour_of_one_second_rounds_takes_a_handful_of_moments() -> None:
    jobs = [linear_job(n, 0.5, 1.0, 3600.0) for n in range(4)]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy="las:round=1"))
    assert run.outcomes.finish.tolist() == [3601.0] * 4
    assert run.world.moments == 3


def test_two_jobs_take_turns_under_least_attained_service() -> None:
    """One GPU, rounds of 10 s: ties go to the first; each round serves whoever had less."""
    jobs = [linear_job(0, 0.0, 1.0, 20.0), linear_job(1, 0.0, 1.0, 20.0)]
    run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy="las:round=10"))
    assert run.outcomes.segments.job.tolist() == [0, 1, 0, 1]
    assert run.outcomes.segments.start.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert run.outcomes.finish.tolist() == [30.0, 40.0]


def test_an_elastic_job_that_could_use_more_is_thought_of_every_round() -> None:
    """Nobody waits, but who attained less is due the larger share: it changes sides every round."""
    jobs = [linear_job(n, 0.0, 4.0, 200.0, min_gpus=1.0, max_gpus=4.0) for n in range(2)]
    scenario = Scenario.of(parse_cluster("1x6"), jobs, policy="las:round=30")
    header = scenario.setting.header
    asked = EveryRound(header.cluster, header.composition.build())
    run = happen(scenario)
    assert decisions_of(run) == decisions_of(happen(scenario, scheduler=asked))
    assert len({tuple(gpus) for _, _, gpus, *_ in decisions_of(run)}) > 1
