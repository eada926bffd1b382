"""The scheduler by itself: events in, decisions out, without a world."""

import msgspec
import pytest

from volvelle.core.composition import WrittenComposition
from volvelle.core.events import (
    JobCancelled,
    JobChanged,
    JobFailed,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStopped,
    JobSubmitted,
    NodeChanged,
    ProgressReported,
)
from volvelle.core.fork import Fork
from volvelle.core.scheduler import Scheduler
from volvelle.core.snapshot import Snapshot
from volvelle.model.cluster import Cluster, Node, NodeState, Pool, parse_cluster
from volvelle.model.job import Dependency, Job
from volvelle.model.throughput import LINEAR, PerType
from volvelle.testing.scenario import Scenario, linear_job, state_of


def scheduler_of(
    cluster: Cluster | str, policy: str = "fifo", placement: str = "none"
) -> Scheduler:
    made = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    return Scenario.of(made, [], policy=policy, placement=placement).scheduler()


def column(scheduler: Scheduler, number: int, name: str) -> float:
    jobs = scheduler.view().jobs
    return float(jobs.column(name)[jobs.row_of[number]])


def submit(job: Job, number: int, time: float = 0.0) -> JobSubmitted:
    return JobSubmitted(time, number, job.spec, job.truth)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (linear_job(0, 0.0, 5.0, 1.0), "wants 5 GPUs, the cluster has 4"),
        (
            linear_job(0, 0.0, 1.0, 1.0, gpu_types=("h100",)),
            "wants GPUs of type h100, the cluster has a, b",
        ),
        (
            linear_job(0, 0.0, 1.0, 1.0, gpu_types=("A",)),
            "wants GPUs of type A, the cluster has a, b: only upper and lower case differ",
        ),
        (
            linear_job(0, 0.0, 3.0, 1.0, gpu_types=("a",)),
            "wants 3 GPUs, the cluster has 2",
        ),
        (linear_job(0, 0.0, 2.0, 1.0, pool="red"), "wants 2 GPUs, its pool 'red' has 1"),
        (
            linear_job(0, 0.0, 2.0, 1.0, constraints=("nvlink",)),
            "wants nodes with nvlink, the cluster's have no labels",
        ),
    ],
    ids=[
        "too wide",
        "no such type",
        "type in other case",
        "too wide for its type",
        "over its quota",
        "no such label",
    ],
)
def test_what_can_never_run_is_rejected_with_its_reason(job: Job, reason: str) -> None:
    cluster = Cluster((Node("x", 2, "a"), Node("y", 4, "b")), (Pool("red", 1.0),))
    decision = scheduler_of(cluster).handle(0.0, [submit(job, 0)])
    assert [(r.number, r.reason) for r in decision.rejected] == [(0, reason)]
    assert not len(decision.job)


@pytest.mark.parametrize("policy", ["fifo:elastic=false", "easy"])
def test_a_policy_that_does_not_resize_rejects_what_is_too_wide_as_requested(policy: str) -> None:
    job = linear_job(0, 0.0, 8.0, 10.0, min_gpus=1.0, max_gpus=8.0)
    decision = scheduler_of("1x4", policy).handle(0.0, [submit(job, 0)])
    assert decision.rejected[0].reason == "wants 8 GPUs, the cluster has 4"


def test_a_job_that_runs_only_where_it_does_not_fit_is_rejected() -> None:
    cluster = Cluster((Node("x", 8, "a"), Node("y", 2, "b")))
    wide = linear_job(0, 0.0, 4.0, 10.0)
    truth = msgspec.structs.replace(wide.truth, throughput=PerType({"b": LINEAR}))
    decision = scheduler_of(cluster).handle(0.0, [submit(Job(wide.spec, truth), 0)])
    assert decision.rejected[0].reason == "makes no progress on a or b GPUs"


