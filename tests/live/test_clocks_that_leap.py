"""A wall clock that is wrong for a while: the server's time returns, and nothing is lost by it."""

from itertools import pairwise
from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping

from volvelle.live.control.clock import Dates
from volvelle.live.control.requests import Submit
from volvelle.live.records import ClockSet
from volvelle.live.status.view import JobStatusView
from volvelle.model.units import DAY


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    """Two jobs on one GPU, the first at work for ten seconds."""
    made = ControllerHarness.at(tmp_path, "1x1")
    for _ in range(2):
        made.controller.request(Submit("ada", sleeping(5000)))
    made.step(10)
    return made


def dates(harness: ControllerHarness) -> list[tuple[float, float | None]]:
    """When jobs were submitted and started, as is shown."""
    jobs: list[JobStatusView] = list(harness.controller.status.jobs.values())
    return [(job.submitted, job.started) for job in jobs]


def shown_ahead(harness: ControllerHarness) -> float:
    """Seconds that dates of the present are ahead of the true ones."""
    controller = harness.controller
    return controller._cycle.state.epoch + controller._clock.now() - harness.fake_cluster.now


def stand(harness: ControllerHarness, seconds: float = 700.0) -> None:
    """Let time pass in steps of a minute at most, as cycles follow each other."""
    for _ in range(int(seconds / 50)):
        harness.step(50)


def assert_all_ran_once_in_order(harness: ControllerHarness) -> None:
    stand(harness, 10_500)
    assert not harness.controller.status.jobs
    kinds = [(kind, number) for _, kind, number, _ in harness.fake_cluster.history]
    assert kinds == [("start", 0), ("finished", 0), ("start", 1), ("finished", 1)]
    assert_in_order(harness)


def assert_in_order(harness: ControllerHarness) -> None:
    times = [stored.entry.time for stored in harness.controller.store.entries()]
    assert all(before <= after for before, after in pairwise(times))


def test_a_start_goes_by_the_clock_since_boot_where_the_wall_clock_leapt(
    harness: ControllerHarness,
) -> None:
    before = dates(harness)
    harness.fake_cluster.wall_ahead = 40 * DAY
    harness.crash()
    harness.step(10)
    assert abs(shown_ahead(harness)) < 1.0
    assert "40 days ahead of the server's" in str(harness.controller.health.problems)
    harness.fake_cluster.wall_ahead = 0.0
    harness.step(10)
    assert harness.controller.health.problems == ()
    assert dates(harness) == before
    assert_all_ran_once_in_order(harness)


@pytest.mark.parametrize("snapshot", [True, False])
def test_the_time_returns_when_a_machine_had_booted_with_a_wrong_clock(
    harness: ControllerHarness, snapshot: bool
) -> None:
    before = dates(harness)
    harness.fake_cluster.wall_ahead, harness.fake_cluster.boot = 40 * DAY, "second"
    harness.crash(snapshot=snapshot)
    harness.step(10)
    assert shown_ahead(harness) == pytest.approx(31 * DAY, abs=10.0)
    harness.controller.request(Submit("ada", sleeping(100)))
    harness.step(10)
    submitted = harness.fake_cluster.now - 10.0
    harness.fake_cluster.wall_ahead = 0.0
    stand(harness)
    assert abs(shown_ahead(harness)) < 60.0
    assert harness.controller.health.problems == ()
    assert harness.controller._clock.earliest() < DAY
    harness.controller.request(Submit("ada", sleeping(100)))
    harness.step(10)
    loads = [point.time for point in harness.controller.load]
    assert loads == sorted(loads)
    after = dates(harness)
    assert after[:2] == before
    assert after[2][0] == pytest.approx(submitted, abs=20.0)
    harness.crash(snapshot=snapshot)
    harness.step(10)
    assert abs(shown_ahead(harness)) < 60.0
    assert dates(harness) == after
    assert harness.controller._clock.earliest() < DAY
    assert_in_order(harness)


@pytest.mark.parametrize("days", [31, -31])
def test_a_date_is_found_in_the_journal_after_the_clock_was_set(days: int) -> None:
    """The clock, ahead of the time that passed since 100 (or behind), was set right at 31 days (or then)."""
    dates, now = Dates(1e9), 100.0 + max(days, 0) * DAY
    dates.set(ClockSet(since=100.0, epoch=1e9 - days * DAY))
    for moment in (0.0, 50.0, 100.0, now + 1.0, now + 500.0):
        assert dates.time(dates.date(moment)) == moment


@pytest.mark.parametrize("days", [40, -400])
@pytest.mark.parametrize("snapshot", [True, False])
def test_dates_follow_a_clock_that_was_set_while_the_server_ran_and_back(
    harness: ControllerHarness, days: int, snapshot: bool
) -> None:
    before, time = dates(harness), harness.controller._clock.now()
    harness.fake_cluster.wall_ahead = days * DAY
    stand(harness, 300)
    assert abs(shown_ahead(harness)) < 60.0
    stand(harness)
    assert shown_ahead(harness) == pytest.approx(days * DAY, abs=60.0)
    harness.crash(snapshot=snapshot)
    harness.step(10)
    assert shown_ahead(harness) == pytest.approx(days * DAY, abs=60.0)
    harness.fake_cluster.wall_ahead = 0.0
    stand(harness)
    assert abs(shown_ahead(harness)) < 60.0
    for after, same in zip(dates(harness), before, strict=True):
        assert after == pytest.approx(same)
    assert harness.controller._clock.now() - time < DAY
    assert_all_ran_once_in_order(harness)
