"""Selection by deadline: against trying all plans, and that promises are kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import DeadlineCase, deadline_cases, deadline_jobs, plain

from volvelle.plan.packing import complete, pack, wider_first
from volvelle.plan.plan import Plan, Window
from volvelle.systems.chronus.deadlines import DeadlineJobs, Selection, select_by_deadline

pytest.importorskip("highspy")


def check(case: DeadlineCase, found: Selection) -> None:
    """A plan is possible, and worth what it says."""
    jobs, plan = case.jobs, found.plan
    plan.check(case.capacity)
    held = plan.gpus > 0
    value = 0.0
    assert np.all((plan.gpus == 0.0) | (plan.gpus == jobs.gpus[:, None]))
    for row, step in enumerate(found.step):
        if step < 0:
            assert not held[row].any()
            continue
        assert held[row].sum() == jobs.slots[row]
        assert np.flatnonzero(held[row])[-1] < jobs.deadline[row, step]
        value += jobs.value[row, step]
    assert found.value == pytest.approx(value)
    assert found.bound >= found.value


@settings(max_examples=60, deadline=None)
@given(deadline_cases())
def test_no_plan_is_worth_more_than_the_bound_and_the_direct_program_reaches_the_best(
    case: DeadlineCase,
) -> None:
    best = case.best
    aggregated = select_by_deadline(*case, gap=0.0, seconds=60.0, direct=False)
    direct = select_by_deadline(*case, gap=0.0, seconds=60.0, direct=True)
    for found in (aggregated, direct):
        check(case, found)
        assert found.value <= best + 1e-6
        assert best <= found.bound + 1e-6
        assert best <= found.value * (1.0 + found.gap) + 1e-6
    assert direct.value == pytest.approx(best)


@settings(max_examples=60, deadline=None)
@given(deadline_cases(), st.data())
def test_fixed_steps_are_kept_though_more_valuable_jobs_come(
    case: DeadlineCase, data: st.DataObject
) -> None:
    promised = select_by_deadline(*case, seconds=60.0)
    more = data.draw(deadline_jobs(4, first=10))
    steps = max(case.jobs.deadline.shape[1], more.deadline.shape[1])

    def both_of(name: str) -> Any:
        """(jobs, steps) of all jobs; steps that a job does not have are worth nothing."""
        tables = [getattr(jobs, name) for jobs in (case.jobs, more)]
        return np.concatenate([np.pad(t, ((0, 0), (0, steps - t.shape[1]))) for t in tables])

    value = both_of("value")
    value[len(case.jobs.number) :] *= 100.0
    both = case.with_jobs(
        DeadlineJobs(
            number=np.concatenate([case.jobs.number, more.number]),
            gpus=np.concatenate([case.jobs.gpus, more.gpus]),
            slots=np.concatenate([case.jobs.slots, more.slots]),
            deadline=both_of("deadline"),
            value=value,
            fixed=np.concatenate([promised.step, np.full(len(more.number), -1)]),
        )
    )
    fixed = np.flatnonzero(promised.step >= 0)
    for found in (
        select_by_deadline(*both, incumbent=promised.plan, seconds=60.0),
        select_by_deadline(*both, incumbent=promised.plan, seconds=0.0),
        select_by_deadline(*both, seconds=60.0, direct=True),
    ):
        check(both, found)
        latest = both.jobs.deadline[fixed, promised.step[fixed]]
        assert np.all(found.step[fixed] >= 0)
        assert np.all(both.jobs.deadline[fixed, found.step[fixed]] <= latest)


@settings(max_examples=60, deadline=None)
@given(deadline_cases(9), st.integers(0, 2))
def test_in_no_time_the_plan_is_at_least_that_of_before(case: DeadlineCase, later: int) -> None:
    before = select_by_deadline(*case, seconds=60.0)
    window = case.window._replace(start=case.window.begin(later))
    shifted = case.jobs._replace(deadline=case.jobs.deadline - later)
    capacity = np.concatenate([case.capacity[later:], np.zeros(min(later, case.window.slots))])
    moved = DeadlineCase(shifted, window, capacity)
    kept = select_by_deadline(*moved, incumbent=before.plan, seconds=0.0)
    check(moved, kept)
    untouched = (before.step >= 0) & ~(before.plan.gpus[:, :later] > 0).any(axis=1)
    rows = np.flatnonzero(untouched)
    assert kept.value >= case.jobs.value[rows, before.step[rows]].sum() - 1e-9


@settings(max_examples=100, deadline=None)
@given(deadline_cases(9), st.booleans(), st.booleans())
def test_packing_is_the_same_compiled_and_plain(
    case: DeadlineCase, keep: bool, whole: bool
) -> None:
    jobs, capacity = case.jobs, case.capacity
    deadline = np.clip(jobs.deadline, 0, case.window.slots)
    order = wider_first(jobs.gpus)
    running = np.zeros(len(order), dtype=np.bool_) if jobs.running is None else jobs.running
    latest = deadline[:, -1]
    arguments = (order, jobs.gpus, jobs.slots, latest, capacity, running, keep, whole)
    held = pack(*arguments)
    assert np.array_equal(held, plain(pack)(*arguments))
    assert np.all((held * jobs.gpus[:, None]).sum(axis=0) <= capacity)
    assert np.all(held.sum(axis=1) <= jobs.slots)
    twin = held.copy()
    ranked = np.argsort(-jobs.value, axis=1, kind="stable")
    more = (capacity, jobs.gpus, jobs.slots, deadline, jobs.value, ranked, order)
    complete(held, *more)
    plain(complete)(twin, *more)
    assert np.array_equal(held, twin)


def test_a_job_that_runs_goes_on_rather_than_take_turns() -> None:
    """Two jobs of two GPUs on two GPUs, two slots each, both by slot 4."""
    jobs = DeadlineJobs(
        number=np.array([7, 8]),
        gpus=np.array([2.0, 2.0]),
        slots=np.array([2, 2]),
        deadline=np.array([[4], [4]]),
        value=np.array([[1.0], [1.0]]),
        running=np.array([False, True]),
    )
    found = select_by_deadline(jobs, Window(0.0, 60.0, 4), 2.0)
    assert found.value == 2.0
    assert np.count_nonzero(np.diff(found.plan.gpus, axis=1)) == 2  # one change, of both


ONE = DeadlineJobs(
    number=np.array([0]),
    gpus=np.array([1.0]),
    slots=np.array([1]),
    deadline=np.array([[2]]),
    value=np.array([[1.0]]),
)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ONE._replace(gpus=np.array([0.0])), "gpus: each job needs more than none"),
        (ONE._replace(slots=np.array([0])), "slots: each job needs at least one"),
        (ONE._replace(value=np.array([[-1.0]])), "value: a step cannot be worth less than nothing"),
        (ONE._replace(value=np.array([1.0])), "value has the shape"),
        (ONE._replace(deadline=np.array([2])), "deadline of 1 jobs has the shape"),
        (ONE._replace(gpus=np.ones(2)), "gpus of 1 jobs has the shape"),
        (ONE._replace(fixed=np.array([1])), "fixed: a job has the steps 0 to 0"),
    ],
)
def test_jobs_that_cannot_be_are_an_error_that_names_the_column(
    wrong: DeadlineJobs, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        select_by_deadline(wrong, Window(0.0, 60.0, 4), 2.0)


def test_nobody_there_is_an_empty_plan() -> None:
    number, gpus, slots, deadline, value, *_ = ONE
    none = DeadlineJobs(number[:0], gpus[:0], slots[:0], deadline[:0], value[:0])
    found = select_by_deadline(none, Window(0.0, 60.0, 4), 2.0)
    assert (len(found.plan), found.value, found.gap) == (0, 0.0, 0.0)
    assert isinstance(found.plan, Plan)
