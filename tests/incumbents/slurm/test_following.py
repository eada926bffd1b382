"""Following a cluster: what is learned from starts, ends, requeues, numbers given twice, clocks that jump."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.incumbents.attach.accuracy import Accuracy, Told
from volvelle.incumbents.attach.follow import Attached, Follower
from volvelle.incumbents.attach.listing import summary
from volvelle.incumbents.attach.run_times import Curve, RunTimes
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.site import Config, Partition, Qos, Site
from volvelle.incumbents.slurm.snapshot import Job, Snapshot

SITE = Site("small", partitions=(Partition("all", default_seconds=100.0),))


@dataclass
class Course:
    """What `at_once` expects."""

    start: float | None
    end: float | None
    why: str = ""


def at_once(
    site: Site, snapshot: Snapshot, durations: Mapping[str, float], /
) -> Mapping[str, Course]:
    """A mechanism on a cluster without end: who waits starts now; of held jobs nothing is foreseen."""
    return {
        job.key: Course(start, start + durations[job.key])
        for job in snapshot.jobs
        if job.reason != "JobHeldUser" and (job.pending or job.running)
        for start in [job.start if job.running and job.start else snapshot.time]
    }


AT_ONCE = replace(incumbent(), foresee=at_once)


def job(key: str = "1", state: str = "PENDING", **more: object) -> Job:
    given: dict[str, object] = {
        "key": key,
        "id": int(key.partition("_")[0]),
        "submit": 10.0,
        "user": "u1",
        "name": "a",
        "state": state,
        "partitions": ("all",),
        "limit_seconds": 100.0,
    }
    return Job(**(given | more))  # type: ignore[arg-type]


GROUPS = SITE.groups(job())


def follower(*snapshots: tuple[float, list[Job]]) -> Attached:
    found = Follower(SITE, AT_ONCE)
    for time, jobs in snapshots:
        found.observe(Snapshot(time, tuple(jobs)))
        found.tell()
    return found


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.floats(0.05, 0.95))
def test_without_lower_bounds_quantiles_are_those_of_the_values(
    values: list[int], share: float
) -> None:
    array = np.array(values, dtype=float)
    curve = Curve(array, np.ones(len(array), dtype=bool), np.ones(len(array)))
    found = curve.quantile(share)
    assert np.mean(array <= found) >= share - 1e-9
    assert np.mean(array < found) < share


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), min_size=1), st.floats(0.1, 0.9))
def test_lower_bounds_never_make_a_quantile_smaller(
    given_values: list[tuple[int, bool]], share: float
) -> None:
    values = np.array([value for value, _ in given_values], dtype=float)
    ended = np.array([over for _, over in given_values])
    ones = np.ones(len(values))
    all_ended = Curve(values, np.ones(len(values), dtype=bool), ones)
    assert Curve(values, ended, ones).quantile(share) >= all_ended.quantile(share)


def test_run_times_are_learned_by_user_and_name() -> None:
    times = RunTimes()
    for _ in range(10):
        times.add(GROUPS, 20.0, 100.0, ended=True)
        times.add(SITE.groups(job(user="u2")), 80.0, 100.0, ended=True)
    assert times.believed(GROUPS, 100.0) == pytest.approx(20.0)
    assert times.believed(SITE.groups(job(limit_seconds=200.0)), 200.0) == pytest.approx(40.0)
    assert times.believed(SITE.groups(job(user="u2")), 100.0) == pytest.approx(80.0)
    assert times.believed(GROUPS, 100.0, so_far=50.0) > 50.0


def test_without_a_limit_run_times_are_seconds_that_nothing_bounds() -> None:
    times, groups = RunTimes(), [("long",), ()]
    assert 1800.0 < times.believed(groups, None) <= 86400.0
    for _ in range(10):
        times.add(groups, 300_000.0, None, ended=True)
    assert times.believed(groups, None) == pytest.approx(300_000.0)
    assert times.believed(groups, None, so_far=400_000.0) > 400_000.0


def test_runs_that_go_on_are_lower_bounds() -> None:
    times = RunTimes()
    for _ in range(4):
        times.add(GROUPS, 20.0, 100.0, ended=True)
    before = times.believed(GROUPS, 100.0)
    times.now((GROUPS, 90.0, 100.0) for _ in range(2, 12))
    assert times.believed(GROUPS, 100.0) > before == pytest.approx(20.0)


def test_a_requeued_job_teaches_a_lower_bound_and_its_start_is_judged() -> None:
    found = follower(
        (20.0, [job()]),
        (30.0, [job(state="RUNNING", start=22.0)]),
        (50.0, [job(submit=45.0, restarts=1, reason="BeginTime")]),
    )
    [judged] = found.accuracy.starts
    assert judged.error == 2.0
    after = follower((20.0, [job()]), (30.0, [job(state="RUNNING", start=22.0)]))
    assert found.believed()["1"] >= after.believed()["1"]


def test_a_number_that_was_given_again_is_another_job() -> None:
    found = follower((20.0, [job()]), (60.0, [job(submit=50.0, state="RUNNING", start=55.0)]))
    assert (
        not found.accuracy.starts
    )  # what was told of the first is not judged by the second's start
    assert found.tell()[0].key == "1"


def test_a_purged_job_is_forgotten() -> None:
    found = follower((20.0, [job()]), (30.0, []), (40.0, [job(state="RUNNING", start=35.0)]))
    assert not found.accuracy.starts


def test_a_clock_that_goes_back_is_said_and_nothing_is_judged_by_it() -> None:
    found = follower((2000.0, [job()]), (500.0, [job(state="RUNNING", start=490.0)]))
    assert any("clock went back by 1500 s" in remark for remark in found.remarks)
    assert not found.accuracy.starts


def test_every_job_that_waits_has_an_answer_and_p90_is_not_before_p50() -> None:
    found = Follower(SITE, AT_ONCE)
    found.observe(
        Snapshot(20.0, (job(), job("2", reason="JobHeldUser"), job("3_1", array=3, task=1)))
    )
    told = {one.key: one for one in found.tell()}
    assert set(told) == {"1", "2", "3_1"}
    assert all(
        20.0 <= one.start <= one.start_p90 and one.end <= one.end_p90 for one in told.values()
    )


def test_slurms_own_times_are_judged_on_the_same_instants() -> None:
    found = follower(
        (20.0, [job(start=100.0), job("2")]),
        (30.0, [job(state="RUNNING", start=22.0), job("2", state="RUNNING", start=25.0)]),
    )
    line = found.accuracy.line()
    assert "over 2 told starts" in line
    assert "Slurm: 100% by its time, mean 78 s, median 78 s, 50% without an answer" in line


def test_starts_that_do_not_come_widen_what_is_told_of_the_next() -> None:
    def width_of_the_last(*, come: bool) -> float:
        found, width = Follower(SITE, AT_ONCE), 0.0
        for poll in range(40):
            now, newest = 1000.0 + 60.0 * poll, str(poll)
            earlier = [
                job(str(n), "RUNNING", submit=now, start=now - 60.0) if come else job(str(n))
                for n in range(poll)
            ]
            found.observe(Snapshot(now, (*earlier, job(newest, submit=now))))
            told = next(one for one in found.tell() if one.key == newest)
            width = told.start_p90 - told.start
        return width

    assert width_of_the_last(come=False) > 2.0 * width_of_the_last(come=True)


def test_who_may_be_stopped_depends_on_the_kind_of_preemption() -> None:
    low = Partition("low", tier=1, preempt_mode="REQUEUE")
    high = Partition("high", tier=3, preempt_mode="OFF")
    by_tier = replace(
        SITE,
        config=Config({"PreemptType": "preempt/partition_prio"}),
        partitions=(low, high),
    )
    assert by_tier.preemptible(job(partitions=("low",)))
    assert not by_tier.preemptible(job(partitions=("high",)))
    by_qos = replace(
        SITE,
        config=Config({"PreemptType": "preempt/qos"}),
        qos=(Qos("high", preempts=frozenset({"normal"})), Qos("normal")),
    )
    assert by_qos.preemptible(job(qos="normal"))
    assert not by_qos.preemptible(job(qos="high"))
    assert not SITE.preemptible(job())


def test_a_job_that_waits_for_long_is_judged_by_few_instants_that_stand_for_all() -> None:
    accuracy = Accuracy()
    for at in range(1000):
        accuracy.told(float(at), Told("1", 500.0, 900.0, 0.0, 0.0, None), None)
    accuracy.started("1", 1000.0)
    assert len(accuracy.starts) < 200
    ours, theirs = accuracy.of_starts()
    assert theirs is None
    assert ours is not None
    assert (ours.polls, ours.held, ours.mean, ours.median) == (1000, 0.0, 500.0, 500.0)


def test_a_summary_has_the_jobs_that_slurm_shows_no_more() -> None:
    """MinJobAge purges a job some minutes after its end; the summary is of a week."""
    ran = job("1", "RUNNING", start=20.0, eligible=10.0)
    done = job("1", "COMPLETED", start=20.0, end=80.0, eligible=10.0)
    found = follower((30.0, [ran]), (90.0, [done]), (700.0, [job("2")]), (760.0, [job("2")]))
    words = list(summary(found, 0.0))
    assert words[1].startswith("1 jobs ended")
    assert "u1: 1 jobs, waits median 10s, longest 10s" in words
