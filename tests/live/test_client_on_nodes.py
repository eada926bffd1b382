"""Scripts of the client library on real nodes: preempted, they lose nothing and do nothing twice."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_harnesses import ExecutorHarness, LocalHarness

from volvelle.live.messages import AttemptProgress, Forget, Outcome, Start, Stop

JOB = Path(__file__).parent / "adding_job.py"
BATCHES = 300


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ExecutorHarness]:
    with LocalHarness(tmp_path) as harness:
        yield harness


def start(harness: ExecutorHarness, attempt: int, nodes: int, saved: int = 0) -> Start:
    command = (sys.executable, "-S", str(JOB), str(BATCHES), str(harness.folder))
    return harness.start(command=command, attempt=attempt, nodes=nodes, saved=saved)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_preempted_script_computes_the_sum_of_an_uninterrupted_one(
    harness: ExecutorHarness, nodes: int
) -> None:
    start(harness, 1, nodes)
    harness.wait(AttemptProgress)
    harness.send(Stop(1, 1))
    stopped = harness.end()
    assert (stopped.outcome, stopped.exit_code) == (Outcome.STOPPED, 0)
    assert 0 < stopped.saved_iterations == stopped.iterations < BATCHES
    harness.send(Forget(1, 1))
    start(harness, 2, nodes, saved=stopped.saved_iterations)
    finished = harness.end(attempt=2)
    assert (finished.outcome, finished.iterations) == (Outcome.FINISHED, BATCHES)
    first = stopped.iterations
    for rank in range(nodes):
        preempted, ended = (harness.folder / f"result-{rank}").read_text().splitlines()
        assert preempted == f"preempted {first} {first * (first - 1) // 2}"
        assert ended == f"finished {BATCHES} {BATCHES * (BATCHES - 1) // 2}"
    assert any("total" in progress.metrics for progress in harness.since(AttemptProgress))
