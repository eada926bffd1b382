"""Chronus: who goes first, what is refused and why, who is promised what."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from chronus_cases import STEADY, due, lasts, promises, remembering
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.decision import Promise
from volvelle.core.policy import policies
from volvelle.metrics.promises import broken
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.systems.chronus.memory import NOW
from volvelle.systems.chronus.recent import add_work, largest_within, rate_of_smaller, sum_of
from volvelle.systems.chronus.reservations import first_with_room, has_room
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.testing.strategies import scenarios


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
