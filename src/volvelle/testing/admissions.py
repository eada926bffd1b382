"""Promises of admissions."""

from dataclasses import replace

from hypothesis import strategies as st

from volvelle.core.fork import Fork
from volvelle.core.parts import Admission, admissions
from volvelle.simulate.world import World
from volvelle.testing.audit import audited
from volvelle.testing.journals import check_replay
from volvelle.testing.machine_code import check_machine_code, small_setting
from volvelle.testing.promises import Promises, on_random
from volvelle.testing.scenario import Scenario, happen, state_of
from volvelle.testing.strategies import EVERYTHING, scenarios

DRAWN = {
    "scenario": scenarios(replace(EVERYTHING, deadlines=True)),
    "policy": st.sampled_from(["fifo", "srtf", "las:round=30", "max-min", "easy"]),
}

admission_promises: Promises[Admission] = Promises(admissions.make)


@admission_promises.promise()
def nothing_is_given_twice_and_no_job_waits_for_ever(admission: str) -> None:
    """The audit of whole runs, after which no job is left."""

    def check(scenario: Scenario, policy: str) -> None:
        assert audited(scenario.under(policy, admission=admission)).world.in_system == 0

    on_random(12, check, **DRAWN)


@admission_promises.promise()
def machine_code_leaves_the_same_journal_and_its_replay_the_same_state(admission: str) -> None:
    """Runs, interpreted and compiled, and replays of their journals."""

    def check(scenario: Scenario, policy: str) -> None:
        scenario = scenario.under(policy, admission=admission)
        run = happen(scenario)
        assert happen(scenario, compiled=True).journal_bytes == run.journal_bytes
        check_replay(run)

    on_random(12, check, **DRAWN)


@admission_promises.promise()
def a_forecast_at_any_moment_leaves_the_scheduler_alone(admission: str) -> None:
    """Questions of an admission about the future change nothing."""

    def check(scenario: Scenario, policy: str) -> None:
        scenario = scenario.under(policy, admission=admission)

        def look_ahead(world: World) -> None:
            before = state_of(world.scheduler), world.scheduler.promises.copy()
            Fork(world.scheduler).until()
            world.scheduler.ahead.until()
            assert (state_of(world.scheduler), world.scheduler.promises) == before

        happen(scenario, on_moment=look_ahead)

    on_random(12, check, **DRAWN)


@admission_promises.promise()
def machine_code_predicts_and_measures_the_same(admission: str) -> None:
    """Predictions, the choices of a synthesizer and figures of a search, compiled and interpreted."""
    check_machine_code(small_setting(admission=admission), admission=admission)
