"""Live jobs that change their batch size: the scheduler is told, predicts, and plans anew."""

from itertools import pairwise
from pathlib import Path

import pytest
from fake_cluster import ControllerHarness
from test_live_batch_sizes import DOUBLING, EPOCHS, request

from volvelle.core.events import BatchSizeChanged, TrainingReported
from volvelle.core.fork import Fork
from volvelle.live.messages import AttemptProgress
from volvelle.model.job import Truth


def harness_of(folder: Path, cluster: str = "1x2", policy: str = "fifo") -> ControllerHarness:
    pytest.importorskip("highspy")
    estimator = "declared-regimes:every=1"
    return ControllerHarness.at(folder, cluster, policy, estimator=estimator)


def tell(harness: ControllerHarness, number: int, epochs: float, batch_size: int) -> None:
    """The script of a job says how far it is, and at which batch size."""
    run = harness.fake_cluster.runs[number]
    report = AttemptProgress(
        *run.start.key,
        iterations=int(run.done),
        saved_iterations=int(run.done),
        iteration_seconds=1.0,
        epochs=epochs,
        total_epochs=EPOCHS,
        batch_size=batch_size,
    )
    harness.fake_cluster.outbox.append(report)
    harness.deliver()


def believed(harness: ControllerHarness, number: int = 0) -> Truth:
    return harness.controller._cycle.state.scheduler.known[number].believed


def regimes(harness: ControllerHarness, number: int = 0) -> list[tuple[float, int]]:
    return [(one.start_work, one.batch_size) for one in believed(harness, number).regimes]


def left(harness: ControllerHarness, number: int = 0) -> float:
    """Seconds from now to when the job is forecast to be done."""
    scheduler = harness.controller._cycle.state.scheduler
    return Fork(scheduler).until().finish[number] - scheduler.now


def test_what_a_request_declares_is_predicted_restated_and_forecast(tmp_path: Path) -> None:
    harness = harness_of(tmp_path)
    harness.submit(request(100, batch_sizes=DOUBLING))
    assert regimes(harness) == [(0.0, 32), (30.0, 64)]
    assert left(harness) == pytest.approx(30.0 + 15.0)
    harness.step(2)
    tell(harness, 0, 2.0, 32)
    assert regimes(harness) == [(0.0, 32), (30.0, 64)]
    harness.step(8)
    tell(harness, 0, 10.0, 64)
    assert regimes(harness) == [(0.0, 32), (10.0, 64)]
    assert left(harness) == pytest.approx(25.0)
    harness.step(4)
    tell(harness, 0, 20.0, 64)
    assert left(harness) == pytest.approx(20.0), "by its own epochs, not by what was expected"


def test_each_change_is_one_event_and_epochs_are_told_as_often_as_asked(tmp_path: Path) -> None:
    harness = harness_of(tmp_path)
    harness.submit(request(100, batch_sizes=DOUBLING))
    for second in range(1, 7):
        harness.step(0.5)
        tell(harness, 0, 0.5 * second, 32 if second < 5 else 64)
    entries = harness.controller.store.entries()
    events = [event for stored in entries for event in stored.entry.events]
    changes = [event for event in events if isinstance(event, BatchSizeChanged)]
    assert [(event.batch_size, event.work_done) for event in changes] == [(32, 0.5), (64, 2.5)]
    reports = [event for event in events if isinstance(event, TrainingReported)]
    assert [event.work_done for event in reports] == [1.0, 2.0, 3.0]


def test_a_controller_that_crashed_believes_what_it_believed(tmp_path: Path) -> None:
    harness = harness_of(tmp_path)
    harness.submit(request(100, batch_sizes=DOUBLING))
    harness.step(10)
    tell(harness, 0, 10.0, 64)
    before = believed(harness)
    harness.crash()
    harness.deliver()
    assert believed(harness) == before
    tell(harness, 0, 10.0, 64)
    assert believed(harness) == before


def test_an_attempt_that_is_thrown_back_is_again_where_it_was(tmp_path: Path) -> None:
    harness = harness_of(tmp_path)
    harness.submit(request(100, batch_sizes=DOUBLING))
    harness.step(4)
    tell(harness, 0, 4.0, 32)
    harness.step(6)
    tell(harness, 0, 10.0, 64)
    harness.fake_cluster.saved[0] = 4.0
    run = harness.fake_cluster.runs[0]
    run.done, run.fails, run.seconds = (
        4.0,
        True,
        4.0,
    )  # it fails, and its checkpoint is of the 4th second
    harness.step(0)
    assert harness.fake_cluster.runs[0].start.attempt == 2
    harness.fake_cluster.runs[0].seconds = 100.0
    tell(harness, 0, 4.0, 32)
    assert regimes(harness)[0] == (0.0, 32)
    assert regimes(harness)[1][0] > 10.0
    harness.step(6)
    tell(harness, 0, 10.0, 64)
    assert regimes(harness) == [(0.0, 32), (10.0, 64)]


def test_shockwave_plans_anew_when_a_live_job_changes_its_batch_size(tmp_path: Path) -> None:
    harness = harness_of(tmp_path, "1x1", "shockwave:round=5")
    for _ in range(2):
        harness.submit(request(100, batch_sizes=DOUBLING))
    gaps = harness.controller._cycle.state.scheduler.composition.policy.solver_gaps
    assert gaps is not None
    solved = gaps.solved
    (running,) = harness.fake_cluster.runs
    harness.step(4)
    tell(harness, running, 4.0, 32)
    harness.step(1)
    assert gaps.solved == solved, "nothing that a plan follows from has changed"
    tell(harness, running, 5.0, 64)
    harness.step(5)
    assert gaps.solved == solved + 1


def test_jobs_that_keep_their_gpus_over_a_round_are_not_restarted(tmp_path: Path) -> None:
    """Three jobs on two GPUs take turns; who has the next round too runs on."""
    harness = harness_of(tmp_path, "1x2", "shockwave:round=5")
    for _ in range(3):
        harness.submit(request(60, batch_sizes=DOUBLING))
    for _ in range(120):
        harness.step(1)
        for number, run in list(harness.fake_cluster.runs.items()):
            if run.start.attempt == harness.fake_cluster.highest[number, run.start.identity]:
                tell(harness, number, min(run.done, EPOCHS), 32 if run.done < 20 else 64)
    history = harness.fake_cluster.history
    ends = [(time, number) for time, what, number, _ in history if what == "finished"]
    assert len(ends) == 3
    starts = [what for _, what, _, _ in history].count("start")
    assert starts > 3, "they do take turns"
    for number in range(3):
        own = [(time, what) for time, what, job, _ in history if job == number]
        for (stopped, what), (again, _) in pairwise(own):
            assert what != "stopped" or again >= stopped + 4, "it was away for a round"
