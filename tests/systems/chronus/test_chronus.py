"""Chronus: what is promised is kept, who goes first, what is refused and why, reservations' loops."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.compiled import compiled
from volvelle.core.composition import WrittenComposition
from volvelle.core.decision import Promise
from volvelle.core.events import JobFinished, JobStarted, JobSubmitted
from volvelle.core.forecast import LookAhead
from volvelle.core.journal import Header, replay
from volvelle.core.parts import Admission, Fate, Verdict, admissions
from volvelle.core.policy import policies
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot, read_snapshot
from volvelle.core.view import View
from volvelle.metrics.promises import broken, promised
from volvelle.model.arrays import Floats
from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, parse_cluster
from volvelle.model.job import Job, JobSpec, Reward
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.systems.chronus.memory import (
    FINISH_BY,
    NOW,
    SLOT,
    WIDTH,
    free_of,
    held_of,
    is_short,
    opened,
    rows_of,
    with_room,
)
from volvelle.systems.chronus.policy import Chronus
from volvelle.systems.chronus.recent import add_work, largest_within, rate_of_smaller, sum_of
from volvelle.systems.chronus.reservations import (
    earliest_finish,
    first_with_room,
    forget_passed,
    has_room,
    leave,
    reserve,
    reserve_late,
    share,
    take_row,
)
from volvelle.testing.scenario import Run, Scenario, happen, linear_job
from volvelle.testing.strategies import KNOWN, scenarios

STEADY = replace(KNOWN, regimes=False, sharing=False, amounts=False, slots=False, deadlines=True)
"""Jobs that go on as fast as they start, on GPUs that are counted, so that no placement refuses."""
ROUNDING = 2e-3
"""Seconds."""


def due(job: Job, *steps: tuple[float, float], accept_later: bool = False) -> Job:
    """The same job with rewards: (seconds, value)."""
    rewards = tuple(Reward(*step) for step in steps)
    spec = msgspec.structs.replace(job.spec, rewards=rewards, accept_later=accept_later)
    return msgspec.structs.replace(job, spec=spec)


def promises(run: Run) -> list[tuple[float, Promise]]:
    """All promises of a run, and when they were made."""
    return [(entry.time, one) for entry in run.journal.entries for one in entry.decision.promises]


def lasts(run: Run) -> dict[int, Promise]:
    """The last word to each job."""
    return {one.number: one for _, one in promises(run)}


LEASES = [
    "chronus",
    "chronus:lease=40",
    "chronus:lease=12,parts=3",
    "chronus:lease=50,parts=1",
]


@pytest.mark.parametrize("policy", LEASES)
@settings(max_examples=40)
@given(scenario=scenarios(STEADY))
def test_with_true_estimates_every_promise_is_kept(policy: str, scenario: Scenario) -> None:
    run = happen(scenario.under(policy))
    made = {one.number: one.finish_by for _, one in promises(run) if one.finish_by is not None}
    last = lasts(run)
    for number, finish_by in made.items():
        assert last[number].finish_by == finish_by
        assert run.outcomes.finish[number] <= finish_by + ROUNDING


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


@settings(max_examples=40)
@given(scenario=scenarios(replace(STEADY, failures=True)))
def test_machine_code_leads_to_the_same_journal(scenario: Scenario) -> None:
    scenario = scenario.under("chronus:lease=40", estimator="noisy:error=0.3")
    assert happen(scenario, compiled=True).journal_bytes == happen(scenario).journal_bytes


def test_a_job_is_answered_when_it_comes_and_promised_jobs_are_not_given_up() -> None:
    jobs = [
        due(linear_job(0, 3.0, 4.0, 100.0), (200.0, 10.0)),  # starts at once, on idle GPUs
        due(linear_job(1, 5.0, 4.0, 50.0), (45.0, 100.0), (200.0, 20.0)),  # only the second step
        due(linear_job(2, 7.0, 4.0, 60.0), (100.0, 10.0)),  # would need what is promised
        due(linear_job(3, 9.0, 8.0, 10.0), (500.0, 10.0)),  # wider than the cluster
        linear_job(4, 11.0, 1.0, 10.0),
    ]
    run = happen(Scenario.of(parse_cluster("1x4"), jobs, policy="chronus:lease=40"))
    told = promises(run)
    assert told[:2] == [(3.0, Promise(0, 203.0, 0)), (5.0, Promise(1, 205.0, 1))]
    at, refused = told[2]
    assert (at, refused.number, refused.finish_by) == (7.0, 2, None)
    assert refused.earliest is not None
    assert refused.reason.startswith("whole leases for its estimate, beside those of guarantees")
    assert run.outcomes.finish[0] <= 203.0
    assert run.outcomes.finish[1] <= 205.0


def test_the_last_idle_gpu_is_used_at_once_where_that_is_what_is_promised() -> None:
    others = [linear_job(n, 0.0, 1.0, 500.0) for n in range(3)]
    job = due(linear_job(3, 10.0, 1.0, 60.0), (65.0, 10.0))
    run = happen(Scenario.of(parse_cluster("1x4"), [*others, job], policy="chronus:lease=80"))
    assert lasts(run)[3].finish_by == 75.0
    assert run.outcomes.finish[3] == 70.0


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


def test_room_is_kept_for_smaller_jobs_that_will_come_again() -> None:
    small = [due(linear_job(n, 40.0 * n, 1.0, 300.0), (600.0, 10.0)) for n in range(120)]
    middling = due(linear_job(120, 4800.0, 8.0, 800.0), (900.0, 10.0))
    scenario = Scenario.of(parse_cluster("1x8"), [*small, middling], policy="chronus:lease=40")
    told = lasts(happen(scenario))
    assert all(told[n].finish_by is not None for n in range(5))
    assert told[120].finish_by is None
    assert told[120].earliest is None or told[120].earliest > 5700.0
    alone = happen(Scenario.of(parse_cluster("1x8"), [middling], policy="chronus:lease=40"))
    assert lasts(alone)[0].finish_by == 5700.0


def test_the_default_period_follows_what_arrives_and_misses_less_than_srsf() -> None:
    """Small jobs came in the morning: hours later no room is kept for them, or where a day's count it is."""
    small = [due(linear_job(n, 600.0 * n, 1.0, 500.0), (1e5, 10.0)) for n in range(10)]
    large = due(linear_job(10, 18000.0, 1.0, 9000.0), (9600.0, 10.0))
    more = [due(linear_job(n, 20000.0 + n, 1.0, 300.0), (1e5, 10.0)) for n in range(11, 15)]
    scenario = Scenario.of(parse_cluster("1x1"), [*small, large, *more])
    told = {
        period: next(
            one.finish_by
            for _, one in promises(happen(scenario.under(f"chronus{period}")))
            if one.number == 10
        )
        for period in ("", ":period=21600", ":period=86400")
    }
    assert told == {"": 27600.0, ":period=21600": None, ":period=86400": None}
    finish = {
        policy: happen(scenario.under(policy)).outcomes.finish for policy in ("chronus", "srsf")
    }
    assert finish["chronus"][10] <= 27600.0 < finish["srsf"][10]


