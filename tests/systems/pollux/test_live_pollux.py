"""Pollux on live jobs: goodput that they measure decides on their GPUs, and on their batch sizes."""

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import ControllerHarness, OpenFakeExecutor
from waiting import until

from volvelle.client.control_block import ControlBlock
from volvelle.client.lease import Lease, ProcessContext
from volvelle.client.pollux import Tunable
from volvelle.core.events import TrainingReported
from volvelle.live.agent.folders import AttemptFolder
from volvelle.live.agent.progress import ProgressReader
from volvelle.live.agent.wire import NodeTask
from volvelle.live.control import step_fits
from volvelle.live.control.batch_sizes import best_size
from volvelle.live.control.step_fits import StepFit, StepFitter
from volvelle.live.job_request import JobRequest
from volvelle.live.messages import AttemptProgress, Order, SetBatchSize, Start, TrainingMeasure
from volvelle.model.goodput import Goodput, StepParameters

EPOCHS = 100
NOISY = {"grad_sqr": 1.0, "grad_var": 50.0}
"""At 32 samples: a batch of 50 times as many is worth 26 of these."""


def request(most: int) -> JobRequest:
    return JobRequest(command=("sleep", "100000"), max_gpus=most, estimate=100000)


def tell(harness: ControllerHarness, number: int, batch_size: int, **more: Any) -> None:
    """A job measured an epoch: a step takes 0.1 s and 1 ms a sample of each GPU."""
    run = harness.fake_cluster.runs[number]
    gpus = sum(len(grant.gpus) for grant in run.start.grants)
    limits = {"first": 32, "limit": 1024, "least_local": 8, "most_local": 512}
    seconds = 0.1 + 0.001 * batch_size / gpus
    measure = TrainingMeasure(
        batch_size=batch_size, step_seconds=seconds, **{**NOISY, **limits, **more}
    )
    done = int(run.done)
    report = AttemptProgress(
        *run.start.key,
        iterations=done,
        saved_iterations=done,
        epochs=min(done / 1000, EPOCHS),
        total_epochs=EPOCHS,
        batch_size=batch_size,
        training=measure,
    )
    harness.fake_cluster.outbox.append(report)
    harness.deliver()


def sent(harness: ControllerHarness) -> list[Order]:
    opened = harness.controller._loop.executor
    assert isinstance(opened, OpenFakeExecutor)
    return opened.sent


def told(harness: ControllerHarness) -> list[Goodput]:
    entries = harness.controller.store.entries()
    events = [event for stored in entries for event in stored.entry.events]
    return [e.goodput for e in events if isinstance(e, TrainingReported) and e.goodput is not None]


@pytest.fixture
def harness(tmp_path: Path) -> ControllerHarness:
    pollux = "pollux:round=20,generations=10,population=10"
    return ControllerHarness.at(tmp_path, "1x4", pollux, estimator="measured")


def test_goodput_decides_on_gpus_and_batch_sizes_also_through_a_restart(
    harness: ControllerHarness,
) -> None:
    number = harness.submit(request(4))
    harness.step(20)
    first = harness.fake_cluster.runs[number].start
    assert (len(first.grants[0].gpus), first.batch_size) == (1, 0), "nothing is known yet"
    tell(harness, number, 32)
    harness.step(11)
    tell(harness, number, 32)
    assert not told(harness), "its steps are being fitted"
    tell(harness, number, 32)
    (goodput,) = told(harness)
    assert (goodput.initial_batch, goodput.most_batch, goodput.most_local) == (32, 1024, 512)
    orders = [order for order in sent(harness) if isinstance(order, SetBatchSize)]
    assert {order.key for order in orders} == {first.key}
    assert orders[-1].batch_size > 32, "noisy gradients want larger batches"
    harness.crash(snapshot=False)
    harness.deliver()
    harness.step(60)
    harness.step(20)
    harness.step(20)
    again = [order for order in sent(harness) if isinstance(order, Start)][-1]
    gpus = len(again.grants[0].gpus)
    assert gpus > 1
    assert again.batch_size == best_size(goodput, 1, gpus)


