"""Policies that plan: when they are asked, and that what they planned is what happens."""

from typing import ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr

from volvelle.core.fork import Fork
from volvelle.core.policy import policies
from volvelle.core.view import View
from volvelle.model.arrays import FloatColumn
from volvelle.model.cluster import parse_cluster
from volvelle.plan.plan import Plan, Window
from volvelle.plan.policy import PlanPolicy
from volvelle.testing.scenario import Scenario, happen, linear_job


class Alternating(PlanPolicy):
    """All GPUs to one job after another, round by round; it notes when it is asked."""

    name: ClassVar[str] = "alternating"
    asked: ClassVar[list[float]] = []
    _plans: int = PrivateAttr(default=0)

    def plan(self, view: View, window: Window) -> Plan:
        self.asked.append(view.now)
        self._plans += 1
        jobs = len(view.jobs)
        turn = np.arange(window.slots) % jobs == np.arange(jobs)[:, None]
        return Plan(window, view.jobs.number, turn * view.jobs.gpus[:, None])


class WideAtNight(PlanPolicy):
    """Jobs of all four GPUs from 100 s on, before that only others."""

    name: ClassVar[str] = "wide-at-night"
    work_conserving: ClassVar[bool] = False

    def plan(self, view: View, window: Window) -> Plan:
        night = window.start + window.slot_seconds * np.arange(window.slots) >= 100.0
        wide = view.jobs.gpus == 4.0
        first = wide & (np.cumsum(wide) == 1)
        return Plan(window, view.jobs.number, np.outer(view.jobs.gpus * first, night))

    def spare_key(self, view: View) -> FloatColumn:
        return np.where(view.jobs.gpus == 4.0, np.inf, view.jobs.number)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    policies.all()
    for policy in (Alternating, WideAtNight):
        monkeypatch.setitem(policies._known, policy.name, policy)
    Alternating.asked.clear()


def scenario(*jobs: tuple[float, float, float], policy: str = "alternating:round=10") -> Scenario:
    """Jobs of (submit, gpus, seconds) on four GPUs."""
    made = [linear_job(n, *job) for n, job in enumerate(jobs)]
    return Scenario.of(parse_cluster("1x4"), made, policy=policy)


def test_jobs_hold_what_was_planned_round_by_round_and_plans_are_made_when_jobs_come_or_go() -> (
    None
):
    run = happen(scenario((0.0, 4.0, 30.0), (0.0, 4.0, 20.0), (35.0, 4.0, 10.0)))
    # 0 runs in 0-10, 20-30; 1 in 10-20 and 30-40, where it ends and 2 came: 0 again from 40 on
    assert run.outcomes.finish.tolist() == [50.0, 40.0, 60.0]
    assert run.outcomes.first_start.tolist() == [0.0, 10.0, 50.0]
    assert Alternating.asked == [0.0, 40.0, 50.0]


def test_a_plan_that_is_over_is_made_anew_and_rounds_that_stay_the_same_are_skipped() -> None:
    run = happen(scenario((0.0, 4.0, 100.0), policy="alternating:round=10,window=4"))
    assert Alternating.asked == [0.0, 40.0, 80.0]
    assert len(run.journal.entries) < 8


def test_gpus_that_the_plan_leaves_go_to_jobs_that_run_and_then_by_submission() -> None:
    run = happen(scenario((0.0, 2.0, 20.0), (0.0, 1.0, 40.0), (0.0, 4.0, 20.0)))
    # round 0: job 0 by plan, 1 beside it; round 1: job 1 by plan, 0 beside it
    assert run.outcomes.first_start.tolist()[:2] == [0.0, 0.0]
    assert run.outcomes.finish[0] == 20.0


def test_gpus_idle_where_no_key_of_a_job_says_that_it_may_have_them() -> None:
    jobs = (0.0, 4.0, 20.0), (0.0, 1.0, 5.0), (30.0, 4.0, 20.0), (90.0, 1.0, 50.0)
    run = happen(scenario(*jobs, policy="wide-at-night:round=10"))
    assert run.outcomes.first_start.tolist() == [100.0, 0.0, 120.0, 90.0]
    assert run.outcomes.finish[3] == 180.0  # preempted from 100 to 140


def test_a_fork_follows_the_plan_and_leaves_its_parent_s_alone() -> None:
    seen = []

    def look(world: object) -> None:
        policy = world.scheduler.composition.policy  # type: ignore[attr-defined]
        before = policy._plans
        seen.append(Fork(world.scheduler).until().finish)  # type: ignore[attr-defined]
        assert policy._plans == before

    run = happen(scenario((0.0, 4.0, 30.0), (0.0, 4.0, 20.0)), on_moment=look)
    for foreseen in seen:
        for number, finish in foreseen.items():
            assert finish == run.outcomes.finish[number]
