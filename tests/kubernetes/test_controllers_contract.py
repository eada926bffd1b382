"""The behaviour of jobs, pods and nodes that the executor relies on, as a cluster of version 1.36 has it.

Shown on the fake controllers: a real API server alone has none (docs/how-to/show-on-a-real-cluster.md).
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_objects import Object
from fake_kubelet import RESOURCE
from kubernetes_cluster import OUT_OF_SERVICE, UNREACHABLE, KubernetesCluster
from waiting import until

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
JSON = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


class Client:
    """An operator of the cluster."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.cluster, self.http = cluster, httpx.Client(base_url=cluster.server.url)

    def create(self, *command: str, count: int = 1, gpus: int = 1, **spec: Any) -> None:
        """A suspended, indexed job whose pods are gated."""
        container = {
            "name": "main",
            "image": "none",
            "command": list(command) or ["sleep", "600"],
            "resources": {"limits": {RESOURCE: gpus}},
        }
        template = {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "schedulingGates": [{"name": "test/gate"}],
                "containers": [container],
            }
        }
        job = {
            "metadata": {"name": "job"},
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": count,
                "parallelism": count,
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "template": template,
                **spec,
            },
        }
        answer = self.http.post(JOBS, json=job)
        assert answer.status_code == 201, answer.text

    def suspend(self, suspended: bool) -> None:
        patch = {"spec": {"suspend": suspended}}
        assert self.http.patch(f"{JOBS}/job", json=patch, headers=MERGE).status_code == 200

    @property
    def job(self) -> Object:
        found: Object = self.http.get(f"{JOBS}/job").json()
        return found

    def pods(self) -> list[Object]:
        found: list[Object] = self.http.get(PODS).json()["items"]
        return found

    def place(self, pod: Object, node: str) -> int:
        patch = [
            {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": node}},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        path = f"{PODS}/{pod['metadata']['name']}"
        return self.http.patch(path, json=patch, headers=JSON).status_code

    def run(self, *nodes: str) -> None:
        """Have the pods run on these nodes."""
        self.suspend(False)
        until(lambda: len(self.pods()) == len(nodes))
        for pod, node in zip(self.pods(), nodes, strict=True):
            assert self.place(pod, node) == 200
        until(lambda: [pod["status"]["phase"] for pod in self.pods()] == ["Running"] * len(nodes))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with KubernetesCluster(tmp_path, {"a": 2, "b": 2}) as cluster:
        yield Client(cluster)


def test_a_suspended_job_has_no_pods_and_gated_ones_when_it_is_resumed(client: Client) -> None:
    client.create(count=2)
    until(lambda: client.job.get("status", {}).get("conditions"))
    assert client.pods() == []
    client.suspend(False)
    until(lambda: len(client.pods()) == 2)
    indices = [
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        for pod in client.pods()
    ]
    assert sorted(indices) == ["0", "1"]
    time.sleep(0.3)
    assert not any("nodeName" in pod["spec"] for pod in client.pods())  # none is placed


def test_a_pod_runs_on_the_node_that_its_ungating_chose(client: Client) -> None:
    client.create("sh", "-c", "echo here", count=2)
    client.suspend(False)
    until(lambda: len(client.pods()) == 2)
    for pod, node in zip(client.pods(), ("b", "a"), strict=True):
        assert client.place(pod, node) == 200
    until(lambda: client.job["status"].get("succeeded") == 2)
    assert [pod["spec"]["nodeName"] for pod in client.pods()] == ["b", "a"]
    assert [each["type"] for each in client.job["status"]["conditions"]] == [
        "Suspended",
        "Complete",
    ]
    name = client.pods()[0]["metadata"]["name"]
    assert client.http.get(f"{PODS}/{name}/log").content == b"here\n"


def test_a_suspended_jobs_pods_run_on_for_their_grace_and_occupy_gpus(client: Client) -> None:
    client.create("sh", "-c", "trap '' TERM; sleep 600", gpus=2, backoffLimit=6)
    client.run("a")
    client.suspend(True)
    until(lambda: client.job["status"].get("terminating") == 1)
    assert "active" not in client.job["status"]
    (old,) = client.pods()
    assert old["status"]["phase"] == "Running" and "deletionTimestamp" in old["metadata"]
    client.suspend(False)
    time.sleep(0.4)
    assert [pod["metadata"]["uid"] for pod in client.pods()] == [old["metadata"]["uid"]]
    until(lambda: old["metadata"]["uid"] not in [p["metadata"]["uid"] for p in client.pods()])
    until(lambda: len(client.pods()) == 1)  # only now there is a new one, gated again
    assert client.pods()[0]["spec"]["schedulingGates"] == [{"name": "test/gate"}]


def test_pods_of_a_silent_node_stay_running(client: Client) -> None:
    client.create()
    client.run("a")
    client.cluster.kubelets["a"].contact = False

    def node() -> Object:
        found: Object = client.http.get("/api/v1/nodes/a").json()
        return found

    until(lambda: node()["status"]["conditions"][0]["status"] == "Unknown")
    until(lambda: UNREACHABLE in [taint["key"] for taint in node()["spec"].get("taints", ())])
    time.sleep(0.3)
    assert [pod["status"]["phase"] for pod in client.pods()] == ["Running"]
    client.cluster.kubelets["a"].contact = True
    until(lambda: node()["status"]["conditions"][0]["status"] == "True")
    until(lambda: "taints" not in node()["spec"])
    assert [pod["status"]["phase"] for pod in client.pods()] == ["Running"]


def test_a_force_delete_frees_the_object_and_not_the_node(client: Client, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    client.create("sh", "-c", f"while :; do echo >> {marks}; sleep 0.05; done")
    client.run("a")
    (pod,) = client.pods()
    client.cluster.kubelets["a"].contact = False
    path = f"{PODS}/{pod['metadata']['name']}"
    client.http.request("DELETE", path, json={"gracePeriodSeconds": 0})
    until(lambda: pod["metadata"]["name"] not in [p["metadata"]["name"] for p in client.pods()])
    size = marks.stat().st_size
    until(lambda: marks.stat().st_size > size)  # it runs on
    until(client.pods)  # and its job has another pod, which is gated
    assert "schedulingGates" in client.pods()[0]["spec"]


@pytest.mark.parametrize("how", ["deleted", OUT_OF_SERVICE])
def test_pods_of_a_node_that_is_gone_go_with_it(client: Client, how: str) -> None:
    client.create()
    client.run("a")
    client.cluster.kubelets["a"].stop()
    if how == "deleted":
        client.http.delete("/api/v1/nodes/a")
    else:
        until(
            lambda: (
                client.http.get("/api/v1/nodes/a").json()["status"]["conditions"][0]["status"]
                == "Unknown"
            )
        )
        taints = [{"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]
        client.http.patch("/api/v1/nodes/a", json={"spec": {"taints": taints}}, headers=MERGE)
    until(lambda: "Running" not in [pod["status"]["phase"] for pod in client.pods()])


def test_a_deleted_jobs_pods_end_with_their_grace(client: Client) -> None:
    client.create()
    client.run("a")
    client.http.request("DELETE", f"{JOBS}/job", json={"propagationPolicy": "Background"})
    assert client.http.get(f"{JOBS}/job").status_code == 404
    until(lambda: not client.pods())


def test_a_failed_pod_ends_a_job_without_retries_and_its_other_pods(client: Client) -> None:
    client.create(
        "sh", "-c", 'test "$JOB_COMPLETION_INDEX" = 0 && sleep 600; sleep 1; exit 3', count=2
    )
    client.run("a", "b")
    until(lambda: "Failed" in [each["type"] for each in client.job["status"].get("conditions", ())])
    until(lambda: client.job["status"]["terminating"] == 0 and "active" not in client.job["status"])
    codes = [
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        for pod in client.pods()
    ]
    assert 3 in codes