def test_only_what_is_news_is_told_and_only_a_policy_that_tunes_is_told(
    harness: ControllerHarness, tmp_path: Path
) -> None:
    number = harness.submit(request(1))
    harness.step(20)
    for _ in range(4):
        tell(harness, number, 32)
        harness.fake_cluster.now += 11
    assert len(told(harness)) == 1
    tell(harness, number, 32, grad_var=80.0)
    harness.fake_cluster.now += 11
    tell(harness, number, 32, grad_var=80.0)
    assert [goodput.grad_var for goodput in told(harness)] == [50.0, 80.0]
    (tmp_path / "fifo").mkdir()
    fifo = ControllerHarness.at(tmp_path / "fifo", "1x4")
    number = fifo.submit(request(1))
    fifo.step(20)
    tell(fifo, number, 32)
    fifo.fake_cluster.now += 11
    tell(fifo, number, 32)
    assert not told(fifo)
    assert not [order for order in sent(fifo) if isinstance(order, SetBatchSize)]


def test_a_measure_that_makes_no_sense_is_passed_over(harness: ControllerHarness) -> None:
    number = harness.submit(request(1))
    harness.step(20)
    tell(harness, number, 32, most_local=4)
    tell(harness, number, 32, limit=16)
    assert not told(harness)
    harness.fake_cluster.now += 11
    for _ in range(3):
        tell(harness, number, 10**8, grad_sqr=1e-30, grad_var=1e30)
    assert len(told(harness)) == 1, "and what is only odd leads to some size"


def test_what_the_client_measured_comes_to_the_controller(tmp_path: Path) -> None:
    block = ControlBlock.create(tmp_path / ControlBlock.FILE_NAME, 1)
    lease = Lease(ProcessContext(tmp_path, rank=0, ranks=1, nodes=1, checkpoint=None))
    rule = Tunable(32, 256, decay=0.0)
    rule.epoch_begins(64)
    rule.observe(3.0, 32, 2.0, 64)
    rule.observe(3.0, 32, 2.0, 64)
    reader = ProgressReader(NodeTask(1, 1, 0, ("a",)), AttemptFolder(tmp_path), block)
    measured = rule.measured
    assert measured is not None
    lease.report_training(20, measured)
    for wild in ({"nonsense": 1.0}, {"first": 0}, {"step_seconds": 1e300}, {"grad_var": -1.0}):
        lease.report_training(40, {**measured, **wild} if "nonsense" not in wild else wild)
    lease.flush()
    progress = reader.changes()
    assert progress is not None
    assert progress.training == TrainingMeasure(**measured)  # type: ignore[arg-type]
    assert progress.metrics == {}


def test_nobody_waits_while_a_model_of_steps_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first fit of a server takes seconds: its machine code is made or read."""
    began, goes_on = threading.Event(), threading.Event()

    def slow(seen: Any) -> StepParameters:
        began.set()
        assert goes_on.wait(60.0)
        return StepParameters(*[0.1] * 7)

    monkeypatch.setattr(step_fits, "fitted", slow)
    results: list[StepFit] = []
    fitter = StepFitter(results.append)
    fitter.start()
    wanted = [StepFit(number, (((1.0, 1.0, 32.0), 0.1),)) for number in (1, 2)]
    for each in wanted:
        fitter.submit(each)
    assert began.wait(60.0)
    assert not results
    goes_on.set()
    until(lambda: len(results) == 2)
    assert [(fit.number, fit.seen) for fit in results] == [(fit.number, fit.seen) for fit in wanted]
    fitter.close()


def test_a_fit_that_fails_is_said_and_the_job_runs_on(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = harness.submit(request(1))
    harness.step(20)
    with monkeypatch.context() as broken:
        broken.setattr(step_fits, "fitted", lambda seen: 1 / 0)
        for _ in range(3):
            tell(harness, number, 32)
            harness.fake_cluster.now += 11
    assert not told(harness)
    (problem,) = harness.controller.health.problems
    assert problem.startswith("batch sizes are not tuned: ZeroDivisionError")
    for _ in range(3):
        tell(harness, number, 64)
        harness.fake_cluster.now += 11
    assert len(told(harness)) == 1
    assert harness.controller.health.problems == ()