@pytest.mark.parametrize(
    ("job", "placement", "reason"),
    [
        (linear_job(0, 0.0, 0.5, 1.0), "buddy", "this policy and placement give whole ones"),
        (
            linear_job(0, 0.0, 1.5, 1.0),
            "first-free",
            "by name a job has whole ones or a part of one",
        ),
        (
            linear_job(0, 0.0, 0.5, 1.0, max_gpus=2.0),
            "first-free",
            "by name a job has whole ones or a part of one",
        ),
    ],
)
def test_fractions_that_no_gpu_by_name_could_give_are_rejected(
    job: Job, placement: str, reason: str
) -> None:
    scheduler = scheduler_of("1x2", placement=placement)
    decision = scheduler.handle(0.0, [submit(job, 0)])
    assert decision.rejected[0].reason == f"wants {job.spec.gpus:g} GPUs, {reason}"


def test_fractions_of_gpus_share_one_where_they_are_counted() -> None:
    scheduler = scheduler_of("1x1")
    halves = [submit(linear_job(n, 0.0, 0.5, 1.0), n) for n in range(3)]
    assert scheduler.handle(0.0, halves).job.tolist() == [0, 1]


def test_a_cancelled_job_gives_its_gpus_to_the_next() -> None:
    scheduler = scheduler_of("1x1")
    jobs = [submit(linear_job(n, 0.0, 1.0, 9.0), n) for n in range(3)]
    assert scheduler.handle(0.0, jobs).job.tolist() == [0]
    assert not len(scheduler.handle(1.0, [JobCancelled(1.0, 1)]).job)
    assert scheduler.handle(2.0, [JobCancelled(2.0, 0)]).job.tolist() == [2]
    assert sorted(scheduler.known) == [2]


def test_news_of_an_earlier_attempt_changes_nothing() -> None:
    scheduler = scheduler_of("1x1", policy="srtf")
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 100.0), 0)])
    scheduler.handle(10.0, [submit(linear_job(1, 10.0, 1.0, 5.0), 1, 10.0)])
    scheduler.handle(15.0, [JobFinished(15.0, 1, 1)])
    assert column(scheduler, 0, "attempt") == 2
    for late in (JobFinished(15.0, 0, 1), JobFailed(15.0, 0, 1, 0.0, 0.0, "late")):
        before = state_of(scheduler)
        assert not len(scheduler.handle(15.0, [late]).job)
        assert state_of(scheduler) == before


def test_a_stop_tells_how_much_work_is_safe() -> None:
    scheduler = scheduler_of("1x1", policy="srtf")
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 100.0), 0)])
    scheduler.handle(10.0, [submit(linear_job(1, 10.0, 1.0, 5.0), 1, 10.0)])
    scheduler.handle(12.0, [JobStopped(12.0, 0, 1, 8.5)])
    assert column(scheduler, 0, "done") == 8.5


def test_a_held_job_stops_and_goes_on_with_all_it_had_attained_once_released() -> None:
    scheduler = scheduler_of("1x1", placement="first-free")
    scheduler.handle(0.0, [submit(linear_job(n, 0.0, 1.0, 100.0), n) for n in range(3)])
    held = scheduler.handle(10.0, [JobHeld(10.0, 0), JobHeld(10.0, 1)])
    assert held.job.tolist() == [0, 2]
    assert held.gpus.tolist() == [0.0, 1.0]
    assert [held.slots_of(row).tolist() for row in range(2)] == [[], [0]]
    assert sorted(scheduler.known) == [2]
    scheduler.handle(11.0, [JobStopped(11.0, 0, 1, 9.5)])
    assert not len(scheduler.handle(12.0, [JobReleased(12.0, 0)]).job)
    assert scheduler.handle(20.0, [JobFinished(20.0, 2, 1)]).job.tolist() == [0]
    assert column(scheduler, 0, "done") == 9.5
    assert column(scheduler, 0, "attained") == 10.0
    assert column(scheduler, 0, "attempt") == 2
    assert scheduler.handle(30.0, [JobCancelled(30.0, 1)]).job.tolist() == []
    assert not len(scheduler.handle(31.0, [JobReleased(31.0, 1)]).job)


