"""Series over time: by hand, and against a plain loop on random runs."""

import numpy as np
import pytest
from hypothesis import given
from measured_runs import NAN, Ran, outcomes_of, runs

from volvelle.metrics import series
from volvelle.metrics.outcomes import JobStatus, Outcomes, Steps

# 4 GPUs. A holds 3 over 0-10; B wants 2 and waits 1-10, runs 10-14, is preempted, runs 16-20.
BY_HAND = outcomes_of(
    [Ran(0, [(0, 10, 3)], gpus=3), Ran(1, [(10, 14, 2), (16, 20, 2)], gpus=2)], capacity=4
)


def steps_of(steps: Steps) -> list[tuple[float, float]]:
    return list(zip(steps.times.tolist(), steps.values.tolist(), strict=True))


def test_busy_gpus_change_when_segments_start_and_end() -> None:
    assert steps_of(series.busy_gpus(BY_HAND)) == [(0, 3), (10, 2), (14, 0), (16, 2), (20, 0)]


def test_a_job_waits_until_it_runs_and_again_after_a_preemption() -> None:
    assert steps_of(series.queue_length(BY_HAND)) == [(1, 1), (10, 0), (14, 1), (16, 0)]
    assert steps_of(series.queued_gpus(BY_HAND)) == [(1, 2), (10, 0), (14, 2), (16, 0)]
    assert steps_of(series.demand(BY_HAND)) == [(0, 3), (1, 5), (10, 2), (20, 0)]
    assert steps_of(series.running_jobs(BY_HAND)) == [(0, 1), (14, 0), (16, 1), (20, 0)]


def test_a_gpu_is_fragmented_while_only_wider_gangs_wait() -> None:
    # 1 GPU is free over 1-10 while a gang of 2 waits; at 14-16 4 are free and would fit it
    assert steps_of(series.fragmented_gpus(BY_HAND)) == [(1, 1), (10, 0)]


def test_an_elastic_job_could_use_a_gpu_that_its_request_could_not() -> None:
    jobs = [Ran(0, [(0, 10, 3)], gpus=3), Ran(1, [(10, 14, 2)], gpus=2, min_gpus=1)]
    assert steps_of(series.fragmented_gpus(outcomes_of(jobs, capacity=4))) == []


def test_utilisation_is_an_exact_ratio_of_areas() -> None:
    assert series.utilisation(BY_HAND) == (30 + 8 + 8) / 80
    assert series.utilisation(BY_HAND, 5, 15) == (15 + 8) / 40
    halved = outcomes_of([Ran(0, [(0, 10, 2)])], capacity=[(0, 4), (5, 2)])
    assert series.utilisation(halved) == 20 / 30


def test_makespan_runs_from_first_submission_to_last_departure_of_tracked_jobs() -> None:
    jobs = [Ran(0, [(0, 90, 1)], tracked=False), Ran(5, [(5, 30, 1)]), Ran(7, [(7, 42, 1)])]
    assert series.makespan(outcomes_of(jobs)) == 37
    assert np.isnan(series.makespan(outcomes_of([Ran(0, status=JobStatus.REJECTED)])))


def test_departures_of_jobs_that_did_not_finish() -> None:
    outcomes = outcomes_of(
        [
            Ran(1, [(2, 5, 1)], status=JobStatus.FAILED),
            Ran(2, status=JobStatus.CANCELLED),
            Ran(3, status=JobStatus.REJECTED),
            Ran(4, status=JobStatus.WAITING),
            Ran(5, [(6, NAN, 1)], status=JobStatus.RUNNING),
        ],
        end=9,
    )
    np.testing.assert_array_equal(series.departure(outcomes), [5, 2, 3, 9, 9])
    assert steps_of(series.busy_gpus(outcomes)) == [(2, 1), (5, 0), (6, 1), (9, 0)]


def test_a_segment_of_no_length_is_no_gap() -> None:
    outcomes = outcomes_of([Ran(0, [(5, 5, 1), (5, 9, 1), (9, 9, 1)])])
    assert steps_of(series.queue_length(outcomes)) == [(0, 1), (5, 0)]


def test_percentiles_over_time_are_weighted_by_duration() -> None:
    steps = Steps(np.array([0.0, 6.0, 9.0]), np.array([1.0, 5.0, 2.0]))
    assert series.mean(steps, 0, 10) == (6 + 15 + 2) / 10
    assert series.percentiles(steps, (0, 50, 60, 70, 71, 100), 0, 10) == [
        1, 1, 1, 2, 5, 5,
    ]  # fmt: skip


def test_fractions_of_gpus_add_up_to_none() -> None:
    jobs = [Ran(0, [(0, 3, 0.1)]), Ran(0, [(0, 2, 0.2)]), Ran(0, [(0, 1, 0.3)])]
    assert series.busy_gpus(outcomes_of(jobs)).values.tolist() == [0.6, 0.3, 0.1, 0.0]


def test_a_run_without_jobs_has_empty_series() -> None:
    nothing = outcomes_of([Ran(3, status=JobStatus.REJECTED)])
    assert steps_of(series.queue_length(nothing)) == []
    assert steps_of(series.fragmented_gpus(nothing)) == []
    assert np.isnan(series.utilisation(nothing))


@given(runs())
def test_the_integral_of_busy_gpus_is_the_service_of_all_jobs(outcomes: Outcomes) -> None:
    area = series.integral(series.busy_gpus(outcomes), 0, outcomes.end_time)
    assert area == pytest.approx(outcomes.gpu_seconds.sum())


@given(runs())
def test_utilisation_is_a_share(outcomes: Outcomes) -> None:
    used = series.utilisation(outcomes)
    assert np.isnan(used) or 0 <= used <= 1


@given(runs())
def test_fragmentation_agrees_with_looking_at_every_waiting_job(outcomes: Outcomes) -> None:
    moments = np.arange(0, outcomes.end_time + 1, 0.125)
    jobs, starts, ends = series.waits(outcomes)
    free = series.values_at(outcomes.capacity, moments) - series.values_at(
        series.busy_gpus(outcomes), moments
    )
    expected = []
    for moment, idle in zip(moments, free, strict=True):
        waiting = outcomes.gpus[jobs[(starts <= moment) & (moment < ends)]]
        stuck = len(waiting) and 0 < idle < waiting.min()
        expected.append(idle if stuck else 0.0)
    np.testing.assert_array_equal(
        series.values_at(series.fragmented_gpus(outcomes), moments), expected
    )
