"""What the dashboard asks of the API: sessions, the queue as rows and frames, holdings, shares, what-if."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from api_fixtures import ApiFixture
from fake_cluster import ControllerHarness, sleeping
from fastapi.testclient import TestClient

from volvelle.live.control.requests import Cancel, Submit
from volvelle.live.http.session_table import KEY_HEADER, SESSION_SECONDS
from volvelle.live.status.forecast_history import MAX_POINTS, ForecastHistory
from volvelle.live.status.load_history import MAX_POINTS as LONGEST_LOAD
from volvelle.live.status.load_history import LoadHistory
from volvelle.live.status.view import JobState, JobStatusView, LoadPoint

pytest_plugins = ["api_fixtures"]

TRAIN = {"name": "bert", "command": ["python", "train.py"], "environment": {"KEY": "secret"}}


def log_in(api: ApiFixture, user: str) -> tuple[TestClient, dict[str, str]]:
    """A browser of ``user``, which has the cookie, and the header that it sends."""
    browser = api.client()
    answered = browser.post("/v1/session", json={"token": api.tokens[user]})
    assert answered.status_code == 201
    cookie = answered.headers["Set-Cookie"]
    assert re.search(f"HttpOnly; Max-Age={SESSION_SECONDS:.0f}; Path=/; SameSite=strict", cookie)
    assert api.tokens[user] not in cookie + answered.text
    return browser, {KEY_HEADER: answered.json()["key"]}


def test_a_session_needs_cookie_and_key_and_ends(api: ApiFixture) -> None:
    browser, key = log_in(api, "dana")
    assert browser.get("/v1/session", headers=key).json()["user"] == "dana"
    assert browser.post("/v1/jobs", json=TRAIN, headers=key).status_code == 201
    assert browser.post("/v1/jobs/0/cancel").status_code == 401, "forged: the cookie alone"
    assert browser.get("/v1/queue").status_code == 401
    assert api.client().get("/v1/queue", headers=key).status_code == 401, "the key alone"
    _, others = log_in(api, "lee")
    assert browser.get("/v1/queue", headers=others).status_code == 401
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    token = {"token": api.tokens["dana"]}
    assert api.client().post("/v1/session", json=token, headers=elsewhere).status_code == 403
    assert api.client().post("/v1/session", json={"token": "vv_guess"}).status_code == 401
    cookies = dict(browser.cookies)
    assert browser.delete("/v1/session", headers=key).status_code == 204
    browser.cookies.update(cookies)
    assert browser.get("/v1/queue", headers=key).status_code == 401


def test_a_session_ends_with_its_token(api: ApiFixture) -> None:
    browser, key = log_in(api, "dana")
    root = api.client("root")
    (token,) = [each for each in root.get("/v1/tokens").json() if each["user"] == "dana"]
    assert root.delete(f"/v1/tokens/{token['id']}").status_code == 204
    assert browser.get("/v1/queue", headers=key).status_code == 401


def rows(table: dict[str, Any]) -> dict[int, dict[str, Any]]:
    jobs = (dict(zip(table["job_columns"], row, strict=True)) for row in table["jobs"])
    return {job["number"]: job for job in jobs}


def test_the_queue_and_its_frames_show_others_what_their_rows_show(api: ApiFixture) -> None:
    dana, lee = api.client("dana"), api.client("lee")
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 4})
    table = lee.get("/v1/queue").json()
    assert "secret" not in json.dumps(table)
    listed = lee.get("/v1/jobs").json()["jobs"][0]
    row = rows(table)[0]
    assert {name: row[name] for name in ("user", "state", "gpus", "grants")} == {
        name: listed[name] for name in ("user", "state", "gpus", "grants")
    }
    assert [node[3] for node in table["nodes"]] == [4]
    dana.post("/v1/jobs/0/cancel")
    lee.post("/v1/jobs", json=TRAIN | {"gpus": 8})
    where = f"/v1/queue/changes?follow=false&after={table['seq']}"
    frames = [json.loads(line[6:]) for line in lee.get(where).text.splitlines() if "data: " in line]
    assert [number for frame in frames for number in frame["gone"]] == [0]
    assert {row[0] for frame in frames for row in frame["jobs"]} == {1}
    assert "event: gap" in lee.get("/v1/queue/changes?follow=false&after=1").text


def test_a_frame_says_once_that_an_agent_is_out_of_reach(
    api: ApiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dana = api.client("dana")
    table = dana.get("/v1/queue").json()
    assert dict(zip(table["node_columns"], table["nodes"][0], strict=True))["away"] == ""
    since = "disconnected since 2026-11-27 03:29:36 UTC"
    monkeypatch.setattr(type(api.controller), "absence", lambda controller, node: since)
    changed = dana.get("/v1/queue").json()
    assert changed["seq"] > table["seq"]
    assert changed["nodes"][0][-1] == since
    assert dana.get("/v1/queue").json()["seq"] == changed["seq"]


def test_shares_count_what_users_hold_and_wait_for(api: ApiFixture) -> None:
    api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": 6})
    api.client("lee").post("/v1/jobs", json=TRAIN | {"gpus": 4})
    found = {each["user"]: each for each in api.client("lee").get("/v1/shares").json()["users"]}
    assert (found["dana"]["held_gpus"], found["lee"]["waiting_gpus"]) == (6, 4)
    assert found["dana"]["gpu_seconds"] is None, "what others used is for operators"
    assert found["lee"]["gpu_seconds"] == 0
    of_root = {each["user"]: each for each in api.client("root").get("/v1/shares").json()["users"]}
    assert of_root["dana"]["gpu_seconds"] > 0


def test_more_nodes_are_tried_on_a_fork(api: ApiFixture) -> None:
    api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": "1h"})
    api.client("dana").post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": "2h"})
    root = api.client("root")
    asked = {"nodes": {"count": 1, "gpus": 8}}
    found = root.post("/v1/forecast/cluster", json=asked).json()
    [moved] = found["jobs"]
    assert (moved["number"], moved["user"]) == (1, "dana")
    hour = pytest.approx(3600, abs=60)
    assert found["earlier"] == {"jobs": 1, "mean": hour, "most": hour, "job": 1}
    assert found["later"]["jobs"] == 0
    assert found["before"]["start"] == pytest.approx(3600, abs=60)
    assert found["after"]["start"] == 0
    assert len(root.get("/v1/nodes").json()["nodes"]) == 1
    assert api.client("dana").post("/v1/forecast/cluster", json=asked).status_code == 403
    unknown = root.post("/v1/forecast/cluster", json={"nodes": {"gpus": 8, "gpu_type": "h900"}})
    assert (unknown.status_code, "h900" in unknown.json()["detail"]) == (409, True)


def test_what_if_tells_of_jobs_that_wait_for_others_too(api: ApiFixture) -> None:
    dana, root = api.client("dana"), api.client("root")
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": "2h"})
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "estimate": "1h"})
    dana.post("/v1/jobs", json=TRAIN | {"name": "after", "estimate": "1m", "after": ["1"]})
    found = root.post("/v1/forecast/cluster", json={"nodes": {"gpus": 8}})
    assert found.status_code == 200
    assert [(each["number"], each["name"]) for each in found.json()["jobs"]] == [
        (1, "bert"),
        (2, "after"),
    ]


def test_the_page_is_the_packages_own_and_runs_no_script_of_others(api: ApiFixture) -> None:
    client = api.client()
    assert client.get("/", follow_redirects=False).headers["Location"] == "/dashboard/"
    page = client.get("/dashboard/")
    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\bstyle=|https?://", page.text)
    for name in re.findall(r'(?:src|href)="([\w./]+)"', page.text):
        found = client.get(f"/dashboard/{name}")
        assert found.status_code == 200, name
        again = client.get(f"/dashboard/{name}", headers={"If-None-Match": found.headers["ETag"]})
        assert again.status_code == 304
    assert client.get("/dashboard/../page.py").status_code == 404
    assert client.get("/dashboard/%2e%2e/page.py").status_code == 404


def test_holdings_survive_a_crash_of_the_controller(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x2")
    harness.controller.request(Submit("dana", sleeping(3.0, 4)))
    harness.controller.request(Submit("dana", sleeping(100.0, 1)))
    for _ in range(5):
        harness.step(1.0)
    harness.controller.request(Cancel(1))
    harness.step(1.0)
    held = harness.controller.holdings
    assert [(each.number, each.grants) for each in held] == [
        (0, (("node-0", (0, 1)), ("node-1", (0, 1)))),
        (1, (("node-0", (0,)),)),
    ]
    assert held[0].end - held[0].start == 3.0
    assert held[1].start == held[0].end
    harness.crash()
    assert harness.controller.holdings == held


def test_the_load_is_kept_by_time_and_shown_to_all(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x2")
    harness.controller.request(Submit("dana", sleeping(3.0, 4)))
    harness.controller.request(Submit("dana", sleeping(100.0, 1)))
    for _ in range(5):
        harness.step(1.0)
    harness.controller.request(Cancel(1))
    harness.step(1.0)
    loads = [point[1:] for point in harness.controller.load]
    assert loads == [(0, 0), (4, 1), (1, 0), (0, 0)]
    times = [point.time for point in harness.controller.load]
    assert times[2] - times[1] == 3.0


def test_of_a_long_load_the_older_half_is_thinned() -> None:
    history = LoadHistory()
    for at in range(LONGEST_LOAD + 1):
        history.add(LoadPoint(float(at), at % 2, 0))
        history.add(LoadPoint(float(at), at % 2, 0))
    kept = [point.time for point in history.points()]
    assert len(kept) == LONGEST_LOAD * 3 // 4 + 1
    assert kept[:3] == [0.0, 2.0, 4.0]
    assert kept[-2:] == [LONGEST_LOAD - 1.0, float(LONGEST_LOAD)]


def test_the_history_of_a_forecast_keeps_its_first_and_its_last() -> None:
    history = ForecastHistory()

    def forecast(time: float, p50: float) -> None:
        job = JobStatusView(
            number=7, name="", user="dana", state=JobState.WAITING, gpus=1, submitted=0.0,
            request={}, predicted_p50=p50,
        )  # fmt: skip
        history.add(time, job)

    for at in range(300):
        forecast(at, 1000.0 + 500 * (at % 2))
    forecast(300, 1500.0 + 1)
    kept = [(point.time, point.p50) for point in history.of(7)]
    assert (kept[0], kept[-1]) == ((0.0, 1000.0), (299.0, 1500.0))
    assert 1 < len(kept) <= MAX_POINTS
    history.end(7)
    assert [(point.time, point.p50) for point in history.of(7)] == kept


@pytest.mark.parametrize("name", ["grafana-board.json", "alert-rules.json"])
def test_the_board_and_the_alerts_ask_for_metrics_that_there_are(
    api: ApiFixture, name: str
) -> None:
    text = (Path(__file__).parents[2] / "examples" / "monitoring" / name).read_text()
    assert json.loads(text)
    metrics = api.client("root").get("/metrics").text
    given = set(re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE)) | {"volvelle_solver_gap_ratio"}
    given |= {f"{each}_bucket" for each in given}
    asked = set(re.findall(r"\bvolvelle_\w+", text))
    assert asked, name
    assert asked <= given, asked - given


def test_the_past_under_another_policy_is_for_operators_and_needs_ended_jobs(
    api: ApiFixture,
) -> None:
    span = {"since": 0.0, "until": 1e11, "policy": "srsf"}
    assert api.client("dana").post("/v1/forecast/past", json=span).status_code == 403
    nothing = api.client("root").post("/v1/forecast/past", json=span)
    assert nothing.status_code == 409
    assert nothing.json()["detail"] == "no job of this span has finished"


def test_fronts_are_kept_for_operators_and_read_where_searches_wrote_them(
    api: ApiFixture, tmp_path: Path
) -> None:
    point = {"written": "las", "train": {"jct:mean": {"mean": 60.0, "low": 1.0}}, "parameters": ""}
    front = {"objectives": [{"name": "jct:mean", "unit": "s"}], "points": [point], "format": 1}
    root = api.client("root")
    assert root.get("/v1/fronts").json() == {"fronts": [], "problems": []}
    assert api.client("dana").put("/v1/fronts/mine", json=front).status_code == 403
    assert root.put("/v1/fronts/mine", json=front).status_code == 204
    assert root.put("/v1/fronts/..mine", json=front).status_code == 422
    (tmp_path / "fronts" / "search").mkdir()
    (tmp_path / "fronts" / "search" / "front.json").write_text(json.dumps(front))
    (tmp_path / "fronts" / "other.json").write_text("{}")
    found = root.get("/v1/fronts").json()
    assert {kept["name"] for kept in found["fronts"]} == {"mine", "search"}
    assert found["fronts"][0]["front"]["points"][0]["train"]["jct:mean"] == {"mean": 60.0}
    assert found["problems"] == ["other.json cannot be read: it is no front"]
    assert api.client("dana").get("/v1/fronts").status_code == 403
