"""Several ranks exit after the same iteration, whichever is ahead (Blox, section 7)."""

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest
from ranks_job import RanksJob, run_rank
from waiting import until

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
    """A running attempt of ``job``."""

    def __init__(self, job: RanksJob) -> None:
        for run in job.runs:
            run.mkdir(exist_ok=True)
        self.blocks = [
            ControlBlock.create(run / ControlBlock.FILE_NAME, attempt=1) for run in job.runs
        ]
        spawn = multiprocessing.get_context("spawn")
        self._barrier = spawn.Barrier(job.ranks, timeout=20)
        self._processes = [
            spawn.Process(target=run_rank, args=(rank, job, self._barrier), daemon=True)
            for rank in range(job.ranks)
        ]
        for process in self._processes:
            process.start()

    def succeeds(self) -> bool:
        """Wait until every rank has ended; whether all exited with status 0."""
        for process in self._processes:
            process.join(30)
        return all(process.exitcode == 0 for process in self._processes)

    def kill(self) -> None:
        """Kill every rank."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()


def latest(job: RanksJob) -> Path:
    """The state of its latest checkpoint."""
    return CheckpointFolder(job.checkpoint, rank=1).latest() or Path()


@pytest.mark.parametrize("barrier_every", [1, 4])
def test_all_ranks_exit_after_the_iteration_chosen_by_the_leading_rank(
    tmp_path: Path, barrier_every: int
) -> None:
    job = RanksJob((tmp_path / "run",), 3, tmp_path / "checkpoint", barrier_every=barrier_every)
    attempt = Attempt(job)
    (block,) = attempt.blocks
    until(lambda: block[ITERATIONS] >= 10)
    block[REVOKED] = 1
    assert attempt.succeeds()
    assert block[PREEMPTED] == 1
    assert block[ITERATIONS] == block[SAVED_ITERATIONS] == block[EXIT_AT] < job.iterations
    assert block[EXIT_AT] % barrier_every == 0
    for rank in range(job.ranks):
        assert job.seen(rank).read_text().split() == [str(n) for n in range(block[EXIT_AT])]


def test_the_leading_rank_waits_for_the_confirmation(tmp_path: Path) -> None:
    job = RanksJob((tmp_path / "first", tmp_path / "second"), 2, tmp_path / "checkpoint")
    attempt = Attempt(job)
    first, second = attempt.blocks
    until(lambda: first[ITERATIONS] >= 10)
    first[REVOKED] = 1
    until(lambda: first[EXIT_AT] > 0)
    time.sleep(0.1)  # the time of an agent to inform the others
    assert first[ITERATIONS] == first[EXIT_AT] - 1
    second[EXIT_AT] = first[EXIT_AT]
    first[EXIT_CONFIRMED] = first[EXIT_AT]
    assert attempt.succeeds()
    assert first[ITERATIONS] == first[SAVED_ITERATIONS] == first[EXIT_AT]
    assert (first[PREEMPTED], second[PREEMPTED]) == (1, 0)
    lengths = {len(job.seen(rank).read_text().split()) for rank in range(job.ranks)}
    assert lengths == {first[EXIT_AT]}


def test_if_all_ranks_save_each_resumes_from_its_own_part(tmp_path: Path) -> None:
    job = RanksJob(
        (tmp_path / "run",), 2, tmp_path / "checkpoint", on_all_ranks=True, every=5, iterations=60
    )
    attempt = Attempt(replace(job, seconds=0.1))
    (block,) = attempt.blocks
    until(lambda: block[SAVED_ITERATIONS] >= 10)
    block[REVOKED] = 1
    assert attempt.succeeds()
    assert 10 < block[SAVED_ITERATIONS] < job.iterations
    assert Attempt(job).succeeds()
    for rank in range(job.ranks):
        assert job.seen(rank).read_text().split() == [str(n) for n in range(job.iterations)]


def test_killed_while_all_ranks_save_all_parts_are_of_one_checkpoint(tmp_path: Path) -> None:
    job = RanksJob(
        (tmp_path / "run",), 2, tmp_path / "checkpoint", on_all_ranks=True, every=1, iterations=30
    )
    for milestone in (3, 9, 20):
        attempt = Attempt(job)
        (block,) = attempt.blocks
        until(lambda: block[SAVED_ITERATIONS] >= milestone)  # noqa: B023
        attempt.kill()
        state = latest(job)
        assert (state / "part-0").read_text() == (state / "part-1").read_text()
    assert Attempt(job).succeeds()
    for rank in range(job.ranks):
        done = (latest(job) / f"part-{rank}").read_text().split()
        assert done == [str(n) for n in range(job.iterations)]
