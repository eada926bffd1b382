"""Promises of Chronus: kept, revoked with their reasons, and the reservations that they rest on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from chronus_cases import LEASES, ROUNDING, STEADY, due, lasts, promises, remembering
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.compiled import compiled
from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import Promise
from volvelle.core.events import JobFinished, JobStarted, JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.journal import Header, replay
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot, read_snapshot
from volvelle.core.view import View
from volvelle.metrics.promises import broken, promised
from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, parse_cluster
from volvelle.model.job import JobSpec, Reward
from volvelle.model.overheads import Overheads
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.systems.chronus.memory import (
    FINISH_BY,
    SLOT,
    WIDTH,
    free_of,
    held_of,
    is_short,
    rows_of,
    with_room,
)
from volvelle.systems.chronus.reservations import (
    earliest_finish,
    forget_passed,
    leave,
    reserve,
    reserve_late,
    share,
    take_row,
)
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import scenarios


@pytest.mark.parametrize("policy", LEASES)
@settings(max_examples=40)
@given(scenario=scenarios(STEADY))
def test_with_true_estimates_every_promise_is_kept(policy: str, scenario: Scenario) -> None:
    assert_kept(happen(scenario.under(policy)))


def assert_kept(run: Run) -> None:
    """No guarantee of the run was broken or revoked."""
    made = {one.number: one.finish_by for _, one in promises(run) if one.finish_by is not None}
    last = lasts(run)
    for number, finish_by in made.items():
        assert last[number].finish_by == finish_by
        assert run.outcomes.finish[number] <= finish_by + ROUNDING


@pytest.mark.parametrize("policy", LEASES)
@pytest.mark.parametrize("cluster", ["1x4", "1x4:a100,1x2:v100"])
def test_promises_are_kept_in_a_crowd_of_jobs_that_lose_their_work_when_stopped(
    policy: str, cluster: str
) -> None:
    stops = 0
    for seed in range(8):
        draw = np.random.default_rng(seed)
        jobs, time = [], 0.0
        for number in range(14):
            time += float(draw.choice([0.0, 1.0, 7.0, 15.0, 40.0]))
            seconds = float(draw.choice([3.0, 8.0, 20.0, 45.0, 90.0, 150.0]))
            job = linear_job(number, time, float(draw.choice([1.0, 2.0, 4.0, 4.0])), seconds)
            if draw.random() < 0.6:
                job = due(
                    job, (seconds * draw.choice([1.3, 2.0, 5.0]) + draw.choice([10.0, 200.0]), 1.0)
                )
            spec = msgspec.structs.replace(job.spec, starts_over=bool(draw.random() < 0.8))
            jobs.append(msgspec.structs.replace(job, spec=spec))
        run = happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy))
        assert_kept(run)
        stops += int(run.outcomes.preemptions.sum())
    assert stops


def on_generated_jobs(load: float, estimator: str) -> tuple[int, int]:
    """Promises made and broken."""
    source = f"lognormal:jobs=300,load={load},strict_share=0.4,soft_share=0.4"
    workload = generated(source, 5, 32).workload
    costs = Overheads(start=30.0, restore=30.0, checkpoint=20.0)
    composition = WrittenComposition("chronus", "none", "accept-all", estimator, "completion")
    setting = Setting(cluster=parse_cluster("4x8"), composition=composition, overheads=costs)
    outcomes = simulate(workload, setting).outcomes
    return int(np.nansum(promised(outcomes))), int(np.nansum(broken(outcomes)))


@pytest.mark.parametrize("load", [0.8, 1.2, 1.6])
def test_no_promise_is_broken_on_a_generated_workload(load: float) -> None:
    made, broken_ones = on_generated_jobs(load, "oracle")
    assert made > 100
    assert broken_ones == 0


@pytest.mark.parametrize("error", [0.1, 0.2, 0.4])
def test_with_wrong_estimates_few_promises_are_broken(error: float) -> None:
    made, broken_ones = on_generated_jobs(1.2, f"noisy:error={error}")
    assert made > 100
    assert broken_ones <= 0.03 * made  # what a chosen share of 0.01 comes to with so few


@pytest.mark.parametrize("policy", LEASES[:2])
@settings(max_examples=50)
@given(scenario=scenarios(replace(STEADY, failures=True, nodes=True, slots=True)))
def test_a_promise_that_is_not_kept_is_revoked_with_its_reason(
    policy: str, scenario: Scenario
) -> None:
    run = happen(scenario.under(policy, estimator="noisy:error=0.6"))
    for number, one in lasts(run).items():
        if one.finish_by is None:
            assert one.reason
        elif not np.isnan(run.outcomes.finish[number]):
            assert run.outcomes.finish[number] <= one.finish_by + ROUNDING


def test_a_later_finish_can_be_accepted_and_is_kept() -> None:
    first = due(linear_job(0, 0.0, 4.0, 100.0), (100.0, 10.0))
    late = due(linear_job(1, 0.0, 4.0, 50.0), (60.0, 10.0), accept_later=True)
    rivals = [linear_job(n, 10.0, 4.0, 40.0) for n in (2, 3)]
    run = happen(
        Scenario.of(parse_cluster("1x4"), [first, late, *rivals], policy="chronus:lease=40")
    )
    finish_by = lasts(run)[1].finish_by
    assert finish_by == pytest.approx(157.5)
    assert run.outcomes.finish[1] <= finish_by


def test_a_promise_is_revoked_when_the_gpus_for_it_are_lost() -> None:
    lost = NodeChange(20.0, "b", NodeState.DOWN)
    back = NodeChange(5000.0, "b", NodeState.UP)
    cluster = Cluster((Node("a", 4), Node("b", 4)), changes=(lost, back))
    job = due(linear_job(0, 0.0, 8.0, 100.0), (300.0, 10.0))
    scenario = Scenario.of(cluster, [job], policy="chronus:lease=40", placement="first-free")
    told = promises(happen(scenario))
    assert told[0] == (0.0, Promise(0, 300.0, 0))
    assert told[-1][1].finish_by is None
    assert told[-1][1].reason
    assert told[-1][0] <= 300.0 + ROUNDING


def test_promises_are_kept_over_a_restart(tmp_path: Path) -> None:
    """Also by a version whose policy has more columns of its own than the snapshot's."""
    jobs = [
        due(linear_job(0, 0.0, 4.0, 100.0), (200.0, 10.0)),
        due(linear_job(1, 0.0, 4.0, 60.0), (190.0, 10.0)),
        *[linear_job(n, 1.0, 4.0, 30.0) for n in (2, 3, 4)],
    ]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="chronus:lease=40")
    journal = happen(scenario).journal
    taken = Snapshot.of(replay(journal.header, journal.entries[:1]), "0")
    jobs_now = taken.tables["jobs"]
    fewer = msgspec.structs.replace(
        jobs_now, more=jobs_now.more - 1, floats=jobs_now.floats[: -8 * jobs_now.used]
    )
    older = msgspec.structs.replace(taken, tables={**taken.tables, "jobs": fewer})
    for one_taken in (taken, older):
        path = tmp_path / "snapshot.json"
        path.write_bytes(one_taken.encode())
        scheduler = read_snapshot(path).scheduler()
        before = dict(scheduler.promises)
        assert before[0].finish_by == 200.0
        finishes = scheduler.ahead.until().finish
        for number, one in before.items():
            assert one.finish_by is not None
            assert finishes[number] <= one.finish_by + ROUNDING


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 4), min_size=6, max_size=12),
    st.integers(1, 3),
    st.floats(1.0, 60.0),
    st.floats(0.0, 8.0),
    st.floats(15.0, 120.0),
    st.booleans(),
    st.booleans(),
)
def test_compiled_loops_agree_with_their_twins_and_what_is_reserved_is_enough(
    free: list[int],
    gpus: int,
    need: float,
    gap: float,
    finish_by: float,
    goes_on: bool,
    one_run: bool,
) -> None:
    tables = [np.array(free, dtype=np.float64) for _ in range(2)]
    held = [np.zeros(len(free)) for _ in range(2)]
    finish_by = min(finish_by, 10.0 * len(free))
    reserving: list[Callable[..., bool]] = [compiled(reserve_late), reserve_late]
    finding: list[Callable[..., float]] = [compiled(earliest_finish), earliest_finish]
    first_gap = gap * (not goes_on)
    asked = 0, 10.0, 0.0, 0, finish_by, float(gpus), need, gap, first_gap, one_run
    found = [
        loop(table, slots, *asked)
        for loop, table, slots in zip(reserving, tables, held, strict=True)
    ]
    assert found[0] == found[1]
    np.testing.assert_array_equal(held[0], held[1])
    np.testing.assert_array_equal(tables[0], np.array(free) - gpus * held[0])
    assert (tables[0] >= 0.0).all() or not held[0].any()
    earliest = [
        loop(np.array(free, dtype=np.float64), 0, 10.0, 0.0, 0, float(gpus), need, gap, one_run)
        for loop in finding
    ]
    assert earliest[0] == earliest[1]
    if found[0]:
        done, run = 0.0, 0.0
        for slot in [*np.flatnonzero(held[0]).tolist(), -1]:
            if run and not (slot > 0 and held[0][slot - 1]):
                done, run = done + run - gap, 0.0
            run += min(10.0 * (slot + 1), finish_by) - 10.0 * slot if slot >= 0 else 0.0
        assert done + gap * goes_on * held[0][0] >= need - 1e-6
        assert not one_run or (np.diff(np.flatnonzero(held[0])) == 1).all()
    if not goes_on:
        assert found[0] == (earliest[0] <= finish_by + 1e-6)


