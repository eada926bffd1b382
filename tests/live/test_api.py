"""The HTTP API: jobs, forecasts, policies and figures."""

import asyncio
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from api_fixtures import TRAIN, ApiFixture, open_api
from httpx import ASGITransport, AsyncClient, Response
from waiting import until

from volvelle.core.snapshot import read_snapshot
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.http import controller_requests
from volvelle.live.http.forecast_threads import ForecastThreads
from volvelle.simulate.resumed import resumed, setting_of

pytest_plugins = ["api_fixtures"]


def test_a_job_is_submitted_read_and_cancelled_by_its_user(api: ApiFixture) -> None:
    dana = api.client("dana")
    answered = dana.post("/v1/jobs", json=TRAIN)
    assert (answered.status_code, answered.json()) == (201, {"numbers": [0], "notices": []})
    job = dana.get("/v1/jobs/0").json()
    assert (job["user"], job["state"], job["request"]["environment"]) == (
        "dana", "starting", {"KEY": "secret"},
    )  # fmt: skip
    assert dana.post("/v1/jobs/0/hold").status_code == 204
    assert dana.get("/v1/jobs/0").json()["state"] == "stopping"
    dana.post("/v1/jobs", json=TRAIN | {"after": [0]})
    assert dana.post("/v1/jobs/0/cancel").json() == {
        "notices": ["job 1 was to run after its success, and was rejected"]
    }
    refused = dana.post("/v1/jobs/0/release")
    assert (refused.status_code, refused.json()["detail"]) == (409, "job 0 is cancelled")


def test_a_held_job_is_told_no_times_and_only_a_held_one_is_released(api: ApiFixture) -> None:
    dana = api.client("dana")
    for _ in range(2):
        dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": "1h"})
    until(lambda: dana.get("/v1/jobs/1").json()["predicted_p50"] is not None)
    refused = dana.post("/v1/jobs/1/release")
    assert (refused.status_code, refused.json()["detail"]) == (409, "job 1 is not held")
    assert dana.post("/v1/jobs/1/hold").status_code == 204
    held = dana.get("/v1/jobs/1").json()
    assert held["state"] == "held"
    assert {held[f"predicted_{time}"] for time in ("start", "p50", "p90")} == {None}
    assert not held["guessed"]
    assert dana.post("/v1/jobs/1/release").status_code == 204
    until(lambda: dana.get("/v1/jobs/1").json()["predicted_p50"] is not None)


def test_a_stop_that_may_lose_work_is_said_once_at_submission_and_by_every_dry_run(
    api: ApiFixture,
) -> None:
    api.client("root").put("/v1/policy", json={"policy": "srsf"})
    dana = api.client("dana")
    told = []
    for number in range(2):  # also where the first job is over
        told.append(len(dana.post("/v1/jobs", json=TRAIN).json()["notices"]))
        if number == 0:
            assert dana.post("/v1/jobs/0/cancel").status_code == 200
    assert told == [1, 0]
    assert len(dana.post("/v1/forecast", json=TRAIN).json()["notices"]) == 1
    assert len(dana.get("/v1/jobs/1/why").json()["notices"]) == 1


def test_the_same_key_submits_once_for_each_user(api: ApiFixture) -> None:
    dana, lee = api.client("dana"), api.client("lee")
    key = {"Idempotency-Key": "tuesday"}
    assert [dana.post("/v1/jobs", json=TRAIN, headers=key).json()["numbers"] for _ in "ab"] == [
        [0],
        [0],
    ]
    assert lee.post("/v1/jobs", json=TRAIN, headers=key).json()["numbers"] == [1]


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8"])
def test_a_submission_is_the_same_whoever_reads_it(api: ApiFixture, content_type: str) -> None:
    """We do, or FastAPI does where there is anything unusual."""
    headers = {"Content-Type": content_type, "Idempotency-Key": "k"}
    body = json.dumps(TRAIN | {"gpus": 2, "estimate": "1h"})
    answered = api.client("dana").post("/v1/jobs", content=body, headers=headers)
    assert (answered.status_code, answered.json()) == (201, {"numbers": [0], "notices": []})
    assert api.client("dana").get("/v1/jobs/0").json()["request"]["gpus"] == 2
    wrong = api.client("dana").post("/v1/jobs", content='{"gpus": "no"}', headers=headers)
    assert (wrong.status_code, wrong.json()["place"]) == (422, "body")
    deep = api.client("dana").post("/v1/jobs", content="[" * 4000, headers=headers)
    assert (deep.status_code, deep.json()["detail"]) == (400, "there was an error parsing the body")
    nobody = api.client("dana")
    nobody.headers["Authorization"] = "Bearer unknown"
    for given in (body, '{"gpus": "no"}'):
        refused = nobody.post("/v1/jobs", content=given, headers=headers)
        assert (refused.status_code, refused.json()["detail"]) == (401, "the token is not known")


