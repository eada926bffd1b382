"""Several ranks leave after the same iteration, whoever is ahead (Blox, section 7)."""

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest
from attempts import wait_until
from ranks_job import Ranks, be_rank

from volvelle.client.checkpoint import CheckpointFolder
from volvelle.client.control_block import (
    EXIT_AT,
    EXIT_CONFIRMED,
    ITERATIONS,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    ControlBlock,
)


class Attempt:
    """An attempt of ``job`` at work."""

    def __init__(self, job: Ranks) -> None:
        for run in job.runs:
            run.mkdir(exist_ok=True)
        self.blocks = [
            ControlBlock.create(run / ControlBlock.FILE_NAME, attempt=1) for run in job.runs
        ]
        spawn = multiprocessing.get_context("spawn")
        self._barrier = spawn.Barrier(job.ranks, timeout=20)
        self._processes = [
            spawn.Process(target=be_rank, args=(rank, job, self._barrier), daemon=True)
            for rank in range(job.ranks)
        ]
        for process in self._processes:
            process.start()

    def ends_well(self) -> bool:
        """Wait until every rank has ended; whether all did so by themselves."""
        for process in self._processes:
            process.join(30)
        return all(process.exitcode == 0 for process in self._processes)

    def kill(self) -> None:
        """Kill every rank."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


def latest(job: Ranks) -> Path:
    """The state of its latest checkpoint."""
    return CheckpointFolder(job.checkpoint, rank=1).latest() or Path()


@pytest.mark.parametrize("meet", [1, 4])
def test_all_ranks_leave_after_the_iteration_the_leading_one_picked(
    tmp_path: Path, meet: int
) -> None:
    job = Ranks((tmp_path / "run",), 3, tmp_path / "checkpoint", meet=meet)
    attempt = Attempt(job)
    (block,) = attempt.blocks
    wait_until(lambda: block[ITERATIONS] >= 10)
    block[REVOKED] = 1
    assert attempt.ends_well()
    assert block[PREEMPTED] == 1
    assert block[ITERATIONS] == block[SAVED_ITERATIONS] == block[EXIT_AT] < job.iterations
    assert block[EXIT_AT] % meet == 0
    for rank in range(job.ranks):
        assert job.seen(rank).read_text().split() == [str(n) for n in range(block[EXIT_AT])]


def test_the_leading_rank_waits_until_the_other_nodes_know(tmp_path: Path) -> None:
    job = Ranks((tmp_path / "first", tmp_path / "second"), 2, tmp_path / "checkpoint")
    attempt = Attempt(job)
    first, second = attempt.blocks
    wait_until(lambda: first[ITERATIONS] >= 10)
    first[REVOKED] = 1
    wait_until(lambda: first[EXIT_AT] > 0)
    time.sleep(0.1)  # what an agent may take to tell the others
    assert first[ITERATIONS] == first[EXIT_AT] - 1
    second[EXIT_AT] = first[EXIT_AT]
    first[EXIT_CONFIRMED] = first[EXIT_AT]
    assert attempt.ends_well()
    assert first[ITERATIONS] == first[SAVED_ITERATIONS] == first[EXIT_AT]
    assert (first[PREEMPTED], second[PREEMPTED]) == (1, 0)
    lengths = {len(job.seen(rank).read_text().split()) for rank in range(job.ranks)}
    assert lengths == {first[EXIT_AT]}


def test_where_all_ranks_save_each_goes_on_from_its_own_part(tmp_path: Path) -> None:
    job = Ranks(
        (tmp_path / "run",), 2, tmp_path / "checkpoint", on_all_ranks=True, every=5, iterations=60
    )
    attempt = Attempt(replace(job, seconds=0.1))
    (block,) = attempt.blocks
    wait_until(lambda: block[SAVED_ITERATIONS] >= 10)
    block[REVOKED] = 1
    assert attempt.ends_well()
    assert 10 < block[SAVED_ITERATIONS] < job.iterations
    assert Attempt(job).ends_well()
    for rank in range(job.ranks):
        assert job.seen(rank).read_text().split() == [str(n) for n in range(job.iterations)]


def test_killed_while_all_ranks_save_no_part_is_of_another_checkpoint(tmp_path: Path) -> None:
    job = Ranks(
        (tmp_path / "run",), 2, tmp_path / "checkpoint", on_all_ranks=True, every=1, iterations=30
    )
    for milestone in (3, 9, 20):
        attempt = Attempt(job)
        (block,) = attempt.blocks
        wait_until(lambda: block[SAVED_ITERATIONS] >= milestone)  # noqa: B023
        attempt.kill()
        state = latest(job)
        assert (state / "part-0").read_text() == (state / "part-1").read_text()
    assert Attempt(job).ends_well()
    for rank in range(job.ranks):
        done = (latest(job) / f"part-{rank}").read_text().split()
        assert done == [str(n) for n in range(job.iterations)]