def test_each_run_of_a_reservation_costs_a_restart() -> None:
    """Two runs of 20 and 10 s with a gap of 5 s each do 20 s of work."""
    for need, slots in ((20.0, [0, 2, 3]), (21.0, [])):
        free, held = np.array([1.0, 0.0, 1.0, 1.0]), np.zeros(4)
        enough = reserve_late(free, held, 0, 10.0, 0.0, 0, 40.0, 1.0, need, 5.0, 5.0, False)
        assert (enough, np.flatnonzero(held).tolist()) == (bool(slots), slots)


@pytest.mark.parametrize(("yielding", "first"), [(3.0, 1), (1.0, 0), (0.3, 0)])
def test_promised_jobs_with_time_to_spare_yield(yielding: float, first: int) -> None:
    """Job 0 needs 50 s, which count as 150; job 1, without a promise, 100."""
    jobs = [due(linear_job(0, 0.0, 4.0, 50.0), (2000.0, 10.0)), linear_job(1, 0.0, 4.0, 100.0)]
    written = f"chronus:lease=40,yielding={yielding}"
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy=written))
    assert lasts(run)[0].finish_by == 2000.0
    assert run.outcomes.first_start.argmin() == first


class Word(Admission):
    """Guarantees every first deadline, whatever is reserved for others."""

    name: ClassVar[str] = "test-word"

    def judge(self, job: JobSubmitted, view: View, ahead: LookAhead) -> Verdict:
        finish_by = job.spec.submit_time + job.spec.rewards[0].deadline_seconds
        return Verdict(Fate.ADMIT, Promise(job.number, finish_by, 0))


