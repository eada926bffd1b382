"""Nodes that are processes of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_stages import LocalStage
from waiting import until

from volvelle.live.messages import AttemptProgress, NodeJoined, NodeLost
from volvelle.live.nodes.executor import ExecutorContext, executors
from volvelle.live.nodes.executors import local
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[LocalStage]:
    stage = LocalStage(tmp_path)
    try:
        yield stage
    finally:
        stage.end_all()


def test_a_folder_that_cannot_be_written_is_named() -> None:
    site = ExecutorContext(parse_cluster("1x1"), Path("/proc/nowhere"), "token")
    with pytest.raises(Problem, match="agents cannot work in /proc/nowhere"):
        executors.make("local").open(site, print)


def test_agents_without_jobs_and_controller_end_by_themselves(stage: LocalStage) -> None:
    stage.written = "local:linger_seconds=0.2"
    stage.open()
    stage.start()
    until(stage.trace)
    stage.close()
    until(lambda: not stage.agents(stage.nodes[1]))
    assert stage.agents(stage.nodes[0])


def test_a_node_whose_agent_never_starts_is_lost_until_it_does(
    stage: LocalStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_FIRST_RETRY_SECONDS", 0.01)
    stage.open()
    node = stage.nodes[1]
    told = len(stage.reports)
    with monkeypatch.context() as broken:
        broken.setenv("PYTHONHOME", "/nowhere")
        stage.kill(stage.agents(node))
        lost = until(lambda: next(iter(stage.since(NodeLost)), None))
        assert lost.name == node
        assert lost.reason.startswith("its agent does not start: ")
    until(lambda: stage.since(NodeJoined, told))


def test_a_node_with_a_job_is_not_lost_because_its_agent_does_not_start(
    stage: LocalStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_FIRST_RETRY_SECONDS", 0.01)
    stage.open()
    stage.start(first=1)
    stage.wait(AttemptProgress)
    with monkeypatch.context() as broken:
        broken.setenv("PYTHONHOME", "/nowhere")
        stage.kill(stage.agents(stage.nodes[1]))
        log = stage.agent_folder(stage.nodes[1]) / "agent.log"
        until(lambda: log.read_text().count("Fatal Python error") > 6)
    assert not stage.since(NodeLost)


def test_real_gpus_are_given_out_by_their_numbers(
    stage: LocalStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that lists them stands in for a machine with four."""
    nvidia_smi = tmp_path / "nvidia-smi"
    nvidia_smi.write_text("#!/bin/sh\nprintf '0\\n1\\n2\\n3\\n'\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    stage.open()
    stage.start(command=("sh", "-c", "echo $CUDA_VISIBLE_DEVICES $VOLVELLE_GPUS"), first=1)
    stage.end()
    assert (stage.attempt_folder(stage.nodes[1]) / "output.log").read_text() == "2,3 0,1\n"


def test_a_cluster_of_more_gpus_than_there_are_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi = tmp_path / "nvidia-smi"
    nvidia_smi.write_text("#!/bin/sh\necho 0\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    site = ExecutorContext(parse_cluster("2x4"), tmp_path / "site", "token")
    with pytest.raises(Problem, match="the cluster has 8 GPUs, this machine 1"):
        executors.make("local").open(site, print)
