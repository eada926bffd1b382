"""Rounds by counts: against trying all plans, and against the program in X[j, t]."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import RoundCase, plain, round_cases

from volvelle.plan.plan import Window
from volvelle.systems.shockwave.exchange import Cells, exchange
from volvelle.systems.shockwave.pieces import concave_pieces, fill_up, spread_out
from volvelle.systems.shockwave.rounds import RoundJobs, RoundShare, share_rounds

pytest.importorskip("highspy")


def shared(case: RoundCase, *, direct: bool = False, seconds: float = 60.0) -> RoundShare:
    """A plan that is possible, and worth what it says."""
    jobs, window, gpus, weight = case
    found = share_rounds(
        jobs, window, gpus, makespan_weight=weight, gap=0.0, seconds=seconds, direct=direct
    )
    held = found.plan.gpus > 0
    found.plan.check(gpus)
    assert np.all((found.plan.gpus == 0.0) | (found.plan.gpus == jobs.gpus[:, None]))
    assert np.array_equal(found.rounds, held.sum(axis=1))
    assert np.all(found.rounds <= np.ceil(jobs.seconds / 10.0))
    assert found.value == pytest.approx(case.worth(tuple(found.rounds.tolist())))
    assert found.bound >= found.value
    return found


@settings(max_examples=30, deadline=None)
@given(round_cases(simple=True))
def test_x_by_round_finds_the_best_there_is_and_counts_come_as_close_as_they_say(
    case: RoundCase,
) -> None:
    best = case.best
    assert shared(case, direct=True).value == pytest.approx(best, abs=1e-6)
    found = shared(case)
    assert found.value == pytest.approx(best, rel=0.01, abs=1e-6)
    assert best <= found.bound + 1e-6
    assert shared(case, seconds=0.0).value <= best + 1e-9


@settings(max_examples=40, deadline=None)
@given(round_cases(simple=False), st.booleans())
def test_bounds_hold_where_gains_rise_and_restarts_cost(case: RoundCase, direct: bool) -> None:
    found, best = shared(case, direct=direct), case.best
    assert found.value <= best + 1e-9
    assert best <= found.bound + 1e-6


@settings(max_examples=30, deadline=None)
@given(round_cases(simple=False))
def test_no_gpu_idles_in_the_plan_while_a_round_would_gain_a_job_something(
    case: RoundCase,
) -> None:
    found = shared(case)
    free = case.gpus - found.plan.gpus.sum(axis=0)
    gain = case.jobs.gain.copy()
    assert case.jobs.restart is not None
    assert case.jobs.running is not None
    gain[:, 0] -= np.where(case.jobs.running, 0.0, case.jobs.restart)
    for row, rounds in enumerate(found.rounds.tolist()):
        if rounds < min(case.window.slots, np.ceil(case.jobs.seconds[row] / 10.0)):
            idle = (found.plan.gpus[row] == 0.0) & (free >= case.jobs.gpus[row])
            assert not idle.any() or gain[row, rounds] <= 0.0


@pytest.mark.parametrize(("count", "seed"), [(5, 4), (8, 1), (12, 11)])
def test_gangs_that_are_wide_for_the_gpus_lose_little_by_counting(count: int, seed: int) -> None:
    """A list rule alone loses up to two fifths in these windows of 8 GPUs, against X by round."""
    rng = np.random.default_rng(seed)
    whole = rng.lognormal(8.3, 1.0, count)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], count, p=[0.5, 0.2, 0.2, 0.1])
    done = rng.uniform(0.0, 0.8, count) * whole
    reached = np.minimum((done[:, None] + 120.0 * np.arange(21)) / whole[:, None], 1.0)
    gain = rng.uniform(0.5, 2.5, count)[:, None] ** 5 * np.diff(np.log(reached), axis=1)
    jobs = RoundJobs(np.arange(count), gpus, gain, whole - done)
    window = Window(0.0, 120.0, 20)
    counted = share_rounds(jobs, window, 8.0, makespan_weight=0.01)
    direct = share_rounds(jobs, window, 8.0, makespan_weight=0.01, direct=True, seconds=60.0)
    assert counted.value >= 0.98 * direct.value


@settings(max_examples=40, deadline=None)
@given(round_cases(simple=False))
def test_slots_chosen_anew_are_no_worse_and_the_same_compiled_and_plain(case: RoundCase) -> None:
    jobs, window, gpus, weight = case
    most = np.minimum(np.ceil(jobs.seconds / 10.0), window.slots).astype(np.int64)
    envelope = spread_out(*concave_pieces(jobs.gain, most))
    assert np.array_equal(envelope, plain(spread_out)(*concave_pieces(jobs.gain, most)))
    alike, there = np.ones((len(most), 1)), np.array([int(gpus)])
    about = jobs.gpus.astype(np.int64), alike, jobs.gain, envelope, most, jobs.seconds, 10.0, there
    empty = np.zeros(jobs.gain.shape, dtype=np.bool_)
    held, twin = empty.copy(), empty.copy()
    exchange(held, Cells(*about, weight))
    plain(exchange)(twin, Cells(*about, weight))
    assert np.array_equal(held, twin)
    assert np.all(jobs.gpus @ held <= gpus)
    assert np.all(held.sum(axis=1) <= most)
    free = case._replace(jobs=jobs._replace(restart=None))
    assert free.worth(tuple(held.sum(axis=1).tolist())) >= -1e-9


@settings(max_examples=60, deadline=None)
@given(round_cases(simple=False))
def test_the_loops_are_the_same_compiled_and_plain(case: RoundCase) -> None:
    gain = case.jobs.gain
    most = np.minimum(np.ceil(case.jobs.seconds / 10.0), case.window.slots).astype(np.int64)
    width, slope = concave_pieces(gain, most)
    again = plain(concave_pieces)(gain, most)
    assert np.array_equal(width, again[0])
    assert np.array_equal(slope, again[1])
    assert np.array_equal(width.sum(axis=1), most)
    for row in range(len(gain)):
        pieces = slope[row][width[row] > 0]
        assert np.all(np.diff(pieces) < 0)
        envelope = np.cumsum(np.repeat(slope[row], width[row]))
        assert np.all(envelope >= np.cumsum(gain[row])[: most[row]] - 1e-12)
    held = np.zeros(gain.shape, dtype=np.bool_)
    twin = held.copy()
    about = case.jobs.gpus, np.ones((len(gain), 1)), gain, most, np.array([case.gpus])
    fill_up(held, *about)
    plain(fill_up)(twin, *about)
    assert np.array_equal(held, twin)


def test_the_longest_job_gets_rounds_for_the_makespan_s_sake() -> None:
    """Both gain alike by a round; what is left of the longer one is the makespan."""
    jobs = RoundJobs(
        number=np.array([0, 1]),
        gpus=np.array([1.0, 1.0]),
        gain=np.full((2, 4), 1.0),
        seconds=np.array([100.0, 1000.0]),
    )
    found = share_rounds(jobs, Window(0.0, 10.0, 4), 1.0, makespan_weight=0.01)
    assert found.rounds.tolist() == [0, 4]


def test_rounds_of_a_job_follow_each_other_and_who_runs_goes_first() -> None:
    jobs = RoundJobs(
        number=np.array([0, 1]),
        gpus=np.array([2.0, 2.0]),
        gain=np.array([[3.0, 2.0, 0.5, 0.1]] * 2),
        seconds=np.array([1000.0, 1000.0]),
        running=np.array([False, True]),
    )
    found = share_rounds(jobs, Window(0.0, 10.0, 4), 2.0)
    assert found.plan.gpus.tolist() == [[0.0, 0.0, 2.0, 2.0], [2.0, 2.0, 0.0, 0.0]]


ONE = RoundJobs(np.array([0]), np.array([1.0]), np.ones((1, 2)), np.array([5.0]))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ONE._replace(gpus=np.array([0.0])), "gpus: each job needs more than none"),
        (ONE._replace(gpus=np.ones(2)), "gpus of 1 jobs has the shape"),
        (ONE._replace(gain=np.ones((1, 3))), "gain of 1 jobs in 2 slots has the shape"),
        (ONE._replace(gain=np.full((1, 2), np.nan)), "gain: a round cannot gain infinitely much"),
        (ONE._replace(seconds=np.array([-1.0])), "seconds: run time that is left"),
        (ONE._replace(restart=np.ones(2)), "restart of 1 jobs has the shape"),
    ],
)
def test_jobs_that_cannot_be_are_an_error_that_names_the_column(
    wrong: RoundJobs, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        share_rounds(wrong, Window(0.0, 10.0, 2), 1.0)


def test_nobody_who_could_run_is_an_empty_plan() -> None:
    too_wide = ONE._replace(gpus=np.array([2.0]))
    found = share_rounds(too_wide, Window(0.0, 10.0, 2), 1.0, makespan_weight=1.0)
    assert (found.value, found.gap) == (0.0, 0.0)
    assert not found.plan.gpus.any()
