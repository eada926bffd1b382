"""Forecasts of long queues: the first are played out, the rest are told by the work before them."""

import math
from dataclasses import replace

import pytest

from volvelle.incumbents.attach import follow, look_ahead
from volvelle.incumbents.attach.follow import Follower
from volvelle.incumbents.attach.incumbent import Expected
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.forecast import foresee
from volvelle.incumbents.slurm.queue import Queue
from volvelle.incumbents.slurm.site import Config, Node, Partition, Site
from volvelle.incumbents.slurm.snapshot import Job, Snapshot

NOW = 100_000.0


def site(nodes: int) -> Site:
    there = tuple(
        Node(f"n{at}", 8.0, 64_000.0, {"": 4}, partitions=("all",)) for at in range(nodes)
    )
    names = tuple(node.name for node in there)
    keys = {"PriorityType": "priority/basic", "SchedulerParameters": "bf_max_job_test=1000"}
    return Site("lab", "", Config(keys), there, (Partition("all", names, default=True),))


def job(number: int, **more: object) -> Job:
    gpu = {"gres/gpu": 1.0}
    given: dict[str, object] = {
        "user": "ada", "partitions": ("all",), "priority": float(10_000 - number), "per_node": gpu,
        "limit_seconds": 7200.0, "asked": {"cpu": 1.0, "node": 1.0} | gpu, **more,
    }  # fmt: skip
    return Job(key=str(number), id=number, submit=NOW - 100.0, **given)  # type: ignore[arg-type]


def test_the_far_part_of_a_queue_is_told_near_what_playing_it_out_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = Snapshot(NOW, tuple(job(at) for at in range(1, 201)))
    seconds = {one.key: 600.0 + 60.0 * (one.id % 7) for one in snapshot.jobs}
    whole = foresee(site(2), snapshot, seconds)
    monkeypatch.setattr(look_ahead, "MOST", 100)
    monkeypatch.setattr(look_ahead, "NEAR", 60)
    told = foresee(site(2), snapshot, seconds)
    assert told.keys() == whole.keys()
    for key in ("1", "30", "60"):
        assert told[key] == whole[key], "the near part is played out"
    for key in ("80", "120", "200"):
        start, end = told[key].start, told[key].end
        real = whole[key].start
        assert start is not None
        assert end is not None
        assert real is not None
        assert start - NOW == pytest.approx(real - NOW, rel=0.15)
        assert end - start == pytest.approx(seconds[key])
    starts = [told[str(at)].start or 0.0 for at in range(61, 201)]
    assert starts == sorted(starts)


def test_many_running_jobs_end_when_they_are_believed_to() -> None:
    held = {"cpu": 1.0, "gres/gpu": 1.0}
    running = [
        job(at, state="RUNNING", start=NOW - 10.0 * at, nodes=(f"n{at % 150}",), held=held)
        for at in range(1, 301)
    ]  # fmt: skip
    seconds = {one.key: 5000.0 + one.id for one in running}
    found = foresee(site(150), Snapshot(NOW, tuple(running)), seconds)
    for one in running:
        assert one.start is not None
        assert found[one.key].end == pytest.approx(one.start + seconds[one.key], abs=1.0)


def test_of_a_long_queue_a_part_is_followed_and_the_rest_is_told_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow, "_FOLLOWED", 50)
    jobs = tuple(job(at) for at in range(1, 201))
    starts = {one.key: Expected(NOW + 60.0 * one.id, NOW + 60.0 * one.id + 600.0) for one in jobs}
    follower = Follower(site(2), replace(incumbent(), foresee=lambda *_: starts))
    follower.observe(Snapshot(NOW, jobs))
    told = follower.tell()
    assert [one.key for one in told] == [one.key for one in jobs]
    scale = 30.0 + 20.0  # bf_interval and the launch: what times are counted from
    ratios = [(one.start_p90 - NOW + scale) / (one.start - NOW + scale) for one in told]
    assert ratios == pytest.approx([ratios[3]] * 200), "before any start one score holds for all"
    begun = tuple(
        replace(one, state="RUNNING", start=NOW + 50.0, nodes=("n0",)) if one.id <= 8 else one
        for one in jobs
    )
    follower.observe(Snapshot(NOW + 60.0, begun))
    assert len(follower.accuracy.starts) == 2, "of jobs 4 and 8"
    again = follower.tell()
    assert len(again) == 200
    assert all(one.start <= one.start_p90 and one.end <= one.end_p90 for one in again)


def test_rows_are_given_in_the_same_order_by_a_queue_that_is_read_from_a_snapshot() -> None:
    queue, turn = Queue(), (0, 0, 0)
    for number in range(6):
        queue.add(number, 2, turn, math.nan)
    queue.drop(3)
    queue.drop(1)
    read = replace(queue, rows=queue.rows.copy())  # what is derived is derived anew
    for each in (queue, read):
        for number in range(6, 9):
            each.add(number, 2, turn, math.nan)
    assert read.rows == queue.rows