def test_forecasts_that_take_long_are_given_up_and_delay_nobody_else(
    api: ApiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    api.app.state.forecasts = ForecastThreads(1.0)
    monkeypatch.setattr(api.controller.forks, "forecast", lambda *_: over.wait())

    async def ask() -> tuple[list[Response], Response]:
        server = AsyncClient(transport=ASGITransport(api.app), base_url="http://here")
        dana, lee = ({"Authorization": f"Bearer {api.tokens[user]}"} for user in ("dana", "lee"))
        asked = [server.post("/v1/forecast", json=TRAIN, headers=dana) for _ in range(20)]
        *answers, other = await asyncio.gather(
            *asked, server.post("/v1/jobs", json=TRAIN, headers=lee)
        )
        return answers, other

    answers, other = asyncio.run(ask())
    over.set()
    assert other.status_code == 201
    assert Counter((told.status_code, told.json()["detail"]) for told in answers) == {
        (429, "user dana waits for 8 forecasts already"): 12,
        (503, "no forecast within 1 s"): 8,
    }


def test_asking_says_what_submitting_would(api: ApiFixture) -> None:
    job = TRAIN | {"estimate": "2h", "time_limit": "1h"}
    asked = api.client("dana").post("/v1/forecast", json=job).json()
    (notice,) = asked["notices"]
    assert notice == "by its estimate it takes 2h 00m; its time limit ends it after 1h 00m"
    assert api.client("dana").post("/v1/jobs", json=job).json()["notices"] == asked["notices"]
    high = TRAIN | {"priority": 10**6}
    answers = [api.client("dana").post(where, json=high) for where in ("/v1/forecast", "/v1/jobs")]
    assert {(each.status_code, each.json()["detail"]) for each in answers} == {
        (answers[0].status_code, answers[0].json()["detail"])
    }


def test_a_command_that_starts_on_several_nodes_as_no_node_is_free_enough_is_said_to(
    tmp_path: Path,
) -> None:
    def notices(api: ApiFixture, command: str, **more: Any) -> list[str]:
        job = {"command": command, "gpus": 2, **more}
        said: list[str] = api.client("dana").post("/v1/forecast", json=job).json()["notices"]
        return said

    for placement, spreads in (("consolidated", True), ("consolidated-strict", False)):
        folder = tmp_path / placement
        folder.mkdir()
        with open_api(folder, nodes="2x4", placement=placement) as api:
            assert notices(api, "python train.py") == []  # it stands on one
            api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": 3, "array": 2})
            said = notices(api, "python train.py")
            assert len(said) == spreads
            for each in said:
                assert "once on each (placement 'consolidated')" in each
            assert notices(api, "torchrun train.py") == []
            assert notices(api, "python train.py", gpus=3) == []  # it waits
            assert notices(api, "torchrun train.py", gpus=8) == []
            assert [each.split(";")[0] for each in notices(api, "sh -c true", gpus=8)] == [
                "no node has 8 GPUs: its command starts once on each of 2 nodes or more"
            ]
            wide = api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": 8}).json()
            assert wide["notices"][0].startswith("no node has 8 GPUs")
            changed = api.client("dana").patch(f"/v1/jobs/{wide['numbers'][0]}", json={"weight": 2})
            assert changed.json()["notices"] == []


def test_a_change_answers_with_what_its_user_should_know(api: ApiFixture) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "array": 2})
    assert api.client("lee").patch("/v1/jobs/1", json={"weight": 2}).status_code == 404
    changed = dana.patch("/v1/jobs/1", json={"estimate": "2h", "time_limit": "1h"})
    (notice,) = changed.json()["notices"]
    assert notice == "by its estimate it takes 2h 00m; its time limit ends it after 1h 00m"
    job = dana.get("/v1/jobs/1").json()
    assert job["changed"] == {"estimate": [None, 7200.0], "time_limit": [None, 3600.0]}
    assert (job["request"]["estimate"], job["request"]["time_limit"]) == (7200.0, 3600.0)
    assert api.client("lee").get("/v1/jobs").json()["jobs"][1]["changed"] == {}


def test_the_queue_is_paginated(api: ApiFixture) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN | {"array": 5})
    first = dana.get("/v1/jobs", params={"limit": 3}).json()
    rest = dana.get("/v1/jobs", params={"limit": 3, "after": first["next"]}).json()
    assert [[job["number"] for job in page["jobs"]] for page in (first, rest)] == [
        [0, 1, 2],
        [3, 4],
    ]
    assert rest["next"] is None


def test_jobs_have_the_fields_alone_that_are_asked_for(api: ApiFixture) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "array": 2})
    chosen = {"fields": ["number", "user", "number"]}
    assert dana.get("/v1/jobs", params=chosen).json()["jobs"] == [
        {"number": 0, "user": "dana"},
        {"number": 1, "user": "dana"},
    ]
    dana.post("/v1/jobs/1/cancel")
    over = dana.get("/v1/jobs", params={"over": True, "fields": "reason"}).json()["jobs"]
    assert over == [{"reason": "cancelled"}]
    refused = dana.get("/v1/jobs", params={"fields": "numbers"})
    assert refused.status_code == 422
    assert "predicted_p50" in refused.json()["detail"]


