"""Promises of termination rules."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st

from volvelle.core.fork import Fork
from volvelle.core.parts import Termination, terminations
from volvelle.metrics.outcomes import JobStatus
from volvelle.simulate.world import World
from volvelle.testing.audit import audited
from volvelle.testing.journals import check_replay
from volvelle.testing.machine_code import check_machine_code, small_setting
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.scenario import Scenario, happen
from volvelle.testing.strategies import KNOWN, Features, scenarios

LOSSES = scenarios(Features(losses=True))
KNOWN_LOSSES = scenarios(replace(KNOWN, losses=True))
POLICIES = st.sampled_from(["fifo", "srtf", "las:round=30", "max-min", "easy"])

termination_promises: Promises[Termination] = Promises(terminations.make)


@termination_promises.promise()
def nothing_is_given_twice_and_all_jobs_end(termination: str) -> None:
    """The audit of whole runs."""

    def check(scenario: Scenario, policy: str) -> None:
        audited(scenario.under(policy, termination=termination))

    on_random(10, check, scenario=LOSSES, policy=POLICIES)


@termination_promises.promise()
def the_same_seed_leaves_the_same_journal_and_its_replay_the_same_state(termination: str) -> None:
    """Runs, repeated and replayed."""

    def check(scenario: Scenario, policy: str) -> None:
        scenario = scenario.under(policy, termination=termination)
        run = happen(scenario)
        assert happen(scenario).journal_bytes == run.journal_bytes
        check_replay(run)

    on_random(10, check, scenario=LOSSES, policy=POLICIES)


@termination_promises.promise()
def the_forecast_is_the_outcome_once_all_have_arrived(termination: str) -> None:
    """Forecasts know when a job will be ended."""

    def check(scenario: Scenario, policy: str) -> None:
        scenario = scenario.under(policy, termination=termination)
        forecasts: list[dict[int, float]] = []

        def look_ahead(world: World) -> None:
            if world.now >= scenario.last_arrival and world.settled:
                forecasts.append(Fork(world.scheduler).until().finish)

        outcomes = happen(scenario, on_moment=look_ahead).outcomes
        for foreseen in forecasts:
            for number, finish in foreseen.items():
                assert outcomes.finish[number] == pytest.approx(finish, rel=1e-9)

    on_random(6, check, scenario=KNOWN_LOSSES, policy=POLICIES)


@termination_promises.promise()
def a_job_without_a_loss_runs_to_its_end(termination: str) -> None:
    """A rule ends only jobs that report a loss."""

    def check(scenario: Scenario) -> None:
        run = happen(scenario.under("fifo", termination=termination))
        for number, job in enumerate(scenario.jobs):
            if run.outcomes.status[number] == JobStatus.FINISHED and not job.truth.loss_curve:
                assert not run.outcomes.reason[number]

    on_random(20, check, scenario=LOSSES)


@termination_promises.promise()
def machine_code_predicts_and_measures_the_same(termination: str) -> None:
    """Predictions, the choices of a synthesizer and figures of a search, compiled and interpreted."""
    check_machine_code(small_setting(termination=termination))
