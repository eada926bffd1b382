"""What every admission promises by being registered."""

from dataclasses import replace

import pytest
from audit import Audit
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EVERYTHING, Scenario, happen, scenarios, state_of

from volvelle.core.fork import Fork
from volvelle.core.journal import read_journal, replay
from volvelle.core.parts import admissions
from volvelle.simulate.world import World

DEADLINES = replace(EVERYTHING, deadlines=True)

every_admission = pytest.mark.parametrize(
    "admission", [*admissions.all(), "backlog:factor=0.5", "deadlines:margin=0.2,otherwise=reject"]
)
policies = st.sampled_from(["fifo", "srtf", "las:round=30", "max-min", "easy"])


@every_admission
@settings(max_examples=12)
@given(scenario=scenarios(DEADLINES), policy=policies)
def test_nothing_is_given_twice_and_nobody_waits_for_ever(
    admission: str, scenario: Scenario, policy: str
) -> None:
    scenario = scenario.under(policy, admission=admission)
    audit = Audit(scenario)
    run = happen(scenario, audit)
    audit.close(run.outcomes)
    assert run.world.in_system == 0


@every_admission
@settings(max_examples=12)
@given(scenario=scenarios(DEADLINES), policy=policies)
def test_machine_code_leaves_the_same_journal_and_its_replay_the_same_state(
    admission: str,
    scenario: Scenario,
    policy: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    scenario = scenario.under(policy, admission=admission)
    run = happen(scenario)
    assert happen(scenario, compiled=True).journal_bytes == run.journal_bytes
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    run.journal.write(path)
    header, entries = read_journal(path)
    assert state_of(replay(header, entries)) == state_of(run.scheduler)


@every_admission
@settings(max_examples=12)
@given(scenario=scenarios(DEADLINES), policy=policies)
def test_a_forecast_at_any_moment_leaves_the_scheduler_alone(
    admission: str, scenario: Scenario, policy: str
) -> None:
    scenario = scenario.under(policy, admission=admission)

    def look_ahead(world: World) -> None:
        before = state_of(world.scheduler), world.scheduler.promises.copy()
        Fork(world.scheduler).until()
        world.scheduler.ahead.until()
        assert (state_of(world.scheduler), world.scheduler.promises) == before

    happen(scenario, on_moment=look_ahead)
