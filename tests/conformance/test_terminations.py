"""What every termination rule promises by being registered."""

from dataclasses import replace

import pytest
from audit import Audit
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KNOWN, Features, Scenario, happen, scenarios, state_of

from volvelle.core.fork import Fork
from volvelle.core.journal import read_journal, replay
from volvelle.core.parts import terminations
from volvelle.metrics.outcomes import JobStatus
from volvelle.simulate.world import World

LOSSES = Features(losses=True)
KNOWN_LOSSES = replace(KNOWN, losses=True)

every_termination = pytest.mark.parametrize(
    "termination", [*terminations.all(), "loss:threshold=0.1,every=5", "loss:threshold=3,every=1"]
)
policies = st.sampled_from(["fifo", "srtf", "las:round=30", "max-min", "easy"])


@every_termination
@settings(max_examples=40)
@given(scenario=scenarios(LOSSES), policy=policies)
def test_nothing_is_given_twice_and_all_jobs_end(
    termination: str, scenario: Scenario, policy: str
) -> None:
    scenario = scenario.under(policy, termination=termination)
    audit = Audit(scenario)
    run = happen(scenario, audit)
    audit.close(run.outcomes)


@every_termination
@settings(max_examples=10)
@given(scenario=scenarios(LOSSES), policy=policies)
def test_the_same_seed_leaves_the_same_journal_and_its_replay_the_same_state(
    termination: str,
    scenario: Scenario,
    policy: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    scenario = scenario.under(policy, termination=termination)
    run = happen(scenario)
    assert happen(scenario).journal_bytes == run.journal_bytes
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    run.journal.write(path)
    header, entries = read_journal(path)
    assert state_of(replay(header, entries)) == state_of(run.scheduler)


@every_termination
@settings(max_examples=20)
@given(scenario=scenarios(KNOWN_LOSSES), policy=policies)
def test_the_forecast_is_the_outcome_once_everybody_has_arrived(
    termination: str, scenario: Scenario, policy: str
) -> None:
    scenario = scenario.under(policy, termination=termination)
    forecasts: list[dict[int, float]] = []

    def look_ahead(world: World) -> None:
        if world.now >= scenario.last_arrival and world.settled:
            forecasts.append(Fork(world.scheduler).until().finish)

    outcomes = happen(scenario, on_moment=look_ahead).outcomes
    for foreseen in forecasts:
        for number, finish in foreseen.items():
            assert outcomes.finish[number] == pytest.approx(finish, rel=1e-9)


@every_termination
@settings(max_examples=20)
@given(scenario=scenarios(LOSSES))
def test_a_job_without_a_loss_runs_to_its_end(termination: str, scenario: Scenario) -> None:
    run = happen(scenario.under("fifo", termination=termination))
    for number, job in enumerate(scenario.jobs):
        if run.outcomes.status[number] == JobStatus.FINISHED and not job.truth.loss_curve:
            assert not run.outcomes.reason[number]
