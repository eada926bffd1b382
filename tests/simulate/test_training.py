"""Jobs that train as was measured: epoch by epoch, on the placement they really have."""

import numpy as np
import pytest
from measured_training import EPOCH_ITERATIONS, EPOCHS, application, seconds, training_job
from systems_here import needs

from volvelle.core.events import JobFailed, TrainingReported
from volvelle.core.journal import replay
from volvelle.core.policy import policies
from volvelle.metrics.outcomes import JobStatus
from volvelle.model.cluster import Cluster, Node, NodeChange, NodeState, parse_cluster
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.model.problems import Problem
from volvelle.model.training import StepTimes
from volvelle.simulate.sources import Source, resubmitted
from volvelle.testing.scenario import Scenario, happen, state_of
from volvelle.workload.workload import Workload


def epoch_seconds(batch_size: int, nodes: int, gpus: int, passes: int, epoch: int) -> float:
    """Worked out by hand from the formulas of the made-up application."""
    scale, var = batch_size / 32, 2.0**epoch
    gain = (var + 1) / (var / scale + 1)
    step, sync = seconds(nodes, gpus, batch_size / gpus / passes)
    return EPOCH_ITERATIONS / gain * (step + (passes - 1) * (step - sync))


def run(*jobs: Job, cluster: str = "2x4", **more: object) -> Scenario:
    more.setdefault("placement", "consolidated")
    return Scenario.of(parse_cluster(cluster), jobs, **more)  # type: ignore[arg-type]


class TestDuration:
    def test_a_job_takes_the_sum_of_its_epochs(self) -> None:
        outcomes = happen(run(training_job(0, 0.0, 2.0))).outcomes
        expected = sum(epoch_seconds(64, 1, 2, 1, epoch) for epoch in range(EPOCHS))
        assert outcomes.finish[0] == pytest.approx(expected)

    def test_one_gpu_makes_two_passes_beyond_the_initial_batch(self) -> None:
        outcomes = happen(run(training_job(0, 0.0, 1.0), training_job(1, 0.0, 1.0, batch_size=32)))
        expected = [
            sum(epoch_seconds(batch, 1, 1, passes, epoch) for epoch in range(EPOCHS))
            for batch, passes in ((64, 2), (32, 1))
        ]
        assert outcomes.outcomes.finish.tolist() == pytest.approx(expected)

    def test_the_placement_counts(self) -> None:
        """2 GPUs on one node, and on two: where the first node has one left."""
        jobs = training_job(0, 0.0, 3.0), training_job(1, 0.0, 2.0)
        outcomes = happen(run(*jobs, placement="first-free")).outcomes
        expected = sum(epoch_seconds(64, 2, 2, 1, epoch) for epoch in range(EPOCHS))
        assert outcomes.finish[1] == pytest.approx(expected)

    def test_counted_gpus_are_packed(self) -> None:
        counted = happen(run(training_job(0, 0.0, 6.0), placement="none")).outcomes
        packed = happen(run(training_job(0, 0.0, 6.0))).outcomes
        assert counted.finish[0] == packed.finish[0]

    def test_epochs_end_on_whole_seconds_where_asked(self) -> None:
        outcomes = happen(run(training_job(0, 0.0, 2.0, whole_seconds=True))).outcomes
        each = [epoch_seconds(64, 1, 2, 1, epoch) for epoch in range(EPOCHS)]
        assert outcomes.finish[0] == pytest.approx(sum(map(round, each[:-1])) + each[-1])


