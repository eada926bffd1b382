"""Batch sizes to come, as Shockwave predicts them (NSDI'23, section 5)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.events import JobSubmitted
from volvelle.core.fork import Fork
from volvelle.core.parts import KnownJob
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import Job, JobSpec, Regime, Truth
from volvelle.simulate.world import World
from volvelle.systems.shockwave.regimes import Course, Regimes, Rule, expected_begins, expected_work
from volvelle.testing.scenario import Scenario, happen

RULES: tuple[Rule, ...] = ("restatement", "bayesian", "greedy")
every_rule = pytest.mark.parametrize("rule", RULES)

DOUBLED = (Regime(0.0, 32), Regime(20.0, 64, 2.0), Regime(80.0, 128, 4.0))


def job(number: int = 0, work: float = 100.0, regimes: tuple[Regime, ...] = DOUBLED) -> Job:
    return Job(JobSpec(id=str(number), submit_time=0.0), Truth(work=work, regimes=regimes))


@st.composite
def courses(draw: st.DrawFn) -> Course:
    regimes = draw(st.integers(1, 6))
    work = draw(st.floats(1.0, 1e6))
    seen = sorted(draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=regimes)))
    done = seen[-1] * work
    return Course(work, regimes, (0.0, *(one * work for one in seen[:-1])), done)


def test_before_anything_is_seen_regimes_are_equal_parts() -> None:
    for rule in ("restatement", "bayesian"):
        assert expected_work(Course(90.0, 3), rule) == pytest.approx([30.0, 30.0, 30.0])


def test_regimes_that_are_over_count_as_seen_and_the_others_split_the_rest() -> None:
    """Section 5: Dir(m_1, ..., m_k, S_k, ..., S_k) with S_k = (N - sum of m) / (K - k)."""
    course = Course(100.0, 4, (0.0, 10.0), 12.0)
    assert expected_work(course, "restatement") == pytest.approx([10.0, 30.0, 30.0, 30.0])


def test_an_ongoing_regime_that_outlasts_its_part_ends_now() -> None:
    course = Course(100.0, 3, (0.0,), 60.0)
    assert expected_work(course, "restatement") == pytest.approx([60.0, 20.0, 20.0])
    assert expected_begins(course, "restatement") == pytest.approx([0.0, 60.0, 80.0])


def test_the_standard_rule_counts_epochs_as_independent_draws() -> None:
    """Dir(50 + 50, 50) after 50 of 100 epochs, all of the first of two regimes."""
    course = Course(100.0, 2, (0.0,), 50.0)
    assert expected_work(course, "bayesian") == pytest.approx([200.0 / 3.0, 100.0 / 3.0])


def test_the_greedy_rule_expects_no_change() -> None:
    assert expected_work(Course(100.0, 3, (0.0, 10.0), 12.0), "greedy") == [10.0, 90.0, 0.0]


@every_rule
@given(course=courses())
def test_regimes_follow_each_other_and_take_all_the_work(rule: Rule, course: Course) -> None:
    expected = np.array(expected_work(course, rule))
    begins = np.array(expected_begins(course, rule))
    assert expected.sum() == pytest.approx(course.work)
    assert (expected >= 0.0).all()
    assert begins[: len(course.begins)] == pytest.approx(course.begins)
    to_come = begins[len(course.begins) :]
    assert (np.diff(begins) >= -1e-9 * course.work).all()
    assert (to_come >= course.done - 1e-9 * course.work).all()
    assert (begins <= course.work * (1 + 1e-9)).all()


@every_rule
def test_a_scheduler_believes_what_the_rule_says_as_changes_come(rule: Rule) -> None:
    """Each regime's begin is known once it is there; before it is, it lies ahead."""
    seen: list[tuple[float, ...]] = []
    real = [regime.start_work for regime in DOUBLED]

    def check(world: World) -> None:
        believed = world.scheduler.known[0].believed.regimes if world.scheduler.known else ()
        if believed:
            done = float(world.scheduler.view().jobs.work_done[0])
            begun = [one for one in real if one <= done + 1e-9]
            starts = [regime.start_work for regime in believed]
            assert starts[: len(begun)] == pytest.approx(begun)
            assert all(start >= done - 1e-6 for start in starts[len(begun) :])
            seen.append(tuple(starts))

    scenario = Scenario.of(parse_cluster("1x1"), [job()], estimator=f"regimes:rule={rule},every=5")
    happen(scenario, on_moment=check)
    assert seen[-1] == pytest.approx(real)
    assert len(set(seen)) > 2


def test_what_is_foreseen_of_a_running_job_comes_true_once_all_regimes_are_known() -> None:
    """20 s at rate 1, 30 s at 2, 5 s at 4."""
    foreseen: dict[float, float] = {}

    def check(world: World) -> None:
        if world.scheduler.known:
            foreseen[world.now] = Fork(world.scheduler).until().finish[0]

    scenario = Scenario.of(parse_cluster("1x1"), [job()], estimator="regimes:every=5")
    run = happen(scenario, on_moment=check)
    finish = float(run.outcomes.finish[0])
    assert finish == pytest.approx(55.0)
    # At first thirds are expected: 33.3 + 16.7 + 8.3 s.
    assert foreseen[0.0] == pytest.approx(100.0 / 3 * (1 + 1 / 2 + 1 / 4))
    assert foreseen[20.0] == pytest.approx(20.0 + 40.0 / 2 + 40.0 / 4)
    assert foreseen[50.0] == pytest.approx(finish)


def test_a_job_thrown_back_by_a_failure_goes_through_its_regimes_again() -> None:
    """It fails in its second regime and starts over."""
    truth = Truth(work=100.0, regimes=DOUBLED, failures=(50.0,))
    broken = Job(JobSpec(id="0", submit_time=0.0, checkpoint_seconds=0.0), truth)
    begun: list[int] = []

    def check(world: World) -> None:
        if world.scheduler.known:
            starts = [one.start_work for one in world.scheduler.known[0].believed.regimes]
            begun.append(sum(start in (20.0, 80.0) for start in starts))

    scenario = Scenario.of(parse_cluster("1x1"), [broken], estimator="regimes:every=5")
    assert happen(scenario, on_moment=check).outcomes.finish[0] > 55.0
    assert begun[-1] == 2


def test_a_batch_size_that_nobody_told_of_changes_nothing() -> None:
    one = Regimes()
    submitted = JobSubmitted(0.0, 0, job().spec, job().truth)
    believed = one.believe(submitted, 0).truth
    assert one.adapt(KnownJob(job().spec, believed), 10.0, 48) is None


def test_sizes_that_are_passed_over_last_no_time() -> None:
    one = Regimes()
    believed = one.believe(JobSubmitted(0.0, 0, job().spec, job().truth), 0).truth
    belief = one.adapt(KnownJob(job().spec, believed), 40.0, 128)
    assert belief is not None
    assert [regime.start_work for regime in belief.truth.regimes] == [0.0, 40.0, 40.0]


def test_jobs_of_one_batch_size_are_believed_as_they_are() -> None:
    one, still = Regimes(), job(regimes=())
    assert one.believe(JobSubmitted(0.0, 0, still.spec, still.truth), 0).truth == still.truth
    assert one.adapt(KnownJob(still.spec, still.truth), 10.0, None) is None
