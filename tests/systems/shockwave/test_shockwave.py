"""Shockwave's plans (NSDI'23, section 6, appendix G): utility, fairness, order, when plans are made anew."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.policy import policies
from volvelle.model.cluster import Pool, parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.throughput import Linear, PerBatchSize, PerType, Table
from volvelle.plan.plan import Plan, Window
from volvelle.simulate.run import simulate
from volvelle.simulate.world import World
from volvelle.systems.shockwave import policy as shockwave
from volvelle.systems.shockwave.policy import by_priority
from volvelle.systems.shockwave.rounds import RoundJobs, RoundShare, share_rounds
from volvelle.systems.shockwave.run_times import RunTimes, seconds_of, work_after
from volvelle.systems.shockwave.welfare import (
    contention,
    count_jobs,
    finish_time_fairness,
    gains,
)
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.workload.workload import Workload


def one_job(done: float, gap: float = 0.0, scale: float = 1.0) -> RunTimes:
    """100 s at rate 1, then 100 s at rate 2."""
    return RunTimes(
        np.array([[0.0, 100.0, 300.0]]),
        np.array([[0.0, 100.0, 200.0]]),
        np.array([done]),
        np.array([scale]),
        np.array([gap]),
    )


def test_progress_follows_the_regimes_inside_the_window() -> None:
    """Equation 7: rounds of 50 s, two in the first regime and two in the second."""
    progress = one_job(0.0).progress(5, 50.0)[0] * 300.0
    assert progress.tolist() == pytest.approx([0.0, 50.0, 100.0, 200.0, 300.0, 300.0])


def test_an_end_counts_beside_progress_in_the_round_that_it_comes_in() -> None:
    """A job whose last round is used in part gains less by it than by a whole one, unless ends count."""
    progress, weight = np.array([[0.5, 0.75, 0.99, 1.0, 1.0]]), np.array([2.0])
    plain, more = (gains(progress, weight, 5, ending)[0] for ending in (0.0, 0.1))
    assert (more - plain).tolist() == pytest.approx([0.0, 0.0, 0.2, 0.0])
    assert plain[2] < plain[1] < more[2] + plain[1]


def test_a_start_or_an_error_of_the_belief_leaves_less_progress() -> None:
    late = one_job(50.0, gap=20.0).progress(2, 50.0)[0] * 300.0
    assert late.tolist() == pytest.approx([50.0, 80.0, 160.0])
    slow = one_job(50.0, scale=2.0)
    assert slow.left[0] == pytest.approx(2.0 * 150.0)
    assert (slow.progress(2, 50.0)[0] * 300.0).tolist() == pytest.approx([50.0, 75.0, 100.0])


@given(
    st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)), min_size=1, max_size=5),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4),
)
def test_work_and_seconds_are_inverse(
    pieces: list[tuple[float, float]], shares: list[float]
) -> None:
    work = np.cumsum([[0.0, *(one for one, _ in pieces)]], axis=1)
    seconds = np.cumsum([[0.0, *(one for _, one in pieces)]], axis=1)
    then = np.sort(np.array([shares])) * seconds[0, -1]
    done = work_after(work, seconds, then)
    assert done[0] == pytest.approx(np.interp(then[0], seconds[0], work[0]))
    for i in range(done.shape[1]):
        assert seconds_of(work, seconds, done[:, i]) == pytest.approx(then[:, i], abs=1e-6)


def test_fairness_is_the_finish_over_that_on_a_fair_share() -> None:
    """Equation 9: 300 s old, 50 of 100 s left, three jobs for each GPU."""
    fair = finish_time_fairness(*(np.array([one]) for one in (300.0, 50.0, 100.0, 3.0)))
    assert fair[0] == pytest.approx((300.0 + 150.0) / 300.0)


def test_contention_is_an_average_over_the_time_in_the_system() -> None:
    """Four jobs on one GPU until 100 s, then two; the fair share is never more than the cluster."""
    own, submitted = np.zeros((3, 4)), np.zeros(4)
    count_jobs(own, submitted, 0.0)
    assert contention(own, submitted, 0.0, 1.0).tolist() == [4.0] * 4
    count_jobs(own, submitted, 100.0)
    own = own[:, :2]
    count_jobs(own, submitted[:2], 100.0)
    count_jobs(own, submitted[:2], 200.0)
    assert contention(own, submitted[:2], 200.0, 1.0) == pytest.approx([3.0, 3.0])
    assert contention(own, submitted[:2], 200.0, 8.0).tolist() == [1.0, 1.0]


def test_the_logarithm_is_linear_in_pieces_that_touch_it() -> None:
    progress = np.linspace(0.0, 1.0, 11)[None]
    exact, parts = (gains(progress, np.ones(1), pieces).cumsum() for pieces in (0, 5))
    assert parts[1::2] == pytest.approx(exact[1::2])
    assert (np.diff(gains(progress, np.ones(1), 5)[0]) <= 1e-9).all()
    assert exact[-1] == pytest.approx(-np.log(1e-6))


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 6), st.integers(0, 9), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
def test_sequenced_plans_stay_within_the_cluster_and_give_nobody_more_rounds(
    jobs: list[tuple[int, int, int, bool]],
) -> None:
    gpus, rounds, priority, ran = (np.array(column) for column in zip(*jobs, strict=True))
    gpus = gpus.astype(np.float64)
    held = np.arange(6) < rounds[:, None]
    plan = Plan(Window(0.0, 60.0, 6), np.arange(len(gpus)), held * gpus[:, None])
    capacity = float(plan.gpus.sum(axis=0).max())
    ran_on = np.where(ran, 0, -1)
    there = np.array([capacity])
    sequenced = by_priority(plan, gpus, priority.astype(np.float64), ran_on, there)
    sequenced.check(capacity)
    given = (sequenced.gpus > 0).sum(axis=1)
    assert (given <= rounds).all()
    if (gpus == 1.0).all():
        assert (given == rounds).all()


def test_rounds_go_to_the_highest_priority_first_unless_others_would_miss_theirs() -> None:
    held = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=np.float64)
    plan = Plan(Window(0.0, 60.0, 3), np.arange(3), held)
    none = np.full(3, -1)
    priority = np.array([2.0, 1.0, 0.0])
    sequenced = by_priority(plan, np.ones(3), priority, none, np.array([2.0]))
    assert sequenced.gpus.tolist() == [[1, 1, 0], [0, 0, 1], [1, 1, 1]]


def counted(policy: str, jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When plans are made."""
    made: list[float] = []

    def count(jobs: RoundJobs, window: Window, gpus: float, **options: Any) -> RoundShare:
        made.append(window.start)
        return share_rounds(jobs, window, gpus, **options)

    monkeypatch.setattr(shockwave, "share_rounds", count)
    happen(Scenario.of(parse_cluster("1x1"), jobs, policy=policy, overheads=Overheads()))
    return made


