"""Access to the HTTP API: whose jobs and operations they are, tokens, and the record of who asked."""

import asyncio
import json
from pathlib import Path

import pytest
from api_fixtures import TRAIN, ApiFixture
from waiting import until

from volvelle.live.http.authentication import Principal, TokenAuthenticator, digest_of
from volvelle.live.records import AskedBy
from volvelle.live.role import Role
from volvelle.live.store import StoreFailed, Token

pytest_plugins = ["api_fixtures"]


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
    until(lambda: {node.state for node in api.controller.status.nodes} == {"up"})
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


def test_jobs_of_a_user_and_of_all_users_have_a_quota(api: ApiFixture) -> None:
    dana, lee = api.client("dana"), api.client("lee")
    assert dana.post("/v1/jobs", json=TRAIN | {"array": 41}).status_code == 429
    assert dana.post("/v1/jobs", json=TRAIN | {"array": 40}).json() == {
        "numbers": list(range(40)),
        "notices": [],
    }
    assert lee.post("/v1/jobs", json=TRAIN | {"array": 11}).status_code == 429
    assert lee.post("/v1/jobs", json=TRAIN | {"array": 10}).status_code == 201


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