@pytest.mark.parametrize("hopeless", [0, 5])
def test_a_job_without_a_guarantee_that_has_to_run_now_goes_first(hopeless: int) -> None:
    """However many steps it has that it cannot reach."""
    small = [due(linear_job(n, 600.0 * n, 1.0, 500.0), (1e5, 10.0)) for n in range(10)]
    steps = [(float(step), 100.0 - step) for step in range(1, 1 + hopeless)]
    large = due(linear_job(10, 18000.0, 1.0, 9000.0), *steps, (9050.0, 10.0))
    more = [linear_job(n, 18000.0 + n, 1.0, 300.0) for n in range(11, 15)]
    scenario = Scenario.of(parse_cluster("1x1"), [*small, large, *more])
    run = happen(scenario.under("chronus:period=86400"))
    first = next(one for _, one in promises(run) if one.number == 10)
    assert first.finish_by is None
    assert run.outcomes.finish[10] == 27000.0


def test_a_job_larger_than_all_that_a_period_serves_hears_so() -> None:
    large = due(linear_job(0, 0.0, 4.0, 14400.0), (28800.0, 10.0))
    told = {
        period: lasts(
            happen(Scenario.of(parse_cluster("1x4"), [large], policy=f"chronus{period}"))
        )[0]
        for period in ("", ":period=18000")
    }
    assert told[":period=18000"].finish_by == 28800.0
    assert (told[""].finish_by, told[""].earliest) == (None, None)
    assert told[""].reason == (
        "with the jobs no larger of the last 3h 00m it needs all GPUs for longer than that"
    )