def test_a_requeued_job_stops_at_a_checkpoint_and_waits_behind_those_before_it() -> None:
    scheduler = scheduler_of("1x1", policy="fifo", placement="first-free")
    scheduler.handle(0.0, [submit(linear_job(n, 0.0, 1.0, 100.0), n) for n in range(2)])
    scheduler.handle(5.0, [JobHeld(5.0, 0)])
    scheduler.handle(6.0, [JobStopped(6.0, 0, 1, 5.0), JobReleased(6.0, 0)])
    requeued = scheduler.handle(10.0, [JobRequeued(10.0, 1)])
    assert requeued.job.tolist() == [0]
    assert requeued.gpus.tolist() == [1.0]
    scheduler.handle(11.0, [JobStopped(11.0, 1, 1, 4.0)])
    assert column(scheduler, 1, "done") == 4.0
    assert column(scheduler, 1, "failures") == 0.0
    assert scheduler.handle(20.0, [JobFinished(20.0, 0, 2)]).job.tolist() == [1]


def test_a_job_that_is_alone_starts_again_at_once_when_it_is_requeued() -> None:
    scheduler = scheduler_of("1x1", placement="first-free")
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 100.0), 0)])
    again = scheduler.handle(10.0, [JobRequeued(10.0, 0)])
    assert (again.job.tolist(), again.gpus.tolist(), again.attempt.tolist()) == ([0], [1.0], [2])


@pytest.mark.parametrize("where", ["waiting", "held", "queue", "held in the queue", "aside"])
def test_another_declaration_holds_of_a_job_wherever_it_waits(where: str) -> None:
    admission = "backlog:factor=1" if "queue" in where else "accept-all"
    scenario = Scenario.of(parse_cluster("1x1"), [], policy="sjf", estimator="declared")
    scheduler = scenario.under(admission=admission).scheduler()
    specs = [linear_job(n, 0.0, 1.0, 1.0).spec for n in range(3)]
    specs = [msgspec.structs.replace(spec, estimate_seconds=50.0) for spec in specs]
    if where == "aside":
        specs[2] = msgspec.structs.replace(specs[2], after=(Dependency("job-0"),))
    scheduler.handle(0.0, [JobSubmitted(0.0, n, spec) for n, spec in enumerate(specs)])
    if "held" in where:
        scheduler.handle(1.0, [JobHeld(1.0, 2)])
    changes = {"estimate_seconds": 5.0, "priority": 7, "time_limit_seconds": 90.0}
    scheduler.handle(2.0, [JobChanged(2.0, 2, changes), JobChanged(2.0, 0, {"priority": 9})])
    scheduler.handle(3.0, [JobReleased(3.0, 2)])
    ends = [JobCancelled(9.0, 1)] if "queue" in where else []
    assert scheduler.handle(9.0, [JobFinished(9.0, 0, 1), *ends]).job.tolist() == [2]
    columns = [column(scheduler, 2, name) for name in ("total", "priority", "time_limit")]
    assert columns == [5.0, 7.0, 90.0]


@pytest.mark.parametrize("held", [False, True], ids=["preempted", "held"])
def test_a_job_that_was_done_before_it_stopped_is_done(held: bool) -> None:
    scheduler = scheduler_of("1x1", "sjf:preemptive=true", "first-free")
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 100.0), 0)])
    shorter = submit(linear_job(1, 10.0, 1.0, 5.0), 1)
    scheduler.handle(10.0, [JobHeld(10.0, 0) if held else shorter])
    scheduler.handle(10.5, [JobFinished(10.5, 0, 2)])  # of a run that never was
    assert 0 in scheduler.admissions.held if held else 0 in scheduler.known
    scheduler.handle(11.0, [JobFinished(11.0, 0, 1)])
    assert 0 not in scheduler.known
    assert 0 not in scheduler.admissions.held


