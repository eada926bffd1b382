"""What a live job is guaranteed: told at once, kept over a crash, revoked where it is not kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_cluster import ControllerHarness, sleeping, wait_for

from volvelle.live.control.requests import Submit
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.job_request import Deadline, JobRequest
from volvelle.live.status.view import Guarantee, JobStatusView


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    harness = ControllerHarness.at(tmp_path, "1x2", "srtf", admission="deadlines")
    harness.deliver()
    return harness


def submit(harness: ControllerHarness, request: JobRequest) -> int:
    answer = harness.controller.request(Submit("ada", request))
    harness.deliver()
    return int(answer.result(timeout=0.0)[0])


def foretell(harness: ControllerHarness, request: JobRequest) -> JobForecast:
    """The answer of a dry run, which another thread waits for."""
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(harness.controller.forecast, request, "ada")

        def answered() -> bool:
            harness.deliver()
            return asked.done()

        wait_for(answered)
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
    submit(harness, sleeping(100.0, gpus=2))
    kept = submit(harness, due(200.0, 400.0))
    foretold = foretell(harness, due(300.0, 500.0))
    refused = submit(harness, due(300.0, 500.0))
    later = submit(harness, due(300.0, 500.0, accept_later=True))
    began = shown(harness, kept).submitted
    assert guarantee(harness, kept).finish_by == pytest.approx(began + 400.0)
    assert guarantee(harness, kept).step == 0
    assert foretold.guarantee is not None
    assert foretold.guarantee.finish_by is None
    assert foretold.guarantee.reason == "keeps none of its deadlines"
    assert guarantee(harness, refused).earliest == pytest.approx(began + 630.0)
    assert guarantee(harness, later).finish_by == pytest.approx(began + 945.0)
    told = {number: guarantee(harness, number) for number in (kept, refused, later)}
    harness.crash()
    harness.deliver()
    assert {number: guarantee(harness, number) for number in told} == told


def test_a_guarantee_that_is_not_kept_is_revoked_at_its_time(harness: ControllerHarness) -> None:
    late = submit(harness, sleeping(300.0, gpus=2, estimate=100.0))
    number = submit(harness, due(200.0, 350.0))
    assert guarantee(harness, number).finish_by is not None
    for _ in range(36):
        harness.step(10.0)
    assert late not in harness.controller.status.jobs
    revoked = guarantee(harness, number)
    assert revoked.finish_by is None
    assert revoked.reason == "it is not finished at the time that was promised"