def test_who_would_be_late_otherwise_starts_in_the_middle_of_a_lease() -> None:
    others = [linear_job(n, 0.0, 1.0, 500.0) for n in range(4)]
    job = due(linear_job(4, 10.0, 1.0, 60.0), (65.0, 10.0))
    patient = due(linear_job(4, 10.0, 1.0, 60.0), (200.0, 10.0))
    cluster = parse_cluster("1x4")
    urgent = happen(Scenario.of(cluster, [*others, job], policy="chronus:lease=80,parts=1"))
    assert urgent.outcomes.first_start[4] == 10.0
    assert urgent.outcomes.finish[4] == 70.0
    later = happen(Scenario.of(cluster, [*others, patient], policy="chronus:lease=80,parts=1"))
    assert later.outcomes.first_start[4] == 80.0


def remembering(gpus: float, **terms: float) -> Floats:
    """The memory of a policy that decided at time 0, on so many GPUs of one type."""
    policy = Chronus.model_validate(terms)
    memory = opened(policy, np.array([gpus]), np.zeros(0), 0.0, plain=True)
    memory[SLOT] = 0.0
    return memory


def test_room_until_a_deadline() -> None:
    memory = remembering(2.0, lease=10.0, parts=1)
    assert has_room(memory, 100.0, 150.0, 0.0)
    assert has_room(memory, 100.0, 50.0, 1.5)
    assert not has_room(memory, 100.0, 60.0, 1.5)
    assert first_with_room(memory, 100.0, 60.0, 1.5) == 120.0


def test_how_fast_smaller_jobs_come_and_which_are_too_large() -> None:
    memory = remembering(1.0, period=7200.0)
    for work in (300.0, 100.0, 5000.0, 200.0, 400.0):
        add_work(memory, work)
    memory[NOW] = 10.0
    assert rate_of_smaller(memory, 200.0) == 0.0
    assert rate_of_smaller(memory, 300.0) == pytest.approx(600 / 3600 * (1 - 2**-0.5))
    memory[NOW] = 6000.0
    assert rate_of_smaller(memory, 5000.0) == pytest.approx(6000 / 6000 * 0.5)
    assert largest_within(memory, 600.0) == 400.0
    assert largest_within(memory, 6000.0) == np.inf
    memory[NOW] = 7201.0
    add_work(memory, 50.0)
    assert largest_within(memory, 49.0) == 50.0


@given(st.integers(0, 1000), st.integers(0, 99))
def test_sums_are_those_of_numpy(many: int, seed: int) -> None:
    """To the last digit: which guarantees are made hangs on it."""
    numbers = np.random.default_rng(seed).lognormal(3.0, 2.0, many)
    assert sum_of(numbers) == float(numbers.sum())


def of(job: Job, user: str = "", pool: str = "", *, preemptible: bool = True) -> Job:
    spec = msgspec.structs.replace(job.spec, user=user, pool=pool, preemptible=preemptible)
    return msgspec.structs.replace(job, spec=spec)


