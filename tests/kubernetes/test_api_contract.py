"""The behaviour of an API server that Volvelle relies on, on the fake one and on a real one."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_servers import READER, Api, fake_api, real_api

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}


@pytest.fixture(scope="module", params=["fake", "real"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    starting = fake_api() if request.param == "fake" else real_api(tmp_path_factory.mktemp("real"))
    with starting as server:
        yield server


def created(api: Api, name: str, **data: str) -> dict[str, Any]:
    """A new ConfigMap."""
    thing = {"metadata": {"name": name}, "data": data}
    path = api.namespaced("configmaps")
    answer = api.client.post(path, json=thing, params={"fieldManager": "creator"})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def gated_pod(api: Api, name: str) -> None:
    spec = {
        "schedulingGates": [{"name": "test/gate"}],
        "containers": [{"name": "main", "image": "none"}],
    }
    answer = api.client.post(
        api.namespaced("pods"), json={"metadata": {"name": name}, "spec": spec}
    )
    assert answer.status_code == 201, answer.text


def events(api: Api, path: str, count: int, **query: str) -> list[dict[str, Any]]:
    """The first events of a watch."""
    found: list[dict[str, Any]] = []
    with api.client.stream("GET", path, params={"watch": "1", **query}) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            found.append(json.loads(line))
            if len(found) == count:
                break
    return found


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    """Status code, reason and message of an answer."""
    status = answer.json()
    assert status["kind"] == "Status"
    return answer.status_code, status["reason"], status["message"]


def test_a_watch_goes_on_after_a_list(api: Api) -> None:
    created(api, "before", a="1")
    path = api.namespaced("configmaps")
    version = api.client.get(path).json()["metadata"]["resourceVersion"]
    created(api, "after", a="1")
    api.client.patch(f"{path}/after", json={"data": {"a": "2"}}, headers=MERGE)
    api.client.delete(f"{path}/after")
    seen = events(api, path, 3, resourceVersion=version)
    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert seen[1]["object"]["data"] == {"a": "2"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions)) and versions[0] > int(version)


def test_a_watch_without_a_version_begins_with_all_that_is_there(api: Api) -> None:
    created(api, "there", a="1")
    seen = events(api, api.namespaced("configmaps"), 1, fieldSelector="metadata.name=there")
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in seen] == [
        ("ADDED", "there")
    ]


def test_an_object_that_is_no_longer_selected_is_deleted_for_a_watch(api: Api) -> None:
    created(api, "labelled")
    path = api.namespaced("configmaps", "labelled")
    api.client.patch(path, json={"metadata": {"labels": {"mine": "yes"}}}, headers=MERGE)
    listed = api.client.get(api.namespaced("configmaps"), params={"labelSelector": "mine=yes"})
    assert [each["metadata"]["name"] for each in listed.json()["items"]] == ["labelled"]
    api.client.patch(path, json={"metadata": {"labels": None}}, headers=MERGE)
    seen = events(
        api,
        api.namespaced("configmaps"),
        1,
        labelSelector="mine=yes",
        resourceVersion=listed.json()["metadata"]["resourceVersion"],
    )
    assert seen[0]["type"] == "DELETED"


def test_bookmarks_say_how_far_a_watch_is(api: Api) -> None:
    if api.fake is None:
        pytest.skip("a real server sends bookmarks once a minute")
    path = api.namespaced("configmaps")
    version = api.client.get(path).json()["metadata"]["resourceVersion"]
    seen = events(api, path, 1, resourceVersion=version, allowWatchBookmarks="true")
    assert seen[0]["type"] == "BOOKMARK"
    assert int(seen[0]["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_a_watch_from_too_old_a_version_is_an_event_in_the_stream(api: Api) -> None:
    if api.fake is None:
        pytest.skip("a real server compacts every five minutes; seen on one of version 1.36")
    version = created(api, "old")["metadata"]["resourceVersion"]
    api.fake.store.compact()
    (event,) = events(api, api.namespaced("configmaps"), 1, resourceVersion=version)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


def test_a_long_list_comes_in_parts(api: Api) -> None:
    for number in range(5):
        created(api, f"part-{number}")
    names: list[str] = []
    query: dict[str, str] = {"limit": "2"}
    while True:
        answer = api.client.get(api.namespaced("configmaps"), params=query).json()
        names += [each["metadata"]["name"] for each in answer["items"]]
        if not (token := answer["metadata"].get("continue")):
            break
        query["continue"] = token
    assert [name for name in names if name.startswith("part-")] == [f"part-{n}" for n in range(5)]


def test_a_change_of_an_old_version_is_refused(api: Api) -> None:
    before = created(api, "changing", a="1")
    path = api.namespaced("configmaps", "changing")
    api.client.patch(path, json={"data": {"a": "2"}}, headers=MERGE)
    version = before["metadata"]["resourceVersion"]
    old = {"metadata": {"resourceVersion": version}, "data": {"a": "3"}}
    code, reason, message = refusal(api.client.patch(path, json=old, headers=MERGE))
    assert (code, reason) == (409, "Conflict")
    assert "the object has been modified" in message
    assert refusal(api.client.put(path, json=before))[:2] == (409, "Conflict")
    assert api.client.get(path).json()["data"] == {"a": "2"}


def test_names_are_taken_once(api: Api) -> None:
    created(api, "taken")
    again = api.client.post(api.namespaced("configmaps"), json={"metadata": {"name": "taken"}})
    assert refusal(again)[:2] == (409, "AlreadyExists")


@pytest.mark.parametrize("how", ["create", "merge"])
def test_apply_of_another_managers_field_names_it_and_the_field(api: Api, how: str) -> None:
    name = f"owned-by-{how}"
    path = api.namespaced("configmaps", name)
    created(api, name, **({"a": "1"} if how == "create" else {}))
    if how == "merge":
        patch = {"data": {"a": "1"}}
        api.client.patch(path, json=patch, headers=MERGE, params={"fieldManager": "creator"})
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"a": "2"},
    }
    applying = {"fieldManager": "applier"}
    refused = api.client.patch(path, json=wanted, headers=APPLY, params=applying)
    code, reason, message = refusal(refused)
    assert (code, reason) == (409, "Conflict")
    assert '"creator"' in message and ".data.a" in message
    (cause,) = refused.json()["details"]["causes"]
    assert cause["reason"] == "FieldManagerConflict" and cause["field"] == ".data.a"
    forced = api.client.patch(
        path, json=wanted, headers=APPLY, params={**applying, "force": "true"}
    )
    assert forced.json()["data"] == {"a": "2"}


def test_a_field_that_is_applied_no_more_goes(api: Api) -> None:
    path = api.namespaced("configmaps", "applied")
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
    for data in ({"a": "1", "b": "1"}, {"a": "1"}):
        answer = api.client.patch(
            path, json={**wanted, "data": data}, headers=APPLY, params={"fieldManager": "applier"}
        )
        assert answer.status_code in (200, 201), answer.text
    assert api.client.get(path).json()["data"] == {"a": "1"}


def test_an_emptied_list_comes_back_absent(api: Api) -> None:
    gated_pod(api, "emptied")
    path = api.namespaced("pods", "emptied")
    patch = [{"op": "replace", "path": "/spec/schedulingGates", "value": []}]
    assert api.client.patch(path, json=patch, headers=JSON).status_code == 200
    assert "schedulingGates" not in api.client.get(path).json()["spec"]


def test_placement_is_final_at_ungating(api: Api) -> None:
    gated_pod(api, "placed")
    path = api.namespaced("pods", "placed")
    patch = [
        {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": "a"}},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    assert api.client.patch(path, json=patch, headers=JSON).status_code == 200
    again = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "b"}}}
    assert refusal(api.client.patch(path, json=again, headers=MERGE))[:2] == (422, "Invalid")


def test_a_patch_that_does_not_apply_changes_nothing(api: Api) -> None:
    created(api, "tested", a="1")
    path = api.namespaced("configmaps", "tested")
    patch = [
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": "1"},
    ]
    assert api.client.patch(path, json=patch, headers=JSON).status_code == 422
    assert api.client.get(path).json()["data"] == {"a": "1"}


def test_status_and_spec_change_apart(api: Api) -> None:
    answer = api.client.post("/api/v1/nodes", json={"metadata": {"name": "apart"}})
    assert answer.status_code == 201, answer.text
    both = {"spec": {"unschedulable": True}, "status": {"allocatable": {"example.com/gpu": "8"}}}
    api.client.patch("/api/v1/nodes/apart/status", json=both, headers=MERGE)
    node = api.client.get("/api/v1/nodes/apart").json()
    assert node["status"]["allocatable"]["example.com/gpu"] == "8"
    assert "unschedulable" not in node.get("spec", {})


def test_a_pod_without_a_node_is_deleted_at_once(api: Api) -> None:
    gated_pod(api, "deleted")
    path = api.namespaced("pods", "deleted")
    assert api.client.delete(path).status_code == 200
    assert refusal(api.client.get(path))[:2] == (404, "NotFound")


def test_a_pod_on_a_node_is_deleted_with_grace(api: Api) -> None:
    spec = {"nodeName": "apart", "containers": [{"name": "main", "image": "none"}]}
    api.client.post(api.namespaced("pods"), json={"metadata": {"name": "grace"}, "spec": spec})
    path = api.namespaced("pods", "grace")
    assert api.client.delete(path).json()["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.client.get(path).json()["status"]["phase"] == "Pending"  # until its node agrees
    api.client.request("DELETE", path, json={"gracePeriodSeconds": 0})
    assert refusal(api.client.get(path))[:2] == (404, "NotFound")


def test_an_object_with_a_finalizer_stays_until_that_is_removed(api: Api) -> None:
    thing = {"metadata": {"name": "finalized", "finalizers": ["example.com/hold"]}}
    api.client.post(api.namespaced("configmaps"), json=thing)
    path = api.namespaced("configmaps", "finalized")
    api.client.delete(path)
    assert "deletionTimestamp" in api.client.get(path).json()["metadata"]
    api.client.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert api.client.get(path).status_code == 404


def test_a_user_without_the_right_is_told_what_is_missing(api: Api) -> None:
    answer = api.of(READER).post(
        api.namespaced("configmaps"), json={"metadata": {"name": "denied"}}
    )
    code, reason, message = refusal(answer)
    assert (code, reason) == (403, "Forbidden")
    assert 'User "reader" cannot create resource "configmaps" in API group ""' in message
    assert api.of("wrong").get("/api/v1/nodes").status_code == 401


def test_a_kind_that_is_not_served_is_not_found(api: Api) -> None:
    assert api.client.get("/apis/kueue.x-k8s.io/v9/workloads").status_code == 404
