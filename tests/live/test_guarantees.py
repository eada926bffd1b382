"""What a live job is guaranteed: told at once, kept over a crash, revoked where it is not kept."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from fake_cluster import ControllerHarness, sleeping
from waiting import until

from volvelle.cli import formatting
from volvelle.live.control.requests import Cancel, Hold, Release
from volvelle.live.forecasts.calibration import PastForecast
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptEnded
from volvelle.live.request_parts import Deadline
from volvelle.live.scheduler_queries import starts_over
from volvelle.live.status.view import NO_GUARANTEES, Guarantee, JobState, JobStatusView


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path, "1x2", "srtf", admission="deadlines")


def foretell(harness: ControllerHarness, request: JobRequest) -> JobForecast:
    """The answer of a dry run, which another thread waits for."""
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(harness.controller.forks.forecast, request, "ada")

        def answered() -> bool:
            harness.deliver()
            return asked.done()

        until(answered)
        return asked.result()


def due(seconds: float, within: float, *, accept_later: bool = False) -> JobRequest:
    deadline = Deadline(within=within, accept_later=accept_later)
    return sleeping(seconds, gpus=2, deadline=deadline)


def shown(harness: ControllerHarness, number: int) -> JobStatusView:
    return harness.controller.status.jobs[number]


def guarantee(harness: ControllerHarness, number: int) -> Guarantee:
    found = shown(harness, number).guarantee
    assert found is not None
    return found


def test_a_user_is_told_at_once_and_after_a_crash_it_still_holds(
    harness: ControllerHarness,
) -> None:
    harness.submit(sleeping(100.0, gpus=2))
    kept = harness.submit(due(200.0, 400.0))
    foretold = foretell(harness, due(300.0, 500.0))
    refused = harness.submit(due(300.0, 500.0))
    later = harness.submit(due(300.0, 500.0, accept_later=True))
    began = shown(harness, kept).submitted
    assert guarantee(harness, kept).finish_by == pytest.approx(began + 400.0)
    assert guarantee(harness, kept).step == 0
    assert foretold.guarantee is not None
    assert foretold.guarantee.finish_by is None
    assert foretold.guarantee.reason == "it would finish 1m 40s after its deadline"
    assert guarantee(harness, refused).earliest == pytest.approx(began + 630.0)
    assert guarantee(harness, later).finish_by == pytest.approx(began + 945.0)
    told = {number: guarantee(harness, number) for number in (kept, refused, later)}
    harness.crash()
    harness.deliver()
    assert {number: guarantee(harness, number) for number in told} == told


def test_p50_is_no_later_than_a_guarantee_that_the_forecast_keeps(
    harness: ControllerHarness,
) -> None:
    """Jobs took twice as long as forecast, so that P50 alone lies beyond the forecast and its slack."""
    calibration = harness.controller._loop.forecaster.calibration
    calibration.replay(
        PastForecast(n, 1e3 * n, 1e3 * n + 100.0, 2.0, 100.0, 1e3 * n + 200.0)
        for n in range(-60, -1)
    )
    request = due(100.0, 50.0, accept_later=True)
    plain, told = foretell(harness, sleeping(100.0, gpus=2)), foretell(harness, request)
    assert told.guarantee is not None
    finish_by = told.guarantee.finish_by
    assert finish_by is not None
    assert plain.p50 is not None
    assert told.p50 == finish_by < plain.p50
    assert told.p90 == plain.p90
    number = harness.submit(request)
    fork = harness.controller._cycle.state.scheduler.fork()
    times = forecast_jobs(fork, fork.now, calibration, fork.now).times[number]
    assert times.p50 is not None
    assert times.p50 == fork.promises[number].finish_by


def test_a_dry_run_is_not_told_the_guarantee_of_a_job_that_is_over(
    harness: ControllerHarness,
) -> None:
    harness.submit(due(20.0, 400.0))
    for _ in range(4):
        harness.step(10.0)
    assert not harness.controller.status.jobs
    assert foretell(harness, sleeping(100.0, gpus=2)).guarantee is None


def test_a_guarantee_is_revoked_when_it_becomes_impossible(harness: ControllerHarness) -> None:
    late = harness.submit(sleeping(300.0, gpus=2, estimate=100.0))
    number = harness.submit(due(200.0, 350.0))
    assert guarantee(harness, number).finish_by is not None
    began = shown(harness, number).submitted
    for _ in range(14):
        harness.step(10.0)
    assert guarantee(harness, number).finish_by == pytest.approx(began + 350.0)
    for _ in range(2):
        harness.step(10.0)
    assert late in harness.controller.status.jobs
    revoked = guarantee(harness, number)
    assert revoked.finish_by is None
    assert revoked.earliest == pytest.approx(began + 350.0, abs=20.0)
    more = "200 s of work are left at least, 10 s more than until the guaranteed time"
    assert revoked.reason == more
    assert revoked.revoked == pytest.approx(began + 350.0)
    job = {"guarantee": {**asdict(revoked), "earliest": None}, "state": "finished"}
    said = formatting.format_kept(job, datetime.fromtimestamp(began, UTC))
    assert said.startswith("guaranteed until ")
    assert ", then revoked: 200 s of work are left" in said
    barely = {**asdict(revoked), "revoked": began, "earliest": began + 0.1}
    told = formatting.format_guarantee(barely, datetime.fromtimestamp(began, UTC))
    assert told.endswith(
        f"; earliest about {datetime.fromtimestamp(began + 1.0, UTC):%H:%M:%S}, an estimate"
    )


def plain(seconds: float, within: float | None = None) -> JobRequest:
    """A script that saves nothing, and with a deadline is guaranteed a later finish where need be."""
    deadline = None if within is None else Deadline(within=within, accept_later=True)
    command = ("plain", f"{seconds:g}")
    return JobRequest(command=command, gpus=2, estimate=seconds, deadline=deadline)


def test_jobs_that_come_later_break_no_guarantee_though_a_stopped_script_begins_again(
    tmp_path: Path,
) -> None:
    harness = ControllerHarness.at(tmp_path, "1x2", "srsf", admission="deadlines")
    first, last = harness.submit(plain(30.0, 40.0)), harness.submit(plain(30.0, 10.0))
    told = {number: guarantee(harness, number).finish_by for number in (first, last)}
    assert None not in told.values()
    harness.step(10.0)
    assert starts_over(harness.controller._cycle.state.scheduler, first)
    long, short = harness.submit(plain(22.0)), harness.submit(plain(3.0))
    assert not shown(harness, short).started
    for _ in range(100):
        harness.step(1.0)
        if not harness.controller.status.jobs:
            break
    ends = {}
    for number in (first, last, long, short):
        record = harness.controller.store.jobs.find(number)
        assert record is not None and record.status is not None
        ends[number] = record.status["ended"]
        if number in told:
            assert record.status["guarantee"]["finish_by"] == told[number]
            assert ends[number] <= told[number]
    assert ends[first] < ends[last]


@pytest.mark.parametrize("then", ["again", "held", "cancelled"])
def test_a_job_that_is_stopped_for_a_guarantee_waits_also_through_a_crash(
    tmp_path: Path, then: str
) -> None:
    """It was to take 10 s, and goes on; the second has to begin after 20 s."""
    harness = ControllerHarness.at(tmp_path, "1x2", "fifo", admission="deadlines")
    request = JobRequest(command=("plain", "40"), gpus=2, estimate=10.0)
    longer, guaranteed = harness.submit(request), harness.submit(due(20.0, 40.0))
    while shown(harness, guaranteed).state is not JobState.RUNNING:
        harness.step(0.25)
    assert shown(harness, longer).submitted + 20.0 >= harness.controller.status.time
    for snapshot in (True, False):
        harness.crash(snapshot=snapshot)
        harness.deliver()
        assert shown(harness, longer).state is JobState.WAITING
        assert shown(harness, longer).preemptions == 1
    if then == "held":
        harness.execute(Hold(longer))
        assert shown(harness, longer).state is JobState.HELD
    elif then == "cancelled":
        harness.execute(Cancel(longer))
    for _ in range(90):
        harness.step(0.25)
    record = harness.controller.store.jobs.find(guaranteed)
    assert record is not None and record.status is not None
    assert record.status["ended"] <= record.status["guarantee"]["finish_by"]
    state = harness.controller.status.jobs[longer].state if then != "cancelled" else None
    assert state is {"again": JobState.RUNNING, "held": JobState.HELD}.get(then)
    if then == "held":
        harness.execute(Release(longer))
        harness.step(1.0)
        assert shown(harness, longer).state is JobState.RUNNING


def test_a_script_that_counts_iterations_is_taken_to_save_from_then_on(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x2", "srsf", admission="deadlines")
    declared = sleeping(30, 2, checkpoint={"path": "here"})
    number, other = harness.submit(sleeping(20, 2)), harness.submit(declared)

    def lost(job: int) -> bool:
        return starts_over(harness.controller._cycle.state.scheduler, job)

    assert (lost(number), lost(other)) == (True, False)
    harness.step(5.0)
    harness.fake_cluster.report_progress()
    harness.deliver()
    assert not lost(number)
    for snapshot in (True, False):
        harness.crash(snapshot=snapshot)
        harness.deliver()
        assert not lost(number)


def test_a_server_that_promises_nothing_says_so_at_once_and_what_was_missed(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x2", "fifo")
    foretold = foretell(harness, due(30.0, 10.0))
    number = harness.submit(due(30.0, 10.0))
    waiting = harness.submit(sleeping(5.0, gpus=2))
    view = shown(harness, number)
    assert foretold.guarantee == view.guarantee == NO_GUARANTEES
    assert (view.due, shown(harness, waiting).due) == (view.submitted + 10.0, None)
    assert shown(harness, waiting).guarantee is None
    for _ in range(4):
        harness.step(10.0)
    record = harness.controller.store.jobs.find(number)
    assert record is not None
    assert record.status is not None
    ended = record.status
    now = datetime.fromtimestamp(ended["ended"], UTC)
    assert ended["guarantee"]["reason"] == NO_GUARANTEES.reason
    assert "missed by 2" in formatting.format_deadline(ended, now)
    assert formatting.format_missed(ended | {"due": ended["ended"]}) == "kept"
    assert formatting.format_missed(ended | {"state": "failed"}) == "missed: it failed"
    assert formatting.format_missed(ended | {"state": "rejected"}) == "missed: it was rejected"
    assert formatting.format_missed(ended | {"due": None}) == ""
    both = ended | {"guarantee": {"finish_by": ended["ended"] + 2.0}, "due": ended["ended"] - 39.0}
    assert formatting.format_promises(both) == "guarantee kept, deadline missed by 39s"
    both["guarantee"] = {"finish_by": None, "revoked": 1.0}
    assert formatting.format_promises(both) == "guarantee revoked, deadline missed by 39s"


@pytest.mark.parametrize(
    ("p50", "p90", "said"),
    [
        (90.0, 100.0, ""),
        (90.0, 160.0, ", at risk: up to 1m 00s too late"),
        (220.0, 300.0, ", expected 2m 00s too late"),
        (None, None, ""),
    ],
)
def test_a_guarantee_that_the_forecast_exceeds_is_said_to_be_at_risk(
    p50: float | None, p90: float | None, said: str
) -> None:
    job = {
        "guarantee": {"finish_by": 100.0},
        "predicted_p50": p50,
        "predicted_p90": p90,
        "guessed": False,
    }
    assert formatting.format_risk(job) == said
    assert formatting.format_risk(job | {"guarantee": None, "due": 100.0}) == said
    assert formatting.format_risk(job | {"guarantee": {"finish_by": None}}) == ""
    assert formatting.format_risk(job | {"predicted_p50": 90.0, "guessed": True}) == ""


def test_a_dry_run_of_an_array_says_how_many_are_guaranteed(harness: ControllerHarness) -> None:
    request = due(10, within=25).model_copy(update={"array": 3})
    found = foretell(harness, request)
    assert (found.guaranteed, found.rejected) == (2, 0)
    assert found.start is not None and found.p50 is not None and found.guarantee is not None
    assert found.p50 - found.start == pytest.approx(30, abs=1)
    assert found.guarantee.finish_by is None


def ended_while_no_server_ran(folder: Path, ago: float) -> tuple[ControllerHarness, AttemptEnded]:
    """A job that is to end after 5 s, by 8 s at the latest, and does so ``ago`` seconds before it is 11 s.

    Its server is down until then; its node has not come back, and reports the end when it does.
    """
    harness = ControllerHarness.at(folder, "1x2", "easy", admission="deadlines")
    number = harness.submit(plain(11.0 - ago, 8.0).model_copy(update={"estimate": 5.0}))
    began = shown(harness, number).submitted
    assert guarantee(harness, number).finish_by == pytest.approx(began + 8.0)
    harness.fake_cluster.pass_time(11.0 - ago)
    harness.fake_cluster.pass_time(ago)
    harness.fake_cluster.outbox.clear()
    harness.fake_cluster.up.clear()
    harness.fake_cluster.silent.add("node-0")
    harness.crash()
    (end,) = harness.fake_cluster.ended.values()
    return harness, msgspec.structs.replace(end, ago=ago)


@pytest.mark.parametrize(("ago", "said"), [(4.0, "guarantee kept"), (1.0, "guarantee revoked")])
def test_an_end_before_the_guaranteed_time_keeps_it_however_late_it_is_reported(
    tmp_path: Path, ago: float, said: str
) -> None:
    harness, end = ended_while_no_server_ran(tmp_path, ago)
    harness.controller.step()
    assert guarantee(harness, end.number).revoked is not None
    harness.controller.report(end)
    harness.fake_cluster.join("node-0")
    harness.deliver()
    record = harness.controller.store.jobs.find(end.number)
    assert record is not None and record.status is not None
    assert record.status["ended"] == pytest.approx(record.submitted + 11.0 - ago)
    assert formatting.format_promises(record.status | {"due": None}) == said


def test_a_server_that_starts_hears_of_ends_before_it_revokes_a_guarantee(tmp_path: Path) -> None:
    harness, end = ended_while_no_server_ran(tmp_path, 4.0)
    controller = harness.controller
    controller._loop.start()
    try:
        controller.report(end)
        harness.fake_cluster.join("node-0")
        until(lambda: not controller.status.jobs)
        promises = [p for each in controller.store.entries() for p in each.entry.decision.promises]
        assert [given.finish_by is not None for given in promises] == [True]
    finally:
        controller.stop()