def test_reservations_give_way_where_all_guarantees_have_room_together() -> None:
    """With half as much again for each, as a margin that has grown reserves, job 1 has no room beside 0."""
    jobs = [
        due(linear_job(0, 0.0, 1.0, 12.0), (18.0, 1.0)),
        due(linear_job(1, 3.0, 1.0, 5.0), (10.0, 1.0)),
    ]
    scenario = Scenario.of(parse_cluster("1x1"), jobs, policy="chronus:lease=4,margin=0.5")
    composition = msgspec.structs.replace(scenario.setting.composition, admission=Word.name)
    admissions.register(Word)
    try:
        run = happen(replace(scenario, setting=replace(scenario.setting, composition=composition)))
    finally:
        admissions.forget({__name__})
    assert (run.outcomes.finish <= [18.0, 13.0]).all()


def short_leases() -> Scheduler:
    """Four GPUs, slots of 2 s."""
    parts = WrittenComposition("chronus:lease=10,parts=5", "first-free", "accept-all", "declared")
    cluster = parse_cluster("1x4")
    return Header(volvelle="test", cluster=cluster, composition=parts).scheduler()


def come(
    scheduler: Scheduler, now: float, number: int, seconds: float, gpus: float, *steps: Reward
) -> None:
    spec = JobSpec(
        id=str(number), submit_time=now, gpus=gpus, estimate_seconds=seconds, rewards=steps
    )
    scheduler.handle(now, [JobSubmitted(now, number, spec)])


