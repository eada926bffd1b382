"""Ray's nodes come and go, and so do ours."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_stages import RayStage
from waiting import until

from volvelle.live.messages import AttemptProgress, NodeJoined, NodeLost, Outcome
from volvelle.live.nodes.executor import executors
from volvelle.model.problems import Problem


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[RayStage]:
    stage = RayStage(folder)
    try:
        stage.open()
        yield stage
    finally:
        stage.end_all()


def test_a_node_whose_raylet_is_killed_is_lost_with_its_jobs_and_joins_again(
    tmp_path: Path,
) -> None:
    with staged(tmp_path) as stage:
        stage.start()
        stage.wait(AttemptProgress)
        stage.ground.kill("node-0")
        ended = stage.end()
        assert (ended.outcome, [lost.name for lost in stage.since(NodeLost)]) == (
            Outcome.LOST,
            ["node-0"],
        )
        assert not stage.jobs()
        told = len(stage.reports)
        stage.ground.add("node-0")
        until(lambda: [joined.node.name for joined in stage.since(NodeJoined, told)] == ["node-0"])
        stage.start("iterations=5", attempt=2)
        assert stage.end(attempt=2).outcome is Outcome.FINISHED


def test_a_node_whose_raylet_dies_while_nobody_looks_is_lost(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.start()
        stage.wait(AttemptProgress)
        stage.close()
        stage.ground.kill("node-0")
        until(lambda: not stage.jobs(), "the job to end with its raylet")
        stage.nodes = ["node-1"]
        stage.open()
        assert until(lambda: [lost.name for lost in stage.since(NodeLost)]) == ["node-0"]
        stage.ground.add("node-0")
        stage.nodes = ["node-0", "node-1"]


def test_a_node_that_is_scaled_up_joins_and_takes_jobs(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.ground.add("node-2", gpus=4)
        try:
            joined = until(lambda: stage.since(NodeJoined)[2:])
            assert [(one.node.name, one.node.gpus) for one in joined] == [("node-2", 4)]
            stage.nodes.append("node-2")
            stage.start("iterations=5", first=2)
            assert stage.end().outcome is Outcome.FINISHED
        finally:
            stage.ground.kill("node-2")


def test_a_ray_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    stage = RayStage(tmp_path)
    stage.ground.disconnect()
    with pytest.raises(Problem, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        executors.make("ray:address=127.0.0.1:1").open(stage.site, stage.reports.append)