def test_while_the_store_is_down_submissions_are_answered_503_with_retry_after(
    api: ApiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dana = api.client("dana")
    assert dana.get("/readyz").status_code == 200
    api.store.down = True
    monkeypatch.setattr(controller_requests, "ANSWER_TIMEOUT_SECONDS", 0.2)
    key = {"Idempotency-Key": "once"}
    answered = dana.post("/v1/jobs", json=TRAIN, headers=key)
    assert (answered.status_code, answered.headers["Retry-After"]) == (503, "5")
    assert dana.get("/readyz").status_code == 503
    assert dana.get("/healthz").status_code == 200
    api.store.down = False
    until(lambda: dana.get("/readyz").status_code == 200)
    again = dana.post("/v1/jobs", json=TRAIN, headers=key)
    assert again.json() == {"numbers": [0], "notices": []}
    assert len(api.controller.status.jobs) == 1


def test_why_suggests_what_would_let_a_job_finish_sooner(api: ApiFixture) -> None:
    dana = api.client("dana")
    for gpus, estimate in ((4, "3h"), (8, "1h")):
        dana.post("/v1/jobs", json=TRAIN | {"gpus": gpus, "estimate": estimate})
    why = dana.get("/v1/jobs/1/why").json()
    assert (why["job"]["state"], why["after"], why["complete"]) == ("waiting", [0], True)
    (change,) = why["changes"]
    assert (change["what"], change["request"]) == (
        "4 GPUs instead of 8", {"gpus": 4, "estimate": 7200.0},
    )  # fmt: skip
    assert change["start"] == pytest.approx(time.time(), abs=30)
    assert change["p50"] == pytest.approx(change["start"] + 7200.0, abs=30)
    assert change["sooner"] == pytest.approx(7200.0, abs=60)


def test_why_is_of_now_when_a_job_before_it_has_just_been_cancelled(
    api: ApiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dana = api.client("dana")
    for gpus in (8, 8, 4):
        dana.post("/v1/jobs", json=TRAIN | {"gpus": gpus, "estimate": "1h"})
    monkeypatch.setattr(Forecaster, "submit", lambda *_: None)  # none is made meanwhile
    dana.post("/v1/jobs/1/cancel")
    why = dana.get("/v1/jobs/2/why").json()
    assert (why["ahead"], why["after"]) == ([], [0])
    assert why["job"]["predicted_start"] == pytest.approx(time.time() + 3600.0, abs=30)
    ended = dana.get("/v1/jobs/1/why").json()["job"]
    assert (ended["predicted_start"], ended["predicted_p50"]) == (None, None)


def test_the_forecast_of_a_policy_changes_nothing(api: ApiFixture) -> None:
    dana, root = api.client("dana"), api.client("root")
    for estimate in ("4h", "1h"):
        dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": estimate})
    where, srtf = "/v1/policy/forecast", {"policy": "srtf"}
    assert root.post(where, json=srtf).json() == {"stops": [0], "starts": [1], "resizes": []}
    assert root.post(where, json={"policy": "fifo"}).json() == {
        "stops": [], "starts": [], "resizes": [],
    }  # fmt: skip
    assert root.get("/v1/policy").json()["policy"] == "fifo"
    assert dana.get("/v1/jobs/1").json()["state"] == "waiting"
    assert root.post(where, json={"policy": "nonesuch"}).status_code == 409
    assert dana.post(where, json=srtf).status_code == 403


def test_metrics_are_in_base_units_and_name_no_user(api: ApiFixture) -> None:
    for gpus in (2, 8):
        api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": gpus})
    text = api.client("lee").get("/metrics").text
    assert 'volvelle_gpus{state="held"} 2.0' in text
    assert 'volvelle_gpus{state="free"} 6.0' in text
    assert 'volvelle_jobs{state="waiting"} 1.0' in text
    assert "volvelle_decision_seconds_bucket" in text
    assert "dana" not in text
    assert api.client().get("/metrics").status_code == 401


def test_a_snapshot_is_for_operators_and_simulations_go_on_from_it(
    api: ApiFixture, tmp_path: Path
) -> None:
    api.client("dana").post("/v1/jobs", json=TRAIN)
    assert api.client("dana").get("/v1/snapshot").status_code == 403
    file = tmp_path / "now.json"
    file.write_bytes(api.client("root").get("/v1/snapshot").content)
    taken = read_snapshot(file)
    outcomes = resumed(taken, setting_of(taken, taken.header.composition)).outcomes
    assert [spec.name for spec in outcomes.specs] == ["bert"]
    assert set(outcomes.status) == {"finished"}
