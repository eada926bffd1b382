"""Priorities, time limits and failures that another attempt would not mend, on a fake cluster."""

from pathlib import Path

from fake_cluster import ControllerHarness, sleeping

from volvelle.live.control.controller import Controller
from volvelle.live.control.state import ControllerState
from volvelle.live.forecasts.calibration import ForecastCalibration
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.job_request import JobRequest


def reason(controller: Controller, number: int) -> str | None:
    record = controller.store.jobs.find(number)
    assert record is not None
    return record.reason


def test_a_job_is_ended_when_its_time_limit_is_over_also_through_a_restart(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    number = harness.submit(sleeping(50, time_limit=6.0))
    harness.step(3)
    cycle_state: ControllerState = harness.controller._cycle.state
    fork = cycle_state.scheduler.fork()
    update = forecast_jobs(fork, fork.now, ForecastCalibration(), 0.0)
    (promise,) = update.first
    assert promise.finish <= 6.5
    harness.crash()
    harness.deliver()
    harness.step(2)
    assert harness.state(number) == "running"
    harness.step(2)
    harness.step(1)
    assert harness.state(number) == "failed"
    assert reason(harness.controller, number) == "its time limit of 6s is over"
    harness.step(40)
    assert not harness.fake_cluster.runs


def test_a_higher_priority_goes_first_also_through_a_restart(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    harness.submit(sleeping(5, 2))
    later, sooner = harness.submit(sleeping(5, 2)), harness.submit(sleeping(5, 2, priority=3))
    harness.crash()
    harness.deliver()
    harness.step(6)
    assert (harness.state(later), harness.state(sooner)) == ("waiting", "running")


def test_what_is_not_there_is_not_tried_again(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path)
    number = harness.submit(JobRequest(command=("fail", "1", "127"), retries=5))
    harness.step(2)
    assert harness.state(number) == "failed"
    assert (
        reason(harness.controller, number) == "failed: it ended with exit code 127; not tried again"
    )