def test_a_user_or_pool_is_promised_a_share_and_told_where_that_binds() -> None:
    """Of 8 GPUs ada may have 4, pool x 6; a slot of ada's is free again when her first job is through."""
    long, later = (1000.0, 1.0), (3000.0, 1.0)
    jobs = [
        of(due(linear_job(0, 0.0, 3.0, 50.0), long), "ada", "x"),
        of(due(linear_job(1, 0.0, 2.0, 50.0), long), "ada"),
        of(due(linear_job(2, 0.0, 4.0, 50.0), long), "bo", "x"),
        of(due(linear_job(3, 0.0, 1.0, 50.0), long), "ada"),
        of(due(linear_job(4, 0.0, 8.0, 50.0), long)),
        of(due(linear_job(5, 500.0, 4.0, 50.0), later), "ada"),
    ]
    limits = "chronus:lease=40,user_share=0.5,pool_share=0.75"
    run = happen(Scenario.of(parse_cluster("1x8"), jobs).under(limits))
    first = {
        one.number: one for time, one in promises(run) if time == jobs[one.number].spec.submit_time
    }
    assert {number for number, one in first.items() if one.finish_by is not None} == {0, 3, 4, 5}
    assert (first[1].reason, first[2].reason) == (
        "guaranteed jobs of user 'ada' request 3 GPUs already, this one 2 more; together they may request 4",
        "guaranteed jobs of pool 'x' request 3 GPUs already, this one 4 more; together they may request 6",
    )
    assert first[1].earliest is None
    assert np.nansum(broken(run.outcomes)) == 0.0


def test_jobs_that_may_not_be_preempted_count_too() -> None:
    jobs = [
        of(due(linear_job(n, 0.0, 3.0, 50.0), (1000.0, 1.0)), "ada", preemptible=False)
        for n in range(2)
    ]
    run = happen(Scenario.of(parse_cluster("1x8"), jobs).under("chronus:lease=40,user_share=0.5"))
    made = [one.number for _, one in promises(run) if one.finish_by is not None]
    assert made == [0]
    assert not np.isnan(run.outcomes.finish).any()


def test_at_a_lasting_overload_the_largest_jobs_are_refused() -> None:
    small = [due(linear_job(n, 10.0 * n, 1.0, 20.0), (100.0, 10.0)) for n in range(30)]
    large = due(linear_job(30, 300.0, 1.0, 300.0), (2000.0, 10.0))
    scenario = Scenario.of(parse_cluster("1x1"), [*small, large])
    policy = "chronus:lease=40,period={}"
    assert lasts(happen(scenario.under(policy.format(300))))[30].finish_by is None
    short = happen(scenario.under(policy.format(10)))
    assert promises(short)[-1][1].number != 31


def test_starts_and_checkpoints_are_counted() -> None:
    costs = Overheads(start=4.0, restore=4.0, checkpoint=3.0)
    background = linear_job(0, 0.0, 4.0, 500.0)
    kept = due(linear_job(1, 1.0, 4.0, 20.0), (27.0, 10.0))
    tight = due(linear_job(1, 1.0, 4.0, 20.0), (26.5, 10.0))

    def last(job: Job) -> Promise:
        jobs = [background, job]
        scenario = Scenario.of(
            parse_cluster("1x4"), jobs, policy="chronus:lease=40", overheads=costs
        )
        return lasts(happen(scenario))[1]

    assert last(kept).finish_by == 28.0  # 3 s checkpoint, 4 s start, 20 s work
    assert last(tight).finish_by is None


