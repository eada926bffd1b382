"""What starting, stopping and resizing cost, on examples worked out by hand."""

import pytest

from volvelle.core.events import JobStarted, JobStopped
from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.testing.scenario import Run, Scenario, happen, linear_job


def events_of(run: Run, kind: type) -> list[tuple[float, int]]:
    return [
        (event.time, getattr(event, "number", -1))
        for entry in run.journal.entries
        for event in entry.events
        if isinstance(event, kind)
    ]


def segments_of(run: Run, number: int) -> list[tuple[float, float, float]]:
    segments = run.outcomes.segments
    return [
        (start, end, gpus)
        for job, start, end, gpus in zip(
            segments.job, segments.start, segments.end, segments.gpus, strict=True
        )
        if job == number
    ]


def test_a_first_start_costs_the_start() -> None:
    scenario = Scenario.of(
        parse_cluster("1x1"), [linear_job(0, 5.0, 1.0, 10.0)], overheads=Overheads(start=3.0)
    )
    run = happen(scenario)
    assert segments_of(run, 0) == [(5.0, 18.0, 1.0)]


@pytest.mark.parametrize("placement", ["none", "first-free"])
def test_a_preempted_job_pays_checkpoint_and_restore_and_its_follower_waits(placement: str) -> None:
    """A long job is stopped at 10 s; its GPUs are free at 14 s; the short one runs 14 s to 24 s.

    The long one resumes at 24 s, restores until 26 s, and does its other 90 s until 116 s.
    """
    jobs = [linear_job(0, 0.0, 2.0, 100.0), linear_job(1, 10.0, 2.0, 10.0)]
    overheads = Overheads(checkpoint=4.0, restore=2.0)
    run = happen(
        Scenario.of(
            parse_cluster("1x2"), jobs, policy="srtf", placement=placement, overheads=overheads
        )
    )
    assert segments_of(run, 0) == [(0.0, 14.0, 2.0), (24.0, 116.0, 2.0)]
    assert segments_of(run, 1) == [(14.0, 24.0, 2.0)]
    assert events_of(run, JobStopped) == [(14.0, 0)]
    assert events_of(run, JobStarted) == [(10.0, 1)]
    assert run.outcomes.gpu_seconds.tolist() == [2 * (14 + 92), 20.0]
    assert run.outcomes.first_start.tolist() == [0.0, 14.0]
    assert run.outcomes.preemptions.tolist() == [1, 0]


def test_only_as_many_wait_as_there_are_gpus_short() -> None:
    """Of four GPUs one is idle and three checkpoint: a job of one starts at once, one of two later."""
    jobs = [
        linear_job(0, 0.0, 3.0, 100.0),
        linear_job(1, 10.0, 1.0, 5.0),
        linear_job(2, 10.0, 2.0, 6.0),
    ]
    run = happen(
        Scenario.of(parse_cluster("1x4"), jobs, policy="srtf", overheads=Overheads(checkpoint=4.0))
    )
    assert segments_of(run, 1) == [(10.0, 15.0, 1.0)]
    assert segments_of(run, 2) == [(14.0, 20.0, 2.0)]


def test_a_job_does_not_resume_before_its_own_checkpoint_is_written() -> None:
    """Stopped at 10 s until 40 s; the job that displaced it ends at 45 s on the other GPUs' release.

    The displaced job finds free GPUs at 12 s, while it still writes its checkpoint.
    """
    jobs = [
        linear_job(0, 0.0, 1.0, 12.0, preemptible=False),
        linear_job(1, 0.0, 1.0, 100.0),
        linear_job(2, 10.0, 1.0, 5.0),
    ]
    run = happen(
        Scenario.of(
            parse_cluster("1x2"),
            jobs,
            policy="srtf",
            placement="first-free",
            overheads=Overheads(checkpoint=30.0),
        )
    )
    assert segments_of(run, 1) == [(0.0, 40.0, 1.0), (40.0, 130.0, 1.0)]


def test_a_job_stopped_twice_within_a_checkpoint_keeps_its_work() -> None:
    """As above, and at 20 s a short job takes the GPU that the displaced one waits to resume on."""
    jobs = [
        linear_job(0, 0.0, 1.0, 12.0, preemptible=False),
        linear_job(1, 0.0, 1.0, 100.0),
        linear_job(2, 10.0, 1.0, 5.0),
        linear_job(3, 20.0, 1.0, 1.0),
    ]
    run = happen(
        Scenario.of(parse_cluster("1x2"), jobs, policy="srtf", overheads=Overheads(checkpoint=30.0))
    )
    assert run.outcomes.preemptions.tolist() == [0, 2, 0, 0]
    assert run.outcomes.finish.tolist() == [12.0, 130.0, 45.0, 21.0]


def test_a_stop_before_any_progress_costs_nothing() -> None:
    """The restore of 20 s is cut off after 5 s: nothing is to be saved."""
    jobs = [linear_job(0, 0.0, 1.0, 100.0), linear_job(1, 5.0, 1.0, 10.0)]
    run = happen(
        Scenario.of(
            parse_cluster("1x1"),
            jobs,
            policy="srtf",
            overheads=Overheads(start=20.0, checkpoint=4.0, restore=1.0),
        )
    )
    assert events_of(run, JobStopped) == []
    assert segments_of(run, 1) == [(5.0, 35.0, 1.0)]
    assert segments_of(run, 0) == [(0.0, 5.0, 1.0), (35.0, 136.0, 1.0)]


def test_a_resize_costs_checkpoint_and_restore_on_the_new_gpus() -> None:
    """Four GPUs for 10 s (40 of 100 done), then two: 3 s of overhead, the other 60 take 30 s."""
    jobs = [
        linear_job(0, 0.0, 2.0, 50.0, min_gpus=2.0, max_gpus=4.0),
        linear_job(1, 10.0, 2.0, 200.0),
    ]
    run = happen(
        Scenario.of(
            parse_cluster("1x4"),
            jobs,
            policy="max-min",
            overheads=Overheads(checkpoint=1.0, restore=2.0),
        )
    )
    assert segments_of(run, 0) == [(0.0, 10.0, 4.0), (10.0, 43.0, 2.0)]
    assert run.outcomes.preemptions.tolist() == [0, 0]


def test_what_a_job_says_of_its_own_costs_counts() -> None:
    overheads = Overheads(checkpoint=1.0, restore=2.0)
    spec = linear_job(0, 0.0, 1.0, 1.0).spec
    assert overheads.gap_seconds(spec, resumed=True, resized=False) == 2.0
    assert overheads.gap_seconds(spec, resumed=True, resized=True) == 3.0


def test_a_start_withdrawn_before_its_gpus_came_free_did_nothing() -> None:
    """The checkpoint of job 0 lasts until 110 s. Job 1, due the GPU from 10 s, yields it to job 2 at 60 s."""
    jobs = [
        linear_job(0, 0.0, 1.0, 500.0),
        linear_job(1, 10.0, 1.0, 100.0),
        linear_job(2, 60.0, 1.0, 5.0),
    ]
    run = happen(
        Scenario.of(
            parse_cluster("1x1"), jobs, policy="srtf", overheads=Overheads(checkpoint=100.0)
        )
    )
    assert segments_of(run, 2) == [(110.0, 115.0, 1.0)]
    assert segments_of(run, 1) == [(115.0, 215.0, 1.0)]
    assert run.outcomes.first_start.tolist() == [0.0, 115.0, 110.0]
    assert run.outcomes.gpu_seconds.tolist() == [110.0 + 490.0, 100.0, 5.0]
