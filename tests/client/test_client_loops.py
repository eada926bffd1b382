"""Loops of a script, in this process: what is a position, and what happens when a disk is full."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from volvelle.client import State, random_state
from volvelle.client.control_block import (
    BATCH_SIZE,
    EXIT_AT,
    ITERATION_NS,
    ITERATIONS,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    TOTAL_ITERATIONS,
    ControlBlock,
)
from volvelle.client.lease import Lease, ProcessContext
from volvelle.client.run import SaveOptions, TrainingRun

NEVER = SaveOptions(None, None, 1, False)


@pytest.fixture
def block(tmp_path: Path) -> ControlBlock:
    """The control block of an attempt in ``tmp_path``."""
    return ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, attempt=1)


def test_the_first_iteration_is_in_no_mean(tmp_path: Path, block: ControlBlock) -> None:
    lease = Lease(ProcessContext.from_environment({"VOLVELLE_RUN": str(tmp_path)}))
    told = []
    for iteration, nanoseconds in enumerate((9_000, 100, 200, 300), 1):
        lease.iteration_done(iteration, nanoseconds)
        told.append(block[ITERATION_NS])
    assert told == [9_000, 100, 150, 200]


@pytest.fixture
def begin(tmp_path: Path, block: ControlBlock) -> Callable[[], tuple[TrainingRun, State]]:
    """Starts the script anew: a process's own part of it, and its state."""

    def again() -> tuple[TrainingRun, State]:
        run = TrainingRun(Lease(ProcessContext.from_environment({"VOLVELLE_RUN": str(tmp_path)})))
        state, saved = State(seen=[]), run.open_checkpoints(tmp_path / "checkpoint")
        if saved is not None:
            state.load(saved)
        return run, state

    return again


def loop(
    run: TrainingRun, loader: range, options: SaveOptions, epochs: int | None = None
) -> Iterator[int]:
    return run.iterate(loader, epochs, None, options, None)


def test_loops_in_epochs_of_the_script_resume_where_they_were(
    begin: Callable[[], tuple[TrainingRun, State]], block: ControlBlock
) -> None:
    for stop in (25, 26, 30, 47, None):
        run, state = begin()
        block[REVOKED] = block[PREEMPTED] = 0
        block[EXIT_AT] = 0
        for _ in range(5):
            for number in loop(run, range(10), SaveOptions(state.save, None, 1, False)):
                state.seen.append(number)
                block[REVOKED] = int(len(state.seen) == stop)
        assert run.lease.preempted == bool(block[PREEMPTED]) == (stop is not None)
        assert block[SAVED_ITERATIONS] == block[ITERATIONS] == len(state.seen) == (stop or 50)
    assert state.seen == list(range(10)) * 5


def test_a_loop_left_with_break_is_complete(
    begin: Callable[[], tuple[TrainingRun, State]],
) -> None:
    run, _ = begin()
    for number in loop(run, range(10), NEVER):
        if number == 3:
            break
    assert list(loop(run, range(4), NEVER)) == [0, 1, 2, 3]


def test_total_iterations_follow_from_epochs(
    begin: Callable[[], tuple[TrainingRun, State]], block: ControlBlock
) -> None:
    run, _ = begin()
    assert len(list(loop(run, range(10), NEVER, epochs=3))) == block[TOTAL_ITERATIONS] == 30


def test_a_shrunk_data_set_is_an_error(begin: Callable[[], tuple[TrainingRun, State]]) -> None:
    run, state = begin()
    batches = loop(run, range(10), SaveOptions(state.save, 6, 1, False))
    for _ in range(7):
        next(batches)
    run, state = begin()
    with pytest.raises(RuntimeError, match="epoch 0 has 4 batches, the checkpoint holds 6"):
        list(loop(run, range(4), NEVER))