def test_the_hopeless_do_not_hold_up_others() -> None:
    hopeless = due(linear_job(0, 0.0, 4.0, 30.0), (20.0, 10.0))
    other = linear_job(1, 0.0, 4.0, 35.0)
    run = happen(Scenario.of(parse_cluster("1x4"), [hopeless, other], policy="chronus:lease=40"))
    assert run.outcomes.finish.tolist() == [65.0, 35.0]


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
)
def test_compiled_loops_agree_with_their_twins_and_what_is_reserved_is_enough(
    free: list[int], gpus: int, need: float, gap: float, finish_by: float, goes_on: bool
) -> None:
    tables = [np.array(free, dtype=np.float64) for _ in range(2)]
    held = [np.zeros(len(free)) for _ in range(2)]
    finish_by = min(finish_by, 10.0 * len(free))
    reserving: list[Callable[..., bool]] = [compiled(reserve_late), reserve_late]
    finding: list[Callable[..., float]] = [compiled(earliest_finish), earliest_finish]
    found = [
        loop(table, slots, 0, 10.0, 0.0, 0, finish_by, float(gpus), need, gap, gap * (not goes_on))
        for loop, table, slots in zip(reserving, tables, held, strict=True)
    ]
    assert found[0] == found[1]
    np.testing.assert_array_equal(held[0], held[1])
    np.testing.assert_array_equal(tables[0], np.array(free) - gpus * held[0])
    assert (tables[0] >= 0.0).all() or not held[0].any()
    earliest = [
        loop(np.array(free, dtype=np.float64), 0, 10.0, 0.0, 0, float(gpus), need, gap)
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
    if not goes_on:
        assert found[0] == (earliest[0] <= finish_by + 1e-6)


def test_each_run_of_a_reservation_costs_a_restart() -> None:
    """Two runs of 20 and 10 s with a gap of 5 s each do 20 s of work."""
    for need, slots in ((20.0, [0, 2, 3]), (21.0, [])):
        free, held = np.array([1.0, 0.0, 1.0, 1.0]), np.zeros(4)
        enough = reserve_late(free, held, 0, 10.0, 0.0, 0, 40.0, 1.0, need, 5.0, 5.0)
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
    assert reserve(memory, row, 0, 35.0, 0.0)
    assert np.flatnonzero(held_of(memory)[row]).tolist() == [396, 397, 398, 399]
    memory[SLOT] = 300.0
    forget_passed(memory)
    assert np.flatnonzero(held_of(memory)[row]).tolist() == [96, 97, 98, 99]
    assert share(memory, 4000.0) == pytest.approx(4 * 4 / (8 * 100))
    leave(memory, row)
    assert (free_of(memory)[:, : int(memory[WIDTH])] == 8.0).all()


def test_baselines_go_by_deadline_laxity_and_quota() -> None:
    first = [
        due(linear_job(0, 0.0, 4.0, 30.0), (200.0, 10.0)),
        linear_job(1, 0.0, 4.0, 5.0),
        due(linear_job(2, 0.0, 4.0, 90.0), (150.0, 5.0), (210.0, 10.0)),
        due(linear_job(3, 10.0, 4.0, 20.0), (40.0, 10.0)),
    ]

    def finishes(policy: str) -> list[float]:
        scenario = Scenario.of(parse_cluster("1x4"), first, policy=policy)
        return [float(time) for time in happen(scenario).outcomes.finish]

    assert finishes("edf") == [
        30.0,
        145.0,
        140.0,
        50.0,
    ]  # 3 is sooner due than 2, and 0 is not stopped
    assert finishes("genie:round=5") == [125.0, 145.0, 140.0, 30.0]  # 0 and 2 take turns
    assert finishes("yarn-cs") == [30.0, 35.0, 125.0, 145.0]  # a wide job runs alone in its queue


def test_static_quotas_keep_gpus_for_each_queue() -> None:
    jobs = [linear_job(n, 0.0, 1.0, 100.0) for n in range(4)]
    jobs += [due(linear_job(n, 0.0, 1.0, 50.0), (500.0, 1.0)) for n in range(4, 8)]
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="yarn-cs:deadlines=0.75")
    outcomes = happen(scenario).outcomes
    assert outcomes.first_start.tolist() == [0.0, 100.0, 200.0, 300.0, 0.0, 0.0, 0.0, 50.0]


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("chronus:parts=2.5", "parts"),  # an SLO lease that is no multiple of a best-effort lease
        ("chronus:parts=0", "parts"),
        ("chronus:lease=0", "lease"),
        ("chronus:lease=-20m", "lease"),
        ("chronus:user_share=1.2", "user_share"),
        ("chronus:user_share=0", "user_share"),
    ],
)
def test_leases_and_shares_that_cannot_be_are_refused_by_name(written: str, field: str) -> None:
    with pytest.raises(Problem, match=f"'{field}'"):
        policies.make(written)