def begins(scheduler: Scheduler, number: int, slot: float) -> float:
    """The slot, from this one on, at which a job is given GPUs."""
    row = scheduler.row_of(number)
    assert row is not None
    while scheduler.state.jobs.held[row] == 0.0:
        scheduler.handle(slot, [])
        slot += 2.0
    return slot - 2.0


def test_a_start_that_takes_its_time_revokes_nothing_and_the_next_is_reserved_for() -> None:
    """Two jobs of 15 s are to start 0.166 s after their slots begin at the latest, and take 0.189 s to."""
    scheduler = short_leases()
    for number in range(4):
        come(scheduler, 0.0, number, 160.0, 1.0)
    for number, came, start in ((4, 7.166, 32.0), (5, 57.166, 80.0)):
        come(scheduler, came, number, 15.0, 4.0, Reward(40.0, 1.0))
        assert scheduler.promises[number].finish_by == came + 40.0
        assert begins(scheduler, number, came + 0.834) == start
        began = start + 0.189
        scheduler.handle(began, [JobStarted(began, number, 1, began)])
        for slot in np.arange(start + 2.0, start + 15.0, 2.0).tolist():
            scheduler.handle(slot, [])
            assert scheduler.promises[number].finish_by == came + 40.0
            assert scheduler.view().jobs.running[-1]
        scheduler.handle(began + 14.9, [JobFinished(began + 14.9, number, 1)])


@pytest.mark.parametrize(("late", "start"), [(0.0, 26.0), (0.189, 24.0)])
def test_a_late_start_is_reserved_for_before_its_lease_ends(late: float, start: float) -> None:
    scheduler = short_leases()
    for number in range(4):
        come(scheduler, 0.0, number, 160.0, 1.0)
    scheduler.handle(late, [JobStarted(late, number, 1, late) for number in range(4)])
    come(scheduler, 1.166, 4, 15.0, 4.0, Reward(40.0, 1.0))
    assert begins(scheduler, 4, 2.0) == start


def test_reservations_keep_their_slots_as_time_passes() -> None:
    memory = remembering(8.0, lease=10.0, parts=1)
    row = take_row(memory, 7.0, 4.0, -1.0)
    rows_of(memory)[FINISH_BY, row] = 4000.0
    assert is_short(memory, 0, 0, 4000.0)
    memory = with_room(memory)
    assert not is_short(memory, 0, 0, 4000.0)
    assert reserve(memory, row, 0, 35.0, 0.0, False)
    assert np.flatnonzero(held_of(memory)[row]).tolist() == [396, 397, 398, 399]
    memory[SLOT] = 300.0
    forget_passed(memory)
    assert np.flatnonzero(held_of(memory)[row]).tolist() == [96, 97, 98, 99]
    assert share(memory, 4000.0) == pytest.approx(4 * 4 / (8 * 100))
    leave(memory, row)
    assert (free_of(memory)[:, : int(memory[WIDTH])] == 8.0).all()
