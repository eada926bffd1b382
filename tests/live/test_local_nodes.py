"""Nodes that are processes of this machine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_harnesses import LocalHarness
from waiting import until

from volvelle.live.agent.gpus import find_gpus
from volvelle.live.messages import (
    AttemptEnded,
    AttemptKey,
    AttemptProgress,
    Forget,
    NodeJoined,
    NodeLost,
    Outcome,
)
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.nodes.executors import local
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LocalHarness]:
    harness = LocalHarness(tmp_path)
    try:
        yield harness
    finally:
        harness.kill_all()


def test_a_folder_that_cannot_be_written_is_named() -> None:
    context = ExecutorContext(parse_cluster("1x1"), Path("/proc/nowhere"), "token")
    with pytest.raises(Problem, match="agents cannot work in /proc/nowhere"):
        executors.make("local").open(context, print)


def test_agents_without_jobs_end_with_the_server_that_started_them(harness: LocalHarness) -> None:
    harness.written = "local:linger_seconds=600"
    harness.open()
    harness.start()
    until(harness.trace)
    harness.close()
    until(lambda: not harness.agents(harness.nodes[1]))
    assert harness.agents(harness.nodes[0])
    harness.kill(harness.jobs())
    until(lambda: not harness.agents(harness.nodes[0]))
    harness.open()
    until(lambda: harness.since(AttemptEnded))


def test_agents_without_jobs_and_controller_exit(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local._LocalAgents, "dismisses", False)  # as where a server is killed
    harness.written = "local:linger_seconds=0.2"
    harness.open()
    harness.start()
    until(harness.trace)
    harness.close()
    until(lambda: not harness.agents(harness.nodes[1]))
    assert harness.agents(harness.nodes[0])


def test_a_node_whose_agent_does_not_start_is_lost_until_it_does(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_FIRST_RETRY_SECONDS", 0.01)
    harness.open()
    node = harness.nodes[1]
    report_count = len(harness.reports)
    with monkeypatch.context() as broken:
        broken.setenv("PYTHONHOME", "/nowhere")
        harness.kill(harness.agents(node))
        lost = until(lambda: next(iter(harness.since(NodeLost)), None))
        assert lost.name == node
        assert lost.reason.startswith("its agent does not start: ")
    until(lambda: harness.since(NodeJoined, report_count))


def test_what_ran_under_a_deleted_folder_has_ended_before_its_node_joins_again(
    harness: LocalHarness, tmp_path: Path
) -> None:
    harness.context = replace(harness.context, is_down=lambda name: bool(harness.since(NodeLost)))
    harness.open()
    harness.start()
    until(harness.trace)
    jobs, report_count = harness.jobs(), len(harness.reports)
    harness.kill(harness.agents(harness.nodes[0]))
    harness.agent_folder(harness.nodes[0]).rename(tmp_path / "deleted")
    joined = until(lambda: next(iter(harness.since(NodeJoined, report_count)), None))
    assert jobs
    assert not set(jobs) & set(harness.jobs())
    (lost,) = harness.since(NodeLost)
    assert lost.name == joined.node.name == harness.nodes[0]
    assert harness.reports.index(lost) < harness.reports.index(joined)
    assert harness.end().outcome is Outcome.LOST


def test_a_node_with_a_job_is_not_lost_because_its_agent_does_not_start(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_FIRST_RETRY_SECONDS", 0.01)
    harness.open()
    harness.start(first=1)
    harness.wait(AttemptProgress)
    with monkeypatch.context() as broken:
        broken.setenv("PYTHONHOME", "/nowhere")
        harness.kill(harness.agents(harness.nodes[1]))
        log = harness.agent_folder(harness.nodes[1]) / "agent.log"
        until(lambda: log.read_text().count("Fatal Python error") > 6)
    assert not harness.since(NodeLost)


def list_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let nvidia-smi print ``lines``."""
    nvidia_smi = folder / "nvidia-smi"
    nvidia_smi.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}'" for line in lines)]))
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


H100 = "GPU {}: NVIDIA H100 80GB HBM3 (UUID: GPU-{})"
L40S = "GPU {}: NVIDIA L40S (UUID: GPU-{})"
CUT = (
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-a)",
    "  MIG 1g.10gb     Device  0: (UUID: MIG-b-1)",
    "  MIG 1g.10gb     Device  1: (UUID: MIG-b-2)",
    "GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-c)",
)