def test_plans_are_made_anew_at_arrivals_ends_and_when_the_window_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two jobs of 100 s on one GPU; the second comes at 25 s and is seen with the round at 30 s."""
    jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 25.0, 1.0, 100.0)]
    made = counted("shockwave:round=10,window=5", jobs, monkeypatch)
    assert made[:2] == [0.0, 30.0]
    assert 80.0 in made
    assert all(later - earlier <= 50.0 for earlier, later in itertools.pairwise(made))


def changing(number: int) -> Iterator[Job]:
    regimes = (Regime(0.0, 32), Regime(15.0, 64, 2.0))
    yield Job(JobSpec(id=str(number), submit_time=0.0), Truth(work=200.0, regimes=regimes))


@pytest.mark.parametrize(("reactive", "anew"), [("true", True), ("false", False)])
def test_a_change_of_batch_size_is_met_with_a_new_plan_if_reactive(
    reactive: str, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One changes after 15 s on the GPU: at the round after it the plan is made anew, or goes on."""
    jobs = [*changing(0), linear_job(1, 0.0, 1.0, 500.0)]
    made = counted(f"shockwave:round=10,window=40,reactive={reactive}", jobs, monkeypatch)
    assert (len([when for when in made if 0.0 < when < 100.0]) > 0) == anew