def test_a_job_held_in_the_admission_queue_goes_to_its_end_when_released() -> None:
    composition = WrittenComposition(admission="backlog:factor=1").build()
    scheduler = Scheduler(parse_cluster("1x1"), composition)
    scheduler.handle(0.0, [submit(linear_job(n, 0.0, 1.0, 100.0), n) for n in range(3)])
    scheduler.handle(1.0, [JobHeld(1.0, 1)])
    assert [job.number for job in scheduler.admissions.waiting] == [2]
    scheduler.handle(2.0, [JobReleased(2.0, 1)])
    assert [job.number for job in scheduler.admissions.waiting] == [2, 1]


def test_a_live_job_is_believed_to_last_as_its_own_iterations_say() -> None:
    scenario = Scenario.of(parse_cluster("1x2"), [], estimator="measured")
    scheduler = scenario.scheduler()
    job = msgspec.structs.replace(linear_job(0, 0.0, 2.0, 1.0).spec, estimate_seconds=1000.0)
    scheduler.handle(0.0, [JobSubmitted(0.0, 0, job)])
    assert Fork(scheduler).until().finish[0] == 1000.0
    scheduler.handle(100.0, [ProgressReported(100.0, 0, 1, 50, 250, 2.0)])
    assert Fork(scheduler).until().finish[0] == pytest.approx(500.0)
    scheduler.handle(200.0, [ProgressReported(200.0, 0, 1, 101, 250, 2.0)])  # no news
    assert Fork(scheduler).until().finish[0] == pytest.approx(500.0)
    scheduler.handle(300.0, [ProgressReported(300.0, 0, 2, 101, 250, 99.0)])  # of no run of it
    assert Fork(scheduler).until().finish[0] == pytest.approx(500.0)


def test_what_is_learnt_from_a_finished_job_can_be_written_down() -> None:
    scenario = Scenario.of(parse_cluster("1x1"), [], estimator="history")
    scheduler = scenario.scheduler()
    scheduler.handle(0.0, [submit(linear_job(0, 0.0, 1.0, 9.0), 0)])
    scheduler.handle(7.0, [JobFinished(7.0, 0, 1), submit(linear_job(1, 7.0, 1.0, 9.0), 1, 7.0)])
    snapshot = Snapshot.of(scheduler, "0")
    assert [type(job.believed.work) for _, job in snapshot.known] == [float]
    assert snapshot.known[0][1].believed.work == 7.0
    assert b'"work":7.0' in snapshot.encode()


def test_a_node_that_nobody_knew_joins_with_its_description() -> None:
    scheduler = scheduler_of("1x1", placement="first-free")
    waiting = [submit(linear_job(n, 0.0, 1.0, 9.0), n) for n in range(2)]
    assert scheduler.handle(0.0, waiting).job.tolist() == [0]
    joined = NodeChanged(5.0, "new", NodeState.UP, Node("new", 2))
    decision = scheduler.handle(5.0, [joined])
    assert decision.job.tolist() == [1]
    assert decision.slots.tolist() == [1]


def test_a_fork_goes_its_own_way() -> None:
    parent = scheduler_of("2x2", policy="las:round=30", placement="consolidated")
    parent.handle(0.0, [submit(linear_job(n, 0.0, 2.0, 100.0), n) for n in range(3)])
    before = state_of(parent)
    fork = parent.fork()
    fork.handle(30.0, [submit(linear_job(9, 30.0, 1.0, 9.0), 9, 30.0)])
    fork.handle(60.0, [JobFailed(60.0, 0, 1, 5.0, 0.0, "it broke")])
    fork.handle(90.0, [NodeChanged(90.0, "node-1", NodeState.DRAINING)])
    assert state_of(parent) == before
    assert state_of(fork) != before