@pytest.mark.parametrize(
    ("lines", "visible", "cluster", "devices"),
    [
        ((H100.format(0, "a"), H100.format(1, "b")), None, "1x2:h100", "0,1"),
        ((H100.format(0, "a"), L40S.format(1, "b")), None, "1x2", "0,1"),
        ((L40S.format(0, "a"), L40S.format(1, "b")), "1", "1x1:l40s", "1"),
        ((L40S.format(0, "a"), L40S.format(1, "b")), "GPU-b", "1x1:l40s", "GPU-b"),
        ((L40S.format(0, "a"),), "MIG-a-1,MIG-a-2", "1x2:l40s", "MIG-a-1,MIG-a-2"),
        ((L40S.format(0, "a"),), "-1", "None", ""),
        (CUT[:3], None, "1x2:a100-1g.10gb", "MIG-b-1,MIG-b-2"),
        (CUT, None, "1x3", "MIG-b-1,MIG-b-2,1"),
        (CUT, "0", "1x2:a100-1g.10gb", "MIG-b-1,MIG-b-2"),
        (CUT, "MIG-b-2", "1x1:a100-1g.10gb", "MIG-b-2"),
        (("No devices were found",), None, "None", ""),
    ],
)
def test_the_gpus_are_those_that_nvidia_smi_lists_and_the_environment_leaves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[str, ...],
    visible: str | None,
    cluster: str,
    devices: str,
) -> None:
    list_gpus(tmp_path, monkeypatch, *lines)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert ",".join(gpu.device for gpu in find_gpus()) == devices
    local_nodes = executors.make("local")
    assert str(local_nodes.discover_cluster()) == cluster
    assert ("no GPU is found" in local_nodes.warning(parse_cluster("1x2"))) is (cluster == "None")
    assert executors.make("local:pretend=true").warning(parse_cluster("1x2")) == ""


def test_real_gpus_are_assigned_by_their_numbers(
    harness: LocalHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that lists them stands in for a machine with four."""
    list_gpus(tmp_path, monkeypatch, *(H100.format(gpu, gpu) for gpu in range(4)))
    harness.open()
    harness.start(command=("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $VOLVELLE_GPUS"), first=1)
    harness.end()
    assert (harness.attempt_folder(harness.nodes[1]) / "output.log").read_text() == "2,3 0,1\n"


def test_a_cluster_of_more_gpus_than_there_are_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_gpus(tmp_path, monkeypatch, H100.format(0, "a"))
    context = ExecutorContext(parse_cluster("2x4"), tmp_path / "executor", "token")
    with pytest.raises(Problem, match="the cluster has 8 GPUs, this machine 1"):
        executors.make("local").open(context, print)


def test_a_number_given_twice_is_of_two_jobs_and_no_gpu_has_both(harness: LocalHarness) -> None:
    """After the store was set back: the first job runs on, the second has its number and its GPUs."""
    harness.open()
    logs, node = harness.logs, harness.nodes[0]

    def written(job: str) -> list[bytes]:
        (log,) = until(lambda: logs.log_sizes(node, 1, job).result(5))
        until(lambda: b"of-" in logs.read_log(node, log, 0).result(5))
        return logs.read_log(node, log, 0).result(5).split()

    write = "pwd; echo of-$0; read forever < /dev/zero"
    harness.start(command=("sh", "-c", write, "first"), identity="aa-1e", gpus=(0,))
    first = written("aa")
    harness.start(command=("sh", "-c", write, "second"), identity="bb-2e")
    lost = harness.wait(AttemptEnded)
    assert (lost.key, lost.outcome) == (AttemptKey(1, 1, "bb-2e"), Outcome.LOST)
    assert lost.reason == "attempt 1-1-aa-1e runs here, of which the server may not know"
    assert logs.log_sizes(node, 1, "bb").result(5) == {}
    harness.send(Forget(1, 1, "bb-2e"))
    harness.start(command=("sh", "-c", write, "second"), identity="bb-3e", gpus=(1,))
    second = written("bb")
    assert [first[1], second[1]] == [b"of-first", b"of-second"]
    assert first[0] != second[0]  # the folders in which they work
