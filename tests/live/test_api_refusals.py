"""The HTTP API: input that is refused, and with which words."""

import json
from typing import Any

import pytest
from api_fixtures import TRAIN, ApiFixture

from volvelle.policies.orders import SmallestJob

pytest_plugins = ["api_fixtures"]


def test_the_same_key_with_another_job_is_refused(api: ApiFixture) -> None:
    dana = api.client("dana")
    key = {"Idempotency-Key": "tuesday"}
    dana.post("/v1/jobs", json=TRAIN, headers=key)
    refused = dana.post("/v1/jobs", json={**TRAIN, "name": "other"}, headers=key)
    assert refused.status_code == 422
    assert refused.json()["detail"] == "the key 'tuesday' was sent before, with another job"
    assert len(dana.get("/v1/jobs").json()["jobs"]) == 1


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


def test_large_headers_are_refused(api: ApiFixture) -> None:
    told = api.client("dana").get("/v1/jobs", headers={"X-Large": "a" * 40_000})
    assert (told.status_code, told.json()["detail"]) == (431, "the headers are too large")


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


def test_a_policy_is_set_by_name_and_never_by_file(api: ApiFixture) -> None:
    root = api.client("root")
    assert root.put("/v1/policy", json={"policy": "las"}).json() == {
        "policy": "las", "admission": "accept-all",
    }  # fmt: skip
    by_file = root.put("/v1/policy", json={"policy": "my.py:own"})
    assert by_file.status_code == 409
    assert "start it again with --policy my.py:own" in by_file.json()["hint"]
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
