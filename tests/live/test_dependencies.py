"""Jobs that wait for others, on a fake cluster: also through a restart of the controller."""

from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping

from volvelle.live.control.requests import Cancel, Hold, Release, Submit
from volvelle.live.forecasts.calibration import ForecastCalibration, PastForecast
from volvelle.live.forecasts.forecast_update import forecast_jobs
from volvelle.live.job_request import JobRequest
from volvelle.model.problems import Problem


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    return ControllerHarness.at(tmp_path)


def test_a_job_waits_for_the_success_of_another_through_a_restart(
    harness: ControllerHarness,
) -> None:
    first = harness.submit(sleeping(4))
    second = harness.submit(sleeping(5, after=(first,)))
    assert harness.state(second) == "waiting"
    harness.crash()
    harness.deliver()
    harness.step(3)
    assert harness.state(second) == "waiting"
    harness.step(3)
    assert (harness.state(first), harness.state(second)) == ("finished", "running")


def test_a_job_whose_dependency_failed_never_runs_and_says_so(harness: ControllerHarness) -> None:
    first = harness.submit(JobRequest(command=("fail", "2"), retries=0))
    second = harness.submit(sleeping(5, after=(first,)))
    any_end = harness.submit(sleeping(50, after=(f"{first}:any",)))
    third = harness.submit(sleeping(5, after=(second,)))
    harness.step(4)
    assert harness.state(any_end) == "running"
    for number, cause in ((second, first), (third, second)):
        record = harness.controller.store.jobs.find(number)
        assert record is not None
        assert record.state == "rejected"
        assert record.reason == f"dependency failed: job {cause} did not succeed"


def test_a_cancellation_names_the_jobs_that_are_rejected_by_it(harness: ControllerHarness) -> None:
    first = harness.submit(sleeping(40))
    other = harness.submit(sleeping(40, after=(first,), array=2))
    harness.submit(sleeping(50, after=(f"{first}:any",)))
    last = harness.submit(sleeping(5, after=(other + 1,)))
    unrelated = harness.submit(sleeping(5))
    answers = [harness.controller.request(Cancel(each)) for each in (first, unrelated, first)]
    harness.step(1)
    assert [answer.result(timeout=0) for answer in answers] == [(other, other + 1, last), (), ()]


def test_a_dependency_on_a_job_that_is_over_is_judged_at_once(harness: ControllerHarness) -> None:
    first = harness.submit(sleeping(1))
    harness.step(3)
    assert harness.state(first) == "finished"
    assert harness.state(harness.submit(sleeping(5, after=(first,)))) != "waiting"
    cancelled = harness.submit(sleeping(50))
    harness.execute(Cancel(cancelled))
    with pytest.raises(Problem, match="would"):
        harness.submit(sleeping(5, after=(cancelled,)))
    with pytest.raises(Problem, match="there is no job 99"):
        harness.submit(sleeping(5, after=(99,)))


def test_array_elements_wait_for_theirs_and_held_ones_until_they_are_released(
    harness: ControllerHarness,
) -> None:
    first = harness.submit(sleeping(3))
    harness.execute(Submit("ada", sleeping(2, array=2, after=(f"{first}",))))
    last = harness.execute(Submit("ada", sleeping(5, array=2, after=("1:each",))))
    harness.execute(Hold(last[0]))
    for _ in range(3):
        harness.step(3)
    assert [harness.state(number) for number in last] == ["held", "running"]
    harness.execute(Release(last[0]))
    harness.step(1)
    assert harness.state(last[0]) == "running"


def test_a_job_that_waits_for_another_says_so_and_has_a_forecast(
    harness: ControllerHarness,
) -> None:
    controller = harness.controller
    first = harness.submit(sleeping(100, estimate=100.0))
    second = harness.submit(sleeping(5, estimate=50.0, after=(first,)))
    fork = controller._cycle.state.scheduler.fork()
    update = forecast_jobs(fork, fork.now, ForecastCalibration(), 0.0)
    assert update.reasons[second].text == f"waits for job {first}"
    start = update.times[second].start
    assert start is not None
    assert start >= 100.0


def test_a_forecast_without_an_estimate_is_marked_as_a_guess(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, estimator="measured")
    guessed = harness.submit(JobRequest(command=("sleep", "3"), name="new"))
    known = harness.submit(sleeping(5, estimate=50.0))
    fork = harness.controller._cycle.state.scheduler.fork()
    calibration = ForecastCalibration()
    first = forecast_jobs(fork.fork(), fork.now, ForecastCalibration(), 0.0).times
    assert first[known].guessed, "no job has ended, so that P90 is a guess too"
    calibration.replay(PastForecast(n, n, n + 9.0, 1.0, 9.0, n + 9.0) for n in range(-60, -30))
    times = forecast_jobs(fork, fork.now, calibration, 0.0).times
    assert (times[guessed].guessed, times[known].guessed) == (True, False)


def test_elements_of_an_array_have_an_index(harness: ControllerHarness) -> None:
    harness.execute(Submit("ada", sleeping(5, array=2)))
    jobs = harness.controller.status.jobs
    assert [jobs[number].array_index for number in (0, 1)] == [0, 1]
    alone = harness.submit(sleeping(5))
    assert harness.controller.status.jobs[alone].array_index is None


def test_of_a_throttled_array_so_many_run_at_once_through_a_restart(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x4")
    numbers = harness.execute(Submit("ada", sleeping(4, array=5, at_once=2)))
    most = 0
    for _ in range(3):
        harness.crash()
        harness.deliver()
        most = max(most, len(harness.fake_cluster.runs))
        harness.step(5)
    assert most == 2
    assert {harness.state(number) for number in numbers} == {"finished"}
