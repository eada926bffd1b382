"""Ray's nodes come and go, and so do ours."""

from pathlib import Path

import pytest
from executor_harnesses import RayHarness
from waiting import until

from volvelle.live.messages import AttemptProgress, NodeJoined, NodeLost, Outcome
from volvelle.live.nodes.executor import executors
from volvelle.model.problems import Problem


def test_a_node_whose_raylet_is_killed_is_lost_with_its_jobs_and_joins_again(
    tmp_path: Path,
) -> None:
    with RayHarness(tmp_path) as harness:
        harness.start()
        harness.wait(AttemptProgress)
        harness.ray.kill("node-0")
        ended = harness.end()
        assert (ended.outcome, [lost.name for lost in harness.since(NodeLost)]) == (
            Outcome.LOST,
            ["node-0"],
        )
        assert not harness.jobs()
        report_count = len(harness.reports)
        harness.ray.add("node-0")
        until(
            lambda: (
                [joined.node.name for joined in harness.since(NodeJoined, report_count)]
                == ["node-0"]
            )
        )
        harness.start("iterations=5", attempt=2)
        assert harness.end(attempt=2).outcome is Outcome.FINISHED


def test_what_left_its_session_and_environment_does_not_outlive_its_raylet(tmp_path: Path) -> None:
    with RayHarness(tmp_path) as harness:
        pid = tmp_path / "node-0"
        sleeps = f"sh -c 'echo $$ > {tmp_path}/$0; exec sleep 600' $VOLVELLE_NODE"
        harness.start(command=("sh", "-c", f"env -i setsid {sleeps} & sleep 600"))
        hidden = until(lambda: pid.exists() and pid.read_text().strip())
        harness.ray.kill("node-0")
        assert harness.end().outcome is Outcome.LOST
        assert not Path(f"/proc/{hidden}").exists()
        harness.ray.add("node-0")
        until(lambda: harness.since(NodeJoined)[-1].node.name == "node-0")


def test_a_node_whose_raylet_dies_between_two_polls_is_lost(tmp_path: Path) -> None:
    with RayHarness(tmp_path) as harness:
        harness.start()
        harness.wait(AttemptProgress)
        harness.close()
        harness.ray.kill("node-0")
        until(lambda: not harness.jobs(), "the job to end with its raylet")
        harness.nodes = ["node-1"]
        harness.open()
        assert until(lambda: [lost.name for lost in harness.since(NodeLost)]) == ["node-0"]
        harness.ray.add("node-0")
        harness.nodes = ["node-0", "node-1"]


def test_a_node_that_is_scaled_up_joins_and_takes_jobs(tmp_path: Path) -> None:
    with RayHarness(tmp_path) as harness:
        harness.ray.add("node-2", gpus=4)
        try:
            joined = until(lambda: harness.since(NodeJoined)[2:])
            assert [(one.node.name, one.node.gpus) for one in joined] == [("node-2", 4)]
            harness.nodes.append("node-2")
            harness.start("iterations=5", first=2)
            assert harness.end().outcome is Outcome.FINISHED
        finally:
            harness.ray.kill("node-2")


def test_a_missing_ray_cluster_is_named(tmp_path: Path) -> None:
    harness = RayHarness(tmp_path)
    harness.ray.disconnect()
    with pytest.raises(Problem, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        executors.make("ray:address=127.0.0.1:1").open(harness.context, harness.reports.append)
