"""Lightning and Hugging Face, the real packages, where they are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from attempts import HERE, Attempts
from waiting import until

from volvelle.client.control_block import (
    ITERATIONS,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    TOTAL_ITERATIONS,
)

ITERATIONS_IN_ALL = 80


@pytest.fixture(params=[pytest.param("lightning", marks=pytest.mark.slow), "huggingface"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Attempts]]:
    """Two jobs that do the same."""
    pytest.importorskip({"huggingface": "transformers"}.get(request.param, request.param))
    if request.param == "huggingface":
        pytest.importorskip("accelerate")
    folders = [tmp_path / "uninterrupted", tmp_path / "interrupted"]
    for folder in folders:
        folder.mkdir()
    jobs = [Attempts(folder, HERE / f"{request.param}_job.py") for folder in folders]
    yield jobs
    for job in jobs:
        job.kill_all()


def test_revoked_and_resumed_the_loss_curve_is_that_of_an_uninterrupted_run(
    pair: list[Attempts],
) -> None:
    uninterrupted, interrupted = pair
    straight = uninterrupted.start("0")
    process = interrupted.start("0.05")
    block = interrupted.block()
    until(lambda: block[ITERATIONS] > 45 or process.poll() is not None, patience_seconds=120)
    block[REVOKED] = 1
    assert process.wait(60) == 0, interrupted.output()
    assert block[PREEMPTED] == 1
    assert (
        45
        < block[SAVED_ITERATIONS]
        == block[ITERATIONS]
        < block[TOTAL_ITERATIONS]
        == ITERATIONS_IN_ALL
    )
    assert interrupted.start("0").wait(90) == 0, interrupted.output()
    assert straight.wait(90) == 0, uninterrupted.output()
    curve = uninterrupted.reported("loss")
    assert interrupted.reported("loss") == curve
    assert curve.keys() >= set(range(1, ITERATIONS_IN_ALL + 1))
