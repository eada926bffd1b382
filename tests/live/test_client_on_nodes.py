"""Scripts of the client library on real nodes: preempted, they lose nothing and do nothing twice."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_stages import LocalStage, Stage

from volvelle.live.messages import AttemptProgress, Forget, Outcome, Start, Stop

JOB = Path(__file__).parent / "adding_job.py"
BATCHES = 300


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = LocalStage(tmp_path)
    try:
        stage.open()
        yield stage
    finally:
        stage.end_all()


def start(stage: Stage, attempt: int, nodes: int, saved: int = 0) -> Start:
    command = (sys.executable, "-S", str(JOB), str(BATCHES), str(stage.folder))
    return stage.start(command=command, attempt=attempt, nodes=nodes, saved=saved)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_preempted_script_ends_with_the_sum_of_one_that_ran_through(
    stage: Stage, nodes: int
) -> None:
    start(stage, 1, nodes)
    stage.wait(AttemptProgress)
    stage.send(Stop(1, 1))
    stopped = stage.end()
    assert (stopped.outcome, stopped.exit_code) == (Outcome.STOPPED, 0)
    assert 0 < stopped.saved_iterations == stopped.iterations < BATCHES
    stage.send(Forget(1, 1))
    start(stage, 2, nodes, saved=stopped.saved_iterations)
    finished = stage.end(attempt=2)
    assert (finished.outcome, finished.iterations) == (Outcome.FINISHED, BATCHES)
    first = stopped.iterations
    for rank in range(nodes):
        preempted, ended = (stage.folder / f"said-{rank}").read_text().splitlines()
        assert preempted == f"preempted {first} {first * (first - 1) // 2}"
        assert ended == f"finished {BATCHES} {BATCHES * (BATCHES - 1) // 2}"
    assert any("total" in progress.metrics for progress in stage.since(AttemptProgress))
