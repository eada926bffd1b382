"""Users who submit again: when, under every kind of part; journals are replayed, forecasts see nobody."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from systems_here import needs

from volvelle.core.composition import WrittenComposition
from volvelle.core.fork import Fork
from volvelle.core.journal import Journal, replay
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, Simulation, simulate
from volvelle.testing.scenario import Scenario, state_of
from volvelle.testing.strategies import KNOWN, scenarios
from volvelle.workload.habits import Habits
from volvelle.workload.workload import Workload

THINKS = Habits(batch_gap=10.0, think=(20.0,))


def job(name: str, submit: float, seconds: float, user: str) -> Job:
    return Job(JobSpec(id=name, submit_time=submit, gpus=1.0, user=user), Truth(work=seconds))


def two_users() -> Workload:
    """Ada's second batch follows her first, which ends when both its jobs have; Bob has one batch."""
    return Workload(
        [
            job("ada-1", 0.0, 100.0, "ada"),
            job("ada-2", 5.0, 30.0, "ada"),
            job("bob-1", 6.0, 50.0, "bob"),
            job("ada-3", 400.0, 10.0, "ada"),
        ]
    )


def setting(policy: str, gpus: int) -> Setting:
    composition = WrittenComposition(policy, "none", "accept-all", "oracle", "completion")
    return Setting(cluster=parse_cluster(f"1x{gpus}"), composition=composition, users=THINKS)


def run(workload: Workload, policy: str, gpus: int) -> Simulation:
    return simulate(workload, setting(policy, gpus))


def journal_of(simulation: Simulation) -> Journal:
    assert simulation.journal is not None
    return simulation.journal


def submitted(simulation: Simulation) -> dict[str, float]:
    specs = simulation.outcomes.specs
    return {spec.id: spec.submit_time for spec in specs}


@pytest.mark.parametrize(
    ("policy", "gpus", "expected"),
    [
        ("fifo:preemptive=false", 3, 120.0),  # all at once: the batch ends at 100
        ("fifo:preemptive=false", 1, 150.0),  # ada-1 until 100, ada-2 until 130
        ("srtf:preemptive=false", 2, 120.0),
    ],
)
def test_a_batch_comes_when_the_one_before_is_through_and_its_user_has_thought(
    policy: str, gpus: int, expected: float
) -> None:
    found = run(two_users(), policy, gpus)
    assert submitted(found) == {"ada-1": 0.0, "ada-2": 5.0, "bob-1": 6.0, "ada-3": expected}
    assert np.isfinite(found.outcomes.finish).all()


def test_numbers_are_in_order_of_submission_whatever_was_decided_first() -> None:
    """Bob thinks about a long job's successor before Ada's short one ends, and comes after it."""
    workload = Workload(
        [
            job("ada-1", 0.0, 30.0, "ada"),
            job("bob-1", 1.0, 10.0, "bob"),
            job("late", 39.0, 5.0, "eve"),
            job("ada-2", 100.0, 7.0, "ada"),
            job("bob-2", 101.0, 7.0, "bob"),
        ]
    )
    found = run(workload, "fifo", 8)
    assert [spec.id for spec in found.outcomes.specs] == [
        "ada-1",
        "bob-1",
        "bob-2",
        "late",
        "ada-2",
    ]
    assert submitted(found)["bob-2"] == 31.0
    assert submitted(found)["ada-2"] == 50.0
    assert found.outcomes.finish.tolist() == [30.0, 11.0, 38.0, 44.0, 57.0]


@needs("themis")
@needs("anticipatory")
@settings(max_examples=30, deadline=None)
@given(
    scenarios(KNOWN),
    st.sampled_from(["fifo", "srtf", "las", "easy", "themis", "anticipatory-vc", "mmfs"]),
    st.sampled_from(["oracle", "noisy", "history"]),
    st.sampled_from([0.0, 3.0, 40.0]),
)
def test_everybody_comes_once_and_journals_are_the_same_and_replayed(
    scenario: Scenario, policy: str, estimator: str, think: float
) -> None:
    scenario = scenario.under(policy, estimator=estimator)
    habits = Habits(batch_gap=5.0, follows=0.8, think=(0.0, think))
    closed = replace(scenario.setting, users=habits)
    one, same, machine = (
        simulate(scenario.workload, closed, journal=True, compiled=compiled)
        for compiled in (False, False, True)
    )
    entries = journal_of(one).entries
    assert journal_of(same).entries == entries
    assert journal_of(machine).entries == entries
    ids = [spec.id for spec in one.outcomes.specs]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {job.spec.id for job in scenario.jobs}
    assert (np.diff([spec.submit_time for spec in one.outcomes.specs]) >= 0.0).all()
    assert state_of(replay(closed.header, entries)) == state_of(one.scheduler)


def test_a_forecast_does_not_see_what_users_will_do() -> None:
    """At each moment of the run the forecast knows those who were submitted, and nobody else."""
    journal = journal_of(simulate(two_users(), setting("fifo", 1), journal=True))
    expected = [{0}, {0, 1}, {0, 1, 2}, {1, 2}, {2}, {2, 3}]
    seen = []
    for upto in range(1, len(journal.entries) + 1):
        seen.append(set(Fork(replay(journal.header, journal.entries[:upto])).until().finish))
    assert seen[: len(expected)] == expected


def test_what_goes_by_numbers_of_jobs_that_are_not_known_is_refused() -> None:
    plain = setting("fifo", 1)
    for refused in (replace(plain, tracked=(0, 1)), replace(plain, predict=True)):
        with pytest.raises(Problem, match="do not go with"):
            simulate(two_users(), refused)


def test_a_job_that_is_turned_away_is_through_too() -> None:
    jobs = list(two_users().jobs)
    wide = msgspec.structs.replace(jobs[1].spec, gpus=9.0)
    jobs[1] = Job(wide, jobs[1].truth)
    found = run(Workload(jobs), "fifo", 3)
    assert submitted(found)["ada-3"] == 120.0