def test_a_job_that_is_far_behind_goes_before_others() -> None:
    """A short job that waited for longer than a fair share would have taken has the next rounds."""
    jobs = [linear_job(number, 0.0, 1.0, 3000.0) for number in range(4)]
    jobs.append(linear_job(4, 0.0, 1.0, 300.0))
    run = happen(Scenario.of(parse_cluster("1x1"), jobs, policy="shockwave:makespan=0"))
    fair = 300.0 * len(jobs)
    assert run.outcomes.jct[4] <= 2.0 * fair


def test_no_gpu_idles_while_a_job_waits_that_fits() -> None:
    def check(world: World) -> None:
        jobs = world.scheduler.view().jobs
        if world.now % 120.0 == 0.0:
            free = 4.0 - jobs.held.sum()
            assert not ((jobs.held == 0.0) & (jobs.gpus <= free)).any()

    jobs = [linear_job(n, 50.0 * n, float(1 + n % 3), 400.0 + 100.0 * n) for n in range(9)]
    happen(Scenario.of(parse_cluster("1x4"), jobs, policy="shockwave"), on_moment=check)


@pytest.mark.parametrize(
    "bad", ["window=0", "power=-1", "makespan=-0.1", "round=0", "time_limit=0"]
)
def test_parameters_out_of_range_are_errors(bad: str) -> None:
    with pytest.raises(Exception, match=bad.partition("=")[0]):
        policies.make(f"shockwave:{bad}")


def test_a_job_without_a_budget_is_refused_with_its_name() -> None:
    nothing = linear_job(0, 0.0, 1.0, 100.0)
    nothing = Job(msgspec.structs.replace(nothing.spec, weight=0.0), nothing.truth)
    scenario = Scenario.of(parse_cluster("1x1"), [nothing], policy="shockwave")
    with pytest.raises(Problem, match="job 'job-0' has the weight 0, which is its budget"):
        simulate(Workload.of([nothing]), scenario.setting)


def test_who_has_the_larger_budget_is_done_earlier() -> None:
    """Jobs alike, of two users: budgets are priorities."""

    def mean_ends(weight: float) -> tuple[float, float]:
        jobs = [linear_job(number, 0.0, 1.0, 3000.0) for number in range(6)]
        rich = [
            Job(msgspec.structs.replace(job.spec, weight=weight), job.truth) for job in jobs[3:]
        ]
        ends = happen(
            Scenario.of(parse_cluster("1x2"), [*jobs[:3], *rich], policy="shockwave")
        ).outcomes.jct
        return float(ends[:3].mean()), float(ends[3:].mean())

    poor, rich = mean_ends(8.0)
    assert rich < 0.8 * poor
    before, alike = mean_ends(1.0)
    assert rich < alike
    assert poor > before


@pytest.mark.parametrize(
    ("weights", "share"), [((3.0, 1.0), 0.75), ((1.0, 1.0), 0.5), ((None, None), 0.25)]
)
def test_pools_have_shares_by_their_budgets_whatever_the_number_of_their_jobs(
    weights: tuple[float | None, float | None], share: float
) -> None:
    """Three jobs of one pool and nine of another, which take up all GPUs; each owns half of them."""
    cluster = msgspec.structs.replace(
        parse_cluster("1x4"),
        pools=tuple(
            Pool(name, 2.0, True, weight) for name, weight in zip("ab", weights, strict=True)
        ),
    )
    jobs = [linear_job(number, 0.0, 1.0, 1e5) for number in range(12)]
    mine = [
        Job(msgspec.structs.replace(job.spec, pool="a" if number % 4 == 0 else "b"), job.truth)
        for number, job in enumerate(jobs)
    ]
    scenario = Scenario.of(cluster, mine, policy="shockwave:power=0,makespan=0,pieces=0")
    setting = dataclasses.replace(scenario.setting, until=24_000.0)
    held = simulate(Workload.of(mine), setting).outcomes.gpu_seconds
    assert float(held[::4].sum() / held.sum()) == pytest.approx(share, abs=0.05)


