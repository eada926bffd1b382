"""The agent of Pollux in a job: what it measures, and the batch sizes that it takes from the scheduler."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from attempts import Attempts

from volvelle.client.control_block import (
    BATCH_SIZE,
    ITERATIONS,
    OWN_BATCH_SIZE,
    ControlBlock,
)
from volvelle.client.lease import Lease, ProcessContext
from volvelle.client.pollux import Tunable
from volvelle.client.run import SaveOptions, TrainingRun

SCRIPT = Path(__file__).with_name("pollux_job.py")


def test_it_measures_iterations_and_the_noise_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 10.5, 11.0, 20.0, 20.25])
    monkeypatch.setattr("volvelle.client.pollux.time.perf_counter", lambda: next(times))
    rule = Tunable(32, 256, most_local=128, decay=0.0)
    rule.epoch_begins(64)
    assert rule.measured is None
    for _ in range(3):
        rule.observe(3.0, 32, 2.0, 64)  # |G|^2 = 1, tr(S) = 64
    assert rule.measured == {
        "batch_size": 64,
        "step_seconds": 0.5,
        "grad_sqr": pytest.approx(1.0),
        "grad_var": pytest.approx(2.0),
        "first": 32,
        "limit": 256,
        "least_local": 1,
        "most_local": 128,
    }
    rule.epoch_begins(128)
    rule.observe(3.0, 32, 2.0, 64)
    rule.observe(3.0, 32, 2.0, 64)
    measured = rule.measured
    assert measured is not None
    assert (measured["batch_size"], measured["step_seconds"]) == (128, 0.25)
    again = Tunable(32, 256)
    again.load_state_dict(json.loads(json.dumps(rule.state_dict())))
    assert again.state_dict() == rule.state_dict()


def test_what_makes_no_sense_is_refused() -> None:
    for wrong in ({"first": 0}, {"first": 64, "limit": 32}, {"least_local": 9, "most_local": 8}):
        with pytest.raises(ValueError, match="at least 1"):
            Tunable(**{"first": 8, "limit": 64, **wrong})


class Loader:
    """An epoch of 64 samples."""

    size = 8

    def __len__(self) -> int:
        return 64 // self.size

    def __iter__(self) -> Any:
        return iter(range(len(self)))


@pytest.mark.parametrize(("ranks", "sizes"), [(1, [8, 32, 32]), (2, [8, 8, 8])])
def test_one_process_takes_another_size_at_its_next_epoch_several_keep_theirs(
    tmp_path: Path, ranks: int, sizes: list[int]
) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, 1)
    context = ProcessContext(tmp_path, rank=0, ranks=ranks, nodes=1, checkpoint=None)
    run, loader, rule = TrainingRun(Lease(context)), Loader(), Tunable(8, 64)
    set_to: list[int] = []

    def resize(size: int) -> None:
        loader.size = size
        set_to.append(size)

    for _ in run.iterate(loader, 3, None, SaveOptions(None, None, 1, False), resize, rule):
        block[BATCH_SIZE] = 32
    assert set_to == sizes
    assert block[OWN_BATCH_SIZE] == sizes[-1]


def test_a_pytorch_model_is_measured_and_trained_on_at_the_size_that_is_set(tmp_path: Path) -> None:
    if find_spec("torch") is None:  # to import it here too takes seconds
        pytest.skip("no PyTorch")
    job = Attempts(tmp_path, SCRIPT)
    process = job.start("2")
    block = job.block()
    block[BATCH_SIZE] = 64  # long before PyTorch is imported
    assert process.wait(120) == 0, job.output()
    lines = [json.loads(line) for line in (job.run / "metrics.jsonl").read_text().splitlines()]
    told = [line["training"] for line in lines if "training" in line]
    assert [one["batch_size"] for one in told] == [64, 64]
    last = told[-1]
    assert min(last["step_seconds"], last["grad_sqr"], last["grad_var"]) > 0.0
    assert block[ITERATIONS] == 2 * 8