class TestProgress:
    def test_every_epoch_but_the_last_is_told_in_declared_iterations(self) -> None:
        job = training_job(0, 0.0, 2.0)
        entries = happen(run(job)).journal.entries
        told = [
            event.work_done
            for entry in entries
            for event in entry.events
            if isinstance(event, TrainingReported)
        ]
        assert job.training is not None
        assert told == job.training.declared[1:-1].tolist()

    def test_a_job_that_is_stopped_goes_on_where_it_was(self) -> None:
        long, short = training_job(0, 0.0, 4.0, batch_size=32), training_job(1, 1.0, 4.0)
        scenario = run(long, short, cluster="1x4", policy="srtf", overheads=Overheads(restore=3))
        outcomes = happen(scenario).outcomes
        alone = [happen(run(job, cluster="1x4")).outcomes.run_seconds[0] for job in (long, short)]
        assert outcomes.preemptions.tolist() == [1, 0]
        assert outcomes.run_seconds.tolist() == pytest.approx([alone[0] + 3, alone[1]])

    def test_a_lost_node_throws_a_job_back_to_what_it_had_saved(self) -> None:
        away = (NodeChange(30.0, "a", NodeState.DOWN), NodeChange(40.0, "a", NodeState.UP))
        cluster = Cluster((Node("a", 2),), changes=away)
        job = training_job(0, 0.0, 2.0)
        scenario = Scenario.of(
            cluster,
            [job],
            placement="consolidated",
            overheads=Overheads(checkpoint_every=20.0),
        )
        done = happen(scenario)
        alone = happen(run(job)).outcomes.finish[0]
        failed = [
            event
            for entry in done.journal.entries
            for event in entry.events
            if isinstance(event, JobFailed)
        ]
        assert [event.lost_gpu_seconds for event in failed] == [20.0]
        assert done.outcomes.finish[0] == pytest.approx(alone + 20.0)
        assert job.training is not None
        assert 0 < failed[0].work_done < job.training.declared[-1]

    @needs("optimus")
    def test_the_journal_replays_without_the_tables(self) -> None:
        jobs = [training_job(n, 10.0 * n, 2.0, most=4.0) for n in range(4)]
        done = happen(run(*jobs, policy="optimus:round=20"))
        header = done.journal.header
        assert state_of(replay(header, done.journal.entries)) == state_of(done.scheduler)
        assert b"made-up" not in done.journal_bytes


@pytest.mark.parametrize("policy", policies.all())
def test_every_policy_serves_jobs_that_train_as_measured(policy: str) -> None:
    jobs = [training_job(n, 9.0 * n, 1.0 + n % 3, most=4.0 if n % 2 else None) for n in range(5)]
    done = happen(run(*jobs, policy=policy, overheads=Overheads(restore=1)))
    assert set(done.outcomes.status) == {JobStatus.FINISHED}


class TestStepTimes:
    def test_a_measured_placement_is_found_from_any_node_on(self) -> None:
        steps = application().steps
        assert steps.at((2, 1), 16) == steps.at((1, 2), 16) == seconds(2, 3, 16)
        assert steps.at((4, 4), 24.0) == pytest.approx(seconds(2, 8, 24.0))

    def test_others_lie_between_what_was_measured(self) -> None:
        pytest.importorskip("scipy")
        assert application().steps.at((4, 4, 4, 4), 20.0) == pytest.approx(seconds(4, 16, 20.0))

    def test_outside_the_nearest_is_taken(self) -> None:
        pytest.importorskip("scipy")
        steps = application().steps
        assert steps.at((4,) * 20, 32) == pytest.approx(seconds(8, 32, 32))

    def test_without_scipy_the_mend_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "scipy.interpolate", None)
        steps = StepTimes({"1": [(8, 0.1, 0.0)]}, [(6, 6, 8, 0.2, 0.1)])
        with pytest.raises(Problem, match=r"-e '.\[goodput\]'"):
            steps.at((4, 4, 4, 4, 4), 8)

    def test_equal_tables_make_equal_jobs(self) -> None:
        assert training_job(0, 0.0) == training_job(0, 0.0)
        assert training_job(0, 0.0) != training_job(0, 0.0, tunable=False)
        assert not np.shares_memory(application().progress, application().progress)


def test_jobs_submitted_anew_train_as_before() -> None:
    jobs = [training_job(number, 0.0, 2.0) for number in range(3)]
    moved = resubmitted(Source(Workload(jobs), {}), jobs_per_hour=10.0, seed=1).workload.jobs
    assert [job.training for job in moved] == [job.training for job in jobs]
    assert all(job.training is not None for job in moved)
    assert [job.spec.submit_time for job in moved] != [0.0] * 3