def test_with_several_types_jobs_are_where_they_are_quick_and_no_gpu_is_left_to_idle() -> None:
    """Halves of the jobs are four times as quick on one type and on the other; a last one on one only."""

    def job(number: int, **rates: float) -> Job:
        throughput = PerType({kind: Linear(rate) for kind, rate in rates.items()})
        return Job(
            JobSpec(id=str(number), submit_time=0.0), Truth(work=2400.0, throughput=throughput)
        )

    jobs = [job(n, a=1.0, b=4.0) if n % 2 else job(n, a=4.0, b=1.0) for n in range(8)]
    jobs.append(job(8, a=1.0))
    seen: list[tuple[int, int]] = []

    def note(world: World) -> None:
        view = world.scheduler.view().jobs
        running = view.held > 0.0
        types = view.column("type")[running].astype(int).tolist()
        seen.extend(zip(view.number[running].astype(int).tolist(), types, strict=True))
        if world.now % 120.0 == 0.0 and 0.0 < world.now < 1200.0:
            assert view.held.sum() == 4.0

    cluster = parse_cluster("1x2:a,1x2:b")
    run = happen(Scenario.of(cluster, jobs, policy="shockwave"), on_moment=note)
    assert np.isfinite(run.outcomes.finish).all()
    own = [kind == (1 if number % 2 else 0) for number, kind in seen]
    assert np.mean(own) > 0.8
    assert {kind for number, kind in seen if number == 8} == {0}


def test_a_size_of_which_nothing_is_known_is_named() -> None:
    """A regime at a size that the throughput table lacks."""
    truth = Truth(
        work=100.0,
        throughput=PerBatchSize({32: Linear(1.0)}, 32),
        regimes=(Regime(0.0, 32), Regime(50.0, 64)),
    )
    scenario = Scenario.of(
        parse_cluster("1x1"), [Job(JobSpec(id="0", submit_time=0.0), truth)], policy="shockwave"
    )
    with pytest.raises(Problem, match="no throughput for batch size 64, only for 32"):
        happen(scenario)


def test_a_job_that_stands_still_at_a_size_is_turned_away() -> None:
    truth = Truth(
        work=100.0,
        throughput=PerBatchSize({32: Linear(1.0), 64: Linear(0.0)}, 32),
        regimes=(Regime(0.0, 32), Regime(50.0, 64)),
    )
    job = Job(JobSpec(id="0", submit_time=0.0), truth)
    run = happen(Scenario.of(parse_cluster("1x1"), [job], policy="shockwave"))
    assert np.isnan(run.outcomes.finish[0])
    assert not run.scheduler.known


def elastic_job(number: int, rates: tuple[float, ...]) -> Job:
    """Of 9600 s on one GPU, which is what it asks for; ``rates`` on 1, 2, ... GPUs."""
    spec = JobSpec(id=str(number), submit_time=0.0, gpus=1.0, min_gpus=1.0, max_gpus=len(rates))
    return Job(spec, Truth(work=9600.0, throughput=Table(rates)))


def test_elastic_jobs_have_the_gpus_that_they_make_most_of() -> None:
    """Three of four GPUs go to the job that is as much quicker; alone, a job has all that quicken it."""
    jobs = [elastic_job(0, (1.0, 2.0, 3.0)), elastic_job(1, (1.0, 1.05, 1.1))]
    seen: list[list[float]] = []
    scenario = Scenario.of(parse_cluster("1x4"), jobs, policy="shockwave:elastic=true")
    happen(scenario, on_moment=lambda w: seen.append(w.scheduler.view().jobs.held.tolist()))
    assert seen[0] == [3.0, 1.0]
    assert [3.0] in seen


def test_no_gpus_are_chosen_on_which_a_job_stands_still() -> None:
    job = elastic_job(0, (1.0, 0.0, 0.0, 3.0))
    seen: list[float] = []
    scenario = Scenario.of(parse_cluster("1x4"), [job], policy="shockwave:elastic=true")
    happen(scenario, on_moment=lambda w: seen.extend(w.scheduler.view().jobs.held.tolist()))
    assert set(seen) == {4.0}


def test_elastic_plans_are_for_one_gpu_type() -> None:
    jobs = [elastic_job(0, (1.0, 2.0))]
    scenario = Scenario.of(parse_cluster("1x2:a,1x2:b"), jobs, policy="shockwave:elastic=true")
    with pytest.raises(
        Problem, match=r"plans for one GPU type on nodes of the same labels, .* 2 kinds"
    ):
        simulate(Workload.of(jobs), scenario.setting)
