"""Our client of an API server: what it follows, and what it says where it cannot."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_objects import ApiError, Object
from fake_api_server import READ_ONLY, FakeApiServer, User
from waiting import until

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Watched, as_problem
from volvelle.model.problems import Problem

PODS = "api/v1/namespaces/default/pods"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer(bookmark_seconds=0.1) as server:
        yield server


def connected(server: FakeApiServer, folder: Path, token: str = "") -> KubernetesApi:
    return KubernetesApi(str(server.kubeconfig(folder, token=token)))


UNAVAILABLE = ApiError(503, "ServiceUnavailable", "it starts anew")


def pod(name: str, **labels: str) -> Object:
    gates = [{"name": "test/gate"}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"schedulingGates": gates}}


def test_watched_objects_follow_through_gaps(server: FakeApiServer, tmp_path: Path) -> None:
    api = connected(server, tmp_path)
    api.create(PODS, pod("one", mine="yes"))
    gone: list[str] = []
    watched = Watched(
        api, PODS, gone=lambda pod, last: gone.append(pod["metadata"]["name"]), labels="mine=yes"
    )
    watched.begin()
    assert watched.named("one", "default") is not None
    api.create(PODS, pod("two", mine="yes"))
    until(lambda: watched.named("two", "default"))
    # the server forgets what happened while nobody watched
    server.fault = lambda request: UNAVAILABLE if request.verb == "watch" else None
    server.break_connections()
    until(lambda: watched.problem)
    api.delete(f"{PODS}/one")
    api.create(PODS, pod("three", mine="yes"))
    server.store.compact()
    server.fault = lambda request: None
    until(lambda: watched.named("three", "default"))
    assert gone == ["one"] and sorted(name for _, name in watched.objects) == ["three", "two"]
    until(lambda: not watched.problem)
    # what is selected no more is gone, too
    api.patch(f"{PODS}/two", {"metadata": {"labels": None}})
    until(lambda: gone == ["one", "two"])
    watched.close()
    api.close()


def test_long_lists_are_read_in_parts(server: FakeApiServer, tmp_path: Path) -> None:
    for number in range(501):
        server.store.create(server.store.kind("pods"), pod(f"pod-{number}"))
    found, version = connected(server, tmp_path).listed(PODS)
    assert len(found) == 501 and int(version) == server.store.version
    lists = [each for each in server.requests if each.verb == "list"]
    assert len(lists) == 2


def test_mistakes_are_sentences(server: FakeApiServer, tmp_path: Path) -> None:
    server.users["reader"] = User("system:serviceaccount:default:reader", (READ_ONLY,))
    api = connected(server, tmp_path, "reader")
    with pytest.raises(ApiRefusal) as refused:
        api.create(PODS, pod("one"))
    assert str(as_problem(refused.value, "create pods")) == (
        'cannot create pods: pods is forbidden: User "system:serviceaccount:default:reader" cannot '
        'create resource "pods" in API group "" in the namespace "default". Give the account this right '
        "(docs/how-to/run-on-kubernetes.md has the manifest)."
    )
    with pytest.raises(ApiRefusal) as refused:
        connected(server, tmp_path, "wrong").get(f"{PODS}/one")
    assert refused.value.code == 401
    server.__exit__()
    with pytest.raises(OSError, match="the Kubernetes API at http") as silent:
        api.get(PODS)
    assert "Start the API server" in str(as_problem(silent.value, "read pods"))


def test_a_patch_is_of_the_kind_that_it_looks_like(server: FakeApiServer, tmp_path: Path) -> None:
    api = connected(server, tmp_path)
    api.create(PODS, pod("one"))
    node = {"kubernetes.io/hostname": "a"}
    api.patch(
        f"{PODS}/one",
        [
            {"op": "add", "path": "/spec/nodeSelector", "value": node},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ],
    )
    assert api.get(f"{PODS}/one")["spec"] == {"nodeSelector": node}
    api.patch(f"{PODS}/one", {"metadata": {"labels": {"a": "b"}}})
    assert api.get(f"{PODS}/one")["metadata"]["labels"] == {"a": "b"}
    api.delete(f"{PODS}/one")
    api.delete(f"{PODS}/one")  # it is gone already


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "while parsing a flow node"),
        ("", "it is no whole kubeconfig"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: y, user: z}}]",
            "it is no whole kubeconfig without 'clusters'",
        ),
    ],
)
def test_what_is_no_kubeconfig_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(Problem, match=rf"no Kubernetes API server is found by .*config: {said}"):
        KubernetesApi(str(tmp_path / "config"))
