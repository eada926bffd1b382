"""The executor `kubernetes` where it differs from others: pods, nodes, its one writer, and mistakes."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from api_objects import ApiError, merged
from executor_harnesses import KubernetesHarness
from fake_api_server import READ_ONLY, FakeApiServer, Rule, User
from fake_kubelet import RESOURCE
from kubernetes_cluster import OUT_OF_SERVICE, pod_template
from waiting import until

from volvelle.kubernetes_api import KubernetesApi
from volvelle.live.agent.wire import TaskEnded
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    AttemptStarted,
    Grant,
    JournalPosition,
    Launch,
    NodeCondition,
    NodeJoined,
    NodeLost,
    Outcome,
    Start,
    Stop,
)
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.nodes.executors import kubernetes_lease
from volvelle.live.nodes.executors.kubernetes_jobs import PodAttempt, end_of, has_ended
from volvelle.live.nodes.executors.kubernetes_lease import WriterLease
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem

KEY = AttemptKey(1, 1)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[KubernetesHarness]:
    harness = KubernetesHarness(tmp_path)
    harness.written += ",start_seconds=2"
    try:
        harness.open()
        yield harness
    finally:
        harness.kill_all()


def starts(harness: KubernetesHarness) -> int:
    return len([line for line in harness.trace() if "started" in line])


def change(harness: KubernetesHarness, plural: str, name: str, patch: Any, **how: Any) -> None:
    store = harness.cluster.store
    namespace = "" if plural == "nodes" else "default"
    store.update(store.kind(plural), lambda one: merged(one, patch), namespace, name, **how)


def test_a_pod_that_is_removed_by_force_has_not_ended(harness: KubernetesHarness) -> None:
    harness.start()
    harness.wait(AttemptProgress)
    node, store = harness.nodes[0], harness.cluster.store
    (pod,) = harness.cluster.pods(("Running",))
    harness.cluster.kubelets[node].contact = False
    store.delete(store.kind("pods"), "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})
    other = until(
        lambda: [
            each
            for each in store.listed("pods")
            if each["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
    )
    report_count = len(harness.reports)
    harness.wait(AttemptProgress, report_count=report_count)  # it runs on, as its agent says
    assert not harness.since(AttemptEnded)
    assert other[0]["spec"]["schedulingGates"]  # and its Job's new pod is never placed
    harness.cluster.kubelets[node].contact = True  # now the node ends what is not there any more
    assert harness.end().outcome in (Outcome.STOPPED, Outcome.FAILED)
    assert starts(harness) == 1


def test_a_node_that_is_not_ready_takes_no_jobs_and_keeps_those_it_has(
    harness: KubernetesHarness,
) -> None:
    harness.start()
    harness.wait(AttemptProgress)
    kubelet = harness.cluster.kubelets[harness.nodes[0]]
    kubelet.contact = False
    (silent,) = until(lambda: harness.since(NodeCondition))
    assert silent.name == harness.nodes[0]
    assert "it is not ready" in silent.problem
    kubelet.contact = True
    back = until(lambda: next(iter(harness.since(NodeCondition)[1:]), None))
    assert (back.name, back.problem) == (harness.nodes[0], "")
    assert not harness.since(NodeLost) and not harness.since(AttemptEnded)
    harness.send(Stop(1, 1))
    assert harness.end().outcome is Outcome.STOPPED


@pytest.mark.parametrize("how", ["deleted", "out of service"])
def test_a_node_is_lost_when_somebody_vouches_for_it(harness: KubernetesHarness, how: str) -> None:
    harness.start()
    harness.wait(AttemptStarted)
    node, store = harness.nodes[0], harness.cluster.store
    harness.cluster.kubelets[node].stop()
    if how == "deleted":
        store.delete(store.kind("nodes"), "", node)
    else:
        change(harness, "nodes", node, {"spec": {"taints": [{"key": OUT_OF_SERVICE}]}})
    (lost,) = until(lambda: harness.since(NodeLost))
    assert lost.name == node and how in lost.reason
    ended = harness.end()
    assert ended.outcome is Outcome.LOST
    assert ended.reason == f"{node} was lost: {lost.reason}"
    if how == "deleted":
        harness.cluster.kubelets[node].start()
        until(lambda: [each for each in harness.since(NodeJoined)[2:] if each.node.name == node])


def test_a_start_that_kubernetes_refuses_is_placed_again(harness: KubernetesHarness) -> None:
    node, store = harness.nodes[0], harness.cluster.store
    taken = {
        "metadata": {"name": "of-another"},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "image": "x", "command": ["sleep", "60"],
                 "resources": {"limits": {RESOURCE: 2}}}
            ],
        },
    }  # fmt: skip
    store.create(store.kind("pods"), taken)
    harness.start()
    ended = harness.end()
    assert (ended.outcome, ended.node_failed) == (Outcome.FAILED, True)
    assert ended.reason.startswith("could not start: Unschedulable: 0/2 nodes are available")
    assert harness.trace() == [] and store.listed("jobs") == []
    harness.start("iterations=2", attempt=2, first=1)  # elsewhere it runs
    assert harness.end(attempt=2).outcome is Outcome.FINISHED


def test_a_job_that_may_not_be_created_is_refused_after_a_while(
    harness: KubernetesHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    quota = ApiError(403, "Forbidden", "exceeded quota: gpus")
    server = harness.cluster.server
    server.fault = lambda one: quota if (one.verb, one.kind.plural) == ("create", "jobs") else None
    harness.start()
    ended = harness.end()
    assert (ended.outcome, ended.node_failed) == (Outcome.FAILED, True)
    assert ended.reason == "could not start: exceeded quota: gpus"
    assert capfd.readouterr().err.count("warning: exceeded quota: gpus") == 1
    tries = [one for one in server.requests if (one.verb, one.kind.plural) == ("create", "jobs")]
    assert 1 < len(tries) < 20


def test_a_node_with_fewer_gpus_than_it_had_says_so(harness: KubernetesHarness) -> None:
    kubelet = harness.cluster.kubelets[harness.nodes[1]]
    kubelet.broken = 1
    (fewer,) = until(lambda: harness.since(NodeCondition))
    assert (fewer.name, fewer.problem) == (kubelet.name, "1 of its 2 GPUs are allocatable")
    kubelet.broken = 0
    until(lambda: harness.since(NodeCondition)[-1].problem == "")


def test_objects_that_are_not_as_expected_stop_no_jobs(
    harness: KubernetesHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    kubelet = harness.cluster.kubelets[harness.nodes[1]]
    kubelet.broken = 0.5
    harness.start("iterations=2")
    assert harness.end().outcome is Outcome.FINISHED
    said = capfd.readouterr().err
    assert "an object of the Kubernetes API is not as expected" in said and "ValueError" in said


def test_unequal_parts_run_in_equal_pods(harness: KubernetesHarness) -> None:
    words = ("sh", "-c", "echo $VOLVELLE_NODE $VOLVELLE_NODES $VOLVELLE_GPUS > $VOLVELLE_NODE_RANK")
    grants = (Grant(harness.nodes[0], (0, 1)), Grant(harness.nodes[1], (1,)))
    launch = Launch(command=words, directory=str(harness.folder), container="an/image:1")
    harness.send(Start(1, 1, user="dana", grants=grants, launch=launch))
    assert harness.end().outcome is Outcome.FINISHED
    said = [(harness.folder / rank).read_text().split() for rank in "012"]
    first, second = harness.nodes
    assert said == [[first, "3", "0"], [first, "3", "0"], [second, "3", "0"]]
    pods = harness.cluster.store.listed("pods")
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"an/image:1"}


def test_an_evicted_pod_is_asked_to_end_and_says_so(harness: KubernetesHarness) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    harness.start(command=("sh", "-c", script))
    harness.wait(AttemptStarted)
    (pod,) = harness.cluster.pods(("Running",))
    store, name = harness.cluster.store, pod["metadata"]["name"]
    until(lambda: harness.logs.log_sizes(harness.nodes[0], 1, "").result(9) == {"1-1": 6})
    store.delete(store.kind("pods"), "default", name)
    ended = harness.end()
    assert (ended.outcome, ended.reason) == (Outcome.STOPPED, "its machine was shut down")


def told(attempt: PodAttempt, index: int = 0) -> str:
    ended = attempt.end(index, Outcome.STOPPED, "as it says", saved_iterations=7)
    return msgspec.json.encode(ended).decode()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"terminated": {"exitCode": 75, "message": "TOLD"}},
            (Outcome.STOPPED, "as it says", False),
        ),
        (
            {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            (Outcome.FAILED, "its pod ended: OOMKilled (exit code 137)", False),
        ),
        (
            {"terminated": {"exitCode": 1, "reason": "Error", "message": '{"type":"other"}'}},
            (Outcome.LOST, "its pod ended: Error (exit code 1)", False),
        ),
    ],
)
def test_the_end_of_a_pod_without_its_agent(
    status: dict[str, Any], expected: tuple[Outcome, str, bool]
) -> None:
    attempt = PodAttempt(KEY, ("a",), 1)
    ended = status["terminated"]
    if ended.get("message") == "TOLD":
        ended["message"] = told(attempt)
    pod = {
        "metadata": {},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Failed", "containerStatuses": [{"state": status}]},
    }
    found: TaskEnded = end_of(attempt, 0, pod)
    assert (found.outcome, found.reason, found.node_failed) == expected
    assert has_ended(pod)


def test_an_end_that_another_pod_left_is_not_believed() -> None:
    attempt = PodAttempt(KEY, ("a", "b"), 1)
    state = {"terminated": {"exitCode": 75, "message": told(attempt, 1)}}
    status = {"phase": "Failed", "containerStatuses": [{"state": state}]}
    pod = {"metadata": {}, "spec": {"nodeName": "a"}, "status": status}
    assert end_of(attempt, 0, pod).outcome is Outcome.LOST


def test_a_pod_that_was_only_called_failed_may_run() -> None:
    running = {"phase": "Failed", "containerStatuses": [{"state": {"running": {}}}]}
    assert not has_ended({"metadata": {}, "spec": {"nodeName": "a"}, "status": running})


# ---------------------------------------------------------------------- one writer, mistakes


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    pytest.importorskip("lightkube", reason="no client of Kubernetes is installed")
    with FakeApiServer() as server:
        yield server


def opened(server: FakeApiServer, folder: Path, *more: str, token: str = "") -> Any:
    words = [
        f"kubeconfig={server.kubeconfig(folder, token=token)}",
        "host=127.0.0.1",
        "port=0",
        *more,
    ]
    context = ExecutorContext(parse_cluster("1x2"), folder / "executor", "token")
    return executors.make(f"kubernetes:{','.join(words)}").open(context, lambda report: None)


def test_a_second_server_is_refused(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_lease, "DURATION_SECONDS", 2.0)
    monkeypatch.setattr(kubernetes_lease, "_RENEW_SECONDS", 0.5)
    server.store.create(server.store.kind("podtemplates"), pod_template("/work"))
    first = opened(server, tmp_path, "address=a:1", "poll_seconds=0.1")
    (tmp_path / "second").mkdir()
    away, turns = ApiError(503, "ServiceUnavailable", "the server is starting"), itertools.count(1)
    server.fault = lambda one: away if one.verb == "get" and next(turns) % 3 == 0 else None
    try:
        with pytest.raises(Problem, match="another server runs jobs in the namespace 'default'"):
            opened(server, tmp_path / "second", "address=a:1")
    finally:
        first.close()
        server.fault = lambda one: None
    with monkeypatch.context() as without_waiting:
        without_waiting.setattr(kubernetes_lease, "_POLL_SECONDS", -1.0)  # which no sleep takes
        opened(server, tmp_path, "address=a:1").close()  # the same server goes on at once
    opened(server, tmp_path / "second", "address=a:1").close()  # another one after the lease


def test_nothing_more_is_done_in_a_step_in_which_the_lease_is_lost(
    server: FakeApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(kubernetes_lease, "_RENEW_SECONDS", 0.0)
    store = server.store
    store.create(store.kind("podtemplates"), pod_template("/work"))
    node = {"metadata": {"name": "n0"}, "status": {"capacity": {RESOURCE: "2"}}}
    store.create(store.kind("nodes"), node)
    done: list[Any] = []

    def fault(request: Any) -> None:
        """Another server takes the Lease while the first Job is created."""
        if (request.verb, request.kind.plural) == ("create", "jobs"):
            done.append(request)
            other = {"spec": {"holderIdentity": "other"}}
            store.update(
                store.kind("leases"), lambda one: merged(one, other), "default", "volvelle"
            )

    server.fault = fault
    first = opened(server, tmp_path, "address=a:1", "poll_seconds=0.1")
    try:
        for number in (1, 2):
            launch = Launch(command=("true",), directory="/work")
            first.send(Start(number, 1, user="dana", grants=(Grant("n0", (0,)),), launch=launch))
        until(lambda: "another server holds the Lease" in capfd.readouterr().err)
        assert len(done) == 1
    finally:
        first.close()


def test_a_machine_that_has_just_booted_holds_no_lease(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_lease, "time", SimpleNamespace(monotonic=lambda: 1.0))
    api = KubernetesApi(str(server.kubeconfig(tmp_path)))
    first, second = (WriterLease(api, "volvelle", tmp_path / name) for name in "ab")
    assert not first.held and first.renew() and first.held
    assert not second.renew()


def test_how_far_the_journal_is_written_outlives_the_pods(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_lease, "_RENEW_SECONDS", 0.1)
    server.store.create(server.store.kind("podtemplates"), pod_template("/work"))
    server.store.create(
        server.store.kind("nodes"),
        {"metadata": {"name": "n0"}, "status": {"capacity": {RESOURCE: "2"}}},
    )

    def joined(written: JournalPosition) -> NodeJoined:
        reports: list[Any] = []
        context = ExecutorContext(
            parse_cluster("1x2"), tmp_path / "executor", "token", position=lambda: written
        )
        words = f"kubeconfig={server.kubeconfig(tmp_path)},host=127.0.0.1,port=0,address=a:1"
        executor = executors.make(f"kubernetes:{words},poll_seconds=0.1")
        opened = executor.open(context, reports.append)
        try:
            found: NodeJoined = until(
                lambda: next((one for one in reports if type(one) is NodeJoined), None)
            )
            if written.next_number > 1:
                until(lambda: written.server in str(server.store.listed("leases")))
            return found
        finally:
            opened.close()

    assert joined(JournalPosition("without a job", 4, 1)).known == ()
    assert joined(JournalPosition("first", 7, 3)).known == ()
    assert joined(JournalPosition("second", 9, 5)).known == (JournalPosition("first", 7, 3),)
    both = (JournalPosition("first", 7, 3), JournalPosition("second", 9, 5))
    assert joined(JournalPosition("third", 9, 5)).known == both


@pytest.mark.parametrize(
    ("words", "rules", "message"),
    [
        ((), (READ_ONLY,), "pods do not know where this server is. Say it with address=HOST:PORT"),
        (("address=a:1", "template=none"), (READ_ONLY,),
         "there is no PodTemplate 'none' in the namespace 'default'. Apply one"),
        (("address=a:1", "work=/elsewhere"), (READ_ONLY,),
         "the PodTemplate 'volvelle' mounts nothing at /elsewhere: checkpoints would be lost"),
        (("address=a:1",), (READ_ONLY,),
         "cannot hold the Lease 'volvelle': leases.coordination.k8s.io is forbidden: User \"dana\""),
        (("address=a:1",), (Rule(("get",)), Rule(("*",), ("leases",))),
         "cannot list and watch jobs: jobs.batch is forbidden: User \"dana\" cannot list"),
        (("address=a:1",), (Rule(("create",)),),
         "cannot read the template of pods: podtemplates \"volvelle\" is forbidden"),
        (("address=a:1", "context=other"), (READ_ONLY,), "no Kubernetes API server is found by"),
    ],
)  # fmt: skip
def test_mistakes_are_sentences(
    server: FakeApiServer,
    tmp_path: Path,
    words: tuple[str, ...],
    rules: tuple[Rule, ...],
    message: str,
) -> None:
    server.store.create(server.store.kind("podtemplates"), pod_template("/work"))
    server.users["it"] = User("dana", rules)
    with pytest.raises(Problem) as problem:
        opened(server, tmp_path, *words, token="it")
    assert message in str(problem.value)


def test_an_api_that_does_not_answer_is_named(server: FakeApiServer, tmp_path: Path) -> None:
    server.__exit__()
    with pytest.raises(
        Problem, match=r"cannot read the template of pods: the Kubernetes API at http"
    ):
        opened(server, tmp_path, "address=a:1")
    executor = executors.make(f"kubernetes:kubeconfig={server.kubeconfig(tmp_path)}")
    with pytest.raises(Problem, match="cannot list nodes"):
        executor.discover_cluster()


def test_nodes_are_found_with_their_gpus(server: FakeApiServer, tmp_path: Path) -> None:
    words = f"kubeconfig={server.kubeconfig(tmp_path)},levels=rack"
    executor = executors.make(f"kubernetes:{words}")
    server.store.create(server.store.kind("nodes"), {"metadata": {"name": "new"}})
    with pytest.raises(Problem, match="no node of the Kubernetes cluster has nvidia"):
        executor.discover_cluster()
    store = server.store
    for name, gpus in (("b", 4), ("a", 2), ("without", 0)):
        labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "rack": f"r-{name}"}
        node = {"metadata": {"name": name, "labels": labels}}
        store.create(store.kind("nodes"), node | {"status": {"capacity": {RESOURCE: str(gpus)}}})
    found = executor.discover_cluster()
    assert found is not None
    assert [(node.name, node.gpus) for node in found.nodes] == [("a", 2), ("b", 4)]
    assert {node.gpu_type for node in found.nodes} == {"nvidia-a100-sxm4-80gb"}
    assert [node.domain for node in found.nodes] == [("r-a",), ("r-b",)]
    assert [level.name for level in found.levels] == ["rack"]
