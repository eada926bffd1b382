"""Whether what a server told its jobs at submission held, by what could be observed then."""

from pathlib import Path

import pytest
from api_fixtures import ApiFixture
from fake_cluster import ControllerHarness, sleeping

from volvelle.live.control.requests import Submit
from volvelle.live.forecasts.told_at_submission import told_of
from volvelle.live.http.responses import ToldTable
from volvelle.live.store.rows import FirstForecast
from volvelle.metrics.told import told_sentence

pytest_plugins = ["api_fixtures"]


def test_finished_jobs_are_judged_by_what_they_were_told_first(tmp_path: Path) -> None:
    """Two of three jobs keep their P90, one of them its P50; one goes on, one was told nothing."""
    harness = ControllerHarness.at(tmp_path, "1x8", "fifo")
    began = harness.controller.status.time
    for seconds in (10.0, 10.0, 10.0, 10.0, 900.0):
        harness.controller.request(Submit("ada", sleeping(seconds)))
        harness.deliver()
    told = [(0, 20.0, 30.0), (1, 5.0, 20.0), (2, 5.0, 6.0), (4, 20.0, 30.0)]
    harness.controller.store.jobs.write_first_forecasts(
        [FirstForecast(n, began + 10.0, began + p50, began + p90) for n, p50, p90 in told]
    )
    for _ in range(3):
        harness.step(10.0)
    there = [job.submitted for job in harness.controller.status.jobs.values()]
    found = told_of(harness.controller.store.jobs, there)
    classes = {each.name: each for each in found.classes}
    assert classes["all jobs"].jobs == 3
    assert classes["all jobs"].p50 == pytest.approx(100.0 / 3.0)
    assert classes["all jobs"].p90 == pytest.approx(200.0 / 3.0)
    assert classes["jobs in the system: to 4"].jobs == 3
    assert told_sentence(found) == (
        "Of 3 jobs 67 % finished by their P90 (90 % should), 33 % by their P50 (50 % should). P90 is 2.00 "
        "times as far away as the time predicted (median)."
    )


def test_a_new_server_answers_that_nothing_is_known(api: ApiFixture) -> None:
    found = api.client("dana").get("/v1/told").json()
    assert set(found) == set(ToldTable.__dataclass_fields__)
    assert (found["sentence"], found["classes"]) == ("", [])
