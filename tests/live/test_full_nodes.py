"""A node that can start nothing, such as one with a full disk, fails no job: it is set aside until it can."""

import json
import os
import resource
import signal
from pathlib import Path

import httpx
import pytest
from fake_cluster import ControllerHarness, sleeping
from server_process import DIAL_IN, server_process
from waiting import until

from volvelle.live.agent import launch, node_condition, supervisor
from volvelle.live.agent.node_condition import disk_problem
from volvelle.live.control.requests import SetNodeState
from volvelle.live.messages import AttemptEnded, NodeCondition, Outcome
from volvelle.model.cluster import NodeState

FULL = "the disk of /var is full"


def test_a_start_that_fails_on_the_nodes_account_costs_no_retry(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x1")
    number = harness.submit(sleeping(5, retries=0))
    for _ in range(3):
        harness.step(0.1)
        run = harness.fake_cluster.runs.pop(number)
        bad = run.start.grants[0].node
        end = AttemptEnded(*run.start.key, outcome=Outcome.FAILED, reason=FULL, node_failed=True)
        harness.fake_cluster.outbox += [NodeCondition(bad, FULL), end]
        harness.step(0.1)
        harness.fake_cluster.outbox.append(NodeCondition(bad, ""))
    harness.step(0.1)
    assert harness.state(number) == "running"
    harness.step(6)
    assert harness.state(number) == "finished"


def test_a_node_that_can_start_nothing_is_set_aside_and_comes_back(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "2x1")
    report = harness.controller.report
    report(NodeCondition("node-0", FULL))
    harness.deliver()
    numbers = [harness.submit(sleeping(5)) for _ in range(2)]
    assert [harness.state(number) for number in numbers] == ["running", "waiting"]
    (problem,) = harness.controller.health.problems
    assert problem == f"node 'node-0' takes no new jobs: {FULL}"
    harness.controller.request(SetNodeState("node-0", NodeState.UP))
    harness.deliver()
    assert harness.state(numbers[1]) == "waiting"
    report(NodeCondition("node-0", ""))
    harness.deliver()
    assert harness.state(numbers[1]) == "running"
    assert harness.controller.health.problems == ()


def test_a_drained_node_whose_disk_is_free_again_stays_drained(tmp_path: Path) -> None:
    harness = ControllerHarness.at(tmp_path, "1x1")
    harness.controller.report(NodeCondition("node-0", FULL))
    harness.controller.request(SetNodeState("node-0", NodeState.DRAINING))
    harness.deliver()
    harness.controller.report(NodeCondition("node-0", ""))
    harness.deliver()
    assert harness.state(harness.submit(sleeping(5))) == "waiting"


def test_a_disk_is_full_while_little_is_free_and_for_a_while_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert disk_problem(tmp_path, tmp_path / "work") == ""
    disk = os.statvfs(tmp_path)
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(node_condition, "_LEAST_BYTES", free * 3 // 4)
    assert disk_problem(tmp_path, tmp_path / "work") == ""
    assert "is full" in disk_problem(tmp_path, tmp_path / "work", before="it was full")


@pytest.mark.parametrize(("room", "most"), [(0, 8_000_000), (1 << 60, 100_000_000)])
def test_a_job_whose_output_fills_the_disk_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, most: int
) -> None:
    """By a limit of its own, and by a lower one where little room is left."""
    monkeypatch.setattr(supervisor, "_ROOM_BYTES", room)
    monkeypatch.setattr(supervisor, "_LEASE_CHECK_SECONDS", 0.05)
    command = {
        "command": ["sh", "-c", "head -c 20000000 /dev/zero; exec sleep 60"],
        "setup": [],
        "directory": "/",
        "environment": {"PATH": os.environ["PATH"]},
        "umask": 0o077,
        "lease": None,
        "lifetime": None,
        "output_bytes": most,
    }
    monkeypatch.chdir(tmp_path)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, supervisor._AWAITED)
        supervisor.supervise(command)
        os._exit(0)
    os.waitpid(child, 0)
    record = json.loads((tmp_path / "exit.json").read_text())
    assert (record["code"], record["output_full"]) == (-signal.SIGKILL, True)
    assert (tmp_path / "output.log").stat().st_size <= most


def test_jobs_of_a_node_whose_disk_cannot_be_written_run_on_another(tmp_path: Path) -> None:
    port = launch.free_port()
    with server_process(tmp_path, DIAL_IN.format(cluster="2x1", port=port, more="")) as server:
        for node in ("node-0", "node-1"):
            server.start_agent(node, port)
        token = (tmp_path / "volvelle-serve" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=server.url, headers=headers) as client:

            def both_up() -> bool:
                nodes = client.get("/v1/nodes").json()["nodes"]
                return [node["state"] for node in nodes] == ["up", "up"]

            def all_finished() -> bool:
                jobs = client.get("/v1/jobs", params={"over": True}).json()["jobs"]
                return [job["state"] for job in jobs] == ["finished"] * 3

            until(both_up)
            agent = server.agents["node-0"].pid
            resource.prlimit(agent, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            job = {"command": "true", "retries": 0}
            for _ in range(3):
                assert client.post("/v1/jobs", json=job).status_code == 201
            until(all_finished)
            assert "node-0' takes no new jobs: the disk of" in server.output
            resource.prlimit(agent, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            until(both_up)