def test_a_batch_size_holds_for_whole_epochs_and_after_a_restart_too(
    begin: Callable[[], tuple[TrainingRun, State]], block: ControlBlock
) -> None:
    run, state = begin()
    sizes: list[tuple[int, int]] = []
    options = SaveOptions(state.save, 1, 1, False)
    block[BATCH_SIZE] = 64
    batches = run.iterate(
        range(4), 3, None, options, lambda size: sizes.append((run.progress.epoch, size))
    )
    next(batches)
    block[BATCH_SIZE] = 128
    for _ in range(6):
        next(batches)
    assert sizes == [(0, 64), (1, 128)]
    block[BATCH_SIZE] = 256
    run, _ = begin()
    assert run.batch_size(32) == 128
    sizes.clear()
    list(
        run.iterate(
            range(4), 3, None, options, lambda size: sizes.append((run.progress.epoch, size))
        )
    )
    assert sizes == [(1, 128), (2, 256)]


def test_a_full_disk_keeps_the_previous_checkpoint_and_training_continues(
    begin: Callable[[], tuple[TrainingRun, State]], block: ControlBlock, tmp_path: Path
) -> None:
    run, state = begin()

    def save(path: Path) -> None:
        state.save(Path("/dev/full") if 4 < len(state.seen) < 8 else path)

    batches = loop(run, range(10), SaveOptions(save, 2, 1, False))
    with pytest.warns(RuntimeWarning, match="No space left on device; training goes on"):
        for number in batches:
            state.seen.append(number)
            if number == 7:
                break
    assert block[SAVED_ITERATIONS] == 4
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"1", "2"}
    _, restored = begin()
    assert restored.seen == [0, 1, 2, 3]


def test_a_checkpoint_that_cannot_be_written_as_the_lease_ends_is_an_error(
    begin: Callable[[], tuple[TrainingRun, State]], block: ControlBlock
) -> None:
    run, state = begin()
    batches = loop(
        run, range(10), SaveOptions(lambda _: state.save(Path("/dev/full")), None, 1, False)
    )
    next(batches)
    block[REVOKED] = 1
    with pytest.raises(OSError, match="No space left"):
        next(batches)
    assert block[PREEMPTED] == 0


def test_metrics_on_a_full_disk_give_one_warning(tmp_path: Path, block: ControlBlock) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    lease = Lease(ProcessContext.from_environment({"VOLVELLE_RUN": str(tmp_path)}))
    lease.report(1, {"loss": 0.5})
    with pytest.warns(RuntimeWarning, match="cannot write what is reported") as warned:
        lease.flush()
        lease.report(2, {"loss": 0.25})
        lease.flush()
    assert len(warned) == 1
    (tmp_path / "metrics.jsonl").unlink()
    lease.report(3, {"loss": float("nan")})
    lease.flush()
    (line,) = filter(None, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert json.loads(line)["metrics"] == {"loss": None}


def test_random_generators_resume_in_their_states() -> None:
    saved = json.dumps(random_state.capture())
    drawn = (random.random(), random.gauss(0, 1), np.random.random(), np.random.normal())
    random_state.restore_states(json.loads(saved))
    assert (random.random(), random.gauss(0, 1), np.random.random(), np.random.normal()) == drawn


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SaveOptions(None, 0, 1, False), "every must be at least 1"),
        (SaveOptions(None, 1, 0, False), "accumulate must be at least 1"),
        (SaveOptions(None, "10m", 1, True), "give every as a number of iterations"),
        (SaveOptions(None, "soon", 1, False), "cannot read 'soon'"),
    ],
)
def test_invalid_save_options_are_refused(options: SaveOptions, message: str) -> None:
    run = TrainingRun(Lease(ProcessContext.from_environment({"RANK": "1", "WORLD_SIZE": "2"})))
    with pytest.raises(ValueError, match=message):
        next(loop(run, range(3), options))


@pytest.mark.parametrize("total", [0, -5])
def test_a_job_of_no_iterations_is_refused(total: int) -> None:
    run = TrainingRun(Lease(ProcessContext.from_environment({})))
    with pytest.raises(ValueError, match=f"total must be at least 1.*not {total}"):
        next(run.iterate(range(3), 1, total, SaveOptions(None, 1, 1, False), None))
