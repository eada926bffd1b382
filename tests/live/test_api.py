"""The HTTP API: authorization, errors, invalid and hostile input."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from api_fixtures import ApiFixture, open_api
from fake_cluster import wait_for
from httpx import ASGITransport, AsyncClient, Response

from volvelle.core.snapshot import read_snapshot
from volvelle.live.forecasts.forecaster import Forecaster
from volvelle.live.http import controller_requests
from volvelle.live.http.authentication import Principal, TokenAuthenticator, digest_of
from volvelle.live.http.forecast_threads import ForecastThreads
from volvelle.live.records import AskedBy
from volvelle.live.role import Role
from volvelle.live.store import StoreFailed, Token
from volvelle.policies.orders import SmallestJob
from volvelle.simulate.resumed import resumed, setting_of

pytest_plugins = ["api_fixtures"]

TRAIN = {"name": "bert", "command": ["python", "train.py"], "environment": {"KEY": "secret"}}


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
    _until(lambda: dana.get("/v1/jobs/1").json()["predicted_p50"] is not None)
    refused = dana.post("/v1/jobs/1/release")
    assert (refused.status_code, refused.json()["detail"]) == (409, "job 1 is not held")
    assert dana.post("/v1/jobs/1/hold").status_code == 204
    held = dana.get("/v1/jobs/1").json()
    assert held["state"] == "held"
    assert {held[f"predicted_{time}"] for time in ("start", "p50", "p90")} == {None}
    assert not held["guessed"]
    assert dana.post("/v1/jobs/1/release").status_code == 204
    _until(lambda: dana.get("/v1/jobs/1").json()["predicted_p50"] is not None)


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


def test_the_same_key_with_another_job_is_refused(api: ApiFixture) -> None:
    dana = api.client("dana")
    key = {"Idempotency-Key": "tuesday"}
    dana.post("/v1/jobs", json=TRAIN, headers=key)
    refused = dana.post("/v1/jobs", json={**TRAIN, "name": "other"}, headers=key)
    assert refused.status_code == 422
    assert refused.json()["detail"] == "the key 'tuesday' was sent before, with another job"
    assert len(dana.get("/v1/jobs").json()["jobs"]) == 1


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


def test_jobs_of_others_are_rows_without_details_and_cannot_be_changed(api: ApiFixture) -> None:
    api.client("dana").post("/v1/jobs", json=TRAIN)
    lee = api.client("lee")
    text = lee.get("/v1/jobs").text
    assert "secret" not in text
    assert "train.py" not in text
    assert json.loads(text)["jobs"][0]["user"] == "dana"
    for how, where in (
        ("GET", ""), ("GET", "/logs"), ("GET", "/why"),
        ("POST", "/cancel"), ("POST", "/hold"), ("POST", "/release"),
        ("POST", "/requeue"),
    ):  # fmt: skip
        theirs = lee.request(how, f"/v1/jobs/0{where}")
        nobodys = lee.request(how, f"/v1/jobs/9{where}")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json()["detail"] == "job 0 is not yours"
        assert nobodys.json()["detail"] == "there is no job 9"
    root = api.client("root")
    assert root.get("/v1/jobs/0").json()["request"]["environment"] == {"KEY": "secret"}
    root.post("/v1/jobs/0/cancel")
    assert lee.get("/v1/jobs/0").json()["detail"] == "job 0 is not yours"


def test_events_are_of_ones_own_jobs_and_resume_after_the_last_id(api: ApiFixture) -> None:
    for user in ("dana", "lee", "dana"):
        api.client(user).post("/v1/jobs", json=TRAIN)
    seen = _events(api, "root", "-1")
    assert [change["number"] for _, changes in seen for change in changes] == [0, 1, 2]
    assert [seq for seq, _ in _events(api, "root", str(seen[1][0]))] == [seen[2][0]]
    assert {change["user"] for _, changes in _events(api, "lee", "-1") for change in changes} == {
        "lee"
    }


@pytest.mark.parametrize("path", ["/v1/events", "/v1/jobs/0/logs?follow=true", "/v1/queue/changes"])
def test_what_is_followed_ends_when_its_token_is_revoked(
    api: ApiFixture, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.client("dana").post("/v1/jobs", json=TRAIN)

    async def follow() -> None:
        """Call the application as a server does: httpx would wait for the whole answer."""
        where, _, query = path.partition("?")
        scope = {
            "type": "http", "method": "GET", "path": where, "raw_path": where.encode(),
            "query_string": query.encode(), "http_version": "1.1", "scheme": "http",
            "headers": [(b"authorization", f"Bearer {api.tokens['dana']}".encode())],
        }  # fmt: skip
        sent, begun, asked = [], asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, object]:
            if not asked.is_set():
                asked.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            await asyncio.sleep(60.0)
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            sent.append(message)
            begun.set()

        following = asyncio.create_task(api.app(scope, receive, send))
        await begun.wait()
        assert not following.done()
        api.store.tokens.revoke(digest_of(api.tokens["dana"]))
        await asyncio.wait_for(following, 20.0)

    asyncio.run(follow())


def test_problems_are_named_to_operators_only(api: ApiFixture) -> None:
    wait_for(lambda: {node.state for node in api.controller.status.nodes} == {"up"})
    problems = api.controller._cycle.node_problems
    problems["node-0"] = "node 'node-0' takes no new jobs: the disk of /var is full"
    assert api.client("root").get("/healthz").json()["problems"] == problems["node-0"]
    for other in ("dana", None):
        said = api.client(other).get("/healthz").json()
        assert said == {"status": "alive", "problems": "1, which operators see with their token"}
    problems["node-0"] = ""
    assert api.client().get("/healthz").json() == {"status": "alive"}


def _events(api: ApiFixture, user: str, last: str) -> list[tuple[int, list[dict[str, object]]]]:
    answered = api.client(user).get(
        "/v1/events", params={"follow": False}, headers={"Last-Event-ID": last}
    )
    events = [event.splitlines() for event in answered.text.split("\n\n") if event]
    return [
        (int(number.removeprefix("id: ")), json.loads(data.removeprefix("data: "))["changes"])
        for number, kind, data in events
        if kind == "event: jobs"
    ]


@pytest.mark.parametrize(
    ("how", "where"),
    [
        ("POST", "/v1/nodes/node-0/drain"), ("POST", "/v1/nodes/node-0/resume"), ("PUT", "/v1/policy"),
        ("POST", "/v1/policy/forecast"),
        ("GET", "/v1/journal"), ("POST", "/v1/tokens"), ("GET", "/v1/tokens"),
        ("DELETE", "/v1/tokens/0123456789ab"),
    ],
)  # fmt: skip
def test_cluster_operations_are_for_operators(api: ApiFixture, how: str, where: str) -> None:
    body = {"policy": "las"} if "policy" in where else {"user": "eve", "role": "operator"}
    assert api.client("dana").request(how, where, json=body).status_code == 403
    assert api.client().request(how, where, json=body).status_code == 401


@pytest.mark.parametrize("token", ["", "x", "vv_" + "A" * 43, "' OR 1=1 --", "é", "a" * 5000])
def test_a_wrong_token_is_answered_401(api: ApiFixture, token: str) -> None:
    headers = {b"Authorization": f"Bearer {token}".encode()}
    answered = api.client().get("/v1/jobs", headers=headers)
    assert answered.status_code == 401
    assert answered.headers["WWW-Authenticate"] == "Bearer"
    assert set(answered.json()) == {"detail", "place", "hint"}


def test_tokens_are_stored_hashed_and_can_be_revoked(api: ApiFixture, tmp_path: Path) -> None:
    root = api.client("root")
    issued = root.post("/v1/tokens", json={"user": "eve"}).json()
    api.tokens["eve"] = issued["token"]
    assert issued["role"] == "user"
    assert api.client("eve").get("/v1/jobs").status_code == 200
    api.store.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("store.db*"))
    assert issued["token"].encode() not in stored
    (eves,) = [one for one in root.get("/v1/tokens").json() if one["user"] == "eve"]
    assert root.delete(f"/v1/tokens/{eves['id']}").status_code == 204
    assert api.client("eve").get("/v1/jobs").status_code == 401


def test_the_records_say_who_asked_for_what(api: ApiFixture) -> None:
    dana, root = api.client("dana"), api.client("root")
    assert dana.post("/v1/jobs", json={"command": ["true"], "array": 2}).status_code == 201
    assert api.client("lee").post("/v1/jobs/0/cancel").status_code == 404
    assert dana.post("/v1/jobs/0/hold").status_code == 204
    assert root.post("/v1/jobs/1/cancel").json() == {"notices": []}
    assert root.post("/v1/nodes/node-0/drain").status_code == 204
    assert root.put("/v1/policy", json={"policy": "las"}).status_code == 200
    entries = api.store.entries()
    asked = [one for each in entries for one in each.records if isinstance(one, AskedBy)]
    assert [(one.user, one.what) for one in asked] == [
        ("dana", "hold"), ("root", "cancel"), ("root", "drain"), ("root", "recompose"),
    ]  # fmt: skip
    assert [one.subject for one in asked][:3] == ["0", "1", "node-0"]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"priority": 5}, 403, "priority 5 is higher than 0, the highest of users here"),
        (
            {"priority": 1001},
            422,
            "key 'priority' is 1001: it has to be less than or equal to 1000",
        ),
        ({"weight": 0}, 422, "key 'weight' is 0: it has to be greater than 0"),
        ({"weight": None}, 422, "key 'weight' is None: it has to be a number"),
        ({"gpus": 2}, 422, "gpus"),
        ({}, 422, "say what changes: weight, retries, estimate, priority, time_limit"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_reason(
    api: ApiFixture, change: dict[str, Any], status: int, said: str
) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN | {"gpus": 8, "array": 2})
    refused = dana.patch("/v1/jobs/1", json=change)
    assert refused.status_code == status
    assert said in refused.json()["detail"]


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


def test_the_schema_is_named_where_a_key_is_wrong_and_not_a_value(api: ApiFixture) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN)
    value = dana.patch("/v1/jobs/0", json={"estimate": -3}).json()
    assert value["detail"].startswith("key 'estimate' is -3")
    assert value["hint"] == ""
    key = dana.post("/v1/jobs", json=TRAIN | {"gpu": 3}).json()
    assert key["hint"] == "see: /openapi.json of this server"
    state = dana.get("/v1/jobs", params={"state": "wating"}).json()["detail"]
    assert state.startswith("key 'state' is 'wating'")
    assert state.endswith(" or 'rejected' (did you mean 'waiting'?)")


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


def test_large_headers_are_refused(api: ApiFixture) -> None:
    told = api.client("dana").get("/v1/jobs", headers={"X-Large": "a" * 40_000})
    assert (told.status_code, told.json()["detail"]) == (431, "the headers are too large")


def test_a_token_expires(api: ApiFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    root = api.client("root")
    assert root.post("/v1/tokens", json={"user": "eve", "expires": "0s"}).status_code == 422
    api.tokens["eve"] = root.post("/v1/tokens", json={"user": "eve", "expires": "30d"}).json()[
        "token"
    ]
    (eves,) = [one for one in root.get("/v1/tokens").json() if one["user"] == "eve"]
    assert eves["expires"] - eves["created"] == pytest.approx(30 * 86_400.0)
    assert api.client("eve").get("/v1/jobs").status_code == 200
    later = eves["expires"]
    monkeypatch.setattr("volvelle.live.http.authentication.time.time", lambda: later)
    told = api.client("eve").get("/v1/jobs")
    assert (told.status_code, told.json()["detail"]) == (401, "the token has expired")
    told = api.client().post("/v1/session", json={"token": api.tokens["eve"]})
    assert (told.status_code, told.json()["detail"]) == (401, "the token has expired")
    assert "eve" not in [one["user"] for one in root.get("/v1/tokens").json()]
    assert root.get("/v1/jobs").status_code == 200


def test_tokens_are_not_unknown_while_the_store_fails(
    api: ApiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [Principal("dana", Role.USER), Principal("lee", Role.USER)]

    def failing() -> list[Token]:
        raise StoreFailed("it is down")

    async def authenticate() -> None:
        authenticator = TokenAuthenticator(api.store)

        def at_once() -> "asyncio.Future[list[Principal | BaseException | None]]":
            principals = (authenticator.principal(api.tokens[user]) for user in ("dana", "lee"))
            return asyncio.gather(*principals, return_exceptions=True)

        with monkeypatch.context() as patched:
            patched.setattr(api.store.tokens, "list_all", failing)
            assert {type(one) for one in await at_once()} == {StoreFailed}
        assert await at_once() == known

    asyncio.run(authenticate())


def test_a_body_that_is_too_large_is_refused_before_it_is_read(api: ApiFixture) -> None:
    dana = api.client("dana")
    large = TRAIN | {"environment": {"A": "x" * 20_000}}
    assert dana.post("/v1/jobs", json=large).status_code == 413
    unannounced = dana.post("/v1/jobs", content=(b"x" * 1000 for _ in range(20)))
    assert unannounced.status_code == 413
    assert api.controller.status.jobs == {}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "the body is not JSON"),
        ({"comand": "a"}, "unknown key 'comand' (did you mean 'command'?)"),
        ({"command": []}, "key 'command'"),
        ({"command": "a 'b"}, "no closing quotation"),
        ({"command": "a", "gpus": 0}, "key 'gpus' is 0"),
        ({"command": "a", "gpus": 0.5}, "ask for 1 of the type of the piece, as in a100-1g.10gb"),
        ({"command": "a", "retries": False}, "key 'retries' is False: a number is wanted"),
        ({"command": "a", "gpus": 4, "max_gpus": 2}, "gpus must be between"),
        ({"command": "a", "estimate": "soon"}, "cannot read 'soon' as a duration"),
        ({"command": "a", "cpus": "inf"}, "key 'cpus' is 'inf'"),
        ({"command": "a", "environment": {"1;rm": "x"}}, "1;rm"),
        ({"command": ["a\0b"]}, "key 'command"),
        ({"command": "a", "deadline": {"within": 9, "kind": "softly"}}, "softly"),
        ({"command": "a", "deadline": {"within": -9}}, "key 'deadline.within'"),
        (
            {"command": "a", "deadline": {"kind": "soft", "steps": [{"within": 9, "value": -1}]}},
            "key 'deadline.steps[0].value'",
        ),
        (
            {
                "command": "a",
                "deadline": {
                    "kind": "soft",
                    "steps": [{"within": 9, "value": 1}, {"within": 10, "value": 2}],
                },
            },
            "key 'deadline.steps'",
        ),
        ({"command": "a", "checkpoint": {"signal": "BANG"}}, "name a signal"),
        ({"command": "a", "array": 10**9}, "key 'array'"),
        ([1], "it has to be a table"),
    ],
)
def test_a_malformed_job_is_refused_with_what_is_wrong_where_and_the_nearest_name(
    api: ApiFixture, body: object, error: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    for where in ("/v1/jobs", "/v1/forecast"):
        answered = api.client("dana").post(
            where, content=content, headers={"Content-Type": "application/json"}
        )
        assert answered.status_code == 422
        assert error in answered.json()["detail"]
        assert answered.json()["place"] == "body"
    assert api.controller.status.jobs == {}


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE jobs; --", "$(touch pwned)", "`id`", "../../etc/passwd", "%s%n"]
)
def test_sql_and_shell_syntax_has_no_effect(api: ApiFixture, text: str) -> None:
    dana = api.client("dana")
    wanted = {"command": ["echo", text], "name": text, "environment": {"A": text}}
    number = dana.post("/v1/jobs", json=wanted, headers={"Idempotency-Key": text}).json()[
        "numbers"
    ][0]
    assert dana.get(f"/v1/jobs/{number}").json()["request"] == wanted
    assert dana.get("/v1/jobs", params={"user": text}).json()["jobs"] == []
    assert dana.post("/v1/jobs", json=wanted | {"pool": text}).status_code == 409
    assert dana.get("/v1/jobs", params={"user": text, "over": True}).json()["jobs"] == []
    assert dana.post(f"/v1/nodes/{text}/drain").status_code in (403, 404)
    assert api.client("root").delete(f"/v1/tokens/{text}").status_code in (404, 422)
    assert api.store.tokens.list_all()


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


def test_jobs_of_a_user_and_of_all_users_have_a_quota(api: ApiFixture) -> None:
    dana, lee = api.client("dana"), api.client("lee")
    assert dana.post("/v1/jobs", json=TRAIN | {"array": 41}).status_code == 429
    assert dana.post("/v1/jobs", json=TRAIN | {"array": 40}).json() == {
        "numbers": list(range(40)),
        "notices": [],
    }
    assert lee.post("/v1/jobs", json=TRAIN | {"array": 11}).status_code == 429
    assert lee.post("/v1/jobs", json=TRAIN | {"array": 10}).status_code == 201


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
    _until(lambda: dana.get("/readyz").status_code == 200)
    again = dana.post("/v1/jobs", json=TRAIN, headers=key)
    assert again.json() == {"numbers": [0], "notices": []}
    assert len(api.controller.status.jobs) == 1


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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


def test_logs_are_those_of_all_attempts_and_of_plain_files_only(
    api: ApiFixture, tmp_path: Path
) -> None:
    dana = api.client("dana")
    dana.post("/v1/jobs", json=TRAIN)
    own = f"{dana.get('/v1/jobs/0').json()['identity']}-5e5e5e"
    for attempt, text in (
        (f"ended/0-9-{own}", "first\n"),
        (f"attempts/0-10-{own}", "second\n"),
        (f"ended/1-1-{own}", "no\n"),
        ("ended/0-1-aaaaaa-5e5e5e", "of another job that had this number\n"),
    ):
        folder = tmp_path / "nodes" / "node-0" / attempt
        folder.mkdir(parents=True)
        (folder / "output.log").write_text(text)
    other = tmp_path / "nodes" / "node-0" / "ended" / f"0-11-{own}"
    other.mkdir()
    (other / "output.log").symlink_to("/etc/passwd")
    assert dana.get("/v1/jobs/0/logs").text == (
        "==> nothing is kept of attempts 1, 2, 3, 4, 5, 6, 7 and 8: pruned <==\n"
        "==> attempt 9 on node-0 <==\nfirst\n"
        "==> attempt 10 on node-0 <==\nsecond\n"
    )


def test_a_policy_is_set_by_name_and_never_by_file(api: ApiFixture) -> None:
    root = api.client("root")
    assert root.put("/v1/policy", json={"policy": "las"}).json() == {
        "policy": "las", "admission": "accept-all",
    }  # fmt: skip
    assert root.put("/v1/policy", json={"policy": "/tmp/x.py"}).status_code == 409
    refused = root.put("/v1/policy", json={"policy": "nonesuch"})
    assert (refused.status_code, refused.json()["hint"]) == (409, "see: volvelle list policies")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("las:round=5e-324", "greater than or equal to 0.001"),
        ("las:round=1e300", "less than or equal to 1000000000"),
        ("smallest", "LookupError: no such key"),
    ],
)
def test_a_policy_that_cannot_decide_is_refused_and_the_one_before_goes_on(
    api: ApiFixture, policy: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise LookupError("no such key")

    monkeypatch.setattr(SmallestJob, "key", fails)
    root = api.client("root")
    assert root.post("/v1/jobs", json=TRAIN | {"array": 20}).status_code == 201
    refused = root.put("/v1/policy", json={"policy": policy})
    assert refused.status_code == 409
    assert said in refused.text
    assert root.get("/v1/policy").json()["policy"] == "fifo"
    assert root.get("/healthz").status_code == 200
    assert root.post("/v1/jobs", json=TRAIN).json() == {"numbers": [20], "notices": []}


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
