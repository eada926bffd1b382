"""Nodes that are missing when a controller starts: lost once that is certain, fenced if they return."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from executor_harnesses import (
    JOB,
    SOURCES,
    DialInHarness,
    ExecutorHarness,
    LocalHarness,
    RayHarness,
)
from running_controller import running_controller
from waiting import until

from volvelle.live.agent.gpus import Gpu
from volvelle.live.control import controller as control
from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptProgress, NodeJoined, NodeLost
from volvelle.live.nodes import agents_server
from volvelle.live.nodes.executors import local
from volvelle.live.status.view import JobState
from volvelle.model.cluster import Cluster
from volvelle.model.node import Node

NODES = (Node("node-0", 2), Node("node-1", 2))
LEASE_SECONDS = 4.0


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DialInHarness]:
    monkeypatch.setattr(agents_server, "_LEASE_MARGIN_SECONDS", 2.0)
    harness = DialInHarness(tmp_path, LEASE_SECONDS)
    try:
        yield harness
    finally:
        harness.kill_all()


def controlled(
    harness: ExecutorHarness, nodes: tuple[Node, ...] = NODES
) -> AbstractContextManager[Controller]:
    """A controller over the store and the executor of ``harness``, for a cluster of ``nodes``."""
    return running_controller(harness.folder, Cluster(nodes), harness.written, "fifo")


def training(*arguments: str) -> JobRequest:
    return JobRequest(
        command=(sys.executable, "-S", str(JOB), *arguments),
        environment={"PYTHONPATH": str(SOURCES)},
        gpus=2,
    )


def submitted(controller: Controller, *arguments: str) -> int:
    (number,) = controller.request(Submit("dana", training(*arguments), None)).result(10)
    return int(number)


def states(controller: Controller) -> dict[str, str]:
    return {node.name: node.state for node in controller.status.nodes}


def runs_on(controller: Controller, number: int, node: str) -> Callable[[], bool]:
    def condition() -> bool:
        job = controller.status.jobs.get(number)
        return bool(job and job.state is JobState.RUNNING and [n for n, _ in job.grants] == [node])

    return condition


def ended(controller: Controller, number: int) -> str:
    def state() -> str | None:
        record = controller.store.jobs.find(number)
        return record.state if record else None

    return until(state)


@pytest.mark.parametrize("nodes", [NODES, NODES[1:]], ids=["in the cluster", "removed from it"])
def test_jobs_of_a_node_that_never_reconnects_run_elsewhere_and_it_is_fenced(
    harness: DialInHarness, nodes: tuple[Node, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with controlled(harness) as controller:
        assert set(states(controller).values()) == {"down"}
        assert not controller.health.problems, "their agents may still come"
        monkeypatch.setattr(control, "_JOIN_SECONDS", 0.0)
        said = "all nodes are down (2), so no job runs: start `volvelle agent` on each"
        assert controller.health.problems == (said,)
        harness.provide_nodes()
        until(lambda: set(states(controller).values()) == {"up"})
        assert not controller.health.problems
        number = submitted(controller, "iterations=500")
        first = until(
            lambda: (
                controller.status.jobs[number].grants
                if controller.status.jobs[number].iterations
                else None
            )
        )[0][0]
        assert first == "node-0"
        harness.end_agents()
    with controlled(harness, nodes) as controller:
        harness.return_agent("node-1")
        until(runs_on(controller, number, "node-1"))
        assert states(controller) == {"node-0": "down", "node-1": "up"}
        assert not controller.health.problems
        job = controller.status.jobs[number]
        assert (job.attempt, job.ran_on) == (2, {"node-0": 1, "node-1": 2})
        assert ended(controller, number) == "finished"
        if nodes == NODES:  # and the late node is usable again
            harness.return_agent("node-0")
            until(lambda: states(controller) == {"node-0": "up", "node-1": "up"})
    assert [line.rpartition(" ")[0] for line in harness.trace(number)] == [
        "1 0 started",
        "2 0 started",
        "2 0 finished",
    ]


def test_jobs_on_a_node_removed_from_the_cluster_run_to_their_ends(
    tmp_path: Path,
) -> None:
    harness = DialInHarness(tmp_path)
    with ExitStack() as ends:
        ends.callback(harness.kill_all)
        with controlled(harness) as controller:
            harness.provide_nodes()
            until(lambda: set(states(controller).values()) == {"up"})
            number = submitted(controller, "iterations=300")
            until(runs_on(controller, number, "node-0"))
        with controlled(harness, NODES[1:]) as controller:
            until(lambda: states(controller) == {"node-0": "draining", "node-1": "up"})
            assert ended(controller, number) == "finished"
            assert [line.rpartition(" ")[0] for line in harness.trace(number)] == [
                "1 0 started",
                "1 0 finished",
            ]
            for _ in range(2):
                other = submitted(controller, "iterations=5")
                assert ended(controller, other) == "finished"
                record = controller.store.jobs.find(other)
                assert record is not None
                assert record.status is not None
                assert record.status["ran_on"] == {"node-1": 1}


def test_local_nodes_removed_from_the_cluster_finish_their_jobs_and_leave(tmp_path: Path) -> None:
    harness = LocalHarness(tmp_path)
    others = (Node("other-0", 2),)
    try:
        with controlled(harness) as controller:
            until(lambda: set(states(controller).values()) == {"up"})
            number = submitted(controller, "iterations=300")
            until(runs_on(controller, number, "node-0"))
        with controlled(harness, others) as controller:
            until(lambda: states(controller).get("other-0") == "up")
            expected = {"node-0": "draining", "node-1": "down", "other-0": "up"}
            until(lambda: states(controller) == expected)
            assert ended(controller, number) == "finished"
        assert len(harness.trace(number)) == 2
        with controlled(harness, others) as controller:
            until(lambda: states(controller)["node-0"] == "down")
    finally:
        harness.kill(harness._named(str(tmp_path)))
        harness.kill_all()


def test_nodes_keep_their_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_gpus", lambda: tuple(map(Gpu, "0123")))
    harness = LocalHarness(tmp_path)
    try:
        harness.open()
        harness.start("iterations=100000")
        harness.wait(AttemptProgress)
        harness.close()
        other = Node("other-0", 2)
        harness.context = replace(
            harness.context, cluster=Cluster((other, NODES[1])), expected=NODES
        )
        with pytest.raises(Exception, match="4 GPUs beside 2 on which jobs of nodes that left it"):
            harness.open()
        harness.context = replace(harness.context, cluster=Cluster((other,)))
        report_count = len(harness.reports)
        harness.nodes[1] = "other-0"
        harness.open()
        joined = {each.node.name: each.leaving for each in harness.since(NodeJoined, report_count)}
        assert joined == {"node-0": True, "other-0": False}
        assert [each.name for each in harness.since(NodeLost, report_count)] == ["node-1"]
        harness.start(command=("sh", "-c", "echo $CUDA_VISIBLE_DEVICES"), number=2, first=1)
        harness.end(2)
        assert harness.logs.read_log("other-0", "2-1", 0).result(5) == b"2,3\n"
    finally:
        harness.kill_all()


def test_a_ray_node_that_died_while_no_controller_ran_is_lost(tmp_path: Path) -> None:
    harness = RayHarness(tmp_path)
    with ExitStack() as ends:
        ends.callback(harness.kill_all)
        harness.open()
        harness.start("iterations=100000")
        harness.wait(AttemptProgress)
        harness.close()
        harness.ray.kill("node-0")
        ends.callback(harness.ray.add, "node-0")
        until(lambda: not harness.jobs())
        harness.context = replace(harness.context, expected=NODES)
        harness.nodes.remove("node-0")
        report_count = len(harness.reports)
        harness.open()
        harness.nodes.append("node-0")
        lost = until(lambda: harness.since(NodeLost, report_count))
        assert [each.name for each in lost] == ["node-0"]
        assert [each.node.name for each in harness.since(NodeJoined, report_count)] == ["node-1"]
